/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `adaptive-remote` learns, once a tick. remote.h has the words.
 *
 *	evidence   the base is the median at the lowest levels. While more than half of the answers take `slow` times as long, the
 *	           backend is congested. So what is slow by nature, and a slow minority, is no evidence of load.
 *	rate       completions during the stay of slow requests over that time: geometric mean over half a target's worth of them
 *	limit      rate x target x beta, of what waits of a class and above, and gamma x what the backend has. In force from the first
 *	           congestion on, until there was neither congestion nor rejection for a while.
 *	growth     a limit that binds while nothing is slow is too low, and grows: without that a limit could stay low for ever
 *	cap        how many the backend gets: few at first, twice as many whenever requests wait and those inside are not slow
 *	below      own times above the target may be nature, or there may never have been few enough inside to see better: half as many are
 *	           sent, until they take no less for it
 *	less       while limited, does the backend do as much with fewer at once? Steps down are taken back where it does not
 */
#include <math.h>

#include "control/remote.h"

#define LN_SCALE       1000.
#define BASE_LEAST     8.  /* samples without which there is no base */
#define PROBE_SEEN     24. /* answers, after those that had met more */
#define PROBE_QUICK_S  1.
#define PROBE_PART     .7 /* of the target, spent in the backend */
#define LEVEL_LEAST    4u
#define LATE_MANY      2. /* times the share that may be late */
#define PROBE_S        2. /* seconds and times in the backend that a look below takes at most */
#define PROBE_TIMES    8.
#define OWN_ENOUGH     20. /* samples without which a target is not called unreachable */
#define SAME           1.3 /* times: a time that has fallen by less is the same */
#define NATURE_NS      (30 * WEIR_NS_PER_S)
#define PRESENT_NS     (10 * WEIR_NS_PER_S)
#define PART_LEAST     .3  /* of the limit, to the lowest class */
#define HYSTERESIS     .9  /* of the share from which on it is congested */
#define CALM_SHARE     .35 /* slow ones, as there are without any load */
#define LATE_TIMES     3.  /* times the share that may be late, from which on the late ones are dropped */
#define BETA_OVER      50. /* requests that beta moves over, at least */
#define TRIAL_ANSWERS  200.
#define TRIAL_LESS     .7
#define TRIAL_SAME     .93 /* of the rate before */
#define TRIAL_PAUSE_NS (10 * WEIR_NS_PER_S)
#define AGES_AHEAD \
	4 /* stretches that are still to come, so that what starts between two ticks finds its place */

/* What has happened since the last tick. */
struct news {
	double s;
	uint32_t answers, judged, slowed, late, plainly_late, shed;
	double took_ln, rates_ln, backend_s; /* sums */
	double target_s;                     /* the shortest */
};

static uint32_t since(const _Atomic uint32_t *counter, uint32_t *seen)
{
	uint32_t now = atomic_load_explicit(counter, memory_order_relaxed), more = now - *seen;
	*seen = now;
	return more;
}

static double sum_since(const _Atomic int64_t *sum, int64_t *seen)
{
	int64_t now = atomic_load_explicit(sum, memory_order_relaxed), more = now - *seen;
	*seen = now;
	return (double)more / LN_SCALE;
}

static uint64_t total_since(const _Atomic uint64_t *sum, uint64_t *seen)
{
	uint64_t now = atomic_load_explicit(sum, memory_order_relaxed), more = now - *seen;
	*seen = now;
	return more;
}

/* ---- counts ---- */

/* Requests that were started more than the ring's length ago are overdue. */
static void tick_ages(weir_remote *r, uint64_t now_ns)
{
	uint64_t oldest = atomic_load_explicit(&r->oldest, memory_order_relaxed);
	uint64_t wanted = (now_ns >> r->age_shift) + AGES_AHEAD;
	wanted = wanted > WEIR_REMOTE_AGES ? wanted - WEIR_REMOTE_AGES : 0;
	if (wanted > oldest + WEIR_REMOTE_AGES)
		oldest = wanted - WEIR_REMOTE_AGES; /* after a long sleep: all of them, once */
	for (; oldest < wanted; oldest++) {
		atomic_store_explicit(&r->oldest, oldest + 1, memory_order_relaxed);
		int32_t left =
			atomic_exchange_explicit(&r->age[oldest % WEIR_REMOTE_AGES], 0, memory_order_relaxed);
		if (left != 0)
			atomic_fetch_add_explicit(&r->overdue, left, memory_order_relaxed);
	}
}

