/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as heads, chunks, dates, paths and lists. The input: one byte that says as what and with which limits, one that says where it is cut, then the bytes. Places are within the bytes;
 * every scanner and every cut gives the same; a head printed from what was found is the same head; a cleaned path is clean.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/parse.h"
#include "http/recent_fields.h"
#include "target.h"

#define FIELDS 20

enum { REQUEST, ANSWER, TRAILERS, CHUNKS, TEXTS, KINDS };

typedef struct outcome {
	weir_parse result;
	weir_head head;
	weir_head_field fields[FIELDS];
} outcome;

typedef struct input {
	unsigned kind;
	weir_method asked;
	weir_head_limits limits;
	const char *bytes;
	size_t length;
} input;

/* ---- heads ---- */

/* Parsed by all scanners, and again and again: fields are found among the recent ones after a while. */
static weir_recent_fields recent;

static weir_parse call(const input *in, weir_head *head, size_t length, weir_head_field *fields)
{
	if (in->kind == REQUEST)
		return weir_parse_request_recent(head, in->bytes, length, &in->limits, fields, &recent);
	if (in->kind == ANSWER)
		return weir_parse_answer(head, in->bytes, length, &in->limits, in->asked, fields);
	return weir_parse_trailers(head, in->bytes, length, &in->limits, fields);
}

/* Given in steps of that many bytes. */
static void run(const input *in, size_t step, outcome *ret_outcome)
{
	memset(ret_outcome, 0, sizeof(*ret_outcome));
	weir_head_init(&ret_outcome->head);
	size_t length = 0;
	do {
		length = length + step < in->length ? length + step : in->length;
		/* What an earlier call left in the array is nobody's. */
		memset(ret_outcome->fields, 0xee, sizeof(ret_outcome->fields));
		ret_outcome->result = call(in, &ret_outcome->head, length, ret_outcome->fields);
	} while (ret_outcome->result == WEIR_PARSE_MORE && length < in->length);
}

static void check_same_heads(const weir_head *a, const weir_head *b)
{
	CHECK(a->length == b->length && a->field_count == b->field_count && a->status == b->status);
	CHECK(a->version == b->version && a->method == b->method && a->framing == b->framing);
	CHECK(a->flags == b->flags && a->method_length == b->method_length && a->start == b->start);
	CHECK(a->path == b->path && a->path_length == b->path_length);
	CHECK(a->query == b->query && a->query_length == b->query_length);
	CHECK(a->host == b->host && a->host_length == b->host_length);
	CHECK(a->reason == b->reason && a->reason_length == b->reason_length);
	CHECK(a->body_length == b->body_length && a->error == b->error);
}

static void check_same(const outcome *a, const outcome *b)
{
	CHECK(a->result == b->result);
	if (a->result == WEIR_PARSE_BAD)
		CHECK(a->head.status == b->head.status && a->head.error == b->head.error);
	if (a->result != WEIR_PARSE_DONE)
		return;
	check_same_heads(&a->head, &b->head);
	CHECK(memcmp(a->fields, b->fields, a->head.field_count * sizeof(*a->fields)) == 0);
}

static void check_within(uint32_t at, uint32_t length, const weir_head *head)
{
	CHECK((uint64_t)at + length <= head->length);
}

static void check_places(const input *in, const outcome *out)
{
	const weir_head *head = &out->head;
	CHECK(head->length <= in->length && head->length <= in->limits.head_bytes && head->length >= 2);
	CHECK(memcmp(in->bytes + head->length - 2, "\r\n", 2) == 0);
	CHECK(head->field_count <= in->limits.fields);
	check_within(head->start, head->method_length, head);
	check_within(head->path, head->path_length, head);
	check_within(head->query, head->query_length, head);
	check_within(head->host, head->host_length, head);
	check_within(head->reason, head->reason_length, head);
	CHECK(head->framing != WEIR_BODY_LENGTH ||
	      (head->body_length != 0 && head->body_length <= INT64_MAX));
	CHECK(in->kind == ANSWER || head->framing != WEIR_BODY_TO_END);
	for (unsigned i = 0; i < head->field_count; i++) {
		const weir_head_field *field = &out->fields[i];
		check_within(field->name, field->name_length, head);
		check_within(field->value, field->value_length, head);
		CHECK(field->name_length > 0 && in->bytes[field->name + field->name_length] == ':');
		CHECK(memchr(in->bytes + field->value, '\n', field->value_length) == NULL);
		CHECK(memchr(in->bytes + field->value, '\r', field->value_length) == NULL);
	}
}

static size_t put(char *to, size_t at, const char *bytes, size_t length)
{
	memcpy(to + at, bytes, length);
	return at + length;
}

/* The first line as it was, then each field as it was found. */
static size_t print_head(const input *in, const outcome *out, char *to)
{
	size_t at = 0;
	if (in->kind != TRAILERS) {
		const char *line = in->bytes + out->head.start, *end = memchr(line, '\n', out->head.length);
		at = put(to, at, line, (size_t)(end - line) + 1);
	}
	for (unsigned i = 0; i < out->head.field_count; i++) {
		const weir_head_field *field = &out->fields[i];
		at = put(to, at, in->bytes + field->name, field->name_length);
		at = put(to, at, ": ", 2);
		at = put(to, at, in->bytes + field->value, field->value_length);
		at = put(to, at, "\r\n", 2);
	}
	return put(to, at, "\r\n", 2);
}

