/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel tells about connections that wait or have waited: once an interval each lane looks at its
 * own, and the thread that first comes to the end of an interval steps the estimate with what all lanes saw.
 */
#include <linux/tcp.h>
#include <math.h>
#include <netinet/in.h>
#include <string.h>

#include "net/transmit_priv.h"

#define INTERVAL_LEAST_NS   (30 * WEIR_NS_PER_MS)
#define INTERVAL_MOST_NS    WEIR_NS_PER_S
#define INTERVAL_RTTS       2.5
#define INTERVAL_PACKETS    64.                    /* what the kernel tells is a packet or two off, */
#define INTERVAL_PACKETS_NS (150 * WEIR_NS_PER_MS) /* but the estimate must not be slow either */
#define KNOWN_LOOK_NS       (100 * WEIR_NS_PER_MS) /* with a known uplink: for repeated bytes */
/* Round trips are long if they exceed the shortest by these packets, by a tenth, and by this time. */
#define DELAY_PACKETS 4.
#define DELAY_PART    .1
#define DELAY_LEAST   1e-3
/* Unsent bytes that a socket may hold: near, far, and while there is no limit. */
#define UNSENT_NEAR   4096u
#define UNSENT_FAR    16384u
#define UNSENT_OPEN   131072u
#define FAR_US        5000u
#define SEGMENT_LEAST 256u

/* ---- sockets ---- */

static bool ask(const weir_conn *conn, struct tcp_info *ret_info)
{
	socklen_t length = sizeof(*ret_info);
	memset(ret_info, 0, sizeof(*ret_info));
	return getsockopt(conn->fd, IPPROTO_TCP, TCP_INFO, ret_info, &length) == 0;
}

static void bound_unsent(const weir_transmit_lane *lane, weir_conn *conn, uint32_t rtt_us)
{
	unsigned bound = !weir_transmit_is_limited(lane->transmit) ? UNSENT_OPEN
			 : rtt_us > FAR_US                         ? UNSENT_FAR
								   : UNSENT_NEAR;
	uint8_t pages = (uint8_t)(bound / UNSENT_NEAR);
	if (conn->unsent_pages != pages &&
	    setsockopt(conn->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bound, sizeof(bound)) == 0)
		conn->unsent_pages = pages;
}

void weir_transmit_watch_place(weir_transmit_lane *lane, weir_transmit_place *place)
{
	weir_conn *conn = place->conn;
	struct tcp_info info;
	bool tuned = conn->unsent_pages != 0 && (conn->unsent_pages <= UNSENT_FAR / UNSENT_NEAR) ==
							weir_transmit_is_limited(lane->transmit);
	if ((tuned && conn->segment != 0) || !ask(conn, &info))
		return;
	if (info.tcpi_snd_mss >= SEGMENT_LEAST)
		place->segment = conn->segment =
			info.tcpi_snd_mss < UINT16_MAX ? (uint16_t)info.tcpi_snd_mss : UINT16_MAX;
	bound_unsent(lane, conn, info.tcpi_rtt);
}

/* ---- a look at all places of a lane ---- */

typedef struct looked {
	double under_way, repeated; /* bytes on the wire */
	uint32_t progressed, delayed, held, windowed;
	bool blocked;
	double rtt_us;
} looked;

/* Above this a round trip is long, in us. */
static double delay_most(const weir_transmit *transmit, double shortest_us)
{
	double rate = (double)atomic_load_explicit(&transmit->budget.bytes_per_s, memory_order_relaxed);
	double packets_s =
		rate > 0 ? DELAY_PACKETS * (WEIR_TRANSMIT_SEGMENT + WEIR_TRANSMIT_HEADERS) / rate : 0;
	return fmax(1e6 * fmax(packets_s, DELAY_LEAST), DELAY_PART * shortest_us);
}

/*
 * Bytes on their way. What the receiver has got beyond a hole is not: after losses of many connections, half
 * of what arrives does so, and the uplink would seem half as fast.
 */
static uint64_t flying_of(const struct tcp_info *info)
{
	int64_t bytes = (int64_t)(info->tcpi_bytes_sent - info->tcpi_bytes_retrans - info->tcpi_bytes_acked) -
			(int64_t)info->tcpi_sacked * info->tcpi_snd_mss;
	return bytes > 0 ? (uint64_t)bytes : 0;
}

