/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `adaptive-remote` learns, once a tick.
 *
 *	drain    time per good answer while saturated
 *	wait     what a class can afford to wait: with R(q) the quantiles of the time that the backend takes,
 *	             base = min(T - R(1 - .7 (1 - q)), 2T - R(98 %))
 *	         extended or shortened by the credit: a request started earns the share that may be late (half of it while the class is
 *	         shed), a late answer costs one. So nothing is shed for being late while few enough are.
 *	room     caution x wait / drain: how many of a class and above may wait. The time per request of a lower class is longer by the
 *	         share that higher classes take.
 *	quality  falls as what waits of a class and above nears what the base, without credit, has room for, and while the class is shed (degrade.c)
 *	caution  falls while more than one in two hundred of what is let in must be dropped after all, rises otherwise.
 */
#include <math.h>

#include "laws/old/remote.h"

#define REMEMBERED       1000. /* answers in the quantiles, to twice that */
#define REMEMBERED_MOVED 50.   /* of those at another level */
#define FAILURES_TRUST   .5    /* beyond this share of failures the rest says nothing about capacity */
#define TRUST_OVER       30.   /* answers and failures */
#define DROPS_WANTED     .005
#define OUTDATED         4.
#define CAUTION_LEAST    .2
#define HUNG_TIMES       64u /* places: so many requests may hang before they use up the limit */
#define PRESENT_NS       (10 * WEIR_NS_PER_S)
#define BACKEND_SHARE \
	.25 /* of the target that the backend should take, in the mean, where it can be helped */
#define CREDIT_LEAST 20.
#define CREDIT_NS    1e8
#define CREDIT_TIMES 3.  /* targets by which a full credit extends the wait */
#define SERVED_NS    1e9 /* over which a class's share and rate are averaged */

/* What has happened since the last tick. */
struct news {
	uint32_t answers, starts, unsaturated, dropped, failed, refused;
	uint32_t started[WEIR_CLASSES], late[WEIR_CLASSES];
	int32_t waiting[WEIR_CLASSES];
	bool saturated, trusted;
};

static uint32_t since(const _Atomic uint32_t *counter, uint32_t *seen)
{
	uint32_t now = atomic_load_explicit(counter, memory_order_relaxed), more = now - *seen;
	*seen = now;
	return more;
}

static void gather(weir_remote *r, const weir_sample *sample, struct news *news)
{
	*news = (struct news){.answers = weir_knee_take(&r->knee, &r->recent),
			      .unsaturated = since(&r->unsaturated, &r->seen_unsaturated),
			      .dropped = since(&r->dropped, &r->seen_dropped),
			      .failed = since(&r->failed, &r->seen_failed),
			      .refused = since(&r->refused, &r->seen_refused)};
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		uint64_t flow = atomic_load_explicit(&r->flow[k], memory_order_relaxed);
		uint32_t started = weir_flow_started(flow);
		news->waiting[k] = weir_flow_waiting(flow);
		news->started[k] = started - r->seen_started[k];
		news->late[k] = since(&r->late[k], &r->seen_late[k]);
		news->starts += news->started[k];
		r->seen_started[k] = started;
		if (sample->klass[k].offered != 0)
			r->present_ns[k] = sample->now_ns;
	}
	news->saturated = news->unsaturated == 0 && sample->waiting != 0;
	r->good += news->answers;
	r->bad += news->failed + news->refused;
	if (r->good + r->bad > TRUST_OVER) {
		r->good /= 2;
		r->bad /= 2;
	}
	news->trusted = r->bad <= FAILURES_TRUST * (r->good + r->bad);
	if (news->answers != 0 || r->answered_ns == 0 || sample->in_service == 0)
		r->answered_ns = sample->now_ns;
}

static void add_waiting(weir_remote *r, struct news *news, unsigned k, int64_t more)
{
	if (more == 0)
		return;
	news->waiting[k] += (int32_t)more;
	atomic_fetch_add_explicit(&r->flow[k], (uint64_t)more, memory_order_relaxed);
}

