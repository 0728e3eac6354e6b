/* SPDX-License-Identifier: Apache-2.0 */
/* The plain scanner, and the choice of a scanner. */

#include "http/scan.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "http/head.h"

_Atomic(const weir_scanner *) weir_scan_chosen;

enum {
	TOKEN = 1 << 0,
	PATH = 1 << 1,
	QUERY = 1 << 2,
	HOST = 1 << 3,
	VALUE = 1 << 4,
};

#define TARGET (PATH | QUERY | VALUE)
#define MARK   (TOKEN | TARGET)        /* a tchar that hosts do not have */
#define WORD   (TOKEN | TARGET | HOST) /* allowed everywhere */

static const uint8_t kinds[256] = {
	['\t'] = VALUE,
	[' '] = VALUE,
	['!'] = MARK,
	['"'] = TARGET,
	['#'] = MARK & ~(PATH | QUERY),
	['$' ... '\''] = MARK,
	['(' ... ')'] = TARGET,
	['*' ... '+'] = MARK,
	[','] = TARGET,
	['-' ... '.'] = WORD,
	['/'] = TARGET,
	['0' ... '9'] = WORD,
	[':' ... '>'] = TARGET,
	['?'] = TARGET & ~PATH,
	['@'] = TARGET,
	['A' ... 'Z'] = WORD,
	['[' ... ']'] = TARGET,
	['^'] = MARK,
	['_'] = WORD,
	['`'] = MARK,
	['a' ... 'z'] = WORD,
	['{'] = TARGET,
	['|'] = MARK,
	['}'] = TARGET,
	['~'] = WORD,
	[0x80 ... 0xff] = VALUE,
};

#define TWICE(...) __VA_ARGS__, __VA_ARGS__
#define ALL(byte)  [0 ... 31] = (byte)

const weir_scan_table weir_scan_tables = {
	.token = {TWICE(0xe8, 0xfc, 0xf8, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xf8, 0xf8, 0xf4, 0x54, 0xd0, 0x54,
			0xf4, 0x70)},
	.path = {TWICE(0xf8, 0xfc, 0xfc, 0xf8, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc,
		       0xfc, 0x74)},
	.query = {TWICE(0xf8, 0xfc, 0xfc, 0xf8, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc,
			0xfc, 0x7c)},
	.host = {TWICE(0xa8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf0, 0x50, 0x50, 0x54,
		       0xd4, 0x70)},
	.control = {TWICE(0x03, 0x03, 0x03, 0x03, 0x03, 0x03, 0x03, 0x03, 0x03, 0x02, 0x03, 0x03, 0x03, 0x03,
			  0x03, 0x83)},
	.high_bits = {TWICE(1, 2, 4, 8, 16, 32, 64, 128, 0, 0, 0, 0, 0, 0, 0, 0)},
	.half = {ALL(15)},
	.one = {ALL(1)},
	.above_space = {ALL(' ' + 1)},
	.lower_case = {ALL(0x20)},
	.dot = {ALL('.')},
	.digit_least = {ALL((uint8_t)('0' - 128))},
	.digit_most = {ALL((uint8_t)(9 - 128))},
};

static inline size_t scan(const char *bytes, size_t at, size_t end, uint8_t kind)
{
	while (at < end && kinds[(uint8_t)bytes[at]] & kind)
		at++;
	return at;
}

static size_t plain_token(const char *bytes, size_t at, size_t end)
{
	return scan(bytes, at, end, TOKEN);
}

static size_t plain_path(const char *bytes, size_t at, size_t end)
{
	return scan(bytes, at, end, PATH);
}

static size_t plain_query(const char *bytes, size_t at, size_t end)
{
	return scan(bytes, at, end, QUERY);
}

static size_t plain_host(const char *bytes, size_t at, size_t end)
{
	char before = '.';
	for (; at < end && kinds[(uint8_t)bytes[at]] & HOST; at++) {
		if (bytes[at] == '.' && before == '.')
			break;
		before = bytes[at];
	}
	return at;
}

static size_t plain_value(const char *bytes, size_t at, size_t end)
{
	return scan(bytes, at, end, VALUE);
}

/* Without vectors the careful parser is the quickest for a first line. */
static weir_parse plain_request(weir_head *head, const char *bytes, size_t length,
				const weir_head_limits *limits, weir_head_field *fields,
				struct weir_recent_fields *recent)
{
	return weir_parse_request_with_care(head, bytes, length, limits, fields, 0);
}

/* Takes any complete and well-formed line. */
static size_t plain_fields(weir_head *head, const char *bytes, size_t at, size_t end,
			   const weir_head_limits *limits, weir_head_field *fields, bool answer)
{
	size_t most = limits->fields < UINT16_MAX ? limits->fields : UINT16_MAX;
	const weir_head_field *first = fields + head->field_count;
	while (head->field_count < most) {
		size_t colon = scan(bytes, at, end, TOKEN);
		if (colon == end || colon == at || bytes[colon] != ':' || colon - at > UINT16_MAX)
			break;
		size_t stop = scan(bytes, colon + 1, end, VALUE);
		if (end - stop < 2 || !weir_is_line_end(bytes + stop))
			break;
		weir_head_keep(&fields[head->field_count++], bytes, at, colon, stop);
		at = stop + 2;
	}
	head->error = weir_framing_fields(head, bytes, first, fields + head->field_count, NULL, answer);
	return head->error == NULL ? at : WEIR_SCAN_REFUSED;
}

const weir_scanner weir_scan_plain = {.name = "plain",
				      .request = plain_request,
				      .fields = plain_fields,
				      .token = plain_token,
				      .path = plain_path,
				      .query = plain_query,
				      .host = plain_host,
				      .value = plain_value};

void weir_scan_use(const weir_scanner *scanner)
{
	atomic_store_explicit(&weir_scan_chosen, scanner, memory_order_relaxed);
}

/* Best first; NULL: the processor does not support it. */
static const weir_scanner *scanner_at(size_t at)
{
	return at == 0 ? weir_scan_avx2() : at == 1 ? weir_scan_sse42() : &weir_scan_plain;
}

/* If two threads choose at once, both choose the same. */
const weir_scanner *weir_scan_choose(void)
{
	const weir_scanner *scanner = NULL;
	for (size_t i = 0; scanner == NULL; i++)
		scanner = scanner_at(i);
	weir_scan_use(scanner);
	return scanner;
}

bool weir_scan_force(const char *name)
{
	if (name == NULL)
		return weir_scan_choose() != NULL;
	for (size_t i = 0; i < 3; i++) {
		const weir_scanner *scanner = scanner_at(i);
		if (scanner != NULL && strcmp(scanner->name, name) == 0) {
			weir_scan_use(scanner);
			return true;
		}
	}
	return false;
}
