/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <string.h>

#include "base/mem.h"
#include "load/reader.h"

typedef struct told {
	load_read read;
	unsigned status;
	bool keep;
	size_t used, body;
	uint32_t retry_after_s;
} told;

static load_heads heads;

/* The bytes in pieces of `step`, then the end of the stream if `ends`. */
static told feed(weir_method method, const char *bytes, size_t length, size_t step, bool ends)
{
	static char body[256];
	load_kept kept = {.body = body, .most = sizeof(body)};
	load_reader reader;
	told t = {.read = LOAD_READ_MORE};
	load_reader_init(&reader);
	reader.kept = &kept;
	load_reader_begin(&reader, method);
	while (t.used < length && t.read == LOAD_READ_MORE) {
		size_t part = length - t.used < step ? length - t.used : step, used = 0;
		/* On the heap and exactly as long, so that a sanitizer sees who looks beyond. */
		char *copy = weir_mem_raw(part);
		memcpy(copy, bytes + t.used, part);
		t.read = load_reader_take(&reader, &heads, copy, part, &used);
		weir_mem_free(copy);
		t.used += used;
		if (t.read == LOAD_READ_MORE)
			assert_int_equal(used, part);
	}
	if (ends && t.read == LOAD_READ_MORE)
		t.read = load_reader_end(&reader);
	t.status = reader.meaning.status;
	t.keep = reader.meaning.keep;
	t.retry_after_s = reader.meaning.retry_after_s;
	t.body = kept.length;
	load_reader_fini(&reader);
	return t;
}

/* What is told does not depend on how it was cut. */
static told read_all_ways(weir_method method, const char *bytes, bool ends)
{
	size_t length = strlen(bytes);
	told whole = feed(method, bytes, length, length, ends);
	for (size_t step = 1; step < length; step++) {
		told t = feed(method, bytes, length, step, ends);
		assert_int_equal(t.read, whole.read);
		if (t.read == LOAD_READ_BAD)
			continue;
		assert_int_equal(t.status, whole.status);
		assert_int_equal(t.used, whole.used);
		assert_int_equal(t.body, whole.body);
		assert_int_equal(t.keep, whole.keep);
	}
	return whole;
}

static void check_done(weir_method method, const char *bytes, bool ends, unsigned status, size_t body,
		       bool keep)
{
	told t = read_all_ways(method, bytes, ends);
	if (t.read != LOAD_READ_DONE || t.status != status || t.body != body || t.keep != keep ||
	    t.used != strlen(bytes))
		fail_msg("read %d, status %u, body %zu, keep %d, used %zu of: %s", (int)t.read, t.status,
			 t.body, t.keep, t.used, bytes);
}

