/* SPDX-License-Identifier: Apache-2.0 */
/* Judges a law before crowds of clients that ask without a pause (laws/closed.h). Shows the cells that do not hold, and how many do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "laws/closed.h"

static int usage(void)
{
	fputs("usage: grid_closed [--law NAME] [--half tune|held|healthy]\n", stderr);
	return 2;
}

static void judge(const char *half, const char *law)
{
	const struct closed_cell *cell;
	unsigned held = 0, count = 0;
	for (; (cell = closed_cell_at(half, count)) != NULL; count++) {
		struct closed_result result;
		char name[128];
		closed_cell_run(cell, law, &result);
		held += result.holds;
		closed_cell_name(cell, name, sizeof(name));
		if (!result.holds)
			printf("%-80s useful %.2f shed %.3f kept %.3f\n", name, result.useful, result.shed,
			       result.kept);
	}
	printf("%s %s: %u of %u hold\n", half, law, held, count);
}

int main(int argc, char **argv)
{
	static const char *const halves[] = {"tune", "held", "healthy"};
	const char *law = "adaptive-remote", *half = NULL;
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 == argc)
			return usage();
		if (strcmp(argv[i], "--law") == 0)
			law = argv[i + 1];
		else if (strcmp(argv[i], "--half") == 0)
			half = argv[i + 1];
		else
			return usage();
	}
	bool known = half == NULL;
	for (unsigned i = 0; i < 3; i++)
		if (half == NULL || strcmp(half, halves[i]) == 0) {
			known = true;
			judge(halves[i], law);
		}
	return known ? 0 : usage();
}
