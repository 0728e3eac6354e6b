/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input and output of `adaptive`: parameters, reasons for refusals, reports, and what it has learnt, as a
 * line of text.
 */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/adaptive.h"

#define TARGET_MIN_NS 1000
#define TARGET_MAX_NS 3600e9
#define BOUND_FIRST   20 /* requests, until something has been measured */
#define TAU_FIRST     64

const weir_key adaptive_params[] = {
	WEIR_KEY("target", TIME, weir_adaptive_params, target_ns, NULL,
		 "The response time to hold. Other classes than 0: by default as the class above",
		 .flags = WEIR_KEY_PER_CLASS | WEIR_KEY_REQUIRED, .min = TARGET_MIN_NS, .max = TARGET_MAX_NS),
	WEIR_KEY("percentile", PERCENTILE, weir_adaptive_params, percentile, NULL,
		 "The percentile of the response times that the target is for", .flags = WEIR_KEY_PER_CLASS,
		 .min = 0.5, .max = 0.999),
	WEIR_KEY("minimum", NUMBER, weir_adaptive_params, minimum, NULL,
		 "The share of the starts that a class keeps however busy the classes above it are",
		 .flags = WEIR_KEY_PER_CLASS, .max = 0.1),
	WEIR_KEY("quality_min", NUMBER, weir_adaptive_params, quality_min, NULL,
		 "The lowest quality that the stage is asked for before and while requests are rejected; 1: "
		 "always the best",
		 .min = .001, .max = 1),
	WEIR_KEY("per_stage", SWITCH, weir_adaptive_params, per_stage, NULL,
		 "Only the stage's own queue counts, even if several stages share a pool", .max = 1),
	WEIR_KEY("since_offer", SWITCH, weir_adaptive_params, since_offer, NULL,
		 "Response times begin with the offer to the stage, not when the request entered the system",
		 .max = 1),
	{0},
};

void adaptive_defaults(void *params)
{
	weir_adaptive_params *p = params;
	p->percentile[0] = 0.9;
	p->quality_min = WEIR_QUALITY_LEAST;
	for (unsigned i = 0; i < WEIR_CLASSES; i++)
		p->minimum[i] = 0.01;
}

/* ---- initialisation ---- */

static const char *wrong_with(const weir_adaptive_params *p)
{
	if (p == NULL)
		return "parameters are required (weir_adaptive_params)";
	if (p->target_ns[0] == 0)
		return "a target is required for class 0: a time from 1us to 1h";
	if (!(p->quality_min >= 0 && p->quality_min <= 1))
		return "quality_min must be above 0 and at most 1, or 0 for 0.1";
	for (unsigned i = 0; i < WEIR_CLASSES; i++) {
		uint64_t target_ns = p->target_ns[i];
		double percentile = p->percentile[i], minimum = p->minimum[i];
		if (target_ns != 0 && !(target_ns >= TARGET_MIN_NS && (double)target_ns <= TARGET_MAX_NS))
			return "target must be a time from 1us to 1h, or 0 for as the class above";
		if (percentile != 0 && !(percentile >= 0.5 && percentile <= 0.999))
			return "percentile must be from p50 to p99.9, or 0 for as the class above";
		if (!(minimum >= 0 && minimum <= 0.1))
			return "minimum must be a share of the starts from 0 to 0.1";
	}
	return NULL;
}

static void init_class(adaptive_class *k, double percentile, uint64_t target_ns, double minimum)
{
	k->target_ns = target_ns;
	k->late_share = (float)(1 - percentile);
	k->minimum = (float)minimum;
	k->slice_shift = 60u - (unsigned)__builtin_clzll(target_ns | 8);
	/* Half of the target for the wait and half for the service, until the service time is known. */
	PUT(k->limit_ns, (float)target_ns / 2);
	PUT(k->strict_ns, (float)target_ns / 2);
	PUT(k->base_ns, (float)target_ns / 2);
	PUT(k->most_ns, (float)target_ns / 2);
	PUT(k->bound, BOUND_FIRST);
	PUT(k->per_bound, 1.0f / BOUND_FIRST);
	PUT(k->slack, 1);
	PUT(k->load_every_ns, INFINITY);
	PUT(k->memory, TAU_FIRST);
	weir_degrade_init(&k->degrade);
}

int adaptive_init(void *state, const void *params, const char **ret_wrong)
{
	adaptive *a = state;
	const weir_adaptive_params *p = params;
	const char *wrong = wrong_with(p);
	if (wrong != NULL) {
		*ret_wrong = wrong;
		return -EINVAL;
	}
	memset(a, 0, sizeof(*a));
	a->per_stage = p->per_stage;
	a->since_offer = p->since_offer;
	a->quality_least = p->quality_min > 0 ? p->quality_min : WEIR_QUALITY_LEAST;
	double percentile = 0.9;
	uint64_t target_ns = 0;
	for (unsigned i = 0; i < WEIR_CLASSES; i++) {
		target_ns = p->target_ns[i] != 0 ? p->target_ns[i] : target_ns;
		percentile = p->percentile[i] != 0 ? p->percentile[i] : percentile;
		init_class(&a->klass[i], percentile, target_ns, p->minimum[i]);
	}
	return 0;
}

void adaptive_retarget(void *state, const uint64_t target_ns[WEIR_CLASSES])
{
	adaptive *a = state;
	for (unsigned i = 0; i < WEIR_CLASSES; i++)
		PUT(a->klass[i].target_ns, target_ns[i]);
}

/* ---- reports ---- */

