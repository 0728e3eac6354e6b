/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/snapshot.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

#define OUTSIDE UINT16_MAX

/* Response times of a class, or of all of them; and then also waiting and service times. */
static void look_recent(weir_stage *stage, unsigned klass, weir_recent_times *ret_recent)
{
	static const double quantiles[] = {.5, .9, .99};
	uint64_t ns[3];
	*ret_recent = (weir_recent_times){0};
	ret_recent->count = weir_stage_recent(stage, klass, WEIR_RESPONSE, quantiles, ns, 3);
	ret_recent->p50_ns = ns[0];
	ret_recent->p90_ns = ns[1];
	ret_recent->p99_ns = ns[2];
	if (klass < WEIR_CLASSES)
		return;
	weir_stage_recent(stage, klass, WEIR_WAITING, &quantiles[1], &ret_recent->wait_p90_ns, 1);
	weir_stage_recent(stage, klass, WEIR_SERVICE, &quantiles[1], &ret_recent->service_p90_ns, 1);
}

static uint64_t sum(const uint64_t *counts)
{
	uint64_t all = 0;
	for (unsigned why = 0; why < WEIR_VERDICT_COUNT; why++)
		all += counts[why];
	return all;
}

static weir_rates rates_between(const weir_stage_stats *before, const weir_stage_stats *now, double seconds)
{
	if (seconds <= 0)
		return (weir_rates){0};
	return (weir_rates){.offered = (double)(now->offered - before->offered) / seconds,
			    .admitted = (double)(now->admitted - before->admitted) / seconds,
			    .shed = (double)(now->shed - before->shed) / seconds,
			    .completed = (double)(now->completed - before->completed) / seconds,
			    .failed = (double)(now->failed - before->failed) / seconds,
			    .dropped = (double)(now->dropped - before->dropped) / seconds,
			    .spared = (double)(sum(now->spared) - sum(before->spared)) / seconds};
}

static void look_at_class(weir_stage_view *view, unsigned klass, double seconds)
{
	weir_class_view *at = klass < WEIR_CLASSES ? &view->klass[klass] : &view->all;
	weir_stage_stats before = at->stats;
	weir_stage_read(view->stage, klass, &at->stats);
	at->rate = rates_between(&before, &at->stats, seconds);
	if (at->stats.offered != 0)
		look_recent(view->stage, klass, &at->recent);
}

static void look_at_stage(weir_stage_view *view, double seconds)
{
	for (unsigned klass = 0; klass <= WEIR_CLASSES; klass++)
		look_at_class(view, klass, seconds);
}

/* ---- edges ---- */

static weir_edge_view *edge_between(weir_snapshot *snapshot, uint16_t from, uint16_t to)
{
	for (size_t i = 0; i < snapshot->edge_count; i++)
		if (snapshot->edges[i].from == from && snapshot->edges[i].to == to)
			return &snapshot->edges[i];
	if (snapshot->edge_count == snapshot->edge_room) {
		size_t room = snapshot->edge_room + 32;
		weir_edge_view *edges = weir_mem_zalloc(room * sizeof(*edges));
		if (edges == NULL)
			return NULL;
		if (snapshot->edge_count != 0)
			memcpy(edges, snapshot->edges, snapshot->edge_count * sizeof(*edges));
		weir_mem_free(snapshot->edges);
		snapshot->edges = edges;
		snapshot->edge_room = room;
	}
	weir_edge_view *edge = &snapshot->edges[snapshot->edge_count++];
	*edge = (weir_edge_view){.from = from, .to = to};
	return edge;
}

static void look_at_edge(weir_snapshot *snapshot, uint16_t from, uint16_t to, double seconds)
{
	const weir_stage *source = from != OUTSIDE ? snapshot->stages[from].stage : NULL;
	uint64_t count = weir_edge_count(source, snapshot->stages[to].stage);
	if (count == 0)
		return;
	weir_edge_view *edge = edge_between(snapshot, from, to);
	if (edge == NULL)
		return;
	edge->per_s = seconds > 0 ? (double)(count - edge->count) / seconds : 0;
	edge->count = count;
}

/*
 * A stage knows how many it shed, but not from where they came. So sheds are shown on the edges in proportion
 * to what passes along them or, while nothing passes, as coming from outside.
 */
