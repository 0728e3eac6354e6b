/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 from clients that do not play by its rules: heads, frames, floods, silence. */
#include "on_h2.h"

#include "http/h2_guard.h"

static void count_data(weir_request *request, weir_buf *buf, size_t offset, size_t length, void *arg)
{
	site *s = arg;
	s->data_bytes += length;
}

static void note_end(weir_request *request, void *arg)
{
	site *s = arg;
	s->ends++;
	weir_request_reply_text(request, 200, WEIR_SPAN("read"));
}

static void gone(weir_request *request, void *arg)
{
	site *s = arg;
	s->gone++;
	weir_request_abort(request);
}

static void page_read(site *s, weir_request *request)
{
	static const weir_body_ops ops = {.data = count_data, .end = note_end};
	weir_hold(weir_request_event(request));
	weir_request_on_gone(request, gone, s);
	weir_request_read(request, &ops, s);
}

static void page_stay(site *s, weir_request *request)
{
	weir_hold(weir_request_event(request));
	weir_request_on_gone(request, gone, s);
}

static const page pages[] = {PAGE("/hello", page_hello), PAGE("/read", page_read), PAGE("/stay", page_stay),
			     PAGE("*", page_hello), NO_PAGE};

#define SITE(...)                                            \
	{                                                    \
		.pages = pages, .http2 = true, ##__VA_ARGS__ \
	}

/* ---- heads ---- */

enum outcome {
	OK,      /* answered by the page */
	REFUSED, /* answered, by the server */
	RESET,   /* no answer but RST_STREAM */
	ENDED,   /* no more connection */
};

typedef struct head_case {
	const char *what;
	const char *fields[20];
	enum outcome outcome;
} head_case;

#define M   ":method", "GET"
#define S   ":scheme", "http"
#define P   ":path", "/hello"
#define A   ":authority", "a"
#define ALL M, S, P, A

