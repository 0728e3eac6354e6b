/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads at the edges of what scanners take in one go: a line that ends with a vector, a byte that is not usual, a Host that needs a second look. Whether a line was usual must make no
 * difference to anybody: each result here is what the parser said when it had one way only to read a head.
 */
#include "on_heads.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

typedef struct example {
	const char *text, *want;
} example;

static void expect_within(const char *text, weir_head_limits limits, const char *want)
{
	head_case of = {HEAD_REQUEST, WEIR_METHOD_OTHER, limits, text, strlen(text)};
	head_expect(&of, want);
}

static void expect_all(const example *examples, size_t count)
{
	for (size_t i = 0; i < count; i++)
		expect_within(examples[i].text, head_usual_limits, examples[i].want);
}

/* ---- edges of vectors ---- */

/* By each scanner, at the end of what may be touched and at its beginning. Cuts are for tables: these are too many. */
static void expect_whole(const char *text, const char *want)
{
	static head_line line;
	head_case of = {HEAD_REQUEST, WEIR_METHOD_OTHER, head_usual_limits, text, strlen(text)};
	for (size_t i = 0; i < HEAD_SCANNERS; i++) {
		if (!weir_scan_force(head_scanners[i]))
			continue;
		for (unsigned side = 0; side < 2; side++) {
			const char *bytes = side ? guard_begin(text, of.length) : guard_end(text, of.length);
			head_whole(&line, &of, bytes, of.length);
			if (strcmp(line.text, want) != 0)
				fail_msg("%s: %s\ngives   %s\ninstead %s", head_scanners[i], text, line.text,
					 want);
		}
	}
	weir_scan_force(NULL);
}

#define FILL "abcdefghijklmnopqrstuvwxyz-0123456789-ABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789"

/* Paths, queries, names and values of all lengths up to more than two vectors: each edge is met by some. */
static void test_all_lengths(void **state)
{
	char text[600], want[700];
	for (int path = 0; path <= 70; path++)
		for (int value = 1; value <= 70; value++) {
			int name = 1 + (path * 7 + value) % 40, query = (path + value * 5) % 45;
			snprintf(text, sizeof(text),
				 "GET /%.*s?%.*s HTTP/1.1\r\nHost: %.*s\r\n%.*s: %.*s\r\n\r\n", path, FILL,
				 query, FILL, 1 + value % 36, FILL, name, FILL, value, FILL);
			snprintf(want, sizeof(want),
				 "GET /%.*s?%.*s host=%.*s 11 none keep | Host: %.*s | %.*s: %.*s | %zu",
				 path, FILL, query, FILL, 1 + value % 36, FILL, 1 + value % 36, FILL, name,
				 FILL, value, FILL, strlen(text));
			expect_whole(text, want);
		}
}

/* Each byte at each place of a line: all agree, and who is told what does not depend on how it came. */
static void test_each_byte_in_a_line(void **state)
{
	static const char line[] = "X-Some-Name: a value of some length, a b\r\n";
	for (size_t place = 0; place < sizeof(line) - 1; place += 3)
		for (unsigned byte = 0; byte < 256; byte++) {
			char text[200];
			int length = snprintf(text, sizeof(text),
					      "GET / HTTP/1.1\r\nHost: a.example\r\n%s\r\n", line);
			text[33 + place] = (char)byte;
			head_case of = {HEAD_REQUEST, WEIR_METHOD_OTHER, head_usual_limits, text,
					(size_t)length};
			static head_line want, line_of;
			assert_true(weir_scan_force("plain"));
			head_whole(&want, &of, text, of.length);
			for (size_t i = 1; i < HEAD_SCANNERS; i++)
				if (weir_scan_force(head_scanners[i])) {
					head_whole(&line_of, &of, guard_end(text, of.length), of.length);
					head_same(&line_of, &want, &of, head_scanners[i], place);
				}
		}
	weir_scan_force(NULL);
}

/* ---- fields that are not quite as usual, among others that are ---- */

#define AMONG(line) "GET /x HTTP/1.1\r\nHost: a.example\r\n" line "Accept: */*\r\nUser-Agent: u\r\n\r\n"
#define FOUND(field) \
	"GET /x host=a.example 11 none keep | Host: a.example" field " | Accept: */* | User-Agent: u"
#define NAME31  "x123456789-123456789-123456789-"
#define VALUE64 "v123456789-123456789-123456789-v123456789-123456789-123456789-ab"

