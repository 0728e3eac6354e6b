/* SPDX-License-Identifier: Apache-2.0 */
/* What is the same for all databases: finding statements, running them, transactions. */
#include "db_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRIES_MAX 10

int db_open(const char *url, unsigned busy_ms, db **ret_db)
{
	if (strncmp(url, "sqlite:", 7) == 0)
		return db_sqlite_open(url + 7, busy_ms, ret_db);
#ifdef DB_WITH_MARIADB
	if (strncmp(url, "mariadb://", 10) == 0)
		return db_mariadb_open(url, busy_ms, ret_db);
#endif
	return weir_error_set(-EINVAL, "database '%s': it begins with sqlite:%s", url,
#ifdef DB_WITH_MARIADB
			      " or mariadb://"
#else
			      ", since this program was built without MariaDB"
#endif
	);
}

void db_forget_statements(db *d)
{
	for (unsigned i = 0; i < d->statement_count; i++)
		d->ops->free_cursor(d->statements[i]);
	d->statement_count = 0;
}

void db_close(db *d)
{
	if (d == NULL)
		return;
	db_forget_statements(d);
	d->ops->close(d);
}

db_kind db_is(const db *d)
{
	return d->ops->kind;
}

/* The prepared statement of a text; the newest is given up when there are too many. NULL: it failed. */
static db_cursor *find_statement(db *d, const char *sql, int *ret_failed)
{
	db_cursor *c = NULL;
	for (unsigned i = 0; i < d->statement_count; i++)
		if (d->statements[i]->sql == sql)
			return d->statements[i];
	if (d->statement_count == DB_STATEMENTS_MAX) {
		if (d->statements[DB_STATEMENTS_MAX - 1]->busy) {
			*ret_failed = weir_error_set(-ENOSPC, "database: too many statements at once");
			return NULL;
		}
		d->ops->free_cursor(d->statements[--d->statement_count]);
	}
	*ret_failed = d->ops->prepare(d, sql, &c);
	if (c == NULL)
		return NULL;
	c->owner = d;
	c->sql = sql;
	d->statements[d->statement_count++] = c;
	return c;
}

static int start(db *d, db_cursor **ret_cursor, const char *sql, const db_value *values, size_t count)
{
	int failed = d->inside ? d->failed : d->ops->ready(d);
	db_cursor *c = failed == 0 ? find_statement(d, sql, &failed) : NULL;
	if (c == NULL)
		return failed != 0 ? failed : -EIO;
	if (c->busy || count > DB_ARGS_MAX) {
		weir_error_set(-EINVAL, "database: a statement was begun twice, or has too many values");
		return -EINVAL;
	}
	failed = d->ops->start(c, values, count);
	if (failed != 0) {
		d->ops->reset(c);
		return failed;
	}
	c->busy = true;
	*ret_cursor = c;
	return 0;
}

/* The first error of a transaction sticks. */
static int note(db *d, int result)
{
	if (result < 0 && d->failed == 0)
		d->failed = result;
	return result;
}

int db_start(db *d, db_cursor **ret_cursor, const char *sql, const db_value *values, size_t count)
{
	return note(d, start(d, ret_cursor, sql, values, count));
}

int db_first(db *d, db_cursor **ret_cursor, const char *sql, const db_value *values, size_t count)
{
	db_cursor *c = NULL;
	int result = db_start(d, &c, sql, values, count);
	if (result != 0)
		return result;
	result = db_step(c);
	if (result > 0)
		*ret_cursor = c;
	return result > 0 ? 0 : result == 0 ? -ENOENT : result;
}

int db_step(db_cursor *c)
{
	int result = c->owner->ops->step(c);
	if (result <= 0)
		db_end(c);
	return note(c->owner, result);
}

int64_t db_int(db_cursor *c, unsigned column)
{
	return c->owner->ops->number(c, column);
}

weir_span db_bytes(db_cursor *c, unsigned column)
{
	return c->owner->ops->bytes(c, column);
}

void db_end(db_cursor *c)
{
	if (c == NULL || !c->busy)
		return;
	c->owner->ops->reset(c);
	c->busy = false;
}

int db_run(db *d, const char *sql, const db_value *values, size_t count)
{
	db_cursor *c = NULL;
	int more = db_start(d, &c, sql, values, count);
	if (more != 0)
		return more;
	do
		more = c->owner->ops->step(c);
	while (more > 0);
	int changed = more < 0 ? more : d->ops->changes(c);
	db_end(c);
	return note(d, changed);
}

int db_number(db *d, int64_t *ret_number, const char *sql, const db_value *values, size_t count)
{
	db_cursor *c = NULL;
	int failed = db_first(d, &c, sql, values, count);
	if (failed == 0)
		*ret_number = db_int(c, 0);
	db_end(c);
	return failed;
}

int db_script(db *d, const char *sql)
{
	return d->inside && d->failed != 0 ? d->failed : note(d, d->ops->script(d, sql));
}

int64_t db_inserted(const db *d)
{
	return d->ops->inserted(d);
}

/* ---- transactions ---- */

int db_fail(db *d, int error)
{
	d->failed = error;
	return error;
}

int db_failed(const db *d)
{
	return d->failed;
}

db_try db_begin(db *d, db_durability durability)
{
	return (db_try){.d = d, .durability = durability};
}

static void end_try(db_try *t)
{
	db *d = t->d;
	t->failed = d->failed != 0 ? d->failed : d->ops->commit(d);
	if (t->failed != 0)
		d->ops->rollback(d);
	d->inside = t->inside = false;
}

static bool begin_try(db_try *t)
{
	db *d = t->d;
	if (d->inside) {
		t->failed = weir_error_set(-EINVAL, "database: a transaction inside of another");
		return false;
	}
	t->failed = d->ops->ready(d);
	if (t->failed == 0)
		t->failed = d->ops->begin(d, t->durability);
	d->failed = 0;
	d->inside = t->inside = t->failed == 0;
	return t->inside;
}

bool db_go(db_try *t)
{
	if (!t->inside)
		return begin_try(t);
	end_try(t);
	if (t->failed != -EAGAIN)
		return false;
	if (++t->tries == TRIES_MAX) {
		t->failed = -EBUSY;
		return false;
	}
	nanosleep(&(struct timespec){.tv_nsec = (long)t->tries * 1000000}, NULL);
	return begin_try(t);
}

int db_change(db *d, const char *sql, const db_value *values, size_t count)
{
	int changed = 0;
	db_try t = db_begin(d, DB_SAFE_FROM_CRASH);
	while (db_go(&t))
		changed = db_run(d, sql, values, count);
	return t.failed != 0 ? t.failed : changed;
}
