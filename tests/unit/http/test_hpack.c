/* SPDX-License-Identifier: Apache-2.0 */
/* HPACK: the examples of RFC 7541, what is malformed, and random blocks against nghttp2, both ways. */
#include "support/unit.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/random.h>

#include "base/mem.h"
#include "http/hpack.h"
#include "support/check.h"

/* ---- helpers ---- */

static size_t from_hex(uint8_t *to, const char *hex)
{
	size_t length = 0;
	for (; *hex != '\0'; hex++) {
		unsigned byte;
		if (*hex == ' ')
			continue;
		assert_int_equal(sscanf(hex, "%2x", &byte), 1);
		to[length++] = (uint8_t)byte;
		hex++;
	}
	return length;
}

/*
 * The fields as "name: value\n"; the result is that of the last weir_hpack_next. The bytes and the scratch
 * memory are no larger than they must be.
 */
static int decode(weir_hpack_decoder *decoder, const uint8_t *bytes, size_t length, char *text, size_t room)
{
	uint8_t *copy = malloc(length + 1), *scratch = malloc(weir_hpack_scratch(length));
	memcpy(copy, bytes, length);
	weir_hpack_block block = {.at = copy, .end = copy + length, .scratch = scratch};
	weir_hpack_field field;
	size_t used = 0;
	int got;
	*text = '\0';
	while ((got = weir_hpack_next(decoder, &block, &field)) == 1) {
		used += (size_t)snprintf(text + used, room - used, "%.*s: %.*s\n", (int)field.name.length,
					 field.name.at, (int)field.value.length, field.value.at);
		assert_true(used < room);
		if (field.known != 0)
			assert_int_equal(weir_hpack_static_name(field.name), field.known);
	}
	free(scratch);
	free(copy);
	return got;
}

static int decode_hex(weir_hpack_decoder *decoder, const char *hex, char *text, size_t room)
{
	uint8_t bytes[1024];
	return decode(decoder, bytes, from_hex(bytes, hex), text, room);
}

/* ---- RFC 7541, appendix C ---- */

typedef struct example {
	const char *name, *hex, *fields;
	uint32_t count, used; /* of the table afterwards */
} example;

#define REQUEST_1 ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n"
#define REQUEST_2 REQUEST_1 "cache-control: no-cache\n"
#define REQUEST_3                                                                                     \
	":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: " \
	"custom-value\n"
#define ANSWER(status, second)                                                              \
	":status: " status "\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:" second \
	" GMT\nlocation: https://www.example.com\n"
#define ANSWER_3                   \
	ANSWER("200", "22")        \
	"content-encoding: gzip\n" \
	"set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n"

static const example single[] = {
	{"C.2.1", "400a637573746f6d2d6b65790d637573746f6d2d686561646572", "custom-key: custom-header\n", 1,
	 55},
	{"C.2.2", "040c2f73616d706c652f70617468", ":path: /sample/path\n", 0, 0},
	{"C.2.3", "100870617373776f726406736563726574", "password: secret\n", 0, 0},
	{"C.2.4", "82", ":method: GET\n", 0, 0},
};

static const example requests[] = {
	{"C.3.1", "828684410f7777772e6578616d706c652e636f6d", REQUEST_1, 1, 57},
	{"C.3.2", "828684be58086e6f2d6361636865", REQUEST_2, 2, 110},
	{"C.3.3", "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565", REQUEST_3, 3, 164},
};

static const example coded_requests[] = {
	{"C.4.1", "828684418cf1e3c2e5f23a6ba0ab90f4ff", REQUEST_1, 1, 57},
	{"C.4.2", "828684be5886a8eb10649cbf", REQUEST_2, 2, 110},
	{"C.4.3", "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", REQUEST_3, 3, 164},
};

static const example answers[] = {
	{"C.5.1",
	 "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e17"
	 "68747470733a2f2f7777772e6578616d706c652e636f6d",
	 ANSWER("302", "21"), 4, 222},
	{"C.5.2", "4803333037c1c0bf", ANSWER("307", "21"), 4, 222},
	{"C.5.3",
	 "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d41"
	 "53444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b207665727369"
	 "6f6e3d31",
	 ANSWER_3, 3, 215},
};

static const example coded_answers[] = {
	{"C.6.1",
	 "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97"
	 "c8e9ae82ae43d3",
	 ANSWER("302", "21"), 4, 222},
	{"C.6.2", "4883640effc1c0bf", ANSWER("307", "21"), 4, 222},
	{"C.6.3",
	 "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd"
	 "5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
	 ANSWER_3, 3, 215},
};

