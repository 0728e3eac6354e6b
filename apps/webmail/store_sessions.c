/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: only hashes of the tokens are stored, so a copy of the database opens no session. */
#include "store_priv.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

static void digest_of_token(weir_span token, unsigned char ret_digest[STORE_DIGEST])
{
	crypto_hash_sha256(ret_digest, (const unsigned char *)token.at, token.length);
}

/* A new session ends the oldest ones of its user, if there are too many. */
static void make_room_in(db *d, uint32_t user)
{
	int64_t count = 0;
	db_number(d, &count, "SELECT COUNT(*) FROM sessions WHERE user = ?", DB_ARGS(DB_INT(user)));
	for (; count >= STORE_SESSIONS_MAX; count--)
		db_run(d,
		       "DELETE FROM sessions WHERE token = (SELECT token FROM (SELECT token FROM sessions"
		       " WHERE user = ? ORDER BY created_s LIMIT 1) oldest)",
		       DB_ARGS(DB_INT(user)));
}

int store_session_new(store *s, uint32_t user, int64_t now_s, int64_t expires_s,
		      char ret_token[STORE_TOKEN_CHARS + 1])
{
	unsigned char secret[32], digest[STORE_DIGEST];
	char token[STORE_TOKEN_CHARS + 1];
	randombytes_buf(secret, sizeof(secret));
	sodium_bin2base64(token, sizeof(token), secret, sizeof(secret),
			  sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	digest_of_token((weir_span){token, STORE_TOKEN_CHARS}, digest);
	db_try t = db_begin(s->d, DB_SAFE_FROM_CRASH);
	while (db_go(&t)) {
		user_lock_in(s->d, user);
		make_room_in(s->d, user);
		db_run(s->d, "INSERT INTO sessions (token, user, created_s, expires_s) VALUES (?, ?, ?, ?)",
		       DB_ARGS(DB_BYTES(digest_span(digest)), DB_INT(user), DB_INT(now_s),
			       DB_INT(expires_s)));
	}
	if (t.failed == 0)
		memcpy(ret_token, token, sizeof(token));
	sodium_memzero(secret, sizeof(secret));
	sodium_memzero(token, sizeof(token));
	return t.failed;
}

int store_session_find(store *s, weir_span token, int64_t now_s, store_session *ret_session)
{
	unsigned char digest[STORE_DIGEST];
	db_cursor *c = NULL;
	digest_of_token(token, digest);
	int failed = db_first(
		s->d, &c,
		"SELECT u.id, u.name, u.class, s.expires_s FROM sessions s JOIN users u ON u.id = s.user"
		" WHERE s.token = ? AND s.expires_s > ?",
		DB_ARGS(DB_BYTES(digest_span(digest)), DB_INT(now_s)));
	if (failed == 0) {
		ret_session->user = (uint32_t)db_int(c, 0);
		span_copy(ret_session->name, sizeof(ret_session->name), db_bytes(c, 1));
		span_copy(ret_session->class, sizeof(ret_session->class), db_bytes(c, 2));
		ret_session->expires_s = db_int(c, 3);
	}
	db_end(c);
	return failed == -ENOENT ? weir_error_set(failed, "there is no such session") : failed;
}

int store_session_end(store *s, weir_span token)
{
	unsigned char digest[STORE_DIGEST];
	digest_of_token(token, digest);
	int changed = db_change(s->d, "DELETE FROM sessions WHERE token = ?",
				DB_ARGS(DB_BYTES(digest_span(digest))));
	return changed < 0 ? changed : 0;
}