static void test_odd_lines(void **state)
{
	static const example examples[] = {
		{AMONG("A:b\r\n"), FOUND(" | A: b")},
		{AMONG("A:  b\r\n"), FOUND(" | A: b")},
		{AMONG("A:\tb\r\n"), FOUND(" | A: b")},
		{AMONG("A: b \r\n"), FOUND(" | A: b")},
		{AMONG("A: b\t\r\n"), FOUND(" | A: b")},
		{AMONG("A: b\tc\r\n"), FOUND(" | A: b\tc")},
		{AMONG("A:\r\n"), FOUND(" | A: ")},
		{AMONG("A: \r\n"), FOUND(" | A: ")},
		{AMONG("A: \xc3\xa9\r\n"), FOUND(" | A: \xc3\xa9")},
		{AMONG("A: " VALUE64 "\xc3\xa9 \r\n"), FOUND(" | A: " VALUE64 "\xc3\xa9")},
		{AMONG("A: : b\r\n"), FOUND(" | A: : b")},
		{AMONG(NAME31 ": b\r\n"), FOUND(" | " NAME31 ": b")},
		{AMONG(NAME31 "2: b\r\n"), FOUND(" | " NAME31 "2: b")},
		{AMONG(NAME31 "23: b\r\n"), FOUND(" | " NAME31 "23: b")},
		{AMONG(NAME31 "2: " VALUE64 VALUE64 "\r\n"), FOUND(" | " NAME31 "2: " VALUE64 VALUE64)},
		{AMONG("A: " VALUE64 "\x7f\r\n"), "400 a control byte in a value"},
		{AMONG("A: " VALUE64 "\rb\r\n"), "400 CR without LF"},
		{AMONG("A: " VALUE64 "\n"), "400 LF without CR"},
		{AMONG(NAME31 "2\r\n"), "400 a line without a colon"},
		{AMONG(NAME31 " : b\r\n"), "400 a space before the colon"},
		{AMONG(": b\r\n"), "400 a field without a name"},
		{AMONG(" : b\r\n"), "400 a folded line"},
		{AMONG("A: b\r\n c\r\n"), "400 a folded line"},
		{AMONG("A\x80: b\r\n"), "400 a byte that no field name has"},
		{AMONG("\r"), "400 CR without LF"},
	};
	expect_all(examples, COUNT(examples));
}

/* Names that are known but for their last byte, their length or 0x20 in what is no letter. */
static void test_nearly_known_names(void **state)
{
	static const example examples[] = {
		{AMONG("content-length: 0\r\n"), FOUND(" | content-length: 0")},
		{AMONG("CONTENT-LENGTH: 0\r\n"), FOUND(" | CONTENT-LENGTH: 0")},
		{AMONG("Content-Length: x\r\n"), "400 Content-Length is not a number of bytes"},
		{AMONG("Content-Lengt: x\r\n"), FOUND(" | Content-Lengt: x")},
		{AMONG("Content-Lengthh: x\r\n"), FOUND(" | Content-Lengthh: x")},
		{AMONG("Content-Lengti: x\r\n"), FOUND(" | Content-Lengti: x")},
		/* They go on behind a known name, and have the same place in the table (weir_field_place): 8 bytes more, 3 less in the last. */
		{AMONG("Content-Lengthxxxxxxxe: x\r\n"), FOUND(" | Content-Lengthxxxxxxxe: x")},
		{AMONG("Hostxxxxxxxq: b\r\n"), FOUND(" | Hostxxxxxxxq: b")},
		{AMONG("Content\rLength: x\r\n"), "400 a line without a colon"},
		{AMONG("Content_Length: x\r\n"), FOUND(" | Content_Length: x")},
		{AMONG("Transfer-Encoding: x\r\n"), "501 a transfer coding other than chunked"},
		{AMONG("Transfer-Encodings: x\r\n"), FOUND(" | Transfer-Encodings: x")},
		{AMONG("Transfer-Fncoding: x\r\n"), FOUND(" | Transfer-Fncoding: x")},
		{AMONG("tE: trailers\r\n"), "GET /x host=a.example 11 none keep trailers | Host: a.example | "
					    "tE: trailers | Accept: */* | "
					    "User-Agent: u"},
		{AMONG("Proxy-Authorization: x\r\n"), FOUND(" | Proxy-Authorization: x")},
		{AMONG("Proxy-Authorizatioo: x\r\n"), FOUND(" | Proxy-Authorizatioo: x")},
	};
	expect_all(examples, COUNT(examples));
}

/* ---- hosts ---- */

