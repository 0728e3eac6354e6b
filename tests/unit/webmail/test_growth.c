/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a page costs the database does not depend on how many users there are, nor, where it is the first of a list, on how
 * large the folder is: counted in steps of SQLite's machine and pages of its files, and in rows that MariaDB reads. And
 * all statements find their rows by an index, as the database itself explains.
 */
#include "on_store.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "db/db_priv.h"
#include "webmail/store_priv.h"

#define SMALL      100u
#define STATEMENTS 200u

static unsigned users_of(db_kind kind)
{
	return kind == DB_SQLITE || check_long() ? 10000 : 300;
}

/* ---- what it costs ---- */

static uint64_t steps;
static sqlite3 *last; /* the connection that was opened last */

static int count_step(void *arg)
{
	steps++;
	return 0;
}

static int opened(sqlite3 *handle, char **error, const void *routines)
{
	last = handle;
	sqlite3_progress_handler(handle, 1, count_step, NULL);
	return SQLITE_OK;
}

static uint64_t pages_touched(sqlite3 *handle)
{
	int hits = 0, misses = 0, ignored;
	sqlite3_db_status(handle, SQLITE_DBSTATUS_CACHE_HIT, &hits, &ignored, false);
	sqlite3_db_status(handle, SQLITE_DBSTATUS_CACHE_MISS, &misses, &ignored, false);
	return (uint64_t)hits + (uint64_t)misses;
}

static uint64_t rows_read(db *d)
{
	db_cursor *c = NULL;
	uint64_t rows = 0;
	assert_int_equal(db_start(d, &c, "SHOW SESSION STATUS LIKE 'Handler_read_%'", DB_NONE), 0);
	while (db_step(c) > 0)
		rows += (uint64_t)strtoull(db_bytes(c, 1).at, NULL, 10);
	return rows;
}

typedef struct cost {
	uint64_t steps, pages; /* of SQLite; of MariaDB the rows, and nothing */
} cost;

static cost cost_now(const on_store *on)
{
	return on->kind == DB_SQLITE ? (cost){steps, pages_touched(last)} : (cost){rows_read(on->s->d), 0};
}

/* ---- what people do ---- */

typedef struct person {
	on_store *on;
	uint32_t user, folder, message; /* the last message */
	char token[STORE_TOKEN_CHARS + 1];
} person;

static void see_folder(const store_folder *folder, void *arg)
{
}

static void log_in(const person *p)
{
	store_user user;
	store_session session;
	assert_int_equal(store_user_find(p->on->s, WEIR_SPAN("ann"), &user), 0);
	assert_int_equal(store_session_find(p->on->s, span_of(p->token), 2000, &session), 0);
}

static void list(const person *p)
{
	on_messages seen;
	for (unsigned i = 0; i < 2 * STORE_SORTS; i++) {
		store_list page = {.folder = p->folder, .sort = i / 2, .reversed = i % 2, .count = 10};
		seen.count = 0;
		assert_int_equal(store_messages(p->on->s, p->user, &page, on_message, &seen), 10);
	}
	assert_true(store_folders(p->on->s, p->user, see_folder, NULL) >= 5);
}

static void show(const person *p)
{
	on_messages seen = {0};
	store_body body;
	uint32_t before, after;
	char byte;
	assert_int_equal(store_message_get(p->on->s, p->user, p->message, on_message, &seen), 0);
	assert_true(store_thread(p->on->s, p->user, p->message, on_message, &seen) > 0);
	for (unsigned i = 0; i < 2 * STORE_SORTS; i++) {
		store_list page = {.folder = p->folder, .sort = i / 2, .reversed = i % 2};
		assert_int_equal(store_neighbours(p->on->s, p->user, &page, p->message, &before, &after), 0);
	}
	assert_int_equal(store_body_open(p->on->s, p->user, p->message, &body), 0);
	assert_int_equal(store_body_read(&body, 0, &byte, 1), 1);
}

