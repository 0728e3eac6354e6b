/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `adaptive-remote` learns, once per tick. remote.h defines the terms.
 *
 *  evidence   whether the backend is congested (remote_evidence.c)
 *  rate       completions during the stay of slow requests over that time: geometric mean over half a
 *             target's worth of them
 *  limit      rate x target x beta, for what waits of a class and above, plus gamma x what the backend
 *             has, by the kind of request that has the least room. In force from the first congestion
 *             on, until there was none for a while
 *  growth     a limit that binds while nothing is slow is too low, and grows: otherwise a limit could
 *             stay low for ever
 *  cap        how many the backend gets: few at first, twice as many whenever requests wait and those
 *             inside are not slow
 *  less       while limited: does the backend complete as much with fewer at once? Steps down are
 *             reverted if not
 */
#include <math.h>

#include "control/remote.h"

#define LN_SCALE 1000.
#define MEMORY   32. /* answers over which shares are averaged */
/* The backend gets more while requests wait and take less than this many times the base. */
#define AHEAD     2.
#define CAP_LEAST 8. /* answers below which nothing is known */
/* Part of the target: nobody waits longer for a backend that is not slow, and answers. */
#define CAP_WAIT       .5
#define CROWD          32. /* times the first step: so many in the time that one takes come to a large service */
#define PRESENT_NS     (10 * WEIR_NS_PER_S)
#define PRESENT_MEMORY 256.
#define SILENT_MOST    .75   /* of the answers: with more that say nothing, too few others are left */
#define PRESENT_LEAST  4.    /* of those, for a kind to count */
#define PART_LEAST     .3    /* minimum part of the limit for the lowest class */
#define UNREACHABLE    2.    /* factor on the share that may be late */
#define LATE_TIMES     3.    /* factor on the share that may be late from which late requests are dropped */
#define HOPELESS       .5    /* of the answers are late: there is nothing to spend */
#define LATE_MORE      .5    /* of the share that may be late, above what is late without load */
#define BETA_OVER      50.   /* minimum number of requests over which beta moves */
#define SCARCE         .05   /* share of refusals that a healthy service does not reach, ... */
#define SCARCE_MEMORY  1000. /* ... of so many requests */
#define TAIL_LEAST     8     /* answers from which the tail of a kind is known, ... */
#define RARE_LEAST     1.    /* ... of a kind that may be rare */
#define FRESH          4.    /* targets without an answer after which a kind is not judged, ... */
#define FRESH_LEAST_NS 1e9   /* ... and at least this long */
#define TRIAL_ANSWERS  200.
#define TRIAL_LESS     .7
#define TRIAL_SAME     .93 /* of the previous rate */
#define TRIAL_PAUSE_NS (10 * WEIR_NS_PER_S)
/* Future slots of the ring, so that a request that starts between two ticks finds its slot. */
#define AGES_AHEAD 4

/* What has happened since the last tick. */
struct news {
	double s;
	uint32_t asked, answers, judged, usual, silent, rated, slowed[WEIR_REMOTE_MARKS], late, plainly_late,
		shed, telling, telling_late, ended_late;
	double rates_ln, backend_s; /* sums */
	double target_s;            /* of the class with the shortest */
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

/* Requests that were started longer ago than the ring covers are overdue. */
static void tick_ages(weir_remote *r, uint64_t now_ns)
{
	uint64_t oldest = atomic_load_explicit(&r->oldest, memory_order_relaxed);
	uint64_t wanted = (now_ns >> r->age_shift) + AGES_AHEAD;
	wanted = wanted > WEIR_REMOTE_AGES ? wanted - WEIR_REMOTE_AGES : 0;
	/* After a long sleep: all of them, once. */
	if (wanted > oldest + WEIR_REMOTE_AGES)
		oldest = wanted - WEIR_REMOTE_AGES;
	for (; oldest < wanted; oldest++) {
		atomic_store_explicit(&r->oldest, oldest + 1, memory_order_relaxed);
		for (unsigned aside = 0; aside < 2; aside++) {
			int32_t left = atomic_exchange_explicit(&r->age[aside][oldest % WEIR_REMOTE_AGES], 0,
								memory_order_relaxed);
			if (left != 0)
				atomic_fetch_add_explicit(&r->overdue[aside], left, memory_order_relaxed);
		}
	}
}

/*
 * Events that the law was not asked about make its own count of waiting ones drift. The runtime's count
 * is right.
 */
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
			      .rated = since(&r->rated, &r->seen_rated),
			      .asked = since(&r->asked, &r->seen_asked),
			      .plainly_late = since(&r->plainly_late, &r->seen_plainly),
			      .telling = since(&r->telling, &r->seen_telling),
			      .telling_late = since(&r->telling_late, &r->seen_telling_late),
			      .ended_late = since(&r->ended_late, &r->seen_ended_late),
			      .rates_ln = sum_since(&r->rates_ln, &r->seen_rates_ln),
			      .backend_s = (double)total_since(&r->backend_us, &r->seen_backend_us) / 1e6,
			      .target_s = (double)weir_remote_least_target_ns(r) / 1e9};
	news->usual = news->answers - since(&r->aside, &r->seen_aside);
	news->silent = since(&r->silent, &r->seen_silent);
	for (unsigned i = 0; i < WEIR_REMOTE_MARKS; i++)
		news->slowed[i] = since(&r->slowed[i], &r->seen_slowed[i]);
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		uint32_t shed = since(&r->shed[k], &r->seen_shed[k]);
		news->shed += shed;
		shedding |= (uint32_t)(shed != 0) << k;
		if (sample->klass[k].offered != 0)
			r->present_ns[k] = sample->now_ns;
	}
	atomic_store_explicit(&r->shedding, shedding, memory_order_relaxed);
	r->pressed = since(&r->above, &r->seen_above) != 0 || shedding != 0;
}

