/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What requests are worth and what is promised: agreements (sla blocks), revenue and guaranteed rates of classes.
 * Checks them, and gives them to the laws.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "keys/keys.h"
#include "service/config_inside.h"

#define QUOTE_BYTES 64
#define TIME_BYTES  64 /* of one time of an agreement, as it is written */

/* ---- agreements ---- */

typedef struct step_values {
	uint64_t time_ns;
	double below_per_s;
} step_values;

static const weir_key step_keys[] = {
	WEIR_KEY("time", TIME, step_values, time_ns, NULL, "the promised time", .min = 1e3, .max = 3600e9),
	WEIR_KEY("below", RATE, step_values, below_per_s, NULL, "the rate below which it is promised",
		 .min = 1e-3, .max = 1e9),
	{0},
};

/* "1s below 1000/s", or "3s" alone, which is for every higher rate. */
static int read_step(const char *text, step_values *ret_step)
{
	char time[TIME_BYTES], quoted[QUOTE_BYTES];
	static const char between[] = " below ";
	const char *below = strstr(text, between);
	size_t length = below != NULL ? (size_t)(below - text) : strlen(text);
	weir_text_quote(quoted, sizeof(quoted), text);
	if (length >= sizeof(time))
		return weir_error_set(-EINVAL, "'%s': write a time and a rate, as 1s below 1000/s", quoted);
	memcpy(time, text, length);
	time[length] = '\0';
	ret_step->below_per_s = INFINITY;
	int failed = weir_key_read(&step_keys[0], time, &ret_step->time_ns);
	if (failed == 0 && below != NULL)
		failed = weir_key_read(&step_keys[1], below + strlen(between), &ret_step->below_per_s);
	return failed;
}

static void check_sla(weir_config *config, weir_config_sla *sla)
{
	weir_agreement *agreement = &sla->agreement;
	for (unsigned i = 0; sla->times != NULL && sla->times[i] != NULL; i++) {
		step_values step = {0};
		if (i == WEIR_AGREEMENT_STEPS) {
			weir_config_wrong(config, &sla->head, "times", "times: there are at most %d",
					  WEIR_AGREEMENT_STEPS);
			return;
		}
		if (read_step(sla->times[i], &step) != 0) {
			weir_config_wrong(config, &sla->head, "times", "times: %s", weir_error());
			return;
		}
		agreement->step[i].time_ns = step.time_ns;
		agreement->step[i].below_per_s = step.below_per_s;
		agreement->steps = i + 1;
	}
	const char *wrong = sla->times != NULL ? weir_agreement_wrong(agreement) : NULL;
	if (wrong != NULL)
		weir_config_wrong(config, &sla->head, "times", "times: %s", wrong);
}

static const weir_config_sla *find_sla(const weir_config *config, const weir_config_target *target)
{
	for (unsigned i = 0; target != NULL && target->sla != NULL && i < config->slas; i++)
		if (strcmp(config->sla[i].head.title, target->sla) == 0)
			return &config->sla[i];
	return NULL;
}

const weir_config_sla *weir_config_sla_of(const weir_config *config, const weir_config_route *route)
{
	return route->target_index >= 0 ? find_sla(config, &config->target[route->target_index]) : NULL;
}

/* "p90", "target", "target[2]", "percentile" */
static bool is_target(const char *param)
{
	return (param[0] == 'p' && param[1] >= '0' && param[1] <= '9') || strncmp(param, "target", 6) == 0 ||
	       strncmp(param, "percentile", 10) == 0;
}

static bool has_param(const weir_config_params *params, const char *name)
{
	for (unsigned i = 0; i < params->count; i++)
		if (strcmp(params->at[i].name, name) == 0)
			return true;
	return false;
}

/* A threshold cannot find out how many requests servers do at once. If it takes one for many, it refuses most. */
static void check_servers(weir_config *config, const weir_config_target *target)
{
	bool needed = target->police == WEIR_POLICE_THRESHOLD || target->police == WEIR_POLICE_AUTO;
	if (needed && !has_param(&target->params, "servers"))
		weir_config_warn(
			config, &target->head, "police",
			"police: set servers, the number of requests that the backend works on at once. "
			"Without it, and without reports of servers, a threshold takes it for 1");
}

static void check_target(weir_config *config, const weir_config_target *target)
{
	check_servers(config, target);
	if (target->police != WEIR_POLICE_BY_LAW && target->law != NULL)
		weir_config_wrong(config, &target->head, "police",
				  "target \"%s\" has both a law and police, which names a law as well",
				  target->head.title);
	for (unsigned i = 0; target->sla != NULL && i < target->params.count; i++)
		if (is_target(target->params.at[i].name))
			weir_config_wrong_at(config, target->params.at[i].where,
					     "%s: the times of target \"%s\" are those of its sla \"%s\"",
					     target->params.at[i].name, target->head.title, target->sla);
}

/* ---- classes ---- */

static double revenue_of(const weir_config_class *klass)
{
	return klass->revenue > 0 ? klass->revenue : 1;
}

