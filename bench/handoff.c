/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing events to a stage on another thread, in batches of 64 or one by one, from a thread that the runtime
 * knows nothing of, like those of the peers, or from one of a reactor domain.
 *
 *	handoff [--single 1] [--reactor 1] [--producer-cpu C] [--consumer-cpu C] [--seconds S] [--warm S]
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
	for (size_t i = 0; i < count; i++)
		handoff_touch((handoff_item *)events[i]);
	/* A batch that was handed over as one is finished as one. */
	if (!single)
		weir_done_many(events, count);
	for (size_t i = 0; single && i < count; i++)
		weir_done(events[i]);
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

/* ---- a reactor thread as producer ---- */

static weir_stage *producer;
static weir_event drive;
static handoff_item *pending[HANDOFF_BATCH];
static size_t put; /* of the pending batch; HANDOFF_BATCH: a new one is due */

/* Offers what is left of the pending batch; false: the queue is full. */
static bool put_pending(void)
{
	if (!single) {
		if (weir_offer_many(stage, (weir_event **)pending, HANDOFF_BATCH) != WEIR_ADMITTED)
			return false;
		put = HANDOFF_BATCH;
	}
	for (; put < HANDOFF_BATCH; put++)
		if (weir_offer(stage, &pending[put]->event) != WEIR_ADMITTED)
			return false;
	return true;
}

/* A handler must not wait for long: it tries a few times, gives its loop a turn and goes on after that. */
static void produce(weir_stage *self, weir_event **events, size_t count, void *arg)
{
	static bool pinned;

	if (!pinned)
		bench_pin((int)(intptr_t)arg);
	pinned = true;
	for (int i = 0; i < 16; i++) {
		if (put == HANDOFF_BATCH) {
			handoff_fill(pending);
			put = 0;
		}
		if (!put_pending())
			handoff_back_off();
	}
	if (handoff_stopped())
		weir_done(events[0]);
	else
		BENCH_REQUIRE(weir_offer(self, events[0]) == WEIR_ADMITTED);
}

static void add_producer(weir_world *world, int cpu)
{
	weir_domain_options options = {.name = "producer", .kind = WEIR_REACTOR, .threads = 1};
	bench_world at = {.world = world};

	BENCH_CHECK(weir_domain_new(world, &options, &at.domain));
	producer = bench_stage(at, (weir_stage_options){.name = "produce",
							.handle = produce,
							.arg = (void *)(intptr_t)cpu,
							.capacity = 16,
							.no_inline = true});
	weir_event_init(&drive, 0);
	put = HANDOFF_BATCH;
}

int main(int argc, char **argv)
{
	bool reactor = bench_number(argv, "reactor", 0) != 0;
	bench_world at = bench_world_new(0);

	_Static_assert(offsetof(handoff_item, event) == 0, "an event is its item");
	single = bench_number(argv, "single", 0) != 0;
	for (size_t i = 0; i < HANDOFF_POOL; i++)
		weir_event_init(&handoff_pool[i].event, 0);
	stage = bench_stage(at, (weir_stage_options){.name = "take",
						     .handle = handle,
						     .capacity = HANDOFF_BOUND,
						     .batch = HANDOFF_BATCH});
	if (reactor)
		add_producer(at.world, (int)bench_number(argv, "producer-cpu", -1));
	/* The reactor's thread inherits this; the producer pins itself elsewhere. */
	bench_pin((int)bench_number(argv, "consumer-cpu", -1));
	BENCH_CHECK(weir_world_start(at.world));
	if (reactor) {
		BENCH_REQUIRE(weir_offer(producer, &drive) == WEIR_ADMITTED);
		handoff_sample(argv);
	} else {
		handoff_measure(argv);
	}
	bench_world_end(&at);
	return 0;
}
