/* SPDX-License-Identifier: Apache-2.0 */
/* The layer over the databases, and what happens when one fails. */
#include "unit/webmail/on_store.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static db *open_one(const on_store *on, unsigned busy_ms)
{
	db *d = NULL;
	if (db_open(on->url, busy_ms, &d) != 0)
		fail_msg("%s", weir_error());
	assert_int_equal(
		db_script(d, "CREATE TABLE IF NOT EXISTS things (id INTEGER PRIMARY KEY, name VARCHAR(50))"),
		0);
	assert_int_equal(db_script(d, "DELETE FROM things"), 0);
	return d;
}

static void runs_statements(void **state)
{
	db *d = open_one(*state, 1000);
	int64_t number = 42;
	static const char insert[] = "INSERT INTO things (id, name) VALUES (?, ?)";
	assert_int_equal(db_run(d, insert, DB_ARGS(DB_INT(1), DB_TEXT(WEIR_SPAN("one")))), 1);
	assert_int_equal(db_run(d, insert, DB_ARGS(DB_INT(1), DB_TEXT(WEIR_SPAN("one")))), -EEXIST);
	assert_int_equal(db_run(d, insert, DB_ARGS(DB_INT(2), DB_TEXT(((weir_span){NULL, 0})))), 1);
	assert_int_equal(db_run(d, "UPDATE things SET name = 'x' WHERE id = 9", DB_NONE), 0);
	assert_int_equal(db_number(d, &number, "SELECT id FROM things WHERE id = 9", DB_NONE), -ENOENT);
	assert_int_equal(number, 42);
	assert_int_equal(db_number(d, &number, "SELECT COUNT(*) FROM things", DB_NONE), 0);
	assert_int_equal(number, 2);
	assert_int_equal(db_number(d, &number, "SELECT MAX(id) FROM things WHERE id > 9", DB_NONE), 0);
	assert_int_equal(number, 0);
	assert_int_equal(db_number(d, &number, "SELECT SUM(id) FROM things", DB_NONE), 0);
	assert_int_equal(number, 3);
	db_cursor *c = NULL, *again = NULL;
	static const char select[] = "SELECT name, id FROM things ORDER BY id";
	assert_int_equal(db_start(d, &c, select, DB_NONE), 0);
	assert_int_equal(db_start(d, &again, select, DB_NONE), -EINVAL);
	assert_int_equal(db_step(c), 1);
	assert_int_equal(db_bytes(c, 0).length, 3);
	/* Another statement between the rows. */
	assert_int_equal(db_run(d, "UPDATE things SET name = 'two' WHERE id = 1", DB_NONE), 1);
	assert_int_equal(db_step(c), 1);
	assert_int_equal(db_int(c, 1), 2);
	assert_int_equal(db_step(c), 0);
	db_end(c);
	assert_true(db_run(d, "SELECT nonsense FROM nowhere", DB_NONE) == -EIO);
	check_contains(weir_error(), "nowhere");
	db_close(d);
}

static int64_t count(db *d)
{
	int64_t number = -1;
	assert_int_equal(db_number(d, &number, "SELECT COUNT(*) FROM things", DB_NONE), 0);
	return number;
}

static int insert_7(db *d)
{
	return db_run(d, "INSERT INTO things (id, name) VALUES (7, 'x')", DB_NONE);
}

static void undoes_transactions(void **state)
{
	db *d = open_one(*state, 1000);
	db_try t = db_begin(d, DB_SAFE_FROM_CRASH);
	while (db_go(&t)) {
		assert_int_equal(insert_7(d), 1);
		db_fail(d, -EPERM);
	}
	assert_int_equal(t.failed, -EPERM);
	assert_int_equal(count(d), 0);
	t = db_begin(d, DB_SAFE_FROM_POWER_CUT);
	while (db_go(&t)) {
		assert_int_equal(insert_7(d), 1);
		/* One inside of another does not begin, and does not end it. */
		db_try nested = db_begin(d, DB_SAFE_FROM_CRASH);
		assert_false(db_go(&nested));
		assert_int_equal(nested.failed, -EINVAL);
	}
	assert_int_equal(t.failed, 0);
	assert_int_equal(count(d), 1);
	db_close(d);
}

