/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas. A key's bucket is one number: the time at which it will be full again (full_at), as in the
 * generic cell rate algorithm. A full bucket is the same as none, so its slot is free for any other key.
 * Of a key only 64 bits of a keyed hash are stored: nobody can find keys that share a slot, and the
 * chance that any two of a million keys do is one in 37 million.
 *
 * A key may be in one of two sets of 8 slots, both in one shard, and goes to the one with more free
 * slots: with twice as many slots as keys, no set gets full. If more keys are in debt than that, the slot
 * that will be full first is taken over, together with its debt (as in the Space-Saving algorithm): the
 * newcomer begins with what the other had left.
 *
 * Invariants
 * 1. The smallest full_at of a set never falls.
 * 2. A key that is displaced had the smallest full_at of its set. So when it comes again, no set it could
 *    have been in has a smaller one, and the larger of the two is at least the debt it had. Newcomers
 *    begin with that: no key ever gets more than rate x time + burst, however many others there are.
 * 3. All keys together get no more than slots x (rate x time + burst).
 */
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "rules/match.h"

#define KEYS           65536u
#define SLOTS_PER_KEY  2u
#define WAYS           8u
#define SHARDS_MAX     64u
#define KEYS_PER_SHARD 512u /* fewer would be filled unevenly */

#define RATE_MIN 1e-6
#define RATE_MAX 1e9

/* Times are in sixteenths of a nanosecond: 36 years fit, and a token of a fast quota is hardly rounded. */
#define UNITS_PER_NS 16u

typedef struct slot {
	uint64_t hash;
	uint64_t full_at; /* 0: never used */
} slot;

typedef struct shard {
	pthread_mutex_t lock;
	/* under lock */
	uint64_t crowded;
	slot *slots; /* sets x WAYS */
} __attribute__((aligned(64))) shard;

struct weir_quota {
	_Atomic uint32_t owners;
	/* const after init */
	double rate_per_s, burst;
	uint32_t keys;
	weir_siphash_key key;
	uint64_t token_units, burst_units;
	uint32_t sets; /* per shard */
	uint32_t shard_count;
	slot *slots;
	shard *shards;
};

/* ---- initialisation ---- */

static int check(const weir_quota_options *options, double burst)
{
	const char *name = options->name != NULL ? options->name : "";
	if (!(options->rate_per_s >= RATE_MIN && options->rate_per_s <= RATE_MAX))
		return weir_error_set(-EINVAL, "quota '%s': the rate must be within %g and %g a second", name,
				      RATE_MIN, RATE_MAX);
	if (!(burst >= 1 && burst <= 1e9))
		return weir_error_set(-EINVAL, "quota '%s': the burst must be within 1 and 1e9", name);
	if (burst / options->rate_per_s > 365 * 86400.0)
		return weir_error_set(-EINVAL,
				      "quota '%s': its burst would take more than a year to come back", name);
	if (options->keys > WEIR_QUOTA_KEYS_MAX)
		return weir_error_set(-EINVAL, "quota '%s': at most %u keys can be kept", name,
				      WEIR_QUOTA_KEYS_MAX);
	return 0;
}

static int allocate(weir_quota *quota, uint32_t keys)
{
	uint32_t shards = 1;
	while (shards < SHARDS_MAX && keys / (shards * 2) >= KEYS_PER_SHARD)
		shards *= 2;
	uint32_t per_shard = SLOTS_PER_KEY * ((keys + shards - 1) / shards);
	quota->sets = (per_shard + WAYS - 1) / WAYS;
	quota->shards = weir_mem_aligned(64, shards * sizeof(shard));
	quota->slots = weir_mem_aligned(64, (size_t)shards * quota->sets * WAYS * sizeof(slot));
	if (quota->shards == NULL || quota->slots == NULL)
		return weir_error_set(-ENOMEM, "quota: out of memory");
	for (; quota->shard_count < shards; quota->shard_count++) {
		shard *s = &quota->shards[quota->shard_count];
		s->slots = quota->slots + (size_t)quota->shard_count * quota->sets * WAYS;
		pthread_mutex_init(&s->lock, NULL);
	}
	return 0;
}

static double burst_of(const weir_quota_options *options)
{
	return options->burst != 0 ? options->burst : fmax(options->rate_per_s, 1);
}

bool weir_quota_is(const weir_quota *quota, const weir_quota_options *options)
{
	return quota->rate_per_s == options->rate_per_s && quota->burst == burst_of(options) &&
	       quota->keys == (options->keys != 0 ? options->keys : KEYS);
}

weir_quota *weir_quota_ref(weir_quota *quota)
{
	atomic_fetch_add_explicit(&quota->owners, 1, memory_order_relaxed);
	return quota;
}