/* Events that the law was not asked about make its own count of waiting ones drift. The runtime's count is right. */
static void correct_waiting(weir_remote *r, const weir_sample *sample)
{
	int32_t sum = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		sum += atomic_load_explicit(&r->waiting[k], memory_order_relaxed);
	if (sum != (int32_t)sample->waiting)
		atomic_fetch_add_explicit(&r->waiting[0], (int32_t)sample->waiting - sum,
					  memory_order_relaxed);
}

static void gather(weir_remote *r, const weir_sample *sample, struct news *news)
{
	uint32_t shedding = 0;
	*news = (struct news){.s = (double)sample->interval_ns / 1e9,
			      .answers = (uint32_t)total_since(&r->done, &r->seen_done),
			      .judged = since(&r->judged, &r->seen_judged),
			      .slowed = since(&r->slowed, &r->seen_slowed),
			      .late = since(&r->late, &r->seen_late),
			      .plainly_late = since(&r->plainly_late, &r->seen_plainly),
			      .took_ln = sum_since(&r->took_ln, &r->seen_took_ln),
			      .rates_ln = sum_since(&r->rates_ln, &r->seen_rates_ln),
			      .backend_s = (double)total_since(&r->backend_us, &r->seen_backend_us) / 1e6,
			      .target_s = (double)r->least_target_ns / 1e9};
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		uint32_t shed = since(&r->shed[k], &r->seen_shed[k]);
		news->shed += shed;
		shedding |= (uint32_t)(shed != 0) << k;
		if (sample->klass[k].offered != 0)
			r->present_ns[k] = sample->now_ns;
	}
	atomic_store_explicit(&r->shedding, shedding, memory_order_relaxed);
}

/* The weight of count more in an average over so many. */
static double part_of(double over, uint32_t count)
{
	return 1 - pow(1 - 1 / over, count);
}

static void learn_averages(weir_remote *r, const struct news *news)
{
	if (news->answers == 0)
		return;
	double part = r->recent_seen == 0 ? 1 : part_of(r->tuning.memory, news->answers);
	r->late_share += part * ((double)news->late / news->answers - r->late_share);
	r->plain_share += part * ((double)news->plainly_late / news->answers - r->plain_share);
	r->recent_ln += part * (news->took_ln / news->answers - r->recent_ln);
	r->backend_s += part * (news->backend_s / news->answers - r->backend_s);
	r->recent_seen += news->answers;
}

/* ---- evidence ---- */

/* What requests take at the lowest levels that enough of them have met; INFINITY: not known. */
static double learn_base(weir_remote *r)
{
	double sum = 0, seen = 0, enough = r->tuning.base_seen;
	unsigned top = WEIR_REMOTE_LEVELS;
	for (unsigned i = 0; i < WEIR_REMOTE_LEVELS && seen < enough; i++) {
		const weir_remote_level *level = &r->level[i];
		double more = fmin(atomic_load_explicit(&level->seen, memory_order_relaxed), enough - seen);
		if (more <= 0)
			continue;
		sum += more * atomic_load_explicit(&level->median, memory_order_relaxed);
		seen += more;
		top = i;
	}
	if (seen < BASE_LEAST)
		return INFINITY;
	/* Lower than ever before: what was known of own times is of more loaded ones. */
	if (top + 1 < atomic_load_explicit(&r->base_top, memory_order_relaxed))
		atomic_store_explicit(&r->own_seen, 0, memory_order_relaxed);
	atomic_store_explicit(&r->base_top, top, memory_order_relaxed);
	return sum / seen;
}

