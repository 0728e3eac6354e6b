/* SPDX-License-Identifier: Apache-2.0 */
/* Percent decoding and forms: what comes out, what is refused, and where. */
#include "on_request.h"

#include <errno.h>
#include <stdio.h>
#include <weir/form.h>

/* ---- decoding ---- */

static void expect_decoded(const char *text, unsigned flags, const char *wanted, size_t wanted_length)
{
	char to[64];
	size_t length = 99;
	assert_int_equal(weir_percent_decode((weir_span){text, strlen(text)}, flags, to, sizeof(to), &length),
			 0);
	assert_int_equal(length, wanted_length);
	assert_memory_equal(to, wanted, wanted_length + 1);
}

static void decodes(void **state)
{
	expect_decoded("", 0, "", 0);
	expect_decoded("abc", 0, "abc", 3);
	expect_decoded("%41%42%7a", 0, "ABz", 3);
	expect_decoded("%c3%A9", 0, "\xc3\xa9", 2);
	expect_decoded("a+b", 0, "a+b", 3);
	expect_decoded("a+b%2B", WEIR_DECODE_PLUS, "a b+", 4);
	/* Once: what comes out is not decoded again. */
	expect_decoded("%2541", 0, "%41", 3);
	expect_decoded("%252", 0, "%2", 2);
	expect_decoded("a%00b", WEIR_DECODE_NUL, "a\0b", 3);
	expect_decoded("100%", WEIR_DECODE_LENIENT, "100%", 4);
	expect_decoded("%%41%4", WEIR_DECODE_LENIENT, "%A%4", 4);
	expect_decoded("%zz%4g", WEIR_DECODE_LENIENT, "%zz%4g", 6);
}

static void refuses_bad_escapes_and_nuls(void **state)
{
	static const struct {
		const char *text;
		size_t length;
		unsigned flags;
	} bad[] = {{"%", 1, 0},
		   {"%4", 2, 0},
		   {"a%4g", 4, 0},
		   {"%g4", 3, 0},
		   {"%%41", 4, 0},
		   {"%00", 3, 0},
		   {"a\0b", 3, 0},
		   {"%00", 3, WEIR_DECODE_LENIENT},
		   {"%-1", 3, 0},
		   {"% 1", 3, 0},
		   {"%+1", 3, WEIR_DECODE_PLUS},
		   {"%4", 2, WEIR_DECODE_NUL}};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char to[16];
		size_t length = 99;
		assert_int_equal(weir_percent_decode((weir_span){bad[i].text, bad[i].length}, bad[i].flags,
						     to, sizeof(to), &length),
				 -EILSEQ);
		assert_int_equal(length, 99);
	}
}

static void needs_room_for_all_and_a_nul(void **state)
{
	char to[4] = "....";
	size_t length = 99;
	weir_span text = WEIR_SPAN("%41%42%43");
	for (size_t size = 0; size < 4; size++)
		assert_int_equal(weir_percent_decode(text, 0, to, size, &length), -ENOBUFS);
	assert_int_equal(length, 99);
	assert_int_equal(weir_percent_decode(text, 0, to, 4, &length), 0);
	assert_string_equal(to, "ABC");
	/* Where it is. */
	char place[] = "%41b%43%64";
	assert_int_equal(
		weir_percent_decode((weir_span){place, strlen(place)}, 0, place, sizeof(place), &length), 0);
	assert_int_equal(length, 4);
	assert_string_equal(place, "AbCd");
}

/* ---- forms ---- */

/* The pairs as "name=value|", so that a row says them all. */
static int read_form(weir_form_reader *form, char *ret_text, size_t size)
{
	weir_field pair;
	int result;
	size_t at = 0;
	ret_text[0] = '\0';
	while ((result = weir_form_next(form, &pair)) > 0) {
		/* Each has its NUL. */
		assert_int_equal(pair.name.at[pair.name.length], '\0');
		assert_int_equal(pair.value.at[pair.value.length], '\0');
		at += (size_t)snprintf(ret_text + at, size - at, "%s=%s|", pair.name.at, pair.value.at);
	}
	return result;
}

static void expect_pairs(const char *text, const char *pairs)
{
	char elsewhere[128], place[128], found[256];
	weir_form_reader form;
	weir_span span = {text, strlen(text)};
	assert_int_equal(weir_form_begin(&form, span, 0, elsewhere, span.length), -ENOBUFS);
	assert_int_equal(weir_form_begin(&form, span, 0, elsewhere, span.length + 1), 0);
	assert_int_equal(read_form(&form, found, sizeof(found)), 0);
	assert_string_equal(found, pairs);
	/* The same where it is, with one byte behind it. */
	memcpy(place, text, span.length);
	assert_int_equal(weir_form_begin(&form, (weir_span){place, span.length}, 0, place, span.length + 1),
			 0);
	assert_int_equal(read_form(&form, found, sizeof(found)), 0);
	assert_string_equal(found, pairs);
	assert_int_equal(weir_form_next(&form, &(weir_field){0}), 0);
}

