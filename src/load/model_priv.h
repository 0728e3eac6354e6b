/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_MODEL_PRIV_H
#define WEIR_LOAD_MODEL_PRIV_H

/* Shared by the two files that read a model: line by line (model.c), and as a whole (model_check.c). */

#include "load/model.h"

/* -EINVAL with "NAME:LINE: why", all of it printable. */
int load_model_wrong(const char *name, unsigned line, const char *why);
/* Splits a target that contains {user} or {1..9}, and replaces it by the target with the lowest numbers. */
int load_model_parts(load_page *page);
/* Checks that all names exist, and that every page is complete and can be reached; makes the draws. */
int load_model_check(load_model *model, const char *name);

#endif
