/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: which request gets one, what comes over it, how it ends. */
#include "load/reactor.h"
#include "loop/loop.h"
#include "tls/tls.h"

/* ---- the list of connections with room: most recently used first ---- */

static void put_roomy(load_conn *conn)
{
	load_reactor *reactor = conn->reactor;
	conn->next = reactor->roomy;
	conn->link_in = &reactor->roomy;
	if (conn->next != NULL)
		conn->next->link_in = &conn->next;
	reactor->roomy = conn;
}

static void take_roomy(load_conn *conn)
{
	if (conn->link_in == NULL)
		return;
	*conn->link_in = conn->next;
	if (conn->next != NULL)
		conn->next->link_in = conn->link_in;
	conn->link_in = NULL;
}

/* It takes no more requests. */
static bool is_spent(const load_conn *conn)
{
	uint32_t most = conn->reactor->plan->per_connection;
	return conn->spent || (most > 0 && conn->made >= most) ||
	       (conn->h2 != NULL && !load_h2_is_open(conn->h2));
}

/* One request is always possible: if the peer allows none, it waits inside h2. */
static bool has_room(const load_conn *conn)
{
	unsigned most = conn->reactor->streams;
	if (conn->state == LOAD_CONN_DYING || conn->keeper != NULL || is_spent(conn))
		return false;
	if (conn->h2 != NULL && load_h2_most(conn->h2) < most)
		most = load_h2_most(conn->h2);
	return conn->under_way == 0 || conn->under_way < most;
}

static void see_room(load_conn *conn)
{
	if (!has_room(conn))
		take_roomy(conn);
	else if (conn->link_in == NULL)
		put_roomy(conn);
}

/* ---- the queue of waiting sessions ---- */

static void wait_in_line(load_session *session)
{
	load_reactor *reactor = session->reactor;
	session->next = NULL;
	session->link_in = reactor->waiting_end;
	*reactor->waiting_end = session;
	reactor->waiting_end = &session->next;
	load_session_waits(session);
}

void load_client_unwait(load_session *session)
{
	load_reactor *reactor = session->reactor;
	if (session->link_in == NULL)
		return;
	*session->link_in = session->next;
	if (session->next != NULL)
		session->next->link_in = session->link_in;
	else
		reactor->waiting_end = session->link_in;
	session->link_in = NULL;
}

static load_session *take_waiting(load_reactor *reactor)
{
	load_session *session = reactor->waiting;
	load_client_unwait(session);
	weir_timer_stop(&session->timer);
	return session;
}

/* ---- sending a request ---- */

/* The connection has room, or is the session's own. */
static void use(load_conn *conn, load_session *session)
{
	load_exchange *exchange = load_exchange_take(conn);
	if (exchange == NULL) {
		const load_outcome outcome = {
			.end = LOAD_ERROR, .error = LOAD_ERROR_CONNECT, .ended_ns = load_now(conn->reactor)};
		load_session_over(session, &outcome);
		return;
	}
	load_exchange_pair(exchange, session, load_now(conn->reactor));
	see_room(conn);
	if (conn->state == LOAD_CONN_UP)
		load_exchange_start(exchange);
}

static void start_all(load_conn *conn)
{
	load_exchange *next;
	for (load_exchange *exchange = conn->exchanges; exchange != NULL; exchange = next) {
		next = exchange->next;
		if (exchange->session != NULL && conn->state == LOAD_CONN_UP)
			load_exchange_start(exchange);
	}
}

/* ---- the end of a connection ---- */

static void unpump(load_conn *conn)
{
	if (conn->pump_in == NULL)
		return;
	*conn->pump_in = conn->pump_next;
	if (conn->pump_next != NULL)
		conn->pump_next->pump_in = conn->pump_in;
	conn->pump_in = NULL;
}

void load_client_drop(load_conn *conn)
{
	if (conn->state == LOAD_CONN_DYING)
		return;
	take_roomy(conn);
	unpump(conn);
	if (conn->state == LOAD_CONN_CONNECTING || conn->state == LOAD_CONN_HANDSHAKE)
		conn->reactor->connecting--;
	conn->state = LOAD_CONN_DYING;
	if (conn->keeper != NULL)
		conn->keeper->conn = NULL;
	conn->keeper = NULL;
	weir_conn_abort(conn->link.conn, 0);
}

/* Every request in progress fails, and may continue elsewhere; the connection is dying. */
static void fail_all(load_conn *conn, load_error error)
{
	const load_outcome outcome = {.end = LOAD_ERROR, .error = error, .ended_ns = load_now(conn->reactor)};
	for (load_exchange *exchange = conn->exchanges; exchange != NULL; exchange = exchange->next)
		if (exchange->session != NULL)
			load_session_over(load_exchange_part(exchange), &outcome);
}

