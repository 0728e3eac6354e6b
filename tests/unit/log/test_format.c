/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the access log: their form, and that no client's bytes can break it. JSON is judged by jansson. */
#include "support/unit.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>

#include <weir/random.h>

#include "log/log.h"

#define WALL_NS (INT64_C(971211336) * 1000000000 + 42000000) /* 2000-10-10T20:55:36.042Z */

static weir_log_clock clock_at(int64_t wall_ns)
{
	weir_log_clock clock = {0};
	weir_log_clock_at(&clock, wall_ns);
	return clock;
}

static struct sockaddr_in client;

static weir_log_entry entry(void)
{
	client = (struct sockaddr_in){.sin_family = AF_INET};
	inet_pton(AF_INET, "192.0.2.7", &client.sin_addr);
	return (weir_log_entry){
		.client = (const struct sockaddr *)&client,
		.method = WEIR_SPAN("GET"),
		.path = WEIR_SPAN("/a"),
		.query = WEIR_SPAN("q=1"),
		.host = WEIR_SPAN("example.org"),
		.agent = WEIR_SPAN("curl/8"),
		.version = 11,
		.status = 200,
		.bytes = 1234,
		.duration_ns = 1234567,
		.route = "api",
		.klass = 2,
	};
}

static const char *combined(const weir_log_entry *of)
{
	static char line[WEIR_LOG_LINE_MAX + 1];
	weir_log_clock clock = clock_at(WALL_NS);
	size_t length = weir_log_format_combined(line, &clock, of);
	assert_true(length <= WEIR_LOG_LINE_MAX);
	line[length] = '\0';
	assert_int_equal(strlen(line), length);
	return line;
}

static json_t *parsed(const weir_log_entry *of)
{
	static char line[WEIR_LOG_LINE_MAX];
	json_error_t error;
	weir_log_clock clock = clock_at(WALL_NS);
	size_t length = weir_log_format_json(line, &clock, of);
	assert_true(length <= WEIR_LOG_LINE_MAX);
	assert_int_equal(line[length - 1], '\n');
	assert_null(memchr(line, '\n', length - 1));
	json_t *json = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
	if (json == NULL)
		fail_msg("%s: %.*s", error.text, (int)length, line);
	return json;
}

static void test_combined(void **state)
{
	weir_log_entry e = entry();
	assert_string_equal(
		combined(&e),
		"192.0.2.7 - - [10/Oct/2000:20:55:36 +0000] \"GET /a?q=1 HTTP/1.1\" 200 1234 \"-\" "
		"\"curl/8\" ms=1.234 class=2 route=\"api\"\n");
	e.class_name = "gold";
	e.session = "member";
	assert_non_null(
		strstr(combined(&e), " class=2 class_name=\"gold\" session=\"member\" route=\"api\"\n"));
	e.class_name = e.session = NULL;
	e.referer = WEIR_SPAN("http://x/");
	e.query = (weir_span){0};
	e.shed = "overload";
	e.error = "late";
	e.note = WEIR_SPAN("upstream=1.2.3.4:80");
	e.gone = true;
	e.version = 20;
	e.status = 0;
	assert_string_equal(
		combined(&e),
		"192.0.2.7 - - [10/Oct/2000:20:55:36 +0000] \"GET /a HTTP/2.0\" 0 1234 \"http://x/\" "
		"\"curl/8\" ms=1.234 class=2 route=\"api\" shed=\"overload\" "
		"note=\"upstream=1.2.3.4:80\" error=\"late\" gone\n");
}

static void test_no_request(void **state)
{
	weir_log_entry e = {.status = 400, .error = "a bare LF"};
	assert_string_equal(combined(&e), "- - - [10/Oct/2000:20:55:36 +0000] \"-\" 400 0 \"-\" \"-\" "
					  "ms=0.000 class=0 error=\"a bare LF\"\n");
	json_t *json = parsed(&e);
	assert_null(json_object_get(json, "method"));
	assert_string_equal(json_string_value(json_object_get(json, "client")), "-");
	json_decref(json);
}

