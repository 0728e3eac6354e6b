/* SPDX-License-Identifier: Apache-2.0 */
/* The table for people. Every line is at most 100 columns wide. */
#include "sim/report.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "keys/options.h"
#include "show/number.h"

#define CELL    WEIR_NUMBER
#define NOTICES 3

/* ---- single values ---- */

double weir_case_mean(const weir_case *of, const weir_sim_metric *metric)
{
	double sum = 0;
	for (unsigned i = 0; i < of->runs; i++)
		sum += metric->get(&of->run[i]->judgement);
	return sum / of->runs;
}

double weir_case_worst(const weir_case *of, const weir_sim_metric *metric)
{
	double worst = metric->get(&of->run[0]->judgement);
	for (unsigned i = 1; i < of->runs; i++) {
		double value = metric->get(&of->run[i]->judgement);
		worst = metric->worse > 0 ? fmax(worst, value) : fmin(worst, value);
	}
	return worst;
}

static const char *metric_text(const weir_sim_metric *metric, double value, char *text)
{
	switch (metric->unit) {
	case WEIR_METRIC_MS:
		return weir_number_time(value, text);
	case WEIR_METRIC_SHARE:
		return weir_number_share(value, text);
	case WEIR_METRIC_PER_S:
		return weir_number_rate(value, text);
	case WEIR_METRIC_RATIO:
		snprintf(text, CELL, value < 10 ? "%.3f" : "%.1f", value);
		return text;
	default:
		snprintf(text, CELL, "%.0f", value);
		return text;
	}
}

/* ---- one case ---- */

static const char *quantile_text(const weir_hist *hist, double q, char *text)
{
	return weir_number_time((double)weir_hist_quantile(hist, q) / 1e6, text);
}

/* What was shed; of a dry run, with a mark, what would have been. */
static const char *shed_text(double shed, double would, char text[CELL])
{
	text[0] = '~';
	weir_number_share(would > 0 ? would : shed, text + (would > 0));
	return text;
}

static const char *shed_of(const weir_totals *tally, char text[CELL])
{
	double offered = tally->offered > 0 ? (double)tally->offered : 1;
	return shed_text((double)(tally->shed + tally->dropped) / offered,
			 fmin((double)tally->spared / offered, 1), text);
}

static void print_tally(FILE *to, const char *name, const weir_totals *tally, double seconds,
			uint64_t target_ns)
{
	char a[CELL], b[CELL], c[CELL], d[CELL], e[CELL], f[CELL], g[CELL], h[CELL], i[CELL];
	fprintf(to, "  %-16.16s %9s %7s %9s %9s %9s %7s %7s %7s", name,
		weir_number_rate((double)tally->offered / seconds, a), shed_of(tally, b),
		weir_number_rate((double)tally->completed / seconds, c),
		weir_number_rate((double)tally->good / seconds, i),
		weir_number_rate((double)tally->useful / seconds, d), quantile_text(&tally->response, 0.5, e),
		quantile_text(&tally->response, 0.9, f), quantile_text(&tally->response, 0.99, g));
	fprintf(to, " %7s\n", target_ns != 0 ? weir_number_time((double)target_ns / 1e6, h) : "-");
}

static void print_tallies(FILE *to, const weir_run *run)
{
	const weir_record *record = run->record;
	double seconds = run->judgement.seconds;
	unsigned used = 0;
	char name[CELL];
	fprintf(to, "  %-16s %9s %7s %9s %9s %9s %7s %7s %7s %7s\n", "", "offered/s", "shed", "done/s",
		"good/s", "useful/s", "p50", "p90", "p99", "target");
	print_tally(to, "all", &run->judgement.total, seconds, run->target_ns[0]);
	for (unsigned k = 0; record->options.classes > 1 && k < record->options.classes; k++) {
		snprintf(name, sizeof name, "class %u", k);
		if (record->klass[k].offered > 0)
			print_tally(to, name, &record->klass[k], seconds, run->target_ns[k]);
	}
	for (unsigned t = 0; t < record->options.types; t++)
		used += record->type[t].offered > 0;
	for (unsigned t = 0; used > 1 && t < record->options.types; t++) {
		const weir_scenario_type *type = &run->scenario->type[t];
		unsigned klass = type->klass > 0 ? (unsigned)type->klass : 0;
		if (record->type[t].offered > 0)
			print_tally(to, type->head.name, &record->type[t], seconds,
				    weir_scenario_target_ns(&run->scenario->stage[type->stage_index], klass));
	}
}

