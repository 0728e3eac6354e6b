/* SPDX-License-Identifier: Apache-2.0 */
/* Reports for programs: JSON with everything, CSV with the windows. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "sim/report.h"

/* ---- JSON ---- */

/* NaN and infinity ("never") become null. */
static json_t *real(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static void put(json_t *object, const char *name, double value)
{
	json_object_set_new(object, name, real(value));
}

static json_t *metrics_of(const weir_case *of, double (*get)(const weir_case *, const weir_sim_metric *))
{
	json_t *object = json_object();
	for (const weir_sim_metric *metric = weir_metrics; metric->name != NULL; metric++)
		put(object, metric->name, get(of, metric));
	return object;
}

static json_t *tally_of(const char *name, const weir_totals *tally)
{
	return json_pack(
		"{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "name",
		name, "offered", (json_int_t)tally->offered, "shed", (json_int_t)tally->shed, "dropped",
		(json_int_t)tally->dropped, "given_up", (json_int_t)tally->given_up, "completed",
		(json_int_t)tally->completed, "good", (json_int_t)tally->good, "useful",
		(json_int_t)tally->useful, "useful_of_offered", (json_int_t)tally->useful_of_offered,
		"mean_ms", tally->completed > 0 ? tally->sum_ns / (double)tally->completed / 1e6 : 0.0,
		"p50_ms", (double)weir_hist_quantile(&tally->response, 0.5) / 1e6, "p90_ms",
		(double)weir_hist_quantile(&tally->response, 0.9) / 1e6, "p99_ms",
		(double)weir_hist_quantile(&tally->response, 0.99) / 1e6, "revenue_earned", tally->earned,
		"revenue_late", tally->late, "revenue_turned_away", tally->turned_away);
}

static json_t *tallies_of(const weir_run *run, bool classes)
{
	json_t *array = json_array();
	unsigned count = classes ? run->record->options.classes : run->record->options.types;
	for (unsigned i = 0; i < count; i++) {
		const weir_totals *tally = classes ? &run->record->klass[i] : &run->record->type[i];
		char name[16];
		snprintf(name, sizeof name, "%u", i);
		if (tally->offered > 0)
			json_array_append_new(
				array, tally_of(classes ? name : run->scenario->type[i].head.name, tally));
	}
	return array;
}

static json_t *places_of(const weir_record *record)
{
	json_t *array = json_array();
	for (unsigned i = 0; i < record->options.places; i++) {
		const weir_place *place = &record->place[i];
		double whole = place->capacity_ns > 0 ? place->capacity_ns : 1;
		json_t *one = json_pack("{s:s}", "name", place->name);
		put(one, "well", place->used_ns[WEIR_USED_WELL] / whole);
		put(one, "late", place->used_ns[WEIR_USED_LATE] / whole);
		put(one, "for_nothing", place->used_ns[WEIR_USED_FOR_NOTHING] / whole);
		json_array_append_new(array, one);
	}
	return array;
}

static json_t *phase_of(const weir_phase_judgement *p)
{
	double settle = p->settle_ns == WEIR_NEVER ? INFINITY : (double)p->settle_ns / 1e6;
	double clear = p->clear_ns == WEIR_NEVER ? INFINITY : (double)p->clear_ns / 1e6;
	return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:f, s:f, s:i, s:i}",
			 "from_s", (double)p->from_ns / 1e9, "to_s", (double)p->to_ns / 1e9, "offered_per_s",
			 p->offered_per_s, "completed_per_s", p->completed_per_s, "good_per_s", p->good_per_s,
			 "useful_per_s", p->useful_per_s, "shed", p->shed, "ratio", p->ratio, "overshoot",
			 p->overshoot, "settle_ms", real(settle), "clear_ms", real(clear), "shed_sd",
			 p->shed_sd, "work", p->work, "turns", (int)p->turns, "blocks", (int)p->blocks);
}

static json_t *phases_of(const weir_judgement *j)
{
	json_t *array = json_array();
	for (unsigned i = 0; i < j->phases; i++)
		json_array_append_new(array, phase_of(&j->phase[i]));
	return array;
}

static json_t *notices_of(const weir_run *run)
{
	json_t *array = json_array();
	for (unsigned i = 0; i < run->notices; i++)
		json_array_append_new(array,
				      json_pack("{s:f, s:s}", "t_s", (double)run->notice[i].at_ns / 1e9,
						"text", run->notice[i].text));
	return array;
}

static json_t *run_of(const weir_case *of, unsigned i)
{
	weir_run *run = of->run[i];
	const weir_judgement *j = &run->judgement;
	weir_case alone = {.label = of->label, .run = &run, .runs = 1};
	return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:f, s:f, s:f}, s:I, s:I, s:I, s:o}",
			 "label", of->label, "seed", (json_int_t)run->seed, "metrics",
			 metrics_of(&alone, weir_case_mean), "all", tally_of("all", &j->total), "classes",
			 tallies_of(run, true), "types", tallies_of(run, false), "places",
			 places_of(run->record), "phases", phases_of(j), "fairness", "classes",
			 j->class_fairness, "types", j->type_fairness, "users", j->user_fairness, "lost",
			 (json_int_t)run->lost, "inside_at_start", (json_int_t)run->record->inside_at_start,
			 "inside_at_end", (json_int_t)run->record->inside, "notices", notices_of(run));
}

