/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_SCREEN_DRAW_H
#define WEIR_LOAD_SCREEN_DRAW_H

/* The picture of a run in progress, as cells; and one second of it as a plain line. Threads: one. */

#include "load/report.h"
#include "show/screen.h"

/* Draws everything anew; what does not fit is omitted, the least important first. */
void load_screen_picture(weir_screen *screen, const load_story *story);
/* The results of a second of the run, with a newline. */
void load_screen_line(FILE *out, const load_story *story, unsigned second);

#endif
