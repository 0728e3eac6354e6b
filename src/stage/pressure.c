/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pressure from elsewhere: reasons to turn events away that the stage's own law cannot see.
 *
 * Resources. weir_stage_press says which part of all that is offered must go; the lowest class goes first.
 *
 * Downstream. Work done for a request that is then shed further down is wasted. A stage where requests enter counts, per class, how many
 * of those it let in were shed by others (each event knows where it entered). It lets in as much as keeps a small part of them
 * (WANTED) being shed there: none at all would look the same as no overload, and the stages below could be idle.
 *
 * A part p of a class is shed evenly, without a random number: every offer adds p to the class's carry, and the offer that makes it
 * cross a whole is the one to go.
 */
#include "stage/runtime.h"

#define TICK_NS    (100 * WEIR_NS_PER_MS)
#define ENOUGH     50 /* admitted events that make a ratio mean something */
#define PATIENT_NS WEIR_NS_PER_S
#define WANTED     0.02 /* of what is let in may be shed further down */
#define REGAIN     1.25 /* how fast it lets in more when nothing is */

weir_verdict weir_pressure_ask(weir_stage *stage, unsigned klass, uint32_t count)
{
	weir_pressure *pressure = &stage->pressure;
	uint32_t part = atomic_load_explicit(&pressure->part[klass], memory_order_relaxed);
	if (part == 0)
		return WEIR_ADMITTED;
	uint32_t by = part * (count < WEIR_BATCH_MAX ? count : WEIR_BATCH_MAX);
	uint32_t before = atomic_fetch_add_explicit(&pressure->carry[klass], by, memory_order_relaxed);
	if ((before + by) / WEIR_WHOLE == before / WEIR_WHOLE)
		return WEIR_ADMITTED;
	uint32_t level = atomic_load_explicit(&pressure->level, memory_order_relaxed);
	return level != 0 ? WEIR_SHED_RESOURCE : WEIR_SHED_UPSTREAM;
}

/* Signs of too much work, and not of a client that has gone or a stage that was closed. */
static bool is_overload(weir_verdict why)
{
	switch (why) {
	case WEIR_SHED_FULL:
	case WEIR_SHED_COST:
	case WEIR_SHED_THRESHOLD:
	case WEIR_SHED_RATE:
	case WEIR_SHED_LATE:
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

void weir_pressure_below(weir_stage *stage, uint16_t entry, unsigned klass, weir_verdict why, uint32_t count)
{
	if (entry == 0 || entry == stage->index + 1 || !is_overload(why))
		return;
	weir_stage *first = weir_world_stage(stage->world, entry - 1u);
	if (first->options.heed_downstream)
		atomic_fetch_add_explicit(&first->pressure.below[klass], count, memory_order_relaxed);
}

/* ---- the controller ---- */

static double least(double a, double b)
{
	return a < b ? a : b;
}

/*
 * Of what was let in, the part `shed` was shed further down: with x let in, capacity / x = 1 - shed, so the x that leaves WANTED is known.
 * Half the way to it (in proportion) at a time, since what is shed now was let in a while ago.
 */
static double adjust(double kept, double shed)
{
	if (shed < WANTED / 4)
		return least(1, kept * REGAIN);
	double whole_way = (1 - least(shed, 0.99)) / (1 - WANTED);
	return least(1, kept * (1 + whole_way) / 2);
}

static void heed(weir_stage *stage, uint64_t now_ns)
{
	weir_pressure *pressure = &stage->pressure;
	uint64_t all = 0;
	weir_stage_stats stats[WEIR_CLASSES];
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		weir_stage_read(stage, k, &stats[k]);
		all += stats[k].admitted - pressure->last[k].admitted;
	}
	if (all < ENOUGH && now_ns - pressure->since_ns < PATIENT_NS)
		return;
	pressure->since_ns = now_ns;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		uint64_t below = atomic_load_explicit(&pressure->below[k], memory_order_relaxed);
		double admitted = (double)(stats[k].admitted - pressure->last[k].admitted);
		double shed = admitted > 0 ? (double)(below - pressure->last[k].below) / admitted : 0;
		pressure->kept[k] = adjust(pressure->kept[k], shed);
		pressure->last[k].admitted = stats[k].admitted;
		pressure->last[k].below = below;
	}
}

/* The lowest class goes first: its all, before anything of the class above. */
static void spread(const double *offered, double level, double *ret_part)
{
	double budget = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		budget += offered[k] * level;
	for (unsigned k = WEIR_CLASSES; k-- > 0;) {
		double gone = least(budget, offered[k]);
		ret_part[k] = offered[k] > 0 ? gone / offered[k] : level;
		budget -= gone;
	}
}

static void set_parts_locked(weir_stage *stage)
{
	weir_pressure *pressure = &stage->pressure;
	double offered[WEIR_CLASSES], part[WEIR_CLASSES];
	double level = (double)atomic_load(&pressure->level) / WEIR_WHOLE;
	bool active = false;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		weir_stage_stats stats;
		weir_stage_read(stage, k, &stats);
		offered[k] = (double)(stats.offered - pressure->last[k].offered);
		pressure->last[k].offered = stats.offered;
	}
	spread(offered, level, part);
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		double down = stage->options.heed_downstream ? 1 - pressure->kept[k] : 0;
		uint32_t shares = (uint32_t)((part[k] > down ? part[k] : down) * WEIR_WHOLE);
		atomic_store_explicit(&pressure->part[k], shares, memory_order_relaxed);
		active = active || shares != 0;
	}
	if (active == atomic_load(&pressure->active))
		return;
	atomic_store(&pressure->active, active);
	weir_gate_update_locked(stage);
}

uint64_t weir_pressure_tick_locked(weir_stage *stage, uint64_t now_ns)
{
	weir_pressure *pressure = &stage->pressure;
	bool wanted = stage->options.heed_downstream || atomic_load(&pressure->level) != 0 ||
		      atomic_load(&pressure->active);
	if (!wanted)
		return UINT64_MAX;
	if (now_ns < pressure->at_ns)
		return pressure->at_ns;
	if (stage->options.heed_downstream)
		heed(stage, now_ns);
	set_parts_locked(stage);
	pressure->at_ns = now_ns + TICK_NS;
	return pressure->at_ns;
}

void weir_pressure_set_locked(weir_stage *stage, double fraction)
{
	double level = fraction > 0 ? least(fraction, 1) : 0;
	atomic_store(&stage->pressure.level, (uint32_t)(level * WEIR_WHOLE));
	set_parts_locked(stage);
	stage->pressure.at_ns = weir_world_now(stage->world) + TICK_NS;
}

void weir_stage_press(weir_stage *stage, double fraction)
{
	weir_world *world = stage->world;
	pthread_mutex_lock(&world->control_lock);
	weir_pressure_set_locked(stage, fraction);
	pthread_cond_signal(&world->control_wake);
	pthread_mutex_unlock(&world->control_lock);
	if (world->sim != NULL && atomic_load(&world->phase) == WEIR_PHASE_RUNNING)
		weir_sim_start(world);
}
