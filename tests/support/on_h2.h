/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ON_H2_H
#define TESTS_ON_H2_H

/*
 * A server of HTTP/2 without sockets, by nghttp2: what it is told is kept, stream by stream, and it answers when the test says so. And frames written by hand, for
 * what no server should send.
 */

#include "support/unit.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

enum { PEER_STREAMS = 256, PEER_TEXT = 128 };
#define PEER_NONE UINT32_MAX

/* A request that has come. */
typedef struct peer_stream {
	int32_t id;
	char method[16], path[PEER_TEXT], authority[PEER_TEXT], scheme[8];
	char te[16], cookie[PEER_TEXT], other[PEER_TEXT]; /* other: x-own */
	char trailer[PEER_TEXT];                          /* x-after */
	bool headed, ended, closed, has_connection;
	uint32_t code; /* it was closed with */
	size_t bytes;  /* of the body */
	const char *answer;
	size_t answer_left;
	bool answer_open; /* more of it may follow */
	const char *answer_trailer;
} peer_stream;

typedef struct h2_peer {
	nghttp2_session *session;
	peer_stream streams[PEER_STREAMS]; /* by number: 1, 3, 5 ... */
	unsigned count, pings, goaways, settings;
	uint32_t goaway_code;
	uint8_t *out; /* for the client */
	size_t out_length;
	bool keeps_window;
} h2_peer;

static inline peer_stream *peer_at(h2_peer *p, int32_t id)
{
	assert_in_range(id, 1, 2 * PEER_STREAMS - 1);
	return &p->streams[id / 2];
}

static inline void peer_keep(char *to, size_t size, const uint8_t *value, size_t length)
{
	snprintf(to, size, "%.*s", (int)length, (const char *)value);
}

static int peer_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		       size_t name_length, const uint8_t *value, size_t length, uint8_t flags, void *user)
{
	peer_stream *s = peer_at(user, frame->hd.stream_id);
	struct {
		const char *name;
		char *to;
		size_t size;
	} known[] = {{":method", s->method, sizeof(s->method)},
		     {":path", s->path, sizeof(s->path)},
		     {":authority", s->authority, sizeof(s->authority)},
		     {":scheme", s->scheme, sizeof(s->scheme)},
		     {"te", s->te, sizeof(s->te)},
		     {"cookie", s->cookie, sizeof(s->cookie)},
		     {"x-own", s->other, sizeof(s->other)},
		     {"x-after", s->trailer, sizeof(s->trailer)}};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strlen(known[i].name) == name_length && memcmp(known[i].name, name, name_length) == 0)
			peer_keep(known[i].to, known[i].size, value, length);
	s->has_connection |= name_length == 10 && memcmp(name, "connection", 10) == 0;
	return 0;
}

static int peer_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t length,
		     void *user)
{
	h2_peer *p = user;
	peer_at(p, id)->bytes += length;
	if (!p->keeps_window)
		nghttp2_session_consume(session, id, length);
	return 0;
}

static int peer_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	h2_peer *p = user;
	p->pings += frame->hd.type == NGHTTP2_PING && !(frame->hd.flags & NGHTTP2_FLAG_ACK);
	p->settings += frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK);
	if (frame->hd.type == NGHTTP2_GOAWAY) {
		p->goaways++;
		p->goaway_code = frame->goaway.error_code;
	}
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	peer_stream *s = peer_at(p, frame->hd.stream_id);
	if (frame->hd.type == NGHTTP2_HEADERS && !s->headed) {
		s->id = frame->hd.stream_id;
		s->headed = true;
		p->count++;
	}
	s->ended |= (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
	return 0;
}

static int peer_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
	peer_stream *s = peer_at(user, id);
	s->closed = true;
	s->code = code;
	return 0;
}

