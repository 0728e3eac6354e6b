/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DB_H
#define DB_H

/*
 * A thin layer over SQLite and MariaDB: the same statements, bound values, rows and transactions. A `db` is
 * one connection; one thread uses it at a time.
 *
 * Statements are written once, with '?' for values, in the SQL that both understand; db_is() is there for the
 * few that differ. A statement is prepared when it is first used and kept, found by the address of its text:
 * so texts must be constants. A statement has one cursor at a time.
 *
 * Errors are negative errno values with a sentence in weir_error(): -EBUSY others write for too long, -EAGAIN
 * the database undid the transaction and asks to try it again (db_go() does), -EEXIST a unique key is taken,
 * -ENOSPC, -EIO.
 *
 * Inside of a transaction the first error sticks: all that follows does nothing and returns the same error, and
 * the transaction is undone. So nobody has to look before the end.
 */

#include <weir/request.h>

#define DB_ARGS_MAX       100 /* values of a statement */
#define DB_STATEMENTS_MAX 128

typedef struct db db;
typedef struct db_cursor db_cursor;

typedef enum db_kind {
	DB_SQLITE,
	DB_MARIADB,
} db_kind;

/* A value to bind. Spans must live until db_end() or the end of db_run(). */
typedef struct db_value {
	enum { DB_VALUE_INT, DB_VALUE_TEXT, DB_VALUE_BYTES } type;
	int64_t number;
	weir_span bytes;
} db_value;

#define DB_INT(x)   ((db_value){.type = DB_VALUE_INT, .number = (int64_t)(x)})
#define DB_TEXT(x)  ((db_value){.type = DB_VALUE_TEXT, .bytes = (x)})
#define DB_BYTES(x) ((db_value){.type = DB_VALUE_BYTES, .bytes = (x)})
/* The values of a statement, as two arguments. */
#define DB_ARGS(...) \
	(const db_value[]){__VA_ARGS__}, sizeof((const db_value[]){__VA_ARGS__}) / sizeof(db_value)
#define DB_NONE NULL, 0

/* How a transaction is to end up on disk. */
typedef enum db_durability {
	DB_READS_ONLY,          /* one view of everything while others write */
	DB_SAFE_FROM_CRASH,     /* survives the end of the process */
	DB_SAFE_FROM_POWER_CUT, /* survives the end of the machine */
} db_durability;

/* Opens "sqlite:FILE" or "mariadb://USER:PASSWORD@HOST:PORT/DATABASE[?socket=PATH]"; the caller closes it. */
int db_open(const char *url, unsigned busy_ms, db **ret_db);
/* Closes the connection; NULL is accepted. */
void db_close(db *d);
/* Which database it is. */
db_kind db_is(const db *d);

/* Runs a statement to its end; returns how many rows it changed, or an error. */
int db_run(db *d, const char *sql, const db_value *values, size_t count);
/* The same, in a transaction of its own that survives the end of the process. */
int db_change(db *d, const char *sql, const db_value *values, size_t count);
/* Runs statements separated by ';', without values or rows: for schemas. */
int db_script(db *d, const char *sql);
/* The key that the last INSERT made. */
int64_t db_inserted(const db *d);
/* The number in the first column of the first row; -ENOENT if there is no row. NULL counts as 0. */
int db_number(db *d, int64_t *ret_number, const char *sql, const db_value *values, size_t count);

/* Begins a statement with rows, to be stepped over or ended. */
int db_start(db *d, db_cursor **ret_cursor, const char *sql, const db_value *values, size_t count);
/* The same with its first row, to be ended; -ENOENT: there is none, and nothing to end. */
int db_first(db *d, db_cursor **ret_cursor, const char *sql, const db_value *values, size_t count);
/* The next row: 1; or 0 when there is none, or an error: then the statement has ended. */
int db_step(db_cursor *c);
/* A column of the row as a number. */
int64_t db_int(db_cursor *c, unsigned column);
/* A column of the row as text or bytes, valid until the next step. */
weir_span db_bytes(db_cursor *c, unsigned column);
/* Ends a statement whose rows were not all stepped over; one that has ended, and NULL, are left alone. */
void db_end(db_cursor *c);

/*
 * A transaction is a loop, whose body is one try:
 *
 *	db_try t = db_begin(d, DB_SAFE_FROM_CRASH);
 *	while (db_go(&t))
 *		db_run(d, ...);
 *	return t.failed;
 *
 * Where the body ends, the transaction is committed, or undone if something in it failed. Where the database asks for
 * it, the body runs again. So the body begins anew each time, and is not left by break or return.
 */
typedef struct db_try {
	int failed; /* how it ended: 0 or an error */
	/* its own */
	db *d;
	db_durability durability;
	bool inside;
	unsigned tries;
} db_try;

/* Prepares a transaction. */
db_try db_begin(db *d, db_durability durability);
/* Ends the last try, if there was one. Whether there is another. */
bool db_go(db_try *t);
/* Has the transaction fail for a reason of the caller's, whatever failed before; returns the error. */
int db_fail(db *d, int error);
/* The error that sticks; 0: none so far. */
int db_failed(const db *d);

#endif
