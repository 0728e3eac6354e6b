/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_GUARD_H
#define WEIR_TESTS_GUARD_H

/* Memory with pages around it that nobody may touch: a read beyond a text that lies at one of its ends crashes the test. */

#include "support/unit.h"

#include <string.h>
#include <sys/mman.h>

#define GUARD_ROOM (1 << 17)
#define GUARD_PAGE 4096

static char *guard_room(void)
{
	static char *room;
	if (room == NULL) {
		char *all = mmap(NULL, GUARD_ROOM + 2 * GUARD_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
		assert_true(all != MAP_FAILED);
		room = all + GUARD_PAGE;
		assert_int_equal(mprotect(room, GUARD_ROOM, PROT_READ | PROT_WRITE), 0);
	}
	return room;
}

/* A copy whose last byte is the last one before a page. */
static const char *guard_end(const char *text, size_t length)
{
	assert_true(length <= GUARD_ROOM);
	return memcpy(guard_room() + GUARD_ROOM - length, text, length);
}

/* A copy whose first byte is the first one after a page. */
static const char *guard_begin(const char *text, size_t length)
{
	assert_true(length <= GUARD_ROOM);
	return memcpy(guard_room(), text, length);
}

#endif
