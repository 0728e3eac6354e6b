/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TOP_SCREEN_H
#define WEIR_TOP_SCREEN_H

/*
 * The picture that `weir top` shows: from a model and the user's choices to cells of a screen.
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
	size_t chosen;  /* the selected stage */
	size_t scroll;  /* on the pages of sheds and costs */
	bool connected; /* otherwise `problem` says why not */
	const char *problem;
	bool keys; /* the last row lists the keys */
} weir_top_view;

/* Draws everything anew. */
void weir_top_draw(weir_screen *screen, const weir_top_model *model, const weir_top_view *view);
/* ---- the pages: each draws from a row on, and returns the row behind it ---- */

unsigned weir_top_draw_stages(weir_screen *screen, unsigned row, unsigned rows, const weir_top_model *model,
			      size_t chosen);
/* The law of a stage, what it does, and its last minute. */
unsigned weir_top_draw_law(weir_screen *screen, unsigned row, const weir_top_model *model,
			   const json_t *stage);
unsigned weir_top_draw_stage(weir_screen *screen, unsigned row, const weir_top_model *model,
			     const json_t *stage);
unsigned weir_top_draw_backends(weir_screen *screen, unsigned row, unsigned rows,
				const weir_top_model *model);
unsigned weir_top_draw_sheds(weir_screen *screen, unsigned row, unsigned rows, const weir_top_model *model,
			     size_t scroll);
/* The most expensive kinds of requests. */
unsigned weir_top_draw_costs(weir_screen *screen, unsigned row, unsigned rows, const weir_top_model *model,
			     size_t scroll);

#endif
