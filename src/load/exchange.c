/* SPDX-License-Identifier: Apache-2.0 */
/* A request and its answer on a connection: how it begins, its deadline, how it ends. */
#include "base/mem.h"
#include "load/reactor.h"
#include "loop/loop.h"

static load_exchange *of_timer(void *arg)
{
	return arg;
}

/* ---- allocation ---- */

static void time_is_up(weir_timer *timer, void *arg);

static load_kept *new_kept(const load_reactor *reactor)
{
	load_kept *kept = weir_mem_zalloc(sizeof(*kept));
	if (kept == NULL || reactor->kept_bytes == 0)
		return kept;
	kept->body = weir_mem_raw(reactor->kept_bytes);
	kept->most = kept->body != NULL ? reactor->kept_bytes : 0;
	return kept;
}

static void init(load_exchange *exchange, load_conn *conn)
{
	*exchange = (load_exchange){.conn = conn, .next = conn->exchanges};
	conn->exchanges = exchange;
	weir_timer_init(&exchange->timer, time_is_up, exchange);
	load_reader_init(&exchange->stream.reader);
	if (conn->reactor->shows)
		exchange->stream.reader.kept = exchange->kept = new_kept(conn->reactor);
}

/* The first one is part of the connection: with HTTP/1 there is no other. */
load_exchange *load_exchange_take(load_conn *conn)
{
	load_exchange *exchange = conn->spare;
	if (exchange != NULL) {
		conn->spare = exchange->spare;
		return exchange;
	}
	exchange = conn->exchanges == NULL ? &conn->first : weir_pool_take(&conn->reactor->exchange_pool);
	if (exchange != NULL)
		init(exchange, conn);
	return exchange;
}

void load_exchange_fini(load_exchange *exchange)
{
	load_conn *conn = exchange->conn;
	weir_timer_stop(&exchange->timer);
	load_reader_fini(&exchange->stream.reader);
	if (exchange->kept != NULL)
		weir_mem_free(exchange->kept->body);
	weir_mem_free(exchange->kept);
	if (exchange != &conn->first)
		weir_pool_give(&conn->reactor->exchange_pool, exchange);
}

/* ---- deadlines ---- */

static uint64_t after(uint64_t from_ns, uint64_t ns)
{
	return ns > UINT64_MAX - from_ns ? UINT64_MAX : from_ns + ns;
}

/* The timer keeps running from request to request, and checks by itself whether it is still too early. */
void load_exchange_pair(load_exchange *exchange, load_session *session, uint64_t now_ns)
{
	load_conn *conn = exchange->conn;
	const load_plan *plan = conn->reactor->plan;
	uint64_t timeout_ns = after(now_ns, plan->timeout_ns);
	uint64_t patience_ns = after(session->due_ns, plan->patience_ns);
	exchange->session = session;
	session->exchange = exchange;
	conn->under_way++;
	conn->made++;
	if (conn->silent_ns == 0)
		conn->silent_ns = now_ns;
	exchange->impatient = patience_ns < timeout_ns;
	exchange->deadline_ns = exchange->impatient ? patience_ns : timeout_ns;
	if (!weir_timer_pending(&exchange->timer) || exchange->timer.at_ns > exchange->deadline_ns)
		weir_timer_start(conn->reactor->loop, &exchange->timer, exchange->deadline_ns);
	load_session_sent(session, now_ns);
}

load_session *load_exchange_part(load_exchange *exchange)
{
	load_conn *conn = exchange->conn;
	load_session *session = exchange->session;
	exchange->session = NULL;
	session->exchange = NULL;
	exchange->spare = conn->spare;
	conn->spare = exchange;
	conn->under_way--;
	return session;
}

/* If nothing has come over the connection for as long as a request may take, it gets no further requests. */
static void time_is_up(weir_timer *timer, void *arg)
{
	load_exchange *exchange = of_timer(arg);
	load_conn *conn = exchange->conn;
	if (exchange->session == NULL)
		return;
	if (exchange->deadline_ns > load_now(conn->reactor)) {
		weir_timer_start(conn->reactor->loop, timer, exchange->deadline_ns);
		return;
	}
	if (conn->silent_ns != 0 &&
	    load_now(conn->reactor) - conn->silent_ns >= conn->reactor->plan->timeout_ns)
		conn->spent = true;
	load_exchange_failed(exchange, exchange->impatient ? LOAD_ABORTED : LOAD_TIMEOUT, LOAD_ERROR_NONE);
}