static void print_earned(FILE *to, const char *name, const weir_totals *tally, double seconds)
{
	char a[CELL], b[CELL], c[CELL];
	fprintf(to, "  %-16.16s %10s %10s %13s\n", name, weir_number_rate(tally->earned / seconds, a),
		weir_number_rate(tally->late / seconds, b),
		weir_number_rate(tally->turned_away / seconds, c));
}

/* What was earned by answers within the target, and what others would have earned. */
static void print_revenue(FILE *to, const weir_run *run)
{
	const weir_record *record = run->record;
	const weir_totals *total = &run->judgement.total;
	if (total->earned + total->late + total->turned_away == 0)
		return;
	fprintf(to, "\n  %-16s %10s %10s %13s\n", "revenue", "earned/s", "late/s", "turned away/s");
	print_earned(to, "all", total, run->judgement.seconds);
	for (unsigned k = 0; record->options.classes > 1 && k < record->options.classes; k++) {
		char name[CELL];
		snprintf(name, sizeof name, "class %u", k);
		if (record->klass[k].offered > 0)
			print_earned(to, name, &record->klass[k], run->judgement.seconds);
	}
}

static const char *passed_text(uint64_t ns, char *text)
{
	return weir_number_time(ns == WEIR_NEVER ? INFINITY : (double)ns / 1e6, text);
}

static void print_phases(FILE *to, const weir_run *run)
{
	const weir_judgement *j = &run->judgement;
	char a[CELL], b[CELL], c[CELL], d[CELL], e[CELL], f[CELL], head[CELL];
	snprintf(head, sizeof head, "p%g/target", 100 * run->quantile);
	fprintf(to, "\n  %6s %6s %9s %7s %9s %7s %10s %7s %6s %7s %7s %5s\n", "from", "to", "offered/s",
		"shed", "useful/s", "work", head, "settle", "peak", "clear", "shed sd", "turns");
	for (unsigned i = 0; i < j->phases; i++) {
		const weir_phase_judgement *p = &j->phase[i];
		fprintf(to, "  %6s %6s %9s %7s %9s %7s", weir_number_time((double)p->from_ns / 1e6, a),
			weir_number_time((double)p->to_ns / 1e6, b), weir_number_rate(p->offered_per_s, c),
			weir_number_share(p->shed, d), weir_number_rate(p->useful_per_s, e),
			weir_number_share(p->work, f));
		fprintf(to, " %10.3f %7s %6.2f %7s %7.3f %5u\n", p->ratio, passed_text(p->settle_ns, a),
			p->overshoot, passed_text(p->clear_ns, b), p->shed_sd, p->turns);
	}
}

static void print_fairness(FILE *to, const weir_judgement *j)
{
	const struct {
		const char *of;
		double value;
	} all[] = {{"classes", j->class_fairness}, {"types", j->type_fairness}, {"users", j->user_fairness}};
	const char *before = "\n  fairness   ";
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (all[i].value == 0)
			continue;
		fprintf(to, "%s%s %.3f", before, all[i].of, all[i].value);
		before = ", ";
	}
}

static bool retried(const weir_scenario *scenario)
{
	for (unsigned i = 0; i < scenario->loads; i++)
		if (scenario->load[i].retries > 0)
			return true;
	return false;
}