static const head_case heads[] = {
	{"everyday", {ALL, "x", "y"}, OK},
	{"https is a scheme too", {M, ":scheme", "https", P, A}, OK},
	{"Host instead of authority", {M, S, P, "host", "a"}, OK},
	{"Host as authority", {ALL, "host", "a"}, OK},
	{"Host as authority but for case", {ALL, "host", "A"}, OK},
	{"authority with port", {M, S, P, ":authority", "a.b:80"}, OK},
	{"IPv6", {M, S, P, ":authority", "[::1]:80"}, OK},
	{"OPTIONS *", {":method", "OPTIONS", S, ":path", "*", A}, OK},
	{"te: trailers", {ALL, "te", "trailers"}, OK},
	{"length 0", {ALL, "content-length", "0"}, OK},
	{"empty value", {ALL, "x", ""}, OK},
	{"a value with a tab within", {ALL, "x", "a\tb"}, OK},
	{"a value with bytes beyond ASCII", {ALL, "x", "\xc3\xa4"}, OK},
	{"query", {M, S, ":path", "/hello?a=b?c", A}, OK},
	{"unknown method", {":method", "PURGE", S, P, A}, OK},
	{"priority", {ALL, "priority", "u=0, i"}, OK},
	{"malformed priority is ignored", {ALL, "priority", "u=9;;;"}, OK},
	{"expect", {ALL, "expect", "100-continue"}, OK},

	{"no method", {S, P, A}, RESET},
	{"no scheme", {M, P, A}, RESET},
	{"no path", {M, S, A}, RESET},
	{"two methods", {M, M, S, P, A}, RESET},
	{"two paths", {M, S, P, P, A}, RESET},
	{"two schemes", {M, S, S, P, A}, RESET},
	{"two authorities", {ALL, A}, RESET},
	{"pseudo field behind others", {M, S, "x", "y", P, A}, RESET},
	{"unknown pseudo field", {ALL, ":x", "y"}, RESET},
	{"status in a request", {ALL, ":status", "200"}, RESET},
	{"protocol without having been offered it",
	 {":method", "CONNECT", ":protocol", "websocket", S, P, A},
	 RESET},
	{"capitals in a name", {ALL, "X", "y"}, RESET},
	{"capitals within a name", {ALL, "xY", "y"}, RESET},
	{"empty name", {ALL, "", "y"}, RESET},
	{"space in a name", {ALL, "x y", "z"}, RESET},
	{"colon in a name", {ALL, "x:y", "z"}, RESET},
	{"control byte in a name", {ALL, "x\x01", "z"}, RESET},
	{"byte beyond ASCII in a name", {ALL, "x\xe4", "z"}, RESET},
	{"CR in a value", {ALL, "x", "a\rb"}, RESET},
	{"LF in a value", {ALL, "x", "a\nb"}, RESET},
	{"CRLF in a value", {ALL, "x", "a\r\nhost: b"}, RESET},
	{"control byte in a value", {ALL, "x", "a\x01"}, RESET},
	{"DEL in a value", {ALL, "x", "a\x7f"}, RESET},
	{"space before a value", {ALL, "x", " a"}, RESET},
	{"space behind a value", {ALL, "x", "a "}, RESET},
	{"tab behind a value", {ALL, "x", "a\t"}, RESET},
	{"connection", {ALL, "connection", "close"}, RESET},
	{"keep-alive", {ALL, "keep-alive", "1"}, RESET},
	{"proxy-connection", {ALL, "proxy-connection", "close"}, RESET},
	{"transfer-encoding", {ALL, "transfer-encoding", "chunked"}, RESET},
	{"transfer-encoding identity", {ALL, "transfer-encoding", "identity"}, RESET},
	{"upgrade", {ALL, "upgrade", "h2c"}, RESET},
	{"te: gzip", {ALL, "te", "gzip"}, RESET},
	{"te: trailers, gzip", {ALL, "te", "trailers, gzip"}, RESET},
	{"length that is none", {ALL, "content-length", "x"}, RESET},
	{"negative length", {ALL, "content-length", "-1"}, RESET},
	{"length with a plus", {ALL, "content-length", "+1"}, RESET},
	{"two lengths", {ALL, "content-length", "0", "content-length", "0"}, RESET},
	{"a list of lengths", {ALL, "content-length", "0, 0"}, RESET},
	{"length without a body", {ALL, "content-length", "1"}, RESET},
	{"huge length", {ALL, "content-length", "18446744073709551616"}, RESET},
	{"empty length", {ALL, "content-length", ""}, RESET},
	{"empty method", {":method", "", S, P, A}, RESET},
	{"space in a method", {":method", "GET /", S, P, A}, RESET},
	{"empty path", {M, S, ":path", "", A}, RESET},
	{"relative path", {M, S, ":path", "hello", A}, RESET},
	{"URL as path", {M, S, ":path", "http://a/hello", A}, RESET},
	{"* for GET", {M, S, ":path", "*", A}, RESET},
	{"CR in a path", {M, S, ":path", "/a\rb", A}, RESET},
	{"LF in a path", {M, S, ":path", "/a\nb", A}, RESET},
	{"space in an authority", {M, S, P, ":authority", "a b"}, RESET},
	{"CONNECT with a path", {":method", "CONNECT", S, P, A}, RESET},

	{"neither authority nor Host", {M, S, P}, RESET},
	{"Host disagrees", {ALL, "host", "b"}, REFUSED},
	{"Host disagrees in its port", {M, S, P, ":authority", "a:80", "host", "a"}, REFUSED},
	{"two Hosts", {M, S, P, "host", "a", "host", "a"}, RESET},
	{"Host that is none", {M, S, P, "host", "a/b"}, RESET},
	{"userinfo in an authority", {M, S, P, ":authority", "u@a"}, REFUSED},
	{"path in an authority", {M, S, P, ":authority", "a/b"}, RESET},
	{"port that is none", {M, S, P, ":authority", "a:x"}, REFUSED},
	{"port too large", {M, S, P, ":authority", "a:65536"}, REFUSED},
	{"half an IPv6 address", {M, S, P, ":authority", "[::1"}, REFUSED},
	{"no IPv6 address", {M, S, P, ":authority", "[x]"}, REFUSED},
	{"dots in an authority", {M, S, P, ":authority", "a..b"}, REFUSED},
	{"another scheme", {M, ":scheme", "ftp", P, A}, REFUSED},
	{"a fragment", {M, S, ":path", "/hello#x", A}, REFUSED},
	{"space in a path", {M, S, ":path", "/a b", A}, RESET},
	{"byte beyond ASCII in a path", {M, S, ":path", "/\xc3\xa4", A}, REFUSED},
	{"byte beyond ASCII in a query", {M, S, ":path", "/?\xc3\xa4", A}, REFUSED},
	{"path that leaves the root", {M, S, ":path", "/../x", A}, REFUSED},
	{"escape that is none", {M, S, ":path", "/x%zz", A}, REFUSED},
	{"* with a query", {":method", "OPTIONS", S, ":path", "*?a", A}, RESET},
	{"long method", {":method", "METHODMETHODMETHODMETHODMETHODMETHOD", S, P, A}, REFUSED},
	{"CONNECT", {":method", "CONNECT", ":authority", "a:80"}, REFUSED},
};

static enum outcome outcome_of(site *s, const head_case *at)
{
	frames *f = calloc(1, sizeof(*f));
	int fd = dial(s);
	unsigned handled = s->handled;
	put_hello(f);
	put_headers(f, END_BOTH, 1, at->fields);
	say_frames(fd, f);
	free(f);
	replies r = hear_frames(fd, HEAR_FATE, 0);
	close(fd);
	if (r.end || r.goaways > 0)
		return ENDED;
	if (r.resets > 0)
		return r.reset_code == NGHTTP2_PROTOCOL_ERROR || r.reset_code == NGHTTP2_INTERNAL_ERROR
			       ? RESET
			       : ENDED;
	return s->handled > handled ? OK : REFUSED;
}

