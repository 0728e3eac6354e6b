/* SPDX-License-Identifier: Apache-2.0 */
#include "deliver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AHEAD_MAX_S (24 * 3600)

static weir_span span_of(const char *text)
{
	return (weir_span){text, strlen(text)};
}

/* ---- into the store ---- */

static int read_source(void *arg, uint64_t offset, void *into, size_t size)
{
	const mail_source *source = arg;
	return source->read(source, offset, into, size);
}

int deliver_prepare(deliver_mail *deliver, const mail_source *source, int64_t now_s)
{
	*deliver = (deliver_mail){.source = source};
	int error = mail_summarise(source, &deliver->summary);
	if (error != 0)
		return error;
	const mail_summary *s = deliver->summary;
	bool dated = s->date_s > 0 && s->date_s <= now_s + AHEAD_MAX_S;
	deliver->mail = (store_mail){
		.head = {.from = span_of(s->from),
			 .author = span_of(s->author),
			 .subject = span_of(s->subject),
			 .to = span_of(s->to),
			 .cc = span_of(s->cc),
			 .snippet = span_of(s->snippet),
			 .message_id = span_of(s->message_id),
			 .date_s = dated ? s->date_s : now_s,
			 .flags = s->attachments ? STORE_ATTACHMENT : 0},
		.text = span_of(s->text),
		.sort_subject = span_of(s->sort_subject),
		.references = span_of(s->references),
		.raw = {.size = source->bytes, .read = read_source, .arg = (void *)source},
		.now_s = now_s,
	};
	return 0;
}

void deliver_release(deliver_mail *deliver)
{
	mail_summary_free(&deliver->summary);
}

int deliver_to(store *s, const mail_source *source, int64_t now_s, store_place *places, unsigned count)
{
	deliver_mail deliver;
	int error = deliver_prepare(&deliver, source, now_s);
	if (error != 0)
		return error;
	error = store_deliver(s, &deliver.mail, places, count);
	deliver_release(&deliver);
	return error;
}

/* ---- out of the store ---- */

static int read_chunk(deliver_body *b, uint64_t offset)
{
	uint64_t at = offset / STORE_CHUNK * STORE_CHUNK;
	if (b->chunk_bytes > 0 && at == b->chunk_at)
		return 0;
	b->chunk_bytes = 0;
	int64_t got = store_body_read(b->store, &b->body, at, b->chunk, STORE_CHUNK);
	if (got < 0)
		return (int)got;
	b->chunk_at = at;
	b->chunk_bytes = (size_t)got;
	return 0;
}

static int read_body(const mail_source *source, uint64_t offset, void *to, size_t length)
{
	deliver_body *b = source->arg;
	if (offset >= source->bytes)
		return 0;
	int error = read_chunk(b, offset);
	size_t from = (size_t)(offset % STORE_CHUNK);
	if (error != 0 || from >= b->chunk_bytes)
		return error;
	if (length > b->chunk_bytes - from)
		length = b->chunk_bytes - from;
	memcpy(to, b->chunk + from, length);
	return (int)length;
}

int deliver_body_init(deliver_body *b, store *s, const store_body *body)
{
	*b = (deliver_body){.store = s, .body = *body, .chunk = malloc(STORE_CHUNK)};
	b->source = (mail_source){.read = read_body, .bytes = body->size, .fd = -1, .arg = b};
	return b->chunk != NULL ? 0 : weir_error_set(-ENOMEM, "out of memory");
}

int deliver_body_open(deliver_body *b, store *s, uint32_t user, uint32_t message)
{
	store_body body;
	*b = (deliver_body){0};
	int error = store_body_open(s, user, message, &body);
	return error != 0 ? error : deliver_body_init(b, s, &body);
}

void deliver_body_fini(deliver_body *b)
{
	free(b->chunk);
	b->chunk = NULL;
}
