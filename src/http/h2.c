/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 connections: when they read and send, time-outs, and how they end. h2.h has the invariants. */
#include "http/h2.h"

#include <errno.h>

#include "base/mem.h"

/*
 * How long the final GOAWAY waits after the announcement, for streams that are on their way. The answer to a
 * PING ends the wait early.
 */
#define NOTICE_NS WEIR_NS_PER_S

/* Most rounds of sending and refilling at once; then other connections have their turn. */
#define ROUNDS 16

static weir_http_conn *conn_of(weir_link *link)
{
	return (weir_http_conn *)(void *)link;
}

/* ---- ends ---- */

void weir_h2_set_doom(weir_h2 *h2, uint32_t code, const char *why)
{
	if (h2->doom_why != NULL)
		return;
	h2->doom = code;
	h2->doom_why = why;
}

static void lose_all(weir_h2 *h2, const char *error)
{
	while (h2->streams != NULL)
		weir_h2_stream_free(h2->streams, error);
}

/* Nothing more will be sent: closes once the output is out. */
static void shut(weir_h2 *h2, const char *error)
{
	if (h2->flags & WEIR_H2_CLOSED)
		return;
	h2->flags |= WEIR_H2_CLOSED;
	weir_link_close(&h2->conn->link);
	lose_all(h2, error);
}

static void lose(weir_h2 *h2, int why, const char *error)
{
	if (h2->flags & WEIR_H2_CLOSED)
		return;
	h2->flags |= WEIR_H2_CLOSED;
	weir_conn_abort(h2->conn->link.conn, why);
	lose_all(h2, error);
}

static void log_doom(weir_h2 *h2)
{
	weir_http_count(&h2->conn->loop->counts.malformed);
	weir_http_log_malformed(h2->conn, 0, h2->doom_why, weir_h2_now(h2));
}

/* ---- out ---- */

bool weir_h2_link_is_full(const weir_h2 *h2)
{
	return weir_link_output(&h2->conn->link) >= h2->conn->loop->link_bytes / 2;
}

/* A write that the link cannot take makes it call drained. */
static void want_drained(weir_h2 *h2)
{
	weir_link_write(&h2->conn->link, "", (size_t)h2->conn->loop->link_bytes + 1);
}

/* Streams that are done end first, so that those who wait for their number may begin. */
static int send_frames(weir_h2 *h2)
{
	weir_h2_stream *stream;
	h2->flags |= WEIR_H2_INSIDE;
	int error = weir_h2_send_pending(h2);
	weir_h2_finish(h2);
	while (error == 0 && h2->pending.bytes == NULL && !weir_h2_link_is_full(h2) &&
	       (stream = weir_h2_next(h2)) != NULL) {
		error = weir_h2_send_body(stream);
		weir_h2_finish(h2);
	}
	h2->flags &= (uint16_t)~WEIR_H2_INSIDE;
	return error;
}

static void set_reading(weir_h2 *h2, bool full)
{
	if (full == ((h2->flags & WEIR_H2_STOPPED) != 0))
		return;
	h2->flags ^= WEIR_H2_STOPPED;
	if (full)
		weir_link_pause(&h2->conn->link);
	else
		weir_link_resume(&h2->conn->link);
}

static bool is_over(const weir_h2 *h2)
{
	return h2->flags & (WEIR_H2_LAST | WEIR_H2_LEAVES) && h2->stream_count == 0;
}

/* Sends a GOAWAY with the reason, if it fits, and closes. */
static void meet_doom(weir_h2 *h2)
{
	log_doom(h2);
	weir_h2_say_goaway(h2, h2->past.highest, h2->doom);
	if (weir_h2_send_pending(h2) != 0)
		lose(h2, -EPROTO, h2->doom_why);
	else
		shut(h2, h2->doom_why);
}

