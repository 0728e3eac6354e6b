/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows a step of blocking load within a few ticks of 10 ms, and shrinks slowly.
 *
 * The number of threads needed is the larger of two estimates:
 *
 * 1. Little's law over about the last second: arrival rate x mean time in the handler = threads busy on
 *    average. Some more are added because arrivals come in bursts: twice the square root keeps the share
 *    that must wait small at any size. Steady, but slow.
 * 2. The queue, when events have waited for PATIENCE although all threads are busy: the busy threads plus
 *    as many as would start the waiting events within DRAIN, at the speed of the last few ticks. While
 *    handlers block for longer than that, this is one thread for each waiting event. No handler needs to
 *    have finished, so a step to long blocking is followed at once.
 *
 * The pool grows to the need at once. It shrinks only to the largest need of the last one or two HOLD
 * periods, in steps, and only while a thread is idle: a need that comes and goes within seconds changes
 * nothing. Idle threads are cheap; a pool whose size oscillates is not.
 *
 * More threads than can make progress are useless. Where handlers compute, or wait for a lock, each
 * further thread slows down the others, and the need would grow to max. So the size is bounded by what
 * the threads achieve:
 *
 * 3. Processors. While the cores are in use, the pool has at most twice the threads that would keep all
 *    of them busy: the cores, over the part of the service that is computing. With all cores in use it
 *    does not grow, and with more threads than cores it shrinks in steps.
 * 4. Slowdown: service times over those with few in service. n threads at slowdown s do the work of n /
 *    s. The pool has at most twice that many. If a smaller pool then does proportionally less work, the
 *    threads were not obstructing each other, but the work itself has become slower: then this is the new
 *    usual time.
 *
 * If a stage's service time alone makes its target hard to meet, less slowdown is tolerated. If the target is
 * missed and there seems to be no slowdown, the usual times may have been learnt in a crowd: a service that
 * was started into an overload never had few in service. So half of the threads are tried. If they do as
 * much, half of those are tried next. If they do less, the work takes that long by itself: the pool gets its
 * threads back, and the next trial comes much later.
 *
 * At first, while the usual time is unknown, the pool grows by doubling, with time in between to measure
 * the effect.
 */
#include <math.h>

#include <weir/law.h>

#include "control/clamp.h"

#define TICK       (10 * WEIR_NS_PER_MS)
#define MEMORY     (1 * WEIR_NS_PER_S) /* of the averages */
#define RECENT     (30 * WEIR_NS_PER_MS)
#define PATIENCE   (5 * WEIR_NS_PER_MS)
#define DRAIN      (10 * WEIR_NS_PER_MS)
#define HOLD       (3 * WEIR_NS_PER_S)
#define STEP       (100 * WEIR_NS_PER_MS) /* between two steps of shrinking */
#define SEEN       (200 * WEIR_NS_PER_MS) /* memory of processors and slowdown */
#define ENDS       4                      /* completions per thread before the next doubling, ... */
#define WAIT       (50 * WEIR_NS_PER_MS)  /* ... or this long without any */
#define BUSY       .8                     /* part of the cores in use from which they may be the bottleneck */
#define CROWDED    2.0                    /* slowdown that is tolerated ... */
#define STRAINED   1.5                    /* ... and where a target suffers from it */
#define RETRY      (2 * WEIR_NS_PER_S)    /* the bound that follows from it doubles in about this time */
#define TRIAL_ENDS 64                     /* completions that a trial with fewer threads needs */
#define KNOWN_ENDS 64                     /* completions after which the usual time is known */
#define DOUBT      (10 * WEIR_NS_PER_S)   /* after a trial with half of the threads that did less; ... */
#define DOUBT_MOST (600 * WEIR_NS_PER_S)  /* ... doubles up to this */
#define DEPTH      .75                    /* part of the threads that shows whether all are needed */
#define AS_MUCH    .85                    /* of the work that was done before, with half of the threads */
#define LEAST      2                      /* a trial is not made with fewer threads than this */
#define KEPT       (5 * WEIR_NS_PER_S)    /* a bound that such a trial found does not grow for so long */

