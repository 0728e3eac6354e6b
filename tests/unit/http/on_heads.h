/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_ON_HEADS_H
#define WEIR_TESTS_ON_HEADS_H

/*
 * Heads parsed in every way that must make no difference: by each scanner of this machine, whole, cut in two at each byte, byte by byte, with more behind them, up against a page that
 * nobody may touch, at their end and at their beginning. The result is one line of text, so that tables can hold it:
 *
 *	GET /x?y host=a.b 11 length=5 keep | Host: a.b | Content-Length: 5
 *	400 a folded line
 *	more
 */

#include "support/guard.h"

#include <stdlib.h>
#include <string.h>

#include "http/parse.h"

#define HEAD_FIELDS_MAX 128
#define HEAD_RESULT_MAX 4096

enum head_kind {
	HEAD_REQUEST,
	HEAD_ANSWER,
	HEAD_TRAILERS,
};

typedef struct head_case {
	enum head_kind kind;
	weir_method asked; /* of an answer */
	weir_head_limits limits;
	const char *text;
	size_t length;
} head_case;

static const weir_head_limits head_usual_limits = {.line_bytes = 8192, .head_bytes = 32768, .fields = 100};
static const char *const head_scanners[] = {"plain", "sse4.2", "avx2"};
#define HEAD_SCANNERS (sizeof(head_scanners) / sizeof(*head_scanners))

/* ---- one line of text about a result ---- */

typedef struct head_line {
	char text[HEAD_RESULT_MAX];
	size_t length;
} head_line;

__attribute__((format(printf, 2, 3))) static void head_add(head_line *line, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	int length = vsnprintf(line->text + line->length, sizeof(line->text) - line->length, format, list);
	va_end(list);
	line->length += (size_t)length;
	if (line->length >= sizeof(line->text))
		line->length = sizeof(line->text) - 1;
}

static void head_add_request(head_line *line, const weir_head *head, const char *bytes)
{
	static const char *const names[] = {"OTHER",
#define WEIR_X(name) #name,
					    WEIR_METHODS(WEIR_X)
#undef WEIR_X
	};
	if (head->method == WEIR_METHOD_OTHER)
		head_add(line, "OTHER:%.*s", (int)head->method_length, bytes + head->start);
	else
		head_add(line, "%s", names[head->method]);
	head_add(line, " %.*s", (int)head->path_length, bytes + head->path);
	if (head->query != 0)
		head_add(line, "?%.*s", (int)head->query_length, bytes + head->query);
	head_add(line, " host=%.*s", (int)head->host_length, bytes + head->host);
	/* Places are within the head. */
	assert_true(head->path + head->path_length < head->length);
	assert_true(head->query + head->query_length < head->length);
	assert_true(head->host + head->host_length < head->length);
	assert_true(head->start + head->method_length < head->length);
}

static void head_add_flags(head_line *line, const weir_head *head)
{
	static const char *const names[] = {"keep",     "continue", "upgrade",
					    "absolute", "trailers", "expect-other"};
	for (unsigned i = 0; i < 6; i++)
		if (head->flags >> i & 1)
			head_add(line, " %s", names[i]);
}

static void head_add_fields(head_line *line, const weir_head *head, const char *bytes,
			    const weir_head_field *fields)
{
	for (unsigned i = 0; i < head->field_count; i++) {
		const weir_head_field *field = &fields[i];
		assert_true(field->value + field->value_length <= head->length - 2);
		assert_true(field->name + field->name_length < field->value);
		weir_span name = {bytes + field->name, field->name_length};
		assert_int_equal(field->id, weir_field_find(name));
		head_add(line, " | %.*s: %.*s", (int)name.length, name.at, (int)field->value_length,
			 bytes + field->value);
	}
}

static void head_describe(head_line *line, weir_parse result, const head_case *of, const char *bytes,
			  const weir_head *head, const weir_head_field *fields)
{
	static const char *const framings[] = {"none", "length", "chunked", "to-end"};
	line->length = 0;
	line->text[0] = '\0';
	if (result == WEIR_PARSE_MORE) {
		head_add(line, "more");
		return;
	}
	if (result == WEIR_PARSE_BAD) {
		head_add(line, "%u %s", head->status, head->error);
		return;
	}
	if (of->kind == HEAD_REQUEST)
		head_add_request(line, head, bytes);
	else if (of->kind == HEAD_ANSWER)
		head_add(line, "%u '%.*s'", head->status, (int)head->reason_length, bytes + head->reason);
	if (of->kind != HEAD_TRAILERS) {
		head_add(line, " %u %s", head->version, framings[head->framing]);
		if (head->framing == WEIR_BODY_LENGTH)
			head_add(line, "=%" PRIu64, head->body_length);
		head_add_flags(line, head);
	}
	head_add_fields(line, head, bytes, fields);
	head_add(line, " | %u", head->length);
}

/* ---- parsing ---- */

