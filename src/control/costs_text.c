/* SPDX-License-Identifier: Apache-2.0 */
/* The table as people see it, and as a successor takes it over. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "control/costs_priv.h"

#define HALF_KNOWN 8.   /* calm answers for a confidence of one half */
#define MOST_NS    1e16 /* limit for any time in a line */
#define MOST_WORK  1e24
#define HALF_NS    600e9 /* half-life of the work */
#define MOST_AGE   1e9   /* seconds */
#define VERSION    1

#define GET WEIR_COSTS_GET
#define SET WEIR_COSTS_SET

/* ---- views ---- */

static bool view(const weir_costs *costs, const weir_cost_mark *mark, uint64_t now_ns,
		 weir_costs_view *ret_view)
{
	const weir_cost_record *record = weir_costs_record(costs, mark);
	weir_cost_key key;
	if (GET(record->count) == 0 || !weir_costs_read_key(costs, mark, &key))
		return false;
	uint32_t samples = GET(record->samples);
	uint64_t last_ns = GET(record->last_ns), age_ns = now_ns > last_ns ? now_ns - last_ns : 0;
	float base = GET(record->base_ns);
	bool trusted = samples >= WEIR_COSTS_TRUSTED;
	*ret_view = (weir_costs_view){.sort = key.sort,
				      .route = key.route,
				      .method = key.method,
				      .folds = GET(record->folds),
				      .count = GET(record->count),
				      .expected_ns = trusted ? (uint64_t)(base + GET(record->extra_ns)) : 0,
				      .typical_ns = (uint64_t)base,
				      .deviation_ns = (uint64_t)GET(record->deviation_ns),
				      .p90_ns = (uint64_t)GET(record->p90_ns),
				      .confidence = samples / (samples + HALF_KNOWN),
				      .work_ns = GET(record->work_ns) * exp2(-(double)age_ns / HALF_NS),
				      .age_ns = age_ns};
	memcpy(ret_view->path, key.text, key.length);
	return true;
}

bool weir_costs_view_at(const weir_costs *costs, uint32_t at, uint64_t now_ns, weir_costs_view *ret_view)
{
	return at < costs->places && view(costs, &costs->marks[at], now_ns, ret_view);
}

bool weir_costs_view_of(const weir_costs *costs, weir_cost_kind kind, uint64_t now_ns,
			weir_costs_view *ret_view)
{
	const weir_cost_mark *mark = weir_costs_place(costs, kind);
	return mark != NULL && view(costs, mark, now_ns, ret_view);
}

/* ---- saving and loading ---- */

/* A line as numbers; times in ns. */
typedef struct line {
	unsigned sort, method, samples, folds;
	uint32_t route;
	uint64_t count, children[2];
	double base, extra, deviation, p90, rare, work, age_s;
	char path[WEIR_COSTS_TEXT + 1];
} line;

bool weir_costs_save(const weir_costs *costs, uint32_t at, uint64_t now_ns, char text[static WEIR_COSTS_LINE])
{
	weir_costs_view v;
	if (!weir_costs_view_at(costs, at, now_ns, &v) || (v.expected_ns == 0 && !v.folds))
		return false;
	const weir_cost_record *record = &costs->records[at];
	int length = snprintf(
		text, WEIR_COSTS_LINE,
		"%d %u %" PRIu32 " %u %" PRIu32 " %" PRIu64 " %.0f %.0f %.0f %.0f %.4f %.0f %.0f "
		"%u %" PRIx64 " %" PRIx64 " %s",
		VERSION, v.sort, v.route, v.method, GET(record->samples), v.count, GET(record->base_ns),
		GET(record->extra_ns), GET(record->deviation_ns), GET(record->p90_ns), GET(record->rare),
		v.work_ns, (double)v.age_ns / 1e9, v.folds, GET(record->children[0]),
		GET(record->children[1]), v.path[0] != '\0' ? v.path : "-");
	return length > 0 && length < (int)WEIR_COSTS_LINE;
}

static bool within(double value, double most)
{
	return value >= 0 && value <= most; /* false for NaN, too */
}