typedef struct pool_prompt {
	/* Decaying sums, with time constants MEMORY and RECENT. */
	double arrived, started, busy_ns, done_ns, time_ns;
	double recent_started, recent_busy_ns;
	/* The largest need in this HOLD period and in the one before. */
	double peak, peak_before;
	uint64_t hold_until_ns;
	uint64_t step_after_ns;
	/* What the threads achieve: decaying sums with the time constant SEEN. */
	double seen_ns, cpu_ns, ended_ns, usual_ns;
	double usual; /* the factor by which the work itself has become slower */
	double cap;   /* twice what they achieved when they last obstructed each other; 0: they never did */
	uint64_t grown_ns, grown_ends, ends;
	/* A trial with a smaller pool: when it counts from, its earliest end, threads and work before it. */
	uint64_t trial_from_ns, trial_ns;
	double trial_threads, trial_work;
	double trial_done_ns; /* usual times of what has ended since it counts, ... */
	uint64_t trial_ends;  /* ... and how many these were */
	/* The usual times are doubted: whether a trial is about that, when the next may be, and the pause. */
	bool doubting;
	uint64_t doubt_ns, doubt_pause_ns;
	uint64_t kept_ns; /* the bound does not grow before this time */
} pool_prompt;

static void prompt_init(void *state)
{
	*(pool_prompt *)state = (pool_prompt){.usual = 1, .doubt_pause_ns = DOUBT};
}

/* The factor by which a sum decays in an interval. */
static double fade(double memory_ns, const weir_pool_sample *sample)
{
	return memory_ns / (memory_ns + (double)sample->interval_ns);
}

static void remember(pool_prompt *p, const weir_pool_sample *sample)
{
	double keep = fade(MEMORY, sample), keep_recent = fade(RECENT, sample);
	p->arrived = p->arrived * keep + (double)sample->arrived;
	p->started = p->started * keep + (double)sample->started;
	p->busy_ns = p->busy_ns * keep + (double)sample->busy_ns;
	p->done_ns = p->done_ns * keep + (double)sample->usual_ns;
	p->time_ns = p->time_ns * keep + (double)sample->interval_ns;
	p->recent_started = p->recent_started * keep_recent + (double)sample->started;
	p->recent_busy_ns = p->recent_busy_ns * keep_recent + (double)sample->busy_ns;
}

/* Threads busy on average if everything that arrives is handled, plus what bursts need. */
static double need_by_rate(const pool_prompt *p)
{
	double busy = p->busy_ns / MEMORY;
	/*
	 * While the pool does not keep up, what it handles says too little. With hardly any starts the
	 * ratio says nothing.
	 */
	if (p->started >= 1 && p->arrived > p->started)
		busy *= p->arrived / p->started;
	return busy + 2 * sqrt(busy);
}

static double need_by_queue(const pool_prompt *p, const weir_pool_sample *sample)
{
	if (sample->waiting == 0 || sample->busy < sample->threads || sample->oldest_ns < PATIENCE)
		return 0;
	double mean_ns = p->recent_busy_ns / fmax(p->recent_started, 1);
	double share = fmin(mean_ns / DRAIN, 1); /* part of a thread, to start one event in time */
	return sample->busy + fmax(sample->waiting * share, 1);
}

static void note_peak(pool_prompt *p, double need, uint64_t now_ns)
{
	if (now_ns >= p->hold_until_ns) {
		p->peak_before = p->peak;
		p->peak = 0;
		p->hold_until_ns = now_ns + HOLD;
	}
	p->peak = fmax(p->peak, need);
}

/* One step down towards the recent need: an eighth of the way, at least one thread. */
static uint32_t let_go(pool_prompt *p, const weir_pool_sample *sample, uint32_t needed)
{
	bool idle = sample->busy < sample->threads;
	if (sample->threads <= needed || !idle || sample->now_ns < p->step_after_ns)
		return sample->threads;
	p->step_after_ns = sample->now_ns + STEP;
	uint32_t step = (sample->threads - needed) / 8;
	return sample->threads - (step > 0 ? step : 1);
}

