/* SPDX-License-Identifier: Apache-2.0 */
/* A site on a real server: what names become, what may be asked about them, what changes under it. */
#include "support/on_web.h"

#include <sys/un.h>

/* ---- files ---- */

static void serves_a_file(void **state)
{
	skip_without(state);
	web w = {0};
	web_folder(&w);
	put_text(&w, "a.html", "<p>hello</p>");
	make_old(&w, "a.html", 100);
	web_start(&w);
	for (int i = 0; i < 2; i++) {
		answer a = get(&w, "/a.html");
		assert_int_equal(a.status, 200);
		assert_true(a.whole);
		assert_string_equal(a.body, "<p>hello</p>");
		assert_string_equal(field(&a, "Content-Type"), "text/html; charset=utf-8");
		assert_string_equal(field(&a, "Accept-Ranges"), "bytes");
		assert_string_equal(field(&a, "Vary"), "");
		assert_int_equal(strlen(field(&a, "Last-Modified")), 29);
		assert_int_equal(field(&a, "ETag")[0], '"');
		free(a.text);
	}
	weir_cache_stats stats = cache_stats(&w);
	assert_int_equal(stats.misses, 1);
	assert_int_equal(stats.hits, 1);
	assert_int_equal(stats.entries, 1);
	answer a = ask_with(&w, "HEAD", "/a.html", "");
	assert_int_equal(a.status, 200);
	assert_int_equal(a.body_length, 0);
	assert_string_equal(field(&a, "Content-Length"), "12");
	free(a.text);
	expect_body(&w, "/a.html?query=1", "<p>hello</p>");
	expect_body(&w, "/%61.html", "<p>hello</p>");
	expect_body(&w, "//x/..//./a.html", "<p>hello</p>");
	assert_int_equal(cache_stats(&w).misses, 1);
	weir_stage_stats missed;
	weir_stage_read(w.cache->stage, WEIR_ALL_CLASSES, &missed);
	assert_int_equal(missed.offered, 1);
	web_end(&w);
}

static void hits_do_not_reach_the_disk(void **state)
{
	skip_without(state);
	web w = {0};
	web_folder(&w);
	put_text(&w, "a", "a");
	web_start(&w);
	expect_body(&w, "/a", "a");
	expect_status(&w, "/none", 404);
	uint64_t before = file_requests(&w);
	for (int i = 0; i < 20; i++) {
		expect_body(&w, "/a", "a");
		expect_status(&w, "/none", 404);
	}
	assert_int_equal(file_requests(&w), before);
	web_end(&w);
}

static void empty_files_and_odd_names(void **state)
{
	skip_without(state);
	web w = {0};
	web_folder(&w);
	put_text(&w, "empty", "");
	put_text(&w, "with space", "space");
	put_text(&w, "per%20cent", "percent");
	put_text(&w, "per cent", "a space");
	put_text(&w, "\xc3\xa4", "umlaut");
	web_start(&w);
	for (int i = 0; i < 2; i++) {
		expect_body(&w, "/empty", "");
		expect_body(&w, "/with%20space", "space");
		expect_body(&w, "/%C3%a4", "umlaut");
		/* Once one, once the other is in the cache. */
		expect_body(&w, "/per%2520cent", "percent");
		expect_body(&w, "/per%20cent", "a space");
	}
	web_end(&w);
}

static void methods(void **state)
{
	skip_without(state);
	web w = {0};
	web_open(&w);
	put_text(&w, "a", "a");
	static const char *const others[] = {"POST", "PUT", "DELETE", "PATCH", "BREW"};
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		answer a = ask_with(&w, others[i], "/a", "");
		assert_int_equal(a.status, 405);
		assert_string_equal(field(&a, "Allow"), "GET, HEAD, OPTIONS");
		free(a.text);
	}
	answer a = ask_with(&w, "OPTIONS", "/a", "");
	assert_int_equal(a.status, 204);
	assert_string_equal(field(&a, "Allow"), "GET, HEAD, OPTIONS");
	free(a.text);
	assert_int_equal(status_for(&w, "OPTIONS", "*", ""), 204);
	web_end(&w);
}

static char *letters(size_t length)
{
	char *text = malloc(length + 1);
	for (size_t i = 0; i < length; i++)
		text[i] = (char)('a' + i % 26 + i / 997 % 3);
	text[length] = '\0';
	return text;
}

/* Around the bound of what is kept in memory. */
static void files_of_any_size(void **state)
{
	skip_without(state);
	static const size_t sizes[] = {1,     2047,  2048,  2049,  16383,   16384,
				       16385, 65535, 65536, 65537, 1000000, 5000000};
	web w = {.cache_options = {.file_bytes = 65536}};
	web_folder(&w);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		char name[32], path[32], *text = letters(sizes[i]);
		snprintf(name, sizeof(name), "%zu", sizes[i]);
		snprintf(path, sizeof(path), "/%zu", sizes[i]);
		put_text(&w, name, text);
		free(text);
	}
	web_start(&w);
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			char path[32], range[64], *text = letters(sizes[i]);
			snprintf(path, sizeof(path), "/%zu", sizes[i]);
			expect_body(&w, path, text);
			answer a = ask_with(&w, "HEAD", path, "");
			assert_int_equal(a.body_length, 0);
			assert_string_equal(field(&a, "Content-Length"), path + 1);
			free(a.text);
			snprintf(range, sizeof(range), "Range: bytes=%zu-\r\n", sizes[i] / 2);
			a = ask_with(&w, "GET", path, range);
			assert_int_equal(a.status, 206);
			assert_true(a.whole);
			assert_int_equal(a.body_length, sizes[i] - sizes[i] / 2);
			assert_memory_equal(a.body, text + sizes[i] / 2, a.body_length);
			free(a.text);
			free(text);
		}
	assert_int_equal(w.cache->fds, 3);
	web_end(&w);
}

