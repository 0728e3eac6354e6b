/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_SERVED_H
#define TESTS_FUZZ_SERVED_H

/* A server on one thread whose connections are fuzzed, and what its handler may do with a request. */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weir/weir.h>

#include "target.h"

static struct {
	weir_world *world;
	weir_domain *domain;
	weir_stage *stage;
	weir_routes *routes;
	weir_http *http;
	weir_buf *page;
	struct sockaddr_storage address;
} at;

static void let_go(weir_request *request, void *arg)
{
	weir_request_abort(request);
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

static void check_trailers(const weir_request *request)
{
	weir_field field;
	for (size_t i = 0; weir_request_trailer(request, i, &field); i++)
		CHECK(field.name.length > 0);
}

/* Answers of all kinds, by a number: 1 to 3 whole or in parts, 4 in chunks with a trailer, else none. */
static void answer_with(weir_request *request, unsigned how)
{
	weir_field field = {WEIR_SPAN("x"), WEIR_SPAN("y")};
	switch (how) {
	case 1:
		weir_request_reply_text(request, 200, WEIR_SPAN("hello"));
		break;
	case 2:
		weir_request_reply(request,
				   &(weir_reply){.status = 200, .buf = at.page, .length = at.page->length});
		break;
	case 3:
		stream(request);
		break;
	case 4:
		weir_request_begin(request, &(weir_reply){.status = 200}, WEIR_UNKNOWN_LENGTH);
		weir_request_write(request, "abc", 3);
		weir_request_end(request, &field, 1);
		break;
	default:
		weir_request_abort(request);
	}
}

/* The world, with an empty table of routes. */
static void serve_begin(weir_handler *handle)
{
	weir_domain_options reactor = {.name = "web", .kind = WEIR_REACTOR, .threads = 1};
	weir_stage_options stage = {
		.name = "fuzz", .handle = handle, .drop = weir_request_drop, .capacity = 1000};
	setenv("WEIR_LOOP", "epoll", 1);
	CHECK(weir_world_new(NULL, &at.world) == 0 && weir_domain_new(at.world, &reactor, &at.domain) == 0 &&
	      weir_stage_new(at.domain, &stage, &at.stage) == 0 && weir_world_start(at.world) == 0 &&
	      weir_routes_new(&at.routes) == 0);
}

/* The server, when the table has its routes. */
static void serve_on(weir_http_options options, bool http2, size_t page_bytes)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	weir_http_listen listen = {
		.address = (struct sockaddr *)&any, .address_length = sizeof(any), .http2 = http2};
	options.domain = at.domain;
	options.routes = at.routes;
	CHECK(weir_http_new(&options, &at.http) == 0 && weir_http_add_listener(at.http, &listen, NULL) == 0 &&
	      weir_http_address(at.http, 0, NULL, 0, &at.address) == 0);
	at.page = weir_buf_new(page_bytes);
	memset(at.page->data, 'p', page_bytes);
	at.page->length = (uint32_t)page_bytes;
}

/* ---- a connection ---- */

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
static int say(int fd, const void *bytes, size_t length)
{
	const uint8_t *from = bytes;
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

#endif
