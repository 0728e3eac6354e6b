/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any frames into a server, over a real connection. The first byte of the input says in which portions they come (0: at once) and, if it is odd, that the client's settings
 * are among them. What the server does with a request depends on its path: answers of all kinds, bodies read, held, refused.
 *
 * Whatever comes, the server closes the connection, and no request is left.
 */

#include "served.h"

#define PREFACE_BYTES 24

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
	check_trailers(request);
	weir_request_reply_text(request, 200, WEIR_SPAN("read"));
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
	unsigned how = (unsigned)(weir_request_path(request).length % 8);
	if (how == 4 || how == 5) {
		read_body(request);
	} else if (how == 7) {
		weir_hold(weir_request_event(request));
		weir_request_on_gone(request, let_go, NULL);
	} else {
		answer_with(request, how == 6 ? 4 : how);
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
	serve_begin(handle);
	static const char *const some[] = {"path /g*", NULL};
	weir_route_options gather = {
		.name = "gathered", .rules = some, .stage = at.stage, .klass = -1, .gather_bytes = 100};
	weir_route_options route = {.name = "all", .stage = at.stage, .klass = -1};
	CHECK(weir_routes_add(at.routes, &gather) == 0 && weir_routes_add(at.routes, &route) == 0);
	serve_on((weir_http_options){.limits = {.output_bytes = 32768, .streams = 8}}, true, 20000);
}

/* ---- one connection ---- */

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
	bool open = say(fd, hello, data[0] & 1 ? PREFACE_BYTES : sizeof(hello) - 1) == 0;
	for (size_t i = 1; open && i < size; i += portion)
		open = say(fd, data + i, size - i < portion ? size - i : portion) == 0;
	shutdown(fd, SHUT_WR);
	hear_end(fd);
	close(fd);
	wait_for_end();
	return 0;
}
