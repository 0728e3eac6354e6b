/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables. A migration is a script per database; the number of those that were run is in the table
 * `settings`. Scripts that were released are never changed: a change is one more.
 *
 * Keys of folders, messages and threads have the user's number in their upper half (store.h). Sort keys are
 * texts in lower case, compared as bytes. All texts are UTF-8.
 */
#include "store_priv.h"

#include <errno.h>

static const char *const sqlite_migrations[] = {
	"CREATE TABLE users (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,"
	"  hash TEXT NOT NULL, class TEXT NOT NULL, created_s INTEGER NOT NULL,"
	"  next_number INTEGER NOT NULL);"
	"CREATE TABLE sessions (token BLOB NOT NULL PRIMARY KEY, user INTEGER NOT NULL,"
	"  created_s INTEGER NOT NULL, expires_s INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE INDEX sessions_of_user ON sessions (user, created_s);"
	"CREATE TABLE folders (id INTEGER PRIMARY KEY, user INTEGER NOT NULL,"
	"  role INTEGER NOT NULL, name TEXT NOT NULL, total INTEGER NOT NULL,"
	"  unread INTEGER NOT NULL, UNIQUE (user, name));"
	"CREATE TABLE bodies (id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE,"
	"  size INTEGER NOT NULL, refs INTEGER NOT NULL);"
	"CREATE TABLE chunks (id INTEGER PRIMARY KEY, data BLOB NOT NULL);"
	"CREATE TABLE messages (id INTEGER PRIMARY KEY, folder INTEGER NOT NULL,"
	"  was INTEGER NOT NULL, thread INTEGER NOT NULL, date_s INTEGER NOT NULL,"
	"  flags INTEGER NOT NULL, size INTEGER NOT NULL, body INTEGER NOT NULL,"
	"  author_key TEXT NOT NULL, subject_key TEXT NOT NULL, sender TEXT NOT NULL,"
	"  author TEXT NOT NULL, subject TEXT NOT NULL, sent_to TEXT NOT NULL,"
	"  sent_cc TEXT NOT NULL, snippet TEXT NOT NULL, message_id TEXT NOT NULL);"
	"CREATE INDEX messages_by_date ON messages (folder, date_s);"
	"CREATE INDEX messages_by_author ON messages (folder, author_key, date_s DESC);"
	"CREATE INDEX messages_by_subject ON messages (folder, subject_key, date_s DESC);"
	"CREATE INDEX messages_by_thread ON messages (thread);"
	"CREATE TABLE deliveries (user INTEGER NOT NULL, delivery BLOB NOT NULL,"
	"  message INTEGER NOT NULL, created_s INTEGER NOT NULL, PRIMARY KEY (user,"
	"  delivery)) WITHOUT ROWID;"
	"CREATE TABLE links (user INTEGER NOT NULL, reference BLOB NOT NULL,"
	"  thread INTEGER NOT NULL, PRIMARY KEY (user, reference)) WITHOUT ROWID;"
	"CREATE INDEX links_by_thread ON links (thread);"
	"CREATE TABLE outgoing (id INTEGER PRIMARY KEY AUTOINCREMENT, user INTEGER NOT NULL,"
	"  message INTEGER NOT NULL, body INTEGER NOT NULL, sender TEXT NOT NULL,"
	"  recipients TEXT NOT NULL, error TEXT NOT NULL, tries INTEGER NOT NULL,"
	"  created_s INTEGER NOT NULL, next_s INTEGER NOT NULL);"
	"CREATE INDEX outgoing_by_time ON outgoing (next_s);"
	"CREATE INDEX outgoing_of_user ON outgoing (user);"
	"CREATE VIRTUAL TABLE words USING fts5 (author, recipients, subject, body,"
	"  tokenize = 'unicode61 remove_diacritics 2');",
	"CREATE INDEX sessions_by_end ON sessions (expires_s);",
};

#define END_OF_TABLE " ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;"

