/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#define PAIR_TICKS_MAX 65536u /* about 20 us: no clock read takes that long unless the thread is preempted */
#define PAIR_TRIES     4

#if defined(__x86_64__)

#include <cpuid.h>
#include <pthread.h>
#include <stdbool.h>

#define WINDOW_NS 1000000u /* length of each of the two measurements of the counter's speed */

static uint64_t counter_scale; /* set once, by find_scale */
static pthread_once_t scale_found = PTHREAD_ONCE_INIT;

typedef struct pair {
	uint64_t ns, ticks;
} pair;

/* Whether the counter runs at the same speed in all power states. */
static bool counter_invariant(void)
{
	unsigned a, b, c, d;
	return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
}

/*
 * Reads both clocks at one instant: the tightest of a few tries, because the thread may be preempted in
 * between.
 */
static pair read_pair(void)
{
	pair best = {0, 0};
	uint64_t width = UINT64_MAX;
	for (int i = 0; i < 16; i++) {
		uint64_t before = __rdtsc();
		uint64_t ns = weir_clock_ns();
		uint64_t after = __rdtsc();
		if (after - before < width) {
			width = after - before;
			best = (pair){ns, before + width / 2};
		}
	}
	return best;
}

static pair read_pair_after(uint64_t ns)
{
	while (weir_clock_ns() < ns)
		_mm_pause();
	return read_pair();
}

/* 0: implausible. */
static uint64_t scale_between(pair from, pair to)
{
	uint64_t ticks = to.ticks - from.ticks;
	if (to.ticks <= from.ticks)
		return 0;
	uint64_t scale = (uint64_t)(((unsigned __int128)(to.ns - from.ns) << 32) / ticks);
	return scale <= WEIR_CLOCK_SCALE_MAX ? scale : 0;
}

/* Measured twice: if the two results differ by more than a thousandth, the counter is not used. */
static void find_scale(void)
{
	if (!counter_invariant())
		return;
	pair start = read_pair();
	pair middle = read_pair_after(start.ns + WINDOW_NS);
	pair end = read_pair_after(middle.ns + WINDOW_NS);
	uint64_t first = scale_between(start, middle), second = scale_between(middle, end);
	uint64_t difference = first > second ? first - second : second - first;
	if (first != 0 && second != 0 && difference <= first / 1000)
		counter_scale = scale_between(start, end);
}

void weir_clock_init(weir_clock *clock)
{
	pthread_once(&scale_found, find_scale);
	*clock = (weir_clock){.scale = counter_scale,
			      .ticks_max = counter_scale != 0 ? WEIR_CLOCK_TICKS_MAX : 0};
	weir_clock_turn(clock);
}

static uint64_t counter(const weir_clock *clock)
{
	return clock->scale != 0 ? __rdtsc() : 0;
}

#else

void weir_clock_init(weir_clock *clock)
{
	*clock = (weir_clock){.scale = 0};
	weir_clock_turn(clock);
}

static uint64_t counter(const weir_clock *clock)
{
	return 0;
}

#endif

/*
 * If the thread is preempted between the two reads, the clock would be late by that pause until the next
 * turn, so the pair is read again. The number of tries is limited: on a machine that is that busy the
 * next turn is soon.
 */
uint64_t weir_clock_turn(weir_clock *clock)
{
	uint64_t now, ticks, before;
	int tries = 0;
	do {
		before = counter(clock);
		now = weir_clock_ns();
		ticks = counter(clock);
	} while (ticks - before > PAIR_TICKS_MAX && ++tries < PAIR_TRIES);
	/*
	 * The extrapolation may have run ahead by some nanoseconds. Then time stands still until the true
	 * clock has caught up.
	 */
	if (now < clock->last_ns)
		now = clock->last_ns;
	clock->base_ticks = ticks;
	clock->base_ns = now;
	clock->last_ns = now;
	return now;
}