static bool judge(weir_remote *r, const struct news *news, double base)
{
	bool was = atomic_load_explicit(&r->congested, memory_order_relaxed);
	if (news->judged != 0) {
		r->judged_all = fmin(r->judged_all + news->judged, r->tuning.memory);
		double part = part_of(fmax(r->judged_all, 2), news->judged);
		r->slow_share += part * ((double)news->slowed / news->judged - r->slow_share);
	}
	atomic_store_explicit(&r->slow_from, isfinite(base) ? (float)(base + log(r->tuning.slow)) : 0,
			      memory_order_relaxed);
	bool is = r->slow_share > .5 * (was ? HYSTERESIS : 1);
	atomic_store_explicit(&r->congested, is, memory_order_relaxed);
	return is;
}

static void learn_rate(weir_remote *r, const struct news *news)
{
	if (news->slowed == 0)
		return;
	double over = fmax(r->tuning.enough, r->tuning.window * r->rate * news->target_s);
	r->rate_ln += news->rates_ln;
	r->rate_seen += news->slowed;
	if (r->rate_seen > 2 * over) {
		r->rate_ln /= 2;
		r->rate_seen /= 2;
	}
	r->rate = exp(r->rate_ln / r->rate_seen) * 1e9;
}

/* ---- how many the backend gets ---- */

static double own_s(const weir_remote *r, double enough)
{
	if (atomic_load_explicit(&r->own_seen, memory_order_relaxed) < enough)
		return 0;
	return exp(atomic_load_explicit(&r->own, memory_order_relaxed)) / 1e9;
}

/*
 * Whether what requests take now is what they take alone: 1 yes, -1 no, 0 nobody knows. Held against the lowest level that a few have met, if
 * that is half as many as now, or fewer.
 */
static int is_nature(const weir_remote *r)
{
	for (unsigned i = 0; i < WEIR_REMOTE_LEVELS; i++) {
		if (atomic_load_explicit(&r->level[i].seen, memory_order_relaxed) < LEVEL_LEAST)
			continue;
		if (exp2((i + 1) / 2.) > fmax(r->mean_serving / 2, 1.5))
			return 0;
		float median = atomic_load_explicit(&r->level[i].median, memory_order_relaxed);
		return r->recent_ln < median + log(SAME) ? 1 : -1;
	}
	return 0;
}

/* Half as many were sent, and those who met more have left. */
static void end_probe(weir_remote *r, const weir_sample *sample)
{
	if (r->recent_ln < r->probe_ln - log(SAME))
		r->cap_now = r->probe; /* it was load, and fewer do */
	else
		r->nature_until_ns = sample->now_ns + NATURE_NS;
	r->probe = 0;
}

/* Many answers are late, and it is the backend that takes the time. */
static void look_below(weir_remote *r, const weir_sample *sample, const struct news *news)
{
	bool missed = r->plain_share > LATE_MANY * (1 - r->quantile) && r->recent_seen >= BASE_LEAST &&
		      exp(r->recent_ln) / 1e9 > PROBE_PART * news->target_s;
	int nature = missed ? is_nature(r) : 0;
	r->mean_serving += .2 * (weir_remote_serving(r) - r->mean_serving);
	r->probe_answers += news->answers;
	r->probe_s += news->s;
	if (nature > 0)
		r->nature_until_ns = sample->now_ns + NATURE_NS;
	if (nature < 0)
		r->nature_until_ns = 0;
	if (r->probe > 0 && (!missed || nature != 0))
		r->probe = 0;
	else if (r->probe > 0 && r->probe_answers >= r->probe_enough)
		end_probe(r, sample);
	else if (r->probe > 0 && r->probe_s > fmax(PROBE_S, PROBE_TIMES * r->backend_s))
		r->probe = 0; /* what was asked for must not wait for it any longer */
	/* Where answers are rare it would take too long. */
	bool quick = (r->mean_serving + PROBE_SEEN) * r->backend_s < PROBE_QUICK_S * r->mean_serving;
	if (r->probe > 0 || !missed || nature != 0 || !quick || sample->now_ns < r->nature_until_ns)
		return;
	r->probe = fmax(floor(r->mean_serving / 2), 1);
	r->probe_enough = r->mean_serving + PROBE_SEEN;
	r->probe_answers = r->probe_s = 0;
	r->probe_ln = r->recent_ln;
}

