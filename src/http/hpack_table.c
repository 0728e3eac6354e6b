/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of HPACK. The bytes of entries are one behind the other in a buffer, and entries are a ring.
 * Where the buffer ends, what is in use goes to a new one: then a field that is to be entered may point
 * into the old one.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "http/hpack.h"

/* ---- the static table: RFC 7541, appendix A ---- */

#define S(known, name, value)                                                \
	{                                                                    \
		{name, sizeof(name) - 1}, {value, sizeof(value) - 1}, known, \
	}

/* With the first entry of the same name. */
static const weir_hpack_field fixed[WEIR_HPACK_STATIC] = {
	S(1, ":authority", ""),
	S(2, ":method", "GET"),
	S(2, ":method", "POST"),
	S(4, ":path", "/"),
	S(4, ":path", "/index.html"),
	S(6, ":scheme", "http"),
	S(6, ":scheme", "https"),
	S(8, ":status", "200"),
	S(8, ":status", "204"),
	S(8, ":status", "206"),
	S(8, ":status", "304"),
	S(8, ":status", "400"),
	S(8, ":status", "404"),
	S(8, ":status", "500"),
	S(15, "accept-charset", ""),
	S(16, "accept-encoding", "gzip, deflate"),
	S(17, "accept-language", ""),
	S(18, "accept-ranges", ""),
	S(19, "accept", ""),
	S(20, "access-control-allow-origin", ""),
	S(21, "age", ""),
	S(22, "allow", ""),
	S(23, "authorization", ""),
	S(24, "cache-control", ""),
	S(25, "content-disposition", ""),
	S(26, "content-encoding", ""),
	S(27, "content-language", ""),
	S(28, "content-length", ""),
	S(29, "content-location", ""),
	S(30, "content-range", ""),
	S(31, "content-type", ""),
	S(32, "cookie", ""),
	S(33, "date", ""),
	S(34, "etag", ""),
	S(35, "expect", ""),
	S(36, "expires", ""),
	S(37, "from", ""),
	S(38, "host", ""),
	S(39, "if-match", ""),
	S(40, "if-modified-since", ""),
	S(41, "if-none-match", ""),
	S(42, "if-range", ""),
	S(43, "if-unmodified-since", ""),
	S(44, "last-modified", ""),
	S(45, "link", ""),
	S(46, "location", ""),
	S(47, "max-forwards", ""),
	S(48, "proxy-authenticate", ""),
	S(49, "proxy-authorization", ""),
	S(50, "range", ""),
	S(51, "referer", ""),
	S(52, "refresh", ""),
	S(53, "retry-after", ""),
	S(54, "server", ""),
	S(55, "set-cookie", ""),
	S(56, "strict-transport-security", ""),
	S(57, "transfer-encoding", ""),
	S(58, "user-agent", ""),
	S(59, "vary", ""),
	S(60, "via", ""),
	S(61, "www-authenticate", ""),
};

weir_hpack_field weir_hpack_static(unsigned index)
{
	return fixed[index - 1];
}

unsigned weir_hpack_static_name(weir_span name)
{
	for (unsigned i = 0; i < WEIR_HPACK_STATIC; i++)
		if (fixed[i].name.length == name.length &&
		    memcmp(fixed[i].name.at, name.at, name.length) == 0)
			return i + 1;
	return 0;
}

/* ---- the dynamic table ---- */

#define STORE_LEAST 1024u

struct weir_hpack_store {
	weir_hpack_entry entries[WEIR_HPACK_ENTRIES]; /* by their number, modulo */
	uint32_t room, length;                        /* of bytes */
	char bytes[];
};

void weir_hpack_table_fini(weir_hpack_table *table)
{
	weir_mem_free(table->store);
	*table = (weir_hpack_table){.limit = table->limit};
}

static weir_hpack_entry *entry_of(const weir_hpack_table *table, uint32_t index)
{
	return &table->store->entries[(table->inserted - 1 - index) % WEIR_HPACK_ENTRIES];
}

weir_hpack_field weir_hpack_table_get(const weir_hpack_table *table, uint32_t index)
{
	const weir_hpack_entry *entry = entry_of(table, index);
	const char *at = table->store->bytes + entry->at;
	return (weir_hpack_field){.name = {at, entry->name_length},
				  .value = {at + entry->name_length, entry->value_length},
				  .known = entry->known};
}

/* Drops the oldest, until no more than this is in use. Their bytes stay where they are. */
static void shrink(weir_hpack_table *table, uint32_t most)
{
	while (table->used > most) {
		const weir_hpack_entry *entry = entry_of(table, --table->count);
		table->used -= entry->name_length + (uint32_t)entry->value_length + WEIR_HPACK_OVERHEAD;
	}
}

void weir_hpack_table_resize(weir_hpack_table *table, uint32_t limit)
{
	table->limit = limit;
	shrink(table, limit);
}

/* A store with what is in use after the oldest were dropped, and room for more. NULL: out of memory. */
static weir_hpack_store *make_store(const weir_hpack_table *table, uint32_t count, uint32_t more)
{
	const weir_hpack_store *old = table->store;
	uint32_t from = count > 0 ? entry_of(table, count - 1)->at : 0;
	uint32_t live = count > 0 ? old->length - from : 0;
	uint32_t room = 2 * (live + more) > STORE_LEAST ? 2 * (live + more) : STORE_LEAST;
	weir_hpack_store *store = weir_mem_raw(sizeof(*store) + room);
	if (store == NULL)
		return NULL;
	store->room = room;
	store->length = live;
	if (live > 0)
		memcpy(store->bytes, old->bytes + from, live);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t place = (table->inserted - 1 - i) % WEIR_HPACK_ENTRIES;
		store->entries[place] = old->entries[place];
		store->entries[place].at -= (uint16_t)from;
	}
	return store;
}

/* How many entries stay if the table uses no more than this. */
static uint32_t staying(const weir_hpack_table *table, uint32_t most)
{
	uint32_t count = table->count, used = table->used;
	while (used > most) {
		const weir_hpack_entry *entry = entry_of(table, --count);
		used -= entry->name_length + (uint32_t)entry->value_length + WEIR_HPACK_OVERHEAD;
	}
	return count;
}

static char *append(weir_hpack_store *store, weir_span text)
{
	char *at = store->bytes + store->length;
	if (text.length > 0)
		memcpy(at, text.at, text.length);
	store->length += (uint32_t)text.length;
	return at;
}

int weir_hpack_table_add(weir_hpack_table *table, weir_hpack_field *field)
{
	size_t length = field->name.length + field->value.length;
	if (length > table->limit || length + WEIR_HPACK_OVERHEAD > table->limit) {
		shrink(table, 0);
		return 0;
	}
	uint32_t size = (uint32_t)length + WEIR_HPACK_OVERHEAD;
	weir_hpack_store *store = table->store, *old = NULL;
	if (store == NULL || store->room - store->length < length) {
		old = store;
		store = make_store(table, staying(table, table->limit - size), (uint32_t)length);
		if (store == NULL)
			return -ENOMEM;
	}
	shrink(table, table->limit - size);
	uint32_t at = store->length;
	field->name.at = append(store, field->name);
	field->value.at = append(store, field->value);
	table->store = store;
	weir_mem_free(old);
	table->inserted++;
	table->count++;
	table->used += size;
	*entry_of(table, 0) = (weir_hpack_entry){.at = (uint16_t)at,
						 .name_length = (uint16_t)field->name.length,
						 .value_length = (uint16_t)field->value.length,
						 .known = field->known};
	return 0;
}
