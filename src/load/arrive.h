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
typedef struct weir_tracefile
	load_trace; /* sim/trace.h reads them: weir_tracefile_read, weir_tracefile_free */

typedef struct load_arrivals {
	const load_schedule *schedule;
	uint64_t at_ns; /* of the one that load_arrivals_next gave last */
	uint64_t
		number; /* of that one, among those of all threads (Poisson: of this thread); of a trace: its line, from 0, for load_user_start_at */
	weir_random random;
	uint32_t phase, thread, threads;
	uint64_t cycle, given;
	double area; /* Poisson: how many have come so far, if as many came as are expected */
} load_arrivals;

/* ---- schedules ---- */

#define LOAD_PHASES_MAX 1000
#define LOAD_RATE_MAX   1e9
#define LOAD_LENGTH_MAX UINT64_C(3600000000000000) /* 1000 hours */

/*
 * Phases one after the other, again from the first when `repeat`, until until_ns (UINT64_MAX: no such end). Poisson, or evenly spaced: then the first comes at once, and a part of an
 * arrival that is left over at the end of a phase counts in the next. 0, -EINVAL or -ENOMEM (weir_error tells).
 */
int load_schedule_phases(const load_phase *phases, unsigned count, bool poisson, bool repeat,
			 uint64_t until_ns, load_schedule **ret);
/* As a trace has them: its times divided by `faster`, so that twice the load is 2. The trace may be freed. */
int load_schedule_trace(const load_trace *trace, double faster, load_schedule **ret);
/* The factor with which this many come a second on average (of a trace of less than two different times there is none: -EINVAL). */
int load_trace_faster(const load_trace *trace, double rate, double *ret_faster);
void load_schedule_free(load_schedule **schedule);
/* When it is over (trace: just after its last), UINT64_MAX if it never is; and how many arrive a second on average until then. */
uint64_t load_schedule_end(const load_schedule *schedule);
double load_schedule_rate(const load_schedule *schedule);

void load_arrivals_start(load_arrivals *arrivals, const load_schedule *schedule, unsigned thread,
			 unsigned threads, uint64_t seed);
/* Nanoseconds since the start, never less than the last; UINT64_MAX: nobody comes any more. */
uint64_t load_arrivals_next(load_arrivals *arrivals);

/* ---- as people write them ---- */

/* "10s@500", "10s@500/s"; "5s@1.4x" is a multiple of the capacity (0: none is known, and an x is refused). */
int load_phase_parse(const char *text, double capacity, load_phase *ret);
/* Whether a phase as written needs a capacity. */
bool load_phase_is_multiple(const char *text);

/* The transient workloads W1 to W10 of the study of SRPT under overload (its Table I): low, then overload, again and again. Loads are multiples of the capacity. */
typedef struct load_transient {
	const char *name;
	bool intermittent; /* overload is short beside the low; else both are as long: alternating */
	uint64_t low_ns, high_ns;
	double low, high;
	double mean; /* as the paper has it, to one digit */
} load_transient;

#define LOAD_TRANSIENTS 10
const load_transient *load_transient_at(unsigned at);
/* "W7", "w7"; NULL: there is none of this name. */
const load_transient *load_transient_find(const char *name);
/* Its two phases for a service of this capacity (a second); for load_schedule_phases with repeat. */
void load_transient_phases(const load_transient *transient, double capacity, load_phase ret[2]);

#endif
