/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads: lines, and the fields in them. A reader walks through phases:
 *
 *	request   START → METHOD → PATH → [QUERY] → VERSION → LINE
 *	answer    STATUS → REASON → LINE
 *	trailers  LINE
 *	fields    LINE → NAME → VALUE → LINE, until the empty line
 *
 * Each phase is one scan. If the bytes end within it, phase and position are kept in the head and the next
 * call continues there. So no byte is scanned again while more arrive, and the result for a prefix does not
 * depend on how it arrived. Fields are not kept between calls: the array may be another one, and only the
 * last call's matter. So a head that arrived in parts is parsed once more when it is complete.
 *
 * No scan goes beyond a limit; running out of bytes there is the refusal. So a head is too long whatever
 * follows.
 *
 * This file reads carefully: anything, from any position, with an error for what is wrong. Lines of the usual
 * form do not come here. A scanner (scan.h) takes them, from the start of a fresh request, and again after
 * each line that had to be read here. A step takes a position and returns the next one. If it needs more
 * bytes or refuses something, it returns STOPPED and leaves the result in the reader.
 */

#include <string.h>

#include "http/head.h"
#include "http/scan.h"

#define METHOD_BYTES 32
#define STOPPED      SIZE_MAX
#define COLD         __attribute__((cold, noinline))
#define likely(x)    __builtin_expect(!!(x), 1)
#define unlikely(x)  __builtin_expect(!!(x), 0)

enum phase {
	PHASE_START,
	PHASE_METHOD,
	PHASE_PATH,
	PHASE_QUERY,
	PHASE_VERSION,
	PHASE_STATUS,
	PHASE_REASON,
	PHASE_LINE,
	PHASE_NAME,
	PHASE_VALUE,
	PHASE_BAD,
};

enum kind {
	REQUEST,
	ANSWER,
	TRAILERS,
};

/* Constant during a call, except for the result. */
typedef struct reader {
	const weir_scanner *scan;
	const char *bytes;
	size_t end; /* of the bytes, or the limit if that is lower */
	weir_head *head;
	const weir_head_limits *limits;
	weir_head_field *fields;
	weir_parse result; /* after a step has STOPPED */
} reader;

/* ---- ends of a call ---- */

COLD static size_t refuse(reader *r, uint16_t status, const char *error)
{
	r->head->phase = PHASE_BAD;
	r->head->status = status;
	r->head->error = error;
	r->result = WEIR_PARSE_BAD;
	return STOPPED;
}

COLD static size_t run_out(reader *r, size_t at, enum phase phase)
{
	r->head->seen = (uint32_t)at;
	r->head->phase = (uint8_t)phase;
	r->result = WEIR_PARSE_MORE;
	if (r->end < r->limits->head_bytes)
		return STOPPED;
	return phase < PHASE_LINE ? refuse(r, 414, "the first line is too long")
				  : refuse(r, 431, "the head is too long");
}

/* CR is at `at`; LF must follow. */
static inline size_t read_line_end(reader *r, size_t at, enum phase phase)
{
	if (unlikely(at + 1 == r->end))
		return run_out(r, at, phase);
	if (unlikely(r->bytes[at + 1] != '\n'))
		return refuse(r, 400, "CR without LF");
	return at + 2;
}

/* ---- fields ---- */

static const char *why_no_name(const char *bytes, size_t line, size_t at)
{
	switch (bytes[at]) {
	case ' ':
	case '\t':
		return at == line ? "a folded line" : "a space before the colon";
	case '\n':
		return "LF without CR";
	case '\r':
		return "a line without a colon";
	case ':':
		return "a field without a name";
	default:
		return "a byte that no field name has";
	}
}

/* Where a line's name ends, and where its value ends. Without a colon both are the end of the name. */
typedef struct line_ends {
	size_t colon, stop;
} line_ends;

/*
 * Returns the start of the next line, or STOPPED if this one is incomplete or malformed. A name's length has
 * 16 bits in weir_head_field.
 */
static size_t end_line(reader *r, size_t line, line_ends found)
{
	r->head->line = (uint32_t)line;
	r->head->colon = (uint32_t)found.colon;
	if (found.colon - line > UINT16_MAX)
		return refuse(r, 431, "a name is too long");
	if (found.colon == r->end)
		return run_out(r, found.colon, PHASE_NAME);
	if (r->bytes[found.colon] != ':' || found.colon == line)
		return refuse(r, 400, why_no_name(r->bytes, line, found.colon));
	if (found.stop == r->end)
		return run_out(r, found.stop, PHASE_VALUE);
	if (r->bytes[found.stop] == '\n')
		return refuse(r, 400, "LF without CR");
	if (r->bytes[found.stop] != '\r')
		return refuse(r, 400, "a control byte in a value");
	return read_line_end(r, found.stop, PHASE_VALUE);
}

