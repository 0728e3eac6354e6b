/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a scenario as a whole: names become indexes, shares are made to add up to 1, loads without types
 * get one of their own, and laws are tried with their parameters. Service times and routes give the
 * capacity (the meaning of 1x) and show whether a target is possible at all.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "sim/keys.h"

#define WINDOWS_MAX  100000
#define REQUESTS_MAX 1e10 /* of a load in a run; they take about an hour */

/* ---- names ---- */

#define FIND(array, count)                                      \
	for (unsigned i = 0; i < scenario->count; i++)          \
		if (strcmp(scenario->array[i].name, name) == 0) \
			return (int)i;                          \
	return -1

static int find_stage(const weir_scenario *scenario, const char *name)
{
	FIND(stage, stages);
}

static int find_backend(const weir_scenario *scenario, const char *name)
{
	FIND(backend, backends);
}

static int find_type(const weir_scenario *scenario, const char *name)
{
	FIND(type, types);
}

typedef int find_fn(const weir_scenario *scenario, const char *name);

/* Resolves a list of shares; what: "stage" or "type". */
static int find_shares(const weir_scenario *scenario, weir_share *shares, unsigned count, unsigned line,
		       find_fn *find, const char *what)
{
	double sum = 0;
	for (unsigned i = 0; i < count; i++)
		sum += shares[i].share;
	for (unsigned i = 0; i < count; i++) {
		shares[i].index = find(scenario, shares[i].name);
		if (shares[i].index < 0)
			return weir_scenario_wrong(scenario, line, "there is no [%s %s] in this scenario",
						   what, shares[i].name);
		shares[i].share /= sum;
	}
	return 0;
}

/* ---- laws ---- */

static void list_laws(char *text, size_t size)
{
	const weir_admission_law *law;
	size_t at = (size_t)snprintf(text, size, "none");
	for (size_t i = 0; (law = weir_law_at(i)) != NULL && at < size; i++)
		at += (size_t)snprintf(text + at, size - at, ", %s", law->name);
}

static const char *law_name_at(const void *list, size_t at)
{
	const weir_admission_law *law = weir_law_at(at);
	return law != NULL ? law->name : NULL;
}

static int find_law(const weir_scenario *scenario, const char *name, unsigned line,
		    const weir_admission_law **ret_law)
{
	char all[240], meant[80] = "accepted";
	*ret_law = weir_law_find(name);
	if (*ret_law != NULL)
		return 0;
	list_laws(all, sizeof all);
	const char *near = weir_text_nearest(name, law_name_at, NULL);
	if (near != NULL)
		snprintf(meant, sizeof meant, "did you mean '%s'? Accepted", near);
	return weir_scenario_wrong(scenario, line, "there is no law '%s'; %s are %s", name, meant, all);
}

static bool has_param(const weir_admission_law *law, const char *name)
{
	for (const weir_key *param = law->params; param != NULL && param->name != NULL; param++)
		if (strcmp(param->name, name) == 0)
			return true;
	return false;
}

static int set_param(const weir_scenario *scenario, const weir_admission_law *law, void *params,
		     const char *key, const weir_setting *set)
{
	if (weir_law_set(law, params, key, set->value) == 0)
		return 0;
	char why[300];
	snprintf(why, sizeof why, "%s", weir_error());
	return weir_scenario_wrong(scenario, set->line, "%s = %s: %s", set->key, set->value, why);
}

/* "aimd.decrease": only for that law. */
static int set_named_param(const weir_scenario *scenario, const weir_admission_law *law, void *params,
			   const weir_setting *set)
{
	const char *dot = strchr(set->key, '.');
	char name[WEIR_SCENARIO_NAME] = "";
	const weir_admission_law *of;
	memcpy(name, set->key, (size_t)(dot - set->key));
	int failed = find_law(scenario, name, set->line, &of);
	if (failed || of != law)
		return failed;
	return set_param(scenario, law, params, dot + 1, set);
}

static const char *param_name_at(const void *list, size_t at)
{
	return ((const weir_key *)list)[at].name;
}

static const char *stage_key_at(const void *list, size_t at)
{
	return weir_sim_keys_stage[at].name;
}

