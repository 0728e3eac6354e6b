/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the client's side of HTTP/2. A head comes as one of HTTP/1, since both kinds of connections are
 * given the same. Pieces of a body wait in their ask until nghttp2 asks for the next bytes, and then go to the
 * output without a copy: nghttp2 only decides how many.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "http/h2_client_priv.h"
#include "http/head.h"

#define FEW_FIELDS  64
#define OWN_FIELDS  5     /* pseudo fields and te */
#define SMALL_BYTES 2048u /* pieces up to this size are copied */
#define COPY_BYTES  4096u /* of a buffer for small pieces */
#define FRAME_HEAD  9u
#define BIT(name)   WEIR_FIELD_BIT(name)
#define NOT_IN_HTTP2                                                                                       \
	(BIT(HOST) | BIT(CONNECTION) | BIT(TRANSFER_ENCODING) | BIT(UPGRADE) | BIT(TE) | BIT(KEEP_ALIVE) | \
	 BIT(PROXY_CONNECTION) | BIT(HTTP2_SETTINGS) | BIT(TRAILER))
#define SECRET (BIT(COOKIE) | BIT(AUTHORIZATION))

/* ---- heads ---- */

typedef struct writing {
	nghttp2_nv *nv;
	size_t count, most;
} writing;

static nghttp2_nv make_nv(const char *name, size_t name_length, const char *value, size_t value_length)
{
	/* nghttp2 copies both, and makes the name lower-case. */
	return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
			    .namelen = name_length,
			    .value = (uint8_t *)(uintptr_t)value,
			    .valuelen = value_length};
}

/* The four pseudo fields, from a request line "GET /path HTTP/1.1"; NULL: there is no such line. */
static const char *put_line(writing *w, const char *at, const char *end, bool secure)
{
	const char *space = memchr(at, ' ', (size_t)(end - at));
	const char *line = space != NULL ? memchr(space, '\r', (size_t)(end - space)) : NULL;
	const char *stop = line != NULL ? memrchr(space, ' ', (size_t)(line - space)) : NULL;
	if (stop == NULL || stop <= space + 1)
		return NULL;
	w->nv[0] = make_nv(":method", 7, at, (size_t)(space - at));
	w->nv[1] = make_nv(":scheme", 7, secure ? "https" : "http", secure ? 5 : 4);
	w->nv[2] = make_nv(":path", 5, space + 1, (size_t)(stop - space - 1));
	/* Host follows, or is missing: then there is no authority. */
	w->count = 3;
	return line + 2;
}

static const char *put_field(writing *w, const char *at, const char *end)
{
	const char *stop = memchr(at, '\r', (size_t)(end - at));
	const char *colon = stop != NULL ? memchr(at, ':', (size_t)(stop - at)) : NULL;
	if (colon == NULL || colon == at || w->count == w->most)
		return NULL;
	const char *value = colon + 1;
	while (value < stop && *value == ' ')
		value++;
	weir_field_id id = weir_field_lookup(at, (size_t)(colon - at));
	if (!(NOT_IN_HTTP2 >> id & 1)) {
		w->nv[w->count] = make_nv(at, (size_t)(colon - at), value, (size_t)(stop - value));
		if (SECRET >> id & 1)
			w->nv[w->count].flags = NGHTTP2_NV_FLAG_NO_INDEX;
		w->count++;
	}
	return stop + 2;
}

/* Pseudo fields come before all others. */
static const char *find_host(const char *at, const char *end, size_t *ret_length)
{
	while (at + 5 < end) {
		const char *stop = memchr(at, '\r', (size_t)(end - at));
		if (stop == NULL)
			return NULL;
		if (weir_field_lookup(at, 4) == WEIR_FIELD_HOST && at[4] == ':') {
			at += 5 + (at[5] == ' ');
			*ret_length = (size_t)(stop - at);
			return at;
		}
		at = stop + 2;
	}
	return NULL;
}

static bool read_head(writing *w, const weir_buf *head, bool secure)
{
	const char *at = (const char *)head->data, *end = at + head->length;
	size_t length = 0;
	at = put_line(w, at, end, secure);
	const char *host = at != NULL ? find_host(at, end, &length) : NULL;
	if (host != NULL)
		w->nv[w->count++] = make_nv(":authority", 10, host, length);
	/* Trailers of the answer are passed on; servers of gRPC want to read that. */
	if (at != NULL)
		w->nv[w->count++] = make_nv("te", 2, "trailers", 8);
	while (at != NULL && at + 2 < end)
		at = put_field(w, at, end);
	return at != NULL;
}