static void test_json(void **state)
{
	weir_log_entry e = entry();
	e.secure = true;
	e.first_byte_ns = 999999;
	e.stage = WEIR_SPAN("app");
	e.class_name = "gold";
	e.session = "newcomer";
	json_t *json = parsed(&e);
	assert_string_equal(json_string_value(json_object_get(json, "class_name")), "gold");
	assert_string_equal(json_string_value(json_object_get(json, "session")), "newcomer");
	assert_string_equal(json_string_value(json_object_get(json, "time")), "2000-10-10T20:55:36.042Z");
	assert_string_equal(json_string_value(json_object_get(json, "client")), "192.0.2.7");
	assert_string_equal(json_string_value(json_object_get(json, "method")), "GET");
	assert_string_equal(json_string_value(json_object_get(json, "path")), "/a");
	assert_string_equal(json_string_value(json_object_get(json, "query")), "q=1");
	assert_string_equal(json_string_value(json_object_get(json, "protocol")), "HTTP/1.1");
	assert_string_equal(json_string_value(json_object_get(json, "host")), "example.org");
	assert_string_equal(json_string_value(json_object_get(json, "scheme")), "https");
	assert_string_equal(json_string_value(json_object_get(json, "agent")), "curl/8");
	assert_string_equal(json_string_value(json_object_get(json, "route")), "api");
	assert_string_equal(json_string_value(json_object_get(json, "stage")), "app");
	assert_int_equal(json_integer_value(json_object_get(json, "status")), 200);
	assert_int_equal(json_integer_value(json_object_get(json, "bytes")), 1234);
	assert_int_equal(json_integer_value(json_object_get(json, "class")), 2);
	assert_true(json_real_value(json_object_get(json, "ms")) == 1.234);
	assert_true(json_real_value(json_object_get(json, "first_byte_ms")) == 0.999);
	assert_null(json_object_get(json, "referer"));
	assert_null(json_object_get(json, "shed"));
	assert_null(json_object_get(json, "gone"));
	json_decref(json);
	e.shed = "rate";
	e.gone = true;
	json = parsed(&e);
	assert_string_equal(json_string_value(json_object_get(json, "shed")), "rate");
	assert_true(json_is_true(json_object_get(json, "gone")));
	json_decref(json);
}

/* A line feed, a quote, a backslash, an escape for terminals. */
static void test_no_line_is_forged(void **state)
{
	weir_log_entry e = entry();
	e.query = (weir_span){0};
	e.path = WEIR_SPAN("/\" 200 1\n1.2.3.4 - - \\\x1b[31m\x7f\xff\0z");
	assert_string_equal(
		combined(&e),
		"192.0.2.7 - - [10/Oct/2000:20:55:36 +0000] "
		"\"GET /\\x22 200 1\\x0a1.2.3.4 - - \\x5c\\x1b[31m\\x7f\\xff\\x00z HTTP/1.1\" 200 1234 \"-\" "
		"\"curl/8\" ms=1.234 class=2 route=\"api\"\n");
	json_t *json = parsed(&e);
	json_decref(json);
	e.path = WEIR_SPAN("/\"\\\n\x7f\xc2\x9b\xc3\xa9\xff\xed\xa0\x80\xe0\x80\x80\xf4\x90\x80\x80\xc3");
	json = parsed(&e);
	/* 1 + 3 + 4 for the surrogate, the overlong and the one beyond, byte by byte; a sequence that is cut */
	assert_string_equal(json_string_value(json_object_get(json, "path")),
			    "/\"\\\n\x7f\xc2\x9b\xc3\xa9"
			    "\xef\xbf\xbd"
			    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
			    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
			    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
			    "\xef\xbf\xbd");
	json_decref(json);
}

/* Any bytes, any lengths, in every field: one line that is read back. */
static void test_any_bytes(void **state)
{
	static char bytes[20000], text[400];
	weir_random random;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		weir_random_init(&random, seed);
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (char)(seed % 3 == 0   ? weir_random_u64(&random)
					  : seed % 3 == 1 ? (uint64_t)'\n'
							  : 0xe2 + weir_random_below(&random, 3) * 0x20);
		memcpy(text, bytes, sizeof(text) - 1);
		weir_span *spans[8];
		weir_log_entry e = entry();
		weir_span *all[] = {&e.method,  &e.path,  &e.query, &e.host,
				    &e.referer, &e.agent, &e.stage, &e.note};
		memcpy(spans, all, sizeof(all));
		for (unsigned i = 0; i < 8; i++)
			*spans[i] = (weir_span){bytes + weir_random_below(&random, 100),
						weir_random_below(&random, 19000)};
		e.route = e.shed = e.error = text;
		e.bytes = e.duration_ns = e.first_byte_ns = INT64_MAX;
		e.status = 599;
		e.klass = 7;
		e.gone = e.secure = true;
		const char *line = combined(&e);
		assert_for_seed(seed, strchr(line, '\n') == line + strlen(line) - 1);
		for (; *line != '\n'; line++)
			assert_for_seed(seed, *line >= ' ' && *line <= '~');
		json_decref(parsed(&e));
	}
}

