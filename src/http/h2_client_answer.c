/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server answers to the client's side of HTTP/2. Heads are put together in the connection's one block, and
 * judged by the rules of RFC 9113 8 and by those of HTTP/1 (framing.c) that are not about lines.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "http/h2_client_priv.h"
#include "http/head.h"

#define INTERIMS_MOST 16
#define BLOCK_LEAST   1024u
#define HELD_LEAST    4096u
#define SCRATCH_HERE  2048u
#define FIELD_EXTRA   4 /* so that limits count as in HTTP/1 */

/* ---- fields ---- */

static bool make_room(weir_h2_block *block, size_t more)
{
	if (more <= block->room - block->length)
		return true;
	size_t room = 2 * (block->length + more);
	char *larger = weir_mem_raw(room > BLOCK_LEAST ? room : BLOCK_LEAST);
	if (larger == NULL)
		return false;
	if (block->length > 0)
		memcpy(larger, block->bytes, block->length);
	weir_mem_free(block->bytes);
	block->bytes = larger;
	block->room = room > BLOCK_LEAST ? room : BLOCK_LEAST;
	return true;
}

static uint32_t put(weir_h2_block *block, weir_span text)
{
	uint32_t at = (uint32_t)block->length;
	if (text.length > 0)
		memcpy(block->bytes + at, text.at, text.length);
	block->length += text.length;
	return at;
}

/* The only pseudo field of an answer, once, before all others, and not in trailers. */
static const char *take_pseudo(weir_h2_block *block, const weir_hpack_field *field, bool trailers)
{
	weir_span value = field->value;
	unsigned status = 0;
	if (trailers || block->regular || block->head.status != 0 || value.length != 3 ||
	    field->name.length != 7 || memcmp(field->name.at, ":status", 7) != 0)
		return "the answer has a pseudo field that it must not have";
	for (size_t i = 0; i < 3; i++) {
		if (value.at[i] < '0' || value.at[i] > '9')
			return "the status is not three digits";
		status = status * 10 + (unsigned)(value.at[i] - '0');
	}
	block->head.status = (uint16_t)status;
	return NULL;
}

static const char *keep_field(const weir_h2_client_options *limits, weir_h2_block *block,
			      const weir_hpack_field *field, weir_field_id id)
{
	weir_head *head = &block->head;
	size_t bytes = field->name.length + field->value.length;
	block->weight += bytes + FIELD_EXTRA;
	if (block->weight > limits->head_bytes || field->name.length > UINT16_MAX)
		return "the head or the trailers of the answer are too large";
	if (head->field_count == limits->fields)
		return "the head or the trailers of the answer have too many fields";
	if (!make_room(block, bytes))
		return "out of memory";
	weir_head_field *to = &block->fields[head->field_count++];
	to->name = put(block, field->name);
	to->value = put(block, field->value);
	to->name_length = (uint16_t)field->name.length;
	to->value_length = (uint32_t)field->value.length;
	to->id = (uint16_t)id;
	return NULL;
}

static void take_field(weir_h2_client *client, const weir_hpack_field *field, bool trailers)
{
	weir_h2_block *block = &client->block;
	if (field->name.length > 0 && field->name.at[0] == ':') {
		block->error = take_pseudo(block, field, trailers);
		return;
	}
	weir_field_id id = weir_field_lookup(field->name.at, field->name.length);
	block->regular = true;
	block->error = weir_h2_rules_form(field, id)
			       ? keep_field(&client->options, block, field, id)
			       : "the answer has a field that is malformed, or about a connection";
}

/* ---- header blocks ---- */

/* For an ask, or for nobody, to keep the table right. false: doom. */
static bool take_fields(weir_h2_client *client, const weir_h2_ask *ask, weir_hpack_block *block)
{
	weir_hpack_field field;
	int got;
	while ((got = weir_hpack_next(&client->decoder, block, &field)) == 1) {
		if (weir_h2_guard_field(&client->guard, field.name.length + field.value.length) != NULL) {
			weir_h2_client_doom(client, WEIR_H2_ENHANCE_YOUR_CALM,
					    "the server floods the connection");
			return false;
		}
		if (ask != NULL && client->block.error == NULL)
			take_field(client, &field, ask->flags & WEIR_H2_ASK_HEADED);
	}
	if (got == -ENOMEM)
		weir_h2_client_doom(client, WEIR_H2_INTERNAL_ERROR, "out of memory");
	else if (got < 0)
		weir_h2_client_doom(client, WEIR_H2_COMPRESSION_ERROR,
				    "the server sends a header block that cannot be decoded");
	return got == 0;
}