static void conditions_and_ranges(void **state)
{
	skip_without(state);
	web w = {0};
	web_folder(&w);
	put_text(&w, "a.txt", "0123456789");
	make_old(&w, "a.txt", 100);
	web_start(&w);
	char fields[256];
	answer a = get(&w, "/a.txt");
	char *etag = strdup(field(&a, "ETag")), *date = strdup(field(&a, "Last-Modified"));
	free(a.text);
	snprintf(fields, sizeof(fields), "If-None-Match: %s\r\n", etag);
	a = ask_with(&w, "GET", "/a.txt", fields);
	assert_int_equal(a.status, 304);
	assert_int_equal(a.body_length, 0);
	assert_string_equal(field(&a, "ETag"), etag);
	assert_string_equal(field(&a, "Content-Type"), "");
	free(a.text);
	snprintf(fields, sizeof(fields), "If-Modified-Since: %s\r\n", date);
	assert_int_equal(status_for(&w, "GET", "/a.txt", fields), 304);
	assert_int_equal(status_for(&w, "HEAD", "/a.txt", fields), 304);
	assert_int_equal(status_for(&w, "GET", "/a.txt", "If-Match: \"x\"\r\n"), 412);
	a = ask_with(&w, "GET", "/a.txt", "Range: bytes=2-4\r\n");
	assert_int_equal(a.status, 206);
	assert_string_equal(a.body, "234");
	assert_string_equal(field(&a, "Content-Range"), "bytes 2-4/10");
	assert_string_equal(field(&a, "ETag"), etag);
	free(a.text);
	a = ask_with(&w, "GET", "/a.txt", "Range: bytes=-3\r\n");
	assert_string_equal(a.body, "789");
	free(a.text);
	a = ask_with(&w, "GET", "/a.txt", "Range: bytes=10-\r\n");
	assert_int_equal(a.status, 416);
	assert_string_equal(field(&a, "Content-Range"), "bytes */10");
	free(a.text);
	assert_int_equal(status_for(&w, "GET", "/a.txt", "Range: bytes=0-1,3-4\r\n"), 200);
	assert_int_equal(status_for(&w, "HEAD", "/a.txt", "Range: bytes=0-1\r\n"), 200);
	snprintf(fields, sizeof(fields), "Range: bytes=0-1\r\nIf-Range: %s\r\n", etag);
	assert_int_equal(status_for(&w, "GET", "/a.txt", fields), 206);
	snprintf(fields, sizeof(fields), "Range: bytes=0-1\r\nIf-Range: %s\r\n", date);
	assert_int_equal(status_for(&w, "GET", "/a.txt", fields), 206);
	assert_int_equal(status_for(&w, "GET", "/a.txt", "Range: bytes=0-1\r\nIf-Range: \"x\"\r\n"), 200);
	free(etag);
	free(date);
	web_end(&w);
}