static bool is_fit(const line *l)
{
	return l->sort <= WEIR_COSTS_ROUTE && l->method <= UINT8_MAX && l->samples <= WEIR_COSTS_WINDOW &&
	       l->folds <= (l->sort == WEIR_COSTS_PREFIX) && within(l->base, MOST_NS) &&
	       within(l->extra, MOST_NS) && within(l->deviation, MOST_NS) && within(l->p90, MOST_NS) &&
	       within(l->rare, 1) && within(l->work, MOST_WORK) && within(l->age_s, MOST_AGE);
}

static bool scan(const char *text, line *ret)
{
	int used = 0, version;
	char end;
	if (strlen(text) >= WEIR_COSTS_LINE)
		return false;
	int got = sscanf(text,
			 "%d %u %" SCNu32 " %u %u %" SCNu64 " %lf %lf %lf %lf %lf %lf %lf %u %" SCNx64
			 " %" SCNx64 " %88s%n%c",
			 &version, &ret->sort, &ret->route, &ret->method, &ret->samples, &ret->count,
			 &ret->base, &ret->extra, &ret->deviation, &ret->p90, &ret->rare, &ret->work,
			 &ret->age_s, &ret->folds, &ret->children[0], &ret->children[1], ret->path, &used,
			 &end);
	return got == 17 && version == VERSION && is_fit(ret);
}

/* Accepts only keys that folding would have produced. */
static bool make_key(const line *l, weir_cost_key *ret_key)
{
	size_t length = strlen(l->path);
	if (l->sort == WEIR_COSTS_ROUTE) {
		*ret_key = (weir_cost_key){.route = l->route, .sort = WEIR_COSTS_ROUTE};
		return strcmp(l->path, "-") == 0 && l->method == 0;
	}
	weir_cost_key_fold(ret_key, l->route, (uint8_t)l->method, l->path, length);
	ret_key->sort = (uint8_t)l->sort;
	if (l->sort == WEIR_COSTS_PREFIX && ret_key->length > 1) {
		if (ret_key->length >= WEIR_COSTS_TEXT)
			return false;
		ret_key->text[ret_key->length++] = '/';
		memset(ret_key->text + ret_key->length, 0, sizeof(ret_key->text) - ret_key->length);
	}
	return ret_key->length == length && memcmp(ret_key->text, l->path, length) == 0;
}

static void fill(weir_cost_mark *mark, weir_cost_record *record, const line *l, uint64_t now_ns)
{
	uint64_t age_ns = (uint64_t)(l->age_s * 1e9);
	double cost = (l->base + l->extra) / 1000;
	SET(record->samples, l->samples);
	SET(record->count, l->count > 0 ? l->count : 1);
	SET(record->base_ns, (float)l->base);
	SET(record->extra_ns, (float)l->extra);
	SET(record->deviation_ns, (float)l->deviation);
	SET(record->p90_ns, (float)l->p90);
	SET(record->rare, (float)l->rare);
	SET(record->work_ns, (float)l->work);
	SET(record->work_at_ns, now_ns);
	SET(record->last_ns, now_ns > age_ns ? now_ns - age_ns : 0);
	SET(record->folds, l->folds != 0);
	SET(record->children[0], l->children[0]);
	SET(record->children[1], l->children[1]);
	SET(record->uses, l->samples + 1); /* it has been useful */
	if (l->samples >= WEIR_COSTS_TRUSTED)
		SET(mark->cost_us, cost < 1 ? 1 : cost > 4e9 ? 4000000000u : (uint32_t)cost);
}

int weir_costs_load(weir_costs *costs, const char *text, uint64_t now_ns)
{
	line l = {0};
	weir_cost_key key;
	if (!scan(text, &l) || !make_key(&l, &key))
		return -EINVAL;
	uint64_t hash = weir_costs_hash(costs, &key);
	weir_cost_mark *mark = weir_costs_look(costs, hash);
	if (mark == NULL)
		mark = weir_costs_take(costs, &key, hash, 1);
	if (mark == NULL)
		return -ENOSPC;
	weir_cost_record *record = weir_costs_record(costs, mark);
	if (GET(record->samples) != 0)
		return 0;
	fill(mark, record, &l, now_ns);
	/* Finds or takes its prefixes; that fails if the table is full. */
	if (l.sort == WEIR_COSTS_KIND)
		weir_costs_prove(costs, mark);
	return 0;
}
