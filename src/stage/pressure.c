/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pressure from elsewhere: reasons to shed events that the stage's own law cannot see.
 *
 * Resources. weir_stage_press says which fraction of all offers must go. The lowest class goes first.
 *
 * Downstream. Work done for a request that is then shed further down is wasted. Each event knows where it
 * entered and in which class. So a stage where requests enter counts, per class, how many of those it
 * admitted were shed by others, and admits fewer (control/downstream.c). An event counts once for each stage
 * that it passes, however often its handler tries.
 *
 * A fraction p of a class is shed evenly, without random numbers. Every offer adds p for each of its events
 * to the class's carry. An offer that finds at least half of its own count there is shed, and subtracts its
 * count. So the fraction is exact for offers of any size.
 */
#include "stage/runtime.h"

#define TICK_NS (100 * WEIR_NS_PER_MS)

/* ---- at offers ---- */

static bool is_due(weir_pressure *pressure, unsigned klass, uint32_t part, uint32_t count)
{
	int64_t whole = (int64_t)count * WEIR_WHOLE, by = (int64_t)count * part;
	if (part == WEIR_WHOLE)
		return true;
	int64_t before = atomic_fetch_add_explicit(&pressure->carry[klass], by, memory_order_relaxed);
	if (before + by < whole / 2)
		return false;
	atomic_fetch_sub_explicit(&pressure->carry[klass], whole, memory_order_relaxed);
	return true;
}

weir_verdict weir_pressure_ask(weir_stage *stage, unsigned klass, uint32_t count)
{
	weir_pressure *pressure = &stage->pressure;
	uint32_t part = atomic_load_explicit(&pressure->part[klass], memory_order_relaxed);
	if (part == 0 || !is_due(pressure, klass, part, count))
		return WEIR_ADMITTED;
	bool resources = atomic_load_explicit(&pressure->by_resources[klass], memory_order_relaxed);
	return resources ? WEIR_SHED_RESOURCE : WEIR_SHED_UPSTREAM;
}

/* Signs of too much work, as opposed to a client that has gone or a stage that was closed. */
static bool is_overload(weir_verdict why)
{
	switch (why) {
	case WEIR_SHED_FULL:
	case WEIR_SHED_COST:
	case WEIR_SHED_THRESHOLD:
	case WEIR_SHED_RATE:
	case WEIR_SHED_LATE:
	case WEIR_SHED_PRICE:
	case WEIR_SHED_WAITED:
	case WEIR_SHED_LIMIT:
	case WEIR_SHED_UPSTREAM:
	case WEIR_SHED_RESOURCE:
	case WEIR_SHED_TIMEOUT:
		return true;
	default:
		return false;
	}
}

static void tell_entry(const weir_stage *stage, weir_event *event, uint64_t now_ns)
{
	weir_stage *first = weir_world_stage(stage->world, WEIR_MARK_INDEX(event->entry));
	unsigned klass = event->entry_klass;
	/* The stage where it entered may have been retired since, and another one may have its index. */
	if (first == NULL || first->mark != event->entry || !first->options.heed_downstream || event->told)
		return;
	weir_pressure *pressure = &first->pressure;
	event->told = 1;
	uint64_t lag_ns = now_ns > event->entered_ns ? now_ns - event->entered_ns : 0;
	atomic_fetch_add_explicit(&pressure->lag_sum[klass], lag_ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&pressure->below[klass], 1, memory_order_relaxed);
}

void weir_pressure_below(const weir_stage *stage, weir_event *event, weir_verdict why, uint64_t now_ns)
{
	if (event->entry != 0 && event->entry != stage->mark && is_overload(why))
		tell_entry(stage, event, now_ns);
}

void weir_pressure_refused(const weir_stage *stage, weir_event *event, uint64_t now_ns)
{
	if (event->entry != 0)
		tell_entry(stage, event, now_ns);
}

/* ---- the controller ---- */

void weir_pressure_init(weir_stage *stage)
{
	weir_pressure *pressure = &stage->pressure;
	pressure->last_ns = weir_world_now(stage->world);
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		pressure->kept[k] = 1;
		weir_downstream_init(&pressure->downstream[k], pressure->last_ns);
	}
}

/* What a class was offered since the last look, and what became of it. */
static weir_downstream_sample look_at_class(weir_stage *stage, unsigned k, uint64_t now_ns)
{
	weir_pressure *pressure = &stage->pressure;
	weir_stage_stats stats;
	weir_stage_read(stage, k, &stats);
	uint64_t below = atomic_load_explicit(&pressure->below[k], memory_order_relaxed);
	uint64_t lag_sum = atomic_load_explicit(&pressure->lag_sum[k], memory_order_relaxed);
	weir_downstream_sample sample = {.now_ns = now_ns,
					 .interval_ns = now_ns - pressure->last_ns,
					 .offered = stats.offered - pressure->last[k].offered,
					 .let_in = stats.admitted - pressure->last[k].admitted,
					 .shed = below - pressure->last[k].below};
	if (sample.shed != 0)
		sample.lag_ns = (lag_sum - pressure->last[k].lag_sum) / sample.shed;
	pressure->last[k].offered = stats.offered;
	pressure->last[k].admitted = stats.admitted;
	pressure->last[k].below = below;
	pressure->last[k].lag_sum = lag_sum;
	return sample;
}

