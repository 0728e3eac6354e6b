/* SPDX-License-Identifier: Apache-2.0 */
#include "web/cache.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/mix.h"

#define BYTES_DEFAULT      (UINT64_C(200) << 20)
#define FILE_BYTES_DEFAULT (UINT64_C(1) << 20)
#define FILE_BYTES_MOST    (UINT64_C(1) << 30)
#define REVALIDATE_MOST    (WEIR_NS_PER_S * 1000000000) /* must not overflow when added to a time */
#define FDS_MOST           512u
#define BUCKETS_FIRST      64u
#define USED_MOST          3

/* ---- hashing ---- */

static inline uint64_t fold(uint64_t a, uint64_t b)
{
	__uint128_t product = (__uint128_t)a * b;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t load64(const char *at)
{
	uint64_t x;
	memcpy(&x, at, 8);
	return x;
}

static inline uint32_t load32(const char *at)
{
	uint32_t x;
	memcpy(&x, at, 4);
	return x;
}

/* 16 bytes per multiplication. The last bytes may be used twice: harmless, as the length is hashed, too. */
uint64_t weir_cache_hash(const weir_cache *cache, uint32_t site, weir_span path)
{
	const char *at = path.at;
	size_t left = path.length;
	uint64_t hash = cache->keys[0] ^ site, low = 0, high = 0;
	for (; left > 16; at += 16, left -= 16)
		hash = fold(load64(at) ^ cache->keys[1], load64(at + 8) ^ hash);
	if (left >= 8) {
		low = load64(at);
		high = load64(at + left - 8);
	} else if (left >= 4) {
		low = load32(at);
		high = load32(at + left - 4);
	} else if (left > 0) {
		low = (uint64_t)(uint8_t)at[0] << 16 | (uint64_t)(uint8_t)at[left / 2] << 8 |
		      (uint8_t)at[left - 1];
	}
	hash = fold(low ^ cache->keys[1], high ^ hash);
	return fold(hash ^ path.length, WEIR_MIX_STEP);
}

/* ---- making and freeing ---- */

static uint32_t descriptors(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 8 > FDS_MOST)
		return FDS_MOST;
	return (uint32_t)(limit.rlim_cur / 8);
}

static void set_options(weir_cache *cache, const weir_cache_options *options)
{
	static const weir_cache_options none;
	const weir_cache_options *given = options != NULL ? options : &none;
	cache->bytes_most = given->bytes != 0 ? given->bytes : BYTES_DEFAULT;
	cache->file_bytes = given->file_bytes != 0 ? given->file_bytes : FILE_BYTES_DEFAULT;
	cache->revalidate_ns = given->revalidate_ns != 0 ? given->revalidate_ns : WEIR_NS_PER_S;
	/* A file that leaves no room for others is not worth reading. */
	if (cache->file_bytes > cache->bytes_most / 2)
		cache->file_bytes = cache->bytes_most / 2;
	if (cache->file_bytes > FILE_BYTES_MOST)
		cache->file_bytes = FILE_BYTES_MOST;
	if (cache->revalidate_ns > REVALIDATE_MOST)
		cache->revalidate_ns = REVALIDATE_MOST;
	cache->fds_most = descriptors();
}

static int init_shard(weir_shard *shard)
{
	pthread_mutex_init(&shard->lock, NULL);
	shard->mask = BUCKETS_FIRST - 1;
	shard->buckets = weir_mem_array(BUCKETS_FIRST, sizeof(weir_page *));
	shard->absent = weir_mem_array(WEIR_ABSENT_SETS * WEIR_ABSENT_WAYS, sizeof(weir_absent));
	return shard->buckets != NULL && shard->absent != NULL ? 0 : -ENOMEM;
}

static int init_keys(weir_cache *cache)
{
	weir_siphash_key key;
	int error = weir_siphash_key_init(&key);
	if (error == 0)
		error = weir_siphash_key_init(&cache->absent_keys[0]);
	if (error == 0)
		error = weir_siphash_key_init(&cache->absent_keys[1]);
	if (error != 0)
		return weir_error_set(error, "cache: no random numbers");
	cache->keys[0] = key.k0;
	cache->keys[1] = key.k1;
	return 0;
}

int weir_cache_new(weir_domain *domain, weir_files *files, const weir_cache_options *options,
		   weir_cache **ret_cache)
{
	int error = 0;
	weir_cache *cache = weir_mem_aligned(_Alignof(weir_cache), sizeof(*cache));
	if (cache == NULL)
		return weir_error_set(-ENOMEM, "cache: out of memory");
	cache->world = weir_domain_world(domain);
	cache->domain = domain;
	cache->files = files;
	set_options(cache, options);
	for (unsigned i = 0; i < WEIR_CACHE_SHARDS; i++)
		if (init_shard(&cache->shards[i]) != 0)
			error = weir_error_set(-ENOMEM, "cache: out of memory");
	if (error == 0)
		error = init_keys(cache);
	if (error == 0)
		error = weir_load_stage_new(cache);
	if (error == 0)
		error = weir_work_new(cache);
	if (error != 0)
		weir_cache_free(&cache);
	else
		*ret_cache = cache;
	return error;
}

