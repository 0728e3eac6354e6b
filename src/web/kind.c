/* SPDX-License-Identifier: Apache-2.0 */
/* The kind "root": `route "a" { root = "/srv/www" }` serves a folder's files. All share one cache. */
#include <string.h>
#include <weir/service.h>

#include "base/mem.h"
#include "web/site.h"

#define H  3600e9
#define GB (1024.0 * 1024 * 1024)

typedef struct root_keys {
	const char *root;
	const char *const *index;
	bool listing;
} root_keys;

typedef struct files_keys {
	weir_block_head head;
	uint64_t cache_bytes, cache_file_bytes;
	uint64_t revalidate_ns;
	bool precompressed;
	const char *types;
} files_keys;

static const weir_key keys_of_route[] = {
	WEIR_KEY("root", FOLDER, root_keys, root, NULL, "The folder whose files are served"),
	WEIR_KEY("index", TEXTS, root_keys, index, "index.html", "The files to look for in a folder"),
	WEIR_KEY("listing", SWITCH, root_keys, listing, "off", "Lists folders that have no index"),
	{0}};

static const weir_key files_rows[] = {
	WEIR_KEY("cache", SIZE, files_keys, cache_bytes, "200MB", "The memory of the cache",
		 .max = 1024 * GB),
	WEIR_KEY("cache-file", SIZE, files_keys, cache_file_bytes, "1MB", "The largest file that is cached",
		 .max = GB),
	WEIR_KEY("revalidate", TIME, files_keys, revalidate_ns, "1s",
		 "A cached file is checked for changes after this time", .max = 24 * H),
	WEIR_KEY("precompressed", SWITCH, files_keys, precompressed, "on",
		 "Sends FILE.br, .zst or .gz to clients that accept it"),
	WEIR_KEY("types", PATH, files_keys, types, NULL,
		 "A file like /etc/mime.types, in addition to the built-in types"),
	{0}};

static const weir_block blocks[] = {{"files", NULL, "The files of routes with a root.", files_rows,
				     sizeof(files_keys), .single = true, .live = false},
				    {0}};

/* ---- checking ---- */

static const files_keys *files_of(const weir_config *config)
{
	return weir_config_find(config, "files", NULL);
}

static void check(weir_config *config)
{
	const files_keys *files = files_of(config);
	weir_config_check_file(config, &files->head, "types", files->types, false);
}

static void check_route(weir_config *config, const weir_route_view *route)
{
	const root_keys *values = route->values;
	weir_config_check_file(config, route->head, "root", values->root, true);
	for (unsigned i = 0; values->index != NULL && values->index[i] != NULL; i++)
		if (strchr(values->index[i], '/') != NULL || values->index[i][0] == '\0')
			weir_config_wrong(config, route->head, "index",
					  "index: write names of files, without folders");
}

static void print_route(const weir_route_view *route, FILE *file)
{
	const root_keys *values = route->values;
	fprintf(file, "files in %s", values->root);
}

static void apply_flag(weir_config *config, const char *const *values, unsigned count)
{
	weir_block_head *route = weir_config_add(config, "route", "root");
	if (route != NULL)
		weir_config_set(config, route, "root", values[count - 1]);
}

static const weir_kind_flag flag = {
	.name = "--root",
	.value = "DIR",
	.help = "A folder of files that answers all requests, instead of routes",
	.apply = apply_flag,
};

/* ---- things; they share the cache ---- */

static int make_cache(const weir_making *making)
{
	const files_keys *files = files_of(making->config);
	weir_cache_options options = {.bytes = files->cache_bytes,
				      .file_bytes = files->cache_file_bytes,
				      .revalidate_ns = files->revalidate_ns};
	weir_cache *cache = NULL;
	if (*making->shared != NULL)
		return 0;
	int failed = weir_cache_new(making->domain, making->files, &options, &cache);
	*making->shared = cache;
	return failed;
}

static int make(const weir_making *making, void **ret_thing, weir_stage **ret_stage)
{
	const root_keys *values = making->route.values;
	const files_keys *files = files_of(making->config);
	weir_site_options options = {.name = making->name,
				     .root = values->root,
				     .index = values->index,
				     .listing = values->listing,
				     .precompressed = files->precompressed,
				     .types = files->types,
				     .capacity = making->route.queue,
				     .law = making->law,
				     .law_params = making->law_params};
	weir_site *site;
	int failed = make_cache(making);
	if (failed == 0)
		failed = weir_site_new(making->domain, *making->shared, &options, &site);
	if (failed != 0)
		return failed;
	*ret_thing = site;
	*ret_stage = weir_site_stage(site);
	return 0;
}

static bool is_over(void *thing)
{
	return weir_site_is_idle(thing);
}

static void free_site(void *thing)
{
	weir_site *site = thing;
	weir_site_free(&site);
}

static void close_cache(void *shared)
{
	weir_cache *cache = shared;
	weir_cache_free(&cache);
}

/* ---- what is shown ---- */

static void read_shared(const void *shared, void *ret_values)
{
	weir_cache_read_stats(shared, ret_values);
}

#define ROW(field, is, tells)                                                      \
	{                                                                          \
#field, WEIR_METRIC_##is, offsetof(weir_cache_stats, field), tells \
	}

static const weir_metric cache_metrics[] = {
	ROW(hits, COUNTER, "Requests answered from memory."),
	ROW(misses, COUNTER, "Requests for which a file was looked for."),
	ROW(revalidated, COUNTER, "Kept files that were looked at again."),
	ROW(evicted, COUNTER, "Kept files that made room for others."),
	ROW(entries, GAUGE, "Files kept now."),
	ROW(bytes, GAUGE, "Memory that they take."),
	{0}};

const weir_kind weir_kind_root = {
	.name = "root",
	.keys = keys_of_route,
	.bytes = sizeof(root_keys),
	.blocks = blocks,
	.flag = &flag,
	.check = check,
	.check_route = check_route,
	.print_route = print_route,
	.make = make,
	.over = is_over,
	.free = free_site,
	.close = close_cache,
	.shared_prefix = "weir_cache_",
	.shared_metrics = cache_metrics,
	.shared_bytes = sizeof(weir_cache_stats),
	.read_shared = read_shared,
};
