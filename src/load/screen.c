/* SPDX-License-Identifier: Apache-2.0 */
/* The live screen, on a terminal or as lines. */
#include <errno.h>

#include "base/error.h"
#include "base/mem.h"
#include "load/figures.h"
#include "load/screen_draw.h"
#include "show/terminal.h"

struct load_screen {
	FILE *out;
	bool terminal, colour, utf8;
	unsigned told; /* seconds that have been printed */
};

int load_screen_open(FILE *out, bool terminal, load_screen **ret)
{
	load_screen *screen = weir_mem_zalloc(sizeof(*screen));
	if (screen == NULL)
		return weir_error_set(-ENOMEM, "out of memory for the screen");
	*screen = (load_screen){.out = out,
				.terminal = terminal,
				.colour = weir_terminal_colour(),
				.utf8 = weir_terminal_utf8()};
	if (terminal)
		weir_terminal_enter(out);
	*ret = screen;
	return 0;
}

/* The size is read each time: after a resize the next picture fills the window. */
static void draw_terminal(const load_screen *screen, const load_story *story)
{
	weir_screen cells;
	unsigned rows, columns;
	weir_terminal_size(screen->out, &rows, &columns);
	if (weir_screen_init(&cells, rows, columns, screen->utf8) != 0)
		return;
	load_screen_picture(&cells, story);
	weir_terminal_paint(screen->out, &cells, screen->colour);
	weir_screen_fini(&cells);
}

void load_screen_draw(load_screen *screen, const load_story *story)
{
	if (screen->terminal) {
		draw_terminal(screen, story);
		return;
	}
	int last = load_last_second(story);
	/* Fewer seconds than before: another run has begun. */
	if (last + 1 < (int)screen->told)
		screen->told = 0;
	for (; (int)screen->told <= last; screen->told++)
		load_screen_line(screen->out, story, screen->told);
	fflush(screen->out);
}

void load_screen_close(load_screen **screen)
{
	if (*screen != NULL && (*screen)->terminal)
		weir_terminal_leave();
	weir_mem_free(*screen);
	*screen = NULL;
}
