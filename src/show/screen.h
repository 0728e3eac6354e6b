/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SHOW_SCREEN_H
#define WEIR_SHOW_SCREEN_H

/*
 * A picture as cells of a terminal: characters and tones. It knows nothing of terminals, so it can be
 * printed and tested as text.
 *
 * Whatever a name contains, a cell holds one character that is one column wide: control bytes, and
 * characters that are wider, narrower or change direction, are shown as '?'. What does not fit is cut.
 *
 * Threads: one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum weir_tone {
	WEIR_TONE_PLAIN,
	WEIR_TONE_QUIET,
	WEIR_TONE_TITLE,
	WEIR_TONE_GOOD,
	WEIR_TONE_SHED,
	WEIR_TONE_BAD,
	WEIR_TONES
} weir_tone;

enum { WEIR_SCREEN_TIME = 16 }; /* bytes of a time with all of its digits */

typedef struct weir_cell {
	uint32_t sign; /* a code point that is one column wide */
	uint8_t tone;
	bool chosen; /* in the selected row */
} weir_cell;

typedef struct weir_screen {
	unsigned rows, columns;
	bool utf8; /* otherwise only ASCII */
	weir_cell *cells;
} weir_screen;

/* 0, or -ENOMEM with weir_error. Rows and columns are bounded to 1000 each. */
int weir_screen_init(weir_screen *screen, unsigned rows, unsigned columns, bool utf8);
void weir_screen_fini(weir_screen *screen);
/* Encodes a character as UTF-8, without a NUL: at most 4 bytes. Returns how many. */
size_t weir_screen_utf8(uint32_t sign, char *text);
/* A row as UTF-8 without trailing blanks; text has room for 4 * columns + 1 bytes. Returns its length. */
size_t weir_screen_line(const weir_screen *screen, unsigned row, char *text);

/* Puts a text, cut at `width` columns; returns the column behind it. */
unsigned weir_screen_put(weir_screen *screen, unsigned row, unsigned column, unsigned width, weir_tone tone,
			 const char *text);
unsigned weir_screen_printf(weir_screen *screen, unsigned row, unsigned column, weir_tone tone,
			    const char *format, ...) __attribute__((format(printf, 5, 6)));
/* The same on at most so many rows, which all begin at this column and break between words. Returns the row behind. */
unsigned weir_screen_fold(weir_screen *screen, unsigned row, unsigned column, unsigned rows, weir_tone tone,
			  const char *text);
/* Puts a single character if there is UTF-8, otherwise its ASCII substitute. */
void weir_screen_sign(weir_screen *screen, unsigned row, unsigned column, weir_tone tone, uint32_t sign,
		      char ascii);
/* "181ms", "9.1us", "-" for unknown; at most 6 bytes and the NUL. Returns text. */
char *weir_screen_time(char *text, size_t size, double ns);
/* Two times beside each other, with as many more digits as it takes to tell them apart. Both have WEIR_SCREEN_TIME bytes. */
void weir_screen_times(char *text, double ns, char *other_text, double other_ns);
/* "812", "1.2k"; the same, for numbers up to 10^15. */
char *weir_screen_count(char *text, size_t size, double count);
/* As weir_screen_put, but right-aligned: ends at column + width. */
void weir_screen_put_right(weir_screen *screen, unsigned row, unsigned column, unsigned width, weir_tone tone,
			   const char *text);
/*
 * The newest `width` values of a ring, whose next one goes to `at`, as bars in one row; NaN: no value.
 * The full height is the largest value of the ring, or `top` if that is more.
 */
void weir_screen_spark(weir_screen *screen, unsigned row, unsigned column, unsigned width, const double *ring,
		       unsigned points, unsigned at, double top);

#endif
