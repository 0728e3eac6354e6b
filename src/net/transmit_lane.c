/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of one loop that wait for their turn, and how they get it. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "net/transmit_priv.h"

/* io_uring always sends later. Of connections that wait for their sends, those with more left are watched. */
#define WATCHED_BYTES 65536u
/* The most chunks of one turn of the loop, so that it also reads. */
#define CHUNKS_MOST 256u

static weir_transmit_place *place_of(weir_transmit_node *node)
{
	return (weir_transmit_place *)(void *)node;
}

static uint64_t now_of(const weir_transmit_lane *lane)
{
	return weir_loop_time(lane->net->loop);
}

/* ---- the heap ---- */

static unsigned size_index(uint64_t left)
{
	unsigned index = 0;
	for (uint64_t most = 4096; index < WEIR_TRANSMIT_SIZES - 1 && left > most; most *= 8)
		index++;
	return index;
}

static uint64_t bits_of(double key)
{
	uint64_t bits;
	memcpy(&bits, &key, sizeof(bits));
	return bits;
}

static void publish(weir_transmit_lane *lane)
{
	const weir_transmit_node *top = lane->heap.top;
	if (top == NULL)
		lane->emptied = true;
	atomic_store_explicit(&lane->face->best, top != NULL ? bits_of(top->key) : WEIR_TRANSMIT_NOBODY,
			      memory_order_relaxed);
}

static void count_waiting(weir_transmit_lane *lane, const weir_transmit_place *place, bool begins)
{
	uint64_t one = begins ? 1 : UINT64_MAX;
	weir_transmit_add(&lane->face->waiting, one);
	weir_transmit_add(&lane->face->size[place->size], one);
	weir_transmit_add(&lane->face->left_bytes, begins ? place->left : 0 - place->left);
}

static void queue(weir_transmit_lane *lane, weir_transmit_place *place)
{
	weir_conn_left left = weir_transmit_left(place->conn, place->since_ns);
	place->left = left.bytes;
	place->size = (uint8_t)size_index(left.bytes);
	place->queued = true;
	weir_transmit_heap_push(&lane->heap, &place->node,
				weir_transmit_key(lane->transmit, left.bytes, left.since_ns, left.klass));
	count_waiting(lane, place, true);
	publish(lane);
	if (lane->prepaid == 0)
		return;
	weir_transmit_budget_refund(&lane->transmit->budget, lane->prepaid);
	lane->prepaid = 0;
}

static void unqueue(weir_transmit_lane *lane, weir_transmit_place *place)
{
	if (!place->queued)
		return;
	place->queued = false;
	weir_transmit_heap_remove(&lane->heap, &place->node);
	count_waiting(lane, place, false);
	publish(lane);
}

/* Whether a connection on another thread comes before this key. */
static bool another_is_first(const weir_transmit_lane *lane, double key)
{
	uint64_t mine = bits_of(key);
	const weir_transmit *transmit = lane->transmit;
	uint32_t lanes = atomic_load_explicit(&transmit->lanes, memory_order_acquire);
	for (uint32_t i = 0; i < lanes; i++)
		if (atomic_load_explicit(&transmit->face[i].best, memory_order_relaxed) < mine &&
		    &transmit->face[i] != lane->face)
			return true;
	return false;
}

static bool nobody_waits(const weir_transmit_lane *lane)
{
	const weir_transmit *transmit = lane->transmit;
	uint32_t lanes = atomic_load_explicit(&transmit->lanes, memory_order_acquire);
	for (uint32_t i = 0; i < lanes; i++)
		if (atomic_load_explicit(&transmit->face[i].best, memory_order_relaxed) !=
		    WEIR_TRANSMIT_NOBODY)
			return false;
	return true;
}

/* ---- places ---- */

static weir_transmit_place *take_place(weir_transmit_lane *lane, weir_conn *conn)
{
	weir_transmit_place *place = conn->place;
	if (place != NULL) {
		if (place->empty)
			place->since_ns = now_of(lane);
		place->empty = false;
		return place;
	}
	place = weir_pool_take(&lane->pool);
	if (place == NULL)
		return NULL;
	*place = (weir_transmit_place){.conn = conn,
				       .since_ns = now_of(lane),
				       .segment = conn->segment != 0 ? conn->segment : WEIR_TRANSMIT_SEGMENT,
				       .next = lane->places,
				       .link = &lane->places};
	if (place->next != NULL)
		place->next->link = &place->next;
	lane->places = place;
	conn->place = place;
	weir_transmit_watch_place(lane, place);
	weir_transmit_watch(lane);
	return place;
}

