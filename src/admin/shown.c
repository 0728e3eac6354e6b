/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What owners count (weir/metric.h), in /metrics and in the API, by the rows. OpenMetrics wants all series of
 * a family together, so the families are collected first, and then all owners are asked once for each.
 */
#include <stdio.h>
#include <string.h>

#include "admin/view.h"

#define FAMILIES_MAX 256
#define NAME_BYTES   128

/* ---- single values ---- */

static const void *field(const weir_shown *shown, const weir_metric *metric)
{
	return (const char *)shown->values + metric->offset;
}

static uint64_t whole(const weir_shown *shown, const weir_metric *metric)
{
	uint64_t value;
	memcpy(&value, field(shown, metric), sizeof(value));
	return value;
}

static double number(const weir_shown *shown, const weir_metric *metric)
{
	double value;
	memcpy(&value, field(shown, metric), sizeof(value));
	return value;
}

static const char *text(const weir_shown *shown, const weir_metric *metric)
{
	const char *value;
	memcpy(&value, field(shown, metric), sizeof(value));
	return value != NULL ? value : "";
}

/* ---- the API ---- */

static json_t *json_of(const weir_shown *shown, const weir_metric *metric)
{
	switch (metric->type) {
	case WEIR_METRIC_TEXT:
		return json_string(text(shown, metric));
	case WEIR_METRIC_NUMBER:
	case WEIR_METRIC_SUM:
		return json_real(number(shown, metric));
	default:
		return json_integer((json_int_t)whole(shown, metric));
	}
}

static json_t *object_of(const weir_shown *shown, const char *owner_name)
{
	json_t *object = json_object();
	if (shown->owner != NULL)
		json_object_set_new(object, owner_name, json_string(shown->owner));
	for (const weir_metric *metric = shown->metrics; metric->name != NULL; metric++)
		json_object_set_new(object, metric->name, json_of(shown, metric));
	return object;
}

typedef struct listing {
	json_t *array;
	const char *list; /* NULL: those in no list */
} listing;

static void add_element(const weir_shown *shown, void *arg)
{
	const listing *of = arg;
	bool wanted = of->list != NULL && shown->list != NULL ? strcmp(of->list, shown->list) == 0
							      : of->list == shown->list;
	if (!wanted)
		return;
	bool pool = of->list != NULL && strcmp(of->list, "backends") == 0; /* its name in the API is older */
	json_t *object = object_of(shown, pool ? "pool" : "stage");
	if (of->list == NULL)
		json_object_set_new(object, "prefix", json_string(shown->prefix));
	json_array_append_new(of->array, object);
}

json_t *weir_view_shown(const weir_admin_options *options, const char *list)
{
	listing of = {json_array(), list};
	if (options->show != NULL && of.array != NULL)
		options->show(add_element, &of, options->arg);
	return of.array;
}

json_t *weir_view_verdict(const weir_admin_options *options)
{
	json_t *list = weir_view_shown(options, "verdict");
	json_t *first = json_array_get(list, 0);
	json_t *verdict = first != NULL ? json_incref(first) : json_null();
	json_decref(list);
	return verdict;
}

/* ---- /metrics ---- */

typedef struct family {
	const char *prefix;
	const weir_metric *metric;
} family;

typedef struct families {
	family at[FAMILIES_MAX];
	size_t count;
} families;

static void add_families(const weir_shown *shown, void *arg)
{
	families *all = arg;
	for (size_t i = 0; i < all->count; i++)
		if (all->at[i].metric == shown->metrics)
			return;
	for (const weir_metric *metric = shown->metrics; metric->name != NULL; metric++)
		if (all->count < FAMILIES_MAX)
			all->at[all->count++] = (family){shown->prefix, metric};
}

/* In /metrics times are in seconds: "latency_ns" is latency_seconds. */
static const char *name_of(const family *of, char name[NAME_BYTES])
{
	size_t length = strlen(of->metric->name);
	if (of->metric->type == WEIR_METRIC_TIME && length > 3 &&
	    strcmp(of->metric->name + length - 3, "_ns") == 0)
		snprintf(name, NAME_BYTES, "%s%.*s_seconds", of->prefix, (int)(length - 3), of->metric->name);
	else
		snprintf(name, NAME_BYTES, "%s%s", of->prefix, of->metric->name);
	return name;
}

static void print_labels(FILE *to, const weir_shown *shown)
{
	bool named = shown->metrics->type == WEIR_METRIC_TEXT;
	if (shown->owner == NULL && !named)
		return;
	fputc('{', to);
	if (shown->owner != NULL)
		weir_view_label(to, "stage", shown->owner);
	if (named) {
		fputs(shown->owner != NULL ? "," : "", to);
		weir_view_label(to, shown->metrics->name, text(shown, shown->metrics));
	}
	fputc('}', to);
}

static void print_value(FILE *to, const weir_shown *shown, const weir_metric *metric)
{
	if (metric->type == WEIR_METRIC_NUMBER || metric->type == WEIR_METRIC_SUM)
		fprintf(to, " %.9g\n", number(shown, metric));
	else if (metric->type == WEIR_METRIC_TIME)
		fprintf(to, " %.9g\n", (double)whole(shown, metric) / 1e9);
	else
		fprintf(to, " %llu\n", (unsigned long long)whole(shown, metric));
}

typedef struct printing {
	FILE *to;
	const family *of;
	const char *name;
} printing;

static bool has_metric(const weir_shown *shown, const weir_metric *wanted)
{
	for (const weir_metric *metric = shown->metrics; metric->name != NULL; metric++)
		if (metric == wanted)
			return true;
	return false;
}

static bool grows(const weir_metric *metric)
{
	return metric->type == WEIR_METRIC_COUNTER || metric->type == WEIR_METRIC_SUM;
}

static void print_sample(const weir_shown *shown, void *arg)
{
	const printing *p = arg;
	if (!has_metric(shown, p->of->metric))
		return;
	fprintf(p->to, "%s%s", p->name, grows(p->of->metric) ? "_total" : "");
	print_labels(p->to, shown);
	print_value(p->to, shown, p->of->metric);
}

void weir_view_shown_metrics(const weir_admin_options *options, FILE *to)
{
	families all = {.count = 0};
	char name[NAME_BYTES];
	if (options->show == NULL)
		return;
	options->show(add_families, &all, options->arg);
	for (size_t i = 0; i < all.count; i++) {
		const family *of = &all.at[i];
		printing p = {to, of, name_of(of, name)};
		if (of->metric->type == WEIR_METRIC_TEXT)
			continue;
		weir_view_family(to, name, grows(of->metric) ? "counter" : "gauge",
				 of->metric->type == WEIR_METRIC_TIME ? "seconds" : NULL, of->metric->help);
		options->show(print_sample, &p, options->arg);
	}
}
