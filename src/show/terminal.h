/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SHOW_TERMINAL_H
#define WEIR_SHOW_TERMINAL_H

/*
 * A screen on a terminal by the sequences that all terminals of today know. Each picture is written in one piece over the last, nothing is erased first: it does not flicker.
 *
 * While it is entered, the other screen of the terminal is shown and the cursor is hidden; weir_terminal_leave shows what was there before. Leaving is also done at exit(), so that a
 * program that gives up leaves the terminal as it found it. One terminal is entered at a time.
 *
 * Threads: one.
 */

#include <stdio.h>

#include "show/screen.h"

/* Whether colours are welcome: not where NO_COLOR is set (https://no-color.org) or the terminal is dumb. */
bool weir_terminal_colour(void);
/* Whether the locale has UTF-8. */
bool weir_terminal_utf8(void);
/* Whether pictures can be drawn on it: a terminal, and not a dumb one. */
bool weir_terminal_can(FILE *out);
/* 24 rows of 80 where it does not tell. */
void weir_terminal_size(FILE *out, unsigned *ret_rows, unsigned *ret_columns);

void weir_terminal_enter(FILE *out);
void weir_terminal_leave(void);
void weir_terminal_paint(FILE *out, const weir_screen *screen, bool colour);
/* The sequence that turns a tone on, and the one that ends it; "" for a plain one. */
const char *weir_terminal_tone(weir_tone tone, bool colour);
#define WEIR_TERMINAL_PLAIN "\033[0m"

#endif
