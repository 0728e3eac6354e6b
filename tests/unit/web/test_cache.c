/* SPDX-License-Identifier: Apache-2.0 */
/* The page cache by itself: a world that never starts, pages made by hand. */
#include "support/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "web/cache.h"
#include "web/load.h"

typedef struct shelf {
	weir_world *world;
	weir_domain *domain;
	weir_files *files;
	weir_cache *cache;
	uint64_t live;
} shelf;

static void shelf_open(shelf *s, weir_cache_options options)
{
	s->live = weir_mem_live();
	assert_int_equal(weir_world_new(NULL, &s->world), 0);
	assert_int_equal(
		weir_domain_new(s->world, &(weir_domain_options){.name = "r", .threads = 1}, &s->domain), 0);
	assert_int_equal(weir_files_new(s->world, NULL, &s->files), 0);
	assert_int_equal(weir_cache_new(s->domain, s->files, &options, &s->cache), 0);
}

static void shelf_end(shelf *s)
{
	weir_cache_free(&s->cache);
	weir_cache_free(&s->cache);
	weir_files_free(&s->files);
	weir_world_free(&s->world);
	assert_int_equal(weir_mem_live(), s->live);
}

static weir_span span(const char *text)
{
	return (weir_span){text, strlen(text)};
}

static weir_buf *filled(size_t length)
{
	weir_buf *buf = weir_buf_new(length);
	memset(buf->data, 'x', length);
	buf->length = (uint32_t)length;
	return buf;
}

static weir_page *make_page(shelf *s, uint32_t site, const char *path)
{
	return weir_page_new(WEIR_PAGE_FILE, site, weir_cache_hash(s->cache, site, span(path)), span(path),
			     "text/plain", s->cache->work);
}

static const weir_stamp some_stamp = {
	.inode = 0xabc, .size = 10, .modified = {784111777, 5}, .changed = {784111777, 5}};
static const struct timespec some_now = {1000000000, 0};

/* Keeps a page with so many bytes. */
static void keep(shelf *s, uint32_t site, const char *path, size_t bytes)
{
	weir_page *page = make_page(s, site, path);
	assert_int_equal(
		weir_page_add(page, WEIR_ENCODING_IDENTITY, &some_stamp, filled(bytes), -1, some_now), 0);
	assert_int_equal(weir_page_finish(page), 0);
	weir_cache_keep(s->cache, page);
	weir_page_unref(page);
}

static weir_page *find(shelf *s, uint32_t site, const char *path, bool sent)
{
	return weir_cache_find(s->cache, site, weir_cache_hash(s->cache, site, span(path)), span(path), sent);
}

static bool has(shelf *s, uint32_t site, const char *path)
{
	weir_page *page = find(s, site, path, false);
	weir_page_unref(page);
	return page != NULL;
}

static weir_cache_stats stats_of(const shelf *s)
{
	weir_cache_stats stats;
	weir_cache_read_stats(s->cache, &stats);
	return stats;
}

/* ---- finding ---- */

static void finds_what_it_keeps(void **state)
{
	shelf s;
	shelf_open(&s, (weir_cache_options){0});
	assert_false(has(&s, 1, "/a"));
	keep(&s, 1, "/a", 100);
	assert_true(has(&s, 1, "/a"));
	assert_false(has(&s, 2, "/a"));
	assert_false(has(&s, 1, "/"));
	assert_false(has(&s, 1, "/a/"));
	assert_false(has(&s, 1, "/b"));
	assert_int_equal(stats_of(&s).entries, 1);
	assert_int_equal(stats_of(&s).hits, 1);
	assert_true(stats_of(&s).bytes > 100);
	shelf_end(&s);
}

