/* SPDX-License-Identifier: Apache-2.0 */
#include "http/gauge.h"

#include <math.h>

#define QUEUE_S       .25 /* over which the queue's means fade */
#define QUEUE_PERIODS 2.
#define RATE_S        2. /* over which the others do */
#define RATE_PERIODS  5.
#define LIGHT         .5  /* part of the processors below which time in service is not waiting for them */
#define BLOCK_S       .5  /* the shortest time that is judged by itself */
#define CALM_S        20. /* of calm, over which the I/O time fades */
#define CALM_LEAST    5.  /* requests before it is known */
/* The queueing delay is at most this many times the age of the oldest that waits, and this much more. */
#define AGE_TIMES 3.
#define AGE_MORE  .005

void weir_gauge_init(weir_gauge *gauge, double every_s, double alpha)
{
	*gauge = (weir_gauge){.every_s = every_s, .alpha = alpha};
}

/* Adds `amount` that came within dt_s: for a rate the amount itself, for a level the level times dt_s. */
static void add(weir_gauge_mean *mean, double amount, double dt_s, double over_s)
{
	double keep = exp(-dt_s / over_s);
	mean->sum = keep * mean->sum + amount;
	mean->weight = keep * mean->weight + dt_s;
}

static double value(const weir_gauge_mean *mean)
{
	return mean->weight > 0 ? mean->sum / mean->weight : -1;
}

static void add_level(weir_gauge_mean *mean, double level, double dt_s, double over_s)
{
	if (level >= 0)
		add(mean, level * dt_s, dt_s, over_s);
}

/* How much a total has grown; a total that falls (a server was restarted) has not. -1: unknown. */
static double growth(double before, double now)
{
	if (before < 0 || now < 0)
		return -1;
	return now > before ? now - before : 0;
}

static void add_growth(weir_gauge_mean *mean, double more, double dt_s, double over_s)
{
	if (more >= 0)
		add(mean, more, dt_s, over_s);
}

static double busy_of(const weir_gauge *gauge)
{
	double cpu = value(&gauge->cpu), processors = gauge->last.processors;
	return cpu >= 0 && processors > 0 ? fmin(cpu / processors, 1) : -1;
}

/* A positive amount over a positive rate; -1: unknown. */
static double per_request(const weir_gauge *gauge, const weir_gauge_mean *mean)
{
	double amount = value(mean), rate = value(&gauge->rate);
	return amount >= 0 && rate > 0 ? amount / rate : -1;
}

/* Both this block and the time before it: a block may be calm by chance, and the mean is late. */
static bool is_calm(const weir_gauge *gauge)
{
	const weir_gauge_sums *block = &gauge->block;
	double light = LIGHT * gauge->last.processors;
	return block->cpu_s + block->delay_s < light * block->time_s &&
	       value(&gauge->cpu) + fmax(value(&gauge->delay), 0) < light;
}

/* The mean time in service while it was calm; -1: unknown. */
static double calm_service_s(const weir_gauge_sums *calm)
{
	if (calm->requests < CALM_LEAST)
		return -1;
	if (calm->answers < CALM_LEAST)
		return calm->in_service_s / calm->requests;
	return calm->took_s / calm->answers - fmax(calm->waiting_s, calm->delay_s) / calm->requests;
}

static double io_of(const weir_gauge *gauge)
{
	double service_s = calm_service_s(&gauge->calm);
	return service_s < 0 ? -1 : fmax(service_s - gauge->calm.cpu_s / gauge->calm.requests, 0);
}

/* to = keep * to + more */
static void add_sums(weir_gauge_sums *to, double keep, const weir_gauge_sums *more)
{
	to->time_s = keep * to->time_s + more->time_s;
	to->waiting_s = keep * to->waiting_s + more->waiting_s;
	to->in_service_s = keep * to->in_service_s + more->in_service_s;
	to->requests = keep * to->requests + more->requests;
	to->cpu_s = keep * to->cpu_s + more->cpu_s;
	to->delay_s = keep * to->delay_s + more->delay_s;
	to->answers = keep * to->answers + more->answers;
	to->took_s = keep * to->took_s + more->took_s;
}

