/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_CHECK_H
#define WEIR_SIM_CHECK_H

/*
 * What the files that check a scenario share. check.c resolves names and looks at each section, laws.c tries
 * the laws with their parameters, demand.c finds the capacity and the targets that are possible, changes.c
 * looks at what happens during the run. Errors are -EINVAL with file and line, or -ENOMEM.
 */

#include "sim/keys.h"

/* The index of a section by its kind (sim/keys.h) and name; an error at this line if there is none. */
int weir_check_find(const weir_scenario *scenario, unsigned kind, const char *name, unsigned line,
		    int *ret_index);
/* Whether the stage's law accepts its parameters. */
int weir_check_law(const weir_scenario *scenario, const weir_scenario_stage *stage);
/* No request passes too many stages, or goes in circles. */
int weir_check_paths(const weir_scenario *scenario);
/* Finds the capacity on the load's way, and resolves its rate. */
int weir_check_rate(weir_scenario *scenario, weir_scenario_load *load);
/* No target is below what the service time alone takes. */
int weir_check_targets(const weir_scenario *scenario);
/* The same for one stage of the scenario, as a change has left it. */
int weir_check_target(const weir_scenario *scenario, const weir_scenario_stage *stage, int index);
int weir_check_changes(weir_scenario *scenario);

#endif
