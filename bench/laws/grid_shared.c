/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grid "shared bottleneck": 2 to 16 stages of different cost on one pool of 2 to 64 threads, or on one database behind it, in virtual worlds.
 *
 *	grid_shared [--half tune|held] [--cells N] [--from N] [--cell AT] [--kind NAME] [--verbose] [--oracle off]
 *
 * The rules, written before any number was seen:
 *
 * Cells. Each is drawn by a generator seeded with its number; a coin of that generator puts it into the half that constants may be chosen on
 * (tune) or the one that is reported (held).
 *	work       blocking: the thread sleeps; cpu: it computes, the cores are shared by those who do; mixed: half of each; locked: half of the
 *	           work holds a lock that one at a time can have
 *	pool       2 to 64 threads at most, at least 2; the default pool law sizes it
 *	stages     2, 3, 4, 8 or 16; means from 1 ms on, the dearest 3, 10 or 30 times the cheapest; their parts of the work are random
 *	service    deterministic, exponential, lognormal (sigma 1), bimodal (a tenth takes ten times as long)
 *	targets    p90 within 6, 12 or 25 times the p90 of the stage's own service without load; end to end
 *	before     in one cell of four a request has spent 0.1 to 0.3 of its target elsewhere when it comes
 *	load       0.8, 1.2, 1.5, 2, 4 and 10 times the capacity, Poisson, from cold
 *
 * Controls, all on the same arrivals and the same work:
 *	pool       `adaptive` for each stage, as by default: control on the pool
 *	stage      `adaptive` with per_stage = on
 *	single     one stage, one queue and one `adaptive` before everything, with the shortest of the targets
 *	none       no law
 *	oracle     knows the work of every request and how many threads are best, takes what is due first, and lets in while what waits is no more than a
 *	           bound: the best of six bounds, by goodput
 *
 * Measured after a second or three of the longest target, over five of the longest target and 20000 arrivals, whichever is longer.
 *	goodput    work of the answers that came within 1.1 of their target
 * A cell is passed by the control on the pool if
 *	p90        of every stage that has 30 answers or more is at most 1.1 of its target
 *	goodput    is at least 0.95 of the oracle's
 *	better     is at least 0.99 of the better one of stage and single
 *	waited     of the rejections at most 1 % have waited (or fewer than 10 of them)
 *	no harm    at 0.8x at most 1 % are rejected
 * Cells in which the oracle itself misses p90 with every bound are listed as "cannot" and not counted.
 */
#include <math.h>
#include <string.h>

#include <weir/sim.h>

#include "base/hist.h"
#include "common.h"
#include "laws/reasons.h"
#include "sim/backend.h"
#include "sim/dist.h"

enum { STAGES_MOST = 16, ARRIVALS = 20000 };
enum kind { BLOCKING, CPU, MIXED, LOCKED, KINDS };
enum control { POOL, STAGE, SINGLE, NONE, ORACLE, CONTROLS };
static const char *const kind_name[KINDS] = {"blocking", "cpu", "mixed", "locked"};
static const char *const control_name[CONTROLS] = {"pool", "stage", "single", "none", "oracle"};

#define MOST_P90    1.1
#define LEAST_GOOD  .95
#define MOST_WAITED .01
#define BLOCKED     .5 /* of mixed work */
#define HELD        .5 /* of locked work */

struct cell {
	unsigned number;
	bool held;
	enum kind kind;
	unsigned stages, threads, cores;
	double load, before;
	weir_dist service[STAGES_MOST];
	double share[STAGES_MOST]; /* of the work */
	uint64_t target_ns[STAGES_MOST], longest_ns, shortest_ns;
	double capacity; /* work a second, in seconds */
};

struct result {
	double good; /* part of the capacity */
	double p90;  /* over its target, the worst stage */
	double waited, shed;
	uint64_t rejected;
	struct reasons reasons;
};

/* ---- cells ---- */

static double pick(weir_random *random, const double *of, unsigned count)
{
	return of[weir_random_below(random, count)];
}
#define PICK(...) \
	pick(&random, (const double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))

static double capacity_of(const struct cell *cell)
{
	double threads = cell->threads;
	switch (cell->kind) {
	case CPU:
		return fmin(cell->cores, threads);
	case MIXED:
		return fmin(cell->cores / (1 - BLOCKED), threads);
	case LOCKED:
		return fmin(1 / HELD, threads);
	default:
		return threads;
	}
}

