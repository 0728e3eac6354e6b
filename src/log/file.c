/* SPDX-License-Identifier: Apache-2.0 */
/* Where a log's lines go: a path, a descriptor of the process, or nowhere. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "log/log.h"

static int open_path(const char *path)
{
	/* Non-blocking: a named pipe without a reader is then an error instead of a hang. */
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0640);
	if (fd < 0)
		return -errno;
	return fd;
}

static bool is_regular(int fd)
{
	struct stat status;
	return fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

static int fill(weir_log_file *file, const char *path, int fd)
{
	file->fd = -1;
	if (path != NULL && strcmp(path, "-") == 0) {
		file->fd = fd;
	} else if (path != NULL) {
		file->path = weir_mem_strdup(path);
		file->fd = file->path != NULL ? open_path(path) : -ENOMEM;
	}
	file->regular = is_regular(file->fd);
	return path == NULL || file->fd >= 0 ? 0 : file->fd;
}

int weir_log_file_open(const char *path, int fd, weir_log_file **ret_file)
{
	weir_log_file *file = weir_mem_zalloc(sizeof(*file));
	int failed = file != NULL ? fill(file, path, fd) : -ENOMEM;
	if (failed != 0) {
		weir_log_file_close(&file);
		return weir_error_set(failed, "log %s: %s", path != NULL ? path : "off", strerror(-failed));
	}
	*ret_file = file;
	return 0;
}

int weir_log_file_reopen(weir_log_file *file)
{
	if (file->path == NULL)
		return -ENOENT;
	int fd = open_path(file->path);
	if (fd < 0)
		return fd;
	close(file->fd);
	file->fd = fd;
	file->regular = is_regular(fd);
	return 0;
}

void weir_log_file_close(weir_log_file **at)
{
	weir_log_file *file = *at;
	*at = NULL;
	if (file == NULL)
		return;
	if (file->path != NULL && file->fd >= 0)
		close(file->fd);
	weir_mem_free(file->path);
	weir_mem_free(file);
}