static void check_examples(const example *at, size_t count, uint32_t limit, bool apart)
{
	char text[2048];
	weir_hpack_decoder decoder;
	weir_hpack_decoder_init(&decoder);
	weir_hpack_table_resize(&decoder, limit);
	for (size_t i = 0; i < count; i++) {
		if (decode_hex(&decoder, at[i].hex, text, sizeof(text)) != 0 ||
		    strcmp(text, at[i].fields) != 0 || decoder.count != at[i].count ||
		    decoder.used != at[i].used)
			fail_msg("%s: %u entries, %u bytes\n%s", at[i].name, decoder.count, decoder.used,
				 text);
		if (apart) {
			weir_hpack_decoder_fini(&decoder);
			weir_hpack_decoder_init(&decoder);
		}
	}
	weir_hpack_decoder_fini(&decoder);
}

#define CHECK_EXAMPLES(examples, limit, apart) \
	check_examples(examples, sizeof(examples) / sizeof(examples[0]), limit, apart)

static void the_examples_of_the_rfc(void **state)
{
	CHECK_EXAMPLES(single, WEIR_HPACK_TABLE_BYTES, true);
	CHECK_EXAMPLES(requests, WEIR_HPACK_TABLE_BYTES, false);
	CHECK_EXAMPLES(coded_requests, WEIR_HPACK_TABLE_BYTES, false);
	CHECK_EXAMPLES(answers, 256, false);
	CHECK_EXAMPLES(coded_answers, 256, false);
}

/* ---- what is malformed ---- */

static void malformed_blocks(void **state)
{
	static const struct {
		const char *what, *hex;
	} wrong[] = {
		{"index 0", "80"},
		{"an index beyond both tables", "be"},
		{"an index without its end", "ff"},
		{"an index that goes on for ever", "ffffffffffffffffffff"},
		{"an index that overflows", "ffffffffff0f"},
		{"a name of an index that is none", "7f00"},
		{"a literal without a name", "40"},
		{"a literal without a value", "400178"},
		{"a name that is too short", "40057878"},
		{"a value that is too short", "4001780578"},
		{"a length without its end", "40ff"},
		{"a length beyond anything", "400178ffffffff7f"},
		{"a table that is too large", "3fe21f"},
		{"a size behind a field", "8220"},
		{"a size without its end", "3f"},
		{"a code with the end of string", "00017884ffffffff"},
		{"padding of a whole byte", "000178821fff"},
		{"padding of zeros", "0001788118"},
		{"a code that is cut", "00017881fe"},
	};
	char text[1024];
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		weir_hpack_decoder decoder;
		weir_hpack_decoder_init(&decoder);
		if (decode_hex(&decoder, wrong[i].hex, text, sizeof(text)) != -EPROTO)
			fail_msg("%s is taken: %s", wrong[i].what, text);
		weir_hpack_decoder_fini(&decoder);
	}
}

static void sizes_of_the_table(void **state)
{
	char text[1024];
	weir_hpack_decoder decoder;
	weir_hpack_decoder_init(&decoder);
	assert_int_equal(decode_hex(&decoder, "4001780179be", text, sizeof(text)), 0);
	assert_string_equal(text, "x: y\nx: y\n");
	/* Two sizes: the first empties it. */
	assert_int_equal(decode_hex(&decoder, "203fe11f", text, sizeof(text)), 0);
	assert_int_equal(decoder.count, 0);
	assert_int_equal(decode_hex(&decoder, "be", text, sizeof(text)), -EPROTO);
	weir_hpack_decoder_fini(&decoder);
	/* A field that does not fit is a field all the same, and empties the table. */
	weir_hpack_decoder_init(&decoder);
	assert_int_equal(decode_hex(&decoder, "2240017801794001780179", text, sizeof(text)), 0);
	assert_string_equal(text, "x: y\nx: y\n");
	assert_int_equal(decoder.count, 0);
	weir_hpack_decoder_fini(&decoder);
}

/* The name of the oldest entry, which the new one drives out. */
static void names_of_entries_that_go(void **state)
{
	char text[1024];
	weir_hpack_decoder decoder;
	weir_hpack_decoder_init(&decoder);
	weir_hpack_table_resize(&decoder, 80);
	assert_int_equal(decode_hex(&decoder,
				    "400461626364016140046566676801627f00"
				    "0163",
				    text, sizeof(text)),
			 0);
	assert_string_equal(text, "abcd: a\nefgh: b\nabcd: c\n");
	assert_int_equal(decoder.count, 2);
	weir_hpack_decoder_fini(&decoder);
}

