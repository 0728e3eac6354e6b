/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What RFC 9113 8 demands of the fields of a request. A request that breaks one of these rules is
 * malformed, and its stream is reset: the client is no HTTP/2 client, or somebody made it send what others
 * would read differently. What a field means beyond that is judged by h2_head.c, whose refusals have a
 * status.
 */
#include <string.h>

#include "http/h2.h"
#include "http/head.h"
#include "http/scan.h"

enum seen {
	METHOD = 1 << 0,
	SCHEME = 1 << 1,
	PATH = 1 << 2,
	AUTHORITY = 1 << 3,
	HOST = 1 << 4,
	LENGTH = 1 << 5,
	REGULAR = 1 << 6, /* a field that is no pseudo field: no more of those may come */
};

/* ---- bytes ---- */

/* Bytes as bits, 64 in each. */
#define BIT(c) (UINT64_C(1) << ((c)&63))

/* A token without capitals. */
static const uint64_t name_bits[4] = {
	[0] = BIT('!') | BIT('#') | BIT('$') | BIT('%') | BIT('&') | BIT('\'') | BIT('*') | BIT('+') |
	      BIT('-') | BIT('.') | UINT64_C(0x3ff) << '0',
	[1] = BIT('^') | BIT('_') | BIT('`') | BIT('|') | BIT('~') | UINT64_C(0x3ffffff) << ('a' - 64),
};

/* RFC 3986: what an authority consists of. Whether it is one is judged later. */
static const uint64_t authority_bits[4] = {
	[0] = BIT('!') | BIT('$') | BIT('%') | BIT('&') | BIT('\'') | BIT('(') | BIT(')') | BIT('*') |
	      BIT('+') | BIT(',') | BIT('-') | BIT('.') | BIT(':') | BIT(';') | BIT('=') |
	      UINT64_C(0x3ff) << '0',
	[1] = BIT('@') | BIT('[') | BIT(']') | BIT('_') | BIT('~') | UINT64_C(0x3ffffff) << ('A' - 64) |
	      UINT64_C(0x3ffffff) << ('a' - 64),
};

static bool consists_of(weir_span text, const uint64_t *bits)
{
	for (size_t i = 0; i < text.length; i++) {
		uint8_t c = (uint8_t)text.at[i];
		if (!(bits[c >> 6] >> (c & 63) & 1))
			return false;
	}
	return true;
}

bool weir_h2_rules_authority(weir_span value)
{
	return value.length > 0 && consists_of(value, authority_bits);
}

/* No control byte and no space. Others than ASCII are refused later, with a status. */
bool weir_h2_rules_path(weir_span value)
{
	for (size_t i = weir_scan()->query(value.at, 0, value.length); i < value.length; i++)
		if ((uint8_t)value.at[i] <= ' ' || value.at[i] == 0x7f)
			return false;
	return value.length > 0;
}

static bool is_token(weir_span value)
{
	return value.length > 0 && weir_scan()->token(value.at, 0, value.length) == value.length;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

/* Whether eight bytes are all 0x20 .. 0x7e. */
static bool are_plain(const char *at)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t x;
	memcpy(&x, at, 8);
	return ((x | (x - 0x20 * ones) | (x + ones)) & 0x80 * ones) == 0;
}

/* Values are short, and nearly all of them are plain: the scanners are for longer ones. */
static bool is_plain_value(weir_span value)
{
	size_t i = 0;
	for (; i + 8 <= value.length; i += 8)
		if (!are_plain(value.at + i))
			return false;
	if (value.length >= 8)
		return i == value.length || are_plain(value.at + value.length - 8);
	for (; i < value.length; i++)
		if ((uint8_t)(value.at[i] - 0x20) > 0x7e - 0x20)
			return false;
	return true;
}

static bool is_value(weir_span value)
{
	return value.length == 0 ||
	       (!is_space(value.at[0]) && !is_space(value.at[value.length - 1]) &&
		(is_plain_value(value) || weir_scan()->value(value.at, 0, value.length) == value.length));
}

static bool is_name(const weir_hpack_field *field)
{
	return field->known != 0 || (field->name.length > 0 && consists_of(field->name, name_bits));
}

/* ---- pseudo fields ---- */

