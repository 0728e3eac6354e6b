/* SPDX-License-Identifier: Apache-2.0 */
#include "laws/proxy_cell.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/hist.h"
#include "common.h"
#include "laws/dry.h"
#include "laws/proxy_costs.h"
#include "laws/tally.h"

#define QUEUE_BOUND 60000 /* what may wait at the proxy if the law sets no bound */

struct request {
	weir_event event;
	weir_backend_job job;
	weir_timer timer, patience;
	struct run *run;
	struct request *next;  /* in the row of free ones, or of hung ones */
	weir_event arrival;    /* where there are kinds: on its thread, before it is offered there */
	struct request *older; /* in the row of all that were ever made */
	double work;
	unsigned kind;
	weir_cost_kind learns; /* in the table of costs */
	unsigned tries;        /* left */
	bool given_up;
	bool inside; /* admitted, and neither answered nor dropped */
};

struct run {
	const struct proxy_cell *cell;
	weir_world *world;
	weir_stage *stage, *front;
	weir_backend *backend;
	weir_random random;
	weir_arrivals arrivals[2];
	weir_timer phase_timer;
	weir_timer silence_timer, told_timer;
	uint64_t answers, told_answers; /* of the backend; when it last told */
	double told_worked;
	unsigned phase;
	uint16_t lane; /* of the next request */
	double load;   /* of the capacity, while it is not silent */
	bool silent;
	struct request *free, *hung, *newest;
	uint64_t from_ns, until_ns, target_ns; /* measured */
	double work, dropped, shed, offered, timely, top, top_offered, spared;
	uint64_t completed;
	bool closing;
	weir_report first_shed;
	uint64_t first_shed_ns; /* 0: never */
	struct reasons reasons;
	double done_ns;    /* of the completed, weighted by class */
	weir_costs *costs; /* NULL: the cell has none that learns */
	weir_hist response;
	tally lot[PROXY_KINDS]; /* in its own target */
};

static bool measured(const struct run *run)
{
	uint64_t now_ns = weir_world_now(run->world);
	return now_ns >= run->from_ns && now_ns < run->until_ns;
}

static struct request *take_request(struct run *run)
{
	struct request *request = run->free;
	if (request != NULL) {
		run->free = request->next;
		return request;
	}
	request = calloc(1, sizeof(*request));
	BENCH_REQUIRE(request != NULL);
	request->run = run;
	request->older = run->newest;
	run->newest = request;
	weir_timer_init(&request->patience, NULL, NULL);
	return request;
}

static void give_back(struct request *request)
{
	weir_timer_stop(&request->patience);
	request->inside = false;
	request->next = request->run->free;
	request->run->free = request;
}

static bool has_classes(const struct proxy_cell *cell)
{
	return cell->classes == 2 || cell->top_share > 0;
}

static void tell_watch(const struct request *request, enum proxy_step step, uint64_t took_ns)
{
	struct run *run = request->run;
	if (run->cell->watch == NULL || run->closing)
		return;
	struct proxy_seen seen = {.step = step,
				  .measured = measured(run),
				  .kind = request->kind,
				  .now_ns = weir_world_now(run->world),
				  .work_ns = request->work,
				  .took_ns = took_ns};
	run->cell->watch(run->cell->watch_arg, &seen);
}

static void count_kind(struct run *run, const struct request *request, uint64_t took_ns)
{
	const struct proxy_cell *cell = run->cell;
	unsigned lot = cell->kind[request->kind].lot;
	tally_add(&run->lot[lot], (double)took_ns / (cell->lot[lot].target_s * 1e9));
	run->done_ns += request->work * (request->event.klass == 0 ? cell->top_weight : 1);
}

static void ended(struct request *request)
{
	struct run *run = request->run;
	uint64_t took_ns = weir_world_now(run->world) - request->event.offered_ns;
	tell_watch(request, PROXY_ANSWERED, took_ns);
	if (!measured(run))
		return;
	run->completed++;
	if (run->cell->kinds != 0)
		count_kind(run, request, took_ns);
	weir_hist_add(&run->response, took_ns);
	run->timely += took_ns <= 2 * run->target_ns && !request->given_up;
	run->top += request->event.klass == 0 && took_ns <= 2 * run->target_ns;
}

static void answered(weir_backend_job *job, bool refused, void *arg)
{
	struct request *request = arg;
	request->run->answers++;
	if (refused) {
		weir_refused(&request->event);
	} else {
		ended(request);
		if (request->run->costs != NULL)
			proxy_costs_learn(request->run->costs, request->learns, request->run->stage,
					  &request->event, weir_world_now(request->run->world));
		weir_done(&request->event);
	}
	give_back(request);
}