/* Sends as much as the link takes, with what drained callbacks add while there is room. */
static void pump(weir_h2 *h2)
{
	int error;
	unsigned rounds = 0;
	do
		error = send_frames(h2);
	while (weir_h2_run_due(h2) && error == 0 && !(h2->flags & WEIR_H2_CLOSED) && ++rounds < ROUNDS);
	if (h2->flags & WEIR_H2_CLOSED)
		return;
	if (error != 0) {
		lose(h2, error, "the connection cannot be used");
		return;
	}
	if (h2->doom_why != NULL) {
		meet_doom(h2);
		return;
	}
	bool full = weir_h2_link_is_full(h2);
	if (full || weir_h2_is_ahead(h2))
		want_drained(h2);
	set_reading(h2, full);
	if (rounds == ROUNDS)
		weir_h2_go_on(h2);
	if (!full && is_over(h2))
		shut(h2, "the client has gone");
}

void weir_h2_go_on(weir_h2 *h2)
{
	if (!(h2->flags & (WEIR_H2_INSIDE | WEIR_H2_CLOSED)))
		weir_http_conn_later(h2->conn);
}

void weir_h2_flush(weir_h2 *h2)
{
	if (h2->flags & (WEIR_H2_INSIDE | WEIR_H2_CLOSED))
		return;
	/* An error shows up again later, where it can be handled. */
	send_frames(h2);
	weir_link_flush(&h2->conn->link);
	weir_h2_go_on(h2);
}

/* ---- in ---- */

static void h2_data(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	weir_h2 *h2 = weir_h2_of(conn_of(link));
	if (h2->flags & WEIR_H2_CLOSED)
		return;
	h2->in = buf;
	h2->flags |= WEIR_H2_INSIDE;
	weir_h2_read(h2, buf->data + offset, length);
	h2->flags &= (uint16_t)~WEIR_H2_INSIDE;
	h2->in = NULL;
	if (h2->doom_why != NULL) {
		meet_doom(h2);
		return;
	}
	if (h2->flags & WEIR_H2_BLOCK)
		weir_h2_arm(h2, h2->block_ns, h2->conn->loop->limits.head_ns);
	pump(h2);
}

static void h2_later(weir_http_conn *conn)
{
	weir_h2 *h2 = weir_h2_of(conn);
	if (!(h2->flags & WEIR_H2_CLOSED))
		pump(h2);
}

static void h2_drained(weir_link *link)
{
	h2_later(conn_of(link));
}

static void h2_eof(weir_link *link)
{
	shut(weir_h2_of(conn_of(link)), "the client has gone");
}

/* ---- leaving ---- */

/* Refuses streams beyond those that have arrived. */
static void say_last(weir_h2 *h2)
{
	h2->flags |= WEIR_H2_LAST;
	weir_h2_say_goaway(h2, h2->past.highest, WEIR_H2_NO_ERROR);
	weir_h2_go_on(h2);
}

/* In two steps (RFC 9113 6.8), so that streams that are on their way at the announcement are still served. */
void weir_h2_leave(weir_h2 *h2)
{
	if (h2->flags & WEIR_H2_LAST)
		return;
	if (h2->flags & WEIR_H2_NOTICE) {
		say_last(h2);
		return;
	}
	h2->flags |= WEIR_H2_NOTICE;
	h2->notice_ns = weir_h2_now(h2);
	weir_h2_say_goaway(h2, WEIR_H2_ID_MOST, WEIR_H2_NO_ERROR);
	weir_h2_say_ping(h2);
	weir_h2_arm(h2, h2->notice_ns, NOTICE_NS);
	weir_h2_go_on(h2);
}

static void h2_drain(weir_http_conn *conn)
{
	weir_h2 *h2 = weir_h2_of(conn);
	if (!(h2->flags & (WEIR_H2_CLOSED | WEIR_H2_NOTICE)))
		weir_h2_leave(h2);
}