/* A key that a law does not know was perhaps meant for its stage. */
static int set_own_param(const weir_scenario *scenario, const weir_admission_law *law, void *params,
			 const weir_setting *set)
{
	const char *near = weir_text_nearest(set->key, stage_key_at, NULL);
	int failed = set_param(scenario, law, params, set->key, set);
	if (!failed || near == NULL || weir_text_nearest(set->key, param_name_at, law->params) != NULL)
		return failed;
	return weir_scenario_wrong(
		scenario, set->line,
		"there is no '%s' here, nor a parameter of law '%s' of that name; did you mean "
		"'%s'?",
		set->key, law->name, near);
}

static int unknown_setting(const weir_scenario *scenario, const weir_setting *set)
{
	char names[240];
	return weir_scenario_wrong(
		scenario, set->line,
		"there is no '%s' here; accepted are %s, a target (p90 = 200ms), and the parameters of the "
		"stage's law",
		set->key, weir_sim_keys_list(weir_sim_keys_stage, names, sizeof names));
}

/* If law is NULL, only targets and other laws' parameters are allowed. */
static int set_params(const weir_scenario *scenario, const weir_scenario_stage *stage,
		      const weir_admission_law *law, void *params)
{
	bool aims = law != NULL && has_param(law, "target") && has_param(law, "percentile");
	for (unsigned i = 0; i < stage->settings; i++) {
		const weir_setting *set = &stage->setting[i];
		int failed = 0;
		if (weir_scenario_concerns_target(set->key))
			failed = aims ? set_param(scenario, law, params, set->key, set) : 0;
		else if (strchr(set->key, '.') != NULL)
			failed = set_named_param(scenario, law, params, set);
		else if (law == NULL)
			failed = unknown_setting(scenario, set);
		else
			failed = set_own_param(scenario, law, params, set);
		if (failed)
			return failed;
	}
	return 0;
}

int weir_scenario_law_of(const weir_scenario *scenario, const weir_scenario_stage *stage,
			 const weir_admission_law **ret_law, void **ret_params)
{
	const weir_admission_law *law = NULL;
	void *params = NULL;
	int failed = 0;
	if (stage->law[0] != '\0' && strcmp(stage->law, "none") != 0)
		failed = find_law(scenario, stage->law, stage->law_line, &law);
	if (failed)
		return failed;
	if (law != NULL) {
		params = weir_mem_zalloc(law->params_bytes + 1);
		if (params == NULL)
			return weir_error_set(-ENOMEM, "out of memory");
		weir_law_defaults(law, params);
	}
	failed = set_params(scenario, stage, law, params);
	if (!failed && law != NULL && weir_law_check(law, params) < 0) {
		char why[300];
		snprintf(why, sizeof why, "%s", weir_error());
		failed = weir_scenario_wrong(scenario, stage->law_line, "%s", why);
	}
	if (failed) {
		weir_mem_free(params);
		return failed;
	}
	*ret_law = law;
	*ret_params = params;
	return 0;
}

static int try_law(const weir_scenario *scenario, const weir_scenario_stage *stage)
{
	const weir_admission_law *law;
	void *params = NULL;
	int failed = weir_scenario_law_of(scenario, stage, &law, &params);
	weir_mem_free(params);
	return failed;
}

/* ---- stages and types ---- */

uint64_t weir_scenario_target_ns(const weir_scenario_stage *stage, unsigned klass)
{
	uint64_t target = 0;
	for (unsigned k = 0; k <= klass; k++)
		target = stage->target_ns[k] != 0 ? stage->target_ns[k] : target;
	return target;
}

/* By default a pool has one worker, and a reactor passes everything on. */
static int check_workers(const weir_scenario *scenario, weir_scenario_stage *stage)
{
	stage->unbounded = stage->threads != 0 && stage->workers == 0;
	if (stage->unbounded && stage->service.mean != 0)
		return weir_scenario_wrong(
			scenario, stage->line,
			"[stage %s] has threads and a service of its own, so it needs 'workers = COUNT'",
			stage->name);
	if (stage->workers == 0)
		stage->workers = stage->unbounded ? 4096 : 1;
	if (stage->workers < stage->threads)
		return weir_scenario_wrong(scenario, stage->line,
					   "[stage %s] needs at least as many workers as threads: each has "
					   "its share of them",
					   stage->name);
	return 0;
}

