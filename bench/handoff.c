/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing events to a stage on another thread, from a plain thread: in batches of 64, or one by one.
 *
 *	handoff [--single 1] [--producer-cpu C] [--consumer-cpu C] [--seconds S] [--warm S]
 *
 * The queue's bound is the flow control: an offer shed as full is made again a moment later. Unlike the peers, the
 * stage sleeps when idle, admits, counts and times every event.
 */
#include "handoff.h"
#include "world.h"

static weir_stage *stage;
static bool single;

static void handle(weir_stage *self, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		handoff_touch((handoff_item *)events[i]);
		weir_done(events[i]);
	}
	handoff_took(count);
}

static void put_many(handoff_item **items)
{
	weir_verdict verdict;

	while ((verdict = weir_offer_many(stage, (weir_event **)items, HANDOFF_BATCH)) != WEIR_ADMITTED) {
		BENCH_REQUIRE(verdict == WEIR_SHED_FULL);
		handoff_back_off();
	}
}

static void put_one(handoff_item *item)
{
	weir_verdict verdict;

	while ((verdict = weir_offer(stage, &item->event)) != WEIR_ADMITTED) {
		BENCH_REQUIRE(verdict == WEIR_SHED_FULL);
		handoff_back_off();
	}
}

static void handoff_put(handoff_item **items)
{
	if (!single) {
		put_many(items);
		return;
	}
	for (size_t i = 0; i < HANDOFF_BATCH; i++)
		put_one(items[i]);
}

int main(int argc, char **argv)
{
	bench_world at = bench_world_new(0);

	_Static_assert(offsetof(handoff_item, event) == 0, "an event is its item");
	single = bench_number(argv, "single", 0) != 0;
	for (size_t i = 0; i < HANDOFF_POOL; i++)
		weir_event_init(&handoff_pool[i].event, 0);
	stage = bench_stage(at, (weir_stage_options){.name = "take",
						     .handle = handle,
						     .capacity = HANDOFF_BOUND,
						     .batch = HANDOFF_BATCH});
	/* The reactor's thread inherits this; the producer pins itself elsewhere. */
	bench_pin((int)bench_number(argv, "consumer-cpu", -1));
	BENCH_CHECK(weir_world_start(at.world));
	handoff_measure(argv);
	bench_world_end(&at);
	return 0;
}
