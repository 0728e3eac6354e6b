/* SPDX-License-Identifier: Apache-2.0 */
#include "stress/crowd.h"

#include <string.h>

static _Thread_local weir_random here;
static _Thread_local bool seeded;
static _Atomic uint64_t thread_seeds = 1000;

/* Every thread has its own numbers; those of handlers depend on how threads come and go, which no seed decides anyway. */
static uint64_t below(uint64_t bound)
{
	if (!seeded)
		weir_random_init(&here, atomic_fetch_add(&thread_seeds, 1));
	seeded = true;
	return weir_random_below(&here, bound);
}

/* ---- ends ---- */

/* After the runtime has let go: from here on the producer may use the item again. */
static void leave(struct item *item)
{
	struct crowd *crowd = item->crowd;
	atomic_fetch_add(&crowd->ended, 1);
	if (!atomic_exchange(&item->inside, false))
		atomic_fetch_add(&crowd->twice, 1);
}

static void end(struct item *item)
{
	if (below(4) == 0)
		weir_fail(&item->event);
	else
		weir_done(&item->event);
	leave(item);
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	leave((struct item *)event);
}

static void pass_on(struct item *item, unsigned to)
{
	if (item->hops++ >= 12 || weir_offer(item->crowd->stages[to], &item->event) != WEIR_ADMITTED)
		end(item);
}

/* ---- held items ---- */

static void give_to_settler(struct item *item)
{
	struct crowd *crowd = item->crowd;
	weir_hold(&item->event);
	pthread_mutex_lock(&crowd->lock);
	item->next = crowd->held;
	crowd->held = item;
	pthread_mutex_unlock(&crowd->lock);
}

static struct item *take_held(struct crowd *crowd)
{
	pthread_mutex_lock(&crowd->lock);
	struct item *items = crowd->held;
	crowd->held = NULL;
	pthread_mutex_unlock(&crowd->lock);
	return items;
}

static void *settle_held(void *arg)
{
	struct crowd *crowd = arg;
	for (;;) {
		/* Read before the list: what is held after that is of nobody's handler any more. */
		bool ends = atomic_load(&crowd->settler_ends);
		struct item *items = take_held(crowd), *next;
		if (items == NULL && ends)
			return NULL;
		if (items == NULL)
			check_breathe();
		for (; items != NULL; items = next) {
			next = items->next;
			if (below(3) == 0)
				pass_on(items, CROWD_POOL);
			else
				end(items);
		}
	}
}

static void settle_by_timer(weir_timer *timer, void *arg)
{
	end(arg);
}

/* ---- handlers ---- */

static void handle_front(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		struct item *item = (struct item *)events[i];
		switch (below(6)) {
		case 0:
			end(item);
			break;
		case 1:
			give_to_settler(item);
			break;
		case 2:
			weir_hold(&item->event);
			weir_timer_init(&item->timer, settle_by_timer, item);
			if (item->crowd->no_timers ||
			    weir_timer_start(NULL, &item->timer, weir_loop_now(weir_loop_self()) + 100000) !=
				    0)
				end(item);
			break;
		case 3:
			pass_on(item, CROWD_SINGLE);
			break;
		default:
			pass_on(item, CROWD_POOL);
			break;
		}
	}
}

static void handle_pool(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		struct item *item = (struct item *)events[i];
		if (below(20) == 0)
			check_breathe(); /* blocks, as pool handlers may */
		if (below(8) == 0)
			give_to_settler(item);
		else if (below(4) == 0 && weir_offer_wait(item->crowd->stages[CROWD_BACK], &item->event,
							  1000000) == WEIR_ADMITTED)
			continue;
		else
			pass_on(item, CROWD_BACK);
	}
}