static void fail_later(weir_timer *timer, void *arg)
{
	struct request *request = arg;
	weir_fail(&request->event);
	give_back(request);
}

/* One that does not do as it should; false: it does. */
static bool misbehave(struct run *run, struct request *request)
{
	const struct proxy_cell *cell = run->cell;
	/* Where there are kinds, what is drawn does not depend on what the law does. */
	double u = cell->kinds == 0 ? weir_random_unit(&run->random) : 1;
	if (run->closing || cell->kinds != 0)
		return false;
	if (u < cell->hanging) {
		request->next = run->hung;
		run->hung = request;
		return true;
	}
	u -= cell->hanging;
	if (u >= cell->failing_fast + cell->failing_slow)
		return false;
	uint64_t after_ns = u < cell->failing_fast ? WEIR_NS_PER_MS / 10 : 2 * run->target_ns;
	weir_timer_init(&request->timer, fail_later, request);
	weir_sim_timer(run->world, &request->timer, weir_world_now(run->world) + after_ns);
	return true;
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	struct run *run = arg;
	for (size_t i = 0; i < count; i++) {
		struct request *request = (struct request *)events[i];
		weir_hold(events[i]);
		if (!misbehave(run, request))
			weir_backend_submit(run->backend, &request->job, request->work, answered, request);
	}
}

static void try_again(struct request *request, uint64_t after_ns);

static void dropped(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	struct run *run = arg;
	run->dropped += measured(run);
	reasons_ask(&run->reasons, why);
	tell_watch((struct request *)event, PROXY_DROPPED, 0);
	((struct request *)event)->inside = false;
	try_again((struct request *)event, run->target_ns);
}

/* ---- clients ---- */

static void offer(struct request *request);

static void offer_later(weir_timer *timer, void *arg)
{
	struct request *request = arg;
	if (request->run->closing)
		give_back(request);
	else
		offer(request);
}

/* One that is not in the stage any more: its client comes back with it, or not. */
static void try_again(struct request *request, uint64_t after_ns)
{
	if (request->tries == 0 || request->given_up || request->run->closing) {
		give_back(request);
		return;
	}
	request->tries--;
	weir_timer_stop(&request->patience);
	weir_timer_init(&request->timer, offer_later, request);
	weir_sim_timer(request->run->world, &request->timer, weir_world_now(request->run->world) + after_ns);
}

/* The client has gone; nobody tells the proxy. It sends the same again. */
static void give_up(weir_timer *timer, void *arg)
{
	struct request *request = arg, *again;
	request->given_up = true;
	if (request->run->closing)
		return;
	again = take_request(request->run);
	again->work = request->work;
	again->tries = request->tries - 1;
	again->event.klass = request->event.klass;
	offer(again);
}

/* In microseconds, as a table of costs has it. */
static uint32_t cost_of(const struct proxy_cell *cell, struct request *request)
{
	const struct proxy_kind *kind = &cell->kind[request->kind];
	if (cell->learns && kind->visible)
		return proxy_costs_find(request->run->costs, request->kind, &request->learns);
	double cost_ns = cell->exact ? request->work : kind->work.mean + (double)cell->backend.round_trip_ns;
	return kind->visible || cell->exact ? (uint32_t)fmax(fmin(cost_ns / 1e3, UINT32_MAX), 1) : 0;
}

static void note_shed(struct run *run, unsigned klass)
{
	if (run->first_shed_ns != 0)
		return;
	run->first_shed_ns = weir_world_now(run->world);
	weir_stage_report(run->stage, klass, &run->first_shed);
}

static void offer(struct request *request)
{
	struct run *run = request->run;
	bool counts = measured(run);
	unsigned klass = request->event.klass;
	weir_event_init(&request->event, klass);
	if (run->cell->kinds != 0) {
		request->event.home = request->arrival.home;
		request->event.cost = cost_of(run->cell, request);
		if (run->costs != NULL && !weir_costs_is_own(run->costs, request->learns))
			request->event.flags |= WEIR_EVENT_GUESSED;
	}
	request->given_up = false;
	request->inside = true;
	run->offered += counts;
	run->top_offered += counts && klass == 0;
	weir_timer_init(&request->patience, give_up, request);
	tell_watch(request, PROXY_OFFERED, 0);
	weir_verdict verdict = weir_offer(run->stage, &request->event);
	tell_watch(request, verdict == WEIR_ADMITTED ? PROXY_ADMITTED : PROXY_SHED, 0);
	if (verdict != WEIR_ADMITTED) {
		run->shed += counts;
		note_shed(run, klass);
		reasons_ask(&run->reasons, verdict);
		request->inside = false;
		try_again(request, run->target_ns);
	} else if (request->tries > 0) {
		weir_sim_timer(run->world, &request->patience,
			       weir_world_now(run->world) + 2 * run->target_ns);
	}
}

