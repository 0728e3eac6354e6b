/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_TOP_SCREEN_H
#define WEIR_CMD_TOP_SCREEN_H

/*
 * The picture that `weir top` shows, as cells of a terminal: a model and what the user chose in, signs and tones out. It knows nothing of terminals, so it can be printed and tested as text.
 *
 * Whatever a name holds, a cell holds one sign of one column: control bytes, and signs that are wider, narrower or change direction, are shown as '?'. What does not fit is cut.
 *
 * Threads: one.
 */

#include "cmd/top_model.h"

typedef enum weir_top_tone {
	WEIR_TONE_PLAIN,
	WEIR_TONE_QUIET,
	WEIR_TONE_TITLE,
	WEIR_TONE_GOOD,
	WEIR_TONE_SHED,
	WEIR_TONE_BAD,
	WEIR_TONES
} weir_top_tone;

typedef struct weir_top_cell {
	uint32_t sign; /* a code point of one column */
	uint8_t tone;
	bool chosen; /* of the row that is chosen */
} weir_top_cell;

typedef struct weir_top_screen {
	unsigned rows, columns;
	bool utf8; /* else nothing but ASCII */
	weir_top_cell *cells;
} weir_top_screen;

typedef enum weir_top_page {
	WEIR_TOP_OVERVIEW,
	WEIR_TOP_STAGE,
	WEIR_TOP_SHEDDING,
	WEIR_TOP_HELP
} weir_top_page;

typedef struct weir_top_view {
	weir_top_page page;
	size_t chosen;  /* of the stages */
	size_t scroll;  /* of the sheds' page */
	bool connected; /* else `problem` is why not */
	const char *problem;
	bool keys; /* the last row tells about them */
} weir_top_view;

/* 0, or -ENOMEM with weir_error. Rows and columns are bounded to 1000 each. */
int weir_top_screen_init(weir_top_screen *screen, unsigned rows, unsigned columns, bool utf8);
void weir_top_screen_fini(weir_top_screen *screen);
/* Draws all of it anew. */
void weir_top_draw(weir_top_screen *screen, const weir_top_model *model, const weir_top_view *view);
/* A row as UTF-8 without blanks at its end; text has room for 4 * columns + 1 bytes. Returns its length. */
size_t weir_top_screen_line(const weir_top_screen *screen, unsigned row, char *text);

/* ---- for the drawing of the pages ---- */

/* Puts a text, cut at `width` columns; returns the column behind it. */
unsigned weir_top_put(weir_top_screen *screen, unsigned row, unsigned column, unsigned width,
		      weir_top_tone tone, const char *text);
unsigned weir_top_printf(weir_top_screen *screen, unsigned row, unsigned column, weir_top_tone tone,
			 const char *format, ...) __attribute__((format(printf, 5, 6)));
/* A cell's own sign, where there is UTF-8, and what stands for it where not. */
void weir_top_sign(weir_top_screen *screen, unsigned row, unsigned column, weir_top_tone tone, uint32_t sign,
		   char ascii);
/* "181ms", "9.1us", "-" for what is unknown; at most 6 bytes and the NUL. Returns text. */
char *weir_top_print_time(char *text, size_t size, double ns);
/* "812", "1.2k"; likewise, of numbers up to 10^15. */
char *weir_top_print_count(char *text, size_t size, double count);

/* ---- the pages: each draws from a row on, and returns the row behind ---- */

unsigned weir_top_draw_stages(weir_top_screen *screen, unsigned row, unsigned rows,
			      const weir_top_model *model, size_t chosen);
/* What the law of a stage is and does, and its last minute. */
unsigned weir_top_draw_law(weir_top_screen *screen, unsigned row, const weir_top_model *model,
			   const json_t *stage);
unsigned weir_top_draw_stage(weir_top_screen *screen, unsigned row, const weir_top_model *model,
			     const json_t *stage);
unsigned weir_top_draw_backends(weir_top_screen *screen, unsigned row, unsigned rows,
				const weir_top_model *model);
unsigned weir_top_draw_sheds(weir_top_screen *screen, unsigned row, unsigned rows,
			     const weir_top_model *model, size_t scroll);

#endif
