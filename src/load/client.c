/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: who gets one, what goes over it, how it ends. */
#include <errno.h>

#include "base/assert.h"
#include "base/mem.h"
#include "http/tls.h"
#include "load/reactor.h"
#include "loop/loop.h"
#include "net/net.h"

/* Being made at the same time: more would be lost in the backlog of many a server, to be tried again a second later. */
#define CONNECTING_MAX 128u
#define OUTPUT_BYTES   (64u << 20)

/* ---- the list of idle ones: the last used first ---- */

static void put_idle(load_conn *conn)
{
	load_reactor *reactor = conn->reactor;
	conn->next = reactor->idle;
	conn->link_in = &reactor->idle;
	if (conn->next != NULL)
		conn->next->link_in = &conn->next;
	reactor->idle = conn;
}

static void take_idle(load_conn *conn)
{
	if (conn->link_in == NULL)
		return;
	*conn->link_in = conn->next;
	if (conn->next != NULL)
		conn->next->link_in = conn->link_in;
	conn->link_in = NULL;
}

/* ---- the queue of those who wait ---- */

static void wait_in_line(load_session *session)
{
	load_reactor *reactor = session->reactor;
	session->next = NULL;
	*reactor->waiting_end = session;
	reactor->waiting_end = &session->next;
}

static load_session *take_waiting(load_reactor *reactor)
{
	load_session *session = reactor->waiting;
	if (session == NULL)
		return NULL;
	reactor->waiting = session->next;
	if (reactor->waiting == NULL)
		reactor->waiting_end = &reactor->waiting;
	return session;
}

/* ---- the end of an attempt ---- */

static void unpair(load_conn *conn, load_session *session)
{
	conn->session = NULL;
	session->conn = NULL;
	conn->deadline_ns = UINT64_MAX;
}

void load_client_drop(load_conn *conn)
{
	if (conn->state == LOAD_CONN_DYING)
		return;
	take_idle(conn);
	if (conn->state == LOAD_CONN_CONNECTING || conn->state == LOAD_CONN_HANDSHAKE)
		conn->reactor->connecting--;
	conn->state = LOAD_CONN_DYING;
	weir_timer_stop(&conn->timer);
	weir_conn_abort(conn->link.conn, 0);
}

void load_client_part(load_session *session)
{
	load_conn *conn = session->conn;
	if (conn == NULL)
		return;
	unpair(conn, session);
	if (conn->state != LOAD_CONN_IDLE) {
		load_client_drop(conn);
	} else {
		put_idle(conn);
		load_client_serve(conn->reactor);
	}
}

/* The attempt failed, and the connection with it, if it has not ended by itself. */
static void fail(load_conn *conn, load_end end, load_error error)
{
	load_session *session = conn->session;
	const load_outcome outcome = {.end = end, .error = error, .ended_ns = load_now(conn->reactor)};
	unpair(conn, session);
	load_client_drop(conn);
	load_session_over(session, &outcome);
}

/* ---- time ---- */

static void time_is_up(weir_timer *timer, void *arg)
{
	load_conn *conn = arg;
	if (conn->session == NULL || conn->deadline_ns == UINT64_MAX)
		return;
	if (conn->deadline_ns > load_now(conn->reactor))
		weir_timer_start(conn->reactor->loop, timer, conn->deadline_ns);
	else
		fail(conn, conn->impatient ? LOAD_ABORTED : LOAD_TIMEOUT, LOAD_ERROR_NONE);
}

static uint64_t after(uint64_t from_ns, uint64_t ns)
{
	return ns > UINT64_MAX - from_ns ? UINT64_MAX : from_ns + ns;
}

/* The timer runs on from request to request, and looks for itself whether it is still early. */
static void pair(load_conn *conn, load_session *session, uint64_t now_ns)
{
	const load_plan *plan = conn->reactor->plan;
	uint64_t timeout_ns = after(now_ns, plan->timeout_ns);
	uint64_t patience_ns = after(session->due_ns, plan->patience_ns);
	conn->session = session;
	session->conn = conn;
	conn->impatient = patience_ns < timeout_ns;
	conn->deadline_ns = conn->impatient ? patience_ns : timeout_ns;
	if (!weir_timer_pending(&conn->timer) || conn->timer.at_ns > conn->deadline_ns)
		weir_timer_start(conn->reactor->loop, &conn->timer, conn->deadline_ns);
	load_session_sent(session, now_ns);
}

