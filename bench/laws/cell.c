/* SPDX-License-Identifier: Apache-2.0 */
#include "laws/cell.h"

#include "laws/dry.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define WINDOW   500     /* arrivals, for the steadiness of the shed fraction */
#define CAPACITY 4000000 /* of the queue: a law is to keep it short, not the bound */
#define BLOCK    1024    /* requests made at once */

typedef struct request {
	weir_event event;
	weir_timer timer; /* of its service, or of its client */
	cell *cell;
	struct request *next; /* in the list of the free */
	uint64_t wanted_ns;   /* when its client first asked */
	uint64_t service_ns;
	unsigned tries;
	bool abandoned; /* its client has asked again */
} request;

typedef struct block {
	struct block *next;
	request requests[BLOCK];
} block;

struct cell {
	cell_options options;
	weir_world *world;
	weir_stage *stage;
	weir_arrivals arrivals;
	weir_random random;
	void *params;
	request *unused;
	block *blocks;
	double share_until[WEIR_CLASSES]; /* cumulative, the last 1 */
	double class_target_ns[WEIR_CLASSES];
	double mean_cost;
	double slowness;
	/* measures, since the mark */
	uint64_t marked_ns;
	double marked_spared;
	double busy_ns, useful_ns;
	uint64_t busy_since_ns;
	uint32_t busy;
	uint64_t window_offered, window_shed, windows;
	double window_sum, window_squares;
	cell_class_stats klass[WEIR_CLASSES];
	double most;
	cell_slices *slices;
	uint64_t slices_ns;
};

double cell_service_p90(const weir_dist *service)
{
	return weir_dist_quantile(service, 0.9005);
}

uint64_t cell_now(const cell *c)
{
	return weir_world_now(c->world);
}

/* ---- requests ---- */

static void more_requests(cell *c)
{
	block *b = calloc(1, sizeof(*b));
	if (b == NULL)
		abort();
	b->next = c->blocks;
	c->blocks = b;
	for (unsigned i = 0; i < BLOCK; i++) {
		b->requests[i].cell = c;
		b->requests[i].next = c->unused;
		c->unused = &b->requests[i];
	}
}

static request *take_request(cell *c)
{
	if (c->unused == NULL)
		more_requests(c);
	request *r = c->unused;
	c->unused = r->next;
	r->abandoned = false;
	return r;
}

static void leave_request(request *r)
{
	r->next = r->cell->unused;
	r->cell->unused = r;
}

/* ---- measures ---- */

static void integrate(cell *c, uint64_t now_ns)
{
	c->busy_ns += (double)c->busy * (double)(now_ns - c->busy_since_ns);
	c->busy_since_ns = now_ns;
}

static int slice_of(const cell *c, uint64_t now_ns)
{
	if (c->slices == NULL || now_ns < c->slices_ns)
		return -1;
	uint64_t at = (now_ns - c->slices_ns) / c->slices->width_ns;
	return at < c->slices->count ? (int)at : -1;
}

static void count_offered(cell *c, unsigned klass, uint64_t now_ns)
{
	int slice = slice_of(c, now_ns);
	c->klass[klass].offered++;
	if (slice >= 0)
		c->slices->at[slice].offered++;
	if (++c->window_offered < WINDOW)
		return;
	double fraction = (double)c->window_shed / WINDOW;
	c->windows++;
	c->window_sum += fraction;
	c->window_squares += fraction * fraction;
	c->window_offered = c->window_shed = 0;
}

/* By the time of the offer: what was let in before a step and is dropped after it says nothing about admission after it. */
static void count_shed(cell *c, unsigned klass, uint64_t offered_ns)
{
	int slice = slice_of(c, offered_ns);
	c->klass[klass].shed++;
	c->window_shed++;
	if (slice >= 0)
		c->slices->at[slice].shed++;
}

