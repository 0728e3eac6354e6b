/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_DOWNSTREAM_H
#define WEIR_CONTROL_DOWNSTREAM_H

/*
 * How much of a class a stage should admit when stages further down shed some of it: as much as keeps
 * about WEIR_DOWNSTREAM_WANTED of it being shed there. If none were shed, that would look the same as no
 * overload, and the stages below could be idle.
 *
 * A pure state machine, one per class. One thread steps it, about every 100 ms.
 */

#include <stdbool.h>
#include <stdint.h>

#define WEIR_DOWNSTREAM_WANTED 0.015
#define WEIR_DOWNSTREAM_STEPS  16 /* steps that it remembers */

typedef struct weir_downstream {
	double limit_per_s;   /* maximum to admit; INFINITY: everything */
	double offered_per_s; /* smoothed; negative: not known yet */
	/* Smoothed equally: what arrived where it may be shed, and what was shed. */
	double came_per_s, shed_per_s;
	double harm;        /* the fraction that was shed when there last was a shed */
	uint64_t lag_ns;    /* from an event's entry until it is shed, smoothed */
	uint64_t harmed_ns; /* time of the last shed further down */
	double let_in_per_s[WEIR_DOWNSTREAM_STEPS];
	unsigned step;
} weir_downstream;

/* One class since the last step. */
typedef struct weir_downstream_sample {
	uint64_t now_ns, interval_ns;
	uint64_t offered, let_in;
	uint64_t shed;   /* further down, of events that entered here at any time */
	uint64_t lag_ns; /* mean time from their entry until they were shed */
} weir_downstream_sample;

void weir_downstream_init(weir_downstream *state, uint64_t now_ns);
/* Returns the fraction of the offers to admit, 0 to 1. */
double weir_downstream_step(weir_downstream *state, const weir_downstream_sample *sample);

#endif
