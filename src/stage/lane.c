/* SPDX-License-Identifier: Apache-2.0 */
#include "stage/runtime.h"

/* ---- places ---- */

/*
 * A failed attempt must never look like places taken, not even for a moment. Another offer that waits for a
 * place would go to sleep because of it, and nothing would leave the queue to wake it. So the exchange
 * succeeds or changes nothing. Sequentially consistent because of waiters: see weir_lane_give_back.
 */
static bool take_places(weir_lane *lane, uint32_t count)
{
	uint32_t before = atomic_load(&lane->waiting);
	do {
		if (count > lane->capacity - before)
			return false;
	} while (!atomic_compare_exchange_weak(&lane->waiting, &before, before + count));
	return true;
}

static bool take_cost(weir_lane *lane, uint64_t cost)
{
	uint64_t before = atomic_load(&lane->cost);
	do {
		if (cost > lane->cost_capacity - before)
			return false;
	} while (!atomic_compare_exchange_weak(&lane->cost, &before, before + cost));
	return true;
}

weir_verdict weir_lane_take(weir_lane *lane, uint32_t count, uint64_t cost)
{
	bool bounded = lane->cost_capacity != 0;
	if (bounded && cost > lane->cost_capacity - atomic_load(&lane->cost))
		return count > lane->capacity - atomic_load(&lane->waiting) ? WEIR_SHED_FULL : WEIR_SHED_COST;
	if (!take_places(lane, count))
		return WEIR_SHED_FULL;
	if (!bounded || take_cost(lane, cost))
		return WEIR_ADMITTED;
	/* Others took the cost first. Our places looked taken for a moment, so waiters must look again. */
	weir_lane_give_back(lane, count, 0);
	return WEIR_SHED_COST;
}

/*
 * A waiter counts itself before it tries again. We give the place back before we look for waiters. Both are
 * sequentially consistent, so one of the two sees the other.
 */
void weir_lane_give_back(weir_lane *lane, uint32_t count, uint64_t cost)
{
	if (lane->cost_capacity != 0)
		atomic_fetch_sub_explicit(&lane->cost, cost, memory_order_seq_cst);
	atomic_fetch_sub_explicit(&lane->waiting, count, memory_order_seq_cst);
	weir_stage *stage = lane->stage;
	if (__builtin_expect(atomic_load_explicit(&stage->waiters, memory_order_seq_cst) == 0, 1))
		return;
	weir_stage_wake_waiters(stage);
}

void weir_stage_wake_waiters(weir_stage *stage)
{
	pthread_mutex_lock(&stage->wait_lock);
	stage->wait_turn++;
	pthread_cond_broadcast(&stage->wait_space);
	pthread_mutex_unlock(&stage->wait_lock);
}

/* ---- pushing, and waking who should come ---- */

static void mark_local(weir_thread *self, const weir_lane *lane)
{
	self->local_ready[lane->stage->index / 64] |= UINT64_C(1) << (lane->stage->index % 64);
}

/* The bit is set before the wake: a loop takes note of the wake, then looks at the bits. */
static void mark_remote(weir_lane *lane, weir_thread *self)
{
	weir_thread *owner = lane->thread;
	uint64_t bit = UINT64_C(1) << (lane->stage->index % 64);
	_Atomic uint64_t *word = &owner->ready[lane->stage->index / 64];
	if (atomic_fetch_or_explicit(word, bit, memory_order_seq_cst) & bit)
		return; /* whoever set it wakes the owner */
	if (owner->loop == NULL)
		return; /* virtual: the simulation looks at the bits by itself */
	/* A reactor thread wakes others after its batch. Others wake at once: their handlers may block. */
	if (self != NULL && self->loop != NULL)
		self->wakes |= UINT64_C(1) << (owner->slot - 1);
	else
		weir_loop_wake(owner->loop);
}

void weir_thread_flush_wakes(weir_thread *self)
{
	while (self->wakes != 0) {
		unsigned at = (unsigned)__builtin_ctzll(self->wakes);
		self->wakes &= self->wakes - 1;
		weir_loop_wake(self->world->reactors[at]->loop);
	}
}

void weir_lane_push(weir_lane *lane, weir_thread *self, weir_event *const *events, size_t count)
{
	if (lane->thread == NULL) {
		weir_elastic_push(lane, events, count);
	} else if (lane->thread == self) {
		for (size_t i = 0; i < count; i++)
			weir_queue_push(&lane->queue, events[i]);
		mark_local(self, lane);
	} else {
		weir_inbox_put(&lane->inbox, events, count);
		mark_remote(lane, self);
	}
}