static void heads_are_judged(void **state)
{
	skip_without(state);
	static const char *const names[] = {"answered", "refused", "reset", "the end"};
	unsigned wrong = 0;
	site s = SITE();
	site_open(&s);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		enum outcome outcome = outcome_of(&s, &heads[i]);
		if (outcome == heads[i].outcome)
			continue;
		printf("%s: %s, not %s\n", heads[i].what, names[outcome], names[heads[i].outcome]);
		wrong++;
	}
	assert_int_equal(wrong, 0);
	assert_true(site_stats(&s).malformed > 60);
	site_end(&s);
}

/* Every cut of a head into CONTINUATION frames is the same head. */
static void heads_may_come_in_parts(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	frames *block = calloc(1, sizeof(*block)), *f = calloc(1, sizeof(*f));
	for (const char *const *at = FIELDS(H2_GET_FIELDS("/hello"), "x", "y"); *at != NULL; at += 2)
		put_field(block, at[0], at[1]);
	for (size_t cut = 0; cut <= block->length; cut += 7) {
		int fd = dial(&s);
		f->length = 0;
		put_hello(f);
		put_frame(f, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, block->bytes, cut);
		put_frame(f, NGHTTP2_CONTINUATION, 0, 1, "", 0);
		put_frame(f, NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, block->bytes + cut,
			  block->length - cut);
		for (size_t i = 0; i < f->length; i += 5)
			say_bytes(fd, f->bytes + i, f->length - i < 5 ? f->length - i : 5);
		replies r = hear_frames(fd, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM);
		assert_int_equal(r.headers, 1);
		assert_false(r.end);
		close(fd);
	}
	free(f);
	free(block);
	site_end(&s);
}