/* MariaDB's own index of words knows no users, so `terms` is one of ours (store_terms.c). */
static const char *const mariadb_migrations[] = {
	"CREATE TABLE IF NOT EXISTS users (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY,"
	"  name VARCHAR(64) NOT NULL UNIQUE, hash VARCHAR(127) NOT NULL,"
	"  class VARCHAR(31) NOT NULL, created_s BIGINT NOT NULL, next_number BIGINT NOT NULL)" END_OF_TABLE
	"CREATE TABLE IF NOT EXISTS sessions (token BINARY(32) PRIMARY KEY, user INT UNSIGNED NOT NULL,"
	"  created_s BIGINT NOT NULL, expires_s BIGINT NOT NULL, KEY sessions_of_user (user,"
	"  created_s))" END_OF_TABLE
	"CREATE TABLE IF NOT EXISTS folders (id BIGINT PRIMARY KEY, user INT UNSIGNED NOT NULL,"
	"  role INT NOT NULL, name VARCHAR(120) NOT NULL, total BIGINT NOT NULL,"
	"  unread BIGINT NOT NULL, UNIQUE KEY (user, name))" END_OF_TABLE
	"CREATE TABLE IF NOT EXISTS bodies (id BIGINT AUTO_INCREMENT PRIMARY KEY,"
	"  digest BINARY(32) NOT NULL UNIQUE, size BIGINT NOT NULL, refs BIGINT NOT NULL)" END_OF_TABLE
	"CREATE TABLE IF NOT EXISTS chunks (id BIGINT PRIMARY KEY, data MEDIUMBLOB NOT NULL)" END_OF_TABLE
	"CREATE TABLE IF NOT EXISTS messages (id BIGINT PRIMARY KEY, folder BIGINT NOT NULL,"
	"  was BIGINT NOT NULL, thread BIGINT NOT NULL, date_s BIGINT NOT NULL,"
	"  flags INT NOT NULL, size BIGINT NOT NULL, body BIGINT NOT NULL,"
	"  author_key VARCHAR(96) NOT NULL, subject_key VARCHAR(96) NOT NULL,"
	"  sender VARCHAR(998) NOT NULL, author VARCHAR(998) NOT NULL,"
	"  subject VARCHAR(998) NOT NULL, sent_to TEXT NOT NULL, sent_cc TEXT NOT NULL,"
	"  snippet VARCHAR(240) NOT NULL, message_id VARCHAR(998) NOT NULL,"
	"  KEY messages_by_date (folder, date_s), KEY messages_by_author (folder, author_key,"
	"  date_s DESC), KEY messages_by_subject (folder, subject_key, date_s DESC),"
	"  KEY messages_by_thread (thread))" END_OF_TABLE
	"CREATE TABLE IF NOT EXISTS deliveries (user INT UNSIGNED NOT NULL, delivery BINARY(32) NOT NULL,"
	"  message BIGINT NOT NULL, created_s BIGINT NOT NULL, PRIMARY KEY (user, delivery))" END_OF_TABLE
	"CREATE TABLE IF NOT EXISTS links (user INT UNSIGNED NOT NULL, reference BINARY(16) NOT NULL,"
	"  thread BIGINT NOT NULL, PRIMARY KEY (user, reference), KEY links_by_thread (thread))" END_OF_TABLE
	"CREATE TABLE IF NOT EXISTS outgoing (id BIGINT AUTO_INCREMENT PRIMARY KEY,"
	"  user INT UNSIGNED NOT NULL, message BIGINT NOT NULL, body BIGINT NOT NULL,"
	"  sender VARCHAR(998) NOT NULL, recipients TEXT NOT NULL,"
	"  error VARCHAR(998) NOT NULL, tries INT NOT NULL, created_s BIGINT NOT NULL,"
	"  next_s BIGINT NOT NULL, KEY outgoing_by_time (next_s), KEY outgoing_of_user (user))" END_OF_TABLE
	"CREATE TABLE IF NOT EXISTS words (id BIGINT PRIMARY KEY, body MEDIUMTEXT NOT NULL)" END_OF_TABLE
	"CREATE TABLE IF NOT EXISTS terms (user INT UNSIGNED NOT NULL,"
	"  word VARCHAR(72) COLLATE utf8mb4_general_ci NOT NULL, message BIGINT NOT NULL,"
	"  PRIMARY KEY (user, word, message))" END_OF_TABLE,
	"CREATE INDEX IF NOT EXISTS sessions_by_end ON sessions (expires_s);",
};

#define MIGRATIONS (sizeof(sqlite_migrations) / sizeof(sqlite_migrations[0]))
_Static_assert(MIGRATIONS == sizeof(mariadb_migrations) / sizeof(mariadb_migrations[0]), "one of each");

/*
 * SQLite undoes a script that fails half-way. MariaDB commits each statement by itself, so that its scripts
 * are written to be run again.
 */
static void migrate_in(db *d)
{
	int64_t done = 0;
	db_script(d, "CREATE TABLE IF NOT EXISTS settings (name VARCHAR(32) NOT NULL PRIMARY KEY,"
		     " value INTEGER NOT NULL)");
	if (db_number(d, &done, "SELECT value FROM settings WHERE name = 'schema'", DB_NONE) == -ENOENT)
		db_run(d, "INSERT INTO settings VALUES ('schema', 0)", DB_NONE);
	if (done > (int64_t)MIGRATIONS)
		db_fail(d,
			weir_error_set(
				-EINVAL,
				"database: its schema is %lld, and this program knows %zu; use a newer one",
				(long long)done, MIGRATIONS));
	for (size_t i = (size_t)done; i < MIGRATIONS; i++) {
		db_script(d, db_is(d) == DB_SQLITE ? sqlite_migrations[i] : mariadb_migrations[i]);
		db_run(d, "UPDATE settings SET value = ? WHERE name = 'schema'", DB_ARGS(DB_INT(i + 1)));
	}
}

int schema_migrate(db *d)
{
	int64_t number = 0;
	if (db_number(d, &number, "SELECT value FROM settings WHERE name = 'schema'", DB_NONE) == 0 &&
	    number == (int64_t)MIGRATIONS)
		return 0;
	/* One at a time: what makes tables ends a transaction of MariaDB's. */
	bool locks = db_is(d) == DB_MARIADB;
	int failed = locks ? db_number(d, &number, "SELECT GET_LOCK('weir-webmail', 60)", DB_NONE) : 0;
	if (failed == 0 && locks && number != 1)
		failed = weir_error_set(-EBUSY, "database: another has been making its tables for a minute");
	if (failed != 0)
		return failed;
	db_try t = db_begin(d, DB_SAFE_FROM_POWER_CUT);
	while (db_go(&t))
		migrate_in(d);
	if (locks)
		db_number(d, &number, "SELECT RELEASE_LOCK('weir-webmail')", DB_NONE);
	return t.failed;
}
