/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `adaptive-remote`: is a backend that has always been slow saturated, or do its requests take so long? From outside
 * both look the same: a crowd of clients that ask again as soon as they are answered keeps the number inside constant,
 * so nothing grows, and where it was there from the beginning, no quicker answer was ever seen.
 *
 * So the backend gets a quarter of its requests for a moment, and the others wait here, where nobody is refused. A
 * saturated backend completes as many as before. Otherwise it completes a quarter, and is left alone from then on.
 *
 *  counts    how many it completes as it is
 *  drains    it gets no new ones until a quarter is left
 *  compares  first over the time of sixteen answers, which is enough to see a quarter, then over that of 48
 *
 * Only where many answers are later than the target although the backend seems to keep up, and if it was never seen
 * with half as many inside. Each one that finds nothing makes the pause to the next twice as long.
 */
#include <math.h>

#include "control/remote.h"

#define LATE_TIMES    3. /* factor on the share that may be late: below it nothing is wrong */
#define INSIDE_LEAST  4
#define PART          4.  /* of those inside, one in so many stays */
#define COUNTED       48. /* answers to compare, ... */
#define GLANCED       16. /* ... and for a first look */
#define SAME          .5  /* of the answers that were expected: it completes as many */
#define DRAIN_TIMES   2.  /* response times */
#define PAUSE_NS      (10 * WEIR_NS_PER_S)
#define PAUSE_MOST_NS (3600 * WEIR_NS_PER_S)
#define SEEN_LEAST    16. /* answers with fewer inside that tell as much */
#define PROOF_LEAST   4.

static bool is_doubtful(const weir_remote *r, const weir_sample *sample)
{
	int32_t inside = weir_remote_serving(r);
	return r->steady && !r->mix_changes && !sample->dry_run &&
	       !atomic_load_explicit(&r->limited, memory_order_relaxed) &&
	       atomic_load_explicit(&r->sets_aside, memory_order_relaxed) &&
	       r->telling_share > LATE_TIMES * (1 - r->quantile) && inside >= INSIDE_LEAST &&
	       sample->now_ns >= r->probe.next_ns && !weir_remote_is_proved(r, sample->now_ns) &&
	       !weir_remote_seen_with_fewer(r, weir_remote_level_of((uint64_t)inside), SEEN_LEAST);
}

static void enter(weir_remote *r, weir_remote_phase phase, uint64_t now_ns)
{
	r->probe.phase = phase;
	r->probe.since_ns = now_ns;
	r->probe.answers = 0;
}

static void leave(weir_remote *r, uint64_t now_ns)
{
	uint64_t pause_ns = r->probe.pause_ns != 0 ? r->probe.pause_ns : PAUSE_NS;
	r->probe.next_ns = now_ns + pause_ns;
	r->probe.pause_ns = 2 * pause_ns < PAUSE_MOST_NS ? 2 * pause_ns : PAUSE_MOST_NS;
	r->probe.cap = 0;
	enter(r, WEIR_REMOTE_UNPROBED, now_ns);
}

/* What was learnt with so many inside was load, not the requests' own time. */
static void forget(weir_remote *r)
{
	for (unsigned i = weir_remote_level_of(2 * (uint64_t)r->probe.cap); i < WEIR_REMOTE_LEVELS; i++) {
		weir_times_forget(&r->level[i].times);
		r->level[i].seen = 0;
	}
	for (unsigned i = 0; i < WEIR_REMOTE_KINDS; i++) {
		weir_times_forget(&r->kind[i].own);
		atomic_store_explicit(&r->kind[i].own_ns, 0, memory_order_relaxed);
	}
	r->ever_steady = r->steady = false;
	r->costs_wrong = true;
	r->silent_share = 1;
	atomic_store_explicit(&r->sets_aside, false, memory_order_relaxed);
}

/* Answers that as many as before would be by now. */
static double expected(const weir_remote *r, uint64_t now_ns)
{
	return r->probe.rate * (double)(now_ns - r->probe.since_ns) / 1e9;
}

static void count(weir_remote *r, const weir_sample *sample)
{
	double s = (double)(sample->now_ns - r->probe.since_ns) / 1e9;
	if (!is_doubtful(r, sample)) {
		enter(r, WEIR_REMOTE_UNPROBED, sample->now_ns);
		return;
	}
	if (r->probe.answers < COUNTED || s < r->backend_s)
		return;
	r->probe.rate = r->probe.answers / s;
	r->probe.inside = (uint32_t)weir_remote_serving(r);
	r->probe.cap = (uint32_t)fmax(r->probe.inside / PART, 1);
	enter(r, WEIR_REMOTE_DRAINS, sample->now_ns);
}

static void drain(weir_remote *r, uint64_t now_ns)
{
	int32_t inside = weir_remote_serving(r);
	bool waited = (double)(now_ns - r->probe.since_ns) / 1e9 > DRAIN_TIMES * r->backend_s;
	if (inside <= (int32_t)r->probe.cap || (waited && inside <= (int32_t)r->probe.inside / 2))
		enter(r, WEIR_REMOTE_COMPARES, now_ns);
	else if (waited)
		leave(r, now_ns);
}

/* Returns whether the backend is saturated. */
static bool compare(weir_remote *r, const weir_sample *sample)
{
	double least = expected(r, sample->now_ns);
	/* Without enough requests it says nothing. */
	if (sample->waiting == 0 && weir_remote_serving(r) < (int32_t)r->probe.cap) {
		leave(r, sample->now_ns);
		return false;
	}
	if (least >= GLANCED && r->probe.answers <= SAME * least) {
		/* Where few large requests hold up the others, fewer answers prove nothing. */
		if (weir_remote_seen_with_fewer(r, weir_remote_level_of(r->probe.inside), PROOF_LEAST))
			r->probe.proved_ns = sample->now_ns;
		leave(r, sample->now_ns);
		return false;
	}
	if (least < COUNTED)
		return false;
	forget(r);
	leave(r, sample->now_ns);
	return true;
}

bool weir_remote_probe(weir_remote *r, const weir_sample *sample, uint32_t answers)
{
	r->probe.answers += answers;
	switch (r->probe.phase) {
	case WEIR_REMOTE_UNPROBED:
		if (r->steady && r->plain_share <= 1 - r->quantile)
			r->costs_wrong = false;
		if (is_doubtful(r, sample))
			enter(r, WEIR_REMOTE_COUNTS, sample->now_ns);
		return false;
	case WEIR_REMOTE_COUNTS:
		count(r, sample);
		return false;
	case WEIR_REMOTE_DRAINS:
		drain(r, sample->now_ns);
		break;
	case WEIR_REMOTE_COMPARES:
		if (compare(r, sample))
			return true;
		break;
	}
	/* Those who wait for this are not late because of the backend. */
	r->timely_ns = sample->now_ns;
	return false;
}
