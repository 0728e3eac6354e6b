/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pipeline under overload, in virtual time: the entry works for each request, the bottleneck behind it sheds what it cannot take. With
 * heed_downstream the entry does not work for nothing.
 */
#include "sim/model.h"

#include <math.h>
#include <string.h>

#define REQUESTS 20000 /* more than can be inside */

struct request {
	weir_event event;
	weir_timer timer;
	struct pipeline *pipeline;
};

struct pipeline {
	weir_world *world;
	weir_stage *entry, *bottleneck;
	weir_arrivals arrivals[WEIR_CLASSES];
	struct request *next_free;
	double entry_ns, bottleneck_ns; /* mean service times */
	struct flow {
		uint64_t offered, let_in, wasted, done;
	} flow[WEIR_CLASSES];
	struct request requests[REQUESTS];
	unsigned next;
};

static struct pipeline pipeline;

static struct request *free_request(struct pipeline *at)
{
	while (at->requests[at->next % REQUESTS].event.lane != NULL)
		at->next++;
	return &at->requests[at->next++ % REQUESTS];
}

static void arrive(weir_arrivals *arrivals, void *arg)
{
	struct pipeline *at = arg;
	unsigned klass = (unsigned)(arrivals - at->arrivals);
	struct request *request = free_request(at);
	request->pipeline = at;
	weir_event_init(&request->event, klass);
	at->flow[klass].offered++;
	at->flow[klass].let_in += weir_offer(at->entry, &request->event) == WEIR_ADMITTED;
}

static void waste(weir_event *event)
{
	struct pipeline *at = ((struct request *)event)->pipeline;
	at->flow[event->klass].wasted++;
}

static void pass_on(weir_timer *timer, void *arg)
{
	struct request *request = arg;
	if (weir_offer(request->pipeline->bottleneck, &request->event) == WEIR_ADMITTED)
		return;
	waste(&request->event);
	weir_refused(&request->event);
}

static void finish(weir_timer *timer, void *arg)
{
	struct request *request = arg;
	request->pipeline->flow[request->event.klass].done++;
	weir_done(&request->event);
}

static void work(weir_event *event, double mean_ns, weir_timer_fn *then)
{
	struct request *request = (struct request *)event;
	weir_world *world = request->pipeline->world;
	weir_hold(event);
	weir_timer_init(&request->timer, then, request);
	double ns = weir_random_exponential(weir_sim_random(world), mean_ns);
	weir_sim_timer(world, &request->timer, weir_world_now(world) + (uint64_t)ns);
}

static void enter(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		work(events[i], ((struct pipeline *)arg)->entry_ns, pass_on);
}

static void serve(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		work(events[i], ((struct pipeline *)arg)->bottleneck_ns, finish);
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	if (stage == ((struct pipeline *)arg)->bottleneck)
		waste(event);
}

/* A bottleneck of `capacity_per_s` with 8 workers, an entry with ample workers. */
static struct pipeline *open_pipeline(bool heed, double capacity_per_s, double entry_ns,
				      const weir_admission_law *law, const void *params, uint64_t seed)
{
	struct pipeline *at = &pipeline;
	memset(at, 0, sizeof *at);
	at->entry_ns = entry_ns;
	at->bottleneck_ns = 8e9 / capacity_per_s;
	at->world = world_virtual(seed);
	weir_stage_options options = {.name = "entry",
				      .handle = enter,
				      .drop = drop,
				      .arg = at,
				      .capacity = 10000,
				      .heed_downstream = heed};
	must(weir_stage_new(domain_elastic(at->world, "front", 4096, 4096), &options, &at->entry));
	options = (weir_stage_options){.name = "bottleneck",
				       .handle = serve,
				       .drop = drop,
				       .arg = at,
				       .capacity = law != NULL ? 200 : 64,
				       .order = WEIR_BY_CLASS,
				       .admission = law,
				       .admission_params = params};
	must(weir_stage_new(domain_elastic(at->world, "back", 8, 8), &options, &at->bottleneck));
	must(weir_world_start(at->world));
	return at;
}

