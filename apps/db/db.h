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
 * the database undid the transaction and asks to try it again (db_transaction() does), -EEXIST a unique key
 * is taken, -ENOSPC, -EIO.
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
int64_t db_run(db *d, const char *sql, const db_value *values, size_t count);
/* The same, in a transaction of its own that survives the end of the process. */
int64_t db_change(db *d, const char *sql, const db_value *values, size_t count);
/* Runs statements separated by ';', without values or rows: for schemas. */
int db_script(db *d, const char *sql);
/* The key that the last INSERT made. */
int64_t db_inserted(const db *d);
/* The number in the first column of the first row; -ENOENT if there is no row. NULL counts as 0. */
int db_number(db *d, int64_t *ret_number, const char *sql, const db_value *values, size_t count);

/* Begins a statement with rows. db_end() must follow, also after an error of db_step(). */
int db_start(db *d, db_cursor **ret_cursor, const char *sql, const db_value *values, size_t count);
/* The next row: 1, or 0 when there is none, or an error. */
int db_step(db_cursor *c);
/* A column of the row as a number. */
int64_t db_int(db_cursor *c, unsigned column);
/* A column of the row as text or bytes, valid until the next step. */
weir_span db_bytes(db_cursor *c, unsigned column);
/* Ends the statement; NULL is accepted. */
void db_end(db_cursor *c);

/*
 * Runs work in a transaction of its own and commits it if it returns 0 or more, else undoes it; returns its
 * result or the commit's error. Work may be called again when the database asks for it, so it must begin anew
 * each time.
 */
int64_t db_transaction(db *d, db_durability durability, int64_t (*work)(db *d, void *arg), void *arg);

#endif