/* Requests in one go on one connection, some of them misses: all are answered, in their order. */
static void pipelined(void **state)
{
	skip_without(state);
	web w = {0};
	web_folder(&w);
	put_text(&w, "a", "aaa");
	put_text(&w, "b", "bbb");
	web_start(&w);
	char text[8192], *end = text;
	for (int i = 0; i < 30; i++)
		end = stpcpy(end, i % 3 == 0   ? "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
				  : i % 3 == 1 ? "GET /b HTTP/1.1\r\nHost: x\r\n\r\n"
					       : "GET /none HTTP/1.1\r\nHost: x\r\n\r\n");
	stpcpy(end, "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	int fd = dial(&w);
	say(fd, text);
	answer a = hear(fd);
	close(fd);
	const char *at = a.text;
	for (int i = 0; i < 31; i++) {
		at = strstr(at, "\r\n\r\n");
		assert_non_null(at);
		at += 4;
		const char *want = i % 3 == 0 ? "aaa" : i % 3 == 1 ? "bbb" : "not found\n";
		assert_int_equal(strncmp(at, want, strlen(want)), 0);
	}
	free(a.text);
	web_end(&w);
}

/* Small ones, which are sent from where they are put together, and larger ones, which do not fit there behind others. */
static void pipelined_of_all_sizes(void **state)
{
	skip_without(state);
	static const size_t sizes[] = {3, 9000, 9000, 16000, 3, 16000, 30000, 3};
	enum { COUNT = sizeof(sizes) / sizeof(*sizes) };
	web w = {0};
	char *text = letters(30000), asked[4096], *end = asked;
	web_folder(&w);
	for (int i = 0; i < COUNT; i++) {
		char name[32], body[30001];
		snprintf(name, sizeof(name), "%zu", sizes[i]);
		snprintf(body, sizes[i] + 1, "%s", text);
		put_text(&w, name, body);
	}
	web_start(&w);
	/* The second time they are in memory. */
	for (int i = 0; i < 2 * COUNT; i++)
		end += sprintf(end, "GET /%zu HTTP/1.1\r\nHost: x\r\n%s\r\n", sizes[i % COUNT],
			       i == 2 * COUNT - 1 ? "Connection: close\r\n" : "");
	int fd = dial(&w);
	say(fd, asked);
	answer a = hear(fd);
	close(fd);
	const char *at = a.text;
	for (int i = 0; i < 2 * COUNT; i++) {
		assert_int_equal(strncmp(at, "HTTP/1.1 200 OK\r\n", 17), 0);
		at = strstr(at, "\r\n\r\n") + 4;
		assert_memory_equal(at, text, sizes[i % COUNT]);
		at += sizes[i % COUNT];
	}
	assert_int_equal(*at, '\0');
	free(a.text);
	free(text);
	web_end(&w);
}

/* ---- folders ---- */

static void index_files(void **state)
{
	skip_without(state);
	static const char *const index[] = {"index.html", "index.txt", NULL};
	web w = {.site_options = {.index = index}};
	web_folder(&w);
	put_text(&w, "index.txt", "root");
	make_folder(&w, "d");
	put_text(&w, "d/index.txt", "second");
	put_text(&w, "d/index.html", "first");
	make_folder(&w, "empty");
	make_folder(&w, "odd");
	make_folder(&w, "odd/index.html");
	put_text(&w, "odd/index.txt", "odd");
	web_start(&w);
	for (int i = 0; i < 2; i++) {
		expect_body(&w, "/", "root");
		expect_body(&w, "/d/", "first");
		expect_body(&w, "/odd/", "odd");
		expect_status(&w, "/empty/", 404);
		expect_status(&w, "/d/index.html/", 404);
	}
	answer a = get(&w, "/");
	assert_string_equal(field(&a, "Content-Type"), "text/plain; charset=utf-8");
	free(a.text);
	web_end(&w);
}

static void check_redirect(web *w, const char *path, const char *to)
{
	for (int i = 0; i < 2; i++) {
		answer a = get(w, path);
		assert_int_equal(a.status, 301);
		assert_string_equal(field(&a, "Location"), to);
		free(a.text);
	}
}

static void folders_are_redirected(void **state)
{
	skip_without(state);
	web w = {.site_options = {.listing = true}};
	web_folder(&w);
	make_folder(&w, "d");
	make_folder(&w, "d/e f");
	make_folder(&w, "evil.example");
	make_folder(&w, "\\evil.example");
	make_folder(&w, "a:b");
	make_folder(&w, "q\"\n\r<");
	web_start(&w);
	check_redirect(&w, "/d", "/d/");
	check_redirect(&w, "/d?x=1&y=%0d", "/d/?x=1&y=%0d");
	check_redirect(&w, "/d/e%20f", "/d/e%20f/");
	/* Never to another host, and never into another field. */
	check_redirect(&w, "//evil.example", "/evil.example/");
	check_redirect(&w, "///evil.example", "/evil.example/");
	check_redirect(&w, "/x/..//evil.example", "/evil.example/");
	check_redirect(&w, "/%5Cevil.example", "/%5Cevil.example/");
	check_redirect(&w, "/a:b", "/a:b/");
	check_redirect(&w, "/q%22%0A%0d%3c", "/q%22%0A%0D%3C/");
	web_end(&w);
}

static void listings(void **state)
{
	skip_without(state);
	web w = {.site_options = {.listing = true}};
	web_folder(&w);
	make_folder(&w, "d");
	make_folder(&w, "d/sub");
	put_text(&w, "d/b.txt", "bb");
	put_text(&w, "d/<script>alert('1')&", "x");
	put_text(&w, "d/javascript:x", "x");
	put_text(&w, "d/.hidden", "x");
	assert_int_equal(symlink("../../../secret", path_in(&w, "d/out")), 0);
	assert_int_equal(symlink("b.txt", path_in(&w, "d/in")), 0);
	assert_int_equal(mkfifo(path_in(&w, "d/pipe"), 0600), 0);
	web_start(&w);
	for (int i = 0; i < 2; i++) {
		answer a = get(&w, "/d/");
		assert_int_equal(a.status, 200);
		assert_true(a.whole);
		assert_string_equal(field(&a, "Content-Type"), "text/html; charset=utf-8");
		assert_non_null(strstr(a.body, "<a href=\"./b.txt\">b.txt</a><td>2<td>"));
		assert_non_null(strstr(a.body, "<a href=\"./sub/\">sub/</a>"));
		assert_non_null(strstr(a.body, "<a href=\"./in\">in</a>"));
		assert_non_null(strstr(a.body, "<a href=\"../\">"));
		assert_non_null(strstr(
			a.body,
			"href=\"./%3Cscript%3Ealert(%271%27)&\">&lt;script&gt;alert(&#39;1&#39;)&amp;</a>"));
		assert_non_null(strstr(a.body, "href=\"./javascript:x\""));
		assert_null(strstr(a.body, "<script>"));
		assert_null(strstr(a.body, "hidden"));
		assert_null(strstr(a.body, ">out<"));
		assert_null(strstr(a.body, "pipe"));
		assert_true(strstr(a.body, "sub/") < strstr(a.body, "b.txt"));
		free(a.text);
	}
	answer a = get(&w, "/");
	assert_null(strstr(a.body, "../"));
	free(a.text);
	expect_status(&w, "/none/", 404);
	expect_status(&w, "/d/b.txt/", 404);
	web_end(&w);
}

static void long_listings_are_cut(void **state)
{
	skip_without(state);
	web w = {.site_options = {.listing = true}};
	web_folder(&w);
	make_folder(&w, "d");
	for (int i = 0; i < 10050; i++) {
		char name[300];
		snprintf(name, sizeof(name), "d/%0*d", i < 100 ? 255 : 8, i);
		put_text(&w, name, "");
	}
	web_start(&w);
	answer a = get(&w, "/d/");
	size_t rows = 0;
	/* Not strstr, which under a sanitizer goes through all of the rest each time. */
	const char *end = a.body + strlen(a.body);
	for (const char *at = a.body; (at = memmem(at, (size_t)(end - at), "href=\"./", 8)) != NULL; at++)
		rows++;
	assert_int_equal(rows, 10000);
	assert_non_null(strstr(a.body, "and more"));
	free(a.text);
	web_end(&w);
}

/* ---- what must not be served ---- */

static void traversal(void **state)
{
	skip_without(state);
	static const char *const paths[] = {
		"/../secret",
		"/%2e%2e/secret",
		"/%2E%2E/secret",
		"/.%2e/secret",
		"/..%2fsecret",
		"/%2e%2e%2fsecret",
		"/%2e%2e%5csecret",
		"/..\\secret",
		"/%252e%252e/secret",
		"/%252e%252e%252fsecret",
		"/d/../../secret",
		"/d/%2e%2e/%2e%2e/secret",
		"/d/./.././../secret",
		"//../secret",
		"/..//secret",
		"/../../../../../../../../etc/passwd",
		"/%c0%ae%c0%ae/secret",
		"/%c0%ae%c0%ae%c0%afsecret",
		"/%u002e%u002e/secret",
		"/..%00/secret",
		"/%00",
		"/a%00.html",
		"/..;/secret",
		"/d/..%2f..%2fsecret",
		"/.../secret",
		"/....//secret",
		"/..",
		"/d/../..",
		"/%",
		"/%2",
		"/%zz",
		"/d%2fb",
	};
	web w = {.site_options = {.listing = true}};
	web_folder(&w);
	make_folder(&w, "d");
	put_text(&w, "d/b", "b");
	put_text(&w, "a", "a");
	web_start(&w);
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
			answer a = get(&w, paths[i]);
			if ((a.status != 404 && a.status != 400) || strstr(a.text, "SECRET") != NULL ||
			    strstr(a.text, "root:") != NULL)
				fail_msg("%s: %s", paths[i], a.text);
			free(a.text);
		}
	expect_body(&w, "/d/../a", "a");
	expect_body(&w, "/d/%2e%2e/a", "a");
	web_end(&w);
}

