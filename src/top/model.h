/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TOP_MODEL_H
#define WEIR_TOP_MODEL_H

/*
 * What `weir top` knows: the newest snapshot as the admin listener sent it (docs/admin.md), the last
 * minute of each stage, and the last requests that were shed. Whatever is missing from a snapshot, or has
 * an unexpected type, is unknown; nothing in it is trusted.
 *
 * Bounds: WEIR_TOP_STAGES stages with a history, WEIR_TOP_SHEDS sheds, WEIR_TOP_HELD snapshots while
 * paused; the newest stay.
 *
 * Threads: one.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_TOP_STAGES 256u
#define WEIR_TOP_SHEDS  200u
#define WEIR_TOP_HELD   120u
#define WEIR_TOP_POINTS 60u /* one per snapshot: a minute */

/* NaN: unknown. `at` is the index for the next point. */
typedef struct weir_top_history {
	char name[96];
	double p90_ns[WEIR_TOP_POINTS], shed_per_s[WEIR_TOP_POINTS]; /* with those that a dry run spares */
	unsigned at;
	bool fresh; /* it has a point from this snapshot */
} weir_top_history;

typedef struct weir_top_model {
	json_t *snapshot; /* NULL: none yet */
	weir_top_history *history;
	unsigned histories;
	json_t *sheds; /* an array, the newest first */
	bool paused;
	bool unfolded;               /* inner stages are shown like others */
	json_t *held[WEIR_TOP_HELD]; /* snapshots that came while paused, the oldest first */
	unsigned held_count;
} weir_top_model;

/* 0, or -ENOMEM with weir_error. */
int weir_top_model_init(weir_top_model *model);
void weir_top_model_fini(weir_top_model *model);
/* Adds a snapshot, which the model owns from now on. */
void weir_top_model_add(weir_top_model *model, json_t *snapshot);
/* While paused the picture stays; snapshots that came meanwhile are added at the end of the pause. */
void weir_top_model_pause(weir_top_model *model, bool paused);

/* Inner stages (without law, sheds and queue) that are not shown, if there are others; 0 when unfolded. */
size_t weir_top_folded_count(const weir_top_model *model);
/* The number of stages to show: those with offers, or with a law, unless they are folded. */
size_t weir_top_stage_count(const weir_top_model *model);
/* NULL: there is none. */
const json_t *weir_top_stage(const weir_top_model *model, size_t at);
const weir_top_history *weir_top_history_of(const weir_top_model *model, const json_t *stage);

/* The value at a path such as "all.rate.shed" in an object; NaN, "" or NULL if there is none. */
double weir_top_number(const json_t *object, const char *path);
const char *weir_top_text(const json_t *object, const char *path);
const json_t *weir_top_at(const json_t *object, const char *path);
/* The stage that an operator looks at first: the first with a target; if there is none, the first. */
size_t weir_top_usual_stage(const weir_top_model *model);
/* The first of a stage's classes that has a target, else NULL. */
const json_t *weir_top_judged_class(const json_t *stage);

#endif
