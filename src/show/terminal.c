/* SPDX-License-Identifier: Apache-2.0 */
#include "show/terminal.h"

#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[0m\033[?25h\033[?1049l"
/* One picture, which terminals that support it show only when it is complete. */
#define BEGIN  "\033[?2026h\033[H"
#define FINISH "\033[?2026l"

static FILE *entered;

static bool is_dumb(void)
{
	const char *kind = getenv("TERM");
	return kind == NULL || kind[0] == '\0' || strcmp(kind, "dumb") == 0;
}

bool weir_terminal_colour(void)
{
	const char *no_colour = getenv("NO_COLOR");
	return (no_colour == NULL || no_colour[0] == '\0') && !is_dumb();
}

bool weir_terminal_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

bool weir_terminal_can(FILE *out)
{
	return isatty(fileno(out)) && !is_dumb();
}

void weir_terminal_size(FILE *out, unsigned *ret_rows, unsigned *ret_columns)
{
	struct winsize size;
	int fd = fileno(out);
	bool told = fd >= 0 && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
	*ret_rows = told ? size.ws_row : 24;
	*ret_columns = told ? size.ws_col : 80;
}

void weir_terminal_enter(FILE *out)
{
	static bool registered;
	/* If this cannot be registered, a program that exits early merely does not restore the terminal. */
	if (!registered)
		registered = atexit(weir_terminal_leave) == 0;
	entered = out;
	fputs(ENTER, out);
	fflush(out);
}

void weir_terminal_leave(void)
{
	if (entered == NULL)
		return;
	fputs(LEAVE, entered);
	fflush(entered);
	entered = NULL;
}

const char *weir_terminal_tone(weir_tone tone, bool colour)
{
	static const char *const with[WEIR_TONES] = {"",         "\033[2m",    "\033[1m",
						     "\033[32m", "\033[1;33m", "\033[1;31m"};
	static const char *const without[WEIR_TONES] = {"", "\033[2m", "\033[1m", "", "\033[1m", "\033[1m"};
	return colour ? with[tone] : without[tone];
}

static void paint_row(FILE *out, const weir_screen *screen, unsigned row, bool colour)
{
	const weir_cell *cells = &screen->cells[(size_t)row * screen->columns];
	unsigned end = screen->columns, tone = WEIR_TONE_PLAIN;
	char text[5];
	while (end > 0 && cells[end - 1].sign == ' ')
		end--;
	for (unsigned i = 0; i < end; i++) {
		if (cells[i].tone != tone && cells[i].sign != ' ') {
			tone = cells[i].tone;
			fputs(WEIR_TERMINAL_PLAIN, out);
			fputs(weir_terminal_tone((weir_tone)tone, colour), out);
		}
		text[weir_screen_utf8(cells[i].sign, text)] = '\0';
		fputs(text, out);
	}
	fputs(tone != WEIR_TONE_PLAIN ? WEIR_TERMINAL_PLAIN : "", out);
	/* In the last column this would erase the character that was just put there. */
	fputs(end < screen->columns ? "\033[K" : "", out);
}

/*
 * stderr is unbuffered: if a picture were written to it character by character, it would be seen while it
 * is being drawn. Without memory for the picture, this one is skipped.
 */
void weir_terminal_paint(FILE *out, const weir_screen *screen, bool colour)
{
	char *text = NULL;
	size_t length = 0;
	FILE *whole = open_memstream(&text, &length);
	if (whole == NULL)
		return;
	fputs(BEGIN, whole);
	for (unsigned row = 0; row < screen->rows; row++) {
		fputs(row > 0 ? "\r\n" : "", whole);
		paint_row(whole, screen, row, colour);
	}
	fputs(FINISH, whole);
	if (fclose(whole) == 0)
		fwrite(text, 1, length, out);
	fflush(out);
	free(text);
}
