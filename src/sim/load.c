/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/load.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

enum { CHUNK = 512 };
#define RAMP_STEP_NS (10 * WEIR_NS_PER_MS)

typedef struct user {
	struct load *load;
	weir_timer timer;
	uint64_t completed;
	uint8_t type, before; /* of the current request, and of the one before it */
	bool active;
} user;

struct load {
	weir_loads *loads;
	const weir_scenario_load *as;
	weir_random random;
	weir_timer timer; /* for the next arrival, or the next change of the number of users */
	uint64_t target_ns[WEIR_SCENARIO_TYPES];
	/* burst */
	uint64_t on_until_ns;
	/* trace */
	uint64_t *times_ns;
	size_t times, next;
	/* users */
	user *users;
	unsigned user_count, wanted;
};

typedef struct chunk {
	struct chunk *next;
	weir_request request[CHUNK];
} chunk;

struct weir_loads {
	const weir_scenario *scenario;
	weir_world *world;
	weir_topology *topology;
	weir_record *record;
	struct load load[WEIR_SCENARIO_LOADS];
	chunk *chunks;
	weir_request *free;
	uint64_t lost;
	bool out_of_memory;
};

static uint64_t now_of(const weir_loads *loads)
{
	return weir_world_now(loads->world) - WEIR_NS_PER_S;
}

static void start_timer(weir_loads *loads, weir_timer *timer, uint64_t at_ns)
{
	weir_sim_timer(loads->world, timer, at_ns + WEIR_NS_PER_S);
}

/* ---- requests ---- */

static void grow(weir_loads *loads)
{
	chunk *more = weir_mem_zalloc(sizeof *more);
	if (more == NULL)
		return;
	more->next = loads->chunks;
	loads->chunks = more;
	for (unsigned i = 0; i < CHUNK; i++) {
		more->request[i].next_free = loads->free;
		loads->free = &more->request[i];
	}
}

static weir_request *take(struct load *load)
{
	weir_loads *loads = load->loads;
	if (loads->free == NULL)
		grow(loads);
	weir_request *request = loads->free;
	if (request == NULL) {
		loads->out_of_memory = true;
		return NULL;
	}
	loads->free = request->next_free;
	request->load = load;
	request->user = NULL;
	request->attempt = 0;
	request->gone = false;
	request->exempt = load->as->exempt;
	return request;
}

static void give_back(weir_request *request)
{
	weir_loads *loads = request->load->loads;
	request->next_free = loads->free;
	loads->free = request;
}

static unsigned choose(struct load *load, const weir_share *shares, unsigned count)
{
	if (count == 1)
		return (unsigned)shares[0].index;
	double at = weir_random_unit(&load->random);
	for (unsigned i = 0; i + 1 < count; i++) {
		at -= shares[i].share;
		if (at < 0)
			return (unsigned)shares[i].index;
	}
	return (unsigned)shares[count - 1].index;
}

static void of_type(weir_request *request, unsigned type)
{
	const weir_scenario_type *as = &request->load->loads->scenario->type[type];
	request->type = (uint8_t)type;
	request->cost = as->cost;
	request->klass = (uint8_t)(as->klass >= 0 ? as->klass : request->load->as->klass);
}

/* ---- attempts ---- */

static void attempt(weir_request *request);
static void user_answered(user *who, bool served);

static void try_again(weir_timer *timer, void *arg)
{
	(void)timer;
	attempt(arg);
}

/* How long the client waits before the next attempt. */
static uint64_t back_off_ns(const weir_request *request, uint64_t retry_after_ns)
{
	const weir_scenario_load *as = request->load->as;
	double ns = (double)as->backoff_ns * pow(as->backoff_factor, request->attempt);
	ns = fmin(ns, (double)as->backoff_max_ns);
	ns *= 1 + as->jitter * (2 * weir_random_unit(&request->load->random) - 1);
	if (as->honours && (double)retry_after_ns > ns)
		ns = (double)retry_after_ns;
	return (uint64_t)ns + 1;
}

/* The attempt failed, and the client owns the request again: it retries or gives up. */
static void rejected(weir_request *request, uint64_t retry_after_ns)
{
	weir_loads *loads = request->load->loads;
	if (request->attempt < request->load->as->retries) {
		uint64_t delay = back_off_ns(request, retry_after_ns);
		request->attempt++;
		weir_timer_init(&request->timer, try_again, request);
		start_timer(loads, &request->timer, now_of(loads) + delay);
		return;
	}
	user *who = request->user;
	loads->lost++;
	give_back(request);
	if (who != NULL)
		user_answered(who, false);
}

/* The client leaves, and takes another request for what it does next. */
static void run_out(weir_timer *timer, void *arg)
{
	weir_request *request = arg, *next = take(request->load);
	(void)timer;
	request->gone = true;
	if (request->load->as->noticed)
		weir_event_cancel(&request->event);
	if (next == NULL)
		return;
	next->user = request->user;
	next->attempt = request->attempt;
	next->first_ns = request->first_ns;
	of_type(next, request->type);
	request->user = NULL;
	rejected(next, 0);
}

static void ended_for_nobody(weir_request *request, uint64_t now_ns)
{
	weir_topology_account(request, now_ns, WEIR_USED_FOR_NOTHING);
	weir_record_given_up(request->load->loads->record, now_ns, request->klass, request->type);
	give_back(request);
}

