/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The site's stage: a name becomes a page of the cache, or a request for "cache-miss".
 *
 * The path is first looked up as it was sent. Paths in the cache are normalised, so a path that equals one of
 * them is too, except for '%': "/a%20b" as sent and a file whose name has these bytes are different things.
 * So pages with a '%' in their path are not found that way. A hit needs no normalisation.
 */
#include "web/site.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "http/request.h"
#include "web/answer.h"
#include "web/cache.h"
#include "web/types.h"

#define INDEX_MOST 16
#define PATH_BYTES 4096
#define CAPACITY   4096u

struct weir_site {
	weir_loader loader;
	weir_cache *cache;
	weir_stage *stage;
	weir_types *types;
	char *index[INDEX_MOST + 1];
	_Atomic uint32_t loads;
};

/* ---- requests ---- */

static void refuse_method(weir_request *request)
{
	weir_field allow = {WEIR_SPAN("Allow"), WEIR_SPAN("GET, HEAD, OPTIONS")};
	unsigned status = weir_request_method(request) == WEIR_METHOD_OPTIONS ? 204 : 405;
	weir_request_reply(request, &(weir_reply){.status = status, .fields = &allow, .field_count = 1});
}

/* Names that begin with a dot do not exist, except for the folder of RFC 8615. */
static bool is_hidden(const char *path)
{
	static const char known[] = "/.well-known";
	size_t skip = sizeof(known) - 1;
	if (strncmp(path, known, skip) == 0 && (path[skip] == '/' || path[skip] == '\0'))
		path += skip;
	return strstr(path, "/.") != NULL;
}

static void answer_from(weir_site *site, weir_request *request, weir_page *page)
{
	weir_cache *cache = site->cache;
	weir_page_answer(request, page, 0);
	if (weir_cache_is_due(cache, page, weir_world_now(cache->world)))
		weir_load_check(cache, &site->loader, page);
	weir_page_unref(page);
}

/* Kept with the request until the page is loaded. false: out of memory. */
static bool note_want(const weir_site *site, weir_request *request, uint64_t hash, weir_span path)
{
	weir_want *want = weir_request_alloc(request, sizeof(*want) + path.length);
	if (want == NULL)
		return false;
	char *copy = (char *)(want + 1);
	memcpy(copy, path.at, path.length);
	*want = (weir_want){
		.loader = &site->loader, .request = request, .hash = hash, .path = {copy, path.length}};
	weir_request_set_user(request, want);
	return true;
}

/* Answers it; true: it must be loaded. Separate, so that a hit needs no stack space for the path. */
static __attribute__((noinline)) bool look_closer(weir_site *site, weir_request *request, weir_span sent)
{
	weir_cache *cache = site->cache;
	char clean[PATH_BYTES];
	weir_span path = {.at = clean};
	bool dot;
	if (sent.length >= sizeof(clean)) {
		weir_request_reply_text(request, 414, WEIR_SPAN("the path is too long\n"));
		return false;
	}
	if (!weir_path_clean(sent, clean, sizeof(clean), &path.length, &dot)) {
		weir_request_reply_text(request, 400, WEIR_SPAN("the path is malformed\n"));
		return false;
	}
	uint64_t hash = weir_cache_hash(cache, site->loader.number, path);
	unsigned status = dot && is_hidden(clean) ? 404 : 0;
	weir_page *page = NULL;
	if (status == 0)
		page = weir_cache_find(cache, site->loader.number, hash, path, false);
	if (page != NULL) {
		answer_from(site, request, page);
		return false;
	}
	if (status == 0)
		status = weir_absent_find(cache, site->loader.number, hash, path,
					  weir_world_now(cache->world));
	if (status == 0 && !note_want(site, request, hash, path))
		status = 503;
	if (status != 0)
		weir_page_answer(request, NULL, status);
	return status == 0;
}

