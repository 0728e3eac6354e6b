/* SPDX-License-Identifier: Apache-2.0 */
#include "load/make_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define CHUNK 65536

static int wrong(const char *path, int error)
{
	return weir_error_set(-error, "%s: %s", path, strerror(error));
}

static int fill(int fd, uint64_t size)
{
	static const char line[] = "Water finds its level, and what is too much goes over the top.\n";
	char chunk[CHUNK];
	for (size_t i = 0; i < sizeof chunk; i++)
		chunk[i] = line[i % (sizeof line - 1)];
	while (size > 0) {
		ssize_t written = write(fd, chunk, size < sizeof chunk ? (size_t)size : sizeof chunk);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return errno;
		size -= (uint64_t)written;
	}
	return 0;
}

int load_make_file(const char *path, uint64_t size)
{
	struct stat there;
	if (stat(path, &there) == 0 && S_ISREG(there.st_mode) && (uint64_t)there.st_size == size)
		return 0;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return wrong(path, errno);
	int error = fill(fd, size);
	if (close(fd) < 0 && error == 0)
		error = errno;
	return error == 0 ? 0 : wrong(path, error);
}

int load_make_folder(const char *path)
{
	return mkdir(path, 0755) == 0 || errno == EEXIST ? 0 : wrong(path, errno);
}
