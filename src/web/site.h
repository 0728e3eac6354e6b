/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_WEB_SITE_H
#define WEIR_WEB_SITE_H

/*
 * Files under a folder as a stage of the reactor domain: GET and HEAD of what is there, from a page cache that all sites share.
 *
 *	request ─▶ the site's stage ─▶ in the cache: answered at once
 *	                            └▶ not in it, or to be looked at again: stage "cache-miss", by asynchronous files ─▶ answered from there, perhaps kept
 *
 * What a name becomes. The path is decoded and cleaned (weir_path_clean) and looked for below the root and nowhere else: RESOLVE_BENEATH where the kernel has openat2, and a symbolic link out of the root is as if it were not there. Segments that begin
 * with a dot do not exist, but for /.well-known. A folder without the '/' at its end is redirected (301) to itself with one; with it, its first index file is it, or its listing where that is on, else 404. What is not a regular file: 404.
 *
 * An answer has Content-Type, Last-Modified, ETag, Accept-Ranges, and Vary where there are precompressed variants (NAME.br, .zst, .gz beside NAME, not older than it, chosen by Accept-Encoding). Conditional requests (RFC 9110 13) in their order; one range (206, 416) or
 * If-Range; several ranges are answered with the whole, which is allowed and cheaper.
 *
 * The cache. Bounded in bytes; files up to file_bytes are kept, whole; beyond that their descriptors are, a bounded number of them, and they go out by sendfile. Within revalidate_ns a kept file is answered without any look at the disk; after that the
 * next request for it has it opened and its stamp looked at in the background, while the kept copy is still served (to that one and to all meanwhile). A clock decides what goes when it is full, so that one scan does not empty it. Names that were not there are
 * remembered for revalidate_ns too. Hits go before misses, one load at a time is made for a name, and reads that wait are taken shortest first, as in SEDA's Haboob. One cache for all threads, in shards with a lock each, held for a look-up; pages are counted
 * references, so that what is being sent may be evicted.
 *
 * Threads: made before the world starts or later, by one thread; freed after it has stopped.
 */

#include <weir/file.h>
#include <weir/http.h>

typedef struct weir_cache weir_cache;
typedef struct weir_site weir_site;

typedef struct weir_cache_options {
	uint64_t bytes; /* 0: 200 MB */
	uint64_t
		file_bytes; /* the largest that is kept in memory, at most half of bytes, and 1 GB; 0: 1 MB */
	uint64_t revalidate_ns; /* 0: 1 s; 1: with every request */
} weir_cache_options;

typedef struct weir_cache_stats {
	uint64_t hits, misses, revalidated, evicted, entries, bytes;
} weir_cache_stats;

/* Makes the stages "cache-miss" in the domain and "site-work" in that of the files, which must be of the same world and be freed after the cache. One a world. */
int weir_cache_new(weir_domain *domain, weir_files *files, const weir_cache_options *options,
		   weir_cache **ret_cache);
void weir_cache_read_stats(const weir_cache *cache, weir_cache_stats *ret_stats);
void weir_cache_free(weir_cache **cache);

typedef struct weir_site_options {
	const char *name;         /* of the stage */
	const char *root;         /* a folder; opened now */
	const char *const *index; /* names, ends with NULL; at most 16. NULL: index.html */
	bool listing;
	bool precompressed;
	const char *types;             /* a file like mime.types, beside the built-in ones; NULL: none */
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