static void huffman_of_every_byte(void **state)
{
	for (unsigned byte = 0; byte < 256; byte++) {
		char text[5] = {'a', (char)byte, (char)byte, 'Z', (char)(byte ^ 0x55)};
		uint8_t coded[32], back[WEIR_HUFFMAN_MOST(32)];
		for (size_t length = 0; length <= sizeof(text); length++) {
			uint8_t *end = weir_huffman_encode(coded, text, length);
			assert_int_equal(end - coded, weir_huffman_length(text, length));
			assert_int_equal(weir_huffman_decode(back, coded, (size_t)(end - coded)), length);
			assert_memory_equal(back, text, length);
		}
	}
}

/* ---- without memory ---- */

static void without_memory(void **state)
{
	char text[1024];
	weir_hpack_decoder decoder;
	weir_hpack_decoder_init(&decoder);
	weir_mem_fail_after(1);
	assert_int_equal(decode_hex(&decoder, "4001780179", text, sizeof(text)), -ENOMEM);
	weir_mem_fail_after(0);
	assert_int_equal(decoder.count, 0);
	weir_hpack_decoder_fini(&decoder);
	/* Nothing is entered, and nothing is lost. */
	weir_hpack_encoder encoder;
	weir_hpack_encoder_init(&encoder);
	weir_hpack_decoder_init(&decoder);
	for (unsigned i = 0; i < 5; i++) {
		uint8_t bytes[64];
		weir_mem_fail_after(i == 1);
		uint8_t *end = weir_hpack_put(&encoder, bytes, (weir_span){"x", 1}, (weir_span){"y", 1});
		weir_mem_fail_after(0);
		assert_int_equal(decode(&decoder, bytes, (size_t)(end - bytes), text, sizeof(text)), 0);
		assert_string_equal(text, "x: y\n");
		assert_int_equal(decoder.count, encoder.table.count);
	}
	assert_int_equal(encoder.table.count, 1);
	weir_hpack_encoder_fini(&encoder);
	weir_hpack_decoder_fini(&decoder);
}

/* ---- against nghttp2 ---- */

#define FIELDS_MOST 24

typedef struct list {
	unsigned count;
	nghttp2_nv pairs[FIELDS_MOST];
	char bytes[FIELDS_MOST][700];
} list;

static uint64_t upto(weir_random *random, uint64_t most)
{
	return weir_random_below(random, most + 1);
}

/* Names and values that come again, and some that do not; now and then of all bytes, long, or empty. */
static void make_list(list *l, weir_random *random, bool capitals)
{
	static const char *const names[] = {
		"server", "date",       "x-id", "content-type",   "etag",
		"cookie", "set-cookie", "a",    "content-length", "x-a-longer-name-than-most-of-them-have"};
	l->count = 1 + (unsigned)upto(random, FIELDS_MOST - 1);
	for (unsigned i = 0; i < l->count; i++) {
		char *name = l->bytes[i];
		size_t name_length = (size_t)snprintf(name, 100, "%s", names[upto(random, 9)]);
		if (upto(random, 9) == 0)
			name[name_length++] = (char)('a' + upto(random, 25));
		for (size_t n = 0; capitals && n < name_length; n++)
			if (name[n] >= 'a' && upto(random, 3) == 0)
				name[n] = (char)(name[n] - 32);
		char *value = name + name_length;
		size_t length = upto(random, 3) == 0 ? upto(random, 40) : upto(random, 3);
		if (upto(random, 30) == 0)
			length = upto(random, 550);
		bool any = upto(random, 9) == 0;
		for (size_t n = 0; n < length; n++)
			value[n] = (char)(any ? upto(random, 255) : 'a' + upto(random, 2));
		l->pairs[i] = (nghttp2_nv){.name = (uint8_t *)name,
					   .namelen = name_length,
					   .value = (uint8_t *)value,
					   .valuelen = length,
					   .flags = upto(random, 20) == 0 ? NGHTTP2_NV_FLAG_NO_INDEX : 0};
	}
}