/* As pass_on, in two phases; the handler's own event may also stay where it is. */
static void pass_on_by_ticket(struct item *item, unsigned to)
{
	weir_event *event = &item->event;
	weir_ticket ticket;
	if (item->hops++ >= 12 || weir_reserve(item->crowd->stages[to], event->klass, 1, event->cost,
					       WEIR_ANYWHERE, &ticket) != WEIR_ADMITTED) {
		end(item);
		return;
	}
	if (below(2) == 0 && weir_commit(&ticket, &event, 1) == 0)
		return;
	weir_cancel(&ticket);
	end(item);
}

static void handle_back(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		if (below(5) == 0)
			pass_on((struct item *)events[i], CROWD_FRONT);
		else if (below(5) == 0)
			pass_on_by_ticket((struct item *)events[i], CROWD_POOL);
		else
			end((struct item *)events[i]);
	}
}

static void handle_single(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	struct crowd *crowd = arg;
	if (atomic_exchange(&crowd->single_busy, true))
		atomic_fetch_add(&crowd->overlapping, 1);
	crowd->single_count += count;
	for (size_t i = 0; i < count; i++)
		pass_on((struct item *)events[i], CROWD_BACK);
	atomic_store(&crowd->single_busy, false);
}

/* ---- producers ---- */

static bool make_item(struct producer *producer, struct item *item, unsigned klass)
{
	if (atomic_load(&item->inside)) {
		/* It is the producer's to make anew, so nobody does that while this cancels it. */
		if (below(10) == 0)
			weir_event_cancel(&item->event);
		return false;
	}
	weir_event_init(&item->event, klass);
	item->crowd = producer->crowd;
	item->hops = 0;
	item->event.cost = (uint32_t)below(100);
	if (below(20) == 0)
		item->event.deadline_ns = weir_world_now(producer->crowd->world) + below(2000000);
	if (below(20) == 0)
		item->event.flags = WEIR_EVENT_EXEMPT | WEIR_EVENT_TRACE;
	atomic_store(&item->inside, true);
	return true;
}

static size_t make_items(struct producer *producer, size_t at, size_t most, unsigned klass,
			 struct item **ret_items, weir_event **ret_events)
{
	size_t made = 0;
	for (size_t i = 0; i < most; i++) {
		struct item *item = &producer->items[(at + i) % CROWD_ITEMS];
		if (!make_item(producer, item, klass))
			continue;
		ret_items[made] = item;
		ret_events[made++] = &item->event;
	}
	return made;
}

static weir_verdict by_ticket(weir_stage *stage, unsigned klass, weir_event **events, size_t count)
{
	weir_ticket ticket;
	uint64_t cost = 0;
	for (size_t i = 0; i < count; i++)
		cost += events[i]->cost;
	weir_verdict verdict = weir_reserve(stage, klass, count, cost, WEIR_ANYWHERE, &ticket);
	if (verdict != WEIR_ADMITTED)
		return verdict;
	if (below(3) != 0 && weir_commit(&ticket, events, count) == 0)
		return WEIR_ADMITTED;
	weir_cancel(&ticket);
	return WEIR_SHED_OFF; /* of our own accord */
}

/* Makes one offer; false: no item was free for it. */
static bool produce(struct producer *producer, size_t at)
{
	struct crowd *crowd = producer->crowd;
	struct item *items[4];
	weir_event *events[4];
	weir_stage *stage = crowd->stages[below(CROWD_STAGES)];
	unsigned klass = (unsigned)below(WEIR_CLASSES), form = (unsigned)below(8);
	size_t count = make_items(producer, at, form < 2 ? 4 : 1, klass, items, events);
	weir_verdict verdict;
	if (count == 0)
		return false;
	/* Counted before: the end may come before the offer is back. */
	atomic_fetch_add(&crowd->entered, count);
	if (form == 0)
		verdict = weir_offer_many(stage, events, count);
	else if (form == 1)
		verdict = by_ticket(stage, klass, events, count);
	else if (form == 2)
		verdict = weir_offer_wait(stage, events[0], 200000);
	else
		verdict = weir_offer(stage, events[0]);
	if (verdict == WEIR_ADMITTED)
		return true;
	atomic_fetch_add(&crowd->sheds[verdict], count);
	atomic_fetch_sub(&crowd->entered, count);
	for (size_t i = 0; i < count; i++)
		atomic_store(&items[i]->inside, false);
	return true;
}

