/* SPDX-License-Identifier: Apache-2.0 */
#include "stage/friends.h"

#include "stage/runtime.h"

weir_stage *weir_event_stage(const weir_event *event)
{
	return event->lane->stage;
}

uint32_t weir_stage_waits_here(const weir_stage *stage, uint32_t *ret_capacity)
{
	const weir_thread *self = weir_thread_in(stage->world);
	bool own = self != NULL && self->domain == stage->domain && self->index < stage->lane_count;
	const weir_lane *lane = &stage->lanes[own ? self->index : 0];
	*ret_capacity = lane->capacity;
	return atomic_load_explicit(&lane->waiting, memory_order_relaxed);
}

unsigned weir_world_slot(const weir_world *world)
{
	const weir_thread *self = weir_thread_in(world);
	return self != NULL && self->loop != NULL ? self->slot : 0;
}

weir_visit weir_visit_begin(weir_world *world)
{
	const weir_thread *self = weir_thread_in(world);
	return (weir_visit){.world = world, .self = self, .side = weir_outsider_enter(world, self)};
}

void weir_visit_end(const weir_visit *visit)
{
	weir_outsider_leave(visit->world, visit->self, visit->side);
}

uint64_t weir_world_exact_ns(const weir_world *world)
{
	return weir_thread_now(weir_thread_in(world), world);
}

bool weir_world_is_virtual(const weir_world *world)
{
	return world->sim != NULL;
}

bool weir_world_has_stopped(const weir_world *world)
{
	return atomic_load(&world->phase) == WEIR_PHASE_STOPPED;
}

/* ---- histograms ---- */

uint64_t weir_stage_at_most(const weir_stage *stage, unsigned klass, weir_measure measure,
			    const uint64_t *bounds_ns, unsigned count, uint64_t *ret_counts,
			    double *ret_sum_ns)
{
	weir_hist hist;
	uint64_t sum = 0;
	unsigned at = 0;
	weir_stage_measured(stage, klass, measure, &hist);
	for (unsigned bucket = 0; bucket < WEIR_HIST_BUCKETS; bucket++) {
		uint64_t low = weir_hist_low(bucket), high = weir_hist_high(bucket);
		for (; at < count && low + (high - low) / 2 > bounds_ns[at]; at++)
			ret_counts[at] = sum;
		sum += atomic_load_explicit(&hist.bucket[bucket], memory_order_relaxed);
	}
	for (; at < count; at++)
		ret_counts[at] = sum;
	*ret_sum_ns = weir_hist_mean(&hist) * (double)sum;
	return sum;
}
