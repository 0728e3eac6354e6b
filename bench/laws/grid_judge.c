/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges a law before backends whose requests are of very different cost: grid_judge [--grid harm|mixed|change] [--law NAME] [--half tune|held|all]
 * [--match TEXT] [--quick] [--all] [--list] [--summary] [--json] [--jobs N] [--draw N] [--seed N] [--bars FILE] [--scale CONSTANT=FACTOR]. The rules are those of
 * judge_rules.c. Constants are chosen on the half `tune` (the default), and reported on the half `held`.
 *
 * Prints a line for each cell that is missed (--all: for each), then a summary by part; with --summary one line a grid. What a cell is held
 * against does not depend on the law: --bars keeps it in a file between runs. The numbers do not depend on --jobs. --scale multiplies one of the
 * constants of adaptive-remote; --constants prints their names. --told S lets the backend tell the law about itself every S seconds, as a nucleus
 * would. --early S measures the first S seconds after a change, without bars, and prints for each part how many were shed, and how many of the
 * answers took longer than two targets.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "common.h"
#include "control/remote.h"
#include "laws/judge.h"
#include "laws/peers.h"

#define QUICK_EACH   6
#define BARS_VERSION 4 /* of the rules and of the simulation: other bars are measured again */

struct options {
	const char *grid, *law, *half, *match, *bars;
	bool quick, all, list, summary, json, constants;
	unsigned jobs;
	uint64_t draw, seed;
	double told_s, early_s;
};

struct outcome {
	struct judge_outcome judged;
	double cpu_s;
	bool has_bar, ran;
};

struct shared {
	_Atomic size_t next;
	struct outcome outcome[JUDGE_CELLS_MAX];
};

static struct judge_cell cells[JUDGE_CELLS_MAX];
static size_t cell_count;

/* ---- constants of the law ---- */

static weir_remote_tuning tuning;
static bool tuned;

#define CONSTANT(name)                                    \
	{                                                 \
#name, offsetof(weir_remote_tuning, name) \
	}
static const struct {
	const char *name;
	size_t offset;
} constants[] = {CONSTANT(first),  CONSTANT(slow),     CONSTANT(sure), CONSTANT(base), CONSTANT(margin),
		 CONSTANT(credit), CONSTANT(headroom), CONSTANT(own),  CONSTANT(grow), CONSTANT(window),
		 CONSTANT(enough), CONSTANT(lift_s),   CONSTANT(lift), CONSTANT(step)};

/* "slow=2": the constant is twice what it is; false: there is no such constant. */
static bool scale_constant(const char *text)
{
	const char *equals = strchr(text, '=');
	if (!tuned)
		tuning = weir_remote_usual;
	for (size_t i = 0; equals != NULL && i < sizeof(constants) / sizeof(constants[0]); i++)
		if (strncmp(text, constants[i].name, (size_t)(equals - text)) == 0 &&
		    constants[i].name[equals - text] == 0) {
			double *value = (double *)(void *)((char *)&tuning + constants[i].offset);
			*value *= atof(equals + 1);
			return tuned = true;
		}
	return false;
}

/* ---- the law under test ---- */

static const weir_admission_law *law_tested;

/* Whatever has a parameter named target is told it; nobody is told anything of the backend. */
static void fill_target(void *params, const struct proxy_cell *cell)
{
	char text[40];
	bool has_target = false;
	for (const weir_key *p = law_tested->params; p != NULL && p->name != NULL; p++)
		has_target |= strcmp(p->name, "target") == 0;
	snprintf(text, sizeof(text), "%lluns", (unsigned long long)(cell->target_s * 1e9));
	if (tuned && law_tested == &weir_law_adaptive_remote)
		((weir_adaptive_remote_params *)params)->tuning = &tuning;
	if (has_target && weir_law_set(law_tested, params, "target", text) != 0) {
		fprintf(stderr, "%s: %s\n", cell->name, weir_error());
		exit(1);
	}
}

/* NULL is no law at all. */
static const weir_admission_law *find_law(const char *name)
{
	if (strcmp(name, "none") == 0)
		return NULL;
	const weir_admission_law *law = strcmp(name, "envoy") == 0 ? &weir_law_envoy
					: strcmp(name, "old") == 0 ? &weir_law_old_remote
								   : weir_law_find(name);
	if (law == NULL) {
		fprintf(stderr, "grid_judge: there is no law '%s'\n", name);
		exit(2);
	}
	return law;
}

/* ---- bars, kept between runs: a line each, "version draw seed name counts done blind" ---- */