/* The lowest class that something was offered of lately. */
static unsigned lowest_present(const weir_remote *r, uint64_t now_ns)
{
	unsigned lowest = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		if (r->present_ns[k] != 0 && now_ns - r->present_ns[k] < PRESENT_NS)
			lowest = k;
	return lowest;
}

/*
 * Where the law is told of events that it did not let in, or not told of some that wait (exempt ones), its own counts drift: the
 * runtime's are right. Nor does less than nothing wait of a class; or one would have for ever what another lacks.
 */
static void correct_waiting(weir_remote *r, const weir_sample *sample, struct news *news)
{
	int64_t wrong = (int64_t)sample->waiting;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		add_waiting(r, news, k, news->waiting[k] < 0 ? -(int64_t)news->waiting[k] : 0);
		wrong -= news->waiting[k];
	}
	for (unsigned k = WEIR_CLASSES; k-- > 0 && wrong < 0;) {
		int64_t gone = news->waiting[k] < -wrong ? news->waiting[k] : -wrong;
		add_waiting(r, news, k, -gone);
		wrong += gone;
	}
	add_waiting(r, news, lowest_present(r, sample->now_ns), wrong);
}

/* ---- the backend ---- */

/*
 * Without being saturated the backend does this much, by Little's law, so it can do that at least: a time per answer several times as long is
 * from a stall that is over. Rooms made by it would keep the queue so short that the backend is never saturated again.
 */
static bool is_outdated(double drain_ns, double now_ns, const struct news *news)
{
	return news->trusted && news->answers != 0 && now_ns > 0 && drain_ns > OUTDATED * now_ns;
}

static void learn_drain(weir_remote *r, const weir_sample *sample, const struct news *news,
			double response_ns)
{
	double drain_ns = weir_drain_time_ns(&r->drain);
	double now_ns = response_ns / fmax(weir_overdue_fresh(&r->overdue), 1);
	if (news->saturated && news->trusted && drain_ns > 0)
		weir_drain_saw(&r->drain, sample->interval_ns, news->answers, r->least_target_ns);
	else if (drain_ns == 0 && r->recent.total >= 4)
		weir_drain_assume(&r->drain, response_ns / weir_knee_limit(&r->knee));
	else if (!news->saturated && is_outdated(drain_ns, now_ns, news))
		weir_drain_assume(&r->drain, now_ns);
}

static void learn_limit(weir_remote *r, const weir_sample *sample, const struct news *news,
			double response_ns)
{
	double variance,
		cut_ns = weir_spread_mean(&r->recent, weir_spread_quantile(&r->recent, .8), &variance);
	weir_knee_view view = {.now_ns = sample->now_ns,
			       .response_ns = response_ns,
			       .tail = cut_ns > 0 ? weir_spread_mean(&r->recent, INFINITY, &variance) / cut_ns
						  : 1,
			       .most_ns = BACKEND_SHARE * (double)r->least_target_ns,
			       .in_flight = (uint32_t)weir_overdue_fresh(&r->overdue),
			       .starts = news->starts,
			       .unsaturated = news->unsaturated,
			       .refused = news->refused != 0,
			       .trusted = news->trusted};
	weir_knee_tick(&r->knee, &view);
	if (r->knee.moved && r->recent.total > REMEMBERED_MOVED)
		weir_spread_fade(&r->recent, REMEMBERED_MOVED / r->recent.total);
	r->knee.moved = false;
}

/*
 * Requests that hang must not use up the limit for good. While others are answered, those are on top of it; when nothing comes back
 * at all, a probe now and then is.
 */
static void learn_allowance(weir_remote *r, const weir_sample *sample)
{
	uint64_t silent_ns = sample->now_ns - r->answered_ns, patience_ns = 2 * r->target_ns[0];
	uint32_t overdue, most = HUNG_TIMES * r->knee.level[1];
	weir_overdue_tick(&r->overdue, sample->now_ns);
	overdue = (uint32_t)weir_overdue_count(&r->overdue);
	if (silent_ns > 4 * patience_ns && silent_ns / patience_ns < most)
		most = (uint32_t)(silent_ns / patience_ns);
	atomic_store_explicit(&r->allowance, overdue < most ? overdue : most, memory_order_relaxed);
}

