/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ON_BACKEND_H
#define TESTS_ON_BACKEND_H

/*
 * Calls under test, and backends that do as the test says: sockets of the test itself, on the thread that turns the loop, so that each step happens exactly when
 * the test wants it to.
 */

#include "support/on_net.h"

#include <netinet/tcp.h>

#include "sentry/upstream.h"

typedef struct rig {
	weir_loop *loop;
	weir_fleet fleet;
	weir_origin *backend; /* the first */
	weir_upstream *upstream;
	int listener; /* the first backend's */
} rig;

/* A call and all it was told. */
typedef struct talk {
	weir_call call;
	rig *rig;
	int ready, interims, heads, wholes, ends, failures, drained, upgrades;
	bool over;
	unsigned status, interim_status;
	uint64_t length;
	bool bodiless;
	char *body;
	size_t body_length;
	char trailer[64];
	weir_call_failure failure;
	void (*in_ready)(struct talk *t);
	void (*in_head)(struct talk *t);
	void (*in_data)(struct talk *t);
	void (*in_end)(struct talk *t); /* also of a whole answer */
	void (*in_drained)(struct talk *t);
} talk;

static inline talk *talk_of(weir_call *call)
{
	return (talk *)(void *)call;
}

static inline void must_go_on(talk *t)
{
	assert_false(t->over);
}

static void talk_ready(weir_call *call)
{
	talk *t = talk_of(call);
	must_go_on(t);
	t->ready++;
	if (t->in_ready != NULL)
		t->in_ready(t);
}

static void talk_interim(weir_call *call, const weir_call_answer *answer)
{
	talk *t = talk_of(call);
	must_go_on(t);
	t->interims++;
	t->interim_status = answer->head->status;
}

static inline void talk_add(talk *t, weir_buf *buf, size_t offset, size_t length)
{
	if (length == 0)
		return;
	assert_true(offset + length <= buf->length);
	t->body = realloc(t->body, t->body_length + length + 1);
	memcpy(t->body + t->body_length, buf->data + offset, length);
	t->body_length += length;
	t->body[t->body_length] = '\0';
}

static inline void talk_note(talk *t, const weir_call_answer *answer)
{
	must_go_on(t);
	t->status = answer->head->status;
	t->length = answer->length;
	t->bodiless = answer->bodiless;
}

static inline void talk_over(talk *t)
{
	t->over = true;
	assert_null(t->call.conn);
	if (t->in_end != NULL)
		t->in_end(t);
}

static void talk_whole(weir_call *call, const weir_call_answer *answer, weir_buf *buf, size_t offset,
		       size_t length)
{
	talk *t = talk_of(call);
	talk_note(t, answer);
	t->wholes++;
	talk_add(t, buf, offset, length);
	talk_over(t);
}

static void talk_head(weir_call *call, const weir_call_answer *answer)
{
	talk *t = talk_of(call);
	talk_note(t, answer);
	t->heads++;
	if (t->in_head != NULL)
		t->in_head(t);
}

static void talk_upgraded(weir_call *call, const weir_call_answer *answer)
{
	talk *t = talk_of(call);
	talk_note(t, answer);
	t->upgrades++;
}

static void talk_data(weir_call *call, weir_buf *buf, size_t offset, size_t length)
{
	talk *t = talk_of(call);
	must_go_on(t);
	assert_true(length > 0);
	talk_add(t, buf, offset, length);
	if (t->in_data != NULL)
		t->in_data(t);
}

static void talk_end(weir_call *call, const weir_call_answer *trailers)
{
	talk *t = talk_of(call);
	must_go_on(t);
	t->ends++;
	if (trailers != NULL)
		snprintf(t->trailer, sizeof(t->trailer), "%.*s", (int)trailers->fields[0].value_length,
			 trailers->bytes + trailers->fields[0].value);
	talk_over(t);
}

static void talk_failed(weir_call *call, const weir_call_failure *failure)
{
	talk *t = talk_of(call);
	must_go_on(t);
	t->failures++;
	t->failure = *failure;
	assert_non_null(failure->text);
	talk_over(t);
}

static void talk_drained(weir_call *call)
{
	talk *t = talk_of(call);
	must_go_on(t);
	t->drained++;
	if (t->in_drained != NULL)
		t->in_drained(t);
}

