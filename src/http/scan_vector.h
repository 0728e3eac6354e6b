/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scanners for one kind of vector. scan_*.c includes this after defining:
 *
 *	VECTOR(name)                       the name with the vector's prefix
 *	VECTOR_TARGET                      the attribute that allows a function to use the instructions
 *	vector, vector_load(at)            32 bytes
 *	vector_store(at, x)
 *	vector_of(name)                    a constant or a table of weir_scan_tables
 *	vector_high(x)                     the bit of each byte's high half, for tests against a table; 0 if
 *	                                   the byte is not ASCII
 *	vector_other_than(x, high, table)  which bytes are not in the table, as bits
 *	vector_dots(x)                     which bytes are dots
 *	vector_unplain(x)                  which bytes are not 0x20 .. 0x7e
 *	vector_no_digit(x)                 which bytes are not digits
 *	vector_same(x, text)               which bytes, with 0x20 set, equal those of the text (32 bytes)
 *	vector_first(bits)                 the index of the first bit; 32: there is none
 *
 * The last bytes are read with the vector that ends where they end, and the bits of bytes before `at` are
 * shifted out. The plain scanner is needed only if there are fewer bytes than a vector has.
 */

#include <stdint.h>

#include "http/head.h"
#include "http/recent_fields.h"
#include "http/scan.h"

#define BYTES 32U

/* By how much to shift the last vector of bytes[0 .. end), so that its first bit is that of `at`. */
static inline unsigned before(size_t at, size_t end)
{
	return BYTES - (unsigned)(end - at);
}

static inline size_t first_of(uint32_t found, size_t at, size_t end)
{
	return found != 0 ? at + (size_t)__builtin_ctz(found) : end;
}

/* Bits of the bytes that end a scan. invert: bytes in the table end it, not those outside. */
VECTOR_TARGET static inline uint32_t stops(const char *at, vector table, uint32_t invert)
{
	vector x = vector_load(at);
	return vector_other_than(x, vector_high(x), table) ^ invert;
}

VECTOR_TARGET static inline size_t scan_table(const char *bytes, size_t at, size_t end, const uint8_t *bits,
					      uint32_t invert, weir_scan_fn *plain)
{
	uint32_t found;
	vector table = vector_load((const char *)bits);
	for (; end - at >= BYTES; at += BYTES)
		if ((found = stops(bytes + at, table, invert)) != 0)
			return first_of(found, at, end);
	if (at == end)
		return end;
	if (end < BYTES)
		return plain(bytes, at, end);
	found = stops(bytes + end - BYTES, table, invert);
	return first_of(found >> before(at, end), at, end);
}

VECTOR_TARGET static size_t VECTOR(token)(const char *bytes, size_t at, size_t end)
{
	return scan_table(bytes, at, end, weir_scan_tables.token, 0, weir_scan_plain.token);
}

VECTOR_TARGET static size_t VECTOR(path)(const char *bytes, size_t at, size_t end)
{
	return scan_table(bytes, at, end, weir_scan_tables.path, 0, weir_scan_plain.path);
}

VECTOR_TARGET static size_t VECTOR(query)(const char *bytes, size_t at, size_t end)
{
	return scan_table(bytes, at, end, weir_scan_tables.query, 0, weir_scan_plain.query);
}

VECTOR_TARGET static inline size_t VECTOR(value)(const char *bytes, size_t at, size_t end)
{
	return scan_table(bytes, at, end, weir_scan_tables.control, UINT32_MAX, weir_scan_plain.value);
}

/* A dot after a dot ends the scan. after_dot is 1 if the byte before the first was a dot. */
VECTOR_TARGET static size_t VECTOR(host)(const char *bytes, size_t at, size_t end)
{
	uint32_t found, dots, after_dot = 1;
	vector table = vector_of(host);
	for (; end - at >= BYTES; at += BYTES) {
		vector x = vector_load(bytes + at);
		dots = vector_dots(x);
		found = vector_other_than(x, vector_high(x), table) | (dots & (dots << 1 | after_dot));
		if (found != 0)
			return first_of(found, at, end);
		after_dot = dots >> (BYTES - 1);
	}
	if (at == end)
		return end;
	if (end < BYTES)
		return weir_scan_plain.host(bytes, at, end);
	vector x = vector_load(bytes + end - BYTES);
	dots = vector_dots(x) >> before(at, end);
	found = vector_other_than(x, vector_high(x), table) >> before(at, end) |
		(dots & (dots << 1 | after_dot));
	return first_of(found, at, end);
}

