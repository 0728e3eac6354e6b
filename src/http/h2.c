/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 connections: bytes into and out of nghttp2, time-outs, and how they end. h2.h has the invariants. */
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

/* The link calls drained at the same bound. */
static bool link_is_full(const weir_h2 *h2)
{
	return weir_link_output(&h2->conn->link) >= h2->conn->loop->link_bytes / 2;
}

/* A write that the link cannot take makes it call drained. */
static void want_drained(weir_h2 *h2)
{
	weir_link_write(&h2->conn->link, "", (size_t)h2->conn->loop->link_bytes + 1);
}

static int send_frames(weir_h2 *h2)
{
	const uint8_t *bytes;
	ssize_t length = 0;
	int error = 0;
	h2->flags |= WEIR_H2_INSIDE;
	while (error == 0 && !link_is_full(h2)) {
		length = nghttp2_session_mem_send(h2->session, &bytes);
		if (length > 0)
			error = weir_link_write(&h2->conn->link, bytes, (size_t)length);
		else if (length < 0 || !weir_h2_release(h2))
			break;
	}
	h2->flags &= (uint16_t)~WEIR_H2_INSIDE;
	return length < 0 ? -EPROTO : error;
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
	if (h2->flags & WEIR_H2_LAST && h2->stream_count == 0)
		return true;
	return !nghttp2_session_want_read(h2->session) && !nghttp2_session_want_write(h2->session);
}

/* Sends a GOAWAY with the reason, if it fits, and closes. */
static void meet_doom(weir_h2 *h2)
{
	log_doom(h2);
	nghttp2_session_terminate_session(h2->session, h2->doom);
	if (send_frames(h2) != 0)
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
	bool full = link_is_full(h2);
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

static const char *why_fatal(ssize_t error)
{
	switch (error) {
	case NGHTTP2_ERR_BAD_CLIENT_MAGIC:
		return "not the preface of HTTP/2";
	case NGHTTP2_ERR_FLOODED:
		return "too many frames that want an answer";
	case NGHTTP2_ERR_NOMEM:
		return "out of memory";
	default:
		return "frames that are none of HTTP/2";
	}
}

/*
 * Whether a header block is still arriving. A block that nghttp2 ignores without telling is not waited for
 * once its last frame has begun.
 */
static bool block_waits(weir_h2 *h2)
{
	if ((h2->flags & (WEIR_H2_BLOCK | WEIR_H2_BLOCK_LAST)) == (WEIR_H2_BLOCK | WEIR_H2_BLOCK_LAST)) {
		const weir_h2_stream *stream =
			nghttp2_session_get_stream_user_data(h2->session, h2->block_id);
		if (stream == NULL || !(stream->flags & (WEIR_H2_HEAD | WEIR_H2_TRAILED)))
			h2->flags &= (uint16_t)~WEIR_H2_BLOCK;
	}
	return h2->flags & WEIR_H2_BLOCK;
}

static void h2_data(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	weir_h2 *h2 = weir_h2_of(conn_of(link));
	if (h2->flags & WEIR_H2_CLOSED)
		return;
	h2->in = buf;
	h2->flags |= WEIR_H2_INSIDE;
	ssize_t used = nghttp2_session_mem_recv(h2->session, buf->data + offset, length);
	h2->flags &= (uint16_t)~WEIR_H2_INSIDE;
	h2->in = NULL;
	if (used < 0 && h2->doom_why == NULL)
		weir_h2_set_doom(h2,
				 used == NGHTTP2_ERR_BAD_CLIENT_MAGIC ? NGHTTP2_PROTOCOL_ERROR
								      : NGHTTP2_ENHANCE_YOUR_CALM,
				 why_fatal(used));
	if (h2->doom_why != NULL) {
		meet_doom(h2);
		return;
	}
	if (block_waits(h2))
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
	nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE,
			      nghttp2_session_get_last_proc_stream_id(h2->session), NGHTTP2_NO_ERROR, NULL,
			      0);
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
	nghttp2_submit_shutdown_notice(h2->session);
	nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, NULL);
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
	if (h2->stream_count == 0)
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
		weir_h2_stream_reset(stream, NGHTTP2_NO_ERROR);
		return;
	}
	weir_http_count(&stream->h2->conn->loop->counts.timeouts);
	if (weir_h2_body_deadline(stream) <= now_ns)
		weir_h2_body_is_bad(stream, 408, NGHTTP2_CANCEL, "the body did not come in time");
	else
		weir_h2_stream_lose(stream, NGHTTP2_CANCEL, "the client does not read");
}

