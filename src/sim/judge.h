/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_JUDGE_H
#define WEIR_SIM_JUDGE_H

/*
 * What a record says about how well a service was controlled, in numbers by which laws can be compared.
 * Pure: a record goes in, a judgement comes out.
 *
 * Per phase (from one change of the scenario to the next):
 *  settle     how long until the percentile was back within the target, with a tolerance of a tenth: the
 *             first moment such that over the next window, and over the rest of the phase, no more were
 *             late than the percentile allows; "never" if there is none
 *  clear      how long until (almost) nothing was turned away any more: the first moment from which it is
 *             at most one in a thousand over the rest of the phase; "never" if there is none
 *  overshoot  the highest percentile of a window, as a multiple of the target
 *  shed sd    standard deviation of the fraction turned away, over blocks of 500 offers, in the part of
 *             the phase after it settled
 *  turns      how many times that fraction crossed its mean
 * Of the whole run: counts and percentiles per class and type; the work completed at the busiest place,
 * as a fraction of its capacity; the wasted work, as a fraction of all work done (for requests that were
 * dropped or given up, or that were answered later than twice the target); fairness as Jain's index of
 * the fractions served.
 */

#include "sim/record.h"

#define WEIR_NEVER UINT64_MAX

typedef struct weir_phase_judgement {
	uint64_t from_ns, to_ns;
	double offered_per_s, completed_per_s, good_per_s, useful_per_s;
	double shed;      /* fraction turned away, of the offers and of those inside when it began */
	double ratio;     /* the percentile over the whole phase / target; 0: no target */
	double overshoot; /* the same for the worst window */
	uint64_t settle_ns, clear_ns;
	double shed_sd;
	double work; /* completed at the busiest place of this phase, as a fraction of its capacity */
	unsigned turns, blocks;
} weir_phase_judgement;

typedef struct weir_judgement {
	double seconds; /* length of the measurement */
	weir_totals total;
	double good_per_s, useful_per_s, completed_per_s, offered_per_s;
	double shed;             /* fraction of the offers that were shed, dropped */
	double would;            /* fraction that a dry run let in, and that would have been shed */
	double ratio;            /* the percentile of response / target, over the whole measurement */
	double ratio_of_offered; /* the same of the requests that were offered in it */
	double too_late;         /* fraction of the completed that took longer than twice the target */
	double completed_work, wasted_work;
	unsigned busiest; /* place */
	double overshoot, shed_sd;
	uint64_t settle_ns; /* the worst of all phases */
	unsigned turns;
	double class_fairness, type_fairness, user_fairness; /* 0: there is only one, or none */
	unsigned phases;
	weir_phase_judgement phase[WEIR_RECORD_PHASES];
} weir_judgement;

/* has_target: whether any request has a target; if none has, ratios and settle times are 0. */
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
	const char *name, *title; /* for machines; for the heading of a column */
	weir_metric_unit unit;
	int worse; /* 1: more is worse; -1: less is worse */
	double (*get)(const weir_judgement *judgement);
} weir_sim_metric;

/* Ends with a row without a name. A settle time of "never" is INFINITY. */
extern const weir_sim_metric weir_metrics[];

#endif
