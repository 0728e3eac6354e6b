/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_FUZZ_TARGET_H
#define WEIR_FUZZ_TARGET_H

/* What every target is: one function, given any bytes, that aborts where a promise is broken. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                \
	do {                                                                    \
		if (!(x)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
			abort();                                                \
		}                                                               \
	} while (0)

/* What was refused has a sentence of printable bytes. */
static inline void check_sentence(void)
{
	const char *text = weir_error();
	CHECK(*text != '\0');
	for (; *text != '\0'; text++)
		CHECK(*text >= ' ' && *text <= '~');
}

#endif
