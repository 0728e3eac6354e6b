/* SPDX-License-Identifier: Apache-2.0 */
/* When requests arrive, and users. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "sim/load_inside.h"

#define RAMP_STEP_NS (10 * WEIR_NS_PER_MS)

/* ---- open loads ---- */

static double next_area(struct load *load)
{
	double mean = load->as->together; /* the rate counts requests, not groups */
	return load->as->form == WEIR_LOAD_CONSTANT ? mean : weir_random_exponential(&load->random, mean);
}

/* Time stands still between bursts. Within them the rate is raised so that its average is as written. */
static uint64_t next_in_burst(struct load *load, uint64_t now, double area)
{
	uint64_t end = load->loads->scenario->duration_ns;
	double times = (double)(load->as->on_ns + load->as->off_ns) / (double)load->as->on_ns;
	while (now < end) {
		if (now >= load->on_until_ns) {
			now += (uint64_t)weir_random_exponential(&load->random, (double)load->as->off_ns) + 1;
			load->on_until_ns =
				now +
				(uint64_t)weir_random_exponential(&load->random, (double)load->as->on_ns) + 1;
		}
		now = weir_profile_after(&load->as->rate, times, now, load->on_until_ns, &area);
		if (area <= 0)
			return now;
	}
	return end;
}

static uint64_t next_arrival(struct load *load, uint64_t now)
{
	double area = next_area(load);
	if (load->as->form == WEIR_LOAD_TRACE)
		return load->next < load->times ? load->times_ns[load->next++] : UINT64_MAX;
	if (load->as->form == WEIR_LOAD_BURST)
		return next_in_burst(load, now, area);
	return weir_profile_after(&load->as->rate, 1, now, load->loads->scenario->duration_ns, &area);
}

static void schedule(struct load *load)
{
	uint64_t at = next_arrival(load, weir_load_now(load->loads));
	if (at < load->loads->scenario->duration_ns)
		weir_load_timer(load->loads, &load->timer, at);
}

static void arrive(weir_timer *timer, void *arg)
{
	struct load *load = arg;
	(void)timer;
	schedule(load);
	unsigned type = weir_shares_draw(&load->as->mix, &load->random);
	if (load->as->together > 1)
		weir_load_attempt_together(load, type);
	else
		weir_load_attempt(load, type, NULL);
}

/* ---- users ---- */

static unsigned first_type(struct load *load)
{
	if (load->as->chain_count > 0)
		return (unsigned)load->as->chain[0].type;
	return weir_shares_draw(&load->as->mix, &load->random);
}

static unsigned next_type(struct load *load, const user *who)
{
	if (load->as->chain_count == 0)
		return weir_shares_draw(&load->as->mix, &load->random);
	const weir_chain_row *row = &load->as->chain[load->as->row_of_type[who->type]];
	return row->back ? who->before : weir_shares_draw(&row->to, &load->random);
}

static void ask(weir_timer *timer, void *arg)
{
	user *who = arg;
	(void)timer;
	if (who - who->load->users >= who->load->wanted) {
		who->active = false;
		return;
	}
	weir_load_attempt(who->load, who->type, who);
}

static void wait_then_ask(user *who, double ns)
{
	weir_loads *loads = who->load->loads;
	weir_load_timer(loads, &who->timer, weir_load_now(loads) + (uint64_t)ns + 1);
}

void weir_load_answered(user *who, bool served)
{
	struct load *load = who->load;
	if (!served) {
		who->type = who->before = (uint8_t)first_type(load);
		wait_then_ask(who, (double)load->as->rejected_wait_ns);
		return;
	}
	unsigned next = next_type(load, who);
	who->completed++;
	who->before = who->type;
	who->type = (uint8_t)next;
	wait_then_ask(who, weir_dist_draw(&load->as->think, &load->random));
}

/* New users begin within one think time, not all at the same instant. */
static void wake_user(user *who)
{
	if (who->active)
		return;
	who->active = true;
	who->type = who->before = (uint8_t)first_type(who->load);
	wait_then_ask(who, weir_random_unit(&who->load->random) * who->load->as->think.mean);
}

static uint64_t next_change_ns(const weir_profile *profile, uint64_t now)
{
	uint64_t at;
	for (unsigned i = 0; (at = weir_profile_change(profile, i)) != UINT64_MAX && at <= now; i++)
		;
	double ahead = weir_profile_at(profile, now + 1), next = weir_profile_at(profile, now);
	return ahead != next && now + RAMP_STEP_NS < at ? now + RAMP_STEP_NS : at;
}

static void count_users(weir_timer *timer, void *arg)
{
	struct load *load = arg;
	uint64_t now = weir_load_now(load->loads), next = next_change_ns(&load->as->rate, now);
	unsigned wanted = (unsigned)(weir_profile_at(&load->as->rate, now) + 0.5);
	load->wanted = wanted < load->user_count ? wanted : load->user_count;
	for (unsigned i = 0; i < load->wanted; i++)
		wake_user(&load->users[i]);
	if (next < load->loads->scenario->duration_ns)
		weir_load_timer(load->loads, timer, next);
}

