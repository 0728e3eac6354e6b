/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TOP_SCREEN_H
#define WEIR_TOP_SCREEN_H

/*
 * The picture that `weir top` shows: a model and what the user chose in, cells of a screen out.
 *
 * Threads: one.
 */

#include "show/screen.h"
#include "top/model.h"

typedef enum weir_top_page {
	WEIR_TOP_OVERVIEW,
	WEIR_TOP_STAGE,
	WEIR_TOP_SHEDDING,
	WEIR_TOP_COSTS,
	WEIR_TOP_HELP
} weir_top_page;

typedef struct weir_top_view {
	weir_top_page page;
	size_t chosen;  /* of the stages */
	size_t scroll;  /* of the pages of sheds and costs */
	bool connected; /* else `problem` is why not */
	const char *problem;
	bool keys; /* the last row tells about them */
} weir_top_view;

/* Draws all of it anew. */
void weir_top_draw(weir_screen *screen, const weir_top_model *model, const weir_top_view *view);
/* ---- the pages: each draws from a row on, and returns the row behind ---- */

unsigned weir_top_draw_stages(weir_screen *screen, unsigned row, unsigned rows, const weir_top_model *model,
			      size_t chosen);
/* What the law of a stage is and does, and its last minute. */
unsigned weir_top_draw_law(weir_screen *screen, unsigned row, const weir_top_model *model,
			   const json_t *stage);
unsigned weir_top_draw_stage(weir_screen *screen, unsigned row, const weir_top_model *model,
			     const json_t *stage);
unsigned weir_top_draw_backends(weir_screen *screen, unsigned row, unsigned rows,
				const weir_top_model *model);
unsigned weir_top_draw_sheds(weir_screen *screen, unsigned row, unsigned rows, const weir_top_model *model,
			     size_t scroll);
/* What is expensive here. */
unsigned weir_top_draw_costs(weir_screen *screen, unsigned row, unsigned rows, const weir_top_model *model,
			     size_t scroll);

#endif