/* ---- what the threads achieve ---- */

static void watch(pool_prompt *p, const weir_pool_sample *sample)
{
	double keep = fade(SEEN, sample);
	p->seen_ns = p->seen_ns * keep + (double)sample->interval_ns;
	p->cpu_ns = p->cpu_ns * keep + (double)sample->cpu_ns;
	p->ended_ns = p->ended_ns * keep + (double)sample->ended_ns;
	p->usual_ns = p->usual_ns * keep + (double)sample->usual_ns;
	p->grown_ends += sample->ended;
	p->ends += sample->ended;
	if (p->trial_ns != 0 && sample->now_ns > p->trial_from_ns) {
		p->trial_done_ns += (double)sample->usual_ns;
		p->trial_ends += sample->ended;
	}
}

static double cores_used(const pool_prompt *p, const weir_pool_sample *sample)
{
	return sample->cores > 0 && p->seen_ns > 0 ? p->cpu_ns / p->seen_ns / sample->cores : 0;
}

static double slowdown(const pool_prompt *p)
{
	double slow = p->usual_ns > 0 ? p->ended_ns / p->usual_ns / p->usual : 1;
	return slow > 1 ? slow : 1;
}

/* Lately, on average. */
static bool all_busy(const pool_prompt *p, const weir_pool_sample *sample)
{
	return p->recent_busy_ns >= .9 * RECENT * sample->threads;
}

/* Begins a trial with half of the threads, if the usual times are to be doubted. */
static void doubt(pool_prompt *p, const weir_pool_sample *sample)
{
	if (!sample->strained || !sample->late || sample->now_ns < p->doubt_ns ||
	    sample->threads < 2 * LEAST || p->ends < KNOWN_ENDS || !all_busy(p, sample))
		return;
	p->doubting = true;
	p->cap = sample->threads / 2.0;
}

static void end_doubt(pool_prompt *p, const weir_pool_sample *sample, bool less)
{
	p->doubting = false;
	p->doubt_ns = sample->now_ns + (less ? p->doubt_pause_ns : 0);
	p->kept_ns = sample->now_ns + KEPT;
	p->cap = less ? p->trial_threads : p->cap;
	p->doubt_pause_ns = less ? (uint64_t)fmin(2.0 * (double)p->doubt_pause_ns, DOUBT_MOST) : DOUBT;
}

/* The work of a few events says little. */
static bool trial_is_over(const pool_prompt *p, const weir_pool_sample *sample)
{
	return sample->now_ns >= p->trial_ns &&
	       (p->trial_ends >= TRIAL_ENDS || sample->now_ns >= p->trial_ns + 2 * MEMORY);
}

/* Ends a trial: did fewer threads do less? */
static void end_trial(pool_prompt *p, const weir_pool_sample *sample)
{
	if (p->trial_ns == 0 || !trial_is_over(p, sample))
		return;
	double work = p->trial_done_ns / (double)(sample->now_ns - p->trial_from_ns);
	double fewer = sample->threads / p->trial_threads;
	bool computing = cores_used(p, sample) > BUSY; /* then the cause of the obstruction is clear */
	double enough = p->doubting ? AS_MUCH : (1 + fewer) / 2;
	bool smaller = fewer <= DEPTH || (fewer < 1 && !sample->late);
	bool less = smaller && !computing && sample->waiting > 0 && work < p->trial_work * enough;
	p->trial_ns = 0;
	if (less) {
		p->usual *= slowdown(p);
		p->cap = 0;
	}
	if (p->doubting)
		end_doubt(p, sample, less);
}

/* Twice what the threads achieve, if they obstruct each other; otherwise it grows. */
static void bound(pool_prompt *p, const weir_pool_sample *sample, double borne)
{
	if (slowdown(p) > borne) {
		p->cap = fmax(borne * p->usual * p->usual_ns / p->seen_ns, 1);
		return;
	}
	doubt(p, sample);
	if (!p->doubting && sample->now_ns >= p->kept_ns)
		p->cap *= 1 + (double)sample->interval_ns / RETRY;
}

