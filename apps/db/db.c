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

int db_start(db *d, db_cursor **ret_cursor, const char *sql, const db_value *values, size_t count)
{
	int failed = d->inside ? 0 : d->ops->ready(d);
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

int db_step(db_cursor *c)
{
	return c->owner->ops->step(c);
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
	if (c == NULL)
		return;
	c->owner->ops->reset(c);
	c->busy = false;
}

int64_t db_run(db *d, const char *sql, const db_value *values, size_t count)
{
	db_cursor *c = NULL;
	int failed = db_start(d, &c, sql, values, count);
	if (failed != 0)
		return failed;
	int more = 1;
	while (more > 0)
		more = db_step(c);
	int64_t changed = more < 0 ? more : d->ops->changes(c);
	db_end(c);
	return changed;
}

int db_number(db *d, int64_t *ret_number, const char *sql, const db_value *values, size_t count)
{
	db_cursor *c = NULL;
	int result = db_start(d, &c, sql, values, count);
	if (result != 0)
		return result;
	result = db_step(c);
	if (result > 0)
		*ret_number = db_int(c, 0);
	db_end(c);
	return result > 0 ? 0 : result == 0 ? -ENOENT : result;
}

int db_script(db *d, const char *sql)
{
	return d->ops->script(d, sql);
}

int64_t db_inserted(const db *d)
{
	return d->ops->inserted(d);
}

static int64_t try_transaction(db *d, db_durability durability, int64_t (*work)(db *d, void *arg), void *arg)
{
	int64_t result = d->ops->ready(d);
	if (result == 0)
		result = d->ops->begin(d, durability);
	if (result != 0)
		return result;
	d->inside = true;
	result = work(d, arg);
	int failed = result >= 0 ? d->ops->commit(d) : 0;
	if (result < 0 || failed != 0)
		d->ops->rollback(d);
	d->inside = false;
	return failed != 0 ? failed : result;
}

int64_t db_transaction(db *d, db_durability durability, int64_t (*work)(db *d, void *arg), void *arg)
{
	if (d->inside)
		return weir_error_set(-EINVAL, "database: a transaction inside of another");
	int64_t result = -EAGAIN;
	for (unsigned tries = 0; result == -EAGAIN && tries < TRIES_MAX; tries++) {
		if (tries > 0)
			nanosleep(&(struct timespec){.tv_nsec = (long)tries * 1000000}, NULL);
		result = try_transaction(d, durability, work, arg);
	}
	return result == -EAGAIN ? -EBUSY : result;
}

typedef struct db_change_job {
	const char *sql;
	const db_value *values;
	size_t count;
} db_change_job;

static int64_t change_work(db *d, void *arg)
{
	const db_change_job *job = arg;
	return db_run(d, job->sql, job->values, job->count);
}

int64_t db_change(db *d, const char *sql, const db_value *values, size_t count)
{
	return db_transaction(d, DB_SAFE_FROM_CRASH, change_work, &(db_change_job){sql, values, count});
}