/* The weight of count more samples in an average over `over` of them. */
static double part_of(double over, uint32_t count)
{
	return 1 - pow(1 - 1 / over, count);
}

static void learn_averages(weir_remote *r, const struct news *news)
{
	if (news->answers == 0)
		return;
	double part = r->backend_seen == 0 ? 1 : part_of(MEMORY, news->answers);
	r->ended_late_share += part * ((double)news->ended_late / news->answers - r->ended_late_share);
	if (news->judged != 0) {
		double weight = r->backend_seen == 0 ? 1 : part_of(MEMORY, news->judged);
		r->late_share += weight * ((double)news->late / news->judged - r->late_share);
		r->plain_share += weight * ((double)news->plainly_late / news->judged - r->plain_share);
	}
	if (news->telling != 0)
		r->telling_share += part_of(MEMORY, news->telling) *
				    ((double)news->telling_late / news->telling - r->telling_share);
	r->silent_share += part_of(PRESENT_MEMORY, news->answers) *
			   ((double)news->silent / news->answers - r->silent_share);
	atomic_store_explicit(&r->sets_aside, r->silent_share < SILENT_MOST, memory_order_relaxed);
	if (news->usual == 0)
		return;
	r->backend_s += part * (news->backend_s / news->usual - r->backend_s);
	r->backend_seen += news->usual;
	double ring_s = WEIR_REMOTE_AGES * (double)(UINT64_C(1) << r->age_shift) / 1e9;
	atomic_store_explicit(&r->deep, r->backend_s > ring_s / 2, memory_order_relaxed);
}

/* How many of each kind are late. Every kind has its own target, so the worst kind present counts. */
static void learn_kinds(weir_remote *r, struct news *news, uint64_t now_ns)
{
	double fresh_ns = fmax(FRESH_LEAST_NS, FRESH * news->target_s * 1e9);
	r->worst = 0;
	for (unsigned i = 0; i < WEIR_REMOTE_KINDS; i++) {
		weir_remote_kind *kind = &r->kind[i];
		uint32_t more = since(&kind->answers, &kind->seen_answers),
			 judged = since(&kind->judged, &kind->seen_judged),
			 late = since(&kind->late, &kind->seen_late);
		news->late += late;
		news->judged += judged;
		kind->present += more - part_of(PRESENT_MEMORY, news->answers) * kind->present;
		if (more != 0)
			kind->last_ns = now_ns;
		/* A kind that is not admitted any more cannot prove that it is in time now. */
		if (r->mix_changes && (double)(now_ns - kind->last_ns) > fresh_ns)
			kind->late_share = kind->late_seen = 0;
		if (judged != 0) {
			kind->late_seen = fmin(kind->late_seen + judged, MEMORY);
			kind->late_share += part_of(fmax(kind->late_seen, 2), judged) *
					    ((double)late / judged - kind->late_share);
		}
		if (kind->present >= PRESENT_LEAST && kind->late_seen >= MEMORY / 2)
			r->worst = fmax(r->worst, kind->late_share);
	}
}