static void too_large_heads_are_refused(void **state)
{
	skip_without(state);
	site s = SITE(.limits = {.line_bytes = 1000, .head_bytes = 2000, .fields = 20});
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	const char *many[60] = {NULL};
	for (size_t i = 0; i < 21; i++) {
		many[2 * i] = "x";
		many[2 * i + 1] = "y";
	}
	h2_answer *a = h2_ask_with(c, "GET", "/hello", many, false, (h2_answer){0});
	char value[2000];
	memset(value, 'v', sizeof(value));
	value[1999] = '\0';
	h2_answer *b = h2_ask_with(c, "GET", "/hello", FIELDS("x", value), false, (h2_answer){0});
	many[40] = NULL;
	h2_answer *d = h2_ask_with(c, "GET", "/hello", many, false, (h2_answer){0});
	H2_UNTIL(c, c->closed == 3);
	assert_int_equal(a->status, 431);
	assert_int_equal(b->status, 431);
	assert_int_equal(d->status, 200);
	assert_string_equal(b->body, "the head is too long");
	/* Much too large is not read to the end. */
	for (size_t i = 0; i < 6; i++) {
		many[2 * i] = "x";
		many[2 * i + 1] = value;
	}
	many[12] = NULL;
	h2_ask_with(c, "GET", "/hello", many, false, (h2_answer){0});
	H2_UNTIL_GONE(c);
	assert_int_equal(c->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
	h2_end(c);
	site_end(&s);
}

/* ---- bodies ---- */

typedef struct body_case {
	const char *what, *length;
	const char *parts[3]; /* of DATA; the last has END_STREAM */
	const char *trailer, *value;
	bool good;
} body_case;

static const body_case bodies[] = {
	{"as announced", "3", {"abc"}, NULL, NULL, true},
	{"in parts", "3", {"a", "bc"}, NULL, NULL, true},
	{"with an empty end", "3", {"abc", ""}, NULL, NULL, true},
	{"without a length", NULL, {"abc"}, NULL, NULL, true},
	{"with a trailer", "3", {"abc"}, "x-sum", "1", true},
	{"too short", "4", {"abc"}, NULL, NULL, false},
	{"too long", "2", {"abc"}, NULL, NULL, false},
	{"too long in parts", "2", {"a", "b", "c"}, NULL, NULL, false},
	{"too short before a trailer", "4", {"abc"}, "x-sum", "1", false},
	{"a length as a trailer", NULL, {"abc"}, "content-length", "3", false},
	{"a host as a trailer", NULL, {"abc"}, "host", "b", false},
	{"a pseudo field as a trailer", NULL, {"abc"}, ":path", "/b", false},
	{"an authorization as a trailer", NULL, {"abc"}, "authorization", "x", false},
	{"capitals in a trailer", NULL, {"abc"}, "X-Sum", "1", false},
};

static bool body_is_taken(site *s, const body_case *at)
{
	frames *f = calloc(1, sizeof(*f));
	int fd = dial(s);
	unsigned ends = s->ends;
	put_hello(f);
	put_headers(f, NGHTTP2_FLAG_END_HEADERS, 1,
		    FIELDS(":method", "POST", S, ":path", "/read", A,
			   at->length != NULL ? "content-length" : "x",
			   at->length != NULL ? at->length : "y"));
	for (size_t i = 0; i < 3 && at->parts[i] != NULL; i++) {
		bool last = (i == 2 || at->parts[i + 1] == NULL) && at->trailer == NULL;
		put_frame(f, NGHTTP2_DATA, last ? NGHTTP2_FLAG_END_STREAM : 0, 1, at->parts[i],
			  strlen(at->parts[i]));
	}
	if (at->trailer != NULL)
		put_headers(f, END_BOTH, 1, FIELDS(at->trailer, at->value));
	say_frames(fd, f);
	free(f);
	replies r = hear_frames(fd, HEAR_FATE, 0);
	assert_false(r.end);
	assert_int_equal(r.goaways, 0);
	close(fd);
	return s->ends > ends;
}

static void bodies_are_judged(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
		if (body_is_taken(&s, &bodies[i]) != bodies[i].good)
			fail_msg("%s: %s", bodies[i].what, bodies[i].good ? "not taken" : "taken");
	CHECK_EVENTUALLY(site_stats(&s).busy == 0);
	site_end(&s);
}

/* ---- frames ---- */

typedef struct frame_case {
	const char *what;
	uint8_t type, flags;
	uint32_t id;
	const char *payload;
	size_t length;
	bool open; /* stream 1 is open */
	uint32_t code;
	bool stream; /* only the stream ends */
} frame_case;

static const frame_case wrong_frames[] = {
	{"DATA on stream 0", NGHTTP2_DATA, 0, 0, "x", 1, true, NGHTTP2_PROTOCOL_ERROR, false},
	{"DATA on an idle stream", NGHTTP2_DATA, 0, 7, "x", 1, false, NGHTTP2_PROTOCOL_ERROR, false},
	{"DATA with too much padding", NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, "\x09x", 2, true,
	 NGHTTP2_PROTOCOL_ERROR, false},
	{"HEADERS on stream 0", NGHTTP2_HEADERS, END_BOTH, 0, "\x82", 1, false, NGHTTP2_PROTOCOL_ERROR,
	 false},
	{"HEADERS on an even stream", NGHTTP2_HEADERS, END_BOTH, 2, "\x82", 1, false, NGHTTP2_PROTOCOL_ERROR,
	 false},
	{"HEADERS with an index of nothing", NGHTTP2_HEADERS, END_BOTH, 1, "\xff\xff\x7f", 3, false,
	 NGHTTP2_COMPRESSION_ERROR, false},
	{"HEADERS with half a field", NGHTTP2_HEADERS, END_BOTH, 1, "\x00\x05x", 3, false,
	 NGHTTP2_COMPRESSION_ERROR, false},
	{"HEADERS that depend on themselves", NGHTTP2_HEADERS, END_BOTH | NGHTTP2_FLAG_PRIORITY, 1,
	 "\0\0\0\1\1\x82", 6, false, NGHTTP2_PROTOCOL_ERROR, false},
	{"CONTINUATION without HEADERS", NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, "\x82", 1, false,
	 NGHTTP2_PROTOCOL_ERROR, false},
	{"SETTINGS on a stream", NGHTTP2_SETTINGS, 0, 1, "", 0, false, NGHTTP2_PROTOCOL_ERROR, false},
	{"SETTINGS of five bytes", NGHTTP2_SETTINGS, 0, 0, "\0\1\0\0\0", 5, false, NGHTTP2_FRAME_SIZE_ERROR,
	 false},
	{"SETTINGS with push of 2", NGHTTP2_SETTINGS, 0, 0, "\0\2\0\0\0\2", 6, false, NGHTTP2_PROTOCOL_ERROR,
	 false},
	{"SETTINGS with a window too large", NGHTTP2_SETTINGS, 0, 0, "\0\4\x80\0\0\0", 6, false,
	 NGHTTP2_FLOW_CONTROL_ERROR, false},
	{"SETTINGS with frames too small", NGHTTP2_SETTINGS, 0, 0, "\0\5\0\0\0\1", 6, false,
	 NGHTTP2_PROTOCOL_ERROR, false},
	{"an acknowledgement with settings", NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, "\0\4\0\0\0\1", 6, false,
	 NGHTTP2_FRAME_SIZE_ERROR, false},
	{"PING on a stream", NGHTTP2_PING, 0, 1, "12345678", 8, false, NGHTTP2_PROTOCOL_ERROR, false},
	{"PING of seven bytes", NGHTTP2_PING, 0, 0, "1234567", 7, false, NGHTTP2_FRAME_SIZE_ERROR, false},
	{"RST_STREAM on stream 0", NGHTTP2_RST_STREAM, 0, 0, "\0\0\0\0", 4, false, NGHTTP2_PROTOCOL_ERROR,
	 false},
	{"RST_STREAM on an idle stream", NGHTTP2_RST_STREAM, 0, 9, "\0\0\0\0", 4, false,
	 NGHTTP2_PROTOCOL_ERROR, false},
	{"RST_STREAM of three bytes", NGHTTP2_RST_STREAM, 0, 1, "\0\0\0", 3, true, NGHTTP2_FRAME_SIZE_ERROR,
	 false},
	{"WINDOW_UPDATE by 0", NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\0", 4, false, NGHTTP2_PROTOCOL_ERROR,
	 false},
	{"WINDOW_UPDATE beyond the largest", NGHTTP2_WINDOW_UPDATE, 0, 0, "\x7f\xff\xff\xff", 4, false,
	 NGHTTP2_FLOW_CONTROL_ERROR, false},
	{"WINDOW_UPDATE of three bytes", NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\1", 3, false,
	 NGHTTP2_FRAME_SIZE_ERROR, false},
	{"WINDOW_UPDATE of an idle stream", NGHTTP2_WINDOW_UPDATE, 0, 9, "\0\0\0\1", 4, false,
	 NGHTTP2_PROTOCOL_ERROR, false},
	{"PUSH_PROMISE by a client", NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1, "\0\0\0\2\x82", 5,
	 true, NGHTTP2_PROTOCOL_ERROR, false},
	{"GOAWAY on a stream", NGHTTP2_GOAWAY, 0, 1, "\0\0\0\0\0\0\0\0", 8, false, NGHTTP2_PROTOCOL_ERROR,
	 false},
	{"a stream's WINDOW_UPDATE by 0", NGHTTP2_WINDOW_UPDATE, 0, 1, "\0\0\0\0", 4, true,
	 NGHTTP2_PROTOCOL_ERROR, false},
	{"a stream's WINDOW_UPDATE beyond the largest", NGHTTP2_WINDOW_UPDATE, 0, 1, "\x7f\xff\xff\xff", 4,
	 true, NGHTTP2_FLOW_CONTROL_ERROR, true},
};

static void check_frame(site *s, const frame_case *at)
{
	frames *f = calloc(1, sizeof(*f));
	int fd = dial(s);
	uint64_t gone_before = site_stats(s).gone;
	put_hello(f);
	if (at->open)
		put_headers(f, NGHTTP2_FLAG_END_HEADERS, 1,
			    FIELDS(":method", "POST", S, ":path", "/stay", A));
	put_frame(f, at->type, at->flags, at->id, at->payload, at->length);
	say_frames(fd, f);
	free(f);
	replies r = hear_frames(fd, at->stream ? HEAR_FATE : -1, 0);
	uint32_t code = at->stream ? r.reset_code : r.goaway_code;
	if (at->stream ? r.resets != 1 || r.end : r.goaways != 1 || !r.end)
		fail_msg("%s: %u resets, %u goaways%s", at->what, r.resets, r.goaways,
			 r.end ? ", the end" : "");
	if (code != at->code)
		fail_msg("%s: code %u, not %u", at->what, code, at->code);
	close(fd);
	/* Its handler may not have seen it yet. */
	if (at->open)
		CHECK_EVENTUALLY(site_stats(s).gone == gone_before + 1 && site_stats(s).busy == 0);
}

static void frames_are_judged(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	for (size_t i = 0; i < sizeof(wrong_frames) / sizeof(wrong_frames[0]); i++)
		check_frame(&s, &wrong_frames[i]);
	site_end(&s);
}

/* What begins otherwise is HTTP/1, and wrong as such, or nothing at all. */
static void prefaces_are_judged(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	char *text = ask(&s, "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
	check_contains(text, "HTTP/1.1 400 ");
	free(text);
	/* In parts it is the preface all the same. */
	int fd = dial(&s);
	frames *f = calloc(1, sizeof(*f));
	put_hello(f);
	put_ping(f);
	for (size_t i = 0; i < f->length; i++)
		say_bytes(fd, f->bytes + i, 1);
	replies r = hear_frames(fd, NGHTTP2_PING, NGHTTP2_FLAG_ACK);
	assert_false(r.end);
	close(fd);
	/* No settings behind it. */
	fd = dial(&s);
	f->length = 24;
	put_ping(f);
	say_frames(fd, f);
	r = hear_frames(fd, -1, 0);
	assert_int_equal(r.goaway_code, NGHTTP2_PROTOCOL_ERROR);
	close(fd);
	free(f);
	site_end(&s);
	/* A listener without HTTP/2 takes none. */
	site plain = {.pages = pages};
	site_open(&plain);
	text = ask(&plain, H2_PREFACE);
	check_contains(text, "HTTP/1.1 400 ");
	free(text);
	site_end(&plain);
}

/* ---- floods ---- */

typedef void put_fn(frames *f, unsigned i);

static void flood_pings(frames *f, unsigned i)
{
	put_ping(f);
}

static void flood_settings(frames *f, unsigned i)
{
	put_frame(f, NGHTTP2_SETTINGS, 0, 0, "\0\3\0\0\0\1", 6);
}

static void flood_priority(frames *f, unsigned i)
{
	put_frame(f, NGHTTP2_PRIORITY, 0, 2 * i + 3, "\0\0\0\0\1", 5);
}

static void flood_windows(frames *f, unsigned i)
{
	put_frame(f, NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\1", 4);
}

static void flood_empty_data(frames *f, unsigned i)
{
	if (i == 0)
		put_headers(f, NGHTTP2_FLAG_END_HEADERS, 1,
			    FIELDS(":method", "POST", S, ":path", "/read", A));
	put_frame(f, NGHTTP2_DATA, 0, 1, "", 0);
}

/* Every type above PRIORITY_UPDATE in turn, on no stream, one that is not open, and one that never will be. */
static void flood_unknown(frames *f, unsigned i)
{
	put_frame(f, (uint8_t)(0x11 + i % 239), (uint8_t)i, i % 3, "greasy", i % 7);
}

static void flood_resets(frames *f, unsigned i)
{
	put_headers(f, END_BOTH, 2 * i + 1, FIELDS(H2_GET_FIELDS("/stay")));
	put_frame(f, NGHTTP2_RST_STREAM, 0, 2 * i + 1, "\0\0\0\x08", 4);
}

/* The client makes the server reset: a window beyond the largest. */
static void flood_made_resets(frames *f, unsigned i)
{
	put_headers(f, NGHTTP2_FLAG_END_HEADERS, 2 * i + 1, FIELDS(H2_GET_FIELDS("/stay")));
	put_frame(f, NGHTTP2_WINDOW_UPDATE, 0, 2 * i + 1, "\x7f\xff\xff\xff", 4);
}

static void flood_malformed(frames *f, unsigned i)
{
	put_headers(f, END_BOTH, 2 * i + 1, FIELDS(M, S, P, A, "X", "y"));
}

static void flood_continuation(frames *f, unsigned i)
{
	if (i == 0)
		put_frame(f, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, "\x82", 1);
	put_frame(f, NGHTTP2_CONTINUATION, 0, 1, "", 0);
}

/* Fields of which each is a byte, and 100 when it is out. */
static void flood_fields(frames *f, unsigned i)
{
	static const char value[] = "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"
				    "vvvvvvvvvvvvvvvvvvvvvvvvvvvv";
	frames *block = calloc(1, sizeof(*block));
	if (i > 0) {
		free(block);
		return;
	}
	put_raw(block, "\x40\x01x\x64", 4);
	put_raw(block, value, 100);
	for (int n = 0; n < 10000; n++)
		put_raw(block, "\xbe", 1);
	put_frame(f, NGHTTP2_HEADERS, END_BOTH, 1, block->bytes, block->length);
	free(block);
}

static const struct {
	const char *what;
	put_fn *put;
	unsigned frames;
} floods[] = {
	{"PING", flood_pings, 3000},
	{"SETTINGS", flood_settings, 3000},
	{"PRIORITY", flood_priority, 3000},
	{"WINDOW_UPDATE", flood_windows, 3000},
	{"empty DATA", flood_empty_data, 3000},
	{"unknown types", flood_unknown, 3000},
	{"resets", flood_resets, 600},
	{"resets that the client brings about", flood_made_resets, 600},
	{"malformed heads", flood_malformed, 600},
	{"CONTINUATION", flood_continuation, 100},
	{"fields", flood_fields, 1},
};

static void floods_are_stopped(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	frames *f = calloc(1, sizeof(*f));
	for (size_t i = 0; i < sizeof(floods) / sizeof(floods[0]); i++) {
		int fd = dial(&s);
		unsigned long malformed = site_stats(&s).malformed;
		f->length = 0;
		put_hello(f);
		for (unsigned n = 0; n < floods[i].frames; n++) {
			floods[i].put(f, n);
			if (f->length > sizeof(f->bytes) - 32768) {
				say_frames(fd, f);
				f->length = 0;
			}
		}
		say_frames(fd, f);
		replies r = hear_frames(fd, -1, 0);
		if (r.goaways != 1 || r.goaway_code != NGHTTP2_ENHANCE_YOUR_CALM)
			fail_msg("%s: %u GOAWAY, code %u", floods[i].what, r.goaways, r.goaway_code);
		close(fd);
		assert_true(site_stats(&s).malformed > malformed);
	}
	CHECK_EVENTUALLY(site_stats(&s).open == 0 && site_stats(&s).busy == 0);
	free(f);
	site_end(&s);
}

/* What a busy client sends of the same frames is no flood. */
static void busy_clients_are_no_flood(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	for (unsigned i = 0; i < 300; i++) {
		for (unsigned n = 0; n < 2; n++)
			nghttp2_submit_ping(c->session, 0, NULL);
		assert_string_equal(h2_get(c, "/hello")->body, "hello");
		/* As many resets as streams are allowed at once, and some more. */
		if (i < 200) {
			h2_answer *a = h2_ask(c, "/stay");
			H2_UNTIL(c, s.gone == i && s.handled >= 2 * i + 2);
			nghttp2_submit_rst_stream(c->session, 0, a->id, NGHTTP2_CANCEL);
			H2_UNTIL(c, s.gone == i + 1);
		}
	}
	assert_false(c->gone);
	h2_end(c);
	site_end(&s);
}

/* Types that nobody knows are skipped, with what they bring; among them those of RFC 7838 and 8336, which are not for servers. */
static void unknown_frames_are_skipped(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	frames *f = calloc(1, sizeof(*f));
	int fd = dial(&s);
	put_hello(f);
	put_frame(f, NGHTTP2_ALTSVC, 0, 0, "\0\1ah2", 5);
	put_frame(f, NGHTTP2_ORIGIN, 0, 0, "\0\1a", 3);
	for (unsigned i = 0; i < 239; i++)
		flood_unknown(f, i);
	put_headers(f, END_BOTH, 1, FIELDS(H2_GET_FIELDS("/hello")));
	flood_unknown(f, 0);
	put_headers(f, END_BOTH, 3, FIELDS(H2_GET_FIELDS("/hello")));
	say_frames(fd, f);
	CHECK_EVENTUALLY(s.handled == 2 && site_stats(&s).busy == 0);
	assert_int_equal(site_stats(&s).malformed, 0);
	assert_int_equal(site_record(&s, 1).status, 200);
	close(fd);
	free(f);
	site_end(&s);
}

/* Streams beyond the limit are refused, so that they may be tried again; the rest goes on. */
static void streams_are_bounded(void **state)
{
	skip_without(state);
	site s = SITE(.limits = {.streams = 10});
	site_open(&s);
	frames *f = calloc(1, sizeof(*f));
	int fd = dial(&s);
	put_hello(f);
	for (uint32_t i = 0; i < 15; i++)
		put_headers(f, END_BOTH, 2 * i + 1, FIELDS(H2_GET_FIELDS("/stay")));
	say_frames(fd, f);
	for (int i = 0; i < 5; i++) {
		replies r = hear_frames(fd, HEAR_FATE, 0);
		assert_int_equal(r.resets, 1);
		assert_int_equal(r.reset_code, NGHTTP2_REFUSED_STREAM);
	}
	CHECK_EVENTUALLY(s.handled == 10);
	close(fd);
	CHECK_EVENTUALLY(s.gone == 10);
	free(f);
	site_end(&s);
}

/* ---- silence ---- */

#define SOON (30 * WEIR_NS_PER_S / 1000)

static replies hear_end(site *s, const frames *f)
{
	int fd = dial(s);
	say_frames(fd, f);
	replies r = hear_frames(fd, -1, 0);
	assert_true(r.end);
	close(fd);
	return r;
}

static void silence_ends(void **state)
{
	skip_without(state);
	frames *f = calloc(1, sizeof(*f));
	/* No acknowledgement of the settings. */
	site s = SITE(.limits = {.first_byte_ns = SOON});
	site_open(&s);
	put_hello(f);
	assert_int_equal(hear_end(&s, f).goaway_code, NGHTTP2_SETTINGS_TIMEOUT);
	/* Not even a whole preface. */
	f->length = 10;
	assert_int_equal(hear_end(&s, f).goaways, 0);
	assert_int_equal(site_stats(&s).timeouts, 2);
	site_end(&s);
	/* Half a head. */
	site t = SITE(.limits = {.head_ns = SOON});
	site_open(&t);
	f->length = 0;
	put_hello(f);
	put_frame(f, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, "", 0);
	put_headers(f, NGHTTP2_FLAG_END_STREAM, 1, FIELDS(H2_GET_FIELDS("/hello")));
	assert_int_equal(hear_end(&t, f).goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
	site_end(&t);
	/* Nothing more. */
	site u = SITE(.limits = {.idle_ns = SOON});
	site_open(&u);
	f->length = 0;
	put_hello(f);
	put_frame(f, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, "", 0);
	put_headers(f, END_BOTH, 1, FIELDS(H2_GET_FIELDS("/hello")));
	replies r = hear_end(&u, f);
	assert_int_equal(r.headers, 1);
	assert_int_equal(r.goaway_code, NGHTTP2_NO_ERROR);
	assert_int_equal(r.goaway_last, 1);
	site_end(&u);
	free(f);
}

static void late_bodies_are_cut(void **state)
{
	skip_without(state);
	site s = SITE(.limits = {.body_gap_ns = SOON});
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	h2_answer *a =
		h2_ask_with(c, "POST", "/read", NULL, true, (h2_answer){.upload = 9, .upload_stalls = true});
	H2_UNTIL(c, a->closed);
	assert_int_equal(a->code, NGHTTP2_CANCEL);
	assert_int_equal(s.gone, 1);
	assert_int_equal(s.data_bytes, 9);
	assert_string_equal(site_record(&s, 0).error, "the body did not come in time");
	assert_string_equal(h2_get(c, "/hello")->body, "hello");
	h2_end(c);
	site_end(&s);
	/* Who collects tells it. */
	site t = SITE(.limits = {.body_gap_ns = SOON}, .route = {.klass = -1, .collect_bytes = 100});
	site_open(&t);
	c = h2_open(&t, 65535);
	a = h2_ask_with(c, "POST", "/hello", NULL, true, (h2_answer){.upload = 9, .upload_stalls = true});
	H2_UNTIL(c, a->closed);
	assert_int_equal(a->status, 408);
	h2_end(c);
	site_end(&t);
}

static void large_bodies_are_refused(void **state)
{
	skip_without(state);
	site s = SITE(.limits = {.body_bytes = 1000});
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	h2_answer *a = h2_ask_with(c, "POST", "/read", NULL, true, (h2_answer){.upload = 1001});
	h2_answer *b = h2_ask_with(c, "POST", "/read", FIELDS("content-length", "1001"), true,
				   (h2_answer){.upload = 1001});
	H2_UNTIL(c, a->closed && b->closed);
	assert_int_equal(a->code, NGHTTP2_CANCEL);
	assert_int_equal(b->status, 413);
	assert_int_equal(s.gone, 1);
	h2_end(c);
	site_end(&s);
}

/* ---- no memory ---- */

static void survives_without_memory(void **state)
{
	skip_without(state);
	site s = SITE(.no_log = true);
	site_open(&s);
	frames *f = calloc(1, sizeof(*f));
	put_hello(f);
	put_headers(f, END_BOTH, 1, FIELDS(H2_GET_FIELDS("/hello")));
	put_headers(f, NGHTTP2_FLAG_END_HEADERS, 3, FIELDS(":method", "POST", S, ":path", "/read", A));
	put_frame(f, NGHTTP2_DATA, 0, 3, "abc", 3);
	put_headers(f, END_BOTH, 3, FIELDS("x-sum", "1"));
	put_ping(f);
	for (uint64_t nth = 1; nth < 40; nth++) {
		int fd = dial(&s);
		weir_mem_fail_after(nth);
		say_frames(fd, f);
		hear_frames(fd, NGHTTP2_PING, NGHTTP2_FLAG_ACK);
		weir_mem_fail_after(0);
		close(fd);
		CHECK_EVENTUALLY(site_stats(&s).open == 0);
	}
	h2_client *c = h2_open(&s, 65535);
	assert_string_equal(h2_get(c, "/hello")->body, "hello");
	h2_end(c);
	free(f);
	site_end(&s);
}

/* ---- the guard by itself ---- */

static void budgets_refill(void **state)
{
	weir_h2_guard guard;
	uint64_t now_ns = WEIR_NS_PER_S;
	unsigned taken = 0;
	weir_h2_guard_init(&guard, 10, 1000, 10, now_ns);
	while (weir_h2_guard_reset(&guard, now_ns) == NULL)
		taken++;
	assert_int_equal(taken, 20);
	/* Three a second, however often one looks. */
	for (unsigned i = 0; i < 10000; i++)
		taken += weir_h2_guard_reset(&guard, now_ns += WEIR_NS_PER_S / 1000) == NULL;
	assert_in_range(taken, 48, 50);
	/* A long rest fills it, and not beyond. */
	now_ns += 1000000 * WEIR_NS_PER_S;
	for (taken = 0; weir_h2_guard_reset(&guard, now_ns) == NULL; taken++)
		;
	assert_int_equal(taken, 20);
	for (taken = 0; weir_h2_guard_idling(&guard, now_ns) == NULL; taken++)
		;
	assert_int_equal(taken, WEIR_H2_IDLING_BURST);
	weir_h2_guard_earned(&guard, 2);
	assert_null(weir_h2_guard_idling(&guard, now_ns));
	assert_null(weir_h2_guard_idling(&guard, now_ns));
	assert_non_null(weir_h2_guard_idling(&guard, now_ns));
	weir_h2_guard_earned(&guard, 1000000);
	for (taken = 0; weir_h2_guard_idling(&guard, now_ns) == NULL; taken++)
		;
	assert_int_equal(taken, WEIR_H2_IDLING_BURST);
	assert_null(weir_h2_guard_block(&guard, true, 2000));
	assert_non_null(weir_h2_guard_block(&guard, false, 1));
	assert_null(weir_h2_guard_block(&guard, true, 0));
	for (unsigned i = 0; i < WEIR_H2_CONTINUATION_MOST; i++)
		assert_null(weir_h2_guard_block(&guard, false, 0));
	assert_non_null(weir_h2_guard_block(&guard, false, 0));
	assert_null(weir_h2_guard_block(&guard, true, 0));
	for (unsigned i = 0; i < 40; i++)
		assert_null(weir_h2_guard_field(&guard, 100));
	assert_non_null(weir_h2_guard_field(&guard, 0));
	assert_null(weir_h2_guard_block(&guard, true, 0));
	assert_null(weir_h2_guard_field(&guard, 4000));
	assert_non_null(weir_h2_guard_field(&guard, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(heads_are_judged),
		ON_BOTH(heads_may_come_in_parts),
		ON_BOTH(too_large_heads_are_refused),
		ON_BOTH(bodies_are_judged),
		ON_BOTH(frames_are_judged),
		ON_BOTH(prefaces_are_judged),
		ON_BOTH(floods_are_stopped),
		ON_BOTH(busy_clients_are_no_flood),
		ON_BOTH(unknown_frames_are_skipped),
		ON_BOTH(streams_are_bounded),
		ON_BOTH(silence_ends),
		ON_BOTH(late_bodies_are_cut),
		ON_BOTH(large_bodies_are_refused),
		ON_BOTH(survives_without_memory),
		cmocka_unit_test(budgets_refill),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