static void check_printed(const input *in, const outcome *out)
{
	static outcome again;
	char *text = malloc(out->head.length + 4 * FIELDS + 4);
	CHECK(text != NULL);
	input printed = *in;
	printed.bytes = text;
	printed.length = print_head(in, out, text);
	printed.limits.head_bytes = UINT32_MAX;
	run(&printed, printed.length, &again);
	const weir_head *a = &out->head, *b = &again.head;
	CHECK(again.result == WEIR_PARSE_DONE && b->length == printed.length);
	CHECK(a->method == b->method && a->version == b->version && a->framing == b->framing);
	CHECK(a->flags == b->flags && a->status == b->status && a->body_length == b->body_length);
	CHECK(a->field_count == b->field_count && a->path_length == b->path_length);
	CHECK(a->query_length == b->query_length && a->host_length == b->host_length);
	CHECK(memcmp(in->bytes + a->path, text + b->path, a->path_length) == 0);
	CHECK(memcmp(in->bytes + a->host, text + b->host, a->host_length) == 0);
	free(text);
}

static void fuzz_head(const input *in, unsigned cut)
{
	static const char *const scanners[] = {"plain", "sse4.2", "avx2"};
	static outcome first, other;
	const size_t steps[] = {in->length + 1, 1, 1 + cut % 64, in->length * cut / 256 + 1};
	weir_scan_force("plain");
	run(in, in->length + 1, &first);
	for (unsigned s = 0; s < 3; s++)
		if (weir_scan_force(scanners[s]))
			for (unsigned i = 0; i < 4; i++) {
				run(in, steps[i], &other);
				check_same(&first, &other);
			}
	if (first.result == WEIR_PARSE_DONE) {
		check_places(in, &first);
		check_printed(in, &first);
	}
}

/* ---- chunks ---- */

/* The data, and what is said at the end. */
static weir_parse decode(const char *bytes, size_t length, size_t step, char *to, size_t *ret_length,
			 size_t *ret_used)
{
	weir_chunks chunks = {0};
	weir_parse result = WEIR_PARSE_MORE;
	size_t at = 0, made = 0;
	while (result == WEIR_PARSE_MORE && at < length) {
		size_t used, data, data_length, some = step < length - at ? step : length - at;
		result = weir_chunks_take(&chunks, bytes + at, some, &used, &data, &data_length);
		if (result == WEIR_PARSE_BAD)
			break;
		CHECK(used > 0 && used <= some && data + data_length <= used);
		made = put(to, made, bytes + at + data, data_length);
		at += used;
	}
	*ret_length = made;
	*ret_used = at;
	return result;
}

static void fuzz_chunks(const char *bytes, size_t length, unsigned cut)
{
	char *whole = malloc(length + 1), *other = malloc(length + 1);
	const size_t steps[] = {1, 1 + cut % 64};
	size_t whole_length, other_length, whole_used, other_used;
	CHECK(whole != NULL && other != NULL);
	weir_parse result = decode(bytes, length, length, whole, &whole_length, &whole_used);
	for (unsigned i = 0; i < 2; i++) {
		CHECK(decode(bytes, length, steps[i], other, &other_length, &other_used) == result);
		CHECK(other_length == whole_length && memcmp(whole, other, whole_length) == 0);
		CHECK(result == WEIR_PARSE_BAD || whole_used == other_used);
	}
	free(whole);
	free(other);
}

/* ---- texts ---- */

static void fuzz_path(weir_span text, unsigned cut)
{
	size_t size = cut % 2 ? text.length + 2 : cut, length = 0;
	char *to = malloc(size + 1);
	bool dot;
	CHECK(to != NULL);
	if (weir_path_clean(text, to, size, &length, &dot)) {
		CHECK(length < size && to[0] == '/' && strlen(to) == length);
		CHECK(strstr(to, "//") == NULL && strstr(to, "/./") == NULL && strstr(to, "/../") == NULL);
		CHECK(dot == (strstr(to, "/.") != NULL));
		CHECK(length < 3 || strcmp(to + length - 3, "/..") != 0);
		CHECK(length < 2 || strcmp(to + length - 2, "/.") != 0);
	}
	free(to);
}

static void fuzz_texts(weir_span text, unsigned cut)
{
	char printed[30];
	weir_span list = text, element;
	const char *end = text.at + text.length, *last = text.at;
	while (weir_list_next(&list, &element)) {
		CHECK(element.at >= last && element.length > 0 && element.at + element.length <= end);
		last = element.at + element.length;
	}
	int64_t date = weir_date_parse(text, 1700000000);
	CHECK(date >= -1 && date <= 253402300800);
	if (date >= 0 && date < 253402300800) {
		weir_date_print(printed, date);
		CHECK(weir_date_parse((weir_span){printed, 29}, 1700000000) == date);
	}
	CHECK(weir_span_is(text, text));
	fuzz_path(text, cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	const char *bytes = (const char *)data + 2;
	input in = {.kind = data[0] % KINDS,
		    .asked = data[0] / KINDS % WEIR_METHOD_COUNT,
		    .limits = {.line_bytes = data[1] % 3 ? 8192 : 40,
			       .head_bytes = data[1] % 5 ? 32768 : 200,
			       .fields = data[1] % 7 ? FIELDS : 3},
		    .bytes = bytes,
		    .length = size - 2};
	if (in.kind == CHUNKS)
		fuzz_chunks(bytes, size - 2, data[1]);
	else if (in.kind == TEXTS)
		fuzz_texts((weir_span){bytes, size - 2}, data[1]);
	else
		fuzz_head(&in, data[1]);
	return 0;
}
