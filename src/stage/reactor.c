/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reactor thread. In each turn it runs the stages that have something, for at most turn_ns. Then it wakes
 * the threads that it gave work to, and runs one turn of the loop (I/O, timers, posts), which sleeps if
 * nothing is left.
 */
#include <errno.h>
#include <sched.h>

#include "base/error.h"
#include "base/mem.h"
#include "stage/runtime.h"

/*
 * The words with marks of stages that there are, or were. A stage is counted before it can be offered anything, and
 * who marks it here wakes this thread afterwards: so the thread sees the count at the latest when it has woken up.
 */
static inline unsigned ready_words(const weir_thread *self)
{
	return (atomic_load_explicit(&self->world->stage_count, memory_order_acquire) + 63) / 64;
}

/* Collects the marks of lanes that other threads have touched. */
static void gather(weir_thread *self)
{
	for (unsigned word = 0, words = ready_words(self); word < words; word++) {
		if (atomic_load_explicit(&self->ready[word], memory_order_relaxed) == 0)
			continue;
		uint64_t bits = atomic_exchange_explicit(&self->ready[word], 0, memory_order_seq_cst);
		self->local_ready[word] |= bits;
		self->gathered = true;
	}
}

/* The next stage with something in a queue here, round robin; -1: none. */
static int next_in_turn(weir_thread *self)
{
	unsigned words = ready_words(self), word = self->next_stage / 64;
	for (unsigned i = 0; i <= words; i++, word++) {
		if (word >= words)
			word = 0;
		uint64_t bits = self->local_ready[word];
		if (i == 0 && word == self->next_stage / 64)
			bits &= ~UINT64_C(0) << (self->next_stage % 64);
		if (bits != 0) {
			unsigned at = word * 64 + (unsigned)__builtin_ctzll(bits);
			self->next_stage = (at + 1) % WEIR_STAGES_MAX;
			return (int)at;
		}
	}
	return -1;
}

/*
 * The lane here of the stage with this index. NULL: the mark was left by a stage that has since been retired,
 * and the index is free or belongs to a stage of another domain or thread.
 */
static weir_lane *lane_at(weir_thread *self, unsigned at)
{
	weir_stage *stage = weir_world_stage(self->world, at);
	if (__builtin_expect(stage == NULL || stage->domain != self->domain, 0))
		return NULL;
	return weir_stage_lane(stage, self);
}

/* A lane of NULL: the mark is stale, and is dropped. */
static weir_candidate candidate(weir_thread *self, unsigned at, uint64_t now_ns)
{
	weir_lane *lane = lane_at(self, at);
	if (lane == NULL) {
		self->local_ready[at / 64] &= ~(UINT64_C(1) << (at % 64));
		return (weir_candidate){0};
	}
	/* Events in the inbox have no order yet. */
	if (weir_inbox_ready(&lane->inbox))
		weir_lane_absorb(lane);
	return weir_turn_candidate(lane, now_ns);
}

/*
 * The stage whose turn it is; -1: none. Usually only one stage is ready. Then nothing is compared, and
 * neither its inbox nor its events are looked at before its batch is taken.
 */
static int next_ready(weir_thread *self, uint64_t now_ns)
{
	int first = next_in_turn(self);
	weir_candidate best = {0};
	for (unsigned word = 0, words = ready_words(self); first >= 0 && word < words; word++) {
		uint64_t bits = self->local_ready[word];
		if (word == (unsigned)first / 64)
			bits &= ~(UINT64_C(1) << (first % 64));
		for (; bits != 0; bits &= bits - 1) {
			if (best.lane == NULL)
				best = candidate(self, (unsigned)first, now_ns);
			unsigned at = word * 64 + (unsigned)__builtin_ctzll(bits);
			weir_candidate other = candidate(self, at, now_ns);
			if (other.lane != NULL && (best.lane == NULL || weir_turn_before(&other, &best)))
				best = other;
		}
	}
	return best.lane != NULL ? best.lane->stage->index : first;
}

/*
 * If another thread sends work in batches, more will come soon, and going to sleep and waking up costs both
 * sides microseconds. So a thread that just had a batch looks for the next one for about that long before it
 * sleeps. Where events come one by one it does not, because a short sleep gathers them.
 */
#define FLOOD     16
#define LINGER_NS (4 * WEIR_NS_PER_US)

static bool anything_ready(const weir_thread *self)
{
	for (unsigned word = 0, words = ready_words(self); word < words; word++)
		if (atomic_load_explicit(&self->ready[word], memory_order_relaxed) != 0)
			return true;
	return false;
}

static bool linger(weir_thread *self)
{
	bool flooded = self->flooded;
	self->gathered = self->flooded = false;
	uint64_t until_ns = flooded ? weir_clock_now(self->clock) + LINGER_NS : 0;
	while (flooded && weir_clock_now(self->clock) < until_ns)
		if (anything_ready(self))
			return true;
	return false;
}

/* Whether there is something to start or to purge. */
static bool has_more(weir_thread *self, weir_lane *lane)
{
	bool more = weir_lane_startable(lane);
	if (lane->stage->options.bound == NULL || (more && weir_bound_open(lane)))
		return more;
	return weir_bound_wait(lane, more, self) || atomic_load_explicit(&lane->purge, memory_order_relaxed);
}

