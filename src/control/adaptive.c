/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default law for a stage's own queue: an error budget.
 *
 * A feedback loop around the measured percentile reacts one target too late, and oscillates. Instead
 * every class has a credit, counted in requests. A start earns the share that may be late (1 -
 * percentile) and pays the probability that this request will be late: P(service > target - waited), from
 * the histogram of the service times. When the request ends, the probability is replaced by the fact. As
 * long as there is credit the percentile holds, and waits may be longer than would be sustainable; with
 * debt they must be shorter:
 *
 *  limit = base + credit / bound * extension,   base = target - a high quantile of the service time
 *
 * A request that has waited longer than the limit when its turn comes is dropped (start); that test is
 * exact. A request that would wait longer, judging by the queue and the time per start, is refused on
 * arrival (admit). That is an estimate, on the generous side, and only makes refusals early.
 *
 * Calm and overload. A queue that grows by chance at 0.7x looks like one that grows because of 1.4x,
 * except for the arrivals. So the offered work is measured. In calm, up to ten bounds of credit may be
 * saved, and a burst can use them. When the load exceeds the capacity of the workers, all but a tenth of
 * one bound is forfeited at once, because overload would spend it without benefit to anybody.
 *
 * Each class has all of this for itself; higher classes show up as a longer time per start. Minimum: the
 * stage's order may be strict (highest class first), and then a law can let a lower class in only by
 * holding the higher ones back. A class that would be refused although it has not had its minimum of the
 * starts gets a pledge: its event is admitted and will be started however late. Until then higher classes
 * are refused, so that the queue before it drains; that takes no longer than they would have waited
 * themselves. At most a quarter of the time is spent this way.
 */
#include <math.h>

#include "control/adaptive.h"

#define CALM_BOUNDS   10.0f /* how much credit may be saved, in bounds */
#define OVER_BOUNDS   .1f
#define CALM_LOAN     .5f
#define OVER_EARNINGS .5f  /* in overload a start earns less: a margin for the percentile */
#define TAU_LONG      1000 /* starts */
#define GAP_TARGETS   32   /* no service takes this long: the clock has jumped */
#define MINIMUM_PRICE .95f /* of a start of the minimum, because pledges come a little late */
#define MIXED_SURE    16
#define COLD_WAITING  64 /* for each in service: a burst is no evidence, and nothing else is known */

/* ---- offers ---- */

static void roll(adaptive_class *k, uint64_t slice, uint64_t newest)
{
	if (slice < newest || !atomic_compare_exchange_strong_explicit(
				      &k->slice, &newest, slice, memory_order_relaxed, memory_order_relaxed))
		return;
	uint64_t at = slice - newest > ADAPTIVE_SLICES ? slice - ADAPTIVE_SLICES : newest;
	uint64_t admitted = GET(k->admitted);
	while (at++ < slice)
		PUT(k->before[at % ADAPTIVE_SLICES], admitted);
}

uint64_t adaptive_live(const adaptive_class *k, uint64_t now_ns, uint64_t waiting, float limit_ns)
{
	uint64_t since_ns = now_ns > (uint64_t)limit_ns ? now_ns - (uint64_t)limit_ns : 0;
	uint64_t slice = since_ns >> k->slice_shift, newest = GET(k->slice);
	if (slice > newest)
		return 0;
	if (newest - slice >= ADAPTIVE_SLICES)
		return waiting;
	uint64_t young = GET(k->admitted) - GET(k->before[slice % ADAPTIVE_SLICES]);
	return young < waiting ? young : waiting;
}

/* Nothing is known yet, or the class starves: some are admitted, as long as they make progress, or none. */
static bool hopeful(adaptive_class *k, const weir_ask *ask, uint64_t waiting, float limit)
{
	weir_refusal_clear(&k->refused);
	return !GET(k->starving) && waiting < COLD_WAITING * ((uint64_t)ask->in_service + 1) &&
	       adaptive_live(k, ask->now_ns, waiting, limit / 2) == waiting;
}

/* Whether it would start in time, judging by what waits before it. */
static bool promising(adaptive_class *k, const weir_ask *ask, uint64_t waiting, uint64_t spent_ns)
{
	float tau = GET(k->tau_ns), limit = adaptive_left(k, GET(k->limit_ns), spent_ns),
	      slack = GET(k->slack);
	if (waiting == 0)
		return true;
	if (tau == 0 || GET(k->starving))
		return hopeful(k, ask, waiting, limit);
	if ((float)waiting * tau <= limit * slack)
		return true;
	float needed = (float)adaptive_live(k, ask->now_ns, waiting, limit) * tau;
	/* The next turn will find that it is calm, but that turn may be a long time coming. */
	if (needed > limit * slack && adaptive_fallen(k, ask->now_ns))
		limit = adaptive_left(k, GET(k->most_ns), spent_ns);
	if (needed <= limit * slack)
		return true;
	adaptive_note(&k->refused, k, (double)spent_ns, (double)needed / (double)slack, (double)limit);
	return false;
}