static unsigned draw_kind(struct run *run)
{
	double u = weir_random_unit(&run->random);
	unsigned kind = 0;
	while (kind + 1 < run->cell->kinds && (u -= run->cell->kind[kind].share) >= 0)
		kind++;
	return kind;
}

/*
 * As in production: what arrives is read by the thread that has its connection, and offered by that thread, one after the other. Each starts
 * at once where it may, and of a burst only those wait that have to.
 */
static void front(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		char *at = (char *)events[i] - offsetof(struct request, arrival);
		weir_done(events[i]);
		offer((struct request *)(void *)at);
	}
}

/* Nothing is dropped before it is offered. */
static void front_dropped(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	BENCH_REQUIRE(why == WEIR_ADMITTED);
}

static void arrive_of_kind(struct run *run)
{
	const struct proxy_cell *cell = run->cell;
	struct request *request = take_request(run);
	request->kind = draw_kind(run);
	request->event.klass = cell->watch != NULL ? cell->kind[request->kind].klass
						   : cell->top_share > 0 && weir_random_unit(&run->random) >=
										    cell->top_share;
	request->work = weir_dist_draw(&cell->kind[request->kind].work, &run->random);
	request->tries = 0;
	weir_event_init(&request->arrival, 0);
	request->arrival.home = run->lane++ % (uint16_t)cell->lanes;
	BENCH_REQUIRE(weir_offer(run->front, &request->arrival) == WEIR_ADMITTED);
}

static void arrive(weir_arrivals *arrivals, void *arg)
{
	struct run *run = arg;
	if (run->cell->kinds != 0) {
		for (unsigned i = 0; i == 0 || i < run->cell->pattern.burst; i++)
			arrive_of_kind(run);
		return;
	}
	struct request *request = take_request(run);
	request->event.klass = run->cell->classes == 2 && arrivals == &run->arrivals[1];
	request->work = weir_dist_draw(&run->cell->work, &run->random);
	request->tries = run->cell->retries;
	offer(request);
}

static void set_load(struct run *run, double load)
{
	unsigned burst = run->cell->pattern.burst;
	run->load = load;
	if (run->cell->kinds != 0) {
		weir_arrivals_rate(&run->arrivals[0],
				   run->silent ? 0
					       : load * run->cell->capacity_per_s / (burst > 1 ? burst : 1));
		return;
	}
	double top = run->cell->classes == 2 ? fmin(load, .1) : load;
	weir_arrivals_rate(&run->arrivals[0], top * run->cell->capacity_per_s);
	weir_arrivals_rate(&run->arrivals[1], (load - top) * run->cell->capacity_per_s);
}

static uint64_t at_ns(double s)
{
	return WEIR_NS_PER_S + (uint64_t)(s * 1e9);
}

static void change_silence(weir_timer *timer, void *arg)
{
	struct run *run = arg;
	run->silent = !run->silent;
	set_load(run, run->load);
	double for_s = run->silent ? run->cell->pattern.silent_s : run->cell->pattern.active_s;
	weir_sim_timer(run->world, timer, weir_world_now(run->world) + (uint64_t)(for_s * 1e9));
}

/* What a nucleus beside the backend would see. Where all jobs share the workers, none waits. */
static void tell_law(weir_timer *timer, void *arg)
{
	struct run *run = arg;
	const struct proxy_cell *cell = run->cell;
	double inside = weir_backend_inside(run->backend), worked = weir_backend_worked(run->backend),
	       workers = cell->backend.workers, every_ns = cell->told_every_s * 1e9,
	       answers = (double)(run->answers - run->told_answers);
	for (unsigned i = 0; i < run->phase; i++)
		if (cell->workers_left[i] > 0)
			workers = lround(cell->workers_left[i] * cell->backend.workers);
	bool queues = cell->backend.discipline == WEIR_BACKEND_FIFO;
	double waiting = queues ? fmax(inside - workers, 0) : 0;
	double speed = run->phase > 0 ? cell->phase[run->phase - 1].speed : 1;
	weir_told told = {
		.now_ns = weir_world_now(run->world),
		.servers = 1,
		.reports = 1,
		.processors = workers,
		.queue_s = waiting * cell->told_every_s / fmax(answers, 1),
		.in_service = inside - waiting,
		.busy = speed > 0 ? fmin(fmax(worked - run->told_worked, 0) / (every_ns * workers * speed), 1)
				  : 1};
	weir_stage_tell(run->stage, &told);
	run->told_answers = run->answers;
	run->told_worked = worked;
	weir_sim_timer(run->world, timer, told.now_ns + (uint64_t)every_ns);
}