/* Judges what the field after the last one means, and adds it. Returns next, or STOPPED. */
static size_t judge_field(reader *r, enum kind kind, size_t next)
{
	const weir_head_field *field = &r->fields[r->head->field_count];
	const char *error = NULL;
	if (kind == TRAILERS)
		error = weir_framing_trailer_field(r->head, field);
	else if (WEIR_FRAMING_FIELDS >> field->id & 1)
		error = kind == REQUEST ? weir_framing_request_field(r->head, r->bytes, field)
					: weir_framing_answer_field(r->head, r->bytes, field);
	if (unlikely(error != NULL))
		return refuse(r, r->head->status, error);
	r->head->field_count++;
	return next;
}

/* The ends of a line whose name has been scanned up to `at`. */
static line_ends scan_line(const reader *r, size_t at)
{
	line_ends found;
	found.colon = found.stop = r->scan->token(r->bytes, at, r->end);
	if (found.colon < r->end && r->bytes[found.colon] == ':')
		found.stop = r->scan->value(r->bytes, found.colon + 1, r->end);
	return found;
}

static size_t keep_line(reader *r, enum kind kind, size_t line, line_ends found)
{
	size_t next = end_line(r, line, found);
	if (next == STOPPED)
		return STOPPED;
	weir_head_keep(&r->fields[r->head->field_count], r->bytes, line, found.colon, found.stop);
	return judge_field(r, kind, next);
}

/* The rest of a line that an earlier call has begun. */
COLD static size_t resume_line(reader *r, enum kind kind)
{
	weir_head *head = r->head;
	line_ends found = {.colon = head->colon, .stop = head->seen};
	if (head->phase == PHASE_NAME)
		found = scan_line(r, head->seen);
	else
		found.stop = r->scan->value(r->bytes, found.stop, r->end);
	return keep_line(r, kind, head->line, found);
}

/* Takes lines of the usual form, if any. Trailers are too rare to be worth it. */
static inline size_t take_usual_fields(reader *r, enum kind kind, size_t at)
{
	if (kind == TRAILERS)
		return at;
	at = r->scan->fields(r->head, r->bytes, at, r->end, r->limits, r->fields, kind == ANSWER);
	return at != WEIR_SCAN_REFUSED ? at : refuse(r, r->head->status, r->head->error);
}

/* Reads fields, up to and including the empty line. */
static size_t read_fields(reader *r, enum kind kind, size_t at)
{
	weir_head *head = r->head;
	size_t most = r->limits->fields < UINT16_MAX ? r->limits->fields : UINT16_MAX;
	if (unlikely(head->phase > PHASE_LINE))
		at = resume_line(r, kind);
	while (at != STOPPED) {
		if (at == r->end)
			return run_out(r, at, PHASE_LINE);
		if (r->bytes[at] == '\r')
			return read_line_end(r, at, PHASE_LINE);
		size_t line = at;
		if ((at = take_usual_fields(r, kind, line)) != line)
			continue;
		if (head->field_count == most)
			return refuse(r, 431, "too many fields");
		at = keep_line(r, kind, line, scan_line(r, line));
	}
	return STOPPED;
}

/* ---- request lines ---- */

static weir_method find_method(const char *text, size_t length)
{
	static const weir_span names[WEIR_METHOD_COUNT] = {
#define WEIR_X(name) [WEIR_METHOD_##name] = {#name, sizeof(#name) - 1},
		WEIR_METHODS(WEIR_X)
#undef WEIR_X
	};
	for (unsigned i = 1; i < WEIR_METHOD_COUNT; i++)
		if (names[i].length == length && names[i].at[0] == text[0] &&
		    memcmp(names[i].at, text, length) == 0)
			return i;
	return WEIR_METHOD_OTHER;
}

weir_method weir_method_find(weir_span text)
{
	return find_method(text.at, text.length);
}

/* Skips one empty line before a request (RFC 9112 2.2). */
static size_t read_start(reader *r)
{
	size_t at = 0;
	if (r->end == 0)
		return run_out(r, 0, PHASE_START);
	if (r->bytes[0] == '\r' && (at = read_line_end(r, 0, PHASE_START)) == STOPPED)
		return STOPPED;
	r->head->start = (uint32_t)at;
	return at;
}

