/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_VALUES_H
#define WEIR_SIM_VALUES_H

/*
 * Types of values that scenarios and models of users have, and configurations do not: as forms of keys
 * (weir/keys.h), and as functions. Each says in weir_error what would be accepted, and leaves the value
 * untouched if it fails.
 *
 * Threads: any; no state.
 */

#include "sim/scenario.h"

extern const weir_key_form weir_form_name; /* char[WEIR_SECTION_NAME] */
extern const weir_key_form weir_form_text; /* char[WEIR_SCENARIO_VALUE] */
extern const weir_key_form
	weir_form_dist; /* weir_dist: "exponential 10ms", "pareto 10ms alpha=1.1 ratio=1000" */
extern const weir_key_form weir_form_shares;  /* weir_shares: "a .7, b .3", "a"; max: how many */
extern const weir_key_form weir_form_profile; /* weir_profile */
extern const weir_key_form weir_form_retries; /* uint32_t; "forever" is UINT32_MAX */
extern const weir_key_form weir_form_class;   /* uint32_t; "load" is UINT32_MAX */

int weir_value_dist(const char *text, weir_dist *ret_dist);
/* The same for bytes: "lognormal 10KB sigma=1.5". */
int weir_value_dist_size(const char *text, weir_dist *ret_dist);

#endif