/* ---- what nghttp2 asks for ---- */

static bool put_trailers(nghttp2_session *session, const weir_h2_ask *ask)
{
	return nghttp2_submit_trailer(session, ask->id, ask->trailers, ask->trailer_count) == 0;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *into, size_t length, uint32_t *flags,
			 nghttp2_data_source *source, void *user)
{
	weir_h2_ask *ask = nghttp2_session_get_stream_user_data(session, id);
	/* The ask is over: a reset is on its way. */
	if (ask == NULL)
		return NGHTTP2_ERR_DEFERRED;
	bool last = ask->queued <= length && ask->flags & WEIR_H2_ASK_WHOLE;
	if (ask->queued == 0 && !last) {
		ask->flags |= WEIR_H2_ASK_DEFERRED;
		return NGHTTP2_ERR_DEFERRED;
	}
	if (ask->queued > 0)
		*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (last) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (ask->trailer_count > 0) {
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			if (!put_trailers(session, ask))
				return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
		}
	}
	return (ssize_t)(ask->queued < length ? ask->queued : length);
}

static size_t count_lines(const weir_buf *head)
{
	size_t count = 0;
	const uint8_t *at = head->data, *end = at + head->length;
	while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
		count++;
		at++;
	}
	return count;
}

int32_t weir_h2_client_submit(weir_h2_client *client, weir_h2_ask *ask, const weir_buf *head, bool has_body)
{
	const nghttp2_data_provider provider = {.read_callback = read_body};
	nghttp2_nv few[FEW_FIELDS];
	writing w = {.nv = few, .most = OWN_FIELDS + count_lines(head)};
	if (w.most > FEW_FIELDS && (w.nv = weir_mem_array(w.most, sizeof(*w.nv))) == NULL)
		return -1;
	int32_t id = -1;
	if (read_head(&w, head, client->options.secure))
		id = nghttp2_submit_request(client->session, NULL, w.nv, w.count, has_body ? &provider : NULL,
					    ask);
	if (w.nv != few)
		weir_mem_free(w.nv);
	return id;
}

/* ---- pieces ---- */

static void pop(weir_h2_ask *ask)
{
	weir_h2_piece *piece = ask->first;
	ask->first = piece->next;
	weir_buf_unref(piece->buf);
	weir_h2_client_release(ask->client, piece);
}

void weir_h2_ask_free_pieces(weir_h2_ask *ask)
{
	while (ask->first != NULL)
		pop(ask);
	ask->queued = 0;
}

static weir_h2_piece *add_piece(weir_h2_ask *ask, weir_buf *buf, size_t offset, size_t length)
{
	weir_h2_piece *piece = weir_h2_client_alloc(ask->client, sizeof(*piece));
	if (piece == NULL)
		return NULL;
	*piece = (weir_h2_piece){.buf = weir_buf_ref(buf), .offset = offset, .length = length};
	weir_h2_piece *last = ask->first != NULL ? ask->last : NULL;
	ask->last = piece;
	if (last != NULL)
		last->next = piece;
	else
		ask->first = piece;
	return piece;
}

/* Small pieces are copied, because a reference would keep a whole read alive for a few bytes of it. */
static int add_copy(weir_h2_ask *ask, const uint8_t *bytes, size_t length)
{
	weir_h2_piece *piece = ask->first != NULL ? ask->last : NULL;
	if (piece != NULL && piece->own && piece->buf->capacity - piece->buf->length >= length) {
		piece->length += length;
	} else {
		weir_buf *buf = weir_buf_new(COPY_BYTES);
		piece = buf != NULL ? add_piece(ask, buf, 0, length) : NULL;
		weir_buf_unref(buf);
		if (piece == NULL)
			return -ENOMEM;
		piece->own = true;
	}
	memcpy(piece->buf->data + piece->buf->length, bytes, length);
	piece->buf->length += (uint32_t)length;
	return 0;
}

/* Tells nghttp2 that there is more to send, or the end. */
static void awake(weir_h2_ask *ask)
{
	if (ask->flags & WEIR_H2_ASK_DEFERRED && ask->id != 0) {
		ask->flags &= (uint16_t)~WEIR_H2_ASK_DEFERRED;
		nghttp2_session_resume_data(ask->client->session, ask->id);
	}
	weir_h2_client_wake(ask->client);
}