static void same_bytes(uint64_t seed, const void *a, size_t a_length, const void *b, size_t b_length)
{
	if (a_length != b_length || (a_length > 0 && memcmp(a, b, a_length) != 0))
		fail_msg("seed %llu: %.*s is not %.*s", (unsigned long long)seed, (int)a_length,
			 (const char *)a, (int)b_length, (const char *)b);
}

static void check_decoded(uint64_t seed, weir_hpack_decoder *decoder, const list *l, const uint8_t *bytes,
			  size_t length)
{
	uint8_t *copy = malloc(length), *scratch = malloc(weir_hpack_scratch(length));
	memcpy(copy, bytes, length);
	weir_hpack_block block = {.at = copy, .end = copy + length, .scratch = scratch};
	weir_hpack_field field;
	for (unsigned i = 0; i < l->count; i++) {
		if (weir_hpack_next(decoder, &block, &field) != 1)
			fail_msg("seed %llu: field %u of %u", (unsigned long long)seed, i, l->count);
		same_bytes(seed, field.name.at, field.name.length, l->pairs[i].name, l->pairs[i].namelen);
		same_bytes(seed, field.value.at, field.value.length, l->pairs[i].value, l->pairs[i].valuelen);
	}
	assert_int_equal(weir_hpack_next(decoder, &block, &field), 0);
	free(scratch);
	free(copy);
}

static void decode_theirs(uint64_t seed)
{
	weir_random random;
	weir_random_init(&random, seed);
	nghttp2_hd_deflater *theirs;
	weir_hpack_decoder ours;
	static list l;
	static uint8_t bytes[65536];
	assert_int_equal(nghttp2_hd_deflate_new(&theirs, WEIR_HPACK_TABLE_BYTES), 0);
	weir_hpack_decoder_init(&ours);
	for (unsigned i = 0; i < 40; i++) {
		for (uint64_t n = upto(&random, 8); n > 6; n--)
			nghttp2_hd_deflate_change_table_size(theirs, upto(&random, WEIR_HPACK_TABLE_BYTES));
		make_list(&l, &random, false);
		ssize_t length = nghttp2_hd_deflate_hd(theirs, bytes, sizeof(bytes), l.pairs, l.count);
		assert_true(length > 0);
		check_decoded(seed, &ours, &l, bytes, (size_t)length);
		assert_int_equal(ours.used, nghttp2_hd_deflate_get_dynamic_table_size(theirs));
	}
	weir_hpack_decoder_fini(&ours);
	nghttp2_hd_deflate_del(theirs);
}

static void check_inflated(uint64_t seed, nghttp2_hd_inflater *theirs, const list *l, const uint8_t *at,
			   size_t length)
{
	unsigned i = 0;
	int flags = 0;
	while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
		nghttp2_nv pair;
		flags = 0;
		ssize_t used = nghttp2_hd_inflate_hd2(theirs, &pair, &flags, at, length, 1);
		if (used < 0)
			fail_msg("seed %llu: %s", (unsigned long long)seed, nghttp2_strerror((int)used));
		at += used;
		length -= (size_t)used;
		if (!(flags & NGHTTP2_HD_INFLATE_EMIT))
			continue;
		assert_true(i < l->count);
		char name[200];
		for (size_t n = 0; n < l->pairs[i].namelen; n++) {
			uint8_t c = l->pairs[i].name[n];
			name[n] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
		}
		same_bytes(seed, pair.name, pair.namelen, name, l->pairs[i].namelen);
		same_bytes(seed, pair.value, pair.valuelen, l->pairs[i].value, l->pairs[i].valuelen);
		if (strncmp(name, "set-cookie", l->pairs[i].namelen) == 0 && l->pairs[i].namelen == 10)
			assert_true(pair.flags & NGHTTP2_NV_FLAG_NO_INDEX);
		i++;
	}
	nghttp2_hd_inflate_end_headers(theirs);
	assert_int_equal(i, l->count);
}

