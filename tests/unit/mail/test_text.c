/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of strangers. */
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

#include <weir/random.h>

#include <mail/text.h>

static weir_span span_of(const char *text)
{
	return (weir_span){text, strlen(text)};
}

static void cleans(void **state)
{
	static const struct {
		const char *from, *to;
	} cases[] = {
		{"plain", "plain"},
		{"a\tb\r\nc\x7f", "a b  c "},
		{"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
		{"\xff", "\xef\xbf\xbd"},
		{"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
	};
	char to[50];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(text_clean(span_of(cases[i].from), to, sizeof(to)), strlen(cases[i].to));
		assert_string_equal(to, cases[i].to);
	}
	/* No character is cut in two. */
	assert_int_equal(text_clean(span_of("ab\xe2\x82\xac"), to, 5), 2);
	assert_int_equal(text_clean(span_of("ab\xe2\x82\xac"), to, 6), 5);
	assert_int_equal(text_clean((weir_span){"a\0b", 3}, to, 6), 3);
	assert_string_equal(to, "a b");
}

static void folds(void **state)
{
	char to[50];
	text_fold(span_of("\"\xc3\x84RGER, \xce\x91\xce\x92\" <X@Y>"), to, sizeof(to));
	assert_string_equal(to, "\xc3\xa4rger, \xce\xb1\xce\xb2\" <x@y>");
	assert_int_equal(text_fold(span_of("\"\" '"), to, sizeof(to)), 0);
}

static void excerpts(void **state)
{
	char to[41], text[2000] = "";
	for (unsigned i = 0; i < 100; i++) {
		size_t length = strlen(text);
		snprintf(text + length, sizeof(text) - length, "%s",
			 i == 70 ? "the K\xc3\x84SE is here " : "lorem ipsum ");
	}
	assert_true(text_excerpt(span_of(text), "k\xc3\xa4se", to, sizeof(to)));
	assert_non_null(strstr(to, "K\xc3\x84SE"));
	assert_false(text_excerpt(span_of(text), "\xc3\xa4se", to, sizeof(to)));
	assert_true(text_excerpt(span_of(text), "lor", to, sizeof(to)));
	assert_false(text_excerpt(span_of(""), "x", to, sizeof(to)));
	assert_true(text_excerpt(span_of("x"), "x", to, sizeof(to)));
}

static void finds_words(void **state)
{
	weir_span rest = span_of(" -one, two;\xc3\xa4=3 ");
	static const char *const expected[] = {"one", "two", "\xc3\xa4", "3", ""};
	for (size_t i = 0; i < 5; i++) {
		weir_span word = text_word(&rest);
		assert_int_equal(word.length, strlen(expected[i]));
		assert_memory_equal(word.at, expected[i], word.length);
	}
}

/* Whatever comes in, valid UTF-8 comes out: cleaning it again changes nothing. */
static void cleans_noise(void **state)
{
	weir_random random;
	weir_random_init(&random, 1);
	for (unsigned i = 0; i < 20000; i++) {
		size_t length = weir_random_below(&random, 12), size = 1 + weir_random_below(&random, 30);
		char *noise = malloc(length + 1), *once = malloc(size), *twice = malloc(size), excerpt[8];
		for (size_t k = 0; k < length; k++)
			noise[k] =
				(char)(weir_random_below(&random, 3) == 0 ? weir_random_u64(&random)
									  : 0x80 | weir_random_u64(&random));
		size_t clean = text_clean((weir_span){noise, length}, once, size);
		assert_int_equal(text_clean((weir_span){once, clean}, twice, size), clean);
		assert_memory_equal(once, twice, clean);
		text_fold((weir_span){noise, length}, twice, size);
		text_excerpt((weir_span){noise, length}, "\xef\xbf\xbd", excerpt, sizeof(excerpt));
		free(noise);
		free(once);
		free(twice);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cleans),      cmocka_unit_test(folds),        cmocka_unit_test(excerpts),
		cmocka_unit_test(finds_words), cmocka_unit_test(cleans_noise),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
