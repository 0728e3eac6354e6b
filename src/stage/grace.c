/* SPDX-License-Identifier: Apache-2.0 */
#include "stage/runtime.h"

#define LOOK_NS WEIR_NS_PER_MS

/* ---- sections of threads from outside ---- */

unsigned weir_outsider_enter(weir_world *world, const weir_thread *self)
{
	if (self != NULL)
		return 0;
	unsigned side = atomic_load_explicit(&world->grace.side, memory_order_relaxed) & 1;
	atomic_fetch_add_explicit(&world->grace.outsiders[side], 1, memory_order_seq_cst);
	return side;
}

void weir_outsider_leave(weir_world *world, const weir_thread *self, unsigned side)
{
	if (self == NULL)
		atomic_fetch_sub_explicit(&world->grace.outsiders[side & 1], 1, memory_order_seq_cst);
}

bool weir_outsiders_inside(weir_world *world)
{
	return atomic_load(&world->grace.outsiders[0]) != 0 || atomic_load(&world->grace.outsiders[1]) != 0;
}

/* ---- a period ---- */

/*
 * An addition of 0, not a load: a thread that counts itself in afterwards is ordered behind it, and so sees
 * the tables as they are now.
 */
static bool side_is_empty(weir_world *world, unsigned side)
{
	if (atomic_fetch_add(&world->grace.outsiders[side], 0) != 0)
		return false;
	uint32_t domains = atomic_load_explicit(&world->domain_count, memory_order_acquire);
	for (uint32_t i = 0; i < domains; i++) {
		weir_domain *domain = weir_world_domain(world, i);
		if (domain == NULL || domain->options.kind != WEIR_ELASTIC)
			continue;
		pthread_mutex_lock(&domain->lock);
		bool empty = domain->calls[side] == 0;
		pthread_mutex_unlock(&domain->lock);
		if (!empty)
			return false;
	}
	return true;
}

/* The same trick: the end of the next turn is ordered behind this. */
static uint64_t turns_of(weir_thread *thread)
{
	return atomic_fetch_add_explicit(&thread->turns, 0, memory_order_acq_rel);
}

/* A thread that has not started, or has ended, uses nothing. */
static bool is_turning(const weir_thread *thread)
{
	return thread->loop != NULL && !atomic_load_explicit(&thread->over, memory_order_acquire);
}

/* Sleeping threads are woken so that their turn ends. */
static bool reactors_have_turned(weir_world *world, uint64_t often)
{
	bool turned = true;
	for (uint32_t i = 0; i < world->reactor_count; i++) {
		weir_thread *thread = world->reactors[i];
		if (!is_turning(thread) || turns_of(thread) - world->grace.turns[i] >= often)
			continue;
		weir_loop_wake(thread->loop);
		turned = false;
	}
	return turned;
}

/* Offers that wait for room, perhaps for long, begin a new section when woken. */
static void wake_waiters(weir_world *world)
{
	for (uint32_t i = 0; i < atomic_load(&world->stage_count); i++) {
		weir_stage *stage = weir_world_stage(world, i);
		if (stage != NULL && atomic_load(&stage->waiters) != 0)
			weir_stage_wake_waiters(stage);
	}
}

static void note_turns(weir_world *world)
{
	for (uint32_t i = 0; i < world->reactor_count; i++)
		world->grace.turns[i] = turns_of(world->reactors[i]);
}

static bool begin_locked(weir_world *world)
{
	weir_grace *grace = &world->grace;
	unsigned side = atomic_load(&grace->side) & 1;
	if (!side_is_empty(world, side ^ 1)) {
		wake_waiters(world);
		return false;
	}
	grace->begun++;
	grace->sections_over = false;
	atomic_store(&grace->side, side ^ 1);
	note_turns(world);
	return true;
}

static bool sections_are_over(weir_world *world)
{
	unsigned before = (atomic_load(&world->grace.side) & 1) ^ 1;
	bool turned = reactors_have_turned(world, 1);
	if (turned && side_is_empty(world, before))
		return true;
	wake_waiters(world);
	return false;
}

/* After the sections, for what they posted: each loop's present turn, and the next one. */
static bool end_locked(weir_world *world)
{
	weir_grace *grace = &world->grace;
	if (!grace->sections_over) {
		if (!sections_are_over(world))
			return false;
		grace->sections_over = true;
		note_turns(world);
	}
	if (!reactors_have_turned(world, 2))
		return false;
	grace->ended = grace->begun;
	return true;
}

uint64_t weir_grace_ask_locked(weir_world *world)
{
	world->grace.asked = world->grace.begun + 1;
	return world->grace.asked;
}

/* A virtual world has one thread. Within a handler it is inside every section, otherwise in none. */
void weir_grace_step_locked(weir_world *world)
{
	weir_grace *grace = &world->grace;
	if (world->sim != NULL && weir_thread_in(world) != NULL)
		return;
	while (grace->ended < grace->asked) {
		if (grace->begun == grace->ended && !begin_locked(world))
			return;
		if (!end_locked(world))
			return;
	}
}

bool weir_grace_over_locked(const weir_world *world, uint64_t number)
{
	return world->grace.ended >= number;
}

uint64_t weir_grace_tick_locked(weir_world *world, uint64_t now_ns)
{
	weir_grace_step_locked(world);
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages && world->gates_retired != 0; i++) {
		weir_stage *stage = weir_world_stage(world, i);
		if (stage != NULL && stage->retired != NULL)
			weir_gates_collect_locked(stage);
	}
	return world->grace.ended < world->grace.asked ? now_ns + LOOK_NS : UINT64_MAX;
}
