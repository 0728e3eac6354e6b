/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_ADMIN_ADMIN_H
#define WEIR_ADMIN_ADMIN_H

/*
 * The admin listener: metrics, JSON API, live page, health (docs/admin.md describes it).
 *
 * It is an HTTP server of its own on a reactor domain "admin" with one thread, so that it answers while the
 * service's threads are busy. Its stage "admin" bounds what may wait and has no law. Once a second that
 * thread takes a snapshot of the world (snapshot.h). Its answers come from snapshots and live counters, so
 * nothing else is locked.
 *
 * Threads: made, listening and freed by the main thread. weir_admin_set_ready, weir_admin_set_page and
 * weir_admin_note_shed by any. note_shed is for access log functions on reactor threads: it returns at once
 * if enough sheds were noted in this second.
 */

#include <weir/http.h>
#include <weir/metric.h>

typedef struct weir_admin weir_admin;

/* What an owner counts: rows, and the struct that they describe. */
typedef struct weir_shown {
	const char *list;   /* the array of the API that it belongs to; NULL: none */
	const char *prefix; /* of the names in /metrics */
	const char *owner;  /* the stage; NULL: none */
	const weir_metric *metrics;
	const void *values;
} weir_shown;

typedef void weir_show_fn(const weir_shown *shown, void *arg);

typedef struct weir_admin_options {
	weir_world *world;
	const char *verb;  /* "serve", "sentry" */
	const char *token; /* for changes, and for reading unless on loopback; NULL or "": no changes */
	/* Names for it besides its address and localhost; without spaces; ended by NULL; may be NULL. */
	const char *const *hosts;
	/*
	 * WEIR_CLASSES names, NULL for a class without one; may be NULL. Table and texts live as long as the
	 * admin; entries may change, atomically.
	 */
	const char *const *class_names;
	/* All functions may be NULL and run on the admin's thread. This one: connections, for "process". */
	void (*http_stats)(weir_http_stats *ret_stats, void *arg);
	/* The server whose requests' costs are shown; NULL, or returns NULL: none. */
	weir_http *(*http)(void *arg);
	/* Calls fn with everything that is counted besides stages. */
	void (*show)(weir_show_fn *fn, void *fn_arg, void *arg);
	/* The configuration in force as text; the caller frees it. */
	char *(*config)(void *arg);
	void *arg;
} weir_admin_options;

/* Adds domain, stage and server to a world that has not started. 0 or a negative errno, with weir_error. */
int weir_admin_new(const weir_admin_options *options, weir_admin **ret_admin);
/* Listens, once the world has started. Of where, address and inherited sockets count. */
int weir_admin_listen(weir_admin *admin, const weir_http_listen *where);
int weir_admin_address(const weir_admin *admin, char *ret_text, size_t size);
/* Copies of its sockets, for a successor; returns how many. */
size_t weir_admin_fds(weir_admin *admin, int *ret_fds, size_t most);
/* What /readyz says; false at first. */
void weir_admin_set_ready(weir_admin *admin, bool ready);
/* Whether there is a page at /; true at first. Everything else is there without it. */
void weir_admin_set_page(weir_admin *admin, bool page);
/* Notes a rejected request for /api/sheds. why: NULL, or the numbers that decided. */
void weir_admin_note_shed(weir_admin *admin, const weir_http_record *record, const weir_why *why);
/* What it remembers of the last hour, as a line of text that the caller frees; NULL: out of memory. */
char *weir_admin_history(weir_admin *admin);
/* Goes on from such a text, before it listens. What is not valid is ignored. */
void weir_admin_load_history(weir_admin *admin, const char *text);
/* Before the world is stopped. Sets it to NULL. */
void weir_admin_free(weir_admin **admin);

#endif
