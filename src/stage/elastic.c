/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An elastic domain: a pool of threads that share the queues of the domain's stages under one lock. A thread
 * takes a batch under the lock and handles it without. Handlers may block: that is what the pool is for.
 *
 * Wake-ups: an offer signals one idle thread. A thread that takes work and leaves some behind signals the
 * next. So n offers in a row cost at most n signals, and none if no thread is idle.
 *
 * Size: a law says how many threads there should be (`target`). The controller starts missing ones. Surplus
 * threads leave when they have nothing to do.
 */
#include <errno.h>
#include <sys/resource.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "stage/runtime.h"

#define COMPUTING_NS (200. * WEIR_NS_PER_MS) /* memory of how much the cores are used */

/* ---- work ---- */

void weir_elastic_push(weir_lane *lane, weir_event *const *events, size_t count)
{
	weir_domain *domain = lane->stage->domain;
	pthread_mutex_lock(&domain->lock);
	for (size_t i = 0; i < count; i++) {
		weir_queue_push(&lane->queue, events[i]);
		weir_turn_enter_locked(lane, events[i]);
	}
	domain->arrived += count;
	domain->touched = true;
	if (domain->idle != 0)
		pthread_cond_signal(&domain->work);
	pthread_mutex_unlock(&domain->lock);
	weir_control_touch(domain->world);
}

void weir_elastic_kick(weir_domain *domain)
{
	pthread_mutex_lock(&domain->lock);
	domain->touched = true;
	if (domain->idle != 0)
		pthread_cond_signal(&domain->work);
	pthread_mutex_unlock(&domain->lock);
}

void weir_elastic_begin_locked(weir_domain *domain, uint64_t now_ns)
{
	domain->running++;
	domain->began_sum_ns += now_ns;
}

void weir_elastic_end_locked(weir_domain *domain, uint64_t began_ns, uint64_t now_ns)
{
	domain->running--;
	domain->began_sum_ns -= began_ns;
	domain->busy_ns += now_ns - began_ns;
}

/* Includes the calls under way: a handler that blocks for long must not look idle until it ends. */
static uint64_t busy_until_locked(const weir_domain *domain, uint64_t now_ns)
{
	return domain->busy_ns + domain->running * now_ns - domain->began_sum_ns;
}

/* At most an even share of what waits: handlers may block, and others could take the rest meanwhile. */
static size_t fair_batch_locked(const weir_domain *domain, const weir_lane *lane)
{
	size_t share = lane->queue.count / atomic_load_explicit(&domain->alive, memory_order_relaxed);
	size_t most = atomic_load_explicit(&lane->batch, memory_order_relaxed);
	if (share < 1)
		share = 1;
	return share < most ? share : most;
}

/* From here on, what the thread finds is not freed before the call is counted out (grace.h). */
static unsigned enter_call_locked(weir_domain *domain)
{
	unsigned side = atomic_load_explicit(&domain->world->grace.side, memory_order_relaxed) & 1;
	domain->calls[side]++;
	return side;
}

/* Handles one batch. Called with the lock held, which is released meanwhile. */
static void work_locked(weir_domain *domain, weir_thread *self, weir_lane *lane, uint64_t began_ns)
{
	weir_batch batch;
	weir_lane_collect(lane, began_ns, fair_batch_locked(domain, lane), &batch);
	domain->started += batch.count;
	domain->next_stage++;
	unsigned side = enter_call_locked(domain);
	weir_elastic_begin_locked(domain, began_ns);
	weir_turn_started_locked(domain, batch.events, batch.count, domain->idle == 0, began_ns);
	if (domain->idle != 0 && weir_elastic_pick_locked(domain, began_ns) != NULL)
		pthread_cond_signal(&domain->work);
	pthread_mutex_unlock(&domain->lock);
	weir_dispatch(self, lane, &batch, began_ns);
	weir_thread_flush_wakes(self);
	weir_offer_forget();
	pthread_mutex_lock(&domain->lock);
	/* Read under the lock: a sample taken since the handler's end counted the call as running. */
	weir_elastic_end_locked(domain, began_ns, weir_clock_ns());
	/* Single: only the thread that set it clears it. */
	if (lane->stage->options.single && batch.count != 0)
		lane->running = false;
	domain->calls[side]--;
}

static void rest_locked(weir_domain *domain)
{
	domain->idle++;
	pthread_cond_wait(&domain->work, &domain->lock);
	if (--domain->idle == 0)
		domain->none_idle_ns = weir_clock_ns();
}

/* The user's hooks run outside of the world: this is not yet, or no longer, one of its threads. */
static void *call_thread_start(const weir_domain *domain)
{
	const weir_domain_options *options = &domain->options;
	return options->thread_start != NULL ? options->thread_start(options->thread_arg) : NULL;
}

static void call_thread_end(const weir_domain *domain, void *state)
{
	const weir_domain_options *options = &domain->options;
	if (options->thread_end != NULL)
		options->thread_end(options->thread_arg, state);
}

