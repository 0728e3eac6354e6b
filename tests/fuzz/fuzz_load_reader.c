/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as answers of a server: read as a whole, in pieces of a size that the first byte chooses, and as a whole again, when the head may be known from before. All three must
 * tell the same: whether and where the answer ends, its status, its length.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "load/reader.h"
#include "target.h"

typedef struct told {
	load_read read;
	load_meaning meaning;
	size_t used;
	uint64_t bytes;
} told;

static told feed(load_heads *heads, weir_method method, const uint8_t *data, size_t size, size_t step)
{
	load_reader reader;
	told t = {.read = LOAD_READ_MORE};
	load_reader_init(&reader);
	load_reader_begin(&reader, method);
	while (t.used < size && t.read == LOAD_READ_MORE) {
		size_t part = size - t.used < step ? size - t.used : step, used = 0;
		/* In memory of exactly its size. */
		char *copy = malloc(part);
		CHECK(copy != NULL);
		memcpy(copy, data + t.used, part);
		t.read = load_reader_take(&reader, heads, copy, part, &used);
		free(copy);
		CHECK(used <= part && (used == part || t.read != LOAD_READ_MORE));
		t.used += used;
	}
	if (t.read == LOAD_READ_MORE)
		t.read = load_reader_end(&reader);
	t.meaning = reader.meaning;
	t.bytes = reader.bytes;
	load_reader_fini(&reader);
	return t;
}

static void check_same(const told *a, const told *b)
{
	CHECK(a->read == b->read);
	if (a->read != LOAD_READ_DONE)
		return;
	CHECK(a->used == b->used && a->bytes == b->bytes && a->used == a->bytes);
	CHECK(a->meaning.status == b->meaning.status && a->meaning.keep == b->meaning.keep);
	CHECK(a->meaning.framing == b->meaning.framing &&
	      a->meaning.retry_after_s == b->meaning.retry_after_s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static load_heads heads;
	if (size < 2)
		return 0;
	weir_method method = data[0] & 1 ? WEIR_METHOD_HEAD : WEIR_METHOD_GET;
	size_t step = (size_t)(data[0] >> 1) + 1;
	memset(&heads, 0, sizeof(heads));
	told whole = feed(&heads, method, data + 1, size - 1, size);
	told again = feed(&heads, method, data + 1, size - 1, size);
	told pieces = feed(&heads, method, data + 1, size - 1, step);
	CHECK(whole.read != LOAD_READ_MORE);
	CHECK(whole.read != LOAD_READ_DONE || whole.meaning.status >= 101);
	check_same(&whole, &again);
	check_same(&whole, &pieces);
	return 0;
}
