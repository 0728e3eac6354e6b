/* SPDX-License-Identifier: Apache-2.0 */
/* The plain scanner, and the choice. */

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
#define MARK   (TOKEN | TARGET)        /* a tchar that is not in hosts */
#define WORD   (TOKEN | TARGET | HOST) /* in everything */

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

static size_t plain_lines(const char *bytes, size_t at, size_t end, weir_head_field *fields, size_t room,
			  size_t *ret_count)
{
	size_t count = 0;
	while (count < room) {
		size_t colon = scan(bytes, at, end, TOKEN);
		if (colon == end || colon == at || bytes[colon] != ':' || colon - at > UINT16_MAX)
			break;
		size_t stop = scan(bytes, colon + 1, end, VALUE);
		if (end - stop < 2 || !weir_is_line_end(bytes + stop))
			break;
		weir_head_keep(&fields[count++], bytes, at, colon, stop);
		at = stop + 2;
	}
	*ret_count = count;
	return at;
}

const weir_scanner weir_scan_plain = {.name = "plain",
				      .lines = plain_lines,
				      .token = plain_token,
				      .path = plain_path,
				      .query = plain_query,
				      .host = plain_host,
				      .value = plain_value};

void weir_scan_use(const weir_scanner *scanner)
{
	atomic_store_explicit(&weir_scan_chosen, scanner, memory_order_relaxed);
}

/* Best first; NULL where the processor cannot. */
static const weir_scanner *scanner_at(size_t at)
{
	return at == 0 ? weir_scan_avx2() : at == 1 ? weir_scan_sse42() : &weir_scan_plain;
}

/* Two threads may choose at once: both choose the same. */
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
