/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_ON_CHILD_H
#define WEIR_TESTS_ON_CHILD_H

/* Cases that must have a process of their own, since what they do cannot be taken back. */

#include "support/unit.h"

#include <sys/wait.h>
#include <unistd.h>

#define NO_SUCH 78 /* a child's status: not on this kernel */

/* What a child found wrong comes back as the number of a line; 0: nothing. */
#define WRONG_UNLESS(x)                  \
	do {                             \
		if (!(x))                \
			return __LINE__; \
	} while (0)

static void in_child(int (*what)(void))
{
	int fds[2], line = -1, status;
	assert_int_equal(pipe(fds), 0);
	pid_t pid = fork();
	if (pid == 0) {
		line = what();
		_exit(write(fds[1], &line, sizeof(line)) == sizeof(line) ? 0 : 1);
	}
	close(fds[1]);
	ssize_t got = read(fds[0], &line, sizeof(line));
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (got != sizeof(line))
		fail_msg("the child ended with status %x", status);
	if (line == NO_SUCH)
		skip();
	if (line != 0)
		fail_msg("%s:%d: not so in the child", __FILE__, line);
}

#endif
