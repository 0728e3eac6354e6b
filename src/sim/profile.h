/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_PROFILE_H
#define WEIR_SIM_PROFILE_H

/*
 * A number over time: how many requests a second, how many users. Written as a list of what happens when,
 *
 *	700, 20s 1400, 40s..60s 700, 80s+2s 7000
 *
 * is 700 from the start, 1400 from 20 s on, going down evenly to 700 between 40 s and 60 s, and 7000 for the two seconds after 80 s, and
 * then what it was before. A value with an x (1.4x) is a multiple of a capacity that is known only when the whole scenario is.
 *
 * Invariants of a profile that was resolved: segments begin at 0, their times grow, every value is finite and not negative; within
 * a segment the value goes evenly from `from` to `to`, the last one has no end and is level.
 *
 * Threads: one owner at a time; no globals. Times are ns since the start of the run.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR_PROFILE_ENTRIES = 64, WEIR_PROFILE_SEGMENTS = 2 * WEIR_PROFILE_ENTRIES + 1 };

typedef enum weir_profile_form { WEIR_PROFILE_STEP, WEIR_PROFILE_RAMP, WEIR_PROFILE_SPIKE } weir_profile_form;

typedef struct weir_profile {
	/* as written */
	struct weir_profile_entry {
		weir_profile_form form;
		bool of_capacity;
		uint64_t at_ns, until_ns; /* ramp and spike: both; step: the same */
		double value;
	} entry[WEIR_PROFILE_ENTRIES];
	unsigned entries;
	/* resolved */
	struct weir_profile_segment {
		uint64_t at_ns;
		double from, to;
	} segment[WEIR_PROFILE_SEGMENTS];
	unsigned segments;
} weir_profile;

/* Reads what is written. 0, or -EINVAL and weir_error says what would be accepted; then the profile is untouched. */
int weir_profile_parse(const char *text, weir_profile *ret_profile);
/* Makes the segments; capacity is what 1x means. -EINVAL: a value with an x, and no capacity (not above 0). */
int weir_profile_resolve(weir_profile *profile, double capacity);
/* The value at a time. */
double weir_profile_at(const weir_profile *profile, uint64_t at_ns);
/* The largest value it ever has. */
double weir_profile_peak(const weir_profile *profile);
/* The time of the at-th moment at which something changes (0 is not one); UINT64_MAX: no more. */
uint64_t weir_profile_change(const weir_profile *profile, unsigned at);
/*
 * When `area` (value x seconds) has passed since from_ns: the next arrival, if area is 1, or exponential with mean 1. Not later than
 * limit_ns: then that is returned, and *area is what is left of it.
 */
uint64_t weir_profile_after(const weir_profile *profile, double times, uint64_t from_ns, uint64_t limit_ns,
			    double *area);

#endif