void weir_lane_kick(weir_lane *lane, weir_thread *self)
{
	if (lane->thread == NULL)
		weir_elastic_kick(lane->stage->domain);
	else if (lane->thread == self)
		mark_local(self, lane);
	else
		mark_remote(lane, self);
}

/* ---- taking out ---- */

void weir_lane_absorb(weir_lane *lane)
{
	weir_event *events[64];
	size_t count;
	do {
		count = weir_inbox_take(&lane->inbox, events, 64);
		for (size_t i = 0; i < count; i++)
			weir_event_fetch(events[i]);
		for (size_t i = 0; i < count; i++)
			weir_queue_push(&lane->queue, events[i]);
	} while (count == 64);
}

/* How many the law lets inside, over all lanes that share its state; UINT32_MAX: no limit. */
static uint32_t law_limit(const weir_lane *lane, const weir_gate *gate)
{
	if (gate == NULL || gate->law->limit == NULL ||
	    atomic_load_explicit(&lane->stage->mode, memory_order_relaxed) != WEIR_ENFORCE)
		return UINT32_MAX;
	uint32_t limit = gate->law->limit(weir_gate_state((weir_gate *)gate, lane));
	return limit > 1 ? limit : 1;
}

/* Whether events wait in the lane while it has less than its share in service. */
static bool is_short(const weir_lane *lane, uint32_t share)
{
	return atomic_load_explicit(&lane->waiting, memory_order_seq_cst) != 0 &&
	       atomic_load_explicit(&lane->in_service, memory_order_seq_cst) < share;
}

/*
 * A limit that the lanes of a stage share. Each has an equal share, and at least one place so that no lane
 * waits for ever. Any lane may use what others leave. With fixed shares a busy lane would wait beside an idle
 * one, and the law would see less done than is possible. While a waiting lane has less than its share, the
 * others take no more than theirs, so it gets the next places that become free.
 */
static uint32_t shared_room(const weir_lane *lane, uint32_t limit)
{
	const weir_stage *stage = lane->stage;
	uint32_t share = limit / stage->lane_count + (lane->index < limit % stage->lane_count), total = 0;
	uint32_t own = atomic_load_explicit(&lane->in_service, memory_order_seq_cst);
	bool others_short = false;
	share = share > 1 ? share : 1;
	for (uint32_t i = 0; i < stage->lane_count; i++) {
		total += atomic_load_explicit(&stage->lanes[i].in_service, memory_order_seq_cst);
		others_short |= &stage->lanes[i] != lane && is_short(&stage->lanes[i], share);
	}
	uint32_t room = own < share ? share - own : 0,
		 free = total < limit && !others_short ? limit - total : 0;
	return room > free ? room : free;
}

static uint32_t law_room(const weir_lane *lane)
{
	const weir_gate *gate = weir_stage_gate(lane->stage);
	uint32_t limit = law_limit(lane, gate);
	if (limit == UINT32_MAX)
		return limit;
	if (lane->stage->lane_count > 1 && gate->stride == 0)
		return shared_room(lane, limit);
	uint32_t inside = atomic_load_explicit(&lane->in_service, memory_order_seq_cst);
	return inside < limit ? limit - inside : 0;
}

uint32_t weir_lane_room(const weir_lane *lane)
{
	uint32_t room = law_room(lane);
	if (lane->concurrency == 0)
		return room;
	uint32_t inside = atomic_load_explicit(&lane->in_service, memory_order_seq_cst);
	uint32_t left = inside < lane->concurrency ? lane->concurrency - inside : 0;
	return left < room ? left : room;
}

void weir_lane_pass_on(weir_lane *lane, weir_thread *self)
{
	weir_stage *stage = lane->stage;
	for (uint32_t i = 1; i < stage->lane_count; i++) {
		weir_lane *other = &stage->lanes[(lane->index + i) % stage->lane_count];
		if (atomic_load_explicit(&other->waiting, memory_order_seq_cst) != 0 &&
		    weir_lane_room(other) != 0) {
			weir_lane_kick(other, self);
			return;
		}
	}
}

static uint32_t startable_count(const weir_lane *lane)
{
	return lane->running ? 0 : weir_lane_room(lane);
}

