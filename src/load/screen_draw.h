/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_SCREEN_DRAW_H
#define WEIR_LOAD_SCREEN_DRAW_H

/* The picture of a run under way, as cells; and the same second as a plain line. Threads: one. */

#include "load/report.h"
#include "show/screen.h"

/* Draws all of it anew; what there is no room for is left out, the least important first. */
void load_screen_picture(weir_screen *screen, const load_story *story);
/* What a second of the run brought, ended by a newline. */
void load_screen_line(FILE *out, const load_story *story, unsigned second);

#endif
