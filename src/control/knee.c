/* SPDX-License-Identifier: Apache-2.0 */
#include "control/knee.h"

#include <math.h>
#include <stddef.h>

#define FIRST_LEVEL 4
#define MOST_LEVEL  100000.
#define APART       1.4 /* high / low */
#define WANTED      .85 /* e at rest */
#define DOUBTS      2.5 /* standard errors that make a difference */
#define CLUSTERED   1.3 /* answers come in clusters: errors are larger than if they were independent */
#define ENOUGH      30  /* answers at each level before anything is decided */
#define PLENTY      .1  /* a standard error at which it is decided anyway */
#define ROUND_LEAST 16. /* answers that an epoch should bring */
#define REST_MOST   8
#define FOREVER     UINT64_MAX
#define RAISE_NS    1000000000u

/* ---- comparing the levels ---- */

/* e, and its standard error. */
static double elasticity(const weir_knee *knee, unsigned low, double *ret_error)
{
	const weir_spread *a = &knee->arm[low], *b = &knee->arm[1 - low];
	double cut = fmax(weir_spread_quantile(a, .9), weir_spread_quantile(b, .9)), va, vb;
	double ma = weir_spread_mean(a, cut, &va), mb = weir_spread_mean(b, cut, &vb);
	double apart = log((double)knee->level[1 - low] / knee->level[low]);
	*ret_error = CLUSTERED * sqrt(va / (ma * ma * a->total) + vb / (mb * mb * b->total)) / apart;
	return log(mb / ma) / apart;
}

static void forget(weir_knee *knee)
{
	weir_spread_clear(&knee->arm[0]);
	weir_spread_clear(&knee->arm[1]);
	knee->starts = knee->unsaturated = 0;
}

/* ---- epochs ---- */

static void set_window(weir_knee *knee, unsigned arm, uint64_t from_ns, uint64_t until_ns)
{
	atomic_store_explicit(&knee->from_ns[arm], from_ns, memory_order_relaxed);
	atomic_store_explicit(&knee->until_ns[arm], until_ns, memory_order_relaxed);
}

/* Starts that lie in this arm's window count for it from a round after now. */
static void begin_epoch(weir_knee *knee, unsigned arm, const weir_knee_view *view)
{
	double round = view->response_ns, body = round * fmax(1, ROUND_LEAST / knee->level[arm]);
	uint64_t from_ns = view->now_ns + (uint64_t)round;
	if (arm == 1 && knee->searching)
		body *= knee->rest;
	knee->current = arm;
	knee->epoch_ns = view->now_ns;
	knee->length_ns = (uint64_t)(round + body + round / 2);
	set_window(knee, arm, from_ns, knee->searching ? from_ns + (uint64_t)body : FOREVER);
	atomic_store_explicit(&knee->limit, knee->level[arm], memory_order_relaxed);
}

/* ---- the search ---- */

/* What neither the target nor the backend's refusals allow to exceed; two, since one level needs another to compare with. */
static double most_now(const weir_knee *knee, const weir_knee_view *view)
{
	double bound = atomic_load_explicit(&knee->bound, memory_order_relaxed);
	return fmax(fmin(fmin(view->most, bound), MOST_LEVEL), 2);
}

/* Puts the pair around a new low and begins at its high. */
static void move_to(weir_knee *knee, double low, const weir_knee_view *view)
{
	knee->low = fmax(fmin(low, most_now(knee, view) / APART), 1);
	knee->level[0] = (uint32_t)(knee->low + .5);
	knee->level[1] = (uint32_t)fmax(knee->low * APART + .5, knee->level[0] + 1);
	forget(knee);
	begin_epoch(knee, 1, view);
}

/* Steps are of a place at least, or small levels would never move. */
static double stepped(double low, double factor)
{
	double next = low * factor;
	if (factor > 1)
		return fmax(next, low + 1);
	return fmin(next, low - 1);
}

static void decide(weir_knee *knee, const weir_knee_view *view)
{
	double error, e, enough = ENOUGH;
	if (knee->arm[0].total < enough || knee->arm[1].total < enough)
		return;
	e = elasticity(knee, 0, &error);
	if (fabs(e - WANTED) < DOUBTS * error && error > PLENTY)
		return;
	knee->elasticity = e;
	if (e < WANTED) {
		knee->rest = 1;
		move_to(knee, stepped(knee->low, e < .4 ? APART : 1.15), view);
	} else {
		knee->rest = knee->rest * 2 < REST_MOST ? knee->rest * 2 : REST_MOST;
		move_to(knee, stepped(knee->low, e > 1.4 ? 1 / APART : 1 / 1.15), view);
	}
}

