/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_ARRIVE_H
#define WEIR_LOAD_ARRIVE_H

/*
 * When users, sessions or requests arrive in an open workload: a sequence of times since the start of the
 * run, from phases or from a trace. Pure: seeded, no clock.
 *
 * A run on n threads has n arrivals objects, each with its number. Together they are the requested
 * process (constant: each takes every n-th; Poisson: each has an n-th of the rate; trace: each takes
 * every n-th line).
 *
 * Threads: an arrivals object belongs to its thread alone; a schedule is read-only once it is made, and
 * shared.
 */

#include <stdbool.h>
#include <stdint.h>
#include <weir/random.h>

typedef struct load_phase {
	uint64_t length_ns;
	double rate; /* arrivals per second; 0: none */
} load_phase;

typedef struct load_schedule load_schedule;
/* Read with weir_tracefile_read and freed with weir_tracefile_free: see sim/trace.h. */
typedef struct weir_tracefile load_trace;

typedef struct load_arrivals {
	const load_schedule *schedule;
	uint64_t at_ns; /* time of the last result of load_arrivals_next */
	/*
	 * Its number among those of all threads (Poisson: of this thread). Of a trace: its line, from 0,
	 * for load_user_start_at.
	 */
	uint64_t number;
	weir_random random;
	uint32_t phase, thread, threads;
	uint64_t cycle, given;
	double area; /* Poisson: the expected number of arrivals so far */
} load_arrivals;

/* ---- schedules ---- */

#define LOAD_PHASES_MAX 1000
#define LOAD_RATE_MAX   1e9
#define LOAD_LENGTH_MAX UINT64_C(3600000000000000) /* 1000 hours */

/*
 * Phases one after the other, again from the first if `repeat`, until until_ns (UINT64_MAX: without end).
 * Poisson, or evenly spaced: then the first comes at once, and a fraction of an arrival that is left at
 * the end of a phase counts in the next. 0, -EINVAL or -ENOMEM with weir_error.
 */
int load_schedule_phases(const load_phase *phases, unsigned count, bool poisson, bool repeat,
			 uint64_t until_ns, load_schedule **ret);
/*
 * Arrivals as in a trace: its times divided by `faster`, so that 2 is twice the load. The trace may be
 * freed afterwards.
 */
int load_schedule_trace(const load_trace *trace, double faster, load_schedule **ret);
/*
 * The factor that gives this many arrivals per second on average. -EINVAL: the trace has less than two
 * different times.
 */
int load_trace_faster(const load_trace *trace, double rate, double *ret_faster);
void load_schedule_free(load_schedule **schedule);
/*
 * When it is over (trace: just after its last arrival), UINT64_MAX if never; and the average number of
 * arrivals per second until then.
 */
uint64_t load_schedule_end(const load_schedule *schedule);
double load_schedule_rate(const load_schedule *schedule);

void load_arrivals_start(load_arrivals *arrivals, const load_schedule *schedule, unsigned thread,
			 unsigned threads, uint64_t seed);
/* Nanoseconds since the start, never less than the last; UINT64_MAX: no more arrivals. */
uint64_t load_arrivals_next(load_arrivals *arrivals);

/* ---- text forms ---- */

/* "10s@500", "10s@500/s"; "5s@1.4x" is a multiple of the capacity (0: unknown, and an x is refused). */
int load_phase_parse(const char *text, double capacity, load_phase *ret);
/* Whether the text of a phase needs a capacity. */
bool load_phase_is_multiple(const char *text);

/*
 * The transient workloads W1 to W10 of the study of SRPT under overload (its Table I): low load, then
 * overload, again and again. Loads are multiples of the capacity.
 */
typedef struct load_transient {
	const char *name;
	/* Overload is short compared with low load; otherwise both have the same length: alternating. */
	bool intermittent;
	uint64_t low_ns, high_ns;
	double low, high;
	double mean; /* as in the paper, to one digit */
} load_transient;

#define LOAD_TRANSIENTS 10
const load_transient *load_transient_at(unsigned at);
/* "W7", "w7"; NULL: there is none with this name. */
const load_transient *load_transient_find(const char *name);
/* Its two phases for a service of this capacity (per second); for load_schedule_phases with repeat. */
void load_transient_phases(const load_transient *transient, double capacity, load_phase ret[2]);

#endif
