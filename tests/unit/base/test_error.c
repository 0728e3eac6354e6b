/* SPDX-License-Identifier: Apache-2.0 */
/* Errors, the version, and what a failed assertion does. */
#include "support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"

static void test_keeps_the_last(void **state)
{
	assert_string_equal(weir_error(), "");
	assert_int_equal(weir_error_set(-EINVAL, "stage %s: %d is too many", "parse", 7), -EINVAL);
	assert_string_equal(weir_error(), "stage parse: 7 is too many");
	weir_error_set(-EIO, "short");
	assert_string_equal(weir_error(), "short");
}

static void test_may_quote_itself(void **state)
{
	weir_error_set(-EIO, "no such file");
	weir_error_set(-EIO, "config: %s", weir_error());
	assert_string_equal(weir_error(), "config: no such file");
}

static void test_long_is_cut(void **state)
{
	char text[5000];
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	weir_error_set(-EIO, "%s", text);
	size_t length = strlen(weir_error());
	assert_true(length > 200 && length < sizeof(text) - 1);
	assert_memory_equal(weir_error(), text, length);
}

static void *other_thread(void *arg)
{
	*(bool *)arg = strcmp(weir_error(), "") == 0;
	weir_error_set(-EIO, "theirs");
	return NULL;
}

static void test_each_thread_has_its_own(void **state)
{
	pthread_t thread;
	bool empty = false;
	weir_error_set(-EIO, "ours");
	assert_int_equal(pthread_create(&thread, NULL, other_thread, &empty), 0);
	pthread_join(thread, NULL);
	assert_true(empty);
	assert_string_equal(weir_error(), "ours");
}

static void test_version(void **state)
{
	char text[32];
	snprintf(text, sizeof(text), "%d.%d.%d", WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH);
	assert_string_equal(weir_version(), text);
}

static void fail_an_assertion(int to)
{
	dup2(to, STDERR_FILENO);
	signal(SIGABRT, SIG_DFL);
	WEIR_ASSERT(1 + 1 == 2);
	WEIR_ASSERT(1 + 1 == 3);
	_exit(0);
}

static void test_assertion_says_and_aborts(void **state)
{
	int ends[2], status;
	char text[200] = "";
	assert_int_equal(pipe(ends), 0);
	pid_t child = fork();
	if (child == 0)
		fail_an_assertion(ends[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "1 + 1 == 3"));
	assert_non_null(strstr(text, "test_error.c"));
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keeps_the_last), cmocka_unit_test(test_may_quote_itself),
		cmocka_unit_test(test_long_is_cut),    cmocka_unit_test(test_each_thread_has_its_own),
		cmocka_unit_test(test_version),        cmocka_unit_test(test_assertion_says_and_aborts),
	};
	return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
