/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <string.h>

#include "http/grpc.h"

static void content_types(void **state)
{
	static const char *const good[] = {"application/grpc", "application/grpc+proto",
					   "Application/gRPC; x=y", "application/grpc-web",
					   "application/grpc "};
	static const char *const bad[] = {"", "application/grp", "application/grpcs", "text/grpc",
					  "application/grpc/x"};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(weir_grpc_is_type((weir_span){good[i], strlen(good[i])}));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(weir_grpc_is_type((weir_span){bad[i], strlen(bad[i])}));
}

static int status_of(const char *value)
{
	char bytes[64];
	int length = snprintf(bytes, sizeof(bytes), "grpc-message:grpc-status:%s", value);
	const weir_head_field fields[] = {{.name = 0, .name_length = 12, .id = WEIR_FIELD_OTHER},
					  {.name = 13,
					   .name_length = 11,
					   .value = 25,
					   .value_length = (uint32_t)length - 25,
					   .id = WEIR_FIELD_OTHER}};
	return weir_grpc_status(fields, 2, bytes);
}

static void outcomes(void **state)
{
	assert_int_equal(status_of("0"), 0);
	assert_int_equal(status_of("14"), 14);
	assert_int_equal(status_of(""), -1);
	assert_int_equal(status_of("-1"), -1);
	assert_int_equal(status_of("14x"), -1);
	assert_int_equal(status_of("99999999999999999999"), -1);
	assert_int_equal(weir_grpc_status(NULL, 0, NULL), -1);
	for (int code = -1; code < 20; code++)
		assert_int_equal(weir_grpc_is_refusal(code), code == 8 || code == 14);
	assert_int_equal(weir_grpc_as_http(-1), 200);
	assert_int_equal(weir_grpc_as_http(0), 200);
	assert_int_equal(weir_grpc_as_http(5), 400);
	assert_int_equal(weir_grpc_as_http(8), 429);
	assert_int_equal(weir_grpc_as_http(13), 500);
	assert_int_equal(weir_grpc_as_http(14), 503);
}

static uint64_t timeout_of(const char *text)
{
	return weir_grpc_timeout((weir_span){text, strlen(text)});
}

static void timeouts(void **state)
{
	static const char *const bad[] = {"",    "1",  "m",  "-1m",        "1.5S", " 1S",
					  "1S ", "1s", "1x", "123456789S", "1\0S"};
	assert_true(timeout_of("250m") == UINT64_C(250000000));
	assert_true(timeout_of("1S") == UINT64_C(1000000000));
	assert_true(timeout_of("2M") == UINT64_C(120000000000));
	assert_true(timeout_of("1H") == UINT64_C(3600000000000));
	assert_true(timeout_of("7u") == 7000 && timeout_of("9n") == 9);
	assert_true(timeout_of("0m") == 1);
	assert_true(timeout_of("99999999H") == UINT64_C(86400000000000));
	assert_true(timeout_of("99999999n") == 99999999);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_true(timeout_of(bad[i]) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(content_types), cmocka_unit_test(outcomes),
					   cmocka_unit_test(timeouts)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
