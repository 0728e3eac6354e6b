/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_ON_SVG_H
#define WEIR_TESTS_ON_SVG_H

/* Looking at an SVG that we wrote. */

#include "support/check.h"

#include <string.h>

/* Every element that is opened is closed, in order; attributes are quoted; no & but of an entity. Enough of XML for what we write. */
static inline void expect_well_formed(const char *svg)
{
	char open[16][16];
	unsigned depth = 0, elements = 0;
	for (const char *at = svg; *at != '\0'; at++) {
		if (*at == '&')
			assert_true(strncmp(at, "&amp;", 5) == 0 || strncmp(at, "&lt;", 4) == 0 ||
				    strncmp(at, "&gt;", 4) == 0 || strncmp(at, "&quot;", 6) == 0);
		if (*at != '<')
			continue;
		const char *end = strchr(at, '>');
		assert_non_null(end);
		size_t length = strcspn(at + 1 + (at[1] == '/'), " />");
		assert_true(length > 0 && length < sizeof open[0]);
		unsigned quotes = 0;
		for (const char *c = at; c < end; c++)
			quotes += *c == '"';
		assert_int_equal(quotes % 2, 0);
		if (at[1] == '/') {
			assert_true(depth-- > 0);
			assert_int_equal(strncmp(open[depth], at + 2, length), 0);
		} else if (end[-1] != '/') {
			assert_true(depth < 16);
			memcpy(open[depth], at + 1, length);
			open[depth++][length] = '\0';
		}
		elements++;
		at = end;
	}
	assert_int_equal(depth, 0);
	assert_true(elements > 50);
}

#endif