static void draw_stages(struct cell *cell, weir_random *random_, double cheapest, double ratio)
{
	weir_random random = *random_;
	weir_dist_kind kind = (weir_dist_kind)PICK(WEIR_DIST_DETERMINISTIC, WEIR_DIST_EXPONENTIAL,
						   WEIR_DIST_LOGNORMAL, WEIR_DIST_BIMODAL);
	double sum = 0;
	cell->shortest_ns = UINT64_MAX;
	for (unsigned i = 0; i < cell->stages; i++) {
		double mean = cheapest * pow(ratio, (double)i / (cell->stages - 1));
		cell->service[i] = (weir_dist){.kind = kind, .mean = mean, .sigma = 1};
		double p90 = weir_dist_quantile(&cell->service[i], kind == WEIR_DIST_BIMODAL ? .91 : .9);
		cell->target_ns[i] = (uint64_t)(PICK(6, 12, 25) * p90);
		cell->share[i] = -log(1 - weir_random_unit(&random)) + .05;
		sum += cell->share[i];
		cell->longest_ns =
			cell->target_ns[i] > cell->longest_ns ? cell->target_ns[i] : cell->longest_ns;
		cell->shortest_ns =
			cell->target_ns[i] < cell->shortest_ns ? cell->target_ns[i] : cell->shortest_ns;
	}
	for (unsigned i = 0; i < cell->stages; i++)
		cell->share[i] /= sum;
	*random_ = random;
}

static void draw_cell(struct cell *cell, unsigned number)
{
	weir_random random;
	weir_random_init(&random, 7919 * (number + 1));
	*cell = (struct cell){.number = number};
	cell->held = weir_random_below(&random, 2) != 0;
	cell->kind = (enum kind)weir_random_below(&random, KINDS);
	cell->stages = (unsigned)PICK(2, 3, 4, 8, 16);
	cell->threads = (unsigned)PICK(2, 4, 8, 16, 32, 64);
	cell->cores = (unsigned)PICK(1, 2, 4);
	cell->load = cell->threads > 16 ? PICK(.8, 1.2, 1.5, 2, 4) : PICK(.8, 1.2, 1.5, 2, 4, 10);
	double before = PICK(0, 0, 0, 1), spent = .1 + .2 * weir_random_unit(&random);
	cell->before = before * spent;
	draw_stages(cell, &random, PICK(1e6, 5e6), PICK(3, 10, 30));
	cell->capacity = capacity_of(cell);
}

/* ---- a run ---- */

struct place {
	struct run *run;
	weir_stage *stage;
	weir_arrivals arrivals;
	uint64_t offered, shed, dropped;
	double good;
	weir_hist response;
};

struct request {
	weir_event event;
	weir_backend_job job;
	weir_timer timer;
	struct run *run;
	struct request *next;
	unsigned type;
	uint64_t came_ns;
	double work;
};

struct run {
	const struct cell *cell;
	enum control control;
	double bound; /* oracle */
	weir_world *world;
	weir_backend *backend;
	weir_random random;
	struct place place[STAGES_MOST];
	struct request *free;
	double waiting; /* oracle: work, ns */
	uint64_t from_ns;
	bool over;
	struct reasons reasons;
};

static struct request *take(struct run *run)
{
	struct request *request = run->free;
	if (request == NULL) {
		request = calloc(1, sizeof(*request));
		BENCH_REQUIRE(request != NULL);
		request->run = run;
	} else {
		run->free = request->next;
	}
	return request;
}

static void give_back(struct request *request)
{
	request->next = request->run->free;
	request->run->free = request;
}

static bool measured(const struct run *run)
{
	return !run->over && weir_world_now(run->world) >= run->from_ns;
}

static void finished(struct request *request)
{
	struct run *run = request->run;
	struct place *place = &run->place[request->type];
	uint64_t took_ns = weir_world_now(run->world) - request->came_ns;
	if (measured(run)) {
		weir_hist_add(&place->response, took_ns);
		place->good += (double)took_ns <= MOST_P90 * (double)run->cell->target_ns[request->type]
				       ? request->work
				       : 0;
	}
	weir_done(&request->event);
	give_back(request);
}

static void answered(weir_backend_job *job, bool refused, void *arg)
{
	(void)job, (void)refused;
	finished(arg);
}

static void slept(weir_timer *timer, void *arg)
{
	struct request *request = arg;
	(void)timer;
	if (request->run->cell->kind == MIXED)
		weir_backend_submit(request->run->backend, &request->job, request->work * (1 - BLOCKED),
				    answered, request);
	else
		finished(request);
}

