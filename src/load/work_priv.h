/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_WORK_PRIV_H
#define WEIR_LOAD_WORK_PRIV_H

/*
 * The parts of a work, for the files that make one (work_*.c) and the one that serves users (work.c).
 *
 *  rows   kinds of requests that are distinguished: method, body, path. Each row has a form for each class:
 *         form[klass * rows + row]
 *  items  what is drawn: a target in a row, with a weight. If a row has only one item its forms have the
 *         target; otherwise the item has it
 *  lines  of a trace: the item of each
 *  model  pages and their successors; a page is a row, and there are no items
 *
 * A constructor begins a work with the habits, adds paths and rows, then items (or a model), and ends
 * with load_work_finish.
 */

#include "load/draw.h"
#include "load/jar.h"
#include "load/links.h"
#include "load/mix.h"
#include "load/model.h"
#include "load/work.h"
#include "sim/dist.h"

#define LOAD_ITEMS_MAX 20000000

typedef struct load_row {
	weir_span method, target, body; /* an empty method: the habits' method and body */
	uint16_t path;
	int klass; /* -1: that of the user */
} load_row;

typedef struct load_item {
	weir_span target; /* empty: the form's */
	uint16_t row;
} load_item;

struct load_work {
	/* habits */
	double requests;
	bool geometric, cookies;
	weir_dist think; /* mean 0: none */
	uint32_t links;
	char *origin;
	weir_span method, body;
	char *fields; /* of all classes; NULL: none */
	/* classes */
	load_mix mix;
	load_draw class_draw; /* count 0: one class */
	char *class_fields[LOAD_CLASSES_MAX];
	/* what is requested */
	char path_name[LOAD_PATHS_MAX][64];
	unsigned paths;
	load_row row[LOAD_PATHS_MAX];
	unsigned rows, links_row; /* links_row: for followed links */
	load_form *form;
	load_item *item;
	uint32_t items;
	load_draw draw;
	uint32_t *line; /* of a trace */
	uint64_t lines;
	load_model *model;
	struct load_block *blocks; /* of copied text */
};

/* ---- construction (work_make.c) ---- */

/* The habits have been checked. Free the work with load_work_free, even if something fails later. */
int load_work_begin(const load_habits *habits, load_work **ret);
/* A copy that lives as long as the work; NULL: no memory, with weir_error. */
const char *load_work_keep(load_work *work, const char *text, size_t length);
/*
 * Adds a path and a row for it, for items; "other" if there is no room for one of its own. Returns its
 * number.
 */
uint16_t load_work_add_row(load_work *work, const char *name);
/*
 * Sets the items, which the work owns from now on in any case, and their weights (NULL: all equal). The
 * targets were copied by load_work_keep.
 */
int load_work_set_items(load_work *work, load_item *items, const double *weights, uint32_t count);
/* Makes the forms, and gives the work, which is ready then. If something has failed, frees it instead. */
int load_work_finish(load_work *work, int failed, load_work **ret);
/* "/bytes/{size}" with the size inserted, copied; an empty span: no memory. */
weir_span load_work_size_target(load_work *work, const char *target, const char *size);
/* -EINVAL: it does not contain one {size}, or is no target. */
int load_check_size_target(const char *target);
/*
 * Sizes are distinguished by powers of ten: "1 KB to 10 KB". Returns the group of a size; adds rows for
 * the groups that are present, in order of size.
 */
#define LOAD_SIZE_GROUPS 8
unsigned load_size_group(double bytes);
void load_work_add_size_rows(load_work *work, const bool present[LOAD_SIZE_GROUPS],
			     uint16_t ret_row[LOAD_SIZE_GROUPS]);

/* ---- what a user carries (work.c) ---- */

typedef struct load_own {
	load_jar jar;
	weir_span last;    /* the last target, if links are followed */
	uint32_t followed; /* consecutive links */
	uint32_t number;   /* of the user, in templates */
	char target[LOAD_LINK_MAX + 1];
	load_form form; /* with a body of its own */
	char body[LOAD_LINK_MAX + 1];
} load_own;

#endif
