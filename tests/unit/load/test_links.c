/* SPDX-License-Identifier: Apache-2.0 */
/* Links that pages have, and cookies that answers set. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "load/jar.h"
#include "load/links.h"

static weir_span span_of(const char *text)
{
	return (weir_span){text, strlen(text)};
}

/* ---- links ---- */

static void links_are_resolved_as_browsers_do(void **state)
{
	static const struct {
		const char *link, *target; /* NULL: not followed */
	} cases[] = {
		{"x", "/a/b/x"},
		{"./x", "/a/b/x"},
		{"../x", "/a/x"},
		{"../../x", "/x"},
		{"../../../x", "/x"},
		{"..", "/a/"},
		{".", "/a/b/"},
		{"/x/./y/../z", "/x/z"},
		{"/x/..", "/"},
		{"/x?a=../b", "/x?a=../b"},
		{"x#top", "/a/b/x"},
		{"?q=2", "/a/b/c?q=2"},
		{"x&amp;y&z", "/a/b/x&y&z"},
		{"http://Host:80/x", "/x"},
		{"http://host:80", "/"},
		{"http://host:80?x", "/?x"},
		{"//host:80/x", "/x"},
		{"/", "/"},
		{"http://host:8080/x", NULL},
		{"http://host:80.evil/x", NULL},
		{"https://host:80/x", NULL},
		{"//other/x", NULL},
		{"mailto:a@b", NULL},
		{"javascript:x()", NULL},
		{"data:text/plain,x", NULL},
		{"#top", NULL},
		{"", NULL},
		{"a b", NULL},
		{"a\r\nX: y", NULL},
		{"\xc3\xa4", NULL},
	};
	char target[LOAD_LINK_MAX + 1];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		bool fine = load_link_resolve(span_of(cases[i].link), WEIR_SPAN("/a/b/c?q=1/2"),
					      "http://host:80", target);
		if (fine != (cases[i].target != NULL) || (fine && strcmp(target, cases[i].target) != 0))
			fail_msg("'%s' is '%s'", cases[i].link, fine ? target : "not followed");
	}
	assert_true(load_link_resolve(WEIR_SPAN("/x"), WEIR_SPAN("/"), NULL, target));
	assert_false(load_link_resolve(WEIR_SPAN("//host/x"), WEIR_SPAN("/"), NULL, target));
	assert_false(load_link_resolve(WEIR_SPAN("http://host/x"), WEIR_SPAN("/"), "", target));
}

static void long_links_are_left_out(void **state)
{
	char link[2000], target[LOAD_LINK_MAX + 1], base[2000];
	memset(link, 'a', sizeof link);
	link[0] = '/';
	assert_true(load_link_resolve((weir_span){link, LOAD_LINK_MAX}, WEIR_SPAN("/"), NULL, target));
	assert_int_equal(strlen(target), LOAD_LINK_MAX);
	assert_false(load_link_resolve((weir_span){link, LOAD_LINK_MAX + 1}, WEIR_SPAN("/"), NULL, target));
	memset(base, 'b', sizeof base);
	base[0] = base[399] = '/';
	assert_false(load_link_resolve((weir_span){link + 1, 200}, (weir_span){base, 500}, NULL, target));
	assert_true(load_link_resolve((weir_span){link + 1, 112}, (weir_span){base, 500}, NULL, target));
	base[1800] = '/';
	assert_false(load_link_resolve((weir_span){link + 1, 1}, (weir_span){base, 1900}, NULL, target));
}

/* The links that are drawn from a page, in an order that does not matter, as "/a /b". */
static const char *links_of(const char *page)
{
	static char all[600];
	char *found[16];
	unsigned count = 0;
	weir_random random;
	weir_random_init(&random, 1);
	for (unsigned i = 0; i < 300; i++) {
		char target[LOAD_LINK_MAX + 1];
		bool known = false;
		if (!load_link_draw(span_of(page), WEIR_SPAN("/"), "http://h", &random, target))
			break;
		for (unsigned j = 0; j < count; j++)
			known = known || strcmp(found[j], target) == 0;
		if (known)
			continue;
		unsigned at = count++;
		for (; at > 0 && strcmp(found[at - 1], target) > 0; at--)
			found[at] = found[at - 1];
		found[at] = strdup(target);
	}
	all[0] = '\0';
	for (unsigned i = 0; i < count; i++) {
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i > 0 ? " " : "", found[i]);
		free(found[i]);
	}
	return all;
}

static void links_are_found_in_tags_only(void **state)
{
	assert_string_equal(links_of("<a href=\"/a\">x</a><IMG SRC='/b'><script src=/c></script>"),
			    "/a /b /c");
	assert_string_equal(links_of("<a class=x  href = \"/a\" id=y><link rel=s href=/b/>"), "/a /b/");
	assert_string_equal(links_of("href=\"/a\" <p>src='/b'</p>"), "");
	assert_string_equal(links_of("<!-- <a href='/a'> --><a href='/b'>"), "/b");
	assert_string_equal(links_of("<a title='>' href='/a'><a data-href='/b' xsrc=/c>"), "/a");
	assert_string_equal(links_of("<a href='/a' src='/b' href='http://h/c' href='http://i/d'>"),
			    "/a /b /c");
	assert_string_equal(links_of("<a href='/'>itself"), "");
	static const char *const cut[] = {
		"<", "<a",         "<a href", "<a href=", "<a href=\"/a", "<a href= ", "<!-- <a href=/a>",
		"",  "<a href='/a"};
	for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
		assert_string_equal(links_of(cut[i]), "");
}