static void next_phase(weir_timer *timer, void *arg)
{
	struct run *run = arg;
	double left = run->cell->workers_left[run->phase];
	const struct proxy_phase *phase = &run->cell->phase[run->phase++];
	weir_backend_speed(run->backend, phase->speed);
	if (left > 0)
		weir_backend_workers(run->backend, (uint32_t)lround(left * run->cell->backend.workers));
	set_load(run, phase->load);
	if (run->phase < PROXY_PHASES && phase[1].at_s > 0)
		weir_sim_timer(run->world, timer, at_ns(phase[1].at_s));
}

/* The work that the backend could have done in the measured time, at its speeds, in requests. */
static double possible(const struct proxy_cell *cell)
{
	double from = cell->warm_s, until = cell->warm_s + cell->measure_s, sum = 0, at = 0, speed = 1,
	       load = cell->load;
	for (unsigned i = 0; i <= PROXY_PHASES; i++) {
		bool last = i == PROXY_PHASES || cell->phase[i].at_s == 0;
		double end = last ? until : cell->phase[i].at_s;
		double stretch = fmin(end, until) - fmax(at, from);
		if (stretch > 0)
			sum += stretch * fmin(speed, load);
		if (last)
			break;
		at = end;
		speed = cell->phase[i].speed;
		load = cell->phase[i].load;
	}
	return sum * cell->capacity_per_s;
}

static void open_stage(struct run *run, const weir_admission_law *law, const void *params)
{
	weir_domain *domain;
	weir_domain_options domain_options = {.name = "proxy",
					      .kind = WEIR_REACTOR,
					      .threads = run->cell->lanes != 0 ? run->cell->lanes : 1};
	weir_stage_options options = {.name = "forward",
				      .handle = handle,
				      .drop = dropped,
				      .arg = run,
				      .capacity = QUEUE_BOUND,
				      .concurrency = run->cell->concurrency,
				      .order = has_classes(run->cell) ? WEIR_BY_CLASS : WEIR_FIFO,
				      .admission = law,
				      .admission_params = params};
	weir_stage_options front_options = {
		.name = "front", .handle = front, .drop = front_dropped, .arg = run, .capacity = QUEUE_BOUND};
	BENCH_REQUIRE(weir_world_new(&(weir_world_options){.simulated = true, .seed = run->cell->seed},
				     &run->world) == 0);
	BENCH_REQUIRE(weir_domain_new(run->world, &domain_options, &domain) == 0);
	if (weir_stage_new(domain, &options, &run->stage) != 0) {
		fprintf(stderr, "%s: %s\n", run->cell->name, weir_error());
		exit(1);
	}
	if (run->cell->kinds != 0)
		BENCH_REQUIRE(weir_stage_new(domain, &front_options, &run->front) == 0);
	if (run->cell->dry_run)
		weir_stage_mode(run->stage, WEIR_DRY_RUN);
	BENCH_REQUIRE(weir_world_start(run->world) == 0);
	BENCH_REQUIRE(weir_backend_new(run->world, &run->cell->backend, &run->backend) == 0);
}

static void start_load(struct run *run)
{
	for (int i = 0; i < 2; i++)
		weir_arrivals_start(&run->arrivals[i], run->world, WEIR_POISSON, 0, arrive, run);
	set_load(run, run->cell->load);
	weir_timer_init(&run->silence_timer, change_silence, run);
	if (run->cell->pattern.silent_s > 0)
		weir_sim_timer(run->world, &run->silence_timer, at_ns(run->cell->pattern.active_s));
	weir_timer_init(&run->told_timer, tell_law, run);
	if (run->cell->told_every_s > 0)
		weir_sim_timer(run->world, &run->told_timer, at_ns(run->cell->told_every_s));
	weir_timer_init(&run->phase_timer, next_phase, run);
	if (run->cell->phase[0].at_s > 0)
		weir_sim_timer(run->world, &run->phase_timer, at_ns(run->cell->phase[0].at_s));
}

