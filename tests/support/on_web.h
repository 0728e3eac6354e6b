/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ON_WEB_H
#define TESTS_ON_WEB_H

/*
 * A site on a real server on loopback ("web"), with a temporary folder as its root, beside which another folder has what must never be served. Clients are plain sockets of the test.
 */

#include "support/on_both.h"
#include "support/worlds.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weir/file.h>
#include <weir/http.h>

#include "base/mem.h"
#include "file/priv.h"
#include "web/cache.h"

#define HOUR_NS (3600 * WEIR_NS_PER_S)

typedef struct web {
	/* set by the test before web_open */
	weir_cache_options cache_options; /* revalidate_ns 0: an hour */
	weir_site_options site_options;
	weir_files_options files_options;
	unsigned threads; /* 0: 1 */

	char dir[32], root[48];
	uint64_t live;
	weir_world *world;
	weir_domain *domain;
	weir_files *files;
	weir_cache *cache;
	weir_site *site;
	weir_routes *routes;
	weir_http *http;
	struct sockaddr_storage address;
} web;

/* ---- the folder ---- */

static inline const char *path_in(const web *w, const char *name)
{
	static _Thread_local char path[8][8192];
	static _Thread_local unsigned at;
	at = (at + 1) % 8;
	snprintf(path[at], sizeof(path[at]), "%s/%s", w->root, name);
	return path[at];
}

static inline void put_bytes(const web *w, const char *name, const void *bytes, size_t length)
{
	int fd = open(path_in(w, name), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, length), (ssize_t)length);
	close(fd);
}

static inline void put_text(const web *w, const char *name, const char *text)
{
	put_bytes(w, name, text, strlen(text));
}

/* As those do it who care: under another name, then renamed. */
static inline void replace(const web *w, const char *name, const char *text)
{
	put_text(w, ".new", text);
	assert_int_equal(rename(path_in(w, ".new"), path_in(w, name)), 0);
}

static inline void make_folder(const web *w, const char *name)
{
	assert_int_equal(mkdir(path_in(w, name), 0755), 0);
}

/* Its times become so many seconds before now. */
static inline void make_old(const web *w, const char *name, time_t seconds)
{
	struct timespec times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
	assert_int_equal(utimensat(AT_FDCWD, path_in(w, name), times, 0), 0);
}

static int remove_one(const char *path, const struct stat *stat, int what, struct FTW *ftw)
{
	return remove(path);
}

/* ---- the server ---- */

static inline void web_folder(web *w)
{
	strcpy(w->dir, "/tmp/weir-site-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->root, sizeof(w->root), "%s/root", w->dir);
	assert_int_equal(mkdir(w->root, 0755), 0);
	put_text(w, "../secret", "SECRET");
}

static inline void web_listen(web *w)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	weir_http_listen listen = {.address = (struct sockaddr *)&any, .address_length = sizeof(any)};
	must(weir_routes_new(&w->routes));
	must(weir_routes_add(
		w->routes,
		&(weir_route_options){.name = "all", .stage = weir_site_stage(w->site), .klass = -1}));
	must(weir_http_new(&(weir_http_options){.domain = w->domain, .routes = w->routes}, &w->http));
	must(weir_http_add_listener(w->http, &listen, NULL));
	must(weir_http_address(w->http, 0, NULL, 0, &w->address));
}

/* The folder is made by web_folder, perhaps with files in it. */
static inline void web_start(web *w)
{
	w->live = weir_mem_live();
	if (w->cache_options.revalidate_ns == 0)
		w->cache_options.revalidate_ns = HOUR_NS;
	if (w->site_options.name == NULL)
		w->site_options.name = "site";
	w->site_options.root = w->root;
	w->world = world_real();
	w->domain = domain_reactor(w->world, "reactor", w->threads != 0 ? w->threads : 1);
	must(weir_files_new(w->world, &w->files_options, &w->files));
	must(weir_cache_new(w->domain, w->files, &w->cache_options, &w->cache));
	must(weir_site_new(w->domain, w->cache, &w->site_options, &w->site));
	must(weir_world_start(w->world));
	web_listen(w);
}

static inline void web_open(web *w)
{
	web_folder(w);
	web_start(w);
}

static inline void web_stop(web *w)
{
	weir_stop_report report;
	weir_http_free(&w->http);
	weir_routes_unref(w->routes);
	must(weir_world_stop(w->world, 20 * WEIR_NS_PER_S, &report));
	assert_int_equal(report.faults, 0);
	weir_site_free(&w->site);
	weir_cache_free(&w->cache);
	assert_null(w->cache);
	weir_files_free(&w->files);
	weir_world_free(&w->world);
	assert_int_equal(weir_mem_live(), w->live);
}