static int check_stage(weir_scenario *scenario, weir_scenario_stage *stage)
{
	int failed =
		find_shares(scenario, stage->next, stage->next_count, stage->next_line, find_stage, "stage");
	if (failed)
		return failed;
	if (stage->backend[0] != '\0') {
		stage->backend_index = find_backend(scenario, stage->backend);
		if (stage->backend_index < 0)
			return weir_scenario_wrong(scenario, stage->backend_line,
						   "there is no [backend %s] in this scenario",
						   stage->backend);
		if (stage->work.mean == 0)
			return weir_scenario_wrong(scenario, stage->backend_line,
						   "a stage with a backend needs 'work = DISTRIBUTION MEAN': "
						   "what it asks of it");
	} else if (stage->work.mean != 0) {
		return weir_scenario_wrong(scenario, stage->line,
					   "'work' is for a backend; name it with 'backend = NAME'");
	}
	if (stage->service.mean == 0 && stage->backend_index < 0)
		return weir_scenario_wrong(scenario, stage->line,
					   "[stage %s] needs 'service = DISTRIBUTION MEAN', or a backend",
					   stage->name);
	failed = check_workers(scenario, stage);
	if (failed)
		return failed;
	for (const weir_scenario_stage *other = scenario->stage; stage->pool[0] != '\0' && other < stage;
	     other++)
		if (strcmp(other->pool, stage->pool) == 0 && other->workers != stage->workers)
			return weir_scenario_wrong(scenario, stage->line,
						   "[stage %s] and [stage %s] share pool '%s': they need the "
						   "same 'workers', which are the pool's",
						   other->name, stage->name, stage->pool);
	return try_law(scenario, stage);
}

/* A type without a stage enters at the first one. */
static int check_type(weir_scenario *scenario, weir_scenario_type *type)
{
	type->stage_index = type->stage[0] == '\0' ? 0 : find_stage(scenario, type->stage);
	if (type->stage_index < 0)
		return weir_scenario_wrong(scenario, type->line, "there is no [stage %s] in this scenario",
					   type->stage);
	return 0;
}

static int check_backend(const weir_scenario *scenario, const weir_scenario_backend *backend)
{
	if ((backend->options.thrash_by > 0) == (backend->options.thrash_from > 0))
		return 0;
	return weir_scenario_wrong(scenario, backend->line,
				   "thrash_from and thrash_by go together: beyond so many jobs, by so much");
}

/* ---- loads ---- */

static int own_type(weir_scenario *scenario, weir_scenario_load *load)
{
	if (scenario->types == WEIR_SCENARIO_TYPES)
		return weir_scenario_wrong(scenario, load->line,
					   "too many types; at most %d are accepted, those of loads included",
					   WEIR_SCENARIO_TYPES);
	weir_scenario_type *type = &scenario->type[scenario->types++];
	*type = (weir_scenario_type){.line = load->line, .cost = load->cost, .klass = -1};
	memcpy(type->name, load->name, sizeof type->name);
	memcpy(type->stage, load->stage, sizeof type->stage);
	load->mix_count = 1;
	load->mix[0] = (weir_share){.share = 1};
	memcpy(load->mix[0].name, load->name, sizeof load->name);
	return check_type(scenario, type);
}

static int check_row(const weir_scenario *scenario, weir_scenario_load *load, unsigned row)
{
	weir_chain_row *at = &load->chain[row];
	at->type = find_type(scenario, at->name);
	if (at->type < 0)
		return weir_scenario_wrong(scenario, at->line, "there is no [type %s] in this scenario",
					   at->name);
	load->row_of_type[at->type] = (int)row;
	return find_shares(scenario, at->to, at->count, at->line, find_type, "type");
}

/* Every type that a user can reach must have a row that says what follows. */
static int check_chain(const weir_scenario *scenario, weir_scenario_load *load)
{
	for (unsigned t = 0; t < WEIR_SCENARIO_TYPES; t++)
		load->row_of_type[t] = -1;
	for (unsigned i = 0; i < load->chain_count; i++) {
		int failed = check_row(scenario, load, i);
		if (failed)
			return failed;
	}
	if (load->chain_count > 0 && load->chain[0].back)
		return weir_scenario_wrong(scenario, load->chain[0].line,
					   "users begin with this type, so there is no way back from it");
	for (unsigned i = 0; i < load->chain_count; i++)
		for (unsigned j = 0; j < load->chain[i].count; j++)
			if (load->row_of_type[load->chain[i].to[j].index] < 0)
				return weir_scenario_wrong(scenario, load->chain[i].line,
							   "what comes after '%s'? Add 'after %s = ...'",
							   load->chain[i].to[j].name,
							   load->chain[i].to[j].name);
	return 0;
}