/* As it was sent, "%41" is not the name of a file that is called so. */
static void escapes_are_not_found_as_sent(void **state)
{
	shelf s;
	shelf_open(&s, (weir_cache_options){0});
	keep(&s, 1, "/a%41", 1);
	keep(&s, 1, "/b", 1);
	assert_null(find(&s, 1, "/a%41", true));
	assert_true(has(&s, 1, "/a%41"));
	weir_page *page = find(&s, 1, "/b", true);
	assert_non_null(page);
	weir_page_unref(page);
	shelf_end(&s);
}

static void a_page_outlives_its_place(void **state)
{
	shelf s;
	shelf_open(&s, (weir_cache_options){0});
	keep(&s, 1, "/a", 10);
	weir_page *page = find(&s, 1, "/a", true), *copy = weir_page_ref(page);
	weir_cache_forget(s.cache, page);
	weir_cache_forget(s.cache, page);
	assert_false(has(&s, 1, "/a"));
	assert_int_equal(page->forms[0]->buf->data[9], 'x');
	assert_int_equal(stats_of(&s).bytes, 0);
	weir_page_unref(page);
	assert_string_equal(copy->path, "/a");
	weir_page_unref(copy);
	weir_page_unref(NULL);
	shelf_end(&s);
}

static void a_newer_page_takes_the_place(void **state)
{
	shelf s;
	shelf_open(&s, (weir_cache_options){0});
	keep(&s, 1, "/a", 10);
	weir_page *old = find(&s, 1, "/a", true);
	keep(&s, 1, "/a", 20);
	weir_page *page = find(&s, 1, "/a", true);
	assert_ptr_not_equal(old, page);
	assert_int_equal(page->forms[0]->length, 20);
	assert_int_equal(stats_of(&s).entries, 1);
	assert_int_equal(stats_of(&s).bytes, page->bytes);
	weir_page_unref(old);
	weir_page_unref(page);
	shelf_end(&s);
}

static void many_pages(void **state)
{
	shelf s;
	char path[32];
	shelf_open(&s, (weir_cache_options){0});
	for (int i = 0; i < 20000; i++) {
		snprintf(path, sizeof(path), "/%d", i);
		keep(&s, 1 + (unsigned)i % 3, path, 1);
	}
	assert_int_equal(stats_of(&s).entries, 20000);
	unsigned longest = 0;
	for (unsigned i = 0; i < WEIR_CACHE_SHARDS; i++)
		if (s.cache->shards[i].count > longest)
			longest = s.cache->shards[i].count;
	assert_true(s.cache->shards[0].mask >= 255);
	/* 312 on average */
	assert_true(longest < 450);
	for (int i = 0; i < 20000; i++) {
		snprintf(path, sizeof(path), "/%d", i);
		assert_true(has(&s, 1 + (unsigned)i % 3, path));
	}
	shelf_end(&s);
}

/* Names of every length, that differ in one byte anywhere. */
static void every_byte_is_in_the_hash(void **state)
{
	shelf s;
	char path[64], other[64];
	shelf_open(&s, (weir_cache_options){0});
	for (size_t length = 1; length < sizeof(path); length++) {
		memset(path, 'a', length);
		for (size_t i = 0; i < length; i++) {
			memcpy(other, path, length);
			other[i] ^= 1;
			assert_true(weir_cache_hash(s.cache, 1, (weir_span){path, length}) !=
				    weir_cache_hash(s.cache, 1, (weir_span){other, length}));
		}
		assert_true(weir_cache_hash(s.cache, 1, (weir_span){path, length}) !=
			    weir_cache_hash(s.cache, 1, (weir_span){path, length - 1}));
		assert_true(weir_cache_hash(s.cache, 1, (weir_span){path, length}) !=
			    weir_cache_hash(s.cache, 2, (weir_span){path, length}));
	}
	shelf_end(&s);
}

/* ---- bounds ---- */