static void load_bars(const struct options *o, struct shared *shared)
{
	FILE *file = o->bars != NULL ? fopen(o->bars, "r") : NULL;
	unsigned long long draw, seed;
	int version, counts;
	char name[sizeof(cells[0].cell.name)];
	struct judge_bar bar;
	while (file != NULL && fscanf(file, "%d %llu %llu %95s %d %lg %lg\n", &version, &draw, &seed, name,
				      &counts, &bar.done_s, &bar.blind_s) == 7) {
		bar.counts = counts != 0;
		if (version != BARS_VERSION || draw != o->draw || seed != o->seed)
			continue;
		for (size_t at = 0; at < cell_count; at++) {
			struct outcome *outcome = &shared->outcome[at];
			if (strcmp(cells[at].cell.name, name) != 0)
				continue;
			outcome->judged.bar = bar;
			outcome->has_bar = true;
		}
	}
	if (file != NULL)
		fclose(file);
}

static void keep_bar(const struct options *o, size_t at, const struct judge_bar *bar)
{
	FILE *file = o->bars != NULL ? fopen(o->bars, "a") : NULL;
	if (file == NULL)
		return;
	fprintf(file, "%d %llu %llu %s %d %.17g %.17g\n", BARS_VERSION, (unsigned long long)o->draw,
		(unsigned long long)o->seed, cells[at].cell.name, bar->counts, bar->done_s, bar->blind_s);
	fclose(file);
}

/* ---- running ---- */

static bool chosen(const struct options *o, size_t at)
{
	const struct judge_cell *cell = &cells[at];
	if (o->grid != NULL && strcmp(o->grid, judge_grid_names[cell->grid]) != 0)
		return false;
	if (strcmp(o->half, "all") != 0 && cell->held != (strcmp(o->half, "held") == 0))
		return false;
	if (o->match != NULL && strstr(cell->cell.name, o->match) == NULL)
		return false;
	return !o->quick || at % QUICK_EACH == 0;
}

static void run_cell(const struct options *o, size_t at, struct outcome *outcome)
{
	struct judge_outcome *judged = &outcome->judged;
	uint64_t from = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct proxy_cell cell = cells[at].cell;
	cell.told_every_s = o->told_s;
	if (o->early_s > 0) {
		cell.warm_s = cell.phase[0].at_s;
		cell.measure_s = o->early_s;
	}
	proxy_cell_run(&cell, law_tested, fill_target, &judged->result);
	outcome->cpu_s = (double)(bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - from) / 1e9;
	outcome->ran = true;
	if (o->early_s > 0)
		return;
	if (!outcome->has_bar) {
		judge_measure_bar(&cells[at], &judged->bar);
		keep_bar(o, at, &judged->bar);
	}
	judge_decide(&cells[at], judged);
}