static int check_form(const weir_scenario *scenario, const weir_scenario_load *load)
{
	if (load->form == WEIR_LOAD_TRACE && load->file[0] == '\0')
		return weir_scenario_wrong(
			scenario, load->line,
			"a trace needs 'file = PATH', of a CSV with the seconds of each arrival");
	if (load->form == WEIR_LOAD_CLOSED && (load->users_line == 0 || load->rate_line != 0))
		return weir_scenario_wrong(scenario, load->rate_line ? load->rate_line : load->line,
					   "closed users need 'users = NUMBER over time' and no rate");
	if (load->form < WEIR_LOAD_CLOSED && load->rate.entries == 0)
		return weir_scenario_wrong(scenario, load->line, "[load %s] needs 'rate = NUMBER over time'",
					   load->name);
	if (load->form != WEIR_LOAD_CLOSED && load->users_line != 0)
		return weir_scenario_wrong(scenario, load->users_line,
					   "'users' are for arrivals = closed; others have a rate");
	if (load->chain_count > 0 && load->form != WEIR_LOAD_CLOSED)
		return weir_scenario_wrong(
			scenario, load->chain[0].line,
			"only users (arrivals = closed) go from one type to the next; others have a mix");
	if (load->together > 1 && load->form == WEIR_LOAD_CLOSED)
		return weir_scenario_wrong(
			scenario, load->line,
			"users ask for one thing at a time; 'together' is for other arrivals");
	if (load->chain_count > 0 && load->mix_count > 0)
		return weir_scenario_wrong(scenario, load->mix_line,
					   "a load has a mix or a chain of types, not both");
	return 0;
}

static int check_load(weir_scenario *scenario, weir_scenario_load *load)
{
	int failed = check_form(scenario, load);
	if (!failed && load->mix_count == 0 && load->chain_count == 0)
		failed = own_type(scenario, load);
	if (!failed)
		failed = find_shares(scenario, load->mix, load->mix_count, load->mix_line, find_type, "type");
	return failed ? failed : check_chain(scenario, load);
}

/* ---- the demand at each place ---- */

typedef struct demand {
	/* Of one request, on average. */
	double stage_ns[WEIR_SCENARIO_STAGES], backend_ns[WEIR_SCENARIO_BACKENDS];
} demand;

/*
 * Follows a request of this cost from a stage on, weighted by the probability that it gets there. There
 * is no cycle: that was checked before.
 */
static void follow(weir_scenario *scenario, int at, double probability, double cost, demand *sum)
{
	weir_scenario_stage *stage = &scenario->stage[at];
	stage->used = true;
	sum->stage_ns[at] += probability * stage->service.mean * cost;
	if (stage->backend_index >= 0) {
		scenario->backend[stage->backend_index].used = true;
		sum->backend_ns[stage->backend_index] += probability * stage->work.mean * cost;
	}
	for (unsigned i = 0; i < stage->next_count; i++)
		follow(scenario, stage->next[i].index, probability * stage->next[i].share, cost, sum);
}

static int check_path(const weir_scenario *scenario, int at, unsigned length)
{
	const weir_scenario_stage *stage = &scenario->stage[at];
	if (length > WEIR_SCENARIO_PATH)
		return weir_scenario_wrong(
			scenario, stage->next_line ? stage->next_line : stage->line,
			"a request passes more than %d stages, or goes in circles; at most %d are accepted",
			WEIR_SCENARIO_PATH, WEIR_SCENARIO_PATH);
	for (unsigned i = 0; i < stage->next_count; i++) {
		int failed = check_path(scenario, stage->next[i].index, length + 1);
		if (failed)
			return failed;
	}
	return 0;
}

/* The work of one request for this stage's workers, in all stages that share them. */
static double pool_ns(const weir_scenario *scenario, const demand *sum, unsigned at)
{
	const char *pool = scenario->stage[at].pool;
	double ns = sum->stage_ns[at];
	for (unsigned i = 0; i < scenario->stages; i++)
		if (i != at && pool[0] != '\0' && strcmp(scenario->stage[i].pool, pool) == 0)
			ns += sum->stage_ns[i];
	return ns;
}

