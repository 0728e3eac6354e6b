/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding: RFC 7541 5 and 6. What is malformed is never guessed. */
#include <errno.h>
#include <string.h>

#include "http/hpack.h"

/* More than any length or index that can be right; a larger number is malformed. */
#define NUMBER_MOST 0xffffffu

void weir_hpack_decoder_init(weir_hpack_decoder *decoder)
{
	*decoder = (weir_hpack_decoder){.limit = WEIR_HPACK_TABLE_BYTES};
}

void weir_hpack_decoder_fini(weir_hpack_decoder *decoder)
{
	weir_hpack_table_fini(decoder);
}

/* An integer whose first byte has so many bits for it (5.1). There is at least one byte. */
static int take_number(weir_hpack_block *block, unsigned bits, uint32_t *ret_number)
{
	uint32_t most = (1u << bits) - 1, number = *block->at++ & most;
	if (number == most) {
		unsigned shift = 0;
		uint8_t byte;
		do {
			if (block->at == block->end || shift > 21)
				return -EPROTO;
			byte = *block->at++;
			number += (uint32_t)(byte & 0x7f) << shift;
			shift += 7;
		} while (byte & 0x80);
	}
	*ret_number = number;
	return number <= NUMBER_MOST ? 0 : -EPROTO;
}

/* A string (5.2): in the block itself or, decoded, in the scratch memory, of which it takes its part. */
static int take_string(weir_hpack_block *block, weir_span *ret_text)
{
	uint32_t length;
	if (block->at == block->end)
		return -EPROTO;
	bool huffman = *block->at & 0x80;
	if (take_number(block, 7, &length) != 0 || length > (size_t)(block->end - block->at))
		return -EPROTO;
	const uint8_t *bytes = block->at;
	block->at += length;
	if (!huffman) {
		*ret_text = (weir_span){(const char *)bytes, length};
		return 0;
	}
	ssize_t decoded = weir_huffman_decode(block->scratch, bytes, length);
	if (decoded < 0)
		return -EPROTO;
	*ret_text = (weir_span){(const char *)block->scratch, (size_t)decoded};
	block->scratch += decoded;
	return 0;
}

static int take_index(const weir_hpack_decoder *decoder, uint32_t index, weir_hpack_field *ret_field)
{
	if (index == 0 || index > WEIR_HPACK_STATIC + decoder->count)
		return -EPROTO;
	*ret_field = index <= WEIR_HPACK_STATIC
			     ? weir_hpack_static(index)
			     : weir_hpack_table_get(decoder, index - WEIR_HPACK_STATIC - 1);
	return 0;
}

/* bits: of the index of the name; 0 there means that the name follows. */
static int take_literal(weir_hpack_decoder *decoder, weir_hpack_block *block, unsigned bits,
			weir_hpack_field *ret_field)
{
	uint32_t index;
	weir_hpack_field field = {0};
	int error = take_number(block, bits, &index);
	if (error == 0)
		error = index != 0 ? take_index(decoder, index, &field) : take_string(block, &field.name);
	if (error == 0)
		error = take_string(block, &field.value);
	if (error != 0)
		return error;
	*ret_field = field;
	return 1;
}

/* Changes of the table's size come before the fields (4.2). */
static int take_sizes(weir_hpack_decoder *decoder, weir_hpack_block *block)
{
	uint32_t limit;
	while (block->at < block->end && (*block->at & 0xe0) == 0x20) {
		if (block->begun || take_number(block, 5, &limit) != 0 || limit > WEIR_HPACK_TABLE_BYTES)
			return -EPROTO;
		weir_hpack_table_resize(decoder, limit);
	}
	return 0;
}

int weir_hpack_next(weir_hpack_decoder *decoder, weir_hpack_block *block, weir_hpack_field *ret_field)
{
	uint32_t index;
	if (take_sizes(decoder, block) != 0)
		return -EPROTO;
	if (block->at == block->end)
		return 0;
	block->begun = true;
	uint8_t first = *block->at;
	if (first & 0x80) {
		if (take_number(block, 7, &index) != 0 || take_index(decoder, index, ret_field) != 0)
			return -EPROTO;
		return 1;
	}
	if (!(first & 0x40))
		return take_literal(decoder, block, 4, ret_field);
	int got = take_literal(decoder, block, 6, ret_field);
	if (got == 1 && weir_hpack_table_add(decoder, ret_field) != 0)
		return -ENOMEM;
	return got;
}