#define TO(lines) "GET /x HTTP/1.1\r\n" lines "User-Agent: somebody/1.0\r\n\r\n"
#define NO_HOST   "400 Host is not a host"
#define TWO_HOSTS "400 more than one Host"

static void expect_host(const char *host, bool good)
{
	char text[300], want[300];
	snprintf(text, sizeof(text), "GET /x HTTP/1.1\r\nHost: %s\r\nUser-Agent: somebody/1.0\r\n\r\n", host);
	snprintf(want, sizeof(want), "GET /x host=%s 11 none keep | Host: %s | User-Agent: somebody/1.0",
		 host, host);
	expect_within(text, head_usual_limits, good ? want : NO_HOST);
}

static void test_hosts(void **state)
{
	static const char *const good[] = {"a",
					   "a.b",
					   "a.",
					   "127.0.0.1:8080",
					   "a:1",
					   "a:0",
					   "a:00080",
					   "a:59999",
					   "a:60000",
					   "a:65535",
					   "[::1]",
					   "[::1]:80",
					   "a_b~c-d",
					   "",
					   "www.a-name-of-31-bytes-or-more.example:8080"};
	static const char *const bad[] = {".a",       "a..b",
					  "a:",       "a:65536",
					  "a:99999",  "a:100000",
					  "a:8x",     "a:x8",
					  "a:12345x", "a b",
					  "a/b",      "a@b",
					  ":80",      "a::80",
					  "a:8:80",   "[::1",
					  "[::1]x",   "a%2eb",
					  "\xc3\xa9", "a,b",
					  "a:-1",     "www.a-name-of-31-bytes-or-more..example"};
	for (size_t i = 0; i < COUNT(good); i++)
		expect_host(good[i], true);
	for (size_t i = 0; i < COUNT(bad); i++)
		expect_host(bad[i], false);
}

/* The first line that is wrong is what is told, whatever else is wrong behind it. */
static void test_order_of_refusals(void **state)
{
	static const example examples[] = {
		{TO("Host: a\r\nHost: a\r\n"), TWO_HOSTS},
		{TO("Host: a\r\nHost: ..\r\n"), TWO_HOSTS},
		{TO("Host: ..\r\nHost: a\r\n"), NO_HOST},
		{TO("Host:a\r\nHost: a\r\n"), TWO_HOSTS},
		{TO("Host: a\r\nHost:a\r\n"), TWO_HOSTS},
		{TO("Host: \r\nHost: a\r\n"), TWO_HOSTS},
		{TO("Host: [::1]\r\nHost: a\r\n"), TWO_HOSTS},
		{TO("A: b\r\nHost: a\r\nB: c\r\nHost: b\r\n"), TWO_HOSTS},
		{TO("Content-Length: x\r\nHost: ..\r\n"), "400 Content-Length is not a number of bytes"},
		{TO("Host: ..\r\nContent-Length: x\r\n"), NO_HOST},
		{TO("Content-Length: 1\r\nHost: a\r\nContent-Length: 1\r\n"),
		 "400 more than one Content-Length"},
		{TO("Transfer-Encoding: chunked\r\nHost: a\r\nContent-Length: 1\r\n"),
		 "400 Content-Length beside Transfer-Encoding"},
		{TO("Host: a\r\nContent-Length: x\r\nA : b\r\n"),
		 "400 Content-Length is not a number of bytes"},
		{TO("Host: a\r\nA : b\r\nContent-Length: x\r\n"), "400 a space before the colon"},
		{TO("Host: ..\r\nA : b\r\n"), NO_HOST},
		{TO("Host: ..\r\n\rx"), NO_HOST},
		{TO("A: b\r\nB: c\r\n"), "400 HTTP/1.1 without Host"},
		{"GET http://b/ HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
		 "400 Host disagrees with the target"},
		{"GET http://a/ HTTP/1.1\r\nA:b\r\nHost: a\r\nHost: a\r\n\r\n", TWO_HOSTS},
	};
	expect_all(examples, COUNT(examples));
}

