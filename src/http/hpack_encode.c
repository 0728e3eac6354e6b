/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding: RFC 7541 6. A slot of the encoder remembers the latest field with its hash, and the entry that
 * it has in the table, if any. The whole field is compared before an entry is used, so that a hash never
 * decides.
 *
 * The same answers come from the same memory. So the place of a value usually tells which entry it has:
 * then nothing is hashed, and only the comparison is left.
 */
#include <string.h>

#include "http/head.h"
#include "http/hpack.h"

#define NAME_HERE   128u /* longer names are not entered */
#define NAME_BEYOND 8u
#define ENTRY_MOST  1024u              /* larger fields would drive out all others */
#define FACTOR      0x9e3779b97f4a7c15 /* 2^64 divided by the golden ratio */

#define TOKEN_MOST 24u /* of weir_token_is */
#define WAYS       4u  /* slots that a hash may have */

#define INDEXED 0x80u
#define ENTERED 0x40u
#define PLAIN   0x00u
#define SECRET  0x10u

void weir_hpack_encoder_init(weir_hpack_encoder *encoder)
{
	*encoder = (weir_hpack_encoder){.table.limit = WEIR_HPACK_TABLE_BYTES};
}

void weir_hpack_encoder_fini(weir_hpack_encoder *encoder)
{
	weir_hpack_table_fini(&encoder->table);
}

void weir_hpack_encoder_resize(weir_hpack_encoder *encoder, uint32_t limit)
{
	if (limit > WEIR_HPACK_TABLE_BYTES)
		limit = WEIR_HPACK_TABLE_BYTES;
	if (!encoder->resized || limit < encoder->least)
		encoder->least = limit;
	if (limit != encoder->table.limit)
		encoder->resized = true;
	weir_hpack_table_resize(&encoder->table, limit);
}

/* ---- parts ---- */

static uint8_t *put_number(uint8_t *to, unsigned bits, unsigned pattern, size_t number)
{
	size_t most = (1u << bits) - 1;
	if (number < most) {
		*to++ = (uint8_t)(pattern | number);
		return to;
	}
	*to++ = (uint8_t)(pattern | most);
	for (number -= most; number >= 0x80; number >>= 7)
		*to++ = (uint8_t)(0x80 | (number & 0x7f));
	*to++ = (uint8_t)number;
	return to;
}

static uint8_t *put_string(uint8_t *to, weir_span text)
{
	size_t coded = weir_huffman_length(text.at, text.length);
	if (coded < text.length)
		return weir_huffman_encode(put_number(to, 7, 0x80, coded), text.at, text.length);
	to = put_number(to, 7, 0, text.length);
	if (text.length > 0)
		memcpy(to, text.at, text.length);
	return to + text.length;
}

/* Eight bytes; capitals become small letters, and nothing else changes: no token has a byte above 0x7f. */
static uint64_t lower8(uint64_t x)
{
	uint64_t ones = UINT64_C(0x0101010101010101), low = x & 0x7f * ones;
	uint64_t is_capital = (low + (0x80 - 'A') * ones) & ~(low + (0x7f - 'Z') * ones) & ~x & 0x80 * ones;
	return x | is_capital >> 2;
}

/* Less than eight bytes as a number. Parts of it overlap, so that none extends beyond the bytes. */
static uint64_t load_few(const char *at, size_t length)
{
	uint32_t low, high;
	if (length >= 4) {
		memcpy(&low, at, 4);
		memcpy(&high, at + length - 4, 4);
		return low | (uint64_t)high << 8 * (length - 4);
	}
	if (length == 0)
		return 0;
	return (uint8_t)at[0] | (uint64_t)(uint8_t)at[length / 2] << 8 * (length / 2) |
	       (uint64_t)(uint8_t)at[length - 1] << 8 * (length - 1);
}

static uint64_t load8(const char *at)
{
	uint64_t x;
	memcpy(&x, at, 8);
	return x;
}

/* There is room for NAME_BEYOND bytes more. */
static void lower(char *to, const char *from, size_t length)
{
	uint64_t x;
	for (; length >= 8; from += 8, to += 8, length -= 8) {
		x = lower8(load8(from));
		memcpy(to, &x, 8);
	}
	x = lower8(load_few(from, length));
	memcpy(to, &x, 8);
}

static uint64_t mix(uint64_t hash, uint64_t x)
{
	hash = (hash ^ x) * FACTOR;
	return hash ^ hash >> 32;
}

/* The length is part of it, so that bytes may be counted twice. */
static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t length)
{
	hash ^= length;
	if (length < 8)
		return mix(hash, load_few(bytes, length));
	for (size_t i = 0; i + 8 < length; i += 8)
		hash = mix(hash, load8(bytes + i));
	return mix(hash, load8(bytes + length - 8));
}

/* ---- fields ---- */

static bool is(weir_span a, const char *text, size_t length)
{
	return a.length == length && memcmp(a.at, text, length) == 0;
}

static bool is_secret(weir_span name)
{
	return is(name, "set-cookie", 10) || is(name, "cookie", 6) || is(name, "authorization", 13) ||
	       is(name, "proxy-authorization", 19);
}

static uint8_t *put_literal(uint8_t *to, unsigned pattern, weir_span name, weir_span value)
{
	unsigned known = weir_hpack_static_name(name);
	to = put_number(to, pattern == ENTERED ? 6 : 4, pattern, known);
	if (known == 0)
		to = put_string(to, name);
	return put_string(to, value);
}

/* How many entries came after that of the slot; at least table.count if there is none any more. */
static uint32_t age_of(const weir_hpack_encoder *encoder, const weir_hpack_slot *slot)
{
	return slot->number != 0 ? encoder->table.inserted - slot->number : UINT32_MAX;
}

