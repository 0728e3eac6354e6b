/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ON_H2_H
#define TESTS_ON_H2_H

/*
 * Clients of HTTP/2 for tests against a site (on_http.h): one that speaks it well, by nghttp2, on the test's own thread; and frames made by hand for those that do not.
 */

#include "support/on_http.h"

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

#define H2_ANSWERS 512
#define H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

typedef struct h2_answer {
	int32_t id;
	unsigned status, interims;
	char head[1024], trailers[512]; /* "name: value\n" each */
	char *body;
	size_t length;
	bool ended, closed; /* END_STREAM came; the stream is over */
	uint32_t code;
	unsigned order; /* the how manieth to end */
	/* what the client sends */
	size_t upload;      /* bytes left */
	bool upload_stalls; /* after those no end */
	bool upload_trails;
} h2_answer;

typedef struct h2_client {
	int fd;
	SSL *ssl;
	SSL_CTX *ctx;
	nghttp2_session *session;
	h2_answer answers[H2_ANSWERS]; /* by order of asking */
	unsigned count, ended, closed;
	bool keeps_window; /* gives nothing back */
	bool gone;         /* the server has closed */
	bool settled;      /* its settings came */
	unsigned goaways;
	uint32_t goaway_code;
	int32_t goaway_last;
	size_t received; /* bytes of DATA */
	uint8_t pending[65536];
	size_t pending_at, pending_end;
} h2_client;

static inline h2_answer *h2_find(h2_client *c, int32_t id)
{
	for (unsigned i = 0; i < c->count; i++)
		if (c->answers[i].id == id)
			return &c->answers[i];
	return NULL;
}

static int h2_on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
			size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags,
			void *user)
{
	h2_answer *a = h2_find(user, frame->hd.stream_id);
	char *to = frame->headers.cat == NGHTTP2_HCAT_HEADERS && a->status >= 200 && a->status != 999
			   ? a->trailers
			   : a->head;
	size_t size = to == a->head ? sizeof(a->head) : sizeof(a->trailers), used = strlen(to);
	if (name_length == 7 && memcmp(name, ":status", 7) == 0) {
		a->status = (unsigned)atoi((const char *)value);
		a->interims += a->status < 200;
	} else {
		snprintf(to + used, size - used, "%s: %s\n", (const char *)name, (const char *)value);
	}
	return 0;
}

static int h2_on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
		      size_t length, void *user)
{
	h2_client *c = user;
	h2_answer *a = h2_find(c, id);
	a->body = realloc(a->body, a->length + length + 1);
	memcpy(a->body + a->length, bytes, length);
	a->length += length;
	a->body[a->length] = '\0';
	c->received += length;
	if (!c->keeps_window)
		nghttp2_session_consume(session, id, length);
	return 0;
}

static int h2_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	h2_client *c = user;
	h2_answer *a = h2_find(c, frame->hd.stream_id);
	if (frame->hd.type == NGHTTP2_GOAWAY) {
		c->goaways++;
		c->goaway_code = frame->goaway.error_code;
		c->goaway_last = frame->goaway.last_stream_id;
	} else if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
		c->settled = true;
	} else if (a != NULL && (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
		   frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
		a->ended = true;
		a->order = ++c->ended;
	}
	return 0;
}

static int h2_on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
	h2_client *c = user;
	h2_answer *a = h2_find(c, id);
	if (a == NULL)
		return 0;
	a->closed = true;
	a->code = code;
	c->closed++;
	return 0;
}

/* ---- opening ---- */

static inline void h2_session(h2_client *c, uint32_t window)
{
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window},
					     {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}};
	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, h2_on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, h2_on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, h2_on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, h2_on_close);
	nghttp2_option_new(&option);
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_peer_max_concurrent_streams(option, 1000);
	assert_int_equal(nghttp2_session_client_new2(&c->session, callbacks, c, option), 0);
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_submit_settings(c->session, 0, settings, 2);
}

static inline h2_client *h2_open(site *s, uint32_t window)
{
	h2_client *c = calloc(1, sizeof(*c));
	c->fd = dial(s);
	h2_session(c, window);
	return c;
}

static inline void h2_end(h2_client *c)
{
	if (c->session != NULL)
		nghttp2_session_del(c->session);
	for (unsigned i = 0; i < c->count; i++)
		free(c->answers[i].body);
	SSL_free(c->ssl);
	SSL_CTX_free(c->ctx);
	close(c->fd);
	free(c);
}

/* ---- moving bytes ---- */

