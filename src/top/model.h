/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TOP_MODEL_H
#define WEIR_TOP_MODEL_H

/*
 * What `weir top` knows: the newest snapshot as the admin listener sent it (docs/admin.md), the last minute of each stage, the last requests that were turned away. Whatever is
 * missing from a snapshot, or is of another kind than expected, is unknown; nothing in it is trusted.
 *
 * Bounds: WEIR_TOP_STAGES stages with a history, WEIR_TOP_SHEDS sheds, WEIR_TOP_HELD snapshots while paused; the newest stay.
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
#define WEIR_TOP_POINTS 60u /* one a snapshot: a minute */

/* NaN: unknown. `at` is where the next point goes. */
typedef struct weir_top_history {
	char name[96];
	double p90_ns[WEIR_TOP_POINTS], shed_per_s[WEIR_TOP_POINTS];
	unsigned at;
	bool fresh; /* it has got a point from this snapshot */
} weir_top_history;

typedef struct weir_top_model {
	json_t *snapshot; /* NULL: none yet */
	weir_top_history *history;
	unsigned histories;
	json_t *sheds; /* an array, the newest first */
	bool paused;
	json_t *held[WEIR_TOP_HELD]; /* those that came while paused, the oldest first */
	unsigned held_count;
} weir_top_model;

/* 0, or -ENOMEM with weir_error. */
int weir_top_model_init(weir_top_model *model);
void weir_top_model_fini(weir_top_model *model);
/* Takes the snapshot, which is the model's from now on. */
void weir_top_model_add(weir_top_model *model, json_t *snapshot);
/* While paused the picture stays; what came meanwhile is added at the end. */
void weir_top_model_pause(weir_top_model *model, bool paused);

/* The stages that have something to tell: offered something, or with a law. */
size_t weir_top_stage_count(const weir_top_model *model);
/* NULL: there is no such one. */
const json_t *weir_top_stage(const weir_top_model *model, size_t at);
const weir_top_history *weir_top_history_of(const weir_top_model *model, const json_t *stage);

/* What is at "all.rate.shed" in an object; NaN, "" and NULL: no such thing there. */
double weir_top_number(const json_t *object, const char *path);
const char *weir_top_text(const json_t *object, const char *path);
const json_t *weir_top_at(const json_t *object, const char *path);
/* The stage that an operator looks at first: the first with a target; without any, the first. */
size_t weir_top_usual_stage(const weir_top_model *model);
/* The first of a stage's classes that has a target, else NULL. */
const json_t *weir_top_judged_class(const json_t *stage);

#endif