void weir_transmit_forget(weir_conn *conn)
{
	weir_transmit_lane *lane = conn->net->lane;
	weir_transmit_place *place = conn->place;
	if (place == NULL)
		return;
	unqueue(lane, place);
	*place->link = place->next;
	if (place->next != NULL)
		place->next->link = place->link;
	conn->place = NULL;
	weir_pool_give(&lane->pool, place);
}

/* ---- sending in turn ---- */

static void arm(weir_transmit_lane *lane, uint64_t reserve_ns)
{
	uint64_t at_ns = weir_transmit_budget_ready(&lane->transmit->budget, reserve_ns);
	weir_timer_start(lane->net->loop, &lane->turn_timer, at_ns);
}

/* What happens to a connection that has had its turn. */
static void had_turn(weir_transmit_lane *lane, weir_conn *conn)
{
	const uint32_t held = WEIR_CONN_SENDING | WEIR_CONN_FAR;
	if (weir_conn_is(conn, WEIR_CONN_DEAD))
		return;
	if (conn->output.bytes > 0 && !weir_conn_is(conn, held) && !conn->place->queued)
		queue(lane, conn->place);
	weir_conn_settle(conn);
}

static void count_chunk(weir_transmit_lane *lane, const weir_transmit_place *place)
{
	const weir_transmit_node *top = lane->heap.top;
	weir_transmit_add(&lane->face->chunks, 1);
	if (top != NULL && ((const weir_transmit_place *)(const void *)top)->since_ns < place->since_ns)
		weir_transmit_add(&lane->face->overtook, 1);
}

/* The first connection sends a chunk. false: it is nobody's turn now. */
static bool send_first(weir_transmit_lane *lane, uint64_t now_ns)
{
	weir_transmit *transmit = lane->transmit;
	weir_transmit_budget *budget = &transmit->budget;
	weir_transmit_place *place = place_of(lane->heap.top);
	weir_conn *conn = place->conn;
	uint32_t segment = place->segment;
	size_t chunk = atomic_load_explicit(&transmit->chunk, memory_order_relaxed);
	uint64_t left = weir_transmit_output(conn);
	size_t most = left < chunk ? (size_t)left : chunk;
	uint64_t reserve_ns = another_is_first(lane, place->node.key) ? budget->burst_ns / 2 : 0;
	if (weir_transmit_is_limited(transmit) &&
	    !weir_transmit_budget_take(budget, weir_transmit_wire(most, segment), reserve_ns, now_ns)) {
		arm(lane, reserve_ns);
		return false;
	}
	unqueue(lane, place);
	count_chunk(lane, place);
	place->moved = true;
	conn->progress_ns = now_ns;
	size_t sent = conn->net->io->send_some(conn, most);
	if (sent < most)
		weir_transmit_budget_refund(budget, weir_transmit_wire(most, segment) -
							    weir_transmit_wire(sent, segment));
	had_turn(lane, conn);
	return true;
}

/* Another order is in force: all keys are made anew. Those of two orders cannot be compared. */
__attribute__((noinline)) static void put_in_order(weir_transmit_lane *lane, uint32_t version)
{
	lane->version = version;
	for (weir_transmit_place *place = lane->places; place != NULL; place = place->next)
		if (place->queued) {
			unqueue(lane, place);
			queue(lane, place);
		}
}

static void run_lane(weir_transmit_lane *lane)
{
	uint32_t version = atomic_load_explicit(&lane->transmit->version, memory_order_acquire);
	if (version != lane->version)
		put_in_order(lane, version);
	uint64_t now_ns = weir_clock_now(weir_loop_clock(lane->net->loop));
	unsigned chunks = 0;
	while (lane->heap.top != NULL && chunks < CHUNKS_MOST && send_first(lane, now_ns))
		chunks++;
	if (lane->heap.top == NULL)
		weir_timer_stop(&lane->turn_timer);
	else if (chunks == CHUNKS_MOST)
		weir_timer_start(lane->net->loop, &lane->turn_timer, now_ns);
}