/* Nothing happens after the first error, and it is the one that the transaction ends with. */
static void the_first_error_sticks(void **state)
{
	db *d = open_one(*state, 1000);
	db_cursor *c = NULL;
	int64_t number = 42;
	assert_int_equal(insert_7(d), 1);
	db_try t = db_begin(d, DB_SAFE_FROM_CRASH);
	while (db_go(&t)) {
		assert_int_equal(db_run(d, "INSERT INTO things (id, name) VALUES (8, 'x')", DB_NONE), 1);
		assert_int_equal(insert_7(d), -EEXIST);
		assert_int_equal(db_failed(d), -EEXIST);
		assert_int_equal(db_run(d, "DELETE FROM things", DB_NONE), -EEXIST);
		assert_int_equal(db_script(d, "DELETE FROM things"), -EEXIST);
		assert_int_equal(db_number(d, &number, "SELECT COUNT(*) FROM things", DB_NONE), -EEXIST);
		assert_int_equal(db_start(d, &c, "SELECT id FROM things", DB_NONE), -EEXIST);
	}
	assert_int_equal(t.failed, -EEXIST);
	assert_int_equal(number, 42);
	assert_null(c);
	assert_int_equal(count(d), 1);
	/* The next one begins anew. */
	t = db_begin(d, DB_SAFE_FROM_CRASH);
	while (db_go(&t))
		db_run(d, "DELETE FROM things", DB_NONE);
	assert_int_equal(t.failed, 0);
	assert_int_equal(count(d), 0);
	db_close(d);
}

static void tries_again_when_asked(void **state)
{
	db *d = open_one(*state, 1000);
	int tries = 0;
	db_try t = db_begin(d, DB_SAFE_FROM_CRASH);
	while (db_go(&t))
		if (insert_7(d) == 1 && ++tries < 3)
			db_fail(d, -EAGAIN);
	assert_int_equal(t.failed, 0);
	assert_int_equal(tries, 3);
	assert_int_equal(count(d), 1);
	tries = 0;
	t = db_begin(d, DB_SAFE_FROM_CRASH);
	while (db_go(&t)) {
		tries++;
		db_fail(d, -EAGAIN);
	}
	assert_int_equal(t.failed, -EBUSY);
	assert_int_equal(tries, 10);
	db_close(d);
}

/* ---- one writes at a time ---- */

typedef struct waiting {
	db *d;
	int64_t result;
} waiting;

static void *write_beside(void *arg)
{
	waiting *w = arg;
	w->result = db_change(w->d, "UPDATE things SET name = 'beside' WHERE id = 7", DB_NONE);
	return NULL;
}

static void waits_no_longer_than_allowed(void **state)
{
	db *d = open_one(*state, 1000);
	waiting w = {.d = open_one(*state, 50)};
	pthread_t thread;
	db_try t = db_begin(d, DB_SAFE_FROM_CRASH);
	while (db_go(&t)) {
		assert_int_equal(insert_7(d), 1);
		assert_int_equal(pthread_create(&thread, NULL, write_beside, &w), 0);
		pthread_join(thread, NULL);
	}
	assert_int_equal(t.failed, 0);
	assert_int_equal(w.result, -EBUSY);
	write_beside(&w);
	assert_int_equal(w.result, 1);
	db_close(w.d);
	db_close(d);
}

/* ---- opening ---- */

static void refuses_urls(void **state)
{
	static const char *const bad[] = {"",
					  "mysql://x",
					  "mariadb://",
					  "mariadb://nobody",
					  "mariadb://u@h",
					  "mariadb://u@h/",
					  "mariadb://@h/d",
					  "mariadb://u@h:99999/d",
					  "mariadb://%zz@h/d",
					  "sqlite:/no/such/folder/mail.db"};
	on_store *on = *state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		db *d = NULL;
		assert_true(db_open(bad[i], 100, &d) < 0);
		assert_null(d);
		assert_true(weir_error()[0] != '\0');
	}
	/* A store of a later version is left alone. */
	db *d = NULL;
	store *s = NULL;
	assert_int_equal(db_open(on->url, 1000, &d), 0);
	int64_t version = 0;
	assert_int_equal(db_number(d, &version, "SELECT value FROM settings", DB_NONE), 0);
	assert_int_equal(db_script(d, "UPDATE settings SET value = 9999"), 0);
	assert_int_equal(store_open(on->url, &s), -EINVAL);
	check_contains(weir_error(), "newer");
	assert_int_equal(db_run(d, "UPDATE settings SET value = ?", DB_ARGS(DB_INT(version))), 1);
	db_close(d);
}

static void connects_again(void **state)
{
	on_store *on = *state;
	if (on->kind != DB_MARIADB)
		return;
	store_user user;
	assert_int_equal(store_user_get(on->s, on->ann, &user), 0);
	on_mariadb_crash();
	/* What was begun on the lost connection fails; what comes after finds another. */
	assert_int_equal(store_user_get(on->s, on->ann, &user), -EIO);
	assert_int_equal(store_user_get(on->s, on->ann, &user), 0);
	on_store_deliver(on->s, on->ann, on_store_mail("hello", "text"));
	on_store_check(on->s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_statements),
		cmocka_unit_test(undoes_transactions),
		cmocka_unit_test(the_first_error_sticks),
		cmocka_unit_test(tries_again_when_asked),
		cmocka_unit_test(waits_no_longer_than_allowed),
		cmocka_unit_test(refuses_urls),
		cmocka_unit_test(connects_again),
	};
	return ON_STORE(tests);
}
