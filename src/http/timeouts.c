/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a connection may wait for what. Each connection has one timer, armed lazily: a new wait is only
 * stored, unless the timer would fire too late for it. A timer that finds nothing due is armed again. So a
 * busy connection rarely touches the wheel.
 */
#include "http/server.h"

/* The minimum rate of a body applies after this time. */
#define RATE_AFTER_NS (10 * WEIR_NS_PER_S)

static uint64_t after(uint64_t from_ns, uint64_t ns)
{
	return ns > UINT64_MAX - from_ns ? UINT64_MAX : from_ns + ns;
}

uint64_t weir_http_rate_deadline(const weir_http_limits *limits, const weir_request *request)
{
	uint64_t paid_ns = RATE_AFTER_NS;
	unsigned __int128 worth = (unsigned __int128)request->body_received * WEIR_NS_PER_S;
	worth /= limits->body_bytes_per_s;
	if (worth > paid_ns)
		paid_ns = worth > UINT64_MAX ? UINT64_MAX : (uint64_t)worth;
	return after(request->body_since_ns, paid_ns);
}

/* If half-closed clients are waited for until their answer begins, the timer checks whether it has begun. */
static uint64_t gone_after_ns(const weir_http_conn *conn)
{
	const weir_http_limits *limits = &conn->loop->limits;
	if (limits->half_closed_ns == UINT64_MAX || weir_request_is(conn->request, WEIR_REQUEST_BEGUN))
		return limits->half_closed_gap_ns;
	return limits->half_closed_ns;
}

uint64_t weir_http_wait_deadline(const weir_http_conn *conn)
{
	const weir_http_limits *limits = &conn->loop->limits;
	uint64_t gap_ns, rate_ns;
	if (conn->protocol->deadline != NULL)
		return conn->protocol->deadline(conn);
	switch (conn->wait) {
	case WEIR_WAIT_HANDSHAKE:
		return after(conn->since_ns, limits->handshake_ns);
	case WEIR_WAIT_FIRST:
		return after(conn->since_ns, limits->first_byte_ns);
	case WEIR_WAIT_HEAD:
		return after(conn->since_ns, limits->head_ns);
	case WEIR_WAIT_IDLE:
		if (conn->loop->draining && limits->drain_idle_ns < limits->idle_ns)
			return after(conn->since_ns, limits->drain_idle_ns);
		return after(conn->since_ns, limits->idle_ns);
	case WEIR_WAIT_GONE:
		return after(conn->since_ns, gone_after_ns(conn));
	case WEIR_WAIT_BODY:
		gap_ns = after(conn->since_ns, limits->body_gap_ns);
		rate_ns = conn->request != NULL ? weir_http_rate_deadline(limits, conn->request) : UINT64_MAX;
		return gap_ns < rate_ns ? gap_ns : rate_ns;
	default:
		return UINT64_MAX;
	}
}

void weir_http_wait_arm(weir_http_conn *conn)
{
	uint64_t at_ns = weir_http_wait_deadline(conn);
	if (at_ns != UINT64_MAX && (!weir_timer_pending(&conn->timer) || conn->timer.at_ns > at_ns))
		weir_timer_start(conn->loop->loop, &conn->timer, at_ns);
}

static void time_is_up(weir_timer *timer, void *arg)
{
	weir_http_conn *conn = arg;
	if (weir_http_wait_deadline(conn) > weir_loop_time(conn->loop->loop))
		weir_http_wait_arm(conn);
	else
		conn->protocol->timeout(conn);
}

void weir_http_wait_init(weir_http_conn *conn)
{
	weir_timer_init(&conn->timer, time_is_up, conn);
}
