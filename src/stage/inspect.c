/* SPDX-License-Identifier: Apache-2.0 */
#include <weir/inspect.h>

#include "stage/runtime.h"

static void add_class(weir_stage_stats *sum, const weir_counts *counts, unsigned klass)
{
	/* Ends before admissions, so that what is in flight is never less than nothing. */
	sum->completed += weir_count_get(&counts->completed[klass]);
	sum->failed += weir_count_get(&counts->failed[klass]);
	sum->dropped += weir_count_get(&counts->dropped[klass]);
	for (unsigned why = 0; why < WEIR_VERDICT_COUNT; why++) {
		sum->by_verdict[why] += weir_count_get(&counts->shed[klass][why]);
		sum->drops[why] += weir_count_get(&counts->drops[klass][why]);
	}
}

static void add_admissions(weir_stage_stats *sum, const weir_counts *counts, unsigned klass)
{
	sum->admitted += weir_count_get(&counts->admitted[klass]);
	sum->offered += weir_count_get(&counts->offered[klass]);
}

void weir_stage_read(const weir_stage *stage, unsigned klass, weir_stage_stats *ret_stats)
{
	weir_stage_stats sum = {.waiting = weir_stage_waiting(stage)};
	unsigned from = klass < WEIR_CLASSES ? klass : 0;
	unsigned to = klass < WEIR_CLASSES ? klass + 1 : WEIR_CLASSES;
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned slot = 0; slot <= stage->world->reactor_count; slot++) {
			weir_counts *counts =
				atomic_load_explicit(&stage->counts[slot], memory_order_acquire);
			if (counts == NULL)
				continue;
			for (unsigned c = from; c < to; c++)
				(pass == 0 ? add_class : add_admissions)(&sum, counts, c);
			if (pass == 0) {
				sum.inlined += weir_count_get(&counts->inlined);
				sum.batches += weir_count_get(&counts->batches);
			}
		}
	for (unsigned why = 0; why < WEIR_VERDICT_COUNT; why++)
		sum.shed += sum.by_verdict[why];
	sum.in_flight = sum.admitted - sum.completed - sum.failed - sum.dropped;
	*ret_stats = sum;
}

static void merge_class(const weir_stage *stage, unsigned klass, weir_measure measure, weir_hist *into)
{
	for (unsigned slot = 0; slot <= stage->world->reactor_count; slot++) {
		weir_counts *counts = atomic_load_explicit(&stage->counts[slot], memory_order_acquire);
		weir_hist *hist = counts != NULL ? atomic_load_explicit(&counts->hist[klass][measure],
									memory_order_acquire)
						 : NULL;
		if (hist != NULL)
			weir_hist_merge(into, hist);
	}
}

uint64_t weir_stage_quantile(const weir_stage *stage, unsigned klass, weir_measure measure, double quantile)
{
	weir_hist sum;
	weir_hist_clear(&sum);
	if ((unsigned)measure >= WEIR_MEASURES)
		return 0;
	for (unsigned c = 0; c < WEIR_CLASSES; c++)
		if (klass >= WEIR_CLASSES || klass == c)
			merge_class(stage, c, measure, &sum);
	return weir_hist_quantile(&sum, quantile);
}

uint64_t weir_edge_count(const weir_stage *from, const weir_stage *to)
{
	uint64_t sum = 0;
	unsigned at = from != NULL ? from->index + 1u : 0;
	for (unsigned slot = 0; slot <= to->world->reactor_count; slot++) {
		weir_counts *counts = atomic_load_explicit(&to->counts[slot], memory_order_acquire);
		if (counts != NULL)
			sum += weir_count_get(&counts->from[at]);
	}
	return sum;
}

uint64_t weir_stage_faults(const weir_stage *stage, weir_fault fault)
{
	if ((unsigned)fault >= WEIR_FAULT_COUNT)
		return 0;
	return atomic_load_explicit(&stage->faults[fault], memory_order_relaxed);
}

/*
 * In flight is checked against the lanes, which count independently of the counters: what waits plus what has been started and
 * not settled. Places held by tickets are not events, so with tickets out the lanes may have more.
 */
static bool balanced(const weir_stage *stage, unsigned klass)
{
	weir_stage_stats stats;
	weir_stage_read(stage, klass, &stats);
	if (stats.offered != stats.admitted + stats.shed)
		return false;
	return stats.admitted >= stats.completed + stats.failed + stats.dropped;
}

static bool lanes_agree(const weir_stage *stage)
{
	weir_stage_stats stats;
	weir_stage_read(stage, WEIR_ALL_CLASSES, &stats);
	uint64_t inside = 0;
	for (uint32_t i = 0; i < stage->lane_count; i++)
		inside += atomic_load(&stage->lanes[i].waiting) +
			  (uint64_t)atomic_load(&stage->lanes[i].in_service);
	bool tickets = atomic_load(&stage->world->tickets) != 0;
	return tickets ? inside >= stats.in_flight : inside == stats.in_flight;
}

size_t weir_world_check(const weir_world *world)
{
	size_t wrong = 0;
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages; i++) {
		const weir_stage *stage = weir_world_stage(world, i);
		bool right = lanes_agree(stage);
		for (unsigned klass = 0; klass < WEIR_CLASSES; klass++)
			right = right && balanced(stage, klass);
		wrong += !right;
	}
	return wrong;
}
