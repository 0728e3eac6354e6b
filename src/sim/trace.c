/* SPDX-License-Identifier: Apache-2.0 */
/* Arrival times from a CSV: one column of it, in seconds. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "sim/load.h"

#define TRACE_MAX   20000000
#define SECONDS_MAX 3.6e6

typedef struct times {
	uint64_t *ns;
	size_t count, room;
} times;

static int append(times *all, uint64_t ns)
{
	if (all->count == all->room) {
		size_t room = all->room == 0 ? 4096 : 2 * all->room;
		uint64_t *more = room <= TRACE_MAX ? weir_mem_array(room, sizeof *more) : NULL;
		if (more == NULL)
			return weir_error_set(-ENOMEM, "too many arrivals; accepted are %d", TRACE_MAX);
		if (all->ns != NULL)
			memcpy(more, all->ns, all->count * sizeof *more);
		weir_mem_free(all->ns);
		all->ns = more;
		all->room = room;
	}
	all->ns[all->count++] = ns;
	return 0;
}

/* The column whose name begins with t_offset; else the first. */
static unsigned find_column(const char *names)
{
	unsigned column = 0;
	for (const char *at = names; at != NULL; column++) {
		if (strncmp(at, "t_offset", 8) == 0)
			return column;
		at = strchr(at, ',');
		at = at != NULL ? at + 1 : NULL;
	}
	return 0;
}

static char *field(char *line, unsigned column)
{
	for (; column > 0 && line != NULL; column--) {
		line = strchr(line, ',');
		line = line != NULL ? line + 1 : NULL;
	}
	if (line != NULL)
		line[strcspn(line, ",\r\n")] = '\0';
	return line;
}

static int read_time(char *line, unsigned column, double faster, uint64_t *ret_ns)
{
	const char *text = field(line, column);
	double seconds;
	if (text == NULL || weir_text_number(text, &seconds) < 0 || !(seconds >= 0 && seconds <= SECONDS_MAX))
		return weir_error_set(-EINVAL,
				      "there is no time in column %u; accepted are seconds from 0 to %g",
				      column + 1, SECONDS_MAX);
	*ret_ns = (uint64_t)(seconds / faster * 1e9);
	return 0;
}

static int read_file(FILE *file, const char *path, double faster, times *all)
{
	char line[1000];
	unsigned column = 0, number = 0;
	while (fgets(line, sizeof line, file) != NULL) {
		uint64_t ns = 0;
		bool names = ++number == 1 && strpbrk(line, "abcdfghijklmnopqrstuvwxyz_") != NULL;
		if (names) {
			column = find_column(line);
			continue;
		}
		int failed = read_time(line, column, faster, &ns);
		if (!failed)
			failed = append(all, ns);
		if (failed)
			return weir_error_set(failed, "%s:%u: %s", path, number, weir_error());
	}
	if (all->count == 0)
		return weir_error_set(-EINVAL, "%s: there is no arrival in it", path);
	return 0;
}

static int ascending(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
	return one < other ? -1 : one > other;
}

int weir_load_trace(const char *path, double faster, uint64_t **ret_times_ns, size_t *ret_count)
{
	times all = {0};
	FILE *file = fopen(path, "r");
	if (file == NULL)
		return weir_error_set(-errno, "%s: %s", path, strerror(errno));
	int failed = read_file(file, path, faster, &all);
	fclose(file);
	if (failed) {
		weir_mem_free(all.ns);
		return failed;
	}
	if (all.ns != NULL)
		qsort(all.ns, all.count, sizeof *all.ns, ascending);
	*ret_times_ns = all.ns;
	*ret_count = all.count;
	return 0;
}