static void share_sheds(weir_snapshot *snapshot, uint16_t to)
{
	double shed = snapshot->stages[to].all.rate.shed, passing = 0;
	for (size_t i = 0; i < snapshot->edge_count; i++)
		if (snapshot->edges[i].to == to)
			passing += snapshot->edges[i].per_s;
	for (size_t i = 0; i < snapshot->edge_count; i++)
		if (snapshot->edges[i].to == to)
			snapshot->edges[i].shed_per_s =
				passing > 0 ? shed * snapshot->edges[i].per_s / passing : 0;
	if (passing > 0 || shed <= 0)
		return;
	weir_edge_view *edge = edge_between(snapshot, OUTSIDE, to);
	if (edge != NULL)
		edge->shed_per_s = shed;
}

static void look_at_edges(weir_snapshot *snapshot, double seconds)
{
	for (size_t to = 0; to < snapshot->stage_count; to++) {
		if (snapshot->stages[to].stage == NULL)
			continue;
		look_at_edge(snapshot, OUTSIDE, (uint16_t)to, seconds);
		for (size_t from = 0; from < snapshot->stage_count; from++)
			if (snapshot->stages[from].stage != NULL)
				look_at_edge(snapshot, (uint16_t)from, (uint16_t)to, seconds);
		share_sheds(snapshot, (uint16_t)to);
	}
}

/* ---- snapshots ---- */

int weir_snapshot_init(weir_snapshot *snapshot, weir_world *world)
{
	*snapshot = (weir_snapshot){.world = world};
	snapshot->stages = weir_mem_zalloc(WEIR_STAGES_MAX * sizeof(*snapshot->stages));
	return snapshot->stages != NULL ? 0 : weir_error_set(-ENOMEM, "admin: out of memory");
}

void weir_snapshot_fini(weir_snapshot *snapshot)
{
	weir_mem_free(snapshot->stages);
	weir_mem_free(snapshot->edges);
	*snapshot = (weir_snapshot){0};
}

static void drop_edges(weir_snapshot *snapshot, size_t stage)
{
	size_t kept = 0;
	for (size_t i = 0; i < snapshot->edge_count; i++) {
		const weir_edge_view *edge = &snapshot->edges[i];
		if (edge->from != stage && edge->to != stage)
			snapshot->edges[kept++] = *edge;
	}
	snapshot->edge_count = kept;
}

/* Those that have gone. */
static void drop_stages(weir_snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->stage_count; i++) {
		weir_stage_view *view = &snapshot->stages[i];
		const weir_stage *stage = weir_world_stage_at(snapshot->world, (uint32_t)i);
		if (view->stage == NULL || (stage != NULL && weir_stage_serial(stage) == view->serial))
			continue;
		*view = (weir_stage_view){0};
		drop_edges(snapshot, i);
	}
}

/* Stages that are not in it yet, and what they have done so far if they are to be looked at. */
static void add_stages(weir_snapshot *snapshot, bool look)
{
	uint32_t stages = weir_world_stage_count(snapshot->world);
	for (uint32_t i = 0; i < stages; i++) {
		weir_stage_view *view = &snapshot->stages[i];
		weir_stage *stage = view->stage == NULL ? weir_world_stage_at(snapshot->world, i) : NULL;
		if (stage == NULL)
			continue;
		view->stage = stage;
		view->serial = weir_stage_serial(stage);
		if (look)
			look_at_stage(view, 0);
	}
	snapshot->stage_count = stages;
}

void weir_snapshot_renew(weir_snapshot *snapshot)
{
	drop_stages(snapshot);
	add_stages(snapshot, true);
}

void weir_snapshot_take(weir_snapshot *snapshot, uint64_t now_ns)
{
	double seconds = snapshot->taken_ns != 0 ? (double)(now_ns - snapshot->taken_ns) / 1e9 : 0;
	drop_stages(snapshot);
	add_stages(snapshot, false);
	for (size_t i = 0; i < snapshot->stage_count; i++)
		if (snapshot->stages[i].stage != NULL)
			look_at_stage(&snapshot->stages[i], seconds);
	look_at_edges(snapshot, seconds);
	snapshot->taken_ns = now_ns;
}