static void run_deferred(weir_deferred *deferred)
{
	weir_transmit_lane *lane =
		(weir_transmit_lane *)(void *)((char *)deferred - offsetof(weir_transmit_lane, run));
	lane->run_queued = false;
	run_lane(lane);
}

static void turn_is_due(weir_timer *timer, void *arg)
{
	run_lane(arg);
}

static void run_later(weir_transmit_lane *lane)
{
	if (lane->run_queued)
		return;
	lane->run_queued = true;
	weir_loop_defer(lane->net->loop, &lane->run);
}

/* ---- offers ---- */

/* Apart from the usual case, which should need no registers to be saved. */
__attribute__((noinline)) static void wait_turn(weir_transmit_lane *lane, weir_conn *conn)
{
	if (weir_conn_unquick(conn) != 0) {
		weir_conn_fail(conn, -ENOMEM);
		return;
	}
	weir_transmit_place *place = take_place(lane, conn);
	/* Without memory for a place it sends like one that is not scheduled. */
	if (place == NULL) {
		conn->net->io->send(conn);
		return;
	}
	if (!place->queued)
		queue(lane, place);
	run_later(lane);
}

/*
 * Pays for a small answer from the budget. If its credit is full, the uplink has been idle for as long as a
 * burst, and the lane pays for a chunk ahead.
 */
__attribute__((noinline)) static bool pay_budget(weir_transmit_lane *lane, size_t bytes, uint64_t wire)
{
	weir_transmit *transmit = lane->transmit;
	weir_transmit_budget *budget = &transmit->budget;
	size_t chunk = atomic_load_explicit(&transmit->chunk, memory_order_relaxed);
	if (bytes > chunk || !nobody_waits(lane))
		return false;
	uint64_t now_ns = now_of(lane),
		 ahead = weir_transmit_wire(chunk, WEIR_TRANSMIT_SEGMENT) - lane->prepaid;
	uint64_t burst_ns = atomic_load_explicit(&budget->burst_ns, memory_order_relaxed);
	if (!weir_transmit_budget_take(budget, ahead, burst_ns, now_ns))
		return weir_transmit_budget_take(budget, wire, 0, now_ns);
	lane->prepaid += ahead - wire;
	return true;
}

static bool pay_small(weir_transmit_lane *lane, size_t bytes)
{
	uint64_t wire = weir_transmit_wire(bytes, WEIR_TRANSMIT_SEGMENT);
	if (wire > lane->prepaid)
		return pay_budget(lane, bytes, wire);
	lane->prepaid -= wire;
	return true;
}

/* The usual case while there is room: a small answer that need not wait. */
static bool send_small(weir_transmit_lane *lane, weir_conn *conn)
{
	if ((conn->place != NULL && !conn->place->empty) || lane->heap.top != NULL || conn->output.more > 0 ||
	    !pay_small(lane, conn->output.bytes))
		return false;
	if (conn->place != NULL)
		conn->place->moved = true;
	conn->net->io->send(conn);
	return true;
}

/* Without a limit everything is sent at once. What the socket does not take is watched. */
static void send_openly(weir_transmit_lane *lane, weir_conn *conn)
{
	conn->net->io->send(conn);
	if (weir_conn_is(conn, WEIR_CONN_DEAD) || conn->output.bytes == 0)
		return;
	if (weir_conn_is(conn, WEIR_CONN_SENDING) &&
	    (conn->net->io->quick || weir_transmit_output(conn) > WATCHED_BYTES) &&
	    take_place(lane, conn) != NULL)
		conn->place->moved = true;
}

/* Without a limit. false: others wait that were there before the limit ended, and they go first. */
static bool send_now(weir_transmit_lane *lane, weir_conn *conn, uint32_t way)
{
	if (lane->heap.top != NULL)
		return false;
	if (way == WEIR_TRANSMIT_IN_BAND)
		weir_transmit_send_in_band(lane, conn);
	else
		send_openly(lane, conn);
	return true;
}