/* ---- minimum ---- */

/* Whether the class has had fewer starts than its minimum, counting those that it has been pledged. */
static bool owed(const adaptive *a, const adaptive_class *k)
{
	uint64_t starts = GET(a->starts), account = GET(k->account);
	return starts > account &&
	       (float)(starts - account) * k->minimum >= MINIMUM_PRICE * (1 + (float)GET(k->pledged));
}

/* Holds come one after the other, with time in between. A pledge given late in a hold would prolong it. */
static bool may_hold(const adaptive *a, const adaptive_class *k, uint64_t now_ns)
{
	if (GET(a->holding) != 0)
		return adaptive_span(GET(a->held_ns), now_ns) < k->target_ns;
	return now_ns >= GET(a->hold_at_ns);
}

static bool pledge(adaptive *a, adaptive_class *k, const weir_ask *ask)
{
	if (ask->klass == 0 || ask->count != 1 || k->minimum == 0 || GET(a->mixed) >= MIXED_SURE ||
	    !owed(a, k) || !may_hold(a, k, ask->now_ns))
		return false;
	uint32_t holding = GET(a->holding);
	if (holding == 0)
		PUT(a->held_ns, ask->now_ns);
	if (GET(k->pledged) == 0)
		PUT(k->pledge_ns, ask->now_ns);
	ADD(k->pledged, 1);
	if (holding < ask->klass)
		PUT(a->holding, ask->klass);
	return true;
}

/* A hold ends when no request with a pledge is waiting. */
static void end_hold(adaptive *a, uint64_t now_ns)
{
	uint32_t holding = 0;
	for (unsigned i = 1; i < WEIR_CLASSES; i++)
		holding = GET(a->klass[i].pledged) != 0 ? i : holding;
	if (holding == 0)
		PUT(a->hold_at_ns, now_ns + 3 * adaptive_span(GET(a->held_ns), now_ns));
	PUT(a->holding, holding);
}

static void redeem(adaptive *a, adaptive_class *k, uint64_t waiting, uint64_t now_ns)
{
	uint32_t pledged = GET(k->pledged);
	do {
		if (pledged == 0) /* a tick may have ended the hold just now */
			return;
	} while (!atomic_compare_exchange_weak_explicit(&k->pledged, &pledged, pledged - 1,
							memory_order_relaxed, memory_order_relaxed));
	if (pledged == 1 || waiting == 0) {
		PUT(k->pledged, 0);
		end_hold(a, now_ns);
	}
}

/* The debt is limited: what the class did not use for a long time is not owed to it. */
static void keep_account(adaptive *a, adaptive_class *k, uint64_t starts)
{
	uint64_t price = k->minimum > 0 ? (uint64_t)(MINIMUM_PRICE / k->minimum) : 0,
		 account = GET(k->account) + price;
	uint64_t most = 4 * price + (uint64_t)(8 * GET(a->klass[0].memory));
	if (starts > most && account < starts - most)
		account = starts - most;
	PUT(k->account, account > starts + most ? starts + most : account);
}

static bool may_enter(adaptive *a, adaptive_class *k, const weir_ask *ask)
{
	uint64_t spent_ns = adaptive_span(adaptive_begin(a, ask->entered_ns, ask->now_ns), ask->now_ns);
	bool shared = ask->shared && !a->per_stage;
	if (GET(a->dry_run))
		return adaptive_shadow_fits(k, ask, spent_ns, shared);
	if (shared)
		return adaptive_pool_promising(k, ask, spent_ns);
	if (ask->beside && !a->per_stage && !adaptive_pool_spare(k, ask))
		return false;
	bool held = GET(a->holding) > ask->klass;
	if (held)
		weir_refusal_clear(&k->refused);
	return (!held && promising(k, ask, adaptive_waiting(k), spent_ns)) || pledge(a, k, ask);
}

