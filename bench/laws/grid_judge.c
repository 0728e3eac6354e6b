/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges a law before backends whose requests are of very different cost: grid_judge [--grid
 * harm|mixed|change] [--law NAME] [--half tune|held|all] [--match TEXT] [--quick] [--all] [--list]
 * [--summary] [--json] [--jobs N] [--draw N] [--seed N] [--bars FILE] [--scale CONSTANT=FACTOR] [--revenue].
 * The rules are those of judge_rules.c. Constants are chosen on the half `tune` (the default), and reported
 * on the half `held`.
 *
 * Prints a line for each cell that is missed (--all: for each), then a summary by part; with --summary one
 * line a grid. What a cell is held against does not depend on the law: --bars keeps it in a file between
 * runs. The numbers do not depend on --jobs. --scale multiplies one of the constants of adaptive-remote;
 * --constants prints their names. --told S lets the backend tell the law about itself every S seconds, as a
 * nucleus would. --early S measures the first S seconds after a change, without bars, and prints for each
 * part how many were shed, and how many of the answers took longer than two targets. --revenue puts the
 * kinds of requests into three classes in turn, which are worth 10, 3 and 1. --calm puts a long calm before
 * the cells of mixed and change that do not start cold. --why prints, below a cell's line, what the law said of
 * itself when it first shed. --dry judges nothing but whether a dry run tells what enforcement would do (dry.h).
 */
#include "common.h"
#include "control/remote.h"
#include "laws/grid_run.h"
#include "laws/judge.h"
#include "laws/peers.h"

#define BARS_VERSION 4

struct outcome {
	struct judge_outcome judged;
	struct judge_dry dry;
	double cpu_s;
	bool has_bar, ran;
};

static struct judge_cell cells[JUDGE_CELLS_MAX];
static size_t cell_count;
static struct outcome *outcomes; /* of all cells, shared by the processes */

/* Options of this program alone. */
static const char *only_grid;
static bool summary, constants_wanted, revenue, calm, why, dry;
static double told_s, early_s;

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

static bool has_param(const char *name)
{
	for (const weir_key *p = law_tested->params; p != NULL && p->name != NULL; p++)
		if (strcmp(p->name, name) == 0)
			return true;
	return false;
}

static void fill_revenue(void *params)
{
	static const char *const worth[][2] = {
		{"revenue[0]", "10"}, {"revenue[1]", "3"}, {"revenue[2]", "1"}};
	for (size_t i = 0; revenue && has_param("revenue") && i < sizeof(worth) / sizeof(worth[0]); i++)
		if (weir_law_set(law_tested, params, worth[i][0], worth[i][1]) != 0) {
			fprintf(stderr, "%s\n", weir_error());
			exit(1);
		}
}

/* Cells whose requests are seen have classes by kind. */
static void see_nothing(void *arg, const struct proxy_seen *seen)
{
}

static void give_classes(struct proxy_cell *cell)
{
	cell->watch = see_nothing;
	for (unsigned i = 0; i < cell->kinds; i++)
		cell->kind[i].klass = (uint8_t)(i % 3);
}

