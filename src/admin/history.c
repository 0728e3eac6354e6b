/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/history.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

#define TEN WEIR_HISTORY_TEN

/* In the order of weir_history_point. Times are of the last ten seconds already, so a ten takes its last. */
static const struct {
	const char *name;
	bool summed;
} values[WEIR_HISTORY_VALUES] = {{"p50_ms", false},    {"p90_ms", false},  {"p99_ms", false},
				 {"target_ms", false}, {"admitted", true}, {"shed", true},
				 {"dropped", true},    {"spared", true},   {"failed", true}};

/* ---- gathering ---- */

static weir_history_stage *named(const weir_history *history, const char *name)
{
	for (unsigned i = 0; i < history->stages; i++)
		if (strncmp(history->stage[i]->name, name, sizeof(history->stage[i]->name) - 1) == 0)
			return history->stage[i];
	return NULL;
}

static void clear(weir_history_point *points, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (unsigned v = 0; v < WEIR_HISTORY_VALUES; v++)
			points[i].value[v] = NAN;
}

void weir_history_clear(weir_history_stage *stage)
{
	clear(stage->second, WEIR_HISTORY_SECONDS);
	clear(stage->ten, WEIR_HISTORY_TENS);
}

static weir_history_stage *add_stage(weir_history *history, const char *name)
{
	weir_history_stage *stage =
		history->stages < WEIR_HISTORY_STAGES ? weir_mem_zalloc(sizeof(*stage)) : NULL;
	if (stage == NULL)
		return NULL;
	snprintf(stage->name, sizeof(stage->name), "%s", name);
	weir_history_clear(stage);
	history->stage[history->stages++] = stage;
	return stage;
}

/* Of the first class that has one, as on the page. */
static double target_ms(const weir_stage_view *view)
{
	for (unsigned klass = 0; klass < WEIR_CLASSES; klass++) {
		weir_report report = {0};
		if (view->klass[klass].stats.offered != 0 && weir_stage_report(view->stage, klass, &report) &&
		    report.target_ns != 0)
			return (double)report.target_ns / 1e6;
	}
	return NAN;
}

static weir_history_point point_of(const weir_stage_view *view)
{
	const weir_recent_times *recent = &view->all.recent;
	const weir_rates *rate = &view->all.rate;
	bool some = recent->count > 0;
	const double all[WEIR_HISTORY_VALUES] = {some ? (double)recent->p50_ns / 1e6 : NAN,
						 some ? (double)recent->p90_ns / 1e6 : NAN,
						 some ? (double)recent->p99_ns / 1e6 : NAN,
						 target_ms(view),
						 rate->admitted,
						 rate->shed,
						 rate->dropped,
						 rate->spared,
						 rate->failed};
	weir_history_point point;
	for (unsigned v = 0; v < WEIR_HISTORY_VALUES; v++)
		point.value[v] = (float)all[v];
	return point;
}

static void add_point(weir_history *history, weir_history_stage *stage, const weir_history_point *point)
{
	stage->fresh = true;
	stage->gathered++;
	stage->second[history->seconds % WEIR_HISTORY_SECONDS] = *point;
	for (unsigned v = 0; v < WEIR_HISTORY_VALUES; v++)
		stage->sum.value[v] =
			values[v].summed ? stage->sum.value[v] + point->value[v] : point->value[v];
}

static void end_ten(weir_history_stage *stage, weir_history_point *ten)
{
	clear(ten, 1);
	for (unsigned v = 0; v < WEIR_HISTORY_VALUES && stage->gathered > 0; v++)
		ten->value[v] =
			values[v].summed ? stage->sum.value[v] / (float)stage->gathered : stage->sum.value[v];
	stage->sum = (weir_history_point){0};
	stage->gathered = 0;
}