/* No longer alive before its hook is called, so the pool may start another in its place meanwhile. */
static void leave_locked(weir_domain *domain, weir_worker *worker)
{
	domain->leaving++;
	atomic_fetch_sub(&domain->alive, 1);
	weir_thread_here = NULL;
	if (domain->options.thread_end != NULL) {
		pthread_mutex_unlock(&domain->lock);
		call_thread_end(domain, worker->thread.state);
		pthread_mutex_lock(&domain->lock);
	}
	domain->leaving--;
	worker->next = domain->exited;
	domain->exited = worker;
	pthread_cond_signal(&domain->gone);
}

/* Where this is not allowed, the thread is as important as the others. */
static void step_back(uint32_t nice)
{
	if (nice > 0)
		setpriority(PRIO_PROCESS, 0,
			    getpriority(PRIO_PROCESS, 0) + (int)nice); /* of this thread alone */
}

static void *worker_main(void *arg)
{
	weir_worker *worker = arg;
	weir_domain *domain = worker->thread.domain;
	weir_thread_call(domain->name);
	step_back(domain->options.nice);
	worker->thread.state = call_thread_start(domain);
	weir_thread_here = &worker->thread;
	pthread_mutex_lock(&domain->lock);
	while (!domain->quit) {
		uint64_t now_ns = weir_clock_ns();
		weir_lane *lane = weir_elastic_pick_locked(domain, now_ns);
		if (lane != NULL)
			work_locked(domain, &worker->thread, lane, now_ns);
		else if (atomic_load(&domain->alive) > domain->target)
			break;
		else
			rest_locked(domain);
	}
	leave_locked(domain, worker);
	pthread_mutex_unlock(&domain->lock);
	return NULL;
}

/* ---- size ---- */

static void join_exited(weir_domain *domain)
{
	pthread_mutex_lock(&domain->lock);
	weir_worker *worker = domain->exited;
	domain->exited = NULL;
	pthread_mutex_unlock(&domain->lock);
	while (worker != NULL) {
		weir_worker *next = worker->next;
		pthread_join(worker->thread.pthread, NULL);
		weir_mem_free(worker);
		worker = next;
	}
}

static int add_worker(weir_domain *domain)
{
	weir_worker *worker = weir_mem_aligned(64, sizeof(*worker));
	if (worker == NULL)
		return -ENOMEM;
	worker->thread = (weir_thread){.world = domain->world, .domain = domain};
	atomic_fetch_add(&domain->alive, 1);
	/* Under the lock, so that the thread cannot end and be joined before its handle is written. */
	pthread_mutex_lock(&domain->lock);
	int failed = -pthread_create(&worker->thread.pthread, NULL, worker_main, worker);
	pthread_mutex_unlock(&domain->lock);
	if (failed != 0) {
		atomic_fetch_sub(&domain->alive, 1);
		weir_mem_free(worker);
	}
	return failed;
}

void weir_elastic_resize(weir_domain *domain, uint32_t threads)
{
	pthread_mutex_lock(&domain->lock);
	domain->target = threads;
	domain->touched = true;
	if (atomic_load(&domain->alive) > threads)
		pthread_cond_broadcast(&domain->work);
	pthread_mutex_unlock(&domain->lock);
	if (domain->world->sim != NULL) {
		atomic_store(&domain->alive, threads);
		return;
	}
	join_exited(domain);
	while (atomic_load(&domain->alive) < threads && add_worker(domain) == 0)
		; /* one that cannot be started now is tried again at the next tick */
}

static uint32_t busy_threads(const weir_domain *domain)
{
	if (domain->world->sim == NULL)
		return atomic_load(&domain->alive) - domain->idle;
	uint32_t busy = 0;
	for (uint32_t i = 0; i < domain->stage_count; i++)
		busy += atomic_load(&domain->stages[i]->lanes[0].in_service);
	return busy;
}

/* In a virtual world no thread waits for work, so "no thread idle" is noted here. */
static void note_idle(weir_domain *domain, uint32_t busy, uint64_t now_ns)
{
	if (busy >= atomic_load(&domain->alive))
		domain->none_idle_ns = now_ns;
}

/* Of the whole process: it does not matter whether this pool or another uses the cores. */
static uint64_t cpu_until(const weir_domain *domain)
{
	struct timespec used;
	if (domain->world->sim != NULL)
		return domain->cpu_ns;
	return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0
		       ? (uint64_t)used.tv_sec * WEIR_NS_PER_S + (uint64_t)used.tv_nsec
		       : 0;
}

static uint64_t more(uint64_t now, uint64_t *last)
{
	uint64_t by = now - *last;
	*last = now;
	return by;
}