static bool decode(weir_h2_client *client, const weir_h2_ask *ask, const uint8_t *bytes, size_t length)
{
	uint8_t here[SCRATCH_HERE], *scratch = here;
	if (weir_hpack_scratch(length) > sizeof(here) &&
	    (scratch = weir_mem_raw(weir_hpack_scratch(length))) == NULL) {
		weir_h2_client_doom(client, WEIR_H2_INTERNAL_ERROR, "out of memory");
		return false;
	}
	weir_hpack_block block = {.at = bytes, .end = bytes + length, .scratch = scratch};
	bool whole = take_fields(client, ask, &block);
	if (scratch != here)
		weir_mem_free(scratch);
	return whole;
}

/* ---- the end of an answer ---- */

/* The peer does not want the rest of the request: it is not sent. */
static void stop_sending(const weir_h2_ask *ask)
{
	if (ask->id != 0 && !(ask->flags & WEIR_H2_ASK_OUT))
		weir_h2_client_say_reset(ask->client, ask->id, WEIR_H2_NO_ERROR);
}

static void finish(weir_h2_ask *ask, const weir_h2_answer *trailers)
{
	stop_sending(ask);
	weir_h2_ask_part(ask);
	ask->ops->end(ask, trailers);
}

static bool save(weir_h2_ask *ask, const weir_h2_block *block)
{
	weir_h2_saved *saved = weir_mem_zalloc(sizeof(*saved));
	if (saved == NULL)
		return false;
	ask->saved = saved; /* freed with the ask, whatever is missing */
	saved->head = block->head;
	saved->fields = weir_mem_array(block->head.field_count, sizeof(weir_head_field));
	saved->bytes = weir_mem_raw(block->length);
	if (saved->fields == NULL || saved->bytes == NULL)
		return false;
	memcpy(saved->fields, block->fields, block->head.field_count * sizeof(weir_head_field));
	memcpy(saved->bytes, block->bytes, block->length);
	return true;
}

/* block: with the trailers; NULL: none. */
static void answer_ends(weir_h2_ask *ask, const weir_h2_block *block)
{
	bool trailers = block != NULL && block->head.field_count > 0;
	ask->flags |= WEIR_H2_ASK_ENDED;
	if (!(ask->flags & WEIR_H2_ASK_PAUSED) && ask->held == NULL) {
		weir_h2_answer answer = {.last = true};
		if (trailers) {
			answer.head = &block->head;
			answer.fields = block->fields;
			answer.bytes = block->bytes;
		}
		finish(ask, trailers ? &answer : NULL);
	} else if (trailers && !save(ask, block)) {
		weir_h2_ask_fail(ask, WEIR_H2_INTERNAL_ERROR, WEIR_H2_NO_MEMORY, "out of memory");
	} else {
		weir_h2_ask_close(ask);
	}
}

static bool lacks_bytes(const weir_h2_ask *ask)
{
	return ask->length_left != WEIR_UNKNOWN_LENGTH && ask->length_left > 0;
}

void weir_h2_ask_take_end(weir_h2_ask *ask)
{
	if (lacks_bytes(ask))
		weir_h2_ask_fail(ask, WEIR_H2_PROTOCOL_ERROR, WEIR_H2_NONSENSE,
				 "the answer is shorter than it says");
	else
		answer_ends(ask, NULL);
}

/* ---- heads ---- */

static const char *judge_trailers(weir_h2_block *block, bool last)
{
	if (!last)
		return "the answer has trailers before its end";
	for (size_t i = 0; i < block->head.field_count; i++)
		if (weir_framing_trailer_field(&block->head, &block->fields[i]) != NULL)
			return "the answer has a trailer that must not be one";
	return NULL;
}

static const char *judge_head(weir_h2_block *block, weir_method asked, bool last)
{
	weir_head *head = &block->head;
	if (head->status < 100 || head->status == 101)
		return "an answer without a status that it may have";
	const char *error = weir_framing_fields(head, block->bytes, block->fields,
						block->fields + head->field_count, NULL, true);
	if (error == NULL)
		error = weir_framing_answer(head, asked);
	if (error == NULL && head->status < 200 && (last || head->marks & WEIR_MARK_LENGTH))
		error = "an interim answer that ends, or has a length";
	if (error == NULL && last && head->framing == WEIR_BODY_LENGTH)
		error = "the answer has a length, and no body";
	return error;
}