static void free_shard(weir_shard *shard)
{
	for (uint32_t i = 0; shard->buckets != NULL && i <= shard->mask; i++) {
		weir_page *next;
		for (weir_page *page = shard->buckets[i]; page != NULL; page = next) {
			next = page->next;
			weir_page_unref(page);
		}
	}
	weir_mem_free(shard->buckets);
	weir_mem_free(shard->absent);
	pthread_mutex_destroy(&shard->lock);
}

void weir_cache_free(weir_cache **where)
{
	weir_cache *cache = *where;
	if (cache == NULL)
		return;
	*where = NULL;
	weir_load_free_all(cache);
	for (unsigned i = 0; i < WEIR_CACHE_SHARDS; i++)
		free_shard(&cache->shards[i]);
	weir_mem_free(cache);
}

/* ---- finding ---- */

static inline weir_page *look_up(const weir_shard *shard, uint32_t site, uint64_t hash, weir_span path,
				 bool sent)
{
	weir_page *page = shard->buckets[hash & shard->mask];
	for (; page != NULL; page = page->next)
		if (page->hash == hash && page->path_length == path.length && page->site == site &&
		    (page->plain || !sent) && memcmp(page->path, path.at, path.length) == 0)
			return page;
	return NULL;
}

weir_page *weir_cache_find_locked(weir_shard *shard, uint32_t site, uint64_t hash, weir_span path, bool sent)
{
	return look_up(shard, site, hash, path, sent);
}

/* Writes to the page's cache line only until the count is at its maximum. */
static inline void touch(weir_page *page)
{
	uint8_t used = atomic_load_explicit(&page->used, memory_order_relaxed);
	if (used < USED_MOST)
		atomic_store_explicit(&page->used, used + 1, memory_order_relaxed);
}

weir_page *weir_cache_find(weir_cache *cache, uint32_t site, uint64_t hash, weir_span path, bool sent)
{
	weir_shard *shard = weir_cache_shard(cache, hash);
	pthread_mutex_lock(&shard->lock);
	weir_page *page = look_up(shard, site, hash, path, sent);
	if (page != NULL) {
		weir_page_ref(page);
		shard->hits++;
	}
	pthread_mutex_unlock(&shard->lock);
	if (page != NULL)
		touch(page);
	return page;
}

void weir_cache_checked(weir_page *page, uint64_t now_ns)
{
	atomic_store_explicit(&page->checked_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&page->checking, false, memory_order_release);
}

/* ---- links, under the shard's lock ---- */

static uint32_t fds_of(const weir_page *page)
{
	uint32_t count = 0;
	for (unsigned i = 0; i < WEIR_ENCODING_COUNT; i++)
		count += page->forms[i] != NULL && page->forms[i]->fd >= 0;
	return count;
}

/* Just behind the hand, which will reach it last. */
static void enter_clock(weir_shard *shard, weir_page *page)
{
	weir_page *hand = shard->hand;
	if (hand == NULL) {
		page->newer = page->older = page;
		shard->hand = page;
		return;
	}
	page->newer = hand;
	page->older = hand->older;
	hand->older->newer = page;
	hand->older = page;
}

static void leave_clock(weir_shard *shard, weir_page *page)
{
	if (page->newer == page) {
		shard->hand = NULL;
		return;
	}
	if (shard->hand == page)
		shard->hand = page->newer;
	page->newer->older = page->older;
	page->older->newer = page->newer;
}

/* Doubles the buckets if there are more pages than buckets; out of memory, the chains grow. */
static void grow(weir_shard *shard)
{
	uint32_t mask = shard->mask * 2 + 1;
	weir_page **buckets = weir_mem_array((size_t)mask + 1, sizeof(*buckets)), *next;
	if (buckets == NULL)
		return;
	for (uint32_t i = 0; i <= shard->mask; i++)
		for (weir_page *page = shard->buckets[i]; page != NULL; page = next) {
			next = page->next;
			page->next = buckets[page->hash & mask];
			buckets[page->hash & mask] = page;
		}
	weir_mem_free(shard->buckets);
	shard->buckets = buckets;
	shard->mask = mask;
}

static void link_page(weir_cache *cache, weir_shard *shard, weir_page *page)
{
	if (shard->count > shard->mask)
		grow(shard);
	weir_page **bucket = &shard->buckets[page->hash & shard->mask];
	page->next = *bucket;
	*bucket = page;
	enter_clock(shard, page);
	shard->count++;
	atomic_store_explicit(&page->kept, true, memory_order_relaxed);
	atomic_fetch_add_explicit(&cache->entries, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&cache->bytes, page->bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&cache->fds, fds_of(page), memory_order_relaxed);
}