static void links(void **state)
{
	skip_without(state);
	web w = {.site_options = {.precompressed = true}};
	web_folder(&w);
	make_folder(&w, "d");
	make_folder(&w, "indexed");
	put_text(&w, "a", "a");
	put_text(&w, "d/b", "b");
	assert_int_equal(symlink("a", path_in(&w, "file")), 0);
	assert_int_equal(symlink("../a", path_in(&w, "d/up")), 0);
	assert_int_equal(symlink("d", path_in(&w, "folder")), 0);
	assert_int_equal(symlink("../secret", path_in(&w, "out")), 0);
	assert_int_equal(symlink("..", path_in(&w, "outside")), 0);
	assert_int_equal(symlink("/etc", path_in(&w, "etc")), 0);
	assert_int_equal(symlink("/etc/passwd", path_in(&w, "passwd")), 0);
	assert_int_equal(symlink("/proc/self/root/etc/passwd", path_in(&w, "magic")), 0);
	assert_int_equal(symlink("loop", path_in(&w, "loop")), 0);
	assert_int_equal(symlink("nowhere", path_in(&w, "dangling")), 0);
	assert_int_equal(symlink("../../secret", path_in(&w, "indexed/index.html")), 0);
	assert_int_equal(symlink("../secret", path_in(&w, "a.gz")), 0);
	web_start(&w);
	for (int i = 0; i < 2; i++) {
		expect_body(&w, "/file", "a");
		expect_body(&w, "/d/up", "a");
		expect_body(&w, "/folder/b", "b");
		static const char *const out[] = {
			"/out",      "/outside/secret", "/outside", "/etc/passwd",
			"/etc/",     "/passwd",         "/magic",   "/loop",
			"/dangling", "/indexed/",       "/etc",     "/indexed/index.html"};
		for (size_t j = 0; j < sizeof(out) / sizeof(*out); j++) {
			answer a = get(&w, out[j]);
			if (a.status != 404 || strstr(a.text, "SECRET") != NULL)
				fail_msg("%s: %s", out[j], a.text);
			free(a.text);
		}
		/* Nor as a variant. */
		answer a = ask_with(&w, "GET", "/a", "Accept-Encoding: gzip\r\n");
		assert_string_equal(a.body, "a");
		free(a.text);
	}
	web_end(&w);
}

static void names_with_dots(void **state)
{
	skip_without(state);
	web w = {.site_options = {.listing = true}};
	web_folder(&w);
	make_folder(&w, ".git");
	make_folder(&w, ".well-known");
	make_folder(&w, ".well-known/acme");
	make_folder(&w, ".well-known/.x");
	make_folder(&w, ".well-knownx");
	make_folder(&w, "d");
	put_text(&w, ".htaccess", "x");
	put_text(&w, ".git/config", "x");
	put_text(&w, "d/.env", "x");
	put_text(&w, ".well-known/acme/token", "token");
	put_text(&w, ".well-known/.hidden", "x");
	put_text(&w, ".well-known/.x/a", "x");
	put_text(&w, ".well-knownx/a", "x");
	put_text(&w, "a..b", "dots");
	web_start(&w);
	static const char *const hidden[] = {"/.htaccess",
					     "/%2ehtaccess",
					     "/.git/config",
					     "/.git/",
					     "/.git",
					     "/d/.env",
					     "/d/%2Eenv",
					     "/.well-known/.hidden",
					     "/.well-known/.x/a",
					     "/.well-knownx/a",
					     "/d/.well-known/x",
					     "/.new"};
	for (size_t i = 0; i < sizeof(hidden) / sizeof(*hidden); i++)
		expect_status(&w, hidden[i], 404);
	expect_body(&w, "/.well-known/acme/token", "token");
	expect_body(&w, "/%2ewell-known/acme/token", "token");
	expect_body(&w, "/a..b", "dots");
	check_redirect(&w, "/.well-known", "/.well-known/");
	web_end(&w);
}

/* Nothing of it may block, or be read. */
static void what_is_no_file(void **state)
{
	skip_without(state);
	web w = {0};
	web_folder(&w);
	put_text(&w, "a", "a");
	assert_int_equal(mkfifo(path_in(&w, "pipe"), 0600), 0);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/socket", w.root);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	bool devices = mknod(path_in(&w, "null"), S_IFCHR | 0600, 0x103) == 0;
	web_start(&w);
	for (int i = 0; i < 2; i++) {
		expect_status(&w, "/pipe", 404);
		expect_status(&w, "/socket", 404);
		if (devices)
			expect_status(&w, "/null", 404);
		expect_body(&w, "/a", "a");
	}
	/* With a writer at the other end too. */
	int writer = open(path_in(&w, "pipe"), O_RDWR | O_NONBLOCK);
	assert_int_equal(write(writer, "x", 1), 1);
	expect_status(&w, "/pipe?again", 404);
	close(writer);
	close(fd);
	web_end(&w);
}

