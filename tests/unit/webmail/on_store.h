/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_ON_STORE_H
#define WEIR_TESTS_ON_STORE_H

/*
 * Tests of the store run on SQLite and then on MariaDB, each on an empty store. MariaDB is a server of the
 * test's own, with its data in a temporary folder and no network; where there is none, a line says that it
 * was left out.
 */

#include "support/check.h"

#include "db/db.h"
#include "made_mail.h"
#include "webmail/store.h"

/* What a test gets. */
typedef struct on_store {
	db_kind kind;
	char url[400];
	char folder[200];
	store *s;
	uint32_t ann, bob; /* two users */
} on_store;

/* Runs the tests on both databases; what main returns. The tests get an on_store. */
int on_store_run(const char *name, const struct CMUnitTest *tests, size_t count);
/* The same on SQLite alone. */
int on_store_run_sqlite(const char *name, const struct CMUnitTest *tests, size_t count);

#define ON_STORE(tests) on_store_run(__FILE__, tests, sizeof(tests) / sizeof((tests)[0]))

/* A server of MariaDB: its URL, NULL if there is none. Ends with the process or on_mariadb_stop(). */
const char *on_mariadb_start(void);
void on_mariadb_stop(void);
/* Kills it without a warning, and starts it on the same data. */
void on_mariadb_crash(void);

/* An empty store with its users; on_store_end() removes it. */
void on_store_begin(on_store *on, db_kind kind);
void on_store_end(on_store *on);

/* Fails the test with the first thing that store_check() finds. */
void on_store_check(store *s);
/* A short mail with this subject and text; valid until the next. */
const store_mail *on_store_mail(const char *subject, const char *text);
/* Delivers a mail to the inbox; its number. */
uint32_t on_store_deliver(store *s, uint32_t user, const store_mail *mail);
/* A standard folder. */
uint32_t on_store_role(store *s, uint32_t user, store_role role);

/* Messages of a callback, up to a bound. */
typedef struct on_messages {
	unsigned count;
	struct {
		uint32_t id, folder, thread;
		unsigned flags;
		char author[100], subject[100], snippet[STORE_SNIPPET_MAX + 1];
	} rows[200];
} on_messages;

void on_message(const store_message *message, void *arg);

#endif
