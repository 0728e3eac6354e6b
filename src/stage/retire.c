/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages and pools that end while the world runs.
 *
 *  in use ──▶ retiring ──▶ unlisted ──▶ freed
 *
 *  retiring   Begins with weir_stage_retire. The stage takes nothing more: its offers are shed as "stopping".
 *             It handles what it has, and is still in every table. A grace period (grace.h) covers the offers
 *             that had found it open: when it is over, all of them have been counted.
 *  unlisted   Begins when the stage is empty and that period is over. It is in no table any more, but keeps
 *             its index and its name. A second grace period covers threads that found it in a table before,
 *             and handlers that have settled their last event and have not returned yet.
 *  freed      Nobody writes the counts any more, so they are checked, and must add up exactly.
 *
 * A pool without stages goes the same way: its threads end, it leaves the table, and it is freed after a
 * grace period.
 *
 * The calling thread takes all steps, under control_lock. No step waits; between them the thread naps. When
 * its time is up it returns, and the next call continues from there. If the world is stopped meanwhile, the
 * caller returns, and the world frees what is left.
 */
#include <errno.h>

#include "base/error.h"
#include "stage/runtime.h"

/* ---- waiting ---- */

#define NAP_NS      20000
#define QUICK_LOOKS 32

/* A stage or a pool that is being retired. */
typedef struct leaving {
	weir_world *world;
	bool (*step)(struct leaving *about); /* advances as far as it can; true: to the end */
	bool (*busy)(void *about);           /* virtual: time must pass first */
	weir_stage *stage;
	weir_domain *domain;
	bool unbalanced;
	weir_retire_report report;
} leaving;

static bool is_running(const weir_world *world)
{
	return atomic_load(&world->phase) <= WEIR_PHASE_RUNNING;
}

static bool await_virtual(leaving *about, uint64_t until_ns)
{
	if (about->step(about))
		return true;
	if (atomic_load(&about->world->phase) == WEIR_PHASE_RUNNING)
		weir_sim_drain(about->world, until_ns, about->busy, about);
	return about->step(about);
}

static bool await(leaving *about, uint64_t timeout_ns)
{
	uint64_t now_ns = weir_world_now(about->world), nap_ns = NAP_NS;
	uint64_t until_ns = timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX;
	if (about->world->sim != NULL)
		return await_virtual(about, until_ns);
	for (unsigned looks = 1; !about->step(about); looks++) {
		if (!is_running(about->world) || !weir_nap(&nap_ns, until_ns))
			return false;
		/* Usually it takes a few turns of the loops, so the naps are short at first. */
		if (looks < QUICK_LOOKS)
			nap_ns = NAP_NS;
	}
	return true;
}

/* ---- a stage ---- */

static bool lanes_are_empty(const weir_stage *stage)
{
	/* An event is in service before it stops waiting, so `waiting` is read first. */
	for (uint32_t i = 0; i < stage->lane_count; i++)
		if (atomic_load(&stage->lanes[i].waiting) != 0 ||
		    atomic_load(&stage->lanes[i].in_service) != 0)
			return false;
	return true;
}

/* Nothing is inside, no ticket holds a place, and nobody waits for one. */
static bool is_empty(weir_stage *stage)
{
	return atomic_load(&stage->waiters) == 0 && lanes_are_empty(stage) &&
	       weir_stage_in_flight(stage) == 0;
}

static bool is_busy(void *about)
{
	return !is_empty(((leaving *)about)->stage);
}

/* The pool's law sees increases of sums over the stages, so the stage leaves the last sums too. */
static void leave_domain_locked(const weir_stage *stage)
{
	weir_domain *domain = stage->domain;
	uint32_t at = 0;
	pthread_mutex_lock(&domain->lock);
	while (domain->stages[at] != stage)
		at++;
	domain->stage_count--;
	for (; at < domain->stage_count; at++)
		domain->stages[at] = domain->stages[at + 1];
	atomic_store(&domain->shared, domain->options.kind == WEIR_ELASTIC && domain->stage_count > 1);
	domain->last_ended -= atomic_load(&stage->terms.ended);
	domain->last_ended_ns -= atomic_load(&stage->terms.ended_ns);
	domain->last_usual_ns -= atomic_load(&stage->terms.usual_ns);
	pthread_mutex_unlock(&domain->lock);
}

static void unlist_locked(weir_stage *stage)
{
	weir_world *world = stage->world;
	atomic_store(&world->stages[stage->index], NULL);
	leave_domain_locked(stage);
	if (stage->options.bound != NULL)
		weir_bound_delist(stage->options.bound, stage);
	stage->leaving = world->leaving;
	world->leaving = stage;
	atomic_store(&stage->unlisted, true);
	atomic_fetch_add(&weir_things_gone, 1);
	stage->grace = weir_grace_ask_locked(world);
}

static void free_index_locked(weir_stage *stage)
{
	weir_stage **at = &stage->world->leaving;
	while (*at != stage)
		at = &(*at)->leaving;
	*at = stage->leaving;
	stage->world->stage_taken[stage->index] = false;
}

