/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service of its own on the service kit: notes in a database. POST adds one, GET lists the newest. Copy it to begin yours.
 *
 *	cc notes.c -o notes $(pkg-config --cflags --libs libweir) -lsqlite3
 *	./notes --notes notes.db --p90 100ms
 *	curl -d 'buy milk' localhost:8080; curl localhost:8080
 *
 * The database blocks, so its stage runs on threads of its own. With a target (--p90) requests that could not be answered in
 * time are rejected at once. TLS, routes, classes, limits, logs and the live page are the configuration's: ./notes --help.
 */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir/service.h>

/* ---- what is configured: route "a" { notes = "/srv/notes.db"; shown = 50 } ---- */

typedef struct notes_keys {
	const char *file;
	uint32_t shown;
} notes_keys;

static const weir_key keys[] = {
	WEIR_KEY("notes", PATH, notes_keys, file, NULL, "the database, which is made where there is none",
		 .flags = WEIR_KEY_WRITTEN),
	WEIR_KEY("shown", COUNT, notes_keys, shown, "20", "how many notes a page has", .min = 1, .max = 1000,
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
	weir_config_set(config, route, "collect", "64KB"); /* bodies are read before a request is let in */
}

static const weir_kind_flag flag = {.name = "--notes",
				    .value = "FILE",
				    .help = "notes for all requests, instead of routes",
				    .apply = apply_flag};

/* ---- a thing: what a route leads to ---- */

typedef struct notes {
	sqlite3 *database; /* shared by the threads: SQLite has a lock of its own */
	uint32_t shown;    /* atomic: a reload changes it */
} notes;

static void add(notes *n, weir_request *request)
{
	const weir_buf *body = weir_request_collected(request);
	char *sql = body != NULL ? sqlite3_mprintf("INSERT INTO note VALUES (%.*Q)", body->length, body->data)
				 : NULL;
	bool done = sql != NULL && sqlite3_exec(n->database, sql, NULL, NULL, NULL) == SQLITE_OK;
	sqlite3_free(sql);
	weir_request_reply_text(request, done ? 201 : 400,
				done ? WEIR_SPAN("noted\n") : WEIR_SPAN("no note\n"));
}

static int print_note(void *to, int columns, char **values, char **names)
{
	return fprintf(to, "- %s\n", values[0]) < 0;
}

static void list(notes *n, weir_request *request)
{
	char sql[80], *text = NULL;
	size_t length = 0;
	FILE *to = open_memstream(&text, &length);
	unsigned shown = __atomic_load_n(&n->shown, __ATOMIC_RELAXED);
	snprintf(sql, sizeof(sql), "SELECT text FROM note ORDER BY rowid DESC LIMIT %u", shown);
	bool good = to != NULL && sqlite3_exec(n->database, sql, print_note, to, NULL) == SQLITE_OK;
	good = to != NULL && fclose(to) == 0 && good;
	weir_request_reply_text(request, good ? 200 : 500,
				good ? (weir_span){text, length} : WEIR_SPAN("sorry\n"));
	free(text);
}

/* On a thread of the pool. Each event must be settled, which an answer does. */
static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		weir_request *request = weir_request_of(events[i]);
		if (weir_request_method(request) == WEIR_METHOD_POST)
			add(arg, request);
		else
			list(arg, request);
	}
}

static void free_notes(void *thing)
{
	notes *n = thing;
	sqlite3_close(n->database);
	free(n);
}

static int make(const weir_making *making, void **ret_thing, weir_stage **ret_stage)
{
	const notes_keys *values = making->route.values;
	notes *n = calloc(1, sizeof(*n));
	if (n == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	n->shown = values->shown;
	int failed = 0;
	if (sqlite3_open(values->file, &n->database) != SQLITE_OK ||
	    sqlite3_exec(n->database, "CREATE TABLE IF NOT EXISTS note (text)", NULL, NULL, NULL) !=
		    SQLITE_OK)
		failed = weir_error_set(-EIO, "%s: %s", values->file, sqlite3_errmsg(n->database));
	if (failed == 0)
		failed = weir_making_stage(making, &(weir_domain_options){.max_threads = 8}, handle, n,
					   ret_stage);
	*ret_thing = n;
	if (failed != 0)
		free_notes(n);
	return failed;
}

static void apply(void *thing, const weir_config *config, const weir_route_view *route)
{
	const notes_keys *values = route->values;
	__atomic_store_n(&((notes *)thing)->shown, values->shown, __ATOMIC_RELAXED);
}

static const weir_kind kind = {.name = "notes",
			       .keys = keys,
			       .bytes = sizeof(notes_keys),
			       .flag = &flag,
			       .make = make,
			       .apply = apply,
			       .free = free_notes};

int main(int argc, char **argv)
{
	static const weir_kind *const kinds[] = {&kind, &weir_kind_root, NULL};
	static const weir_program program = {
		.name = "notes", .summary = "Keeps notes in a database.", .kinds = kinds};
	return weir_service_main(&program, argc, argv);
}
