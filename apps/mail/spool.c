/* SPDX-License-Identifier: Apache-2.0 */
#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <weir/base.h>

int spool_open(const char *folder)
{
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return weir_error_set(-errno, "%s: %s", folder, strerror(errno));
	return fd;
}

int spool_write(int fd, const void *bytes, size_t length)
{
	const char *at = bytes;
	while (length > 0) {
		ssize_t done = write(fd, at, length);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return weir_error_set(-errno, "a message cannot be put aside: %s", strerror(errno));
		at += done;
		length -= (size_t)done;
	}
	return 0;
}
