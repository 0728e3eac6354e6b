/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of an upstream: making, timeouts, closing; plain or with TLS. States: upstream_priv.h. */
#include <errno.h>

#include "base/assert.h"
#include "loop/loop.h"
#include "sentry/upstream_h2.h"
#include "tls/tls.h"

/* ---- the end ---- */

static void release(weir_upstream_conn *conn)
{
	weir_upstream *upstream = conn->upstream;
	weir_timer_stop(&conn->timer);
	weir_upstream_forget(conn);
	*conn->all_link = conn->all_next;
	if (conn->all_next != NULL)
		conn->all_next->all_link = conn->all_link;
	upstream->open--;
	weir_upstream_lane *lane = conn->lane;
	WEIR_COUNT(lane->counts.open, -1u);
	weir_pool_give(&upstream->conns, conn);
	weir_upstream_is_left(lane);
}

void weir_upstream_cut(weir_upstream_conn *conn, int why)
{
	WEIR_ASSERT(conn->call == NULL);
	weir_upstream_forget(conn);
	weir_timer_stop(&conn->timer);
	conn->state = WEIR_UPSTREAM_DYING;
	weir_conn_abort(conn->link.conn, why);
}

weir_call_step weir_upstream_step(const weir_upstream_conn *conn)
{
	if (conn->state == WEIR_UPSTREAM_CONNECTING)
		return WEIR_CALL_CONNECT;
	return conn->state == WEIR_UPSTREAM_HANDSHAKE ? WEIR_CALL_HANDSHAKE : WEIR_CALL_ANSWER;
}

static weir_call_step step_of(const weir_upstream_conn *conn)
{
	weir_call_step step = weir_upstream_step(conn);
	if (step != WEIR_CALL_ANSWER)
		return step;
	if (conn->phase == WEIR_PHASE_TUNNEL)
		return WEIR_CALL_TUNNEL;
	if (conn->phase != WEIR_PHASE_HEAD)
		return WEIR_CALL_BODY;
	return conn->received ? WEIR_CALL_HEAD : WEIR_CALL_ANSWER;
}

/* Not if a kept connection was closed under a request, if we caused the end, or if the server said no. */
bool weir_upstream_is_to_blame(const weir_call_failure *failure)
{
	switch (failure->error) {
	case -ECANCELED:
	case -ENOMEM:
	case -EMFILE:
	case -ENFILE:
		return false;
	case -ETIMEDOUT:
		return failure->step != WEIR_CALL_TUNNEL;
	default:
		return !failure->refused && failure->step != WEIR_CALL_TUNNEL &&
		       (!failure->reused || failure->received);
	}
}

/* Separates call and connection, and tells the call last. The connection is DYING afterwards. */
static void tell_failed(weir_upstream_conn *conn, int error, const char *text)
{
	weir_call_failure failure = {.step = step_of(conn),
				     .error = error,
				     .received = conn->received,
				     .reused = conn->reused,
				     .text = text};
	failure.sent = failure.step > WEIR_CALL_HANDSHAKE;
	conn->state = WEIR_UPSTREAM_DYING;
	weir_upstream_forget(conn);
	weir_call *call = weir_upstream_part(conn);
	if (!call->probe) {
		WEIR_COUNT(conn->lane->counts.failures, 1);
		if (weir_upstream_is_to_blame(&failure))
			weir_fleet_failed(conn->upstream->fleet, conn->lane->backend,
					  weir_loop_time(conn->upstream->loop));
	}
	call->ops->failed(call, &failure);
}

void weir_upstream_fail(weir_upstream_conn *conn, int error, const char *text)
{
	weir_timer_stop(&conn->timer);
	weir_conn_abort(conn->link.conn, error);
	tell_failed(conn, error, text);
}

/* ---- timeouts ---- */

static uint64_t step_deadline(const weir_upstream_conn *conn)
{
	const weir_upstream_limits *limits = &conn->upstream->limits;
	switch (conn->state) {
	case WEIR_UPSTREAM_HANDSHAKE:
		return weir_upstream_after(conn->progress_ns, limits->handshake_ns);
	case WEIR_UPSTREAM_IDLE:
		return weir_upstream_after(conn->progress_ns, limits->idle_ns);
	case WEIR_UPSTREAM_BUSY:
		break;
	default:
		return UINT64_MAX; /* CONNECTING: the socket has its own timeout */
	}
	if (conn->phase == WEIR_PHASE_TUNNEL)
		return weir_upstream_after(conn->progress_ns, limits->tunnel_ns);
	if (conn->paused)
		return UINT64_MAX;
	if (conn->phase == WEIR_PHASE_HEAD)
		/* Until the request is written, the client and the socket have their own timeouts. */
		return conn->request_done ? weir_upstream_after(conn->progress_ns, limits->head_ns)
					  : UINT64_MAX;
	return weir_upstream_after(conn->progress_ns, conn->streams ? limits->stream_ns : limits->gap_ns);
}