static void serve(struct run *run, weir_stage *stage, struct request *request)
{
	enum kind kind = run->cell->kind;
	weir_hold(&request->event);
	run->waiting -= request->work;
	if (kind == CPU || kind == MIXED)
		weir_sim_cpu(stage, (uint64_t)(request->work * (kind == CPU ? 1 : 1 - BLOCKED)));
	if (kind == BLOCKING || kind == MIXED) {
		double ns = request->work * (kind == MIXED ? BLOCKED : 1);
		weir_timer_init(&request->timer, slept, request);
		weir_sim_timer(run->world, &request->timer, weir_world_now(run->world) + (uint64_t)ns);
	} else {
		weir_backend_submit(run->backend, &request->job, request->work, answered, request);
	}
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		serve(arg, stage, (struct request *)events[i]);
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	struct request *request = (struct request *)event;
	struct run *run = arg;
	(void)stage;
	reasons_ask(&run->reasons, why);
	run->waiting -= request->work;
	if (measured(run))
		run->place[request->type].dropped++;
	give_back(request);
}

/* What waits, the time of the threads that do it, over the share-weighted targets. */
static bool oracle_admits(const struct run *run)
{
	const struct cell *cell = run->cell;
	double bound_ns = 0;
	for (unsigned i = 0; i < cell->stages; i++)
		bound_ns += cell->share[i] * (double)cell->target_ns[i];
	return run->waiting <= run->bound * bound_ns * (1 - cell->before) * cell->capacity;
}

static void arrive(weir_arrivals *arrivals, void *arg)
{
	struct place *place = arg;
	struct run *run = place->run;
	struct request *request = take(run);
	(void)arrivals;
	request->type = (unsigned)(place - run->place);
	request->work = weir_dist_draw(&run->cell->service[request->type], &run->random);
	uint64_t spent_ns = (uint64_t)(run->cell->before * (double)run->cell->target_ns[request->type]);
	request->came_ns = weir_world_now(run->world) - spent_ns;
	weir_event_init(&request->event, 0);
	request->event.entered_ns = request->came_ns;
	if (measured(run))
		place->offered++;
	run->waiting += request->work;
	bool refused = run->control == ORACLE && !oracle_admits(run);
	weir_verdict verdict = refused ? WEIR_SHED_LIMIT : weir_offer(place->stage, &request->event);
	if (verdict == WEIR_ADMITTED)
		return;
	reasons_ask(&run->reasons, verdict);
	run->waiting -= request->work;
	if (measured(run))
		place->shed++;
	give_back(request);
}

/* ---- making ---- */

/* The oracle knows how many threads do the most without getting into each other's way. */
static unsigned best_threads(const struct cell *cell)
{
	unsigned best = cell->kind == BLOCKING ? cell->threads : (unsigned)(2 * ceil(cell->capacity));
	if (cell->kind == CPU)
		best = cell->cores;
	if (cell->kind == LOCKED)
		best = 4;
	return best < cell->threads ? best : cell->threads;
}

static weir_domain *make_pool(struct run *run)
{
	const struct cell *cell = run->cell;
	weir_domain *domain;
	weir_domain_options options = {.name = "pool",
				       .kind = WEIR_ELASTIC,
				       .min_threads = 2,
				       .max_threads = cell->threads,
				       .cores = cell->cores};
	if (run->control == ORACLE)
		options.min_threads = options.max_threads = best_threads(cell);
	BENCH_REQUIRE(weir_domain_new(run->world, &options, &domain) == 0);
	return domain;
}

static weir_stage *make_stage(struct run *run, weir_domain *domain, const char *name, uint64_t target_ns)
{
	weir_adaptive_params params;
	weir_stage *stage;
	weir_law_defaults(&weir_law_adaptive, &params);
	params.target_ns[0] = target_ns;
	params.per_stage = run->control == STAGE;
	bool law = run->control != NONE;
	weir_stage_options options = {.name = name,
				      .handle = handle,
				      .drop = drop,
				      .arg = run,
				      .capacity = 1000000,
				      .admission = law ? &weir_law_adaptive : NULL,
				      .admission_params = law ? &params : NULL};
	BENCH_REQUIRE(weir_stage_new(domain, &options, &stage) == 0);
	if (run->control ==
	    ORACLE) /* the law tells the order what is due; who comes in is the oracle's to say */
		weir_stage_mode(stage, WEIR_ADMIT_ALL);
	return stage;
}

static void make_stages(struct run *run)
{
	weir_domain *domain = make_pool(run);
	weir_stage *only =
		run->control == SINGLE ? make_stage(run, domain, "all", run->cell->shortest_ns) : NULL;
	for (unsigned i = 0; i < run->cell->stages; i++) {
		char name[16];
		snprintf(name, sizeof(name), "s%u", i);
		run->place[i].run = run;
		run->place[i].stage =
			only != NULL ? only : make_stage(run, domain, name, run->cell->target_ns[i]);
	}
}

