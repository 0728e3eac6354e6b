/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static uint64_t live_before;

void check_contains(const char *text, const char *word)
{
	if (strstr(text, word) == NULL)
		fail_msg("\"%s\" does not mention \"%s\"", text, word);
}

int check_memory_setup(void **state)
{
	live_before = weir_mem_live();
	return 0;
}

int check_memory_teardown(void **state)
{
	weir_mem_fail_after(0);
	uint64_t live = weir_mem_live();
	if (live == live_before)
		return 0;
	print_error("%lld allocations more than before the test\n", (long long)(live - live_before));
	return -1;
}

bool check_long(void)
{
	return check_env("WEIR_LONG", 0) != 0;
}

uint64_t check_seeds(uint64_t few, uint64_t all)
{
	return check_long() ? all : few;
}

uint64_t check_env(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	return text != NULL && *text != '\0' ? strtoull(text, NULL, 0) : otherwise;
}
