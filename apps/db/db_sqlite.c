/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite: a write-ahead log, so that readers never wait. One connection writes at a time. Threads of this
 * process wait for each other at a lock, which wakes the next one at once; SQLite itself would poll. Other
 * processes (the command line) are waited for by SQLite's busy time-out.
 */
#include "db_priv.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct db_sqlite {
	db base;
	sqlite3 *handle;
	db_durability durability; /* which "synchronous" is set */
	bool writes;              /* this connection has the lock */
} db_sqlite;

typedef struct db_sqlite_cursor {
	db_cursor base;
	sqlite3_stmt *statement;
} db_sqlite_cursor;

/* Held by the thread whose transaction writes. One for all files: a process has one. */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static int fail(db_sqlite *d, int code)
{
	int error = -EIO;
	switch (code & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		error = -EBUSY;
		break;
	case SQLITE_CONSTRAINT:
		error = -EEXIST;
		break;
	case SQLITE_FULL:
		error = -ENOSPC;
		break;
	case SQLITE_NOMEM:
		error = -ENOMEM;
		break;
	default:
		break;
	}
	return weir_error_set(error, "database: %s", sqlite3_errmsg(d->handle));
}

static int ready(db *base)
{
	return 0;
}

static int prepare(db *base, const char *sql, db_cursor **ret_cursor)
{
	db_sqlite *d = (db_sqlite *)base;
	db_sqlite_cursor *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	int code = sqlite3_prepare_v3(d->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &c->statement, NULL);
	if (code != SQLITE_OK) {
		free(c);
		return fail(d, code);
	}
	*ret_cursor = &c->base;
	return 0;
}

static int bind_one(sqlite3_stmt *statement, int place, const db_value *value)
{
	/* An empty span may have no address, which SQLite would take for NULL. */
	const char *data = value->bytes.at != NULL ? value->bytes.at : "";
	if (value->type == DB_VALUE_INT)
		return sqlite3_bind_int64(statement, place, value->number);
	if (value->type == DB_VALUE_TEXT)
		return sqlite3_bind_text64(statement, place, data, value->bytes.length, SQLITE_STATIC,
					   SQLITE_UTF8);
	return sqlite3_bind_blob64(statement, place, data, value->bytes.length, SQLITE_STATIC);
}

static int start(db_cursor *base, const db_value *values, size_t count)
{
	db_sqlite_cursor *c = (db_sqlite_cursor *)base;
	int code = SQLITE_OK;
	for (size_t i = 0; i < count && code == SQLITE_OK; i++)
		code = bind_one(c->statement, (int)i + 1, &values[i]);
	return code == SQLITE_OK ? 0 : fail((db_sqlite *)base->owner, code);
}

static int step(db_cursor *base)
{
	int code = sqlite3_step(((db_sqlite_cursor *)base)->statement);
	if (code == SQLITE_ROW)
		return 1;
	return code == SQLITE_DONE ? 0 : fail((db_sqlite *)base->owner, code);
}

static int64_t number(db_cursor *base, unsigned column)
{
	return sqlite3_column_int64(((db_sqlite_cursor *)base)->statement, (int)column);
}

static weir_span bytes(db_cursor *base, unsigned column)
{
	sqlite3_stmt *statement = ((db_sqlite_cursor *)base)->statement;
	const void *data = sqlite3_column_blob(statement, (int)column);
	if (data == NULL)
		return (weir_span){"", 0};
	return (weir_span){data, (size_t)sqlite3_column_bytes(statement, (int)column)};
}

static int changes(db_cursor *base)
{
	return sqlite3_changes(((db_sqlite *)base->owner)->handle);
}

static int64_t inserted(const db *base)
{
	return sqlite3_last_insert_rowid(((const db_sqlite *)base)->handle);
}

static void reset(db_cursor *base)
{
	sqlite3_stmt *statement = ((db_sqlite_cursor *)base)->statement;
	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
}

static void free_cursor(db_cursor *base)
{
	sqlite3_finalize(((db_sqlite_cursor *)base)->statement);
	free(base);
}

static int script(db *base, const char *sql)
{
	db_sqlite *d = (db_sqlite *)base;
	int code = sqlite3_exec(d->handle, sql, NULL, NULL, NULL);
	return code == SQLITE_OK ? 0 : fail(d, code);
}

