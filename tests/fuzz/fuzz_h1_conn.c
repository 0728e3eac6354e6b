/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes into a server of HTTP/1, over a real connection, and what it answers held against what it says that it did. The first byte of the input says in which portions the rest is sent: up to 127 that
 * many bytes at once (0: all), above it as many as the bytes themselves say. What the server does with a request depends on its path: answers of all kinds, bodies
 * read, paused, collected, refused, left alone.
 *
 * Whatever comes: the server closes the connection, no request is left, each is in the log once; what the client hears is one well-formed answer for each of them, in their
 * order, with the status that was logged, and only the last may break off, if it was cut. A reader of its own looks at the answers: it knows nothing of the server's parser.
 */

#include <ctype.h>
#include <pthread.h>

#include "served.h"

#define INPUT_MOST   8192
#define PAGE_BYTES   5000
#define RECORDS_MOST INPUT_MOST

typedef struct record {
	unsigned status;
	bool head, cut; /* cut: the client may have heard less than all of it */
} record;

static struct {
	pthread_mutex_t lock;
	/* under lock */
	record records[RECORDS_MOST];
	size_t count, requests; /* requests: those of the records that are about one */
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- what it does with requests ---- */

/* A request that goes on in a later turn. */
typedef struct reading {
	weir_timer timer;
	weir_request *request;
} reading;

static void go_on(weir_timer *timer, void *arg)
{
	weir_request_resume(((reading *)arg)->request);
}

static void take_data(weir_request *request, weir_buf *buf, size_t offset, size_t length, void *arg)
{
	reading *r = arg;
	CHECK(length > 0 && offset + length <= buf->length);
	if (buf->data[offset] & 1) {
		weir_request_pause(request);
		if (!weir_timer_pending(&r->timer))
			weir_timer_start(NULL, &r->timer, 0);
	}
	if (buf->data[offset] & 2)
		weir_request_resume(request);
}

static void take_end(weir_request *request, void *arg)
{
	reading *r = arg;
	check_trailers(request);
	weir_timer_stop(&r->timer);
	weir_request_reply_text(request, 200, WEIR_SPAN("read"));
}

static void stop_reading(weir_request *request, void *arg)
{
	weir_timer_stop(&((reading *)arg)->timer);
	weir_request_abort(request);
}

static reading *make_reading(weir_request *request, void (*later)(weir_timer *timer, void *arg))
{
	reading *r = weir_request_alloc(request, sizeof(*r));
	CHECK(r != NULL);
	r->request = request;
	weir_timer_init(&r->timer, later, r);
	weir_hold(weir_request_event(request));
	weir_request_on_gone(request, stop_reading, r);
	return r;
}

static void read_body(weir_request *request)
{
	static const weir_body_ops ops = {.data = take_data, .end = take_end};
	weir_request_read(request, &ops, make_reading(request, go_on));
}

static void answer_late(weir_timer *timer, void *arg)
{
	weir_request_reply_text(((reading *)arg)->request, 200, WEIR_SPAN("late"));
}

/* For longer than a client that has ended its side is waited for. The end is not seen while what follows the request waits to be read: then it is answered. */
static void hold(weir_request *request)
{
	reading *r = make_reading(request, answer_late);
	weir_timer_start(NULL, &r->timer, weir_world_now(at.world) + 3 * WEIR_NS_PER_MS);
}

static void handle_one(weir_request *request)
{
	weir_field field = {WEIR_SPAN("x"), WEIR_SPAN("y")};
	unsigned how = (unsigned)(weir_request_path(request).length % 9);
	switch (how) {
	case 4:
	case 5:
		read_body(request);
		break;
	case 6:
		weir_request_interim(request, 103, &field, 1);
		answer_with(request, 4);
		break;
	case 7:
		hold(request);
		break;
	case 8:
		weir_request_reply(request, &(weir_reply){.status = 304, .fields = &field, .field_count = 1});
		break;
	default:
		answer_with(request, how);
	}
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		weir_request *request = weir_request_of(events[i]);
		CHECK(weir_request_version(request) / 10 == 1 && weir_request_path(request).length > 0);
		handle_one(request);
	}
}