/* A stage that is not there any more has gaps. */
static void end_second(weir_history *history, uint64_t now_ns)
{
	weir_history_point *gap;
	for (unsigned i = 0; i < history->stages; i++) {
		gap = &history->stage[i]->second[history->seconds % WEIR_HISTORY_SECONDS];
		if (!history->stage[i]->fresh)
			clear(gap, 1);
		history->stage[i]->fresh = false;
	}
	history->second_ns[history->seconds++ % WEIR_HISTORY_SECONDS] = now_ns;
	if (history->seconds % TEN != 0)
		return;
	for (unsigned i = 0; i < history->stages; i++)
		end_ten(history->stage[i], &history->stage[i]->ten[history->tens % WEIR_HISTORY_TENS]);
	history->ten_ns[history->tens++ % WEIR_HISTORY_TENS] = now_ns;
}

void weir_history_take(weir_history *history, const weir_snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->stage_count; i++) {
		const weir_stage_view *view = &snapshot->stages[i];
		if (view->stage == NULL || view->all.stats.offered == 0)
			continue;
		weir_history_stage *stage = named(history, weir_stage_name(view->stage));
		if (stage == NULL)
			stage = add_stage(history, weir_stage_name(view->stage));
		const weir_history_point point = point_of(view);
		if (stage != NULL && !stage->fresh)
			add_point(history, stage, &point);
	}
	end_second(history, snapshot->taken_ns);
}

void weir_history_fini(weir_history *history)
{
	for (unsigned i = 0; i < history->stages; i++)
		weir_mem_free(history->stage[i]);
	*history = (weir_history){0};
}

/* ---- printing ---- */

/* The first second that is kept. */
static uint64_t first_second(const weir_history *history)
{
	return history->seconds > WEIR_HISTORY_SECONDS ? history->seconds - WEIR_HISTORY_SECONDS : 0;
}

/* Tens that end before the first second that is kept; those after it would be there twice. */
static uint64_t first_ten(const weir_history *history)
{
	return history->tens > WEIR_HISTORY_TENS ? history->tens - WEIR_HISTORY_TENS : 0;
}

static uint64_t tens_end(const weir_history *history)
{
	return first_second(history) / TEN;
}

static void print_value(double value, const char *separator, FILE *to)
{
	if (isnan(value))
		fprintf(to, "%snull", separator);
	else
		fprintf(to, "%s%.4g", separator, value);
}

static void print_series(const weir_history *history, const weir_history_stage *stage, unsigned v, FILE *to)
{
	const char *separator = "";
	for (uint64_t i = first_ten(history); i < tens_end(history); i++, separator = ",")
		print_value(stage->ten[i % WEIR_HISTORY_TENS].value[v], separator, to);
	for (uint64_t i = first_second(history); i < history->seconds; i++, separator = ",")
		print_value(stage->second[i % WEIR_HISTORY_SECONDS].value[v], separator, to);
}

static void print_stage(const weir_history *history, const weir_history_stage *stage, FILE *to)
{
	json_t *name = json_string(stage->name);
	fputs("{\"name\":", to);
	if (name == NULL || json_dumpf(name, to, JSON_ENCODE_ANY) != 0)
		fputs("null", to);
	json_decref(name);
	for (unsigned v = 0; v < WEIR_HISTORY_VALUES; v++) {
		fprintf(to, ",\"%s\":[", values[v].name);
		print_series(history, stage, v, to);
		fputc(']', to);
	}
	fputc('}', to);
}

static void print_time(uint64_t at_ns, uint64_t now_ns, double wall_s, const char *separator, FILE *to)
{
	fprintf(to, "%s%.1f", separator, wall_s - (double)(now_ns - at_ns) / 1e9);
}

void weir_history_print(const weir_history *history, uint64_t now_ns, double wall_s, FILE *to)
{
	const char *separator = "";
	fprintf(to, "{\"now\":%.1f,\"times\":[", wall_s);
	for (uint64_t i = first_ten(history); i < tens_end(history); i++, separator = ",")
		print_time(history->ten_ns[i % WEIR_HISTORY_TENS], now_ns, wall_s, separator, to);
	for (uint64_t i = first_second(history); i < history->seconds; i++, separator = ",")
		print_time(history->second_ns[i % WEIR_HISTORY_SECONDS], now_ns, wall_s, separator, to);
	fputs("],\"stages\":[", to);
	for (unsigned i = 0; i < history->stages; i++) {
		fputs(i > 0 ? "," : "", to);
		print_stage(history, history->stage[i], to);
	}
	fputs("]}\n", to);
}