static void load(struct pipeline *at, unsigned klass, double per_s)
{
	weir_arrivals *arrivals = &at->arrivals[klass];
	if (arrivals->world == NULL)
		weir_arrivals_start(arrivals, at->world, WEIR_POISSON, per_s, arrive, at);
	else
		weir_arrivals_rate(arrivals, per_s);
}

/* The flow of all classes over this much time. */
static struct flow run(struct pipeline *at, double seconds)
{
	struct flow sum = {0};
	memset(at->flow, 0, sizeof at->flow);
	world_run(at->world, (uint64_t)(seconds * 1e9));
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		sum.offered += at->flow[k].offered;
		sum.let_in += at->flow[k].let_in;
		sum.wasted += at->flow[k].wasted;
		sum.done += at->flow[k].done;
	}
	return sum;
}

static void close_pipeline(struct pipeline *at)
{
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		if (at->arrivals[k].world != NULL)
			weir_arrivals_stop(&at->arrivals[k]);
	world_end(&at->world);
}

static double part(uint64_t of, uint64_t all)
{
	return all != 0 ? (double)of / (double)all : 0;
}

/* ---- one class ---- */

static bool wastes_nothing(double capacity, double times, double entry_ns, uint64_t seed)
{
	struct pipeline *at = open_pipeline(false, capacity, entry_ns, NULL, NULL, seed);
	load(at, 0, capacity * times);
	run(at, 5);
	struct flow before = run(at, 20);
	close_pipeline(at);

	at = open_pipeline(true, capacity, entry_ns, NULL, NULL, seed);
	load(at, 0, capacity * times);
	run(at, 5);
	struct flow after = run(at, 20);
	double wasted = part(after.wasted, after.let_in), done = part(after.done, before.done);
	print_message("capacity %g/s, load %gx, entry takes %g ms: wasted %.1f %% -> %.1f %%, done %.1f %%\n",
		      capacity, times, entry_ns / 1e6, 100 * part(before.wasted, before.let_in), 100 * wasted,
		      100 * done);
	/* The load falls: at once everything is let in again. */
	load(at, 0, capacity * 0.7);
	run(at, 1);
	struct flow calm = run(at, 5);
	/* And back. */
	load(at, 0, capacity * times);
	run(at, 5);
	struct flow again = run(at, 20);
	close_pipeline(at);
	print_message("    calm %.2f %%, again wasted %.1f %%\n", 100 * part(calm.let_in, calm.offered),
		      100 * part(again.wasted, again.let_in));
	/* Where less comes in a tenth of a second, chance is larger. */
	double most = capacity < 1000 ? 0.065 : 0.05;
	return wasted < most && done >= 0.97 && part(calm.let_in, calm.offered) > 0.999 &&
	       part(again.wasted, again.let_in) < most;
}

static void work_is_not_wasted_on_what_is_shed_later(void **state)
{
	static const double capacities[] = {500, 2000, 10000}, times[] = {1.4, 2, 10};
	static const double entries_ns[] = {1e5, 2e7, 2e8};
	uint64_t seed = 1;
	unsigned wrong = 0;
	for (unsigned c = 0; c < (CHECK_SLOW ? 1 : 3); c++)
		for (unsigned t = 0; t < 3; t++)
			for (unsigned e = 0; e < 3; e++) {
				if (capacities[c] * times[t] * entries_ns[e] / 1e9 >= 4000)
					continue;
				/* In short, each capacity with each load and each entry once, but for what has most events. */
				if (check_long() ||
				    ((c + t + e) % 3 == 0 && capacities[c] * times[t] < 50000))
					wrong +=
						!wastes_nothing(capacities[c], times[t], entries_ns[e], seed);
				seed++;
			}
	assert_int_equal(wrong, 0);
}

