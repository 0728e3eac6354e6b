/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges what laws earn: grid_revenue [--law NAME] [--half tune|held|all] [--match TEXT] [--quick] [--all] [--list] [--json] [--jobs N] [--draw N]
 * [--seed N] [--bars FILE]. The rules are those of revenue_rules.c. Constants are chosen on the half `tune` (the default), and reported on
 * the half `held`. Beside the law under test it runs the order by class without costs (adaptive-remote) and, where there is one, batch.
 *
 * Prints a line for each cell that is missed (--all: for each), then a summary by part. What one earns that is told everything does not depend on
 * the law: --bars keeps it in a file between runs. The numbers do not depend on --jobs.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <math.h>

#include "common.h"
#include "laws/revenue.h"

#define QUICK_EACH   6
#define BARS_VERSION 1 /* of the rules and of the simulation: other bars are measured again */

struct options {
	const char *law, *half, *match, *bars;
	bool quick, all, list, json;
	unsigned jobs;
	uint64_t draw, seed;
};

struct outcome {
	struct revenue_result result;
	struct revenue_verdict verdict;
	double order, batch, told; /* earned by the others, of the oracle; batch < 0: there is none */
	bool has_bar, ran;
};

struct shared {
	_Atomic size_t next;
	struct outcome outcome[REVENUE_CELLS];
};

static struct revenue_cell cells[REVENUE_CELLS];
static const weir_admission_law *law_tested, *law_batch;

/* ---- bars: a line each, "version draw seed name told", where told is of the oracle ---- */

static void load_bars(const struct options *o, struct shared *shared)
{
	FILE *file = o->bars != NULL ? fopen(o->bars, "r") : NULL;
	unsigned long long draw, seed;
	int version;
	char name[sizeof(cells[0].cell.name)];
	double told;
	while (file != NULL &&
	       fscanf(file, "%d %llu %llu %95s %lg\n", &version, &draw, &seed, name, &told) == 5)
		for (size_t at = 0; at < REVENUE_CELLS; at++)
			if (version == BARS_VERSION && draw == o->draw && seed == o->seed &&
			    strcmp(cells[at].cell.name, name) == 0) {
				shared->outcome[at].told = told;
				shared->outcome[at].has_bar = true;
			}
	if (file != NULL)
		fclose(file);
}

static void keep_bar(const struct options *o, size_t at, double told)
{
	FILE *file = o->bars != NULL ? fopen(o->bars, "a") : NULL;
	if (file == NULL)
		return;
	fprintf(file, "%d %llu %llu %s %.17g\n", BARS_VERSION, (unsigned long long)o->draw,
		(unsigned long long)o->seed, cells[at].cell.name, told);
	fclose(file);
}

/* ---- running ---- */

static bool chosen(const struct options *o, size_t at)
{
	if (strcmp(o->half, "all") != 0 && cells[at].held != (strcmp(o->half, "held") == 0))
		return false;
	if (o->match != NULL && strstr(cells[at].cell.name, o->match) == NULL)
		return false;
	return !o->quick || at % QUICK_EACH == 0;
}

static double earned_by(size_t at, const weir_admission_law *law)
{
	struct revenue_result result;
	if (law == NULL)
		return -1;
	revenue_run(&cells[at], law, &result);
	return result.earned / result.oracle;
}

static void run_cell(const struct options *o, size_t at, struct outcome *outcome)
{
	revenue_run(&cells[at], law_tested, &outcome->result);
	revenue_decide(&cells[at], &outcome->result, &outcome->verdict);
	outcome->order = earned_by(at, &weir_law_adaptive_remote);
	outcome->batch = earned_by(at, law_batch);
	if (!outcome->has_bar) {
		outcome->told = revenue_told(&cells[at]) / outcome->result.oracle;
		keep_bar(o, at, outcome->told);
	}
	outcome->ran = true;
}