/* ---- a request goes out ---- */

/* The connection is up and has a session. */
static void start(load_conn *conn)
{
	load_reactor *reactor = conn->reactor;
	load_session *session = conn->session;
	load_request request;
	conn->state = LOAD_CONN_BUSY;
	conn->first_byte_ns = 0;
	conn->made++;
	if (conn->h2 != NULL) {
		load_reader_begin(&conn->reader, WEIR_METHOD_OTHER);
		if (load_h2_ask(conn->h2, &conn->link, session->form, session->target, session->cookies) != 0)
			fail(conn, LOAD_ERROR, LOAD_ERROR_CUT);
		return;
	}
	if (load_bytes_of(&reactor->bytes, session->form, session->target, session->cookies, &request) != 0) {
		fail(conn, LOAD_ERROR, LOAD_ERROR_CONNECT);
		return;
	}
	load_reader_begin(&conn->reader, request.method);
	/* Refused only by a connection that is ending, of which we will hear. */
	weir_link_write(&conn->link, request.bytes, request.length);
}

static void use(load_conn *conn, load_session *session)
{
	pair(conn, session, load_now(conn->reactor));
	start(conn);
}

/* ---- an answer comes ---- */

static load_end judge(unsigned status, load_error *ret_error)
{
	*ret_error = LOAD_ERROR_NONE;
	if (status < 400)
		return LOAD_OK;
	if (status == 429 || status == 503)
		return LOAD_SHED;
	*ret_error = LOAD_ERROR_STATUS;
	return LOAD_ERROR;
}

static bool may_be_kept(const load_conn *conn, bool alone)
{
	const load_plan *plan = conn->reactor->plan;
	return alone && conn->reader.meaning.keep &&
	       (plan->per_connection == 0 || conn->made < plan->per_connection);
}

/* What waits has been waiting for longer than what this session will want next. */
static void set_free(load_conn *conn, load_session *session)
{
	load_reactor *reactor = conn->reactor;
	conn->state = LOAD_CONN_IDLE;
	load_session *next = take_waiting(reactor);
	if (next != NULL) {
		use(conn, next);
	} else if (reactor->keeps) {
		session->conn = conn;
		conn->session = session;
	} else {
		put_idle(conn);
	}
}

/* alone: nothing came after the answer. */
static void answered(load_conn *conn, bool alone)
{
	load_session *session = conn->session;
	load_outcome outcome = {.status = conn->reader.meaning.status,
				.retry_after_s = conn->reader.meaning.retry_after_s,
				.first_byte_ns = conn->first_byte_ns,
				.ended_ns = load_now(conn->reactor),
				.bytes = conn->reader.bytes,
				.kept = conn->kept};
	outcome.end = judge(outcome.status, &outcome.error);
	load_engine_answered(conn->reactor, outcome.status);
	unpair(conn, session);
	if (may_be_kept(conn, alone))
		set_free(conn, session);
	else
		load_client_drop(conn);
	load_session_over(session, &outcome);
}

/* Nobody asked, or it has ended. */
static void leave_idle(load_conn *conn)
{
	if (conn->session != NULL)
		unpair(conn, conn->session);
	load_client_drop(conn);
}

static load_read take(load_conn *conn, const char *bytes, size_t length, size_t *ret_used)
{
	*ret_used = length;
	if (conn->h2 != NULL)
		return load_h2_take(conn->h2, &conn->link, bytes, length);
	return load_reader_take(&conn->reader, &conn->reactor->heads, bytes, length, ret_used);
}

static void data(load_conn *conn, const char *bytes, size_t length)
{
	size_t used;
	if (conn->state != LOAD_CONN_BUSY) {
		/* With HTTP/2 there are frames beside answers. */
		if (conn->h2 == NULL || take(conn, bytes, length, &used) != LOAD_READ_MORE ||
		    !conn->reader.meaning.keep)
			leave_idle(conn);
		return;
	}
	load_read read = take(conn, bytes, length, &used);
	if (conn->first_byte_ns == 0 && (conn->h2 == NULL || conn->reader.bytes > 0))
		conn->first_byte_ns = load_now(conn->reactor);
	switch (read) {
	case LOAD_READ_DONE:
		answered(conn, used == length);
		break;
	case LOAD_READ_BAD:
		fail(conn, LOAD_ERROR, LOAD_ERROR_NONSENSE);
		break;
	default:
		break;
	}
}

