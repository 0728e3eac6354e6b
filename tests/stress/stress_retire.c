/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages and pools come and go under fire, as routes do in a service that reloads.
 *
 *	producers ─▶ front (2 reactor threads) ─▶ stages that come and go ─▶ back (a pool)
 *
 * The main thread makes a stage, or a pool with one, and puts it into a route. Later it takes it out of the route
 * and retires it. Meanwhile handlers offer along the routes, one thread replaces laws, and another looks at
 * everything. Whatever comes in must come out once. The sanitizers find what is used too late.
 */
#include "support/worlds.h"

#include <pthread.h>
#include <stdio.h>

enum { PRODUCERS = 2, ITEMS = 128, ROUTES = 4 };

struct item {
	weir_event event;
	_Atomic bool inside;
};

static weir_world *world;
static weir_domain *reactor, *pool;
static struct probe front, back;
static _Atomic(weir_stage *) routes[ROUTES];
static _Atomic bool ends;
static _Atomic uint64_t entered, ended, twice, through, seen, refused;

struct producer {
	pthread_t thread;
	struct item items[ITEMS];
};

static void end_item(weir_event *event)
{
	struct item *item = (struct item *)event;
	atomic_fetch_add(&ended, 1);
	if (!atomic_exchange(&item->inside, false))
		atomic_fetch_add(&twice, 1);
}

static void finish(weir_event *event)
{
	weir_done(event);
	end_item(event);
}

static void handle_front(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	static _Atomic unsigned turn;
	for (size_t i = 0; i < count; i++) {
		weir_stage *to = atomic_load(&routes[atomic_fetch_add(&turn, 1) % ROUTES]);
		weir_stage_stats stats;
		/* Within a handler what a route leads to may be looked at, too. */
		if (to != NULL) {
			weir_stage_read(to, WEIR_ALL_CLASSES, &stats);
			atomic_fetch_add(&seen, weir_edge_count(stage, to) + stats.offered);
		}
		weir_why why;
		if (to != NULL && weir_offer(to, events[i]) == WEIR_ADMITTED)
			continue;
		if (to != NULL)
			weir_why_shed(&why);
		finish(events[i]);
	}
}

static void handle_route(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		atomic_fetch_add(&through, 1);
		if (weir_offer(back.stage, events[i]) != WEIR_ADMITTED)
			finish(events[i]);
	}
}

static void handle_back(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		finish(events[i]);
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	end_item(event);
}

static void *produce(void *arg)
{
	struct producer *producer = arg;
	for (size_t at = 0; !atomic_load(&ends); at++) {
		struct item *item = &producer->items[at % ITEMS];
		if (atomic_load(&item->inside)) {
			check_breathe();
			continue;
		}
		weir_event_init(&item->event, at % WEIR_CLASSES);
		atomic_store(&item->inside, true);
		atomic_fetch_add(&entered, 1);
		if (weir_offer(front.stage, &item->event) != WEIR_ADMITTED)
			end_item(&item->event);
	}
	return NULL;
}

static void *look(void *arg)
{
	FILE *null = fopen("/dev/null", "w");
	while (!atomic_load(&ends)) {
		weir_stage_stats stats;
		weir_dump(world, null);
		weir_dump_graph(world, null);
		weir_world_check(world);
		weir_stage_read(front.stage, WEIR_ALL_CLASSES, &stats);
		weir_report report;
		weir_stage_report(front.stage, 0, &report);
		/* Whoever retires waits for whoever looks. */
		for (unsigned i = 0; i < 40; i++)
			check_breathe();
	}
	fclose(null);
	return NULL;
}

static void *swap_laws(void *arg)
{
	for (uint32_t i = 0; !atomic_load(&ends); i++) {
		weir_threshold_params threshold = {.waiting = {100 + i % 10}};
		weir_stage *stage = i % 2 ? front.stage : back.stage;
		atomic_fetch_add(&refused, weir_stage_admission(stage, &weir_law_threshold, &threshold) != 0);
		if (i % 4 == 0)
			check_breathe();
	}
	return NULL;
}

struct coming {
	weir_domain *domain; /* its own; NULL: one of the world's */
	weir_stage *stage;
};

static void come(struct coming *coming, int round)
{
	char name[32];
	weir_threshold_params threshold = {.waiting = {50}};
	weir_domain *domain = round % 2 ? reactor : pool;
	*coming = (struct coming){0};
	snprintf(name, sizeof(name), "route-%d", round % ROUTES);
	if (round % 3 == 0)
		domain = coming->domain = domain_elastic(world, name, 1, 2);
	must(weir_stage_new(domain,
			    &(weir_stage_options){.name = name,
						  .handle = handle_route,
						  .drop = drop,
						  .capacity = 64,
						  .admission = round % 5 == 0 ? &weir_law_threshold : NULL,
						  .admission_params = &threshold},
			    &coming->stage));
	atomic_store(&routes[round % ROUTES], coming->stage);
}

/* First nothing leads there, then it is retired. */
static void go(struct coming *coming, int round)
{
	if (coming->stage == NULL)
		return;
	atomic_store(&routes[round % ROUTES], NULL);
	must(weir_stage_retire(&coming->stage, 60 * WEIR_NS_PER_S, NULL));
	must(weir_domain_retire(&coming->domain, 60 * WEIR_NS_PER_S));
}

static void open_world(void)
{
	world = world_real();
	reactor = domain_reactor(world, "reactor", 2);
	pool = domain_elastic(world, "pool", 1, 4);
	must(weir_stage_new(
		reactor,
		&(weir_stage_options){.name = "front", .handle = handle_front, .drop = drop, .capacity = 512},
		&front.stage));
	must(weir_stage_new(
		pool,
		&(weir_stage_options){.name = "back", .handle = handle_back, .drop = drop, .capacity = 512},
		&back.stage));
	must(weir_world_start(world));
}

static void stages_and_pools_come_and_go_under_fire(void **state)
{
	static struct producer producers[PRODUCERS];
	static struct coming comings[ROUTES];
	const int rounds = CHECK_SLOW ? 100 : 250;
	pthread_t looker, swapper;
	open_world();
	assert_int_equal(pthread_create(&looker, NULL, look, NULL), 0);
	assert_int_equal(pthread_create(&swapper, NULL, swap_laws, NULL), 0);
	for (int i = 0; i < PRODUCERS; i++)
		assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
	weir_trace_every(world, 7);
	for (int round = 0; round < rounds; round++) {
		go(&comings[round % ROUTES], round);
		come(&comings[round % ROUTES], round);
		uint64_t before = atomic_load(&through);
		if (round % 8 == 0)
			CHECK_EVENTUALLY(atomic_load(&through) > before);
	}
	for (int round = 0; round < ROUTES; round++)
		go(&comings[round], round);
	atomic_store(&ends, true);
	for (int i = 0; i < PRODUCERS; i++)
		pthread_join(producers[i].thread, NULL);
	pthread_join(looker, NULL);
	pthread_join(swapper, NULL);
	world_end(&world);
	assert_int_equal(twice, 0);
	assert_int_equal(refused, 0);
	assert_int_equal(entered, ended);
	assert_true(through > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(stages_and_pools_come_and_go_under_fire),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
