/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ON_SITE_H
#define TESTS_ON_SITE_H

/*
 * A site under test: a server whose only route leads to a sentry, on reactor threads of its own. The test plays its clients and its backends, with plain sockets that block; every wait has
 * a generous bound.
 */

#include "support/check.h"
#include "support/on_both.h"
#include "support/worlds.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "sentry/sentry.h"

#define BACKENDS   3
#define PATIENCE_S 30

/* The back end that a test is to run on. */
#define ON(state) ((const char *)*(state))

static inline int have_backend(void **state)
{
	weir_loop *loop = NULL;
	setenv("WEIR_LOOP", *state, 1);
	if (weir_loop_new(&loop) != 0)
		return -1;
	weir_loop_free(&loop);
	return 0;
}

#define ON_BOTH(test) ON_BOTH_LOOPS(test, have_backend, NULL)

typedef struct site {
	weir_world *world;
	weir_domain *domain;
	weir_sentry *sentry;
	weir_routes *routes;
	weir_http *http;
	uint16_t port;
	int listener[BACKENDS];
	uint16_t backend_port[BACKENDS];
	/* the access log */
	pthread_mutex_t lock;
	unsigned logged, status;
	char note[256];
	bool gone;
} site;

typedef struct site_options {
	uint32_t threads;            /* 0: 1 */
	uint32_t backends;           /* 0: 1 */
	weir_origin_options backend; /* with a ca: https */
	const char *host;            /* of the backends; NULL: 127.0.0.1 */
	weir_sentry_options sentry;
	weir_http_limits limits;
	size_t collect_bytes;
	const char *const *trusted; /* proxies in front */
} site_options;

static void site_log(const weir_http_record *record, void *arg)
{
	site *s = arg;
	pthread_mutex_lock(&s->lock);
	s->status = record->status;
	s->gone = record->gone;
	snprintf(s->note, sizeof(s->note), "%.*s", (int)record->note.length,
		 record->note.length > 0 ? record->note.at : "");
	s->logged++;
	pthread_mutex_unlock(&s->lock);
}

static inline unsigned site_logged(site *s)
{
	pthread_mutex_lock(&s->lock);
	unsigned logged = s->logged;
	pthread_mutex_unlock(&s->lock);
	return logged;
}

static inline struct sockaddr_in site_address(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static inline void be_patient(int fd)
{
	struct timeval bound = {.tv_sec = PATIENCE_S};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound));
	int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static inline int site_listen(uint16_t *ret_port)
{
	struct sockaddr_in any = site_address(*ret_port);
	socklen_t length = sizeof(any);
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &length), 0);
	*ret_port = ntohs(any.sin_port);
	be_patient(fd);
	return fd;
}

