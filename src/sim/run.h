/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_RUN_H
#define WEIR_SIM_RUN_H

/*
 * A scenario, run once: the virtual world with the service and its loads, for the scenario's duration,
 * and then the judgement. The same scenario and seed give the same run, to the last bit.
 *
 * Threads: one at a time; no globals.
 */

#include "sim/judge.h"
#include "sim/scenario.h"

enum { WEIR_RUN_NOTICES = 16 };

typedef struct weir_run {
	const weir_scenario *scenario; /* owned by the caller; must outlive the run */
	char label[2 * WEIR_SCENARIO_NAME];
	uint64_t seed;
	weir_record *record;
	weir_judgement judgement;
	double quantile; /* the one to be held */
	/* Where requests of the class enter, for plots and tables; 0: none. */
	uint64_t target_ns[WEIR_CLASSES];
	uint64_t lost; /* requests whose clients gave up for good */
	struct {
		uint64_t at_ns;
		char text[160];
	} notice[WEIR_RUN_NOTICES]; /* notices that an operator would have received */
	unsigned notices;
} weir_run;

/* Runs a checked scenario. label: its name in tables and plots. */
int weir_run_new(const weir_scenario *scenario, uint64_t seed, const char *label, weir_run **ret_run);
/* Sets *run to NULL. */
void weir_run_free(weir_run **run);

#endif