static void count_done(cell *c, const request *r, uint64_t now_ns)
{
	unsigned klass = r->event.klass;
	double response = (double)(now_ns - r->event.offered_ns) / c->class_target_ns[klass];
	int slice = slice_of(c, now_ns);
	c->klass[klass].completed++;
	tally_add(&c->klass[klass].response, response);
	c->most = fmax(c->most, response);
	if (response <= 2 && !r->abandoned)
		c->useful_ns += (double)r->service_ns;
	if (slice >= 0)
		tally_add(&c->slices->at[slice].response, response);
}

/* ---- clients ---- */

static void offer(cell *c, request *r);

static void try_again(weir_timer *timer, void *arg)
{
	(void)timer;
	request *r = arg;
	offer(r->cell, r);
}

/* The client has been told no. */
static void turned_away(cell *c, request *r)
{
	const cell_retries *retries = &c->options.retries;
	if (r->abandoned || r->tries >= retries->most) {
		leave_request(r);
		return;
	}
	double after =
		retries->after * c->options.target_ns * (double)(1u << (r->tries < 10 ? r->tries : 10));
	r->tries++;
	weir_timer_init(&r->timer, try_again, r);
	after *= 0.5 + 0.5 * weir_random_unit(&c->random);
	weir_sim_timer(c->world, &r->timer, cell_now(c) + (uint64_t)after);
}

/* Nobody waits for this one any more, and a new one takes its place; the stage is not told. */
static void client_gave_up(cell *c, request *r)
{
	const cell_retries *retries = &c->options.retries;
	if (retries->give_up == 0 || r->abandoned || r->tries >= retries->most)
		return;
	if ((double)(cell_now(c) - r->event.offered_ns) < retries->give_up * c->options.target_ns)
		return;
	request *again = take_request(c);
	again->tries = r->tries + 1;
	again->wanted_ns = r->wanted_ns;
	weir_event_init(&again->event, r->event.klass);
	r->abandoned = true;
	weir_timer_init(&again->timer, try_again, again);
	weir_sim_timer(c->world, &again->timer, cell_now(c));
}

static void ask_why(cell *c, weir_verdict verdict)
{
	if (c->options.reasons != NULL)
		reasons_ask(c->options.reasons, verdict);
}

static void offer(cell *c, request *r)
{
	unsigned klass = r->event.klass;
	weir_event_init(&r->event, klass);
	count_offered(c, klass, cell_now(c));
	weir_verdict verdict = weir_offer(c->stage, &r->event);
	if (verdict == WEIR_ADMITTED)
		return;
	ask_why(c, verdict);
	count_shed(c, klass, cell_now(c));
	turned_away(c, r);
}

static void arrive(weir_arrivals *arrivals, void *arg)
{
	(void)arrivals;
	cell *c = arg;
	request *r = take_request(c);
	unsigned klass = 0;
	if (c->share_until[0] < 1) {
		double at = weir_random_unit(&c->random);
		while (at >= c->share_until[klass])
			klass++;
	}
	r->event.klass = (uint8_t)klass;
	r->tries = 0;
	r->wanted_ns = cell_now(c);
	c->klass[klass].first++;
	offer(c, r);
}

/* ---- the stage ---- */

static void finished(weir_timer *timer, void *arg)
{
	(void)timer;
	request *r = arg;
	cell *c = r->cell;
	uint64_t now_ns = cell_now(c);
	integrate(c, now_ns);
	c->busy--;
	/* A client that would have given up by now has asked again: in the queue behind, as if it had then. */
	client_gave_up(c, r);
	count_done(c, r, now_ns);
	if (!r->abandoned)
		c->klass[r->event.klass].served++;
	weir_done(&r->event);
	leave_request(r);
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	(void)stage;
	(void)count;
	cell *c = arg;
	request *r = (request *)events[0];
	double cost = c->options.klass[r->event.klass].cost;
	double service =
		weir_dist_draw(&c->options.service, &c->random) * c->slowness * (cost != 0 ? cost : 1);
	uint64_t now_ns = cell_now(c);
	integrate(c, now_ns);
	c->busy++;
	r->service_ns = service < 1 ? 1 : (uint64_t)service;
	weir_timer_init(&r->timer, finished, r);
	weir_hold(&r->event);
	weir_sim_timer(c->world, &r->timer, now_ns + r->service_ns);
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	(void)stage;
	cell *c = arg;
	request *r = (request *)event;
	ask_why(c, why);
	c->klass[event->klass].dropped++;
	count_shed(c, event->klass, event->offered_ns);
	client_gave_up(c, r);
	turned_away(c, r);
}

