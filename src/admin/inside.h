/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_ADMIN_INSIDE_H
#define WEIR_ADMIN_INSIDE_H

/*
 * What the files of the admin listener share. Reading order: admin.c (making, once a second), guard.c
 * (access), api.c (requests), change.c (PUT), stream.c (server-sent events), view.c, costs.c, sessions.c,
 * nucleus.c, shown.c and metrics.c (answers), sheds.c, snapshot.c.
 *
 * Threads: the one of the admin domain, except for atomics and the sheds.
 */

#include <stdatomic.h>
#include <weir/loop.h>

#include "admin/admin.h"
#include "admin/history.h"
#include "admin/view.h"
#include "http/gauge.h"

#define WEIR_ADMIN_STREAMS     64u
#define WEIR_ADMIN_CONNECTIONS 256u
#define WEIR_ADMIN_CLOSING     256u /* more, which give way at that moment */

typedef struct weir_stream weir_stream; /* stream.c */

struct weir_admin {
	/* const after init */
	weir_admin_options options;
	char *verb, *token;
	char *hosts; /* each with a space after it */
	weir_domain *domain;
	weir_stage *stage;
	weir_routes *routes;
	weir_http *http;
	uint64_t started_ns;
	weir_process process;
	bool loopback; /* it listens on loopback: reading needs no token */
	char name[64]; /* of its address, as in a Host field; "" for a Unix socket */

	/* the owner's */
	char address[128];

	/* any thread */
	_Atomic bool ready;
	_Atomic bool pageless;
	_Atomic bool ending;
	weir_sheds sheds;

	/* the admin's thread */
	weir_snapshot snapshot;
	weir_history history;
	weir_gauge gauge;
	weir_timer timer;
	weir_post start_post;
	weir_stream *streams;
	unsigned stream_count;
	uint64_t shown_shed; /* the newest id sent to streams */
};

weir_view_context weir_admin_context(const weir_admin *admin);
/* The answer of /api/costs, with at most that many kinds. A new reference; NULL: out of memory. */
json_t *weir_admin_costs(const weir_admin *admin, size_t most);

/* ---- guard.c ---- */

/* Whether the request may be answered; if not, it was answered with 401, 403 or 421. */
bool weir_admin_guard(const weir_admin *admin, weir_request *request, bool changes);

/* ---- api.c ---- */

void weir_admin_answer(weir_admin *admin, weir_request *request);
/* Answers with JSON and takes the reference; NULL: out of memory. */
void weir_admin_reply_json(weir_request *request, unsigned status, json_t *json);
/* {"error": sentence} */
void weir_admin_reply_error(weir_request *request, unsigned status, const char *sentence);

/* ---- nucleus.c ---- */

void weir_admin_gauge_init(weir_admin *admin);
/* Looks at the stages, unless that was done a moment ago. */
void weir_admin_gauge_look(weir_admin *admin, uint64_t now_ns);
void weir_admin_answer_nucleus(weir_admin *admin, weir_request *request);

/* ---- change.c ---- */

/* Checks and applies the members of a PUT to a stage. 0, or -EINVAL and weir_error. */
int weir_admin_change(weir_stage *stage, const json_t *wanted);

/* ---- stream.c ---- */

void weir_stream_begin(weir_admin *admin, weir_request *request);
/* Sends a snapshot to every reader. */
void weir_stream_tick(weir_admin *admin);
void weir_stream_end_all(weir_admin *admin);

/* ---- assets: made of web/dist by tools/embed ---- */

typedef struct weir_asset {
	const char *path, *type, *etag;
	const unsigned char *bytes;
	size_t length;
} weir_asset;

extern const weir_asset weir_assets[]; /* ends with a NULL path */

#endif