static uint64_t deadline(const weir_upstream_conn *conn)
{
	if (conn->h2 != NULL)
		return weir_upstream_h2_deadline(conn);
	uint64_t at_ns = step_deadline(conn), total_ns = conn->upstream->limits.total_ns;
	if (total_ns == 0 || conn->call == NULL || conn->phase == WEIR_PHASE_TUNNEL)
		return at_ns;
	uint64_t end_ns = weir_upstream_after(conn->call->started_ns, total_ns);
	return end_ns < at_ns ? end_ns : at_ns;
}

void weir_upstream_arm(weir_upstream_conn *conn)
{
	uint64_t at_ns = deadline(conn);
	if (at_ns == UINT64_MAX || conn->state == WEIR_UPSTREAM_DYING)
		return;
	if (!weir_timer_pending(&conn->timer) || conn->timer.at_ns > at_ns)
		weir_timer_start(conn->upstream->loop, &conn->timer, at_ns);
}

static const char *late_text(const weir_upstream_conn *conn)
{
	switch (step_of(conn)) {
	case WEIR_CALL_CONNECT:
		return "no connection in time";
	case WEIR_CALL_HANDSHAKE:
		return "no TLS handshake in time";
	case WEIR_CALL_ANSWER:
		return "no answer in time";
	case WEIR_CALL_HEAD:
		return "the head of the answer did not come in time";
	case WEIR_CALL_BODY:
		return "the body of the answer did not come in time";
	default:
		return "nothing was said for too long";
	}
}

static void time_is_up(weir_timer *timer, void *arg)
{
	weir_upstream_conn *conn = arg;
	if (deadline(conn) > weir_loop_time(conn->upstream->loop)) {
		weir_upstream_arm(conn);
	} else if (conn->h2 != NULL) {
		weir_upstream_h2_late(conn);
	} else if (conn->state == WEIR_UPSTREAM_IDLE) {
		weir_upstream_take_idle(conn);
		weir_upstream_cut(conn, 0);
	} else {
		weir_upstream_fail(conn, -ETIMEDOUT, late_text(conn));
	}
}

/* ---- a request begins ---- */

void weir_upstream_begin(weir_upstream_conn *conn, weir_buf *head)
{
	weir_call *call = conn->call;
	weir_upstream_expect(conn);
	conn->request_done = call->framing == WEIR_BODY_NONE;
	conn->progress_ns = weir_loop_time(conn->upstream->loop);
	/* Only fails if the connection is ending, of which we will hear. */
	if (head != NULL)
		weir_link_send(&conn->link, head, 0, head->length);
	weir_upstream_arm_now(conn);
	if (call->ops->ready != NULL)
		call->ops->ready(call);
}

/* The connection is up: sends the head that waited for it. */
static void is_up(weir_upstream_conn *conn)
{
	weir_buf *head = conn->head;
	conn->head = NULL;
	conn->state = WEIR_UPSTREAM_BUSY;
	weir_origin_prefer(conn->lane->backend, conn->attempt);
	if (conn->h2 != NULL) {
		weir_upstream_h2_up(conn);
		return;
	}
	weir_upstream_begin(conn, head);
	weir_buf_unref(head);
}

/* ---- callbacks of a plain connection ---- */

static int conn_open(weir_conn *raw, void *arg)
{
	weir_upstream_conn *conn = arg;
	is_up(conn);
	return 0;
}

static void conn_data(weir_conn *raw, weir_buf *buf)
{
	weir_upstream_data(weir_conn_user(raw), buf, 0, buf->length);
}

static void conn_eof(weir_conn *raw)
{
	weir_upstream_eof(weir_conn_user(raw));
}

static void drained(weir_upstream_conn *conn)
{
	if (conn->h2 != NULL)
		weir_upstream_h2_drained(conn);
	else if (conn->call != NULL && conn->call->ops->drained != NULL)
		conn->call->ops->drained(conn->call);
}

static void conn_drained(weir_conn *raw)
{
	drained(weir_conn_user(raw));
}

static int open_socket(weir_upstream_conn *conn);

static const char *end_text(const weir_upstream_conn *conn, int why)
{
	if (conn->link.tls != NULL && weir_tls_error(&conn->link)[0] != '\0')
		return weir_tls_error(&conn->link);
	if (conn->state == WEIR_UPSTREAM_CONNECTING)
		return why == -ETIMEDOUT ? "no connection in time" : "cannot connect";
	if (conn->state == WEIR_UPSTREAM_HANDSHAKE)
		return "the TLS handshake failed";
	return why == -ETIMEDOUT ? "the request was not taken in time" : "the connection was reset";
}

static void ended(weir_upstream_conn *conn, int why)
{
	const char *text = end_text(conn, why);
	if (conn->link.tls != NULL)
		weir_tls_session_free(&conn->link);
	conn->link.tls = NULL;
	if (conn->state == WEIR_UPSTREAM_CONNECTING && why != -ECANCELED) {
		conn->attempt++;
		if (open_socket(conn) == 0)
			return;
	}
	if (conn->state == WEIR_UPSTREAM_IDLE)
		weir_upstream_take_idle(conn);
	if (conn->call != NULL)
		tell_failed(conn, why != 0 ? why : -ECONNRESET, text);
	if (conn->h2 != NULL)
		weir_upstream_h2_ended(conn, why != 0 ? why : -ECONNRESET, text);
	release(conn);
}