/*
 * The share of late answers that is borne: the given one or, where so many are late without load, these and half as
 * many as may be late. Fewer inside would not make it smaller. Not if the mix depends on the law, which then decides
 * what may be late.
 */
static double bearable(const weir_remote *r, double share, double without_load)
{
	return r->mix_changes ? share : fmax(share, without_load + LATE_MORE * (1 - r->quantile));
}

static void learn_beta(weir_remote *r, const struct news *news)
{
	double step = 1 / fmax(r->rate * news->target_s, BETA_OVER);
	double beta = (double)atomic_load_explicit(&r->beta, memory_order_relaxed);
	/* While it is lenient, the limit does not decide who is late. In a dry run nothing that the law does makes anybody less late. */
	if (!atomic_load_explicit(&r->limited, memory_order_relaxed) ||
	    atomic_load_explicit(&r->lenient, memory_order_relaxed) ||
	    atomic_load_explicit(&r->dry_run, memory_order_relaxed))
		return;
	beta += step * news->judged *
		(bearable(r, r->late_most,
			  atomic_load_explicit(&r->congested, memory_order_relaxed)
				  ? r->late_own
				  : fmax(r->late_own, r->late_base)) -
		 fmax(r->worst, r->late_share));
	atomic_store_explicit(&r->beta,
			      (float)fmin(fmax(beta, WEIR_REMOTE_BETA_LEAST), WEIR_REMOTE_BETA_MOST),
			      memory_order_relaxed);
}

/* Not where the mix depends on the law (`value`): there, prices keep the expensive ones few. */
static void learn_scarce(weir_remote *r, const struct news *news)
{
	if (news->asked != 0)
		r->refused_share += part_of(SCARCE_MEMORY, news->asked) *
				    ((double)news->shed / news->asked - r->refused_share);
	r->scarce = !r->mix_changes && r->refused_share > SCARCE;
}

static void learn_rate(weir_remote *r, const struct news *news)
{
	if (news->rated == 0)
		return;
	double over = fmax(r->tuning.enough, r->tuning.window * r->rate * news->target_s);
	r->rate_ln += news->rates_ln;
	r->rate_seen += news->rated;
	if (r->rate_seen > 2 * over) {
		r->rate_ln /= 2;
		r->rate_seen /= 2;
	}
	r->rate = exp(r->rate_ln / r->rate_seen) * 1e9;
}

/* ---- how many the backend gets ---- */

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

/*
 * Whether doubling from one answer to the next would take so long that it makes requests late by itself: before a large
 * service whose requests take long. Then all that wait go in, once in the time that a request takes.
 */
static bool must_hurry(const weir_remote *r, const weir_sample *sample, const struct news *news)
{
	double inside = (double)weir_remote_serving(r) + sample->waiting, base_ns = exp(r->base);
	return isfinite(r->base) && r->strain < 1 &&
	       !atomic_load_explicit(&r->limited, memory_order_relaxed) &&
	       inside * base_ns > CROWD * r->tuning.first * (double)(sample->now_ns - r->queued_ns) &&
	       (1 + log2(fmax(inside / r->cap_now, 1))) * base_ns > CAP_WAIT * news->target_s * 1e9 &&
	       (double)(sample->now_ns - r->hurried_ns) > base_ns;
}

static bool may_have_more(weir_remote *r, const weir_sample *sample, const struct news *news)
{
	if (news->answers != 0 || weir_remote_serving(r) == 0)
		r->answered_ns = sample->now_ns;
	if (sample->waiting == 0) {
		r->cap_ns = r->queued_ns = sample->now_ns;
		return false;
	}
	if (r->slowdown > log(AHEAD))
		return false;
	/*
	 * Half of the requests that the last step admitted must have been answered, or the cap would
	 * double without evidence. Nobody waits long for that.
	 */
	bool answered = r->backend_seen >= CAP_LEAST && r->cap_answers >= r->cap_now / 2;
	return answered || must_hurry(r, sample, news) ||
	       (!atomic_load_explicit(&r->limited, memory_order_relaxed) && r->late_share < .5 &&
		(double)(sample->now_ns - r->answered_ns) < news->target_s * 1e9 &&
		(double)(sample->now_ns - r->cap_ns) > CAP_WAIT * news->target_s * 1e9);
}

