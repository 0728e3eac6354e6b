/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MariaDB by prepared statements. A result is held by the client until its cursor ends, so that other
 * statements may run meanwhile: queries bound their rows. Columns are fetched one by one, into memory that
 * grows to the largest. A lost connection is made again by the next statement outside of a transaction. How
 * safe a commit is from a power cut is the server's configuration; its default is safe.
 */
#include "db_priv.h"

#include <errmsg.h>
#include <errno.h>
#include <mysql.h>
#include <mysqld_error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/form.h>

#define COLUMNS_MAX 16
#define PART_MAX    256

typedef struct db_place {
	char user[PART_MAX], password[PART_MAX], host[PART_MAX], database[PART_MAX], socket[PART_MAX];
	unsigned port;
} db_place;

typedef struct db_mariadb {
	db base;
	MYSQL *handle; /* NULL: lost */
	bool lost;
	int64_t inserted;
	db_place place;
} db_mariadb;

typedef struct db_mariadb_cursor {
	db_cursor base;
	MYSQL_STMT *statement;
	unsigned columns;
	unsigned long ignored; /* lengths that nobody asks for */
	/* What the columns of the row were fetched to. */
	struct {
		char *data;
		size_t size;
	} buffers[COLUMNS_MAX];
} db_mariadb_cursor;

static int fail(db_mariadb *d, unsigned code, const char *why)
{
	int error = -EIO;
	switch (code) {
	case ER_LOCK_DEADLOCK:
		error = -EAGAIN;
		break;
	case ER_LOCK_WAIT_TIMEOUT:
		error = -EBUSY;
		break;
	case ER_DUP_ENTRY:
		error = -EEXIST;
		break;
	case ER_RECORD_FILE_FULL:
	case ER_DISK_FULL:
		error = -ENOSPC;
		break;
	case CR_SERVER_GONE_ERROR:
	case CR_SERVER_LOST:
	case ER_UNKNOWN_STMT_HANDLER:
		d->lost = true;
		break;
	default:
		break;
	}
	return weir_error_set(error, "database: %s", why);
}

static int fail_statement(db_cursor *base)
{
	MYSQL_STMT *statement = ((db_mariadb_cursor *)base)->statement;
	return fail((db_mariadb *)base->owner, mysql_stmt_errno(statement), mysql_stmt_error(statement));
}

static int script(db *base, const char *sql)
{
	db_mariadb *d = (db_mariadb *)base;
	int code = mysql_query(d->handle, sql);
	while (code == 0) {
		mysql_free_result(mysql_store_result(d->handle));
		code = mysql_next_result(d->handle);
	}
	return code < 0 ? 0 : fail(d, mysql_errno(d->handle), mysql_error(d->handle));
}

/* ---- the connection ---- */