static void look_at(weir_transmit_lane *lane, weir_transmit_place *place, double elapsed_s, looked *sum)
{
	struct tcp_info info;
	if (!ask(place->conn, &info))
		return;
	bool first = place->acked == 0;
	double wire = (double)weir_transmit_wire(place->segment, place->segment) / place->segment;
	place->outstanding = info.tcpi_notsent_bytes + flying_of(&info);
	if (!first) {
		sum->repeated += wire * (double)(info.tcpi_bytes_retrans - place->repeated);
		if (info.tcpi_rwnd_limited - place->window_us > 5e5 * elapsed_s)
			sum->windowed++;
		sum->held++;
	}
	if (!first && info.tcpi_bytes_acked > place->acked) {
		double delay_us = (double)info.tcpi_rtt - (double)info.tcpi_min_rtt;
		sum->progressed++;
		sum->delayed += delay_us > delay_most(lane->transmit, (double)info.tcpi_min_rtt);
		sum->rtt_us += (double)info.tcpi_min_rtt;
	}
	place->acked = info.tcpi_bytes_acked + 1;
	place->repeated = info.tcpi_bytes_retrans;
	place->window_us = info.tcpi_rwnd_limited;
	place->moved = false;
	bound_unsent(lane, place->conn, info.tcpi_rtt);
}

static looked look(weir_transmit_lane *lane, double elapsed_s)
{
	looked sum = {0};
	for (weir_transmit_place *place = lane->places, *next; place != NULL; place = next) {
		next = place->next;
		/* One that only waits for its turn has nothing to tell. */
		if (place->moved || place->outstanding > 0)
			look_at(lane, place, elapsed_s, &sum);
		sum.under_way += (double)weir_transmit_wire(place->outstanding, place->segment);
		bool blocked = weir_conn_is(place->conn, WEIR_CONN_SENDING);
		sum.blocked |= blocked && place->blocked;
		place->blocked = blocked;
		if (place->empty && place->outstanding == 0)
			weir_transmit_forget(place->conn);
	}
	return sum;
}

static double positive(double value)
{
	return value > 0 ? value : 0;
}

static void tell(weir_transmit_lane *lane, const looked *sum, double elapsed_s, uint64_t now_ns)
{
	weir_transmit_face *face = lane->face;
	uint64_t sent = atomic_load_explicit(&face->sent_bytes, memory_order_relaxed);
	double taken = (double)(sent - lane->looked_sent) + sum->repeated;
	double delivered = taken - sum->repeated - (sum->under_way - (double)lane->looked_total);
	bool limited = weir_transmit_is_limited(lane->transmit);
	bool busy = limited ? !lane->emptied && lane->heap.top != NULL : sum->held > 0;
#define SET(member, value) atomic_store_explicit(&face->member, value, memory_order_relaxed)
	SET(taken_per_s, (uint64_t)(taken / elapsed_s));
	SET(delivered_per_s, (uint64_t)positive(delivered / elapsed_s));
	SET(progressed, sum->progressed);
	SET(delayed, sum->delayed);
	SET(held, sum->held);
	SET(windowed, sum->windowed);
	SET(busy, busy);
	SET(blocked, sum->blocked);
	if (sum->progressed > 0)
		SET(rtt_ns, (uint64_t)(1e3 * sum->rtt_us / sum->progressed));
	SET(seen_ns, now_ns);
#undef SET
	lane->looked_sent = sent;
	lane->looked_total = (uint64_t)sum->under_way;
	lane->emptied = lane->heap.top == NULL;
	lane->look_ns = now_ns;
}

/* ---- the estimate ---- */