static void run_all(const struct options *o, struct shared *shared)
{
	for (unsigned i = 0; i < o->jobs; i++) {
		pid_t pid = fork();
		BENCH_REQUIRE(pid >= 0);
		if (pid != 0)
			continue;
		size_t at;
		while ((at = atomic_fetch_add(&shared->next, 1)) < cell_count)
			if (chosen(o, at))
				run_cell(o, at, &shared->outcome[at]);
		_exit(0);
	}
	int status;
	while (wait(&status) > 0)
		BENCH_REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- telling ---- */

static const char *verdict(const struct judge_outcome *j)
{
	return !j->bar.counts ? "cannot" : j->met ? "met" : j->failed;
}

/* The oracle's work, of what all workers could do. */
static double oracle_of(size_t at, const struct judge_outcome *j)
{
	return j->bar.done_s / (cells[at].cell.backend.workers * cells[at].cell.measure_s);
}

static void print_json(const struct options *o, size_t at, const struct outcome *outcome)
{
	const struct judge_outcome *j = &outcome->judged;
	printf("{\"cell\":\"%s\",\"grid\":\"%s\",\"part\":\"%s\",\"half\":\"%s\",\"law\":\"%s\",\"counts\":%"
	       "s,"
	       "\"met\":%s,\"nearly\":%s,\"failed\":\"%s\",\"p90\":%.4f,\"work\":%.4f,\"shed\":%.5f,"
	       "\"oracle\":%.4f,\"dropped\":%.5f,\"waited\":%.4f,\"blind\":%s,\"offered\":%llu}\n",
	       cells[at].cell.name, judge_grid_names[cells[at].grid], cells[at].cell.part,
	       cells[at].held ? "held" : "tune", o->law, j->bar.counts ? "true" : "false",
	       j->met ? "true" : "false", j->nearly ? "true" : "false", j->failed, j->p90, j->work,
	       j->result.shed, oracle_of(at, j), j->result.dropped, j->waited, j->blind ? "true" : "false",
	       (unsigned long long)j->result.offered);
}

static void print_cell(size_t at, const struct outcome *outcome)
{
	const struct judge_outcome *j = &outcome->judged;
	const struct proxy_result *r = &j->result;
	printf("%-72s %-12s p90 %5.2f work %.3f shed %.4f dropped %.4f limit %.0f n %llu cpu %.2f\n",
	       cells[at].cell.name, verdict(j), j->p90, j->work, r->shed, r->dropped, r->limit,
	       (unsigned long long)r->offered, outcome->cpu_s);
}

/* A grid's or a part's counts. */
struct count {
	unsigned met, nearly, counted, cannot, p90, work, waited, blind;
	double cpu_s, least;
	const char *worst; /* of the cells that are missed, the one that is missed by most */
};

static void add_to(struct count *count, size_t at, const struct outcome *outcome)
{
	const struct judge_outcome *j = &outcome->judged;
	count->cpu_s += outcome->cpu_s;
	if (!j->bar.counts) {
		count->cannot++;
		return;
	}
	count->counted++;
	count->met += j->met;
	count->nearly += j->nearly;
	count->blind += j->blind;
	count->p90 += strstr(j->failed, "p90") != NULL;
	count->work += strstr(j->failed, "work") != NULL;
	count->waited += strstr(j->failed, "waited") != NULL;
	if (!j->met && (count->worst == NULL || j->slack < count->least)) {
		count->least = j->slack;
		count->worst = cells[at].cell.name;
	}
}

static struct count count_of(const struct shared *shared, enum judge_grid grid, const char *part)
{
	struct count count = {0};
	for (size_t at = 0; at < cell_count; at++)
		if (shared->outcome[at].ran && cells[at].grid == grid &&
		    (part == NULL || strcmp(part, cells[at].cell.part) == 0))
			add_to(&count, at, &shared->outcome[at]);
	return count;
}

static void print_count(enum judge_grid grid, const char *what, const struct count *c)
{
	if (c->counted + c->cannot == 0)
		return;
	printf("%-12s met %3u of %3u, cannot %3u", what, c->met, c->counted, c->cannot);
	if (grid == JUDGE_HARM)
		printf(", within 1 %%: %3u", c->nearly);
	else
		printf(", blind %3u, missed p90 %3u work %3u waited %3u", c->blind, c->p90, c->work,
		       c->waited);
	printf("  cpu %5.1f s", c->cpu_s);
	printf("%s%s\n", c->worst != NULL ? "  worst " : "", c->worst != NULL ? c->worst : "");
}

/* One line of counts. */
static void print_summary(const struct options *o, const struct shared *shared, enum judge_grid grid)
{
	struct count c = count_of(shared, grid, NULL);
	if (c.counted + c.cannot == 0)
		return;
	printf("%s %s %s met %u counted %u cannot %u", judge_grid_names[grid], o->half, o->law, c.met,
	       c.counted, c.cannot);
	if (grid == JUDGE_HARM)
		printf(" nearly %u\n", c.nearly);
	else
		printf(" p90 %u work %u waited %u blind %u\n", c.p90, c.work, c.waited, c.blind);
}

/* The parts in the order of their first cells. */
static void print_parts(const struct shared *shared, enum judge_grid grid)
{
	const char *seen[32];
	unsigned count = 0;
	for (size_t at = 0; at < cell_count; at++) {
		unsigned i = 0;
		if (cells[at].grid != grid)
			continue;
		while (i < count && strcmp(seen[i], cells[at].cell.part) != 0)
			i++;
		if (i < count || count == 32)
			continue;
		seen[count++] = cells[at].cell.part;
		struct count part = count_of(shared, grid, cells[at].cell.part);
		print_count(grid, cells[at].cell.part, &part);
	}
	struct count all = count_of(shared, grid, NULL);
	print_count(grid, judge_grid_names[grid], &all);
}

static void print_cells(const struct options *o, const struct shared *shared)
{
	for (size_t at = 0; at < cell_count; at++) {
		const struct outcome *outcome = &shared->outcome[at];
		if (!outcome->ran)
			continue;
		if (o->json)
			print_json(o, at, outcome);
		else if (o->all || (outcome->judged.bar.counts && !outcome->judged.met))
			print_cell(at, outcome);
	}
}

static void tell(const struct options *o, const struct shared *shared)
{
	if (!o->summary)
		print_cells(o, shared);
	for (int grid = 0; grid < JUDGE_GRIDS && !o->json; grid++) {
		if (!o->summary)
			print_parts(shared, (enum judge_grid)grid);
		print_summary(o, shared, (enum judge_grid)grid);
	}
}

struct early {
	double cells, shed, late;
};

static struct early early_of(const struct shared *shared, const char *part)
{
	struct early sum = {0};
	for (size_t at = 0; at < cell_count; at++) {
		const struct proxy_result *r = &shared->outcome[at].judged.result;
		if (!shared->outcome[at].ran || strcmp(cells[at].cell.part, part) != 0)
			continue;
		sum.cells++;
		sum.shed += r->shed + r->dropped;
		sum.late += 1 - r->timely;
	}
	return sum;
}

/* The means of each part; its cells stand together. */
static void tell_early(const struct shared *shared)
{
	for (size_t at = 0; at < cell_count; at++) {
		const char *part = cells[at].cell.part;
		struct early sum = early_of(shared, part);
		if (sum.cells > 0 && (at == 0 || strcmp(cells[at - 1].cell.part, part) != 0))
			printf("%-12s %3.0f cells: shed %.4f, later than two targets %.4f\n", part, sum.cells,
			       sum.shed / sum.cells, sum.late / sum.cells);
	}
}

/* ---- options ---- */

static void usage(void)
{
	fprintf(stderr, "usage: grid_judge [--grid harm|mixed|change] [--law NAME] [--half tune|held|all] "
			"[--match TEXT] [--quick] [--all] [--list]\n"
			"       [--scale CONSTANT=FACTOR] [--constants] [--summary] [--json] [--jobs N] "
			"[--draw N] [--seed "
			"N] [--bars FILE] [--told S] [--early S]\n");
	exit(2);
}

static bool parse_switch(const char *name, struct options *o)
{
	const struct {
		const char *name;
		bool *to;
	} switches[] = {{"--quick", &o->quick},     {"--all", &o->all},   {"--list", &o->list},
			{"--summary", &o->summary}, {"--json", &o->json}, {"--constants", &o->constants}};
	for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
		if (strcmp(name, switches[i].name) == 0)
			return *switches[i].to = true;
	return false;
}

static bool parse_value(const char *name, const char *value, struct options *o)
{
	const struct {
		const char *name, **to;
	} texts[] = {{"--grid", &o->grid},
		     {"--law", &o->law},
		     {"--half", &o->half},
		     {"--match", &o->match},
		     {"--bars", &o->bars}};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (strcmp(name, texts[i].name) == 0)
			return (*texts[i].to = value) != NULL;
	if (strcmp(name, "--scale") == 0)
		return scale_constant(value);
	if (strcmp(name, "--told") == 0)
		o->told_s = atof(value);
	else if (strcmp(name, "--early") == 0)
		o->early_s = atof(value);
	else if (strcmp(name, "--jobs") == 0)
		o->jobs = (unsigned)atoi(value);
	else if (strcmp(name, "--draw") == 0)
		o->draw = strtoull(value, NULL, 10);
	else if (strcmp(name, "--seed") == 0)
		o->seed = strtoull(value, NULL, 10);
	else
		return false;
	return true;
}

static bool is_one_of(const char *text, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(text, names[i]) == 0)
			return true;
	return false;
}