static void reads_pairs(void **state)
{
	expect_pairs("", "");
	expect_pairs("a=1", "a=1|");
	expect_pairs("a=1&b=2", "a=1|b=2|");
	expect_pairs("a=1&b=2&", "a=1|b=2|");
	expect_pairs("&&a=1&&", "a=1|");
	expect_pairs("a", "a=|");
	expect_pairs("a&b&c", "a=|b=|c=|");
	expect_pairs("=", "=|");
	expect_pairs("=1&=2", "=1|=2|");
	expect_pairs("a==1=2", "a==1=2|");
	expect_pairs("a+b=c+d%2B", "a b=c d+|");
	expect_pairs("%61%3d=%26%3D", "a==&=|");
	expect_pairs("a=1;b=2", "a=1;b=2|");
	expect_pairs("user=J%C3%B6rg&text=1%0D%0A2", "user=J\xc3\xb6rg|text=1\r\n2|");
}

static void stops_at_what_is_wrong(void **state)
{
	static const char *const wrong[] = {"a=1&b=%", "a=1&b=%4", "a=1&%zz=1", "a=1&b=%00", "a=1&b=%00&c=3"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char to[64];
		weir_form_reader form;
		weir_field pair = {.name = WEIR_SPAN("untouched")};
		weir_span values[1];
		assert_int_equal(
			weir_form_begin(&form, (weir_span){wrong[i], strlen(wrong[i])}, 0, to, sizeof(to)),
			0);
		assert_int_equal(weir_form_next(&form, &pair), 1);
		weir_field before = pair;
		assert_int_equal(weir_form_next(&form, &pair), -EILSEQ);
		assert_memory_equal(&before, &pair, sizeof(pair));
		/* It is not read on. */
		assert_int_equal(weir_form_next(&form, &pair), 0);
		assert_int_equal(
			weir_form_begin(&form, (weir_span){wrong[i], strlen(wrong[i])}, 0, to, sizeof(to)),
			0);
		assert_int_equal(weir_form_read(&form, &WEIR_SPAN("a"), 1, values), -EILSEQ);
		assert_null(values[0].at);
	}
}

static void bounds_its_pairs(void **state)
{
	static char text[2 * (WEIR_FORM_PAIRS_MAX + 1)], to[sizeof(text) + 1];
	weir_form_reader form;
	weir_field pair;
	for (size_t i = 0; i < sizeof(text); i += 2)
		memcpy(text + i, "a&", 2);
	assert_int_equal(weir_form_begin(&form, (weir_span){text, sizeof(text)}, 0, to, sizeof(to)), 0);
	for (unsigned i = 0; i < WEIR_FORM_PAIRS_MAX; i++)
		assert_int_equal(weir_form_next(&form, &pair), 1);
	assert_int_equal(weir_form_next(&form, &pair), -E2BIG);
	/* As many as it may have. */
	assert_int_equal(weir_form_begin(&form, (weir_span){text, sizeof(text) - 2}, 0, to, sizeof(to)), 0);
	assert_int_equal(weir_form_read(&form, NULL, 0, NULL), 0);
}

static void finds_values_by_name(void **state)
{
	static const weir_span names[] = {{"user", 4}, {"password", 8}, {"none", 4}, {"flag", 4}};
	weir_span text = WEIR_SPAN("password=a%26b&user=anna&user=eve&flag&Password=x"), values[4];
	char to[64];
	weir_form_reader form;
	assert_int_equal(weir_form_begin(&form, text, 0, to, sizeof(to)), 0);
	assert_int_equal(weir_form_read(&form, names, 4, values), 0);
	assert_string_equal(values[0].at, "anna");
	assert_string_equal(values[1].at, "a&b");
	assert_null(values[2].at);
	assert_true(values[3].at != NULL && values[3].length == 0);
}

/* ---- of requests ---- */

static void reads_a_query(void **state)
{
	bare_request bare;
	char found[128];
	weir_form_reader form;
	weir_span path;
	weir_request *request = bare_open(&bare);
	assert_int_equal(weir_request_query_form(request, 0, &form), 0);
	assert_int_equal(read_form(&form, found, sizeof(found)), 0);
	assert_string_equal(found, "");
	bare_query(&bare, "q=a%20b&n=1");
	assert_int_equal(weir_request_query_form(request, 0, &form), 0);
	assert_int_equal(read_form(&form, found, sizeof(found)), 0);
	assert_string_equal(found, "q=a b|n=1|");
	/* The request still has its query as it came. */
	assert_memory_equal(weir_request_query(request).at, "q=a%20b&n=1", 11);
	assert_int_equal(weir_request_decode(request, WEIR_SPAN("/a%2fb"), 0, &path), 0);
	assert_string_equal(path.at, "/a/b");
	assert_int_equal(weir_request_decode(request, WEIR_SPAN("/%"), 0, &path), -EILSEQ);
	bare_close(&bare);
}

