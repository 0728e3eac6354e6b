/* SPDX-License-Identifier: Apache-2.0 */
#include "file/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

uint64_t weir_beneath_resolve(void)
{
	return RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
}

static int open_natively(int dir_fd, const char *path, int flags)
{
	struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC), .resolve = weir_beneath_resolve()};
	long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

bool weir_beneath_native(void)
{
	static _Atomic int known; /* 0: unknown; 1: available; -1: not available */
	int state = atomic_load_explicit(&known, memory_order_relaxed);
	if (state == 0) {
		int fd = open_natively(AT_FDCWD, ".", O_PATH | O_DIRECTORY);
		/*
		 * A seccomp filter may return EPERM. Any other error is about this folder, so openat2
		 * itself works.
		 */
		state = fd == -ENOSYS || fd == -EPERM || fd == -EINVAL ? -1 : 1;
		if (fd >= 0)
			close(fd);
		atomic_store_explicit(&known, state, memory_order_relaxed);
	}
	return state > 0;
}

static bool leads_up(const char *name)
{
	return strcmp(name, "..") == 0;
}

static int open_step(int from, const char *name, int flags)
{
	if (leads_up(name))
		return -EXDEV;
	if (*name == '\0')
		name = ".";
	int fd = openat(from, name, flags | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int weir_beneath_walk(int dir_fd, const char *path, int flags)
{
	char copy[WEIR_BENEATH_PATH_MAX], *rest = copy;
	size_t length = strnlen(path, sizeof(copy));
	if (length == sizeof(copy))
		return -ENAMETOOLONG;
	if (length == 0)
		return -ENOENT;
	if (path[0] == '/')
		return -EXDEV;
	memcpy(copy, path, length + 1);
	int at = dir_fd;
	bool last = false;
	while (!last) {
		char *slash = strchrnul(rest, '/');
		last = *slash == '\0';
		*slash = '\0';
		int next = open_step(at, rest, last ? flags : O_PATH | O_DIRECTORY);
		if (at != dir_fd)
			close(at);
		if (next < 0)
			return next;
		at = next;
		rest = slash + 1;
	}
	return at;
}

int weir_beneath_open(int dir_fd, const char *path, int flags)
{
	return weir_beneath_native() ? open_natively(dir_fd, path, flags)
				     : weir_beneath_walk(dir_fd, path, flags);
}