static int connect_again(db_mariadb *d)
{
	const db_place *p = &d->place;
	unsigned wait_s = (d->base.busy_ms + 999) / 1000;
	d->handle = mysql_init(NULL);
	if (d->handle == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	mysql_options(d->handle, MYSQL_SET_CHARSET_NAME, "utf8mb4");
	mysql_options(d->handle, MYSQL_OPT_CONNECT_TIMEOUT, &wait_s);
	if (mysql_real_connect(d->handle, p->socket[0] != '\0' ? NULL : p->host, p->user, p->password,
			       p->database, p->port, p->socket[0] != '\0' ? p->socket : NULL,
			       CLIENT_FOUND_ROWS | CLIENT_MULTI_STATEMENTS) == NULL)
		return fail(d, mysql_errno(d->handle), mysql_error(d->handle));
	char settings[200];
	snprintf(settings, sizeof(settings),
		 "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION sql_mode = "
		 "'STRICT_ALL_TABLES';"
		 "SET SESSION innodb_lock_wait_timeout = %u",
		 wait_s);
	d->lost = false;
	return script(&d->base, settings);
}

static void disconnect(db_mariadb *d)
{
	db_forget_statements(&d->base);
	if (d->handle != NULL)
		mysql_close(d->handle);
	d->handle = NULL;
}

static int ready(db *base)
{
	db_mariadb *d = (db_mariadb *)base;
	if (!d->lost && d->handle != NULL)
		return 0;
	disconnect(d);
	int failed = connect_again(d);
	d->lost = failed != 0;
	return failed;
}

static void close_connection(db *base)
{
	disconnect((db_mariadb *)base);
	explicit_bzero(&((db_mariadb *)base)->place, sizeof(db_place));
	free(base);
}

/* ---- statements ---- */

static int prepare(db *base, const char *sql, db_cursor **ret_cursor)
{
	db_mariadb *d = (db_mariadb *)base;
	db_mariadb_cursor *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	c->statement = mysql_stmt_init(d->handle);
	int failed = 0;
	if (c->statement == NULL)
		failed = weir_error_set(-ENOMEM, "out of memory");
	else if (mysql_stmt_prepare(c->statement, sql, strlen(sql)) != 0)
		failed = fail(d, mysql_stmt_errno(c->statement), mysql_stmt_error(c->statement));
	else if (mysql_stmt_field_count(c->statement) > COLUMNS_MAX)
		failed = weir_error_set(-EINVAL, "database: a statement has too many columns");
	if (failed != 0) {
		if (c->statement != NULL)
			mysql_stmt_close(c->statement);
		free(c);
		return failed;
	}
	c->columns = mysql_stmt_field_count(c->statement);
	*ret_cursor = &c->base;
	return 0;
}

static void bind_one(MYSQL_BIND *bind, const db_value *value)
{
	if (value->type == DB_VALUE_INT) {
		bind->buffer_type = MYSQL_TYPE_LONGLONG;
		bind->buffer = (void *)&value->number;
		return;
	}
	bind->buffer_type = value->type == DB_VALUE_TEXT ? MYSQL_TYPE_STRING : MYSQL_TYPE_BLOB;
	bind->buffer = (void *)(value->bytes.at != NULL ? value->bytes.at : "");
	bind->buffer_length = value->bytes.length;
}

/* Columns are bound to nothing here: number() and bytes() fetch those that are asked for. */
static int bind_columns(db_mariadb_cursor *c)
{
	MYSQL_BIND results[COLUMNS_MAX] = {0};
	for (unsigned i = 0; i < c->columns; i++) {
		results[i].buffer_type = MYSQL_TYPE_STRING;
		results[i].length = &c->ignored;
	}
	if (c->columns == 0)
		return 0;
	if (mysql_stmt_bind_result(c->statement, results) != 0 || mysql_stmt_store_result(c->statement) != 0)
		return fail_statement(&c->base);
	return 0;
}

static int start(db_cursor *base, const db_value *values, size_t count)
{
	db_mariadb_cursor *c = (db_mariadb_cursor *)base;
	MYSQL_BIND binds[DB_ARGS_MAX] = {0};
	for (size_t i = 0; i < count; i++)
		bind_one(&binds[i], &values[i]);
	if (mysql_stmt_param_count(c->statement) != count)
		return weir_error_set(-EINVAL, "database: a statement was given too few or too many values");
	if (count > 0 && mysql_stmt_bind_param(c->statement, binds) != 0)
		return fail_statement(base);
	if (mysql_stmt_execute(c->statement) != 0)
		return fail_statement(base);
	((db_mariadb *)base->owner)->inserted = (int64_t)mysql_stmt_insert_id(c->statement);
	return bind_columns(c);
}

static int step(db_cursor *base)
{
	db_mariadb_cursor *c = (db_mariadb_cursor *)base;
	if (c->columns == 0)
		return 0;
	int code = mysql_stmt_fetch(c->statement);
	if (code == 0 || code == MYSQL_DATA_TRUNCATED)
		return 1;
	return code == MYSQL_NO_DATA ? 0 : fail_statement(base);
}

static int64_t number(db_cursor *base, unsigned column)
{
	int64_t value = 0;
	my_bool null = 0;
	MYSQL_BIND bind = {.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = &value, .is_null = &null};
	if (mysql_stmt_fetch_column(((db_mariadb_cursor *)base)->statement, &bind, column, 0) != 0 || null)
		return 0;
	return value;
}

/* Memory for a column; false if there is none. */
static bool make_room(db_mariadb_cursor *c, unsigned column, size_t size)
{
	if (size <= c->buffers[column].size)
		return true;
	char *data = realloc(c->buffers[column].data, size);
	if (data == NULL)
		return false;
	c->buffers[column].data = data;
	c->buffers[column].size = size;
	return true;
}

static weir_span bytes(db_cursor *base, unsigned column)
{
	db_mariadb_cursor *c = (db_mariadb_cursor *)base;
	unsigned long length = 0;
	my_bool null = 0, error = 0;
	for (size_t size = 256;; size = length) {
		if (!make_room(c, column, size))
			return (weir_span){"", 0};
		MYSQL_BIND bind = {.buffer_type = MYSQL_TYPE_BLOB,
				   .buffer = c->buffers[column].data,
				   .buffer_length = c->buffers[column].size,
				   .length = &length,
				   .is_null = &null,
				   .error = &error};
		if (mysql_stmt_fetch_column(c->statement, &bind, column, 0) != 0 || null)
			return (weir_span){"", 0};
		if (length <= c->buffers[column].size)
			return (weir_span){c->buffers[column].data, length};
	}
}

static int changes(db_cursor *base)
{
	db_mariadb_cursor *c = (db_mariadb_cursor *)base;
	return c->columns > 0 ? 0 : (int)mysql_stmt_affected_rows(c->statement);
}

static int64_t inserted(const db *base)
{
	return ((const db_mariadb *)base)->inserted;
}

static void reset(db_cursor *base)
{
	db_mariadb_cursor *c = (db_mariadb_cursor *)base;
	if (c->columns > 0)
		mysql_stmt_free_result(c->statement);
}

static void free_cursor(db_cursor *base)
{
	db_mariadb_cursor *c = (db_mariadb_cursor *)base;
	mysql_stmt_close(c->statement);
	for (unsigned i = 0; i < COLUMNS_MAX; i++)
		free(c->buffers[i].data);
	free(c);
}

/* ---- transactions ---- */

static int begin(db *base, db_durability durability)
{
	if (durability == DB_READS_ONLY)
		return script(base, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;"
				    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
	return script(base, "START TRANSACTION");
}

static int commit(db *base)
{
	return script(base, "COMMIT");
}

static void rollback(db *base)
{
	db_mariadb *d = (db_mariadb *)base;
	if (!d->lost && mysql_rollback(d->handle) != 0)
		d->lost = true;
}

static const db_ops ops = {
	.kind = DB_MARIADB,
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

/* ---- the URL ---- */

/* A part of the URL, decoded; false if it is too long or holds a NUL. */
static bool take_part(weir_span text, char to[PART_MAX])
{
	size_t length = 0;
	if (weir_percent_decode(text, 0, to, PART_MAX - 1, &length) != 0)
		return false;
	to[length] = '\0';
	return strlen(to) == length;
}

/* USER:PASSWORD@HOST:PORT/DATABASE?socket=PATH; all but the user and the database may be left out. */
static bool read_place(const char *url, db_place *place)
{
	const char *at = strrchr(url, '@');
	const char *slash = at != NULL ? strchr(at, '/') : NULL;
	if (slash == NULL)
		return false;
	const char *colon = memchr(url, ':', (size_t)(at - url));
	const char *port = memchr(at, ':', (size_t)(slash - at));
	const char *query = strstr(slash, "?socket=");
	const char *user_end = colon != NULL ? colon : at, *host_end = port != NULL ? port : slash;
	place->port = port != NULL ? (unsigned)strtoul(port + 1, NULL, 10) : 3306;
	return take_part((weir_span){url, (size_t)(user_end - url)}, place->user) &&
	       (colon == NULL ||
		take_part((weir_span){colon + 1, (size_t)(at - colon - 1)}, place->password)) &&
	       take_part((weir_span){at + 1, (size_t)(host_end - at - 1)}, place->host) &&
	       take_part((weir_span){slash + 1,
				     query != NULL ? (size_t)(query - slash - 1) : strlen(slash + 1)},
			 place->database) &&
	       (query == NULL || take_part((weir_span){query + 8, strlen(query + 8)}, place->socket)) &&
	       place->user[0] != '\0' && place->database[0] != '\0' && place->port > 0 && place->port < 65536;
}

int db_mariadb_open(const char *url, unsigned busy_ms, db **ret_db)
{
	db_mariadb *d = calloc(1, sizeof(*d));
	if (d == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	d->base.ops = &ops;
	d->base.busy_ms = busy_ms;
	int failed = read_place(url + strlen("mariadb://"), &d->place) ? 0 : -EINVAL;
	if (failed != 0)
		weir_error_set(failed,
			       "a database is mariadb://USER:PASSWORD@HOST:PORT/DATABASE[?socket=PATH]");
	else
		failed = ready(&d->base);
	if (failed != 0) {
		db_close(&d->base);
		return failed;
	}
	*ret_db = &d->base;
	return 0;
}
