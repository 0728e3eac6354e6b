/* SPDX-License-Identifier: Apache-2.0 */
/* An event's memory is its owner's again the moment it is settled, dropped or shed: it may be freed at once. */
#include "support/worlds.h"

#include <stdlib.h>

enum { PRODUCERS = 3, EVENTS = 4000 };

static weir_stage *front, *back;
static _Atomic uint64_t made, freed;

static void release(weir_event *event)
{
	free(event);
	atomic_fetch_add(&freed, 1);
}

static void pass_on(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		weir_event *event = events[i];
		if (weir_offer(back, event) == WEIR_ADMITTED)
			continue;
		weir_fail(event);
		release(event);
	}
}

static void finish(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		weir_done(events[i]);
		release(events[i]);
	}
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	release(event);
}

static weir_event *make(unsigned klass)
{
	weir_event *event = malloc(sizeof *event);
	weir_event_init(event, klass);
	atomic_fetch_add(&made, 1);
	return event;
}

static void *produce(void *arg)
{
	for (unsigned i = 0; i < EVENTS; i++) {
		weir_event *events[3] = {make(i % WEIR_CLASSES), make(i % WEIR_CLASSES),
					 make(i % WEIR_CLASSES)};
		if (i % 5 == 0)
			events[1]->deadline_ns = 1 + i; /* long ago */
		if (i % 2 == 0 && weir_offer_many(front, events, 3) == WEIR_ADMITTED)
			continue;
		for (int j = 0; j < 3; j++)
			if (weir_offer(j == 0 ? back : front, events[j]) != WEIR_ADMITTED)
				release(events[j]);
	}
	return NULL;
}

static void settled_events_can_be_freed_at_once(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_real();
		pthread_t threads[PRODUCERS];
		weir_stage_options options = {.name = "back", .handle = finish, .drop = drop, .capacity = 64};
		made = freed = 0;
		weir_domain *reactor = domain_reactor(world, "reactor", 2);
		must(weir_stage_new(kind == WEIR_REACTOR ? reactor : domain_elastic(world, "pool", 2, 4),
				    &options, &back));
		options = (weir_stage_options){.name = "front",
					       .handle = pass_on,
					       .drop = drop,
					       .capacity = 64,
					       .order = WEIR_SHORTEST};
		must(weir_stage_new(reactor, &options, &front));
		must(weir_world_start(world));
		weir_trace_every(world, 2);
		for (int i = 0; i < PRODUCERS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, produce, NULL), 0);
		for (int i = 0; i < PRODUCERS; i++)
			pthread_join(threads[i], NULL);
		world_end(&world);
		assert_int_equal(made, freed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(settled_events_can_be_freed_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