/* Several classes may have a level. They are worth the same, since laws know levels only. */
static void check_same_level(weir_config *config, const weir_config_class *a, const weir_config_class *b)
{
	bool same = revenue_of(a) == revenue_of(b) && a->guaranteed_per_s == b->guaranteed_per_s;
	if (a->level == b->level && !same)
		weir_config_wrong(config, &b->head, a->revenue != b->revenue ? "revenue" : "guaranteed",
				  "class \"%s\" and class \"%s\" are both of level %u, and have other "
				  "revenue or guarantees: give them levels of their own",
				  a->head.title, b->head.title, b->level);
}

static void check_order(weir_config *config, const weir_config_class *a, const weir_config_class *b)
{
	const weir_config_class *above = a->level < b->level ? a : b, *below = above == a ? b : a;
	if (a->level != b->level && revenue_of(below) > revenue_of(above))
		weir_config_wrong(config, &below->head, "revenue",
				  "class \"%s\" (level %u, revenue %g) is worth more than \"%s\" (level %u, "
				  "revenue %g); levels are in the order of revenue, 0 the highest",
				  below->head.title, below->level, revenue_of(below), above->head.title,
				  above->level, revenue_of(above));
}

void weir_config_check_worth(weir_config *config)
{
	for (unsigned i = 0; i < config->slas; i++)
		check_sla(config, &config->sla[i]);
	for (unsigned i = 0; i < config->targets; i++)
		check_target(config, &config->target[i]);
	bool has_revenue = weir_config_worth(config).has_revenue;
	for (unsigned i = 0; i < config->classes; i++)
		for (unsigned j = 0; j < i; j++) {
			check_same_level(config, &config->klass[j], &config->klass[i]);
			if (has_revenue)
				check_order(config, &config->klass[j], &config->klass[i]);
		}
}

weir_worth weir_config_worth(const weir_config *config)
{
	weir_worth worth = {0};
	double most = 1;
	for (unsigned i = config->classes; i > 0; i--) {
		const weir_config_class *klass = &config->klass[i - 1];
		worth.revenue[klass->level] = revenue_of(klass);
		worth.guaranteed_per_s[klass->level] = klass->guaranteed_per_s;
		worth.has_revenue |= klass->revenue > 0;
		worth.has_guarantee |= klass->guaranteed_per_s > 0;
		most = revenue_of(klass) > most ? revenue_of(klass) : most;
	}
	/* A level without a class is worth as much as the one above it. */
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		if (worth.revenue[k] == 0)
			worth.revenue[k] = k > 0 ? worth.revenue[k - 1] : most;
	return worth;
}

/* ---- laws ---- */

static int set_agreement(const weir_config_sla *sla, const weir_admission_law *law, void *params)
{
	char percentile[32], time[32];
	if (weir_keys_find(law->params, "percentile") == NULL ||
	    weir_keys_find(law->params, "target") == NULL)
		return weir_error_set(-EINVAL,
				      "law '%s' does not hold a percentile, so it cannot hold an sla; "
				      "leave the law out, or take police = batch",
				      law->name);
	weir_text_print_percentile(percentile, sizeof(percentile), sla->percentile);
	weir_text_print_time(time, sizeof(time), sla->agreement.step[0].time_ns, NULL);
	int failed = weir_law_set(law, params, "percentile", percentile);
	return failed != 0 ? failed : weir_law_set(law, params, "target", time);
}

static int set_per_class(const weir_admission_law *law, void *params, const char *name, unsigned klass,
			 const char *unit, double value)
{
	char which[32], text[48];
	snprintf(which, sizeof(which), "%s[%u]", name, klass);
	snprintf(text, sizeof(text), "%.17g%s", value, unit);
	return weir_law_set(law, params, which, text);
}

int weir_config_set_worth(const weir_config *config, const weir_config_target *target,
			  const weir_admission_law *law, void *params)
{
	const weir_config_sla *sla = find_sla(config, target);
	weir_worth worth = weir_config_worth(config);
	bool guarantees = weir_keys_find(law->params, "guaranteed") != NULL;
	bool earns = weir_keys_find(law->params, "revenue") != NULL;
	int failed = 0;
	if (sla != NULL && sla->agreement.steps > 0)
		failed = set_agreement(sla, law, params);
	if (failed == 0 && worth.has_guarantee && !guarantees)
		failed = weir_error_set(
			-EINVAL,
			"law '%s' cannot guarantee a rate, and a class has one; write target = off "
			"for a route that needs no law, or take adaptive-remote, value, batch or "
			"another policing law",
			law->name);
	for (unsigned k = 0; failed == 0 && k < WEIR_CLASSES; k++) {
		if (worth.has_guarantee)
			failed = set_per_class(law, params, "guaranteed", k, "/s", worth.guaranteed_per_s[k]);
		if (failed == 0 && earns && worth.has_revenue)
			failed = set_per_class(law, params, "revenue", k, "", worth.revenue[k]);
	}
	return failed;
}
