/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_PROFILE_H
#define WEIR_SIM_PROFILE_H

/*
 * A number over time: requests per second, or users. It is written as a list of changes:
 *
 *  700, 20s 1400, 40s..60s 700, 80s+2s 7000
 *
 * This is 700 from the start, 1400 from 20 s on, a linear descent to 700 between 40 s and 60 s, 7000 for
 * the two seconds after 80 s, and then the previous value again. A value with an x (1.4x) is a multiple
 * of a capacity that is known only when the whole scenario is.
 *
 * Invariants of a resolved profile: segments begin at 0, their times increase, every value is finite and
 * not negative. Within a segment the value goes linearly from `from` to `to`; the last one has no end and
 * is constant.
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
		uint64_t at_ns, until_ns; /* ramp and spike: both; step: equal */
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

/*
 * Parses the text. Returns 0, or -EINVAL, and weir_error says what would be accepted; then the profile is
 * untouched.
 */
int weir_profile_parse(const char *text, weir_profile *ret_profile);
/*
 * Computes the segments; capacity is the meaning of 1x. -EINVAL: a value has an x, but there is no
 * capacity (not above 0).
 */
int weir_profile_resolve(weir_profile *profile, double capacity);
double weir_profile_at(const weir_profile *profile, uint64_t at_ns);
/* The largest value at any time. */
double weir_profile_peak(const weir_profile *profile);
/* The time of the change number `at` (time 0 does not count as one); UINT64_MAX: no more. */
uint64_t weir_profile_change(const weir_profile *profile, unsigned at);
/*
 * The time when `area` (value x seconds) has passed since from_ns: the next arrival, if area is 1, or
 * exponential with mean 1. If that would be after limit_ns, returns limit_ns, and *area is the remainder.
 */
uint64_t weir_profile_after(const weir_profile *profile, double times, uint64_t from_ns, uint64_t limit_ns,
			    double *area);

#endif
