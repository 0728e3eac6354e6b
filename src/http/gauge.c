/* SPDX-License-Identifier: Apache-2.0 */
#include "http/gauge.h"

#include <math.h>

#define QUEUE_S       .25 /* over which the queue's means fade */
#define QUEUE_PERIODS 2.
#define RATE_S        2. /* over which the others do */
#define RATE_PERIODS  5.
#define LIGHT         .5  /* part of the processors below which time in service is not waiting for them */
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

static bool is_calm(const weir_gauge *gauge)
{
	double cpu = value(&gauge->cpu), processors = gauge->last.processors;
	return cpu >= 0 && processors > 0 && cpu + fmax(value(&gauge->delay), 0) < LIGHT * processors;
}

static double io_of(const weir_gauge *gauge)
{
	double requests = gauge->calm_requests.sum;
	if (requests < CALM_LEAST || gauge->calm_in_service.weight <= 0)
		return -1;
	return fmax((gauge->calm_in_service.sum - gauge->calm_cpu.sum) / requests, 0);
}

static void learn_io(weir_gauge *gauge, double in_service, double requests, double cpu_s, double dt_s)
{
	if (in_service < 0 || requests < 0 || cpu_s < 0 || !is_calm(gauge))
		return;
	double over_s = fmax(CALM_S, RATE_PERIODS * gauge->every_s);
	add(&gauge->calm_in_service, in_service * dt_s, dt_s, over_s);
	add(&gauge->calm_requests, requests, dt_s, over_s);
	add(&gauge->calm_cpu, cpu_s, dt_s, over_s);
}

static void learn(weir_gauge *gauge, const weir_gauge_sample *now, double dt_s)
{
	const weir_gauge_sample *last = &gauge->last;
	double queue_s = fmax(QUEUE_S, QUEUE_PERIODS * gauge->every_s),
	       rate_s = fmax(RATE_S, RATE_PERIODS * gauge->every_s);
	double requests = growth(last->requests, now->requests),
	       cpu_s = growth(last->cpu_total_s, now->cpu_total_s);
	add_level(&gauge->waiting, now->waiting, dt_s, queue_s);
	add_level(&gauge->oldest, now->oldest_s, dt_s, queue_s);
	add_level(&gauge->in_service, now->in_service, dt_s, queue_s);
	add_growth(&gauge->rate, requests, dt_s, rate_s);
	add_growth(&gauge->cpu, cpu_s, dt_s, rate_s);
	add_growth(&gauge->delay, growth(last->cpu_delay_s, now->cpu_delay_s), dt_s, rate_s);
	add_growth(&gauge->self, growth(last->self_cpu_s, now->self_cpu_s), dt_s, rate_s);
	learn_io(gauge, now->in_service, requests, cpu_s, dt_s);
	gauge->requests += fmax(requests, 0);
	gauge->cpu_total_s += fmax(cpu_s, 0);
	gauge->in_service_s += fmax(now->in_service, 0) * dt_s;
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
