/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ours against libhttp_parser: whatever we accept, it accepts too, with the same method, target, version, framing, fields and body. What we refuse it may accept. The input: one byte (request
 * or answer, and to which method), then a head and whatever follows: a body, trailers, the next message.
 *
 * Where we accept and it does not, or reads otherwise, on purpose:
 *  1. Methods: it knows a list, we take any token. Requests with a method that it does not know are not compared.
 *  2. Connection: its reader of that list knows no quoted strings, and misses the option after one that is a part of a known one ("kee, close"). Whether a connection goes on is compared
 *     where there is one option at most.
 *  3. Upgrade: it ends a message at its head where a request asks for another protocol and has no body, and so do we; what it calls upgrade with a body is compared as any other.
 *  4. A name that only begins like Transfer-Encoding is one to it (2.9.4 sets its flag too early). Such heads are not compared.
 *  5. It does not take a tab after a value for a space. Heads that have one after a value it knows are not compared.
 *  6. It has no idea of what was asked (HEAD, CONNECT), and reads bodies of 304: told by the callback, as its manual says. We do not use a connection again after a 304 with Transfer-Encoding,
 *     for such readers' sake.
 */

#include <http_parser.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "http/parse.h"
#include "target.h"

#define FIELDS 50

static const weir_head_limits limits = {.line_bytes = 8192, .head_bytes = 32768, .fields = FIELDS};

/* ---- ours: the head, and how far the body goes ---- */

typedef struct ours {
	weir_head head;
	weir_head_field fields[FIELDS];
	bool answer;
	weir_method asked;
	uint64_t body;
	size_t used;
	bool in_trailers;
	bool over, bad; /* neither: more bytes are needed */
} ours;

static void read_trailers(ours *our, const char *bytes, size_t length)
{
	weir_head_field fields[FIELDS];
	weir_head trailers;
	weir_head_init(&trailers);
	our->in_trailers = true;
	weir_parse result =
		weir_parse_trailers(&trailers, bytes + our->used, length - our->used, &limits, fields);
	our->bad = result == WEIR_PARSE_BAD;
	our->over = result == WEIR_PARSE_DONE;
	our->used += our->over ? trailers.length : 0;
}

static void read_chunks(ours *our, const char *bytes, size_t length)
{
	weir_chunks chunks = {0};
	weir_parse result = WEIR_PARSE_MORE;
	while (result == WEIR_PARSE_MORE && our->used < length) {
		size_t used = 0, data, data_length = 0;
		result = weir_chunks_take(&chunks, bytes + our->used, length - our->used, &used, &data,
					  &data_length);
		our->used += used;
		our->body += data_length;
	}
	our->bad = result == WEIR_PARSE_BAD;
	if (result == WEIR_PARSE_DONE)
		read_trailers(our, bytes, length);
}

static void read_body(ours *our, const char *bytes, size_t length)
{
	our->used = our->head.length;
	size_t left = length - our->used;
	if (our->head.framing == WEIR_BODY_CHUNKED) {
		read_chunks(our, bytes, length);
		return;
	}
	uint64_t announced = our->head.framing == WEIR_BODY_TO_END ? UINT64_MAX : our->head.body_length;
	our->body = left < announced ? left : announced;
	our->over = our->body == announced;
	our->used += our->body;
}

/* ---- theirs ---- */

typedef struct theirs {
	const ours *our;
	const char *bytes;
	const char *target;
	size_t target_length;
	size_t field_count;
	bool in_name;
	bool head_over, over;
	uint64_t body;
} theirs;

static int on_url(http_parser *parser, const char *at, size_t length)
{
	theirs *their = parser->data;
	their->target = at;
	their->target_length = length;
	return 0;
}

static int on_name(http_parser *parser, const char *at, size_t length)
{
	theirs *their = parser->data;
	if (their->head_over)
		return 0;
	CHECK(their->field_count < their->our->head.field_count);
	const weir_head_field *field = &their->our->fields[their->field_count];
	CHECK(at == their->bytes + field->name && length == field->name_length);
	return 0;
}

/* It leaves spaces at the end of a value where they are. */
static int on_value(http_parser *parser, const char *at, size_t length)
{
	theirs *their = parser->data;
	if (their->head_over)
		return 0;
	const weir_head_field *field = &their->our->fields[their->field_count++];
	while (length > 0 && (at[length - 1] == ' ' || at[length - 1] == '\t'))
		length--;
	CHECK(length == field->value_length);
	CHECK(length == 0 || at == their->bytes + field->value);
	return 0;
}

static int on_head(http_parser *parser)
{
	theirs *their = parser->data;
	const ours *our = their->our;
	their->head_over = true;
	CHECK(their->field_count == our->head.field_count);
	if (!our->answer)
		return 0;
	if (our->asked == WEIR_METHOD_CONNECT && our->head.status / 100 == 2)
		return 2;
	return our->asked == WEIR_METHOD_HEAD || our->head.status == 304 ? 1 : 0;
}

static int on_body(http_parser *parser, const char *at, size_t length)
{
	theirs *their = parser->data;
	their->body += length;
	return 0;
}

static int on_over(http_parser *parser)
{
	theirs *their = parser->data;
	their->over = true;
	http_parser_pause(parser, 1);
	return 0;
}

/* ---- both ---- */