void load_client_fail(load_conn *conn, load_error error)
{
	load_client_drop(conn);
	fail_all(conn, error);
}

void load_client_settle(load_conn *conn, load_session *session)
{
	load_reactor *reactor = conn->reactor;
	if (conn->state == LOAD_CONN_DYING)
		return;
	if (conn->under_way == 0 && is_spent(conn)) {
		load_client_drop(conn);
	} else if (session != NULL && reactor->keeps && conn->under_way == 0) {
		session->conn = conn;
		conn->keeper = session;
	} else {
		see_room(conn);
	}
	if (reactor->waiting != NULL)
		load_client_serve(reactor);
}

/* ---- HTTP/2: frames are sent together ---- */

void load_client_wants_pump(load_conn *conn)
{
	load_reactor *reactor = conn->reactor;
	if (conn->pump_in != NULL || conn->state == LOAD_CONN_DYING)
		return;
	conn->pump_next = reactor->pump;
	conn->pump_in = &reactor->pump;
	if (conn->pump_next != NULL)
		conn->pump_next->pump_in = &conn->pump_next;
	reactor->pump = conn;
}

static void end_stream(load_exchange *exchange)
{
	static const load_error errors[] = {[LOAD_STREAM_REFUSED] = LOAD_ERROR_REFUSED,
					    [LOAD_STREAM_RESET] = LOAD_ERROR_RESET,
					    [LOAD_STREAM_NONSENSE] = LOAD_ERROR_NONSENSE};
	if (exchange->stream.end == LOAD_STREAM_DONE)
		load_exchange_answered(exchange, true);
	else
		load_exchange_failed(exchange, LOAD_ERROR, errors[exchange->stream.end]);
}

/* Handles streams that are over, and what the peer has said about the connection. */
static void hear_h2(load_conn *conn, int error)
{
	load_stream *stream;
	while ((stream = load_h2_over(conn->h2)) != NULL)
		end_stream((load_exchange *)(void *)stream);
	if (conn->state == LOAD_CONN_DYING)
		return;
	if (error != 0 || load_h2_is_dead(conn->h2))
		load_client_fail(conn, LOAD_ERROR_NONSENSE);
	else
		load_client_settle(conn, NULL);
}

static int flush(load_conn *conn)
{
	const uint8_t *bytes;
	ssize_t length = 0;
	/* Bodies may be larger than the output bound; the rest follows when it has drained. */
	while (weir_link_output(&conn->link) <= LOAD_OUTPUT_BYTES / 2 &&
	       (length = load_h2_output(conn->h2, &bytes)) > 0)
		/* Refused only by a connection that is ending, which will be reported. */
		weir_link_write(&conn->link, bytes, (size_t)length);
	return length < 0 ? (int)length : 0;
}

bool load_client_pump(load_reactor *reactor)
{
	load_conn *turn = reactor->pump;
	/* Connections that are added meanwhile have their turn later. */
	reactor->pump = NULL;
	if (turn != NULL)
		turn->pump_in = &turn;
	while (turn != NULL) {
		load_conn *conn = turn;
		unpump(conn);
		hear_h2(conn, flush(conn));
	}
	return reactor->pump != NULL;
}

/* ---- callbacks of a connection ---- */

static void take_h2(load_conn *conn, const char *bytes, size_t length)
{
	int error = load_h2_take(conn->h2, bytes, length, load_now(conn->reactor));
	load_client_wants_pump(conn);
	hear_h2(conn, error);
}

static void take_h1(load_conn *conn, const char *bytes, size_t length)
{
	load_exchange *exchange = &conn->first;
	size_t used;
	load_read read =
		load_reader_take(&exchange->stream.reader, &conn->reactor->heads, bytes, length, &used);
	if (exchange->stream.first_byte_ns == 0)
		exchange->stream.first_byte_ns = load_now(conn->reactor);
	if (read == LOAD_READ_DONE)
		load_exchange_answered(exchange, used == length);
	else if (read == LOAD_READ_BAD)
		load_client_fail(conn, LOAD_ERROR_NONSENSE);
}

void load_client_data(load_conn *conn, const char *bytes, size_t length)
{
	if (conn->state == LOAD_CONN_DYING)
		return;
	conn->silent_ns = 0;
	if (conn->h2 != NULL)
		take_h2(conn, bytes, length);
	else if (conn->under_way > 0)
		take_h1(conn, bytes, length);
	else
		load_client_drop(conn); /* nothing was requested */
}

