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
#include <unistd.h>

/* ---- sources ---- */

static int read_memory(void *arg, uint64_t offset, void *into, size_t size)
{
	const weir_span *bytes = arg;
	size_t left = offset < bytes->length ? bytes->length - (size_t)offset : 0;
	size_t count = left < size ? left : size;
	memcpy(into, bytes->at + bytes->length - left, count);
	return (int)count;
}

store_source store_source_memory(weir_span *bytes)
{
	return (store_source){.size = bytes->length, .read = read_memory, .arg = bytes};
}

static int read_file(void *arg, uint64_t offset, void *into, size_t size)
{
	ssize_t count;
	do
		count = pread(*(const int *)arg, into, size, (off_t)offset);
	while (count < 0 && errno == EINTR);
	return count < 0 ? weir_error_set(-errno, "reading a message: %s", strerror(errno)) : (int)count;
}

store_source store_source_file(int *fd, uint64_t size)
{
	return (store_source){.size = size, .read = read_file, .arg = fd};
}

/* Reads a chunk in full, the last one up to the end; how many bytes, 0 at the end. */
static int read_chunk(const store_source *source, uint64_t offset, char *into)
{
	uint64_t left = source->size - offset;
	size_t want = left < STORE_CHUNK ? (size_t)left : STORE_CHUNK;
	size_t have = 0;
	while (have < want) {
		int count = source->read(source->arg, offset + have, into + have, want - have);
		if (count < 0)
			return count;
		if (count == 0)
			return weir_error_set(-EIO, "a message ended before its size");
		have += (size_t)count;
	}
	return (int)have;
}

/* ---- storing ---- */

int body_digest(const store_source *source, unsigned char ret_digest[STORE_DIGEST])
{
	if (source->size > STORE_BODY_MAX)
		return weir_error_set(-E2BIG, "a message has at most %d bytes", STORE_BODY_MAX);
	char *chunk = malloc(STORE_CHUNK);
	if (chunk == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	crypto_hash_sha256_state state;
	crypto_hash_sha256_init(&state);
	int count = 1;
	for (uint64_t offset = 0; count > 0 && offset < source->size; offset += (uint64_t)count) {
		count = read_chunk(source, offset, chunk);
		if (count > 0)
			crypto_hash_sha256_update(&state, (const unsigned char *)chunk, (size_t)count);
		else
			break;
	}
	free(chunk);
	if (count < 0)
		return count;
	crypto_hash_sha256_final(&state, ret_digest);
	return 0;
}

static int store_chunks(db *d, const store_source *source, int64_t body)
{
	char *chunk = malloc(STORE_CHUNK);
	if (chunk == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	int64_t first = body * STORE_CHUNKS_A_BODY;
	int64_t result = 0;
	for (uint64_t offset = 0; result >= 0 && offset < source->size; offset += STORE_CHUNK) {
		result = read_chunk(source, offset, chunk);
		if (result > 0)
			result = db_run(d, "INSERT INTO chunks (id, data) VALUES (?, ?)",
					DB_ARGS(DB_INT(first + (int64_t)(offset / STORE_CHUNK)),
						DB_BYTES(((weir_span){chunk, (size_t)result}))));
	}
	free(chunk);
	return result < 0 ? (int)result : 0;
}

int body_ref_in(db *d, const store_source *source, const unsigned char digest[STORE_DIGEST],
		int64_t *ret_body)
{
	int64_t changed = db_run(d, "UPDATE bodies SET refs = refs + 1 WHERE digest = ?",
				 DB_ARGS(DB_BYTES(digest_span(digest))));
	if (changed > 0)
		return db_number(d, ret_body, "SELECT id FROM bodies WHERE digest = ?",
				 DB_ARGS(DB_BYTES(digest_span(digest))));
	if (changed == 0)
		changed = db_run(d, "INSERT INTO bodies (digest, size, refs) VALUES (?, ?, 1)",
				 DB_ARGS(DB_BYTES(digest_span(digest)), DB_INT(source->size)));
	/* Where rows are locked, another may have stored the same one just now. */
	if (changed == -EEXIST)
		return -EAGAIN;
	if (changed < 0)
		return (int)changed;
	*ret_body = db_inserted(d);
	return store_chunks(d, source, *ret_body);
}

int body_ref_again_in(db *d, int64_t body)
{
	int64_t changed = db_run(d, "UPDATE bodies SET refs = refs + 1 WHERE id = ?", DB_ARGS(DB_INT(body)));
	return changed > 0 ? 0 : changed == 0 ? weir_error_set(-ENOENT, "the body is gone") : (int)changed;
}

int body_unref_in(db *d, int64_t body)
{
	int64_t changed = db_run(d, "UPDATE bodies SET refs = refs - 1 WHERE id = ?", DB_ARGS(DB_INT(body)));
	if (changed >= 0)
		changed = db_run(d, "DELETE FROM bodies WHERE id = ? AND refs <= 0", DB_ARGS(DB_INT(body)));
	if (changed > 0)
		changed = db_run(d, "DELETE FROM chunks WHERE id BETWEEN ? AND ?",
				 DB_ARGS(DB_INT(body * STORE_CHUNKS_A_BODY),
					 DB_INT(body * STORE_CHUNKS_A_BODY + STORE_CHUNKS_A_BODY - 1)));
	return changed < 0 ? (int)changed : 0;
}

/* ---- reading ---- */

int store_body_open(store *s, uint32_t user, uint32_t message, store_body *ret_body)
{
	db_cursor *c = NULL;
	int result = db_start(s->d, &c, "SELECT body, size FROM messages WHERE id = ?",
			      DB_ARGS(DB_INT(store_key(user, message))));
	if (result != 0)
		return result;
	result = db_step(c);
	if (result > 0)
		*ret_body = (store_body){.key = (uint64_t)db_int(c, 0), .size = (uint64_t)db_int(c, 1)};
	db_end(c);
	return result > 0 ? 0 : result < 0 ? result : weir_error_set(-ENOENT, "there is no such message");
}

/* Has a chunk at hand. */
static int load_chunk(store *s, int64_t key)
{
	if (s->chunk_key == key)
		return 0;
	if (s->chunk == NULL && (s->chunk = malloc(STORE_CHUNK)) == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	db_cursor *c = NULL;
	int result = db_start(s->d, &c, "SELECT data FROM chunks WHERE id = ?", DB_ARGS(DB_INT(key)));
	if (result != 0)
		return result;
	result = db_step(c);
	if (result > 0) {
		weir_span data = db_bytes(c, 0);
		s->chunk_length = data.length < STORE_CHUNK ? data.length : STORE_CHUNK;
		memcpy(s->chunk, data.at, s->chunk_length);
		s->chunk_key = key;
	}
	db_end(c);
	return result > 0 ? 0 : result < 0 ? result : weir_error_set(-ENOENT, "the message was removed");
}

int64_t store_body_read(store *s, const store_body *body, uint64_t offset, void *into, size_t size)
{
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