static void test_framings(void **state)
{
	check_done(WEIR_METHOD_GET, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 200, 5, true);
	check_done(WEIR_METHOD_GET, "HTTP/1.1 204 No Content\r\n\r\n", false, 204, 0, true);
	check_done(WEIR_METHOD_HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, 200, 0, true);
	check_done(WEIR_METHOD_GET, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
		   false, 200, 2, false);
	check_done(WEIR_METHOD_GET, "HTTP/1.1 200 OK\r\n\r\nuntil the end", true, 200, 13, false);
	check_done(WEIR_METHOD_GET, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", false, 200, 2, false);
	check_done(WEIR_METHOD_GET,
		   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=1\r\n "
		   "world\r\n0\r\n\r\n",
		   false, 200, 11, true);
	check_done(WEIR_METHOD_GET,
		   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n",
		   false, 200, 1, true);
	check_done(WEIR_METHOD_GET,
		   "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
		   "HTTP/1.1 503 No\r\nContent-Length: 0\r\nRetry-After: 7\r\n\r\n",
		   false, 503, 0, true);
}

static void test_retry_after(void **state)
{
	static const struct {
		const char *value;
		uint32_t seconds;
	} cases[] = {{"7", 7}, {"0", 0}, {"99999999999999999999", 86400}, {"soon", 0}, {"-5", 0}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char text[120];
		snprintf(text, sizeof(text), "HTTP/1.1 429 X\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n",
			 cases[i].value);
		assert_int_equal(read_all_ways(WEIR_METHOD_GET, text, false).retry_after_s, cases[i].seconds);
	}
}

static void test_wrong(void **state)
{
	static const char *const wrong[] = {
		"HTTP/1.1 2x0 OK\r\n\r\n",
		"SSH-2.0-OpenSSH_9.2\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n",
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(read_all_ways(WEIR_METHOD_GET, wrong[i], false).read, LOAD_READ_BAD);
}

/* The stream may end where the answer does, and nowhere else. */
static void test_cut(void **state)
{
	const char *answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
	for (size_t length = 0; length < strlen(answer); length++)
		assert_int_equal(feed(WEIR_METHOD_GET, answer, length, length + 1, true).read, LOAD_READ_BAD);
}

/* What comes after an answer is not part of it. */
static void test_more_than_asked(void **state)
{
	const char *two = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n";
	told t = feed(WEIR_METHOD_GET, two, strlen(two), strlen(two), false);
	assert_int_equal(t.read, LOAD_READ_DONE);
	assert_int_equal(t.used, strlen("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"));
}

static void test_bounds(void **state)
{
	static char huge[LOAD_HEAD_BYTES * 2];
	size_t length = (size_t)snprintf(huge, sizeof(huge), "HTTP/1.1 200 OK\r\nX: ");
	memset(huge + length, 'x', sizeof(huge) - length);
	assert_int_equal(feed(WEIR_METHOD_GET, huge, sizeof(huge), 1000, false).read, LOAD_READ_BAD);
	for (size_t at = 0; at + 25 <= sizeof(huge); at += 25)
		memcpy(huge + at, "HTTP/1.1 100 Continue\r\n\r\n", 25);
	assert_int_equal(feed(WEIR_METHOD_GET, huge, 25 * 17, 25, false).read, LOAD_READ_BAD);
	assert_int_equal(feed(WEIR_METHOD_GET, huge, 25 * 16, 25, false).read, LOAD_READ_MORE);
}

/* ---- the short way ---- */

static told take_plain(const char *text, weir_method method)
{
	load_reader reader;
	told t = {0};
	load_reader_init(&reader);
	load_reader_begin(&reader, method);
	t.read = load_reader_take(&reader, &heads, text, strlen(text), &t.used);
	t.status = reader.meaning.status;
	load_reader_fini(&reader);
	return t;
}

#define HEAD_OF(status, date, length) \
	"HTTP/1.1 " status " X\r\nDate: " date "\r\nContent-Length: " length "\r\n\r\n"
#define DATE_1 "Sun, 06 Nov 1994 08:49:37 GMT"
#define DATE_2 "Mon, 07 Nov 1994 08:49:38 GMT"

static void test_same_head(void **state)
{
	memset(&heads, 0, sizeof(heads));
	assert_int_equal(take_plain(HEAD_OF("200", DATE_1, "2") "hi", WEIR_METHOD_GET).read, LOAD_READ_DONE);
	assert_int_equal(heads.same, 0);
	told t = take_plain(HEAD_OF("200", DATE_2, "2") "ho", WEIR_METHOD_GET);
	assert_int_equal(t.read, LOAD_READ_DONE);
	assert_int_equal(t.status, 200);
	assert_int_equal(heads.same, 1);
	/* Anything else that differs, and it is read again. */
	assert_int_equal(take_plain(HEAD_OF("503", DATE_2, "2") "ho", WEIR_METHOD_GET).status, 503);
	assert_int_equal(take_plain(HEAD_OF("503", DATE_2, "3") "ho", WEIR_METHOD_GET).read, LOAD_READ_MORE);
	assert_int_equal(heads.same, 1);
	/* The same to another method is something else. */
	assert_int_equal(take_plain(HEAD_OF("503", DATE_2, "3"), WEIR_METHOD_HEAD).read, LOAD_READ_DONE);
	assert_int_equal(heads.same, 1);
	/* A Date that is none cannot smuggle in a line. */
	assert_int_equal(
		take_plain(HEAD_OF("503", "Sun, 06 Nov 1994\r\nA: 37 GMTxx", "3"), WEIR_METHOD_HEAD).read,
		LOAD_READ_DONE);
	assert_int_equal(heads.same, 1);
}

static void test_cookies(void **state)
{
	static const char text[] = "HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nset-cookie: b=2\r\n"
				   "Content-Length: 0\r\n\r\n";
	for (unsigned i = 0; i < 2; i++) {
		load_kept kept = {0};
		load_reader reader;
		size_t used;
		load_reader_init(&reader);
		reader.kept = &kept;
		load_reader_begin(&reader, WEIR_METHOD_GET);
		assert_int_equal(load_reader_take(&reader, &heads, text, sizeof(text) - 1, &used),
				 LOAD_READ_DONE);
		assert_int_equal(kept.cookie_count, 2);
		assert_int_equal(kept.cookies[0].length, 11);
		assert_memory_equal(kept.cookies[0].at, "a=1; Path=/", 11);
		assert_memory_equal(kept.cookies[1].at, "b=2", 3);
		load_reader_fini(&reader);
	}
}

static void test_no_memory(void **state)
{
	load_reader reader;
	size_t used;
	load_reader_init(&reader);
	load_reader_begin(&reader, WEIR_METHOD_GET);
	weir_mem_fail_after(1);
	assert_int_equal(load_reader_take(&reader, &heads, "HTTP/1.1", 8, &used), LOAD_READ_BAD);
	load_reader_fini(&reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(test_framings),  CHECK_TEST(test_retry_after),     CHECK_TEST(test_wrong),
		CHECK_TEST(test_cut),       CHECK_TEST(test_more_than_asked), CHECK_TEST(test_bounds),
		CHECK_TEST(test_same_head), CHECK_TEST(test_cookies),         CHECK_TEST(test_no_memory),
	};
	return cmocka_run_group_tests_name("load_reader", tests, NULL, NULL);
}
