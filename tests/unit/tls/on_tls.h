/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ON_TLS_H
#define TESTS_ON_TLS_H

/*
 * A server of a test: a world with a reactor domain, the stage "handshake", a listener, and behind each connection a small protocol on a weir_link that
 * does what the server's mode says and counts what it is told. Clients are OpenSSL's on blocking sockets of the test.
 */

#include "support/check.h"
#include "support/on_both.h"
#include "support/tls_certificates.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weir/inspect.h>

#include "base/mem.h"
#include "tls/priv.h"

enum mode {
	ECHO,      /* sends back what comes, pausing where it does not fit */
	SEND,      /* sends server.amount bytes of a pattern once ready, then closes */
	SEND_FILE, /* the same from server.file */
	SILENT,    /* takes everything */
	FAREWELL,  /* says "bye" at the end of what comes, then closes */
	HANG_UP,   /* closes when ready */
	ABORT,     /* aborts in data */
	LATE,      /* closes whoever is not ready when server.patience_ns are over */
	TOLD,      /* writes when a post of the test says so, outside of its own calls */
	HOLD,      /* pauses in the first data call; a post to the loop resumes */
	CHUNKED,   /* as SEND, without heeding its bound: too much at once first */
	MODES
};

typedef struct server {
	const char *backend;
	weir_world *world;
	weir_domain *domain;
	weir_stage *stage;
	weir_tls *tls;
	weir_listener *listener;
	weir_conn_ops ops;
	struct sockaddr_in address;
	enum mode mode;
	size_t amount;
	int file;
	uint64_t patience_ns;
	uint32_t output_bytes, capacity, threads;
	uint64_t turn_ns;
	bool narrow; /* small buffers in the kernel, so that output soon waits */

	/* what happened, on all connections */
	_Atomic int opened, ready, closed, eofs, drains, resumed, h2, refused, paused, overs, timeouts,
		overfull;
	_Atomic int last_why;
	_Atomic size_t bytes, most_waiting, data_while_paused;
	/* of the last that got ready, or was closed: server_text */
	pthread_mutex_t lock;
	char subject[256], error[128];
	struct peer *_Atomic holder;
} server;

typedef struct peer {
	weir_link link;
	server *at;
	weir_buf *held;
	size_t held_at, held_length;
	size_t sent;
	bool paused, done;
	weir_timer timer;
	weir_post post;
} peer;

static inline uint8_t pattern_byte(size_t at)
{
	return (uint8_t)(at * 31 + at / 253 + at / 65537);
}

static inline void most_of(_Atomic size_t *most, size_t value)
{
	if (value > atomic_load(most))
		atomic_store(most, value);
}

static inline peer *peer_of(weir_link *link)
{
	return (peer *)(void *)link;
}

static inline void note(server *at, char *into, size_t size, const char *text)
{
	pthread_mutex_lock(&at->lock);
	snprintf(into, size, "%s", text);
	pthread_mutex_unlock(&at->lock);
}

/* A copy of at->subject or at->error. */
static inline const char *server_text(server *at, const char *which)
{
	static char text[256];
	pthread_mutex_lock(&at->lock);
	snprintf(text, sizeof(text), "%s", which);
	pthread_mutex_unlock(&at->lock);
	return text;
}

/* ---- sending a pattern within the bound ---- */

/* Large pieces in a buffer, which the session may hold; small ones as bytes, which it copies. */
static inline int peer_put(peer *p, const uint8_t *bytes, size_t length)
{
	if (length < 4096)
		return weir_link_write(&p->link, bytes, length);
	weir_buf *buf = weir_buf_new(length + 100);
	memcpy(buf->data + 100, bytes, length);
	buf->length = (uint32_t)length + 100;
	int error = weir_link_send(&p->link, buf, 100, length);
	weir_buf_unref(buf);
	return error;
}

