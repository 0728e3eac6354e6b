/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_RULES_ROUTES_H
#define WEIR_RULES_ROUTES_H

/*
 * Which requests go to which stage, in which class. A table is made by one thread, given to servers, and
 * immutable from then on.
 *
 * Uses. A table is shared by threads and has an atomic reference count, but a request must not pay for
 * that. So each loop of a server has a weir_table: its use of the routes, with a plain count of the
 * requests that need it. A replaced weir_table lives until the last of these is over.
 *
 * Threads: weir_routes: immutable when used; any. weir_table: the loop's.
 */

#include <stdatomic.h>
#include <weir/http.h>

#include "rules/match.h"
#include "rules/sessions.h"

/* What distinguishes clients, or sessions. */
typedef enum weir_limit_key {
	WEIR_BY_CLIENT,
	WEIR_BY_HEADER,
	WEIR_BY_COOKIE,
	WEIR_BY_NOTHING
} weir_limit_key;

/* Shared by all routes with the same session. */
typedef struct weir_session_rule {
	char *text; /* "cookie sid" */
	weir_limit_key by;
	weir_span name; /* "sid", in text */
	uint64_t idle_ns;
	weir_sessions *sessions;
} weir_session_rule;

typedef struct weir_route {
	char *name;
	uint32_t number;       /* derived from the name: the same in every table and process */
	weir_matcher *matcher; /* NULL: every request */
	weir_stage *stage;
	void *arg;
	int klass; /* -1: as the classes say */
	bool exempt;
	/* Exempt, or with a deadline or a classify function: one look tells whether there is more to do. */
	bool special;
	bool by_method;          /* another method may match where one does not */
	weir_classify *classify; /* NULL: nobody is asked */
	void *classify_arg;
	weir_refuse *refuse; /* NULL: rejected as `reject` says */
	void *refuse_arg;
	weir_note_shed *note_shed; /* NULL: none */
	void *note_shed_arg;
	size_t collect_bytes, gather_bytes;
	bool gather_streams;
	uint64_t deadline_ns;
	weir_reject_kind reject;
	unsigned reject_status;
	char *location;
	weir_buf *page;
	char *page_type;
	const weir_session_rule *session; /* NULL: none; owned by the table */
} weir_route;

typedef struct weir_class_rule {
	weir_matcher *matcher;
	unsigned klass;
} weir_class_rule;

typedef struct weir_limit {
	char *name;
	weir_matcher *matcher;
	weir_limit_key by;
	char *key; /* name of the header or cookie */
	weir_quota *quota;
} weir_limit;

struct weir_routes {
	_Atomic uint32_t refs;
	atomic_bool used; /* a server has it: no more changes */
	weir_route *routes;
	weir_class_rule *classes;
	weir_limit *limits;
	weir_session_rule **sessions;
	uint32_t route_count, class_count, limit_count, session_count;
	unsigned default_class;
	char *class_name[WEIR_CLASSES]; /* NULL: its number */
	const weir_routes *from;        /* the table whose quotas and sessions are continued; NULL: none */
	bool by_method;                 /* some route is */
	bool raw_paths;                 /* rules see paths as sent */
	/* made when the first server takes the table; NULL: all routes are compared */
	_Atomic(struct weir_route_index *) index;
	bool plain; /* one route for everything, no classes, no limits, no sessions: nothing to compare */
};

/* A loop's use of a table. */
typedef struct weir_table {
	weir_routes *routes;
	uint32_t requests; /* requests that need it, plus 1 while it is the current one */
} weir_table;

weir_routes *weir_routes_ref(weir_routes *routes);
/* Whether the caller's reference is the only one left. */
bool weir_routes_is_last(const weir_routes *routes);
/*
 * Limits that are added from now on continue with the buckets of those in `from` that have the same name,
 * key, rate, burst and room, whatever their rules. Routes continue with the sessions of the same text and
 * room, whatever their idle time. `from` must live until this is called again with NULL.
 */
void weir_routes_go_on(weir_routes *routes, const weir_routes *from);
/* Takes a reference of its own; NULL: out of memory. */
weir_table *weir_table_new(weir_routes *routes);
void weir_table_free(weir_table *table);

static inline void weir_table_take(weir_table *table)
{
	table->requests++;
}

static inline void weir_table_drop(weir_table *table)
{
	if (--table->requests == 0)
		weir_table_free(table);
}

/* What was found for a request. */
typedef struct weir_found {
	const weir_route *route; /* NULL: none matches */
	const weir_limit *limit; /* the limit whose quota is used up; NULL: none */
	uint64_t retry_after_ns; /* of the limit */
	unsigned klass;
	weir_standing standing;
	uint64_t session; /* the hash of its session identifier; 0: none */
} weir_found;

/* Finds route, class, session and limit. */
void weir_routes_find(const weir_routes *routes, const weir_match_input *input, uint64_t now_ns,
		      weir_found *ret_found);
/*
 * The methods by which a route would match a request that none has matched: a bit for each weir_method. 0:
 * none. It walks over the routes with rules on methods once per method, so it is for refused requests only.
 */
uint32_t weir_routes_allowed(const weir_routes *routes, const weir_match_input *input);
/* Prints them as the field Allow has them: "GET, HEAD". Returns the length. */
#define WEIR_ALLOW_BYTES 96
size_t weir_routes_print_allowed(uint32_t methods, char ret_text[static WEIR_ALLOW_BYTES]);
/* Whether the text is "cookie NAME" or "header NAME". */
bool weir_session_text_is_good(const char *text);
/* "gold", or "2" if it has no name. */
const char *weir_routes_class_name(const weir_routes *routes, unsigned klass);

#endif