void load_client_eof(load_conn *conn)
{
	load_exchange *exchange = &conn->first;
	if (conn->state == LOAD_CONN_DYING)
		return;
	if (conn->under_way > 0 && conn->h2 == NULL &&
	    load_reader_end(&exchange->stream.reader) == LOAD_READ_DONE)
		load_exchange_answered(exchange, true);
	else
		load_client_fail(conn, LOAD_ERROR_CUT);
}

void load_client_drained(load_conn *conn)
{
	if (conn->h2 != NULL)
		load_client_wants_pump(conn);
}

static bool speaks_h2(load_conn *conn)
{
	const load_plan *plan = conn->reactor->plan;
	if (conn->link.tls != NULL && !weir_tls_is_h2(&conn->link))
		return false;
	return load_h2_new(plan->place->authority, plan->place->secure, &conn->h2) == 0;
}

/* The first of those that wait for it is the one for which it was made; it may have left. */
static void count_connected(load_conn *conn, uint64_t took_ns)
{
	load_tally *tally = &conn->reactor->tally;
	const load_exchange *exchange = conn->exchanges;
	load_tally_connected(tally, took_ns);
	while (exchange != NULL && exchange->session == NULL)
		exchange = exchange->next;
	if (exchange != NULL)
		load_tally_connected_for(tally, exchange->session->form->klass, exchange->session->form->path,
					 took_ns);
}

void load_client_up(load_conn *conn)
{
	load_reactor *reactor = conn->reactor;
	reactor->connecting--;
	count_connected(conn, load_now(reactor) - conn->opened_ns);
	conn->state = LOAD_CONN_UP;
	if (reactor->plan->http2 && !speaks_h2(conn))
		load_client_fail(conn, conn->link.tls != NULL ? LOAD_ERROR_TLS : LOAD_ERROR_CONNECT);
	else
		start_all(conn);
	/* Another one may be made now. */
	load_client_serve(reactor);
}

void load_client_closed(load_conn *conn)
{
	load_reactor *reactor = conn->reactor;
	load_error error = conn->state == LOAD_CONN_CONNECTING  ? LOAD_ERROR_CONNECT
			   : conn->state == LOAD_CONN_HANDSHAKE ? LOAD_ERROR_TLS
								: LOAD_ERROR_CUT;
	if (error == LOAD_ERROR_TLS)
		load_engine_tls_failed(reactor, weir_tls_error(&conn->link));
	if (conn->state == LOAD_CONN_CONNECTING || conn->state == LOAD_CONN_HANDSHAKE)
		reactor->connecting--;
	take_roomy(conn);
	unpump(conn);
	conn->state = LOAD_CONN_DYING;
	if (conn->keeper != NULL)
		conn->keeper->conn = NULL;
	reactor->conns--;
	fail_all(conn, error);
	load_conn_free(conn);
	load_client_serve(reactor);
}

/* ---- assigning connections ---- */

static void connect_or_fail(load_session *session)
{
	load_reactor *reactor = session->reactor;
	const load_outcome outcome = {
		.end = LOAD_ERROR, .error = LOAD_ERROR_CONNECT, .ended_ns = load_now(reactor)};
	load_conn *conn = load_conn_new(reactor);
	if (conn == NULL) {
		load_session_over(session, &outcome);
		return;
	}
	reactor->conns++;
	reactor->connecting++;
	use(conn, session);
}

static bool may_connect(const load_reactor *reactor)
{
	unsigned most = reactor->plan->connecting > 0 ? reactor->plan->connecting : LOAD_CONNECTING_USUAL;
	return reactor->conns < reactor->conns_max && reactor->connecting < most;
}

void load_client_serve(load_reactor *reactor)
{
	while (reactor->waiting != NULL && !reactor->stopped) {
		if (reactor->roomy != NULL)
			use(reactor->roomy, take_waiting(reactor));
		else if (may_connect(reactor))
			connect_or_fail(take_waiting(reactor));
		else
			return;
	}
}

void load_client_send(load_session *session)
{
	load_reactor *reactor = session->reactor;
	load_conn *conn = session->conn;
	if (conn != NULL) {
		session->conn = NULL;
		conn->keeper = NULL;
		use(conn, session);
	} else if (reactor->waiting == NULL && reactor->roomy != NULL) {
		use(reactor->roomy, session);
	} else if (reactor->waiting == NULL && may_connect(reactor)) {
		connect_or_fail(session);
	} else {
		wait_in_line(session);
	}
}
