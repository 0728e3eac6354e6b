/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define LOCKS    64u
#define ROWS     (SESSIONS_MAX / SESSIONS_ROW)
#define ID_BYTES 16u

typedef struct session_place {
	unsigned char id[ID_BYTES]; /* a keyed hash of the token */
	bool used;
	store_session is;
	uint64_t found_ns; /* in the database */
	uint64_t seen_ns;
	weir_buf *folders;
} session_place;

struct sessions {
	/* const after init */
	unsigned char key[crypto_generichash_KEYBYTES];
	/* each row under one of the locks */
	pthread_mutex_t lock[LOCKS];
	session_place place[ROWS][SESSIONS_ROW];
	uint64_t count; /* atomic */
};

sessions *sessions_new(void)
{
	sessions *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NULL;
	randombytes_buf(s->key, sizeof(s->key));
	for (unsigned i = 0; i < LOCKS; i++)
		pthread_mutex_init(&s->lock[i], NULL);
	return s;
}

void sessions_free(sessions *s)
{
	if (s == NULL)
		return;
	for (unsigned row = 0; row < ROWS; row++)
		for (unsigned i = 0; i < SESSIONS_ROW; i++)
			weir_buf_unref(s->place[row][i].folders);
	for (unsigned i = 0; i < LOCKS; i++)
		pthread_mutex_destroy(&s->lock[i]);
	free(s);
}

/* A token has a fixed length. Anything else was not given out by us. */
static bool identify(const sessions *s, weir_span token, unsigned char ret_id[ID_BYTES])
{
	return token.length == STORE_TOKEN_CHARS &&
	       crypto_generichash(ret_id, ID_BYTES, (const unsigned char *)token.at, token.length, s->key,
				  sizeof(s->key)) == 0;
}

/* Another use of the token than the one that finds it, without the table's key. */
void sessions_csrf(weir_span token, char ret_csrf[SESSIONS_CSRF_CHARS + 1])
{
	static const unsigned char purpose[] = "webmail: the field token of its forms";
	unsigned char bytes[ID_BYTES];
	crypto_generichash(bytes, sizeof(bytes), (const unsigned char *)token.at, token.length, purpose,
			   sizeof(purpose) - 1);
	sodium_bin2base64(ret_csrf, SESSIONS_CSRF_CHARS + 1, bytes, sizeof(bytes),
			  sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

static unsigned row_of(const unsigned char id[ID_BYTES])
{
	uint32_t bits;
	memcpy(&bits, id, sizeof(bits));
	return bits % ROWS;
}

/*
 * The place of a session, with its row locked; NULL: it is not here, and its row is locked only if the token could be
 * one. unlock() must follow if ret_row is below ROWS.
 */
static session_place *lock(sessions *s, weir_span token, unsigned char ret_id[ID_BYTES], unsigned *ret_row)
{
	*ret_row = ROWS;
	if (!identify(s, token, ret_id))
		return NULL;
	*ret_row = row_of(ret_id);
	pthread_mutex_lock(&s->lock[*ret_row % LOCKS]);
	for (unsigned i = 0; i < SESSIONS_ROW; i++) {
		session_place *place = &s->place[*ret_row][i];
		if (place->used && sodium_memcmp(place->id, ret_id, ID_BYTES) == 0)
			return place;
	}
	return NULL;
}

static void unlock(sessions *s, unsigned row)
{
	if (row < ROWS)
		pthread_mutex_unlock(&s->lock[row % LOCKS]);
}

/* An empty place, or that of the session that was not seen for the longest time. */
static session_place *take_locked(sessions *s, unsigned row)
{
	session_place *oldest = &s->place[row][0];
	for (unsigned i = 0; i < SESSIONS_ROW; i++) {
		session_place *place = &s->place[row][i];
		if (!place->used)
			return place;
		if (place->seen_ns < oldest->seen_ns)
			oldest = place;
	}
	return oldest;
}

static void clear_locked(sessions *s, session_place *place)
{
	if (place->used)
		__atomic_sub_fetch(&s->count, 1, __ATOMIC_RELAXED);
	weir_buf_unref(place->folders);
	*place = (session_place){.used = false};
}

bool sessions_find(sessions *s, weir_span token, uint64_t now_ns, session *ret_session)
{
	unsigned char id[ID_BYTES];
	unsigned row;
	session_place *place = lock(s, token, id, &row);
	if (place != NULL) {
		place->seen_ns = now_ns;
		ret_session->is = place->is;
		ret_session->fresh = now_ns - place->found_ns < SESSIONS_TRUST_NS;
	}
	unlock(s, row);
	return place != NULL;
}

void sessions_put(sessions *s, weir_span token, const store_session *is, uint64_t now_ns)
{
	unsigned char id[ID_BYTES];
	unsigned row;
	session_place *place = lock(s, token, id, &row);
	if (row == ROWS)
		return;
	if (place == NULL) {
		place = take_locked(s, row);
		clear_locked(s, place);
		memcpy(place->id, id, ID_BYTES);
		place->used = true;
		__atomic_add_fetch(&s->count, 1, __ATOMIC_RELAXED);
	}
	place->is = *is;
	place->found_ns = place->seen_ns = now_ns;
	unlock(s, row);
}

void sessions_drop(sessions *s, weir_span token)
{
	unsigned char id[ID_BYTES];
	unsigned row;
	session_place *place = lock(s, token, id, &row);
	if (place != NULL)
		clear_locked(s, place);
	unlock(s, row);
}

void sessions_keep(sessions *s, weir_span token, weir_buf *folders)
{
	unsigned char id[ID_BYTES];
	unsigned row;
	session_place *place = lock(s, token, id, &row);
	if (place != NULL && folders->length <= SESSIONS_KEPT_BYTES) {
		weir_buf_unref(place->folders);
		place->folders = weir_buf_ref(folders);
	}
	unlock(s, row);
}

weir_buf *sessions_kept(sessions *s, weir_span token)
{
	unsigned char id[ID_BYTES];
	unsigned row;
	const session_place *place = lock(s, token, id, &row);
	weir_buf *kept = place != NULL && place->folders != NULL ? weir_buf_ref(place->folders) : NULL;
	unlock(s, row);
	return kept;
}

uint64_t sessions_count(const sessions *s)
{
	return __atomic_load_n(&s->count, __ATOMIC_RELAXED);
}