/* Lets what is inside end, so that nothing is freed under a backend's feet. */
static void close_run(struct run *run)
{
	for (int i = 0; i < 2; i++)
		weir_arrivals_stop(&run->arrivals[i]);
	weir_timer_stop(&run->phase_timer);
	weir_timer_stop(&run->silence_timer);
	weir_timer_stop(&run->told_timer);
	run->closing = true;
	weir_backend_speed(run->backend, 1e9);
	while (run->hung != NULL) {
		struct request *request = run->hung;
		run->hung = request->next;
		weir_fail(&request->event);
		give_back(request);
	}
	BENCH_REQUIRE(weir_world_stop(run->world, 3600 * WEIR_NS_PER_S, NULL) == 0);
	weir_backend_free(&run->backend);
	weir_world_free(&run->world);
	while (run->free != NULL) {
		struct request *request = run->free;
		run->free = request->next;
		free(request);
	}
}

/*
 * What was offered in the measured time and is still inside, although its target has passed, is late; what it will take is not known, but
 * at least this. Otherwise a backend that fills with long requests would hide them.
 */
static void count_stuck(struct run *run)
{
	const struct proxy_cell *cell = run->cell;
	for (struct request *request = run->newest; request != NULL; request = request->older) {
		if (!request->inside || request->event.offered_ns < run->from_ns)
			continue;
		unsigned lot = cell->kind[request->kind].lot;
		double age_s = (double)(run->until_ns - request->event.offered_ns) / 1e9;
		if (age_s <= cell->lot[lot].target_s)
			continue;
		tally_add(&run->lot[lot], age_s / cell->lot[lot].target_s);
		tell_watch(request, PROXY_STUCK, run->until_ns - request->event.offered_ns);
	}
}

static void tell_kinds(struct run *run, struct proxy_result *r)
{
	count_stuck(run);
	r->done_s = (run->cell->top_share > 0 ? run->done_ns : run->work) / 1e9;
	for (unsigned i = 0; i < run->cell->lots; i++)
		r->lot[i] = (struct proxy_lot_result){run->lot[i].count, tally_quantile(&run->lot[i], .9)};
}

static void tell(struct run *run, struct proxy_result *r)
{
	double target = (double)run->target_ns, offered = fmax(run->offered, 1);
	weir_report report = {0};
	weir_stage_report(run->stage, 0, &report);
	*r = (struct proxy_result){
		.work = run->work / (possible(run->cell) * run->cell->work.mean),
		.timely = run->timely / fmax((double)run->completed, 1),
		.p50 = (double)weir_hist_quantile(&run->response, .5) / target,
		.p90 = (double)weir_hist_quantile(&run->response, .9) / target,
		.p99 = (double)weir_hist_quantile(&run->response, .99) / target,
		.shed = run->shed / offered,
		.dropped = run->dropped / offered,
		.would = run->spared / offered,
		.top = run->top / fmax(run->top_offered, 1),
		.limit = report.limit,
		.offered = (uint64_t)run->offered,
		.completed = run->completed,
	};
	r->first_shed = run->first_shed;
	r->reasons = run->reasons;
	r->first_shed_s = run->first_shed_ns != 0 ? (double)(run->first_shed_ns - at_ns(0)) / 1e9 : -1;
	/* Of a light load all should be done; how much work it happened to be is chance. */
	if (proxy_cell_light(run->cell))
		r->work = (double)run->completed / offered;
	if (run->cell->kinds != 0)
		tell_kinds(run, r);
}

void proxy_cell_run(const struct proxy_cell *cell, const weir_admission_law *law, proxy_params *fill,
		    struct proxy_result *ret_result)
{
	struct run *run = calloc(1, sizeof(*run));
	void *params = law != NULL ? calloc(1, law->params_bytes + 1) : NULL;
	BENCH_REQUIRE(run != NULL);
	run->cell = cell;
	run->from_ns = at_ns(cell->warm_s);
	run->until_ns = at_ns(cell->warm_s + cell->measure_s);
	run->target_ns = (uint64_t)(cell->target_s * 1e9);
	weir_random_init(&run->random, cell->seed + 1);
	run->costs = cell->learns ? proxy_costs_new() : NULL;
	if (law != NULL) {
		weir_law_defaults(law, params);
		fill(params, cell);
	}
	open_stage(run, law, params);
	start_load(run);
	weir_sim_run(run->world, run->from_ns);
	run->work = -weir_backend_worked(run->backend);
	run->spared = -dry_spared(run->stage);
	weir_sim_run(run->world, run->until_ns);
	run->work += weir_backend_worked(run->backend);
	run->spared += dry_spared(run->stage);
	tell(run, ret_result);
	close_run(run);
	weir_costs_free(run->costs);
	free(params);
	free(run);
}
