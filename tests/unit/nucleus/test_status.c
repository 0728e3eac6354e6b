/* SPDX-License-Identifier: Apache-2.0 */
/* Status pages, as the servers write them. */
#include "support/unit.h"

#include <string.h>

#include "nucleus/status.h"

static bool read_page(const char *text, weir_status *ret_status)
{
	return weir_status_read(text, strlen(text), ret_status);
}

static void reads_apache(void **state)
{
	weir_status status;
	assert_true(
		read_page("127.0.0.1\nServerVersion: Apache/2.4.57\nTotal Accesses: 1234\nTotal kBytes: 5\n"
			  "BusyWorkers: 8\nIdleWorkers: 42\nScoreboard: W__W....\n",
			  &status));
	assert_string_equal(status.kind, "apache");
	assert_true(status.busy == 7 && status.requests == 1234 && status.waiting == -1);
}

static void reads_nginx(void **state)
{
	weir_status status;
	assert_true(read_page("Active connections: 291 \nserver accepts handled requests\n"
			      " 16630948 16630948 31070465 \nReading: 6 Writing: 179 Waiting: 106 \n",
			      &status));
	assert_string_equal(status.kind, "nginx");
	assert_true(status.busy == 184 && status.requests == 31070465);
}

static void reads_fpm(void **state)
{
	weir_status status;
	assert_true(read_page(
		"pool:                 www\nprocess manager:      dynamic\naccepted conn:        62\n"
		"listen queue:         3\nmax listen queue:     9\nidle processes:       1\n"
		"active processes:     2\n",
		&status));
	assert_string_equal(status.kind, "php-fpm");
	assert_true(status.busy == 1 && status.requests == 62 && status.waiting == 3);
	assert_true(
		read_page("{\"pool\":\"www\",\"accepted conn\":62,\"listen queue\":0,\"active processes\":1}",
			  &status));
	assert_true(status.busy == 0 && status.requests == 62 && status.waiting == 0);
}

static void refuses_the_rest(void **state)
{
	static const char *const bad[] = {
		"",
		"<html>404</html>",
		"BusyWorkers: -4\n",
		"BusyWorkers: nan\n",
		"BusyWorkers: 1e99\n",
		"{",
		"{}",
		"{\"accepted conn\": \"x\", \"active processes\": 1}",
		"{\"accepted conn\": -1, \"active processes\": 1}",
		"server accepts handled requests\n 1 2\n",
		"server accepts handled requests\n 1 2 -3 \nReading: 0 Writing: 1\n"};
	weir_status status = {.busy = 7};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (read_page(bad[i], &status))
			fail_msg("'%s' is read", bad[i]);
		assert_true(status.busy == 7);
	}
	assert_false(weir_status_read("BusyWorkers: 1\n\0", 16, &status));
	static char large[WEIR_STATUS_BYTES + 1];
	memset(large, ' ', sizeof(large));
	memcpy(large, "BusyWorkers: 1\n", 15);
	assert_false(weir_status_read(large, sizeof(large), &status));
	assert_true(weir_status_read(large, sizeof(large) - 1, &status));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_apache),
		cmocka_unit_test(reads_nginx),
		cmocka_unit_test(reads_fpm),
		cmocka_unit_test(refuses_the_rest),
	};
	return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