static void bytes_are_bounded(void **state)
{
	shelf s;
	char path[32];
	shelf_open(&s, (weir_cache_options){.bytes = 1 << 20});
	for (int i = 0; i < 3000; i++) {
		snprintf(path, sizeof(path), "/%d", i);
		keep(&s, 1, path, (size_t)(i * 37 % 20000));
		assert_true(stats_of(&s).bytes <= 1 << 20);
	}
	weir_cache_stats stats = stats_of(&s);
	assert_int_equal(stats.entries + stats.evicted, 3000);
	assert_true(stats.bytes > (1 << 20) * 9 / 10);
	/* Larger than everything: it does not stay, and does not stop the rest. */
	keep(&s, 1, "/huge", 2 << 20);
	assert_false(has(&s, 1, "/huge"));
	keep(&s, 1, "/small", 10);
	assert_true(has(&s, 1, "/small"));
	shelf_end(&s);
}

/* What is asked for again and again survives a crawler that reads everything once. */
static void a_scan_does_not_empty_it(void **state)
{
	shelf s;
	char path[32];
	shelf_open(&s, (weir_cache_options){.bytes = 1 << 20});
	for (int i = 0; i < 100; i++) {
		snprintf(path, sizeof(path), "/hot/%d", i);
		keep(&s, 1, path, 1000);
	}
	for (int i = 0; i < 5000; i++) {
		snprintf(path, sizeof(path), "/cold/%d", i);
		keep(&s, 1, path, 1000);
		snprintf(path, sizeof(path), "/hot/%d", i % 100);
		weir_page_unref(find(&s, 1, path, true));
	}
	unsigned left = 0;
	for (int i = 0; i < 100; i++) {
		snprintf(path, sizeof(path), "/hot/%d", i);
		left += has(&s, 1, path);
	}
	assert_true(left >= 95);
	shelf_end(&s);
}

static int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

static void descriptors_are_bounded(void **state)
{
	shelf s;
	char path[32];
	int before = open_descriptors();
	shelf_open(&s, (weir_cache_options){0});
	keep(&s, 1, "/bytes", 10);
	for (unsigned i = 0; i < s.cache->fds_most + 50; i++) {
		snprintf(path, sizeof(path), "/%u", i);
		weir_page *page = make_page(&s, 1, path);
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(weir_page_add(page, WEIR_ENCODING_IDENTITY, &some_stamp, NULL, fd, some_now),
				 0);
		assert_int_equal(weir_page_finish(page), 0);
		weir_cache_keep(s.cache, page);
		weir_page_unref(page);
		assert_true(s.cache->fds <= s.cache->fds_most);
	}
	assert_true(open_descriptors() <= before + (int)s.cache->fds_most + 8);
	assert_int_equal(stats_of(&s).evicted, 50);
	/* Pages without any do not have to go for it. */
	assert_true(has(&s, 1, "/bytes"));
	shelf_end(&s);
	assert_int_equal(open_descriptors(), before);
}

static void options_have_defaults_and_bounds(void **state)
{
	shelf s;
	shelf_open(&s, (weir_cache_options){0});
	assert_int_equal(s.cache->bytes_most, 200 << 20);
	assert_int_equal(s.cache->file_bytes, 1 << 20);
	assert_int_equal(s.cache->revalidate_ns, WEIR_NS_PER_S);
	shelf_end(&s);
	shelf_open(&s, (weir_cache_options){.bytes = 1000, .file_bytes = UINT64_MAX});
	assert_int_equal(s.cache->file_bytes, 500);
	shelf_end(&s);
	shelf_open(&s, (weir_cache_options){
			       .bytes = UINT64_MAX, .file_bytes = UINT64_MAX, .revalidate_ns = UINT64_MAX});
	keep(&s, 1, "/a", 1);
	weir_page *page = find(&s, 1, "/a", true);
	assert_false(weir_cache_is_due(s.cache, page, 1000 * WEIR_NS_PER_S));
	weir_page_unref(page);
	assert_int_equal(s.cache->file_bytes, 1 << 30);
	shelf_end(&s);
}

/* ---- looking again ---- */