/* ---- sending ---- */

void load_exchange_start(load_exchange *exchange)
{
	load_conn *conn = exchange->conn;
	load_session *session = exchange->session;
	load_request request;
	exchange->stream.first_byte_ns = 0;
	if (conn->h2 != NULL) {
		load_reader_begin(&exchange->stream.reader, WEIR_METHOD_OTHER);
		load_client_wants_pump(conn);
		if (load_h2_ask(conn->h2, &exchange->stream, session->form, session->target,
				session->cookies) != 0)
			load_exchange_failed(exchange, LOAD_ERROR, LOAD_ERROR_CONNECT);
		return;
	}
	if (load_bytes_of(&conn->reactor->bytes, session->form, session->target, session->cookies,
			  &request) != 0) {
		load_exchange_failed(exchange, LOAD_ERROR, LOAD_ERROR_CONNECT);
		return;
	}
	load_reader_begin(&exchange->stream.reader, request.method);
	/* Refused only by a connection that is ending, which will be reported. */
	weir_link_write(&conn->link, request.bytes, request.length);
}

/* ---- its end ---- */

/*
 * Waiting sessions have waited longer than this one will for its next request, and may be given this very
 * exchange. So if there are any, this session sees its answer first.
 */
static void go_on(load_conn *conn, load_session *session, const load_outcome *outcome, bool may_keep)
{
	bool others = conn->reactor->waiting != NULL;
	if (others)
		load_session_over(session, outcome);
	load_client_settle(conn, may_keep && !others ? session : NULL);
	if (!others)
		load_session_over(session, outcome);
}

static load_end judge(unsigned status, load_error *ret_error)
{
	*ret_error = LOAD_ERROR_NONE;
	/* 101: nobody asked for another protocol. */
	if (status < 200) {
		*ret_error = LOAD_ERROR_NONSENSE;
		return LOAD_ERROR;
	}
	if (status < 400)
		return LOAD_OK;
	if (status == 429 || status == 503)
		return LOAD_SHED;
	*ret_error = LOAD_ERROR_STATUS;
	return LOAD_ERROR;
}

void load_exchange_answered(load_exchange *exchange, bool alone)
{
	load_conn *conn = exchange->conn;
	const load_meaning *meaning = &exchange->stream.reader.meaning;
	load_outcome outcome = {.status = meaning->status,
				.retry_after_s = meaning->retry_after_s,
				.first_byte_ns = exchange->stream.first_byte_ns,
				.ended_ns = load_now(conn->reactor),
				.bytes = exchange->stream.reader.bytes,
				.kept = exchange->kept};
	outcome.end = judge(outcome.status, &outcome.error);
	load_engine_answered(conn->reactor, outcome.status);
	if (!alone || !meaning->keep)
		conn->spent = true;
	go_on(conn, load_exchange_part(exchange), &outcome, true);
}

/*
 * With HTTP/1 the connection is dropped, too, because an answer may still come. A connection that is
 * being made is dropped with the last request that wanted it.
 */
static void let_go(load_exchange *exchange)
{
	load_conn *conn = exchange->conn;
	if (conn->h2 != NULL) {
		load_h2_cancel(conn->h2, &exchange->stream);
		load_client_wants_pump(conn);
	} else if (conn->state == LOAD_CONN_UP || conn->under_way == 1) {
		conn->spent = true;
	}
}

void load_exchange_failed(load_exchange *exchange, load_end end, load_error error)
{
	load_conn *conn = exchange->conn;
	const load_outcome outcome = {.end = end, .error = error, .ended_ns = load_now(conn->reactor)};
	let_go(exchange);
	go_on(conn, load_exchange_part(exchange), &outcome, false);
}

void load_client_part(load_session *session)
{
	load_conn *conn = session->conn;
	load_exchange *exchange = session->exchange;
	if (exchange != NULL) {
		conn = exchange->conn;
		let_go(exchange);
		load_exchange_part(exchange);
	} else if (conn != NULL) {
		conn->keeper = NULL;
		session->conn = NULL;
	}
	if (conn != NULL)
		load_client_settle(conn, NULL);
}
