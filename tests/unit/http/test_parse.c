/* SPDX-License-Identifier: Apache-2.0 */
#include "on_heads.h"

#include <weir/random.h>

#include "http/head.h"
#include "http/scan.h"

typedef struct example {
	const char *text, *want;
} example;

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void expect_request(const char *text, const char *want)
{
	head_case of = {HEAD_REQUEST, WEIR_METHOD_OTHER, head_usual_limits, text, strlen(text)};
	head_expect(&of, want);
}

static void expect_all(const example *examples, size_t count)
{
	for (size_t i = 0; i < count; i++)
		expect_request(examples[i].text, examples[i].want);
}

/* ---- request lines ---- */

#define HOST "\r\nHost: a\r\n\r\n"

static void test_methods(void **state)
{
	static const example examples[] = {
		{"GET / HTTP/1.1" HOST, "GET / host=a 11 none keep | Host: a"},
		{"HEAD / HTTP/1.1" HOST, "HEAD / host=a 11 none keep | Host: a"},
		{"POST / HTTP/1.1" HOST, "POST / host=a 11 none keep | Host: a"},
		{"PUT / HTTP/1.1" HOST, "PUT / host=a 11 none keep | Host: a"},
		{"DELETE / HTTP/1.1" HOST, "DELETE / host=a 11 none keep | Host: a"},
		{"OPTIONS / HTTP/1.1" HOST, "OPTIONS / host=a 11 none keep | Host: a"},
		{"PATCH / HTTP/1.1" HOST, "PATCH / host=a 11 none keep | Host: a"},
		{"TRACE / HTTP/1.1" HOST, "TRACE / host=a 11 none keep | Host: a"},
		{"PROPFIND / HTTP/1.1" HOST, "OTHER:PROPFIND / host=a 11 none keep | Host: a"},
		/* Methods have a case. */
		{"get / HTTP/1.1" HOST, "OTHER:get / host=a 11 none keep | Host: a"},
		{"GETT / HTTP/1.1" HOST, "OTHER:GETT / host=a 11 none keep | Host: a"},
		{"GE / HTTP/1.1" HOST, "OTHER:GE / host=a 11 none keep | Host: a"},
		{"!#$%&'*+-.^_`|~09azAZ / HTTP/1.1" HOST,
		 "OTHER:!#$%&'*+-.^_`|~09azAZ / host=a 11 none keep | Host: a"},
		{"A2345678901234567890123456789012 / HTTP/1.1" HOST,
		 "OTHER:A2345678901234567890123456789012 / host=a 11 none keep | Host: a"},
		{"A23456789012345678901234567890123 / HTTP/1.1" HOST, "501 the method is too long"},
		{"A2345678901234567890123456789012", "more"},
		{"A23456789012345678901234567890123", "501 the method is too long"},
	};
	expect_all(examples, COUNT(examples));
}

#define NO_METHOD "400 the request line does not begin with a method and a space"

static void test_malformed_methods(void **state)
{
	static const example examples[] = {
		{" GET / HTTP/1.1" HOST, NO_METHOD},
		{"\tGET / HTTP/1.1" HOST, NO_METHOD},
		{"G\tET / HTTP/1.1" HOST, NO_METHOD},
		{"GET\t/ HTTP/1.1" HOST, NO_METHOD},
		{"GET/ HTTP/1.1" HOST, NO_METHOD},
		{"G@T / HTTP/1.1" HOST, NO_METHOD},
		{"G\x80T / HTTP/1.1" HOST, NO_METHOD},
		{"GET\r\n", NO_METHOD},
		{"GET:/ HTTP/1.1" HOST, NO_METHOD},
		{"\"GET\" / HTTP/1.1" HOST, NO_METHOD},
		{"\x16\x03\x01\x02", NO_METHOD},
		{"\n", NO_METHOD},
		{"{}", NO_METHOD},
	};
	expect_all(examples, COUNT(examples));
}

static void test_an_empty_line_before(void **state)
{
	static const example examples[] = {
		{"\r\nGET / HTTP/1.1" HOST, "GET / host=a 11 none keep | Host: a"},
		{"\r\nPOST /x?y HTTP/1.1" HOST, "POST /x?y host=a 11 none keep | Host: a"},
		{"\r\n\r\nGET / HTTP/1.1" HOST, NO_METHOD},
		{"\nGET / HTTP/1.1" HOST, NO_METHOD},
		{"\rGET / HTTP/1.1" HOST, "400 CR without LF"},
		{"\r\r\nGET / HTTP/1.1" HOST, "400 CR without LF"},
		{"\r\n", "more"},
		{"\r", "more"},
		{"", "more"},
	};
	expect_all(examples, COUNT(examples));
}