static void make_backend(struct run *run)
{
	const struct cell *cell = run->cell;
	weir_backend_options options = {.discipline = WEIR_BACKEND_PS, .workers = cell->cores};
	if (cell->kind == LOCKED)
		options = (weir_backend_options){.workers = cell->threads, .lock = HELD};
	BENCH_REQUIRE(weir_backend_new(run->world, &options, &run->backend) == 0);
}

static void start_arrivals(struct run *run, double *ret_per_s)
{
	const struct cell *cell = run->cell;
	*ret_per_s = 0;
	for (unsigned i = 0; i < cell->stages; i++) {
		double per_s = cell->load * cell->capacity * cell->share[i] / (cell->service[i].mean / 1e9);
		*ret_per_s += per_s;
		weir_arrivals_start(&run->place[i].arrivals, run->world, WEIR_POISSON, per_s, arrive,
				    &run->place[i]);
	}
}

static void read_result(const struct run *run, double seconds, struct result *ret_result)
{
	const struct cell *cell = run->cell;
	uint64_t shed = 0, dropped = 0, offered = 0;
	*ret_result = (struct result){.reasons = run->reasons};
	for (unsigned i = 0; i < cell->stages; i++) {
		const struct place *place = &run->place[i];
		ret_result->good += place->good / 1e9 / seconds / cell->capacity;
		shed += place->shed;
		dropped += place->dropped;
		offered += place->offered;
		if (weir_hist_count(&place->response) < 30)
			continue;
		double p90 = (double)weir_hist_quantile(&place->response, .9) / (double)cell->target_ns[i];
		ret_result->p90 = fmax(ret_result->p90, p90);
	}
	ret_result->rejected = shed + dropped;
	ret_result->shed = offered > 0 ? (double)(shed + dropped) / (double)offered : 0;
	ret_result->waited = shed + dropped >= 10 ? (double)dropped / (double)(shed + dropped) : 0;
}

static void free_requests(struct run *run)
{
	for (struct request *next, *at = run->free; at != NULL; at = next) {
		next = at->next;
		free(at);
	}
}

static void run_cell(const struct cell *cell, enum control control, double bound, struct result *ret_result)
{
	static struct run run;
	weir_world_options options = {.simulated = true, .seed = cell->number + 1};
	double per_s;
	memset(&run, 0, sizeof(run));
	run.cell = cell;
	run.control = control;
	run.bound = bound;
	weir_random_init(&run.random, cell->number + 1);
	BENCH_REQUIRE(weir_world_new(&options, &run.world) == 0);
	make_stages(&run);
	make_backend(&run);
	BENCH_REQUIRE(weir_world_start(run.world) == 0);
	start_arrivals(&run, &per_s);
	double longest_s = (double)cell->longest_ns / 1e9, seconds = fmax(5 * longest_s, ARRIVALS / per_s);
	uint64_t begin_ns = weir_world_now(run.world);
	run.from_ns = begin_ns + (uint64_t)(fmax(1, 3 * longest_s) * 1e9);
	weir_sim_run(run.world, run.from_ns + (uint64_t)(seconds * 1e9));
	read_result(&run, seconds, ret_result);
	run.over = true;
	for (unsigned i = 0; i < cell->stages; i++)
		weir_arrivals_stop(&run.place[i].arrivals);
	weir_world_stop(run.world, 0, NULL);
	weir_world_free(&run.world);
	weir_backend_free(&run.backend);
	free_requests(&run);
}

/* The bound with the best goodput of those that hold p90; none of them does: false. */
static bool run_oracle(const struct cell *cell, struct result *ret_best)
{
	static const double bounds[] = {.1, .2, .35, .5, .7, .9};
	bool can = false;
	*ret_best = (struct result){0};
	for (unsigned i = 0; i < sizeof(bounds) / sizeof(*bounds); i++) {
		struct result result;
		run_cell(cell, ORACLE, bounds[i], &result);
		if (result.p90 > MOST_P90)
			break; /* a longer queue makes it no better */
		can = true;
		if (result.good > ret_best->good)
			*ret_best = result;
	}
	return can;
}

/* ---- the judge ---- */

struct tally {
	unsigned cells, cannot, passed, p90, good, better, waited, harm, light;
	unsigned control_p90[CONTROLS];
	double control_good[CONTROLS];
	unsigned by_kind[KINDS], passed_by_kind[KINDS];
	struct reasons reasons; /* of all controls by a law */
};