static weir_parse head_call(weir_head *head, const head_case *of, const char *bytes, size_t length,
			    weir_head_field *fields)
{
	if (of->kind == HEAD_REQUEST)
		return weir_parse_request(head, bytes, length, &of->limits, fields);
	if (of->kind == HEAD_ANSWER)
		return weir_parse_answer(head, bytes, length, &of->limits, of->asked, fields);
	return weir_parse_trailers(head, bytes, length, &of->limits, fields);
}

/* A fresh parse of that many bytes, in memory of their own. */
static void head_whole(head_line *line, const head_case *of, const char *bytes, size_t length)
{
	static weir_head_field fields[HEAD_FIELDS_MAX];
	weir_head head;
	weir_head_init(&head);
	weir_parse result = head_call(&head, of, bytes, length, fields);
	head_describe(line, result, of, bytes, &head, fields);
}

static void head_same(const head_line *line, const head_line *want, const head_case *of, const char *how,
		      size_t at)
{
	if (strcmp(line->text, want->text) != 0)
		fail_msg("%s %zu of %zu bytes:\n%.*s\ngives  %s\ninstead %s", how, at, of->length,
			 of->length < 2000 ? (int)of->length : 2000, of->text, line->text, want->text);
}

/* First that many bytes, then all of them; the array of fields is another one, and has other things in it. */
static void head_split(head_line *line, const head_case *of, const char *bytes, size_t first)
{
	static weir_head_field fields[2][HEAD_FIELDS_MAX];
	weir_head head;
	memset(fields, 0xee, sizeof(fields));
	weir_head_init(&head);
	weir_parse result = head_call(&head, of, bytes, first, fields[0]);
	if (result == WEIR_PARSE_MORE)
		result = head_call(&head, of, bytes, of->length, fields[1]);
	head_describe(line, result, of, bytes, &head,
		      result == WEIR_PARSE_DONE && first == of->length ? fields[0] : fields[1]);
}

/* Byte by byte; after each of them what a fresh parse of the same bytes would say. */
static void head_dribble(head_line *line, const head_case *of, bool compare)
{
	static weir_head_field fields[HEAD_FIELDS_MAX];
	static head_line fresh;
	weir_head head;
	weir_head_init(&head);
	for (size_t length = 0; length <= of->length; length++) {
		const char *bytes = guard_end(of->text, length);
		weir_parse result = head_call(&head, of, bytes, length, fields);
		head_describe(line, result, of, bytes, &head, fields);
		if (compare) {
			head_whole(&fresh, of, bytes, length);
			head_same(line, &fresh, of, "byte by byte, after", length);
		}
		if (result == WEIR_PARSE_MORE)
			assert_true(head.seen + 13 >= length);
		else
			break;
	}
}

static void head_by_scanner(const head_line *want, const head_case *of)
{
	static head_line line;
	head_whole(&line, of, guard_end(of->text, of->length), of->length);
	head_same(&line, want, of, "at the end", of->length);
	head_whole(&line, of, guard_begin(of->text, of->length), of->length);
	head_same(&line, want, of, "at the beginning", of->length);
	for (size_t first = 0; first < of->length && of->length < 2000; first++) {
		head_split(&line, of, guard_end(of->text, of->length), first);
		head_same(&line, want, of, "in two parts, the first of", first);
	}
	head_dribble(&line, of, of->length < 2000);
	head_same(&line, want, of, "byte by byte, all", of->length);
}

/* The result, the same in all ways. */
static const char *head_result(const head_case *of)
{
	static head_line want;
	assert_true(weir_scan_force("plain"));
	head_whole(&want, of, of->text, of->length);
	for (size_t i = 0; i < HEAD_SCANNERS; i++)
		if (weir_scan_force(head_scanners[i]))
			head_by_scanner(&want, of);
	weir_scan_force(NULL);
	return want.text;
}

/* A head that is whole is the same with more behind it. */
static void head_with_more(const head_case *of, const char *want)
{
	char *longer = malloc(of->length + 100);
	static head_line line;
	assert_non_null(longer);
	memcpy(longer, of->text, of->length);
	memset(longer + of->length, '\n', 100);
	head_whole(&line, of, longer, of->length + 100);
	assert_string_equal(line.text, want);
	free(longer);
}

/* The result ends with the length of the head, which is that of the text: tables leave it out. */
static void head_expect(const head_case *of, const char *want)
{
	char whole[HEAD_RESULT_MAX];
	const char *result = head_result(of);
	bool stopped = (want[0] >= '4' && want[0] <= '5' && want[3] == ' ' && want[4] != '\'') ||
		       strcmp(want, "more") == 0;
	if (stopped)
		snprintf(whole, sizeof(whole), "%s", want);
	else
		snprintf(whole, sizeof(whole), "%s | %zu", want, of->length);
	if (strcmp(result, whole) != 0)
		fail_msg("%.*s\ngives   %s\ninstead %s", (int)of->length, of->text, result, whole);
	if (!stopped)
		head_with_more(of, whole);
}

#endif