static weir_verdict adaptive_admit(void *state, const weir_ask *ask)
{
	adaptive *a = state;
	adaptive_class *k = &a->klass[ask->klass];
	uint64_t slice = ask->now_ns >> k->slice_shift, newest = GET(k->slice);
	if (slice != newest)
		roll(k, slice, newest);
	if (!may_enter(a, k, ask)) {
		ADD(k->shed, ask->count);
		return WEIR_SHED_LATE;
	}
	ADD(k->admitted, ask->count);
	return WEIR_ADMITTED;
}

static void adaptive_refund(void *state, const weir_ask *ask)
{
	adaptive_class *k = &((adaptive *)state)->klass[ask->klass];
	atomic_fetch_sub_explicit(&k->admitted, ask->count, memory_order_relaxed);
}

/* ---- credit ---- */

/*
 * Two threads that pay at once may exceed a bound by one request for a moment. Usually there is nothing
 * to pay: the credit is full, or lateness was neither expected nor happened. Then the word that all
 * threads share is not written.
 */
static void pay(adaptive_class *k, float requests)
{
	float bound = GET(k->bound) * ADAPTIVE_CREDIT;
	int64_t add = (int64_t)(requests * ADAPTIVE_CREDIT), least = -(int64_t)bound, credit = GET(k->credit);
	int64_t most = (int64_t)(bound * (CALM_BOUNDS + (OVER_BOUNDS - CALM_BOUNDS) * GET(k->over)));
	if (add >= 0 && credit == most)
		return;
	credit = ADD(k->credit, add) + add;
	if (credit > most)
		PUT(k->credit, most);
	else if (credit < least)
		PUT(k->credit, least);
}

/* In calm a debt is soon paid off, so waits are not cut for a small one. */
void adaptive_set_limit(adaptive_class *k)
{
	float credit = (float)GET(k->credit) * (1 / ADAPTIVE_CREDIT) * GET(k->per_bound);
	float over = GET(k->over), over_ns = GET(k->over_ns), debt_ns = GET(k->debt_ns);
	float eased = credit + (over == 0 ? CALM_LOAN : 0), ease_ns = GET(k->ease_ns);
	float least = (float)k->target_ns / 4, most = GET(k->most_ns), base = GET(k->base_ns);
	float more =
		adaptive_clamp(eased, -1, 1) * (eased > 0 ? ease_ns + (over_ns - ease_ns) * over : debt_ns);
	float strict = adaptive_clamp(credit, -1, 1) * (credit > 0 ? over_ns : debt_ns);
	PUT(k->limit_ns, adaptive_clamp(base + more, least, most));
	PUT(k->strict_ns, adaptive_clamp(base + strict, least, most));
}

/* Ticks compute a limit from what they have learnt. Between turns only credit and load can have changed. */
static void follow_credit(adaptive_class *k)
{
	int64_t credit = GET(k->credit);
	float over = GET(k->over);
	if (credit == k->limit_credit && over == k->limit_over)
		return;
	k->limit_credit = credit;
	k->limit_over = over;
	adaptive_set_limit(k);
}

/* The probability that a request is late if it starts after this wait. */
static float late_chance(const adaptive_class *k, uint64_t waited_ns)
{
	return waited_ns >= k->target_ns ? 1 : weir_service_tail(&k->service, k->target_ns - waited_ns);
}

/* ---- turns ---- */

/*
 * Never counts more than it has admitted. In a dry run, or above the shed ceiling, the law also sees
 * events that it refused, and would otherwise take the queue for empty ever after.
 */
static void leave_queue(adaptive_class *k)
{
	uint64_t left = GET(k->left);
	if (left < GET(k->admitted))
		PUT(k->left, left + 1);
}

/*
 * The measured time per start is so long that not even two may wait. Then nobody ever waits from one
 * start to the next, it is never measured again, and would be believed for ever.
 */
static bool implausible(const adaptive_class *k, uint64_t took_ns)
{
	float tau = GET(k->tau_ns);
	return tau > GET(k->limit_ns) * GET(k->slack) && (float)took_ns < tau;
}

/*
 * Measured only from one start to the next with requests waiting all the time in between: other intervals
 * show how often requests arrive, not how fast they are served. Intervals that contain a failure are left
 * out, because failing is quick.
 */