/* "everywhere" is in a mail that everybody has. */
static void look_for(const person *p, const char *words, uint32_t folder, int expected)
{
	on_messages seen = {0};
	store_query query = {.words = span_of(words), .folder = folder, .count = 10};
	int found = store_search(p->on->s, p->user, &query, on_message, &seen);
	if (found != expected)
		fail_msg("'%s': found %d, not %d", words, found, expected);
}

static void search(const person *p)
{
	look_for(p, "everywhere", 0, 1);
	look_for(p, "everywhere", p->folder, 1);
	look_for(p, "everywhere subject:rarely", 0, 1);
}

static void get_mail(const person *p)
{
	on_store_deliver(p->on->s, p->user, on_store_mail("one more", "of the same"));
}

typedef struct deed {
	const char *name;
	void (*run)(const person *p);
	cost before;
} deed;

static cost cost_of(const person *p, void (*run)(const person *p))
{
	run(p); /* statements are prepared, pages are at hand */
	cost from = cost_now(p->on);
	run(p);
	cost to = cost_now(p->on);
	return (cost){to.steps - from.steps, to.pages - from.pages};
}

/* Trees grow in height, and SQLite has its words in a number of segments that changes as it merges them: a search looks into each. */
static void compare(const deed *d, cost now, const char *when)
{
	printf("%s: %llu steps and %llu pages before, %llu and %llu %s\n", d->name,
	       (unsigned long long)d->before.steps, (unsigned long long)d->before.pages,
	       (unsigned long long)now.steps, (unsigned long long)now.pages, when);
	assert_true(d->before.steps > 0);
	if (now.steps > d->before.steps * 2 + 20 || now.pages > d->before.pages * 4 + 20)
		fail_msg("%s costs more %s", d->name, when);
}

/* ---- many of them ---- */

static db_ops quick_ops;
static const db_ops *real_ops;

static int begin_quickly(db *d, db_durability durability)
{
	return real_ops->begin(d, durability == DB_SAFE_FROM_POWER_CUT ? DB_SAFE_FROM_CRASH : durability);
}

/* Filling need not wait for the disk. */
static void hurry(on_store *on)
{
	real_ops = on->s->d->ops;
	quick_ops = *real_ops;
	quick_ops.begin = begin_quickly;
	on->s->d->ops = &quick_ops;
	if (on->kind == DB_MARIADB)
		assert_int_equal(db_script(on->s->d, "SET GLOBAL innodb_flush_log_at_trx_commit = 0"), 0);
}

static void fill_folder(const person *p, unsigned count)
{
	made_mail *made = made_mail_new(1 + count);
	for (unsigned i = 0; i < count; i++)
		on_store_deliver(p->on->s, p->user, made_mail_next(made));
	made_mail_free(made);
}

/* Users with a mail each, a hundred a delivery, and some with a session. */
static void add_users(on_store *on, unsigned count)
{
	char name[20], token[STORE_TOKEN_CHARS + 1];
	for (unsigned i = 0; i < count; i += STORE_RECIPIENTS_MAX) {
		store_place places[STORE_RECIPIENTS_MAX] = {0};
		for (unsigned j = 0; j < STORE_RECIPIENTS_MAX; j++) {
			snprintf(name, sizeof(name), "user%u", i + j);
			assert_int_equal(store_user_add(on->s, name, "", NULL, 1000, &places[j].user), 0);
		}
		assert_int_equal(store_session_new(on->s, places[0].user, 1000, 9000, token), 0);
		assert_int_equal(store_deliver(on->s, on_store_mail("to all", "it is everywhere"), places,
					       STORE_RECIPIENTS_MAX),
				 0);
	}
}

static person begin(on_store *on)
{
	person p = {.on = on, .user = on->ann, .folder = on_store_role(on->s, on->ann, STORE_INBOX)};
	hurry(on);
	fill_folder(&p, SMALL);
	p.message = on_store_deliver(on->s, on->ann, on_store_mail("rarely", "what is everywhere"));
	assert_int_equal(store_session_new(on->s, on->ann, 1000, 9000, p.token), 0);
	return p;
}

