/* SPDX-License-Identifier: Apache-2.0 */
#include "stage/resources.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX   8192                /* bytes read of a file */
#define GROUPS_MAX 16                  /* levels of control groups */
#define UNLIMITED  (UINT64_C(1) << 60) /* version 1 writes "no limit" as a huge number */

/* ---- small files ---- */

/* Reads the beginning of a file; false: there is none, or it is empty. */
static bool read_text(char text[TEXT_MAX], const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;
	va_start(args, format);
	int length = vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	int fd = length < (int)sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	if (fd < 0)
		return false;
	ssize_t got = read(fd, text, TEXT_MAX - 1);
	close(fd);
	text[got > 0 ? got : 0] = '\0';
	return got > 0;
}

/* Parses a whole number at the start of the text, after blanks; false: none, or it overflows. */
static bool parse_count(const char *text, uint64_t *ret_count)
{
	uint64_t count = 0;
	text += strspn(text, " \t");
	if (!isdigit((unsigned char)*text))
		return false;
	for (; isdigit((unsigned char)*text); text++)
		if (__builtin_mul_overflow(count, 10u, &count) ||
		    __builtin_add_overflow(count, (unsigned)(*text - '0'), &count))
			return false;
	*ret_count = count;
	return true;
}

/* The number after a line's first word, which must be exactly `word`. */
static bool find_count(const char *text, const char *word, uint64_t *ret_count)
{
	size_t length = strlen(word);
	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, word, length) == 0 && strchr(" \t:", line[length]) != NULL)
			return parse_count(line + length + (line[length] == ':'), ret_count);
	}
	return false;
}

static bool read_count(const char *root, const char *folder, const char *name, uint64_t *ret_count)
{
	char text[TEXT_MAX];
	return read_text(text, "%s%s/%s", root, folder, name) && parse_count(text, ret_count);
}

/* ---- control groups ---- */

/* Where each version of control groups keeps its files, below the root. */
typedef struct group_files {
	const char *mount, *limit, *used, *dropped;
} group_files;

static const group_files version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
static const group_files version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
				      "memory.usage_in_bytes", "total_inactive_file"};

/* Looks at one group; keeps the one with the largest fraction in use. */
static void look_at_group(const char *root, const group_files *files, const char *group, weir_memory *memory)
{
	char folder[PATH_MAX], text[TEXT_MAX];
	uint64_t limit, used, dropped = 0;
	if (snprintf(folder, sizeof(folder), "%s%s", files->mount, group) >= (int)sizeof(folder))
		return;
	if (!read_count(root, folder, files->limit, &limit) || limit == 0 || limit >= UNLIMITED ||
	    !read_count(root, folder, files->used, &used))
		return;
	/* Page cache that the kernel can drop at any time is not in use. */
	if (read_text(text, "%s%s/memory.stat", root, folder))
		find_count(text, files->dropped, &dropped);
	used -= dropped < used ? dropped : used;
	if (memory->limit != 0 && (double)used / (double)limit < (double)memory->used / (double)memory->limit)
		return;
	*memory = (weir_memory){.used = used, .limit = limit, .own = memory->own, .grouped = 1};
}

/* The group and those above it: each limits all below it. */
static void look_at_groups(const char *root, const group_files *files, char *group, weir_memory *memory)
{
	for (unsigned i = 0; i < GROUPS_MAX; i++) {
		char *slash = strrchr(group, '/');
		look_at_group(root, files, strcmp(group, "/") == 0 ? "" : group, memory);
		if (slash == NULL || group[0] == '\0')
			return;
		*slash = '\0';
	}
}

/* This process's group, from "number:controllers:path"; version 2 has no controllers. False: not found. */
static bool find_group(const char *text, const char *controller, char *ret_group, size_t size)
{
	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		line += *line == '\n';
		const char *names = strchr(line, ':'), *path = names != NULL ? strchr(names + 1, ':') : NULL;
		const char *end = line + strcspn(line, "\n");
		if (path == NULL || path > end || path[1] != '/')
			continue;
		bool fits = (size_t)(path - names - 1) == strlen(controller) &&
			    strncmp(names + 1, controller, strlen(controller)) == 0;
		if (fits && (size_t)(end - path) <= size)
			return snprintf(ret_group, size, "%.*s", (int)(end - path - 1), path + 1) > 0;
	}
	return false;
}

/* ---- memory ---- */

static void look_at_machine(const char *root, weir_memory *memory)
{
	char text[TEXT_MAX];
	uint64_t total, available;
	if (!read_text(text, "%s/proc/meminfo", root) || !find_count(text, "MemTotal", &total) ||
	    !find_count(text, "MemAvailable", &available) || total == 0 || available > total ||
	    total > UNLIMITED / 1024)
		return;
	memory->limit = total * 1024;
	memory->used = (total - available) * 1024;
}

static uint64_t own_memory(const char *root)
{
	char text[TEXT_MAX];
	uint64_t pages;
	if (!read_text(text, "%s/proc/self/statm", root))
		return 0;
	const char *second = strchr(text, ' ');
	return second != NULL && parse_count(second, &pages) && pages < UNLIMITED / 4096
		       ? pages * (uint64_t)sysconf(_SC_PAGESIZE)
		       : 0;
}

void weir_resources_memory(const char *root, weir_memory *ret_memory)
{
	char groups[TEXT_MAX], group[1024];
	weir_memory memory = {.own = own_memory(root)};
	if (read_text(groups, "%s/proc/self/cgroup", root)) {
		if (find_group(groups, "memory", group, sizeof(group)))
			look_at_groups(root, &version_1, group, &memory);
		if (memory.limit == 0 && find_group(groups, "", group, sizeof(group)))
			look_at_groups(root, &version_2, group, &memory);
	}
	if (memory.limit == 0)
		look_at_machine(root, &memory);
	*ret_memory = memory;
}

/* ---- processor ---- */

/* "some avg10=12.34 ...": as a fraction. No scanf: its decimal point depends on the locale. */
static double parse_stall(const char *text)
{
	static const char begins[] = "some avg10=";
	uint64_t whole, parts = 0;
	if (strncmp(text, begins, strlen(begins)) != 0 || !parse_count(text + strlen(begins), &whole) ||
	    whole > 100)
		return -1;
	const char *point = text + strlen(begins) + strspn(text + strlen(begins), "0123456789");
	if (point[0] == '.' && isdigit((unsigned char)point[1]) && isdigit((unsigned char)point[2]))
		parts = (uint64_t)(point[1] - '0') * 10 + (uint64_t)(point[2] - '0');
	double part = ((double)whole + (double)parts / 100) / 100;
	return part < 1 ? part : 1;
}

double weir_resources_cpu(const char *root)
{
	char text[TEXT_MAX], group[1024];
	double part = -1;
	if (read_text(text, "%s/proc/self/cgroup", root) && find_group(text, "", group, sizeof(group)) &&
	    read_text(text, "%s/sys/fs/cgroup%s/cpu.pressure", root, group))
		part = parse_stall(text);
	if (part < 0 && read_text(text, "%s/proc/pressure/cpu", root))
		part = parse_stall(text);
	return part;
}