/* Whatever has a parameter named target is told it; nobody is told anything of the backend. */
static void fill_target(void *params, const struct proxy_cell *cell)
{
	char text[40];
	bool has_target = has_param("target");
	fill_revenue(params);
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

/* ---- bars: "counts done blind" ---- */

static void take_bar(const char *name, const char *rest)
{
	struct judge_bar bar;
	int counts;
	if (sscanf(rest, "%d %lg %lg", &counts, &bar.done_s, &bar.blind_s) != 3)
		return;
	bar.counts = counts != 0;
	for (size_t at = 0; at < cell_count; at++)
		if (strcmp(cells[at].cell.name, name) == 0) {
			outcomes[at].judged.bar = bar;
			outcomes[at].has_bar = true;
		}
}

static void measure_bar(const struct grid_options *o, size_t at, struct judge_bar *bar)
{
	char text[80];
	judge_measure_bar(&cells[at], bar);
	snprintf(text, sizeof(text), "%d %.17g %.17g", bar->counts, bar->done_s, bar->blind_s);
	grid_bars_keep(o, cells[at].cell.name, text);
}

/* ---- running ---- */

static bool chosen(const struct grid_options *o, size_t at)
{
	const struct judge_cell *cell = &cells[at];
	return (only_grid == NULL || strcmp(only_grid, judge_grid_names[cell->grid]) == 0) &&
	       grid_chosen(o, at, cell->cell.name, cell->held);
}

static void run_cell(const struct grid_options *o, size_t at)
{
	struct outcome *outcome = &outcomes[at];
	struct judge_outcome *judged = &outcome->judged;
	uint64_t from = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct proxy_cell cell = cells[at].cell;
	if (!chosen(o, at))
		return;
	if (calm) {
		struct judge_cell later = cells[at];
		judge_calm_before(&later);
		cell = later.cell;
	}
	cell.told_every_s = told_s;
	if (revenue)
		give_classes(&cell);
	if (early_s > 0) {
		cell.warm_s = cell.phase[calm && cells[at].grid == JUDGE_CHANGE].at_s;
		cell.measure_s = early_s;
	}
	outcome->ran = true;
	if (dry) {
		judge_dry_run(&cell, law_tested, fill_target, &outcome->dry);
		return;
	}
	proxy_cell_run(&cell, law_tested, fill_target, &judged->result);
	outcome->cpu_s = (double)(bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - from) / 1e9;
	if (early_s > 0)
		return;
	if (!outcome->has_bar)
		measure_bar(o, at, &judged->bar);
	judge_decide(&cells[at], judged);
}

/* ---- telling ---- */

static const char *const starts[] = {"warm", "cold"};

static const char *verdict(const struct judge_outcome *j)
{
	return !j->bar.counts ? "cannot" : j->met ? "met" : j->failed;
}

/* The oracle's work, of what all workers could do. */
static double oracle_of(size_t at, const struct judge_outcome *j)
{
	return j->bar.done_s / (cells[at].cell.backend.workers * cells[at].cell.measure_s);
}

static void print_json(const struct grid_options *o, size_t at, const struct outcome *outcome)
{
	const struct judge_outcome *j = &outcome->judged;
	printf("{\"cell\":\"%s\",\"grid\":\"%s\",\"part\":\"%s\",\"half\":\"%s\",\"law\":\"%s\",\"counts\":%"
	       "s,"
	       "\"met\":%s,\"nearly\":%s,\"failed\":\"%s\",\"p90\":%.4f,\"work\":%.4f,\"shed\":%.5f,"
	       "\"oracle\":%.4f,\"dropped\":%.5f,\"waited\":%.4f,\"blind\":%s,\"offered\":%llu,\"start\":\"%"
	       "s\"}\n",
	       cells[at].cell.name, judge_grid_names[cells[at].grid], cells[at].cell.part,
	       cells[at].held ? "held" : "tune", o->law, j->bar.counts ? "true" : "false",
	       j->met ? "true" : "false", j->nearly ? "true" : "false", j->failed, j->p90, j->work,
	       j->result.shed, oracle_of(at, j), j->result.dropped, j->waited, j->blind ? "true" : "false",
	       (unsigned long long)j->result.offered, starts[cells[at].cold]);
}

/* What the law said of itself when it first shed. */
static void print_first_shed(const struct proxy_result *r)
{
	const weir_report *report = &r->first_shed;
	if (r->first_shed_s < 0)
		return;
	printf("    at %.2f s: rate %.4g/s, limit %u, alone %.4g ms, measured %.4g ms", r->first_shed_s,
	       report->rate_per_s, report->limit, (double)report->alone_ns / 1e6,
	       (double)report->measured_ns / 1e6);
	for (unsigned i = 0; i < report->count; i++)
		printf(", %s %.4g", report->value[i].name, report->value[i].value);
	printf("\n");
}

static void print_cell(size_t at, const struct outcome *outcome)
{
	const struct judge_outcome *j = &outcome->judged;
	const struct proxy_result *r = &j->result;
	printf("%-72s %-12s p90 %5.2f work %.3f shed %.4f dropped %.4f limit %.0f n %llu cpu %.2f\n",
	       cells[at].cell.name, verdict(j), j->p90, j->work, r->shed, r->dropped, r->limit,
	       (unsigned long long)r->offered, outcome->cpu_s);
	if (why)
		print_first_shed(r);
}

/* A grid's or a part's counts. */
struct count {
	unsigned met, nearly, counted, cannot, p90, work, waited, blind;
	double cpu_s, least;
	struct reasons reasons;
	const char *worst; /* of the cells that are missed, the one that is missed by most */
};

static void add_to(struct count *count, size_t at, const struct outcome *outcome)
{
	const struct judge_outcome *j = &outcome->judged;
	count->cpu_s += outcome->cpu_s;
	reasons_merge(&count->reasons, &j->result.reasons);
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

/* part: a mix or a change, "cold", "warm", or NULL for all. */
static struct count count_of(enum judge_grid grid, const char *part)
{
	struct count count = {0};
	for (size_t at = 0; at < cell_count; at++)
		if (outcomes[at].ran && cells[at].grid == grid &&
		    (part == NULL || strcmp(part, cells[at].cell.part) == 0 ||
		     strcmp(part, starts[cells[at].cold]) == 0))
			add_to(&count, at, &outcomes[at]);
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
static void print_summary(const struct grid_options *o, enum judge_grid grid)
{
	struct count c = count_of(grid, NULL), cold = count_of(grid, "cold"), warm = count_of(grid, "warm");
	if (c.counted + c.cannot == 0)
		return;
	printf("%s %s %s met %u counted %u cannot %u", judge_grid_names[grid], o->half, o->law, c.met,
	       c.counted, c.cannot);
	if (grid == JUDGE_HARM)
		printf(" nearly %u", c.nearly);
	else
		printf(" p90 %u work %u waited %u blind %u", c.p90, c.work, c.waited, c.blind);
	printf(" cold %u of %u warm %u of %u\n", cold.met, cold.counted, warm.met, warm.counted);
	printf("%s %s %s ", judge_grid_names[grid], o->half, o->law);
	reasons_print(&c.reasons);
}

/* The parts in the order of their first cells. */
static void print_parts(enum judge_grid grid)
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
		struct count part = count_of(grid, cells[at].cell.part);
		print_count(grid, cells[at].cell.part, &part);
	}
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		struct count start = count_of(grid, starts[i]);
		print_count(grid, starts[i], &start);
	}
	struct count all = count_of(grid, NULL);
	print_count(grid, judge_grid_names[grid], &all);
}