static int make_users(struct load *load)
{
	load->user_count = (unsigned)(weir_profile_peak(&load->as->rate) + 0.5);
	load->users = weir_mem_array(load->user_count + 1, sizeof *load->users);
	if (load->users == NULL)
		return weir_error_set(-ENOMEM, "out of memory: %u users", load->user_count);
	for (unsigned i = 0; i < load->user_count; i++) {
		load->users[i].load = load;
		weir_timer_init(&load->users[i].timer, ask, &load->users[i]);
	}
	return 0;
}

/* ---- all loads ---- */

/* If the entry stage has no target, that of the next stage which has one. */
static uint64_t target_on_way(const weir_scenario *scenario, int at, unsigned klass)
{
	for (;;) {
		const weir_scenario_stage *stage = &scenario->stage[at];
		uint64_t target = weir_scenario_target_ns(stage, klass);
		if (target != 0 || stage->next.count == 0)
			return target;
		at = stage->next.at[0].index;
	}
}

static void find_targets(struct load *load)
{
	const weir_scenario *scenario = load->loads->scenario;
	for (unsigned t = 0; t < scenario->types; t++) {
		const weir_scenario_type *type = &scenario->type[t];
		unsigned klass = weir_scenario_class(load->as, type);
		load->target_ns[t] = load->as->target_ns != 0
					     ? load->as->target_ns
					     : target_on_way(scenario, type->stage_index, klass);
	}
}

/* A relative path is relative to the scenario. */
static int read_trace(struct load *load)
{
	char path[1200];
	const char *own = load->loads->scenario->path, *slash = strrchr(own, '/');
	int folder = load->as->file[0] == '/' || slash == NULL ? 0 : (int)(slash - own + 1);
	snprintf(path, sizeof path, "%.*s%s", folder, own, load->as->file);
	if (weir_load_trace(path, load->as->faster, &load->times_ns, &load->times) == 0)
		return 0;
	return weir_section_wrong(own, weir_section_line(load->as, "file"), "%s", weir_error());
}

static int make_load(weir_loads *loads, unsigned i, uint64_t seed)
{
	struct load *load = &loads->load[i];
	load->loads = loads;
	load->as = &loads->scenario->load[i];
	weir_random_init(&load->random, seed);
	find_targets(load);
	weir_timer_init(&load->timer, load->as->form == WEIR_LOAD_CLOSED ? count_users : arrive, load);
	if (load->as->form == WEIR_LOAD_TRACE)
		return read_trace(load);
	return load->as->form == WEIR_LOAD_CLOSED ? make_users(load) : 0;
}

int weir_loads_new(const weir_scenario *scenario, weir_world *world, uint64_t seed, weir_topology *topology,
		   weir_record *record, weir_loads **ret_loads)
{
	weir_loads *loads = weir_mem_zalloc(sizeof *loads);
	int failed = 0;
	if (loads == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	loads->scenario = scenario;
	loads->world = world;
	loads->topology = topology;
	loads->record = record;
	for (unsigned i = 0; i < scenario->loads && !failed; i++)
		failed = make_load(loads, i, seed + 1000003 * (i + 1));
	if (failed)
		weir_loads_free(&loads);
	*ret_loads = loads;
	return failed;
}

void weir_loads_start(weir_loads *loads)
{
	for (unsigned i = 0; i < loads->scenario->loads; i++) {
		struct load *load = &loads->load[i];
		if (load->as->form == WEIR_LOAD_CLOSED)
			weir_load_timer(loads, &load->timer, 0);
		else
			schedule(load);
	}
}

/* Jain's index: 1 if all had the same, 1/n if one had everything. */
int weir_loads_finish(weir_loads *loads)
{
	double sum = 0, squares = 0, count = 0;
	for (unsigned i = 0; i < loads->scenario->loads; i++)
		for (unsigned j = 0; j < loads->load[i].user_count; j++) {
			double had = (double)loads->load[i].users[j].completed;
			sum += had;
			squares += had * had;
			count++;
		}
	loads->record->user_fairness = squares > 0 ? sum * sum / (count * squares) : 0;
	return loads->out_of_memory
		       ? weir_error_set(-ENOMEM, "out of memory: too many requests inside at once")
		       : 0;
}

void weir_loads_free(weir_loads **ref)
{
	weir_loads *loads = *ref;
	if (loads == NULL)
		return;
	for (unsigned i = 0; i < WEIR_SCENARIO_LOADS; i++) {
		weir_mem_free(loads->load[i].users);
		weir_mem_free(loads->load[i].times_ns);
	}
	while (loads->chunks != NULL) {
		chunk *next = loads->chunks->next;
		weir_mem_free(loads->chunks);
		loads->chunks = next;
	}
	weir_mem_free(loads);
	*ref = NULL;
}

uint64_t weir_loads_lost(const weir_loads *loads)
{
	return loads->lost;
}
