/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <weir/base.h>

#include "base/mem.h"
#include "net/pipes.h"

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void an_empty_pipe_is_used_again(void **state)
{
	weir_pipes pipes = {0};
	weir_pipe *pipe = weir_pipes_take(&pipes, 1);
	assert_non_null(pipe);
	assert_true(fcntl(pipe->in, F_GETPIPE_SZ) >= (int)WEIR_PIPES_LEAST);
	assert_true(fcntl(pipe->in, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(pipe->out, F_GETFD) & FD_CLOEXEC);
	weir_pipes_give(&pipes, pipe, true);
	assert_ptr_equal(weir_pipes_take(&pipes, 1), pipe);
	weir_pipes_give(&pipes, pipe, true);
	assert_int_equal(pipes.made, 1);
	weir_pipes_fini(&pipes);
	assert_int_equal(pipes.made, 0);
}

static void a_pipe_with_bytes_is_closed(void **state)
{
	weir_pipes pipes = {0};
	weir_pipe *pipe = weir_pipes_take(&pipes, 1);
	int in = pipe->in, out = pipe->out;
	assert_int_equal(write(in, "x", 1), 1);
	weir_pipes_give(&pipes, pipe, false);
	assert_false(is_open(in) || is_open(out));
	assert_int_equal(pipes.made, 0);
	weir_pipes_fini(&pipes);
}

static void bounds_hold(void **state)
{
	weir_pipes some[3] = {0};
	struct rlimit limit;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur < WEIR_PIPES_ALL * WEIR_PIPES_SHARE)
		skip();
	weir_pipe *taken[3][WEIR_PIPES_MOST];
	for (int i = 0; i < 2; i++) {
		for (unsigned k = 0; k < WEIR_PIPES_MOST; k++)
			assert_non_null(taken[i][k] = weir_pipes_take(&some[i], 1));
		assert_null(weir_pipes_take(&some[i], 1));
	}
	/* The process has all it may have; and a loop does not ask again at once. */
	assert_int_equal(2 * WEIR_PIPES_MOST, WEIR_PIPES_ALL);
	assert_null(weir_pipes_take(&some[2], 1));
	for (int i = 0; i < 2; i++)
		for (unsigned k = 0; k < WEIR_PIPES_MOST; k++)
			weir_pipes_give(&some[i], taken[i][k], true);
	assert_int_equal(some[0].made, 1); /* the other had half of them */
	assert_int_equal(some[1].made, WEIR_PIPES_KEPT);
	assert_null(weir_pipes_take(&some[2], 2));
	taken[2][0] = weir_pipes_take(&some[2], 2 * WEIR_NS_PER_S);
	assert_non_null(taken[2][0]);
	weir_pipes_give(&some[2], taken[2][0], true);
	for (int i = 0; i < 3; i++)
		weir_pipes_fini(&some[i]);
}

/* Without descriptors, and without memory, there is none: and nothing leaks. */
static void what_is_missing_is_missed(void **state)
{
	weir_pipes pipes = {0};
	struct rlimit before, none;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	weir_pipe *pipe = weir_pipes_take(&pipes, 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_null(pipe);
	assert_int_equal(pipes.made, 0);
	assert_null(weir_pipes_take(&pipes, WEIR_NS_PER_S));
	weir_mem_fail_after(1);
	pipe = weir_pipes_take(&pipes, 2 * WEIR_NS_PER_S);
	weir_mem_fail_after(0);
	assert_null(pipe);
	pipe = weir_pipes_take(&pipes, 4 * WEIR_NS_PER_S);
	assert_non_null(pipe);
	weir_pipes_give(&pipes, pipe, true);
	weir_pipes_fini(&pipes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_pipe_is_used_again),
		cmocka_unit_test(a_pipe_with_bytes_is_closed),
		cmocka_unit_test(bounds_hold),
		cmocka_unit_test(what_is_missing_is_missed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