/* ---- usual heads ---- */

/*
 * A line is read with the vector that starts at it, and the three bytes after that. Near the end of the bytes
 * the last ones are copied, followed by zeros. A zero is in no name and no value, so it ends every scan, and
 * no other test for the end is needed.
 */
#define WINDOW (BYTES + 3U)

typedef struct tail {
	char bytes[WINDOW + BYTES];
} tail;

VECTOR_TARGET static inline void copy_tail(tail *to, const char *bytes, size_t end)
{
	vector_store(to->bytes + WINDOW, vector_of(zero));
	vector_store(to->bytes, vector_load(bytes + end - WINDOW));
	vector_store(to->bytes + WINDOW - BYTES, vector_load(bytes + end - BYTES));
}

/* Where the value of a long line may end: at any byte but 0x20 .. 0x7e. at + BYTES <= end. */
VECTOR_TARGET static inline size_t long_value_end(const char *bytes, size_t at, size_t end)
{
	uint32_t found;
	for (at += BYTES; end - at >= BYTES; at += BYTES)
		if ((found = vector_unplain(vector_load(bytes + at))) != 0)
			return first_of(found, at, end);
	found = at != end ? vector_unplain(vector_load(bytes + end - BYTES)) >> before(at, end) : 0;
	return first_of(found, at, end);
}

/*
 * The name at the start of the line, before the colon. With 0x20 set, a byte of a name is a letter, digit or
 * '-' only if it was one before (see weir_token_is). The colon is compared too, so the lengths are equal.
 */
VECTOR_TARGET static inline const weir_field_text *usual_name(const weir_field_table *known, vector x,
							      const char *line, size_t colon)
{
	const weir_field_text *name = weir_field_candidate(known, line, colon);
	__asm__("" : "+r"(name)); /* compute the address once */
	return name->mask & ~vector_same(x, name->text) ? &known->names[WEIR_FIELD_OTHER] : name;
}

/*
 * Whether a value, at bits begin to stop of a line that is all in the vector, is a name or an IPv4 address,
 * perhaps with a port. false: it must be read carefully. The CR after the value ends both scans.
 */
VECTOR_TARGET static inline bool is_usual_host(vector x, const char *line, unsigned begin, unsigned stop)
{
	uint32_t dots = vector_dots(x);
	uint32_t found =
		vector_other_than(x, vector_high(x), vector_of(host)) | (dots & (dots << 1 | 1U << begin));
	unsigned end = begin + vector_first(found >> begin);
	if (end == stop)
		return end != begin;
	if (line[end] != ':' || end == begin)
		return false;
	/* Five digits are certainly a port if the first is below 6. */
	unsigned digits = stop - end - 1;
	return digits >= 1 && digits < 5U + (line[end + 1] < '6') &&
	       vector_first(vector_no_digit(x) >> (end + 1)) == digits;
}

static inline bool is_pair(const char *at, char first, char second)
{
	uint16_t pair;
	memcpy(&pair, at, 2);
	return pair == (uint16_t)((uint8_t)first | (uint8_t)second << 8);
}

/* What was taken of the fields. */
typedef struct usual {
	size_t at;  /* the first line that was not taken */
	bool whole; /* that line is the empty one */
} usual;

/*
 * "Name: value" CRLF, with one space before the value, which is not empty, and none after it. If a line is
 * longer than the vector, only the end of its value is searched for.
 *
 * The loop calls no functions, so that it has all registers. Fields that matter for the message are judged
 * after it, in order. Only the first Host, if it is certainly valid, is taken in the loop. No other field
 * depends on it except a second Host, which is then one too many. `found` has the bits of fields to be
 * judged; its bit of Host says that there may have been one before.
 */
