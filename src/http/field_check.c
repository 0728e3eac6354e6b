/* SPDX-License-Identifier: Apache-2.0 */
#include "http/field_check.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "http/parse.h"

#define ONES  UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)

/* The bytes of a token, as bits: RFC 9110 5.6.2. */
static const uint64_t token_bits[4] = {
	[0] = UINT64_C(1) << '!' | UINT64_C(1) << '#' | UINT64_C(1) << '$' | UINT64_C(1) << '%' |
	      UINT64_C(1) << '&' | UINT64_C(1) << '\'' | UINT64_C(1) << '*' | UINT64_C(1) << '+' |
	      UINT64_C(1) << '-' | UINT64_C(1) << '.' | UINT64_C(0x3ff) << '0',
	[1] = UINT64_C(0x3ffffff) << ('A' - 64) | UINT64_C(1) << ('^' - 64) | UINT64_C(1) << ('_' - 64) |
	      UINT64_C(1) << ('`' - 64) | UINT64_C(0x3ffffff) << ('a' - 64) | UINT64_C(1) << ('|' - 64) |
	      UINT64_C(1) << ('~' - 64),
};

/* Up to eight bytes as a number. Missing bytes repeat others, so that they change no result. */
static uint64_t load(const char *at, size_t length)
{
	uint64_t x;
	uint32_t low, high;
	if (length >= 8) {
		memcpy(&x, at, 8);
		return x;
	}
	if (length >= 4) {
		memcpy(&low, at, 4);
		memcpy(&high, at + length - 4, 4);
		return low | (uint64_t)high << 32;
	}
	x = ONES * (uint8_t)at[0];
	for (size_t i = 1; i < length; i++)
		x = x << 8 | (uint8_t)at[i];
	return x;
}

/* Whether a test holds for all bytes, eight at a time; the last eight may overlap. At least one byte. */
#define ALL_BYTES(test, at, length)                                                     \
	({                                                                              \
		const char *at_ = (at);                                                 \
		size_t left_ = (length);                                                \
		bool all_ = true;                                                       \
		for (; all_ && left_ > 8; at_ += 8, left_ -= 8)                         \
			all_ = test(load(at_, 8));                                      \
		all_ &&test(length >= 8 ? load(at_ + left_ - 8, 8) : load(at_, left_)); \
	})

/* Letters and dashes: most names have nothing else. */
static inline bool are_letters(uint64_t x)
{
	uint64_t lower = x | ONES * 0x20, dash = x ^ ONES * '-';
	uint64_t letters = (lower + ONES * (0x80 - 'a')) & ~(lower + ONES * (0x7f - 'z'));
	uint64_t dashes = (dash - ONES) & ~dash;
	/* A byte above 0x7f could carry into the next one, so the result would be wrong. */
	return !(x & HIGHS) && ((letters | dashes) & HIGHS) == HIGHS;
}

static bool is_token_bytewise(weir_span name)
{
	for (size_t i = 0; i < name.length; i++) {
		uint8_t c = (uint8_t)name.at[i];
		if (!(token_bits[c >> 6] >> (c & 63) & 1))
			return false;
	}
	return true;
}

static bool is_token(weir_span name)
{
	if (name.length == 0)
		return false;
	return ALL_BYTES(are_letters, name.at, name.length) || is_token_bytewise(name);
}

/* Names that only the server sets. Their lengths tell most other names apart. */
static bool is_ours(weir_span name)
{
	switch (name.length) {
	case 4:
		return weir_span_is(name, WEIR_SPAN("date"));
	case 6:
		return weir_span_is(name, WEIR_SPAN("server"));
	case 10:
		return weir_span_is(name, WEIR_SPAN("connection")) ||
		       weir_span_is(name, WEIR_SPAN("keep-alive"));
	case 14:
		return weir_span_is(name, WEIR_SPAN("content-length"));
	case 17:
		return weir_span_is(name, WEIR_SPAN("transfer-encoding"));
	default:
		return false;
	}
}

static bool is_text_bytewise(const char *at, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		uint8_t c = (uint8_t)at[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

/* No byte below 0x20, and no 0x7f. */
static inline bool are_text(uint64_t x)
{
	uint64_t del = x ^ ONES * 0x7f;
	return !((((x - ONES * 0x20) & ~x) | ((del - ONES) & ~del)) & HIGHS);
}

/* A tab fails the quick test, so it is checked again bytewise. */
static bool is_text(weir_span value)
{
	return value.length == 0 || ALL_BYTES(are_text, value.at, value.length) ||
	       is_text_bytewise(value.at, value.length);
}

static int check_field(const weir_field *field)
{
	if (!is_token(field->name) || field->name.length > UINT16_MAX)
		return weir_error_set(-EINVAL, "field: its name is no token");
	if (is_ours(field->name))
		return weir_error_set(-EINVAL, "field: %.*s is the server's own", (int)field->name.length,
				      field->name.at);
	if (!is_text(field->value))
		return weir_error_set(-EINVAL, "field: the value of %.*s has a control byte in it",
				      (int)field->name.length, field->name.at);
	return 0;
}

int weir_fields_check(const weir_field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int error = check_field(&fields[i]);
		if (error != 0)
			return error;
	}
	return 0;
}