static void note_record(const weir_http_record *one, void *arg)
{
	pthread_mutex_lock(&seen.lock);
	CHECK(seen.count < RECORDS_MOST);
	seen.requests += one->request != NULL;
	seen.records[seen.count++] = (record){
		.status = one->status,
		.head = one->request != NULL && weir_request_method(one->request) == WEIR_METHOD_HEAD,
		/* An abort by the handler itself is the same to the client. */
		.cut = one->gone ||
		       (one->request != NULL && weir_request_path(one->request).length % 9 == 0)};
	pthread_mutex_unlock(&seen.lock);
}

static void begin(void)
{
	static const char *const some[] = {"path /c*", NULL}, *const others[] = {"path /g*", NULL};
	serve_begin(handle);
	weir_route_options collect = {
		.name = "collected", .rules = some, .stage = at.stage, .klass = -1, .collect_bytes = 1000};
	weir_route_options gather = {
		.name = "gathered", .rules = others, .stage = at.stage, .klass = -1, .gather_bytes = 100};
	weir_route_options rest = {.name = "all", .stage = at.stage, .klass = -1};
	CHECK(weir_routes_add(at.routes, &collect) == 0 && weir_routes_add(at.routes, &gather) == 0 &&
	      weir_routes_add(at.routes, &rest) == 0);
	serve_on((weir_http_options){.limits = {.output_bytes = 8192,
						.body_bytes = 100000,
						.half_closed_ns = WEIR_NS_PER_MS,
						.half_closed_gap_ns = WEIR_NS_PER_MS},
				     .log = note_record},
		 false, PAGE_BYTES);
}

/* ---- one connection ---- */

/*
 * Returns whether it was told of a reset: a socket tells it once, and to whoever asks first, so that the reader would only see an end. (EPIPE comes after a proper
 * end, before which all has come.)
 */
static bool say_all(int fd, const uint8_t *data, size_t size)
{
	size_t fixed = data[0] < 128 ? data[0] : 0;
	int error = 0;
	for (size_t i = 1, portion; error == 0 && i < size; i += portion) {
		portion = data[0] >= 128 ? (size_t)(data[i] ^ data[0]) % 61 + 1 : fixed != 0 ? fixed : size;
		if (portion > size - i)
			portion = size - i;
		error = say(fd, data + i, portion);
	}
	shutdown(fd, SHUT_WR);
	return error == ECONNRESET;
}

typedef struct heard {
	char *text;
	size_t length;
	bool reset;
} heard;

static heard hear_all(int fd)
{
	heard h = {0};
	ssize_t got;
	do {
		h.text = realloc(h.text, h.length + 65536);
		CHECK(h.text != NULL);
		got = recv(fd, h.text + h.length, 65536, 0);
		if (got > 0)
			h.length += (size_t)got;
	} while (got > 0 || (got < 0 && errno == EINTR));
	CHECK(got == 0 || errno == ECONNRESET);
	h.reset = got < 0;
	return h;
}

/* ---- a reader of answers ---- */

typedef struct reader {
	const char *at, *end;
} reader;

typedef struct answer {
	unsigned status;
	bool chunked, has_length;
	size_t length;
} answer;

/* A line without its CRLF; false: it is not whole. */
static bool read_line(reader *r, const char **ret_line, size_t *ret_length)
{
	const char *line = r->at, *end = memchr(line, '\n', (size_t)(r->end - line));
	if (end == NULL)
		return false;
	CHECK(end > line && end[-1] == '\r');
	*ret_line = line;
	*ret_length = (size_t)(end - 1 - line);
	r->at = end + 1;
	for (size_t i = 0; i < *ret_length; i++)
		CHECK((unsigned char)line[i] >= ' ' && line[i] != 127);
	return true;
}

static bool is_field(const char *line, const char *name)
{
	return strncasecmp(line, name, strlen(name)) == 0;
}

static void take_field(answer *a, const char *line, size_t length)
{
	const char *colon = memchr(line, ':', length);
	CHECK(colon != NULL && colon > line && colon[1] == ' ');
	for (const char *c = line; c < colon; c++)
		CHECK(isalnum((unsigned char)*c) || *c == '-');
	if (is_field(line, "content-length:")) {
		CHECK(!a->has_length);
		a->has_length = true;
		for (const char *c = colon + 2; c < line + length; c++) {
			CHECK(isdigit((unsigned char)*c));
			a->length = 10 * a->length + (size_t)(*c - '0');
		}
	}
	if (is_field(line, "transfer-encoding:")) {
		CHECK(!a->chunked && length == 26 && memcmp(line + 19, "chunked", 7) == 0);
		a->chunked = true;
	}
}