/* Once each. */
static bool first(weir_h2_stream *stream, unsigned what)
{
	bool is_first = !(stream->seen & what);
	stream->seen |= (uint8_t)what;
	return is_first;
}

static bool is(weir_span text, const char *other, size_t length)
{
	return text.length == length && memcmp(text.at, other, length) == 0;
}

#define IS(text, other) is(text, other, sizeof(other) - 1)

static bool judge_pseudo(weir_h2_stream *stream, const weir_hpack_field *field)
{
	if (!(stream->flags & WEIR_H2_HEAD) || stream->seen & REGULAR)
		return false;
	/*
	 * Whether path and authority consist of bytes that they may have, h2_head.c asks if it refuses them.
	 */
	if (IS(field->name, ":method"))
		return first(stream, METHOD) && (IS(field->value, "GET") || is_token(field->value));
	if (IS(field->name, ":path"))
		return first(stream, PATH) && field->value.length > 0;
	if (IS(field->name, ":scheme"))
		return first(stream, SCHEME) && (IS(field->value, "https") || is_token(field->value));
	return IS(field->name, ":authority") && first(stream, AUTHORITY) && field->value.length > 0;
}

/* ---- fields ---- */

static bool judge_length(weir_h2_stream *stream, weir_span value)
{
	uint64_t length = 0;
	if (!(stream->flags & WEIR_H2_HEAD))
		return true; /* refused as a trailer */
	if (!first(stream, LENGTH) || value.length == 0)
		return false;
	for (size_t i = 0; i < value.length; i++) {
		unsigned digit = (unsigned)(uint8_t)value.at[i] - '0';
		if (digit > 9 || length > ((uint64_t)INT64_MAX - digit) / 10)
			return false;
		length = 10 * length + digit;
	}
	stream->length_left = length;
	return true;
}

/* Fields about a connection have no meaning here (8.2.2). */
bool weir_h2_rules_form(const weir_hpack_field *field, weir_field_id id)
{
	if (!is_name(field) || !is_value(field->value))
		return false;
	switch (id) {
	case WEIR_FIELD_CONNECTION:
	case WEIR_FIELD_KEEP_ALIVE:
	case WEIR_FIELD_PROXY_CONNECTION:
	case WEIR_FIELD_TRANSFER_ENCODING:
	case WEIR_FIELD_UPGRADE:
		return false;
	case WEIR_FIELD_TE:
		return weir_span_is(field->value, WEIR_SPAN("trailers"));
	default:
		return true;
	}
}

bool weir_h2_rules_field(weir_h2_stream *stream, const weir_hpack_field *field, weir_field_id id)
{
	if (field->name.length > 0 && field->name.at[0] == ':')
		return judge_pseudo(stream, field);
	stream->seen |= REGULAR;
	if (!weir_h2_rules_form(field, id))
		return false;
	if (id == WEIR_FIELD_HOST)
		return first(stream, HOST) && field->value.length > 0;
	return id != WEIR_FIELD_CONTENT_LENGTH || judge_length(stream, field->value);
}

/* ---- heads ---- */

/*
 * Which of the bytes of the head is the path depends on whether it was kept: it is not if there was another
 * error.
 */
static bool is_target(const weir_h2_stream *stream)
{
	const weir_request *request = stream->request;
	const weir_head *head = &request->head;
	if (stream->error != NULL)
		return true;
	const char *path = request->base + head->path;
	return path[0] == '/' || (head->path_length == 1 && head->query == 0 && path[0] == '*' &&
				  head->method == WEIR_METHOD_OPTIONS);
}

bool weir_h2_rules_head(const weir_h2_stream *stream, bool last)
{
	unsigned seen = stream->seen;
	if (last && stream->length_left != 0 && stream->length_left != WEIR_UNKNOWN_LENGTH)
		return false;
	if (stream->request->head.method == WEIR_METHOD_CONNECT && seen & METHOD)
		return (seen & (SCHEME | PATH | AUTHORITY)) == AUTHORITY;
	return (seen & (METHOD | SCHEME | PATH)) == (METHOD | SCHEME | PATH) && seen & (AUTHORITY | HOST) &&
	       is_target(stream);
}
