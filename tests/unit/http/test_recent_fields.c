/* SPDX-License-Identifier: Apache-2.0 */
/* Fields that came before: the same result as without, whatever was kept; what is not kept. */
#include "http/recent_fields.h"

#include <stdio.h>

#include "base/mix.h"
#include "http/scan.h"
#include "support/unit.h"

#define FIELDS_MAX 40
#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))

#define WITH_ANOTHER \
	"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

static const char *const scanners[] = {"plain", "sse4.2", "avx2"};
static weir_recent_fields recent;

/* Parses with and without the memory, and compares. */
static void parse_both(const char *text, size_t length, const weir_head_limits *limits)
{
	static weir_head_field fields[2][FIELDS_MAX];
	weir_head heads[2];
	memset(fields, 0xee, sizeof(fields));
	weir_head_init(&heads[0]);
	weir_head_init(&heads[1]);
	weir_parse plain = weir_parse_request(&heads[0], text, length, limits, fields[0]);
	weir_parse with = weir_parse_request_recent(&heads[1], text, length, limits, fields[1], &recent);
	assert_int_equal(plain, with);
	if (plain != WEIR_PARSE_MORE)
		assert_memory_equal(&heads[0], &heads[1], sizeof(heads[0]));
	if (plain == WEIR_PARSE_DONE)
		assert_memory_equal(fields[0], fields[1], heads[0].field_count * sizeof(fields[0][0]));
}

static const weir_head_limits usual = {8192, 32768, FIELDS_MAX};

static void parse_text(const char *text)
{
	parse_both(text, strlen(text), &usual);
}

static unsigned kept(void)
{
	unsigned count = 0;
	for (unsigned i = 0; i < WEIR_RECENT_SLOTS; i++)
		count += recent.slots[i].length != 0;
	return count;
}

static void forget(void)
{
	memset(&recent, 0, sizeof(recent));
}

static bool is_plain(const char *scanner)
{
	return strcmp(scanner, "plain") == 0;
}

static void test_other_first_lines(void **state)
{
	static const char *const lines[] = {
		"GET / HTTP/1.1",           "GET /some/longer/path?with=a&query HTTP/1.1",
		"POST /x HTTP/1.1",         "HEAD / HTTP/1.1",
		"OPTIONS * HTTP/1.1",       "GET http://other.example/absolute HTTP/1.1",
		"CONNECT a:443 HTTP/1.1",   "GET / HTTP/1.0",
		"GET /a#fragment HTTP/1.1", "PURGE / HTTP/1.1"};
	static const char *const blocks[] = {
		"Host: localhost\r\n\r\n",
		"Host: localhost:8080\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n",
		"User-Agent: someone\r\nConnection: keep-alive\r\nhost: a.example\r\nTE: trailers\r\n\r\n"};
	char text[1024];
	for (size_t s = 0; s < COUNT(scanners); s++) {
		if (!weir_scan_force(scanners[s]))
			continue;
		forget();
		for (unsigned round = 0; round < 4; round++)
			for (size_t b = 0; b < COUNT(blocks); b++)
				for (size_t l = 0; l < COUNT(lines); l++) {
					snprintf(text, sizeof(text), "%s\r\n%s", lines[l], blocks[b]);
					parse_text(text);
				}
		assert_true(kept() == (is_plain(scanners[s]) ? 0 : COUNT(blocks)));
	}
	weir_scan_force(NULL);
}

static void test_not_kept(void **state)
{
	static const char *const texts[] = {
		"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: secret=1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic Zm9v\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
		"GET / HTTP/1.0\r\nHost: localhost.example.org\r\n\r\n",
		"GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\nHost: a\r\n\r\n", /* too few bytes */
		"GET / HTTP/1.1\r\nAccept: text/html,application/xhtml+xml\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding : gzip\r\n\r\n",
		/* not all that was received */
		WITH_ANOTHER,
	};
	forget();
	for (size_t i = 0; i < COUNT(texts); i++)
		for (unsigned round = 0; round < 4; round++)
			parse_text(texts[i]);
	assert_int_equal(kept(), 0);
}

