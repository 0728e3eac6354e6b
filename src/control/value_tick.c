/* SPDX-License-Identifier: Apache-2.0 */
/* What `value` learns once per tick: costs, work done, rooms, the price. value.h defines the terms. */
#include <math.h>

#include "control/value.h"

#define LATE_PART    .5 /* of the late answers aimed at, while OVERLOAD times as much is offered as is done */
#define OVERLOAD     1.5
#define SCARCE       .05  /* of the offered work: prices count while as much is refused */
#define PART         .5   /* of the room, for the marginal price */
#define CHANGE       2.   /* factor on the typical cost by which it becomes another */
#define NOTHING      .125 /* of the room: work done lately that is next to nothing */
#define GAIN         .5   /* of the capacity's correction */
#define COST_OVER    64   /* requests over which a class's mean cost is averaged */
#define OWN_OVER     1024 /* answers over which the times of requests of unknown cost are averaged */
#define OWN_LEAST    32   /* and without which they say little */
#define MEMORY_S     1.   /* over which offers are counted: at least this, ... */
#define MEMORY       4.   /* ... this many targets, ... */
#define MEMORY_COUNT 100. /* ... and the time in which this many are answered */

static double since(const _Atomic uint64_t *counter, uint64_t *seen)
{
	uint64_t now = atomic_load_explicit(counter, memory_order_relaxed), more = now - *seen;
	*seen = now;
	return (double)more;
}

/* Events that the law was not asked about make its count of waiting work drift. An empty queue has none. */
static void correct_waiting(weir_value *v, const weir_sample *sample)
{
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		bool below = atomic_load_explicit(&v->waiting[k].us, memory_order_relaxed) < 0;
		if (sample->waiting == 0 || below)
			atomic_store_explicit(&v->waiting[k].us, 0, memory_order_relaxed);
		below = atomic_load_explicit(&v->waiting[k].unknown, memory_order_relaxed) < 0;
		if (sample->waiting == 0 || below)
			atomic_store_explicit(&v->waiting[k].unknown, 0, memory_order_relaxed);
	}
}

/* An average over about `over` samples, after count more with this mean. */
static double average(double now, double mean, double count, double over)
{
	return now > 0 ? now + (1 - pow(1 - 1 / over, count)) * (mean - now) : mean;
}

static void learn_mean(weir_value_mean *mean, double us, double count, double over)
{
	if (count <= 0)
		return;
	mean->seen = fmin(mean->seen + count, fmax(over, count));
	mean->us += count / mean->seen * (us / count - mean->us);
}

/* What requests of unknown cost are taken to cost. */
static double typical_us(const weir_value *v, unsigned klass)
{
	const weir_value_mean *own = &v->own_mean[klass], *all = &v->own_mean[WEIR_CLASSES];
	if (all->seen >= OWN_LEAST) /* the fewer of this class, the more the others count */
		return (own->seen * own->us + OWN_LEAST * all->us) / (own->seen + OWN_LEAST);
	if (v->mean[klass].seen > 0)
		return v->mean[klass].us;
	return v->mean[WEIR_CLASSES].seen > 0 ? v->mean[WEIR_CLASSES].us : WEIR_VALUE_COST_GUESS;
}

/* Learns from what was offered. Returns how many offers there were of known cost. */
static double learn_offers(weir_value *v)
{
	double all_us = 0, all = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		double us = since(&v->known_us[k], &v->seen_known_us[k]);
		double count = since(&v->known[k], &v->seen_known[k]);
		learn_mean(&v->mean[k], us, count, COST_OVER);
		all_us += us;
		all += count;
	}
	learn_mean(&v->mean[WEIR_CLASSES], all_us, all, COST_OVER);
	return all;
}

static void clear_price(weir_value *v)
{
	weir_knapsack_clear(&v->knapsack);
	v->done_lately = v->refused_lately = v->time_lately = v->filled_lately = 0;
	v->told_price = v->told_capacity = 0;
	v->remote.late_most = v->late_usual;
}

/* Sums of work that was measured in guesses mean nothing any more. */
static void renew_work(weir_value *v)
{
	clear_price(v);
	atomic_store_explicit(&v->mean_us, 0, memory_order_relaxed);
}

