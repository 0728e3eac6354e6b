/* SPDX-License-Identifier: Apache-2.0 */
#include "nucleus/tree.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAT_BYTES  1024u
#define PATH_BYTES  512u
#define GROUP_BYTES 4096u

/* ---- reading ---- */

/* The beginning of a small file as text; its length, or -1. */
static ssize_t read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t length = read(fd, text, size - 1);
	close(fd);
	text[length > 0 ? length : 0] = '\0';
	return length;
}

typedef struct process_stat {
	pid_t parent;
	double cpu_s, children_cpu_s;
} process_stat;

/* The name of the program is in parentheses and may contain anything. */
static bool read_stat(const char *proc, pid_t pid, process_stat *ret_stat)
{
	char path[PATH_BYTES], text[STAT_BYTES];
	unsigned long long user, system;
	long long children_user, children_system;
	double ticks = (double)sysconf(_SC_CLK_TCK);
	int parent;
	snprintf(path, sizeof(path), "%s/%d/stat", proc, (int)pid);
	if (read_file(path, text, sizeof(text)) <= 0)
		return false;
	const char *after = strrchr(text, ')');
	if (after == NULL ||
	    sscanf(after + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld", &parent,
		   &user, &system, &children_user, &children_system) != 5)
		return false;
	*ret_stat = (process_stat){.parent = parent,
				   .cpu_s = (double)(user + system) / ticks,
				   .children_cpu_s = (double)(children_user + children_system) / ticks};
	return true;
}

/* ---- who holds a socket ---- */

static bool is_wanted(uint32_t inode, const uint32_t *inodes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (inodes[i] == inode && inode != 0)
			return true;
	return false;
}

static bool holds(const char *proc, pid_t pid, const uint32_t *inodes, size_t count)
{
	char path[PATH_BYTES], link[64];
	bool found = false;
	snprintf(path, sizeof(path), "%s/%d/fd", proc, (int)pid);
	DIR *folder = opendir(path);
	const struct dirent *entry;
	while (!found && folder != NULL && (entry = readdir(folder)) != NULL) {
		ssize_t length = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link) - 1);
		unsigned inode;
		if (length <= 0)
			continue;
		link[length] = '\0';
		found = sscanf(link, "socket:[%u]", &inode) == 1 && is_wanted(inode, inodes, count);
	}
	if (folder != NULL)
		closedir(folder);
	return found;
}

static bool contains(const pid_t *pids, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* Those whose parent is among them, too, are members of its tree. */
static size_t keep_elders(const char *proc, const pid_t *all, size_t count, pid_t *ret_pids, size_t most)
{
	size_t kept = 0;
	for (size_t i = 0; i < count && kept < most; i++) {
		process_stat stat;
		if (read_stat(proc, all[i], &stat) && !contains(all, count, stat.parent))
			ret_pids[kept++] = all[i];
	}
	return kept;
}

size_t weir_tree_holders(const char *proc, const uint32_t *inodes, size_t count, pid_t *ret_pids, size_t most)
{
	static const size_t room = WEIR_TREE_MOST;
	pid_t all[WEIR_TREE_MOST];
	size_t found = 0;
	DIR *folder = opendir(proc);
	const struct dirent *entry;
	while (folder != NULL && found < room && (entry = readdir(folder)) != NULL) {
		pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atoi(entry->d_name) : 0;
		if (pid > 0 && holds(proc, pid, inodes, count))
			all[found++] = pid;
	}
	if (folder != NULL)
		closedir(folder);
	return keep_elders(proc, all, found, ret_pids, most);
}

/* ---- the tree ---- */

static void add_member(weir_tree *tree, pid_t pid)
{
	if (tree->members < WEIR_TREE_MOST && !contains(tree->member, tree->members, pid))
		tree->member[tree->members++] = pid;
}

static void add_listed(weir_tree *tree, const char *path)
{
	char text[GROUP_BYTES];
	char *rest = NULL;
	if (read_file(path, text, sizeof(text)) <= 0)
		return;
	for (const char *word = strtok_r(text, " \n", &rest); word != NULL;
	     word = strtok_r(NULL, " \n", &rest))
		add_member(tree, (pid_t)atoi(word));
}

/* Each thread of a process lists the children that it has made. */
static void add_children(weir_tree *tree, pid_t pid)
{
	char path[PATH_BYTES];
	snprintf(path, sizeof(path), "%s/%d/task", tree->proc, (int)pid);
	DIR *folder = opendir(path);
	const struct dirent *entry;
	while (folder != NULL && (entry = readdir(folder)) != NULL) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "%s/%d/task/%.20s/children", tree->proc, (int)pid,
			 entry->d_name);
		add_listed(tree, path);
	}
	if (folder != NULL)
		closedir(folder);
}

void weir_tree_look(weir_tree *tree)
{
	tree->members = 0;
	for (uint32_t i = 0; i < tree->roots; i++)
		add_member(tree, tree->root[i]);
	/* The list grows while it is walked. */
	for (uint32_t i = 0; i < tree->members; i++)
		add_children(tree, tree->member[i]);
}