static void print_work(FILE *to, const weir_run *run)
{
	const weir_judgement *j = &run->judgement;
	char a[CELL], b[CELL], c[CELL];
	fprintf(to, "\n  work       completed %s of what '%s' can do; for nothing %s of all work\n",
		weir_number_share(j->completed_work, a), run->record->place[j->busiest].name,
		weir_number_share(j->wasted_work, b));
	fprintf(to, "  late       %s of the completed came later than twice the target",
		weir_number_share(j->too_late, c));
	if (j->total.given_up > 0 || retried(run->scenario))
		fprintf(to, "; %llu given up, %llu lost", (unsigned long long)j->total.given_up,
			(unsigned long long)run->lost);
	print_fairness(to, j);
	fputc('\n', to);
	for (unsigned i = 0; i < run->notices && i < NOTICES; i++) {
		fprintf(to, "  notice     %s: ", weir_number_time((double)run->notice[i].at_ns / 1e6, a));
		weir_print_folded(to, run->notice[i].text, 13 + (unsigned)strlen(a) + 2, 13);
	}
	if (run->notices > NOTICES)
		fprintf(to, "  notice     and %u more\n", run->notices - NOTICES);
}

static void print_head(FILE *to, const weir_case *of, const char *label)
{
	const weir_run *run = of->run[0];
	const weir_scenario *scenario = run->scenario;
	char a[CELL], b[CELL];
	fprintf(to, "%.100s\n", scenario->title[0] != '\0' ? scenario->title : scenario->path);
	fprintf(to, "  %s, %s simulated, measured from %s", label,
		weir_number_time((double)scenario->duration_ns / 1e6, a),
		weir_number_time((double)scenario->warmup_ns / 1e6, b));
	if (of->runs > 1)
		fprintf(to, ", seeds %llu to %llu", (unsigned long long)run->seed,
			(unsigned long long)of->run[of->runs - 1]->seed);
	else
		fprintf(to, ", seed %llu", (unsigned long long)run->seed);
	fputs("\n\n", to);
}

/* ---- several cases ---- */

static bool in_comparison(const weir_sim_metric *metric)
{
	static const char *const left_out[] = {"offered_per_s", "would_shed",       "completed_per_s",
					       "p50_ms",        "ratio_of_offered", "too_late"};
	for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
		if (strcmp(metric->name, left_out[i]) == 0)
			return false;
	return true;
}

/* Eleven columns of seven and one of six: 83, after a label of 17. */
static int column_width(const weir_sim_metric *metric)
{
	return metric->unit == WEIR_METRIC_COUNT ? 6 : 7;
}

static double would_of(const weir_case *of, bool worst)
{
	const weir_sim_metric *metric = weir_metrics;
	while (strcmp(metric->name, "would_shed") != 0)
		metric++;
	return worst ? weir_case_worst(of, metric) : weir_case_mean(of, metric);
}

static void print_row(FILE *to, const weir_case *of, const char *label, bool worst)
{
	char text[CELL];
	fprintf(to, "  %-15.15s", label);
	for (const weir_sim_metric *metric = weir_metrics; metric->name != NULL; metric++) {
		double value = worst ? weir_case_worst(of, metric) : weir_case_mean(of, metric);
		if (strcmp(metric->name, "shed") == 0)
			fprintf(to, "%*s", column_width(metric), shed_text(value, would_of(of, worst), text));
		else if (in_comparison(metric))
			fprintf(to, "%*s", column_width(metric), metric_text(metric, value, text));
	}
	fputc('\n', to);
}

/* The means of what was earned, late and turned away, where anything has a price. */
static void compare_revenue(FILE *to, const weir_case *cases, unsigned count)
{
	bool any = false;
	for (unsigned i = 0; i < count; i++) {
		weir_totals mean = {0};
		for (unsigned r = 0; r < cases[i].runs; r++) {
			const weir_judgement *j = &cases[i].run[r]->judgement;
			mean.earned += j->total.earned / j->seconds / cases[i].runs;
			mean.late += j->total.late / j->seconds / cases[i].runs;
			mean.turned_away += j->total.turned_away / j->seconds / cases[i].runs;
		}
		if (mean.earned + mean.late + mean.turned_away == 0)
			continue;
		if (!any)
			fprintf(to, "\n  %-16s %10s %10s %13s\n", "revenue", "earned/s", "late/s",
				"turned away/s");
		any = true;
		print_earned(to, cases[i].label, &mean, 1);
	}
}

