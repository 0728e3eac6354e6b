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
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weir/weir.h>

#include <weir/http.h>

#include "target.h"

#define INPUT_MOST   8192
#define PAGE_BYTES   5000
#define RECORDS_MOST INPUT_MOST

typedef struct record {
	unsigned status;
	bool head, cut; /* cut: the client may have heard less than all of it */
} record;

static struct {
	weir_world *world;
	weir_domain *domain;
	weir_stage *stage;
	weir_routes *routes;
	weir_http *http;
	weir_buf *page;
	struct sockaddr_storage address;
	pthread_mutex_t lock;
	/* under lock */
	record records[RECORDS_MOST];
	size_t count, requests; /* requests: those of the records that are about one */
} at = {.lock = PTHREAD_MUTEX_INITIALIZER};

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
	weir_field field;
	for (size_t i = 0; weir_request_trailer(request, i, &field); i++)
		CHECK(field.name.length > 0);
	weir_timer_stop(&r->timer);
	weir_request_reply_text(request, 200, WEIR_SPAN("read"));
}

static void stop_reading(weir_request *request, void *arg)
{
	weir_timer_stop(&((reading *)arg)->timer);
	weir_request_abort(request);
}

static void let_go(weir_request *request, void *arg)
{
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

static void write_more(weir_request *request, void *arg)
{
	int error;
	do
		error = weir_request_send(request, at.page, 0, at.page->length);
	while (error == 0);
	/* Announced are four of them: more is refused, and then it is over. */
	if (error != -ENOBUFS)
		weir_request_end(request, NULL, 0);
}

static void stream(weir_request *request)
{
	weir_request_on_gone(request, let_go, NULL);
	weir_request_on_drained(request, write_more, NULL);
	weir_request_begin(request, &(weir_reply){.status = 200}, 4 * (uint64_t)at.page->length);
	write_more(request, NULL);
}

static void handle_one(weir_request *request)
{
	weir_reply whole = {.status = 200, .buf = at.page, .length = at.page->length};
	weir_field field = {WEIR_SPAN("x"), WEIR_SPAN("y")};
	switch (weir_request_path(request).length % 9) {
	case 1:
		weir_request_reply_text(request, 200, WEIR_SPAN("hello"));
		break;
	case 2:
		weir_request_reply(request, &whole);
		break;
	case 3:
		stream(request);
		break;
	case 4:
	case 5:
		read_body(request);
		break;
	case 6:
		weir_request_interim(request, 103, &field, 1);
		weir_request_begin(request, &(weir_reply){.status = 200}, WEIR_UNKNOWN_LENGTH);
		weir_request_write(request, "abc", 3);
		weir_request_end(request, &field, 1);
		break;
	case 7:
		hold(request);
		break;
	case 8:
		weir_request_reply(request, &(weir_reply){.status = 304, .fields = &field, .field_count = 1});
		break;
	default:
		weir_request_abort(request);
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

static void note_record(const weir_http_record *seen, void *arg)
{
	pthread_mutex_lock(&at.lock);
	CHECK(at.count < RECORDS_MOST);
	at.requests += seen->request != NULL;
	at.records[at.count++] = (record){
		.status = seen->status,
		.head = seen->request != NULL && weir_request_method(seen->request) == WEIR_METHOD_HEAD,
		/* An abort by the handler itself is the same to the client. */
		.cut = seen->gone ||
		       (seen->request != NULL && weir_request_path(seen->request).length % 9 == 0)};
	pthread_mutex_unlock(&at.lock);
}

static void begin(void)
{
	static const char *const some[] = {"path /c*", NULL};
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	weir_domain_options reactor = {.name = "web", .kind = WEIR_REACTOR, .threads = 1};
	weir_stage_options stage = {
		.name = "fuzz", .handle = handle, .drop = weir_request_drop, .capacity = 1000};
	setenv("WEIR_LOOP", "epoll", 1);
	CHECK(weir_world_new(NULL, &at.world) == 0 && weir_domain_new(at.world, &reactor, &at.domain) == 0 &&
	      weir_stage_new(at.domain, &stage, &at.stage) == 0 && weir_world_start(at.world) == 0 &&
	      weir_routes_new(&at.routes) == 0);
	weir_route_options collect = {
		.name = "collected", .rules = some, .stage = at.stage, .klass = -1, .collect_bytes = 1000};
	weir_route_options rest = {.name = "all", .stage = at.stage, .klass = -1};
	CHECK(weir_routes_add(at.routes, &collect) == 0 && weir_routes_add(at.routes, &rest) == 0);
	weir_http_options options = {.domain = at.domain,
				     .routes = at.routes,
				     .limits = {.output_bytes = 8192,
						.body_bytes = 100000,
						.half_closed_ns = WEIR_NS_PER_MS,
						.half_closed_gap_ns = WEIR_NS_PER_MS},
				     .log = note_record};
	weir_http_listen listen = {.address = (struct sockaddr *)&any, .address_length = sizeof(any)};
	CHECK(weir_http_new(&options, &at.http) == 0 && weir_http_add_listener(at.http, &listen, NULL) == 0 &&
	      weir_http_address(at.http, 0, NULL, 0, &at.address) == 0);
	at.page = weir_buf_new(PAGE_BYTES);
	memset(at.page->data, 'p', PAGE_BYTES);
	at.page->length = PAGE_BYTES;
}

/* ---- one connection ---- */

static int dial(void)
{
	struct timeval patience = {.tv_sec = 20};
	struct linger hard = {.l_onoff = 1};
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	/* No port is left waiting: there are thousands of these a second. */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	CHECK(connect(fd, (struct sockaddr *)&at.address, sizeof(struct sockaddr_in)) == 0);
	return fd;
}

/* 0 or an errno. */
static int say(int fd, const uint8_t *from, size_t length)
{
	while (length > 0) {
		ssize_t sent = send(fd, from, length, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return errno;
		from += sent;
		length -= (size_t)sent;
	}
	return 0;
}

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
	pthread_mutex_lock(&at.lock);
	for (; i < at.count && r.at < r.end; i++) {
		if (!read_answer(&r, at.records[i].head, &a)) {
			CHECK(at.records[i].cut || h->reset);
			r.at = r.end;
			break;
		}
		CHECK(a.status == at.records[i].status || at.records[i].cut);
	}
	CHECK(r.at == r.end); /* nobody asked for more */
	for (; i < at.count; i++)
		CHECK(at.records[i].cut || h->reset);
	at.count = at.requests = 0;
	pthread_mutex_unlock(&at.lock);
}

/* ---- the end of it ---- */

/* Every request is in the log once, and so is what was none; what is malformed may also be the body of a request. */
static bool is_logged(const weir_http_stats *before, const weir_http_stats *now)
{
	pthread_mutex_lock(&at.lock);
	size_t requests = at.requests, others = at.count - at.requests;
	pthread_mutex_unlock(&at.lock);
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