bool weir_tree_alive(const weir_tree *tree)
{
	process_stat stat;
	for (uint32_t i = 0; i < tree->roots; i++)
		if (read_stat(tree->proc, tree->root[i], &stat))
			return true;
	return false;
}

double weir_tree_cpu_s(const weir_tree *tree)
{
	double sum_s = 0;
	process_stat stat;
	for (uint32_t i = 0; i < tree->members; i++)
		if (read_stat(tree->proc, tree->member[i], &stat))
			sum_s += stat.cpu_s + stat.children_cpu_s;
	return sum_s;
}

/* "time on a processor, time in the run queue, turns", in ns. */
static double delay_s_of(const char *proc, pid_t pid)
{
	char path[PATH_BYTES], text[STAT_BYTES];
	unsigned long long delay_ns;
	snprintf(path, sizeof(path), "%s/%d/schedstat", proc, (int)pid);
	return read_file(path, text, sizeof(text)) > 0 && sscanf(text, "%*u %llu", &delay_ns) == 1
		       ? (double)delay_ns / 1e9
		       : 0;
}

double weir_tree_delay_s(const weir_tree *tree)
{
	double sum_s = 0;
	for (uint32_t i = 0; i < tree->members; i++)
		sum_s += delay_s_of(tree->proc, tree->member[i]);
	return sum_s;
}

/* ---- processors ---- */

/* cgroup v2: "max 100000" or "50000 100000". */
static double quota_v2(const char *folder)
{
	char path[PATH_BYTES + 32], text[64];
	double quota, period;
	snprintf(path, sizeof(path), "%s/cpu.max", folder);
	return read_file(path, text, sizeof(text)) > 0 && sscanf(text, "%lf %lf", &quota, &period) == 2 &&
			       period > 0
		       ? quota / period
		       : INFINITY;
}

static double quota_v1(const char *folder)
{
	char path[PATH_BYTES + 32], text[64];
	double quota, period;
	snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
	if (read_file(path, text, sizeof(text)) <= 0 || sscanf(text, "%lf", &quota) != 1 || quota <= 0)
		return INFINITY;
	snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
	if (read_file(path, text, sizeof(text)) <= 0 || sscanf(text, "%lf", &period) != 1 || period <= 0)
		return INFINITY;
	return quota / period;
}

/* The smallest quota of a group and all groups above it. */
static double quota_up(const char *top, const char *group, double (*quota_of)(const char *folder))
{
	char folder[PATH_BYTES];
	double least = INFINITY;
	size_t above = strlen(top);
	if ((size_t)snprintf(folder, sizeof(folder), "%s%s", top, group) >= sizeof(folder))
		return least;
	for (;;) {
		least = fmin(least, quota_of(folder));
		char *slash = strrchr(folder, '/');
		if (slash == NULL || (size_t)(slash - folder) < above)
			return least;
		*slash = '\0';
	}
}

/* Whether "cpu" is one of the comma-separated controllers. */
static bool has_cpu(const char *controllers, size_t length)
{
	for (size_t at = 0; at < length;) {
		size_t end = at;
		while (end < length && controllers[end] != ',')
			end++;
		if (end - at == 3 && memcmp(controllers + at, "cpu", 3) == 0)
			return true;
		at = end + 1;
	}
	return false;
}

/* A line: "0::/group" (v2), or "4:cpu,cpuacct:/group" (v1). */
static double quota_of_line(const char *line, const char *top)
{
	char folder[PATH_BYTES];
	const char *first = strchr(line, ':'), *second = first != NULL ? strchr(first + 1, ':') : NULL;
	if (second == NULL)
		return INFINITY;
	size_t length = (size_t)(second - first - 1);
	if (length == 0) {
		snprintf(folder, sizeof(folder), "%s/unified", top);
		return fmin(quota_up(top, second + 1, quota_v2), quota_up(folder, second + 1, quota_v2));
	}
	if (!has_cpu(first + 1, length))
		return INFINITY;
	snprintf(folder, sizeof(folder), "%s/%.*s", top, (int)length, first + 1);
	double least = quota_up(folder, second + 1, quota_v1);
	snprintf(folder, sizeof(folder), "%s/cpu", top);
	return fmin(least, quota_up(folder, second + 1, quota_v1));
}

double weir_tree_quota(const char *groups, const char *top)
{
	char line[PATH_BYTES];
	double least = INFINITY;
	while (*groups != '\0') {
		size_t length = strcspn(groups, "\n");
		snprintf(line, sizeof(line), "%.*s", (int)length, groups);
		least = fmin(least, quota_of_line(line, top));
		groups += length + (groups[length] == '\n');
	}
	return least;
}

double weir_tree_processors(pid_t pid)
{
	char path[PATH_BYTES], text[GROUP_BYTES];
	cpu_set_t allowed;
	double count = sched_getaffinity(pid, sizeof(allowed), &allowed) == 0
			       ? CPU_COUNT(&allowed)
			       : (double)sysconf(_SC_NPROCESSORS_ONLN);
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (read_file(path, text, sizeof(text)) > 0)
		count = fmin(count, weir_tree_quota(text, "/sys/fs/cgroup"));
	return count;
}
