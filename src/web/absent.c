/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that did not exist a moment ago, so that a flood of requests reaches the disk at most once per name
 * and revalidate_ns. They are in sets of fixed size under a secret hash of 128 bits: no name is stored, none
 * is mistaken for another, and nobody can choose names that evict each other.
 */
#include "web/cache.h"

static void tag_of(const weir_cache *cache, uint32_t site, weir_span path, uint64_t *ret_tag)
{
	for (unsigned i = 0; i < 2; i++) {
		weir_siphash_key key = cache->absent_keys[i];
		key.k0 ^= site;
		ret_tag[i] = weir_siphash(&key, path.at, path.length);
	}
}

static weir_absent *set_of(const weir_shard *shard, const uint64_t *tag)
{
	return &shard->absent[(tag[0] % WEIR_ABSENT_SETS) * WEIR_ABSENT_WAYS];
}

unsigned weir_absent_find(weir_cache *cache, uint32_t site, uint64_t hash, weir_span path, uint64_t now_ns)
{
	uint64_t tag[2];
	unsigned status = 0;
	weir_shard *shard = weir_cache_shard(cache, hash);
	tag_of(cache, site, path, tag);
	const weir_absent *set = set_of(shard, tag);
	pthread_mutex_lock(&shard->lock);
	for (unsigned i = 0; i < WEIR_ABSENT_WAYS; i++)
		if (set[i].tag[0] == tag[0] && set[i].tag[1] == tag[1] && now_ns < set[i].until_ns)
			status = (unsigned)set[i].status;
	shard->hits += status != 0;
	pthread_mutex_unlock(&shard->lock);
	return status;
}

/* Its own place, or that of the entry that expires first. */
static weir_absent *place(weir_absent *set, const uint64_t *tag)
{
	weir_absent *place = set;
	for (unsigned i = 0; i < WEIR_ABSENT_WAYS; i++) {
		if (set[i].tag[0] == tag[0] && set[i].tag[1] == tag[1])
			return &set[i];
		if (set[i].until_ns < place->until_ns)
			place = &set[i];
	}
	return place;
}

void weir_absent_add(weir_cache *cache, uint32_t site, uint64_t hash, weir_span path, unsigned status,
		     uint64_t now_ns)
{
	weir_absent absent = {.until_ns = now_ns + cache->revalidate_ns, .status = status};
	weir_shard *shard = weir_cache_shard(cache, hash);
	tag_of(cache, site, path, absent.tag);
	pthread_mutex_lock(&shard->lock);
	*place(set_of(shard, absent.tag), absent.tag) = absent;
	pthread_mutex_unlock(&shard->lock);
}
