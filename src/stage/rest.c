/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages that rest. A world may have a thousand stages, most of which have nothing to do. The law of a stage
 * to which nothing was offered for two seconds, in which nothing is, and which sheds nothing, is ticked once a second.
 *
 * A resting stage is not `open`, so the next offer takes the long way, and comes here: the law is ticked first,
 * with a long interval, which says how much time has passed; then it is asked. So an offer costs nothing more.
 *
 * An offer that found the stage open just before it rests is seen at the next tick, a second later at most. So is one
 * that finds the controller at work, unless others follow.
 */
#include "stage/runtime.h"

#define REST_AFTER_NS (2 * WEIR_NS_PER_S)
#define REST_TICK_NS  WEIR_NS_PER_S

/* Its law changes by time alone, or by what others do. Then it must see time pass as finely as it expects. */
static bool is_restless(const weir_stage *stage, const weir_admission_law *law)
{
	weir_report report;
	bool by_pool = law->wants_pool && atomic_load_explicit(&stage->domain->shared, memory_order_relaxed);
	if (stage->world->restless || law->wants_cpu || by_pool || weir_pressure_is_on(stage))
		return true;
	for (unsigned klass = 0; klass < WEIR_CLASSES; klass++)
		if (weir_stage_report(stage, klass, &report) && report.shedding)
			return true;
	return false;
}

static bool is_busy(const weir_sample *sample)
{
	uint64_t events = (uint64_t)sample->waiting + sample->in_service;
	for (unsigned klass = 0; klass < WEIR_CLASSES; klass++) {
		const weir_class_sample *seen = &sample->klass[klass];
		events += seen->offered + seen->started + seen->completed + seen->failed + seen->dropped;
	}
	return events != 0;
}

static void set_resting(weir_stage *stage, uint64_t until_ns)
{
	bool resting = until_ns != 0;
	stage->ticks.rest_until_ns = until_ns;
	if (resting == atomic_load_explicit(&stage->resting, memory_order_relaxed))
		return;
	atomic_store_explicit(&stage->resting, resting, memory_order_seq_cst);
	weir_stage_update_open(stage);
}

uint64_t weir_rest_next_locked(weir_stage *stage, const weir_gate *gate, const weir_sample *sample)
{
	uint64_t now_ns = sample->now_ns, tick_ns = gate->law->tick_ns;
	if (is_busy(sample) || stage->ticks.busy_ns == 0)
		stage->ticks.busy_ns = now_ns;
	bool rests = tick_ns < REST_TICK_NS && now_ns - stage->ticks.busy_ns >= REST_AFTER_NS &&
		     weir_stage_is_open(stage) && !is_restless(stage, gate->law);
	set_resting(stage, rests ? now_ns + REST_TICK_NS : 0);
	return now_ns + (rests ? REST_TICK_NS : tick_ns);
}

void weir_rest_end_locked(weir_stage *stage, uint64_t now_ns)
{
	stage->ticks.busy_ns = now_ns;
	set_resting(stage, 0);
}

/*
 * Ticks at the last moment at which the law would have ticked, so that the next ticks come when they would have. What
 * the law sees is how much time has passed.
 */
static void catch_up_locked(weir_stage *stage, uint64_t now_ns)
{
	uint64_t tick_ns = weir_stage_gate(stage)->law->tick_ns;
	uint64_t missed_ns = now_ns - (now_ns - stage->ticks.last_ns) % tick_ns;
	stage->ticks.at_ns = missed_ns > stage->ticks.last_ns ? missed_ns : missed_ns + tick_ns;
	weir_rest_end_locked(stage, now_ns);
	weir_tick_stage_locked(stage, missed_ns);
	weir_control_wake_locked(stage->world);
}

/* Does not wait for the controller, which may be at work: a reactor thread has others to serve. */
__attribute__((noinline, cold)) void weir_rest_interrupt(weir_stage *stage)
{
	weir_world *world = stage->world;
	if (pthread_mutex_trylock(&world->control_lock) != 0)
		return;
	if (atomic_load_explicit(&stage->resting, memory_order_relaxed))
		catch_up_locked(stage, weir_world_now(world));
	pthread_mutex_unlock(&world->control_lock);
	if (world->sim != NULL)
		weir_sim_start(world);
}
