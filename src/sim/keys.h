/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_KEYS_H
#define WEIR_SIM_KEYS_H

/*
 * The sections of a scenario and their keys, as tables. To add a key, add a field to its struct (scenario.h)
 * and a row here; then run `tools/manuals`.
 */

#include "sim/scenario.h"

/* The places of the kinds in weir_scenario_sections.kinds. */
enum {
	WEIR_SECTION_SCENARIO,
	WEIR_SECTION_STAGE,
	WEIR_SECTION_BACKEND,
	WEIR_SECTION_TYPE,
	WEIR_SECTION_LOAD,
};

extern const weir_sections weir_scenario_sections;
extern const weir_key weir_stage_keys[];

/* What the tables need of parse.c: the lines that have no row. */
int weir_scenario_begin_stage(void *scenario, void *stage, const char *title);
int weir_scenario_set_stage(void *scenario, void *stage, const weir_line *line);
int weir_scenario_set_load(void *scenario, void *load, const weir_line *line);
int weir_scenario_begin_at(void *scenario, void *at, const char *title);
int weir_scenario_set_at(void *scenario, void *at, const weir_line *line);

#endif