/* Learns from what was answered. Returns its expected work. */
static double learn_answers(weir_value *v)
{
	double sum_us = since(&v->done_us, &v->seen_done_us);
	bool changed = false;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		uint32_t done = atomic_load_explicit(&v->done_unknown[k], memory_order_relaxed);
		double own_us = since(&v->own_us[k], &v->seen_own_us[k]);
		sum_us += weir_value_typical_us(v, k) * (done - v->seen_unknown[k]);
		v->seen_unknown[k] = done;
		double own = since(&v->own[k], &v->seen_own[k]);
		learn_mean(&v->own_mean[k], own_us, own, OWN_OVER);
		learn_mean(&v->own_mean[WEIR_CLASSES], own_us, own, OWN_OVER);
		double was = weir_value_typical_us(v, k), now = typical_us(v, k);
		changed |= now > CHANGE * was || was > CHANGE * now;
		/* While they are learnt, some classes would be measured in guesses, and others not. */
		if (v->calibration.phase != WEIR_CALIBRATION_LEARN)
			atomic_store_explicit(&v->typical_us[k], now, memory_order_relaxed);
	}
	bool matters = v->calibration.unknown > WEIR_CALIBRATION_UNKNOWN;
	if (changed && matters && v->calibration.phase != WEIR_CALIBRATION_LEARN)
		renew_work(v);
	return sum_us;
}

static bool calibrate(weir_value *v, const weir_sample *sample, double answers, double known)
{
	double unknown = since(&v->asked_unknown, &v->seen_unknown_asked);
	weir_calibration_news news = {.s = (double)sample->interval_ns / 1e9,
				      .answers = answers,
				      .unknown = unknown,
				      .offered = unknown + known,
				      .serving = weir_remote_serving(&v->remote),
				      .busy = sample->waiting != 0 ||
					      atomic_load_explicit(&v->remote.limited, memory_order_relaxed),
				      .ever_calm = v->remote.ever_steady,
				      .cap = atomic_load_explicit(&v->remote.cap, memory_order_relaxed)};
	return weir_calibration_tick(&v->calibration, &news);
}

/* Nor do times, which are compared per cost. Requests that are on their way count at their ends. */
static void renew_times(weir_remote *r)
{
	for (unsigned i = 0; i < WEIR_REMOTE_LEVELS; i++) {
		weir_remote_level *level = &r->level[i];
		weir_times_clear(&level->times);
		level->seen = 0;
	}
	weir_times_clear(&r->recent);
	r->base = INFINITY;
	r->base_seen = r->judged_seen = r->slow_seen = 0;
	for (unsigned i = 0; i < WEIR_REMOTE_MARKS; i++)
		atomic_store_explicit(&r->slow_from[i], 0, memory_order_relaxed);
	atomic_store_explicit(&r->beta, 0, memory_order_relaxed);
}

/* The mean cost of the answers, over as many as the rate is: their product is the work that is done. */
static void learn_done(weir_value *v, double us, double count)
{
	weir_remote *r = &v->remote;
	double target_s = (double)weir_remote_least_target_ns(r) / 1e9;
	double over = fmax(r->tuning.enough, r->tuning.window * r->rate * target_s);
	double mean = atomic_load_explicit(&v->mean_us, memory_order_relaxed);
	if (count > 0)
		atomic_store_explicit(&v->mean_us, average(mean, us / count, count, over),
				      memory_order_relaxed);
}

static void set_rooms(weir_value *v)
{
	const weir_remote *r = &v->remote;
	double beta = exp((double)atomic_load_explicit(&r->beta, memory_order_relaxed));
	double mean_us = atomic_load_explicit(&v->mean_us, memory_order_relaxed);
	bool open = atomic_load_explicit(&r->limit[0], memory_order_relaxed) == WEIR_REMOTE_OPEN;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		double fit = fmax(beta * r->rate * weir_remote_bound_ns(r, k) / 1e9, 1);
		atomic_store_explicit(&v->room_us[k], open ? 0 : fmax(fit * mean_us, 1),
				      memory_order_relaxed);
	}
}