/* The gate whose law visits the classes of this lane; NULL: none. */
static const weir_gate *visiting_gate(const weir_lane *lane)
{
	const weir_gate *gate = lane->queue.order == WEIR_BY_CLASS ? weir_stage_gate(lane->stage) : NULL;
	return gate != NULL && gate->law->open != NULL ? gate : NULL;
}

/* Classes whose events wait for a visit of the law. A dry run, "admit all" and a stop wait for none. */
static uint32_t closed_classes(const weir_lane *lane)
{
	const weir_gate *gate = visiting_gate(lane);
	if (gate == NULL || atomic_load_explicit(&lane->stage->mode, memory_order_relaxed) != WEIR_ENFORCE ||
	    !weir_stage_is_open(lane->stage))
		return 0;
	return ~gate->law->open(weir_gate_state((weir_gate *)gate, lane));
}

void weir_lane_mind_visits(weir_lane *lane)
{
	lane->queue.closed = closed_classes(lane);
}

bool weir_lane_is_open(const weir_lane *lane, unsigned klass)
{
	return (closed_classes(lane) >> klass & 1) == 0;
}

/* A ticket's event is not there yet: its class is unknown. */
bool weir_lane_is_first(const weir_lane *lane, unsigned klass)
{
	return visiting_gate(lane) != NULL && !weir_inbox_ready(&lane->inbox) &&
	       (lane->queue.occupied & ((2u << klass) - 1)) == 0 &&
	       atomic_load_explicit(&lane->waiting, memory_order_relaxed) == lane->queue.count;
}

/* Events in the inbox have no order yet, so one of them may be of an open class. */
static bool may_pop(const weir_lane *lane)
{
	if (weir_inbox_ready(&lane->inbox))
		return true;
	if (lane->queue.count == 0 || lane->queue.order != WEIR_BY_CLASS)
		return lane->queue.count != 0;
	return (lane->queue.occupied & ~closed_classes(lane)) != 0;
}

bool weir_lane_startable(const weir_lane *lane)
{
	if (!may_pop(lane))
		return lane->queue.count != 0 && atomic_load_explicit(&lane->purge, memory_order_relaxed);
	return startable_count(lane) != 0 || atomic_load_explicit(&lane->purge, memory_order_relaxed);
}

/* The next events in the lane's order. If a FIFO queue is empty, events come directly from the inbox. */
static size_t pop(weir_lane *lane, uint64_t now_ns, size_t most, weir_event **ret_events)
{
	size_t count = 0;
	if (lane->queue.count == 0 && lane->queue.order == WEIR_FIFO && lane->inbox.slot != NULL) {
		count = weir_inbox_take(&lane->inbox, ret_events, most);
		for (size_t i = 0; i < count; i++)
			weir_event_fetch(ret_events[i]);
		return count;
	}
	if (weir_inbox_ready(&lane->inbox))
		weir_lane_absorb(lane);
	weir_lane_mind_visits(lane);
	/* The law may close a class after each event. */
	if (most > 1 && visiting_gate(lane) != NULL)
		most = 1;
	while (count < most && (ret_events[count] = weir_queue_pop(&lane->queue, now_ns)) != NULL) {
		if (lane->thread == NULL)
			weir_turn_leave_locked(lane, ret_events[count]);
		count++;
	}
	return count;
}

void weir_lane_gone(weir_lane *lane, const weir_event *event, uint64_t now_ns)
{
	weir_gate *gate = weir_event_gate(event, lane->stage);
	if (gate != NULL && gate->law->gone != NULL)
		gate->law->gone(weir_gate_state(gate, lane), event, now_ns);
}

/* WEIR_ADMITTED: the event is still worth handling. */
static weir_verdict judge(weir_lane *lane, const weir_event *event, const weir_turn *turn)
{
	weir_verdict unwanted = WEIR_ADMITTED;
	if (weir_event_is_cancelled(event))
		unwanted = WEIR_SHED_CANCELLED;
	else if (event->deadline_ns != 0 && turn->now_ns > event->deadline_ns)
		unwanted = WEIR_SHED_EXPIRED;
	if (unwanted != WEIR_ADMITTED) {
		weir_lane_gone(lane, event, turn->now_ns);
		return unwanted;
	}
	weir_gate *gate = weir_event_gate(event, lane->stage);
	if (gate == NULL || gate->law->start == NULL)
		return WEIR_ADMITTED;
	return weir_gate_start(gate, lane, event, turn);
}