static void ended(weir_request *request, weir_ending how)
{
	weir_loads *loads = request->load->loads;
	uint64_t now = now_of(loads);
	weir_timer_stop(&request->patience);
	if (request->gone) {
		ended_for_nobody(request, now);
		return;
	}
	if (how == WEIR_ENDED_DROPPED) {
		weir_record_dropped(loads->record, now, request->klass, request->type);
		weir_topology_account(request, now, WEIR_USED_FOR_NOTHING);
		rejected(request, 0);
		return;
	}
	uint64_t response = now + WEIR_NS_PER_S - request->event.entered_ns;
	bool good = weir_record_completed(loads->record, now, request->klass, request->type, response,
					  request->load->target_ns[request->type]);
	weir_topology_account(request, now, good ? WEIR_USED_WELL : WEIR_USED_LATE);
	user *who = request->user;
	give_back(request);
	if (who != NULL)
		user_answered(who, true);
}

/* The outcome of an offer. */
static void offered(weir_request *request, weir_verdict verdict, uint64_t retry_after_ns)
{
	weir_loads *loads = request->load->loads;
	uint64_t now = now_of(loads), patience = request->load->as->patience_ns;
	if (verdict != WEIR_ADMITTED) {
		weir_record_shed(loads->record, now, request->klass, request->type);
		rejected(request, retry_after_ns);
	} else if (patience != 0) {
		weir_timer_init(&request->patience, run_out, request);
		start_timer(loads, &request->patience, now + patience);
	}
}

static uint64_t retry_after_ns(const struct load *load, weir_verdict verdict)
{
	weir_why why = {0};
	if (verdict != WEIR_ADMITTED && load->as->honours)
		weir_why_shed(&why);
	return why.retry_after_ns;
}

static void attempt(weir_request *request)
{
	weir_loads *loads = request->load->loads;
	request->ended = ended;
	weir_record_offered(loads->record, now_of(loads), request->klass, request->type);
	weir_verdict verdict = weir_topology_enter(loads->topology, request);
	offered(request, verdict, retry_after_ns(request->load, verdict));
}

/* Offers a group, all or none; later attempts are made one by one. */
static void attempt_together(struct load *load, unsigned type)
{
	weir_loads *loads = load->loads;
	weir_request *requests[WEIR_BATCH_MAX];
	unsigned count = 0;
	for (; count < load->as->together && (requests[count] = take(load)) != NULL; count++) {
		requests[count]->ended = ended;
		requests[count]->first_ns = now_of(loads);
		of_type(requests[count], type);
		weir_record_offered(loads->record, now_of(loads), requests[count]->klass, type);
	}
	if (count == 0)
		return;
	weir_verdict verdict = weir_topology_enter_many(loads->topology, requests, count);
	uint64_t after_ns = retry_after_ns(load, verdict);
	for (unsigned i = 0; i < count; i++)
		offered(requests[i], verdict, after_ns);
}

static void first_attempt(struct load *load, unsigned type, user *who)
{
	weir_request *request = take(load);
	if (request == NULL)
		return;
	request->user = who;
	request->first_ns = now_of(load->loads);
	of_type(request, type);
	attempt(request);
}

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
	uint64_t at = next_arrival(load, now_of(load->loads));
	if (at < load->loads->scenario->duration_ns)
		start_timer(load->loads, &load->timer, at);
}

static void arrive(weir_timer *timer, void *arg)
{
	struct load *load = arg;
	(void)timer;
	schedule(load);
	unsigned type = choose(load, load->as->mix, load->as->mix_count);
	if (load->as->together > 1)
		attempt_together(load, type);
	else
		first_attempt(load, type, NULL);
}

/* ---- users ---- */

static unsigned first_type(struct load *load)
{
	if (load->as->chain_count > 0)
		return (unsigned)load->as->chain[0].type;
	return choose(load, load->as->mix, load->as->mix_count);
}

static unsigned next_type(struct load *load, const user *who)
{
	if (load->as->chain_count == 0)
		return choose(load, load->as->mix, load->as->mix_count);
	const weir_chain_row *row = &load->as->chain[load->as->row_of_type[who->type]];
	return row->back ? who->before : choose(load, row->to, row->count);
}

static void ask(weir_timer *timer, void *arg)
{
	user *who = arg;
	(void)timer;
	if (who - who->load->users >= who->load->wanted) {
		who->active = false;
		return;
	}
	first_attempt(who->load, who->type, who);
}

static void wait_then_ask(user *who, double ns)
{
	weir_loads *loads = who->load->loads;
	start_timer(loads, &who->timer, now_of(loads) + (uint64_t)ns + 1);
}

static void user_answered(user *who, bool served)
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
	uint64_t now = now_of(load->loads), next = next_change_ns(&load->as->rate, now);
	unsigned wanted = (unsigned)(weir_profile_at(&load->as->rate, now) + 0.5);
	load->wanted = wanted < load->user_count ? wanted : load->user_count;
	for (unsigned i = 0; i < load->wanted; i++)
		wake_user(&load->users[i]);
	if (next < load->loads->scenario->duration_ns)
		start_timer(load->loads, timer, next);
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
		if (target != 0 || stage->next_count == 0)
			return target;
		at = stage->next[0].index;
	}
}

static void find_targets(struct load *load)
{
	const weir_scenario *scenario = load->loads->scenario;
	for (unsigned t = 0; t < scenario->types; t++) {
		const weir_scenario_type *type = &scenario->type[t];
		unsigned klass = type->klass >= 0 ? (unsigned)type->klass : load->as->klass;
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
	char why[300];
	snprintf(why, sizeof why, "%s", weir_error());
	return weir_scenario_wrong(load->loads->scenario, load->as->file_line, "%s", why);
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
			start_timer(loads, &load->timer, 0);
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