/* Once is not enough. Nor are others in between that have the same slot. */
static void test_kept_from_the_second_time(void **state)
{
	const char *text = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
	if (is_plain(weir_scan()->name))
		skip();
	forget();
	parse_text(text);
	assert_int_equal(kept(), 0);
	for (unsigned i = 0; i < WEIR_RECENT_SLOTS; i++)
		recent.slots[i].missed++;
	parse_text(text);
	assert_int_equal(kept(), 0);
	parse_text(text);
	assert_int_equal(kept(), 1);
	parse_text(text);
	parse_text(text);
	assert_int_equal(kept(), 1);
}

static size_t put_many(char *text, size_t fields, size_t value_bytes)
{
	size_t at = (size_t)sprintf(text, "GET / HTTP/1.1\r\nHost: localhost\r\n");
	for (size_t i = 1; i < fields; i++)
		at += (size_t)sprintf(text + at, "X-%zu: %.*s\r\n", i, (int)value_bytes,
				      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
	return at + (size_t)sprintf(text + at, "\r\n");
}

static void test_bounds(void **state)
{
	static char text[8192];
	const weir_head_limits few = {8192, 32768, 3}, small = {8192, 100, FIELDS_MAX};
	if (is_plain(weir_scan()->name))
		skip();
	forget();
	for (unsigned round = 0; round < 4; round++) {
		parse_both(text, put_many(text, WEIR_RECENT_FIELDS + 1, 1), &usual);
		parse_both(text, put_many(text, 30, 60), &usual);
	}
	assert_int_equal(kept(), 0);
	for (unsigned round = 0; round < 4; round++)
		parse_both(text, put_many(text, WEIR_RECENT_FIELDS, 1), &usual);
	assert_int_equal(kept(), 1);
	/* What is kept does not get round other limits. */
	for (unsigned round = 0; round < 4; round++) {
		parse_both(text, put_many(text, WEIR_RECENT_FIELDS, 1), &few);
		parse_both(text, put_many(text, WEIR_RECENT_FIELDS, 1), &small);
		parse_both(text, put_many(text, 4, 1), &usual);
		parse_both(text, put_many(text, 4, 1), &few);
	}
}

/* Cut anywhere, at every place in the life of a block. */
static void test_parts(void **state)
{
	const char *text =
		"GET /path HTTP/1.1\r\nHost: localhost\r\nUser-Agent: someone\r\nAccept: */*\r\n\r\n";
	for (unsigned round = 0; round < 4; round++) {
		for (size_t length = 0; length <= strlen(text); length++)
			parse_both(text, length, &usual);
	}
}

/* Random blocks out of few parts, so that many come again, and many have the same length. */
static void test_any_order(void **state)
{
	static const char *const parts[] = {
		"Host: localhost\r\n",   "Host: localhosu\r\n",   "Accept: */*\r\n",  "Accept: *,*\r\n",
		"X-Some: thing\r\n",     "X-Some: thong\r\n",     "Cookie: a=b\r\n",  "Connection: close\r\n",
		"Content-Length: 0\r\n", "Content-Length: 1\r\n", "TE: trailers\r\n", "Bad Name: x\r\n"};
	char text[1024];
	uint64_t seed = 1;
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t drawn = weir_mix(seed += WEIR_MIX_STEP);
		if (i % 1000 == 0)
			forget();
		size_t at = (size_t)sprintf(text, "GET /%.*s HTTP/1.1\r\nHost: localhost\r\n",
					    (int)(drawn % 8), "abcdefgh");
		for (drawn >>= 8; drawn % 3 != 0; drawn >>= 8)
			at += (size_t)sprintf(text + at, "%s", parts[drawn / 3 % COUNT(parts)]);
		at += (size_t)sprintf(text + at, "\r\n");
		parse_both(text, at, &usual);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_other_first_lines),
		cmocka_unit_test(test_not_kept),
		cmocka_unit_test(test_kept_from_the_second_time),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_any_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
