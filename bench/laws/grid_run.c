/* SPDX-License-Identifier: Apache-2.0 */
#include "laws/grid_run.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define QUICK_EACH 6
#define LINE_BYTES 512

/* ---- options ---- */

struct grid_options grid_options_for(const char *law, int bars_version)
{
	return (struct grid_options){
		.law = law, .half = "tune", .jobs = 2, .draw = 1, .seed = 1, .bars_version = bars_version};
}

static bool flip(const char *name, const struct grid_switch *switches)
{
	for (; switches != NULL && switches->name != NULL; switches++)
		if (strcmp(name, switches->name) == 0)
			return *switches->to = true;
	return false;
}

static bool set_common(const char *name, const char *value, struct grid_options *o)
{
	const struct {
		const char *name, **to;
	} texts[] = {{"--law", &o->law}, {"--half", &o->half}, {"--match", &o->match}, {"--bars", &o->bars}};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (strcmp(name, texts[i].name) == 0)
			return (*texts[i].to = value) != NULL;
	if (strcmp(name, "--jobs") == 0)
		o->jobs = (unsigned)atoi(value);
	else if (strcmp(name, "--draw") == 0)
		o->draw = strtoull(value, NULL, 10);
	else if (strcmp(name, "--seed") == 0)
		o->seed = strtoull(value, NULL, 10);
	else
		return false;
	return true;
}

static bool is_half(const char *text)
{
	return strcmp(text, "tune") == 0 || strcmp(text, "held") == 0 || strcmp(text, "all") == 0;
}

bool grid_parse(int argc, char **argv, struct grid_options *o, const struct grid_switch *switches,
		bool (*value)(const char *name, const char *value))
{
	const struct grid_switch common[] = {{"--quick", &o->quick},
					     {"--all", &o->all},
					     {"--list", &o->list},
					     {"--json", &o->json},
					     {NULL, NULL}};
	for (int i = 1; i < argc; i++) {
		if (flip(argv[i], common) || flip(argv[i], switches))
			continue;
		if (i + 1 >= argc)
			return false;
		if (!set_common(argv[i], argv[i + 1], o) && (value == NULL || !value(argv[i], argv[i + 1])))
			return false;
		i++;
	}
	return is_half(o->half) && o->jobs != 0;
}

/* ---- cells ---- */

bool grid_chosen(const struct grid_options *o, size_t at, const char *name, bool held)
{
	if (strcmp(o->half, "all") != 0 && held != (strcmp(o->half, "held") == 0))
		return false;
	if (o->match != NULL && strstr(name, o->match) == NULL)
		return false;
	return !o->quick || at % QUICK_EACH == 0;
}

void grid_list(const struct grid_options *o, size_t at, const char *name, bool held)
{
	if (grid_chosen(o, at, name, held))
		printf("%s %s\n", held ? "held" : "tune", name);
}

void *grid_shared(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	BENCH_REQUIRE(memory != MAP_FAILED);
	return memory;
}

void grid_run(const struct grid_options *o, size_t count,
	      void (*run)(const struct grid_options *o, size_t at))
{
	_Atomic size_t *next = grid_shared(sizeof(*next));
	for (unsigned i = 0; i < o->jobs; i++) {
		pid_t pid = fork();
		BENCH_REQUIRE(pid >= 0);
		if (pid != 0)
			continue;
		size_t at;
		while ((at = atomic_fetch_add(next, 1)) < count)
			run(o, at);
		_exit(0);
	}
	int status;
	while (wait(&status) > 0)
		BENCH_REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- bars ---- */

void grid_bars_load(const struct grid_options *o, void (*take)(const char *name, const char *rest))
{
	FILE *file = o->bars != NULL ? fopen(o->bars, "r") : NULL;
	unsigned long long draw, seed;
	char line[LINE_BYTES], name[GRID_NAME_BYTES];
	int version, used;
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "%d %llu %llu %95s %n", &version, &draw, &seed, name, &used) == 4 &&
		    version == o->bars_version && draw == o->draw && seed == o->seed)
			take(name, line + used);
	if (file != NULL)
		fclose(file);
}

void grid_bars_keep(const struct grid_options *o, const char *name, const char *rest)
{
	FILE *file = o->bars != NULL ? fopen(o->bars, "a") : NULL;
	if (file == NULL)
		return;
	fprintf(file, "%d %llu %llu %s %s\n", o->bars_version, (unsigned long long)o->draw,
		(unsigned long long)o->seed, name, rest);
	fclose(file);
}