/* true: it must be loaded; otherwise it was answered. */
static bool serve(weir_site *site, weir_request *request)
{
	weir_cache *cache = site->cache;
	weir_method method = request->head.method;
	if (method != WEIR_METHOD_GET && method != WEIR_METHOD_HEAD) {
		refuse_method(request);
		return false;
	}
	weir_span sent = weir_request_path(request);
	uint64_t hash = weir_cache_hash(cache, site->loader.number, sent);
	weir_page *page = weir_cache_find(cache, site->loader.number, hash, sent, true);
	if (page == NULL)
		return look_closer(site, request, sent);
	answer_from(site, request, page);
	return false;
}

/* Hits come before misses. */
static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	weir_site *site = arg;
	weir_event *misses[WEIR_BATCH_MAX];
	size_t missed = 0;
	for (size_t i = 0; i < count; i++) {
		weir_event *event = events[i];
		if (serve(site, weir_request_of(event)))
			misses[missed++] = event;
	}
	for (size_t i = 0; i < missed; i++) {
		weir_verdict verdict = weir_offer(site->cache->stage, misses[i]);
		if (verdict != WEIR_ADMITTED)
			weir_request_reject(weir_request_of(misses[i]), verdict);
	}
}

/* ---- making and freeing ---- */

/* Names in the folder itself, not hidden: what is not served by its name is no index either. */
static int copy_index(weir_site *site, const char *const *index)
{
	static const char *const usual[] = {"index.html", NULL};
	if (index == NULL)
		index = usual;
	for (size_t i = 0; index[i] != NULL; i++) {
		if (i == INDEX_MOST)
			return weir_error_set(-EINVAL, "site: more than %d index files", INDEX_MOST);
		if (index[i][0] == '\0' || index[i][0] == '.' || strchr(index[i], '/') != NULL ||
		    strlen(index[i]) > 255)
			return weir_error_set(-EINVAL, "site: \"%s\" is not the name of an index file",
					      index[i]);
		site->index[i] = weir_mem_strdup(index[i]);
		if (site->index[i] == NULL)
			return weir_error_set(-ENOMEM, "site: out of memory");
	}
	return 0;
}

static int open_root(weir_site *site, const char *root)
{
	site->loader.root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (site->loader.root >= 0)
		return 0;
	int error = -errno;
	return weir_error_set(error, "site: %s: %s", root, strerror(-error));
}

static int make_stage(weir_site *site, weir_domain *domain, const weir_site_options *options)
{
	weir_stage_options stage = {.name = options->name,
				    .handle = handle,
				    .drop = weir_request_drop,
				    .arg = site,
				    .capacity = options->capacity != 0 ? options->capacity : CAPACITY,
				    .admission = options->law,
				    .admission_params = options->law_params};
	return weir_stage_new(domain, &stage, &site->stage);
}

int weir_site_new(weir_domain *domain, weir_cache *cache, const weir_site_options *options,
		  weir_site **ret_site)
{
	weir_site *site = weir_mem_zalloc(sizeof(*site));
	if (site == NULL)
		return weir_error_set(-ENOMEM, "site: out of memory");
	site->cache = cache;
	site->loader = (weir_loader){.number = ++cache->sites,
				     .root = -1,
				     .index = (const char *const *)site->index,
				     .listing = options->listing,
				     .precompressed = options->precompressed,
				     .answer = weir_page_answer,
				     .loads = &site->loads};
	int error = options->root != NULL ? open_root(site, options->root)
					  : weir_error_set(-EINVAL, "site: a root is needed");
	if (error == 0)
		error = copy_index(site, options->index);
	if (error == 0)
		error = weir_types_new(options->types, &site->types);
	site->loader.types = site->types;
	if (error == 0)
		error = make_stage(site, domain, options);
	if (error != 0)
		weir_site_free(&site);
	else
		*ret_site = site;
	return error;
}

weir_stage *weir_site_stage(const weir_site *site)
{
	return site->stage;
}

bool weir_site_is_idle(const weir_site *site)
{
	return atomic_load_explicit(&site->loads, memory_order_acquire) == 0;
}

void weir_site_free(weir_site **where)
{
	weir_site *site = *where;
	if (site == NULL)
		return;
	*where = NULL;
	if (site->loader.root >= 0)
		close(site->loader.root);
	for (size_t i = 0; i < INDEX_MOST; i++)
		weir_mem_free(site->index[i]);
	weir_types_free(&site->types);
	weir_mem_free(site);
}
