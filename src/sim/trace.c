/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/mix.h"
#include "base/text.h"
#include "sim/load.h"

#define TRACE_MAX   20000000
#define SECONDS_MAX 3.6e6
#define TEXT_MAX    2000 /* of a path */
#define LINE_MAX    4096
#define SIZE_MAX_B  1e12
#define NO_COLUMN   (~0u)

typedef struct trace_reader {
	weir_tracefile *trace;
	size_t room;
	unsigned column, what_column;     /* what_column NO_COLUMN: absent, or not wanted */
	bool with_what, ascending, begun; /* begun: the first line has been read */
	/* Texts by hash: index + 1, 0: free. Never more than half full. */
	uint32_t *slot, slots, text_room;
} trace_reader;

/*
 * Returns a larger array with the same beginning and frees the old one. NULL: no memory; the old one is
 * unchanged.
 */
static void *grown(void *old, size_t count, size_t room, size_t size)
{
	void *more = weir_mem_array(room, size);
	if (more != NULL && count > 0)
		memcpy(more, old, count * size);
	if (more != NULL)
		weir_mem_free(old);
	return more;
}

/* ---- texts, each stored once ---- */

static uint32_t hash(const char *text, uint32_t slots)
{
	uint64_t h = 0;
	for (; *text != '\0'; text++)
		h = weir_mix(h + (unsigned char)*text + WEIR_MIX_STEP);
	return (uint32_t)h & (slots - 1);
}

static uint32_t *find_slot(const trace_reader *in, const char *text)
{
	uint32_t at = hash(text, in->slots);
	while (in->slot[at] != 0 && strcmp(in->trace->texts[in->slot[at] - 1], text) != 0)
		at = (at + 1) & (in->slots - 1);
	return &in->slot[at];
}

static int make_slots(trace_reader *in)
{
	uint32_t slots = in->slots == 0 ? 256 : 2 * in->slots;
	uint32_t *slot = weir_mem_array(slots, sizeof *slot);
	char **texts = slot != NULL ? grown(in->trace->texts, in->trace->text_count, slots / 2, sizeof *texts)
				    : NULL;
	if (texts == NULL) {
		weir_mem_free(slot);
		return weir_error_set(-ENOMEM, "out of memory");
	}
	weir_mem_free(in->slot);
	in->slot = slot;
	in->slots = slots;
	in->trace->texts = texts;
	for (uint32_t i = 0; i < in->trace->text_count; i++)
		*find_slot(in, texts[i]) = i + 1;
	return 0;
}

static int intern(trace_reader *in, const char *text, uint32_t *ret_index)
{
	int failed = in->trace->text_count >= in->slots / 2 ? make_slots(in) : 0;
	if (failed)
		return failed;
	uint32_t *slot = find_slot(in, text);
	if (*slot == 0) {
		char *copy = weir_mem_strdup(text);
		if (copy == NULL)
			return weir_error_set(-ENOMEM, "out of memory");
		in->trace->texts[in->trace->text_count++] = copy;
		*slot = in->trace->text_count;
	}
	*ret_index = *slot - 1;
	return 0;
}

/* ---- lines ---- */