int weir_h2_ask_send(weir_h2_ask *ask, weir_buf *buf, size_t offset, size_t length)
{
	size_t most = ask->client->options.output_bytes;
	if (length > most || ask->queued > most - length)
		return -ENOBUFS;
	/* The answer is complete, or nothing may follow the end: the bytes are of no use. */
	if (length == 0 || ask->id == 0 || ask->flags & WEIR_H2_ASK_WHOLE)
		return 0;
	int error = 0;
	if (length <= SMALL_BYTES)
		error = add_copy(ask, buf->data + offset, length);
	else if (add_piece(ask, buf, offset, length) == NULL)
		error = -ENOMEM;
	if (error != 0)
		return error;
	ask->queued += length;
	if (weir_h2_ask_clogged(ask))
		ask->flags |= WEIR_H2_ASK_OWED;
	awake(ask);
	return 0;
}

/* They must live until nghttp2 asks for them: fields, then the bytes that they point to. */
static int keep_trailers(weir_h2_ask *ask, const weir_field *trailers, size_t count)
{
	size_t bytes = count * sizeof(nghttp2_nv);
	for (size_t i = 0; i < count; i++)
		bytes += trailers[i].name.length + trailers[i].value.length;
	nghttp2_nv *nv = weir_mem_raw(bytes);
	if (nv == NULL)
		return -ENOMEM;
	char *to = (char *)(nv + count);
	for (size_t i = 0; i < count; i++) {
		const weir_field *field = &trailers[i];
		nv[i] = make_nv(to, field->name.length, to + field->name.length, field->value.length);
		to = mempcpy(to, field->name.at, field->name.length);
		if (field->value.length > 0)
			to = mempcpy(to, field->value.at, field->value.length);
	}
	ask->trailers = nv;
	ask->trailer_count = count;
	return 0;
}

int weir_h2_ask_finish(weir_h2_ask *ask, const weir_field *trailers, size_t count)
{
	if (ask->flags & WEIR_H2_ASK_WHOLE)
		return 0;
	if (count > 0 && keep_trailers(ask, trailers, count) != 0)
		return -ENOMEM;
	ask->flags |= WEIR_H2_ASK_WHOLE;
	awake(ask);
	return 0;
}

bool weir_h2_ask_clogged(const weir_h2_ask *ask)
{
	return ask->queued > ask->client->options.output_bytes / 2;
}

size_t weir_h2_ask_output(const weir_h2_ask *ask)
{
	return ask->queued;
}

/* ---- to the output ---- */

static int send_pieces(weir_h2_ask *ask, size_t length)
{
	const weir_h2_client_options *options = &ask->client->options;
	int error = 0;
	ask->queued -= length;
	while (error == 0 && length > 0) {
		weir_h2_piece *piece = ask->first;
		size_t part = piece->length < length ? piece->length : length;
		error = part <= SMALL_BYTES
				? options->ops->write(options->arg, piece->buf->data + piece->offset, part)
				: options->ops->send(options->arg, piece->buf, piece->offset, part);
		piece->offset += part;
		piece->length -= part;
		length -= part;
		if (piece->length == 0)
			pop(ask);
	}
	return error;
}

int weir_h2_client_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *header,
			     size_t length, nghttp2_data_source *source, void *user)
{
	weir_h2_client *client = user;
	const weir_h2_client_options *options = &client->options;
	weir_h2_ask *ask = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (ask == NULL)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (options->ops->is_full(options->arg))
		return NGHTTP2_ERR_WOULDBLOCK;
	if (options->ops->write(options->arg, header, FRAME_HEAD) != 0 || send_pieces(ask, length) != 0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (ask->flags & WEIR_H2_ASK_OWED && !weir_h2_ask_clogged(ask) && !(ask->flags & WEIR_H2_ASK_DUE)) {
		ask->flags = (uint16_t)((ask->flags & ~WEIR_H2_ASK_OWED) | WEIR_H2_ASK_DUE);
		ask->next_due = client->due;
		client->due = ask;
	}
	return 0;
}

bool weir_h2_client_run_due(weir_h2_client *client)
{
	bool any = client->due != NULL;
	weir_h2_ask *ask;
	while ((ask = client->due) != NULL) {
		client->due = ask->next_due;
		ask->flags &= (uint16_t)~WEIR_H2_ASK_DUE;
		ask->ops->drained(ask);
	}
	return any;
}

void weir_h2_ask_not_due(weir_h2_ask *ask)
{
	weir_h2_ask **at = &ask->client->due;
	if (!(ask->flags & WEIR_H2_ASK_DUE))
		return;
	while (*at != ask)
		at = &(*at)->next_due;
	*at = ask->next_due;
	ask->flags &= (uint16_t)~WEIR_H2_ASK_DUE;
}