static double learn_times(weir_remote *r)
{
	double variance, cut = weir_spread_quantile(&r->recent, .95);
	double mean_ns = weir_spread_mean(&r->recent, cut, &variance);
	atomic_store_explicit(&r->response_ns, mean_ns, memory_order_relaxed);
	weir_spread_take(&r->responses, &r->response, NULL);
	atomic_store_explicit(&r->measured_ns, (uint64_t)weir_spread_quantile(&r->responses, r->quantile),
			      memory_order_relaxed);
	atomic_store_explicit(&r->unreachable,
			      r->recent.total >= 50 && weir_spread_quantile(&r->recent, r->quantile) >
							       (double)r->least_target_ns,
			      memory_order_relaxed);
	if (r->recent.total > 2 * REMEMBERED)
		weir_spread_fade(&r->recent, .5);
	if (r->responses.total > REMEMBERED)
		weir_spread_fade(&r->responses, .5);
	return mean_ns;
}

/* ---- the classes ---- */

static double most_credit(double drain_ns)
{
	return drain_ns > 0 ? fmax(CREDIT_LEAST, CREDIT_NS / drain_ns) : CREDIT_LEAST;
}

static void learn_credit(weir_remote *r, unsigned k, const weir_sample *sample, const struct news *news)
{
	double most = most_credit(weir_drain_time_ns(&r->drain));
	double earned = (1 - r->quantile) * news->started[k] * (sample->klass[k].shed != 0 ? .5 : 1);
	double credit = (r->credit[k] + earned - news->late[k]) / most;
	r->credit[k] = fmin(fmax(credit, -1), 1) * most;
}

/* Without credit. */
static double base_of(const weir_remote *r, unsigned k, double usual, double longest)
{
	double target = (double)r->target_ns[k];
	return fmax(fmin(target - usual, 2 * target - longest), target / 8);
}

static double wait_of(const weir_remote *r, unsigned k, double usual, double base)
{
	double target = (double)r->target_ns[k];
	double x = r->credit[k] / most_credit(weir_drain_time_ns(&r->drain));
	base += x > 0 ? x * x * CREDIT_TIMES * target : x * fmin(usual, base / 2);
	/* The next one to be started waits for an answer: with less patience than that all would be dropped. */
	return fmax(base, fmin(2 * weir_drain_time_ns(&r->drain), target / 2));
}

static uint32_t whole(double places)
{
	return places < 1 ? 1 : places < 1e9 ? (uint32_t)(places + .5) : 1000000000;
}

static double places_of(const weir_remote *r, unsigned k, double wait_ns, double above)
{
	double drain_ns = weir_drain_time_ns(&r->drain);
	if (drain_ns == 0)
		return 4. * weir_knee_limit(&r->knee);
	/* However many the backend has: all of them together must drain within the target. */
	double fit = fmax((double)r->target_ns[k], wait_ns) / drain_ns - weir_overdue_fresh(&r->overdue);
	return fmin(r->caution * wait_ns / drain_ns, fit) * (1 - fmin(above, .95));
}

/*
 * How short of room a class is. Credit is what few late answers have earned: while it lasts more may wait than the target has room for, so
 * nobody is shed, but then it is time already to do with less.
 */
static void learn_quality(weir_remote *r, unsigned k, const weir_sample *sample, double places, int64_t ahead)
{
	bool shed = sample->klass[k].shed != 0;
	double room = weir_drain_time_ns(&r->drain) > 0 ? (double)ahead / fmax(places, 1) : 0;
	weir_degrade_sample seen = {.interval_s = (double)sample->interval_ns / 1e9,
				    .target_s = (double)r->target_ns[k] / 1e9,
				    .least = r->quality_least,
				    .room = shed ? fmax(room, 1) : room};
	weir_degrade_step(&r->degrade[k], &seen);
}

