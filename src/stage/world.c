/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/error.h"
#include "base/mem.h"
#include "stage/runtime.h"

static int fill_world(weir_world *world, const weir_world_options *options)
{
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&world->control_lock, NULL);
	pthread_cond_init(&world->control_wake, &monotonic);
	pthread_cond_init(&world->monitor_done, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (options != NULL)
		world->options = *options;
	uint32_t entries = world->options.trace_entries;
	int failed = weir_trace_init(&world->trace, entries != 0 ? entries : 4096);
	if (failed == 0 && world->options.simulated)
		failed = weir_sim_new(world->options.seed, &world->sim);
	return failed;
}

int weir_world_new(const weir_world_options *options, weir_world **ret_world)
{
	weir_world *world = weir_mem_aligned(64, sizeof(*world));
	if (world == NULL)
		return weir_error_set(-ENOMEM, "world: out of memory");
	int failed = fill_world(world, options);
	if (failed != 0) {
		weir_world_free(&world);
		return weir_error_set(failed, "world: out of memory");
	}
	*ret_world = world;
	return 0;
}

static int start_domain(weir_domain *domain)
{
	if (domain->options.kind == WEIR_ELASTIC)
		return weir_elastic_start(domain);
	return domain->world->sim == NULL ? weir_reactor_start(domain) : 0;
}

static int start_all(weir_world *world)
{
	uint32_t stages = atomic_load(&world->stage_count), domains = atomic_load(&world->domain_count);
	for (uint32_t i = 0; i < stages; i++) {
		weir_stage *stage = weir_world_stage(world, i);
		if (stage != NULL && weir_stage_add_counts(stage) != 0)
			return weir_error_set(-ENOMEM, "start: out of memory");
	}
	for (uint32_t i = 0; i < domains; i++) {
		weir_domain *domain = weir_world_domain(world, i);
		int failed = domain != NULL ? start_domain(domain) : 0;
		if (failed != 0)
			return failed;
	}
	return world->sim != NULL ? weir_sim_start(world) : weir_control_start(world);
}

void weir_world_update_stages(weir_world *world)
{
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages; i++) {
		weir_stage *stage = weir_world_stage(world, i);
		if (stage != NULL)
			weir_stage_update_open(stage);
	}
}

void weir_world_set_phase(weir_world *world, weir_phase phase)
{
	pthread_mutex_lock(&world->control_lock);
	atomic_store_explicit(&world->phase, phase, memory_order_seq_cst);
	weir_world_update_stages(world);
	pthread_mutex_unlock(&world->control_lock);
}

static bool has_domain(const weir_world *world)
{
	for (uint32_t i = 0; i < atomic_load(&world->domain_count); i++)
		if (weir_world_domain(world, i) != NULL)
			return true;
	return false;
}

int weir_world_start(weir_world *world)
{
	if (atomic_load(&world->phase) != WEIR_PHASE_NEW)
		return weir_error_set(-EALREADY, "start: a world starts once");
	if (!has_domain(world))
		return weir_error_set(-EINVAL, "start: the world has no domain, so nothing could run");
	int failed = start_all(world);
	/* RUNNING even after a failure, so that the stop ends what did start. */
	weir_world_set_phase(world, WEIR_PHASE_RUNNING);
	if (failed != 0)
		weir_world_stop(world, 0, NULL);
	return failed;
}

_Atomic uint64_t weir_things_gone;

static void free_stages(weir_world *world)
{
	for (uint32_t i = 0; i < atomic_load(&world->stage_count); i++) {
		weir_stage *stage = weir_world_stage(world, i);
		if (stage != NULL)
			weir_stage_free(stage);
	}
	for (weir_stage *stage = world->leaving, *next; stage != NULL; stage = next) {
		next = stage->leaving;
		weir_stage_free(stage);
	}
}

static void free_domains(weir_world *world)
{
	for (uint32_t i = 0; i < atomic_load(&world->domain_count); i++) {
		weir_domain *domain = weir_world_domain(world, i);
		if (domain != NULL)
			weir_domain_free(domain);
	}
	for (weir_domain *domain = world->leaving_domains, *next; domain != NULL; domain = next) {
		next = domain->next;
		weir_domain_free(domain);
	}
}

void weir_world_free(weir_world **world_at)
{
	weir_world *world = *world_at;
	if (world == NULL)
		return;
	if (atomic_load(&world->phase) == WEIR_PHASE_RUNNING)
		weir_world_stop(world, 0, NULL);
	atomic_fetch_add(&weir_things_gone, 1);
	weir_monitor_orphan(world);
	free_stages(world);
	free_domains(world);
	weir_sim_free(world->sim);
	weir_trace_fini(&world->trace);
	pthread_mutex_destroy(&world->control_lock);
	pthread_cond_destroy(&world->control_wake);
	pthread_cond_destroy(&world->monitor_done);
	weir_mem_free(world);
	*world_at = NULL;
}

uint64_t weir_world_now(const weir_world *world)
{
	if (world->sim != NULL)
		return weir_sim_now(world->sim);
	const weir_thread *self = weir_thread_in(world);
	return self != NULL && self->loop != NULL ? weir_loop_now(self->loop) : weir_clock_ns();
}
