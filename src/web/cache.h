/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_WEB_CACHE_H
#define WEIR_WEB_CACHE_H

/*
 * The inside of the page cache: pages by site and path, absent names, loads in progress. It has 64 shards
 * with a lock each, held for a look-up or a change of links, never while something is answered, freed or
 * asked of the kernel.
 *
 *	cache.c     find, keep, forget; the clock
 *	absent.c    names that did not exist a moment ago
 *	load.c      the stage "cache-miss": who waits for what; load_file.c: from a name to a page by
 *	            asynchronous files
 *	work.c      the stage "site-work": what blocks (listings, closing), on the files' own threads
 *
 * Invariants
 *	1. While `kept`, a page is in one bucket and in the clock of that shard. There is at most one page for
 *	   each site and path.
 *	2. A load is in its shard's list from its beginning until its page is kept. There is at most one for
 *	   each site and path. So a thread that finds neither page nor load under the lock begins the load,
 *	   and no other does.
 *	3. bytes and descriptors are sums over the pages kept, and within their bounds once an insertion has
 *	   returned.
 *
 * Bounds: pages in bytes and descriptors; absent names 8192; requests in "cache-miss" by its capacity and
 * concurrency, and with them loads; checks of kept pages CHECKS_MOST.
 *
 * Chains hold only names of real files, so clients cannot make them long; the hash is keyed nevertheless.
 * Anybody can choose names that do not exist: they are in sets of fixed size under 128 bits of SipHash.
 */

#include <pthread.h>
#include <weir/loop.h>

#include "base/siphash.h"
#include "web/page.h"
#include "web/site.h"

#define WEIR_CACHE_SHARDS 64
#define WEIR_ABSENT_SETS  32
#define WEIR_ABSENT_WAYS  4

typedef struct weir_load weir_load;

/* A name that does not exist, or is forbidden. */
typedef struct weir_absent {
	uint64_t tag[2];
	uint64_t until_ns;
	uint64_t status; /* 404, 403 */
} weir_absent;

typedef struct weir_shard {
	_Alignas(64) pthread_mutex_t lock;
	/* under lock */
	weir_page **buckets;
	uint32_t mask, count;
	weir_page *hand; /* of the clock; NULL: no page */
	weir_load *loads;
	weir_absent *absent; /* SETS x WAYS */
	uint64_t hits, misses, revalidated, evicted;
} weir_shard;

/* A reactor thread's part: reads in progress, and loads that wait to read, the shortest first. */
typedef struct weir_readers {
	_Alignas(64) uint32_t reading;
	weir_load *waiting;
} weir_readers;

struct weir_cache {
	/* const after init */
	weir_world *world;
	weir_domain *domain;
	weir_files *files;
	weir_stage *stage; /* "cache-miss" */
	weir_stage *work;  /* "site-work" */
	uint64_t bytes_most, file_bytes, revalidate_ns;
	uint32_t fds_most;
	uint64_t keys[2];
	weir_siphash_key absent_keys[2];

	/* one thread, the one that makes sites */
	uint32_t sites;

	/* any thread */
	_Atomic uint64_t bytes, entries;
	_Atomic uint32_t fds, checks, sweep;

	weir_shard shards[WEIR_CACHE_SHARDS];
	weir_readers readers[WEIR_THREADS_MAX]; /* by home */
};

/* ---- cache.c ---- */

uint64_t weir_cache_hash(const weir_cache *cache, uint32_t site, weir_span path);

static inline weir_shard *weir_cache_shard(weir_cache *cache, uint64_t hash)
{
	return &cache->shards[hash >> 58];
}

/* With a reference; NULL: not found. sent: path is as it was sent, so pages with a '%' do not match. */
weir_page *weir_cache_find(weir_cache *cache, uint32_t site, uint64_t hash, weir_span path, bool sent);
/* The same without a reference, under the shard's lock; not counted. */
weir_page *weir_cache_find_locked(weir_shard *shard, uint32_t site, uint64_t hash, weir_span path, bool sent);
/*
 * Keeps a page, replacing the one of the same name; takes a reference. Then evicts down to the bounds. The
 * lock must not be held.
 */
void weir_cache_keep(weir_cache *cache, weir_page *page);
/* Removes it if it is kept. */
void weir_cache_forget(weir_cache *cache, weir_page *page);
/* Whether it is due for a check; true for at most one caller until weir_cache_checked. */
static inline bool weir_cache_is_due(const weir_cache *cache, weir_page *page, uint64_t now_ns)
{
	uint64_t checked_ns = atomic_load_explicit(&page->checked_ns, memory_order_relaxed);
	if (now_ns < checked_ns + cache->revalidate_ns)
		return false;
	return !atomic_load_explicit(&page->checking, memory_order_relaxed) &&
	       !atomic_exchange_explicit(&page->checking, true, memory_order_acq_rel);
}
void weir_cache_checked(weir_page *page, uint64_t now_ns);

/* ---- absent.c: the status, or 0 ---- */

unsigned weir_absent_find(weir_cache *cache, uint32_t site, uint64_t hash, weir_span path, uint64_t now_ns);
void weir_absent_add(weir_cache *cache, uint32_t site, uint64_t hash, weir_span path, unsigned status,
		     uint64_t now_ns);

/* ---- work.c ---- */

int weir_work_new(weir_cache *cache);

/* ---- listing.c ---- */

/* A listing to be made, on a thread that may block. */
typedef struct weir_listing {
	weir_work work; /* first */
	int root;
	const char *folder; /* its normalised path */
	weir_buf *html;     /* NULL: error says why */
	int error;
	weir_loop *home;
	weir_post post;
	void (*done)(void *arg); /* at home */
	void *arg;
} weir_listing;

/* 0: done will be called later, at home; or a negative errno. On a reactor thread. */
int weir_listing_start(weir_cache *cache, weir_listing *listing);
/* Makes the page of a folder's names; blocks. 0 or a negative errno. */
int weir_listing_make(int root, const char *folder, weir_buf **ret_html);

/* ---- load.c ---- */

/* What the loader needs to know of a site, and how it answers. */
typedef struct weir_loader {
	uint32_t number;
	int root;
	const char *const *index; /* ends with NULL */
	bool listing, precompressed;
	const struct weir_types *types;
	/* The page stays the caller's reference; NULL: answers with status. */
	void (*answer)(weir_request *request, weir_page *page, unsigned status);
	_Atomic uint32_t *loads; /* under way: they look at the loader until their end */
} weir_loader;

int weir_load_stage_new(weir_cache *cache);
/* The user pointer of a request that is offered to the stage "cache-miss"; in the request's memory. */
typedef struct weir_want {
	const weir_loader *loader;
	weir_request *request;
	struct weir_want *next;
	uint64_t hash;
	weir_span path; /* normalised; in the request's memory */
} weir_want;
/* Checks on disk a page that is due; nobody waits for it. */
void weir_load_check(weir_cache *cache, const weir_loader *loader, weir_page *page);
/* Frees loads that were left when the world stopped. */
void weir_load_free_all(weir_cache *cache);

#endif
