/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DB_PRIV_H
#define DB_PRIV_H

/* What a database has to offer to db.c. Its own structs begin with these. */

#include "db.h"

typedef struct db_ops {
	db_kind kind;
	/* Before a statement outside of a transaction: connects again if the connection was lost. */
	int (*ready)(db *d);
	int (*prepare)(db *d, const char *sql, db_cursor **ret_cursor);
	/* Binds and, where rows are made at once, executes. */
	int (*start)(db_cursor *c, const db_value *values, size_t count);
	int (*step)(db_cursor *c);
	int64_t (*number)(db_cursor *c, unsigned column);
	weir_span (*bytes)(db_cursor *c, unsigned column);
	int (*changes)(db_cursor *c);
	int64_t (*inserted)(const db *d);
	void (*reset)(db_cursor *c);
	void (*free_cursor)(db_cursor *c);
	int (*script)(db *d, const char *sql);
	int (*begin)(db *d, db_durability durability);
	int (*commit)(db *d);
	void (*rollback)(db *d);
	void (*close)(db *d);
} db_ops;

struct db_cursor {
	db *owner;
	const char *sql; /* a constant: its address is its name */
	bool busy;
};

struct db {
	const db_ops *ops;
	bool inside; /* a transaction */
	int failed;  /* the first error of the transaction */
	unsigned busy_ms;
	db_cursor *statements[DB_STATEMENTS_MAX];
	unsigned statement_count;
};

/* Frees all prepared statements: before the connection is closed. */
void db_forget_statements(db *d);

int db_sqlite_open(const char *file, unsigned busy_ms, db **ret_db);
int db_mariadb_open(const char *url, unsigned busy_ms, db **ret_db);

#endif