static size_t read_method(reader *r, size_t at)
{
	weir_head *head = r->head;
	size_t most = (size_t)head->start + METHOD_BYTES + 1, stop = most < r->end ? most : r->end;
	at = r->scan->token(r->bytes, at, stop);
	if (at == stop)
		return at < most ? run_out(r, at, PHASE_METHOD) : refuse(r, 501, "the method is too long");
	if (r->bytes[at] != ' ' || at == head->start)
		return refuse(r, 400, "the request line does not begin with a method and a space");
	head->method_length = (uint32_t)at - head->start;
	head->method = (uint8_t)find_method(r->bytes + head->start, head->method_length);
	head->path = (uint32_t)at + 1;
	return at + 1;
}

/* Nearly all requests are GETs. */
static inline bool is_get(const reader *r)
{
	return r->end >= 4 && memcmp(r->bytes, "GET ", 4) == 0;
}

static inline size_t take_get(reader *r)
{
	r->head->method = WEIR_METHOD_GET;
	r->head->method_length = 3;
	r->head->path = 4;
	return 4;
}

/* The space after the target must be before this, since "HTTP/1.1" follows it on the line. */
static inline size_t target_limit(const reader *r)
{
	size_t most = (size_t)r->head->start + r->limits->line_bytes;
	return most > 8 ? most - 8 : 0;
}

/* The end of a part of the target. */
static inline size_t scan_target(reader *r, size_t at, weir_scan_fn *scan, enum phase phase)
{
	size_t most = target_limit(r), stop = most < r->end ? most : r->end;
	if (likely(at < stop))
		at = scan(r->bytes, at, stop);
	if (likely(at < stop))
		return at;
	return stop < most ? run_out(r, at, phase) : refuse(r, 414, "the request line is too long");
}

static const char *why_no_target(char c)
{
	if (c == '\r' || c == '\n')
		return "the request line has no version";
	return c == '#' ? "a fragment in the target" : "a byte that no target has";
}

/* The target ends at `at`. */
static inline size_t judge_target(reader *r, size_t at)
{
	weir_head *head = r->head;
	if (unlikely(r->bytes[at] != ' '))
		return refuse(r, 400, why_no_target(r->bytes[at]));
	if (unlikely(head->path_length == 0))
		return refuse(r, 400, "an empty target");
	if (likely(r->bytes[head->path] == '/' && head->method != WEIR_METHOD_CONNECT))
		return at + 1;
	const char *error = weir_framing_target(head, r->bytes);
	return error == NULL ? at + 1 : refuse(r, head->status, error);
}

static inline size_t read_query(reader *r, size_t at)
{
	at = scan_target(r, at, r->scan->query, PHASE_QUERY);
	if (at == STOPPED)
		return at;
	r->head->query_length = (uint32_t)at - r->head->query;
	return judge_target(r, at);
}

static inline size_t read_path(reader *r, size_t at)
{
	at = scan_target(r, at, r->scan->path, PHASE_PATH);
	if (at == STOPPED)
		return at;
	r->head->path_length = (uint32_t)at - r->head->path;
	if (r->bytes[at] != '?')
		return judge_target(r, at);
	r->head->query = (uint32_t)at + 1;
	return read_query(r, at + 1);
}

static inline bool is_digit(char c)
{
	return (uint8_t)(c - '0') < 10;
}

/*
 * Matches a few bytes with a pattern, in which '0' stands for any digit. The phase starts at `at`, and its
 * bytes are read again until all are there. Returns `at`, or STOPPED.
 */
COLD static size_t read_pattern(reader *r, size_t at, size_t skip, const char *pattern, enum phase phase)
{
	for (size_t i = skip; *pattern != '\0'; i++, pattern++) {
		if (at + i == r->end)
			return run_out(r, at, phase);
		char c = r->bytes[at + i];
		if (*pattern == '0' ? !is_digit(c) : c != *pattern)
			return refuse(r, 400,
				      c == '\n' ? "LF without CR"
						: "the version or what follows it is malformed");
	}
	return at;
}

COLD static size_t read_odd_version(reader *r, size_t at, enum phase phase)
{
	if (read_pattern(r, at, 0, "HTTP/0.0", phase) == STOPPED)
		return STOPPED;
	if (r->bytes[at + 5] != '1' || r->bytes[at + 7] > '1')
		return refuse(r, 505, "the version is neither HTTP/1.1 nor HTTP/1.0");
	r->head->version = r->bytes[at + 7] == '1' ? 11 : 10;
	return at + 8;
}

