/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <string.h>

#include "http/head.h"

static weir_span span(const char *text)
{
	return (weir_span){text, strlen(text)};
}

/* If this fails after a name was added: put it where it belongs in the table of fields.c; if two have one place, find other factors. */
static void test_known_names(void **state)
{
	const char *taken[256] = {NULL};
	for (unsigned id = 1; id < WEIR_FIELD_COUNT; id++) {
		weir_span name = weir_field_name(id);
		unsigned place = weir_field_place(name.at, name.length);
		assert_true(name.length >= 1 && name.length <= WEIR_FIELD_LONGEST);
		if (taken[place] != NULL)
			fail_msg("'%s' and '%s' have both the place %u", name.at, taken[place], place);
		taken[place] = name.at;
		if (weir_field_find(name) != id)
			fail_msg("'%s' belongs to the place %u", name.at, place);
	}
}

static void test_any_case(void **state)
{
	for (unsigned id = 1; id < WEIR_FIELD_COUNT; id++) {
		weir_span name = weir_field_name(id);
		char text[32];
		for (unsigned bits = 0; bits < 64; bits++) {
			for (size_t i = 0; i < name.length; i++) {
				bool letter = name.at[i] >= 'a' && name.at[i] <= 'z';
				text[i] = (char)(letter && bits >> i % 6 & 1 ? name.at[i] - 32 : name.at[i]);
			}
			assert_int_equal(weir_field_find((weir_span){text, name.length}), id);
		}
	}
}

static void test_neighbours_are_others(void **state)
{
	for (unsigned id = 1; id < WEIR_FIELD_COUNT; id++) {
		weir_span name = weir_field_name(id);
		char text[32];
		memcpy(text, name.at, name.length);
		/* One byte different. 0x20 more or less in a letter is the same name. */
		for (size_t i = 0; i < name.length; i++)
			for (unsigned byte = '!'; byte < 256; byte++) {
				bool letter = name.at[i] >= 'a' && name.at[i] <= 'z';
				bool same =
					(char)byte == name.at[i] || (letter && (char)byte == name.at[i] - 32);
				text[i] = (char)byte;
				weir_field_id found = weir_field_find((weir_span){text, name.length});
				text[i] = name.at[i];
				if (same ? found != id : found == id)
					fail_msg("'%s' with 0x%02x at %zu", name.at, byte, i);
			}
		/* One byte more or less. */
		text[name.length] = 'x';
		assert_int_not_equal(weir_field_find((weir_span){text, name.length + 1}), id);
		assert_int_not_equal(weir_field_find((weir_span){text, name.length - 1}), id);
	}
	assert_int_equal(weir_field_find(span("")), WEIR_FIELD_OTHER);
	assert_int_equal(weir_field_find(span("a-name-that-is-much-longer-than-any-known")),
			 WEIR_FIELD_OTHER);
}

static void test_span_is(void **state)
{
	assert_true(weir_span_is(span("aBc-1"), span("AbC-1")));
	assert_true(weir_span_is(span(""), span("")));
	assert_false(weir_span_is(span("a"), span("")));
	assert_false(weir_span_is(span("a"), span("ab")));
	assert_false(weir_span_is(span("@"), span("`")));
	assert_false(weir_span_is(span("["), span("{")));
	assert_false(weir_span_is(span("\r"), span("-")));
	assert_false(weir_span_is(span("\xc0"), span("\xe0")));
}

static void expect_list(const char *text, const char *want)
{
	char got[200] = "";
	weir_span list = span(text), element = {"untouched", 9};
	while (weir_list_next(&list, &element)) {
		assert_true(element.at >= text && element.at + element.length <= text + strlen(text));
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "<%.*s>", (int)element.length,
			 element.at);
	}
	assert_int_equal(list.length, 0);
	weir_span last = element;
	assert_false(weir_list_next(&list, &element));
	assert_ptr_equal(element.at, last.at);
	if (strcmp(got, want) != 0)
		fail_msg("'%s' gives %s instead of %s", text, got, want);
}

static void test_lists(void **state)
{
	expect_list("", "");
	expect_list(" \t", "");
	expect_list(",", "");
	expect_list(" , ,, \t,", "");
	expect_list("a", "<a>");
	expect_list("a,b", "<a><b>");
	expect_list(" a , b\t,\tc ", "<a><b><c>");
	expect_list(",a,,b,", "<a><b>");
	expect_list("a b,c", "<a b><c>");
	expect_list("a;q=0.5, b;q=1", "<a;q=0.5><b;q=1>");
	expect_list("\"a,b\",c", "<\"a,b\"><c>");
	expect_list("x=\"a\\\",b\", c", "<x=\"a\\\",b\"><c>");
	expect_list("\"a\\\\\",b", "<\"a\\\\\"><b>");
	expect_list("a\\,b", "<a\\><b>");
	/* A string that never ends takes all. */
	expect_list("\"a,b", "<\"a,b>");
	expect_list("\"a\\", "<\"a\\>");
	expect_list("W/\"x,y\" , \"z\"", "<W/\"x,y\"><\"z\">");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_names),
		cmocka_unit_test(test_any_case),
		cmocka_unit_test(test_neighbours_are_others),
		cmocka_unit_test(test_span_is),
		cmocka_unit_test(test_lists),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