/* ---- time-outs ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t after(uint64_t from_ns, uint64_t ns)
{
	return ns > UINT64_MAX - from_ns ? UINT64_MAX : from_ns + ns;
}

static uint64_t stream_deadline(const weir_h2_stream *stream)
{
	const weir_http_limits *limits = &stream->h2->conn->loop->limits;
	uint64_t at_ns = weir_h2_body_deadline(stream);
	if (stream->first != NULL)
		at_ns = least(at_ns,
			      after(weir_h2_is_held(stream) ? weir_h2_now(stream->h2) : stream->progress_ns,
				    limits->output_ns));
	return at_ns;
}

/* The deadline of the connection itself. */
static uint64_t own_deadline(const weir_h2 *h2)
{
	const weir_http_limits *limits = &h2->conn->loop->limits;
	uint64_t at_ns = UINT64_MAX;
	if (!(h2->flags & WEIR_H2_ACKED) || !(h2->flags & WEIR_H2_GREETED))
		at_ns = after(h2->began_ns, limits->first_byte_ns);
	if (h2->flags & WEIR_H2_BLOCK)
		at_ns = least(at_ns, after(h2->block_ns, limits->head_ns));
	if (h2->stream_count == 0 && !(h2->flags & WEIR_H2_BLOCK))
		at_ns = least(at_ns, after(h2->idle_ns, limits->idle_ns));
	if ((h2->flags & (WEIR_H2_NOTICE | WEIR_H2_LAST)) == WEIR_H2_NOTICE)
		at_ns = least(at_ns, after(h2->notice_ns, NOTICE_NS));
	return at_ns;
}

static uint64_t h2_deadline(const weir_http_conn *conn)
{
	const weir_h2 *h2 = weir_h2_of(conn);
	if (h2->flags & WEIR_H2_CLOSED)
		return UINT64_MAX;
	uint64_t at_ns = own_deadline(h2);
	for (const weir_h2_stream *stream = h2->streams; stream != NULL; stream = stream->next)
		at_ns = least(at_ns, stream_deadline(stream));
	return at_ns;
}

void weir_h2_arm(weir_h2 *h2, uint64_t from_ns, uint64_t ns)
{
	weir_timer *timer = &h2->conn->timer;
	uint64_t at_ns = after(from_ns, ns);
	if (at_ns != UINT64_MAX && (!weir_timer_pending(timer) || timer->at_ns > at_ns))
		weir_timer_start(h2->conn->loop->loop, timer, at_ns);
}

static weir_h2_stream *late_stream(const weir_h2 *h2, uint64_t now_ns)
{
	for (weir_h2_stream *stream = h2->streams; stream != NULL; stream = stream->next)
		if (stream_deadline(stream) <= now_ns)
			return stream;
	return NULL;
}

static void lose_late(weir_h2_stream *stream, uint64_t now_ns)
{
	if (stream->request == NULL) {
		weir_h2_stream_reset(stream, WEIR_H2_NO_ERROR);
		return;
	}
	weir_http_count(&stream->h2->conn->loop->counts.timeouts);
	if (weir_h2_body_deadline(stream) <= now_ns)
		weir_h2_body_is_bad(stream, 408, WEIR_H2_CANCEL, "the body did not come in time");
	else
		weir_h2_stream_lose(stream, WEIR_H2_CANCEL, "the client does not read");
}

/* true: the connection has been dealt with. */
static bool own_timeout(weir_h2 *h2, uint64_t now_ns)
{
	if (own_deadline(h2) > now_ns)
		return false;
	const weir_http_limits *limits = &h2->conn->loop->limits;
	if (h2->flags & WEIR_H2_BLOCK && after(h2->block_ns, limits->head_ns) <= now_ns) {
		weir_http_count(&h2->conn->loop->counts.timeouts);
		weir_h2_set_doom(h2, WEIR_H2_ENHANCE_YOUR_CALM, "the head did not come in time");
	} else if ((h2->flags & (WEIR_H2_ACKED | WEIR_H2_GREETED)) != (WEIR_H2_ACKED | WEIR_H2_GREETED) &&
		   after(h2->began_ns, limits->first_byte_ns) <= now_ns) {
		weir_http_count(&h2->conn->loop->counts.timeouts);
		weir_h2_set_doom(h2, WEIR_H2_SETTINGS_TIMEOUT, "the settings did not come in time");
	} else if (h2->flags & WEIR_H2_NOTICE || h2->stream_count == 0) {
		/* No request is lost by that. */
		say_last(h2);
	}
	if (h2->doom_why != NULL)
		meet_doom(h2);
	return true;
}