__attribute__((noinline)) static void offer(weir_transmit_lane *lane, weir_conn *conn, uint32_t way)
{
	if (way == WEIR_TRANSMIT_IN_TURN ? send_small(lane, conn) : send_now(lane, conn, way))
		return;
	wait_turn(lane, conn);
}

/* The usual case with a limit is here, since it needs no registers to be saved: one packet, paid for ahead. */
void weir_transmit_offer(weir_conn *conn)
{
	weir_transmit_lane *lane = conn->net->lane;
	uint32_t way = atomic_load_explicit(&lane->transmit->way, memory_order_acquire);
	uint64_t wire = conn->output.bytes + WEIR_TRANSMIT_HEADERS;
	if (way != WEIR_TRANSMIT_IN_TURN || wire > lane->prepaid || conn->place != NULL ||
	    conn->output.more > 0 || conn->output.bytes > WEIR_TRANSMIT_SEGMENT) {
		offer(lane, conn, way);
		return;
	}
	lane->prepaid -= wire;
	conn->net->io->send(conn);
}

/* Apart from the usual case, a small answer that is sent as a whole. */
__attribute__((noinline)) static void sent_much(weir_conn *conn, size_t count)
{
	uint32_t segment = conn->place != NULL ? conn->place->segment : WEIR_TRANSMIT_SEGMENT;
	weir_transmit_add(&conn->net->lane->face->sent_bytes, weir_transmit_wire(count, segment));
	if (conn->output.bytes > 0)
		return;
	conn->flags &= ~(uint32_t)WEIR_CONN_ANSWERING;
	if (conn->place != NULL)
		conn->place->empty = true;
}

void weir_transmit_sent(weir_conn *conn, size_t count)
{
	if (count > WEIR_TRANSMIT_SEGMENT || conn->place != NULL || conn->output.bytes > 0) {
		sent_much(conn, count);
		return;
	}
	weir_transmit_add(&conn->net->lane->face->sent_bytes, count + WEIR_TRANSMIT_HEADERS);
	conn->flags &= ~(uint32_t)WEIR_CONN_ANSWERING;
}

void weir_transmit_completed(weir_conn *conn, size_t count)
{
	weir_transmit_place *place = conn->place;
	if (place == NULL || place->taken <= count)
		return;
	weir_transmit_budget_refund(&conn->net->lane->transmit->budget,
				    weir_transmit_wire(place->taken, place->segment) -
					    weir_transmit_wire(count, place->segment));
	place->taken = 0;
}

void weir_transmit_began(weir_conn *conn, size_t count)
{
	conn->place->taken = (uint32_t)count;
}

/* ---- lanes ---- */

/* A face for one more lane; NULL: there are too many. */
static weir_transmit_face *take_face(weir_transmit *transmit)
{
	uint32_t number = atomic_load(&transmit->lanes);
	do
		if (number == WEIR_TRANSMIT_LANES)
			return NULL;
	while (!atomic_compare_exchange_weak(&transmit->lanes, &number, number + 1));
	return &transmit->face[number];
}

weir_transmit_lane *weir_transmit_lane_of(weir_net *net, weir_transmit *transmit)
{
	if (net->lane != NULL)
		return net->lane;
	weir_transmit_lane *lane = weir_mem_zalloc(sizeof(*lane));
	weir_transmit_face *face = lane != NULL ? take_face(transmit) : NULL;
	if (face == NULL) {
		weir_mem_free(lane);
		return NULL;
	}
	lane->transmit = weir_transmit_ref(transmit);
	lane->net = net;
	lane->version = atomic_load_explicit(&transmit->version, memory_order_acquire);
	lane->face = face;
	lane->run.run = run_deferred;
	weir_pool_init(&lane->pool, sizeof(weir_transmit_place));
	weir_timer_init(&lane->turn_timer, turn_is_due, lane);
	weir_transmit_watch_init(lane);
	net->lane = lane;
	return lane;
}

void weir_transmit_lane_free(weir_transmit_lane *lane)
{
	if (lane == NULL)
		return;
	weir_timer_stop(&lane->turn_timer);
	weir_timer_stop(&lane->look_timer);
	weir_pool_fini(&lane->pool);
	weir_transmit_unref(lane->transmit);
	weir_mem_free(lane);
}