static void final_head(weir_h2_ask *ask, weir_h2_block *block, bool last)
{
	weir_h2_client *client = ask->client;
	const weir_head *head = &block->head;
	weir_h2_answer answer = {.head = head,
				 .fields = block->fields,
				 .bytes = block->bytes,
				 .length = WEIR_UNKNOWN_LENGTH,
				 .bodiless = head->framing == WEIR_BODY_NONE,
				 .last = last};
	if (head->framing == WEIR_BODY_LENGTH || head->framing == WEIR_BODY_NONE)
		answer.length = head->framing == WEIR_BODY_LENGTH ? head->body_length : 0;
	else if (last)
		answer.length = 0;
	ask->length_left = answer.length;
	/* Frames like WINDOW_UPDATE and PING come with answers. */
	weir_h2_guard_earned(&client->guard, 4);
	ask->flags |= WEIR_H2_ASK_HEADED;
	if (last) {
		stop_sending(ask);
		weir_h2_ask_part(ask);
	}
	ask->ops->head(ask, &answer);
}

static void interim_head(weir_h2_ask *ask, const weir_h2_block *block)
{
	weir_h2_answer answer = {.head = &block->head, .fields = block->fields, .bytes = block->bytes};
	if (++ask->interims > INTERIMS_MOST)
		weir_h2_ask_fail(ask, WEIR_H2_ENHANCE_YOUR_CALM, WEIR_H2_NONSENSE,
				 "too many interim answers");
	else
		ask->ops->head(ask, &answer);
}

/* It was judged. */
static void end_of_block(weir_h2_ask *ask, weir_h2_block *block, bool last)
{
	bool trailers = ask->flags & WEIR_H2_ASK_HEADED;
	if (block->error != NULL)
		weir_h2_ask_fail(ask, WEIR_H2_PROTOCOL_ERROR, WEIR_H2_NONSENSE, block->error);
	else if (trailers && lacks_bytes(ask))
		weir_h2_ask_fail(ask, WEIR_H2_PROTOCOL_ERROR, WEIR_H2_NONSENSE,
				 "the answer is shorter than it says");
	else if (trailers)
		answer_ends(ask, block);
	else if (block->head.status < 200)
		interim_head(ask, block);
	else
		final_head(ask, block, last);
}

/* ---- what came last ---- */

static weir_h2_last_answer *last_of(weir_h2_ask *ask)
{
	return &ask->client->last_answer[(ask->flags & WEIR_H2_ASK_HEADED) != 0];
}

/* Whether it has no body, however it looks. */
static bool is_special(const weir_h2_ask *ask)
{
	return ask->method == WEIR_METHOD_HEAD || ask->method == WEIR_METHOD_CONNECT;
}

static bool is_again(weir_h2_ask *ask, bool last, const uint8_t *bytes, size_t length)
{
	const weir_h2_last_answer *before = last_of(ask);
	return before->length != 0 && before->length == length && before->last == last &&
	       weir_h2_entries_are(before->entries, &ask->client->decoder) && !is_special(ask) &&
	       memcmp(before->bytes, bytes, length) == 0;
}

/* Nothing of it depends on the request, nor on what it has had of the answer: that is judged again. */
static void keep_again(weir_h2_ask *ask, bool last, const uint8_t *bytes, size_t length)
{
	weir_h2_last_answer *to = last_of(ask);
	const weir_h2_block *block = &ask->client->block;
	to->length = 0;
	if (block->error != NULL || is_special(ask) || length > sizeof(to->bytes) ||
	    block->length > sizeof(to->text) || block->head.field_count > WEIR_H2_LAST_FIELDS)
		return;
	to->length = (uint32_t)length;
	to->entries = weir_h2_entries_of(&ask->client->decoder);
	to->last = last;
	memcpy(to->bytes, bytes, length);
	to->block = *block;
	to->block.fields = memcpy(to->fields, block->fields, block->head.field_count * sizeof(to->fields[0]));
	to->block.bytes = to->text;
	if (block->length > 0)
		memcpy(to->text, block->bytes, block->length);
}