static void measure_tau(adaptive_class *k, uint64_t now_ns, uint32_t inside)
{
	uint64_t last_ns = GET(k->last_ns), failed = GET(k->failed), took_ns = now_ns - last_ns;
	PUT(k->last_ns, now_ns);
	bool honest = failed == k->failed_seen;
	k->failed_seen = failed;
	bool telling = k->queued || implausible(k, took_ns);
	if (!telling || !honest || now_ns < last_ns || took_ns > GAP_TARGETS * k->target_ns)
		return;
	k->taus++;
	float tau = GET(k->tau_ns), memory = GET(k->memory), taus = (float)k->taus;
	tau += ((float)took_ns - tau) / (taus < memory ? taus : memory);
	/* All of a batch start at once: that is quick, and not unknown. */
	PUT(k->tau_ns, tau > 1 ? tau : 1);
	float before = GET(k->inside);
	PUT(k->inside, before + ((float)inside - before) / (taus < TAU_LONG ? taus : TAU_LONG));
}

/*
 * If a lower class starts while a higher one waits, the stage's order is not strict, and nobody needs to
 * be held back for the lower class.
 */
static void note_order(adaptive *a, unsigned klass)
{
	uint32_t mixed = GET(a->mixed);
	bool before = false;
	for (unsigned i = 0; i < klass; i++)
		before |= adaptive_waiting(&a->klass[i]) != 0;
	if (before)
		PUT(a->mixed, mixed < 2 * MIXED_SURE ? mixed + 2 : mixed);
	else if (mixed > 0 && GET(a->holding) != 0)
		PUT(a->mixed, mixed - 1);
}

/*
 * Requests that arrived before the first pledge have none. Otherwise those waiting since long before a
 * hold would all start in it, late, in place of those that it is meant for.
 */
static bool has_pledge(const adaptive_class *k, const weir_event *event)
{
	return GET(k->pledged) != 0 && event->offered_ns >= GET(k->pledge_ns);
}

/*
 * Requests that overload has left in the queue get none of the credit of the calm that follows: they
 * would use it up before new arrivals have their turn. A request that was already late on arrival is not
 * dropped for it before it has waited here.
 */
static bool too_late(adaptive_class *k, const weir_event *event, float waited_ns, uint64_t now_ns)
{
	float limit = GET(k->limit_ns), strict = GET(k->strict_ns);
	if (event->offered_ns < k->calm_ns && strict < limit)
		limit = strict;
	if (waited_ns <= limit || adaptive_span(event->offered_ns, now_ns) <= k->target_ns / 16)
		return false;
	adaptive_note(&k->dropped, k, 0, (double)waited_ns, (double)limit);
	return true;
}

static bool pool_too_late(adaptive_class *k, uint64_t waited_ns)
{
	bool hopeless = adaptive_pool_hopeless(k, waited_ns);
	if (hopeless)
		adaptive_note(&k->dropped, k, 0, (double)waited_ns, 2 * (double)k->target_ns);
	return hopeless;
}

static weir_verdict drop_late(adaptive_class *k, bool others)
{
	k->queued = k->queued && others;
	PUT(k->load_offered, GET(k->load_offered) + 1); /* it was counted on arrival */
	ADD(k->shed, 1);
	return WEIR_SHED_WAITED;
}

/* The margin that is withheld in overload is paid out when overload is over: it was earned. */
static float withhold(adaptive_class *k, float requests)
{
	float all = k->withheld + requests, most = GET(k->bound);
	if (all == 0)
		return 0;
	bool calm = GET(k->over) == 0;
	k->withheld = calm ? 0 : all > most ? most : all;
	return calm ? all : 0;
}

static weir_verdict adaptive_start(void *state, const weir_event *event, const weir_turn *turn)
{
	adaptive *a = state;
	adaptive_class *k = &a->klass[event->klass];
	uint64_t now_ns = turn->now_ns, begin_ns = adaptive_begin(a, event->entered_ns, event->offered_ns);
	uint64_t waited_ns = adaptive_span(begin_ns, now_ns);
	bool shared = turn->shared && !a->per_stage;
	leave_queue(k);
	uint64_t waiting = adaptive_waiting(k);
	bool late = shared ? pool_too_late(k, waited_ns)
			   : too_late(k, event, (float)waited_ns, now_ns) && !has_pledge(k, event);
	if (late && !GET(a->dry_run)) /* there, the offer was the time to say so */
		return drop_late(k, waiting != 0);
	uint64_t starts = GET(a->starts) + 1, shed = GET(k->shed);
	PUT(a->starts, starts);
	measure_tau(k, now_ns, turn->in_service + 1);
	k->queued = waiting != 0;
	if (!shared && adaptive_may_look(k, now_ns))
		adaptive_measure_load(a, k, now_ns);
	float margin = shed != k->shed_seen ? OVER_EARNINGS * GET(k->over) : 0;
	k->shed_seen = shed;
	pay(k,
	    k->late_share * (1 - margin) - late_chance(k, waited_ns) + withhold(k, k->late_share * margin));
	follow_credit(k);
	if (event->klass != 0 && !shared) {
		keep_account(a, k, starts);
		note_order(a, event->klass);
		redeem(a, k, waiting, now_ns);
	}
	return WEIR_ADMITTED;
}

