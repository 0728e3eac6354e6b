/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All of a connection's deadlines on one timer, armed lazily: bytes only store the time, and a timer that
 * finds nothing due is armed for the next deadline. So a busy connection touches the wheel a few times
 * per deadline, not once per byte.
 */
#include <errno.h>

#include "net/acceptor.h"
#include "net/conn_priv.h"
#include "net/transmit.h"

#define LINGER_NS WEIR_NS_PER_S

/* An eighth of a second's bytes at once, so that a slow rate does not come in pieces of 16 KB. */
#define RATE_STEPS 8
#define RATE_LEAST 256

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t after(uint64_t from_ns, uint64_t ns)
{
	return ns > UINT64_MAX - from_ns ? UINT64_MAX : from_ns + ns;
}

static uint64_t output_deadline(const weir_conn *conn)
{
	/* While it waits for its turn, it is not the peer that is slow. */
	if (conn->output.bytes == 0 || (conn->place != NULL && weir_conn_waits_turn(conn)))
		return UINT64_MAX;
	return after(conn->progress_ns, conn->limits.output_ns);
}

static uint64_t idle_deadline(const weir_conn *conn)
{
	return conn->limits.idle_ns != 0 ? after(conn->activity_ns, conn->limits.idle_ns) : UINT64_MAX;
}

static uint64_t deadline(const weir_conn *conn)
{
	if (weir_conn_is(conn, WEIR_CONN_CONNECTING))
		return after(conn->progress_ns, conn->limits.connect_ns);
	if (weir_conn_is(conn, WEIR_CONN_LINGERING))
		return after(conn->progress_ns, LINGER_NS);
	uint64_t at = earlier(output_deadline(conn), idle_deadline(conn));
	if (weir_conn_is(conn, WEIR_CONN_FAR))
		at = earlier(at, conn->output.head->file.look_ns);
	return weir_conn_is(conn, WEIR_CONN_RATED) ? earlier(at, conn->rate_free_ns) : at;
}

void weir_conn_arm(weir_conn *conn)
{
	uint64_t at = deadline(conn);
	if (at == UINT64_MAX || weir_conn_is(conn, WEIR_CONN_DEAD))
		return;
	if (!weir_timer_pending(&conn->timer) || conn->timer.at_ns > at)
		weir_timer_start(conn->net->loop, &conn->timer, at);
}

static void end_rate_pause(weir_conn *conn, uint64_t now_ns)
{
	if (!weir_conn_is(conn, WEIR_CONN_RATED) || conn->rate_free_ns > now_ns)
		return;
	conn->flags &= ~(uint32_t)WEIR_CONN_RATED;
	weir_conn_later(conn);
}

static void look_for_file(weir_conn *conn, uint64_t now_ns)
{
	if (!weir_conn_is(conn, WEIR_CONN_FAR) || conn->output.head->file.look_ns > now_ns)
		return;
	conn->flags &= ~(uint32_t)WEIR_CONN_FAR;
	weir_conn_later(conn);
}

static void time_is_up(weir_timer *timer, void *arg)
{
	weir_conn *conn = arg;
	uint64_t now_ns = weir_loop_time(conn->net->loop);
	end_rate_pause(conn, now_ns);
	look_for_file(conn, now_ns);
	if (deadline(conn) > now_ns) {
		weir_conn_arm(conn);
	} else if (weir_conn_is(conn, WEIR_CONN_LINGERING)) {
		weir_conn_die(conn, 0);
	} else {
		if (output_deadline(conn) <= now_ns && conn->acceptor != NULL &&
		    !weir_conn_is(conn, WEIR_CONN_CONNECTING))
			weir_acceptor_count_slow(conn->acceptor);
		weir_conn_die(conn, -ETIMEDOUT);
	}
}

void weir_conn_time_init(weir_conn *conn)
{
	weir_timer_init(&conn->timer, time_is_up, conn);
	conn->activity_ns = conn->progress_ns = weir_loop_time(conn->net->loop);
}

/*
 * ---- the read rate: each byte reserves its share of time, and nothing is read before that time is over
 * ----
 */

void weir_conn_charge(weir_conn *conn, size_t bytes)
{
	uint64_t now_ns = weir_loop_time(conn->net->loop);
	uint64_t from_ns = conn->rate_free_ns > now_ns ? conn->rate_free_ns : now_ns;
	conn->rate_free_ns = from_ns + bytes * WEIR_NS_PER_S / conn->rate;
	if (conn->rate_free_ns <= now_ns)
		return;
	conn->flags |= WEIR_CONN_RATED;
	weir_conn_arm(conn);
}

uint32_t weir_conn_rated_most(const weir_conn *conn)
{
	if (conn->rate / RATE_STEPS >= WEIR_BUF_READ_BYTES)
		return WEIR_BUF_READ_BYTES;
	uint64_t most = conn->rate / RATE_STEPS;
	return most < RATE_LEAST ? RATE_LEAST : (uint32_t)most;
}

void weir_conn_read_rate(weir_conn *conn, uint64_t bytes_per_s)
{
	conn->rate = bytes_per_s;
	if (bytes_per_s != 0 || !weir_conn_is(conn, WEIR_CONN_RATED))
		return;
	conn->flags &= ~(uint32_t)WEIR_CONN_RATED;
	conn->rate_free_ns = 0;
	weir_conn_later(conn);
}