static void search(weir_knee *knee, const weir_knee_view *view)
{
	double most = most_now(knee, view);
	if (knee->level[1] > most * 1.1 + 1) {
		move_to(knee, most / APART, view);
		return;
	}
	if (view->now_ns - knee->epoch_ns < knee->length_ns)
		return;
	decide(knee, view);
	if (view->now_ns != knee->epoch_ns)
		begin_epoch(knee, 1 - knee->current, view);
}

/* ---- slow start ---- */

static void end_slow_start(weir_knee *knee, double low, const weir_knee_view *view)
{
	knee->searching = true;
	knee->rest = 1;
	move_to(knee, low, view);
}

static void double_level(weir_knee *knee, const weir_knee_view *view)
{
	unsigned next = 1 - knee->current;
	double wanted = 2. * knee->level[knee->current];
	double most = most_now(knee, view);
	if (wanted > most) {
		end_slow_start(knee, most / APART, view);
		return;
	}
	set_window(knee, knee->current, 0, 0);
	weir_spread_clear(&knee->arm[next]);
	knee->level[next] = (uint32_t)wanted;
	knee->starts = knee->unsaturated = 0;
	begin_epoch(knee, next, view);
}

static void slow_start(weir_knee *knee, const weir_knee_view *view)
{
	unsigned now = knee->current, before = 1 - now;
	double count = knee->arm[now].total, error;
	if (count < fmax(8, knee->level[now] / 2.))
		return;
	if (knee->arm[before].total == 0) {
		double_level(knee, view);
		return;
	}
	double e = elasticity(knee, before, &error);
	if (e + error < .75 || (count >= 64 && e < .55)) {
		double_level(knee, view);
	} else if (e - error > .4 || count >= 64) {
		knee->elasticity = e;
		/* Past the knee throughput is the same for both: it was at level / the rise of the response time. */
		double rise = exp(e * log(2)), knee_at = knee->level[now] / fmin(fmax(rise, 1), 2);
		end_slow_start(knee, knee_at, view);
	}
}

/* ---- refusals ---- */

void weir_knee_refused(weir_knee *knee, uint32_t in_flight)
{
	uint32_t bound = atomic_load_explicit(&knee->bound, memory_order_relaxed), wanted = in_flight > 1 ? in_flight : 1;
	while (wanted < bound && !atomic_compare_exchange_weak_explicit(&knee->bound, &bound, wanted, memory_order_relaxed,
									 memory_order_relaxed))
		;
}

/* After a second without one, up by a place, and then by twice as many each second. */
static void raise_bound(weir_knee *knee, bool refused, uint64_t now_ns)
{
	uint32_t bound = atomic_load_explicit(&knee->bound, memory_order_relaxed);
	if (refused) {
		knee->step = 1;
		knee->raise_ns = now_ns + RAISE_NS;
	}
	if (bound == UINT32_MAX || now_ns < knee->raise_ns)
		return;
	double raised = bound + knee->step;
	knee->step *= 2;
	knee->raise_ns = now_ns + RAISE_NS;
	atomic_compare_exchange_strong_explicit(&knee->bound, &bound,
						raised < MOST_LEVEL ? (uint32_t)raised : UINT32_MAX,
						memory_order_relaxed, memory_order_relaxed);
}

/* ---- from outside ---- */

void weir_knee_init(weir_knee *knee)
{
	knee->low = FIRST_LEVEL;
	knee->level[0] = FIRST_LEVEL;
	knee->rest = 1;
	atomic_init(&knee->bound, UINT32_MAX);
	atomic_init(&knee->limit, FIRST_LEVEL);
	atomic_init(&knee->until_ns[0], FOREVER);
}

void weir_knee_assume(weir_knee *knee, uint32_t low)
{
	weir_knee_view view = {.most = MOST_LEVEL};
	end_slow_start(knee, low, &view);
}

uint32_t weir_knee_take(weir_knee *knee, weir_spread *recent)
{
	return weir_spread_take(recent, &knee->other_tally, NULL) +
	       weir_spread_take(&knee->arm[0], &knee->arm_tally[0], recent) +
	       weir_spread_take(&knee->arm[1], &knee->arm_tally[1], recent);
}

static void measure_again(weir_knee *knee, const weir_knee_view *view)
{
	if (knee->searching)
		forget(knee);
	else
		weir_spread_clear(&knee->arm[knee->current]);
	knee->starts = knee->unsaturated = 0;
	begin_epoch(knee, knee->searching ? 1 : knee->current, view);
}

void weir_knee_tick(weir_knee *knee, const weir_knee_view *view)
{
	raise_bound(knee, view->refused, view->now_ns);
	if (!(view->response_ns > 0))
		return;
	knee->starts += view->starts;
	knee->unsaturated += view->unsaturated;
	/* What the levels did not fill says nothing about them. */
	if (!view->trusted || knee->unsaturated > 2 + knee->starts / 10) {
		measure_again(knee, view);
		return;
	}
	if (knee->searching)
		search(knee, view);
	else
		slow_start(knee, view);
}
