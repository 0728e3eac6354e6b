/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_MODEL_PRIV_H
#define WEIR_LOAD_MODEL_PRIV_H

/* Between the two files that read a model: its lines (model.c), and the whole (model_check.c). */

#include "load/model.h"

/* -EINVAL with "NAME:LINE: why", all of it printable. */
int load_model_wrong(const char *name, unsigned line, const char *why);
/* Takes a target with {user} or {1..9} in it apart, and leaves in the target what it is with the lowest numbers. */
int load_model_parts(load_page *page);
/* That all names are there, every page has what it needs and can be reached; makes the draws. */
int load_model_check(load_model *model, const char *name);

#endif
