/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtual world: a clock that jumps from timer to timer, a heap of timers ordered by (time, order of
 * starting), and one real thread that plays all threads in a fixed order. After every timer, everything that
 * can run does run, at that instant.
 *
 * A reactor thread is played by weir_reactor_run, the same code as in the real world. The threads of an
 * elastic domain are not played one by one: each started event occupies one until it is settled.
 */
#include <weir/sim.h>

#include "base/mem.h"
#include "base/timers.h"
#include "stage/runtime.h"

#include <errno.h>

struct weir_sim {
	weir_timers timers; /* first: pending timers point to it */
	weir_world *world;
	uint64_t now_ns;
	uint64_t orders;
	weir_timer *heap;
	weir_random random;
	weir_timer control;
	uint64_t calls, stretch_ns; /* at this instant */
};

/* ---- a pairing heap; next: the sibling, child: the first child, link: what points to this one ---- */

static bool before(const weir_timer *a, const weir_timer *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static weir_timer *meld(weir_timer *a, weir_timer *b)
{
	if (a == NULL || b == NULL)
		return a != NULL ? a : b;
	if (before(b, a)) {
		weir_timer *swap = a;
		a = b;
		b = swap;
	}
	b->next = a->child;
	if (b->next != NULL)
		b->next->link = &b->next;
	b->link = &a->child;
	a->child = b;
	return a;
}

static weir_timer *meld_children(weir_timer *child)
{
	weir_timer *pairs = NULL, *heap = NULL;
	while (child != NULL) {
		weir_timer *a = child, *b = a->next;
		child = b != NULL ? b->next : NULL;
		a->next = NULL;
		if (b != NULL)
			b->next = NULL;
		weir_timer *pair = meld(a, b);
		pair->next = pairs;
		pairs = pair;
	}
	while (pairs != NULL) {
		weir_timer *next = pairs->next;
		pairs->next = NULL;
		heap = meld(heap, pairs);
		pairs = next;
	}
	return heap;
}

static void set_root(struct weir_sim *sim, weir_timer *root)
{
	sim->heap = root;
	if (root == NULL)
		return;
	root->next = NULL;
	root->link = &sim->heap;
}

static void insert_timer(weir_timers *timers, weir_timer *timer)
{
	struct weir_sim *sim = (struct weir_sim *)timers;
	if (timer->at_ns < sim->now_ns)
		timer->at_ns = sim->now_ns;
	timer->order = sim->orders++;
	timer->next = timer->child = NULL;
	set_root(sim, meld(sim->heap, timer));
}

static void remove_timer(weir_timers *timers, weir_timer *timer)
{
	struct weir_sim *sim = (struct weir_sim *)timers;
	*timer->link = timer->next;
	if (timer->next != NULL)
		timer->next->link = timer->link;
	weir_timer *children = meld_children(timer->child);
	timer->next = timer->child = NULL;
	set_root(sim, meld(sim->heap, children));
}

/* ---- playing the threads ---- */

/*
 * Events that go round and round would keep an instant from ending. After a million handler calls the clock
 * is moved on, by more and more, so that time limits still hold.
 */
#define INSTANT_CALLS 1000000
#define STRETCH_CALLS 100000

void weir_sim_count_call(struct weir_sim *sim)
{
	if (++sim->calls < INSTANT_CALLS)
		return;
	sim->calls -= STRETCH_CALLS;
	sim->now_ns += sim->stretch_ns;
	sim->stretch_ns *= 2;
}

uint64_t weir_sim_count_offer(struct weir_sim *sim)
{
	weir_sim_count_call(sim);
	return sim->now_ns;
}

static void begin_instant(struct weir_sim *sim, uint64_t at_ns)
{
	sim->now_ns = at_ns;
	sim->calls = 0;
	sim->stretch_ns = WEIR_NS_PER_US;
}

static bool reactor_ready(const weir_thread *thread)
{
	for (unsigned word = 0; word < WEIR_READY_WORDS; word++)
		if (thread->local_ready[word] != 0 || atomic_load(&thread->ready[word]) != 0)
			return true;
	return false;
}

static bool play_reactor(weir_thread *thread)
{
	if (!reactor_ready(thread))
		return false;
	weir_thread_here = thread;
	weir_reactor_run(thread);
	weir_offer_forget();
	weir_thread_here = NULL;
	return true;
}

struct weir_thread *weir_sim_enter(weir_domain *domain, uint32_t thread)
{
	weir_thread *before = weir_thread_here, *self = &domain->threads[thread];
	WEIR_ASSERT(domain->world->sim != NULL && domain->options.kind == WEIR_REACTOR);
	if (before != self)
		self->run_start_ns = domain->world->sim->now_ns;
	weir_thread_here = self;
	return before;
}

void weir_sim_leave(struct weir_thread *before)
{
	if (before == NULL)
		weir_offer_forget();
	weir_thread_here = before;
}

static uint32_t occupied(const weir_domain *domain)
{
	uint32_t busy = 0;
	for (uint32_t i = 0; i < domain->stage_count; i++)
		busy += atomic_load(&domain->stages[i]->lanes[0].in_service);
	return busy;
}

/* Starts one event on an idle thread of the pool; false: no thread is idle, or nothing can start. */
static bool play_worker(struct weir_sim *sim, weir_domain *domain)
{
	weir_lane *lane = occupied(domain) < atomic_load(&domain->alive)
				  ? weir_elastic_pick_locked(domain, sim->now_ns)
				  : NULL;
	if (lane == NULL)
		return false;
	weir_batch batch;
	weir_lane_collect(lane, sim->now_ns, 1, &batch);
	domain->started += batch.count;
	domain->next_stage++;
	if (batch.count != 0)
		weir_elastic_begin_locked(domain, sim->now_ns);
	weir_turn_started_locked(domain, batch.events, batch.count,
				 occupied(domain) >= atomic_load(&domain->alive), sim->now_ns);
	weir_thread_here = &domain->threads[0];
	weir_dispatch(&domain->threads[0], lane, &batch, sim->now_ns);
	weir_offer_forget();
	weir_thread_here = NULL;
	lane->running = false;
	if (occupied(domain) == atomic_load(&domain->alive))
		domain->none_idle_ns = sim->now_ns;
	return true;
}

static bool play_elastic(struct weir_sim *sim, weir_domain *domain, uint64_t until_ns)
{
	if (!domain->touched)
		return false;
	domain->touched = false;
	while (play_worker(sim, domain)) {
		if (sim->now_ns <= until_ns)
			continue;
		domain->touched = true; /* for the next run */
		break;
	}
	return true;
}

static bool play_domain(struct weir_sim *sim, weir_domain *domain, uint64_t until_ns)
{
	if (domain->options.kind == WEIR_ELASTIC)
		return play_elastic(sim, domain, until_ns);
	bool played = false;
	for (uint32_t i = 0; i < domain->thread_count; i++)
		played |= play_reactor(&domain->threads[i]);
	return played;
}

/* Runs everything that can happen at this instant. Stops early if the clock was moved past until_ns. */
static void play(struct weir_sim *sim, uint64_t until_ns)
{
	bool played;
	do {
		played = false;
		for (uint32_t i = 0; i < atomic_load(&sim->world->domain_count); i++) {
			weir_domain *domain = weir_world_domain(sim->world, i);
			played |= domain != NULL && play_domain(sim, domain, until_ns);
		}
	} while (played && sim->now_ns <= until_ns);
}

void weir_sim_touch(weir_domain *domain)
{
	domain->touched = true;
}

/* ---- time ---- */

uint64_t weir_sim_now(const struct weir_sim *sim)
{
	return sim->now_ns;
}

static void fire_next(struct weir_sim *sim)
{
	weir_timer *timer = sim->heap;
	if (timer->at_ns > sim->now_ns)
		begin_instant(sim, timer->at_ns);
	remove_timer(&sim->timers, timer);
	weir_timers_fire(timer);
}

uint64_t weir_sim_run(weir_world *world, uint64_t until_ns)
{
	struct weir_sim *sim = world->sim;
	uint64_t fired = 0;
	if (sim == NULL || weir_thread_here != NULL)
		return 0;
	weir_timers *outer = weir_timers_set_self(&sim->timers);
	play(sim, until_ns);
	while (sim->heap != NULL && sim->heap->at_ns <= until_ns && sim->now_ns <= until_ns) {
		fire_next(sim);
		fired++;
		play(sim, until_ns);
	}
	if (sim->now_ns < until_ns)
		begin_instant(sim, until_ns);
	weir_timers_set_self(outer);
	return fired;
}

void weir_sim_drain(weir_world *world, uint64_t until_ns, bool (*busy)(void *arg), void *arg)
{
	struct weir_sim *sim = world->sim;
	weir_timers *outer = weir_timers_set_self(&sim->timers);
	play(sim, until_ns);
	while (busy(arg) && sim->heap != NULL && sim->heap->at_ns <= until_ns && sim->now_ns <= until_ns) {
		fire_next(sim);
		play(sim, until_ns);
	}
	weir_timers_set_self(outer);
}

void weir_sim_timer(weir_world *world, weir_timer *timer, uint64_t at_ns)
{
	if (world->sim != NULL)
		weir_timers_start(&world->sim->timers, timer, at_ns);
}

void weir_sim_cpu(weir_stage *stage, uint64_t cpu_ns)
{
	stage->domain->cpu_ns += cpu_ns;
}

weir_random *weir_sim_random(weir_world *world)
{
	return world->sim != NULL ? &world->sim->random : NULL;
}

/* ---- control ---- */

static void control_fire(weir_timer *timer, void *arg)
{
	struct weir_sim *sim = arg;
	uint64_t next_ns = weir_control_tick(sim->world, sim->now_ns);
	if (weir_control_has_calls(sim->world))
		weir_control_calls(sim->world);
	if (next_ns != UINT64_MAX)
		weir_timers_start(&sim->timers, timer, next_ns);
}

int weir_sim_start(weir_world *world)
{
	struct weir_sim *sim = world->sim;
	sim->world = world;
	weir_timers_start(&sim->timers, &sim->control, sim->now_ns);
	return 0;
}

int weir_sim_new(uint64_t seed, struct weir_sim **ret_sim)
{
	struct weir_sim *sim = weir_mem_zalloc(sizeof(*sim));
	if (sim == NULL)
		return -ENOMEM;
	sim->timers = (weir_timers){.insert = insert_timer, .remove = remove_timer};
	begin_instant(sim, WEIR_NS_PER_S); /* not 0, which means "no time" */
	weir_random_init(&sim->random, seed != 0 ? seed : 1);
	weir_timer_init(&sim->control, control_fire, sim);
	*ret_sim = sim;
	return 0;
}

/* Pending timers belong to others, who may look at them later. */
void weir_sim_free(struct weir_sim *sim)
{
	if (sim == NULL)
		return;
	while (sim->heap != NULL) {
		weir_timer *timer = sim->heap;
		remove_timer(&sim->timers, timer);
		timer->owner = NULL;
	}
	weir_mem_free(sim);
}

/* ---- arrivals ---- */

#define GAPLESS_PER_S 1e9    /* above this rate, gaps round to 0 */
#define GAP_MAX_NS    0x1p62 /* 146 years: such an arrival is not scheduled */

static void schedule_arrival(weir_arrivals *arrivals)
{
	weir_timer_stop(&arrivals->timer);
	if (!(arrivals->per_s > 0)) /* also if it is NaN */
		return;
	double gap_ns = (double)WEIR_NS_PER_S / arrivals->per_s;
	if (arrivals->kind == WEIR_POISSON)
		gap_ns = weir_random_exponential(weir_sim_random(arrivals->world), gap_ns);
	/* Endless arrivals at one instant would stop the clock. */
	if (arrivals->per_s > GAPLESS_PER_S && gap_ns < 1)
		gap_ns = 1;
	if (gap_ns < GAP_MAX_NS)
		weir_sim_timer(arrivals->world, &arrivals->timer,
			       weir_world_now(arrivals->world) + (uint64_t)(gap_ns + 0.5));
}

static void arrival(weir_timer *timer, void *arg)
{
	weir_arrivals *arrivals = arg;
	(void)timer;
	arrivals->count++;
	schedule_arrival(arrivals); /* first, so that arrive may change the rate or stop */
	arrivals->arrive(arrivals, arrivals->arg);
}

void weir_arrivals_start(weir_arrivals *arrivals, weir_world *world, weir_arrival_kind kind, double per_s,
			 weir_arrive_fn *arrive, void *arg)
{
	*arrivals =
		(weir_arrivals){.world = world, .kind = kind, .per_s = per_s, .arrive = arrive, .arg = arg};
	weir_timer_init(&arrivals->timer, arrival, arrivals);
	if (world->sim != NULL)
		schedule_arrival(arrivals);
}

void weir_arrivals_rate(weir_arrivals *arrivals, double per_s)
{
	arrivals->per_s = per_s;
	if (arrivals->world->sim != NULL)
		schedule_arrival(arrivals);
}

void weir_arrivals_stop(weir_arrivals *arrivals)
{
	weir_timer_stop(&arrivals->timer);
}