static void h2_timeout(weir_http_conn *conn)
{
	weir_h2 *h2 = weir_h2_of(conn);
	uint64_t now_ns = weir_h2_now(h2);
	weir_h2_stream *stream;
	weir_h2_note_pace(h2);
	if (!own_timeout(h2, now_ns))
		while (!(h2->flags & WEIR_H2_CLOSED) && (stream = late_stream(h2, now_ns)) != NULL)
			lose_late(stream, now_ns);
	if (!(h2->flags & WEIR_H2_CLOSED)) {
		pump(h2);
		weir_http_wait_arm(conn);
	}
}

/* ---- opening, and the end ---- */

static void h2_free(weir_h2 *h2)
{
	weir_h2_input_fini(h2);
	weir_mem_free(h2->pending.bytes);
	weir_hpack_decoder_fini(&h2->decoder);
	weir_hpack_encoder_fini(&h2->encoder);
	weir_mem_free(h2);
}

int weir_h2_start(weir_http_conn *conn)
{
	weir_http_loop *loop = conn->loop;
	weir_h2 *h2 = weir_mem_zalloc(sizeof(*h2));
	if (h2 == NULL)
		return -ENOMEM;
	h2->conn = conn;
	h2->send_window = h2->peer_window = WEIR_H2_WINDOW_FIRST;
	h2->receive_window = WEIR_H2_WINDOW;
	weir_hpack_decoder_init(&h2->decoder);
	weir_hpack_encoder_init(&h2->encoder);
	weir_h2_say_settings(h2);
	weir_h2_say_window(h2, 0, WEIR_H2_WINDOW - WEIR_H2_WINDOW_FIRST);
	if (h2->doom_why != NULL) {
		h2_free(h2);
		return -ENOMEM;
	}
	conn->link.ops = &weir_h2_link_ops;
	conn->protocol = &weir_h2_protocol;
	conn->session = h2;
	conn->wait = WEIR_WAIT_NOTHING;
	h2->began_ns = h2->idle_ns = weir_h2_now(h2);
	weir_h2_guard_init(&h2->guard, loop->limits.streams, loop->limits.head_bytes, loop->limits.fields,
			   h2->began_ns);
	weir_http_count(&loop->counts.h2_connections);
	weir_http_wait_arm(conn);
	if (loop->draining)
		weir_h2_leave(h2);
	weir_h2_go_on(h2);
	return 0;
}

static void h2_strand(weir_http_conn *conn)
{
	weir_h2 *h2 = weir_h2_of(conn);
	h2->flags |= WEIR_H2_CLOSED;
	lose_all(h2, "the server has stopped");
}

static void h2_closed(weir_link *link, int why)
{
	weir_http_conn *conn = conn_of(link);
	weir_h2 *h2 = weir_h2_of(conn);
	h2->flags |= WEIR_H2_CLOSED;
	weir_http_tell_tls(conn, why);
	lose_all(h2, why == -ETIMEDOUT ? "the client does not read" : "the client has gone");
	h2_free(h2);
	conn->session = NULL;
	weir_http_conn_free(conn);
}

const weir_link_ops weir_h2_link_ops = {
	.data = h2_data, .eof = h2_eof, .drained = h2_drained, .closed = h2_closed, .left = weir_h2_left};
const weir_protocol weir_h2_protocol = {.timeout = h2_timeout,
					.drain = h2_drain,
					.later = h2_later,
					.strand = h2_strand,
					.deadline = h2_deadline};