/* Requests per second that the bottleneck on the way can serve. 0: unknown. */
static double capacity_of(const weir_scenario *scenario, const demand *sum)
{
	double longest_ns = 0;
	for (unsigned i = 0; i < scenario->stages; i++)
		longest_ns = fmax(longest_ns, pool_ns(scenario, sum, i) / scenario->stage[i].workers);
	for (unsigned i = 0; i < scenario->backends; i++) {
		const weir_backend_options *options = &scenario->backend[i].options;
		longest_ns = fmax(longest_ns, sum->backend_ns[i] / options->workers);
		longest_ns = fmax(longest_ns, sum->backend_ns[i] * options->lock);
	}
	return longest_ns > 0 ? 1e9 / longest_ns : 0;
}

/* Whether there are so many requests that the run would practically never end. */
static bool never_ends(const weir_scenario *scenario, const weir_scenario_load *load)
{
	double area = REQUESTS_MAX;
	if (weir_profile_peak(&load->rate) == 0)
		return false;
	return weir_profile_after(&load->rate, 1, 0, scenario->duration_ns, &area) < scenario->duration_ns;
}

static int check_rate(weir_scenario *scenario, weir_scenario_load *load)
{
	demand sum;
	memset(&sum, 0, sizeof sum);
	for (unsigned i = 0; i < load->mix_count; i++) {
		weir_scenario_type *type = &scenario->type[load->mix[i].index];
		type->used = true;
		follow(scenario, type->stage_index, load->mix[i].share, type->cost, &sum);
	}
	load->capacity_per_s = capacity_of(scenario, &sum);
	for (unsigned i = 0; i < load->chain_count; i++) {
		weir_scenario_type *type = &scenario->type[load->chain[i].type];
		type->used = true;
		follow(scenario, type->stage_index, 0, type->cost, &sum);
	}
	bool users = load->form == WEIR_LOAD_CLOSED;
	if (weir_profile_resolve(&load->rate, users ? 0 : load->capacity_per_s) < 0)
		return weir_scenario_wrong(scenario, users ? load->users_line : load->rate_line, "%s",
					   weir_error());
	if (!users && never_ends(scenario, load))
		return weir_scenario_wrong(scenario, load->rate_line,
					   "more than %g requests would come; accepted is a lower rate, or a "
					   "shorter duration",
					   REQUESTS_MAX);
	if (users && weir_profile_peak(&load->rate) > 1e6)
		return weir_scenario_wrong(scenario, load->users_line, "at most 1000000 users are accepted");
	return 0;
}

/* ---- targets ---- */

/* The cheapest request of each class that reaches a stage; 0: none does. */
static void find_cheapest(const weir_scenario *scenario, int at, unsigned klass, double cost,
			  double cheapest[][WEIR_CLASSES])
{
	double *place = &cheapest[at][klass];
	*place = *place == 0 ? cost : fmin(*place, cost);
	const weir_scenario_stage *stage = &scenario->stage[at];
	for (unsigned i = 0; i < stage->next_count; i++)
		find_cheapest(scenario, stage->next[i].index, klass, cost, cheapest);
}

static void find_cheapest_of(const weir_scenario *scenario, const weir_scenario_load *load, int type_index,
			     double cheapest[][WEIR_CLASSES])
{
	const weir_scenario_type *type = &scenario->type[type_index];
	unsigned klass = type->klass >= 0 ? (unsigned)type->klass : load->klass;
	find_cheapest(scenario, type->stage_index, klass, type->cost, cheapest);
}

/*
 * The minimum that no law can change: the same quantile of the service time, or of the work behind it,
 * with nothing waiting.
 */
static double least_ns(const weir_scenario *scenario, const weir_scenario_stage *stage, double cost)
{
	double least = 0;
	if (stage->service.mean > 0)
		least = weir_dist_quantile(&stage->service, stage->quantile) * cost * stage->degrade;
	if (stage->backend_index >= 0) {
		double work = weir_dist_quantile(&stage->work, stage->quantile) * cost * stage->degrade;
		work += (double)scenario->backend[stage->backend_index].options.round_trip_ns;
		least = fmax(least, work);
	}
	return least;
}

