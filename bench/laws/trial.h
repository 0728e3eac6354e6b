/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_LAWS_TRIAL_H
#define WEIR_BENCH_LAWS_TRIAL_H

/*
 * A trial: one point of the grid, and how it did by each criterion that applies to it. Where it falls short, the same
 * point is run with the best that a queue in order of arrival can do with any fixed limit on the wait (oracle.c): what that cannot do either is
 * listed apart, with its figure.
 */

#include "laws/cell.h"

/* X(name, text, bound, at least) */
#define CRITERIA(X)                                                                          \
	X(P90, "p90 / target, steady overload", 1.1, false)                                  \
	X(WORK, "work / capacity, steady overload", 0.95, true)                              \
	X(LATE, "later than 2 targets, steady overload", 0.01, false)                        \
	X(STEADY, "sd of the shed fraction / noise floor", 1.5, false)                       \
	X(PEAK, "peak p90 / target after a step up", 2, false)                               \
	X(BACK, "time above target after a step / allowed", 1, false)                        \
	X(FULL, "seconds to full admission after a fall", 1, false)                          \
	X(COLD, "peak p90 / target, cold into 10x", 2, false)                                \
	X(SHED7, "shed at 0.7x", 0.001, false)                                               \
	X(SHED8, "shed at 0.8x", 0.01, false)                                                \
	X(CALM_P90, "p90 / target at 0.7x and 0.8x", 1.1, false)                             \
	X(CHANGE_P90, "p90 / target, capacity halved or doubled", 1.1, false)                \
	X(CHANGE_WORK, "work, capacity halved or doubled", 0.95, true)                       \
	X(CHANGE_BACK, "time above target after halving / allowed", 1, false)                \
	X(TOP, "success of the highest in a 12x burst of the lowest", 0.99, true)            \
	X(MINIMUM, "least share of starts / guaranteed minimum", 0.9, true)                  \
	X(ORDER, "higher classes succeed at least as much (least difference)", -0.005, true) \
	X(RARE, "p90 / own target, rare and expensive", 1.1, false)                          \
	X(RARE_OTHERS, "p90 / target of the others beside them", 1.1, false)                 \
	X(RETRY, "served within their patience after a spike with retries", 0.95, true)

typedef enum criterion {
#define CRITERION(name, text, bound, least) name,
	CRITERIA(CRITERION)
#undef CRITERION
		CRITERION_COUNT
} criterion;

typedef enum judgement { NOT_JUDGED, PASSED, FAILED, IMPOSSIBLE } judgement;

typedef enum part {
	STEADY_PART,
	STEP_PART,
	COLD_PART,
	CALM_PART,
	CHANGE_PART,
	CLASS_PART,
	RARE_PART,
	RETRY_PART,
	PART_COUNT
} part;

typedef struct trial {
	/* the point */
	part part;
	double service_ns, target_of_p90, load;
	uint32_t workers;
	weir_dist_kind dist;
	uint64_t seed;
	bool quick, dry_run;
	/* how it did */
	double value[CRITERION_COUNT];
	judgement judged[CRITERION_COUNT];
	double possible[CRITERION_COUNT]; /* of a judged value: the best of any fixed limit */
	uint64_t arrivals;
	struct reasons said;     /* of the law's refusals */
	double enforced, would;  /* shares, for --dry */
	struct reasons *reasons; /* counted here; NULL: while the oracle runs */
} trial;

extern const char *const criterion_text[CRITERION_COUNT];
extern const char *const part_name[PART_COUNT];
double criterion_bound(criterion c);
bool criterion_at_least(criterion c);
void trial_note(trial *t, criterion c, double value);

/* The cell of this point, with this law. */
cell_options trial_cell(const trial *t, const weir_admission_law *law);
void trial_run(trial *t, const weir_admission_law *law);
/* One steady or calm stretch, as the trial of that part does it. */
void trial_stretch(const trial *t, const weir_admission_law *law, const char *const *settings,
		   cell_stats *ret_stats);

/* The same stretch, enforced and as a dry run (dry.h): the shares that are rejected, and that would be. */
void trial_dry(const trial *t, const weir_admission_law *law, double *ret_enforced, double *ret_would);

/* A step up and back, many times. */
#define STEP_CALM .5 /* the load before and after */
typedef struct trial_steps {
	double peak, above_ns, full_s; /* as the criteria have them */
	double over_p90,
		over_late; /* in the second half of the time up: p90, how many later than two targets */
	double fall_p90, fall_late;    /* the same of all that ended after the fall */
	void (*fell)(uint64_t now_ns); /* told of each fall, and with UINT64_MAX of each rise; may be NULL */
} trial_steps;
void trial_step(const trial *t, const weir_admission_law *law, const char *const *settings,
		trial_steps *steps);

/* Whether a fixed limit could have done what this trial did not. */
void oracle_judge(trial *t);

#endif