static void what_may_not_be_read(void **state)
{
	skip_without(state);
	if (geteuid() == 0)
		skip();
	web w = {0};
	web_folder(&w);
	put_text(&w, "a", "a");
	assert_int_equal(chmod(path_in(&w, "a"), 0), 0);
	web_start(&w);
	expect_status(&w, "/a", 403);
	expect_status(&w, "/a", 403);
	web_end(&w);
}

static void long_and_deep_names(void **state)
{
	skip_without(state);
	web w = {0};
	web_folder(&w);
	put_text(&w, "a", "a");
	web_start(&w);
	char *path = calloc(1, 9000);
	static const size_t lengths[] = {255, 256, 300, 4094, 4095, 4096, 5000};
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		memset(path, 'x', lengths[i]);
		path[0] = '/';
		path[lengths[i]] = '\0';
		expect_status(&w, path, lengths[i] < 4096 ? 404 : 414);
		path[lengths[i] - 1] = '/';
		expect_status(&w, path, lengths[i] < 4096 ? 404 : 414);
	}
	for (size_t i = 0; i < 4000; i += 2)
		memcpy(path + i, "/d", 2);
	path[4000] = '\0';
	expect_status(&w, path, 404);
	for (size_t i = 0; i < 3999; i += 3)
		memcpy(path + i, "/d/", 3);
	stpcpy(path + 3999, "a");
	expect_status(&w, path, 404);
	/* Long as it is sent, short when it is clean. */
	for (size_t i = 0; i < 4000; i += 2)
		memcpy(path + i, "/.", 2);
	stpcpy(path + 4000, "/a");
	expect_body(&w, path, "a");
	free(path);
	web_end(&w);
}

/* ---- precompressed ---- */

static void check_encoding(web *w, const char *path, const char *accepted, const char *encoding,
			   const char *body)
{
	char fields[128];
	snprintf(fields, sizeof(fields), "Accept-Encoding: %s\r\n", accepted);
	answer a = ask_with(w, "GET", path, fields);
	assert_int_equal(a.status, 200);
	assert_string_equal(a.body, body);
	assert_string_equal(field(&a, "Content-Encoding"), encoding);
	free(a.text);
}

static void variants(void **state)
{
	skip_without(state);
	web w = {.site_options = {.precompressed = true}, .cache_options = {.file_bytes = 100}};
	char large[200];
	memset(large, 'L', sizeof(large));
	large[199] = '\0';
	web_folder(&w);
	put_text(&w, "a.html", "plain");
	put_text(&w, "a.html.br", "BR");
	put_text(&w, "a.html.zst", "ZST");
	put_text(&w, "a.html.gz", "GZ");
	put_text(&w, "old.html", "plain");
	put_text(&w, "old.html.gz", "GZ");
	make_old(&w, "old.html.gz", 10);
	put_text(&w, "index.html", large);
	put_text(&w, "index.html.gz", "GZ");
	put_text(&w, "none.html", "plain");
	make_folder(&w, "none.html.gz");
	web_start(&w);
	for (int i = 0; i < 2; i++) {
		check_encoding(&w, "/a.html", "gzip, br, zstd", "br", "BR");
		check_encoding(&w, "/a.html", "gzip, zstd;q=0.9", "gzip", "GZ");
		check_encoding(&w, "/a.html", "zstd", "zstd", "ZST");
		check_encoding(&w, "/a.html", "deflate", "", "plain");
		check_encoding(&w, "/old.html", "gzip", "", "plain");
		check_encoding(&w, "/none.html", "gzip", "", "plain");
		check_encoding(&w, "/", "gzip", "gzip", "GZ");
		check_encoding(&w, "/", "br", "", large);
		expect_body(&w, "/a.html.gz", "GZ");
	}
	answer a = ask_with(&w, "GET", "/a.html", "Accept-Encoding: br\r\n");
	assert_string_equal(field(&a, "Content-Type"), "text/html; charset=utf-8");
	assert_string_equal(field(&a, "Vary"), "Accept-Encoding");
	char *etag = strdup(field(&a, "ETag"));
	free(a.text);
	a = get(&w, "/a.html");
	assert_string_equal(field(&a, "Vary"), "Accept-Encoding");
	assert_string_not_equal(field(&a, "ETag"), etag);
	free(a.text);
	char fields[256];
	snprintf(fields, sizeof(fields), "Accept-Encoding: br\r\nIf-None-Match: %s\r\n", etag);
	a = ask_with(&w, "GET", "/a.html", fields);
	assert_int_equal(a.status, 304);
	assert_string_equal(field(&a, "Vary"), "Accept-Encoding");
	free(a.text);
	snprintf(fields, sizeof(fields), "If-None-Match: %s\r\n", etag);
	assert_int_equal(status_for(&w, "GET", "/a.html", fields), 200);
	a = ask_with(&w, "GET", "/a.html", "Accept-Encoding: br\r\nRange: bytes=1-\r\n");
	assert_int_equal(a.status, 206);
	assert_string_equal(a.body, "R");
	free(a.text);
	a = get(&w, "/old.html");
	assert_string_equal(field(&a, "Vary"), "");
	free(a.text);
	free(etag);
	web_end(&w);
}

static void variants_only_where_wanted(void **state)
{
	skip_without(state);
	web w = {0};
	web_folder(&w);
	put_text(&w, "a.html", "plain");
	put_text(&w, "a.html.gz", "GZ");
	web_start(&w);
	check_encoding(&w, "/a.html", "gzip", "", "plain");
	web_end(&w);
}

/* ---- changes ---- */

/* Asks until the answer is this; each request may be the one that has the file looked at. */
static void await_body(const web *w, const char *path, const char *fields, int status, const char *body)
{
	for (int i = 0; i < 20000; i++) {
		answer a = ask_with(w, "GET", path, fields);
		bool is = a.status == status && strcmp(a.body, body) == 0;
		free(a.text);
		if (is)
			return;
	}
	fail_msg("%s never became \"%s\"", path, body);
}