static void sample_ends(weir_domain *domain, weir_pool_sample *sample)
{
	uint64_t ended = 0, ended_ns = 0, usual_ns = 0;
	for (uint32_t i = 0; i < domain->stage_count; i++) {
		const weir_terms *terms = &domain->stages[i]->terms;
		ended += atomic_load_explicit(&terms->ended, memory_order_relaxed);
		ended_ns += atomic_load_explicit(&terms->ended_ns, memory_order_relaxed);
		usual_ns += atomic_load_explicit(&terms->usual_ns, memory_order_relaxed);
		sample->strained |= atomic_load_explicit(&terms->strained, memory_order_relaxed);
		sample->late |= atomic_load_explicit(&terms->late, memory_order_relaxed);
	}
	sample->ended = more(ended, &domain->last_ended);
	sample->ended_ns = more(ended_ns, &domain->last_ended_ns);
	sample->usual_ns = more(usual_ns, &domain->last_usual_ns);
	sample->cpu_ns = more(cpu_until(domain), &domain->last_cpu_ns);
}

/* Whether the processors are what is short: from most of them in use on, until it is less than half. */
static void judge_computing(weir_domain *domain, const weir_pool_sample *sample)
{
	double all = (double)sample->interval_ns * sample->cores;
	double weight = (double)sample->interval_ns / (COMPUTING_NS + (double)sample->interval_ns);
	if (all <= 0)
		return;
	domain->cores_used += ((double)sample->cpu_ns / all - domain->cores_used) * weight;
	if (domain->cores_used > .8 || domain->cores_used < .5)
		atomic_store_explicit(&domain->computing, domain->cores_used > .8, memory_order_relaxed);
}

void weir_elastic_sample_locked(weir_domain *domain, uint64_t now_ns, weir_pool_sample *ret_sample)
{
	uint32_t busy = busy_threads(domain);
	uint64_t busy_ns = busy_until_locked(domain, now_ns);
	note_idle(domain, busy, now_ns);
	weir_pool_sample sample = {.now_ns = now_ns,
				   .interval_ns = now_ns - domain->pool_last_ns,
				   .threads = atomic_load(&domain->alive),
				   .busy = busy,
				   .started = domain->started - domain->last_started,
				   .arrived = domain->arrived - domain->last_arrived,
				   .busy_ns = busy_ns - domain->last_busy_ns,
				   .idle_ns = now_ns - domain->none_idle_ns,
				   .cores = domain->options.cores,
				   .min = domain->options.min_threads,
				   .max = domain->options.max_threads};
	for (uint32_t i = 0; i < domain->stage_count; i++) {
		const weir_queue *queue = &domain->stages[i]->lanes[0].queue;
		uint64_t oldest = weir_queue_oldest_ns(queue);
		uint64_t waited = oldest != 0 && now_ns > oldest ? now_ns - oldest : 0;
		sample.waiting += (uint32_t)queue->count;
		if (queue->count > sample.max_queue)
			sample.max_queue = (uint32_t)queue->count;
		if (waited > sample.oldest_ns)
			sample.oldest_ns = waited;
	}
	sample_ends(domain, &sample);
	judge_computing(domain, &sample);
	domain->last_started = domain->started;
	domain->last_arrived = domain->arrived;
	domain->last_busy_ns = busy_ns;
	domain->pool_last_ns = now_ns;
	*ret_sample = sample;
}

/* ---- start, end ---- */

int weir_elastic_start(weir_domain *domain)
{
	domain->quit = false;
	domain->none_idle_ns = domain->pool_last_ns = weir_world_now(domain->world);
	if (domain->world->sim != NULL) { /* one thread stands for all of them */
		domain->threads[0].state = call_thread_start(domain);
		domain->hooked = true;
	}
	weir_elastic_resize(domain, domain->options.min_threads);
	if (atomic_load(&domain->alive) < domain->options.min_threads)
		return weir_error_set(-EAGAIN, "domain '%s': cannot start its %u threads", domain->name,
				      domain->options.min_threads);
	return 0;
}

static bool await_gone_locked(weir_domain *domain, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / WEIR_NS_PER_S),
				 .tv_nsec = (long)(until_ns % WEIR_NS_PER_S)};
	int failed = 0;
	while (atomic_load(&domain->alive) + domain->leaving != 0 && failed == 0)
		failed = until_ns == UINT64_MAX
				 ? pthread_cond_wait(&domain->gone, &domain->lock)
				 : pthread_cond_timedwait(&domain->gone, &domain->lock, &until);
	return atomic_load(&domain->alive) + domain->leaving == 0;
}

static void end_virtual(weir_domain *domain)
{
	if (!domain->hooked)
		return;
	domain->hooked = false;
	call_thread_end(domain, domain->threads[0].state);
	domain->threads[0].state = NULL;
}

bool weir_elastic_join(weir_domain *domain, uint64_t until_ns)
{
	pthread_mutex_lock(&domain->lock);
	domain->quit = true;
	pthread_cond_broadcast(&domain->work);
	bool all = domain->world->sim != NULL || await_gone_locked(domain, until_ns);
	pthread_mutex_unlock(&domain->lock);
	if (domain->world->sim != NULL)
		end_virtual(domain);
	join_exited(domain);
	return all;
}