static void set_rooms(weir_remote *r, const weir_sample *sample, const struct news *news, unsigned starving)
{
	double drain_ns = weir_drain_time_ns(&r->drain), above = 0;
	int64_t ahead = 0;
	double usual = weir_spread_quantile(&r->recent, 1 - .7 * (1 - r->quantile));
	double longest = weir_spread_quantile(&r->recent, .98);
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		double base_ns = base_of(r, k, usual, longest), wait_ns = wait_of(r, k, usual, base_ns);
		double places = places_of(r, k, wait_ns, above);
		bool due = k != 0 && r->minimum[k] > 0 && drain_ns > 0;
		uint32_t room =
			k < starving && r->yield <= 0 ? 0 : whole(k < starving ? places * r->yield : places);
		atomic_store_explicit(&r->room[k], room, memory_order_relaxed);
		atomic_store_explicit(&r->patience_ns[k], (uint64_t)wait_ns, memory_order_relaxed);
		atomic_store_explicit(&r->due_every_ns[k], due ? (uint64_t)(drain_ns / r->minimum[k]) + 1 : 0,
				      memory_order_relaxed);
		ahead += news->waiting[k];
		learn_quality(r, k, sample, places_of(r, k, fmin(base_ns, wait_ns), above), ahead);
		above += r->share[k];
	}
}

/*
 * The lowest class that waits and does not get its minimum, 0: none. Those above it take all there is, so they have to
 * leave some: less and less of them is let in until it gets its part.
 */
static unsigned learn_yield(weir_remote *r, const struct news *news)
{
	unsigned starving = 0;
	for (unsigned k = 1; k < WEIR_CLASSES; k++)
		if (news->waiting[k] > 0 && r->share[k] < r->minimum[k])
			starving = k;
	r->yield = fmin(fmax(r->yield + (starving != 0 ? -.1 : .05), 0), 1);
	return starving;
}

static void learn_shares(weir_remote *r, const weir_sample *sample, const struct news *news)
{
	double weight = fmin((double)sample->interval_ns / SERVED_NS, 1);
	uint32_t shedding = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		double share = news->starts > 0 ? (double)news->started[k] / news->starts : 0;
		if (news->starts > 0)
			r->share[k] += weight * (share - r->share[k]);
		shedding |= (uint32_t)(sample->klass[k].shed != 0) << k;
	}
	atomic_store_explicit(&r->shedding, shedding, memory_order_relaxed);
}

/* By as much as the drops of a whole queueful are too many. */
static void learn_caution(weir_remote *r, const struct news *news)
{
	double drain_ns = weir_drain_time_ns(&r->drain);
	double queue = drain_ns > 0 ? fmax((double)r->least_target_ns / drain_ns, 4) : 16;
	double excess = news->dropped - DROPS_WANTED * (news->starts + news->dropped);
	double factor = 1 - fmin(fmax(excess / queue, -.1), .1);
	r->caution = fmin(fmax(r->caution * factor, CAUTION_LEAST), 1);
}

void weir_remote_tell(weir_remote *r)
{
	atomic_store_explicit(&r->drain_ns, weir_drain_time_ns(&r->drain), memory_order_relaxed);
	atomic_store_explicit(&r->told_low, r->knee.searching ? r->knee.low : 0, memory_order_relaxed);
	atomic_store_explicit(&r->told_level, r->knee.searching ? 0 : r->knee.level[1], memory_order_relaxed);
	atomic_store_explicit(&r->told_elasticity, r->knee.elasticity, memory_order_relaxed);
	atomic_store_explicit(&r->told_caution, r->caution, memory_order_relaxed);
}

void weir_old_remote_tick(void *state, const weir_sample *sample)
{
	weir_remote *r = state;
	struct news news;
	gather(r, sample, &news);
	correct_waiting(r, sample, &news);
	double response_ns = learn_times(r);
	learn_drain(r, sample, &news, response_ns);
	learn_limit(r, sample, &news, response_ns);
	learn_allowance(r, sample);
	learn_shares(r, sample, &news);
	learn_caution(r, &news);
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		learn_credit(r, k, sample, &news);
	set_rooms(r, sample, &news, learn_yield(r, &news));
	weir_remote_tell(r);
}
