/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of requests of the client's side of HTTP/2, and what is handed to the output. Small parts become frames at
 * once. Larger ones wait in their ask until the windows and the output take them, and are not copied.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "http/h2_client_priv.h"

#define SMALL_BYTES 2048u  /* parts up to this size are copied */
#define COPY_BYTES  4096u  /* of a buffer for small parts */
#define MADE_MOST   65536u /* no body is added to so many bytes of frames */
#define WRITE_MOST  16384u /* bytes of frames to hand over at once */

/* ---- pieces ---- */

static void pop(weir_h2_ask *ask)
{
	weir_h2_piece *piece = ask->first;
	ask->first = piece->next;
	weir_buf_unref(piece->buf);
	weir_pool_give(&ask->client->options.memory->pieces, piece);
}

void weir_h2_ask_free_pieces(weir_h2_ask *ask)
{
	while (ask->first != NULL)
		pop(ask);
	ask->queued = 0;
}

static weir_h2_piece *add_piece(weir_h2_ask *ask, weir_buf *buf, size_t offset, size_t length)
{
	weir_h2_piece *piece = weir_pool_take(&ask->client->options.memory->pieces);
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

/* ---- bodies ---- */

void weir_h2_ask_set_ready(weir_h2_ask *ask)
{
	weir_h2_client *client = ask->client;
	if (ask->flags & WEIR_H2_ASK_READY || ask->queued == 0 || ask->send_window <= 0 || ask->id == 0)
		return;
	ask->flags |= WEIR_H2_ASK_READY;
	ask->next_ready = NULL;
	*client->ready_end = ask;
	client->ready_end = &ask->next_ready;
}

void weir_h2_ask_unset_ready(weir_h2_ask *ask)
{
	weir_h2_client *client = ask->client;
	weir_h2_ask **at = &client->ready;
	if (!(ask->flags & WEIR_H2_ASK_READY))
		return;
	while (*at != ask)
		at = &(*at)->next_ready;
	*at = ask->next_ready;
	if (client->ready_end == &ask->next_ready)
		client->ready_end = at;
	ask->flags &= (uint16_t)~WEIR_H2_ASK_READY;
}

/* DATA goes out: servers send WINDOW_UPDATE and PING because of this. */
static void charge(weir_h2_ask *ask, size_t length)
{
	ask->send_window -= (int32_t)length;
	ask->client->send_window -= (int32_t)length;
	weir_h2_guard_earned(&ask->client->guard, 3);
}

static bool goes_at_once(const weir_h2_ask *ask, size_t length)
{
	const weir_h2_client *client = ask->client;
	return ask->queued == 0 && length <= SMALL_BYTES && (int64_t)length <= ask->send_window &&
	       (int64_t)length <= client->send_window && client->out.end - client->out.at < MADE_MOST;
}

/* Makes a frame of the bytes, or makes the last frame longer. 0 or -ENOMEM. */
static int make_data(weir_h2_ask *ask, const uint8_t *bytes, size_t length)
{
	weir_h2_client *client = ask->client;
	weir_h2_made *out = &client->out;
	uint8_t *to = weir_h2_made_reserve(client, WEIR_H2_FRAME_HEAD + length);
	if (to == NULL)
		return -ENOMEM;
	if (out->data_id != ask->id) {
		out->data = out->end;
		out->data_id = ask->id;
		to += WEIR_H2_FRAME_HEAD;
		out->end += WEIR_H2_FRAME_HEAD;
	}
	memcpy(to, bytes, length);
	out->end += length;
	weir_h2_frame_write(out->bytes + out->data, out->end - out->data - WEIR_H2_FRAME_HEAD, WEIR_H2_DATA,
			    0, ask->id);
	/* There must be room for another small part. */
	if (out->end - out->data + SMALL_BYTES > WEIR_H2_FRAME_MOST)
		out->data_id = 0;
	charge(ask, length);
	return 0;
}

int weir_h2_ask_send(weir_h2_ask *ask, weir_buf *buf, size_t offset, size_t length)
{
	size_t most = ask->client->options.output_bytes;
	int error = 0;
	if (length > most || ask->queued > most - length)
		return -ENOBUFS;
	/* The answer is complete, or nothing may follow the end: the bytes are of no use. */
	if (length == 0 || ask->id == 0 || ask->flags & WEIR_H2_ASK_WHOLE)
		return 0;
	if (goes_at_once(ask, length)) {
		error = make_data(ask, buf->data + offset, length);
		weir_h2_client_wake(ask->client);
		return error;
	}
	if (length <= SMALL_BYTES)
		error = add_copy(ask, buf->data + offset, length);
	else if (add_piece(ask, buf, offset, length) == NULL)
		error = -ENOMEM;
	if (error != 0)
		return error;
	ask->queued += length;
	if (weir_h2_ask_clogged(ask))
		ask->flags |= WEIR_H2_ASK_OWED;
	weir_h2_ask_set_ready(ask);
	weir_h2_client_wake(ask->client);
	return 0;
}

/* They must live until the body has been sent: fields, then the bytes that they point to. */
static int keep_trailers(weir_h2_ask *ask, const weir_field *trailers, size_t count)
{
	size_t bytes = count * sizeof(weir_field);
	for (size_t i = 0; i < count; i++)
		bytes += trailers[i].name.length + trailers[i].value.length;
	weir_field *kept = weir_mem_raw(bytes);
	if (kept == NULL)
		return -ENOMEM;
	char *to = (char *)(kept + count);
	for (size_t i = 0; i < count; i++) {
		weir_span name = trailers[i].name, value = trailers[i].value;
		kept[i] = (weir_field){{to, name.length}, {to + name.length, value.length}};
		to = mempcpy(to, name.at, name.length);
		if (value.length > 0)
			to = mempcpy(to, value.at, value.length);
	}
	ask->trailers = kept;
	ask->trailer_count = count;
	return 0;
}

/* All of the body is out: ends the request, by its last frame if that is still here. 0 or -ENOMEM. */
static int end_request(weir_h2_ask *ask, const weir_field *trailers, size_t count)
{
	weir_h2_client *client = ask->client;
	weir_h2_made *out = &client->out;
	int error = 0;
	ask->flags |= WEIR_H2_ASK_OUT;
	if (count > 0) {
		error = weir_h2_made_block(client, ask->id, trailers, count, true);
	} else if (out->data_id == ask->id) {
		out->bytes[out->data + 4] |= WEIR_H2_END_STREAM;
		out->data_id = 0;
	} else {
		uint8_t frame[WEIR_H2_FRAME_HEAD];
		weir_h2_frame_write(frame, 0, WEIR_H2_DATA, WEIR_H2_END_STREAM, ask->id);
		weir_h2_client_say(client, frame, sizeof(frame));
	}
	weir_h2_ask_close(ask);
	return error;
}

int weir_h2_ask_finish(weir_h2_ask *ask, const weir_field *trailers, size_t count)
{
	int error = 0;
	if (ask->flags & WEIR_H2_ASK_WHOLE)
		return 0;
	if (ask->queued > 0 && count > 0 && keep_trailers(ask, trailers, count) != 0)
		return -ENOMEM;
	ask->flags |= WEIR_H2_ASK_WHOLE;
	if (ask->queued == 0 && ask->id != 0)
		error = end_request(ask, trailers, count);
	weir_h2_client_wake(ask->client);
	return error;
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

static int send_made(weir_h2_client *client)
{
	const weir_h2_client_options *options = &client->options;
	weir_h2_made *out = &client->out;
	while (out->at < out->end && !options->ops->is_full(options->arg)) {
		size_t left = out->end - out->at, length = left < WRITE_MOST ? left : WRITE_MOST;
		int error = options->ops->write(options->arg, out->bytes + out->at, length);
		if (error != 0)
			return error;
		out->data_id = 0;
		out->at += length;
	}
	if (out->at == out->end) {
		out->at = out->end = 0;
		out->acks = 0;
	}
	return 0;
}

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

static void note_drained(weir_h2_ask *ask)
{
	weir_h2_client *client = ask->client;
	if (!(ask->flags & WEIR_H2_ASK_OWED) || weir_h2_ask_clogged(ask) || ask->flags & WEIR_H2_ASK_DUE)
		return;
	ask->flags = (uint16_t)((ask->flags & ~WEIR_H2_ASK_OWED) | WEIR_H2_ASK_DUE);
	ask->next_due = client->due;
	client->due = ask;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* A frame of what the ask has queued; both windows have room. 0 or a negative errno. */
static int send_body(weir_h2_ask *ask)
{
	weir_h2_client *client = ask->client;
	const weir_h2_client_options *options = &client->options;
	size_t window = least((size_t)ask->send_window, (size_t)client->send_window);
	size_t length = least(least(ask->queued, WEIR_H2_FRAME_MOST), window);
	bool last = length == ask->queued && ask->flags & WEIR_H2_ASK_WHOLE, trails = ask->trailer_count > 0;
	uint8_t head[WEIR_H2_FRAME_HEAD];
	weir_h2_ask_unset_ready(ask);
	weir_h2_frame_write(head, length, WEIR_H2_DATA, last && !trails ? WEIR_H2_END_STREAM : 0, ask->id);
	int error = options->ops->write(options->arg, head, sizeof(head));
	if (error == 0)
		error = send_pieces(ask, length);
	if (error != 0)
		return error;
	charge(ask, length);
	note_drained(ask);
	weir_h2_ask_set_ready(ask);
	if (last && trails)
		return end_request(ask, ask->trailers, ask->trailer_count);
	if (last) {
		ask->flags |= WEIR_H2_ASK_OUT;
		weir_h2_ask_close(ask);
	}
	return 0;
}

int weir_h2_client_send(weir_h2_client *client)
{
	const weir_h2_client_options *options = &client->options;
	client->inside = true;
	int error = send_made(client);
	while (error == 0 && client->out.end == 0 && client->ready != NULL && client->send_window > 0 &&
	       !options->ops->is_full(options->arg)) {
		error = send_body(client->ready);
		if (error == 0)
			error = send_made(client);
	}
	client->inside = false;
	return error;
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