static uint64_t load(const _Atomic uint64_t *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

/* Adds up what the lanes have told in the last intervals. Lanes that have nothing to send do not tell. */
static weir_transmit_sample gather(const weir_transmit *transmit, uint64_t now_ns, uint64_t *ret_rtt_ns)
{
	weir_transmit_sample sample = {.now_ns = now_ns};
	uint64_t fresh_ns = 5 * load(&transmit->interval_ns) / 4, most_rtt_ns = 0;
	uint32_t lanes = atomic_load_explicit(&transmit->lanes, memory_order_acquire), held = 0, windowed = 0;
	for (uint32_t i = 0; i < lanes; i++) {
		const weir_transmit_face *face = &transmit->face[i];
		if (load(&face->seen_ns) + fresh_ns < now_ns)
			continue;
		sample.taken_per_s += (double)load(&face->taken_per_s);
		sample.delivered_per_s += (double)load(&face->delivered_per_s);
		sample.progressed += atomic_load_explicit(&face->progressed, memory_order_relaxed);
		sample.delayed += atomic_load_explicit(&face->delayed, memory_order_relaxed);
		held += atomic_load_explicit(&face->held, memory_order_relaxed);
		windowed += atomic_load_explicit(&face->windowed, memory_order_relaxed);
		sample.busy |= atomic_load_explicit(&face->busy, memory_order_relaxed);
		sample.blocked |= atomic_load_explicit(&face->blocked, memory_order_relaxed);
		if (load(&face->rtt_ns) > most_rtt_ns)
			most_rtt_ns = load(&face->rtt_ns);
	}
	sample.windowed = 2 * windowed > held;
	*ret_rtt_ns = most_rtt_ns;
	return sample;
}

static void set_interval(weir_transmit *transmit, uint64_t rtt_ns)
{
	double rate = transmit->estimate.link_per_s;
	double packets_ns =
		rate > 0 ? INTERVAL_PACKETS * (WEIR_TRANSMIT_SEGMENT + WEIR_TRANSMIT_HEADERS) / rate * 1e9
			 : 0;
	packets_ns = fmin(fmax(packets_ns, INTERVAL_LEAST_NS), INTERVAL_PACKETS_NS);
	double ns = fmax(INTERVAL_RTTS * (double)rtt_ns, packets_ns);
	ns = fmin(ns, INTERVAL_MOST_NS);
	atomic_store_explicit(&transmit->interval_ns, (uint64_t)ns, memory_order_relaxed);
}

static void step_locked(weir_transmit *transmit, uint64_t now_ns)
{
	uint64_t rtt_ns;
	weir_transmit_sample sample = gather(transmit, now_ns, &rtt_ns);
	weir_transmit_phase before = transmit->estimate.phase;
	double link = transmit->estimate.link_per_s;
	double pace = weir_transmit_estimate_step(&transmit->estimate, &sample);
	transmit->probes += before != WEIR_TRANSMIT_PROBE && transmit->estimate.phase == WEIR_TRANSMIT_PROBE;
	transmit->back_offs += before != WEIR_TRANSMIT_OPEN && transmit->estimate.link_per_s < link;
	weir_transmit_pace(transmit, pace);
	set_interval(transmit, rtt_ns);
}

static void step(weir_transmit *transmit, uint64_t now_ns)
{
	uint64_t due_ns = load(&transmit->step_ns);
	/* A lane that comes a little early must not make an interval of almost two. */
	uint64_t early_ns = load(&transmit->interval_ns) / 4;
	if (now_ns + early_ns < due_ns ||
	    !atomic_compare_exchange_strong(&transmit->step_ns, &due_ns,
					    now_ns + load(&transmit->interval_ns)) ||
	    pthread_mutex_trylock(&transmit->lock) != 0)
		return;
	/* Another order may have come meanwhile. */
	if (weir_transmit_estimates(transmit))
		step_locked(transmit, now_ns);
	pthread_mutex_unlock(&transmit->lock);
}

/* ---- when to look ---- */

static uint64_t pause_of(const weir_transmit *transmit)
{
	return weir_transmit_known(transmit) != 0 ? KNOWN_LOOK_NS : load(&transmit->interval_ns);
}

static void look_is_due(weir_timer *timer, void *arg)
{
	weir_transmit_lane *lane = arg;
	weir_transmit *transmit = lane->transmit;
	uint64_t now_ns = weir_loop_time(lane->net->loop);
	double elapsed_s = (double)(now_ns - lane->look_ns) / (double)WEIR_NS_PER_S;
	bool estimates = weir_transmit_estimates(transmit);
	looked sum = look(lane, elapsed_s);
	weir_transmit_add(&lane->face->repeated_bytes, (uint64_t)sum.repeated);
	if (sum.repeated > 0 && weir_transmit_is_limited(transmit))
		weir_transmit_budget_charge(&transmit->budget, (uint64_t)sum.repeated, now_ns);
	tell(lane, &sum, elapsed_s, now_ns);
	if (estimates)
		step(transmit, now_ns);
	/* A limit that nobody needs any more has to be noticed, too. */
	if (lane->places != NULL || (estimates && weir_transmit_is_limited(transmit)))
		weir_timer_start(lane->net->loop, &lane->look_timer, now_ns + pause_of(transmit));
}

void weir_transmit_watch_init(weir_transmit_lane *lane)
{
	weir_timer_init(&lane->look_timer, look_is_due, lane);
}

void weir_transmit_watch(weir_transmit_lane *lane)
{
	uint64_t now_ns = weir_loop_time(lane->net->loop);
	if (weir_timer_pending(&lane->look_timer))
		return;
	lane->look_ns = now_ns;
	lane->looked_sent = load(&lane->face->sent_bytes);
	lane->looked_total = 0;
	lane->emptied = lane->heap.top == NULL;
	weir_timer_start(lane->net->loop, &lane->look_timer, now_ns + pause_of(lane->transmit));
}
