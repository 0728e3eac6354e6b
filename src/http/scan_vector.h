/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scanners of one kind of vector. Included by scan_*.c after these are defined:
 *
 *	VECTOR(name)                       the name with the vector's before it
 *	VECTOR_TARGET                      the attribute that lets a function use the instructions
 *	VECTOR_BYTES                       16 or 32
 *	vector, vector_load(at)            that many bytes
 *	vector_table(bits)                 a table of 16 bytes, ready for use
 *	vector_high(x)                     the bit of each byte's high half, ready to be tested against a table; 0 for bytes that are not ASCII
 *	vector_other_than(x, high, table)  which bytes are not in the table, as bits
 *	vector_dots(x)                     which bytes are dots
 *
 * A table has a byte for each low half of a byte; its bit h says whether (h << 4 | low) is in. So a table is any set of ASCII bytes, and other bytes are in
 * none. What values consist of has other bytes too, so its table has those that they do not have.
 *
 * The last bytes are looked at with the vector that ends where they do: bits of bytes before `at` are shifted away. Only where all bytes together are
 * fewer than a vector the plain scanner has to do.
 */

#include <stdint.h>

#include "http/head.h"
#include "http/scan.h"

static const uint8_t token_bits[16] = {0xe8, 0xfc, 0xf8, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc,
				       0xf8, 0xf8, 0xf4, 0x54, 0xd0, 0x54, 0xf4, 0x70};
static const uint8_t path_bits[16] = {0xf8, 0xfc, 0xfc, 0xf8, 0xfc, 0xfc, 0xfc, 0xfc,
				      0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0x74};
static const uint8_t query_bits[16] = {0xf8, 0xfc, 0xfc, 0xf8, 0xfc, 0xfc, 0xfc, 0xfc,
				       0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0x7c};
static const uint8_t host_bits[16] = {0xa8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8,
				      0xf8, 0xf8, 0xf0, 0x50, 0x50, 0x54, 0xd4, 0x70};

static const uint8_t control_bits[16] = {0x03, 0x03, 0x03, 0x03, 0x03, 0x03, 0x03, 0x03,
					 0x03, 0x02, 0x03, 0x03, 0x03, 0x03, 0x03, 0x83};
#define VECTOR_ALL (UINT32_MAX >> (32 - VECTOR_BYTES))

/* How far the last vector of bytes[0 .. end) has to be shifted for its first bit to be that of at. */
static inline unsigned before(size_t at, size_t end)
{
	return VECTOR_BYTES - (unsigned)(end - at);
}

static inline size_t first_of(uint32_t found, size_t at, size_t end)
{
	return found != 0 ? at + (size_t)__builtin_ctz(found) : end;
}

/* Bits of the bytes that end a scan; invert: those that are in the table do. */
VECTOR_TARGET static inline uint32_t stops(const char *at, vector table, uint32_t invert)
{
	vector x = vector_load(at);
	return vector_other_than(x, vector_high(x), table) ^ invert;
}

VECTOR_TARGET static inline size_t scan_table(const char *bytes, size_t at, size_t end, const uint8_t *bits,
					      uint32_t invert, weir_scan_fn *plain)
{
	uint32_t found;
	vector table = vector_table(bits);
	for (; end - at >= VECTOR_BYTES; at += VECTOR_BYTES)
		if ((found = stops(bytes + at, table, invert)) != 0)
			return first_of(found, at, end);
	if (at == end)
		return end;
	if (end < VECTOR_BYTES)
		return plain(bytes, at, end);
	found = stops(bytes + end - VECTOR_BYTES, table, invert);
	return first_of(found >> before(at, end), at, end);
}

VECTOR_TARGET static size_t VECTOR(token)(const char *bytes, size_t at, size_t end)
{
	return scan_table(bytes, at, end, token_bits, 0, weir_scan_plain.token);
}

VECTOR_TARGET static size_t VECTOR(path)(const char *bytes, size_t at, size_t end)
{
	return scan_table(bytes, at, end, path_bits, 0, weir_scan_plain.path);
}

VECTOR_TARGET static size_t VECTOR(query)(const char *bytes, size_t at, size_t end)
{
	return scan_table(bytes, at, end, query_bits, 0, weir_scan_plain.query);
}

VECTOR_TARGET static inline size_t VECTOR(value)(const char *bytes, size_t at, size_t end)
{
	return scan_table(bytes, at, end, control_bits, VECTOR_ALL, weir_scan_plain.value);
}

/* A dot stops where the byte before it was one; `after_dot` is 1 for the first byte if that is so. */
VECTOR_TARGET static size_t VECTOR(host)(const char *bytes, size_t at, size_t end)
{
	uint32_t found, dots, after_dot = 1;
	vector table = vector_table(host_bits);
	for (; end - at >= VECTOR_BYTES; at += VECTOR_BYTES) {
		vector x = vector_load(bytes + at);
		dots = vector_dots(x);
		found = vector_other_than(x, vector_high(x), table) | (dots & (dots << 1 | after_dot));
		if (found != 0)
			return first_of(found, at, end);
		after_dot = dots >> (VECTOR_BYTES - 1);
	}
	if (at == end)
		return end;
	if (end < VECTOR_BYTES)
		return weir_scan_plain.host(bytes, at, end);
	vector x = vector_load(bytes + end - VECTOR_BYTES);
	dots = vector_dots(x) >> before(at, end);
	found = vector_other_than(x, vector_high(x), table) >> before(at, end) |
		(dots & (dots << 1 | after_dot));
	return first_of(found, at, end);
}

/* Most lines are shorter than a vector, or their names are: the first vector serves name and value. */
VECTOR_TARGET static size_t VECTOR(lines)(const char *bytes, size_t at, size_t end, weir_head_field *fields,
					  size_t room, size_t *ret_count)
{
	size_t count = 0;
	if (end < VECTOR_BYTES)
		return weir_scan_plain.lines(bytes, at, end, fields, room, ret_count);
	const size_t last = end - VECTOR_BYTES;
	const vector tokens = vector_table(token_bits), controls = vector_table(control_bits);
	while (count < room && at < end && bytes[at] != '\r') {
		size_t from = at < last ? at : last, colon, stop;
		vector x = vector_load(bytes + from);
		vector high = vector_high(x);
		uint32_t no_token = vector_other_than(x, high, tokens) >> (at - from);
		uint32_t no_value = (vector_other_than(x, high, controls) ^ VECTOR_ALL) >> (at - from);
		colon = no_token != 0 ? at + (size_t)__builtin_ctz(no_token)
				      : VECTOR(token)(bytes, from + VECTOR_BYTES, end);
		if (colon == end || bytes[colon] != ':' || colon - at - 1 >= UINT16_MAX)
			break;
		/* Bytes of names are bytes of values, so a stop is behind the colon in any case. */
		stop = no_value != 0
			       ? at + (size_t)__builtin_ctz(no_value)
			       : VECTOR(value)(bytes,
					       colon < from + VECTOR_BYTES ? from + VECTOR_BYTES : colon + 1,
					       end);
		if (end - stop < 2 || !weir_is_line_end(bytes + stop))
			break;
		weir_head_keep(&fields[count++], bytes, at, colon, stop);
		at = stop + 2;
	}
	*ret_count = count;
	return at;
}