static void learn_cap(weir_remote *r, const weir_sample *sample, const struct news *news)
{
	r->cap_answers += news->answers;
	if (may_have_more(r, sample, news)) {
		/* Answers were late because requests waited for this, unless something else bounds those inside. */
		if (2 * weir_remote_serving(r) >= r->cap_now)
			r->timely_ns = sample->now_ns;
		if (must_hurry(r, sample, news)) {
			r->cap_now = fmax(r->cap_now, (double)weir_remote_serving(r) + sample->waiting);
			r->hurried_ns = sample->now_ns;
		}
		r->cap_now = fmin(r->cap_now * 2, 1e9);
		r->cap_answers = 0;
		r->cap_ns = r->given_ns = sample->now_ns;
	}
	try_less(r, sample, news);
	if (!atomic_load_explicit(&r->limited, memory_order_relaxed))
		r->cap_now = fmax(r->cap_now, r->tuning.first);
	uint32_t cap = r->probe.cap != 0 ? r->probe.cap : (uint32_t)fmax(r->cap_now, 1);
	atomic_store_explicit(&r->cap, cap, memory_order_relaxed);
}

/* ---- the limit ---- */

static bool decide(weir_remote *r, const weir_sample *sample, const struct news *news, bool congested)
{
	double lift_ns = 1e9 * fmax(r->tuning.lift_s, r->tuning.lift * news->target_s);
	if (congested || r->held || r->busy_ns == 0 || (r->pressed && sample->waiting != 0))
		r->busy_ns = sample->now_ns;
	if (!atomic_load_explicit(&r->limited, memory_order_relaxed))
		return congested;
	return (double)(sample->now_ns - r->busy_ns) < lift_ns;
}

static void grow(weir_remote *r, const weir_sample *sample, const struct news *news, bool congested)
{
	double round_ns = fmax(r->backend_s * 1e9, WEIR_REMOTE_TICK_NS);
	bool late = r->late_share > bearable(r, 1 - r->quantile, fmax(r->late_base, r->late_own));
	if (!r->pressed || congested || late || (double)(sample->now_ns - r->grown_ns) < round_ns)
		return;
	r->grown_ns = sample->now_ns;
	r->rate *= r->tuning.grow;
	r->rate_ln += log(r->tuning.grow) * r->rate_seen;
}

static uint32_t whole(double requests)
{
	return requests > 1 ? (uint32_t)fmin(requests, 1e9) : 1;
}

/*
 * Of the kinds present, the one with the least room: the shortest target over its tail. Before a backend that serves in
 * order all tails are alike. Before one that serves all at once, expensive requests have long tails: a number inside
 * that is right for most would make them late. In a queue of chance this would refuse more for a few, so it waits until
 * room is scarce.
 */
static void find_binding(weir_remote *r)
{
	double least = INFINITY;
	for (unsigned i = 0; i < WEIR_REMOTE_KINDS; i++) {
		const weir_remote_kind *kind = &r->kind[i];
		bool known = r->scarce &&
			     atomic_load_explicit(&kind->gamma_seen, memory_order_relaxed) >= TAIL_LEAST;
		double gamma = exp(
			(double)atomic_load_explicit(known ? &kind->gamma : &r->gamma, memory_order_relaxed));
		double room_ns = weir_remote_target_ns(r, 0, i) / gamma;
		if (kind->present < (known ? RARE_LEAST : PRESENT_LEAST) || room_ns >= least)
			continue;
		least = room_ns;
		atomic_store_explicit(&r->binding, i, memory_order_relaxed);
		atomic_store_explicit(&r->told_gamma, gamma, memory_order_relaxed);
	}
}

/*
 * Own times above the target or, until they are known, the typical time of requests without any sign of
 * load.
 */
static bool is_unreachable(const weir_remote *r, const struct news *news, bool limited)
{
	unsigned kind = atomic_load_explicit(&r->binding, memory_order_relaxed);
	double own_ns = (double)atomic_load_explicit(&r->kind[kind].own_ns, memory_order_relaxed);
	if (own_ns == 0 && !limited && isfinite(r->base) && r->strain < 1)
		own_ns = exp(r->base);
	return own_ns > news->target_s * 1e9 && r->plain_share > UNREACHABLE * (1 - r->quantile);
}