static void conn_closed(weir_conn *raw, int why)
{
	ended(weir_conn_user(raw), why);
}

static const weir_conn_ops plain_ops = {.open = conn_open,
					.data = conn_data,
					.eof = conn_eof,
					.drained = conn_drained,
					.closed = conn_closed};

/* ---- callbacks of a TLS session ---- */

static weir_upstream_conn *of_link(weir_link *link)
{
	return (weir_upstream_conn *)(void *)link; /* its first member */
}

static void link_ready(weir_link *link)
{
	is_up(of_link(link));
}

static void link_data(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	weir_upstream_data(of_link(link), buf, offset, length);
}

static void link_eof(weir_link *link)
{
	weir_upstream_eof(of_link(link));
}

static void link_drained(weir_link *link)
{
	drained(of_link(link));
}

static void link_closed(weir_link *link, int why)
{
	ended(of_link(link), why);
}

static const weir_link_ops tls_link_ops = {.ready = link_ready,
					   .data = link_data,
					   .eof = link_eof,
					   .drained = link_drained,
					   .closed = link_closed};

static int tls_open(weir_conn *raw, void *arg)
{
	weir_upstream_conn *conn = arg;
	const weir_origin *backend = conn->lane->backend;
	conn->state = WEIR_UPSTREAM_HANDSHAKE;
	conn->progress_ns = weir_loop_time(conn->upstream->loop);
	conn->link.conn = raw;
	conn->link.ops = &tls_link_ops;
	weir_upstream_arm(conn);
	const char *name = backend->options.unverified ? NULL : backend->at.host;
	uint32_t output_bytes = conn->upstream->limits.output_bytes;
	return conn->h2 != NULL ? weir_tls_connect_h2(&conn->link, name, backend->ca, output_bytes)
				: weir_tls_connect(&conn->link, name, backend->ca, output_bytes);
}

/* ---- making one ---- */

static void tls_closed(weir_conn *raw, int why)
{
	weir_upstream_conn *conn = weir_conn_user(raw);
	if (conn->link.tls != NULL)
		weir_tls_conn_ops.closed(raw, why);
	else
		ended(conn, why);
}

/* Those of a session, except for the beginning and an end before there is a session. */
static const weir_conn_ops *tls_ops(void)
{
	static _Thread_local weir_conn_ops ops;
	if (ops.open == NULL) {
		ops = weir_tls_conn_ops;
		ops.open = tls_open;
		ops.closed = tls_closed;
	}
	return &ops;
}

/* Tries the current address, and those after it. */
static int open_socket(weir_upstream_conn *conn)
{
	const weir_upstream_limits *limits = &conn->upstream->limits;
	const weir_conn_limits conn_limits = {.output_bytes = limits->output_bytes,
					      .output_ns = limits->send_ns,
					      .connect_ns = limits->connect_ns};
	const weir_conn_ops *ops = conn->lane->backend->at.secure ? tls_ops() : &plain_ops;
	weir_address to;
	int error = -ENOENT;
	conn->link = (weir_link){0};
	for (; weir_origin_address(conn->lane->backend, conn->attempt, &to); conn->attempt++) {
		error = weir_conn_open(conn->upstream->loop, (const struct sockaddr *)&to.at, to.length, ops,
				       &conn_limits, conn, &conn->link.conn);
		if (error == 0) {
			WEIR_COUNT(conn->lane->counts.connects, 1);
			return 0;
		}
	}
	return error;
}

static void link_in(weir_upstream *upstream, weir_upstream_conn *conn)
{
	conn->all_next = upstream->all;
	conn->all_link = &upstream->all;
	if (conn->all_next != NULL)
		conn->all_next->all_link = &conn->all_next;
	upstream->all = conn;
	upstream->open++;
	WEIR_COUNT(conn->lane->counts.open, 1);
}

int weir_upstream_open_conn(weir_upstream *upstream, weir_upstream_lane *lane, weir_upstream_h2 *h2,
			    weir_upstream_conn **ret_conn)
{
	weir_upstream_conn *conn = weir_pool_take(&upstream->conns);
	if (conn == NULL)
		return -ENOMEM;
	*conn = (weir_upstream_conn){.upstream = upstream, .lane = lane, .h2 = h2};
	weir_timer_init(&conn->timer, time_is_up, conn);
	link_in(upstream, conn);
	int error = open_socket(conn);
	if (error != 0) {
		release(conn);
		return error;
	}
	*ret_conn = conn;
	return 0;
}

int weir_upstream_connect(weir_upstream *upstream, weir_upstream_lane *lane, weir_call *call, weir_buf *head)
{
	weir_upstream_conn *conn;
	int error = weir_upstream_open_conn(upstream, lane, NULL, &conn);
	if (error != 0)
		return error;
	conn->call = call;
	call->conn = conn;
	conn->head = weir_buf_ref(head);
	weir_upstream_arm(conn);
	return 0;
}
