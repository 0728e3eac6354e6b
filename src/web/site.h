/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_WEB_SITE_H
#define WEIR_WEB_SITE_H

/*
 * Files below a folder as a stage of the reactor domain: GET and HEAD, from a page cache that all sites
 * share.
 *
 *	request ─▶ the site's stage ─▶ in the cache: answered at once
 *	                            └▶ not in it: stage "cache-miss", by asynchronous files ─▶
 *	                               answered from there, perhaps kept
 *
 * Names. The path is decoded and normalised (weir_path_clean), and looked up below the root only:
 * RESOLVE_BENEATH if the kernel has openat2; a symbolic link out of the root is as if it did not exist.
 * Segments that begin with a dot do not exist, except for /.well-known. A folder without its '/' at the end
 * is redirected (301) to itself with one. With it, its first index file is served, or its listing if enabled,
 * else 404. Anything but a regular file is a 404.
 *
 * An answer has Content-Type, Last-Modified, ETag, Accept-Ranges, and Vary if there are precompressed
 * variants (NAME.br, .zst, .gz beside NAME, not older than it, chosen by Accept-Encoding). Conditional
 * requests (RFC 9110 13) are evaluated in their order, and one range (206, 416) or If-Range. Several ranges
 * are answered with the whole, which is allowed and cheaper.
 *
 * The cache is bounded in bytes. Files up to file_bytes are kept whole; for larger ones a bounded number of
 * descriptors is kept, and they are sent by sendfile. Within revalidate_ns, a kept file is served without
 * looking at the disk. After that, the next request has its stamp checked in the background, while the kept
 * copy is still served. A clock decides what is evicted, so that one scan does not empty the cache. Absent
 * names are remembered for revalidate_ns as well. Hits come before misses, there is one load at a time for a
 * name, and waiting reads are taken shortest first, as in SEDA's Haboob. All threads share the cache, in
 * shards with a lock each, held for a look-up. Pages have reference counts, so that a page being sent may be
 * evicted.
 *
 * Threads: made before or after the world starts, by one thread; freed after it has stopped.
 */

#include <weir/file.h>
#include <weir/http.h>

typedef struct weir_cache weir_cache;
typedef struct weir_site weir_site;

typedef struct weir_cache_options {
	uint64_t bytes; /* 0: 200 MB */
	/* the largest file kept in memory; at most half of bytes, and 1 GB; 0: 1 MB */
	uint64_t file_bytes;
	uint64_t revalidate_ns; /* 0: 1 s; 1: on every request */
} weir_cache_options;

typedef struct weir_cache_stats {
	uint64_t hits, misses, revalidated, evicted, entries, bytes;
} weir_cache_stats;

/*
 * Makes the stages "cache-miss" in the domain and "site-work" in that of the files, which must belong to the
 * same world and be freed after the cache. One per world.
 */
int weir_cache_new(weir_domain *domain, weir_files *files, const weir_cache_options *options,
		   weir_cache **ret_cache);
void weir_cache_read_stats(const weir_cache *cache, weir_cache_stats *ret_stats);
void weir_cache_free(weir_cache **cache);

typedef struct weir_site_options {
	const char *name;         /* of the stage */
	const char *root;         /* a folder; opened now */
	const char *const *index; /* names, ended by NULL; at most 16. NULL: index.html */
	bool listing;
	bool precompressed;
	/* a file like mime.types, in addition to the built-in ones; NULL: none */
	const char *types;
	uint32_t capacity;             /* of the stage; 0: 4096 */
	const weir_admission_law *law; /* NULL: only the bounds */
	const void *law_params;
} weir_site_options;

/* Whether nothing looks at it in the background. Once its stage is gone, it stays so. */
bool weir_site_is_idle(const weir_site *site);
/* -ENOENT, -ENOTDIR, -EACCES ... with weir_error. */
int weir_site_new(weir_domain *domain, weir_cache *cache, const weir_site_options *options,
		  weir_site **ret_site);
weir_stage *weir_site_stage(const weir_site *site);
void weir_site_free(weir_site **site);

#endif
