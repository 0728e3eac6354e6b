/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges what laws earn: grid_revenue [--law NAME] [--half tune|held|all] [--match TEXT] [--quick] [--all]
 * [--list] [--json] [--jobs N] [--draw N] [--seed N] [--bars FILE] [--untold] [--cold]
 * [--alone]. The rules are those of
 * revenue_rules.c. Constants are chosen on the half `tune` (the default), and reported on the half `held`.
 * Beside the law under test it runs the order by class without costs (adaptive-remote) and batch.
 *
 * Prints a line for each cell that is missed (--all: for each), then a summary by part. What is lost, of the
 * oracle, has three causes: the backend idled; answers were late; the work was done for others than those that
 * earn most (below 0: by chance, dear requests were small). What one earns that
 * is told everything does not depend on the law, and takes most of the time: --bars keeps it in a file
 * between runs, and --untold does without it. Then all cells count as possible. With --cold every cell begins
 * in its overload, with a table of costs that is empty (and --untold). --alone leaves out
 * class order and batch. The numbers do not depend on --jobs.
 */
#include <math.h>

#include "common.h"
#include "laws/grid_run.h"
#include "laws/revenue.h"

#define BARS_VERSION 1

struct outcome {
	struct revenue_result result;
	struct revenue_verdict verdict;
	double order, batch, told; /* earned by the others, of the oracle; batch < 0: there is none */
	bool has_bar, ran;
};

static struct revenue_cell cells[REVENUE_CELLS];
static struct outcome *outcomes; /* of all cells, shared by the processes */
static const weir_admission_law *law_tested, *law_batch;
static bool untold, cold, alone;

/* ---- bars: what is told, of the oracle ---- */

static void take_bar(const char *name, const char *rest)
{
	double told;
	for (size_t at = 0; at < REVENUE_CELLS; at++)
		if (strcmp(cells[at].cell.name, name) == 0 && sscanf(rest, "%lg", &told) == 1) {
			outcomes[at].told = told;
			outcomes[at].has_bar = true;
		}
}

static void measure_bar(const struct grid_options *o, size_t at, struct outcome *outcome)
{
	char text[32];
	outcome->told = untold ? 1 : revenue_told(&cells[at]) / outcome->result.oracle;
	snprintf(text, sizeof(text), "%.17g", outcome->told);
	if (!untold)
		grid_bars_keep(o, cells[at].cell.name, text);
}

/* ---- running ---- */

static double earned_by(size_t at, const weir_admission_law *law)
{
	struct revenue_result result;
	if (law == NULL)
		return -1;
	revenue_run(&cells[at], law, &result);
	return result.earned / result.oracle;
}

static void run_cell(const struct grid_options *o, size_t at)
{
	struct outcome *outcome = &outcomes[at];
	if (!grid_chosen(o, at, cells[at].cell.name, cells[at].held))
		return;
	revenue_run(&cells[at], law_tested, &outcome->result);
	revenue_decide(&cells[at], &outcome->result, &outcome->verdict);
	outcome->order = alone ? -1 : earned_by(at, &weir_law_adaptive_remote);
	outcome->batch = alone ? -1 : earned_by(at, law_batch);
	if (!outcome->has_bar)
		measure_bar(o, at, outcome);
	outcome->ran = true;
}

/* ---- telling ---- */

static bool counts(const struct outcome *o)
{
	return o->told >= REVENUE_LEAST;
}

static double late_of(const struct revenue_result *r)
{
	double late = 0;
	for (unsigned k = 0; k < REVENUE_CLASSES; k++)
		late += r->klass[k].late / r->oracle;
	return late;
}

static double idle_of(const struct revenue_result *r)
{
	return 1 - r->busy / r->oracle;
}

/* The rest of what is lost. */
static double misspent_of(const struct revenue_result *r)
{
	return (r->busy - r->earned) / r->oracle - late_of(r);
}

static void print_json(const struct grid_options *o, size_t at, const struct outcome *outcome)
{
	const struct revenue_result *r = &outcome->result;
	printf("{\"cell\":\"%s\",\"part\":\"%s\",\"half\":\"%s\",\"law\":\"%s\",\"spread\":%g,\"load\":%g,"
	       "\"workers\":%u,\"counts\":%s,\"met\":%s,\"failed\":\"%s\",\"earned\":%.4f,\"order\":%.4f,"
	       "\"batch\":%.4f,\"told\":%.4f,\"clairvoyant\":%.4f,\"p90\":%.3f,\"seconds\":%u,\"kept\":%u,"
	       "\"idle\":%.4f,\"late\":%.4f,\"misspent\":%.4f,\"classes\":[",
	       cells[at].cell.name, cells[at].cell.part, cells[at].held ? "held" : "tune", o->law,
	       cells[at].spread, cells[at].load, cells[at].cell.backend.workers,
	       counts(outcome) ? "true" : "false", outcome->verdict.met ? "true" : "false",
	       outcome->verdict.failed, outcome->verdict.of_oracle, outcome->order, outcome->batch,
	       outcome->told, r->clairvoyant / r->oracle, outcome->verdict.p90, r->seconds, r->kept,
	       idle_of(r), late_of(r), misspent_of(r));
	for (unsigned k = 0; k < REVENUE_CLASSES; k++)
		printf("%s{\"earned\":%.4f,\"late\":%.4f,\"turned_away\":%.4f,\"p90\":%.3f}",
		       k != 0 ? "," : "", r->klass[k].earned / r->oracle, r->klass[k].late / r->oracle,
		       r->klass[k].turned_away / r->oracle, r->klass[k].p90);
	printf("]}\n");
}

