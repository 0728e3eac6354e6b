/* SPDX-License-Identifier: Apache-2.0 */
/* Suggests the name that was probably meant by a mistyped one. */
#include <string.h>

#include "base/text.h"

/* A word longer than any name is never a typing error. */
enum { WORD_MAX = 31 };

static unsigned smaller(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/*
 * Number of insertions, deletions, replacements, and swaps of neighbours that turn a into b; each word is
 * at most WORD_MAX long. Computes the usual table row by row and keeps three rows.
 */
static unsigned distance(const char *a, const char *b)
{
	unsigned rows[3][WORD_MAX + 1];
	size_t a_length = strlen(a), b_length = strlen(b);

	for (size_t j = 0; j <= b_length; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= a_length; i++) {
		unsigned *row = rows[i % 3];
		const unsigned *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_length; j++) {
			unsigned replace = above[j - 1] + (a[i - 1] != b[j - 1]);
			row[j] = smaller(replace, smaller(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = smaller(row[j], two_above[j - 2] + 1);
		}
	}
	return rows[a_length % 3][b_length];
}

const char *weir_text_nearest(const char *typed, weir_text_name_at *name_at, const void *list)
{
	const char *best = NULL, *name;
	/* Two errors are a typing error, three are another word; in short names two already are. */
	unsigned best_distance = 3;

	if (*typed == '\0' || strlen(typed) > WORD_MAX)
		return NULL;
	for (size_t at = 0; (name = name_at(list, at)) != NULL; at++) {
		if (strncmp(name, typed, strlen(typed)) == 0)
			return name;
		if (strlen(name) > WORD_MAX)
			continue;
		unsigned d = distance(typed, name);
		if (d < best_distance && 2 * d <= strlen(name)) {
			best_distance = d;
			best = name;
		}
	}
	return best;
}
