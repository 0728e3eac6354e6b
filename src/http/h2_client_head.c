/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of requests of the client's side of HTTP/2. A head comes as one of HTTP/1, since both kinds of connections are
 * given the same.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "http/h2_client_priv.h"
#include "http/head.h"
#include "http/recent_fields.h"

#define FEW_FIELDS 64
#define OWN_FIELDS 5 /* pseudo fields and te */
#define BIT(name)  WEIR_FIELD_BIT(name)
#define NOT_IN_HTTP2                                                                                       \
	(BIT(HOST) | BIT(CONNECTION) | BIT(TRANSFER_ENCODING) | BIT(UPGRADE) | BIT(TE) | BIT(KEEP_ALIVE) | \
	 BIT(PROXY_CONNECTION) | BIT(HTTP2_SETTINGS) | BIT(TRAILER))
#define SECRETS (BIT(COOKIE) | BIT(AUTHORIZATION) | BIT(PROXY_AUTHORIZATION))

/* ---- heads ---- */

typedef struct writing {
	weir_field *fields;
	size_t count, most;
} writing;

static void add(writing *w, weir_span name, const char *value, size_t length)
{
	w->fields[w->count++] = (weir_field){name, {value, length}};
}

/* Three pseudo fields, from a request line "GET /path HTTP/1.1"; NULL: there is no such line. */
static const char *take_line(writing *w, const char *at, const char *end, bool secure)
{
	const char *space = memchr(at, ' ', (size_t)(end - at));
	const char *line = space != NULL ? memchr(space, '\r', (size_t)(end - space)) : NULL;
	const char *stop = line != NULL ? memrchr(space, ' ', (size_t)(line - space)) : NULL;
	if (stop == NULL || stop <= space + 1)
		return NULL;
	add(w, WEIR_SPAN(":method"), at, (size_t)(space - at));
	add(w, WEIR_SPAN(":scheme"), secure ? "https" : "http", secure ? 5 : 4);
	add(w, WEIR_SPAN(":path"), space + 1, (size_t)(stop - space - 1));
	return line + 2;
}

/* Host becomes the authority, which has been reserved its place; if it is missing, there is none. */
static const char *take_field(writing *w, const char *at, const char *end, weir_field *authority)
{
	const char *stop = memchr(at, '\r', (size_t)(end - at));
	const char *colon = stop != NULL ? memchr(at, ':', (size_t)(stop - at)) : NULL;
	if (colon == NULL || colon == at || w->count == w->most)
		return NULL;
	const char *value = colon + 1;
	while (value < stop && *value == ' ')
		value++;
	weir_span name = {at, (size_t)(colon - at)};
	weir_field_id id = weir_field_lookup(name.at, name.length);
	if (id == WEIR_FIELD_HOST && authority->value.at == NULL)
		authority->value = (weir_span){value, (size_t)(stop - value)};
	if (!(NOT_IN_HTTP2 >> id & 1))
		add(w, name, value, (size_t)(stop - value));
	return stop + 2;
}

static bool read_head(writing *w, const weir_buf *head, bool secure)
{
	const char *at = (const char *)head->data, *end = at + head->length;
	at = take_line(w, at, end, secure);
	if (at == NULL)
		return false;
	/* Pseudo fields come before all others. */
	weir_field *authority = &w->fields[w->count];
	add(w, WEIR_SPAN(":authority"), NULL, 0);
	/* Trailers of the answer are passed on; servers of gRPC want to read that. */
	add(w, WEIR_SPAN("te"), "trailers", 8);
	while (at != NULL && at + 2 < end)
		at = take_field(w, at, end, authority);
	if (authority->value.at == NULL) {
		size_t behind = (size_t)(w->fields + w->count - authority) - 1;
		memmove(authority, authority + 1, behind * sizeof(*authority));
		w->count--;
	}
	return at != NULL;
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

/* ---- the last head ---- */

static bool is_last(const weir_h2_client *client, const weir_buf *head)
{
	const weir_h2_last_head *last = &client->last_head;
	return last->length != 0 && last->length == head->length &&
	       weir_h2_entries_are(last->entries, &client->encoder.table) && !client->encoder.resized &&
	       memcmp(last->text, head->data, head->length) == 0;
}

/* 0 or -ENOMEM. */
static int make_last(weir_h2_client *client, uint32_t id, bool last)
{
	const weir_h2_last_head *from = &client->last_head;
	uint8_t *frame = weir_h2_made_reserve(client, WEIR_H2_FRAME_HEAD + from->block_length);
	if (frame == NULL)
		return -ENOMEM;
	memcpy(weir_h2_frame_write(frame, from->block_length, WEIR_H2_HEADERS,
				   (uint8_t)(WEIR_H2_END_HEADERS | (last ? WEIR_H2_END_STREAM : 0)), id),
	       from->block, from->block_length);
	weir_h2_made_commit(client, WEIR_H2_FRAME_HEAD + from->block_length);
	return 0;
}

static bool has_secrets(const writing *w)
{
	for (size_t i = 0; i < w->count; i++)
		if (SECRETS >> weir_field_lookup(w->fields[i].name.at, w->fields[i].name.length) & 1)
			return true;
	return false;
}

/* The head was made into a frame of so many bytes: keeps it, if the one before was the same and it has changed no table. */
static void keep_last(weir_h2_client *client, const weir_buf *head, const writing *w, weir_h2_entries entries,
		      size_t length)
{
	weir_h2_last_head *last = &client->last_head;
	size_t block = length - WEIR_H2_FRAME_HEAD;
	last->length = 0;
	if (head->length < WEIR_RECENT_LEAST || head->length > sizeof(last->text) ||
	    block > sizeof(last->block))
		return;
	uint32_t hash = weir_recent_hash_all((const char *)head->data, head->length);
	bool again = last->hash == hash && weir_h2_entries_are(entries, &client->encoder.table);
	last->hash = hash;
	if (!again || has_secrets(w))
		return;
	last->length = head->length;
	last->block_length = (uint32_t)block;
	last->entries = entries;
	memcpy(last->text, head->data, head->length);
	memcpy(last->block, client->out.bytes + client->out.end - block, block);
}

int weir_h2_ask_submit(weir_h2_ask *ask, const weir_buf *head)
{
	weir_h2_client *client = ask->client;
	bool last = ask->flags & WEIR_H2_ASK_OUT;
	if (is_last(client, head))
		return make_last(client, ask->id, last);
	weir_field few[FEW_FIELDS];
	writing w = {.fields = few, .most = OWN_FIELDS + count_lines(head)};
	if (w.most > FEW_FIELDS && (w.fields = weir_mem_array(w.most, sizeof(*w.fields))) == NULL)
		return -ENOMEM;
	int error = -EINVAL;
	weir_h2_entries entries = weir_h2_entries_of(&client->encoder.table);
	bool resized = client->encoder.resized;
	size_t before = client->out.end - client->out.at;
	if (read_head(&w, head, client->options.secure))
		error = weir_h2_made_block(client, ask->id, w.fields, w.count, last);
	if (error == 0 && !resized)
		keep_last(client, head, &w, entries, client->out.end - client->out.at - before);
	if (w.fields != few)
		weir_mem_free(w.fields);
	return error;
}