static void parse(int argc, char **argv, struct options *o)
{
	static const char *const halves[] = {"tune", "held", "all"};
	for (int i = 1; i < argc; i++) {
		if (parse_switch(argv[i], o))
			continue;
		if (i + 1 >= argc || !parse_value(argv[i], argv[i + 1], o))
			usage();
		i++;
	}
	if (!is_one_of(o->half, halves, 3) || o->jobs == 0 ||
	    (o->grid != NULL && !is_one_of(o->grid, judge_grid_names, JUDGE_GRIDS)))
		usage();
}

static void list_cells(const struct options *o)
{
	for (size_t at = 0; at < cell_count; at++)
		if (chosen(o, at))
			printf("%s %s\n", cells[at].held ? "held" : "tune", cells[at].cell.name);
}

int main(int argc, char **argv)
{
	struct options o = {.law = "adaptive-remote", .half = "tune", .jobs = 2, .draw = 1, .seed = 1};
	parse(argc, argv, &o);
	struct shared *shared =
		mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	BENCH_REQUIRE(shared != MAP_FAILED);
	law_tested = find_law(o.law);
	cell_count = judge_cells(cells, JUDGE_CELLS_MAX, o.draw, o.seed);
	if (o.list || o.constants) {
		for (size_t i = 0; o.constants && i < sizeof(constants) / sizeof(constants[0]); i++)
			printf("%s\n", constants[i].name);
		if (o.list)
			list_cells(&o);
		return 0;
	}
	load_bars(&o, shared);
	run_all(&o, shared);
	if (o.early_s > 0)
		tell_early(shared);
	else
		tell(&o, shared);
	return 0;
}
