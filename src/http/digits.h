/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_DIGITS_H
#define WEIR_HTTP_DIGITS_H

/* Numbers as text. Any thread. */

#include <stdint.h>
#include <string.h>

/* Two digits each, from "00" to "99". */
static const char weir_digit_pairs[] =
	"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
	"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
	"8081828384858687888990919293949596979899";

/* number < 100. */
static inline char *weir_put_pair(char *to, uint32_t number)
{
	memcpy(to, weir_digit_pairs + 2 * number, 2);
	return to + 2;
}

/* number < 10,000, without zeros before it. */
static inline char *weir_put_small(char *to, uint32_t number)
{
	uint32_t above = number / 100, last = number % 100;
	if (above >= 10) {
		to = weir_put_pair(to, above);
	} else if (above > 0) {
		*to++ = (char)('0' + above);
	} else if (last < 10) {
		*to = (char)('0' + last);
		return to + 1;
	}
	return weir_put_pair(to, last);
}

/* number >= 10,000. Four digits at a time, from the last. */
static inline char *weir_put_large(char *to, uint64_t number)
{
	char digits[20], *at = digits + sizeof(digits);
	for (; number >= 10000; number /= 10000) {
		at -= 4;
		weir_put_pair(weir_put_pair(at, (uint32_t)(number % 10000) / 100), (uint32_t)(number % 100));
	}
	to = weir_put_small(to, (uint32_t)number);
	size_t length = (size_t)(digits + sizeof(digits) - at);
	memcpy(to, at, length);
	return to + length;
}

/*
 * Writes a decimal number, at most 20 digits, and returns where it ends. Two digits at a time: the compiler
 * turns each division into a multiplication and a few shifts.
 */
static inline char *weir_put_number(char *to, uint64_t number)
{
	if (number < 10000)
		return weir_put_small(to, (uint32_t)number);
	uint64_t above = number / 10000;
	uint32_t last = (uint32_t)(number % 10000);
	to = above < 10000 ? weir_put_small(to, (uint32_t)above) : weir_put_large(to, above);
	return weir_put_pair(weir_put_pair(to, last / 100), last % 100);
}

/* The value of a hexadecimal digit; -1: not one. */
static inline int weir_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