void adaptive_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	const adaptive *a = state;
	const adaptive_class *k = &a->klass[ask->klass];
	double tau = (double)GET(k->tau_ns), target = (double)k->target_ns;
	bool shared = ask->shared && !a->per_stage;
	double excess =
		weir_refusal_tell(ret_why->verdict == WEIR_SHED_WAITED ? &k->dropped : &k->refused, ret_why);
	/* Another request may take the next free place, so wait until one has been free for one start. */
	double again = excess * (double)GET(k->slack) + (tau > 0 ? tau : target / 4);
	if (!shared && (GET(k->starving) || GET(a->holding) > ask->klass))
		again = fmax(again, target);
	ret_why->target_ns = k->target_ns;
	ret_why->retry_after_ns = (uint64_t)again;
}

static void value(weir_report *report, const char *name, double number)
{
	report->value[report->count].name = name;
	report->value[report->count++].value = number;
}

void adaptive_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const adaptive_class *k = &((const adaptive *)state)->klass[klass];
	ret_report->quantile = 1 - (double)k->late_share;
	ret_report->target_ns = k->target_ns;
	ret_report->measured_ns = (uint64_t)GET(k->measured_ns);
	ret_report->alone_ns = (uint64_t)GET(k->alone_ns);
	float pool = GET(((const adaptive *)state)->pool_quality);
	ret_report->quality = pool != 0 ? (double)pool : weir_degrade_factor(&k->degrade);
	ret_report->wait_ns =
		(uint64_t)(GET(k->over) > 0 ? GET(k->limit_ns) : fminf(GET(k->limit_ns), GET(k->base_ns)));
	ret_report->shedding = GET(k->shedding);
	ret_report->unreachable = GET(k->unreachable);
	ret_report->strained = GET(k->strained);
	value(ret_report, "wait_limit_ns", (double)GET(k->limit_ns));
	value(ret_report, "start_every_ns", (double)GET(k->tau_ns));
	value(ret_report, "credit", (double)GET(k->credit) / (double)ADAPTIVE_CREDIT);
	value(ret_report, "credit_bound", (double)GET(k->bound));
	value(ret_report, "load", (double)GET(k->load));
	value(ret_report, "service_ns", (double)GET(k->service_ns));
	value(ret_report, "slack", (double)GET(k->slack));
	value(ret_report, "workers", (double)GET(k->inside));
}

/* ---- saved state: per class "k tau inside q q q ...;", the service time at these quantiles ---- */

#define SAVED 12
static const double saved_at[SAVED] = {.05, .15, .25, .35, .45, .55, .65, .75, .85, .925, .97, .995};
static const double saved_weight[SAVED] = {.1, .1, .1, .1, .1, .1, .1, .1, .1, .05, .04, .01};
#define SAVED_COUNT 200 /* its weight, in service times: enough to start with, soon outweighed */

#define CLASS_TEXT 512 /* room for three numbers and SAVED more */

static void save_class(const adaptive_class *k, unsigned klass, char text[CLASS_TEXT])
{
	int length = snprintf(text, CLASS_TEXT, " %u %.6g %.6g", klass, (double)GET(k->tau_ns),
			      (double)GET(k->inside));
	for (unsigned i = 0; i < SAVED; i++) {
		double quantile_ns = weir_service_quantile(&k->service, saved_at[i]);
		length += snprintf(text + length, CLASS_TEXT - (size_t)length, " %.6g", quantile_ns);
	}
}

int adaptive_save(const void *state, char *text, size_t size)
{
	const adaptive *a = state;
	int length = snprintf(text, size, "adaptive 1");
	for (unsigned i = 0; i < WEIR_CLASSES; i++) {
		char one[CLASS_TEXT];
		size_t left = (size_t)length < size ? size - (size_t)length : 0;
		if (a->klass[i].service.count == 0)
			continue;
		save_class(&a->klass[i], i, one);
		length += snprintf(left > 0 ? text + length : NULL, left, "%s", one);
	}
	return length;
}

/* Reads the next number; false: there is none, or it cannot be a time. */
static bool read_number(const char **text, double *ret_number)
{
	char *end;
	*ret_number = strtod(*text, &end);
	if (end == *text || !(*ret_number >= 0 && *ret_number <= 1e15))
		return false;
	*text = end;
	return true;
}

static bool read_class(const char **text, unsigned *ret_klass, double *ret_numbers)
{
	double klass;
	if (!read_number(text, &klass) || klass >= WEIR_CLASSES || klass != floor(klass))
		return false;
	for (unsigned i = 0; i < SAVED + 2; i++)
		if (!read_number(text, &ret_numbers[i]))
			return false;
	*ret_klass = (unsigned)klass;
	return true;
}

static void load_class(adaptive_class *k, const double *numbers)
{
	PUT(k->tau_ns, (float)numbers[0]);
	PUT(k->inside, (float)numbers[1]);
	k->taus = TAU_FIRST;
	weir_service_init(&k->service);
	for (unsigned i = 0; i < SAVED; i++)
		weir_service_assume(&k->service, numbers[2 + i], SAVED_COUNT * saved_weight[i]);
	adaptive_learnt(k);
}

int adaptive_load(void *state, const char *text)
{
	static const char head[] = "adaptive 1";
	double numbers[WEIR_CLASSES][SAVED + 2];
	unsigned classes[WEIR_CLASSES], count = 0;
	if (strncmp(text, head, sizeof(head) - 1) != 0)
		return -EINVAL;
	text += sizeof(head) - 1;
	while (text[strspn(text, " \n")] != '\0')
		if (count == WEIR_CLASSES || !read_class(&text, &classes[count], numbers[count]))
			return -EINVAL;
		else
			count++;
	for (unsigned i = 0; i < count; i++)
		load_class(&((adaptive *)state)->klass[classes[i]], numbers[i]);
	return 0;
}