static inline void peer_send(peer *p)
{
	uint8_t piece[20000];
	while (p->sent < p->at->amount && !p->done) {
		size_t length = p->at->amount - p->sent;
		size_t step = p->sent % 3 == 0 ? sizeof(piece) : 700 + p->sent % 1000;
		length = length < step ? length : step;
		for (size_t i = 0; i < length; i++)
			piece[i] = pattern_byte(p->sent + i);
		int error = peer_put(p, piece, length);
		most_of(&p->at->most_waiting, weir_link_output(&p->link));
		if (error == -ENOBUFS) {
			p->at->refused++;
			return;
		}
		if (error != 0) {
			p->done = true;
			return;
		}
		p->sent += length;
	}
	if (!p->done)
		weir_link_close(&p->link);
	p->done = true;
}

static void file_over(void *arg)
{
	server *at = arg;
	at->overs++;
}

static inline void peer_send_file(peer *p)
{
	if (weir_link_write(&p->link, "head", 4) != 0 ||
	    weir_link_send_file(&p->link, p->at->file, 0, p->at->amount, file_over, p->at) != 0 ||
	    weir_link_write(&p->link, "tail", 4) != 0)
		abort();
	weir_link_close(&p->link);
}

/* ---- what the link is told ---- */

static void peer_ready(weir_link *link)
{
	peer *p = peer_of(link);
	server *at = p->at;
	note(at, at->subject, sizeof(at->subject), weir_tls_subject(link));
	if (weir_tls_resumed(link))
		at->resumed++;
	if (weir_tls_is_h2(link))
		at->h2++;
	at->ready++;
	weir_timer_stop(&p->timer);
	if (at->mode == CHUNKED) {
		static uint8_t much[4 * 1024 * 1024];
		if (weir_link_write(link, much, at->output_bytes + 1) != -ENOBUFS)
			abort();
		at->refused++;
		return; /* drained must come */
	}
	if (at->mode == SEND)
		peer_send(p);
	else if (at->mode == SEND_FILE)
		peer_send_file(p);
	else if (at->mode == HANG_UP)
		weir_link_close(link);
	else if (at->mode == TOLD)
		at->holder = p;
}

static inline void peer_echo(peer *p, weir_buf *buf, size_t offset, size_t length)
{
	int error = weir_link_write(&p->link, buf->data + offset, length);
	most_of(&p->at->most_waiting, weir_link_output(&p->link));
	if (error != -ENOBUFS)
		return;
	p->at->refused++;
	p->at->paused++;
	p->held = weir_buf_ref(buf);
	p->held_at = offset;
	p->held_length = length;
	p->paused = true;
	weir_link_pause(&p->link);
}

static void peer_resume(weir_post *post, void *arg)
{
	peer *p = arg;
	p->paused = false;
	weir_link_resume(&p->link);
}

static inline void peer_hold(peer *p)
{
	if (p->at->holder != NULL)
		return;
	p->paused = true;
	p->at->holder = p;
	p->at->paused++;
	weir_link_pause(&p->link);
}

static void peer_data(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	peer *p = peer_of(link);
	if (p->paused)
		p->at->data_while_paused++;
	p->at->bytes += length;
	if (p->at->mode == ECHO)
		peer_echo(p, buf, offset, length);
	else if (p->at->mode == ABORT)
		weir_conn_abort(link->conn, -ECANCELED);
	else if (p->at->mode == HOLD)
		peer_hold(p);
}

static void peer_eof(weir_link *link)
{
	peer *p = peer_of(link);
	p->at->eofs++;
	if (p->at->mode == FAREWELL)
		weir_link_write(link, "bye", 3);
	weir_link_close(link);
}

static void peer_drained(weir_link *link)
{
	peer *p = peer_of(link);
	p->at->drains++;
	if (p->at->mode == SEND || p->at->mode == CHUNKED)
		peer_send(p);
	if (p->held == NULL)
		return;
	weir_buf *held = p->held;
	p->held = NULL;
	p->paused = false;
	weir_link_resume(link);
	peer_echo(p, held, p->held_at, p->held_length);
	weir_buf_unref(held);
}

