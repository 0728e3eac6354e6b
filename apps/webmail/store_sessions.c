/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: only hashes of the tokens are stored, so a copy of the database opens no session. */
#include "store_priv.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

typedef struct store_session_job {
	uint32_t user;
	int64_t now_s, expires_s;
	unsigned char digest[STORE_DIGEST];
} store_session_job;

static void digest_of_token(weir_span token, unsigned char ret_digest[STORE_DIGEST])
{
	crypto_hash_sha256(ret_digest, (const unsigned char *)token.at, token.length);
}

static int64_t end_oldest(db *d, uint32_t user)
{
	unsigned char oldest[STORE_DIGEST];
	db_cursor *c = NULL;
	int result = db_start(d, &c, "SELECT token FROM sessions WHERE user = ? ORDER BY created_s LIMIT 1",
			      DB_ARGS(DB_INT(user)));
	if (result != 0)
		return result;
	result = db_step(c);
	weir_span token = result > 0 ? db_bytes(c, 0) : (weir_span){"", 0};
	bool found = token.length == STORE_DIGEST;
	if (found)
		memcpy(oldest, token.at, STORE_DIGEST);
	db_end(c);
	if (!found)
		return result < 0 ? result : 0;
	return db_run(d, "DELETE FROM sessions WHERE token = ?", DB_ARGS(DB_BYTES(digest_span(oldest))));
}

static int64_t new_work(db *d, void *arg)
{
	const store_session_job *job = arg;
	int64_t count = 0;
	int64_t result = user_lock_in(d, job->user);
	if (result == 0)
		result = db_number(d, &count, "SELECT COUNT(*) FROM sessions WHERE user = ?",
				   DB_ARGS(DB_INT(job->user)));
	for (; result >= 0 && count >= STORE_SESSIONS_MAX; count--)
		result = end_oldest(d, job->user);
	if (result < 0)
		return result;
	return db_run(d, "INSERT INTO sessions (token, user, created_s, expires_s) VALUES (?, ?, ?, ?)",
		      DB_ARGS(DB_BYTES(digest_span(job->digest)), DB_INT(job->user), DB_INT(job->now_s),
			      DB_INT(job->expires_s)));
}

int store_session_new(store *s, uint32_t user, int64_t now_s, int64_t expires_s,
		      char ret_token[STORE_TOKEN_CHARS + 1])
{
	unsigned char secret[32];
	char token[STORE_TOKEN_CHARS + 1];
	randombytes_buf(secret, sizeof(secret));
	sodium_bin2base64(token, sizeof(token), secret, sizeof(secret),
			  sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	store_session_job job = {.user = user, .now_s = now_s, .expires_s = expires_s};
	digest_of_token((weir_span){token, STORE_TOKEN_CHARS}, job.digest);
	int64_t result = db_transaction(s->d, DB_SAFE_FROM_CRASH, new_work, &job);
	if (result >= 0)
		memcpy(ret_token, token, sizeof(token));
	sodium_memzero(secret, sizeof(secret));
	sodium_memzero(token, sizeof(token));
	return result < 0 ? (int)result : 0;
}

int store_session_find(store *s, weir_span token, int64_t now_s, store_session *ret_session)
{
	unsigned char digest[STORE_DIGEST];
	if (token.length != STORE_TOKEN_CHARS)
		return weir_error_set(-ENOENT, "there is no such session");
	digest_of_token(token, digest);
	db_cursor *c = NULL;
	int result = db_start(
		s->d, &c,
		"SELECT u.id, u.name, u.class, s.expires_s FROM sessions s JOIN users u ON u.id = s.user"
		" WHERE s.token = ? AND s.expires_s > ?",
		DB_ARGS(DB_BYTES(digest_span(digest)), DB_INT(now_s)));
	if (result != 0)
		return result;
	result = db_step(c);
	if (result > 0) {
		ret_session->user = (uint32_t)db_int(c, 0);
		span_copy(ret_session->name, sizeof(ret_session->name), db_bytes(c, 1));
		span_copy(ret_session->class, sizeof(ret_session->class), db_bytes(c, 2));
		ret_session->expires_s = db_int(c, 3);
	}
	db_end(c);
	return result > 0 ? 0 : result < 0 ? result : weir_error_set(-ENOENT, "there is no such session");
}

int store_session_end(store *s, weir_span token)
{
	unsigned char digest[STORE_DIGEST];
	digest_of_token(token, digest);
	int64_t changed = db_change(s->d, "DELETE FROM sessions WHERE token = ?",
				    DB_ARGS(DB_BYTES(digest_span(digest))));
	return changed < 0 ? (int)changed : 0;
}