static void run_all(const struct options *o, struct shared *shared)
{
	for (unsigned i = 0; i < o->jobs; i++) {
		pid_t pid = fork();
		BENCH_REQUIRE(pid >= 0);
		if (pid != 0)
			continue;
		size_t at;
		while ((at = atomic_fetch_add(&shared->next, 1)) < REVENUE_CELLS)
			if (chosen(o, at))
				run_cell(o, at, &shared->outcome[at]);
		_exit(0);
	}
	int status;
	while (wait(&status) > 0)
		BENCH_REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- telling ---- */

static bool counts(const struct outcome *o)
{
	return o->told >= REVENUE_LEAST;
}

static void print_json(const struct options *o, size_t at, const struct outcome *outcome)
{
	const struct revenue_result *r = &outcome->result;
	printf("{\"cell\":\"%s\",\"part\":\"%s\",\"half\":\"%s\",\"law\":\"%s\",\"spread\":%g,\"load\":%g,"
	       "\"workers\":%u,\"counts\":%s,\"met\":%s,\"failed\":\"%s\",\"earned\":%.4f,\"order\":%.4f,"
	       "\"batch\":%.4f,\"told\":%.4f,\"clairvoyant\":%.4f,\"p90\":%.3f,\"seconds\":%u,\"kept\":%u,"
	       "\"classes\":[",
	       cells[at].cell.name, cells[at].cell.part, cells[at].held ? "held" : "tune", o->law,
	       cells[at].spread, cells[at].load, cells[at].cell.backend.workers,
	       counts(outcome) ? "true" : "false", outcome->verdict.met ? "true" : "false",
	       outcome->verdict.failed, outcome->verdict.of_oracle, outcome->order, outcome->batch,
	       outcome->told, r->clairvoyant / r->oracle, outcome->verdict.p90, r->seconds, r->kept);
	for (unsigned k = 0; k < REVENUE_CLASSES; k++)
		printf("%s{\"earned\":%.4f,\"late\":%.4f,\"turned_away\":%.4f,\"p90\":%.3f}",
		       k != 0 ? "," : "", r->klass[k].earned / r->oracle, r->klass[k].late / r->oracle,
		       r->klass[k].turned_away / r->oracle, r->klass[k].p90);
	printf("]}\n");
}

static void print_cell(size_t at, const struct outcome *o)
{
	const struct revenue_result *r = &o->result;
	double late = 0;
	for (unsigned k = 0; k < REVENUE_CLASSES; k++)
		late += r->klass[k].late / r->oracle;
	printf("%-86s %-18s earned %.3f late %.3f told %.3f order %.3f batch %.3f p90 %.2f kept %u/%u\n",
	       cells[at].cell.name,
	       o->verdict.met ? "met"
	       : counts(o)    ? o->verdict.failed
			      : "cannot",
	       o->verdict.of_oracle, late, o->told, o->order, o->batch, o->verdict.p90, r->kept, r->seconds);
}

/* A part's counts. */
struct count {
	unsigned cells, counted, met, met_counted, earned, p90, guaranteed;
	unsigned seconds, kept;
	double sum, order_sum, batch_sum, clairvoyant_sum, told_sum;
	unsigned order_possible, order_met, batch_possible, batch_met;
};

static void add_to(struct count *c, const struct outcome *o)
{
	bool in = counts(o);
	c->cells++;
	c->counted += in;
	c->met += o->verdict.met;
	c->met_counted += in && o->verdict.met;
	c->earned += strstr(o->verdict.failed, "earned") != NULL;
	c->p90 += strstr(o->verdict.failed, "p90") != NULL;
	c->guaranteed += strstr(o->verdict.failed, "guaranteed") != NULL;
	c->seconds += o->result.seconds;
	c->kept += o->result.kept;
	c->sum += o->verdict.of_oracle;
	c->told_sum += o->told;
	c->order_sum += o->order;
	c->batch_sum += o->batch;
	c->clairvoyant_sum += o->result.clairvoyant / o->result.oracle;
	c->order_possible += REVENUE_LEAST >= REVENUE_OVER_ORDER * o->order;
	c->order_met += REVENUE_LEAST >= REVENUE_OVER_ORDER * o->order &&
			o->verdict.of_oracle >= REVENUE_OVER_ORDER * o->order;
	c->batch_possible += o->batch >= 0 && REVENUE_LEAST >= REVENUE_OVER_BATCH * o->batch;
	c->batch_met += o->batch >= 0 && REVENUE_LEAST >= REVENUE_OVER_BATCH * o->batch &&
			o->verdict.of_oracle >= REVENUE_OVER_BATCH * o->batch;
}

static void print_count(const char *what, const struct count *c)
{
	if (c->cells == 0)
		return;
	printf("%-14s met %3u of %3u that count, %3u of all %3u; missed earned %3u p90 %3u guaranteed %u; "
	       "earned %.3f told %.3f clairvoyant %.2f; seconds kept %u of %u; over class order %.2f (%u of "
	       "%u)",
	       what, c->met_counted, c->counted, c->met, c->cells, c->earned, c->p90, c->guaranteed,
	       c->sum / c->cells, c->told_sum / c->cells, c->clairvoyant_sum / c->cells, c->kept, c->seconds,
	       c->sum / c->order_sum, c->order_met, c->order_possible);
	if (c->batch_sum > 0)
		printf("; over batch %.2f (%u of %u)", c->sum / c->batch_sum, c->batch_met,
		       c->batch_possible);
	printf("\n");
}

/* Those of a relation, a load, a spread and at least so many workers; -1 or 0: any. */
static void print_part(const struct shared *shared, const char *what, int relation, double load,
		       double spread, bool differ)
{
	struct count count = {0};
	for (size_t at = 0; at < REVENUE_CELLS; at++)
		if (shared->outcome[at].ran && (relation < 0 || (int)cells[at].relation == relation) &&
		    (load == 0 || cells[at].load == load) && (spread == 0 || cells[at].spread == spread) &&
		    (!differ || cells[at].spread >= 10))
			add_to(&count, &shared->outcome[at]);
	print_count(what, &count);
}

static void tell(const struct options *o, const struct shared *shared)
{
	for (size_t at = 0; at < REVENUE_CELLS; at++) {
		const struct outcome *outcome = &shared->outcome[at];
		if (!outcome->ran)
			continue;
		if (o->json)
			print_json(o, at, outcome);
		else if (o->all || (counts(outcome) && !outcome->verdict.met))
			print_cell(at, outcome);
	}
	if (o->json)
		return;
	for (int relation = 0; relation < REVENUE_RELATIONS; relation++)
		print_part(shared, revenue_relation_names[relation], relation, 0, 0, false);
	print_part(shared, "load 2", -1, 2, 0, false);
	print_part(shared, "load 5", -1, 5, 0, false);
	print_part(shared, "load 10", -1, 10, 0, false);
	print_part(shared, "costs alike", -1, 0, 1, false);
	print_part(shared, "costs differ", -1, 0, 0, true);
	print_part(shared, "all", -1, 0, 0, false);
}

/* ---- options ---- */

static void usage(void)
{
	fprintf(stderr,
		"usage: grid_revenue [--law NAME] [--half tune|held|all] [--match TEXT] [--quick] [--all] "
		"[--list] [--json]\n"
		"       [--jobs N] [--draw N] [--seed N] [--bars FILE]\n");
	exit(2);
}

static bool parse_switch(const char *name, struct options *o)
{
	const struct {
		const char *name;
		bool *to;
	} switches[] = {
		{"--quick", &o->quick}, {"--all", &o->all}, {"--list", &o->list}, {"--json", &o->json}};
	for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
		if (strcmp(name, switches[i].name) == 0)
			return *switches[i].to = true;
	return false;
}

static bool parse_value(const char *name, const char *value, struct options *o)
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

static void parse(int argc, char **argv, struct options *o)
{
	for (int i = 1; i < argc; i++) {
		if (parse_switch(argv[i], o))
			continue;
		if (i + 1 >= argc || !parse_value(argv[i], argv[i + 1], o))
			usage();
		i++;
	}
	if ((strcmp(o->half, "tune") != 0 && strcmp(o->half, "held") != 0 && strcmp(o->half, "all") != 0) ||
	    o->jobs == 0)
		usage();
	law_tested = weir_law_find(o->law);
	law_batch = weir_law_find("batch");
	if (law_tested == NULL) {
		fprintf(stderr, "grid_revenue: there is no law '%s'\n", o->law);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct options o = {.law = "value", .half = "tune", .jobs = 2, .draw = 1, .seed = 1};
	parse(argc, argv, &o);
	struct shared *shared =
		mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	BENCH_REQUIRE(shared != MAP_FAILED);
	revenue_cells(cells, o.draw, o.seed);
	for (size_t at = 0; o.list && at < REVENUE_CELLS; at++)
		if (chosen(&o, at))
			printf("%s %s\n", cells[at].held ? "held" : "tune", cells[at].cell.name);
	if (o.list)
		return 0;
	load_bars(&o, shared);
	run_all(&o, shared);
	tell(&o, shared);
	return 0;
}