static void restart_trial(weir_remote *r, uint64_t from_ns)
{
	r->trial_done = r->trial_s = 0;
	r->trial_from_ns = from_ns;
}

static void try_less(weir_remote *r, const weir_sample *sample, const struct news *news)
{
	if (!atomic_load_explicit(&r->limited, memory_order_relaxed) || sample->waiting == 0) {
		r->trial = false;
		restart_trial(r, r->trial_from_ns);
		return;
	}
	r->trial_done += news->answers;
	r->trial_s += news->s;
	if (r->trial_done < fmax(TRIAL_ANSWERS, 3 * r->cap_now) || sample->now_ns < r->trial_from_ns)
		return;
	double rate = r->trial_done / r->trial_s;
	bool failed = r->trial && rate < TRIAL_SAME * r->trial_rate;
	if (failed)
		r->cap_now = r->trial_cap;
	if (!r->trial) {
		r->trial_rate = rate;
		r->trial_cap = r->cap_now;
		r->cap_now = fmax(r->cap_now * TRIAL_LESS, 1);
	}
	r->trial = !r->trial;
	restart_trial(r, sample->now_ns + (failed ? TRIAL_PAUSE_NS : 0));
}

static void learn_cap(weir_remote *r, const weir_sample *sample, const struct news *news, double base)
{
	double slowdown = r->recent_seen >= BASE_LEAST && isfinite(base) ? exp(r->recent_ln - base) : 1;
	r->cap_answers += news->answers;
	/* Those that the last step has let in must have been answered, or it would be doubled on no evidence. */
	if (r->recent_seen >= BASE_LEAST && r->cap_answers >= r->cap_now / 2) {
		r->cap_answers = 0;
		if (sample->waiting != 0 && slowdown < r->tuning.ahead)
			r->cap_now = fmin(r->cap_now * 2, 1e9);
	}
	try_less(r, sample, news);
	if (!atomic_load_explicit(&r->limited, memory_order_relaxed))
		r->cap_now = fmax(r->cap_now, r->tuning.first);
	double cap = r->probe > 0 ? fmin(r->probe, r->cap_now) : r->cap_now;
	atomic_store_explicit(&r->cap, cap > 1 ? (uint32_t)cap : 1, memory_order_relaxed);
}

/* ---- the limit ---- */

static bool decide(weir_remote *r, const weir_sample *sample, const struct news *news, bool congested)
{
	double lift_ns = 1e9 * fmax(r->tuning.lift_s, r->tuning.lift * news->target_s);
	if (congested || news->shed != 0)
		r->busy_ns = sample->now_ns;
	if (!atomic_load_explicit(&r->limited, memory_order_relaxed))
		return congested;
	return (double)(sample->now_ns - r->busy_ns) < lift_ns;
}

static void grow(weir_remote *r, const weir_sample *sample, const struct news *news, bool congested)
{
	double round_ns = fmax(r->backend_s * 1e9, WEIR_REMOTE_TICK_NS);
	bool late = r->late_share > 1 - r->quantile && r->slow_share > CALM_SHARE;
	if (news->shed == 0 || congested || late || (double)(sample->now_ns - r->grown_ns) < round_ns)
		return;
	r->grown_ns = sample->now_ns;
	r->rate *= r->tuning.grow;
	r->rate_ln += log(r->tuning.grow) * r->rate_seen;
}

static uint32_t whole(double requests)
{
	return requests > 1 ? (uint32_t)fmin(requests, 1e9) : 1;
}

