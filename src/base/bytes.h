/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BASE_BYTES_H
#define WEIR_BASE_BYTES_H

/*
 * Copying and clearing by the C library, which is tuned for the processor. A compiler that knows the
 * length, or a bound of it, would emit string instructions instead, which are slower for a hundred bytes
 * or more. Any thread.
 */

#include <string.h>

/* Returns the end of the copy. */
static inline char *weir_copy(char *to, const void *from, size_t length)
{
	__asm__("" : "+r"(length));
	memcpy(to, from, length);
	return to + length;
}

static inline void weir_clear(void *at, size_t length)
{
	__asm__("" : "+r"(length));
	memset(at, 0, length);
}

#endif