/* ---- making ---- */

static const weir_key *find_param(const weir_admission_law *law, const char *name)
{
	for (const weir_key *p = law->params; p != NULL && p->name != NULL; p++)
		if (strcmp(p->name, name) == 0)
			return p;
	return NULL;
}

/* Sets a number of the law, if it has such a thing, for one class; class 0 for all where it has no classes. */
static void set_param(cell *c, const char *name, unsigned klass, double value)
{
	const weir_key *p = find_param(c->options.law, name);
	if (p == NULL || (klass != 0 && (p->flags & WEIR_KEY_PER_CLASS) == 0))
		return;
	char *at = (char *)c->params + p->offset;
	if (p->type == WEIR_KEY_TIME)
		((uint64_t *)(void *)at)[klass] = (uint64_t)value;
	else if (p->type == WEIR_KEY_COUNT)
		((uint32_t *)(void *)at)[klass] = (uint32_t)value;
	else
		((double *)(void *)at)[klass] = value;
}

static int make_params(cell *c)
{
	const weir_admission_law *law = c->options.law;
	c->params = calloc(1, law->params_bytes + 1);
	if (c->params == NULL)
		return -1;
	weir_law_defaults(law, c->params);
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		set_param(c, "target", k, c->class_target_ns[k]);
		set_param(c, "percentile", k, c->options.percentile != 0 ? c->options.percentile : 0.9);
		if (c->options.klass[k].minimum != 0)
			set_param(c, "minimum", k, c->options.klass[k].minimum);
	}
	for (const char *const *s = c->options.settings; s != NULL && *s != NULL; s++) {
		char name[32];
		double value;
		if (sscanf(*s, "%31[^=]=%lf", name, &value) != 2 || find_param(law, name) == NULL)
			return -1;
		for (unsigned k = 0; k < WEIR_CLASSES; k++)
			set_param(c, name, k, value);
	}
	return 0;
}

static int make_stage(cell *c)
{
	weir_domain *domain;
	weir_domain_options pool = {.name = "workers",
				    .kind = WEIR_ELASTIC,
				    .min_threads = c->options.workers,
				    .max_threads = c->options.workers};
	weir_stage_options stage = {.name = "cell",
				    .handle = handle,
				    .drop = drop,
				    .arg = c,
				    .capacity = CAPACITY,
				    .order = c->options.order,
				    .admission = c->options.law,
				    .admission_params = c->params};
	int failed =
		weir_world_new(&(weir_world_options){.simulated = true, .seed = c->options.seed}, &c->world);
	if (failed == 0)
		failed = weir_domain_new(c->world, &pool, &domain);
	if (failed == 0)
		failed = weir_stage_new(domain, &stage, &c->stage);
	if (failed == 0 && c->options.dry_run)
		weir_stage_mode(c->stage, WEIR_DRY_RUN);
	return failed != 0 ? failed : weir_world_start(c->world);
}