static bool read_fields(reader *r, answer *a)
{
	const char *line;
	size_t length;
	while (read_line(r, &line, &length)) {
		if (length == 0)
			return true;
		take_field(a, line, length);
	}
	return false;
}

static bool read_head(reader *r, answer *a)
{
	const char *line;
	size_t length;
	*a = (answer){0};
	if (!read_line(r, &line, &length))
		return false;
	CHECK(length >= 13 && memcmp(line, "HTTP/1.1 ", 9) == 0 && line[12] == ' ');
	a->status = (unsigned)((line[9] - '0') * 100 + (line[10] - '0') * 10 + line[11] - '0');
	CHECK(a->status >= 100 && a->status <= 599 && a->status != 101);
	return read_fields(r, a) && !(a->chunked && a->has_length);
}

static bool read_bytes(reader *r, size_t length)
{
	if ((size_t)(r->end - r->at) < length)
		return false;
	r->at += length;
	return true;
}

static bool read_chunks(reader *r)
{
	const char *line;
	size_t length, size;
	do {
		if (!read_line(r, &line, &length))
			return false;
		CHECK(length > 0 && length < 9);
		size = 0;
		for (size_t i = 0; i < length; i++) {
			CHECK(isxdigit((unsigned char)line[i]));
			size = 16 * size + (size_t)(isdigit((unsigned char)line[i])
							    ? line[i] - '0'
							    : (line[i] | 32) - 'a' + 10);
		}
		if (size == 0)
			return read_fields(r, &(answer){0});
		if (!read_bytes(r, size) || !read_line(r, &line, &length))
			return false;
		CHECK(length == 0);
	} while (true);
}

static bool read_body_of(reader *r, const answer *a, bool head)
{
	if (head || a->status == 204 || a->status == 304)
		return true;
	if (a->chunked)
		return read_chunks(r);
	if (a->has_length)
		return read_bytes(r, a->length);
	r->at = r->end; /* up to the end of the connection */
	return true;
}

/* The next answer that is no interim one; false: it is not whole. */
static bool read_answer(reader *r, bool head, answer *ret_answer)
{
	do {
		if (!read_head(r, ret_answer))
			return false;
		CHECK(ret_answer->status >= 200 || (!ret_answer->chunked && !ret_answer->has_length));
	} while (ret_answer->status < 200);
	return read_body_of(r, ret_answer, head);
}

static void check_answers(const heard *h)
{
	reader r = {h->text, h->text + h->length};
	answer a;
	size_t i = 0;
	pthread_mutex_lock(&seen.lock);
	for (; i < seen.count && r.at < r.end; i++) {
		if (!read_answer(&r, seen.records[i].head, &a)) {
			CHECK(seen.records[i].cut || h->reset);
			r.at = r.end;
			break;
		}
		CHECK(a.status == seen.records[i].status || seen.records[i].cut);
	}
	CHECK(r.at == r.end); /* nobody asked for more */
	for (; i < seen.count; i++)
		CHECK(seen.records[i].cut || h->reset);
	seen.count = seen.requests = 0;
	pthread_mutex_unlock(&seen.lock);
}

/* ---- the end of it ---- */

/* Every request is in the log once, and so is what was none; what is malformed may also be the body of a request. */
static bool is_logged(const weir_http_stats *before, const weir_http_stats *now)
{
	pthread_mutex_lock(&seen.lock);
	size_t requests = seen.requests, others = seen.count - seen.requests;
	pthread_mutex_unlock(&seen.lock);
	return requests == now->requests - before->requests && others <= now->malformed - before->malformed &&
	       others <= 1;
}

static void wait_for_end(const weir_http_stats *before)
{
	weir_http_stats stats;
	unsigned long turns = 0;
	do {
		if (++turns % 100 == 0)
			usleep(100);
		CHECK(turns < 1000000);
		weir_http_read_stats(at.http, &stats);
	} while (stats.open != 0 || stats.busy != 0 || !is_logged(before, &stats));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	weir_http_stats stats;
	if (at.http == NULL)
		begin();
	if (size < 1 || size > INPUT_MOST)
		return 0;
	weir_http_read_stats(at.http, &stats);
	int fd = dial();
	bool reset = say_all(fd, data, size);
	heard h = hear_all(fd);
	h.reset |= reset;
	close(fd);
	wait_for_end(&stats);
	check_answers(&h);
	free(h.text);
	return 0;
}
