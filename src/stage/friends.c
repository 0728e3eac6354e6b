/* SPDX-License-Identifier: Apache-2.0 */
#include "stage/friends.h"

#include "stage/runtime.h"

weir_stage *weir_event_stage(const weir_event *event)
{
	return event->lane->stage;
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
