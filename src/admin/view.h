/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_ADMIN_VIEW_H
#define WEIR_ADMIN_VIEW_H

/*
 * Snapshots as JSON (docs/admin.md) and as OpenMetrics. Each returns a new reference, or NULL: out of memory.
 *
 * Threads: that of the snapshot.
 */

#include <jansson.h>
#include <stdio.h>

#include "admin/admin.h"
#include "admin/process.h"
#include "admin/sheds.h"
#include "admin/snapshot.h"

/* What the views need besides the snapshot. */
typedef struct weir_view_context {
	const weir_admin_options *options;
	bool ready;
	uint64_t started_ns;
	uint64_t now_ns;
	const weir_process *process; /* NULL: none */
} weir_view_context;

json_t *weir_view_stages(const weir_snapshot *snapshot, const weir_view_context *context);
json_t *weir_view_stage(const weir_stage_view *stage, const weir_view_context *context);
/* The lowest quality that the stage should deliver, over the classes that were ever offered. */
double weir_view_quality(const weir_stage_view *stage);
json_t *weir_view_graph(const weir_snapshot *snapshot);
json_t *weir_view_sheds(weir_sheds *sheds, uint64_t after, const weir_view_context *context,
			uint64_t *ret_newest);
json_t *weir_view_trace(const weir_world *world);
/* The parameters of the law in force, in the form that weir_law_set takes. */
json_t *weir_view_params(const weir_stage *stage);

/* costs.c: what kinds of request cost, at most that many; http may be NULL. */
json_t *weir_view_costs(weir_http *http, uint64_t now_ns, size_t most);

/* sessions.c: what is known of sessions, an entry for each kind; http may be NULL. */
json_t *weir_view_sessions(weir_http *http, uint64_t now_ns);
/* The same as metric families; nothing if no route has sessions. */
void weir_view_sessions_metrics(weir_http *http, uint64_t now_ns, FILE *to);
/* For files that write metrics: the head of a family, and a label with its value escaped. */
void weir_view_family(FILE *to, const char *name, const char *type, const char *unit, const char *help);
void weir_view_label(FILE *to, const char *name, const char *value);

/* The exposition, ending with "# EOF"; release with free; NULL: out of memory. */
char *weir_view_metrics(const weir_snapshot *snapshot, const weir_view_context *context, uint64_t sheds_total,
			size_t *ret_length);
/* The same text in the format before OpenMetrics (0.0.4); release with free; NULL: out of memory. */
char *weir_view_metrics_older(const char *metrics, size_t *ret_length);

/* Of the service as a whole, as a state and a sentence; null: nobody has judged it yet. A new reference. */
json_t *weir_view_verdict(const weir_admin_options *options);
/* What owners count (admin.h), from a list of the API; NULL: from no list. NULL: out of memory. */
json_t *weir_view_shown(const weir_admin_options *options, const char *list);
/* Everything, for /metrics. */
void weir_view_shown_metrics(const weir_admin_options *options, FILE *to);

#endif
