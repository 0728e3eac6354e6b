/* SPDX-License-Identifier: Apache-2.0 */
/* The stage "cache-miss": who waits for which load, how it begins and ends. Its steps: load_file.c. */
#include "web/load.h"

#include <string.h>

#include "base/mem.h"

#define CHECKS_MOST 256u
#define CAPACITY    4096u
#define CONCURRENCY 2048u /* requests that wait for loads */
#define END_MOST    8u    /* bytes of an encoding's file ending */

/* ---- the end of a load ---- */

static weir_want *leave_list(weir_load *load)
{
	weir_shard *shard = weir_cache_shard(load->cache, load->hash);
	pthread_mutex_lock(&shard->lock);
	weir_load **link = &shard->loads;
	while (*link != load)
		link = &(*link)->next;
	*link = load->next;
	shard->revalidated += load->old != NULL;
	pthread_mutex_unlock(&shard->lock);
	return load->wants;
}

static void free_load(weir_load *load)
{
	weir_load_drop_bytes(load);
	weir_buf_unref(load->listing.html);
	if (load->old != NULL)
		atomic_fetch_sub_explicit(&load->cache->checks, 1, memory_order_relaxed);
	weir_page_unref(load->page);
	weir_page_unref(load->old);
	atomic_fetch_sub_explicit(load->loader->loads, 1, memory_order_release);
	weir_mem_free(load);
}

/* Before the load leaves its list, so that a request at this moment finds the result. */
static unsigned publish(weir_load *load, unsigned status)
{
	weir_cache *cache = load->cache;
	uint64_t now_ns = weir_world_now(cache->world);
	if (status == 0 && !load->comparing && weir_page_finish(load->page) != 0)
		status = 503;
	if (status == 0 && load->comparing) {
		load->page = weir_page_ref(load->old);
		weir_cache_checked(load->old, now_ns);
	} else if (status == 0) {
		atomic_store_explicit(&load->page->checked_ns, now_ns, memory_order_relaxed);
		weir_cache_keep(cache, load->page);
	} else if (status == 404 || status == 403) {
		weir_absent_add(cache, load->loader->number, load->hash, load->path, status, now_ns);
		if (load->old != NULL)
			weir_cache_forget(cache, load->old);
	} else if (load->old != NULL) {
		/* The disk fails, or we lack resources: the old copy is better than nothing. */
		weir_cache_checked(load->old, now_ns);
	}
	return status;
}

void weir_load_finish(weir_load *load, unsigned status)
{
	weir_want *next;
	status = publish(load, status);
	for (weir_want *want = leave_list(load); want != NULL; want = next) {
		next = want->next;
		load->loader->answer(want->request, status == 0 ? load->page : NULL, status);
	}
	free_load(load);
}

/* ---- beginnings ---- */

static size_t longest_index(const weir_loader *loader)
{
	size_t most = 0;
	for (size_t i = 0; loader->index[i] != NULL; i++)
		if (strlen(loader->index[i]) > most)
			most = strlen(loader->index[i]);
	return most;
}

static weir_load *new_load(weir_cache *cache, const weir_loader *loader, uint64_t hash, weir_span path)
{
	size_t name_bytes = path.length + longest_index(loader) + END_MOST;
	weir_load *load = weir_mem_zalloc(sizeof(*load) + path.length + 1 + name_bytes);
	if (load == NULL)
		return NULL;
	load->cache = cache;
	load->loader = loader;
	atomic_fetch_add_explicit(loader->loads, 1, memory_order_relaxed);
	load->hash = hash;
	memcpy(load->text, path.at, path.length);
	load->path = (weir_span){load->text, path.length};
	load->name = load->text + path.length + 1;
	load->folder = path.at[path.length - 1] == '/';
	load->home = weir_thread_home();
	load->wants_end = &load->wants;
	return load;
}

static weir_load *find_load_locked(const weir_shard *shard, const weir_loader *loader, uint64_t hash,
				   weir_span path)
{
	for (weir_load *load = shard->loads; load != NULL; load = load->next)
		if (load->hash == hash && load->loader == loader && load->path.length == path.length &&
		    memcmp(load->path.at, path.at, path.length) == 0)
			return load;
	return NULL;
}

static void link_load_locked(weir_shard *shard, weir_load *load)
{
	load->next = shard->loads;
	shard->loads = load;
}

static void add_want_locked(weir_load *load, weir_want *want)
{
	want->next = NULL;
	*load->wants_end = want;
	load->wants_end = &want->next;
}

/*
 * The page may be there by now, or being loaded; if not, a load begins. Once it waits, the thread that ends
 * the load may answer it.
 */
static void take(weir_cache *cache, weir_want *want)
{
	const weir_loader *loader = want->loader;
	weir_shard *shard = weir_cache_shard(cache, want->hash);
	weir_load *begun = NULL, *load = NULL;
	pthread_mutex_lock(&shard->lock);
	weir_page *page = weir_cache_find_locked(shard, loader->number, want->hash, want->path, false);
	if (page != NULL) {
		weir_page_ref(page);
	} else {
		shard->misses++;
		load = find_load_locked(shard, loader, want->hash, want->path);
		if (load == NULL && (load = begun = new_load(cache, loader, want->hash, want->path)) != NULL)
			link_load_locked(shard, begun);
		if (load != NULL)
			add_want_locked(load, want);
	}
	pthread_mutex_unlock(&shard->lock);
	if (load == NULL)
		loader->answer(want->request, page, page != NULL ? 0 : 503);
	weir_page_unref(page);
	if (begun != NULL)
		weir_load_start(begun);
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		weir_hold(events[i]);
		take(arg, weir_request_user(weir_request_of(events[i])));
	}
}

int weir_load_stage_new(weir_cache *cache)
{
	weir_stage_options options = {.name = "cache-miss",
				      .handle = handle,
				      .drop = weir_request_drop,
				      .arg = cache,
				      .capacity = CAPACITY,
				      .concurrency = CONCURRENCY};
	return weir_stage_new(cache->domain, &options, &cache->stage);
}

void weir_load_check(weir_cache *cache, const weir_loader *loader, weir_page *page)
{
	weir_shard *shard = weir_cache_shard(cache, page->hash);
	weir_span path = {page->path, page->path_length};
	weir_load *load = NULL;
	if (atomic_fetch_add_explicit(&cache->checks, 1, memory_order_relaxed) < CHECKS_MOST)
		load = new_load(cache, loader, page->hash, path);
	if (load != NULL) {
		load->old = weir_page_ref(page);
		load->comparing = page->kind != WEIR_PAGE_LISTING;
		pthread_mutex_lock(&shard->lock);
		bool alone = find_load_locked(shard, loader, page->hash, path) == NULL;
		if (alone)
			link_load_locked(shard, load);
		pthread_mutex_unlock(&shard->lock);
		if (alone) {
			weir_load_start(load);
			return;
		}
		free_load(load);
	} else {
		atomic_fetch_sub_explicit(&cache->checks, 1, memory_order_relaxed);
	}
	/* Not now; the next request tries again. */
	atomic_store_explicit(&page->checking, false, memory_order_release);
}

void weir_load_free_all(weir_cache *cache)
{
	for (unsigned i = 0; i < WEIR_CACHE_SHARDS; i++)
		while (cache->shards[i].loads != NULL) {
			weir_load *load = cache->shards[i].loads;
			cache->shards[i].loads = load->next;
			free_load(load);
		}
}