static const weir_call_ops talk_ops = {talk_ready, talk_interim, talk_whole,  talk_head,    talk_upgraded,
				       talk_data,  talk_end,     talk_failed, talk_drained, NULL};
/* Without whole answers. */
static const weir_call_ops stream_ops = {talk_ready, talk_interim, NULL,        talk_head,    talk_upgraded,
					 talk_data,  talk_end,     talk_failed, talk_drained, NULL};

/* ---- backends ---- */

static inline int listen_here(uint16_t *ret_port)
{
	struct sockaddr_in any = loopback(0);
	socklen_t length = sizeof(any);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &length), 0);
	*ret_port = ntohs(any.sin_port);
	return fd;
}

static inline weir_origin *backend_by(const char *scheme, uint16_t port, weir_origin_options options)
{
	char url[64];
	weir_origin *backend = NULL;
	snprintf(url, sizeof(url), "%s://127.0.0.1:%u", scheme, port);
	options.url = url;
	assert_int_equal(weir_origin_new(&options, &backend), 0);
	return backend;
}

static inline weir_origin *backend_at(uint16_t port, weir_origin_options options)
{
	return backend_by("http", port, options);
}

static inline void rig_init_by(rig *r, const char *scheme, weir_loop *loop, weir_upstream_limits limits,
			       weir_origin_options backend)
{
	uint16_t port;
	r->loop = loop;
	r->listener = listen_here(&port);
	assert_int_equal(weir_fleet_init(&r->fleet), 0);
	r->backend = backend_by(scheme, port, backend);
	assert_int_equal(weir_fleet_add(&r->fleet, r->backend), 0);
	assert_int_equal(weir_upstream_new(loop, &r->fleet, &limits, 1, &r->upstream), 0);
}

static inline void rig_init(rig *r, weir_loop *loop, weir_upstream_limits limits, weir_origin_options backend)
{
	rig_init_by(r, "http", loop, limits, backend);
}

static inline void rig_end(rig *r)
{
	weir_upstream_close(r->upstream);
	turn_until(r->loop, weir_upstream_open(r->upstream) == 0);
	weir_upstream_free(r->upstream);
	for (uint32_t i = 0; i < weir_fleet_count(&r->fleet); i++)
		assert_int_equal(weir_origin_in_flight(weir_fleet_at(&r->fleet, i)), 0);
	weir_fleet_fini(&r->fleet);
	close(r->listener);
}

static inline void talk_fini(talk *t)
{
	free(t->body);
	t->body = NULL;
}

static inline int talk_start_with(rig *r, talk *t, const weir_call_ops *ops, const char *head,
				  weir_call_request request)
{
	weir_buf *buf = weir_upstream_buf(r->upstream, strlen(head));
	memcpy(buf->data, head, strlen(head));
	buf->length = (uint32_t)strlen(head);
	request.head = buf;
	t->rig = r;
	assert_true(weir_origin_take(r->backend));
	int error = weir_call_start(r->upstream, &t->call, ops, r->backend, &request);
	weir_buf_unref(buf);
	return error;
}

#define GET_HEAD "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

/* A GET; whole answers come as such. */
static inline void talk_get(rig *r, talk *t)
{
	assert_int_equal(
		talk_start_with(r, t, &talk_ops, GET_HEAD, (weir_call_request){.method = WEIR_METHOD_GET}),
		0);
}

/* The next connection that the backend gets. */
static inline int rig_accept(rig *r)
{
	for (int i = 0; i < TURNS_MOST; i++) {
		int fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			int on = 1;
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
			return fd;
		}
		assert_int_equal(weir_loop_turn(r->loop, WEIR_NS_PER_MS), 0);
	}
	fail_msg("no connection came");
	return -1;
}

static inline bool nobody_connects(const rig *r)
{
	int fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		close(fd);
	return fd < 0;
}

/* Exactly this comes. */
static inline void hear_text(weir_loop *loop, int fd, const char *text)
{
	char *got = calloc(1, strlen(text) + 1);
	hear(loop, fd, got, strlen(text));
	assert_string_equal(got, text);
	free(got);
}

/* What is left when a backend's memory should be bounded: nothing is kept anywhere. */
static inline weir_upstream_counts counts_of(const rig *r)
{
	weir_upstream_counts counts;
	weir_upstream_read(r->upstream, 0, &counts);
	return counts;
}

#endif