static void *producer_main(void *arg)
{
	struct producer *producer = arg;
	weir_random_init(&here, producer->seed);
	seeded = true;
	for (unsigned made = 0; made < producer->crowd->rounds;) {
		if (produce(producer, below(CROWD_ITEMS)))
			made++;
		else if (below(16) == 0)
			check_breathe();
	}
	return NULL;
}

/* ---- the whole ---- */

static void make_stage(struct crowd *crowd, unsigned at, weir_domain *domain, weir_stage_options options)
{
	options.drop = drop;
	options.arg = crowd;
	must(weir_stage_new(domain, &options, &crowd->stages[at]));
}

void crowd_open(struct crowd *crowd, unsigned producers, unsigned rounds, uint64_t seed, bool no_timers)
{
	memset(crowd, 0, sizeof *crowd);
	pthread_mutex_init(&crowd->lock, NULL);
	crowd->rounds = rounds;
	crowd->no_timers = no_timers;
	crowd->producer_count = producers;
	crowd->world = world_real();
	crowd->reactor = domain_reactor(crowd->world, "reactor", 2);
	crowd->pool = domain_elastic(crowd->world, "pool", 1, 6);
	make_stage(crowd, CROWD_FRONT, crowd->reactor,
		   (weir_stage_options){.name = "front", .handle = handle_front, .capacity = 64});
	make_stage(crowd, CROWD_POOL, crowd->pool,
		   (weir_stage_options){.name = "pool",
					.handle = handle_pool,
					.capacity = 32,
					.batch = 8,
					.order = WEIR_BY_CLASS});
	make_stage(crowd, CROWD_BACK, crowd->reactor,
		   (weir_stage_options){.name = "back",
					.handle = handle_back,
					.capacity = 32,
					.cost_capacity = 4000,
					.concurrency = 16,
					.order = WEIR_SHORTEST});
	make_stage(crowd, CROWD_SINGLE, crowd->pool,
		   (weir_stage_options){.name = "single",
					.handle = handle_single,
					.capacity = 32,
					.single = true,
					.batch = 4});
	must(weir_world_start(crowd->world));
	assert_int_equal(pthread_create(&crowd->settler, NULL, settle_held, crowd), 0);
	for (unsigned i = 0; i < producers; i++) {
		struct producer *producer = &crowd->producers[i];
		producer->crowd = crowd;
		producer->seed = seed * 100 + i;
		assert_int_equal(pthread_create(&producer->thread, NULL, producer_main, producer), 0);
	}
}

void crowd_join_producers(struct crowd *crowd)
{
	for (unsigned i = 0; i < crowd->producer_count; i++)
		pthread_join(crowd->producers[i].thread, NULL);
}

void crowd_join_settler(struct crowd *crowd)
{
	atomic_store(&crowd->settler_ends, true);
	pthread_join(crowd->settler, NULL);
}

void crowd_check_and_free(struct crowd *crowd)
{
	uint64_t still_inside = 0;
	for (unsigned p = 0; p < crowd->producer_count; p++)
		for (unsigned i = 0; i < CROWD_ITEMS; i++)
			still_inside += atomic_load(&crowd->producers[p].items[i].inside);
	assert_int_equal(still_inside, 0);
	assert_int_equal(crowd->twice, 0);
	assert_int_equal(crowd->entered, crowd->ended);
	assert_int_equal(crowd->overlapping, 0);
	assert_int_equal(crowd->sheds[WEIR_SHED_MISUSE], 0);
	assert_int_equal(weir_world_check(crowd->world), 0);
	weir_world_free(&crowd->world);
}
