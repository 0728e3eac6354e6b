/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_FILE_BENEATH_H
#define WEIR_FILE_BENEATH_H

/*
 * Opens a path that must stay below a folder, whatever the path and the symbolic links on its way say:
 * openat2 with RESOLVE_BENEATH. A link that leads out, an absolute link and ".." above the folder give
 * -EXDEV; links within are followed.
 *
 * Where openat2 is missing (before Linux 5.6, or filtered out) the path is walked step by step, and
 * neither links (-ELOOP, or -ENOTDIR on the way) nor ".." are followed at all: this allows less than
 * openat2, and never more.
 *
 * Threads: any. Blocks like an open.
 */

#include <stdbool.h>
#include <stdint.h>

#define WEIR_BENEATH_PATH_MAX 4096

/* Whether the kernel has openat2; determined once. */
bool weir_beneath_native(void);
/* The resolve flags for openat2. */
uint64_t weir_beneath_resolve(void);
/*
 * Returns a descriptor or a negative errno; flags as for open, without O_CREAT. -EAGAIN: something was
 * renamed meanwhile, try again.
 */
int weir_beneath_open(int dir_fd, const char *path, int flags);
/* The same without openat2. */
int weir_beneath_walk(int dir_fd, const char *path, int flags);

#endif