static void costs_do_not_grow(void **state)
{
	deed deeds[] = {{"log in", log_in, {0}}, {"list", list, {0}},         {"show", show, {0}},
			{"search", search, {0}}, {"get mail", get_mail, {0}}, {NULL, NULL, {0}}};
	person p = begin(*state);
	for (deed *d = deeds; d->name != NULL; d++)
		d->before = cost_of(&p, d->run);
	add_users(p.on, users_of(p.on->kind));
	for (deed *d = deeds; d->name != NULL; d++)
		compare(d, cost_of(&p, d->run), "with many users");
	fill_folder(&p, check_long() ? MADE_FOLDER_MAX : 900);
	for (deed *d = deeds; d->name != NULL; d++)
		compare(d, cost_of(&p, d->run), "in a large folder");
	on_store_check(p.on->s);
}

/* ---- how statements find their rows ---- */

/* A statement with the values of its first use. */
typedef struct seen_statement {
	char *explain;
	db_value values[DB_ARGS_MAX];
	size_t count;
} seen_statement;

static struct {
	const char *sql[STATEMENTS];
	seen_statement at[STATEMENTS];
	unsigned count;
	bool sqlite;
} seen;

static void keep_values(seen_statement *s, const db_value *values, size_t count)
{
	s->count = count;
	for (size_t i = 0; i < count; i++) {
		s->values[i] = values[i];
		if (values[i].type == DB_VALUE_INT)
			continue;
		char *copy = malloc(values[i].bytes.length + 1);
		memcpy(copy, values[i].bytes.at != NULL ? values[i].bytes.at : "", values[i].bytes.length);
		s->values[i].bytes.at = copy;
	}
}

static bool can_be_explained(const char *sql)
{
	return strncmp(sql, "SELECT", 6) == 0 || strncmp(sql, "UPDATE", 6) == 0 ||
	       strncmp(sql, "DELETE", 6) == 0;
}

static int see_start(db_cursor *c, const db_value *values, size_t count)
{
	unsigned i = 0;
	while (i < seen.count && seen.sql[i] != c->sql)
		i++;
	if (i == seen.count && can_be_explained(c->sql)) {
		assert_true(seen.count < STATEMENTS);
		seen.sql[seen.count++] = c->sql;
		assert_true(asprintf(&seen.at[i].explain, "%s %s",
				     seen.sqlite ? "EXPLAIN QUERY PLAN" : "EXPLAIN", c->sql) > 0);
		keep_values(&seen.at[i], values, count);
	}
	return real_ops->start(c, values, count);
}

static void see_outgoing(const store_outgoing *outgoing, void *arg)
{
	*(uint64_t *)arg = outgoing->id;
}

/* Nearly all of what waits is somebody else's. */
static void send_mail(const person *p, uint32_t draft)
{
	store *s = p->on->s;
	const weir_span sender = WEIR_SPAN("ann"), recipients = WEIR_SPAN("bob");
	uint64_t outgoing = 0;
	int64_t due = 0;
	uint32_t sent;
	for (unsigned i = 0; i < 2 * SMALL; i++, draft = 0)
		assert_int_equal(store_send(s, i % 20 == 0 ? p->user : p->on->bob,
					    on_store_mail("out", "it goes"), sender, recipients, draft,
					    &sent),
				 0);
	assert_int_equal(store_outgoing_due(s, &due), 0);
	assert_int_equal(store_outgoing_list(s, p->user, see_outgoing, &outgoing), SMALL / 10);
	assert_int_equal(store_outgoing_next(s, 9000, 60, see_outgoing, &outgoing), 1);
	assert_int_equal(store_outgoing_retry(s, outgoing, recipients, recipients, 9000), 0);
	assert_int_equal(store_outgoing_done(s, outgoing), 0);
}