static void print_comparison(FILE *to, const weir_case *cases, unsigned count)
{
	fprintf(to, "  %-15s", "");
	for (const weir_sim_metric *metric = weir_metrics; metric->name != NULL; metric++)
		if (in_comparison(metric))
			fprintf(to, "%*s", column_width(metric), metric->title);
	fputc('\n', to);
	for (unsigned i = 0; i < count; i++) {
		print_row(to, &cases[i], cases[i].label, false);
		if (cases[i].runs > 1)
			print_row(to, &cases[i], "  worst", true);
	}
}

static void print_dry(FILE *to, const weir_case *cases, unsigned count)
{
	bool any = false;
	for (unsigned i = 0; i < count; i++)
		for (unsigned r = 0; r < cases[i].runs; r++)
			any |= cases[i].run[r]->judgement.would > 0;
	if (any)
		fputs("\n  ~ would have been shed; a dry run let them in\n", to);
}

void weir_report_table(FILE *to, const weir_case *cases, unsigned count)
{
	if (count == 1 && cases[0].runs == 1) {
		print_head(to, &cases[0], cases[0].label);
		print_tallies(to, cases[0].run[0]);
		print_revenue(to, cases[0].run[0]);
		print_phases(to, cases[0].run[0]);
		print_work(to, cases[0].run[0]);
		print_dry(to, cases, count);
		return;
	}
	print_head(to, &cases[0], count > 1 ? "compared" : cases[0].label);
	print_comparison(to, cases, count);
	compare_revenue(to, cases, count);
	print_dry(to, cases, count);
}

/* ---- laws ---- */

static const char *bound_text(const weir_key *param, double bound, char *text)
{
	if (param->type == WEIR_KEY_TIME || param->type == WEIR_KEY_PERCENTILE)
		weir_key_bound_text(param, bound, NULL, text, 32);
	else
		snprintf(text, 32, bound < 1e9 || bound > UINT32_MAX ? "%g" : "%.2g", bound);
	return text;
}

/* " (p90)": the default, from the law's; nothing if the law derives it when it is not given. */
static void default_text(const weir_key *param, const char *params, char *text, size_t size)
{
	char usual[32];
	uint64_t field;
	weir_key_print(param, params + param->offset, usual, sizeof usual);
	bool given = weir_key_read(param, usual, &field) == 0;
	if (given && param->type == WEIR_KEY_TIME)
		weir_text_print_time(usual, sizeof usual, field, NULL);
	if ((param->flags & WEIR_KEY_REQUIRED) != 0)
		snprintf(text, size, " (required)");
	else if (given)
		snprintf(text, size, " (%s)", usual);
}

/* params: the law's defaults. */
static void print_param(FILE *to, const weir_key *param, const char *params)
{
	char name[CELL + 8], low[32], high[32], range[72] = "", usual[40] = "", help[300];
	snprintf(name, sizeof name, "%s%s", param->name,
		 (param->flags & WEIR_KEY_PER_CLASS) != 0 ? "[class]" : "");
	if (param->type != WEIR_KEY_SWITCH)
		snprintf(range, sizeof range, "%s to %s", bound_text(param, param->min, low),
			 bound_text(param, param->max, high));
	default_text(param, params, usual, sizeof usual);
	snprintf(help, sizeof help, "%s%s", param->help, usual);
	int at = fprintf(to, "    %-17s %-10s %-16s ", name, weir_key_type_name(param), range);
	weir_print_folded(to, help, at > 0 ? (unsigned)at : 0, 50);
}

void weir_report_laws(FILE *to)
{
	const weir_admission_law *law;
	fputs("none\n    no law: only the bounds of the queue\n", to);
	for (size_t i = 0; (law = weir_law_at(i)) != NULL; i++) {
		fprintf(to, "%s\n    %s\n", law->name, law->brief != NULL ? law->brief : "");
		void *usual = weir_mem_zalloc(law->params_bytes + 1);
		if (usual != NULL)
			weir_law_defaults(law, usual);
		for (const weir_key *param = law->params;
		     usual != NULL && param != NULL && param->name != NULL; param++)
			print_param(to, param, usual);
		weir_mem_free(usual);
	}
}