static void learn_io(weir_gauge *gauge, const weir_gauge_sums *more)
{
	double over_s = fmax(CALM_S, RATE_PERIODS * gauge->every_s);
	if (more->in_service_s < 0 || more->requests < 0 || more->cpu_s < 0)
		return;
	add_sums(&gauge->block, 1, more);
	if (more->cpu_s <= 0 || gauge->block.time_s < BLOCK_S)
		return;
	if (is_calm(gauge))
		add_sums(&gauge->calm, exp(-gauge->block.time_s / over_s), &gauge->block);
	gauge->block = (weir_gauge_sums){0};
}

static void learn(weir_gauge *gauge, const weir_gauge_sample *now, double dt_s)
{
	const weir_gauge_sample *last = &gauge->last;
	double queue_s = fmax(QUEUE_S, QUEUE_PERIODS * gauge->every_s),
	       rate_s = fmax(RATE_S, RATE_PERIODS * gauge->every_s);
	weir_gauge_sums more = {.time_s = dt_s,
				.waiting_s = fmax(now->waiting, 0) * dt_s,
				.in_service_s = now->in_service * dt_s,
				.requests = growth(last->requests, now->requests),
				.cpu_s = growth(last->cpu_total_s, now->cpu_total_s),
				.delay_s = fmax(growth(last->cpu_delay_s, now->cpu_delay_s), 0),
				.answers = fmax(growth(last->answers, now->answers), 0),
				.took_s = fmax(growth(last->took_s, now->took_s), 0)};
	add_level(&gauge->waiting, now->waiting, dt_s, queue_s);
	add_level(&gauge->oldest, now->oldest_s, dt_s, queue_s);
	add_level(&gauge->in_service, now->in_service, dt_s, queue_s);
	add_growth(&gauge->rate, more.requests, dt_s, rate_s);
	add_growth(&gauge->cpu, more.cpu_s, dt_s, rate_s);
	add_growth(&gauge->delay, more.delay_s, dt_s, rate_s);
	add_growth(&gauge->self, growth(last->self_cpu_s, now->self_cpu_s), dt_s, rate_s);
	learn_io(gauge, &more);
	gauge->requests += fmax(more.requests, 0);
	gauge->cpu_total_s += fmax(more.cpu_s, 0);
	gauge->in_service_s += fmax(more.in_service_s, 0);
}

void weir_gauge_add(weir_gauge *gauge, const weir_gauge_sample *sample)
{
	double dt_s = (double)(sample->now_ns - gauge->last.now_ns) / 1e9;
	if (gauge->begun && sample->now_ns <= gauge->last.now_ns)
		return;
	if (gauge->begun)
		learn(gauge, sample, dt_s);
	gauge->begun = true;
	gauge->last = *sample;
}

static double queue_of(const weir_gauge *gauge)
{
	double waiting = value(&gauge->waiting), oldest_s = value(&gauge->oldest),
	       queue_s = per_request(gauge, &gauge->waiting);
	if (waiting < 1e-6)
		return waiting < 0 ? -1 : 0;
	if (oldest_s < 0)
		return queue_s;
	if (queue_s < 0)
		return oldest_s;
	return fmin(fmax(queue_s, oldest_s), AGE_TIMES * oldest_s + AGE_MORE);
}

void weir_gauge_report(const weir_gauge *gauge, uint64_t now_ns, weir_nucleus_report *ret_report)
{
	weir_nucleus_report_init(ret_report);
	ret_report->every_s = gauge->every_s;
	ret_report->alpha = gauge->alpha;
	if (!gauge->begun)
		return;
	double cpu_s = per_request(gauge, &gauge->cpu), io_s = io_of(gauge);
	ret_report->age_s = now_ns > gauge->last.now_ns ? (double)(now_ns - gauge->last.now_ns) / 1e9 : 0;
	ret_report->queue_s = queue_of(gauge);
	ret_report->backlog = gauge->last.waiting;
	ret_report->in_service = value(&gauge->in_service);
	ret_report->rate_per_s = value(&gauge->rate);
	ret_report->cpu_s = cpu_s;
	ret_report->io_s = io_s;
	ret_report->service_s = cpu_s >= 0 && io_s >= 0 ? cpu_s + gauge->alpha * io_s : -1;
	ret_report->processors = gauge->last.processors;
	ret_report->busy = busy_of(gauge);
	ret_report->cpu_total_s = gauge->cpu_total_s;
	ret_report->requests = gauge->requests;
	ret_report->in_service_s = gauge->in_service_s;
	ret_report->self_cpu = value(&gauge->self);
}