static inline void web_end(web *w)
{
	web_stop(w);
	nftw(w->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline weir_cache_stats cache_stats(const web *w)
{
	weir_cache_stats stats;
	weir_cache_read_stats(w->cache, &stats);
	return stats;
}

/* Requests that the file layer has begun so far: what reaches the disk. */
static inline uint64_t file_requests(const web *w)
{
	weir_stage_stats stats;
	weir_stage_read(w->files->stage, WEIR_ALL_CLASSES, &stats);
	return stats.offered;
}

/* ---- clients ---- */

static inline int dial(const web *w)
{
	struct timeval patience = {.tv_sec = 30};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	assert_int_equal(connect(fd, (const struct sockaddr *)&w->address, sizeof(struct sockaddr_in)), 0);
	return fd;
}

static inline void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

typedef struct answer {
	int status;
	char *text; /* of all; NULs behind it */
	char *body;
	size_t body_length;
	bool whole; /* as long as its Content-Length says */
} answer;

/* The value of a field in a static place; "": none. */
static inline const char *field(const answer *a, const char *name)
{
	static _Thread_local char value[16384];
	char key[64];
	snprintf(key, sizeof(key), "\r\n%s: ", name);
	const char *at = strstr(a->text, key);
	value[0] = '\0';
	if (at != NULL && at < a->body) {
		at += strlen(key);
		size_t length = strcspn(at, "\r");
		memcpy(value, at, length);
		value[length] = '\0';
	}
	return value;
}

static inline answer hear(int fd)
{
	answer a = {0};
	size_t length = 0, room = 0;
	for (;;) {
		if (room - length < 65536)
			a.text = realloc(a.text, (room += room + 131072) + 16);
		ssize_t got = recv(fd, a.text + length, room - length, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		length += (size_t)got;
	}
	memset(a.text + length, 0, 16);
	a.body = memmem(a.text, length, "\r\n\r\n", 4);
	a.body = a.body != NULL ? a.body + 4 : a.text + length;
	a.body_length = length - (size_t)(a.body - a.text);
	a.status = length > 12 ? atoi(a.text + 9) : 0;
	a.whole = strtoull(field(&a, "Content-Length"), NULL, 10) == a.body_length;
	return a;
}

static inline answer ask_with(const web *w, const char *method, const char *path, const char *fields)
{
	size_t size = strlen(path) + strlen(fields) + 256;
	char *text = malloc(size);
	snprintf(text, size, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n", method, path,
		 fields);
	int fd = dial(w);
	say(fd, text);
	answer a = hear(fd);
	close(fd);
	free(text);
	return a;
}

static inline answer get(const web *w, const char *path)
{
	return ask_with(w, "GET", path, "");
}

static inline int status_for(const web *w, const char *method, const char *path, const char *fields)
{
	answer a = ask_with(w, method, path, fields);
	free(a.text);
	return a.status;
}

static inline int status_of_get(const web *w, const char *path)
{
	return status_for(w, "GET", path, "");
}

/* A whole 200 with this body. */
#define expect_body(w, path, wanted)                                                                     \
	do {                                                                                             \
		answer a_ = get(w, path);                                                                \
		if (a_.status != 200 || !a_.whole || a_.body_length != strlen(wanted) ||                 \
		    memcmp(a_.body, wanted, strlen(wanted)) != 0)                                        \
			fail_msg("%s:%d: %s: \"%.999s\" instead of \"%.99s\"", __FILE__, __LINE__, path, \
				 a_.text, wanted);                                                       \
		free(a_.text);                                                                           \
	} while (0)

#define expect_status(w, path, wanted) assert_int_equal(status_of_get(w, path), wanted)

/* ---- both back ends, and the pool of threads instead of the ring ---- */

static int on_site_setup(void **state)
{
	const char *backend = *state;
	setenv("WEIR_LOOP", backend, 1);
	weir_loop *loop = NULL;
	if (weir_loop_new(&loop) != 0)
		*state = NULL;
	weir_loop_free(&loop);
	return 0;
}

#define skip_without(state)           \
	do {                          \
		if (*(state) == NULL) \
			skip();       \
	} while (0)

#define ON_BOTH(test) ON_BOTH_LOOPS(test, on_site_setup, NULL)

#endif