static void unlink_page(weir_cache *cache, weir_shard *shard, weir_page *page)
{
	weir_page **link = &shard->buckets[page->hash & shard->mask];
	while (*link != page)
		link = &(*link)->next;
	*link = page->next;
	leave_clock(shard, page);
	shard->count--;
	atomic_store_explicit(&page->kept, false, memory_order_relaxed);
	atomic_fetch_sub_explicit(&cache->entries, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&cache->bytes, page->bytes, memory_order_relaxed);
	atomic_fetch_sub_explicit(&cache->fds, fds_of(page), memory_order_relaxed);
}

/* ---- the clock ---- */

static bool too_many_bytes(const weir_cache *cache)
{
	return atomic_load_explicit(&cache->bytes, memory_order_relaxed) > cache->bytes_most;
}

static bool too_many_fds(const weir_cache *cache)
{
	return atomic_load_explicit(&cache->fds, memory_order_relaxed) > cache->fds_most;
}

/* Of the next `most` pages, the first one not used since the hand last passed; counts the others down. */
static weir_page *pick(weir_shard *shard, uint64_t most, bool with_fd)
{
	for (uint64_t i = 0; i < most && i < shard->count; i++) {
		weir_page *page = shard->hand;
		shard->hand = page->newer;
		if (with_fd && fds_of(page) == 0)
			continue;
		uint8_t used = atomic_load_explicit(&page->used, memory_order_relaxed);
		if (used == 0)
			return page;
		atomic_store_explicit(&page->used, used - 1, memory_order_relaxed);
	}
	return NULL;
}

/*
 * One shard's turn. It looks at as many pages as the shard's share of all, on average. Otherwise pages in
 * small shards would be passed more often than others.
 */
static weir_page *evict_one(weir_cache *cache, uint32_t turn)
{
	weir_shard *shard = &cache->shards[turn % WEIR_CACHE_SHARDS];
	uint64_t all = atomic_load_explicit(&cache->entries, memory_order_relaxed) + 1;
	pthread_mutex_lock(&shard->lock);
	bool bytes = too_many_bytes(cache);
	uint64_t most = ((uint64_t)shard->count * WEIR_CACHE_SHARDS + weir_mix(turn) % all) / all;
	weir_page *page = bytes || too_many_fds(cache) ? pick(shard, most, !bytes) : NULL;
	if (page != NULL) {
		unlink_page(cache, shard, page);
		shard->evicted++;
	}
	pthread_mutex_unlock(&shard->lock);
	return page;
}

/* Gives up after enough turns to bring the highest use count down to 0. */
static void evict(weir_cache *cache)
{
	uint64_t in_vain = 0, most = atomic_load_explicit(&cache->entries, memory_order_relaxed);
	most = (most + WEIR_CACHE_SHARDS) * (USED_MOST + 2);
	while ((too_many_bytes(cache) || too_many_fds(cache)) && in_vain < most) {
		uint32_t turn = atomic_fetch_add_explicit(&cache->sweep, 1, memory_order_relaxed);
		weir_page *page = evict_one(cache, turn);
		in_vain = page != NULL ? 0 : in_vain + 1;
		weir_page_unref(page);
	}
}

void weir_cache_keep(weir_cache *cache, weir_page *page)
{
	weir_shard *shard = weir_cache_shard(cache, page->hash);
	weir_span path = {page->path, page->path_length};
	pthread_mutex_lock(&shard->lock);
	weir_page *old = weir_cache_find_locked(shard, page->site, page->hash, path, false);
	if (old != NULL) {
		/* A new version is used as much as the old one was. */
		atomic_store_explicit(&page->used, atomic_load_explicit(&old->used, memory_order_relaxed),
				      memory_order_relaxed);
		unlink_page(cache, shard, old);
	}
	link_page(cache, shard, weir_page_ref(page));
	pthread_mutex_unlock(&shard->lock);
	weir_page_unref(old);
	evict(cache);
}

void weir_cache_forget(weir_cache *cache, weir_page *page)
{
	weir_shard *shard = weir_cache_shard(cache, page->hash);
	pthread_mutex_lock(&shard->lock);
	bool kept = atomic_load_explicit(&page->kept, memory_order_relaxed);
	if (kept)
		unlink_page(cache, shard, page);
	pthread_mutex_unlock(&shard->lock);
	if (kept)
		weir_page_unref(page);
}

void weir_cache_read_stats(const weir_cache *cache, weir_cache_stats *ret_stats)
{
	weir_cache_stats stats = {.bytes = atomic_load_explicit(&cache->bytes, memory_order_relaxed)};
	for (unsigned i = 0; i < WEIR_CACHE_SHARDS; i++) {
		weir_shard *shard = (weir_shard *)(uintptr_t)&cache->shards[i];
		pthread_mutex_lock(&shard->lock);
		stats.hits += shard->hits;
		stats.misses += shard->misses;
		stats.revalidated += shard->revalidated;
		stats.evicted += shard->evicted;
		stats.entries += shard->count;
		pthread_mutex_unlock(&shard->lock);
	}
	*ret_stats = stats;
}