double weir_value_filled(const weir_value *v)
{
	double room = atomic_load_explicit(&v->room_us[0], memory_order_relaxed);
	return room > 0 ? weir_value_ahead_us(v) / room : 0;
}

/*
 * What is done while the backend is full is its capacity. If it is not full, more can be done. If the room
 * is fuller than the marginal price may fill it, the price is too low.
 */
static void set_price(weir_value *v, double s, double done_us)
{
	const weir_remote *r = &v->remote;
	double target_s = (double)weir_remote_least_target_ns(r) / 1e9;
	double over_s = fmax(MEMORY_S, fmax(MEMORY * target_s, MEMORY_COUNT / fmax(r->rate, 1e-3)));
	double keep = exp(-s / over_s);
	weir_knapsack_count(&v->knapsack, keep);
	v->done_lately = keep * v->done_lately + done_us;
	v->refused_lately = keep * v->refused_lately + since(&v->refused_us, &v->seen_refused_us);
	v->time_lately = keep * v->time_lately + s;
	v->filled_lately = keep * v->filled_lately + s * fmin(weir_value_filled(v), 2);
	double fill = v->filled_lately / v->time_lately;
	double capacity = v->done_lately * (1 + GAIN * fmin(fmax(PART - fill, -1), 1));
	/* If next to nothing is done, the empty room says how much could be. No price keeps everybody out. */
	double room_us = atomic_load_explicit(&v->room_us[0], memory_order_relaxed);
	if (v->done_lately < NOTHING * room_us && v->time_lately > over_s / 2)
		capacity = fmax(capacity, GAIN * (PART - fill) * room_us);
	/* A healthy service whose room was full for a moment has no price: nobody has to be chosen. */
	double offered = weir_knapsack_offered(&v->knapsack);
	bool scarce = v->refused_lately > SCARCE * offered;
	weir_knapsack_fill(&v->knapsack, scarce ? capacity : INFINITY, PART);
	/* Where others would take the place of those that are late, few may be. A healthy service is left alone. */
	bool overload = offered > OVERLOAD * v->done_lately;
	v->remote.late_most = !scarce ? v->late_usual : (1 - v->remote.aimed) * (overload ? LATE_PART : 1);
	atomic_store_explicit(&v->told_capacity, capacity / v->time_lately / 1e6, memory_order_relaxed);
	atomic_store_explicit(&v->told_price,
			      v->knapsack.marginal == WEIR_KNAPSACK_BUCKETS
				      ? 0
				      : 1e6 * v->dearest / weir_knapsack_times(v->knapsack.marginal),
			      memory_order_relaxed);
}

/* Whether some were refused for their price: then the limit stays in force, however well the backend does. */
static bool was_outbid(weir_value *v)
{
	uint32_t outbid = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		uint32_t now = atomic_load_explicit(&v->refused[k], memory_order_relaxed);
		outbid |= (uint32_t)(now != v->seen_refused[k]) << k;
		v->seen_refused[k] = now;
	}
	atomic_store_explicit(&v->outbid, outbid, memory_order_relaxed);
	return outbid != 0;
}

/* While costs are learnt, that decides how many the backend gets. */
static void use_cap(weir_value *v)
{
	uint32_t cap = atomic_load_explicit(&v->calibration.cap, memory_order_relaxed);
	if (cap == 0)
		return;
	v->remote.cap_now = cap;
	atomic_store_explicit(&v->remote.cap, cap, memory_order_relaxed);
}

void weir_value_tick(void *state, const weir_sample *sample)
{
	weir_value *v = state;
	correct_waiting(v, sample);
	double count = since(&v->done, &v->seen_done), known = learn_offers(v);
	double done_us = learn_answers(v);
	learn_done(v, done_us, count);
	if (calibrate(v, sample, count, known)) {
		renew_work(v);
		renew_times(&v->remote);
	}
	v->remote.held = was_outbid(v);
	weir_remote_tick(&v->remote, sample);
	use_cap(v);
	set_rooms(v);
	if (atomic_load_explicit(&v->room_us[0], memory_order_relaxed) > 0)
		set_price(v, (double)sample->interval_ns / 1e9, done_us);
	else
		clear_price(v);
}