/* All that pages, mail and the command line ask of a store. */
static void do_everything(const person *p)
{
	store *s = p->on->s;
	store_user user;
	uint32_t message = p->message, draft = 0, folder = 0;
	get_mail(p);
	log_in(p);
	list(p);
	show(p);
	search(p);
	look_for(p, "every*", 0, 1);
	look_for(p, "\"what is everywhere\" -nowhere", 0, 1);
	look_for(p, "everywhere from:zoe to:ann", p->folder, 1);
	assert_int_equal(store_user_get(s, p->user, &user), 0);
	assert_int_equal(store_user_of_address(s, WEIR_SPAN("ann+tag@example.org"), &user.id), 0);
	assert_int_equal(store_folder_add(s, p->user, WEIR_SPAN("one"), &folder), 0);
	assert_int_equal(store_folder_rename(s, p->user, folder, WEIR_SPAN("two")), 0);
	assert_int_equal(store_flags(s, p->user, &message, 1, STORE_SEEN, 0), 1);
	assert_int_equal(store_refile(s, p->user, &message, 1, folder), 1);
	assert_int_equal(store_refile_undo(s, p->user, &message, 1), 1);
	assert_int_equal(store_folder_remove(s, p->user, folder), 0);
	assert_int_equal(store_keep(s, p->user, STORE_DRAFTS, on_store_mail("draft", "text"), 0, &draft), 0);
	send_mail(p, draft);
	assert_int_equal(store_purge(s, p->user, &message, 1), 1);
	assert_true(store_empty(s, p->user, p->folder) > 0);
	assert_int_equal(store_user_class(s, p->on->bob, "bronze"), 0);
	assert_int_equal(store_session_end(s, span_of(p->token)), 0);
	assert_int_equal(store_tidy(s, 2000), 0);
	assert_int_equal(store_user_remove(s, p->on->bob), 0);
}

/* Whether a line of an explanation is about all rows of a table that may be large. */
static bool reads_all(db_cursor *c, char *line, size_t size)
{
	weir_span detail = db_bytes(c, 3);
	if (seen.sqlite) {
		snprintf(line, size, "%.*s", (int)detail.length, detail.at);
		return strncmp(line, "SCAN ", 5) == 0 && strstr(line, "VIRTUAL TABLE INDEX") == NULL &&
		       strcmp(line, "SCAN p") != 0 && strcmp(line, "SCAN CONSTANT ROW") != 0;
	}
	weir_span table = db_bytes(c, 2), extra = db_bytes(c, 9);
	snprintf(line, size, "%.*s %.*s %lld %.*s", (int)table.length, table.at, (int)detail.length,
		 detail.at, (long long)db_int(c, 8), (int)extra.length, extra.at);
	bool all = strstr(line, " ALL ") != NULL || strstr(line, " index ") != NULL;
	return all && line[0] != '<' && db_int(c, 8) > SMALL;
}

static unsigned explain(db *d, seen_statement *s)
{
	db_cursor *c = NULL;
	unsigned wrong = 0;
	if (db_start(d, &c, s->explain, s->values, s->count) != 0)
		fail_msg("%s: %s", s->explain, weir_error());
	while (db_step(c) > 0) {
		char line[400];
		if (!reads_all(c, line, sizeof(line)))
			continue;
		print_error("reads all: %s\n\tof %s\n", line, s->explain);
		wrong++;
	}
	return wrong;
}

static void forget(seen_statement *s)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->values[i].type != DB_VALUE_INT)
			free((char *)s->values[i].bytes.at);
	free(s->explain);
}

static void finds_by_indexes(void **state)
{
	on_store *on = *state;
	person p = begin(on);
	unsigned wrong = 0;
	db *d = NULL;
	add_users(on, 500);
	fill_folder(&p, SMALL);
	if (on->kind == DB_MARIADB)
		assert_int_equal(
			db_script(on->s->d, "ANALYZE TABLE users, folders, messages, terms, words, chunks"),
			0);
	seen.count = 0;
	seen.sqlite = on->kind == DB_SQLITE;
	quick_ops.start = see_start;
	do_everything(&p);
	assert_int_equal(db_open(on->url, 1000, &d), 0);
	for (unsigned i = 0; i < seen.count; i++)
		wrong += explain(d, &seen.at[i]);
	db_close(d);
	printf("%u statements explained\n", seen.count);
	for (unsigned i = 0; i < seen.count; i++)
		forget(&seen.at[i]);
	assert_true(seen.count > 40);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(finds_by_indexes),
					   cmocka_unit_test(costs_do_not_grow)};
	sqlite3_auto_extension((void (*)(void))opened);
	return ON_STORE(tests);
}
