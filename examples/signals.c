/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stage can read and switch, shown in a virtual minute: a front door that heeds what is shed behind it, a dry run, a ceiling, a monitor
 * whose memory runs short.
 *
 *	signals
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir/weir.h>

/* Requests go through two stages: "door" (1 ms each, many at a time) and "till" (4 workers, 8 ms: 500 a second). */
struct request {
	weir_event event;
	weir_timer timer;
};

static weir_world *world;
static weir_stage *door, *till;
static double memory_used = 0.5;

static void pass_on(weir_timer *timer, void *arg)
{
	struct request *request = arg;
	(void)timer;
	if (weir_offer(till, &request->event) == WEIR_ADMITTED)
		return;
	weir_refused(&request->event); /* this work was for nothing, and the door is told so */
	free(request);
}

static void leave(weir_timer *timer, void *arg)
{
	struct request *request = arg;
	(void)timer;
	weir_done(&request->event);
	free(request);
}

static void work(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	(void)arg;
	for (size_t i = 0; i < count; i++) {
		struct request *request = (void *)events[i];
		weir_hold(events[i]);
		weir_timer_init(&request->timer, stage == door ? pass_on : leave, request);
		weir_sim_timer(world, &request->timer,
			       weir_world_now(world) + (stage == door ? 1 : 8) * WEIR_NS_PER_MS);
	}
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	(void)stage, (void)why, (void)arg;
	free(event);
}

static void arrive(weir_arrivals *arrivals, void *arg)
{
	struct request *request = malloc(sizeof(*request));
	(void)arg;
	if (request == NULL)
		err(1, "request");
	weir_event_init(&request->event, arrivals->count % 4 == 0 ? 0 : 5); /* one in four is important */
	if (weir_offer(door, &request->event) != WEIR_ADMITTED)
		free(request);
}

static void read_memory(weir_readings *ret_readings, void *arg)
{
	(void)arg;
	ret_readings->value[WEIR_MEMORY] = memory_used;
}

static weir_stage *make_stage(const char *name, uint32_t workers, bool heed)
{
	weir_domain *domain;
	weir_stage *stage;
	weir_threshold_params threshold = {.waiting = {90, 90, 90, 90, 60, 60, 60, 60}};
	weir_domain_options domain_options = {
		.name = name, .kind = WEIR_ELASTIC, .min_threads = workers, .max_threads = workers};
	weir_stage_options options = {.name = name,
				      .handle = work,
				      .drop = drop,
				      .capacity = 100,
				      .order = WEIR_BY_CLASS,
				      .heed_downstream = heed,
				      .admission = &weir_law_threshold,
				      .admission_params = &threshold};
	if (weir_domain_new(world, &domain_options, &domain) != 0 ||
	    weir_stage_new(domain, &options, &stage) != 0)
		errx(1, "%s", weir_error());
	return stage;
}

static void show(const char *what)
{
	static weir_stage_stats last_door[WEIR_CLASSES], last_till;
	static const double p90 = 0.9;
	weir_stage_stats now;
	uint64_t p90_ns;
	printf("%-34s", what);
	for (unsigned klass = 0; klass <= 5; klass += 5) {
		weir_stage_read(door, klass, &now);
		uint64_t offered = now.offered - last_door[klass].offered;
		printf("  class %u let in %3.0f %%", klass,
		       100.0 * (double)(now.admitted - last_door[klass].admitted) / (double)offered);
		last_door[klass] = now;
	}
	weir_stage_read(till, WEIR_ALL_CLASSES, &now);
	weir_stage_recent(till, WEIR_ALL_CLASSES, WEIR_RESPONSE, &p90, &p90_ns, 1);
	printf("  done %5.0f/s  p90 %4.0f ms  for nothing %4.0f/s  spared %4.0f/s\n",
	       (double)(now.completed - last_till.completed) / 10, (double)p90_ns / 1e6,
	       (double)(now.shed - last_till.shed) / 10,
	       (double)(now.spared[WEIR_SHED_THRESHOLD] - last_till.spared[WEIR_SHED_THRESHOLD]) / 10);
	last_till = now;
}

static void run(const char *what)
{
	weir_sim_run(world, weir_world_now(world) + 10 * WEIR_NS_PER_S);
	show(what);
}

int main(void)
{
	weir_arrivals arrivals;
	weir_monitor *monitor;
	weir_monitor_options watch = {.read = read_memory};
	if (weir_world_new(&(weir_world_options){.simulated = true}, &world) != 0)
		errx(1, "%s", weir_error());
	door = make_stage("door", 1000, true);
	till = make_stage("till", 4, false);
	if (weir_monitor_new(world, &watch, &monitor) != 0 || weir_monitor_subscribe(monitor, door) != 0 ||
	    weir_world_start(world) != 0)
		errx(1, "%s", weir_error());
	weir_arrivals_start(&arrivals, world, WEIR_POISSON, 400, arrive, NULL);
	weir_stage_recent(till, WEIR_ALL_CLASSES, WEIR_RESPONSE, NULL, NULL, 0); /* begins to remember */
	run("400/s of 500");
	weir_arrivals_rate(&arrivals, 1500);
	run("1500/s: the door heeds the till");
	weir_stage_mode(till, WEIR_DRY_RUN);
	run("the till's law in a dry run");
	weir_stage_mode(till, WEIR_ENFORCE);
	weir_arrivals_rate(&arrivals, 400);
	run("400/s again");
	memory_used = 0.94;
	run("memory 94 % used");
	memory_used = 0.5;
	weir_sim_run(world, weir_world_now(world) + 5 * WEIR_NS_PER_S);
	show("    and while it lets go");
	run("memory is free again");
	weir_arrivals_stop(&arrivals);
	weir_monitor_free(&monitor);
	weir_world_stop(world, 10 * WEIR_NS_PER_S, NULL);
	weir_world_free(&world);
	return 0;
}
