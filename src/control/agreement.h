/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_AGREEMENT_H
#define WEIR_CONTROL_AGREEMENT_H

/*
 * A service level agreement: the response time that is promised depends on the arrival rate (Cataclysm,
 * section 2.2, Table 1). With more arrivals more time is allowed, so that more of them can be answered.
 *
 * The rate is a moving average over a second. A longer time is promised as soon as the rate reaches the bound
 * of a step. A shorter one is promised only after the rate has stayed below nine tenths of the bound for ten
 * seconds, one step at a time. Otherwise a rate near a bound would switch the promise to and fro.
 *
 * An agreement is constant once it is made; the state belongs to its caller. No clock, no lock.
 */

#include <stdbool.h>
#include <stdint.h>

enum { WEIR_AGREEMENT_STEPS = 8 };

typedef struct weir_agreement {
	unsigned steps; /* 1 to WEIR_AGREEMENT_STEPS; 0: there is no agreement */
	struct {
		double below_per_s; /* rising; the last is INFINITY */
		uint64_t time_ns;   /* never falling */
	} step[WEIR_AGREEMENT_STEPS];
} weir_agreement;

typedef struct weir_agreement_state {
	double rate_per_s; /* smoothed */
	double calm_s;     /* how long the rate has been low enough for the step before */
	unsigned at;       /* the step in force */
	bool begun;        /* there was a tick */
} weir_agreement_state;

/* NULL: sound. Otherwise what is wrong with it. */
const char *weir_agreement_wrong(const weir_agreement *agreement);
/* Counts the arrivals of an interval. Returns the time that is promised from now on. */
uint64_t weir_agreement_tick(const weir_agreement *agreement, weir_agreement_state *state, double interval_s,
			     uint64_t arrivals);

#endif
