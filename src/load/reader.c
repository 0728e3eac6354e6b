/* SPDX-License-Identifier: Apache-2.0 */
#include "load/reader.h"

#include <string.h>

#include "base/mem.h"

#define INTERIMS_MOST 16
#define DATE_LENGTH   29
#define RETRY_MOST_S  86400u

enum { HEAD, LENGTH, CHUNKS, TRAILERS, TO_END, WRONG };

static const weir_head_limits limits = {LOAD_HEAD_BYTES, LOAD_HEAD_BYTES, LOAD_HEAD_FIELDS};

void load_reader_init(load_reader *reader)
{
	memset(reader, 0, sizeof(*reader));
}

void load_reader_begin(load_reader *reader, weir_method method)
{
	reader->meaning.status = 0;
	reader->bytes = 0;
	reader->phase = HEAD;
	reader->method = (uint8_t)method;
	reader->interims = 0;
	reader->held_length = 0;
	if (reader->kept != NULL) {
		reader->kept->length = reader->kept->cookie_length = 0;
		reader->kept->cookie_count = 0;
	}
}

void load_reader_fini(load_reader *reader)
{
	weir_mem_free(reader->held);
	reader->held = NULL;
}

/* ---- heads equal to the last one ---- */

/* The Date may be any bytes except those that could end a line. */
static bool is_plain(const char *bytes, size_t length)
{
	unsigned least = 0xff;
	for (size_t i = 0; i < length; i++)
		least = (unsigned char)bytes[i] < least ? (unsigned char)bytes[i] : least;
	return least >= ' ';
}

static bool is_same(const load_heads *heads, uint8_t method, const char *bytes, size_t length)
{
	if (heads->length == 0 || length < heads->length || method != heads->method)
		return false;
	uint32_t date = heads->date, rest = date != 0 ? date + DATE_LENGTH : 0;
	return memcmp(bytes, heads->bytes, date) == 0 &&
	       memcmp(bytes + rest, heads->bytes + rest, heads->length - rest) == 0 &&
	       (date == 0 || is_plain(bytes + date, DATE_LENGTH));
}

static void remember(load_heads *heads, uint8_t method, const weir_head *head, const char *bytes)
{
	heads->length = 0;
	if (head->length > LOAD_HEAD_SAME)
		return;
	heads->date = 0;
	for (unsigned i = 0; i < head->field_count; i++) {
		const weir_head_field *field = &heads->fields[i];
		if (field->id == WEIR_FIELD_DATE && field->value_length == DATE_LENGTH)
			heads->date = field->value;
	}
	memcpy(heads->bytes, bytes, head->length);
	heads->length = head->length;
	heads->method = method;
}

/* ---- the contents of a head ---- */

static uint32_t read_seconds(const char *text, size_t length)
{
	uint32_t seconds = 0;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return 0;
		seconds = seconds * 10 + (uint32_t)(text[i] - '0');
		if (seconds > RETRY_MOST_S)
			return RETRY_MOST_S;
	}
	return seconds;
}

void load_kept_cookie(load_kept *kept, const char *value, uint32_t length)
{
	if (kept->cookie_count == LOAD_COOKIES_MAX || length > sizeof(kept->cookie) - kept->cookie_length)
		return;
	char *to = kept->cookie + kept->cookie_length;
	memcpy(to, value, length);
	kept->cookie_length += length;
	kept->cookies[kept->cookie_count++] = (weir_span){to, length};
}

static void read_fields(load_reader *reader, const load_heads *heads, const weir_head *head,
			const char *bytes)
{
	static const weir_span cookie = {"set-cookie", 10};
	for (unsigned i = 0; i < head->field_count; i++) {
		const weir_head_field *field = &heads->fields[i];
		if (field->id == WEIR_FIELD_RETRY_AFTER)
			reader->meaning.retry_after_s =
				read_seconds(bytes + field->value, field->value_length);
		else if (reader->kept != NULL && field->id == WEIR_FIELD_OTHER &&
			 weir_span_is((weir_span){bytes + field->name, field->name_length}, cookie))
			load_kept_cookie(reader->kept, bytes + field->value, field->value_length);
	}
}

static void understand(load_reader *reader, load_heads *heads, const weir_head *head, const char *bytes)
{
	reader->meaning = (load_meaning){.status = head->status,
					 .framing = head->framing,
					 .body_length = head->body_length,
					 .keep = (head->flags & WEIR_HEAD_KEEP) != 0};
	read_fields(reader, heads, head, bytes);
	heads->read++;
	/* A reader that keeps cookies must read them each time. */
	if (reader->kept == NULL && head->status >= 200) {
		remember(heads, reader->method, head, bytes);
		heads->meaning = reader->meaning;
	}
}

/* ---- heads and trailers, in one piece or in several ---- */

/* The bytes of a head, complete or so far. */
typedef struct piece {
	const char *bytes;
	size_t length;
	size_t before; /* bytes held from earlier calls */
} piece;

static bool hold(load_reader *reader, const char *bytes, size_t length)
{
	size_t room = LOAD_HEAD_BYTES + 1 - reader->held_length;
	if (reader->held == NULL)
		reader->held = weir_mem_raw(LOAD_HEAD_BYTES + 1);
	if (reader->held == NULL)
		return false;
	length = length < room ? length : room;
	memcpy(reader->held + reader->held_length, bytes, length);
	reader->held_length += (uint32_t)length;
	return true;
}

static bool gather(load_reader *reader, const char *bytes, size_t length, piece *ret_piece)
{
	*ret_piece = (piece){bytes, length, reader->held_length};
	if (reader->held_length == 0) {
		weir_head_init(&reader->head);
		return true;
	}
	if (!hold(reader, bytes, length))
		return false;
	ret_piece->bytes = reader->held;
	ret_piece->length = reader->held_length;
	return true;
}