static void look(weir_stage *stage, uint64_t now_ns)
{
	weir_pressure *pressure = &stage->pressure;
	double mix[WEIR_CLASSES], all = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		weir_downstream_sample sample = look_at_class(stage, k, now_ns);
		mix[k] = (double)sample.offered / (double)sample.interval_ns;
		all += mix[k];
		if (!stage->options.heed_downstream)
			continue;
		pressure->kept[k] = weir_downstream_step(&pressure->downstream[k], &sample);
	}
	for (unsigned k = 0; k < WEIR_CLASSES && all > 0; k++)
		pressure->mix[k] = (pressure->mix[k] + mix[k]) / 2;
	pressure->last_ns = now_ns;
}

/* Sheds all of the lowest class before any of the class above. Before the first offers, all classes alike. */
static void spread(const double *offered, double level, double *ret_part)
{
	double all = 0, budget;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		all += offered[k];
	budget = all * level;
	for (unsigned k = WEIR_CLASSES; k-- > 0;) {
		double gone = budget < offered[k] ? budget : offered[k];
		ret_part[k] = offered[k] > 0 ? gone / offered[k] : (double)(budget > 0);
		budget -= gone;
	}
	for (unsigned k = 0; k < WEIR_CLASSES && !(all > 0 && level < 1); k++)
		ret_part[k] = level;
}

static double level(const weir_pressure *pressure)
{
	double most = 0;
	for (unsigned who = 0; who < WEIR_PRESSERS; who++)
		most = pressure->asked[who] > most ? pressure->asked[who] : most;
	return most;
}

static void set_parts_locked(weir_stage *stage)
{
	weir_pressure *pressure = &stage->pressure;
	double part[WEIR_CLASSES];
	bool active = false;
	spread(pressure->mix, level(pressure), part);
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		double down = 1 - pressure->kept[k];
		bool resources = part[k] > down;
		uint32_t shares = (uint32_t)((resources ? part[k] : down) * WEIR_WHOLE + 0.5);
		atomic_store_explicit(&pressure->by_resources[k], resources, memory_order_relaxed);
		atomic_store_explicit(&pressure->part[k], shares, memory_order_relaxed);
		active = active || shares != 0;
	}
	/* A gate is missing although there should be one: there was no memory for it. Try again. */
	if (active == atomic_load(&pressure->active) && !(active && weir_stage_gate(stage) == NULL))
		return;
	atomic_store(&pressure->active, active);
	weir_gate_update_locked(stage);
}

bool weir_pressure_is_on(const weir_stage *stage)
{
	return level(&stage->pressure) > 0 || atomic_load(&stage->pressure.active);
}

uint64_t weir_pressure_tick_locked(weir_stage *stage, uint64_t now_ns)
{
	weir_pressure *pressure = &stage->pressure;
	if (!stage->options.heed_downstream && !weir_pressure_is_on(stage))
		return UINT64_MAX;
	if (now_ns < pressure->at_ns)
		return pressure->at_ns;
	if (now_ns > pressure->last_ns)
		look(stage, now_ns);
	set_parts_locked(stage);
	pressure->at_ns = now_ns + TICK_NS;
	return pressure->at_ns;
}

void weir_pressure_set_locked(weir_stage *stage, weir_presser who, double fraction)
{
	weir_pressure *pressure = &stage->pressure;
	uint64_t now_ns = weir_world_now(stage->world);
	pressure->asked[who] = fraction > 0 ? (fraction < 1 ? fraction : 1) : 0;
	/* A short interval would show little more than chance. The last look is still good. */
	if (now_ns >= pressure->last_ns + TICK_NS) {
		look(stage, now_ns);
		pressure->at_ns = now_ns + TICK_NS;
	}
	set_parts_locked(stage);
	if (weir_pressure_is_on(stage))
		weir_rest_end_locked(stage, now_ns);
}

void weir_stage_press(weir_stage *stage, double fraction)
{
	weir_world *world = stage->world;
	pthread_mutex_lock(&world->control_lock);
	weir_pressure_set_locked(stage, WEIR_BY_USER, fraction);
	pthread_cond_signal(&world->control_wake);
	pthread_mutex_unlock(&world->control_lock);
	if (world->sim != NULL && atomic_load(&world->phase) == WEIR_PHASE_RUNNING)
		weir_sim_start(world);
}