/* The largest number of threads that make progress. */
static double useful(pool_prompt *p, const weir_pool_sample *sample)
{
	double most = sample->max, used = cores_used(p, sample);
	end_trial(p, sample);
	double borne = sample->strained ? STRAINED : CROWDED;
	/* The part of an unobstructed service that is computing. */
	double computing = p->usual_ns > 0 ? fmin(p->cpu_ns / p->usual_ns, 1) : 0;
	if (used > BUSY && computing > 0)
		most = fmin(most, borne * sample->cores / computing);
	double threads = sample->threads;
	if (used > .97) /* more threads would not get more processor time */
		most = fmin(most, threads);
	if (used > (sample->strained ? .9 : .99) && threads > sample->cores)
		most = fmin(most, fmax(threads - fmax(threads / 4, 1), sample->cores));
	if (p->trial_ns == 0)
		bound(p, sample, borne);
	if (p->cap > 0)
		most = fmin(most, p->cap);
	return fmax(most, sample->min);
}

/*
 * Before the usual time is known: twice the current number, once the current threads have completed
 * enough.
 */
static double may_grow_to(const pool_prompt *p, const weir_pool_sample *sample)
{
	if (sample->cores == 0 || p->ends >= KNOWN_ENDS)
		return sample->max;
	bool blocked = p->grown_ends == 0 && sample->now_ns >= p->grown_ns + WAIT;
	bool seen = blocked || p->grown_ends >= ENDS * (uint64_t)sample->threads ||
		    sample->now_ns >= p->grown_ns + MEMORY;
	return seen ? fmax(2.0 * sample->threads, sample->min) : sample->threads;
}

static uint32_t grow(pool_prompt *p, const weir_pool_sample *sample, uint32_t threads)
{
	p->grown_ns = sample->now_ns;
	p->grown_ends = 0;
	return threads;
}

static uint32_t shrink(pool_prompt *p, const weir_pool_sample *sample, uint32_t threads)
{
	if (sample->now_ns < p->step_after_ns)
		return sample->threads;
	p->step_after_ns = sample->now_ns + STEP;
	if (p->trial_ns != 0)
		return threads;
	p->trial_from_ns = sample->now_ns + SEEN;
	p->trial_ns = sample->now_ns + 3 * SEEN;
	p->trial_threads = sample->threads;
	p->trial_work = p->done_ns / p->time_ns;
	p->trial_done_ns = 0;
	p->trial_ends = 0;
	/* While a target is missed, the answer must be clear; a trial with nearly as many gives none. */
	if (sample->late && p->cap > 0 && p->cap < sample->threads)
		p->cap = fmin(p->cap, fmax(DEPTH * sample->threads, 1));
	return (uint32_t)fmin(threads, p->cap > 0 ? fmax(floor(p->cap), 1) : threads);
}

static uint32_t prompt_size(void *state, const weir_pool_sample *sample)
{
	pool_prompt *p = state;
	remember(p, sample);
	watch(p, sample);
	double need = fmax(need_by_rate(p), need_by_queue(p, sample)), most = useful(p, sample);
	need = fmin(need, most);
	note_peak(p, need, sample->now_ns);
	uint32_t grown = weir_clamp_up(fmin(need, may_grow_to(p, sample)), sample->min, sample->max);
	if (grown > sample->threads)
		return grow(p, sample, grown);
	uint32_t crowd = weir_clamp_up(most, sample->min, sample->max);
	if (crowd < sample->threads)
		return weir_clamp_up(shrink(p, sample, crowd), sample->min, sample->max);
	uint32_t lately = weir_clamp_up(fmax(p->peak, p->peak_before), sample->min, sample->max);
	return weir_clamp_up(let_go(p, sample, lately), sample->min, sample->max);
}

const weir_pool_law weir_pool_prompt = {
	.name = "prompt",
	.state_bytes = sizeof(pool_prompt),
	.tick_ns = TICK,
	.init = prompt_init,
	.size = prompt_size,
};
