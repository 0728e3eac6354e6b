/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifies the invariants of store.h. Each rule is a query for what breaks it, in one view of the database,
 * so that others may write meanwhile. Then every body is read and hashed.
 */
#include "store_priv.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>

#define SHOWN_MAX 20 /* breaches of one rule that are told one by one */

typedef struct store_checking {
	void (*wrong)(const char *sentence, void *arg);
	void *arg;
	int found;
} store_checking;

typedef struct store_rule {
	enum { ON_BOTH, ON_SQLITE, ON_MARIADB } where;
	const char *sentence; /* with the two numbers of a row */
	const char *sql;
} store_rule;

/* Numbers are shown as user and number within the user's mail, which a key holds both of. */
static const store_rule rules[] = {
	{ON_BOTH, "message %s is in a folder that is not there or is another user's",
	 "SELECT m.id, 0 FROM messages m LEFT JOIN folders f ON f.id = m.folder"
	 " WHERE f.id IS NULL OR (f.id >> 32) <> (m.id >> 32) OR f.user <> (m.id >> 32)"},
	{ON_BOTH, "message %s is of a user that is not there",
	 "SELECT m.id, 0 FROM messages m LEFT JOIN users u ON u.id = (m.id >> 32) WHERE u.id IS NULL"},
	{ON_BOTH, "folder %s is of a user that is not there",
	 "SELECT f.id, 0 FROM folders f LEFT JOIN users u ON u.id = f.user"
	 " WHERE u.id IS NULL OR (f.id >> 32) <> f.user"},
	{ON_BOTH, "message %s has a number that its user has not given out",
	 "SELECT m.id, 0 FROM messages m JOIN users u ON u.id = (m.id >> 32)"
	 " WHERE (m.id & 4294967295) > u.next_number"},
	{ON_BOTH, "folder %s has counts that are not those of its messages (it holds %lld)",
	 "SELECT f.id, (SELECT COUNT(*) FROM messages m WHERE m.folder = f.id) FROM folders f WHERE f.total "
	 "<>"
	 " (SELECT COUNT(*) FROM messages m WHERE m.folder = f.id) OR f.unread <>"
	 " (SELECT COUNT(*) FROM messages m WHERE m.folder = f.id AND (m.flags & 1) = 0)"},
	{ON_BOTH, "user %s has not one folder of each standard kind (%lld)",
	 "SELECT u.id << 32, COUNT(f.id) FROM users u LEFT JOIN folders f ON f.user = u.id AND f.role > 0"
	 " GROUP BY u.id HAVING COUNT(f.id) <> 5 OR COUNT(DISTINCT f.role) <> 5"},
	{ON_BOTH, "message %s has no body, or one of another size",
	 "SELECT m.id, 0 FROM messages m LEFT JOIN bodies b ON b.id = m.body WHERE b.id IS NULL OR b.size <> "
	 "m.size"},
	{ON_BOTH, "body %s does not count those who refer to it (%lld)",
	 "SELECT b.id, COALESCE(x.uses, 0) FROM bodies b LEFT JOIN (SELECT body, COUNT(*) AS uses FROM"
	 " (SELECT body FROM messages UNION ALL SELECT body FROM outgoing) y GROUP BY body) x ON x.body = "
	 "b.id"
	 " WHERE b.refs <> COALESCE(x.uses, 0) OR b.refs <= 0"},
	{ON_BOTH, "chunk %s is of no body",
	 "SELECT c.id, 0 FROM chunks c LEFT JOIN bodies b ON b.id = (c.id >> 8) WHERE b.id IS NULL"},
	{ON_BOTH, "mail %s on its way out has no body",
	 "SELECT o.id, 0 FROM outgoing o LEFT JOIN bodies b ON b.id = "
	 "o.body LEFT JOIN users u ON u.id = o.user"
	 " WHERE b.id IS NULL OR u.id IS NULL"},
	{ON_BOTH, "message %s was stored by %lld deliveries",
	 "SELECT message, COUNT(*) FROM deliveries GROUP BY message HAVING COUNT(*) > 1"},
	{ON_BOTH, "delivery of message %s is another user's",
	 "SELECT message, 0 FROM deliveries WHERE (message >> 32) <> user"},
	{ON_BOTH, "message %s is in a thread of another user",
	 "SELECT id, 0 FROM messages WHERE (thread >> 32) <> (id >> 32)"},
	{ON_BOTH, "a message id of thread %s has no message left",
	 "SELECT l.thread, 0 FROM links l LEFT JOIN messages m ON m.thread = l.thread WHERE m.id IS NULL"},
	{ON_SQLITE, "message %s is not in the index",
	 "SELECT m.id, 0 FROM messages m LEFT JOIN words_content w ON w.id = m.id WHERE w.id IS NULL"},
	{ON_SQLITE, "the index holds message %s, which is not there",
	 "SELECT w.id, 0 FROM words_content w LEFT JOIN messages m ON m.id = w.id WHERE m.id IS NULL"},
	{ON_MARIADB, "message %s is not in the index",
	 "SELECT m.id, 0 FROM messages m LEFT JOIN words w ON w.id = m.id WHERE w.id IS NULL"},
	{ON_MARIADB, "the index holds message %s, which is not there",
	 "SELECT w.id, 0 FROM words w LEFT JOIN messages m ON m.id = w.id WHERE m.id IS NULL"},
	{ON_MARIADB, "message %s has no words in the index",
	 "SELECT m.id, 0 FROM messages m LEFT JOIN terms t ON t.user = (m.id >> 32) AND t.word = '*'"
	 " AND t.message = m.id WHERE t.message IS NULL"},
	{ON_MARIADB, "a word in the index is of message %s, which is not there",
	 "SELECT DISTINCT t.message, 0 FROM terms t LEFT JOIN messages m ON m.id = t.message"
	 " WHERE m.id IS NULL OR t.user <> (t.message >> 32)"},
};