static int lock_writing(unsigned busy_ms)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += busy_ms / 1000;
	until.tv_nsec += (long)(busy_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	if (pthread_mutex_timedlock(&writing, &until) != 0)
		return weir_error_set(-EBUSY, "database: others have been writing for %u ms", busy_ms);
	return 0;
}

static int begin_writing(db_sqlite *d, db_durability durability)
{
	int failed = 0;
	if (d->durability != durability)
		failed = script(&d->base, durability == DB_SAFE_FROM_POWER_CUT ? "PRAGMA synchronous=FULL"
									       : "PRAGMA synchronous=NORMAL");
	if (failed != 0)
		return failed;
	d->durability = durability;
	return db_run(&d->base, "BEGIN IMMEDIATE", DB_NONE);
}

/* A transaction that writes holds the lock until it has ended. */
static int begin(db *base, db_durability durability)
{
	db_sqlite *d = (db_sqlite *)base;
	if (durability == DB_READS_ONLY)
		return script(base, "BEGIN");
	int failed = lock_writing(base->busy_ms);
	if (failed != 0)
		return failed;
	failed = begin_writing(d, durability);
	if (failed < 0) {
		pthread_mutex_unlock(&writing);
		return failed;
	}
	d->writes = true;
	return 0;
}

static void ended(db_sqlite *d)
{
	if (d->writes)
		pthread_mutex_unlock(&writing);
	d->writes = false;
}

static int commit(db *base)
{
	int failed = db_run(base, "COMMIT", DB_NONE);
	if (failed >= 0)
		ended((db_sqlite *)base);
	return failed < 0 ? failed : 0;
}

static void rollback(db *base)
{
	/* After some errors SQLite has rolled back by itself. */
	db_sqlite *d = (db_sqlite *)base;
	if (sqlite3_get_autocommit(d->handle) == 0)
		sqlite3_exec(d->handle, "ROLLBACK", NULL, NULL, NULL);
	ended(d);
}

static void close_connection(db *base)
{
	sqlite3_close(((db_sqlite *)base)->handle);
	free(base);
}

static const db_ops ops = {
	.kind = DB_SQLITE,
	.ready = ready,
	.prepare = prepare,
	.start = start,
	.step = step,
	.number = number,
	.bytes = bytes,
	.changes = changes,
	.inserted = inserted,
	.reset = reset,
	.free_cursor = free_cursor,
	.script = script,
	.begin = begin,
	.commit = commit,
	.rollback = rollback,
	.close = close_connection,
};

/* Whoever makes the log must be alone for a moment, for which SQLite does not wait by itself. */
static int make_log(db_sqlite *d)
{
	int failed = script(&d->base, "PRAGMA journal_mode=WAL");
	for (unsigned waited_ms = 0; failed == -EBUSY && waited_ms < d->base.busy_ms; waited_ms += 10) {
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
		failed = script(&d->base, "PRAGMA journal_mode=WAL");
	}
	return failed;
}

static int set_up(db_sqlite *d)
{
	sqlite3_busy_timeout(d->handle, (int)d->base.busy_ms);
	sqlite3_extended_result_codes(d->handle, 1);
	int failed = make_log(d);
	return failed != 0 ? failed
			   : script(&d->base, "PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY;"
					      "PRAGMA journal_size_limit=67108864; PRAGMA cache_size=-2000;");
}

int db_sqlite_open(const char *file, unsigned busy_ms, db **ret_db)
{
	db_sqlite *d = calloc(1, sizeof(*d));
	if (d == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	d->base.ops = &ops;
	d->base.busy_ms = busy_ms;
	d->durability = DB_SAFE_FROM_POWER_CUT;
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
	int code = sqlite3_open_v2(file, &d->handle, flags, NULL);
	int failed = code == SQLITE_OK ? set_up(d) : fail(d, code);
	if (failed != 0) {
		char why[200];
		snprintf(why, sizeof(why), "%s", weir_error());
		weir_error_set(failed, "%s: %s", file, why);
		db_close(&d->base);
		return failed;
	}
	*ret_db = &d->base;
	return 0;
}
