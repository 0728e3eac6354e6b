/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_JUDGE_H
#define WEIR_SIM_JUDGE_H

/*
 * What a record says about how a service was held, in numbers that laws can be compared by. Pure: a record goes in, a judgement comes out.
 *
 * Per phase (from one change of the scenario to the next):
 *	settle     how long until the percentile was back within the target, give or take a tenth: the first moment such that over the next window,
 *	           and over all that is left of the phase, no more were late than the percentile allows; "never" where there is none
 *	clear      how long until (almost) nothing was turned away any more: the first moment from which it is at most one in a thousand, over all that
 *	           is left of the phase; "never" where there is none
 *	overshoot  the highest percentile of a window, as a multiple of the target
 *	shed sd    standard deviation of the fraction turned away, over blocks of 500 offers, of the part of the phase after it settled
 *	turns      how often that fraction changed from above its mean to below it, or back
 * Of the whole run: counts and percentiles per class and type, the work that was completed at the busiest place as a fraction of what it could
 * have done, and as a fraction of all work done that which was for nothing: for requests that were dropped or given up, or that came later than
 * twice the target; fairness as Jain's index of the fractions served.
 */

#include "sim/record.h"

#define WEIR_NEVER UINT64_MAX

typedef struct weir_phase_judgement {
	uint64_t from_ns, to_ns;
	double offered_per_s, completed_per_s, good_per_s;
	double shed;      /* fraction turned away, of the offers */
	double ratio;     /* the percentile over the whole phase / target; 0: no target */
	double overshoot; /* the same of the worst window */
	uint64_t settle_ns, clear_ns;
	double shed_sd;
	double work; /* completed at the place that was busiest in this phase, as a fraction of what it could have done */
	unsigned turns, blocks;
} weir_phase_judgement;

typedef struct weir_judgement {
	double seconds; /* measured */
	weir_totals total;
	double good_per_s, completed_per_s, offered_per_s;
	double shed;     /* fraction of the offers that were shed, dropped */
	double ratio;    /* the percentile of response / target, over all that was measured */
	double too_late; /* fraction of the completed that came later than twice the target */
	double completed_work, wasted_work;
	unsigned busiest; /* place */
	double overshoot, shed_sd;
	uint64_t settle_ns; /* the worst of the phases' */
	unsigned turns;
	double class_fairness, type_fairness, user_fairness; /* 0: there is only one, or none */
	unsigned phases;
	weir_phase_judgement phase[WEIR_RECORD_PHASES];
} weir_judgement;

/* has_target: whether any request has one; where none has, ratios and settle times are 0. */
void weir_judge(const weir_record *record, bool has_target, weir_judgement *ret_judgement);

/* ---- single numbers, for tables of several runs ---- */

typedef enum weir_metric_unit {
	WEIR_METRIC_PER_S,
	WEIR_METRIC_SHARE,
	WEIR_METRIC_MS,
	WEIR_METRIC_RATIO,
	WEIR_METRIC_COUNT
} weir_metric_unit;

typedef struct weir_sim_metric {
	const char *name, *title; /* for machines; for the head of a column */
	weir_metric_unit unit;
	int worse; /* 1: more is worse; -1: less is worse */
	double (*get)(const weir_judgement *judgement);
} weir_sim_metric;

/* Ended by a row without a name. A settle time of "never" is INFINITY. */
extern const weir_sim_metric weir_metrics[];

#endif