VECTOR_TARGET static inline __attribute__((always_inline)) usual
usual_fields(weir_head *head, const char *bytes, size_t at, size_t end, const weir_head_limits *limits,
	     weir_head_field *fields, size_t count, uint32_t found, bool answer)
{
	tail copy;
	bool whole = false;
	if (end < WINDOW || limits->fields > UINT16_MAX)
		return (usual){at, false};
	size_t last = end - WINDOW;
	weir_head_field *const first = fields + count, *const full = fields + limits->fields, *field = first;
	const weir_head_field *host = NULL;
	const weir_field_table *known = &weir_fields_known;
	const char *line = bytes + at;
	__asm__("" : "+r"(known)); /* keep its address in a register */
	while (field < full) {
		if (__builtin_expect(at > last, 0)) {
			copy_tail(&copy, bytes, end);
			line = copy.bytes + (at - last);
			last = end;
		}
		vector x = vector_load(line);
		size_t colon = vector_first(vector_other_than(x, vector_high(x), vector_of(token)));
		size_t stop = vector_first(vector_unplain(x));
		if (!is_pair(line + colon, ':', ' ') || colon == 0)
			break;
		if (__builtin_expect(stop == BYTES, 0)) {
			stop = long_value_end(bytes, at, end) - at;
			/* Always true in the copy, where fewer than WINDOW bytes are left. */
			if (end - at - stop < 4)
				break;
		}
		if (!is_pair(line + stop, '\r', '\n') || (uint8_t)line[colon + 2] <= ' ' ||
		    (uint8_t)line[stop - 1] <= ' ')
			break;
		uint32_t begin = (uint32_t)colon + 2;
		field->name = (uint32_t)at;
		field->value = (uint32_t)at + begin;
		field->value_length = (uint32_t)stop - begin;
		field->name_length = (uint16_t)colon;
		const weir_field_text *name = usual_name(known, x, line, colon);
		field->id = name->id;
		if (name->id == WEIR_FIELD_HOST && !(found & WEIR_FIELD_BIT(HOST)) && host == NULL &&
		    stop < BYTES && is_usual_host(x, line, begin, (unsigned)stop))
			host = field;
		else
			found |= name->framing;
		field++;
		at += stop + 2;
		line += stop + 2;
		if (is_pair(line, '\r', '\n')) {
			whole = true;
			break;
		}
	}
	head->field_count = (uint16_t)(field - fields);
	if (host != NULL) {
		head->marks |= WEIR_MARK_HOST;
		head->host = host->value;
		head->host_length = host->value_length;
	}
	if (found != 0 &&
	    (head->error = weir_framing_fields(head, bytes, first, field, host, answer)) != NULL)
		return (usual){WEIR_SCAN_REFUSED, false};
	return (usual){at, whole};
}

VECTOR_TARGET static size_t VECTOR(fields)(weir_head *head, const char *bytes, size_t at, size_t end,
					   const weir_head_limits *limits, weir_head_field *fields,
					   bool answer)
{
	bool no_first_host = answer || head->marks & (WEIR_MARK_HOST | WEIR_MARK_TARGET_HOST);
	return usual_fields(head, bytes, at, end, limits, fields, head->field_count,
			    no_first_host ? WEIR_FIELD_BIT(HOST) : 0, answer)
		.at;
}

/*
 * Where the target starts, after a common method and a space; 0: not a common method. Bytes are
 * little-endian: the first is the lowest.
 */