/* Runs one batch of one lane; returns the time afterwards. The bit stays set if more can start now. */
static uint64_t run_lane(weir_thread *self, unsigned at, uint64_t now_ns)
{
	weir_lane *lane = lane_at(self, at);
	uint64_t bit = UINT64_C(1) << (at % 64);
	weir_batch batch;
	/* Cleared before the batch: a settling in it that makes room sets it again. */
	self->local_ready[at / 64] &= ~bit;
	if (__builtin_expect(lane == NULL, 0))
		return now_ns;
	weir_lane_collect(lane, now_ns, atomic_load_explicit(&lane->batch, memory_order_relaxed), &batch);
	now_ns = weir_dispatch(self, lane, &batch, now_ns);
	lane->running = false;
	self->flooded |= self->gathered && batch.count >= FLOOD;
	if (has_more(self, lane))
		self->local_ready[at / 64] |= bit;
	return now_ns;
}

/* In a virtual world no time passes here, so a turn is also bounded by its batches. */
#define TURN_BATCHES 4096

bool weir_reactor_run(weir_thread *self)
{
	uint64_t now_ns = weir_thread_now(self, self->world);
	self->run_start_ns = now_ns;
	uint64_t turn_ns = self->domain->options.turn_ns;
	gather(self);
	for (unsigned batches = 0; batches < TURN_BATCHES && now_ns - self->run_start_ns < turn_ns;
	     batches++) {
		int at = next_ready(self, now_ns);
		if (at < 0)
			return false;
		now_ns = run_lane(self, (unsigned)at, now_ns);
		weir_thread_flush_wakes(self);
		gather(self);
	}
	return true;
}

static bool anything_here(const weir_thread *self)
{
	for (unsigned word = 0, words = ready_words(self); word < words; word++)
		if (self->local_ready[word] != 0)
			return true;
	return false;
}

/*
 * Runs what handlers deferred to the end of the turn, such as the output of connections. That may offer
 * events. The loop would run it too, but then sleep on these events. True: something may be left to run.
 */
static bool run_put_off(weir_thread *self)
{
	if (!weir_loop_run_deferred(self->loop))
		return false;
	return anything_here(self) || weir_loop_has_deferred(self->loop);
}

static void *reactor_main(void *arg)
{
	weir_thread *self = arg;
	weir_world *world = self->world;
	weir_thread_call(self->domain->name);
	weir_thread_be_brief();
	weir_thread_here = self;
	weir_loop_set_self(self->loop);
	while (!atomic_load_explicit(&world->quit, memory_order_acquire)) {
		bool more = weir_reactor_run(self);
		more |= run_put_off(self);
		weir_thread_flush_wakes(self);
		more = more || linger(self);
		if (self->worked)
			weir_control_touch(world);
		self->worked = false;
		weir_offer_forget();
		/*
		 * Here the thread holds nothing that it found in a table: see grace.h. Acquire: the next turn
		 * sees the tables as they are then.
		 */
		atomic_fetch_add_explicit(&self->turns, 1, memory_order_acq_rel);
		int failed = weir_loop_turn(self->loop, more ? 0 : UINT64_MAX);
		WEIR_ASSERT(failed == 0 || failed == -EINTR);
	}
	/* Connections end with the thread that served them. */
	weir_loop_end(self->loop);
	weir_loop_set_self(NULL);
	weir_thread_here = NULL;
	atomic_store_explicit(&self->over, true, memory_order_release);
	return NULL;
}

/* Pins the thread to the index-th processor that this process may use. */
static void pin(pthread_t thread, uint32_t index)
{
	cpu_set_t allowed, one;
	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return;
	uint32_t skip = index % (uint32_t)CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || skip-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		pthread_setaffinity_np(thread, sizeof(one), &one);
		return;
	}
}

static int start_thread(weir_domain *domain, weir_thread *thread)
{
	int failed = weir_loop_new(&thread->loop);
	if (failed != 0)
		return failed;
	thread->clock = weir_loop_clock(thread->loop);
	failed = -pthread_create(&thread->pthread, NULL, reactor_main, thread);
	if (failed != 0) {
		weir_loop_free(&thread->loop);
		thread->clock = NULL;
		return weir_error_set(failed, "domain '%s': cannot start a thread", domain->name);
	}
	if (domain->options.pin)
		pin(thread->pthread, thread->index);
	return 0;
}

int weir_reactor_start(weir_domain *domain)
{
	for (uint32_t i = 0; i < domain->thread_count; i++) {
		int failed = start_thread(domain, &domain->threads[i]);
		if (failed != 0)
			return failed;
		atomic_fetch_add(&domain->alive, 1);
	}
	return 0;
}

/* The loops live until the world is freed, because other threads may still wake them. */
void weir_reactor_join(weir_domain *domain)
{
	uint32_t alive = atomic_exchange(&domain->alive, 0);
	for (uint32_t i = 0; i < alive; i++)
		weir_loop_wake(domain->threads[i].loop);
	for (uint32_t i = 0; i < alive; i++)
		pthread_join(domain->threads[i].pthread, NULL);
}