static void test_targets(void **state)
{
	static const example examples[] = {
		{"GET /a/b HTTP/1.1" HOST, "GET /a/b host=a 11 none keep | Host: a"},
		{"GET /a?b=c&d=%20 HTTP/1.1" HOST, "GET /a?b=c&d=%20 host=a 11 none keep | Host: a"},
		{"GET /? HTTP/1.1" HOST, "GET /? host=a 11 none keep | Host: a"},
		{"GET /?? HTTP/1.1" HOST, "GET /?? host=a 11 none keep | Host: a"},
		{"GET /?a?b/c HTTP/1.1" HOST, "GET /?a?b/c host=a 11 none keep | Host: a"},
		{"GET //x//y HTTP/1.1" HOST, "GET //x//y host=a 11 none keep | Host: a"},
		{"GET /!\"$%&'()*+,-./:;<=>@[\\]^_`{|}~ HTTP/1.1" HOST,
		 "GET /!\"$%&'()*+,-./:;<=>@[\\]^_`{|}~ host=a 11 none keep | Host: a"},
		{"OPTIONS * HTTP/1.1" HOST, "OPTIONS * host=a 11 none keep | Host: a"},
		{"GET * HTTP/1.1" HOST, "400 the target * is for OPTIONS only"},
		{"OPTIONS *? HTTP/1.1" HOST, "400 the target is neither a path nor an http URL"},
		{"OPTIONS ** HTTP/1.1" HOST, "400 the target is neither a path nor an http URL"},
		{"GET a HTTP/1.1" HOST, "400 the target is neither a path nor an http URL"},
		{"GET a/b HTTP/1.1" HOST, "400 the target is neither a path nor an http URL"},
		{"GET ?x HTTP/1.1" HOST, "400 an empty target"},
		{"GET  HTTP/1.1" HOST, "400 an empty target"},
		{"GET  / HTTP/1.1" HOST, "400 an empty target"},
		{"GET /  HTTP/1.1" HOST, "400 the version or what follows it is malformed"},
		{"GET /a b HTTP/1.1" HOST, "400 the version or what follows it is malformed"},
		{"GET /#x HTTP/1.1" HOST, "400 a fragment in the target"},
		{"GET /?#x HTTP/1.1" HOST, "400 a fragment in the target"},
		{"GET /\x80 HTTP/1.1" HOST, "400 a byte that no target has"},
		{"GET /?\xff HTTP/1.1" HOST, "400 a byte that no target has"},
		{"GET /\t HTTP/1.1" HOST, "400 a byte that no target has"},
		{"GET /\x7f HTTP/1.1" HOST, "400 a byte that no target has"},
		{"GET /\x01 HTTP/1.1" HOST, "400 a byte that no target has"},
		{"GET /\r\n", "400 the request line has no version"},
		{"GET /\n", "400 the request line has no version"},
		{"GET /x", "more"},
		{"GET /x?", "more"},
	};
	expect_all(examples, COUNT(examples));
}

#define ABSOLUTE(target, host) "GET " target " HTTP/1.1\r\nHost: " host "\r\n\r\n"
#define NO_URL                 "400 the target is neither a path nor an http URL"
#define NO_AUTHORITY           "400 the target's authority is not a host"
#define DISAGREE               "400 Host disagrees with the target"

static void test_absolute_targets(void **state)
{
	static const example examples[] = {
		{ABSOLUTE("http://a.b/c?d", "a.b"), "GET /c?d host=a.b 11 none keep absolute | Host: a.b"},
		{ABSOLUTE("http://a.b", "a.b"), "GET  host=a.b 11 none keep absolute | Host: a.b"},
		{ABSOLUTE("http://a.b?c", "a.b"), "GET ?c host=a.b 11 none keep absolute | Host: a.b"},
		{ABSOLUTE("HTTP://A.b:80/", "a.B:80"),
		 "GET / host=A.b:80 11 none keep absolute | Host: a.B:80"},
		{ABSOLUTE("https://[::1]:8/", "[::1]:8"),
		 "GET / host=[::1]:8 11 none keep absolute | Host: [::1]:8"},
		{"GET http://a/x HTTP/1.0\r\n\r\n", "GET /x host=a 10 none absolute"},
		{"GET http://a/x HTTP/1.1\r\n\r\n", "400 HTTP/1.1 without Host"},
		{ABSOLUTE("http://a.b/", "a.c"), DISAGREE},
		{ABSOLUTE("http://a.b/", "a.b:80"), DISAGREE},
		{ABSOLUTE("http://a.b/", ""), DISAGREE},
		{ABSOLUTE("http://a.b/", "a.bb"), DISAGREE},
		{ABSOLUTE("http:///x", ""), NO_AUTHORITY},
		{ABSOLUTE("http://", ""), NO_AUTHORITY},
		{ABSOLUTE("http://u@a/", "a"), NO_AUTHORITY},
		{ABSOLUTE("http://a%2eb/", "a.b"), NO_AUTHORITY},
		{ABSOLUTE("http://a:x/", "a"), NO_AUTHORITY},
		{ABSOLUTE("ftp://a/", "a"), NO_URL},
		{ABSOLUTE("http:/a/", "a"), NO_URL},
		{ABSOLUTE("httpx://a/", "a"), NO_URL},
		{ABSOLUTE("ws://a/", "a"), NO_URL},
	};
	expect_all(examples, COUNT(examples));
}

#define CONNECT(target, host) "CONNECT " target " HTTP/1.1\r\nHost: " host "\r\n\r\n"
#define NO_TUNNEL             "400 the target of CONNECT is not host:port"

static void test_connect(void **state)
{
	static const example examples[] = {
		{CONNECT("a.b:443", "a.b:443"), "CONNECT  host=a.b:443 11 none keep | Host: a.b:443"},
		{CONNECT("[::1]:443", "[::1]:443"), "CONNECT  host=[::1]:443 11 none keep | Host: [::1]:443"},
		{CONNECT("a.b", "a.b"), NO_TUNNEL},
		{CONNECT("/", "a.b"), NO_TUNNEL},
		{CONNECT("a:1?x", "a:1"), NO_TUNNEL},
		{CONNECT("http://a:1/", "a:1"), NO_TUNNEL},
		{CONNECT("a.b:443", "a.c:443"), DISAGREE},
		{"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 1\r\n\r\n", "400 CONNECT with a body"},
		{"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nTransfer-Encoding: chunked\r\n\r\n",
		 "400 CONNECT with a body"},
		{"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 0\r\n\r\n",
		 "CONNECT  host=a:1 11 none keep | Host: a:1 | Content-Length: 0"},
	};
	expect_all(examples, COUNT(examples));
}

#define NO_VERSION  "400 the version or what follows it is malformed"
#define BAD_VERSION "505 the version is neither HTTP/1.1 nor HTTP/1.0"