/* Until the page was read so long after its files were changed that their stamps are believed. */
static void await_sure(const web *w, const char *path, weir_encoding encoding)
{
	weir_span span = {path, strlen(path)};
	for (int i = 0; i < 20000; i++) {
		free(get(w, path).text);
		weir_page *page =
			weir_cache_find(w->cache, 1, weir_cache_hash(w->cache, 1, span), span, true);
		bool sure = page != NULL && page->forms[0] != NULL && !page->forms[0]->unsure &&
			    page->forms[encoding] != NULL && !page->forms[encoding]->unsure;
		weir_page_unref(page);
		if (sure)
			return;
	}
	fail_msg("%s never became sure", path);
}

static void changed_files_are_seen(void **state)
{
	skip_without(state);
	web w = {.cache_options = {.revalidate_ns = 1, .file_bytes = 1000},
		 .site_options = {.precompressed = true, .listing = true}};
	char large[2000];
	memset(large, 'L', sizeof(large));
	large[1999] = '\0';
	web_folder(&w);
	make_folder(&w, "d");
	put_text(&w, "a", "one");
	web_start(&w);
	await_body(&w, "/a", "", 200, "one");
	replace(&w, "a", "two");
	await_body(&w, "/a", "", 200, "two");
	put_text(&w, "a", "and three");
	await_body(&w, "/a", "", 200, "and three");
	put_text(&w, "a.gz", "GZ");
	await_body(&w, "/a", "Accept-Encoding: gzip\r\n", 200, "GZ");
	replace(&w, "a.gz", "GZ2");
	await_body(&w, "/a", "Accept-Encoding: gzip\r\n", 200, "GZ2");
	await_sure(&w, "/a", WEIR_ENCODING_GZIP);
	make_old(&w, "a.gz", 100);
	await_body(&w, "/a", "Accept-Encoding: gzip\r\n", 200, "and three");
	replace(&w, "a.gz", "GZ3");
	await_body(&w, "/a", "Accept-Encoding: gzip\r\n", 200, "GZ3");
	unlink(path_in(&w, "a.gz"));
	await_body(&w, "/a", "Accept-Encoding: gzip\r\n", 200, "and three");
	replace(&w, "a", large);
	await_body(&w, "/a", "", 200, large);
	replace(&w, "a", "small");
	await_body(&w, "/a", "", 200, "small");
	unlink(path_in(&w, "a"));
	await_body(&w, "/a", "", 404, "not found\n");
	make_folder(&w, "a");
	await_body(&w, "/a", "", 301, "");
	rmdir(path_in(&w, "a"));
	put_text(&w, "a", "back");
	await_body(&w, "/a", "", 200, "back");
	put_text(&w, "d/index.html", "index");
	await_body(&w, "/d/", "", 200, "index");
	unlink(path_in(&w, "d/index.html"));
	put_text(&w, "d/name", "");
	for (int i = 0;; i++) {
		answer a = get(&w, "/d/");
		bool seen = strstr(a.body, "name") != NULL;
		free(a.text);
		if (seen)
			break;
		assert_true(i < 20000);
	}
	assert_true(cache_stats(&w).revalidated > 0);
	web_end(&w);
}

typedef struct errand {
	weir_post post;
	web *web;
	weir_page *page;
	bool unsure;
	_Atomic bool done;
} errand;

static void make_stale(weir_post *post, void *arg)
{
	errand *e = arg;
	memcpy(e->page->forms[0]->buf->data, "old", 3);
	e->page->forms[0]->unsure = e->unsure;
	e->page->checked_ns = 0;
	e->web->cache->revalidate_ns = 1;
	e->done = true;
}

/* On the site's only thread, so that nobody looks meanwhile. */
static void run_errand(errand *e)
{
	e->done = false;
	e->post = (weir_post){.run = make_stale, .arg = e};
	weir_loop_post(weir_domain_loop(e->web->domain, 0), &e->post);
	CHECK_EVENTUALLY(e->done);
}

/* As if it had been changed within the tick of the clock in which it was read: the stamp is the same, the bytes are not. */
static void what_is_unsure_is_read_again(void **state)
{
	skip_without(state);
	web w = {0};
	web_folder(&w);
	put_text(&w, "a", "new");
	web_start(&w);
	expect_body(&w, "/a", "new");
	weir_span path = WEIR_SPAN("/a");
	weir_page *page = weir_cache_find(w.cache, 1, weir_cache_hash(w.cache, 1, path), path, true);
	assert_non_null(page);
	errand e = {.web = &w, .page = page};
	run_errand(&e);
	expect_body(&w, "/a", "old");
	CHECK_EVENTUALLY(page->checked_ns != 0);
	expect_body(&w, "/a", "old");
	e.unsure = true;
	run_errand(&e);
	await_body(&w, "/a", "", 200, "new");
	weir_page_unref(page);
	web_end(&w);
}

/* A link that is turned outwards later does not lead there either. */
static void links_turned_outwards(void **state)
{
	skip_without(state);
	web w = {.cache_options = {.revalidate_ns = 1}};
	web_folder(&w);
	put_text(&w, "a", "a");
	assert_int_equal(symlink("a", path_in(&w, "link")), 0);
	web_start(&w);
	await_body(&w, "/link", "", 200, "a");
	assert_int_equal(symlink("../secret", path_in(&w, ".new")), 0);
	assert_int_equal(rename(path_in(&w, ".new"), path_in(&w, "link")), 0);
	await_body(&w, "/link", "", 404, "not found\n");
	/* The very file, but from outside: it is not below the root any more. */
	assert_int_equal(rename(path_in(&w, "a"), path_in(&w, "../a")), 0);
	assert_int_equal(symlink("../a", path_in(&w, "a")), 0);
	expect_status(&w, "/a", 404);
	web_end(&w);
}