static void judge(const struct cell *cell, const struct result *result, bool oracle, struct tally *tally,
		  bool verbose)
{
	const struct result *pool = &result[POOL];
	bool p90 = pool->p90 <= MOST_P90, good = !oracle || pool->good >= LEAST_GOOD * result[ORACLE].good;
	bool better = pool->good >= .99 * fmax(result[STAGE].good, result[SINGLE].good);
	bool waited = pool->waited <= MOST_WAITED, harm = cell->load > 1 || pool->shed <= .01;
	bool passed = p90 && good && better && waited && harm;
	tally->cells++;
	tally->p90 += p90;
	tally->good += good;
	tally->better += better;
	tally->waited += waited;
	tally->light += cell->load < 1;
	tally->harm += cell->load < 1 && harm;
	tally->passed += passed;
	tally->by_kind[cell->kind]++;
	tally->passed_by_kind[cell->kind] += passed;
	for (unsigned c = 0; c < CONTROLS; c++) {
		tally->control_p90[c] += result[c].p90 <= MOST_P90;
		tally->control_good[c] += result[c].good;
		reasons_merge(&tally->reasons, &result[c].reasons);
	}
	if (passed && !verbose)
		return;
	printf("cell %3u %-8s %2u threads %2u stages %s %.1fx before %.2f cores %u:", cell->number,
	       kind_name[cell->kind], cell->threads, cell->stages, weir_dist_name(cell->service[0].kind),
	       cell->load, cell->before, cell->cores);
	for (unsigned c = 0; c < CONTROLS; c++)
		printf("  %s %.2f p90 %.2f", control_name[c], result[c].good, result[c].p90);
	printf("  waited %.3f shed %.3f%s%s%s%s%s\n", pool->waited, pool->shed, p90 ? "" : " P90",
	       good ? "" : " GOOD", better ? "" : " BETTER", waited ? "" : " WAITED", harm ? "" : " HARM");
}

static void run_and_judge(const struct cell *cell, bool oracle, struct tally *tally, bool verbose)
{
	struct result result[CONTROLS] = {0};
	if (oracle && !run_oracle(cell, &result[ORACLE])) {
		tally->cannot++;
		if (verbose)
			printf("cell %3u cannot\n", cell->number);
		return;
	}
	for (unsigned c = 0; c < ORACLE; c++)
		run_cell(cell, (enum control)c, 0, &result[c]);
	judge(cell, result, oracle, tally, verbose);
	fflush(stdout);
}

static void print_tally(const struct tally *tally)
{
	double cells = tally->cells > 0 ? tally->cells : 1;
	printf("cells %u cannot %u\n", tally->cells, tally->cannot);
	printf("passed %u p90 %u goodput %u better %u waited %u harmless %u of %u\n", tally->passed,
	       tally->p90, tally->good, tally->better, tally->waited, tally->harm, tally->light);
	for (unsigned k = 0; k < KINDS; k++)
		printf("%s %u of %u\n", kind_name[k], tally->passed_by_kind[k], tally->by_kind[k]);
	for (unsigned c = 0; c < CONTROLS; c++)
		printf("%-6s p90 in %3u cells, goodput %.3f of the capacity\n", control_name[c],
		       tally->control_p90[c], tally->control_good[c] / cells);
	reasons_print(&tally->reasons);
}

int main(int argc, char **argv)
{
	struct tally tally = {0};
	const char *half = NULL, *kind = NULL;
	unsigned cells = 150, from = 0;
	int only = -1;
	bool verbose = false, oracle = true;
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";
		if (strcmp(argv[i], "--verbose") == 0)
			verbose = true;
		else if (strcmp(argv[i], "--half") == 0)
			half = value, i++;
		else if (strcmp(argv[i], "--cells") == 0)
			cells = (unsigned)atoi(value), i++;
		else if (strcmp(argv[i], "--from") == 0)
			from = (unsigned)atoi(value), i++;
		else if (strcmp(argv[i], "--kind") == 0)
			kind = value, i++;
		else if (strcmp(argv[i], "--cell") == 0)
			only = atoi(value), i++;
		else if (strcmp(argv[i], "--oracle") == 0)
			oracle = strcmp(value, "off") != 0, i++;
		else
			return fprintf(stderr, "grid_shared: what is '%s'?\n", argv[i]), 2;
	}
	for (unsigned i = from; i < from + cells; i++) {
		struct cell cell;
		draw_cell(&cell, i);
		if ((kind != NULL && strcmp(kind, kind_name[cell.kind]) != 0) ||
		    (half != NULL && cell.held != (strcmp(half, "held") == 0)) ||
		    (only >= 0 && i != (unsigned)only))
			continue;
		run_and_judge(&cell, oracle, &tally, verbose || only >= 0);
	}
	print_tally(&tally);
	return 0;
}