static inline ssize_t h2_transport_send(h2_client *c, const void *bytes, size_t length)
{
	if (c->ssl == NULL)
		return send(c->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
	int sent = SSL_write(c->ssl, bytes, (int)length);
	errno = sent > 0 || SSL_get_error(c->ssl, sent) == SSL_ERROR_WANT_WRITE ? EAGAIN : EPIPE;
	return sent > 0 ? sent : -1;
}

static inline ssize_t h2_transport_receive(h2_client *c, void *into, size_t most)
{
	if (c->ssl == NULL)
		return recv(c->fd, into, most, MSG_DONTWAIT);
	int got = SSL_read(c->ssl, into, (int)most);
	if (got > 0)
		return got;
	errno = EAGAIN;
	return SSL_get_error(c->ssl, got) == SSL_ERROR_WANT_READ ? -1 : 0;
}

static inline void h2_send_some(h2_client *c)
{
	for (;;) {
		if (c->pending_at == c->pending_end) {
			const uint8_t *bytes;
			ssize_t length = nghttp2_session_mem_send(c->session, &bytes);
			assert_true(length >= 0 && (size_t)length <= sizeof(c->pending));
			if (length == 0)
				return;
			memcpy(c->pending, bytes, (size_t)length);
			c->pending_at = 0;
			c->pending_end = (size_t)length;
		}
		ssize_t sent =
			h2_transport_send(c, c->pending + c->pending_at, c->pending_end - c->pending_at);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0) {
			c->gone |= errno != EAGAIN && errno != EPIPE && errno != ECONNRESET;
			if (errno != EAGAIN)
				c->pending_at = c->pending_end;
			return;
		}
		c->pending_at += (size_t)sent;
	}
}

static inline void h2_receive_some(h2_client *c)
{
	uint8_t bytes[16384];
	ssize_t got;
	while ((got = h2_transport_receive(c, bytes, sizeof(bytes))) > 0)
		if (nghttp2_session_mem_recv(c->session, bytes, (size_t)got) < 0)
			fail_msg("the server's frames are wrong");
	c->gone |= got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

static inline void h2_step(h2_client *c)
{
	struct pollfd ready = {.fd = c->fd, .events = POLLIN};
	h2_send_some(c);
	if (c->pending_at < c->pending_end)
		ready.events |= POLLOUT;
	poll(&ready, 1, 5);
	h2_receive_some(c);
	h2_send_some(c);
}

/* Turns until it is true; the bound only ends a broken test. */
#define H2_UNTIL(c, condition)                                                                        \
	do {                                                                                          \
		unsigned turns_ = 0;                                                                  \
		while (!(condition) && !(c)->gone && ++turns_ < 12000)                                \
			h2_step(c);                                                                   \
		if (!(condition))                                                                     \
			fail_msg("never came true%s: %s", (c)->gone ? " before the server left" : "", \
				 #condition);                                                         \
	} while (0)

#define H2_UNTIL_GONE(c)                                                          \
	do {                                                                      \
		for (unsigned turns_ = 0; !(c)->gone && turns_ < 12000; turns_++) \
			h2_step(c);                                               \
		assert_true((c)->gone);                                           \
	} while (0)

/* ---- asking ---- */

static inline nghttp2_nv h2_pair(const char *name, const char *value)
{
	return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
			    strlen(value), 0};
}

static ssize_t h2_upload(nghttp2_session *session, int32_t id, uint8_t *into, size_t length, uint32_t *flags,
			 nghttp2_data_source *source, void *user)
{
	h2_answer *a = source->ptr;
	if (a->upload == 0 && a->upload_stalls)
		return NGHTTP2_ERR_DEFERRED;
	size_t part = a->upload < length ? a->upload : length;
	memset(into, 'u', part);
	a->upload -= part;
	if (a->upload == 0 && !a->upload_stalls) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (a->upload_trails) {
			nghttp2_nv trailer = h2_pair("x-sum", "42");
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			nghttp2_submit_trailer(session, id, &trailer, 1);
		}
	}
	return (ssize_t)part;
}

/* ---- one request; extra: pairs of name and value, ended by NULL ---- */

static inline h2_answer *h2_ask_with(h2_client *c, const char *method, const char *path,
				     const char *const *extra, bool body, h2_answer how)
{
	nghttp2_nv pairs[32] = {h2_pair(":method", method), h2_pair(":scheme", "http"),
				h2_pair(":path", path), h2_pair(":authority", "a")};
	size_t count = 4;
	for (; extra != NULL && extra[0] != NULL; extra += 2)
		pairs[count++] = h2_pair(extra[0], extra[1]);
	assert_true(c->count < H2_ANSWERS);
	h2_answer *a = &c->answers[c->count++];
	*a = how;
	nghttp2_data_provider provider = {.source.ptr = a, .read_callback = h2_upload};
	a->id = nghttp2_submit_request(c->session, NULL, pairs, count, body ? &provider : NULL, NULL);
	assert_true(a->id > 0);
	return a;
}

static inline h2_answer *h2_ask(h2_client *c, const char *path)
{
	return h2_ask_with(c, "GET", path, NULL, false, (h2_answer){0});
}

static inline h2_answer *h2_post(h2_client *c, const char *path, size_t length)
{
	return h2_ask_with(c, "POST", path, NULL, true, (h2_answer){.upload = length});
}