/* Takes only events that this law admitted. Exempt ones stay, and those that another law admitted. */
size_t weir_lane_take_stale(weir_lane *lane, uint64_t now_ns, size_t most, weir_event **ret_events)
{
	weir_gate *gate = weir_stage_gate(lane->stage);
	uint64_t before_ns[WEIR_CLASSES], cost = 0;
	most = lane->queue.count != 0 ? weir_gate_may_drop(lane->stage, most) : 0;
	if (gate == NULL || gate->law->patience == NULL || most == 0)
		return 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		uint64_t patience_ns = gate->law->patience(weir_gate_state(gate, lane), k);
		before_ns[k] = patience_ns < now_ns ? now_ns - patience_ns : 0;
	}
	size_t taken = weir_queue_take_older(&lane->queue, gate->number, before_ns, most, ret_events);
	for (size_t i = 0; i < taken; i++) {
		if (lane->thread == NULL)
			weir_turn_leave_locked(lane, ret_events[i]);
		weir_lane_gone(lane, ret_events[i], now_ns);
		cost += ret_events[i]->cost;
	}
	if (taken != 0) {
		weir_gate_dropped(lane->stage, taken);
		weir_lane_give_back(lane, (uint32_t)taken, cost);
	}
	return taken;
}

/* A tick asked: drops what waited too long, even while nothing can start. True: there may be more. */
static bool purge(weir_lane *lane, uint64_t now_ns, weir_batch *batch)
{
	weir_lane_absorb(lane);
	batch->dead = weir_lane_take_stale(lane, now_ns, WEIR_BATCH_MAX, batch->dead_events);
	for (size_t i = 0; i < batch->dead; i++)
		batch->dead_why[i] = WEIR_SHED_WAITED;
	return batch->dead == WEIR_BATCH_MAX;
}

/* How many may be popped and started. Takes their places in the stage's bound. */
static uint32_t take_startable(weir_lane *lane, size_t most)
{
	uint32_t startable = startable_count(lane);
	uint32_t wanted = most < startable ? (uint32_t)most : startable;
	if (lane->stage->options.bound == NULL)
		return wanted;
	uint32_t waiting = atomic_load(&lane->waiting);
	return weir_bound_take(lane, wanted < waiting ? wanted : waiting);
}

void weir_lane_collect(weir_lane *lane, uint64_t now_ns, size_t most, weir_batch *ret_batch)
{
	ret_batch->count = ret_batch->dead = 0;
	if (atomic_load_explicit(&lane->purge, memory_order_relaxed) && lane->thread != NULL) {
		bool more = purge(lane, now_ns, ret_batch);
		atomic_store_explicit(&lane->purge, more, memory_order_relaxed);
		if (ret_batch->dead != 0)
			return;
	}
	uint32_t startable = take_startable(lane, most);
	size_t popped = pop(lane, now_ns, startable, ret_batch->events);
	size_t living = 0, dead = 0;
	uint64_t cost = 0;
	uint32_t waiting = atomic_load_explicit(&lane->waiting, memory_order_relaxed);
	uint32_t inside = atomic_load_explicit(&lane->in_service, memory_order_relaxed);
	for (size_t i = 0; i < popped; i++) {
		weir_event *event = ret_batch->events[i];
		weir_turn turn = {
			.now_ns = now_ns,
			.shared = atomic_load_explicit(&lane->stage->domain->shared, memory_order_relaxed),
			.waiting = waiting - (uint32_t)i - 1,
			.in_service = inside + (uint32_t)living,
			.note = event->note};
		weir_verdict verdict = judge(lane, event, &turn);
		cost += event->cost;
		if (verdict == WEIR_ADMITTED) {
			ret_batch->events[living++] = event;
		} else {
			ret_batch->dead_events[dead] = event;
			ret_batch->dead_why[dead++] = verdict;
		}
	}
	ret_batch->count = living;
	ret_batch->dead = dead;
	/* In service before the places are free, so that the two together never undercount. */
	if (living != 0)
		atomic_fetch_add_explicit(&lane->in_service, (uint32_t)living, memory_order_relaxed);
	if (popped != 0)
		weir_lane_give_back(lane, (uint32_t)popped, cost);
	weir_bound_give(lane, startable - (uint32_t)living, lane->thread);
	lane->running = lane->stage->options.single && living != 0;
}