cell *cell_new(const cell_options *options)
{
	cell *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return NULL;
	c->options = *options;
	c->slowness = 1;
	double shares[WEIR_CLASSES];
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		double target = options->klass[k].target;
		c->class_target_ns[k] = options->target_ns * (target != 0 ? target : 1);
		shares[k] = options->klass[k].share;
	}
	cell_shares(c, shares);
	weir_random_init(&c->random, options->seed * 7919 + 17);
	if ((options->law != NULL && make_params(c) != 0) || make_stage(c) != 0) {
		cell_free(&c);
		return NULL;
	}
	weir_arrivals_start(&c->arrivals, c->world, WEIR_POISSON, 0, arrive, c);
	cell_mark(c);
	return c;
}

void cell_free(cell **ptr)
{
	cell *c = *ptr;
	if (c == NULL)
		return;
	c->options.retries.most = 0;
	if (c->stage != NULL)
		weir_arrivals_stop(&c->arrivals);
	weir_world_free(&c->world);
	while (c->blocks != NULL) {
		block *b = c->blocks;
		c->blocks = b->next;
		free(b);
	}
	free(c->params);
	free(c);
	*ptr = NULL;
}

/* ---- running ---- */

void cell_shares(cell *c, const double *shares)
{
	double all = 0, until = 0;
	c->mean_cost = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		all += shares[k];
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		double share = all > 0 ? shares[k] / all : k == 0, cost = c->options.klass[k].cost;
		until += share;
		c->share_until[k] = until > 1 - 1e-9 ? 1 : until;
		c->mean_cost += share * (cost != 0 ? cost : 1);
	}
}

void cell_load(cell *c, double load)
{
	double per_ns = load * c->options.workers / (c->options.service.mean * c->mean_cost);
	weir_arrivals_rate(&c->arrivals, per_ns * 1e9);
}

void cell_speed(cell *c, double factor)
{
	c->slowness = 1 / factor;
}

void cell_run(cell *c, double ns)
{
	weir_sim_run(c->world, cell_now(c) + (uint64_t)ns);
}

void cell_mark(cell *c)
{
	uint64_t now_ns = cell_now(c);
	c->marked_ns = c->busy_since_ns = now_ns;
	c->busy_ns = c->useful_ns = c->most = 0;
	c->marked_spared = dry_spared(c->stage);
	c->window_offered = c->window_shed = c->windows = 0;
	c->window_sum = c->window_squares = 0;
	memset(c->klass, 0, sizeof(c->klass));
}

static void add_class(cell_class_stats *into, const cell_class_stats *from)
{
	into->offered += from->offered;
	into->shed += from->shed;
	into->dropped += from->dropped;
	into->completed += from->completed;
	into->first += from->first;
	into->served += from->served;
	tally_merge(&into->response, &from->response);
}

void cell_read(cell *c, cell_stats *ret_stats)
{
	uint64_t now_ns = cell_now(c);
	integrate(c, now_ns);
	memset(ret_stats, 0, sizeof(*ret_stats));
	double ns = (double)(now_ns - c->marked_ns), n = (double)c->windows;
	ret_stats->seconds = ns / 1e9;
	ret_stats->work = c->busy_ns / (ns * c->options.workers);
	ret_stats->useful = c->useful_ns / (ns * c->options.workers);
	ret_stats->most = c->most;
	if (n > 1)
		ret_stats->shed_sd =
			sqrt(fmax(0, (c->window_squares - c->window_sum * c->window_sum / n) / (n - 1)));
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		ret_stats->klass[k] = c->klass[k];
		add_class(&ret_stats->all, &c->klass[k]);
	}
	ret_stats->would =
		(dry_spared(c->stage) - c->marked_spared) / fmax((double)ret_stats->all.offered, 1);
}

cell_slices *cell_slices_new(unsigned count, double width_ns)
{
	cell_slices *s = calloc(1, sizeof(*s) + count * sizeof(s->at[0]));
	if (s == NULL)
		abort();
	s->count = count;
	s->width_ns = width_ns < 1 ? 1 : (uint64_t)width_ns;
	return s;
}

void cell_slices_set(cell *c, cell_slices *slices)
{
	c->slices = slices;
	c->slices_ns = cell_now(c);
}