static void test_what_usual_heads_mean(void **state)
{
	static const example examples[] = {
		{TO("Connection: keep-alive\r\nHost: a\r\n"),
		 "GET /x host=a 11 none keep | Connection: keep-alive | Host: a | User-Agent: somebody/1.0"},
		{TO("Host: a\r\nConnection: close\r\n"),
		 "GET /x host=a 11 none | Host: a | Connection: close | User-Agent: somebody/1.0"},
		{TO("Host: a\r\nConnection: Upgrade\r\nUpgrade: b\r\n"),
		 "GET /x host=a 11 none keep upgrade | Host: a | Connection: Upgrade | Upgrade: b | "
		 "User-Agent: "
		 "somebody/1.0"},
		{TO("Host: a\r\nContent-Length: 12\r\n"),
		 "GET /x host=a 11 length=12 keep | Host: a | Content-Length: 12 | User-Agent: somebody/1.0"},
		{TO("Host: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n"),
		 "GET /x host=a 11 chunked keep continue | Host: a | Transfer-Encoding: chunked | Expect: "
		 "100-continue | User-Agent: somebody/1.0"},
		{"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nUser-Agent: somebody/1.0\r\nContent-Length: 1\r\n\r\n",
		 "400 CONNECT with a body"},
		{"CONNECT /x HTTP/1.1\r\nHost: a:1\r\nUser-Agent: somebody/1.0\r\n\r\n",
		 "400 the target of CONNECT is not host:port"},
		{"GET /x HTTP/1.0\r\nHost: a\r\nUser-Agent: somebody/1.0\r\n\r\n",
		 "GET /x host=a 10 none | Host: a | User-Agent: somebody/1.0"},
		{"GET /x HTTP/1.2\r\nHost: a\r\nUser-Agent: somebody/1.0\r\n\r\n",
		 "505 the version is neither HTTP/1.1 nor HTTP/1.0"},
		{"GET /x HTTP/1.1\r\r\nHost: a\r\nUser-Agent: somebody/1.0\r\n\r\n",
		 "400 the version or what follows it is malformed"},
		{"GET /x?y#z HTTP/1.1\r\nHost: a\r\nUser-Agent: somebody/1.0\r\n\r\n",
		 "400 a fragment in the target"},
		{"GET /" VALUE64 "\xc3 HTTP/1.1\r\nHost: a\r\n\r\n", "400 a byte that no target has"},
		{"/x HTTP/1.1\r\nHost: a\r\nUser-Agent: somebody/1.0\r\n\r\n",
		 "400 the request line does not begin with a method and a space"},
		{"GETS /x HTTP/1.1\r\nHost: a\r\nUser-Agent: somebody/1.0\r\n\r\n",
		 "OTHER:GETS /x host=a 11 none keep | Host: a | User-Agent: somebody/1.0"},
		{"OPTIONS /x HTTP/1.1\r\nHost: a\r\nUser-Agent: somebody/1.0\r\n\r\n",
		 "OPTIONS /x host=a 11 none keep | Host: a | User-Agent: somebody/1.0"},
		{"OPTIONSX /x HTTP/1.1\r\nHost: a\r\nUser-Agent: somebody/1.0\r\n\r\n",
		 "OTHER:OPTIONSX /x host=a 11 none keep | Host: a | User-Agent: somebody/1.0"},
		{"DELETE /x HTTP/1.1\r\nHost: a\r\nUser-Agent: somebody/1.0\r\n\r\n",
		 "DELETE /x host=a 11 none keep | Host: a | User-Agent: somebody/1.0"},
	};
	expect_all(examples, COUNT(examples));
}

/* ---- limits ---- */

static void test_limits(void **state)
{
	const char *text = "GET /a/path HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\nA: b\r\n\r\n";
	const char *want = "GET /a/path host=a.example 11 none keep | Host: a.example | Accept: */* | A: b";
	uint32_t length = (uint32_t)strlen(text);
	expect_within(text, (weir_head_limits){20, length, 3}, want);
	expect_within(text, (weir_head_limits){19, length, 3}, "414 the request line is too long");
	expect_within(text, (weir_head_limits){20, length - 1, 3}, "431 the head is too long");
	expect_within(text, (weir_head_limits){20, length - 2, 3}, "431 the head is too long");
	expect_within(text, (weir_head_limits){20, length, 2}, "431 too many fields");
	expect_within(text, (weir_head_limits){20, length, 0}, "431 too many fields");
	expect_within(text, (weir_head_limits){20, 40, 3}, "431 the head is too long");
	/* More than a head can count is as much as it can count. */
	head_case of = {HEAD_REQUEST, WEIR_METHOD_OTHER, {20, length, UINT32_MAX}, text, length};
	head_expect(&of, want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_lengths),
		cmocka_unit_test(test_each_byte_in_a_line),
		cmocka_unit_test(test_odd_lines),
		cmocka_unit_test(test_nearly_known_names),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_order_of_refusals),
		cmocka_unit_test(test_what_usual_heads_mean),
		cmocka_unit_test(test_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