/* Rounded up to three digits, so that the value suggested in a message is accepted. */
static uint64_t round_up(double ns)
{
	double digit = pow(10, floor(log10(ns)) - 2);
	return (uint64_t)(ceil(ns / digit) * digit + 0.5);
}

static const char *unit_for(double ns)
{
	return ns < 1e6 ? "us" : ns < 1e9 ? "ms" : "s";
}

static int check_target(const weir_scenario *scenario, const weir_scenario_stage *stage,
			const double *cheapest)
{
	char percentile[32], target[32], service[32];
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		uint64_t target_ns = weir_scenario_target_ns(stage, k);
		if (cheapest[k] == 0 || target_ns == 0)
			continue;
		double least = least_ns(scenario, stage, cheapest[k]);
		if ((double)target_ns >= least)
			continue;
		weir_text_print_percentile(percentile, sizeof percentile, stage->quantile);
		weir_text_print_time(target, sizeof target, target_ns, "");
		weir_text_print_time(service, sizeof service, round_up(least), unit_for(least));
		return weir_scenario_wrong(scenario, stage->target_line,
					   "%s = %s is impossible for [stage %s]: the %s of its service time "
					   "alone is %s; accepted "
					   "is that or more",
					   percentile, target, stage->name, percentile, service);
	}
	return 0;
}

static void find_all_cheapest(const weir_scenario *scenario, double cheapest[][WEIR_CLASSES])
{
	memset(cheapest, 0, WEIR_SCENARIO_STAGES * sizeof *cheapest);
	for (unsigned i = 0; i < scenario->loads; i++) {
		const weir_scenario_load *load = &scenario->load[i];
		for (unsigned j = 0; j < load->mix_count; j++)
			find_cheapest_of(scenario, load, load->mix[j].index, cheapest);
		for (unsigned j = 0; j < load->chain_count; j++)
			find_cheapest_of(scenario, load, load->chain[j].type, cheapest);
	}
}

static int check_targets(const weir_scenario *scenario)
{
	double cheapest[WEIR_SCENARIO_STAGES][WEIR_CLASSES];
	find_all_cheapest(scenario, cheapest);
	for (unsigned i = 0; i < scenario->stages; i++) {
		int failed = check_target(scenario, &scenario->stage[i], cheapest[i]);
		if (failed)
			return failed;
	}
	return 0;
}

/* ---- changes ---- */

static int by_time(const void *a, const void *b)
{
	const weir_scenario_change *one = a, *other = b;
	if (one->at_ns != other->at_ns)
		return one->at_ns < other->at_ns ? -1 : 1;
	return one->set.line < other->set.line ? -1 : one->set.line > other->set.line;
}

static int read_speed(const weir_scenario *scenario, weir_scenario_change *change)
{
	double least = change->backend >= 0 ? 0 : 1e-6;
	change->of_speed = true;
	if (weir_text_number(change->set.value, &change->speed) == 0 && change->speed >= least &&
	    change->speed <= 1e6)
		return 0;
	return weir_scenario_wrong(scenario, change->set.line,
				   "speed = %s: must be a number from %g to 1e+06, 1 being as made",
				   change->set.value, least);
}

/*
 * Changes of speed and service times may put a target out of reach: runs exist to show that. A target
 * that is set out of reach is a mistake.
 */
static int check_new_target(const weir_scenario *scenario, const weir_scenario_change *change,
			    const weir_scenario_stage *stage)
{
	double cheapest[WEIR_SCENARIO_STAGES][WEIR_CLASSES];
	bool aims = false;
	for (unsigned i = 0; i < scenario->changes; i++) {
		const weir_scenario_change *other = &scenario->change[i];
		aims = aims || (other->at_ns == change->at_ns && strcmp(other->name, change->name) == 0 &&
				weir_scenario_concerns_target(other->set.key));
	}
	if (!aims)
		return 0;
	find_all_cheapest(scenario, cheapest);
	return check_target(scenario, stage, cheapest[change->stage]);
}