static void print_cells(const struct grid_options *o)
{
	for (size_t at = 0; at < cell_count; at++) {
		const struct outcome *outcome = &outcomes[at];
		if (!outcome->ran)
			continue;
		if (o->json)
			print_json(o, at, outcome);
		else if (o->all || (outcome->judged.bar.counts && !outcome->judged.met))
			print_cell(at, outcome);
	}
}

static void print_json_reasons(enum judge_grid grid)
{
	struct count c = count_of(grid, NULL);
	if (c.counted + c.cannot != 0)
		printf("{\"grid\":\"%s\",\"explanations\":%llu,\"contradictions\":%llu}\n",
		       judge_grid_names[grid], (unsigned long long)c.reasons.asked,
		       (unsigned long long)c.reasons.contradictions);
}

static void tell(const struct grid_options *o)
{
	if (!summary)
		print_cells(o);
	for (int grid = 0; o->json && grid < JUDGE_GRIDS; grid++)
		print_json_reasons((enum judge_grid)grid);
	for (int grid = 0; grid < JUDGE_GRIDS && !o->json; grid++) {
		if (!summary)
			print_parts((enum judge_grid)grid);
		print_summary(o, (enum judge_grid)grid);
	}
}

struct early {
	double cells, shed, late;
};

static struct early early_of(const char *part)
{
	struct early sum = {0};
	for (size_t at = 0; at < cell_count; at++) {
		const struct proxy_result *r = &outcomes[at].judged.result;
		if (!outcomes[at].ran || strcmp(cells[at].cell.part, part) != 0)
			continue;
		sum.cells++;
		sum.shed += r->shed + r->dropped;
		sum.late += 1 - r->timely;
	}
	return sum;
}

