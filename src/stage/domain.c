/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "stage/runtime.h"

#define ELASTIC_THREADS_MAX 4096
#define INLINE_DEPTH_MAX    256
#define NICE_MAX            19
#define BRIEF_NS            100000u /* the shortest turn of a core that the kernel gives */

static uint32_t usable_cores(void)
{
	cpu_set_t allowed;
	return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? (uint32_t)CPU_COUNT(&allowed) : 1;
}

void weir_thread_call(const char *name)
{
	char text[16]; /* the kernel keeps no more */
	snprintf(text, sizeof(text), "%s", name);
	pthread_setname_np(pthread_self(), text);
}

void weir_thread_be_brief(void)
{
	/* struct sched_attr, whose header cannot be used together with <sched.h> */
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t turn_ns, deadline_ns, period_ns;
	} as = {0};
	if (syscall(SYS_sched_getattr, 0, &as, sizeof(as), 0) != 0 || as.policy != SCHED_OTHER)
		return;
	as.turn_ns = BRIEF_NS;
	syscall(SYS_sched_setattr, 0, &as, 0);
}

static void set_defaults(weir_domain_options *options)
{
	if (options->turn_targets == 0)
		options->turn_targets = 10;
	if (options->cores == 0)
		options->cores = usable_cores();
	if (options->kind == WEIR_REACTOR) {
		if (options->threads == 0)
			options->threads = usable_cores();
		if (options->inline_depth == 0)
			options->inline_depth = 16;
		if (options->turn_ns == 0)
			options->turn_ns = 200 * WEIR_NS_PER_US;
		return;
	}
	if (options->max_threads == 0)
		options->max_threads = options->min_threads > 64 ? options->min_threads : 64;
	if (options->min_threads == 0)
		options->min_threads = 1;
	if (options->pool == NULL)
		options->pool = &weir_pool_prompt;
}

static int check_phase(const weir_world *world, const weir_domain_options *options)
{
	weir_phase phase = atomic_load(&world->phase);
	if (phase > WEIR_PHASE_RUNNING)
		return weir_error_set(-ESHUTDOWN, "domain '%s': the world is stopping or stopped",
				      options->name);
	/* Every stage has counts for each reactor thread, and every loop knows the others. */
	if (phase == WEIR_PHASE_RUNNING && options->kind == WEIR_REACTOR)
		return weir_error_set(-EBUSY,
				      "domain '%s': reactor domains are made before the world starts, only "
				      "elastic ones later",
				      options->name);
	return 0;
}

static int check_name_locked(const weir_world *world, const char *name)
{
	for (uint32_t i = 0; i < atomic_load(&world->domain_count); i++) {
		const weir_domain *other = weir_world_domain(world, i);
		if (other != NULL && strcmp(other->name, name) == 0)
			return weir_error_set(-EEXIST, "domain '%s': there is one of that name already",
					      name);
	}
	return 0;
}

/* The lowest index that no domain has; -ENOSPC: all are taken. */
static int free_index_locked(const weir_world *world, const char *name)
{
	for (int i = 0; i < WEIR_DOMAINS_MAX; i++)
		if (!world->domain_taken[i])
			return i;
	return weir_error_set(-ENOSPC, "domain '%s': a world can have at most %d domains", name,
			      WEIR_DOMAINS_MAX);
}

/* Takes an index for a domain of this name. */
static int take_index(weir_world *world, const char *name)
{
	pthread_mutex_lock(&world->control_lock);
	int failed = check_name_locked(world, name);
	int index = failed == 0 ? free_index_locked(world, name) : failed;
	if (index >= 0)
		world->domain_taken[index] = true;
	pthread_mutex_unlock(&world->control_lock);
	return index;
}

static int check_options(const weir_world *world, const weir_domain_options *options)
{
	const char *name = options->name;
	if (options->kind != WEIR_REACTOR && options->kind != WEIR_ELASTIC)
		return weir_error_set(-EINVAL, "domain '%s': kind must be WEIR_REACTOR or WEIR_ELASTIC",
				      name);
	if (options->kind == WEIR_REACTOR && options->threads > WEIR_THREADS_MAX - world->reactor_count)
		return weir_error_set(-EINVAL,
				      "domain '%s': threads: a world can have at most %d reactor threads",
				      name, WEIR_THREADS_MAX);
	/* Each level costs a stack frame of a handler and one of ours. */
	if (options->kind == WEIR_REACTOR && options->inline_depth > INLINE_DEPTH_MAX)
		return weir_error_set(-EINVAL, "domain '%s': inline_depth must be at most %d", name,
				      INLINE_DEPTH_MAX);
	if (options->kind == WEIR_ELASTIC && options->min_threads > options->max_threads)
		return weir_error_set(-EINVAL,
				      "domain '%s': min_threads (%u) must not exceed max_threads (%u)", name,
				      options->min_threads, options->max_threads);
	if (options->kind == WEIR_ELASTIC && options->max_threads > ELASTIC_THREADS_MAX)
		return weir_error_set(-EINVAL, "domain '%s': max_threads must be at most %d", name,
				      ELASTIC_THREADS_MAX);
	if (options->nice > NICE_MAX)
		return weir_error_set(-EINVAL, "domain '%s': nice must be at most %d", name, NICE_MAX);
	return 0;
}