static void print_cell(size_t at, const struct outcome *o)
{
	const struct revenue_result *r = &o->result;
	printf("%-86s %-18s earned %.3f idle %.3f late %.3f misspent %.3f told %.3f order %.3f batch %.3f "
	       "p90 %.2f "
	       "kept %u/%u\n",
	       cells[at].cell.name,
	       o->verdict.met ? "met"
	       : counts(o)    ? o->verdict.failed
			      : "cannot",
	       o->verdict.of_oracle, idle_of(r), late_of(r), misspent_of(r), o->told, o->order, o->batch,
	       o->verdict.p90, r->kept, r->seconds);
}

/* A part's counts. */
struct count {
	unsigned cells, counted, met, met_counted, earned, p90, guaranteed;
	unsigned seconds, kept;
	double sum, order_sum, batch_sum, clairvoyant_sum, told_sum;
	double idle_sum, late_sum, misspent_sum;
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
	c->idle_sum += idle_of(&o->result);
	c->late_sum += late_of(&o->result);
	c->misspent_sum += misspent_of(&o->result);
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
	       "earned %.4f lost idle %.4f late %.4f misspent %.4f; told %.3f clairvoyant %.2f; seconds kept "
	       "%u of %u; over class order %.2f (%u of "
	       "%u)",
	       what, c->met_counted, c->counted, c->met, c->cells, c->earned, c->p90, c->guaranteed,
	       c->sum / c->cells, c->idle_sum / c->cells, c->late_sum / c->cells, c->misspent_sum / c->cells,
	       c->told_sum / c->cells, c->clairvoyant_sum / c->cells, c->kept, c->seconds,
	       c->sum / c->order_sum, c->order_met, c->order_possible);
	if (c->batch_sum > 0)
		printf("; over batch %.2f (%u of %u)", c->sum / c->batch_sum, c->batch_met,
		       c->batch_possible);
	printf("\n");
}

/* Those of a relation, a load, a spread and at least so many workers; -1 or 0: any. */
static void print_part(const char *what, int relation, double load, double spread, bool differ)
{
	struct count count = {0};
	for (size_t at = 0; at < REVENUE_CELLS; at++)
		if (outcomes[at].ran && (relation < 0 || (int)cells[at].relation == relation) &&
		    (load == 0 || cells[at].load == load) && (spread == 0 || cells[at].spread == spread) &&
		    (!differ || cells[at].spread >= 10))
			add_to(&count, &outcomes[at]);
	print_count(what, &count);
}

static void tell(const struct grid_options *o)
{
	for (size_t at = 0; at < REVENUE_CELLS; at++) {
		const struct outcome *outcome = &outcomes[at];
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
		print_part(revenue_relation_names[relation], relation, 0, 0, false);
	print_part("load 2", -1, 2, 0, false);
	print_part("load 5", -1, 5, 0, false);
	print_part("load 10", -1, 10, 0, false);
	print_part("costs alike", -1, 0, 1, false);
	print_part("costs differ", -1, 0, 0, true);
	print_part("all", -1, 0, 0, false);
}

/* ---- options ---- */

static void usage(void)
{
	fprintf(stderr,
		"usage: grid_revenue [--law NAME] [--half tune|held|all] [--match TEXT] [--quick] [--all] "
		"[--list] [--json]\n"
		"       [--jobs N] [--draw N] [--seed N] [--bars FILE] [--untold] [--cold] [--alone]\n");
	exit(2);
}

static void find_laws(const char *name)
{
	law_tested = weir_law_find(name);
	law_batch = weir_law_find("batch");
	if (law_tested == NULL) {
		fprintf(stderr, "grid_revenue: there is no law '%s'\n", name);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	static const struct grid_switch switches[] = {
		{"--untold", &untold}, {"--cold", &cold}, {"--alone", &alone}, {NULL, NULL}};
	struct grid_options o = grid_options_for("value", BARS_VERSION);
	if (!grid_parse(argc, argv, &o, switches, NULL))
		usage();
	find_laws(o.law);
	outcomes = grid_shared(REVENUE_CELLS * sizeof(*outcomes));
	revenue_cells(cells, o.draw, o.seed);
	for (size_t at = 0; cold && at < REVENUE_CELLS; at++)
		revenue_begin_cold(&cells[at]);
	untold |= cold;
	for (size_t at = 0; o.list && at < REVENUE_CELLS; at++)
		grid_list(&o, at, cells[at].cell.name, cells[at].held);
	if (o.list)
		return 0;
	grid_bars_load(&o, take_bar);
	grid_run(&o, REVENUE_CELLS, run_cell);
	tell(&o);
	return 0;
}