static void set_limits(weir_remote *r, const weir_sample *sample, const struct news *news, bool limited)
{
	double beta = exp(atomic_load_explicit(&r->beta, memory_order_relaxed)), part = 1;
	double own = sample->now_ns < r->nature_until_ns ? own_s(r, OWN_ENOUGH) : 0;
	bool known = limited && r->rate > 0;
	unsigned above = 0; /* classes that are present */
	atomic_store_explicit(&r->told_gamma, exp(atomic_load_explicit(&r->gamma, memory_order_relaxed)),
			      memory_order_relaxed);
	atomic_store_explicit(&r->told_own_ns, own * 1e9, memory_order_relaxed);
	bool calm = !limited && !atomic_load_explicit(&r->congested, memory_order_relaxed);
	atomic_store_explicit(&r->unreachable,
			      (own > 0 || calm) && own_s(r, BASE_LEAST) > news->target_s &&
				      r->plain_share > LATE_MANY * (1 - r->quantile),
			      memory_order_relaxed);
	atomic_store_explicit(&r->beta_step, (float)(1 / fmax(r->rate * news->target_s, BETA_OVER)),
			      memory_order_relaxed);
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		double fits = beta * r->rate * weir_remote_target_ns(r, k) / 1e9;
		fits = fmin(part * fits, fits - above); /* where that is little, a whole request less */
		uint64_t due_ns = known && k != 0 && r->minimum[k] > 0
					  ? (uint64_t)(1e9 / r->rate / r->minimum[k]) + 1
					  : 0;
		atomic_store_explicit(&r->limit[k], known ? whole(fits) : WEIR_REMOTE_OPEN,
				      memory_order_relaxed);
		atomic_store_explicit(&r->due_every_ns[k], due_ns, memory_order_relaxed);
		if (r->present_ns[k] != 0 && sample->now_ns - r->present_ns[k] < PRESENT_NS) {
			part = fmax(part - r->tuning.headroom, PART_LEAST);
			if (above == 0)
				atomic_store_explicit(&r->top_class, k, memory_order_relaxed);
			above++;
		}
	}
}

/* How short of room a class is: what is inside, of what fits. */
static void learn_quality(weir_remote *r, unsigned k, const struct news *news)
{
	uint32_t limit = atomic_load_explicit(&r->limit[k], memory_order_relaxed);
	double room = limit == WEIR_REMOTE_OPEN ? 0 : weir_remote_ahead(r, k, limit) / limit;
	bool shed = atomic_load_explicit(&r->shedding, memory_order_relaxed) >> k & 1;
	weir_degrade_sample seen = {.interval_s = news->s,
				    .target_s = (double)r->target_ns[k] / 1e9,
				    .least = r->quality_least,
				    .room = shed ? fmax(room, 1) : room};
	weir_degrade_step(&r->degrade[k], &seen);
}

/* What the next requests are judged by, and what others may look at. */
static void publish(weir_remote *r, const weir_sample *sample, const struct news *news, bool limited)
{
	int64_t full = (int64_t)(1000 * r->tuning.credit);
	if (!limited)
		atomic_store_explicit(&r->credit, full, memory_order_relaxed);
	bool spent = atomic_load_explicit(&r->credit, memory_order_relaxed) < 1000;
	atomic_store_explicit(&r->strict, limited && spent && r->late_share > LATE_TIMES * (1 - r->quantile),
			      memory_order_relaxed);
	atomic_store_explicit(&r->limited, limited, memory_order_relaxed);
	set_limits(r, sample, news, limited);
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		learn_quality(r, k, news);
	atomic_store_explicit(&r->told_rate, r->rate, memory_order_relaxed);
	atomic_store_explicit(&r->told_slow, r->slow_share, memory_order_relaxed);
}

void weir_remote_tick(void *state, const weir_sample *sample)
{
	weir_remote *r = state;
	struct news news;
	atomic_store_explicit(&r->dry_run, sample->dry_run, memory_order_relaxed);
	tick_ages(r, sample->now_ns);
	correct_waiting(r, sample);
	gather(r, sample, &news);
	learn_averages(r, &news);
	double base = learn_base(r);
	look_below(r, sample, &news);
	learn_cap(r, sample, &news, base);
	bool congested = judge(r, &news, base);
	learn_rate(r, &news);
	bool limited = decide(r, sample, &news, congested);
	if (limited)
		grow(r, sample, &news, congested);
	publish(r, sample, &news, limited);
}
