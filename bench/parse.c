/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to parse a head: ours by each scanner, and http_parser where it was there at build time, with callbacks that note the places of fields as ours does.
 *
 *	parse [--head wrk|curl|api|browser|answer] [--by weir|http_parser] [--scanner plain|sse4.2|avx2] [--count N]
 *
 * Run under callgrind with two counts: the difference is what the heads between them cost.
 */
#include "common.h"

#include "http/parse.h"

#ifdef HAVE_HTTP_PARSER
#include <http_parser.h>
#endif

#define FIELDS 100

static const struct sample {
	const char *name, *text;
} samples[] = {
	{"wrk", "GET /x HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"},
	{"curl", "GET /articles/rivers.html HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: curl/7.88.1\r\n"
		 "Accept: */*\r\n\r\n"},
	{"api", "POST /api/orders?dry=1 HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: curl/7.88.1\r\n"
		"Accept: */*\r\nContent-Type: application/json\r\nContent-Length: 215\r\n\r\n"},
	{"browser",
	 "GET /articles/2024/05/how-rivers-are-held?page=2&sort=new HTTP/1.1\r\nHost: www.example.com\r\n"
	 "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:115.0) Gecko/20100101 Firefox/115.0\r\n"
	 "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n"
	 "Accept-Language: en-GB,en;q=0.7,de;q=0.3\r\nAccept-Encoding: gzip, deflate, br\r\n"
	 "Referer: https://www.example.com/articles/2024/05/\r\nConnection: keep-alive\r\n"
	 "Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=1-0-1\r\n"
	 "Upgrade-Insecure-Requests: 1\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\n"
	 "If-None-Match: \"5f3c-61a9b1c2d3e40\"\r\n\r\n"},
	{"answer", "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
		   "Content-Type: text/html; charset=utf-8\r\nContent-Length: 10240\r\n"
		   "Last-Modified: Sat, 05 Nov 1994 10:00:00 GMT\r\nConnection: keep-alive\r\n"
		   "ETag: \"36b8f-2800\"\r\nAccept-Ranges: bytes\r\n\r\n"},
};

static const char *sample_named(const char *name)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++)
		if (strcmp(samples[i].name, name) == 0)
			return samples[i].text;
	fprintf(stderr, "parse: there is no head '%s'\n", name);
	exit(2);
}

static void parse_by_weir(const char *text, size_t length, bool answer, uint64_t count)
{
	static const weir_head_limits limits = {.line_bytes = 8192, .head_bytes = 32768, .fields = FIELDS};
	static weir_head_field fields[FIELDS];
	static weir_head head;
	for (uint64_t i = 0; i < count; i++) {
		weir_head_init(&head);
		weir_parse result =
			answer ? weir_parse_answer(&head, text, length, &limits, WEIR_METHOD_GET, fields)
			       : weir_parse_request(&head, text, length, &limits, fields);
		BENCH_REQUIRE(result == WEIR_PARSE_DONE && head.length == length);
	}
}

#ifdef HAVE_HTTP_PARSER

/* As little as a server could do with: where names and values are. */
static struct notes {
	const char *text;
	weir_head_field fields[FIELDS];
	size_t count;
	uint32_t target, target_length;
	bool whole;
} notes;

static int on_url(http_parser *parser, const char *at, size_t length)
{
	notes.target = (uint32_t)(at - notes.text);
	notes.target_length = (uint32_t)length;
	return 0;
}

static int on_name(http_parser *parser, const char *at, size_t length)
{
	notes.fields[notes.count].name = (uint32_t)(at - notes.text);
	notes.fields[notes.count].name_length = (uint16_t)length;
	return 0;
}

static int on_value(http_parser *parser, const char *at, size_t length)
{
	notes.fields[notes.count].value = (uint32_t)(at - notes.text);
	notes.fields[notes.count++].value_length = (uint32_t)length;
	return 0;
}

static int on_end(http_parser *parser)
{
	notes.whole = true;
	return 1; /* no body: 1 for answers says so, and requests end here */
}

static void parse_by_peer(const char *text, size_t length, bool answer, uint64_t count)
{
	http_parser parser;
	http_parser_settings settings;
	http_parser_settings_init(&settings);
	settings.on_url = on_url;
	settings.on_header_field = on_name;
	settings.on_header_value = on_value;
	settings.on_headers_complete = on_end;
	for (uint64_t i = 0; i < count; i++) {
		notes.text = text;
		notes.count = 0;
		notes.whole = false;
		http_parser_init(&parser, answer ? HTTP_RESPONSE : HTTP_REQUEST);
		http_parser_execute(&parser, &settings, text, length);
		BENCH_REQUIRE(notes.whole);
	}
}

#else

static void parse_by_peer(const char *text, size_t length, bool answer, uint64_t count)
{
	fprintf(stderr, "parse: http_parser was not there at build time\n");
	exit(2);
}

#endif

int main(int argc, char **argv)
{
	const char *name = bench_text(argv, "head", "wrk"), *text = sample_named(name);
	const char *by = bench_text(argv, "by", "weir");
	uint64_t count = (uint64_t)bench_number(argv, "count", 1000000);
	bool answer = strcmp(name, "answer") == 0;

	BENCH_REQUIRE(count > 0);
	if (!weir_scan_force(bench_text(argv, "scanner", NULL))) {
		fprintf(stderr, "parse: this processor has no such scanner\n");
		return 2;
	}
	uint64_t begin_ns = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	(strcmp(by, "weir") == 0 ? parse_by_weir : parse_by_peer)(text, strlen(text), answer, count);
	uint64_t end_ns = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	printf("bytes %zu\nns_per_head %.1f\n", strlen(text), (double)(end_ns - begin_ns) / (double)count);
	return 0;
}
