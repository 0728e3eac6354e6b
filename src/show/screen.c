/* SPDX-License-Identifier: Apache-2.0 */
/* Cells, and texts in them. */
#include "show/screen.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "base/error.h"
#include "base/mem.h"

#define SIDE_MOST   1000u
#define MORE_DIGITS 4

int weir_screen_init(weir_screen *screen, unsigned rows, unsigned columns, bool utf8)
{
	rows = rows < 1 ? 1 : rows > SIDE_MOST ? SIDE_MOST : rows;
	columns = columns < 1 ? 1 : columns > SIDE_MOST ? SIDE_MOST : columns;
	weir_cell *cells = weir_mem_zalloc((size_t)rows * columns * sizeof(*cells));
	if (cells == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	*screen = (weir_screen){.rows = rows, .columns = columns, .utf8 = utf8, .cells = cells};
	for (size_t i = 0; i < (size_t)rows * columns; i++)
		cells[i].sign = ' ';
	return 0;
}

void weir_screen_fini(weir_screen *screen)
{
	weir_mem_free(screen->cells);
	*screen = (weir_screen){0};
}

/* ---- characters ---- */

/* The next code point of a text; each invalid byte counts as one, and becomes '?'. */
static uint32_t next_sign(const char **at)
{
	const unsigned char *byte = (const unsigned char *)*at;
	unsigned more = byte[0] >= 0xf0 ? 3 : byte[0] >= 0xe0 ? 2 : byte[0] >= 0xc0 ? 1 : 0;
	uint32_t sign = more == 0 ? byte[0] : byte[0] & (0x3fu >> more);
	(*at)++;
	if (more == 0)
		return byte[0] < 0x80 ? sign : '?';
	for (unsigned i = 1; i <= more; i++) {
		if ((byte[i] & 0xc0) != 0x80)
			return '?';
		sign = sign << 6 | (byte[i] & 0x3f);
	}
	*at += more;
	return sign;
}

/* The character to be shown in a cell. wcwidth depends on the locale: without UTF-8 only ASCII is left. */
static uint32_t harmless(const weir_screen *screen, uint32_t sign)
{
	if (sign >= ' ' && sign <= '~')
		return sign;
	return screen->utf8 && sign >= 0xa1 && wcwidth((wchar_t)sign) == 1 ? sign : '?';
}

static weir_cell *cell_at(const weir_screen *screen, unsigned row, unsigned column)
{
	return row < screen->rows && column < screen->columns
		       ? &screen->cells[(size_t)row * screen->columns + column]
		       : NULL;
}

unsigned weir_screen_put(weir_screen *screen, unsigned row, unsigned column, unsigned width, weir_tone tone,
			 const char *text)
{
	unsigned end = width < screen->columns ? column + width : screen->columns;
	while (*text != '\0' && column < end) {
		weir_cell *cell = cell_at(screen, row, column);
		uint32_t sign = harmless(screen, next_sign(&text));
		if (cell == NULL)
			break;
		cell->sign = sign;
		cell->tone = (uint8_t)tone;
		column++;
	}
	return column;
}

unsigned weir_screen_printf(weir_screen *screen, unsigned row, unsigned column, weir_tone tone,
			    const char *format, ...)
{
	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return weir_screen_put(screen, row, column, screen->columns, tone, text);
}

void weir_screen_sign(weir_screen *screen, unsigned row, unsigned column, weir_tone tone, uint32_t sign,
		      char ascii)
{
	weir_cell *cell = cell_at(screen, row, column);
	if (cell == NULL)
		return;
	cell->sign = screen->utf8 ? sign : (unsigned char)ascii;
	cell->tone = (uint8_t)tone;
}

void weir_screen_put_right(weir_screen *screen, unsigned row, unsigned column, unsigned width, weir_tone tone,
			   const char *text)
{
	unsigned length = (unsigned)strlen(text);
	weir_screen_put(screen, row, column + (length < width ? width - length : 0), width, tone, text);
}

static const char levels[] = "_.-~=+*#";

void weir_screen_spark(weir_screen *screen, unsigned row, unsigned column, unsigned width, const double *ring,
		       unsigned points, unsigned at, double top)
{
	for (unsigned i = 0; i < points; i++)
		top = ring[i] > top ? ring[i] : top;
	width = width < points ? width : points;
	for (unsigned i = 0; i < width; i++) {
		double value = ring[(at + points - width + i) % points];
		if (isnan(value) || !(top > 0))
			continue;
		unsigned level = (unsigned)(fmin(fmax(value / top, 0), 1) * 7 + .5);
		weir_screen_sign(screen, row, column + i, WEIR_TONE_PLAIN, 0x2581 + level, levels[level]);
	}
}

/* ---- rows as text ---- */

size_t weir_screen_utf8(uint32_t sign, char *text)
{
	unsigned more = sign >= 0x10000 ? 3 : sign >= 0x800 ? 2 : sign >= 0x80 ? 1 : 0;
	static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
	text[0] = (char)(first[more] | sign >> (6 * more));
	for (unsigned i = 1; i <= more; i++)
		text[i] = (char)(0x80 | (sign >> (6 * (more - i)) & 0x3f));
	return more + 1;
}

size_t weir_screen_line(const weir_screen *screen, unsigned row, char *text)
{
	size_t length = 0, used = 0;
	for (unsigned column = 0; row < screen->rows && column < screen->columns; column++) {
		uint32_t sign = cell_at(screen, row, column)->sign;
		length += weir_screen_utf8(sign, text + length);
		if (sign != ' ')
			used = length;
	}
	text[used] = '\0';
	return used;
}

/* ---- longer texts ---- */

/* The length of the part of a text that fits, broken between words where there are any. */
static size_t fitting(const char *text, size_t room)
{
	size_t length = strlen(text), at = length < room ? length : room;
	while (at < length && at > 0 && text[at] != ' ')
		at--;
	return at > 0 ? at : length < room ? length : room;
}

unsigned weir_screen_fold(weir_screen *screen, unsigned row, unsigned column, unsigned rows, weir_tone tone,
			  const char *text)
{
	char line[256];
	size_t room = screen->columns > column + 1 ? screen->columns - column - 1 : 1;
	room = room < sizeof(line) ? room : sizeof(line) - 1;
	for (unsigned i = 0; i < rows && *text != '\0'; i++) {
		size_t length = fitting(text, room);
		snprintf(line, sizeof(line), "%.*s", (int)length, text);
		weir_screen_put(screen, row++, column, screen->columns, tone, line);
		text += length + (text[length] == ' ');
	}
	return row;
}

/* ---- numbers ---- */

/* At most three digits, and so many more. */
static char *print_short(char *text, size_t size, double value, const char *unit, int more)
{
	snprintf(text, size, "%.*f%s", more + (value < 9.95 && *unit != '\0'), value, unit);
	return text;
}

static char *print_time(char *text, size_t size, double ns, int more)
{
	if (!(ns >= 0) || ns > 1e18)
		snprintf(text, size, "-");
	else if (ns < 999.5)
		snprintf(text, size, "%.0fns", ns);
	else if (ns < 999.5e3)
		print_short(text, size, ns / 1e3, "us", more);
	else if (ns < 999.5e6)
		print_short(text, size, ns / 1e6, "ms", more);
	else if (ns < 9999.5e9)
		print_short(text, size, ns / 1e9, "s", more);
	else
		snprintf(text, size, "%.0fh", ns / 3600e9);
	return text;
}

char *weir_screen_time(char *text, size_t size, double ns)
{
	return print_time(text, size, ns, 0);
}

void weir_screen_times(char *text, double ns, char *other_text, double other_ns)
{
	for (int more = 0; more <= MORE_DIGITS; more++) {
		print_time(text, WEIR_SCREEN_TIME, ns, more);
		print_time(other_text, WEIR_SCREEN_TIME, other_ns, more);
		if (ns == other_ns || strcmp(text, other_text) != 0)
			return;
	}
}

char *weir_screen_count(char *text, size_t size, double count)
{
	if (!(count >= 0) || count > 999e12)
		snprintf(text, size, "-");
	else if (count > 0 && count < 9.95 && fabs(count - rint(count)) > .05)
		snprintf(text, size, "%.1f", count);
	else if (count < 9999.5)
		snprintf(text, size, "%.0f", count);
	else if (count < 999.5e3)
		print_short(text, size, count / 1e3, "k", 0);
	else if (count < 999.5e6)
		print_short(text, size, count / 1e6, "M", 0);
	else if (count < 999.5e9)
		print_short(text, size, count / 1e9, "G", 0);
	else
		print_short(text, size, count / 1e12, "T", 0);
	return text;
}