static void one_is_told_to_look_again(void **state)
{
	shelf s;
	shelf_open(&s, (weir_cache_options){.revalidate_ns = 100});
	keep(&s, 1, "/a", 10);
	weir_page *page = find(&s, 1, "/a", true);
	weir_cache_checked(page, 1000);
	assert_false(weir_cache_is_due(s.cache, page, 1099));
	assert_true(weir_cache_is_due(s.cache, page, 1100));
	assert_false(weir_cache_is_due(s.cache, page, 5000));
	weir_cache_checked(page, 5000);
	assert_false(weir_cache_is_due(s.cache, page, 5001));
	assert_true(weir_cache_is_due(s.cache, page, 5100));
	weir_page_unref(page);
	shelf_end(&s);
}

/* ---- names that are not there ---- */

static unsigned absent(shelf *s, uint32_t site, const char *path, uint64_t now_ns)
{
	uint64_t hash = weir_cache_hash(s->cache, site, span(path));
	return weir_absent_find(s->cache, site, hash, span(path), now_ns);
}

static void add_absent(shelf *s, uint32_t site, const char *path, unsigned status, uint64_t now_ns)
{
	uint64_t hash = weir_cache_hash(s->cache, site, span(path));
	weir_absent_add(s->cache, site, hash, span(path), status, now_ns);
}

static void absent_names_are_known_for_a_while(void **state)
{
	shelf s;
	shelf_open(&s, (weir_cache_options){.revalidate_ns = 100});
	assert_int_equal(absent(&s, 1, "/no", 1), 0);
	add_absent(&s, 1, "/no", 404, 1000);
	assert_int_equal(absent(&s, 1, "/no", 1099), 404);
	for (uint32_t site = 2; site < 2000; site++)
		assert_int_equal(absent(&s, site, "/no", 1099), 0);
	assert_int_equal(absent(&s, 1, "/nO", 1099), 0);
	assert_int_equal(absent(&s, 1, "/no", 1100), 0);
	add_absent(&s, 1, "/no", 403, 1100);
	assert_int_equal(absent(&s, 1, "/no", 1101), 403);
	shelf_end(&s);
}

/* However many there are, memory is what it was, and the newest are known. */
static void absent_names_are_bounded(void **state)
{
	shelf s;
	char path[32];
	shelf_open(&s, (weir_cache_options){0});
	uint64_t live = weir_mem_live();
	for (unsigned i = 0; i < 100000; i++) {
		snprintf(path, sizeof(path), "/no/%u", i);
		add_absent(&s, 1, path, 404, 1000 + i);
	}
	assert_int_equal(weir_mem_live(), live);
	unsigned known = 0;
	for (unsigned i = 98000; i < 100000; i++) {
		snprintf(path, sizeof(path), "/no/%u", i);
		known += absent(&s, 1, path, 200000) == 404;
	}
	assert_true(known > 1800);
	shelf_end(&s);
}

/* ---- loads ---- */

static void the_shortest_is_read_first(void **state)
{
	static const off_t sizes[] = {500, 300, 900, 300, 1, 500};
	static const int order[] = {4, 1, 3, 0, 5, 2};
	weir_load *loads[6], *waiting = NULL;
	for (int i = 0; i < 6; i++) {
		loads[i] = calloc(1, sizeof(weir_load));
		loads[i]->stamp.size = sizes[i];
		weir_load_queue(&waiting, loads[i]);
	}
	for (int i = 0; i < 6; i++, waiting = waiting->next_reader)
		assert_ptr_equal(waiting, loads[order[i]]);
	assert_null(waiting);
	for (int i = 0; i < 6; i++)
		free(loads[i]);
}

/* ---- pages ---- */

static const char *value_of(const weir_form *form, const char *name)
{
	static char value[256];
	for (unsigned i = 0; i < form->field_count; i++)
		if (weir_span_is(form->fields[i].name, span(name))) {
			snprintf(value, sizeof(value), "%.*s", (int)form->fields[i].value.length,
				 form->fields[i].value.at);
			return value;
		}
	return "";
}

