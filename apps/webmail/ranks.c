/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define PLACES   (2 * RANKS_MAX) /* half of them stay empty, so that a search ends soon */
#define ID_BYTES 16u

typedef struct ranks_place {
	unsigned char id[ID_BYTES]; /* a keyed hash of the name; all zero: empty */
	uint64_t paid_ns;           /* uses are paid for up to here, RANKS_EVERY_NS each */
} ranks_place;

struct ranks {
	/* const after init */
	unsigned char key[crypto_generichash_KEYBYTES];
	/* under the lock */
	pthread_mutex_t lock;
	ranks_place *places;
};

ranks *ranks_new(void)
{
	ranks *r = calloc(1, sizeof(*r));
	ranks_place *places = calloc(PLACES, sizeof(*places));
	if (r == NULL || places == NULL) {
		free(r);
		free(places);
		return NULL;
	}
	r->places = places;
	randombytes_buf(r->key, sizeof(r->key));
	pthread_mutex_init(&r->lock, NULL);
	return r;
}

void ranks_free(ranks *r)
{
	if (r == NULL)
		return;
	pthread_mutex_destroy(&r->lock);
	free(r->places);
	free(r);
}

/* Upper and lower case are the same, as for the store. */
static void identify(const ranks *r, weir_span name, unsigned char ret_id[ID_BYTES])
{
	unsigned char folded[STORE_NAME_MAX] = {0};
	for (size_t i = 0; i < name.length; i++)
		folded[i] = (unsigned char)(name.at[i] >= 'A' && name.at[i] <= 'Z' ? name.at[i] + 32
										   : name.at[i]);
	crypto_generichash(ret_id, ID_BYTES, folded, name.length, r->key, sizeof(r->key));
}

/* Its place, or the empty one where it would be. */
static ranks_place *find(ranks_place *places, const unsigned char id[ID_BYTES])
{
	uint32_t at;
	memcpy(&at, id, sizeof(at));
	for (at %= PLACES; !sodium_is_zero(places[at].id, ID_BYTES); at = (at + 1) % PLACES)
		if (memcmp(places[at].id, id, ID_BYTES) == 0)
			break;
	return &places[at];
}

typedef struct reading {
	const ranks *ranks;
	ranks_place *places;
	unsigned count;
} reading;

static int note(const store_user *user, void *arg)
{
	reading *r = arg;
	unsigned char id[ID_BYTES];
	if (strcmp(user->class, "gold") != 0 || r->count == RANKS_MAX)
		return 0;
	identify(r->ranks, (weir_span){user->name, strlen(user->name)}, id);
	memcpy(find(r->places, id)->id, id, ID_BYTES);
	r->count++;
	return 0;
}

/* What was used up stays so. */
static void take_over_locked(ranks_place *places, const ranks_place *before)
{
	for (unsigned i = 0; i < PLACES; i++)
		if (!sodium_is_zero(before[i].id, ID_BYTES)) {
			ranks_place *place = find(places, before[i].id);
			if (!sodium_is_zero(place->id, ID_BYTES))
				place->paid_ns = before[i].paid_ns;
		}
}

int ranks_read(ranks *r, store *db)
{
	reading fresh = {r, calloc(PLACES, sizeof(ranks_place)), 0};
	if (fresh.places == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	int failed = store_users(db, note, &fresh);
	if (failed == 0) {
		pthread_mutex_lock(&r->lock);
		ranks_place *before = r->places;
		take_over_locked(fresh.places, before);
		r->places = fresh.places;
		pthread_mutex_unlock(&r->lock);
		fresh.places = before;
	}
	free(fresh.places);
	return failed;
}

/* Uses that nobody made add up to a burst, no more. */
static bool use_locked(ranks_place *place, uint64_t now_ns)
{
	uint64_t burst_ns = RANKS_BURST * RANKS_EVERY_NS;
	uint64_t oldest_ns = now_ns > burst_ns ? now_ns - burst_ns : 0;
	if (place->paid_ns < oldest_ns)
		place->paid_ns = oldest_ns;
	if (place->paid_ns + RANKS_EVERY_NS > now_ns)
		return false;
	place->paid_ns += RANKS_EVERY_NS;
	return true;
}

bool ranks_believe(ranks *r, weir_span name, uint64_t now_ns)
{
	unsigned char id[ID_BYTES];
	if (name.length == 0 || name.length > STORE_NAME_MAX)
		return false;
	identify(r, name, id);
	pthread_mutex_lock(&r->lock);
	ranks_place *place = find(r->places, id);
	bool believed = !sodium_is_zero(place->id, ID_BYTES) && use_locked(place, now_ns);
	pthread_mutex_unlock(&r->lock);
	return believed;
}
