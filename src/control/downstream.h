/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_DOWNSTREAM_H
#define WEIR_CONTROL_DOWNSTREAM_H

/*
 * How much of a class a stage should let in when stages further down shed some of it: as much as keeps about WEIR_DOWNSTREAM_WANTED
 * of it being shed there. None at all would look the same as no overload, and the stages below could be idle.
 *
 * A pure state machine, one a class. Step it about every 100 ms, by one thread.
 */

#include <stdbool.h>
#include <stdint.h>

#define WEIR_DOWNSTREAM_WANTED 0.015
#define WEIR_DOWNSTREAM_STEPS  16 /* that it remembers */

typedef struct weir_downstream {
	double limit_per_s;   /* let in at most; INFINITY: all */
	double offered_per_s; /* smoothed; less than nothing: not known yet */
	/* Smoothed alike: what came to where it may be shed, and what was. */
	double came_per_s, shed_per_s;
	double harm;        /* the part that was shed when some last was */
	uint64_t lag_ns;    /* from an event's entry to its shed, smoothed */
	uint64_t harmed_ns; /* the last shed further down */
	double let_in_per_s[WEIR_DOWNSTREAM_STEPS];
	unsigned step;
} weir_downstream;

/* One class since the last step. */
typedef struct weir_downstream_sample {
	uint64_t now_ns, interval_ns;
	uint64_t offered, let_in;
	uint64_t shed;   /* further down, of what entered here at any time */
	uint64_t lag_ns; /* mean time of these from their entry to being shed */
} weir_downstream_sample;

void weir_downstream_init(weir_downstream *state, uint64_t now_ns);
/* The part of what is offered that should be let in, 0 to 1. */
double weir_downstream_step(weir_downstream *state, const weir_downstream_sample *sample);

#endif