static void pages_have_their_fields(void **state)
{
	shelf s;
	shelf_open(&s, (weir_cache_options){0});
	weir_page *page = make_page(&s, 1, "/a.txt");
	weir_stamp gzip = some_stamp;
	gzip.inode = 0xdef;
	assert_int_equal(weir_page_add(page, WEIR_ENCODING_IDENTITY, &some_stamp, filled(10), -1, some_now),
			 0);
	assert_int_equal(weir_page_add(page, WEIR_ENCODING_GZIP, &gzip, filled(5), -1, some_now), 0);
	assert_int_equal(weir_page_finish(page), 0);
	const weir_form *form = page->forms[WEIR_ENCODING_IDENTITY],
			*packed = page->forms[WEIR_ENCODING_GZIP];
	assert_string_equal(value_of(form, "Content-Type"), "text/plain");
	assert_string_equal(value_of(form, "Last-Modified"), "Sun, 06 Nov 1994 08:49:37 GMT");
	assert_string_equal(value_of(form, "ETag"), "\"ae1b981bc490a05-a-abc\"");
	assert_string_equal(value_of(form, "Accept-Ranges"), "bytes");
	assert_string_equal(value_of(form, "Vary"), "Accept-Encoding");
	assert_string_equal(value_of(form, "Content-Encoding"), "");
	assert_string_equal(value_of(packed, "Content-Encoding"), "gzip");
	assert_string_equal(value_of(packed, "ETag"), "\"ae1b981bc490a05-a-def\"");
	assert_string_equal(value_of(packed, "Vary"), "Accept-Encoding");
	/* A 304 has the validators and Vary, not what describes a body. */
	assert_true(weir_span_is(form->fields[form->validators].name, WEIR_SPAN("Last-Modified")));
	assert_int_equal(form->field_count - form->validators, 3);
	const weir_prepared *whole = &packed->whole;
	assert_int_equal(whole->reply.status, 200);
	assert_ptr_equal(whole->reply.buf, packed->buf);
	assert_int_equal(whole->reply.length, 5);
	assert_int_equal(whole->line_length, sizeof("HTTP/1.1 200 OK\r\n") - 1);
	char head[512];
	snprintf(head, sizeof(head), "%.*s", (int)whole->head.length, whole->head.at);
	assert_string_equal(
		head, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nAccept-Ranges: "
		      "bytes\r\nContent-Encoding: gzip\r\n"
		      "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: \"ae1b981bc490a05-a-def\"\r\n"
		      "Vary: Accept-Encoding\r\nContent-Length: 5\r\n");
	assert_true(page->date_strong);
	assert_false(form->unsure);
	weir_page_unref(page);
	shelf_end(&s);
}

static void times_that_prove_nothing(void **state)
{
	shelf s;
	shelf_open(&s, (weir_cache_options){0});
	weir_page *page = make_page(&s, 1, "/a.txt");
	/* From the future: not later than now. */
	weir_stamp stamp = {.size = 1, .modified = {784111999, 0}, .changed = {784111776, 999999999}};
	struct timespec now = {784111777, 0};
	assert_int_equal(weir_page_add(page, WEIR_ENCODING_IDENTITY, &stamp, filled(1), -1, now), 0);
	assert_int_equal(weir_page_finish(page), 0);
	assert_string_equal(value_of(page->forms[0], "Last-Modified"), "Sun, 06 Nov 1994 08:49:37 GMT");
	assert_false(page->date_strong);
	assert_true(page->forms[0]->unsure);
	assert_string_equal(value_of(page->forms[0], "Vary"), "");
	stamp.changed = (struct timespec){784111776, 900000000};
	assert_false(weir_stamp_fresh(&stamp, now));
	stamp.changed = (struct timespec){784111778, 0};
	assert_true(weir_stamp_fresh(&stamp, now));
	weir_page_unref(page);
	shelf_end(&s);
}

