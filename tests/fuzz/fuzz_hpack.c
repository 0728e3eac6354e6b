/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as header blocks of one connection: each begins with a byte that is its length. What our
 * decoder takes, nghttp2 takes too, and reads the same fields; both tables have the same size then. What
 * was read goes through our encoder, and comes out again as it was. Blocks, and the memory for what they
 * decode to, are no larger than they must be.
 */
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "http/hpack.h"
#include "target.h"

#define FIELDS_MOST 256

typedef struct field {
	char *bytes; /* name, value */
	size_t name, value;
} field;

typedef struct fields {
	size_t count;
	field at[FIELDS_MOST];
} fields;

static void keep(fields *to, weir_span name, weir_span value)
{
	field *one = &to->at[to->count++];
	*one = (field){malloc(name.length + value.length + 1), name.length, value.length};
	CHECK(one->bytes != NULL);
	memcpy(one->bytes, name.at, name.length);
	if (value.length > 0)
		memcpy(one->bytes + name.length, value.at, value.length);
}

static void forget(fields *of)
{
	for (size_t i = 0; i < of->count; i++)
		free(of->at[i].bytes);
	of->count = 0;
}

static bool is_same(const field *a, const void *name, size_t name_length, const void *value, size_t length)
{
	return a->name == name_length && a->value == length && memcmp(a->bytes, name, name_length) == 0 &&
	       (length == 0 || memcmp(a->bytes + name_length, value, length) == 0);
}

static int decode(weir_hpack_decoder *decoder, const uint8_t *bytes, size_t length, fields *ret)
{
	uint8_t *copy = malloc(length + 1), *scratch = malloc(weir_hpack_scratch(length));
	CHECK(copy != NULL && scratch != NULL);
	memcpy(copy, bytes, length);
	weir_hpack_block block = {.at = copy, .end = copy + length, .scratch = scratch};
	weir_hpack_field one;
	int got;
	while ((got = weir_hpack_next(decoder, &block, &one)) == 1 && ret->count < FIELDS_MOST)
		keep(ret, one.name, one.value);
	CHECK(got == 0 || got == -EPROTO);
	CHECK(decoder->used <= decoder->limit && decoder->limit <= WEIR_HPACK_TABLE_BYTES);
	free(scratch);
	free(copy);
	return got;
}

static void check_theirs(nghttp2_hd_inflater *theirs, const uint8_t *at, size_t length, const fields *ours)
{
	size_t count = 0;
	int flags = 0;
	while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
		nghttp2_nv pair;
		flags = 0;
		ssize_t used = nghttp2_hd_inflate_hd2(theirs, &pair, &flags, at, length, 1);
		CHECK(used >= 0);
		at += used;
		length -= (size_t)used;
		if (!(flags & NGHTTP2_HD_INFLATE_EMIT))
			continue;
		CHECK(count < ours->count);
		CHECK(is_same(&ours->at[count], pair.name, pair.namelen, pair.value, pair.valuelen));
		count++;
	}
	CHECK(count == ours->count);
	nghttp2_hd_inflate_end_headers(theirs);
}

static char lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

/* The encoder is for tokens: other bytes than ASCII may change. */
static bool is_ascii(const field *one)
{
	for (size_t i = 0; i < one->name; i++)
		if (one->bytes[i] < 0)
			return false;
	return true;
}

static void check_again(weir_hpack_encoder *encoder, weir_hpack_decoder *back, const fields *ours)
{
	for (size_t i = 0; i < ours->count; i++) {
		const field *one = &ours->at[i];
		size_t most = WEIR_HPACK_BEGIN_MOST + one->name + one->value + WEIR_HPACK_FIELD_MOST;
		uint8_t *bytes = malloc(most);
		CHECK(bytes != NULL);
		if (is_ascii(one)) {
			fields again = {0};
			uint8_t *end = weir_hpack_put(encoder, weir_hpack_begin(encoder, bytes),
						      (weir_span){one->bytes, one->name},
						      (weir_span){one->bytes + one->name, one->value});
			CHECK(decode(back, bytes, (size_t)(end - bytes), &again) == 0 && again.count == 1);
			for (size_t n = 0; n < one->name; n++)
				one->bytes[n] = lower(one->bytes[n]);
			CHECK(is_same(one, again.at[0].bytes, again.at[0].name,
				      again.at[0].bytes + again.at[0].name, again.at[0].value));
			CHECK(encoder->table.used == back->used);
			forget(&again);
		}
		free(bytes);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static fields ours;
	nghttp2_hd_inflater *theirs;
	weir_hpack_decoder decoder, back;
	weir_hpack_encoder encoder;
	int got = 0;
	if (size > 4096)
		return 0;
	CHECK(nghttp2_hd_inflate_new(&theirs) == 0);
	weir_hpack_decoder_init(&decoder);
	weir_hpack_decoder_init(&back);
	weir_hpack_encoder_init(&encoder);
	while (size > 0 && got == 0) {
		size_t length = data[0] < size - 1 ? data[0] : size - 1;
		got = decode(&decoder, data + 1, length, &ours);
		if (got == 0) {
			check_theirs(theirs, data + 1, length, &ours);
			CHECK(decoder.used == nghttp2_hd_inflate_get_dynamic_table_size(theirs));
			weir_hpack_encoder_resize(&encoder,
						  data[0] % 4 == 0 ? data[0] * 16u : encoder.table.limit);
			check_again(&encoder, &back, &ours);
		}
		forget(&ours);
		data += 1 + length;
		size -= 1 + length;
	}
	weir_hpack_encoder_fini(&encoder);
	weir_hpack_decoder_fini(&back);
	weir_hpack_decoder_fini(&decoder);
	nghttp2_hd_inflate_del(theirs);
	return 0;
}
