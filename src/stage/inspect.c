/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <weir/inspect.h>

#include "stage/runtime.h"

static void add_reasons(weir_stage_stats *sum, const weir_counts *counts, unsigned klass)
{
	for (unsigned why = 0; why < WEIR_VERDICT_COUNT; why++) {
		sum->by_verdict[why] += weir_count_get(&counts->shed[klass][why]);
		sum->drops[why] += weir_count_get(&counts->drops[klass][why]);
		sum->spared[why] += weir_count_get(&counts->spared[klass][why]);
	}
	uint64_t inlined = weir_count_get(&counts->inlined[klass]);
	sum->inlined += inlined;
	sum->batches += inlined;
}

/* Ends before admissions, so that the number in flight is never negative. */
static void sum_classes(const weir_stage *stage, unsigned from, unsigned to, weir_class_counts *sum,
			weir_stage_stats *reasons)
{
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned slot = 0; slot <= stage->world->reactor_count; slot++) {
			weir_counts *counts =
				atomic_load_explicit(&stage->counts[slot], memory_order_acquire);
			for (unsigned c = from; counts != NULL && c < to; c++) {
				(pass == 0 ? weir_counts_add_ends : weir_counts_add_admissions)(counts, c,
												sum);
				if (pass == 0)
					add_reasons(reasons, counts, c);
			}
			if (counts != NULL && pass == 0)
				reasons->batches += weir_count_get(&counts->batches);
		}
}

void weir_stage_read(const weir_stage *stage, unsigned klass, weir_stage_stats *ret_stats)
{
	weir_stage_stats stats = {.waiting = weir_stage_waiting(stage)};
	for (uint32_t i = 0; i < stage->lane_count; i++)
		stats.in_service += atomic_load_explicit(&stage->lanes[i].in_service, memory_order_relaxed);
	weir_class_counts sum = {0};
	bool all = klass >= WEIR_CLASSES;
	sum_classes(stage, all ? 0 : klass, all ? WEIR_CLASSES : klass + 1, &sum, &stats);
	stats.offered = sum.offered;
	stats.admitted = sum.admitted;
	stats.late = sum.late;
	stats.completed = sum.completed;
	stats.failed = sum.failed;
	stats.dropped = sum.dropped;
	for (unsigned why = 0; why < WEIR_VERDICT_COUNT; why++)
		stats.shed += stats.by_verdict[why];
	stats.in_flight = stats.admitted - stats.completed - stats.failed - stats.dropped;
	*ret_stats = stats;
}

void weir_stage_read_settings(const weir_stage *stage, weir_stage_settings *ret_settings)
{
	weir_visit visit = weir_visit_begin(stage->world);
	const weir_gate *gate = weir_stage_gate(stage);
	uint32_t ceiling = atomic_load_explicit(&stage->shed_ceiling, memory_order_relaxed);
	*ret_settings = (weir_stage_settings){
		.law = gate != NULL && !gate->bare ? gate->law : NULL,
		.mode = atomic_load_explicit(&stage->mode, memory_order_relaxed),
		.shed_ceiling = (double)ceiling / WEIR_WHOLE,
		.capacity = stage->options.capacity,
		.bound = stage->options.bound,
	};
	weir_visit_end(&visit);
}

bool weir_stage_read_params(const weir_stage *stage, const weir_admission_law *law, void *ret_params)
{
	weir_visit visit = weir_visit_begin(stage->world);
	const weir_gate *gate = weir_stage_gate(stage);
	bool given = gate != NULL && !gate->bare && gate->law == law && gate->params != NULL;
	if (given)
		memcpy(ret_params, gate->params, law->params_bytes);
	weir_visit_end(&visit);
	return given;
}

uint32_t weir_world_stage_count(const weir_world *world)
{
	return atomic_load_explicit(&world->stage_count, memory_order_acquire);
}

weir_stage *weir_world_stage_at(const weir_world *world, uint32_t number)
{
	return number < WEIR_STAGES_MAX ? weir_world_stage(world, number) : NULL;
}

uint64_t weir_stage_serial(const weir_stage *stage)
{
	return stage->serial;
}

static void merge_class(const weir_stage *stage, unsigned klass, weir_measure measure, weir_hist *into)
{
	for (unsigned slot = 0; slot <= stage->world->reactor_count; slot++) {
		weir_counts *counts = atomic_load_explicit(&stage->counts[slot], memory_order_acquire);
		if (counts != NULL)
			weir_counts_merge(counts, klass, measure, into);
	}
}

void weir_stage_measured(const weir_stage *stage, unsigned klass, weir_measure measure, weir_hist *ret_hist)
{
	weir_hist_clear(ret_hist);
	for (unsigned c = 0; c < WEIR_CLASSES; c++)
		if (klass >= WEIR_CLASSES || klass == c)
			merge_class(stage, c, measure, ret_hist);
}

uint64_t weir_stage_quantile(const weir_stage *stage, unsigned klass, weir_measure measure, double quantile)
{
	weir_hist sum;
	if ((unsigned)measure >= WEIR_MEASURES)
		return 0;
	weir_stage_measured(stage, klass, measure, &sum);
	return weir_hist_quantile(&sum, quantile);
}

uint64_t weir_edge_count(const weir_stage *from, const weir_stage *to)
{
	unsigned at = from != NULL ? from->index + 1u : 0;
	uint64_t sum = 0, gone = weir_edges_get(&to->gone_from, at);
	for (unsigned slot = 0; slot <= to->world->reactor_count; slot++) {
		weir_counts *counts = atomic_load_explicit(&to->counts[slot], memory_order_acquire);
		if (counts != NULL)
			sum += weir_edges_get(&counts->from, at);
	}
	return sum - gone;
}

uint64_t weir_stage_faults(const weir_stage *stage, weir_fault fault)
{
	if ((unsigned)fault >= WEIR_FAULT_COUNT)
		return 0;
	return atomic_load_explicit(&stage->faults[fault], memory_order_relaxed);
}

/*
 * Checks the number in flight against the lanes, which count independently: what waits plus what is in
 * service. Places held by tickets are not events, so with open tickets the lanes may have more.
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

bool weir_stage_check(const weir_stage *stage)
{
	bool right = lanes_agree(stage);
	for (unsigned klass = 0; klass < WEIR_CLASSES; klass++)
		right = right && balanced(stage, klass);
	return right;
}

size_t weir_world_check(const weir_world *world)
{
	size_t wrong = 0;
	const weir_thread *self = weir_thread_in(world);
	unsigned side = weir_outsider_enter((weir_world *)world, self);
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages; i++) {
		const weir_stage *stage = weir_world_stage(world, i);
		wrong += stage != NULL && !weir_stage_check(stage);
	}
	weir_outsider_leave((weir_world *)world, self, side);
	return wrong;
}
