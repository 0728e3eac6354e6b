/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_TASK_H
#define WEIR_BENCH_TASK_H

/*
 * The task of SEDA's Figures 2 and 4: read 8 KB of a file that is in the page cache; all tasks read the same file.
 */

#include <fcntl.h>

#include "common.h"

#define TASK_BYTES 8192

/* An open file of 8 KB that has no name and is gone with the process. */
static inline int task_file(void)
{
	static char filler[TASK_BYTES];
	char path[] = "/tmp/weir-bench-XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);

	BENCH_REQUIRE(fd >= 0 && unlink(path) == 0);
	BENCH_REQUIRE(write(fd, filler, sizeof(filler)) == TASK_BYTES);
	return fd;
}

static inline void task_run(int fd, void *buffer)
{
	BENCH_REQUIRE(pread(fd, buffer, TASK_BYTES, 0) == TASK_BYTES);
}

#endif