/* The last look: from here on only the caller refers to the stage. */
static void close_accounts_locked(leaving *about)
{
	weir_stage *stage = about->stage;
	weir_bound_clear(stage);
	weir_gates_collect_locked(stage);
	about->unbalanced = !weir_stage_check(stage);
	for (unsigned fault = 0; fault < WEIR_FAULT_COUNT; fault++)
		about->report.faults += weir_stage_faults(stage, (weir_fault)fault);
	free_index_locked(stage);
}

static bool step_stage_locked(leaving *about)
{
	weir_stage *stage = about->stage;
	weir_grace_step_locked(about->world);
	if (!weir_grace_over_locked(about->world, stage->grace))
		return false;
	if (!atomic_load(&stage->unlisted)) {
		if (!is_empty(stage))
			return false;
		unlist_locked(stage);
		weir_grace_step_locked(about->world);
	}
	if (!weir_grace_over_locked(about->world, stage->grace))
		return false;
	close_accounts_locked(about);
	return true;
}

static bool step_stage(leaving *about)
{
	pthread_mutex_lock(&about->world->control_lock);
	bool done = step_stage_locked(about);
	pthread_mutex_unlock(&about->world->control_lock);
	return done;
}

static int begin_stage_locked(weir_stage *stage)
{
	weir_world *world = stage->world;
	if (!is_running(world))
		return weir_error_set(-ESHUTDOWN, "stage '%s': the world is stopping or stopped",
				      stage->name);
	if (stage->attended)
		return weir_error_set(-EALREADY, "stage '%s': another thread is retiring it", stage->name);
	stage->attended = true;
	world->retirers++;
	if (atomic_load(&stage->retiring))
		return 0;
	atomic_store(&stage->retiring, true);
	weir_stage_update_open(stage);
	stage->grace = weir_grace_ask_locked(world);
	return 0;
}

static int begin_stage(weir_stage *stage)
{
	pthread_mutex_lock(&stage->world->control_lock);
	int failed = begin_stage_locked(stage);
	pthread_mutex_unlock(&stage->world->control_lock);
	return failed;
}

/* The stage stays, for the next call or for the end of the world. */
static int give_up_stage(leaving *about)
{
	weir_stage *stage = about->stage;
	about->report.inside = weir_stage_in_flight(stage);
	bool empty = is_empty(stage);
	pthread_mutex_lock(&about->world->control_lock);
	stage->attended = false;
	about->world->retirers--;
	pthread_mutex_unlock(&about->world->control_lock);
	if (!is_running(about->world))
		return weir_error_set(-ESHUTDOWN, "stage '%s': the world has been stopped meanwhile",
				      stage->name);
	if (empty)
		return weir_error_set(-ETIMEDOUT,
				      "stage '%s': it is empty, but a handler that may still look at it has "
				      "not returned",
				      stage->name);
	return weir_error_set(-ETIMEDOUT,
			      "stage '%s': %llu events, or places reserved for some, are still in it",
			      stage->name, (unsigned long long)about->report.inside);
}

static int free_stage(const leaving *about)
{
	int failed = 0;
	if (about->unbalanced)
		failed = weir_error_set(-EPROTO, "stage '%s': its counts do not add up", about->stage->name);
	weir_stage_free(about->stage);
	pthread_mutex_lock(&about->world->control_lock);
	about->world->retirers--;
	pthread_mutex_unlock(&about->world->control_lock);
	return failed;
}

/* The rest, once it has begun: from then on no other thread can retire it. */
static int end_stage(weir_stage **where, uint64_t timeout_ns, weir_retire_report *ret_report)
{
	weir_stage *stage = *where;
	leaving about = {.world = stage->world, .step = step_stage, .busy = is_busy, .stage = stage};
	int failed;
	weir_stage_wake_waiters(stage);
	if (await(&about, timeout_ns)) {
		*where = NULL;
		failed = free_stage(&about);
	} else {
		failed = give_up_stage(&about);
	}
	if (ret_report != NULL)
		*ret_report = about.report;
	return failed;
}

int weir_stage_retire(weir_stage **where, uint64_t timeout_ns, weir_retire_report *ret_report)
{
	weir_stage *stage = *where;
	if (stage == NULL)
		return 0;
	int failed = weir_world_check_thread(stage->world, "retire");
	if (failed == 0)
		failed = begin_stage(stage);
	return failed != 0 ? failed : end_stage(where, timeout_ns, ret_report);
}

/* ---- a pool ---- */

static bool never_busy(void *about)
{
	(void)about;
	return false;
}

static void unlist_domain_locked(weir_domain *domain)
{
	weir_world *world = domain->world;
	atomic_store(&world->domains[domain->index], NULL);
	domain->next = world->leaving_domains;
	world->leaving_domains = domain;
	domain->unlisted = true;
	domain->grace = weir_grace_ask_locked(world);
}

/* A domain that waited for this one has not waited for the next one with its index. */
static void free_domain_index_locked(weir_domain *domain)
{
	weir_world *world = domain->world;
	weir_domain **at = &world->leaving_domains;
	while (*at != domain)
		at = &(*at)->next;
	*at = domain->next;
	for (uint32_t i = 0; i < atomic_load(&world->domain_count); i++) {
		weir_domain *other = weir_world_domain(world, i);
		if (other != NULL)
			atomic_fetch_and(&other->waits_for, ~(UINT64_C(1) << domain->index));
	}
	world->domain_taken[domain->index] = false;
}