/*
 * Whether the entry of the slot is still in the table, and is this field. Its index as RFC 7541 counts; 0:
 * no.
 */
static unsigned find(const weir_hpack_encoder *encoder, const weir_hpack_slot *slot, weir_span name,
		     weir_span value)
{
	uint32_t age = age_of(encoder, slot);
	if (age >= encoder->table.count)
		return 0;
	weir_hpack_field field = weir_hpack_table_get(&encoder->table, age);
	if (field.name.length != name.length || field.value.length != value.length ||
	    memcmp(field.name.at, name.at, name.length) != 0 ||
	    memcmp(field.value.at, value.at, value.length) != 0)
		return 0;
	return WEIR_HPACK_STATIC + 1 + age;
}

/*
 * The slot of a hash, or one for it: of those whose field is not in the table, if there are any. It is
 * another one each time, so that two fields that come again and again do not drive out each other for ever.
 */
static weir_hpack_slot *slot_for(weir_hpack_encoder *encoder, uint32_t hash)
{
	weir_hpack_slot *set = &encoder->slots[hash % (WEIR_HPACK_SLOTS / WAYS) * WAYS];
	for (unsigned i = 0; i < WAYS; i++)
		if (set[i].hash == hash)
			return &set[i];
	unsigned first = encoder->turn++;
	for (unsigned i = 0; i < WAYS; i++)
		if (age_of(encoder, &set[(first + i) % WAYS]) >= encoder->table.count)
			return &set[(first + i) % WAYS];
	return &set[first % WAYS];
}

static uint32_t *recent_of(weir_hpack_encoder *encoder, weir_span value)
{
	return &encoder->recent[(uint64_t)(uintptr_t)value.at * FACTOR >> 32 & (WEIR_HPACK_RECENT - 1)];
}

/* Letters, digits and -: what weir_token_is may be given. */
static bool is_plain(weir_span name)
{
	for (size_t i = 0; i < name.length; i++) {
		char c = name.at[i];
		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != ':')
			return false;
	}
	return true;
}

/* Enters it; false: it was not, and is sent as a literal. */
static bool enter(weir_hpack_encoder *encoder, weir_hpack_slot *slot, weir_span name, weir_span value)
{
	/* `known` is the encoder's own here: that the name may be compared without case. */
	weir_hpack_field field = {.name = name, .value = value, .known = is_plain(name)};
	if (name.length + value.length + WEIR_HPACK_OVERHEAD > encoder->table.limit ||
	    weir_hpack_table_add(&encoder->table, &field) != 0)
		return false;
	slot->number = encoder->table.inserted;
	return true;
}

static uint8_t *put_lower(weir_hpack_encoder *encoder, uint8_t *to, weir_span name, weir_span value)
{
	if (is_secret(name))
		return put_literal(to, SECRET, name, value);
	if (name.length + value.length > ENTRY_MOST)
		return put_literal(to, PLAIN, name, value);
	uint32_t hash = (uint32_t)hash_bytes(hash_bytes(0, name.at, name.length), value.at, value.length);
	weir_hpack_slot *slot = slot_for(encoder, hash);
	if (slot->hash == hash) {
		unsigned index = find(encoder, slot, name, value);
		if (index != 0) {
			*recent_of(encoder, value) = slot->number;
			return put_number(to, 7, INDEXED, index);
		}
		if (enter(encoder, slot, name, value))
			return put_literal(to, ENTERED, name, value);
	}
	*slot = (weir_hpack_slot){.hash = hash};
	return put_literal(to, PLAIN, name, value);
}

/* As find, for a name that may have capitals. */
static unsigned find_recent(const weir_hpack_table *table, uint32_t number, weir_span name, weir_span value)
{
	uint32_t age = table->inserted - number;
	if (number == 0 || age >= table->count || name.length > TOKEN_MOST)
		return 0;
	weir_hpack_field field = weir_hpack_table_get(table, age);
	if (!field.known || field.name.length != name.length || field.value.length != value.length ||
	    !weir_token_is(name.at, field.name.at, name.length) ||
	    memcmp(field.value.at, value.at, value.length) != 0)
		return 0;
	return WEIR_HPACK_STATIC + 1 + age;
}

uint8_t *weir_hpack_put(weir_hpack_encoder *encoder, uint8_t *to, weir_span name, weir_span value)
{
	unsigned index = find_recent(&encoder->table, *recent_of(encoder, value), name, value);
	if (index != 0)
		return put_number(to, 7, INDEXED, index);
	char here[NAME_HERE + NAME_BEYOND];
	if (name.length <= NAME_HERE) {
		lower(here, name.at, name.length);
		return put_lower(encoder, to, (weir_span){here, name.length}, value);
	}
	*to++ = PLAIN;
	to = put_number(to, 7, 0, name.length);
	/* The value comes behind it, or nothing does: there is room for more. */
	lower((char *)to, name.at, name.length);
	return put_string(to + name.length, value);
}

uint8_t *weir_hpack_put_status(uint8_t *to, unsigned status)
{
	static const uint16_t known[] = {200, 204, 206, 304, 400, 404, 500};
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (status == known[i])
			return put_number(to, 7, INDEXED, 8 + i);
	*to++ = PLAIN | 8;
	*to++ = 3;
	*to++ = (uint8_t)('0' + status / 100 % 10);
	*to++ = (uint8_t)('0' + status / 10 % 10);
	*to++ = (uint8_t)('0' + status % 10);
	return to;
}

uint8_t *weir_hpack_begin(weir_hpack_encoder *encoder, uint8_t *to)
{
	if (!encoder->resized)
		return to;
	encoder->resized = false;
	if (encoder->least < encoder->table.limit)
		to = put_number(to, 5, 0x20, encoder->least);
	return put_number(to, 5, 0x20, encoder->table.limit);
}