static void judge(weir_h2_ask *ask, bool last)
{
	weir_h2_block *block = &ask->client->block;
	if (block->error == NULL)
		block->error = ask->flags & WEIR_H2_ASK_HEADED
				       ? judge_trailers(block, last)
				       : judge_head(block, (weir_method)ask->method, last);
}

/* A block for an ask: decoded and judged, or known. */
static void take_new(weir_h2_ask *ask, bool last, const uint8_t *bytes, size_t length)
{
	weir_h2_client *client = ask->client;
	weir_h2_entries entries = weir_h2_entries_of(&client->decoder);
	uint32_t limit = client->decoder.limit;
	if (!decode(client, ask, bytes, length))
		return;
	judge(ask, last);
	/* One that changes the table means something else when it comes again. */
	if (weir_h2_entries_are(entries, &client->decoder) && limit == client->decoder.limit)
		keep_again(ask, last, bytes, length);
	end_of_block(ask, &client->block, last);
}

void weir_h2_client_take_block(weir_h2_client *client, uint32_t id, bool last, const uint8_t *bytes,
			       size_t length)
{
	weir_h2_ask *ask = weir_h2_client_find(client, id);
	weir_h2_block *block = &client->block;
	block->head = (weir_head){.version = 20};
	block->length = block->weight = 0;
	block->regular = false;
	block->error = NULL;
	if (ask == NULL ? id % 2 == 0 || id >= client->next_id : ask->flags & WEIR_H2_ASK_ENDED) {
		weir_h2_client_doom(client, WEIR_H2_PROTOCOL_ERROR, "the server answers what was not asked");
		return;
	}
	/* It must be decompressed, even if nobody waits for it. */
	if (ask == NULL)
		decode(client, NULL, bytes, length);
	else if (is_again(ask, last, bytes, length))
		end_of_block(ask, &last_of(ask)->block, last);
	else
		take_new(ask, last, bytes, length);
}

/* ---- bodies ---- */

/* Copied, because a reference would keep a whole read alive for one byte of it. */
static bool hold(weir_h2_ask *ask, const uint8_t *bytes, size_t length)
{
	weir_buf *held = ask->held;
	size_t have = held != NULL ? held->length : 0;
	if (held == NULL || held->capacity - have < length) {
		size_t room = 2 * (have + length);
		weir_buf *larger = weir_buf_new(room > HELD_LEAST ? room : HELD_LEAST);
		if (larger == NULL)
			return false;
		if (have > 0)
			memcpy(larger->data, held->data, have);
		larger->length = (uint32_t)have;
		weir_buf_unref(held);
		ask->held = held = larger;
	}
	memcpy(held->data + held->length, bytes, length);
	held->length += (uint32_t)length;
	return true;
}

void weir_h2_ask_go_on(weir_h2_ask *ask)
{
	weir_buf *held = ask->held;
	if (held != NULL) {
		/* What comes meanwhile is held in another one. */
		ask->held = NULL;
		weir_h2_ask_window_back(ask, held->length);
		ask->ops->data(ask, held, 0, held->length);
		weir_buf_unref(held);
	}
	if (ask->flags & (WEIR_H2_ASK_OVER | WEIR_H2_ASK_PAUSED) || !(ask->flags & WEIR_H2_ASK_ENDED))
		return;
	const weir_h2_saved *saved = ask->saved;
	if (saved != NULL) {
		weir_h2_answer answer = {
			.head = &saved->head, .fields = saved->fields, .bytes = saved->bytes, .last = true};
		finish(ask, &answer);
	} else {
		finish(ask, NULL);
	}
}

void weir_h2_ask_take_data(weir_h2_ask *ask, const uint8_t *bytes, size_t length)
{
	weir_buf *in = ask->client->in;
	if (length > ask->length_left) {
		weir_h2_ask_fail(ask, WEIR_H2_PROTOCOL_ERROR, WEIR_H2_NONSENSE,
				 "the answer is longer than it says");
		return;
	}
	if (ask->length_left != WEIR_UNKNOWN_LENGTH)
		ask->length_left -= length;
	if (ask->flags & WEIR_H2_ASK_PAUSED || ask->held != NULL) {
		if (!hold(ask, bytes, length))
			weir_h2_ask_fail(ask, WEIR_H2_INTERNAL_ERROR, WEIR_H2_NO_MEMORY, "out of memory");
		return;
	}
	weir_h2_ask_window_back(ask, length);
	ask->ops->data(ask, in, (size_t)(bytes - in->data), length);
}