static void test_versions(void **state)
{
	static const example examples[] = {
		{"GET / HTTP/1.0\r\n\r\n", "GET / host= 10 none"},
		{"GET / HTTP/2.0" HOST, BAD_VERSION},
		{"GET / HTTP/1.2" HOST, BAD_VERSION},
		{"GET / HTTP/0.9" HOST, BAD_VERSION},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400 the target * is for OPTIONS only"},
		{"GET / HTTP/11" HOST, NO_VERSION},
		{"GET / HTTP/1.10" HOST, NO_VERSION},
		{"GET / http/1.1" HOST, NO_VERSION},
		{"GET / HTTP/1.1 " HOST, NO_VERSION},
		{"GET / HTTP/1.1x" HOST, NO_VERSION},
		{"GET / HTTP/ 1.1" HOST, NO_VERSION},
		{"GET / HTTP/1,1" HOST, NO_VERSION},
		{"GET / HTTP/a.1" HOST, NO_VERSION},
		{"GET / HTTPS/1.1" HOST, NO_VERSION},
		{"GET / X\r\n\r\n", NO_VERSION},
		{"GET / \r\n\r\n", NO_VERSION},
		{"GET / HTTP/1.1\nHost: a\n\n", "400 LF without CR"},
		{"GET / HTTP/1.0\n\n", "400 LF without CR"},
		{"GET / HTTP/1.1\rHost: a\r\r", NO_VERSION},
		{"GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", NO_VERSION},
		{"GET / HTTP/1.", "more"},
		{"GET / HTTP/1.1", "more"},
		{"GET / HTTP/1.1\r", "more"},
		{"GET / HTTP/1.1\r\n", "more"},
		{"GET / ", "more"},
	};
	expect_all(examples, COUNT(examples));
}

/* ---- fields ---- */

#define REQUEST(fields) "GET / HTTP/1.1\r\nHost: a\r\n" fields "\r\n"
#define GOOD(rest)      "GET / host=a 11 none keep | Host: a" rest

static void test_fields(void **state)
{
	static const example examples[] = {
		{REQUEST("A: b\r\n"), GOOD(" | A: b")},
		{REQUEST("A:b\r\n"), GOOD(" | A: b")},
		{REQUEST("A:\r\n"), GOOD(" | A: ")},
		{REQUEST("A: \t \r\n"), GOOD(" | A: ")},
		{REQUEST("A: \t b \t\r\n"), GOOD(" | A: b")},
		{REQUEST("A:  b  c\td  \r\n"), GOOD(" | A: b  c\td")},
		{REQUEST("A: b\r\nA: c\r\nB: d\r\n"), GOOD(" | A: b | A: c | B: d")},
		{REQUEST("!#$%&'*+-.^_`|~09azAZ: x\r\n"), GOOD(" | !#$%&'*+-.^_`|~09azAZ: x")},
		{REQUEST("A: \x80\xff\xc3\xa9\r\n"), GOOD(" | A: \x80\xff\xc3\xa9")},
		{REQUEST("A: !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\r\n"),
		 GOOD(" | A: !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")},
		{REQUEST("A: ::\r\n"), GOOD(" | A: ::")},
		{REQUEST("A::\r\n"), GOOD(" | A: :")},
		{REQUEST("A-name-that-is-longer-than-a-vector-of-32: b\r\n"),
		 GOOD(" | A-name-that-is-longer-than-a-vector-of-32: b")},
		{REQUEST("A-name-of-just-32-bytes-with-dots: b\r\n"),
		 GOOD(" | A-name-of-just-32-bytes-with-dots: b")},
		{REQUEST("A-name-of-31-bytes-............: b\r\n"),
		 GOOD(" | A-name-of-31-bytes-............: b")},
		{REQUEST("A: a value that is longer than one vector, and longer than two of them as "
			 "well\r\nB: c\r\n"),
		 GOOD(" | A: a value that is longer than one vector, and longer than two of them as well | "
		      "B: c")},
	};
	expect_all(examples, COUNT(examples));
}

static void test_malformed_fields(void **state)
{
	static const example examples[] = {
		{REQUEST("A : b\r\n"), "400 a space before the colon"},
		{REQUEST("A\t: b\r\n"), "400 a space before the colon"},
		{REQUEST("A b: c\r\n"), "400 a space before the colon"},
		{REQUEST(" A: b\r\n"), "400 a folded line"},
		{REQUEST("\tA: b\r\n"), "400 a folded line"},
		{REQUEST("A: b\r\n c\r\n"), "400 a folded line"},
		{REQUEST("A: b\r\n \r\n"), "400 a folded line"},
		{"GET / HTTP/1.1\r\n Host: a\r\n\r\n", "400 a folded line"},
		{REQUEST(": b\r\n"), "400 a field without a name"},
		{REQUEST("A\r\n"), "400 a line without a colon"},
		{REQUEST("A\n"), "400 LF without CR"},
		{REQUEST("\n"), "400 LF without CR"},
		{REQUEST("A: b\n"), "400 LF without CR"},
		{REQUEST("A:\n"), "400 LF without CR"},
		{REQUEST("A: b\n\r\n"), "400 LF without CR"},
		{REQUEST("A: b\rB: c\r\n"), "400 CR without LF"},
		{REQUEST("A: b\r\r\n"), "400 CR without LF"},
		{REQUEST("A: b\r \r\n"), "400 CR without LF"},
		{"GET / HTTP/1.1\r\nHost: a\r\n\rX", "400 CR without LF"},
		{REQUEST("A\x80: b\r\n"), "400 a byte that no field name has"},
		{REQUEST("A@: b\r\n"), "400 a byte that no field name has"},
		{REQUEST("(A): b\r\n"), "400 a byte that no field name has"},
		{REQUEST("A/b: b\r\n"), "400 a byte that no field name has"},
		{REQUEST("\"A\": b\r\n"), "400 a byte that no field name has"},
		{REQUEST("A\x01: b\r\n"), "400 a byte that no field name has"},
		{REQUEST("A\x7f: b\r\n"), "400 a byte that no field name has"},
		{REQUEST("A: \x01\r\n"), "400 a control byte in a value"},
		{REQUEST("A: b\x0b\r\n"), "400 a control byte in a value"},
		{REQUEST("A: b\x7f\r\n"), "400 a control byte in a value"},
		{REQUEST("A: \x1b[0m\r\n"), "400 a control byte in a value"},
	};
	expect_all(examples, COUNT(examples));
}