static int check_change(const weir_scenario *scenario, weir_scenario_change *change,
			weir_scenario_stage *stages)
{
	static const char *const fixed[] = {"workers",      "threads", "pool",    "capacity", "order",
					    "newest_after", "next",    "backend", "degrade",  "heeds"};
	const weir_setting *set = &change->set;
	change->stage = find_stage(scenario, change->name);
	change->backend = find_backend(scenario, change->name);
	if (change->stage < 0 && change->backend < 0)
		return weir_scenario_wrong(scenario, set->line,
					   "there is no stage or backend '%s' in this scenario",
					   change->name);
	if (strcmp(set->key, "speed") == 0)
		return read_speed(scenario, change);
	bool later = change->backend < 0;
	for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
		later = later && strcmp(set->key, fixed[i]) != 0;
	if (!later)
		return weir_scenario_wrong(scenario, set->line,
					   "'%s' cannot change while it runs; accepted are speed, and of "
					   "stages service, work, law, "
					   "mode, ceiling, and what the law takes",
					   set->key);
	weir_scenario_stage *stage = &stages[change->stage];
	int failed = weir_scenario_stage_set(scenario, stage, set);
	if (!failed && change->last)
		failed = try_law(scenario, stage);
	return failed || !change->last ? failed : check_new_target(scenario, change, stage);
}

/* A law and its parameters take several lines, and a law is only applied with all of them. */
static void mark_last(weir_scenario *scenario)
{
	for (unsigned i = 0; i < scenario->changes; i++) {
		weir_scenario_change *change = &scenario->change[i];
		change->last = true;
		for (unsigned j = i + 1; j < scenario->changes && scenario->change[j].at_ns == change->at_ns;
		     j++)
			if (strcmp(scenario->change[j].name, change->name) == 0 &&
			    strcmp(scenario->change[j].set.key, "speed") != 0)
				change->last = false;
	}
}

static int check_changes(weir_scenario *scenario)
{
	weir_scenario_stage *stages = weir_mem_array(WEIR_SCENARIO_STAGES, sizeof *stages);
	int failed = 0;
	if (stages == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	memcpy(stages, scenario->stage, sizeof scenario->stage);
	qsort(scenario->change, scenario->changes, sizeof *scenario->change, by_time);
	mark_last(scenario);
	for (unsigned i = 0; i < scenario->changes && !failed; i++)
		failed = check_change(scenario, &scenario->change[i], stages);
	weir_mem_free(stages);
	return failed;
}

/* ---- the whole scenario ---- */

/* About two hundred windows, of a length that people would choose: 1, 2, 2.5 or 5 times a power of ten. */
static uint64_t usual_window(uint64_t duration_ns)
{
	static const uint64_t parts[] = {4, 8, 10, 20}; /* in quarters */
	uint64_t power = 10 * WEIR_NS_PER_MS;
	for (unsigned i = 0;; i = (i + 1) % 4) {
		uint64_t window = power / 4 * parts[i];
		if (window * 240 >= duration_ns)
			return window;
		power *= i == 3 ? 10 : 1;
	}
}

static int check_times(weir_scenario *scenario)
{
	if (scenario->warmup_ns >= scenario->duration_ns)
		return weir_scenario_wrong(scenario, scenario->duration_line ? scenario->duration_line : 1,
					   "the warmup must be shorter than the duration");
	if (scenario->window_ns == 0)
		scenario->window_ns = usual_window(scenario->duration_ns);
	if (scenario->duration_ns / scenario->window_ns > WINDOWS_MAX)
		return weir_scenario_wrong(scenario, scenario->duration_line ? scenario->duration_line : 1,
					   "at most %d windows fit into a run; accepted is a longer window",
					   WINDOWS_MAX);
	return 0;
}

#define EACH(array, count, check)                                 \
	for (unsigned i = 0; i < scenario->count && !failed; i++) \
	failed = check(scenario, &scenario->array[i])

int weir_scenario_check(weir_scenario *scenario)
{
	int failed = check_times(scenario);
	if (!failed && scenario->stages == 0)
		failed = weir_scenario_wrong(scenario, 1, "there is no [stage NAME]; a scenario needs one");
	if (!failed && scenario->loads == 0)
		failed = weir_scenario_wrong(scenario, 1, "there is no [load NAME]; a scenario needs one");
	EACH(backend, backends, check_backend);
	EACH(stage, stages, check_stage);
	EACH(type, types, check_type);
	EACH(load, loads, check_load);
	for (unsigned i = 0; i < scenario->stages && !failed; i++)
		failed = check_path(scenario, (int)i, 1);
	EACH(load, loads, check_rate);
	if (!failed)
		failed = check_targets(scenario);
	return failed ? failed : check_changes(scenario);
}