static load_read wrong(load_reader *reader)
{
	reader->phase = WRONG;
	return LOAD_READ_BAD;
}

/* MORE: the bytes are kept. DONE: *ret_used of the given bytes belong to it. */
static load_read read_head(load_reader *reader, load_heads *heads, const char *bytes, size_t length,
			   size_t *ret_used, piece *ret_piece)
{
	if (!gather(reader, bytes, length, ret_piece))
		return wrong(reader);
	weir_head *head = &reader->head;
	weir_parse parsed = reader->phase == TRAILERS
				    ? weir_parse_trailers(head, ret_piece->bytes, ret_piece->length, &limits,
							  heads->fields)
				    : weir_parse_answer(head, ret_piece->bytes, ret_piece->length, &limits,
							(weir_method)reader->method, heads->fields);
	if (parsed == WEIR_PARSE_BAD)
		return wrong(reader);
	if (parsed == WEIR_PARSE_MORE) {
		*ret_used = length;
		if (ret_piece->before == 0 && !hold(reader, bytes, length))
			return wrong(reader);
		return LOAD_READ_MORE;
	}
	*ret_used = head->length - ret_piece->before;
	reader->held_length = 0;
	return LOAD_READ_DONE;
}

/* The head is complete: decides what follows. DONE: nothing. */
static load_read after_head(load_reader *reader)
{
	switch (reader->meaning.framing) {
	case WEIR_BODY_NONE:
		return LOAD_READ_DONE;
	case WEIR_BODY_LENGTH:
		reader->left = reader->meaning.body_length;
		reader->phase = LENGTH;
		return LOAD_READ_MORE;
	case WEIR_BODY_CHUNKED:
		reader->chunks = (weir_chunks){0};
		reader->phase = CHUNKS;
		return LOAD_READ_MORE;
	default:
		reader->phase = TO_END;
		return LOAD_READ_MORE;
	}
}

static load_read take_head(load_reader *reader, load_heads *heads, const char *bytes, size_t length,
			   size_t *ret_used)
{
	piece whole;
	if (reader->held_length == 0 && reader->kept == NULL &&
	    is_same(heads, reader->method, bytes, length)) {
		reader->meaning = heads->meaning;
		heads->same++;
		*ret_used = heads->length;
		return after_head(reader);
	}
	load_read read = read_head(reader, heads, bytes, length, ret_used, &whole);
	if (read != LOAD_READ_DONE)
		return read;
	understand(reader, heads, &reader->head, whole.bytes);
	if (reader->meaning.status >= 200 || reader->meaning.status == 101)
		return after_head(reader);
	reader->meaning.status = 0;
	return ++reader->interims > INTERIMS_MOST ? wrong(reader) : LOAD_READ_MORE;
}

/* ---- bodies ---- */

void load_kept_body(load_kept *kept, const char *bytes, size_t length)
{
	size_t room = kept->most - kept->length;
	length = length < room ? length : room;
	if (length > 0)
		memcpy(kept->body + kept->length, bytes, length);
	kept->length += (uint32_t)length;
}

static void keep_body(load_reader *reader, const char *bytes, size_t length)
{
	if (reader->kept != NULL)
		load_kept_body(reader->kept, bytes, length);
}

static load_read take_length(load_reader *reader, const char *bytes, size_t length, size_t *ret_used)
{
	*ret_used = length < reader->left ? length : (size_t)reader->left;
	reader->left -= *ret_used;
	keep_body(reader, bytes, *ret_used);
	return reader->left == 0 ? LOAD_READ_DONE : LOAD_READ_MORE;
}

static load_read take_chunks(load_reader *reader, const char *bytes, size_t length, size_t *ret_used)
{
	size_t data, data_length;
	weir_parse parsed = weir_chunks_take(&reader->chunks, bytes, length, ret_used, &data, &data_length);
	if (parsed == WEIR_PARSE_BAD)
		return wrong(reader);
	keep_body(reader, bytes + data, data_length);
	if (parsed == WEIR_PARSE_DONE)
		reader->phase = TRAILERS;
	return LOAD_READ_MORE;
}

static load_read take_part(load_reader *reader, load_heads *heads, const char *bytes, size_t length,
			   size_t *ret_used)
{
	piece whole;
	switch (reader->phase) {
	case HEAD:
		return take_head(reader, heads, bytes, length, ret_used);
	case LENGTH:
		return take_length(reader, bytes, length, ret_used);
	case CHUNKS:
		return take_chunks(reader, bytes, length, ret_used);
	case TRAILERS:
		return read_head(reader, heads, bytes, length, ret_used, &whole);
	case TO_END:
		keep_body(reader, bytes, length);
		*ret_used = length;
		return LOAD_READ_MORE;
	default:
		return LOAD_READ_BAD;
	}
}

load_read load_reader_take(load_reader *reader, load_heads *heads, const char *bytes, size_t length,
			   size_t *ret_used)
{
	size_t used = 0;
	while (used < length) {
		size_t part = 0;
		load_read read = take_part(reader, heads, bytes + used, length - used, &part);
		used += part;
		reader->bytes += part;
		if (read != LOAD_READ_MORE) {
			*ret_used = used;
			return read;
		}
	}
	*ret_used = used;
	return LOAD_READ_MORE;
}

load_read load_reader_end(load_reader *reader)
{
	if (reader->phase != TO_END)
		return wrong(reader);
	reader->meaning.keep = false;
	return LOAD_READ_DONE;
}