/* The means of each part; its cells stand together. */
static void tell_early(void)
{
	for (size_t at = 0; at < cell_count; at++) {
		const char *part = cells[at].cell.part;
		struct early sum = early_of(part);
		if (sum.cells > 0 && (at == 0 || strcmp(cells[at - 1].cell.part, part) != 0))
			printf("%-12s %3.0f cells: shed %.4f, later than two targets %.4f\n", part, sum.cells,
			       sum.shed / sum.cells, sum.late / sum.cells);
	}
}

/* Cells in which a dry run tells what enforcement does, of those in which anything is rejected, and of all. */
static void tell_dry(const struct grid_options *o, enum judge_grid grid)
{
	unsigned all = 0, met = 0, some = 0, some_met = 0;
	for (size_t at = 0; at < cell_count; at++) {
		const struct judge_dry *d = &outcomes[at].dry;
		if (!outcomes[at].ran || cells[at].grid != grid)
			continue;
		bool counts = d->enforced > 0 || d->would > 0;
		all++;
		met += d->met;
		some += counts;
		some_met += counts && d->met;
		if (!summary && (o->all || !d->met))
			printf("%-72s enforced %.4f would %.4f%s\n", cells[at].cell.name, d->enforced,
			       d->would, d->met ? "" : " MISSED");
	}
	if (all != 0)
		printf("%s %s %s dry met %u of %u rejecting %u of %u\n", judge_grid_names[grid], o->half,
		       o->law, met, all, some_met, some);
}

/* ---- options ---- */

static void usage(void)
{
	fprintf(stderr, "usage: grid_judge [--grid harm|mixed|change] [--law NAME] [--half tune|held|all] "
			"[--match TEXT] [--quick] [--all] [--list]\n"
			"       [--scale CONSTANT=FACTOR] [--constants] [--summary] [--json] [--jobs N] "
			"[--draw N] [--seed "
			"N] [--bars FILE] [--told S] [--early S] [--revenue] [--calm] [--why] [--dry]\n");
	exit(2);
}

static bool is_grid(const char *name)
{
	for (size_t i = 0; i < JUDGE_GRIDS; i++)
		if (strcmp(name, judge_grid_names[i]) == 0)
			return true;
	return false;
}

static bool parse_value(const char *name, const char *value)
{
	if (strcmp(name, "--scale") == 0)
		return scale_constant(value);
	if (strcmp(name, "--grid") == 0)
		return is_grid(only_grid = value);
	if (strcmp(name, "--told") == 0)
		told_s = atof(value);
	else if (strcmp(name, "--early") == 0)
		early_s = atof(value);
	else
		return false;
	return true;
}

static void list(const struct grid_options *o)
{
	for (size_t i = 0; constants_wanted && i < sizeof(constants) / sizeof(constants[0]); i++)
		printf("%s\n", constants[i].name);
	for (size_t at = 0; o->list && at < cell_count; at++)
		if (chosen(o, at))
			grid_list(o, at, cells[at].cell.name, cells[at].held);
}

int main(int argc, char **argv)
{
	static const struct grid_switch switches[] = {{"--summary", &summary},
						      {"--constants", &constants_wanted},
						      {"--revenue", &revenue},
						      {"--calm", &calm},
						      {"--why", &why},
						      {"--dry", &dry},
						      {NULL, NULL}};
	struct grid_options o = grid_options_for("adaptive-remote", BARS_VERSION);
	if (!grid_parse(argc, argv, &o, switches, parse_value))
		usage();
	law_tested = find_law(o.law);
	cell_count = judge_cells(cells, JUDGE_CELLS_MAX, o.draw, o.seed);
	outcomes = grid_shared(JUDGE_CELLS_MAX * sizeof(*outcomes));
	if (o.list || constants_wanted) {
		list(&o);
		return 0;
	}
	grid_bars_load(&o, take_bar);
	grid_run(&o, cell_count, run_cell);
	for (int grid = 0; dry && grid < JUDGE_GRIDS; grid++)
		tell_dry(&o, (enum judge_grid)grid);
	if (dry)
		return 0;
	if (early_s > 0)
		tell_early();
	else
		tell(&o);
	return 0;
}