/* Counts what is wrong, and says it unless there is no sentence. */
static void tell(store_checking *checking, const char *sentence)
{
	checking->found++;
	if (sentence != NULL)
		checking->wrong(sentence, checking->arg);
}

/* "7/12" for a key of a user's, "12" for others. */
static void write_key(int64_t key, char *to, size_t size)
{
	if (key >> 32 != 0)
		snprintf(to, size, "%u/%u", (unsigned)(key >> 32), (unsigned)key);
	else
		snprintf(to, size, "%u", (unsigned)key);
}

static void check_rule(db *d, store_checking *checking, const store_rule *rule)
{
	db_cursor *c = NULL;
	if (db_start(d, &c, rule->sql, DB_NONE) != 0)
		return;
	for (unsigned count = 0; db_step(c) > 0; count++) {
		char key[32], sentence[200];
		write_key(db_int(c, 0), key, sizeof(key));
		/* A rule without a second number ignores it. */
		snprintf(sentence, sizeof(sentence), rule->sentence, key, (long long)db_int(c, 1));
		tell(checking, count < SHOWN_MAX ? sentence : NULL);
	}
}

/* ---- bodies ---- */

/* One body at a time, in the order of their keys. */
typedef struct store_hashing {
	int64_t body, size, seen;
	unsigned char digest[STORE_DIGEST];
	crypto_hash_sha256_state state;
} store_hashing;

static void judge_body(store_checking *checking, store_hashing *hashing)
{
	unsigned char digest[STORE_DIGEST];
	char sentence[100];
	if (hashing->body == 0)
		return;
	crypto_hash_sha256_final(&hashing->state, digest);
	if (hashing->seen == hashing->size && memcmp(digest, hashing->digest, STORE_DIGEST) == 0)
		return;
	snprintf(sentence, sizeof(sentence), "body %lld is not what was stored (%lld bytes of %lld)",
		 (long long)hashing->body, (long long)hashing->seen, (long long)hashing->size);
	tell(checking, sentence);
}

static void hash_row(db_cursor *c, store_checking *checking, store_hashing *hashing)
{
	if (db_int(c, 0) != hashing->body) {
		judge_body(checking, hashing);
		hashing->body = db_int(c, 0);
		hashing->size = db_int(c, 1);
		hashing->seen = 0;
		weir_span digest = db_bytes(c, 2);
		memset(hashing->digest, 0, STORE_DIGEST);
		memcpy(hashing->digest, digest.at,
		       digest.length < STORE_DIGEST ? digest.length : STORE_DIGEST);
		crypto_hash_sha256_init(&hashing->state);
	}
	weir_span data = db_bytes(c, 3);
	hashing->seen += (int64_t)data.length;
	crypto_hash_sha256_update(&hashing->state, (const unsigned char *)data.at, data.length);
}

/* A few rows at a time: some databases hold all rows of a result in memory. */
static void check_bodies(db *d, store_checking *checking)
{
	store_hashing hashing = {0};
	int64_t body = 0, chunk = -1;
	int rows = 1;
	while (rows > 0) {
		db_cursor *c = NULL;
		if (db_start(d, &c,
			     "SELECT b.id, b.size, b.digest, COALESCE(c.data, ''), COALESCE(c.id, b.id * 256)"
			     " FROM bodies b LEFT JOIN chunks c ON c.id BETWEEN b.id * 256 AND b.id * 256 + "
			     "255"
			     " AND c.id > ? WHERE b.id >= ? AND (c.id IS NOT NULL OR b.id > ?)"
			     " ORDER BY b.id, c.id LIMIT 16",
			     DB_ARGS(DB_INT(chunk), DB_INT(body), DB_INT(body))) != 0)
			return;
		for (rows = 0; db_step(c) > 0; rows++) {
			hash_row(c, checking, &hashing);
			body = hashing.body;
			chunk = db_int(c, 4);
		}
	}
	judge_body(checking, &hashing);
}

/* ---- what the database can tell of itself ---- */

static void check_integrity(db *d, store_checking *checking)
{
	db_cursor *c = NULL;
	if (db_is(d) != DB_SQLITE || db_start(d, &c, "PRAGMA integrity_check(20)", DB_NONE) != 0)
		return;
	while (db_step(c) > 0) {
		char sentence[200];
		span_copy(sentence, sizeof(sentence), db_bytes(c, 0));
		if (strcmp(sentence, "ok") != 0)
			tell(checking, sentence);
	}
}

int store_check(store *s, void (*wrong)(const char *sentence, void *arg), void *arg)
{
	db *d = s->d;
	bool sqlite = db_is(d) == DB_SQLITE;
	store_checking checking = {.wrong = wrong, .arg = arg};
	db_try t = db_begin(d, DB_READS_ONLY);
	while (db_go(&t)) {
		checking.found = 0;
		for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
			if (rules[i].where == ON_BOTH || (rules[i].where == ON_SQLITE) == sqlite)
				check_rule(d, &checking, &rules[i]);
		check_bodies(d, &checking);
		check_integrity(d, &checking);
	}
	int failed = t.failed;
	/* FTS5 reads its index as if it wrote. */
	if (failed == 0 && sqlite)
		failed = db_change(d, "INSERT INTO words (words) VALUES ('integrity-check')", DB_NONE);
	if (t.failed == 0 && failed == -EIO) {
		tell(&checking, "the index of words does not hold what it should");
		failed = 0;
	}
	return failed < 0 ? failed : checking.found;
}