static inline size_t usual_method(const char *bytes, weir_method *ret_method)
{
	uint64_t word, text;
	memcpy(&word, bytes, 8);
#define TRY(name)                                                          \
	memcpy(&text, #name "        ", 8);                                \
	if (((word ^ text) & UINT64_MAX >> (64 - 8 * sizeof(#name))) == 0) \
		return *ret_method = WEIR_METHOD_##name, sizeof(#name);
	TRY(GET)
	TRY(POST)
	TRY(HEAD)
	TRY(PUT)
	TRY(DELETE)
	TRY(OPTIONS)
	TRY(PATCH)
#undef TRY
	return 0;
}

#define LONGEST_METHOD 8U /* "OPTIONS " */

/*
 * Method, path, perhaps a query, "HTTP/1.1" CRLF. The path starts with '/' and the method is not CONNECT, so
 * the target needs no further check. Limits are those of parse.c: the line ends 8 bytes after the space.
 */
VECTOR_TARGET static inline size_t usual_line(weir_head *head, const char *bytes, size_t end,
					      uint32_t line_bytes)
{
	weir_method method = WEIR_METHOD_OTHER;
	if (end < LONGEST_METHOD + BYTES)
		return 0;
	size_t path = usual_method(bytes, &method), query = 0;
	__asm__("" : "+r"(path)); /* do not duplicate what follows for each method */
	if (path == 0 || bytes[path] != '/')
		return 0;
	uint32_t found = stops(bytes + path, vector_of(path), 0);
	size_t path_end = path + vector_first(found);
	if (__builtin_expect(found == 0, 0) && (path_end = VECTOR(path)(bytes, path_end, end)) == end)
		return 0;
	size_t stop = path_end;
	if (bytes[path_end] == '?') {
		query = path_end + 1;
		stop = VECTOR(query)(bytes, query, end);
	}
	if (end - stop < sizeof(" HTTP/1.1\r\n") - 1 || stop + 8 >= line_bytes ||
	    memcmp(bytes + stop, " HTTP/1.", 8) != 0 || memcmp(bytes + stop + 7, ".1\r\n", 4) != 0)
		return 0;
	head->method = (uint8_t)method;
	head->method_length = (uint32_t)path - 1;
	head->path = (uint32_t)path;
	head->path_length = (uint32_t)(path_end - path);
	if (query != 0) {
		head->query = (uint32_t)query;
		head->query_length = (uint32_t)(stop - query);
	}
	head->version = 11;
	return stop + sizeof(" HTTP/1.1\r\n") - 1;
}

/*
 * Same result as weir_framing_request. Mostly the request has a Host, no body and nothing else that matters;
 * usual_line takes only HTTP/1.1 and never CONNECT. Then the connection is kept, and that is all.
 */
static inline const char *judge_request(weir_head *head)
{
	if ((head->marks & ~WEIR_MARK_KEEP_ALIVE) != WEIR_MARK_HOST)
		return weir_framing_request(head);
	head->flags |= WEIR_HEAD_KEEP;
	return NULL;
}

/* Fields that are not known from earlier requests. The first line ends before `at`. */
VECTOR_TARGET static __attribute__((noinline)) weir_parse
new_fields(weir_head *head, const char *bytes, size_t length, const weir_head_limits *limits,
	   weir_head_field *fields, struct weir_recent_fields *recent, size_t at)
{
	size_t end = length < limits->head_bytes ? length : limits->head_bytes;
	usual lines = usual_fields(head, bytes, at, end, limits, fields, 0, 0, false);
	if (lines.whole) {
		const char *error = judge_request(head);
		head->length = (uint32_t)lines.at + 2;
		if (error == NULL) {
			if (recent != NULL && head->length == end)
				weir_recent_keep(recent, head, bytes, at, fields);
			return WEIR_PARSE_DONE;
		}
		head->error = error;
		lines.at = WEIR_SCAN_REFUSED;
	}
	return weir_parse_request_with_care(head, bytes, length, limits, fields, lines.at);
}

VECTOR_TARGET static weir_parse VECTOR(request)(weir_head *head, const char *bytes, size_t length,
						const weir_head_limits *limits, weir_head_field *fields,
						struct weir_recent_fields *recent)
{
	size_t end = length < limits->head_bytes ? length : limits->head_bytes;
	size_t at = usual_line(head, bytes, end, limits->line_bytes);
	if (at == 0)
		return weir_parse_request_with_care(head, bytes, length, limits, fields, 0);
	if (recent != NULL && weir_recent_take(recent, head, bytes, at, end, limits, fields))
		return WEIR_PARSE_DONE;
	return new_fields(head, bytes, length, limits, fields, recent, at);
}