/* An elastic domain has a thread here only in a virtual world. It stands for the whole pool. */
static int make_threads(weir_domain *domain)
{
	weir_world *world = domain->world;
	bool reactor = domain->options.kind == WEIR_REACTOR;
	domain->thread_count = reactor ? domain->options.threads : world->sim != NULL;
	if (domain->thread_count == 0)
		return 0;
	domain->threads = weir_mem_aligned(64, domain->thread_count * sizeof(weir_thread));
	if (domain->threads == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < domain->thread_count; i++) {
		weir_thread *thread = &domain->threads[i];
		*thread = (weir_thread){.world = world,
					.domain = domain,
					.index = (uint16_t)i,
					.depth_left = domain->options.inline_depth};
		if (!reactor)
			continue;
		world->reactors[world->reactor_count++] = thread;
		thread->slot = (uint16_t)world->reactor_count;
	}
	return 0;
}

static int fill_domain(weir_domain *domain, const weir_domain_options *options)
{
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&domain->lock, NULL);
	pthread_cond_init(&domain->work, NULL);
	pthread_cond_init(&domain->gone, &monotonic);
	pthread_condattr_destroy(&monotonic);
	domain->options = *options;
	weir_backlog_init(&domain->backlog);
	domain->name = weir_mem_strdup(options->name);
	if (domain->name == NULL)
		return -ENOMEM;
	domain->options.name = domain->name;
	if (options->kind == WEIR_ELASTIC) {
		domain->pool_state = weir_mem_zalloc(options->pool->state_bytes);
		if (domain->pool_state == NULL)
			return -ENOMEM;
		options->pool->init(domain->pool_state);
	}
	return make_threads(domain);
}

/* Starts threads before the domain is listed: until then the controller cannot resize the pool. */
static int start_late(weir_domain *domain)
{
	if (atomic_load(&domain->world->phase) != WEIR_PHASE_RUNNING)
		return 0;
	int failed = weir_elastic_start(domain);
	if (failed != 0)
		weir_elastic_join(domain, UINT64_MAX);
	return failed;
}

static void enlist(weir_domain *domain)
{
	weir_world *world = domain->world;
	pthread_mutex_lock(&world->control_lock);
	atomic_store_explicit(&world->domains[domain->index], domain, memory_order_release);
	if (domain->index >= atomic_load(&world->domain_count))
		atomic_store_explicit(&world->domain_count, domain->index + 1u, memory_order_release);
	pthread_cond_signal(&world->control_wake);
	pthread_mutex_unlock(&world->control_lock);
}

static int make_domain(weir_world *world, const weir_domain_options *options, uint16_t index,
		       weir_domain **ret_domain)
{
	weir_domain *domain = weir_mem_aligned(64, sizeof(*domain));
	if (domain == NULL)
		return weir_error_set(-ENOMEM, "domain '%s': out of memory", options->name);
	domain->world = world;
	domain->index = index;
	int failed = fill_domain(domain, options);
	if (failed != 0)
		weir_error_set(failed, "domain '%s': out of memory", options->name);
	else
		failed = start_late(domain);
	if (failed != 0) {
		weir_domain_free(domain);
		return failed;
	}
	enlist(domain);
	*ret_domain = domain;
	return 0;
}

int weir_domain_new(weir_world *world, const weir_domain_options *given, weir_domain **ret_domain)
{
	if (given == NULL || given->name == NULL || given->name[0] == '\0')
		return weir_error_set(-EINVAL, "a domain needs a name");
	weir_domain_options options = *given;
	int failed = check_phase(world, &options);
	if (failed != 0)
		return failed;
	set_defaults(&options);
	failed = check_options(world, &options);
	int index = failed == 0 ? take_index(world, options.name) : failed;
	if (index < 0)
		return index;
	failed = make_domain(world, &options, (uint16_t)index, ret_domain);
	if (failed == 0 && world->sim != NULL && atomic_load(&world->phase) == WEIR_PHASE_RUNNING)
		weir_sim_start(world);
	if (failed != 0) {
		pthread_mutex_lock(&world->control_lock);
		world->domain_taken[index] = false;
		pthread_mutex_unlock(&world->control_lock);
	}
	return failed;
}

void weir_domain_free(weir_domain *domain)
{
	for (uint32_t i = 0; domain->threads != NULL && i < domain->thread_count; i++)
		if (domain->threads[i].loop != NULL)
			weir_loop_free(&domain->threads[i].loop);
	pthread_mutex_destroy(&domain->lock);
	pthread_cond_destroy(&domain->work);
	pthread_cond_destroy(&domain->gone);
	weir_mem_free(domain->threads);
	weir_mem_free(domain->pool_state);
	weir_mem_free(domain->name);
	weir_mem_free(domain);
}

uint32_t weir_domain_threads(const weir_domain *domain)
{
	if (domain->options.kind == WEIR_REACTOR)
		return domain->thread_count;
	return atomic_load_explicit(&domain->alive, memory_order_relaxed);
}

weir_world *weir_domain_world(const weir_domain *domain)
{
	return domain->world;
}

bool weir_domain_is_reactor(const weir_domain *domain)
{
	return domain->options.kind == WEIR_REACTOR;
}

const char *weir_domain_name(const weir_domain *domain)
{
	return domain->name;
}

void *weir_thread_state(void)
{
	const weir_thread *self = weir_thread_here;
	return self != NULL ? self->state : NULL;
}

weir_loop *weir_domain_loop(const weir_domain *domain, uint32_t thread)
{
	bool there = domain->options.kind == WEIR_REACTOR && thread < domain->thread_count;
	return there ? domain->threads[thread].loop : NULL;
}

uint16_t weir_thread_home(void)
{
	const weir_thread *self = weir_thread_here;
	return self != NULL && self->slot != 0 ? self->index : WEIR_ANYWHERE;
}