/* streams 0: it does not say how many; PEER_NONE: none. window: of each stream; 0: as usual. */
static inline void peer_init(h2_peer *p, uint32_t streams, uint32_t window)
{
	nghttp2_session_callbacks *calls;
	nghttp2_option *option;
	nghttp2_settings_entry entries[2];
	size_t count = 0;
	memset(p, 0, sizeof(*p));
	nghttp2_session_callbacks_new(&calls);
	nghttp2_session_callbacks_set_on_header_callback(calls, peer_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, peer_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(calls, peer_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(calls, peer_close);
	nghttp2_option_new(&option);
	nghttp2_option_set_no_auto_window_update(option, 1);
	assert_int_equal(nghttp2_session_server_new2(&p->session, calls, p, option), 0);
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(calls);
	if (streams != 0)
		entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
							    streams == PEER_NONE ? 0 : streams};
	if (window != 0)
		entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window};
	nghttp2_submit_settings(p->session, 0, entries, count);
}

static inline void peer_fini(h2_peer *p)
{
	nghttp2_session_del(p->session);
	free(p->out);
	p->session = NULL;
	p->out = NULL;
}

static inline void peer_add(h2_peer *p, const void *bytes, size_t length)
{
	p->out = realloc(p->out, p->out_length + length + 1);
	assert_non_null(p->out);
	memcpy(p->out + p->out_length, bytes, length);
	p->out_length += length;
}

/* What the server has to say goes to out. */
static inline void peer_speak(h2_peer *p)
{
	const uint8_t *bytes;
	ssize_t length;
	while ((length = nghttp2_session_mem_send(p->session, &bytes)) > 0)
		peer_add(p, bytes, (size_t)length);
}

/* Bytes of the client; whatever follows an error of the connection is ignored. */
static inline void peer_hear(h2_peer *p, const void *bytes, size_t length)
{
	nghttp2_session_mem_recv(p->session, bytes, length);
}

static inline nghttp2_nv peer_nv(const char *name, const char *value)
{
	return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
			    strlen(value), 0};
}

static ssize_t peer_read(nghttp2_session *session, int32_t id, uint8_t *into, size_t length, uint32_t *flags,
			 nghttp2_data_source *source, void *user)
{
	peer_stream *s = source->ptr;
	size_t part = s->answer_left < length ? s->answer_left : length;
	if (part == 0 && s->answer_open)
		return NGHTTP2_ERR_DEFERRED;
	memcpy(into, s->answer, part);
	s->answer += part;
	s->answer_left -= part;
	if (s->answer_left == 0 && !s->answer_open) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (s->answer_trailer != NULL) {
			nghttp2_nv nv = peer_nv("x-trailer", s->answer_trailer);
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			nghttp2_submit_trailer(session, id, &nv, 1);
		}
	}
	return (ssize_t)part;
}

/* Answers with a body that outlives the exchange (NULL: none), a trailer (NULL: none), and a field (NULL: none). */
static inline void peer_answer(h2_peer *p, int32_t id, const char *status, const char *body, size_t length,
			       const char *trailer, const char *name, const char *value)
{
	peer_stream *s = peer_at(p, id);
	nghttp2_nv nv[2] = {peer_nv(":status", status)};
	nghttp2_data_provider provider = {.source.ptr = s, .read_callback = peer_read};
	if (name != NULL)
		nv[1] = peer_nv(name, value);
	s->answer = body;
	s->answer_left = length;
	s->answer_trailer = trailer;
	nghttp2_submit_response(p->session, id, nv, name != NULL ? 2 : 1,
				body != NULL || trailer != NULL || s->answer_open ? &provider : NULL);
}

/* More of a body, or its end, where answer_open was set. */
static inline void peer_more(h2_peer *p, int32_t id, const char *body, size_t length, bool last)
{
	peer_stream *s = peer_at(p, id);
	s->answer = body;
	s->answer_left = length;
	s->answer_open = !last;
	nghttp2_session_resume_data(p->session, id);
}

/* ---- frames by hand ---- */

static inline void peer_frame_raw(h2_peer *p, uint8_t type, uint8_t flags, int32_t id, const void *payload,
				  size_t length)
{
	uint8_t head[9] = {
		(uint8_t)(length >> 16), (uint8_t)(length >> 8), (uint8_t)length,    type,       flags,
		(uint8_t)(id >> 24),     (uint8_t)(id >> 16),    (uint8_t)(id >> 8), (uint8_t)id};
	peer_add(p, head, sizeof(head));
	if (length > 0)
		peer_add(p, payload, length);
}

#endif
