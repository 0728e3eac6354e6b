/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_ARRIVE_H
#define WEIR_LOAD_ARRIVE_H

/*
 * When users, sessions or requests arrive in an open workload: a sequence of times since the start of the run, from phases or from a trace. Pure: seeded, no clock.
 *
 * A run on n threads has n arrivals, each told its number: together they are the process that was asked for (constant: each takes every n-th; Poisson: each has an n-th of the
 * rate; trace: each takes every n-th line).
 *
 * Threads: an arrivals object is its thread's alone; a schedule is read-only once it is made, and shared.
 */

#include <stdbool.h>
#include <stdint.h>
#include <weir/random.h>

typedef struct load_phase {
	uint64_t length_ns;
	double rate; /* arrivals a second; 0: nobody comes */
} load_phase;

typedef struct load_schedule load_schedule;

typedef struct load_arrivals {
	const load_schedule *schedule;
	uint64_t at_ns; /* of the one that load_arrivals_next gave last */
	weir_random random;
	uint32_t phase, thread, threads;
	uint64_t phase_from_ns, given;
} load_arrivals;

/* Phases one after the other, again from the first when `repeat`, until until_ns. Poisson, or evenly spaced. 0, -EINVAL or -ENOMEM (weir_error_text tells). */
int load_schedule_phases(const load_phase *phases, unsigned count, bool poisson, bool repeat,
			 uint64_t until_ns, load_schedule **ret);
void load_schedule_free(load_schedule **schedule);
/* When it is over, UINT64_MAX if it never is; and how many arrive a second on average until then. */
uint64_t load_schedule_end(const load_schedule *schedule);
double load_schedule_rate(const load_schedule *schedule);

void load_arrivals_start(load_arrivals *arrivals, const load_schedule *schedule, unsigned thread,
			 unsigned threads, uint64_t seed);
/* Nanoseconds since the start, never less than the last; UINT64_MAX: nobody comes any more. */
uint64_t load_arrivals_next(load_arrivals *arrivals);

#endif