static void end_of_stream(load_conn *conn)
{
	if (conn->state != LOAD_CONN_BUSY) {
		leave_idle(conn);
	} else if (conn->h2 == NULL && load_reader_end(&conn->reader) == LOAD_READ_DONE) {
		answered(conn, true);
	} else {
		fail(conn, LOAD_ERROR, LOAD_ERROR_CUT);
	}
}

/* ---- what a connection calls, plain or through TLS ---- */

static bool speaks_h2(load_conn *conn)
{
	const load_plan *plan = conn->reactor->plan;
	if (conn->link.tls != NULL && !weir_tls_is_h2(&conn->link))
		return false;
	return load_h2_new(&conn->reader, plan->place->authority, plan->place->secure, &conn->h2) == 0;
}

static void is_up(load_conn *conn)
{
	load_reactor *reactor = conn->reactor;
	uint64_t now_ns = load_now(reactor);
	reactor->connecting--;
	weir_hist_bump(&reactor->tally.connections, 1);
	weir_hist_add(&reactor->tally.connect, now_ns - conn->opened_ns);
	conn->state = LOAD_CONN_BUSY;
	if (reactor->plan->http2 && !speaks_h2(conn))
		fail(conn, LOAD_ERROR, conn->link.tls != NULL ? LOAD_ERROR_TLS : LOAD_ERROR_CONNECT);
	else
		start(conn);
}

static void ended(load_conn *conn, int why)
{
	load_reactor *reactor = conn->reactor;
	load_session *session = conn->session;
	load_error error = conn->state == LOAD_CONN_CONNECTING  ? LOAD_ERROR_CONNECT
			   : conn->state == LOAD_CONN_HANDSHAKE ? LOAD_ERROR_TLS
								: LOAD_ERROR_CUT;
	bool was_idle = conn->state == LOAD_CONN_IDLE;
	const load_outcome outcome = {.end = LOAD_ERROR, .error = error, .ended_ns = load_now(reactor)};
	if (conn->state == LOAD_CONN_CONNECTING || conn->state == LOAD_CONN_HANDSHAKE)
		reactor->connecting--;
	take_idle(conn);
	if (session != NULL)
		unpair(conn, session);
	if (conn->link.tls != NULL)
		weir_tls_session_free(&conn->link);
	weir_timer_stop(&conn->timer);
	load_reader_fini(&conn->reader);
	load_h2_free(conn->h2);
	if (conn->kept != NULL)
		weir_mem_free(conn->kept->body);
	weir_mem_free(conn->kept);
	reactor->conns--;
	weir_pool_give(&reactor->conn_pool, conn);
	if (session != NULL && !was_idle)
		load_session_over(session, &outcome);
	load_client_serve(reactor);
}

static int conn_open(weir_conn *raw, void *arg)
{
	is_up(arg);
	return 0;
}

static void conn_data(weir_conn *raw, weir_buf *buf)
{
	data(weir_conn_user(raw), (const char *)buf->data, buf->length);
}

static void conn_eof(weir_conn *raw)
{
	end_of_stream(weir_conn_user(raw));
}

static void conn_closed(weir_conn *raw, int why)
{
	ended(weir_conn_user(raw), why);
}

static const weir_conn_ops plain_ops = {
	.open = conn_open, .data = conn_data, .eof = conn_eof, .closed = conn_closed};

static load_conn *of_link(weir_link *link)
{
	return (load_conn *)(void *)link;
}

static void link_ready(weir_link *link)
{
	is_up(of_link(link));
}

static void link_data(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	data(of_link(link), (const char *)buf->data + offset, length);
}

static void link_eof(weir_link *link)
{
	end_of_stream(of_link(link));
}

static void link_drained(weir_link *link)
{
}

static void link_closed(weir_link *link, int why)
{
	ended(of_link(link), why);
}

static const weir_link_ops tls_link_ops = {link_ready, link_data, link_eof, link_drained, link_closed};

