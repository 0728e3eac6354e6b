/* SPDX-License-Identifier: Apache-2.0 */
/* Laws: found by name, given the parameters of target and route, and checked. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "service/config_inside.h"

#define QUOTE_BYTES 64

static const char *law_name_at(const void *ignored, size_t at)
{
	const weir_admission_law *law = weir_law_at(at);
	return law != NULL ? law->name : NULL;
}
static int find_law(const char *name, const weir_admission_law **ret_law)
{
	char quoted[QUOTE_BYTES], names[200];
	const weir_admission_law *law;
	size_t at = 0;
	*ret_law = weir_law_find(name);
	if (*ret_law != NULL)
		return 0;
	weir_text_quote(quoted, sizeof(quoted), name);
	const char *near = weir_text_nearest(name, law_name_at, NULL);
	if (near != NULL)
		return weir_error_set(-EINVAL, "law: there is no law '%s'; did you mean '%s'?", quoted, near);
	for (size_t i = 0; (law = weir_law_at(i)) != NULL && at < sizeof(names); i++)
		at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i > 0 ? ", " : "", law->name);
	return weir_error_set(-EINVAL, "law: there is no law '%s'; there are: %s", quoted, names);
}

static const weir_config_target *target_of(const weir_config *config, const weir_config_route *route)
{
	return route->target_index >= 0 ? &config->target[route->target_index] : NULL;
}

/* By weir_config_police. */
static const char *const police_laws[] = {NULL, "batch", "police-threshold", "police-auto", "value"};

static const char *law_name(const weir_config *config, const weir_config_target *target,
			    const weir_config_route *route)
{
	const weir_kind *kind = route != NULL ? weir_config_kind(config, route) : NULL;
	if (route != NULL && route->law != NULL)
		return route->law;
	if (target != NULL && target->law != NULL)
		return target->law;
	if (target != NULL && target->police != WEIR_POLICE_BY_LAW)
		return police_laws[target->police];
	if (kind != NULL && kind->value_law != NULL && weir_config_worth(config).has_revenue)
		return kind->value_law;
	return kind != NULL && kind->law != NULL ? kind->law : "adaptive";
}

/* Who hears of a failed step, and where it was. */
typedef struct complaint {
	weir_config *config; /* NULL: only weir_error */
	weir_config_where where;
} complaint;

static int complain(const complaint *to)
{
	char sentence[400];
	snprintf(sentence, sizeof(sentence), "%s", weir_error());
	if (to->config != NULL)
		weir_config_wrong_at(to->config, to->where, "%s", sentence);
	return weir_error_set(-EINVAL, "%s:%u: %s", to->where.file != NULL ? to->where.file : "command line",
			      to->where.line, sentence);
}

/* Goes on after a mistake, so that all are reported. */
static int set_params(weir_config *config, const weir_admission_law *law, void *params,
		      const weir_config_params *list)
{
	int failed = 0;
	for (unsigned i = 0; i < list->count; i++) {
		complaint to = {config, list->at[i].where};
		if (weir_law_set(law, params, list->at[i].name, list->at[i].value) != 0)
			failed = complain(&to);
	}
	return failed;
}

/* target_told gets messages about the target's parameters, told all others; either may be NULL. */
static int build_law(const weir_config *config, const weir_config_target *target,
		     const weir_config_route *route, weir_config *target_told, weir_config *told,
		     const weir_admission_law **ret_law, void **ret_params)
{
	bool routes_law = route != NULL && (route->law != NULL || target == NULL);
	const weir_block_head *head = routes_law ? &route->head : &target->head;
	complaint to = {told, weir_config_key_where(head, "law")};
	const weir_admission_law *law;
	if (find_law(law_name(config, target, route), &law) != 0)
		return complain(&to);
	void *params = weir_mem_zalloc(law->params_bytes + 1);
	if (params == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	weir_law_defaults(law, params);
	int failed = weir_config_set_worth(config, target, law, params);
	if (failed != 0)
		complain(&to);
	if (target != NULL && set_params(target_told, law, params, &target->params) != 0)
		failed = -EINVAL;
	if (route != NULL && set_params(told, law, params, &route->params) != 0)
		failed = -EINVAL;
	if (failed == 0 && weir_law_check(law, params) != 0)
		failed = complain(&to);
	if (failed != 0) {
		weir_mem_free(params);
		return failed;
	}
	*ret_law = law;
	*ret_params = params;
	return 0;
}

static bool has_law(const weir_config_route *route)
{
	return route->target_index >= 0 || route->params.count > 0 || route->law != NULL;
}

int weir_config_law(const weir_config *config, const weir_config_route *route,
		    const weir_admission_law **ret_law, void **ret_params)
{
	*ret_law = NULL;
	*ret_params = NULL;
	return has_law(route)
		       ? build_law(config, target_of(config, route), route, NULL, NULL, ret_law, ret_params)
		       : 0;
}

/* Both build the same law from the same target, and so find the same mistakes. */
static bool share_law(const weir_config *config, const weir_config_route *a, const weir_config_route *b)
{
	return a->target_index == b->target_index && strcmp(law_name(config, target_of(config, a), a),
							    law_name(config, target_of(config, b), b)) == 0;
}

/*
 * Each target is checked with the first route of each law that uses it, so that its mistakes are reported
 * once. A target that no route uses is checked alone.
 */
void weir_config_check_laws(weir_config *config)
{
	const weir_admission_law *law;
	void *params = NULL;
	for (unsigned i = 0; i < config->targets; i++) {
		bool used = false;
		for (unsigned j = 0; j < config->routes; j++)
			used |= config->route[j].target_index == (int)i;
		if (!used && build_law(config, &config->target[i], NULL, config, config, &law, &params) == 0)
			weir_mem_free(params);
	}
	for (unsigned i = 0; i < config->routes; i++) {
		const weir_config_route *route = &config->route[i];
		bool first = true;
		for (unsigned j = 0; j < i; j++)
			first &= !share_law(config, &config->route[j], route);
		if (has_law(route) && build_law(config, target_of(config, route), route,
						first ? config : NULL, config, &law, &params) == 0)
			weir_mem_free(params);
	}
}