int weir_quota_new(const weir_quota_options *options, weir_quota **ret_quota)
{
	double burst = burst_of(options);
	int error = check(options, burst);
	if (error != 0)
		return error;
	weir_quota *quota = weir_mem_zalloc(sizeof(*quota));
	if (quota == NULL)
		return weir_error_set(-ENOMEM, "quota: out of memory");
	atomic_init(&quota->owners, 1);
	quota->rate_per_s = options->rate_per_s;
	quota->burst = burst;
	quota->keys = options->keys != 0 ? options->keys : KEYS;
	quota->token_units = (uint64_t)ceil(1e9 / options->rate_per_s * UNITS_PER_NS);
	quota->burst_units = (uint64_t)(burst * (double)quota->token_units);
	error = weir_siphash_key_init(&quota->key);
	if (error != 0)
		weir_error_set(error, "quota: no random numbers: %s", strerror(-error));
	else
		error = allocate(quota, quota->keys);
	if (error != 0) {
		weir_quota_free(quota);
		return error;
	}
	*ret_quota = quota;
	return 0;
}

void weir_quota_free(weir_quota *quota)
{
	if (quota == NULL || atomic_fetch_sub_explicit(&quota->owners, 1, memory_order_acq_rel) != 1)
		return;
	for (uint32_t i = 0; i < quota->shard_count; i++)
		pthread_mutex_destroy(&quota->shards[i].lock);
	weir_mem_free(quota->shards);
	weir_mem_free(quota->slots);
	weir_mem_free(quota);
}

/* ---- requests ---- */

/* The result of scanning a set. */
typedef struct quota_view {
	slot *same, *first; /* the key's own; the one that will be full first */
	unsigned free;
} quota_view;

static quota_view look(slot *set, uint64_t hash, uint64_t now)
{
	quota_view v = {.first = set};
	for (unsigned i = 0; i < WAYS; i++) {
		if (set[i].hash == hash)
			v.same = &set[i];
		if (set[i].full_at < v.first->full_at)
			v.first = &set[i];
		v.free += set[i].full_at <= now;
	}
	return v;
}

/* Chooses one of `count` by 32 random bits. */
static uint32_t choose(uint32_t bits, uint32_t count)
{
	return (uint32_t)((uint64_t)bits * count >> 32);
}

/* The slot of the key, or one that it may take, and when it will be full. */
static slot *find_locked(const weir_quota *quota, shard *s, uint64_t hash, uint64_t now,
			 uint64_t *ret_full_at)
{
	/* Other bits than those that select the shard. */
	uint32_t one = choose((uint32_t)(hash << 6 >> 32), quota->sets),
		 two = choose((uint32_t)hash, quota->sets);
	quota_view a = look(s->slots + (size_t)one * WAYS, hash, now), b = a;
	if (a.same == NULL)
		b = look(s->slots + (size_t)two * WAYS, hash, now);
	if (b.same != NULL) {
		*ret_full_at = b.same->full_at;
		return b.same;
	}
	uint64_t first = a.first->full_at, other = b.first->full_at;
	*ret_full_at = first > other ? first : other;
	s->crowded += *ret_full_at > now;
	if (a.free != b.free)
		return a.free > b.free ? a.first : b.first;
	return first <= other ? a.first : b.first;
}

static bool take_locked(const weir_quota *quota, shard *s, uint64_t hash, uint64_t now, uint64_t *ret_wait)
{
	uint64_t full_at;
	slot *found = find_locked(quota, s, hash, now, &full_at);
	uint64_t from = full_at > now ? full_at : now, debt = from + quota->token_units - now;
	if (debt > quota->burst_units) {
		*ret_wait = debt - quota->burst_units;
		return false;
	}
	found->hash = hash;
	found->full_at = from + quota->token_units;
	return true;
}

bool weir_quota_take(weir_quota *quota, const void *key, size_t key_length, uint64_t now_ns,
		     uint64_t *ret_retry_after_ns)
{
	uint64_t hash = weir_siphash(&quota->key, key, key_length), now = now_ns * UNITS_PER_NS, wait = 0;
	shard *s = &quota->shards[choose((uint32_t)(hash >> 32), quota->shard_count)];
	pthread_mutex_lock(&s->lock);
	bool may = take_locked(quota, s, hash, now, &wait);
	pthread_mutex_unlock(&s->lock);
	if (!may && ret_retry_after_ns != NULL)
		*ret_retry_after_ns = (wait + UNITS_PER_NS - 1) / UNITS_PER_NS;
	return may;
}

uint64_t weir_quota_crowded(weir_quota *quota)
{
	uint64_t crowded = 0;
	for (uint32_t i = 0; i < quota->shard_count; i++) {
		pthread_mutex_lock(&quota->shards[i].lock);
		crowded += quota->shards[i].crowded;
		pthread_mutex_unlock(&quota->shards[i].lock);
	}
	return crowded;
}

/* ---- keys ---- */

size_t weir_quota_client_key(const struct sockaddr *client, uint8_t ret_key[static 8])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	if (client != NULL && client->sa_family == AF_INET) {
		memcpy(ret_key, &((const struct sockaddr_in *)(const void *)client)->sin_addr, 4);
		return 4;
	}
	if (client == NULL || client->sa_family != AF_INET6)
		return 0;
	const uint8_t *bytes = ((const struct sockaddr_in6 *)(const void *)client)->sin6_addr.s6_addr;
	bool v4 = memcmp(bytes, mapped, sizeof(mapped)) == 0;
	memcpy(ret_key, v4 ? bytes + 12 : bytes, v4 ? 4 : 8);
	return v4 ? 4 : 8;
}