static int tls_open(weir_conn *raw, void *arg)
{
	load_conn *conn = arg;
	const load_plan *plan = conn->reactor->plan;
	conn->state = LOAD_CONN_HANDSHAKE;
	conn->link.conn = raw;
	conn->link.ops = &tls_link_ops;
	const char *name = plan->secure_unverified ? NULL : plan->place->host;
	return plan->http2 ? weir_tls_connect_h2(&conn->link, name, plan->authorities, OUTPUT_BYTES)
			   : weir_tls_connect(&conn->link, name, plan->authorities, OUTPUT_BYTES);
}

static void tls_closed(weir_conn *raw, int why)
{
	load_conn *conn = weir_conn_user(raw);
	if (conn->link.tls != NULL)
		weir_tls_conn_ops.closed(raw, why);
	else
		ended(conn, why);
}

/* Those of a session, but for the beginning and an end before there is a session. */
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

/* ---- making one ---- */

static load_kept *new_kept(const load_reactor *reactor)
{
	load_kept *kept = weir_mem_zalloc(sizeof(*kept));
	if (kept == NULL || reactor->kept_bytes == 0)
		return kept;
	kept->body = weir_mem_raw(reactor->kept_bytes);
	kept->most = kept->body != NULL ? reactor->kept_bytes : 0;
	return kept;
}

static int open_socket(load_conn *conn)
{
	load_reactor *reactor = conn->reactor;
	const load_plan *plan = reactor->plan;
	const load_address *to = &plan->place->address;
	const weir_conn_limits limits = {
		.output_bytes = OUTPUT_BYTES, .output_ns = UINT64_MAX, .connect_ns = UINT64_MAX};
	const weir_conn_ops *ops = plan->place->secure ? tls_ops() : &plain_ops;
	static const load_address anywhere = {.at.ss_family = AF_UNSPEC, .length = sizeof(struct sockaddr)};
	const load_address *from =
		plan->source_count > 0 ? &plan->sources[reactor->source++ % plan->source_count] : &anywhere;
	return weir_conn_open_from(reactor->loop, (const struct sockaddr *)&from->at, from->length,
				   (const struct sockaddr *)&to->at, to->length, ops, &limits, conn,
				   &conn->link.conn);
}

/* NULL: none can be had, whatever the reason. */
static load_conn *connect_for(load_session *session)
{
	load_reactor *reactor = session->reactor;
	load_conn *conn = weir_pool_take(&reactor->conn_pool);
	if (conn == NULL)
		return NULL;
	*conn = (load_conn){.reactor = reactor, .opened_ns = load_now(reactor), .deadline_ns = UINT64_MAX};
	weir_timer_init(&conn->timer, time_is_up, conn);
	load_reader_init(&conn->reader);
	if (open_socket(conn) != 0) {
		weir_pool_give(&reactor->conn_pool, conn);
		return NULL;
	}
	if (reactor->shows)
		conn->reader.kept = conn->kept = new_kept(reactor);
	reactor->conns++;
	reactor->connecting++;
	pair(conn, session, conn->opened_ns);
	return conn;
}

static void connect_or_fail(load_session *session)
{
	const load_outcome outcome = {
		.end = LOAD_ERROR, .error = LOAD_ERROR_CONNECT, .ended_ns = load_now(session->reactor)};
	if (connect_for(session) == NULL)
		load_session_over(session, &outcome);
}

static bool may_connect(const load_reactor *reactor)
{
	return reactor->conns < reactor->conns_max && reactor->connecting < CONNECTING_MAX;
}

void load_client_serve(load_reactor *reactor)
{
	while (reactor->waiting != NULL && !reactor->stopped) {
		if (reactor->idle != NULL) {
			load_conn *conn = reactor->idle;
			take_idle(conn);
			use(conn, take_waiting(reactor));
		} else if (may_connect(reactor)) {
			connect_or_fail(take_waiting(reactor));
		} else {
			return;
		}
	}
}

void load_client_send(load_session *session)
{
	load_reactor *reactor = session->reactor;
	load_conn *conn = session->conn;
	if (conn == NULL && reactor->waiting == NULL && reactor->idle != NULL) {
		conn = reactor->idle;
		take_idle(conn);
	}
	if (conn != NULL) {
		use(conn, session);
	} else if (reactor->waiting == NULL && may_connect(reactor)) {
		connect_or_fail(session);
	} else {
		wait_in_line(session);
	}
}
