/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_MIX_H
#define WEIR_LOAD_MIX_H

/*
 * Classes of users and what distinguishes them: a name, a share, and fields in each of their requests.
 *
 *  gold=.2:X-Class: gold;silver=.3:X-Class: silver|X-Tier: 2;rest=.5
 *
 * Classes are separated by ';', fields of a class by '|' (so a value can contain neither). Shares are
 * weights of any scale; the default is 1. The first class is 0.
 */

#include "load/draw.h"
#include "load/work.h"
#include "sim/sections.h"

#include <stdbool.h>

#define LOAD_CLASS_NAME WEIR_SECTION_NAME

typedef struct load_class {
	char name[LOAD_CLASS_NAME];
	double weight;
	char *fields; /* lines with their CRLFs; NULL: none */
} load_class;

typedef struct load_mix {
	load_class class[LOAD_CLASSES_MAX];
	unsigned count;
} load_mix;

/* Parses a mix; NULL: one class, "all". Free it with load_mix_fini. -EINVAL, -ENOMEM: nothing to free. */
int load_mix_parse(const char *text, bool cookies, load_mix *ret);
/* Adds a class: fields are as in a mix, NULL: none. */
int load_mix_add(load_mix *mix, const char *name, double weight, const char *fields, bool cookies);
void load_mix_fini(load_mix *mix);

#endif
