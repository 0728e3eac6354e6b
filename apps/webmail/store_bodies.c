/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw messages, stored once and found by their SHA-256, in rows of chunks so that neither side needs all of
 * one in memory. References are counted: body_ref_in() and body_unref_in() in the transaction of whoever
 * refers to it.
 */
#include "store_priv.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

/* ---- storing ---- */

/* Reads a chunk in full, the last one up to the end; how many bytes, 0 at the end. */
static int read_chunk(const mail_source *source, uint64_t offset, char *into)
{
	uint64_t left = source->bytes - offset;
	size_t want = left < STORE_CHUNK ? (size_t)left : STORE_CHUNK;
	size_t have = 0;
	while (have < want) {
		int count = source->read(source, offset + have, into + have, want - have);
		if (count < 0)
			return weir_error_set(count, "reading a message: %s", strerror(-count));
		if (count == 0)
			return weir_error_set(-EIO, "a message ended before its size");
		have += (size_t)count;
	}
	return (int)have;
}

int body_digest(const mail_source *source, unsigned char ret_digest[STORE_DIGEST])
{
	if (source->bytes > STORE_BODY_MAX)
		return weir_error_set(-E2BIG, "a message has at most %d bytes", STORE_BODY_MAX);
	char *chunk = malloc(STORE_CHUNK);
	if (chunk == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	crypto_hash_sha256_state state;
	crypto_hash_sha256_init(&state);
	int count = 0;
	for (uint64_t offset = 0; count >= 0 && offset < source->bytes; offset += (uint64_t)count) {
		count = read_chunk(source, offset, chunk);
		if (count < 0)
			break;
		crypto_hash_sha256_update(&state, (const unsigned char *)chunk, (size_t)count);
	}
	free(chunk);
	if (count < 0)
		return count;
	crypto_hash_sha256_final(&state, ret_digest);
	return 0;
}

static void store_chunks_in(db *d, const mail_source *source, int64_t body)
{
	char *chunk = malloc(STORE_CHUNK);
	int64_t key = body * STORE_CHUNKS_A_BODY;
	if (chunk == NULL)
		db_fail(d, weir_error_set(-ENOMEM, "out of memory"));
	for (uint64_t offset = 0; db_failed(d) == 0 && offset < source->bytes; offset += STORE_CHUNK, key++) {
		int length = read_chunk(source, offset, chunk);
		if (length < 0)
			db_fail(d, length);
		else
			db_run(d, "INSERT INTO chunks (id, data) VALUES (?, ?)",
			       DB_ARGS(DB_INT(key), DB_BYTES(((weir_span){chunk, (size_t)length}))));
	}
	free(chunk);
}

int64_t body_ref_in(db *d, const mail_source *source, const unsigned char digest[STORE_DIGEST])
{
	int64_t body = 0;
	db_value found_by = DB_BYTES(digest_span(digest));
	if (db_run(d, "UPDATE bodies SET refs = refs + 1 WHERE digest = ?", DB_ARGS(found_by)) > 0) {
		db_number(d, &body, "SELECT id FROM bodies WHERE digest = ?", DB_ARGS(found_by));
		return body;
	}
	int made = db_run(d, "INSERT INTO bodies (digest, size, refs) VALUES (?, ?, 1)",
			  DB_ARGS(found_by, DB_INT(source->bytes)));
	/* Where rows are locked, another may have stored the same one just now. */
	if (made == -EEXIST)
		db_fail(d, -EAGAIN);
	if (made < 0)
		return 0;
	body = db_inserted(d);
	store_chunks_in(d, source, body);
	return body;
}

void body_unref_in(db *d, int64_t body)
{
	db_run(d, "UPDATE bodies SET refs = refs - 1 WHERE id = ?", DB_ARGS(DB_INT(body)));
	if (db_run(d, "DELETE FROM bodies WHERE id = ? AND refs <= 0", DB_ARGS(DB_INT(body))) > 0)
		db_run(d, "DELETE FROM chunks WHERE id BETWEEN ? AND ?",
		       DB_ARGS(DB_INT(body * STORE_CHUNKS_A_BODY),
			       DB_INT(body * STORE_CHUNKS_A_BODY + STORE_CHUNKS_A_BODY - 1)));
}

/* ---- reading ---- */

int store_body_open(store *s, uint32_t user, uint32_t message, store_body *ret_body)
{
	db_cursor *c = NULL;
	int failed = db_first(s->d, &c, "SELECT size, body FROM messages WHERE id = ?",
			      DB_ARGS(DB_INT(store_key(user, message))));
	if (failed == 0)
		*ret_body = (store_body){(uint64_t)db_int(c, 0), s, (uint64_t)db_int(c, 1)};
	db_end(c);
	return failed == -ENOENT ? weir_error_set(failed, "there is no such message") : failed;
}

/* Has a chunk at hand. */
static int load_chunk(store *s, int64_t key)
{
	if (s->chunk_key == key)
		return 0;
	if (s->chunk == NULL && (s->chunk = malloc(STORE_CHUNK)) == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	db_cursor *c = NULL;
	int failed = db_first(s->d, &c, "SELECT data FROM chunks WHERE id = ?", DB_ARGS(DB_INT(key)));
	if (failed == 0) {
		weir_span data = db_bytes(c, 0);
		s->chunk_length = data.length < STORE_CHUNK ? data.length : STORE_CHUNK;
		memcpy(s->chunk, data.at, s->chunk_length);
		s->chunk_key = key;
	}
	db_end(c);
	return failed == -ENOENT ? weir_error_set(failed, "the message was removed") : failed;
}

int64_t store_body_read(const store_body *body, uint64_t offset, void *into, size_t size)
{
	store *s = body->store;
	size_t done = 0;
	while (done < size && offset + done < body->size) {
		uint64_t place = offset + done;
		int failed = load_chunk(s, (int64_t)(body->key * STORE_CHUNKS_A_BODY + place / STORE_CHUNK));
		if (failed != 0)
			return failed;
		size_t from = (size_t)(place % STORE_CHUNK);
		if (from >= s->chunk_length)
			return weir_error_set(-EIO, "a message is shorter than its size");
		size_t count = s->chunk_length - from < size - done ? s->chunk_length - from : size - done;
		memcpy((char *)into + done, s->chunk + from, count);
		done += count;
	}
	return (int64_t)done;
}

/* As much as one chunk has, so that a reader need not wait for another. */
static int read_source(const mail_source *source, uint64_t offset, void *to, size_t length)
{
	size_t left = STORE_CHUNK - (size_t)(offset % STORE_CHUNK);
	return (int)store_body_read(source->arg, offset, to, length < left ? length : left);
}

mail_source store_body_source(const store_body *body)
{
	return (mail_source){.read = read_source, .bytes = body->size, .fd = -1, .arg = (void *)body};
}