int weir_report_json(FILE *to, const weir_case *cases, unsigned count)
{
	const weir_run *first = cases[0].run[0];
	json_t *runs = json_array(), *summary = json_array();
	for (unsigned i = 0; i < count; i++) {
		for (unsigned j = 0; j < cases[i].runs; j++)
			json_array_append_new(runs, run_of(&cases[i], j));
		json_array_append_new(summary, json_pack("{s:s, s:i, s:o, s:o}", "label", cases[i].label,
							 "seeds", (int)cases[i].runs, "mean",
							 metrics_of(&cases[i], weir_case_mean), "worst",
							 metrics_of(&cases[i], weir_case_worst)));
	}
	json_t *all = json_pack(
		"{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "scenario", first->scenario->path, "title",
		first->scenario->title, "duration_s", (double)first->scenario->duration_ns / 1e9, "warmup_s",
		(double)first->scenario->warmup_ns / 1e9, "window_s",
		(double)first->scenario->window_ns / 1e9, "quantile", first->quantile, "target_ms",
		(double)first->target_ns[0] / 1e6, "summary", summary, "runs", runs);
	/* Apart from memory, only a title or a path that is not UTF-8 can be wrong. */
	if (all == NULL)
		return weir_error_set(-EINVAL,
				      "the report cannot be written as JSON: is the scenario's title UTF-8?");
	int failed = json_dumpf(all, to, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) < 0 ? -EIO : 0;
	fputc('\n', to);
	json_decref(all);
	return failed;
}

/* ---- CSV ---- */

static void csv_head(FILE *to, const weir_run *run, bool traces)
{
	const weir_record *record = run->record;
	fputs("label,seed,t_s,offered_per_s,admitted_per_s,completed_per_s,useful_per_s,shed_fraction,p50_ms,"
	      "p90_ms,p99_ms",
	      to);
	for (unsigned k = 0; record->options.classes > 1 && k < record->options.classes; k++)
		fprintf(to,
			",class%u_offered_per_s,class%u_shed_fraction,class%u_completed_per_s,class%u_p50_ms,"
			"class%u_p90_ms,"
			"class%u_p99_ms",
			k, k, k, k, k, k);
	for (unsigned i = 0; traces && i < record->options.traces; i++)
		for (unsigned v = 0; v < WEIR_TRACE_VALUES; v++)
			if (record->trace[i].name[v] != NULL)
				fprintf(to, ",%s[%u].%s", record->trace[i].stage, record->trace[i].klass,
					record->trace[i].name[v]);
	fputc('\n', to);
}

static double shed_fraction(const weir_sim_window *window)
{
	double turned_away = (double)window->shed + window->dropped;
	return window->offered > 0 ? fmin(turned_away / window->offered, 1) : 0;
}

/* The last window may be shorter than the others. */
static double window_seconds(const weir_run *run, unsigned window)
{
	uint64_t length = run->scenario->window_ns, from = window * length, end = run->scenario->duration_ns;
	return (double)(from + length <= end ? length : end - from) / 1e9;
}

static void csv_row(FILE *to, const weir_run *run, unsigned at, bool traces)
{
	const weir_record *record = run->record;
	const weir_sim_window *all = weir_record_at(record, at, WEIR_CLASSES);
	double s = window_seconds(run, at);
	fprintf(to, ",%.6g,%.6g,%.6g,%.6g,%.6g,%.4g,%.5g,%.5g,%.5g",
		(double)at * (double)run->scenario->window_ns / 1e9 + s, all->offered / s,
		(all->offered - all->shed) / s, all->completed / s, all->useful / s, shed_fraction(all),
		all->p50_ms, all->p90_ms, all->p99_ms);
	for (unsigned k = 0; record->options.classes > 1 && k < record->options.classes; k++) {
		const weir_sim_window *one = weir_record_at(record, at, k);
		fprintf(to, ",%.6g,%.4g,%.6g,%.5g,%.5g,%.5g", one->offered / s, shed_fraction(one),
			one->completed / s, one->p50_ms, one->p90_ms, one->p99_ms);
	}
	for (unsigned i = 0; traces && i < record->options.traces; i++)
		for (unsigned v = 0; v < WEIR_TRACE_VALUES; v++)
			if (record->trace[i].name[v] != NULL)
				fprintf(to, ",%.6g", record->trace[i].value[at][v]);
	fputc('\n', to);
}

void weir_report_csv(FILE *to, const weir_case *cases, unsigned count)
{
	bool traces = count == 1 && cases[0].runs == 1;
	csv_head(to, cases[0].run[0], traces);
	for (unsigned i = 0; i < count; i++)
		for (unsigned j = 0; j < cases[i].runs; j++)
			for (unsigned at = 0; at < cases[i].run[j]->record->windows; at++) {
				fprintf(to, "%s,%llu", cases[i].label,
					(unsigned long long)cases[i].run[j]->seed);
				csv_row(to, cases[i].run[j], at, traces);
			}
}