/* Not looked at before its time: what is on the disk does not matter. */
static void kept_for_its_time(void **state)
{
	skip_without(state);
	web w = {0};
	web_folder(&w);
	put_text(&w, "a", "one");
	web_start(&w);
	expect_body(&w, "/a", "one");
	expect_status(&w, "/b", 404);
	replace(&w, "a", "two");
	put_text(&w, "b", "b");
	for (int i = 0; i < 10; i++) {
		expect_body(&w, "/a", "one");
		expect_status(&w, "/b", 404);
	}
	assert_int_equal(cache_stats(&w).revalidated, 0);
	web_end(&w);
}

/* The page's descriptor is that of the file as it was: one version, to its end. */
static void replaced_while_it_is_sent(void **state)
{
	skip_without(state);
	web w = {.cache_options = {.file_bytes = 1000, .revalidate_ns = 1}};
	web_folder(&w);
	char *old = letters(8 << 20);
	put_text(&w, "large", old);
	web_start(&w);
	int fd = dial(&w);
	say(fd, "GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	char first[1];
	assert_int_equal(recv(fd, first, 1, MSG_PEEK), 1);
	replace(&w, "large", "new");
	await_body(&w, "/large", "", 200, "new");
	answer a = hear(fd);
	assert_true(a.whole);
	assert_memory_equal(a.body, old, 8 << 20);
	free(a.text);
	free(old);
	close(fd);
	web_end(&w);
}

/* There is no right end to it: the connection is cut, and the client can tell. */
static void truncated_while_it_is_sent(void **state)
{
	skip_without(state);
	web w = {.cache_options = {.file_bytes = 1000}};
	web_folder(&w);
	char *old = letters(32 << 20);
	put_text(&w, "large", old);
	free(old);
	web_start(&w);
	int fd = dial(&w);
	say(fd, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
	char first[1];
	assert_int_equal(recv(fd, first, 1, MSG_PEEK), 1);
	assert_int_equal(truncate(path_in(&w, "large"), 1000), 0);
	answer a = hear(fd);
	assert_false(a.whole);
	free(a.text);
	close(fd);
	web_end(&w);
}

/* ---- many at once ---- */

/* One load serves all that wait for it. */
static void one_load_at_a_time(void **state)
{
	skip_without(state);
	web w = {.threads = 2};
	int fds[40];
	web_folder(&w);
	put_text(&w, "a", "aaa");
	web_start(&w);
	for (int i = 0; i < 40; i++) {
		fds[i] = dial(&w);
		say(fds[i], "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	}
	for (int i = 0; i < 40; i++) {
		answer a = hear(fds[i]);
		assert_int_equal(a.status, 200);
		assert_string_equal(a.body, "aaa");
		free(a.text);
		close(fds[i]);
	}
	weir_cache_stats stats = cache_stats(&w);
	assert_int_equal(stats.entries, 1);
	/* open, stat, read, stat, close; and once more read and stat while the file is as new as it is here. */
	assert_true(file_requests(&w) <= 7);
	web_end(&w);
}

/* Clients that leave before they are answered. */
static void clients_that_leave(void **state)
{
	skip_without(state);
	web w = {.cache_options = {.bytes = 4096}};
	web_folder(&w);
	char name[16], text[128];
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "%d", i);
		put_text(&w, name, "text");
	}
	web_start(&w);
	for (int round = 0; round < 4; round++)
		for (int i = 0; i < 50; i++) {
			int fd = dial(&w);
			struct linger now = {.l_onoff = 1};
			snprintf(text, sizeof(text), "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", i);
			say(fd, text);
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
			close(fd);
		}
	expect_body(&w, "/1", "text");
	web_end(&w);
}

/* More than the file layer takes at once: turned away with a reason to come back, and all is well afterwards. */
static void more_than_the_disk_takes(void **state)
{
	skip_without(state);
	web w = {.files_options = {.max_requests = 2}};
	int fds[60], served = 0, refused = 0;
	char name[16], text[128];
	web_folder(&w);
	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "%d", i);
		put_text(&w, name, "text");
	}
	web_start(&w);
	for (int i = 0; i < 60; i++) {
		fds[i] = dial(&w);
		snprintf(text, sizeof(text), "GET /%d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", i);
		say(fds[i], text);
	}
	for (int i = 0; i < 60; i++) {
		answer a = hear(fds[i]);
		served += a.status == 200;
		refused += a.status == 503;
		if (a.status == 503)
			assert_string_equal(field(&a, "Retry-After"), "1");
		free(a.text);
		close(fds[i]);
	}
	assert_int_equal(served + refused, 60);
	for (int i = 0; i < 60; i++) {
		snprintf(text, sizeof(text), "/%d", i);
		await_body(&w, text, "", 200, "text");
	}
	web_end(&w);
}

/* ---- sites ---- */

static void sites_share_the_cache(void **state)
{
	skip_without(state);
	web w = {0};
	weir_site *other = NULL;
	web_folder(&w);
	make_folder(&w, "other");
	put_text(&w, "a", "first");
	put_text(&w, "other/a", "second");
	w.live = weir_mem_live();
	w.cache_options.revalidate_ns = HOUR_NS;
	w.site_options = (weir_site_options){.name = "one", .root = w.root};
	w.world = world_real();
	w.domain = domain_reactor(w.world, "reactor", 1);
	must(weir_files_new(w.world, NULL, &w.files));
	must(weir_cache_new(w.domain, w.files, &w.cache_options, &w.cache));
	must(weir_site_new(w.domain, w.cache, &w.site_options, &w.site));
	must(weir_site_new(w.domain, w.cache,
			   &(weir_site_options){.name = "two", .root = path_in(&w, "other")}, &other));
	must(weir_world_start(w.world));
	static const char *const rules[] = {"host two", NULL};
	must(weir_routes_new(&w.routes));
	must(weir_routes_add(w.routes, &(weir_route_options){.name = "two",
							     .rules = rules,
							     .stage = weir_site_stage(other),
							     .klass = -1}));
	must(weir_routes_add(
		w.routes,
		&(weir_route_options){.name = "one", .stage = weir_site_stage(w.site), .klass = -1}));
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	must(weir_http_new(&(weir_http_options){.domain = w.domain, .routes = w.routes}, &w.http));
	must(weir_http_add_listener(
		w.http,
		&(weir_http_listen){.address = (struct sockaddr *)&any, .address_length = sizeof(any)},
		NULL));
	must(weir_http_address(w.http, 0, NULL, 0, &w.address));
	for (int i = 0; i < 2; i++) {
		int fd = dial(&w);
		say(fd, "GET /a HTTP/1.1\r\nHost: two\r\nConnection: close\r\n\r\n");
		answer a = hear(fd);
		assert_string_equal(a.body, "second");
		free(a.text);
		close(fd);
		expect_body(&w, "/a", "first");
	}
	assert_int_equal(cache_stats(&w).entries, 2);
	weir_site_free(&other);
	web_end(&w);
}