static void peer_closed(weir_link *link, int why)
{
	peer *p = peer_of(link);
	server *at = p->at;
	note(at, at->error, sizeof(at->error), weir_tls_error(link));
	weir_timer_stop(&p->timer);
	weir_buf_unref(p->held);
	weir_tls_session_free(link);
	free(p);
	at->overfull += why == -ENOBUFS;
	at->last_why = why;
	at->closed++;
}

static const weir_link_ops peer_ops = {.ready = peer_ready,
				       .data = peer_data,
				       .eof = peer_eof,
				       .drained = peer_drained,
				       .closed = peer_closed};

/* ---- the server ---- */

static void peer_late(weir_timer *timer, void *arg)
{
	peer *p = arg;
	if (weir_tls_is_ready(&p->link))
		abort();
	p->at->timeouts++;
	weir_link_close(&p->link);
}

static int peer_open(weir_conn *conn, void *arg)
{
	server *at = arg;
	peer *p = calloc(1, sizeof(*p));
	p->at = at;
	p->link = (weir_link){.conn = conn, .ops = &peer_ops};
	p->post = (weir_post){.run = peer_resume, .arg = p};
	weir_conn_set_user(conn, &p->link);
	weir_timer_init(&p->timer, peer_late, p);
	at->opened++;
	int size = 64 * 1024;
	if (at->narrow)
		setsockopt(weir_conn_fd(conn), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	int error = weir_tls_accept(&p->link, at->tls, at->stage, at->output_bytes);
	if (error == 0 && at->mode == LATE) {
		weir_loop *loop = weir_conn_loop(conn);
		weir_timer_start(loop, &p->timer, weir_loop_now(loop) + at->patience_ns);
	}
	return error;
}

static inline void server_listen(server *at)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_storage got;
	at->ops = weir_tls_conn_ops;
	at->ops.open = peer_open;
	weir_listen_options options = {.address = (struct sockaddr *)&any,
				       .address_length = sizeof(any),
				       .ops = &at->ops,
				       .arg = at};
	assert_int_equal(weir_listen(at->domain, &options, &at->listener), 0);
	assert_int_equal(weir_listener_address(at->listener, NULL, 0, &got), 0);
	memcpy(&at->address, &got, sizeof(at->address));
}

/* What is set in it stays; the rest gets defaults: a single certificate, one thread. */
static inline void server_start_with(server *at, const char *backend, const weir_tls_options *options)
{
	setenv("WEIR_LOOP", backend, 1);
	at->backend = backend;
	assert_int_equal(weir_tls_new(options, &at->tls), 0);
	assert_int_equal(weir_world_new(NULL, &at->world), 0);
	weir_domain_options domain = {.name = "loops",
				      .kind = WEIR_REACTOR,
				      .threads = at->threads != 0 ? at->threads : 1,
				      .turn_ns = at->turn_ns};
	assert_int_equal(weir_domain_new(at->world, &domain, &at->domain), 0);
	assert_int_equal(weir_tls_stage_new(at->domain, at->capacity != 0 ? at->capacity : 256, &at->stage),
			 0);
	if (weir_world_start(at->world) != 0) {
		weir_world_free(&at->world);
		weir_tls_unref(at->tls);
		skip();
	}
	server_listen(at);
}

static inline void server_start(server *at, const char *backend)
{
	weir_tls_certificate certificate = {certificates.a, certificates.a_key};
	weir_tls_options options = {.certificates = &certificate, .certificate_count = 1};
	server_start_with(at, backend, &options);
}

/* Everything that was opened is closed, and the counts add up. */
static inline void server_stop(server *at)
{
	weir_listener_free(&at->listener);
	assert_int_equal(atomic_load(&at->opened), atomic_load(&at->closed));
	assert_int_equal(weir_world_stop(at->world, 60 * WEIR_NS_PER_S, NULL), 0);
	assert_int_equal(weir_world_check(at->world), 0);
	weir_world_free(&at->world);
	weir_tls_unref(at->tls);
}

