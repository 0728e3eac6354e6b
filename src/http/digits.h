/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_DIGITS_H
#define WEIR_HTTP_DIGITS_H

/* Numbers as text. Any thread. */

#include <stdint.h>
#include <string.h>

/*
 * Writes a decimal number, at most 20 digits, and returns where it ends. Two digits at a time: the compiler
 * turns each division into a multiplication and a few shifts.
 */
static inline char *weir_put_number(char *to, uint64_t number)
{
	static const char pairs[] =
		"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
		"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
		"8081828384858687888990919293949596979899";
	char digits[20];
	char *at = digits + sizeof(digits);
	if (number < 10) {
		*to = (char)('0' + number);
		return to + 1;
	}
	for (; number >= 10; number /= 100)
		memcpy(at -= 2, pairs + number % 100 * 2, 2);
	if (number > 0)
		*--at = (char)('0' + number);
	size_t length = (size_t)(digits + sizeof(digits) - at);
	memcpy(to, at, length);
	return to + length;
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