/* What does not fit is cut between two characters, and says so. */
static void test_long_fields_are_cut(void **state)
{
	static char path[6000];
	weir_log_entry e = entry();
	memset(path, 'a', sizeof(path));
	e.path = (weir_span){path, sizeof(path)};
	json_t *json = parsed(&e);
	const char *text = json_string_value(json_object_get(json, "path"));
	assert_int_equal(strlen(text), 3072);
	assert_string_equal(text + 3069, "...");
	json_decref(json);
	e.path.length = 3069;
	json = parsed(&e);
	assert_int_equal(strlen(json_string_value(json_object_get(json, "path"))), 3069);
	assert_null(strstr(json_string_value(json_object_get(json, "path")), "."));
	json_decref(json);
	memset(path, '\n', sizeof(path));
	e.path.length = sizeof(path);
	assert_non_null(strstr(combined(&e), "\\x0a...?q=1 HTTP/1.1\""));
}

static void test_addresses(void **state)
{
	char text[64];
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	static const char *const fours[] = {"0.0.0.0", "127.0.0.1", "255.255.255.255", "10.200.3.40"};
	for (unsigned i = 0; i < 4; i++) {
		inet_pton(AF_INET, fours[i], &v4.sin_addr);
		assert_int_equal(weir_log_print_address(text, (struct sockaddr *)&v4), strlen(fours[i]));
		assert_string_equal(text, fours[i]);
	}
	inet_pton(AF_INET6, "2001:db8::1", &v6.sin6_addr);
	weir_log_print_address(text, (struct sockaddr *)&v6);
	assert_string_equal(text, "2001:db8::1");
	inet_pton(AF_INET6, "::ffff:192.0.2.1", &v6.sin6_addr);
	weir_log_print_address(text, (struct sockaddr *)&v6);
	assert_string_equal(text, "192.0.2.1");
	weir_log_print_address(text, (struct sockaddr *)&un);
	assert_string_equal(text, "unix");
	weir_log_print_address(text, NULL);
	assert_string_equal(text, "-");
}

static void test_clock(void **state)
{
	weir_log_clock clock = clock_at(WALL_NS);
	assert_string_equal(clock.local, "10/Oct/2000:20:55:36 +0000");
	weir_log_clock_at(&clock, WALL_NS + 900000000);
	assert_int_equal(clock.millisecond, 942);
	assert_string_equal(clock.utc, "2000-10-10T20:55:36");
	weir_log_clock_at(&clock, WALL_NS + 1000000000);
	assert_string_equal(clock.utc, "2000-10-10T20:55:37");
	setenv("TZ", "XST+3:30", 1);
	tzset();
	clock = clock_at(WALL_NS);
	assert_string_equal(clock.local, "10/Oct/2000:17:25:36 -0330");
	assert_string_equal(clock.utc, "2000-10-10T20:55:36");
	setenv("TZ", "XST-5:45", 1);
	tzset();
	clock = clock_at(WALL_NS);
	assert_string_equal(clock.local, "11/Oct/2000:02:40:36 +0545");
	setenv("TZ", "UTC", 1);
	tzset();
}

/* The wall clock is what the system has, to within the time between two looks at it. */
static void test_clock_follows_the_system(void **state)
{
	weir_log_clock clock = {0};
	struct timespec monotonic, before, after;
	clock_gettime(CLOCK_REALTIME, &before);
	clock_gettime(CLOCK_MONOTONIC, &monotonic);
	weir_log_clock_set(&clock, (uint64_t)monotonic.tv_sec * WEIR_NS_PER_S + (uint64_t)monotonic.tv_nsec);
	clock_gettime(CLOCK_REALTIME, &after);
	assert_true(clock.second >= before.tv_sec - 1 && clock.second <= after.tv_sec + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_combined),
		cmocka_unit_test(test_no_request),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_no_line_is_forged),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_long_fields_are_cut),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_clock),
		cmocka_unit_test(test_clock_follows_the_system),
	};
	setenv("TZ", "UTC", 1);
	tzset();
	return cmocka_run_group_tests_name("log_format", tests, NULL, NULL);
}
