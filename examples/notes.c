/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service of its own on the service kit: notes in a database. POST adds one, GET lists the newest. Copy it to begin yours.
 *
 *	cc notes.c -o notes $(pkg-config --cflags --libs libweir) -lsqlite3
 *	./notes --notes notes.db --p90 100ms
 *	curl -d 'buy milk' localhost:8080; curl localhost:8080
 *
 * The database blocks, so its stage runs on threads of its own, each with a connection of its own. With a target
 * (--p90) requests that could not be answered in time are rejected at once. TLS, routes, classes, limits, logs
 * and the live page are the configuration's: ./notes --help.
 */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/service.h>

/* ---- what is configured: route "a" { notes = "/srv/notes.db"; shown = 50 } ---- */

typedef struct notes {
	const char *file;
	uint32_t shown; /* atomic: a reload changes it */
} notes;

static const weir_key keys[] = {
	WEIR_KEY("notes", PATH, notes, file, NULL, "the database, which is made where there is none",
		 .flags = WEIR_KEY_WRITTEN),
	WEIR_KEY("shown", COUNT, notes, shown, "20", "how many notes a page has", .min = 1, .max = 1000,
		 .flags = WEIR_KEY_LIVE),
	{0},
};

/* --notes FILE instead of a configuration: one route for all requests. */
static void apply_flag(weir_config *config, const char *const *values, unsigned count)
{
	weir_block_head *route = weir_config_add(config, "route", "notes");
	if (route == NULL)
		return;
	weir_config_set(config, route, "notes", values[count - 1]);
	weir_config_set(config, route, "collect", "64KB"); /* bodies are read before a request is admitted */
}

static const weir_kind_flag flag = {.name = "--notes",
				    .value = "FILE",
				    .help = "notes for all requests, instead of routes",
				    .apply = apply_flag};

/* ---- a thing: what a route leads to; here a copy of what is configured ---- */

/* Each thread of the pool has a connection of its own. With one that is no good, requests fail. */
static void *attach(void *thing)
{
	sqlite3 *database = NULL;
	sqlite3_open(((notes *)thing)->file, &database);
	sqlite3_busy_timeout(database, 5000); /* one writes at a time */
	return database;
}

static void detach(void *thing, void *database)
{
	sqlite3_close(database);
}

static void add(weir_request *request)
{
	const weir_buf *body = weir_request_collected(request);
	char *sql = body != NULL ? sqlite3_mprintf("INSERT INTO note VALUES (%.*Q)", body->length, body->data)
				 : NULL;
	bool done = sql != NULL && sqlite3_exec(weir_thread_state(), sql, NULL, NULL, NULL) == SQLITE_OK;
	sqlite3_free(sql);
	weir_request_reply_text(request, done ? 201 : 400,
				done ? WEIR_SPAN("noted\n") : WEIR_SPAN("no note\n"));
}

static int answer(void *request, int columns, char **values, char **names)
{
	weir_request_reply_text(request, 200, (weir_span){values[0], strlen(values[0])});
	return 0;
}

static void list(notes *n, weir_request *request)
{
	char sql[200];
	snprintf(sql, sizeof(sql),
		 "SELECT coalesce(group_concat('- ' || text || char(10), ''), '') FROM "
		 "(SELECT text FROM note ORDER BY rowid DESC LIMIT %u)",
		 __atomic_load_n(&n->shown, __ATOMIC_RELAXED));
	if (sqlite3_exec(weir_thread_state(), sql, answer, request, NULL) != SQLITE_OK)
		weir_request_reply_text(request, 500, WEIR_SPAN("sorry\n"));
}

/* On a thread of the pool. Each event must be settled, which an answer does. */
static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		weir_request *request = weir_request_of(events[i]);
		if (weir_request_method(request) == WEIR_METHOD_POST)
			add(request);
		else
			list(arg, request);
	}
}

static int make(const weir_making *making, void **ret_thing, weir_stage **ret_stage)
{
	const notes *values = making->route.values;
	size_t length = strlen(values->file);
	notes *n = calloc(1, sizeof(*n) + length + 1);
	if (n == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	*n = *values;
	n->file = memcpy(n + 1, values->file, length);
	sqlite3 *database = attach(n);
	int failed = sqlite3_exec(database, "CREATE TABLE IF NOT EXISTS note (text)", NULL, NULL, NULL);
	if (failed != SQLITE_OK)
		failed = weir_error_set(-EIO, "%s: %s", values->file, sqlite3_errmsg(database));
	detach(n, database);
	weir_domain_options pool = {
		.max_threads = 8, .thread_start = attach, .thread_end = detach, .thread_arg = n};
	if (failed == 0)
		failed = weir_making_stage(making, &pool, handle, n, ret_stage);
	if (failed != 0)
		free(n);
	else
		*ret_thing = n;
	return failed;
}

static void apply(void *thing, const weir_config *config, const weir_route_view *route)
{
	__atomic_store_n(&((notes *)thing)->shown, ((const notes *)route->values)->shown, __ATOMIC_RELAXED);
}

static const weir_kind kind = {.name = "notes",
			       .keys = keys,
			       .bytes = sizeof(notes),
			       .flag = &flag,
			       .make = make,
			       .apply = apply,
			       .free = free};

int main(int argc, char **argv)
{
	static const weir_kind *const kinds[] = {&kind, &weir_kind_root, NULL};
	static const weir_program program = {
		.name = "notes", .summary = "Keeps notes in a database.", .kinds = kinds};
	return weir_service_main(&program, argc, argv);
}