static inline h2_answer *h2_get(h2_client *c, const char *path)
{
	h2_answer *a = h2_ask(c, path);
	H2_UNTIL(c, a->closed);
	return a;
}

/* ---- frames by hand ---- */

typedef struct frames {
	uint8_t bytes[1 << 17];
	size_t length;
} frames;

static inline void put_raw(frames *f, const void *bytes, size_t length)
{
	assert_true(f->length + length <= sizeof(f->bytes));
	memcpy(f->bytes + f->length, bytes, length);
	f->length += length;
}

static inline void put_frame(frames *f, uint8_t type, uint8_t flags, uint32_t id, const void *payload,
			     size_t length)
{
	const uint8_t head[9] = {
		(uint8_t)(length >> 16), (uint8_t)(length >> 8), (uint8_t)length,    type,       flags,
		(uint8_t)(id >> 24),     (uint8_t)(id >> 16),    (uint8_t)(id >> 8), (uint8_t)id};
	put_raw(f, head, 9);
	put_raw(f, payload, length);
}

/* The preface and empty settings. */
static inline void put_hello(frames *f)
{
	put_raw(f, H2_PREFACE, 24);
	put_frame(f, NGHTTP2_SETTINGS, 0, 0, "", 0);
}

/* A field as a literal, not indexed. */
static inline void put_field(frames *f, const char *name, const char *value)
{
	size_t name_length = strlen(name), value_length = strlen(value);
	uint8_t head[2] = {0, (uint8_t)name_length}, length = (uint8_t)value_length;
	assert_true(name_length < 127 && value_length < 127);
	put_raw(f, head, 2);
	put_raw(f, name, name_length);
	put_raw(f, &length, 1);
	put_raw(f, value, value_length);
}

/* HEADERS with these fields: pairs, ended by NULL. */
static inline void put_headers(frames *f, uint8_t flags, uint32_t id, const char *const *fields)
{
	frames *block = calloc(1, sizeof(*block));
	for (; fields[0] != NULL; fields += 2)
		put_field(block, fields[0], fields[1]);
	put_frame(f, NGHTTP2_HEADERS, flags, id, block->bytes, block->length);
	free(block);
}

#define H2_GET_FIELDS(path) ":method", "GET", ":scheme", "http", ":path", path, ":authority", "a"
#define FIELDS(...)         ((const char *const[]){__VA_ARGS__, NULL, NULL})
#define END_BOTH            (NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS)

/* What the server sent to a hand-made client, up to its end or a PING's acknowledgement. */
typedef struct replies {
	unsigned headers, resets, goaways, acks, settings;
	uint32_t reset_code, goaway_code, reset_id, goaway_last;
	char status[4];
	bool end;
} replies;

static inline uint32_t number_at(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline bool receive_all(int fd, uint8_t *into, size_t length)
{
	size_t have = 0;
	while (have < length) {
		ssize_t got = receive(fd, into + have, length - have);
		if (got <= 0)
			return false;
		have += (size_t)got;
	}
	return true;
}

/* For until_type: the first frame that tells what became of a stream. */
#define HEAR_FATE (-2)

static inline bool is_fate(uint8_t type)
{
	return type == NGHTTP2_HEADERS || type == NGHTTP2_RST_STREAM || type == NGHTTP2_GOAWAY;
}

/* Frames until one of that type and flag has come, or the end. */
static inline replies hear_frames(int fd, int until_type, uint8_t until_flags)
{
	replies r = {0};
	uint8_t head[9];
	static uint8_t payload[65536];
	for (;;) {
		if (!receive_all(fd, head, 9)) {
			r.end = true;
			return r;
		}
		size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
		assert_true(length <= sizeof(payload));
		if (!receive_all(fd, payload, length)) {
			r.end = true;
			return r;
		}
		switch (head[3]) {
		case NGHTTP2_HEADERS:
			r.headers++;
			break;
		case NGHTTP2_SETTINGS:
			r.settings++;
			break;
		case NGHTTP2_PING:
			r.acks += head[4] & NGHTTP2_FLAG_ACK;
			break;
		case NGHTTP2_RST_STREAM:
			r.resets++;
			r.reset_code = number_at(payload);
			r.reset_id = number_at(head + 5);
			break;
		case NGHTTP2_GOAWAY:
			r.goaways++;
			r.goaway_last = number_at(payload);
			r.goaway_code = number_at(payload + 4);
			break;
		default:
			break;
		}
		if (until_type == HEAR_FATE && is_fate(head[3]))
			return r;
		if (head[3] == until_type && (head[4] & until_flags) == until_flags)
			return r;
	}
}

/* Sends all of it, as far as the server lets it. */
static inline void say_frames(int fd, const frames *f)
{
	size_t at = 0;
	while (at < f->length) {
		ssize_t sent = send(fd, f->bytes + at, f->length - at, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return;
		at += (size_t)sent;
	}
}

static inline void put_ping(frames *f)
{
	put_frame(f, NGHTTP2_PING, 0, 0, "12345678", 8);
}

#endif
