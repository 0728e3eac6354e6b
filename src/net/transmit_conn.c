/* SPDX-License-Identifier: Apache-2.0 */
/* A single connection: by which order it sends, what is left of its answer, and what the kernel is told of it. */
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "net/transmit_priv.h"

/* ---- what is left ---- */

weir_conn_left weir_transmit_left(weir_conn *conn, uint64_t since_ns)
{
	weir_conn_left left = {.since_ns = since_ns, .klass = conn->klass};
	if (conn->ops->left != NULL && !weir_conn_is(conn, WEIR_CONN_CLOSING))
		conn->ops->left(conn, &left);
	left.bytes += weir_transmit_output(conn);
	return left;
}

double weir_conn_key(const weir_conn *conn, uint64_t left, uint64_t since_ns, unsigned klass)
{
	return weir_transmit_key(conn->net->lane->transmit, left, since_ns, klass);
}

/* ---- the kernel's order ---- */

static bool tell_kernel(weir_conn *conn, int priority)
{
	if (priority == conn->priority)
		return true;
	if (setsockopt(conn->fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)) != 0)
		return false;
	conn->priority = priority;
	return true;
}

/* What the socket has not sent yet counts, too. */
void weir_transmit_send_in_band(weir_transmit_lane *lane, weir_conn *conn)
{
	int unsent = 0;
	const weir_transmit *transmit = lane->transmit;
	uint64_t left = weir_transmit_left(conn, 0).bytes;
	if (transmit->observe != NULL && !weir_conn_is(conn, WEIR_CONN_ANSWERING))
		transmit->observe(transmit->bands_arg, left);
	conn->flags |= WEIR_CONN_ANSWERING;
	if (ioctl(conn->fd, SIOCOUTQNSD, &unsent) == 0 && unsent > 0)
		left += (uint64_t)unsent;
	if (!tell_kernel(conn, transmit->priority(transmit->bands_arg, left, lane->plain)) && !lane->plain) {
		lane->plain = true;
		tell_kernel(conn, transmit->priority(transmit->bands_arg, left, true));
	}
	conn->net->io->send(conn);
}

/* ---- by which order ---- */

static bool is_tcp(const weir_conn *conn)
{
	struct sockaddr_storage peer;
	return weir_conn_peer(conn, &peer) == 0 && (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

/* false: it stays as it is. */
static bool schedule(weir_conn *conn, weir_transmit *transmit)
{
	const weir_transmit_policy *policy = weir_transmit_policy_of(transmit);
	if ((policy->key == NULL && !policy->bands) || !is_tcp(conn))
		return false;
	weir_transmit_lane *lane = weir_transmit_lane_of(conn->net, transmit);
	if (lane == NULL || lane->transmit != transmit)
		return false;
	conn->flags |= WEIR_CONN_SCHEDULED;
	return true;
}

void weir_conn_schedule(weir_conn *conn, weir_transmit *transmit)
{
	conn->order = atomic_load_explicit(&transmit->version, memory_order_acquire);
	if (!schedule(conn, transmit))
		return;
	if (weir_transmit_is_limited(transmit))
		weir_transmit_budget_charge(&transmit->budget, WEIR_TRANSMIT_OPENING,
					    weir_loop_time(conn->net->loop));
	weir_transmit_add(&conn->net->lane->face->sent_bytes, WEIR_TRANSMIT_OPENING);
}

/* From now on it sends at once; its socket is as the system has it. */
static void let_go(weir_conn *conn)
{
	const unsigned bound = 0;
	if (conn->place != NULL)
		weir_transmit_forget(conn);
	if (conn->unsent_pages != 0 &&
	    setsockopt(conn->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bound, sizeof(bound)) == 0)
		conn->unsent_pages = 0;
	conn->flags &= ~(uint32_t)(WEIR_CONN_SCHEDULED | WEIR_CONN_ANSWERING);
}

/* Another order is in force than the one that the connection was scheduled by. */
__attribute__((noinline)) static void reorder(weir_conn *conn, weir_transmit *transmit, uint32_t version)
{
	const weir_transmit_policy *policy = weir_transmit_policy_of(transmit);
	bool ordered = policy->key != NULL || policy->bands;
	/* What an earlier answer has left goes its way; the next answer asks again. */
	if (!ordered && (conn->output.bytes > 0 || weir_conn_is(conn, WEIR_CONN_SENDING)))
		return;
	conn->order = version;
	if (!policy->bands)
		tell_kernel(conn, 0);
	if (ordered)
		schedule(conn, transmit);
	else if (weir_conn_is(conn, WEIR_CONN_SCHEDULED))
		let_go(conn);
}

void weir_conn_begin_answer(weir_conn *conn, weir_transmit *transmit, unsigned klass)
{
	uint32_t version = atomic_load_explicit(&transmit->version, memory_order_acquire);
	conn->klass = (uint8_t)klass;
	if (conn->order != version && !weir_conn_is(conn, WEIR_CONN_DEAD))
		reorder(conn, transmit, version);
}

/* ---- what layers above ask ---- */

bool weir_conn_waits_turn(const weir_conn *conn)
{
	return conn->place != NULL && conn->place->queued;
}

bool weir_conn_is_paced(const weir_conn *conn)
{
	return weir_conn_is(conn, WEIR_CONN_SCHEDULED) && weir_transmit_is_limited(conn->net->lane->transmit);
}

size_t weir_conn_ahead(const weir_conn *conn)
{
	size_t half = conn->limits.output_bytes / 2;
	if (!weir_conn_is_paced(conn))
		return half;
	size_t chunk = atomic_load_explicit(&conn->net->lane->transmit->chunk, memory_order_relaxed);
	return chunk < half ? chunk : half;
}
