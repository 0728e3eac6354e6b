/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_DIGITS_H
#define WEIR_HTTP_DIGITS_H

/* Numbers as text. Any thread. */

#include <stdint.h>
#include <string.h>

/* In decimal digits, at most 20; returns where they end. */
static inline char *weir_put_number(char *to, uint64_t number)
{
	char digits[20];
	char *at = digits + sizeof(digits);
	if (number < 10) {
		*to = (char)('0' + number);
		return to + 1;
	}
	do
		*--at = (char)('0' + number % 10);
	while ((number /= 10) != 0);
	size_t length = (size_t)(digits + sizeof(digits) - at);
	memcpy(to, at, length);
	return to + length;
}

#endif