static inline size_t read_version(reader *r, size_t at)
{
	if (likely(r->end - at >= 10 && memcmp(r->bytes + at, "HTTP/1.1", 8) == 0 &&
		   weir_is_line_end(r->bytes + at + 8))) {
		r->head->version = 11;
		return at + 10;
	}
	if (read_odd_version(r, at, PHASE_VERSION) == STOPPED ||
	    read_pattern(r, at, 8, "\r\n", PHASE_VERSION) == STOPPED)
		return STOPPED;
	return at + 10;
}

/* From the start, or from where the last call stopped. */
static size_t read_request_line(reader *r)
{
	enum phase phase = r->head->phase;
	size_t at = r->head->seen;
	if (likely(phase == PHASE_START && is_get(r))) {
		at = take_get(r);
	} else {
		if (phase == PHASE_START && (at = read_start(r)) == STOPPED)
			return at;
		if (phase <= PHASE_METHOD && (at = read_method(r, at)) == STOPPED)
			return at;
	}
	if (likely(phase <= PHASE_PATH))
		at = read_path(r, at);
	else if (phase == PHASE_QUERY)
		at = read_query(r, at);
	if (at == STOPPED || phase > PHASE_VERSION)
		return at;
	return read_version(r, at);
}

/* The first line ends before `at`; 0: it has not been read. */
static size_t read_request(reader *r, size_t at)
{
	if (at == 0)
		at = read_request_line(r);
	if (at == STOPPED || (at = read_fields(r, REQUEST, at)) == STOPPED)
		return STOPPED;
	const char *error = weir_framing_request(r->head);
	return error == NULL ? at : refuse(r, r->head->status, error);
}

/* ---- status lines ---- */

static inline bool is_usual_status(const reader *r)
{
	return r->end >= 13 && memcmp(r->bytes, "HTTP/1.1 ", 9) == 0 && is_digit(r->bytes[9]) &&
	       is_digit(r->bytes[10]) && is_digit(r->bytes[11]);
}

/* "HTTP/1.1 200", then a space, or the end of the line, as some servers send it. */
static size_t read_status(reader *r)
{
	const char *digits = r->bytes + 9;
	if (likely(is_usual_status(r)))
		r->head->version = 11;
	else if (read_odd_version(r, 0, PHASE_STATUS) == STOPPED ||
		 read_pattern(r, 0, 8, " 000", PHASE_STATUS) == STOPPED)
		return STOPPED;
	if (r->end == 12)
		return run_out(r, 0, PHASE_STATUS);
	if (digits[0] == '0' || (digits[3] != ' ' && digits[3] != '\r'))
		return refuse(r, 502, "the status is not three digits");
	r->head->status = (uint16_t)((digits[0] - '0') * 100 + (digits[1] - '0') * 10 + digits[2] - '0');
	r->head->reason = digits[3] == ' ' ? 13 : 12;
	return r->head->reason;
}

static size_t read_reason(reader *r, size_t at)
{
	size_t most = (size_t)r->limits->line_bytes + 1, stop = most < r->end ? most : r->end;
	if (at < stop)
		at = r->scan->value(r->bytes, at, stop);
	if (at >= stop)
		return stop < most ? run_out(r, at, PHASE_REASON)
				   : refuse(r, 502, "the status line is too long");
	if (r->bytes[at] != '\r')
		return refuse(r, 502,
			      r->bytes[at] == '\n' ? "LF without CR" : "a control byte in the status line");
	r->head->reason_length = (uint32_t)at - r->head->reason;
	return read_line_end(r, at, PHASE_REASON);
}

static const char usual_line[] = "HTTP/1.1 200 OK\r\n";

/* The first line of nearly all answers. */
static inline bool has_usual_line(const reader *r)
{
	return r->end >= sizeof(usual_line) - 1 && r->limits->line_bytes >= sizeof(usual_line) - 3 &&
	       memcmp(r->bytes, usual_line, sizeof(usual_line) - 1) == 0;
}

static inline size_t take_usual_line(reader *r)
{
	r->head->version = 11;
	r->head->status = 200;
	r->head->reason = 13;
	r->head->reason_length = 2;
	return sizeof(usual_line) - 1;
}

/* The first line, or the rest of it. */
static size_t read_status_line(reader *r)
{
	enum phase phase = r->head->phase;
	size_t at = r->head->seen;
	if (phase <= PHASE_STATUS && (at = read_status(r)) == STOPPED)
		return at;
	return phase <= PHASE_REASON ? read_reason(r, at) : at;
}