static void each_link_has_the_same_chance(void **state)
{
	unsigned seen[4] = {0};
	weir_random random;
	weir_random_init(&random, 2);
	for (unsigned i = 0; i < 40000; i++) {
		char target[LOAD_LINK_MAX + 1];
		assert_true(
			load_link_draw(WEIR_SPAN("<a href=/0><a href=/1><a href=//x/><a href=/2><a href=/3>"),
				       WEIR_SPAN("/"), NULL, &random, target));
		seen[target[1] - '0']++;
	}
	for (unsigned i = 0; i < 4; i++)
		assert_true(seen[i] > 10000 - 4 * 87 && seen[i] < 10000 + 4 * 87);
}

static void a_page_is_looked_at_so_far(void **state)
{
	size_t size = LOAD_LINKS_BYTES + 100;
	char *page = malloc(size), target[LOAD_LINK_MAX + 1];
	weir_random random;
	weir_random_init(&random, 1);
	memset(page, 'x', size);
	memcpy(page + LOAD_LINKS_BYTES, "<a href='/a'>", 13);
	assert_false(load_link_draw((weir_span){page, size}, WEIR_SPAN("/"), NULL, &random, target));
	memcpy(page + LOAD_LINKS_BYTES - 13, "<a href='/a'>", 13);
	assert_true(load_link_draw((weir_span){page, size}, WEIR_SPAN("/"), NULL, &random, target));
	/* 1000 links that lead elsewhere, and then one that does not. */
	memset(page, ' ', size);
	for (unsigned i = 0; i <= LOAD_LINKS_MAX; i++)
		memcpy(page + i * 16, i < LOAD_LINKS_MAX ? "<a href='x:y'>" : "<a href='/aa'>", 14);
	assert_false(load_link_draw((weir_span){page, size}, WEIR_SPAN("/"), NULL, &random, target));
	memcpy(page, "<a href='/aa'>", 14);
	assert_true(load_link_draw((weir_span){page, size}, WEIR_SPAN("/"), NULL, &random, target));
	free(page);
}

/* ---- cookies ---- */

static void jar_is(load_jar *jar, const char *set, const char *expected)
{
	load_jar_set(jar, span_of(set));
	if (jar->length != strlen(expected) ||
	    memcmp(jar->text != NULL ? jar->text : "", expected, jar->length) != 0)
		fail_msg("after '%s': '%.*s', not '%s'", set, (int)jar->length, jar->text, expected);
}

static void cookies_are_kept_replaced_and_deleted(void **state)
{
	load_jar jar = {NULL, 0, 0};
	jar_is(&jar, "a=1; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "a=1");
	jar_is(&jar, "b = 2 ;Max-Age=10", "a=1; b=2");
	jar_is(&jar, "c=", "a=1; b=2; c=");
	jar_is(&jar, "b=x=y", "a=1; c=; b=x=y");
	jar_is(&jar, "aa=5", "a=1; c=; b=x=y; aa=5");
	jar_is(&jar, "c=1; max-age = -5", "a=1; b=x=y; aa=5");
	jar_is(&jar, "aa=1; Secure; Max-Age=00", "a=1; b=x=y");
	jar_is(&jar, "a=1; Max-Age=0", "b=x=y");
	jar_is(&jar, "zz=1; Max-Age=0", "b=x=y");
	jar_is(&jar, "b=1; Max-Age=0", "");
	jar_is(&jar, "d=4; Max-Age=", "d=4");
	load_jar_fini(&jar);
}

static void what_is_no_cookie_is_not_kept(void **state)
{
	static const char *const wrong[] = {"",      "a",      "=1",          ";a=1", "a b=1",
					    "a=1 2", "a=\x01", "a\r\nX: 1=2", " =1",  "\x7f=1"};
	load_jar jar = {NULL, 0, 0};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		jar_is(&jar, wrong[i], "");
	jar_is(&jar, "a=\"x\"", "a=\"x\"");
	load_jar_fini(&jar);
}

static void a_jar_has_bounds(void **state)
{
	load_jar jar = {NULL, 0, 0};
	char cookie[6000];
	for (unsigned i = 0; i < LOAD_COOKIES + 5; i++) {
		snprintf(cookie, sizeof cookie, "n%u=%u", i, i);
		load_jar_set(&jar, span_of(cookie));
	}
	unsigned count = 1;
	for (uint32_t i = 0; i < jar.length; i++)
		count += jar.text[i] == ';';
	assert_int_equal(count, LOAD_COOKIES);
	load_jar_fini(&jar);
	memset(cookie, 'v', sizeof cookie);
	memcpy(cookie, "a=", 2);
	load_jar_set(&jar, (weir_span){cookie, 5000});
	assert_int_equal(jar.length, 0);
	load_jar_set(&jar, (weir_span){cookie, 3000});
	assert_int_equal(jar.length, 3000);
	cookie[0] = 'b';
	load_jar_set(&jar, (weir_span){cookie, 3000});
	assert_int_equal(jar.length, 3000);
	assert_true(jar.room <= LOAD_JAR_MAX);
	load_jar_fini(&jar);
	weir_mem_fail_after(1);
	jar_is(&jar, "a=1", "");
	weir_mem_fail_after(0);
	jar_is(&jar, "a=1", "a=1");
	load_jar_fini(&jar);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(links_are_resolved_as_browsers_do),
		CHECK_TEST(long_links_are_left_out),
		CHECK_TEST(links_are_found_in_tags_only),
		CHECK_TEST(each_link_has_the_same_chance),
		CHECK_TEST(a_page_is_looked_at_so_far),
		CHECK_TEST(cookies_are_kept_replaced_and_deleted),
		CHECK_TEST(what_is_no_cookie_is_not_kept),
		CHECK_TEST(a_jar_has_bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
