/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_FILE_BENEATH_H
#define WEIR_FILE_BENEATH_H

/*
 * Opening a name below a folder and nowhere else, whatever the name and the symbolic links on its way say: openat2 with RESOLVE_BENEATH. A link that
 * leads out, an absolute link and ".." above the folder are -EXDEV; links within are followed.
 *
 * Where openat2 is missing (before Linux 5.6, or filtered away) the name is walked step by step and no link is followed at all (-ELOOP, or -ENOTDIR on the way), nor any "..":
 * less than with it, and never more.
 *
 * Threads: any. Blocks as an open does.
 */

#include <stdbool.h>
#include <stdint.h>

#define WEIR_BENEATH_PATH_MAX 4096

/* Whether the kernel has openat2; looked for once. */
bool weir_beneath_native(void);
/* What openat2 is told to keep to. */
uint64_t weir_beneath_resolve(void);
/* A descriptor or a negative errno; flags as of open, without O_CREAT. -EAGAIN: something was renamed meanwhile, try again. */
int weir_beneath_open(int dir_fd, const char *path, int flags);
/* The same without openat2. */
int weir_beneath_walk(int dir_fd, const char *path, int flags);

#endif
