/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SHOW_TERMINAL_H
#define WEIR_SHOW_TERMINAL_H

/*
 * A screen on a terminal, with sequences that all current terminals know. Each picture is written in one
 * piece over the last, and nothing is erased first: it does not flicker.
 *
 * While it is entered, the alternate screen of the terminal is shown and the cursor is hidden;
 * weir_terminal_leave restores the previous screen. This also happens at exit(), so that a program that
 * exits early leaves the terminal as it found it. Only one terminal can be entered at a time.
 *
 * Threads: one.
 */

#include <stdio.h>

#include "show/screen.h"

/* Whether to use colours: not if NO_COLOR is set (https://no-color.org) or the terminal is dumb. */
bool weir_terminal_colour(void);
/* Whether the locale uses UTF-8. */
bool weir_terminal_utf8(void);
/* Whether pictures can be drawn on it: it is a terminal, and not a dumb one. */
bool weir_terminal_can(FILE *out);
/* 24 rows of 80 columns if the size is unknown. */
void weir_terminal_size(FILE *out, unsigned *ret_rows, unsigned *ret_columns);

void weir_terminal_enter(FILE *out);
void weir_terminal_leave(void);
void weir_terminal_paint(FILE *out, const weir_screen *screen, bool colour);
/* The sequence that turns a tone on; "" for a plain one. WEIR_TERMINAL_PLAIN ends it. */
const char *weir_terminal_tone(weir_tone tone, bool colour);
#define WEIR_TERMINAL_PLAIN "\033[0m"

#endif