static int try_site(web *w, weir_site_options options)
{
	weir_site *site = NULL;
	options.name = options.name != NULL ? options.name : "x";
	int error = weir_site_new(w->domain, w->cache, &options, &site);
	assert_null(site);
	return error;
}

static void options_that_are_wrong(void **state)
{
	skip_without(state);
	web w = {0};
	static const char *const bad[][2] = {{"a/b", NULL}, {"", NULL}, {".x", NULL}};
	web_folder(&w);
	put_text(&w, "file", "");
	w.world = world_real();
	w.domain = domain_reactor(w.world, "reactor", 1);
	must(weir_files_new(w.world, NULL, &w.files));
	must(weir_cache_new(w.domain, w.files, NULL, &w.cache));
	must(weir_site_new(w.domain, w.cache, &(weir_site_options){.name = "site", .root = w.root}, &w.site));
	uint64_t live = weir_mem_live();
	assert_int_equal(try_site(&w, (weir_site_options){.root = path_in(&w, "none")}), -ENOENT);
	assert_non_null(strstr(weir_error(), "none"));
	assert_int_equal(try_site(&w, (weir_site_options){.root = path_in(&w, "file")}), -ENOTDIR);
	assert_int_equal(try_site(&w, (weir_site_options){0}), -EINVAL);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(try_site(&w, (weir_site_options){.root = w.root, .index = bad[i]}), -EINVAL);
	assert_int_equal(try_site(&w, (weir_site_options){.root = w.root, .types = "/none"}), -ENOENT);
	assert_true(try_site(&w, (weir_site_options){.root = w.root, .name = "site"}) < 0);
	for (uint64_t i = 1; i <= 3; i++) {
		weir_mem_fail_after(i);
		int error = try_site(&w, (weir_site_options){.root = w.root});
		weir_mem_fail_after(0);
		assert_int_equal(error, -ENOMEM);
	}
	assert_int_equal(weir_mem_live(), live);
	weir_site_free(&w.site);
	weir_cache_free(&w.cache);
	weir_files_free(&w.files);
	weir_world_free(&w.world);
	nftw(w.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Whichever allocation fails while a file is loaded: an answer comes, and nothing is lost. */
static void loads_without_memory(void **state)
{
	skip_without(state);
	web w = {.site_options = {.precompressed = true, .listing = true},
		 .cache_options = {.file_bytes = 10}};
	static const char *const paths[] = {"/a", "/large", "/d", "/d/", "/none"};
	web_folder(&w);
	make_folder(&w, "d");
	put_text(&w, "a", "text");
	put_text(&w, "a.gz", "GZ");
	put_text(&w, "large", "more than ten bytes");
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		for (uint64_t nth = 1; nth <= 24; nth++) {
			web v = w;
			web_start(&v);
			int fd = dial(&v);
			char text[128];
			snprintf(text, sizeof(text),
				 "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", paths[i]);
			weir_mem_fail_after(nth);
			say(fd, text);
			answer a = hear(fd);
			weir_mem_fail_after(0);
			/* 0: there was none even for the connection. */
			if (a.status != 200 && a.status != 301 && a.status != 404 && a.status != 503 &&
			    a.status != 0)
				fail_msg("%s, allocation %d: %s", paths[i], (int)nth, a.text);
			free(a.text);
			close(fd);
			web_stop(&v);
		}
	web_start(&w);
	web_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(serves_a_file),
		ON_BOTH(hits_do_not_reach_the_disk),
		ON_BOTH(empty_files_and_odd_names),
		ON_BOTH(methods),
		ON_BOTH(files_of_any_size),
		ON_BOTH(conditions_and_ranges),
		ON_BOTH(pipelined),
		ON_BOTH(pipelined_of_all_sizes),
		ON_BOTH(index_files),
		ON_BOTH(folders_are_redirected),
		ON_BOTH(listings),
		ON_BOTH(long_listings_are_cut),
		ON_BOTH(traversal),
		ON_BOTH(links),
		ON_BOTH(names_with_dots),
		ON_BOTH(what_is_no_file),
		ON_BOTH(what_may_not_be_read),
		ON_BOTH(long_and_deep_names),
		ON_BOTH(variants),
		ON_BOTH(variants_only_where_wanted),
		ON_BOTH(changed_files_are_seen),
		ON_BOTH(what_is_unsure_is_read_again),
		ON_BOTH(links_turned_outwards),
		ON_BOTH(kept_for_its_time),
		ON_BOTH(replaced_while_it_is_sent),
		ON_BOTH(truncated_while_it_is_sent),
		ON_BOTH(one_load_at_a_time),
		ON_BOTH(clients_that_leave),
		ON_BOTH(more_than_the_disk_takes),
		ON_BOTH(sites_share_the_cache),
		ON_BOTH(options_that_are_wrong),
		ON_BOTH(loads_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