/* true: the connection has been dealt with. */
static bool own_timeout(weir_h2 *h2, uint64_t now_ns)
{
	if (own_deadline(h2) > now_ns)
		return false;
	const weir_http_limits *limits = &h2->conn->loop->limits;
	if (h2->flags & WEIR_H2_BLOCK && after(h2->block_ns, limits->head_ns) <= now_ns) {
		weir_http_count(&h2->conn->loop->counts.timeouts);
		weir_h2_set_doom(h2, NGHTTP2_ENHANCE_YOUR_CALM, "the head did not come in time");
	} else if ((h2->flags & (WEIR_H2_ACKED | WEIR_H2_GREETED)) != (WEIR_H2_ACKED | WEIR_H2_GREETED) &&
		   after(h2->began_ns, limits->first_byte_ns) <= now_ns) {
		weir_http_count(&h2->conn->loop->counts.timeouts);
		weir_h2_set_doom(h2, NGHTTP2_SETTINGS_TIMEOUT, "the settings did not come in time");
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
	if (!own_timeout(h2, now_ns))
		while (!(h2->flags & WEIR_H2_CLOSED) && (stream = late_stream(h2, now_ns)) != NULL)
			lose_late(stream, now_ns);
	if (!(h2->flags & WEIR_H2_CLOSED)) {
		pump(h2);
		weir_http_wait_arm(conn);
	}
}

/* ---- opening, and the end ---- */

static nghttp2_option *make_options(void)
{
	nghttp2_option *option;
	if (nghttp2_option_new(&option) != 0)
		return NULL;
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_max_outbound_ack(option, 256);
	nghttp2_option_set_builtin_recv_extension_type(option, NGHTTP2_PRIORITY_UPDATE);
	/* Unknown types are skipped, but on_begin_frame must count them first. */
	for (unsigned type = NGHTTP2_CONTINUATION + 1; type <= UINT8_MAX; type++)
		if (type != NGHTTP2_PRIORITY_UPDATE)
			nghttp2_option_set_user_recv_extension_type(option, (uint8_t)type);
	return option;
}

static int make_session(weir_h2 *h2)
{
	nghttp2_session_callbacks *callbacks = weir_h2_callbacks_new();
	nghttp2_option *option = make_options();
	int error = callbacks == NULL || option == NULL
			    ? NGHTTP2_ERR_NOMEM
			    : nghttp2_session_server_new3(&h2->session, callbacks, h2, option,
							  &h2->conn->loop->h2.mem);
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	return error;
}

static int say_settings(weir_h2 *h2)
{
	const weir_http_limits *limits = &h2->conn->loop->limits;
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits->streams},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WEIR_H2_STREAM_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits->head_bytes},
		/* Priorities of RFC 9218, not the tree of RFC 7540, which clients do not send any more. */
		{NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
	};
	int error = nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings,
					    sizeof(settings) / sizeof(settings[0]));
	return error != 0 ? error
			  : nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
								  WEIR_H2_WINDOW);
}

int weir_h2_start(weir_http_conn *conn)
{
	weir_http_loop *loop = conn->loop;
	weir_h2 *h2 = weir_mem_zalloc(sizeof(*h2));
	if (h2 == NULL)
		return -ENOMEM;
	h2->conn = conn;
	if (make_session(h2) != 0 || say_settings(h2) != 0) {
		nghttp2_session_del(h2->session);
		weir_mem_free(h2);
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
	nghttp2_session_del(h2->session);
	weir_mem_free(h2);
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