static inline void site_open(site *s, const char *backend, site_options options)
{
	weir_origin_options backends[BACKENDS];
	char url[BACKENDS][64];
	struct sockaddr_storage address;
	struct sockaddr_in any = site_address(0);
	memset(s, 0, sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	setenv("WEIR_LOOP", backend, 1);
	s->world = world_real();
	s->domain = domain_reactor(s->world, "reactor", options.threads != 0 ? options.threads : 1);
	uint32_t count = options.backends != 0 ? options.backends : 1;
	for (uint32_t i = 0; i < BACKENDS; i++)
		s->listener[i] = -1;
	for (uint32_t i = 0; i < count; i++) {
		s->listener[i] = site_listen(&s->backend_port[i]);
		snprintf(url[i], sizeof(url[i]), "http%s://%s:%u", options.backend.ca != NULL ? "s" : "",
			 options.host != NULL ? options.host : "127.0.0.1", s->backend_port[i]);
		backends[i] = options.backend;
		backends[i].url = url[i];
	}
	options.sentry.backends = backends;
	options.sentry.backend_count = count;
	must(weir_sentry_new(s->domain, &options.sentry, &s->sentry));
	must(weir_routes_new(&s->routes));
	must(weir_routes_add(s->routes, &(weir_route_options){.name = "all",
							      .stage = weir_sentry_stage(s->sentry),
							      .klass = -1,
							      .collect_bytes = options.collect_bytes}));
	must(weir_http_new(&(weir_http_options){.domain = s->domain,
						.routes = s->routes,
						.limits = options.limits,
						.log = site_log,
						.log_arg = s},
			   &s->http));
	must(weir_world_start(s->world));
	must(weir_sentry_start(s->sentry));
	unsigned number;
	must(weir_http_add_listener(s->http,
				    &(weir_http_listen){.address = (struct sockaddr *)&any,
							.address_length = sizeof(any),
							.trusted = options.trusted},
				    &number));
	must(weir_http_address(s->http, number, NULL, 0, &address));
	s->port = ntohs(((struct sockaddr_in *)(void *)&address)->sin_port);
}

static inline void site_close(site *s)
{
	weir_stop_report report;
	assert_int_equal(weir_world_stop(s->world, 5 * WEIR_NS_PER_S, &report), 0);
	assert_int_equal(report.faults, 0);
	weir_http_free(&s->http);
	weir_routes_unref(s->routes);
	for (uint32_t i = 0; i < weir_sentry_backends(s->sentry); i++) {
		weir_sentry_backend_stats stats;
		if (!weir_sentry_read_backend(s->sentry, i, 0, &stats))
			continue;
		assert_int_equal(stats.in_flight, 0);
		assert_int_equal(stats.open, 0);
	}
	weir_sentry_free(&s->sentry);
	weir_world_free(&s->world);
	for (uint32_t i = 0; i < BACKENDS; i++)
		if (s->listener[i] >= 0)
			close(s->listener[i]);
	pthread_mutex_destroy(&s->lock);
}

static inline weir_proxy_stats site_stats(const site *s)
{
	weir_proxy_stats stats;
	uint64_t panics;
	weir_sentry_read_stats(s->sentry, &stats, &panics);
	return stats;
}

static inline weir_sentry_backend_stats site_backend(const site *s, uint32_t index)
{
	weir_sentry_backend_stats stats;
	assert_true(weir_sentry_read_backend(s->sentry, index, weir_world_now(s->world), &stats));
	return stats;
}

/* ---- sockets ---- */

static inline int visit(const site *s)
{
	struct sockaddr_in to = site_address(s->port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	be_patient(fd);
	/* An interrupted connect goes on by itself. */
	int error;
	do {
		error = connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 ? 0 : errno;
	} while (error == EINTR || error == EALREADY);
	assert_true(error == 0 || error == EISCONN);
	return fd;
}

/* A ring that was made on this thread may interrupt its system calls. */
#define AGAIN(result, call)    \
	do {                   \
		result = call; \
	} while (result < 0 && errno == EINTR)

/* The connection that a backend gets next. */
static inline int serve_next(const site *s, uint32_t index)
{
	int fd;
	AGAIN(fd, accept4(s->listener[index], NULL, NULL, SOCK_CLOEXEC));
	assert_true(fd >= 0);
	be_patient(fd);
	return fd;
}

static inline void tell(int fd, const char *text)
{
	ssize_t n;
	AGAIN(n, send(fd, text, strlen(text), MSG_NOSIGNAL));
	assert_int_equal(n, (ssize_t)strlen(text));
}

/* Reads up to and with the mark. The text stays valid until the next call. */
static inline const char *listen_for(int fd, const char *mark)
{
	static char text[65536];
	size_t length = 0;
	while (length < sizeof(text) - 1) {
		/* Byte by byte: what comes after the mark is another's. */
		ssize_t n;
		AGAIN(n, recv(fd, text + length, 1, 0));
		text[length + (n > 0)] = '\0';
		if (n <= 0)
			fail_msg("waited for '%s', heard '%s'", mark, text);
		length++;
		if (length >= strlen(mark) && memcmp(text + length - strlen(mark), mark, strlen(mark)) == 0)
			return text;
	}
	fail_msg("too much before '%s'", mark);
	return NULL;
}

#define hear_head(fd) listen_for(fd, "\r\n\r\n")

static inline void must_hear(int fd, const char *text)
{
	char got[4096] = "";
	size_t length = 0;
	while (length < strlen(text)) {
		ssize_t n;
		AGAIN(n, recv(fd, got + length, strlen(text) - length, 0));
		if (n <= 0)
			fail_msg("waited for '%s', heard '%s'", text, got);
		length += (size_t)n;
	}
	assert_string_equal(got, text);
}

/* The peer ends the connection, in good order or not; what comes before is thrown away. */
static inline void must_end(int fd)
{
	char waste[65536];
	ssize_t n;
	do {
		AGAIN(n, recv(fd, waste, sizeof(waste), 0));
	} while (n > 0);
	assert_true(n == 0 || errno == ECONNRESET);
}

__attribute__((noinline, unused)) static void must_not_contain(const char *text, const char *word)
{
	if (strcasestr(text, word) != NULL)
		fail_msg("'%s' should not contain '%s'", text, word);
}

#endif
