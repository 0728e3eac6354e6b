/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any frames into a server, over a real connection. The first byte of the input says in which portions they come (0: at once) and, if it is odd, that the client's settings
 * are among them. What the server does with a request depends on its path: answers of all kinds, bodies read, held, refused.
 *
 * Whatever comes, the server closes the connection, and no request is left.
 */

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weir/weir.h>

#include <weir/http.h>

#include "target.h"

#define PREFACE_BYTES 24

static struct {
	weir_world *world;
	weir_domain *domain;
	weir_stage *stage;
	weir_routes *routes;
	weir_http *http;
	weir_buf *page;
	struct sockaddr_storage address;
} at;

/* ---- what it does with requests ---- */

static void take_data(weir_request *request, weir_buf *buf, size_t offset, size_t length, void *arg)
{
	CHECK(length > 0 && offset + length <= buf->length);
	/* Now and then: paused, and taken up again at once or by the next call that comes. */
	if (buf->data[offset] & 1)
		weir_request_pause(request);
	if (buf->data[offset] & 2)
		weir_request_resume(request);
}

static void take_end(weir_request *request, void *arg)
{
	weir_field field;
	for (size_t i = 0; weir_request_trailer(request, i, &field); i++)
		CHECK(field.name.length > 0);
	weir_request_reply_text(request, 200, WEIR_SPAN("read"));
}

static void let_go(weir_request *request, void *arg)
{
	weir_request_abort(request);
}

static void write_more(weir_request *request, void *arg)
{
	while (weir_request_send(request, at.page, 0, at.page->length) == 0)
		;
	/* Announced are four of them: more is refused, and then it is over. */
	if (weir_request_write(request, "x", 1) != -ENOBUFS)
		weir_request_end(request, NULL, 0);
}

static void stream(weir_request *request)
{
	weir_request_on_gone(request, let_go, NULL);
	weir_request_on_drained(request, write_more, NULL);
	weir_request_begin(request, &(weir_reply){.status = 200}, 4 * (uint64_t)at.page->length);
	write_more(request, NULL);
}

static void read_body(weir_request *request)
{
	static const weir_body_ops ops = {.data = take_data, .end = take_end};
	weir_hold(weir_request_event(request));
	weir_request_on_gone(request, let_go, NULL);
	weir_request_read(request, &ops, NULL);
}

static void look(weir_request *request)
{
	weir_field field;
	CHECK(weir_request_version(request) == 20 && weir_request_path(request).length > 0);
	CHECK(weir_request_host(request).length > 0);
	for (size_t i = 0; weir_request_field(request, i, &field); i++)
		CHECK(field.name.length > 0 && field.name.at[0] != ':');
}

static void handle_one(weir_request *request)
{
	weir_reply whole = {.status = 200, .buf = at.page, .length = at.page->length};
	weir_field trailer = {WEIR_SPAN("x"), WEIR_SPAN("y")};
	switch (weir_request_path(request).length % 8) {
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
		weir_request_begin(request, &(weir_reply){.status = 200}, WEIR_UNKNOWN_LENGTH);
		weir_request_write(request, "abc", 3);
		weir_request_end(request, &trailer, 1);
		break;
	case 7:
		weir_hold(weir_request_event(request));
		weir_request_on_gone(request, let_go, NULL);
		break;
	default:
		weir_request_abort(request);
	}
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		look(weir_request_of(events[i]));
		handle_one(weir_request_of(events[i]));
	}
}

static void begin(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	weir_domain_options reactor = {.name = "web", .kind = WEIR_REACTOR, .threads = 1};
	weir_stage_options stage = {
		.name = "fuzz", .handle = handle, .drop = weir_request_drop, .capacity = 1000};
	setenv("WEIR_LOOP", "epoll", 1);
	CHECK(weir_world_new(NULL, &at.world) == 0 && weir_domain_new(at.world, &reactor, &at.domain) == 0 &&
	      weir_stage_new(at.domain, &stage, &at.stage) == 0 && weir_world_start(at.world) == 0 &&
	      weir_routes_new(&at.routes) == 0);
	weir_route_options route = {.name = "all", .stage = at.stage, .klass = -1};
	CHECK(weir_routes_add(at.routes, &route) == 0);
	weir_http_options options = {
		.domain = at.domain, .routes = at.routes, .limits = {.output_bytes = 32768, .streams = 8}};
	weir_http_listen listen = {
		.address = (struct sockaddr *)&any, .address_length = sizeof(any), .http2 = true};
	CHECK(weir_http_new(&options, &at.http) == 0 && weir_http_add_listener(at.http, &listen, NULL) == 0 &&
	      weir_http_address(at.http, 0, NULL, 0, &at.address) == 0);
	at.page = weir_buf_new(20000);
	memset(at.page->data, 'p', 20000);
	at.page->length = 20000;
}

/* ---- one connection ---- */

static int dial(void)
{
	struct timeval patience = {.tv_sec = 20};
	struct linger hard = {.l_onoff = 1};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	/* No port is left waiting: there are thousands of these a second. */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	CHECK(connect(fd, (struct sockaddr *)&at.address, sizeof(struct sockaddr_in)) == 0);
	return fd;
}

static bool say(int fd, const void *bytes, size_t length)
{
	const char *from = bytes;
	while (length > 0) {
		ssize_t sent = send(fd, from, length, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;
		from += sent;
		length -= (size_t)sent;
	}
	return true;
}

static void hear_end(int fd)
{
	char bytes[65536];
	ssize_t got;
	do
		got = recv(fd, bytes, sizeof(bytes), 0);
	while (got > 0 || (got < 0 && errno == EINTR));
	CHECK(got == 0 || errno != EAGAIN);
}

static void wait_for_end(void)
{
	weir_http_stats stats;
	unsigned long turns = 0;
	do {
		weir_http_read_stats(at.http, &stats);
		if (++turns % 100 == 0)
			usleep(100);
		CHECK(turns < 10000000);
	} while (stats.open != 0 || stats.busy != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\0\4\1\0\0\0\0";
	if (at.http == NULL)
		begin();
	if (size < 1 || size > 60000)
		return 0;
	int fd = dial();
	size_t portion = data[0] / 2 != 0 ? data[0] / 2 : size;
	bool open = say(fd, hello, data[0] & 1 ? PREFACE_BYTES : sizeof(hello) - 1);
	for (size_t i = 1; open && i < size; i += portion)
		open = say(fd, data + i, size - i < portion ? size - i : portion);
	shutdown(fd, SHUT_WR);
	hear_end(fd);
	close(fd);
	wait_for_end();
	return 0;
}
