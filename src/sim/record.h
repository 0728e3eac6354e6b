/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_RECORD_H
#define WEIR_SIM_RECORD_H

/*
 * What is measured while a scenario runs. Times are ns since the start of the run.
 *
 *  totals   per class and per type of request, from the end of the warmup on: counts and the distribution
 *           of response times
 *  of offered  how the requests fared that were offered in the measured time, as `weir load` counts;
 *           the totals count what ended in it, whenever it was offered
 *  windows  over time, for all classes together and for each: counts and percentiles of the window
 *  slots    a tenth of a window each, for settle times: how many were completed, and how many of them too
 *           late
 *  blocks   of 500 offers each: how many of them were turned away, for oscillation
 *  phases   between the moments at which the scenario changes something
 *  places   work done at each stage and backend, and how much of it was wasted
 *  trace    the laws' reports at the end of each window
 *
 * An attempt is offered. Then it is shed (at the first offer), dropped (later, by any stage or backend),
 * given up (the client had gone) or completed; or it is still inside at the end. Invariant, over the
 * measured time: inside at its start + offered = shed + dropped + given up + completed + inside at its
 * end.
 *
 * Nothing is allocated after weir_record_new, except for blocks: one array for thousands of them.
 * Threads: one.
 */

#include <weir/law.h>

#include "base/hist.h"

enum { WEIR_RECORD_PHASES = 48, WEIR_RECORD_BLOCK = 500, WEIR_RECORD_SLOTS = 10 };

typedef struct weir_totals {
	uint64_t offered, shed, dropped, given_up, completed;
	uint64_t spared;            /* let in by a dry run that would have been shed; not of a type */
	uint64_t good;              /* within the target; without a target, all */
	uint64_t useful;            /* within twice the target */
	uint64_t useful_of_offered; /* of these, those that were offered in the measured time, too */
	double sum_ns;              /* of response times */
	/* Revenue: of those within the target, of the other completed ones, and of those shed or dropped. */
	double earned, late, turned_away;
	weir_hist response;
} weir_totals;

/* One window, of all classes or one. Percentiles are 0 if nothing was completed. */
typedef struct weir_sim_window {
	uint32_t offered, shed, dropped, completed, useful;
	float p50_ms, p90_ms, p99_ms;
	float ratio; /* the quantile of response / target that should be held */
} weir_sim_window;

typedef struct weir_slot {
	uint32_t completed, late, offered, turned_away; /* late: by more than a tenth */
} weir_slot;

typedef struct weir_sim_block {
	uint64_t end_ns;
	uint32_t turned_away;
} weir_sim_block;

typedef struct weir_sim_phase {
	uint64_t from_ns, to_ns;
	uint64_t offered, turned_away, completed, good, useful;
	uint64_t inside; /* when it began */
	weir_hist ratio; /* response / target, in 1/10000 */
	weir_hist response;
	/* Per place: work of completed requests; available worker time. */
	double *completed_ns, *capacity_ns;
} weir_sim_phase;

/*
 * What became of the request for which work was done: completed within twice the target; completed later;
 * or dropped or given up in the end.
 */
typedef enum weir_use { WEIR_USED_WELL, WEIR_USED_LATE, WEIR_USED_FOR_NOTHING } weir_use;

typedef struct weir_place {
	const char *name;
	double capacity_ns; /* available worker time during the measurement, at its speed */
	double used_ns[3];  /* by what became of the request: weir_use */
	double workers;     /* currently, times their speed */
	uint64_t since_ns;  /* since when */
} weir_place;

/* What a law reported about one stage and class, at the end of a window. */
enum { WEIR_TRACE_MEASURED, WEIR_TRACE_RATE, WEIR_TRACE_LIMIT, WEIR_TRACE_QUALITY, WEIR_TRACE_OWN };
#define WEIR_TRACE_VALUES (WEIR_TRACE_OWN + WEIR_REPORT_VALUES)
typedef struct weir_law_trace {
	const char *stage;
	unsigned klass;
	const char *name[WEIR_TRACE_VALUES]; /* NULL: never reported */
	float (*value)[WEIR_TRACE_VALUES];   /* one row per window */
	bool unreachable;                    /* the law reported it at some time */
} weir_law_trace;

typedef struct weir_record_options {
	uint64_t duration_ns, warmup_ns, window_ns;
	double quantile; /* to be held */
	unsigned classes, types, places, traces;
	const double *revenue; /* of a request, by type; NULL: none has any. Read only by weir_record_new */
} weir_record_options;

typedef struct weir_record {
	weir_record_options options;
	uint64_t slot_ns;
	unsigned windows, slots, phases, blocks, block_room;
	weir_totals *klass, *type; /* options.classes and options.types of them */
	weir_sim_window *window;   /* `windows` rows of 1 + classes: all, then each */
	weir_slot *slot;
	weir_sim_block *block;
	weir_sim_phase *phase;
	weir_place *place;
	double *revenue;    /* by type */
	double *phase_work; /* the memory for the phases' arrays */
	weir_law_trace *trace;
	uint64_t inside, inside_at_start;
	double user_fairness; /* Jain's index over the users' completed requests; 0: no users */
	/* the current window */
	unsigned window_now, phase_now;
	weir_hist *recent, *recent_ratio; /* per row */
	weir_hist ratio_of_offered;       /* response / target, in 1/10000 */
	uint32_t block_offered, block_turned_away;
} weir_record;

int weir_record_new(const weir_record_options *options, weir_record **ret_record);
void weir_record_free(weir_record **record);
/*
 * Adds a moment at which something changes, in any order, before the run. If there are too many, it is
 * ignored.
 */
void weir_record_phase(weir_record *record, uint64_t at_ns);

/* ---- what happens to an attempt ---- */

void weir_record_offered(weir_record *record, uint64_t now_ns, unsigned klass, unsigned type);
void weir_record_shed(weir_record *record, uint64_t now_ns, unsigned klass, unsigned type);
void weir_record_dropped(weir_record *record, uint64_t now_ns, unsigned klass, unsigned type);
void weir_record_given_up(weir_record *record, uint64_t now_ns, unsigned klass, unsigned type);
/* Returns whether it was useful: within twice the target (0: there is none). */
bool weir_record_completed(weir_record *record, uint64_t now_ns, unsigned klass, unsigned type,
			   uint64_t response_ns, uint64_t target_ns);
/* Records work done at a place. */
void weir_record_work(weir_record *record, uint64_t now_ns, unsigned place, double work_ns, weir_use use);

/*
 * Sets the number of workers at a place from now on; at half their speed they count half. Must also be
 * called at the end of the run.
 */
void weir_record_workers(weir_record *record, uint64_t now_ns, unsigned place, double workers);

/* ---- over time ---- */

/* Ends the current window at now_ns; must be called at the end of each. */
void weir_record_window(weir_record *record, uint64_t now_ns);
/* Records the law's report. Call it before weir_record_window. */
void weir_record_trace(weir_record *record, unsigned trace, const weir_report *report);

/* The row of a window; klass WEIR_CLASSES: all classes. */
const weir_sim_window *weir_record_at(const weir_record *record, unsigned window, unsigned klass);
/* Sums the tallies of all classes. */
void weir_record_total(const weir_record *record, weir_totals *ret_total);

#endif
