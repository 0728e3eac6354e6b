/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_WORK_PRIV_H
#define WEIR_LOAD_WORK_PRIV_H

/*
 * What a work is made of, for the files that make one (work_*.c) and the one that users ask (work.c).
 *
 *	rows   kinds of requests that are kept apart: method, body, path. Each row has a form for each class: form[klass * rows + row]
 *	items  what is drawn: a target in a row, with a weight. Where a row has but one item its forms have the target; else the item has it
 *	lines  of a trace: which item each is
 *	model  pages and where one goes from there; a page is a row, and there are no items
 *
 * A constructor begins a work with the habits, adds paths and rows, then items (or a model), and ends with load_work_finish.
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
	int klass; /* -1: the user's */
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
	/* what is asked for */
	char path_name[LOAD_PATHS_MAX][64];
	unsigned paths;
	load_row row[LOAD_PATHS_MAX];
	unsigned rows, links_row; /* links_row: of what is followed */
	load_form *form;
	load_item *item;
	uint32_t items;
	load_draw draw;
	uint32_t *line; /* of a trace */
	uint64_t lines;
	load_model *model;
	struct load_block *blocks; /* of kept text */
};

/* ---- making (work_make.c) ---- */

/* With habits that were checked; free it with load_work_free, also when something fails later. */
int load_work_begin(const load_habits *habits, load_work **ret);
/* A copy that lives as long as the work; NULL: no memory, as weir_error says. */
const char *load_work_keep(load_work *work, const char *text, size_t length);
/* A path and a row of it, for items; "other" when there is no room for one of its own. Returns its number. */
uint16_t load_work_add_row(load_work *work, const char *name);
/* The items, which the work owns from now on whatever happens, and their weights (NULL: all the same). Targets were kept. */
int load_work_set_items(load_work *work, load_item *items, const double *weights, uint32_t count);
/* Makes the forms. The work is ready. */
int load_work_finish(load_work *work);
/* "/bytes/{size}" with the size put in, kept; an empty span: no memory. */
weir_span load_work_size_target(load_work *work, const char *target, const char *size);
/* -EINVAL: there is no {size} in it, or it is no target. */
int load_check_size_target(const char *target);
/* The row of a size, by powers of ten of bytes: "1 KB to 10 KB". */
uint16_t load_work_size_row(load_work *work, double bytes);

/* ---- what a user carries (work.c) ---- */

typedef struct load_own {
	load_jar jar;
	weir_span last;    /* the target that was asked for last, if links are followed */
	uint32_t followed; /* links in a row */
	uint32_t number;   /* of the user, in templates */
	char target[LOAD_LINK_MAX + 1];
} load_own;

#endif