static inline weir_stage_stats server_stats(const server *at)
{
	weir_stage_stats stats;
	weir_stage_read(at->stage, WEIR_ALL_CLASSES, &stats);
	return stats;
}

/* ---- clients ---- */

/* Without time-outs: with one, the kernel ends a wait whenever it has work for a ring that this thread has made. */
static inline int dial(const server *at)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&at->address, sizeof(at->address)), 0);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

static inline void say_bytes(int fd, const void *bytes, size_t length)
{
	assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
}

/* Reads up to the end, which must come; returns the bytes before it. A reset counts as an end. */
static inline size_t hear_to_end(int fd, void *into, size_t most)
{
	size_t got = 0;
	for (;;) {
		uint8_t waste[4096];
		ssize_t n = recv(fd, waste, sizeof(waste), 0);
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return got;
		assert_true(n > 0);
		for (ssize_t i = 0; i < n && got < most; i++)
			((uint8_t *)into)[got++] = waste[i];
	}
}

typedef struct client {
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;
} client;

typedef struct client_options {
	int version; /* TLS1_2_VERSION; 0: any */
	const char *name, *certificate, *key, *alpn;
	SSL_SESSION *session;
	bool small_buffers;
} client_options;

static inline void client_new(client *c, const server *at, const client_options *options)
{
	c->ctx = SSL_CTX_new(TLS_client_method());
	if (options->version != 0) {
		SSL_CTX_set_min_proto_version(c->ctx, options->version);
		SSL_CTX_set_max_proto_version(c->ctx, options->version);
	}
	assert_int_equal(SSL_CTX_load_verify_file(c->ctx, certificates.ca), 1);
	if (options->certificate != NULL) {
		assert_int_equal(SSL_CTX_use_certificate_chain_file(c->ctx, options->certificate), 1);
		assert_int_equal(SSL_CTX_use_PrivateKey_file(c->ctx, options->key, SSL_FILETYPE_PEM), 1);
	}
	if (options->alpn != NULL)
		SSL_CTX_set_alpn_protos(c->ctx, (const unsigned char *)options->alpn,
					(unsigned)strlen(options->alpn));
	c->ssl = SSL_new(c->ctx);
	if (options->name != NULL)
		SSL_set_tlsext_host_name(c->ssl, options->name);
	if (options->session != NULL)
		assert_int_equal(SSL_set_session(c->ssl, options->session), 1);
	c->fd = dial(at);
	if (options->small_buffers) {
		int size = 128 * 1024;
		setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	}
	SSL_set_fd(c->ssl, c->fd);
}

static inline int client_connect(client *c, const server *at, const client_options *options)
{
	client_new(c, at, options);
	ERR_clear_error();
	return SSL_connect(c->ssl);
}

static inline void client_free(client *c)
{
	SSL_free(c->ssl);
	SSL_CTX_free(c->ctx);
	close(c->fd);
}

static inline void client_say(client *c, const void *bytes, size_t length)
{
	assert_int_equal(SSL_write(c->ssl, bytes, (int)length), (int)length);
}

static inline void client_hear(client *c, void *into, size_t length)
{
	size_t got = 0;
	while (got < length) {
		int n = SSL_read(c->ssl, (char *)into + got, (int)(length - got));
		assert_true(n > 0);
		got += (size_t)n;
	}
}

static inline void client_echo(client *c, const char *text)
{
	char answer[64];
	client_say(c, text, strlen(text));
	client_hear(c, answer, strlen(text));
	assert_memory_equal(answer, text, strlen(text));
}

/* Both sides say that this is all. */
static inline void client_bye(client *c)
{
	char waste[4096];
	SSL_shutdown(c->ssl);
	while (SSL_read(c->ssl, waste, sizeof(waste)) > 0)
		;
	assert_int_equal(SSL_get_error(c->ssl, 0), SSL_ERROR_ZERO_RETURN);
	client_free(c);
}

/* ---- both back ends ---- */

static int tls_setup(void **state)
{
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

#define ON_BOTH(test) ON_BOTH_LOOPS(test, tls_setup, NULL)

#endif