/* Every byte at the beginning, within and at the end of name, value and target. */
static void test_every_byte(void **state)
{
	for (unsigned byte = 0; byte < 256; byte++) {
		char text[100];
		bool token = byte != 0 &&
			     (strchr("!#$%&'*+-.^_`|~", (int)byte) != NULL || (byte >= '0' && byte <= '9') ||
			      (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'));
		bool value = byte == '\t' || (byte >= ' ' && byte != 0x7f);
		bool target = byte > ' ' && byte < 0x7f && byte != '#';
		for (unsigned place = 0; place < 6; place++) {
			char name[] = "xyz", content[] = "xyz", path[] = "/abc";
			char *parts[3] = {name, content, path + 1};
			parts[place / 2][place % 2 + 1] = (char)byte;
			size_t length = 0;
			static const char *const between[] = {"GET ", " HTTP/1.0\r\n", ":", "\r\n\r\n"};
			const char *pieces[] = {between[0], path,    between[1], name,
						between[2], content, between[3]};
			for (unsigned i = 0; i < 7; i++) {
				size_t size = i == 1 ? 4 : i == 3 || i == 5 ? 3 : strlen(pieces[i]);
				memcpy(text + length, pieces[i], size);
				length += size;
			}
			head_case of = {HEAD_REQUEST, WEIR_METHOD_OTHER, head_usual_limits, text, length};
			bool good = place < 2 ? token || byte == ':' : place < 4 ? value : target;
			bool done = strncmp(head_result(&of), "GET ", 4) == 0;
			if (done != good)
				fail_msg("byte 0x%02x at place %u: %s", byte, place, head_result(&of));
		}
	}
}

/* ---- hosts ---- */

static void expect_host(const char *host, bool good)
{
	char text[200], want[200];
	snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host);
	snprintf(want, sizeof(want), "GET / host=%s 11 none keep | Host: %s", host, host);
	expect_request(text, good ? want : "400 Host is not a host");
}

static void test_hosts(void **state)
{
	static const char *const good[] = {
		"",
		"a",
		"a.b",
		"a.b.",
		"A-b_c~9.example",
		"127.0.0.1",
		"127.0.0.1:8080",
		"a:0",
		"a:65535",
		"a:00080",
		"[::1]",
		"[::1]:80",
		"[2001:db8::ff00:42:8329]",
		"[::ffff:1.2.3.4]:1",
		"xn--bcher-kva.example",
		"a-host-of-more-than-thirty-two-bytes.and.some.more.example.com:8080",
	};
	static const char *const bad[] = {
		"a b",
		"a,b",
		"a/b",
		"a@b",
		"a?b",
		"a#b",
		"a\\b",
		"a%2eb",
		"a:",
		"a:b",
		"a:80a",
		"a:80:80",
		"a:65536",
		"a:000080",
		"a:-1",
		"a: 80",
		":80",
		".",
		"..",
		".a",
		"a..b",
		"a..",
		"[",
		"[]",
		"[::1",
		"::1",
		"[::1]x",
		"[::1]:",
		"[1.2.3.4]",
		"[::1%25eth0]",
		"[v1.a]",
		"[::g]",
		"a;b",
		"a=b",
		"(a)",
		"http://a",
		"a\x80",
		"*",
		"*.a",
		"a-host-of-more-than-thirty-two-by.a..b",
		"a-host-of-thirty-one-bytes-long..b",
		"a-host-of-thirty-two-bytes-long..b",
		"a-host-of-thirty--three-bytes-long..b",
		"[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]",
	};
	for (size_t i = 0; i < COUNT(good); i++)
		expect_host(good[i], true);
	for (size_t i = 0; i < COUNT(bad); i++)
		expect_host(bad[i], false);
}

static void test_host_rules(void **state)
{
	static const example examples[] = {
		{"GET / HTTP/1.1\r\n\r\n", "400 HTTP/1.1 without Host"},
		{"GET / HTTP/1.1\r\nHosts: a\r\n\r\n", "400 HTTP/1.1 without Host"},
		{"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "400 more than one Host"},
		{"GET / HTTP/1.1\r\nHost:\r\nHOST: a\r\n\r\n", "400 more than one Host"},
		{"GET / HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n", "400 more than one Host"},
		{"GET / HTTP/1.0\r\nHost: a\r\n\r\n", "GET / host=a 10 none | Host: a"},
		{"GET / HTTP/1.1\r\nhOsT:a\r\n\r\n", "GET / host=a 11 none keep | hOsT: a"},
	};
	expect_all(examples, COUNT(examples));
}

/* ---- bodies ---- */

#define POST(fields)    "POST / HTTP/1.1\r\nHost: a\r\n" fields "\r\n"
#define POSTED(framing) "POST / host=a 11 " framing " | Host: a"
#define NO_LENGTH       "400 Content-Length is not a number of bytes"
#define NO_CODING       "501 a transfer coding other than chunked"

static void test_lengths(void **state)
{
	static const example examples[] = {
		{POST("Content-Length: 5\r\n"), POSTED("length=5 keep") " | Content-Length: 5"},
		{POST("content-length:5 \r\n"), POSTED("length=5 keep") " | content-length: 5"},
		{POST("Content-Length: 0\r\n"), POSTED("none keep") " | Content-Length: 0"},
		{POST("Content-Length: 007\r\n"), POSTED("length=7 keep") " | Content-Length: 007"},
		{POST("Content-Length: 9223372036854775807\r\n"),
		 POSTED("length=9223372036854775807 keep") " | Content-Length: 9223372036854775807"},
		{POST("Content-Length: 9223372036854775808\r\n"), NO_LENGTH},
		{POST("Content-Length: 18446744073709551616\r\n"), NO_LENGTH},
		{POST("Content-Length: 00000000000000000000\r\n"), NO_LENGTH},
		{POST("Content-Length:\r\n"), NO_LENGTH},
		{POST("Content-Length: +5\r\n"), NO_LENGTH},
		{POST("Content-Length: -5\r\n"), NO_LENGTH},
		{POST("Content-Length: 5 5\r\n"), NO_LENGTH},
		{POST("Content-Length: 5,5\r\n"), NO_LENGTH},
		{POST("Content-Length: 5, 5\r\n"), NO_LENGTH},
		{POST("Content-Length: 0x5\r\n"), NO_LENGTH},
		{POST("Content-Length: 5.0\r\n"), NO_LENGTH},
		{POST("Content-Length: 5;\r\n"), NO_LENGTH},
		{POST("Content-Length: \"5\"\r\n"), NO_LENGTH},
		{POST("Content-Length: 5\r\nContent-Length: 5\r\n"), "400 more than one Content-Length"},
		{POST("Content-Length: 5\r\nA: b\r\ncontent-LENGTH: 6\r\n"),
		 "400 more than one Content-Length"},
		{POST("Content-Lengthx: 5\r\n"), POSTED("none keep") " | Content-Lengthx: 5"},
		{POST("Content_Length: 5\r\n"), POSTED("none keep") " | Content_Length: 5"},
	};
	expect_all(examples, COUNT(examples));
}

static void test_codings(void **state)
{
	static const example examples[] = {
		{POST("Transfer-Encoding: chunked\r\n"),
		 POSTED("chunked keep") " | Transfer-Encoding: chunked"},
		{POST("transfer-encoding: ChUnKeD\r\n"),
		 POSTED("chunked keep") " | transfer-encoding: ChUnKeD"},
		{POST("Transfer-Encoding:\r\n"), "400 an empty Transfer-Encoding"},
		{POST("Transfer-Encoding: gzip\r\n"), NO_CODING},
		{POST("Transfer-Encoding: identity\r\n"), NO_CODING},
		{POST("Transfer-Encoding: gzip, chunked\r\n"), NO_CODING},
		{POST("Transfer-Encoding: chunked, gzip\r\n"), NO_CODING},
		{POST("Transfer-Encoding: chunked, chunked\r\n"), NO_CODING},
		{POST("Transfer-Encoding: chunked,\r\n"), NO_CODING},
		{POST("Transfer-Encoding: xchunked\r\n"), NO_CODING},
		{POST("Transfer-Encoding: chunkedx\r\n"), NO_CODING},
		{POST("Transfer-Encoding: \"chunked\"\r\n"), NO_CODING},
		{POST("Transfer-Encoding: chunked;a=b\r\n"), NO_CODING},
		{POST("Transfer-Encoding: chunke\xe4\r\n"), NO_CODING},
		{POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
		 "400 more than one Transfer-Encoding"},
		{POST("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
		 "400 Content-Length beside Transfer-Encoding"},
		{POST("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
		 "400 Transfer-Encoding beside Content-Length"},
		{POST("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n"),
		 "400 Transfer-Encoding beside Content-Length"},
		{POST("Transfer-Encoding : chunked\r\n"), "400 a space before the colon"},
		{POST("A: b\r\n Transfer-Encoding: chunked\r\n"), "400 a folded line"},
		{POST("Transfer-Encoding: \x0b"
		      "chunked\r\n"),
		 "400 a control byte in a value"},
		{POST("Transfer-Encoding:\r\n chunked\r\n"), "400 an empty Transfer-Encoding"},
		{"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
		 "400 Transfer-Encoding in HTTP/1.0"},
		{"POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\n",
		 "POST / host= 10 length=5 | Content-Length: 5"},
		/* What is judged first is said, whatever comes later. */
		{POST("Content-Length: x\r\nA : b\r\n"), NO_LENGTH},
	};
	expect_all(examples, COUNT(examples));
}

/* ---- what else the head says ---- */

static void test_connections(void **state)
{
	static const struct {
		const char *fields, *v11, *v10;
	} examples[] = {
		{"", " keep", ""},
		{"Connection: close\r\n", "", ""},
		{"Connection: CLOSE\r\n", "", ""},
		{"Connection: keep-alive\r\n", " keep", " keep"},
		{"Connection: Keep-Alive\r\n", " keep", " keep"},
		{"Connection: keep-alive, close\r\n", "", ""},
		{"Connection: close\r\nConnection: keep-alive\r\n", "", ""},
		{"Connection: a, ,keep-alive ,b\r\n", " keep", " keep"},
		{"Connection: \"close\"\r\n", " keep", ""},
		{"Connection: closed\r\n", " keep", ""},
		{"Connection: x-close\r\n", " keep", ""},
		{"Connection: \"a, close, b\"\r\n", " keep", ""},
		{"Proxy-Connection: close\r\n", " keep", ""},
		{"Connection: upgrade\r\n", " keep", ""},
		{"Upgrade: websocket\r\n", " keep", ""},
		{"Connection: Upgrade\r\nUpgrade: websocket\r\n", " keep upgrade", ""},
		{"Upgrade: h2c\r\nConnection: keep-alive, Upgrade\r\n", " keep upgrade", " keep"},
		{"Expect: 100-continue\r\n", " keep continue", ""},
		{"Expect: 100-Continue\r\n", " keep continue", ""},
		{"Expect: x\r\n", " keep expect-other", ""},
		{"Expect: 100-continue, x\r\n", " keep continue expect-other", ""},
		{"Expect:\r\n", " keep", ""},
		{"TE: trailers\r\n", " keep trailers", " trailers"},
		{"TE: gzip;q=0.5, Trailers\r\n", " keep trailers", " trailers"},
		{"TE: trailers;q=1\r\n", " keep", ""},
		{"TE: gzip\r\n", " keep", ""},
	};
	for (size_t i = 0; i < COUNT(examples); i++)
		for (unsigned version = 0; version < 2; version++) {
			char text[200], want[400];
			snprintf(text, sizeof(text), "GET / HTTP/1.%u\r\nHost: a\r\n%s\r\n", version,
				 examples[i].fields);
			snprintf(want, sizeof(want), "GET / host=a 1%u none%s | Host: a", version,
				 version == 1 ? examples[i].v11 : examples[i].v10);
			head_case of = {HEAD_REQUEST, WEIR_METHOD_OTHER, head_usual_limits, text,
					strlen(text)};
			if (strncmp(head_result(&of), want, strlen(want)) != 0)
				fail_msg("%s\ngives   %s\ninstead %s", text, head_result(&of), want);
		}
}

/* ---- answers ---- */

static void expect_answer(weir_method asked, const char *text, const char *want)
{
	head_case of = {HEAD_ANSWER, asked, head_usual_limits, text, strlen(text)};
	head_expect(&of, want);
}

static void test_answers(void **state)
{
	static const struct {
		weir_method asked;
		const char *text, *want;
	} examples[] = {
		{WEIR_METHOD_GET, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
		 "200 'OK' 11 length=5 keep | Content-Length: 5"},
		{WEIR_METHOD_GET, "HTTP/1.1 200 OK\r\n\r\n", "200 'OK' 11 to-end"},
		{WEIR_METHOD_GET, "HTTP/1.1 200 \r\n\r\n", "200 '' 11 to-end"},
		{WEIR_METHOD_GET, "HTTP/1.1 200\r\n\r\n", "200 '' 11 to-end"},
		{WEIR_METHOD_GET, "HTTP/1.1 999 Not \xe9 known\t!\r\n\r\n",
		 "999 'Not \xe9 known\t!' 11 to-end"},
		{WEIR_METHOD_GET, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n",
		 "200 'OK' 10 length=5 | Content-Length: 5"},
		{WEIR_METHOD_GET, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n",
		 "200 'OK' 10 length=5 keep | Content-Length: 5 | Connection: keep-alive"},
		{WEIR_METHOD_GET, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		 "200 'OK' 11 none keep | Content-Length: 0"},
		{WEIR_METHOD_GET, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		 "200 'OK' 11 chunked keep | Transfer-Encoding: chunked"},
		{WEIR_METHOD_HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
		 "200 'OK' 11 none keep | Content-Length: 5"},
		{WEIR_METHOD_HEAD, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		 "200 'OK' 11 none keep | Transfer-Encoding: chunked"},
		{WEIR_METHOD_HEAD, "HTTP/1.1 200 OK\r\n\r\n", "200 'OK' 11 none keep"},
		{WEIR_METHOD_GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
		 "304 'Not Modified' 11 none keep | Content-Length: 5"},
		{WEIR_METHOD_GET, "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
		 "304 'Not Modified' 11 none | Transfer-Encoding: chunked"},
		{WEIR_METHOD_GET, "HTTP/1.1 204 No Content\r\n\r\n", "204 'No Content' 11 none keep"},
		{WEIR_METHOD_GET, "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
		 "204 'No Content' 11 none keep | Content-Length: 0"},
		{WEIR_METHOD_GET, "HTTP/1.1 100 Continue\r\n\r\n", "100 'Continue' 11 none keep"},
		{WEIR_METHOD_GET, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
		 "103 'Early Hints' 11 none keep | Link: </a>"},
		{WEIR_METHOD_GET,
		 "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		 "101 'Switching' 11 none upgrade | Connection: Upgrade | Upgrade: websocket"},
		{WEIR_METHOD_CONNECT, "HTTP/1.1 200 OK\r\n\r\n", "200 'OK' 11 none"},
		{WEIR_METHOD_CONNECT, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
		 "200 'OK' 11 none | Content-Length: 5"},
		{WEIR_METHOD_CONNECT, "HTTP/1.1 403 No\r\nContent-Length: 5\r\n\r\n",
		 "403 'No' 11 length=5 keep | Content-Length: 5"},
		{WEIR_METHOD_GET, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n",
		 "200 'OK' 11 length=5 | Content-Length: 5 | Connection: close"},
		/* Fields of requests say nothing here. */
		{WEIR_METHOD_GET,
		 "HTTP/1.1 200 OK\r\nHost: ///\r\nHost: b\r\nExpect: x\r\nTE: trailers\r\nContent-Length: "
		 "1\r\n\r\n",
		 "200 'OK' 11 length=1 keep | Host: /// | Host: b | Expect: x | TE: trailers | "
		 "Content-Length: 1"},
		{WEIR_METHOD_GET, "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
		 "502 a body where the status allows none"},
		{WEIR_METHOD_GET, "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
		 "502 a body where the status allows none"},
		{WEIR_METHOD_GET, "HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n",
		 "502 a body where the status allows none"},
		{WEIR_METHOD_GET, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
		 "502 more than one Content-Length"},
		{WEIR_METHOD_GET, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		 "502 a transfer coding other than chunked"},
		{WEIR_METHOD_GET, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		 "502 Transfer-Encoding in HTTP/1.0"},
		{WEIR_METHOD_GET, "HTTP/1.1 200 OK\n\n", "502 LF without CR"},
		{WEIR_METHOD_GET, "HTTP/1.1 200 O\rK\r\n\r\n", "502 CR without LF"},
		{WEIR_METHOD_GET, "HTTP/1.1 200 O\x01K\r\n\r\n", "502 a control byte in the status line"},
		{WEIR_METHOD_GET, "HTTP/1.1 200 OK\r\n A: b\r\n\r\n", "502 a folded line"},
		{WEIR_METHOD_GET, "HTTP/1.1  200 OK\r\n\r\n",
		 "502 the version or what follows it is malformed"},
		{WEIR_METHOD_GET, "HTTP/1.1 20 OK\r\n\r\n",
		 "502 the version or what follows it is malformed"},
		{WEIR_METHOD_GET, "HTTP/1.1 2000 OK\r\n\r\n", "502 the status is not three digits"},
		{WEIR_METHOD_GET, "HTTP/1.1 099 OK\r\n\r\n", "502 the status is not three digits"},
		{WEIR_METHOD_GET, "HTTP/1.1 200OK\r\n\r\n", "502 the status is not three digits"},
		{WEIR_METHOD_GET, "HTTP/1.1\r\n\r\n", "502 the version or what follows it is malformed"},
		{WEIR_METHOD_GET, "HTTP/2 200 OK\r\n\r\n", "502 the version or what follows it is malformed"},
		{WEIR_METHOD_GET, "HTTP/2.0 200 OK\r\n\r\n",
		 "502 the version is neither HTTP/1.1 nor HTTP/1.0"},
		{WEIR_METHOD_GET, "\r\nHTTP/1.1 200 OK\r\n\r\n",
		 "502 the version or what follows it is malformed"},
		{WEIR_METHOD_GET, "ICY 200 OK\r\n\r\n", "502 the version or what follows it is malformed"},
		{WEIR_METHOD_GET, "HTTP/1.1 200", "more"},
		{WEIR_METHOD_GET, "HTTP/1.1 200 OK\r\nA", "more"},
	};
	for (size_t i = 0; i < COUNT(examples); i++)
		expect_answer(examples[i].asked, examples[i].text, examples[i].want);
}

/* ---- trailers ---- */

static void expect_trailers(const char *text, const char *want)
{
	head_case of = {HEAD_TRAILERS, WEIR_METHOD_OTHER, head_usual_limits, text, strlen(text)};
	head_expect(&of, want);
}

static void test_trailers(void **state)
{
	static const char *const allowed[] = {"user-agent", "referer",       "date", "server",
					      "via",        "last-modified", "etag"};
	expect_trailers("\r\n", "");
	expect_trailers("A: b\r\n\r\n", " | A: b");
	expect_trailers("Checksum: 12\r\nServer-Timing: a\r\n\r\n", " | Checksum: 12 | Server-Timing: a");
	expect_trailers("A: b\r\n c\r\n\r\n", "400 a folded line");
	expect_trailers("A : b\r\n\r\n", "400 a space before the colon");
	expect_trailers("\n", "400 LF without CR");
	expect_trailers("\rx", "400 CR without LF");
	expect_trailers("", "more");
	expect_trailers("\r", "more");
	for (unsigned id = 1; id < WEIR_FIELD_COUNT; id++) {
		char text[100], good[100];
		weir_span name = weir_field_name(id);
		bool fine = false;
		for (size_t i = 0; i < COUNT(allowed); i++)
			fine |= strlen(allowed[i]) == name.length &&
				memcmp(allowed[i], name.at, name.length) == 0;
		snprintf(text, sizeof(text), "%.*s: 1\r\n\r\n", (int)name.length, name.at);
		snprintf(good, sizeof(good), " | %.*s: 1", (int)name.length, name.at);
		expect_trailers(text, fine ? good : "400 a field that must not come as a trailer");
	}
}

/* ---- limits ---- */

static void expect_within(weir_head_limits limits, const char *text, const char *want)
{
	head_case of = {HEAD_REQUEST, WEIR_METHOD_OTHER, limits, text, strlen(text)};
	head_expect(&of, want);
}

static void test_limits(void **state)
{
	const char *text = "GET /123456 HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n";
	const char *good = "GET /123456 host=a 11 none keep | Host: a | B: c";
	weir_head_limits exact = {.line_bytes = 20, .head_bytes = (uint32_t)strlen(text), .fields = 2}, less;
	expect_within(exact, text, good);
	less = exact, less.line_bytes--;
	expect_within(less, text, "414 the request line is too long");
	less = exact, less.head_bytes--;
	expect_within(less, text, "431 the head is too long");
	less = exact, less.fields--;
	expect_within(less, text, "431 too many fields");
	less = exact, less.fields = 0;
	expect_within(less, text, "431 too many fields");
	expect_within(less, "GET / HTTP/1.0\r\n\r\n", "GET / host= 10 none");
	/* The empty line before it counts for the head but not for the line. */
	exact.head_bytes += 2;
	expect_within(exact, "\r\nGET /123456 HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n", good);
	expect_within((weir_head_limits){0}, "", "414 the first line is too long");
	for (uint32_t bytes = 1; bytes < 20; bytes++)
		expect_within((weir_head_limits){bytes, 1000, 10}, text, "414 the request line is too long");
	for (uint32_t bytes = 0; bytes < 22; bytes++)
		expect_within((weir_head_limits){1000, bytes, 10}, text, "414 the first line is too long");
	for (uint32_t bytes = 22; bytes < strlen(text); bytes++)
		expect_within((weir_head_limits){1000, bytes, 10}, text, "431 the head is too long");
}

/* Puts a text there without its end; how long it is. */
static size_t put(char *to, const char *text)
{
	size_t length = 0;
	for (; text[length] != '\0'; length++)
		to[length] = text[length];
	return length;
}

/* As soon as it is certain. */
static void test_too_long_without_an_end(void **state)
{
	static char text[100000];
	memset(text, 'a', sizeof(text));
	put(text, "GET /");
	head_case of = {HEAD_REQUEST, WEIR_METHOD_OTHER, {100, 1000, 10}, text, 92};
	assert_string_equal(head_result(&of), "414 the request line is too long");
	of.length = 91;
	assert_string_equal(head_result(&of), "more");
	put(text, "GET / HTTP/1.0\r\n");
	of.length = 999;
	assert_string_equal(head_result(&of), "more");
	of.length = 1000;
	assert_string_equal(head_result(&of), "431 the head is too long");
	of.limits.head_bytes = 100000;
	of.length = 16 + 65535;
	assert_string_equal(head_result(&of), "more");
	of.length = 16 + 65536;
	assert_string_equal(head_result(&of), "431 a name is too long");
	of.length = sizeof(text);
	text[90000] = '\n';
	assert_string_equal(head_result(&of), "431 a name is too long");
	put(text + 16 + 65536, ":\r\n\r\n");
	assert_string_equal(head_result(&of), "431 a name is too long");
	text[16 + 65535] = ':';
	memset(text + 16 + 65536, 'a', 5);
	assert_string_equal(head_result(&of), "400 LF without CR");
}

static void test_limits_of_answers(void **state)
{
	const char *text = "HTTP/1.1 200 Fine\r\nA: b\r\n\r\n";
	head_case of = {HEAD_ANSWER, WEIR_METHOD_GET, {17, (uint32_t)strlen(text), 1}, text, strlen(text)};
	head_expect(&of, "200 'Fine' 11 to-end | A: b");
	of.limits.line_bytes--;
	head_expect(&of, "502 the status line is too long");
	of.limits.line_bytes = 5;
	head_expect(&of, "502 the status line is too long");
	of.limits = (weir_head_limits){17, (uint32_t)strlen(text) - 1, 1};
	head_expect(&of, "502 the head is too long");
	of.limits = (weir_head_limits){17, 1000, 0};
	head_expect(&of, "502 too many fields");
}

/* ---- cost ---- */

static uint64_t looked_at;

#define COUNTING(kind)                                                       \
	static size_t count_##kind(const char *bytes, size_t at, size_t end) \
	{                                                                    \
		size_t stop = weir_scan_plain.kind(bytes, at, end);          \
		looked_at += stop - at + 1;                                  \
		return stop;                                                 \
	}
COUNTING(token)
COUNTING(path)
COUNTING(query)
COUNTING(host)
COUNTING(value)

/* The worst that those for usual heads can do: they look at a line, or at all there is of a first one, and do not take it. */
static size_t count_fields(weir_head *head, const char *bytes, size_t at, size_t end,
			   const weir_head_limits *limits, weir_head_field *fields, bool answer)
{
	size_t name = weir_scan_plain.token(bytes, at, end);
	size_t value = name < end && bytes[name] == ':' ? weir_scan_plain.value(bytes, name + 1, end) : name;
	looked_at += value - at + 1;
	return at;
}

static weir_parse count_request(weir_head *head, const char *bytes, size_t length,
				const weir_head_limits *limits, weir_head_field *fields,
				struct weir_recent_fields *recent)
{
	looked_at += length;
	return weir_parse_request_with_care(head, bytes, length, limits, fields, 0);
}

static const weir_scanner counting = {.name = "counting",
				      .request = count_request,
				      .fields = count_fields,
				      .token = count_token,
				      .path = count_path,
				      .query = count_query,
				      .host = count_host,
				      .value = count_value};

static uint64_t cost_of_dribble(const char *text, size_t length)
{
	static weir_head_field fields[HEAD_FIELDS_MAX];
	weir_parse result = WEIR_PARSE_MORE;
	weir_head head;
	weir_head_limits limits = {GUARD_ROOM, GUARD_ROOM, HEAD_FIELDS_MAX};
	weir_scan_use(&counting);
	looked_at = 0;
	weir_head_init(&head);
	for (size_t some = 0; some <= length && result == WEIR_PARSE_MORE; some++)
		result = weir_parse_request(&head, text, some, &limits, fields);
	weir_scan_force(NULL);
	assert_int_equal(result, WEIR_PARSE_DONE);
	return looked_at;
}

/* A long target, name, value, or many short fields, byte by byte: each byte is looked at a few times, not once a call. */
static void test_dribbling_is_linear(void **state)
{
	static char text[70000];
	static const struct {
		const char *before, *after;
	} shapes[] = {
		{"GET /", " HTTP/1.0\r\n\r\n"},
		{"GET /?", " HTTP/1.0\r\n\r\n"},
		{"GET / HTTP/1.0\r\nA", ": b\r\n\r\n"},
		{"GET / HTTP/1.0\r\nA: b", "\r\n\r\n"},
		{"GET / HTTP/1.0\r\nA: b\r\nCookie: x", "\r\nB: c\r\n\r\n"},
	};
	for (size_t i = 0; i < COUNT(shapes); i++) {
		size_t length = put(text, shapes[i].before);
		memset(text + length, 'a', 60000);
		length += 60000;
		length += put(text + length, shapes[i].after);
		assert_true(cost_of_dribble(text, length) < 6 * length + 1000);
	}
}

/* ---- random changes ---- */

static const char *const seeds[] = {
	"GET /articles?page=2 HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: x\r\nConnection: keep-alive, "
	"Upgrade\r\nUpgrade: a\r\n\r\n",
	"POST http://a.b/c HTTP/1.1\r\nHost: a.b\r\nContent-Length: 12\r\nExpect: 100-continue\r\nTE: "
	"trailers\r\n\r\n",
	"\r\nPUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nHost: [::1]:80\r\n\r\n",
};

/* Whatever comes: all scanners and all cuts agree. */
static void test_random_changes(void **state)
{
	static const char interesting[] = "\r\n\t :;,?#/*\0\x7f\x80\xff"
					  "09azAZ-._~[]%@";
	weir_random random;
	weir_random_init(&random, 7);
	for (unsigned round = 0; round < 300; round++) {
		char text[300];
		const char *seed = seeds[weir_random_below(&random, COUNT(seeds))];
		size_t length = put(text, seed);
		for (uint64_t changes = weir_random_below(&random, 4); changes > 0; changes--)
			text[weir_random_below(&random, length)] =
				interesting[weir_random_below(&random, sizeof(interesting) - 1)];
		head_case of = {HEAD_REQUEST, WEIR_METHOD_OTHER, head_usual_limits, text, length};
		head_result(&of);
	}
}

static void test_bad_stays_bad(void **state)
{
	weir_head head;
	weir_head_field fields[4];
	weir_head_init(&head);
	assert_int_equal(weir_parse_request(&head, "GET\n", 4, &head_usual_limits, fields), WEIR_PARSE_BAD);
	const char *good = "GET / HTTP/1.0\r\n\r\n";
	assert_int_equal(weir_parse_request(&head, good, strlen(good), &head_usual_limits, fields),
			 WEIR_PARSE_BAD);
	assert_int_equal(head.status, 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_methods),
		cmocka_unit_test(test_malformed_methods),
		cmocka_unit_test(test_an_empty_line_before),
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_absolute_targets),
		cmocka_unit_test(test_connect),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_malformed_fields),
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_host_rules),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_codings),
		cmocka_unit_test(test_connections),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_trailers),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_too_long_without_an_end),
		cmocka_unit_test(test_limits_of_answers),
		cmocka_unit_test(test_dribbling_is_linear),
		cmocka_unit_test(test_random_changes),
		cmocka_unit_test(test_bad_stays_bad),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