static bool knows_method(const char *text, size_t length)
{
	for (unsigned method = 0; method < 64; method++) {
		const char *name = http_method_str(method);
		if (strlen(name) == length && memcmp(name, text, length) == 0)
			return true;
	}
	return false;
}

static bool has_connection_list(const ours *our, const char *bytes)
{
	unsigned options = 0;
	for (unsigned i = 0; i < our->head.field_count; i++)
		if (our->fields[i].id == WEIR_FIELD_CONNECTION)
			options +=
				memchr(bytes + our->fields[i].value, ',', our->fields[i].value_length) != NULL
					? 2
					: 1;
	return options > 1;
}

/* Heads that are not compared: points 4 and 5. */
static bool misread(const ours *our, const char *bytes)
{
	weir_span coding = weir_field_name(WEIR_FIELD_TRANSFER_ENCODING);
	for (unsigned i = 0; i < our->head.field_count; i++) {
		const weir_head_field *field = &our->fields[i];
		const char *end = bytes + field->value + field->value_length;
		if (field->name_length > coding.length &&
		    weir_span_is((weir_span){bytes + field->name, coding.length}, coding))
			return true;
		if (field->id != WEIR_FIELD_OTHER &&
		    memchr(end, '\t', (size_t)((const char *)memchr(end, '\r', our->head.length) - end)) !=
			    NULL)
			return true;
	}
	return false;
}

static void check_request(const ours *our, const theirs *their, const http_parser *parser, const char *bytes)
{
	const weir_head *head = &our->head;
	const char *method = http_method_str(parser->method),
		   *target = bytes + head->start + head->method_length + 1;
	CHECK(strlen(method) == head->method_length);
	CHECK(memcmp(method, bytes + head->start, head->method_length) == 0);
	CHECK(their->target == target && target[their->target_length] == ' ');
	CHECK(memcmp(target + their->target_length + 1, "HTTP/", 5) == 0);
}

static void check_head(const ours *our, const theirs *their, const http_parser *parser, const char *bytes)
{
	const weir_head *head = &our->head;
	CHECK(parser->http_major == 1 && parser->http_minor == head->version - 10);
	if (our->answer)
		CHECK(parser->status_code == head->status);
	else
		check_request(our, their, parser, bytes);
	bool tunnel = our->answer ? head->status == 101 || our->asked == WEIR_METHOD_CONNECT
				  : head->method == WEIR_METHOD_CONNECT;
	bool told = our->answer && (our->asked == WEIR_METHOD_HEAD || head->status == 304);
	if (!tunnel && !told && !has_connection_list(our, bytes))
		CHECK((http_should_keep_alive(parser) != 0) == (head->flags & WEIR_HEAD_KEEP));
}

static void differ(ours *our, const char *bytes, size_t length)
{
	http_parser parser;
	http_parser_settings settings;
	theirs their = {.our = our, .bytes = bytes};
	http_parser_init(&parser, our->answer ? HTTP_RESPONSE : HTTP_REQUEST);
	parser.data = &their;
	http_parser_settings_init(&settings);
	settings.on_url = on_url;
	settings.on_header_field = on_name;
	settings.on_header_value = on_value;
	settings.on_headers_complete = on_head;
	settings.on_body = on_body;
	settings.on_message_complete = on_over;

	/* The head alone first: what is behind it must not matter. */
	size_t used = http_parser_execute(&parser, &settings, bytes, our->head.length);
	enum http_errno error = HTTP_PARSER_ERRNO(&parser);
	if (error != HPE_OK && error != HPE_PAUSED)
		fprintf(stderr, "%s\n", http_errno_name(error));
	CHECK(error == HPE_OK || error == HPE_PAUSED);
	CHECK(their.head_over);
	check_head(our, &their, &parser, bytes);
	read_body(our, bytes, length);
	if (our->bad || (our->in_trailers && !our->over))
		return; /* trailers are judged at the ends of their lines: it may refuse before we do */
	/* No bytes at all would mean to it that the connection has ended. */
	if (error == HPE_OK && !their.over && length > our->head.length)
		used += http_parser_execute(&parser, &settings, bytes + our->head.length,
					    length - our->head.length);
	error = HTTP_PARSER_ERRNO(&parser);
	CHECK(error == HPE_OK || error == HPE_PAUSED);
	CHECK(their.body == our->body);
	CHECK(their.over == our->over);
	/* Paused at the last byte, it counts that as not yet used. */
	if (our->over)
		CHECK(used == our->used || used + 1 == our->used);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static ours our;
	if (size < 1)
		return 0;
	const char *bytes = (const char *)data + 1;
	size_t length = size - 1;
	memset(&our, 0, sizeof(our));
	our.answer = data[0] % 2;
	our.asked = data[0] / 2 % WEIR_METHOD_COUNT;
	weir_head_init(&our.head);
	weir_parse result =
		our.answer ? weir_parse_answer(&our.head, bytes, length, &limits, our.asked, our.fields)
			   : weir_parse_request(&our.head, bytes, length, &limits, our.fields);
	if (result != WEIR_PARSE_DONE)
		return 0;
	if (!our.answer && !knows_method(bytes + our.head.start, our.head.method_length))
		return 0;
	if (!misread(&our, bytes))
		differ(&our, bytes, length);
	return 0;
}