/* The fields after the usual line, up to and including the empty line. */
static inline size_t read_usual_fields(reader *r, size_t at)
{
	at = take_usual_fields(r, ANSWER, at);
	if (likely(at < r->end && r->end - at >= 2 && weir_is_line_end(r->bytes + at)))
		return at + 2;
	return at != STOPPED ? read_fields(r, ANSWER, at) : at;
}

static size_t read_answer(reader *r, weir_method asked)
{
	size_t at;
	if (likely(r->head->phase == PHASE_START && has_usual_line(r)))
		at = read_usual_fields(r, take_usual_line(r));
	else if ((at = read_status_line(r)) != STOPPED)
		at = read_fields(r, ANSWER, at);
	if (at == STOPPED)
		return at;
	const char *error = weir_framing_answer(r->head, asked);
	return error == NULL ? at : refuse(r, r->head->status, error);
}

/* ---- calls ---- */

static inline reader reader_of(weir_head *head, const char *bytes, size_t length,
			       const weir_head_limits *limits, weir_head_field *fields)
{
	return (reader){.scan = weir_scan(),
			.bytes = bytes,
			.end = length < limits->head_bytes ? length : limits->head_bytes,
			.head = head,
			.limits = limits,
			.fields = fields};
}

static inline weir_parse finish(const reader *r, size_t at)
{
	if (unlikely(at == STOPPED))
		return r->result;
	r->head->length = (uint32_t)at;
	return WEIR_PARSE_DONE;
}

void weir_head_init(weir_head *head)
{
	memset(head, 0, sizeof(*head));
}

/* Reads what a scanner did not take, from there or from where the last call stopped. */
weir_parse weir_parse_request_with_care(weir_head *head, const char *bytes, size_t length,
					const weir_head_limits *limits, weir_head_field *fields, size_t at)
{
	reader r = reader_of(head, bytes, length, limits, fields);
	bool resumed = head->phase != PHASE_START;
	if (head->phase == PHASE_BAD)
		return WEIR_PARSE_BAD;
	at = at != WEIR_SCAN_REFUSED ? read_request(&r, at) : refuse(&r, head->status, head->error);
	if (!resumed || at == STOPPED)
		return finish(&r, at);
	weir_head_init(head);
	return weir_parse_request(head, bytes, length, limits, fields);
}

weir_parse weir_parse_request(weir_head *head, const char *bytes, size_t length,
			      const weir_head_limits *limits, weir_head_field *fields)
{
	return weir_parse_request_recent(head, bytes, length, limits, fields, NULL);
}

weir_parse weir_parse_request_recent(weir_head *head, const char *bytes, size_t length,
				     const weir_head_limits *limits, weir_head_field *fields,
				     struct weir_recent_fields *recent)
{
	if (likely(head->phase == PHASE_START))
		return weir_scan()->request(head, bytes, length, limits, fields, recent);
	return weir_parse_request_with_care(head, bytes, length, limits, fields, 0);
}

static inline weir_parse parse_answer(weir_head *head, const char *bytes, size_t length,
				      const weir_head_limits *limits, weir_method asked,
				      weir_head_field *fields)
{
	reader r = reader_of(head, bytes, length, limits, fields);
	bool resumed = head->phase != PHASE_START;
	if (unlikely(head->phase == PHASE_BAD))
		return WEIR_PARSE_BAD;
	size_t at = read_answer(&r, asked);
	if (unlikely(resumed && at != STOPPED)) {
		weir_head_init(head);
		at = read_answer(&r, asked);
	}
	return finish(&r, at);
}

weir_parse weir_parse_answer(weir_head *head, const char *bytes, size_t length,
			     const weir_head_limits *limits, weir_method asked, weir_head_field *fields)
{
	weir_parse result = parse_answer(head, bytes, length, limits, asked, fields);
	if (result == WEIR_PARSE_BAD)
		head->status = 502;
	return result;
}

weir_parse weir_parse_trailers(weir_head *head, const char *bytes, size_t length,
			       const weir_head_limits *limits, weir_head_field *fields)
{
	reader r = reader_of(head, bytes, length, limits, fields);
	bool resumed = head->phase != PHASE_START;
	if (head->phase == PHASE_BAD)
		return WEIR_PARSE_BAD;
	size_t at = read_fields(&r, TRAILERS, head->seen);
	if (resumed && at != STOPPED) {
		weir_head_init(head);
		at = read_fields(&r, TRAILERS, 0);
	}
	return finish(&r, at);
}
