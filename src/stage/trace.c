/* SPDX-License-Identifier: Apache-2.0 */
#include "stage/trace.h"

#include <errno.h>

#include "base/mem.h"
#include "stage/runtime.h"

int weir_trace_init(weir_trace *trace, uint32_t entries)
{
	uint64_t slots = 16;
	while (slots < entries)
		slots *= 2;
	trace->slots = weir_mem_array(slots, sizeof(*trace->slots));
	trace->mask = slots - 1;
	return trace->slots != NULL ? 0 : -ENOMEM;
}

void weir_trace_fini(weir_trace *trace)
{
	weir_mem_free(trace->slots);
	trace->slots = NULL;
}

static uint64_t pack(const weir_trace_entry *entry)
{
	return (uint64_t)entry->event << 32 | (uint64_t)entry->stage << 16 | (uint64_t)entry->klass << 13 |
	       (uint64_t)(entry->verdict & 31) << 8 | entry->step;
}

static void unpack(uint64_t rest, weir_trace_entry *ret_entry)
{
	ret_entry->event = (uint32_t)(rest >> 32);
	ret_entry->stage = (uint16_t)(rest >> 16);
	ret_entry->klass = (rest >> 13) & 7;
	ret_entry->verdict = (weir_verdict)((rest >> 8) & 31);
	ret_entry->step = (uint8_t)rest;
}

_Static_assert(WEIR_CLASSES <= 8 && (int)WEIR_VERDICT_COUNT <= 32, "a trace entry packs class and verdict");

void weir_trace_put(weir_trace *trace, const weir_trace_entry *entry)
{
	uint64_t position = atomic_fetch_add_explicit(&trace->next, 1, memory_order_relaxed);
	weir_trace_slot *slot = &trace->slots[position & trace->mask];
	/* Release and acquire on the fields, not fences: ThreadSanitizer does not understand fences. */
	atomic_store_explicit(&slot->sequence, 2 * position + 1, memory_order_relaxed);
	atomic_store_explicit(&slot->at_ns, entry->at_ns, memory_order_release);
	atomic_store_explicit(&slot->rest, pack(entry), memory_order_release);
	atomic_store_explicit(&slot->sequence, 2 * position + 2, memory_order_release);
}

static bool read_slot(const weir_trace *trace, uint64_t position, weir_trace_entry *ret_entry)
{
	weir_trace_slot *slot = &trace->slots[position & trace->mask];
	uint64_t before = atomic_load_explicit(&slot->sequence, memory_order_acquire);
	uint64_t at_ns = atomic_load_explicit(&slot->at_ns, memory_order_acquire);
	uint64_t rest = atomic_load_explicit(&slot->rest, memory_order_acquire);
	uint64_t after = atomic_load_explicit(&slot->sequence, memory_order_relaxed);
	if (before != 2 * position + 2 || after != before)
		return false;
	ret_entry->at_ns = at_ns;
	unpack(rest, ret_entry);
	return true;
}

size_t weir_trace_read(const weir_world *world, weir_trace_entry *ret_entries, size_t count)
{
	const weir_trace *trace = &world->trace;
	uint64_t end = atomic_load_explicit(&trace->next, memory_order_acquire);
	uint64_t most = trace->mask + 1 < count ? trace->mask + 1 : count;
	uint64_t from = end > most ? end - most : 0;
	size_t found = 0;
	for (uint64_t at = from; at < end; at++)
		found += read_slot(trace, at, &ret_entries[found]);
	return found;
}

const char *weir_trace_stage(const weir_world *world, const weir_trace_entry *entry)
{
	const weir_stage *stage = weir_world_stage_at(world, entry->stage);
	return stage != NULL && entry->at_ns >= stage->made_ns ? stage->name : "(retired)";
}

void weir_trace_every(weir_world *world, uint32_t n)
{
	pthread_mutex_lock(&world->control_lock);
	atomic_store_explicit(&world->trace.every, n, memory_order_relaxed);
	weir_world_update_stages(world);
	pthread_mutex_unlock(&world->control_lock);
}

void weir_trace_choose(weir_trace *trace, weir_event *event)
{
	uint32_t every = atomic_load_explicit(&trace->every, memory_order_relaxed);
	bool chosen = event->flags & WEIR_EVENT_TRACE;
	if (!chosen && every != 0)
		chosen = atomic_fetch_add_explicit(&trace->seen, 1, memory_order_relaxed) % every == 0;
	if (!chosen)
		return;
	uint32_t number = atomic_fetch_add_explicit(&trace->numbers, 1, memory_order_relaxed) + 1;
	event->trace = number != 0 ? number : 1;
}