static void expect_type(const char *type, int error)
{
	bare_request bare;
	weir_form_reader form;
	weir_request *request = bare_open(&bare);
	bare_body(&bare, type, "a=1");
	assert_int_equal(weir_request_form(request, 0, &form), error);
	bare_close(&bare);
}

static void reads_a_body_of_the_right_type(void **state)
{
	bare_request bare;
	char found[128];
	weir_form_reader form;
	expect_type("application/x-www-form-urlencoded", 0);
	expect_type("Application/X-WWW-Form-URLencoded; charset=utf-8", 0);
	expect_type("application/x-www-form-urlencoded ;x", 0);
	expect_type("application/x-www-form-urlencodedx", -EMEDIUMTYPE);
	expect_type("multipart/form-data", -EMEDIUMTYPE);
	expect_type("", -EMEDIUMTYPE);
	weir_request *request = bare_open(&bare);
	assert_int_equal(weir_request_form(request, 0, &form), -EMEDIUMTYPE);
	bare_body(&bare, "application/x-www-form-urlencoded", "to=a%40b.org&text=1+2");
	assert_int_equal(weir_request_form(request, 0, &form), 0);
	assert_int_equal(read_form(&form, found, sizeof(found)), 0);
	assert_string_equal(found, "to=a@b.org|text=1 2|");
	/* Twice: the body is as it came. */
	assert_int_equal(weir_request_form(request, 0, &form), 0);
	assert_int_equal(read_form(&form, found, sizeof(found)), 0);
	assert_string_equal(found, "to=a@b.org|text=1 2|");
	/* A body that nobody has collected is no empty form. */
	weir_buf_unref(bare.request.collected);
	bare.request.collected = NULL;
	assert_int_equal(weir_request_form(request, 0, &form), -ENODATA);
	check_contains(weir_error(), "bare");
	bare.route.collect_bytes = 100;
	bare.request.head.framing = WEIR_BODY_NONE;
	assert_int_equal(weir_request_form(request, 0, &form), 0);
	assert_int_equal(weir_form_next(&form, &(weir_field){0}), 0);
	bare_close(&bare);
}

/* ---- memory ---- */

static void survives_without_memory(void **state)
{
	bare_request bare;
	weir_form_reader form;
	weir_span text;
	static char large[3000];
	weir_request *request = bare_open(&bare);
	memset(large, 'a', sizeof(large));
	weir_mem_fail_after(1);
	assert_int_equal(weir_request_decode(request, (weir_span){large, sizeof(large)}, 0, &text), -ENOMEM);
	weir_mem_fail_after(0);
	assert_int_equal(weir_request_decode(request, (weir_span){large, sizeof(large)}, 0, &text), 0);
	bare_query(&bare, "a=1");
	bare.request.arena = bare.request.arena_end;
	weir_mem_fail_after(1);
	assert_int_equal(weir_request_query_form(request, 0, &form), -ENOMEM);
	weir_mem_fail_after(0);
	bare_close(&bare);
}

/* What weir_request_alloc promises: all of it in one piece or in many, and no more. */
static void a_request_has_a_megabyte(void **state)
{
	bare_request bare;
	weir_request *request = bare_open(&bare);
	assert_null(weir_request_alloc(request, WEIR_REQUEST_ALLOC_MAX + 1));
	assert_null(weir_request_alloc(request, SIZE_MAX));
	char *all = weir_request_alloc(request, WEIR_REQUEST_ALLOC_MAX);
	assert_non_null(all);
	memset(all, 1, WEIR_REQUEST_ALLOC_MAX);
	assert_null(weir_request_alloc(request, WEIR_REQUEST_ARENA + 1));
	bare_close(&bare);

	bare_open(&bare);
	size_t given = 0;
	for (char *piece; (piece = weir_request_alloc(request, 100)) != NULL; given += 100) {
		assert_int_equal((uintptr_t)piece % 16, 0);
		memset(piece, 1, 100);
		assert_true(given < 2 * WEIR_REQUEST_ALLOC_MAX);
	}
	/* Rounding takes 12 of 112 bytes, and the end of a block less than a piece. */
	assert_in_range(given, WEIR_REQUEST_ALLOC_MAX * 8 / 10,
			WEIR_REQUEST_ALLOC_MAX + 2 * WEIR_REQUEST_ARENA);
	bare_close(&bare);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(decodes),
		CHECK_TEST(refuses_bad_escapes_and_nuls),
		CHECK_TEST(needs_room_for_all_and_a_nul),
		CHECK_TEST(reads_pairs),
		CHECK_TEST(stops_at_what_is_wrong),
		CHECK_TEST(bounds_its_pairs),
		CHECK_TEST(finds_values_by_name),
		CHECK_TEST(reads_a_query),
		CHECK_TEST(reads_a_body_of_the_right_type),
		CHECK_TEST(survives_without_memory),
		CHECK_TEST(a_request_has_a_megabyte),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