static int make_room(trace_reader *in)
{
	weir_tracefile *trace = in->trace;
	size_t room = in->room == 0 ? 4096 : 2 * in->room;
	if (trace->count < in->room)
		return 0;
	if (trace->count >= TRACE_MAX)
		return weir_error_set(-EINVAL, "too many arrivals; accepted are %d", TRACE_MAX);
	room = room < TRACE_MAX ? room : TRACE_MAX;
	uint64_t *times = grown(trace->times_ns, trace->count, room, sizeof *times);
	if (times == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	trace->times_ns = times;
	if (in->with_what) {
		uint32_t *asked = grown(trace->asked, trace->count, room, sizeof *asked);
		if (asked == NULL)
			return weir_error_set(-ENOMEM, "out of memory");
		trace->asked = asked;
	}
	in->room = room;
	return 0;
}

static bool begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

/* The first column whose name begins with one of these. */
static unsigned find_column(const char *names, const char *one, const char *other, const char *third)
{
	unsigned column = 0;
	for (const char *at = names; at != NULL; column++) {
		if (begins(at, one) || begins(at, other) || begins(at, third))
			return column;
		at = strchr(at, ',');
		at = at != NULL ? at + 1 : NULL;
	}
	return NO_COLUMN;
}

static void read_names(trace_reader *in, const char *line)
{
	in->column = find_column(line, "t_offset", "time", "t_offset");
	if (in->column == NO_COLUMN)
		in->column = 0;
	in->what_column = NO_COLUMN;
	if (!in->with_what)
		return;
	in->what_column = find_column(line, "path", "url", "target");
	if (in->what_column != NO_COLUMN)
		in->trace->what = WEIR_TRACEFILE_PATHS;
	else if ((in->what_column = find_column(line, "size", "bytes", "size")) != NO_COLUMN)
		in->trace->what = WEIR_TRACEFILE_SIZES;
}

/* Copies a column of the line; NULL: there is none, or it is too long. */
static char *field(const char *line, unsigned column, char *text, size_t room)
{
	for (; column > 0 && line != NULL; column--) {
		line = strchr(line, ',');
		line = line != NULL ? line + 1 : NULL;
	}
	size_t length = line != NULL ? strcspn(line, ",") : room;
	if (length >= room)
		return NULL;
	memcpy(text, line, length);
	text[length] = '\0';
	return text;
}

/* Without names, the second column of the first line decides for all lines. */
static void guess_what(trace_reader *in, const char *line)
{
	const char *second = in->with_what ? strchr(line, ',') : NULL;
	in->what_column = second != NULL ? 1 : NO_COLUMN;
	if (second != NULL)
		in->trace->what = second[1] == '/' ? WEIR_TRACEFILE_PATHS : WEIR_TRACEFILE_SIZES;
}

static int read_time(const trace_reader *in, const char *line, uint64_t *ret_ns)
{
	char text[64];
	double seconds;
	if (field(line, in->column, text, sizeof text) == NULL || weir_text_number(text, &seconds) < 0 ||
	    !(seconds >= 0 && seconds <= SECONDS_MAX))
		return weir_error_set(-EINVAL,
				      "there is no time in column %u; accepted are seconds from 0 to %g",
				      in->column + 1, SECONDS_MAX);
	*ret_ns = (uint64_t)(seconds * 1e9 + 0.5);
	return 0;
}

static bool is_path(const char *text)
{
	if (*text != '/')
		return false;
	for (; *text != '\0'; text++)
		if (*text <= ' ' || *text > '~' || *text == '#')
			return false;
	return true;
}

static int read_what(trace_reader *in, const char *line, uint32_t *ret_index)
{
	char text[TEXT_MAX + 1];
	double bytes;
	bool there = field(line, in->what_column, text, sizeof text) != NULL;
	if (in->trace->what == WEIR_TRACEFILE_PATHS) {
		if (!there || !is_path(text))
			return weir_error_set(-EINVAL,
					      "there is no path in column %u; accepted is one from '/' on, "
					      "of at most %d characters without spaces",
					      in->what_column + 1, TEXT_MAX);
		return intern(in, text, ret_index);
	}
	if (!there || text[strspn(text, "0123456789")] != '\0' || weir_text_number(text, &bytes) < 0 ||
	    bytes > SIZE_MAX_B)
		return weir_error_set(
			-EINVAL,
			"there is no size in column %u; accepted are whole numbers of bytes up to %g",
			in->what_column + 1, SIZE_MAX_B);
	snprintf(text, sizeof text, "%.0f", bytes);
	return intern(in, text, ret_index);
}

static int read_line(trace_reader *in, const char *line)
{
	weir_tracefile *trace = in->trace;
	uint64_t ns = 0;
	uint32_t what = 0;
	int failed = read_time(in, line, &ns);
	if (!failed && trace->what != WEIR_TRACEFILE_NOTHING)
		failed = read_what(in, line, &what);
	if (!failed)
		failed = make_room(in);
	if (failed)
		return failed;
	in->ascending = in->ascending && (trace->count == 0 || ns >= trace->times_ns[trace->count - 1]);
	if (trace->asked != NULL)
		trace->asked[trace->count] = what;
	trace->times_ns[trace->count++] = ns;
	return 0;
}

/* ---- order ---- */

typedef struct row {
	uint64_t ns;
	uint32_t line, asked;
} row;

static int ascending(const void *a, const void *b)
{
	const row *one = a, *other = b;
	if (one->ns != other->ns)
		return one->ns < other->ns ? -1 : 1;
	return one->line < other->line ? -1 : 1;
}

static int sort(weir_tracefile *trace)
{
	row *rows = weir_mem_array(trace->count, sizeof *rows);
	if (rows == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	for (size_t i = 0; i < trace->count; i++)
		rows[i] = (row){trace->times_ns[i], (uint32_t)i, trace->asked != NULL ? trace->asked[i] : 0};
	qsort(rows, trace->count, sizeof *rows, ascending);
	for (size_t i = 0; i < trace->count; i++) {
		trace->times_ns[i] = rows[i].ns;
		if (trace->asked != NULL)
			trace->asked[i] = rows[i].asked;
	}
	weir_mem_free(rows);
	return 0;
}

/* ---- public functions ---- */

/* One line, as fgets returns it; whole: it has its end, or is the last. */
static int take_line(trace_reader *in, char *line, bool whole)
{
	if (!whole)
		return weir_error_set(-EINVAL, "a line of at most %d characters of text is accepted",
				      LINE_MAX - 2);
	line[strcspn(line, "\r\n")] = '\0';
	const char *text = line + strspn(line, " \t");
	if (*text == '\0')
		return 0;
	bool names = !in->begun && strchr("+-.0123456789", *text) == NULL;
	if (names)
		read_names(in, line);
	else if (!in->begun)
		guess_what(in, line);
	in->begun = true;
	return names ? 0 : read_line(in, line);
}

static int read_file(trace_reader *in, FILE *file, const char *name)
{
	char line[LINE_MAX];
	unsigned number = 0;
	in->what_column = NO_COLUMN;
	in->ascending = true;
	while (fgets(line, sizeof line, file) != NULL) {
		bool whole = strchr(line, '\n') != NULL || feof(file);
		int failed = take_line(in, line, whole);
		number++;
		if (failed)
			return weir_error_set(failed, "%s:%u: %s", name, number, weir_error());
	}
	if (ferror(file))
		return weir_error_set(-EIO, "%s: cannot be read (a folder?)", name);
	if (in->trace->count == 0)
		return weir_error_set(-EINVAL, "%s:%u: there is no arrival in it", name, number + 1);
	return in->ascending ? 0 : sort(in->trace);
}

static int read_all(FILE *file, const char *name, bool with_what, weir_tracefile **ret_trace)
{
	trace_reader in = {.trace = weir_mem_zalloc(sizeof *in.trace), .with_what = with_what};
	if (in.trace == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	int failed = read_file(&in, file, name);
	weir_mem_free(in.slot);
	if (!failed && in.trace->what == WEIR_TRACEFILE_NOTHING) {
		weir_mem_free(in.trace->asked);
		in.trace->asked = NULL;
	}
	if (failed)
		weir_tracefile_free(&in.trace);
	else
		*ret_trace = in.trace;
	return failed;
}

int weir_tracefile_read(const char *path, bool with_what, weir_tracefile **ret_trace)
{
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return weir_error_set(-errno, "%s: %s", path, strerror(errno));
	int failed = read_all(file, path, with_what, ret_trace);
	fclose(file);
	return failed;
}

int weir_tracefile_parse(const char *name, const char *text, size_t length, bool with_what,
			 weir_tracefile **ret_trace)
{
	FILE *file = length > 0 ? fmemopen((void *)(uintptr_t)text, length, "r") : fopen("/dev/null", "re");
	if (file == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	int failed = read_all(file, name, with_what, ret_trace);
	fclose(file);
	return failed;
}

void weir_tracefile_free(weir_tracefile **trace)
{
	if (*trace == NULL)
		return;
	for (uint32_t i = 0; i < (*trace)->text_count; i++)
		weir_mem_free((*trace)->texts[i]);
	weir_mem_free((*trace)->texts);
	weir_mem_free((*trace)->asked);
	weir_mem_free((*trace)->times_ns);
	weir_mem_free(*trace);
	*trace = NULL;
}

int weir_load_trace(const char *path, double faster, uint64_t **ret_times_ns, size_t *ret_count)
{
	weir_tracefile *trace = NULL;
	int failed = weir_tracefile_read(path, false, &trace);
	if (trace == NULL)
		return failed;
	for (size_t i = 0; i < trace->count; i++)
		trace->times_ns[i] = (uint64_t)((double)trace->times_ns[i] / faster);
	*ret_times_ns = trace->times_ns;
	*ret_count = trace->count;
	trace->times_ns = NULL;
	weir_tracefile_free(&trace);
	return 0;
}