/* Returns the number of classes present. */
static unsigned set_limits(weir_remote *r, const weir_sample *sample, const struct news *news, bool limited)
{
	double beta = exp((double)atomic_load_explicit(&r->beta, memory_order_relaxed)), part = 1;
	bool known = limited && r->rate > 0;
	unsigned above = 0; /* classes that are present */
	find_binding(r);
	atomic_store_explicit(&r->unreachable, is_unreachable(r, news, limited), memory_order_relaxed);
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		double fits = beta * r->rate * weir_remote_bound_ns(r, k) / 1e9;
		fits = fmin(part * fits, fits - above); /* if that is little, a whole request less */
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
	return above;
}

/* How much of a class's room is used: the number inside, over what fits. */
static void learn_quality(weir_remote *r, unsigned k, const struct news *news)
{
	uint32_t limit = atomic_load_explicit(&r->limit[k], memory_order_relaxed);
	double room = limit == WEIR_REMOTE_OPEN ? 0 : weir_remote_ahead(r, k, limit) / limit;
	bool shed = atomic_load_explicit(&r->shedding, memory_order_relaxed) >> k & 1;
	weir_degrade_sample seen = {.interval_s = news->s,
				    .target_s = (double)weir_remote_plain_target_ns(r, k) / 1e9,
				    .least = r->quality_least,
				    .room = shed ? fmax(room, 1) : room};
	weir_degrade_step(&r->degrade[k], &seen);
}

/*
 * Requests that were admitted before the limit was in force count, too: newcomers wait behind them. Without congestion they do
 * not: before a target that is out of reach all answers are late by nature.
 */
static bool backlog_drains(const weir_remote *r)
{
	return atomic_load_explicit(&r->congested, memory_order_relaxed) && r->ended_late_share > HOPELESS;
}

/* What may come in above the limit, and whether the hopeless are dropped. */
static void publish_credit(weir_remote *r, bool limited, unsigned present)
{
	bool draining = limited && backlog_drains(r);
	if (!limited)
		atomic_store_explicit(&r->credit, (int64_t)(1000 * r->tuning.credit), memory_order_relaxed);
	else if (r->late_share > HOPELESS) /* many more are late already than may be */
		atomic_store_explicit(&r->credit, 0, memory_order_relaxed);
	bool spent = atomic_load_explicit(&r->credit, memory_order_relaxed) < 1000 &&
		     r->late_share > LATE_TIMES * (1 - r->quantile);
	atomic_store_explicit(&r->strict,
			      limited && (draining || spent) &&
				      !atomic_load_explicit(&r->lenient, memory_order_relaxed),
			      memory_order_relaxed);
	unsigned spenders = WEIR_CLASSES;
	if (draining)
		spenders = present > 1 ? atomic_load_explicit(&r->top_class, memory_order_relaxed) + 1 : 0;
	atomic_store_explicit(&r->spenders, spenders, memory_order_relaxed);
}

/* Publishes what the next requests are judged by, and what others may read. */
static void publish(weir_remote *r, const weir_sample *sample, const struct news *news, bool limited)
{
	if (limited && !atomic_load_explicit(&r->limited, memory_order_relaxed))
		atomic_store_explicit(&r->limited_ns, sample->now_ns, memory_order_relaxed);
	atomic_store_explicit(&r->limited, limited, memory_order_relaxed);
	publish_credit(r, limited, set_limits(r, sample, news, limited));
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		learn_quality(r, k, news);
	atomic_store_explicit(&r->told_rate, r->rate, memory_order_relaxed);
}

void weir_remote_tick(void *state, const weir_sample *sample)
{
	weir_remote *r = state;
	struct news news;
	atomic_store_explicit(&r->dry_run, sample->dry_run, memory_order_relaxed);
	tick_ages(r, sample->now_ns);
	correct_waiting(r, sample);
	gather(r, sample, &news);
	learn_kinds(r, &news, sample->now_ns);
	learn_averages(r, &news);
	learn_scarce(r, &news);
	weir_remote_learn_cope(r, news.asked, (double)news.late + news.shed, news.s);
	learn_beta(r, &news);
	bool congested =
		weir_remote_evidence(r, sample->now_ns, sample->waiting == 0, news.usual, news.slowed);
	learn_rate(r, &news);
	congested |= weir_remote_probe(r, sample, news.answers);
	learn_cap(r, sample, &news);
	bool limited = decide(r, sample, &news, congested);
	if (limited)
		grow(r, sample, &news, congested);
	publish(r, sample, &news, limited);
}
