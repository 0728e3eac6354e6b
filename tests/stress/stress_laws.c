/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulation says of a law, confirmed by real threads: a blocking stage of known capacity is offered twice of that, once
 * under the virtual clock and once under the true one. Same shape, wide tolerance: other programs may have the processor for a while, so
 * times are held only against each other, and against what happens without a law.
 */
#include "support/worlds.h"

#include <poll.h>
#include <stdlib.h>
#include <weir/sim.h>

#define WORKERS    8
#define SERVICE_NS (5 * WEIR_NS_PER_MS)
#define PER_S      3200 /* twice what the workers can do */
#define SECONDS    2
#define REQUESTS   (PER_S * SECONDS)
#define TARGET     "60ms"
#define TARGET_NS  (60 * WEIR_NS_PER_MS)

struct request {
	weir_event event;
	weir_timer timer;
};

struct crowd {
	weir_world *world;
	weir_stage *stage;
	struct request *requests;
	uint64_t offered;
};

struct outcome {
	double shed;          /* at the offer or at the dequeue, of the offered */
	double work;          /* completed, of what the workers can do in the time */
	uint64_t response_ns; /* p90 of the completed */
};

static void serve(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		weir_finish_after(events[i], &((struct request *)events[i])->timer, SERVICE_NS);
}

static void give_up(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
}

static void offer_next(struct crowd *crowd)
{
	if (crowd->offered == REQUESTS)
		return;
	struct request *request = &crowd->requests[crowd->offered++];
	weir_event_init(&request->event, 0);
	weir_offer(crowd->stage, &request->event);
}

static void arrive(weir_arrivals *arrivals, void *arg)
{
	offer_next(arg);
}

/* By the true clock: as many as are due by now, then a little rest. */
static void arrive_for_real(struct crowd *crowd)
{
	uint64_t began_ns = weir_world_now(crowd->world);
	while (crowd->offered < REQUESTS) {
		uint64_t due = (weir_world_now(crowd->world) - began_ns) / (WEIR_NS_PER_S / PER_S);
		while (crowd->offered < due && crowd->offered < REQUESTS)
			offer_next(crowd);
		poll(NULL, 0, 1);
	}
}

static void open_crowd(struct crowd *crowd, bool simulated, const char *law_name)
{
	const weir_admission_law *law = law_name != NULL ? weir_law_find(law_name) : NULL;
	void *params = law != NULL ? calloc(1, law->params_bytes) : NULL;
	if (law != NULL) {
		weir_law_defaults(law, params);
		must(weir_law_set(law, params, "target", TARGET));
	}
	crowd->world = simulated ? world_virtual(1) : world_real();
	crowd->requests = calloc(REQUESTS, sizeof(struct request));
	weir_stage_options options = {.name = "blocking",
				      .handle = serve,
				      .drop = give_up,
				      .capacity = 2 * REQUESTS,
				      .admission = law,
				      .admission_params = params};
	must(weir_stage_new(domain_elastic(crowd->world, "pool", WORKERS, WORKERS), &options, &crowd->stage));
	must(weir_world_start(crowd->world));
	free(params);
}

static struct outcome run(bool simulated, const char *law)
{
	struct crowd crowd = {0};
	weir_arrivals arrivals;
	open_crowd(&crowd, simulated, law);
	uint64_t began_ns = weir_world_now(crowd.world);
	if (simulated) {
		weir_arrivals_start(&arrivals, crowd.world, WEIR_CONSTANT, PER_S, arrive, &crowd);
		world_run(crowd.world, SECONDS * WEIR_NS_PER_S);
		weir_arrivals_stop(&arrivals);
	} else {
		arrive_for_real(&crowd);
	}
	double seconds = (double)(weir_world_now(crowd.world) - began_ns) / (double)WEIR_NS_PER_S;
	must(weir_world_stop(crowd.world, 60 * WEIR_NS_PER_S, NULL));
	weir_stage_stats stats = stats_of(crowd.stage);
	struct outcome outcome = {.shed = (double)(stats.shed + stats.dropped) / (double)stats.offered,
				  .work = (double)stats.completed / (seconds * PER_S / 2),
				  .response_ns = weir_stage_quantile(crowd.stage, 0, WEIR_RESPONSE, .9)};
	assert_int_equal(stats.offered, crowd.offered);
	weir_world_free(&crowd.world);
	free(crowd.requests);
	return outcome;
}

static void adaptive_holds_real_threads_as_it_holds_simulated_ones(void **state)
{
	struct outcome simulated = run(true, "adaptive"), real = run(false, "adaptive");
	struct outcome helpless = run(false, NULL);
	print_message("shed %.2f simulated, %.2f real; work %.2f, %.2f; p90 %.1f ms, %.1f ms; without a law "
		      "%.1f ms\n",
		      simulated.shed, real.shed, simulated.work, real.work,
		      (double)simulated.response_ns / 1e6, (double)real.response_ns / 1e6,
		      (double)helpless.response_ns / 1e6);
	assert_true(simulated.shed > .45 && simulated.shed < .55);
	assert_true(simulated.work > .95);
	assert_true(simulated.response_ns <= TARGET_NS * 11 / 10);
	assert_true(real.shed > simulated.shed - .15);
	assert_true(real.work > simulated.work / 2);
	assert_true(real.response_ns < helpless.response_ns / 3);
	assert_true(real.response_ns < 3 * TARGET_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(adaptive_holds_real_threads_as_it_holds_simulated_ones),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
