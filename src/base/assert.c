/* SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void weir_assert_failed(const char *what, const char *file, int line)
{
	fprintf(stderr, "weir: %s:%d: this should always hold: %s\n", file, line, what);
	abort();
}
