/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_ADMIN_SNAPSHOT_H
#define WEIR_ADMIN_SNAPSHOT_H

/*
 * What a world does, second by second: the counts of every stage, their rates over the last interval, the
 * percentiles of the last ten seconds. They come from counters that only grow, so the runtime is only read.
 *
 * Threads: one, of the world, or one that is in a section (weir_visit, stage/friends.h) while it looks.
 * Stages may be retired between two looks: weir_snapshot_renew comes before whatever looks at them.
 */

#include <weir/inspect.h>

typedef struct weir_rates {
	double offered, admitted, shed, completed, failed, dropped;
	double spared; /* would have been shed: dry run, shed ceiling */
} weir_rates;

typedef struct weir_recent_times {
	uint64_t count;
	uint64_t p50_ns, p90_ns, p99_ns, wait_p90_ns, service_p90_ns;
} weir_recent_times;

/* One class of a stage, or all of them together. */
typedef struct weir_class_view {
	weir_stage_stats stats;
	weir_rates rate;
	weir_recent_times recent;
} weir_class_view;

typedef struct weir_stage_view {
	weir_stage *stage; /* NULL: there is none at this place */
	uint64_t serial;   /* of the stage: another may come to the same place, or the same memory */
	weir_class_view all;
	weir_class_view klass[WEIR_CLASSES];
} weir_stage_view;

typedef struct weir_edge_view {
	uint16_t from, to; /* indices of stages; from: UINT16_MAX is outside */
	uint64_t count;
	double per_s, shed_per_s;
} weir_edge_view;

typedef struct weir_snapshot {
	weir_world *world;
	uint64_t taken_ns;
	size_t stage_count;
	weir_stage_view
		*stages; /* WEIR_STAGES_MAX, by the stage's index; those from stage_count on are empty */
	size_t edge_count, edge_room;
	weir_edge_view *edges;
} weir_snapshot;

int weir_snapshot_init(weir_snapshot *snapshot, weir_world *world);
void weir_snapshot_fini(weir_snapshot *snapshot);
/* Forgets the stages that have been retired, and has those that are new, whose rates are 0 until the next look. */
void weir_snapshot_renew(weir_snapshot *snapshot);
/* Reads it all anew; rates are those since the last time. */
void weir_snapshot_take(weir_snapshot *snapshot, uint64_t now_ns);

#endif