/*
 * A request that waits beyond its limit will be dropped at its turn anyway: sooner is kinder. It is not
 * dropped quite at once, since limits move. In a shared pool an admitted request is always answered,
 * unless nobody waits for the answer any more.
 */
static uint64_t adaptive_patience(const void *state, unsigned klass)
{
	const adaptive *a = state;
	const adaptive_class *k = &a->klass[klass];
	if (GET(a->pool_quality) != 0)
		return adaptive_pool_hopeless(k, UINT64_MAX) ? 2 * k->target_ns : UINT64_MAX;
	return GET(k->pledged) != 0 ? UINT64_MAX : (uint64_t)(1.25f * GET(k->limit_ns));
}

static void adaptive_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	adaptive *a = state;
	adaptive_class *k = &a->klass[event->klass];
	uint64_t waited_ns = adaptive_span(event->offered_ns, now_ns),
		 patience_ns = adaptive_patience(a, event->klass);
	if (waited_ns > patience_ns)
		adaptive_note(&k->dropped, k, 0, (double)waited_ns, (double)patience_ns);
	leave_queue(k);
	uint64_t waiting = adaptive_waiting(k);
	k->queued = k->queued && waiting != 0;
	if (GET(k->pledged) > waiting)
		redeem(a, k, waiting, now_ns);
}

/* ---- ends ---- */

static void measure_spent(adaptive_class *k, uint64_t spent_ns)
{
	float at = GET(k->spent_ns);
	if (at != 0 || spent_ns != 0)
		PUT(k->spent_ns, at + ((float)spent_ns - at) * (1 / 64.0f));
}

/* A step towards the percentile: up for a value above it, down a little for one below. */
static void measure_response(adaptive_class *k, uint64_t response_ns)
{
	float at = GET(k->measured_ns), response = (float)response_ns;
	float step = response > at ? 1 - k->late_share : -k->late_share;
	PUT(k->measured_ns, at == 0 ? response : at + at * step * (1 / 64.0f));
}

static void adaptive_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	const adaptive *a = state;
	adaptive_class *k = &((adaptive *)state)->klass[event->klass];
	uint64_t begin_ns = adaptive_begin(a, event->entered_ns, event->offered_ns);
	uint64_t started_ns = event->started_ns, waited_ns = adaptive_span(begin_ns, started_ns);
	float expected = late_chance(k, waited_ns);
	if (outcome != WEIR_DONE) {
		/* Earns nothing. If something further down is overloaded (refused), it counts as late. */
		ADD(k->failed, 1);
		pay(k, expected - (outcome == WEIR_REFUSED ? 1 : k->late_share));
		return;
	}
	uint64_t service_ns = adaptive_span(started_ns, now_ns);
	bool late = waited_ns + service_ns > k->target_ns;
	if (late || expected != 0)
		pay(k, expected - (late ? 1.0f : 0.0f));
	weir_service_add(&k->service, service_ns);
	measure_response(k, waited_ns + service_ns);
	measure_spent(k, adaptive_span(begin_ns, event->offered_ns));
}

static double adaptive_quality(const void *state, unsigned klass)
{
	const adaptive *a = state;
	float pool = GET(a->pool_quality);
	return pool != 0 ? (double)pool : weir_degrade_factor(&a->klass[klass].degrade);
}

const weir_admission_law weir_law_adaptive = {
	.name = "adaptive",
	.brief = "holds a percentile of the response times at a target, and needs nothing else",
	.state_bytes = sizeof(adaptive),
	.params_bytes = sizeof(weir_adaptive_params),
	.params = adaptive_params,
	.defaults = adaptive_defaults,
	.tick_ns = 10000000,
	.per_lane = true,
	.by_class = true,
	.wants_pool = true,
	.init = adaptive_init,
	.retarget = adaptive_retarget,
	.admit = adaptive_admit,
	.refund = adaptive_refund,
	.start = adaptive_start,
	.gone = adaptive_gone,
	.settle = adaptive_settle,
	.tick = adaptive_tick,
	.patience = adaptive_patience,
	.quality = adaptive_quality,
	.explain = adaptive_explain,
	.report = adaptive_report,
	.save = adaptive_save,
	.load = adaptive_load,
};