static void stamps_differ_in_anything(void **state)
{
	weir_stamp other = some_stamp;
	assert_true(weir_stamp_same(&some_stamp, &other));
	other.inode++;
	assert_false(weir_stamp_same(&some_stamp, &other));
	other = some_stamp;
	other.device++;
	assert_false(weir_stamp_same(&some_stamp, &other));
	other = some_stamp;
	other.size++;
	assert_false(weir_stamp_same(&some_stamp, &other));
	other = some_stamp;
	other.modified.tv_nsec++;
	assert_false(weir_stamp_same(&some_stamp, &other));
	other = some_stamp;
	other.changed.tv_sec++;
	assert_false(weir_stamp_same(&some_stamp, &other));
}

static void paths_in_urls(void **state)
{
	char text[64];
	weir_path_encode(text, WEIR_SPAN("/a b/\"<>%\r\n\\?#\x80'.-_~"));
	assert_string_equal(text, "/a%20b/%22%3C%3E%25%0D%0A%5C%3F%23%80%27.-_~");
}

/* ---- memory ---- */

static void every_allocation_may_fail(void **state)
{
	weir_world *world;
	weir_domain *domain;
	weir_files *files;
	assert_int_equal(weir_world_new(NULL, &world), 0);
	assert_int_equal(weir_domain_new(world, &(weir_domain_options){.name = "r", .threads = 1}, &domain),
			 0);
	assert_int_equal(weir_files_new(world, NULL, &files), 0);
	uint64_t live = weir_mem_live();
	for (uint64_t i = 1; i <= 1 + 2 * WEIR_CACHE_SHARDS; i++) {
		weir_cache *cache = NULL;
		weir_mem_fail_after(i);
		assert_int_equal(weir_cache_new(domain, files, NULL, &cache), -ENOMEM);
		weir_mem_fail_after(0);
		assert_null(cache);
		assert_int_equal(weir_mem_live(), live);
	}
	weir_files_free(&files);
	weir_world_free(&world);
}

static void without_memory_chains_grow(void **state)
{
	shelf s;
	char path[32];
	shelf_open(&s, (weir_cache_options){0});
	weir_page *pages[200];
	/* All in one shard, which has 64 buckets. */
	unsigned count = 0;
	for (unsigned i = 0; count < 200; i++) {
		snprintf(path, sizeof(path), "/%u", i);
		if (weir_cache_hash(s.cache, 1, span(path)) >> 58 == 5)
			pages[count++] = make_page(&s, 1, path);
	}
	for (unsigned i = 0; i < 200; i++) {
		weir_mem_fail_after(1);
		weir_cache_keep(s.cache, pages[i]);
		weir_mem_fail_after(0);
		weir_page_unref(pages[i]);
	}
	for (unsigned i = 0; i < 200; i++)
		assert_true(has(&s, 1, pages[i]->path));
	shelf_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_what_it_keeps),
		cmocka_unit_test(escapes_are_not_found_as_sent),
		cmocka_unit_test(a_page_outlives_its_place),
		cmocka_unit_test(a_newer_page_takes_the_place),
		cmocka_unit_test(many_pages),
		cmocka_unit_test(every_byte_is_in_the_hash),
		cmocka_unit_test(bytes_are_bounded),
		cmocka_unit_test(a_scan_does_not_empty_it),
		cmocka_unit_test(descriptors_are_bounded),
		cmocka_unit_test(options_have_defaults_and_bounds),
		cmocka_unit_test(one_is_told_to_look_again),
		cmocka_unit_test(absent_names_are_known_for_a_while),
		cmocka_unit_test(absent_names_are_bounded),
		cmocka_unit_test(the_shortest_is_read_first),
		cmocka_unit_test(pages_have_their_fields),
		cmocka_unit_test(times_that_prove_nothing),
		cmocka_unit_test(stamps_differ_in_anything),
		cmocka_unit_test(paths_in_urls),
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(without_memory_chains_grow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