static void encode_for_them(uint64_t seed)
{
	weir_random random;
	weir_random_init(&random, seed);
	nghttp2_hd_inflater *theirs;
	weir_hpack_encoder ours;
	static list l;
	static uint8_t bytes[65536];
	assert_int_equal(nghttp2_hd_inflate_new(&theirs), 0);
	weir_hpack_encoder_init(&ours);
	for (unsigned i = 0; i < 60; i++) {
		for (uint64_t n = upto(&random, 8); n > 6; n--) {
			uint32_t size = (uint32_t)upto(&random, 2 * WEIR_HPACK_TABLE_BYTES);
			weir_hpack_encoder_resize(&ours, size);
			nghttp2_hd_inflate_change_table_size(theirs, size);
		}
		make_list(&l, &random, true);
		uint8_t *end = weir_hpack_begin(&ours, bytes);
		assert_true(end - bytes <= WEIR_HPACK_BEGIN_MOST);
		for (unsigned n = 0; n < l.count; n++) {
			const nghttp2_nv *pair = &l.pairs[n];
			uint8_t *begin = end;
			end = weir_hpack_put(&ours, end, (weir_span){(char *)pair->name, pair->namelen},
					     (weir_span){(char *)pair->value, pair->valuelen});
			assert_true((size_t)(end - begin) <=
				    pair->namelen + pair->valuelen + WEIR_HPACK_FIELD_MOST);
		}
		check_inflated(seed, theirs, &l, bytes, (size_t)(end - bytes));
		assert_int_equal(ours.table.used, nghttp2_hd_inflate_get_dynamic_table_size(theirs));
	}
	weir_hpack_encoder_fini(&ours);
	nghttp2_hd_inflate_del(theirs);
}

static void random_blocks(void **state)
{
	for (uint64_t seed = 1; seed <= check_seeds(200, 5000); seed++) {
		decode_theirs(seed);
		encode_for_them(seed);
	}
}

/* Each status is a block of one field; a field that comes again is one byte from the third time on. */
static void what_is_sent(void **state)
{
	nghttp2_hd_inflater *theirs;
	weir_hpack_encoder ours;
	uint8_t bytes[256];
	assert_int_equal(nghttp2_hd_inflate_new(&theirs), 0);
	for (unsigned status = 100; status < 600; status++) {
		list l = {.count = 1};
		l.pairs[0] = (nghttp2_nv){.name = (uint8_t *)":status",
					  .namelen = 7,
					  .value = (uint8_t *)l.bytes[0],
					  .valuelen = 3};
		snprintf(l.bytes[0], 4, "%u", status);
		check_inflated(0, theirs, &l, bytes, (size_t)(weir_hpack_put_status(bytes, status) - bytes));
	}
	nghttp2_hd_inflate_del(theirs);
	weir_hpack_encoder_init(&ours);
	weir_span name = {"Server", 6}, value = {"weir", 4}, secret = {"Set-Cookie", 10};
	assert_true(weir_hpack_put(&ours, bytes, name, value) - bytes > 1);
	assert_true(weir_hpack_put(&ours, bytes, name, value) - bytes > 1);
	assert_int_equal(weir_hpack_put(&ours, bytes, name, value) - bytes, 1);
	for (unsigned i = 0; i < 4; i++)
		assert_true(weir_hpack_put(&ours, bytes, secret, value) - bytes > 1);
	assert_int_equal(ours.table.count, 1);
	weir_hpack_encoder_fini(&ours);
}

/*
 * The same head again and again: after a few times nearly all of its fields are one or two bytes, whatever
 * their hashes are.
 */
static void what_comes_again_is_entered(void **state)
{
	enum { COUNT = 10, SEEDS = 300 };
	unsigned bytes = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		weir_random random;
		weir_hpack_encoder encoder;
		uint8_t block[2048], *end = block;
		char values[COUNT][20];
		weir_random_init(&random, seed);
		weir_hpack_encoder_init(&encoder);
		for (unsigned i = 0; i < COUNT; i++)
			for (unsigned n = 0; n < sizeof(values[i]); n++)
				values[i][n] = (char)('a' + upto(&random, 25));
		for (unsigned times = 0; times < 10; times++) {
			end = block;
			for (unsigned i = 0; i < COUNT; i++)
				end = weir_hpack_put(&encoder, end, (weir_span){"X-Name", 6},
						     (weir_span){values[i], sizeof(values[i])});
		}
		bytes += (unsigned)(end - block);
		weir_hpack_encoder_fini(&encoder);
	}
	assert_in_range(bytes, COUNT * SEEDS, COUNT * SEEDS * 11 / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_examples_of_the_rfc),
		cmocka_unit_test(malformed_blocks),
		cmocka_unit_test(sizes_of_the_table),
		cmocka_unit_test(names_of_entries_that_go),
		cmocka_unit_test(huffman_of_every_byte),
		cmocka_unit_test(without_memory),
		cmocka_unit_test(random_blocks),
		cmocka_unit_test(what_is_sent),
		cmocka_unit_test(what_comes_again_is_entered),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