static bool step_domain(leaving *about)
{
	weir_domain *domain = about->domain;
	if (!weir_elastic_join(domain, 0))
		return false;
	pthread_mutex_lock(&about->world->control_lock);
	if (!domain->unlisted)
		unlist_domain_locked(domain);
	weir_grace_step_locked(about->world);
	bool done = weir_grace_over_locked(about->world, domain->grace);
	if (done)
		free_domain_index_locked(domain);
	pthread_mutex_unlock(&about->world->control_lock);
	return done;
}

/* A stage of the domain, even one that is not freed yet; NULL: it has none. */
static const weir_stage *stage_of_locked(const weir_domain *domain)
{
	if (domain->stage_count != 0)
		return domain->stages[0];
	const weir_stage *stage = domain->world->leaving;
	while (stage != NULL && stage->domain != domain)
		stage = stage->leaving;
	return stage;
}

/* A stage of periodic work, if the domain has no other; NULL: it has others, or none. */
static weir_stage *last_chore_locked(const weir_domain *domain)
{
	weir_stage *chore = NULL;
	for (uint32_t i = 0; i < domain->stage_count; i++) {
		chore = domain->stages[i];
		if (chore->chore == NULL)
			return NULL;
	}
	return chore;
}

/* Found and begun under one lock: otherwise another thread could retire and free the stage in between. */
static int begin_last_chore(weir_domain *domain, weir_stage **ret_stage)
{
	pthread_mutex_lock(&domain->world->control_lock);
	*ret_stage = last_chore_locked(domain);
	int failed = *ret_stage != NULL ? begin_stage_locked(*ret_stage) : 0;
	pthread_mutex_unlock(&domain->world->control_lock);
	return failed;
}

/* Periodic work ends with its domain. until_ns: in the world's time. */
static int retire_chores(weir_domain *domain, uint64_t until_ns)
{
	weir_stage *stage;
	while (domain->options.kind == WEIR_ELASTIC) {
		int failed = begin_last_chore(domain, &stage);
		if (failed != 0 || stage == NULL)
			return failed;
		uint64_t now_ns = weir_world_now(domain->world);
		failed = end_stage(&stage, until_ns > now_ns ? until_ns - now_ns : 0, NULL);
		if (failed != 0)
			return failed;
	}
	return 0;
}

static int begin_domain_locked(weir_domain *domain)
{
	const weir_stage *stage = stage_of_locked(domain);
	if (!is_running(domain->world))
		return weir_error_set(-ESHUTDOWN, "domain '%s': the world is stopping or stopped",
				      domain->name);
	if (domain->options.kind != WEIR_ELASTIC)
		return weir_error_set(-ENOTSUP, "domain '%s': only elastic domains can be retired",
				      domain->name);
	if (stage != NULL)
		return weir_error_set(-EBUSY, "domain '%s': its stages are retired first; it has '%s'",
				      domain->name, stage->name);
	if (domain->attended)
		return weir_error_set(-EALREADY, "domain '%s': another thread is retiring it", domain->name);
	domain->attended = domain->retiring = true;
	domain->world->retirers++;
	return 0;
}

static int begin_domain(weir_domain *domain)
{
	pthread_mutex_lock(&domain->world->control_lock);
	int failed = begin_domain_locked(domain);
	pthread_mutex_unlock(&domain->world->control_lock);
	return failed;
}

static int give_up_domain(weir_domain *domain)
{
	weir_world *world = domain->world;
	pthread_mutex_lock(&world->control_lock);
	domain->attended = false;
	world->retirers--;
	pthread_mutex_unlock(&world->control_lock);
	if (!is_running(world))
		return weir_error_set(-ESHUTDOWN, "domain '%s': the world has been stopped meanwhile",
				      domain->name);
	return weir_error_set(-ETIMEDOUT, "domain '%s': its threads have not ended yet", domain->name);
}

int weir_domain_retire(weir_domain **where, uint64_t timeout_ns)
{
	weir_domain *domain = *where;
	if (domain == NULL)
		return 0;
	weir_world *world = domain->world;
	leaving about = {.world = world, .step = step_domain, .busy = never_busy, .domain = domain};
	uint64_t now_ns = weir_world_now(world);
	uint64_t until_ns = timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX;
	int failed = weir_world_check_thread(world, "retire");
	if (failed == 0)
		failed = retire_chores(domain, until_ns);
	if (failed == 0)
		failed = begin_domain(domain);
	if (failed != 0)
		return failed;
	now_ns = weir_world_now(world);
	if (!await(&about, until_ns > now_ns ? until_ns - now_ns : 0))
		return give_up_domain(domain);
	*where = NULL;
	weir_domain_free(domain);
	pthread_mutex_lock(&world->control_lock);
	world->retirers--;
	pthread_mutex_unlock(&world->control_lock);
	return 0;
}