static void below_capacity_nothing_is_turned_away(void **state)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct pipeline *at = open_pipeline(true, 2000, 1e6, NULL, NULL, seed);
		load(at, 0, 1600);
		struct flow flow = run(at, 30);
		assert_true(part(flow.let_in, flow.offered) > 0.999);
		assert_true(part(flow.done, flow.offered) > 0.99);
		close_pipeline(at);
	}
}

/* Where the bottleneck gets faster while the load stays, the entry finds out. */
static void more_capacity_below_is_found(void **state)
{
	struct pipeline *at = open_pipeline(true, 1000, 1e6, NULL, NULL, 3);
	load(at, 0, 8000);
	run(at, 10);
	at->bottleneck_ns /= 4;
	run(at, 3);
	struct flow flow = run(at, 10);
	assert_true(flow.done > 0.96 * 4000 * 10);
	assert_true(part(flow.wasted, flow.let_in) < 0.05);
	at->bottleneck_ns *= 4;
	run(at, 3);
	flow = run(at, 10);
	assert_true(flow.done > 0.96 * 1000 * 10);
	assert_true(part(flow.wasted, flow.let_in) < 0.06);
	close_pipeline(at);
}

/* ---- classes ---- */

/* The bottleneck sheds class 5 when 150 wait, class 0 when it is nearly full. */
static void only_the_class_that_is_shed_below_is_lowered(void **state)
{
	weir_threshold_params params = {.waiting = {[0] = 190}};
	for (unsigned i = 1; i < WEIR_CLASSES; i++)
		params.waiting[i] = 150;
	struct flow flow, before = {0};
	struct pipeline *at;
	for (int heed = 0; heed < 2; heed++) {
		at = open_pipeline(heed, 2000, 5e6, &weir_law_threshold, &params, 4);
		load(at, 0, 1200);
		load(at, 5, 3000);
		run(at, 5);
		flow = run(at, 20);
		if (!heed) {
			before = flow;
			close_pipeline(at);
		}
	}
	const struct flow *high = &at->flow[0], *low = &at->flow[5];
	print_message("class 0: %.2f %% let in, class 5: %.1f %%; wasted %.1f %%, done %.1f %%\n",
		      100 * part(high->let_in, high->offered), 100 * part(low->let_in, low->offered),
		      100 * part(flow.wasted, flow.let_in), 100 * part(flow.done, before.done));
	assert_true(part(high->let_in, high->offered) > 0.999);
	assert_true(part(high->done, high->offered) > 0.99);
	assert_true(part(low->let_in, low->offered) < 0.32);
	assert_true(part(flow.wasted, flow.let_in) < 0.05);
	assert_true(part(flow.done, before.done) >= 0.97);
	close_pipeline(at);
}

/* A class that gets nothing at all below is let in just enough to find out when that changes. */
static void a_starved_class_comes_back(void **state)
{
	weir_threshold_params params = {.waiting = {[0] = 60}};
	for (unsigned i = 1; i < WEIR_CLASSES; i++)
		params.waiting[i] = 20;
	struct pipeline *at = open_pipeline(true, 2000, 5e6, &weir_law_threshold, &params, 5);
	load(at, 0, 3000);
	load(at, 5, 1000);
	run(at, 10);
	run(at, 10);
	assert_true(part(at->flow[5].let_in, at->flow[5].offered) < 0.05);
	load(at, 0, 100);
	run(at, 4);
	run(at, 10);
	assert_true(part(at->flow[5].done, at->flow[5].offered) > 0.97);
	close_pipeline(at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(work_is_not_wasted_on_what_is_shed_later),
		CHECK_TEST(below_capacity_nothing_is_turned_away),
		CHECK_TEST(more_capacity_below_is_found),
		CHECK_TEST(only_the_class_that_is_shed_below_is_lowered),
		CHECK_TEST(a_starved_class_comes_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
