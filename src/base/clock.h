/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

/*
 * Two ways to read one clock.
 *
 * weir_clock_ns is CLOCK_MONOTONIC, about 25 ns per call. A weir_clock is a cheaper view of it for one
 * thread. weir_clock_turn sets it once per loop turn. weir_clock_now then extrapolates with the
 * processor's cycle counter (10 ns) if that is invariant, and reads CLOCK_MONOTONIC otherwise. It never
 * goes back within a turn; from turn to turn it is corrected forward only.
 */

#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

typedef struct weir_clock {
	uint64_t base_ns;    /* CLOCK_MONOTONIC at the last turn (never less than last_ns was) */
	uint64_t base_ticks; /* the cycle counter at that time */
	uint64_t last_ns;    /* the last value returned */
	uint64_t scale;      /* ns per tick, times 2^32 */
	uint64_t ticks_max;  /* how many ticks the counter is trusted after a turn; 0: no usable counter */
} weir_clock;

static inline uint64_t weir_clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Determines, once per process, whether the counter can be used and how fast it runs. */
void weir_clock_init(weir_clock *clock);
/* Reads the true clock; returns it, or the last value returned if that is later. */
uint64_t weir_clock_turn(weir_clock *clock);

/*
 * How far the counter is trusted after a turn: 0.1 s on a current processor. After that, or if the
 * counter runs backwards or jumps (a migrated virtual machine), the true clock is read and the counter is
 * synchronised again.
 */
#define WEIR_CLOCK_TICKS_MAX (UINT64_C(1) << 28)
/* A counter slower than 62 MHz is not used, so that ticks times scale fits into 64 bits. */
#define WEIR_CLOCK_SCALE_MAX ((UINT64_C(1) << 36) - 1)

/* Never goes back: at a turn base_ns is at least last_ns, and within a turn the counter only counts up. */
static inline uint64_t weir_clock_now(weir_clock *clock)
{
#if defined(__x86_64__)
	uint64_t ticks = __rdtsc() - clock->base_ticks;
	if (__builtin_expect(ticks < clock->ticks_max, 1))
		return clock->last_ns = clock->base_ns + (ticks * clock->scale >> 32);
#endif
	return weir_clock_turn(clock);
}

#endif
