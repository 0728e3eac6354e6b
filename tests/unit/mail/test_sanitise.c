/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"
#include "support/harmless.h"

#include <errno.h>
#include <mail/sanitise.h>
#include <mail/sanitise_rules.h>
#include <stdlib.h>
#include <string.h>

static bool find(void *arg, const char *content_id, char *ret_url, size_t size)
{
	if (strcmp(content_id, "picture@example.org") != 0)
		return false;
	snprintf(ret_url, size, "/part/1");
	return true;
}

static sanitise_result sanitised(const char *html, bool remote)
{
	sanitise_options options = {.remote = remote, .find = find};
	sanitise_result result;
	assert_int_equal(sanitise_html(html, strlen(html), &options, &result), 0);
	const char *harmful = harmful_at(result.html, remote);
	if (harmful != NULL)
		fail_msg("harmful: %.100s\nfrom: %.300s\nas: %.300s", harmful, html, result.html);
	return result;
}

/* ---- what stays ---- */

typedef struct sanitise_case {
	const char *html, *result;
} sanitise_case;

static void check_cases(const sanitise_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		sanitise_result result = sanitised(cases[i].html, false);
		assert_string_equal(result.html, cases[i].result);
		free(result.html);
	}
}

static void test_text_and_structure_stay(void **state)
{
	static const sanitise_case cases[] = {
		{"", ""},
		{"plain", "plain"},
		{"a &lt;b&gt; &amp; \"c\"", "a &lt;b&gt; &amp; &quot;c&quot;"},
		{"<p>one<p>two", "<p>one</p><p>two</p>"},
		{"<b>bold<i>both</b>italic</i>", "<b>bold<i>both</i></b><i>italic</i>"},
		{"<h1 title='x\"y'>t</h1>", "<h1 title=\"x&quot;y\">t</h1>"},
		{"<ul><li>a<li>b</ul>", "<ul><li>a</li><li>b</li></ul>"},
		{"<table><tr><td colspan=2>x</table>",
		 "<table><tbody><tr><td colspan=\"2\">x</td></tr></tbody></table>"},
		{"<img alt=sun width=3>", "<img alt=\"sun\" width=\"3\">"},
		{"<o:p>office</o:p>", "office"},
		{"<form action=/x>inside</form>", "inside"},
		{"<html><head><title>t</title></head><body bgcolor=red>b</body></html>", "b"},
		{"<FONT COLOR=red>x</FONT>", "<font color=\"red\">x</font>"},
		{"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
	};
	check_cases(cases, sizeof(cases) / sizeof(*cases));
}

static void test_links(void **state)
{
	static const char more[] = " target=\"_blank\" rel=\"noopener noreferrer nofollow\"";
	static const char *const good[] = {"http://example.org/", "HTTPS://example.org/?a=b",
					   "mailto:a@example.org", "tel:+123"};
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		char html[200], expected[300];
		snprintf(html, sizeof(html), "<a href='%s'>x</a>", good[i]);
		snprintf(expected, sizeof(expected), "<a href=\"%s\"%s>x</a>", good[i], more);
		check_cases(&(sanitise_case){html, expected}, 1);
	}
	static const char *const bad[] = {
		"javascript:alert(1)",
		" javascript:alert(1)",
		"java\nscript:alert(1)",
		"java&#x09;script:alert(1)",
		"&#106;avascript:alert(1)",
		"JaVaScRiPt:alert(1)",
		"\x01javascript:alert(1)",
		"vbscript:x",
		"data:text/html,<script>alert(1)</script>",
		"data:text/html;base64,PHNjcmlwdD4=",
		"//example.org/x",
		"/relative",
		"relative",
		"#here",
		"?q",
		"file:///etc/passwd",
		"ftp://example.org",
		"blob:x",
		"http:example",
		"https:/one",
		"cid:picture@example.org",
		"",
		" ",
		"feed:javascript:alert(1)",
		"javascript&colon;alert(1)",
		"jav&Tab;ascript:alert(1)",
		"&#0;javascript:alert(1)",
		"view-source:http://x",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char html[200];
		snprintf(html, sizeof(html), "<a href=\"%s\">x</a>", bad[i]);
		check_cases(&(sanitise_case){html, "<a>x</a>"}, 1);
	}
}

static void test_images(void **state)
{
	static const sanitise_case cases[] = {
		{"<img src='cid:picture@example.org'>", "<img src=\"/part/1\">"},
		{"<img src='CID:picture%40example.org'>", "<img src=\"/part/1\">"},
		{"<img src='cid:other@example.org'>", "<img>"},
		{"<img src='data:image/png;base64,AAAA'>", "<img>"},
		{"<img src='javascript:alert(1)'>", "<img>"},
		{"<img src='/part/7'>", "<img>"},
		{"<img srcset='http://x/1 1x' src=x>", "<img>"},
		{"<image src=x>", "<img>"},
		{"<td background='http://example.org/x'>y", "y"},
		{"<div background='http://example.org/x'>y</div>", "<div>y</div>"},
	};
	check_cases(cases, sizeof(cases) / sizeof(*cases));
	sanitise_result result =
		sanitised("<img src='http://example.org/1'><img src=https://example.org/2 alt=a>", false);
	assert_string_equal(result.html, "<img><img alt=\"a\">");
	assert_int_equal(result.blocked, 2);
	free(result.html);
	result = sanitised("<img src='http://example.org/1'>", true);
	assert_string_equal(result.html, "<img src=\"http://example.org/1\" referrerpolicy=\"no-referrer\">");
	assert_int_equal(result.blocked, 0);
	free(result.html);
}

static void test_styles(void **state)
{
	static const sanitise_case cases[] = {
		{"<p style='color:red'>x</p>", "<p style=\"color:red;\">x</p>"},
		{"<p style='COLOR : RED ; width:3px'>x</p>", "<p style=\"color: RED ;width:3px;\">x</p>"},
		{"<p style=\"font-family:'Segoe UI', Arial\">x</p>",
		 "<p style=\"font-family:Segoe UI, Arial;\">x</p>"},
		{"<p style='color:rgb(1,2,3)'>x</p>", "<p style=\"color:rgb(1,2,3);\">x</p>"},
		{"<p style='background:url(http://x/y)'>x</p>", "<p>x</p>"},
		{"<p style='background:u\\72l(http://x/y)'>x</p>", "<p>x</p>"},
		{"<p style='background:/**/url(x)'>x</p>", "<p>x</p>"},
		{"<p style='background-image:url(x);color:red'>x</p>", "<p style=\"color:red;\">x</p>"},
		{"<p style='width:expression(alert(1))'>x</p>", "<p>x</p>"},
		{"<p style='color:rgburl(x)'>x</p>", "<p>x</p>"},
		{"<p style='color:rgb(url(x))'>x</p>", "<p>x</p>"},
		{"<p style='position:fixed;top:0'>x</p>", "<p>x</p>"},
		{"<p style='behavior:url(x)'>x</p>", "<p>x</p>"},
		{"<p style='-moz-binding:url(x)'>x</p>", "<p>x</p>"},
		{"<p style='color:red;} body{display:none'>x</p>", "<p style=\"color:red;\">x</p>"},
		{"<p style='color:\"</style><script>\"'>x</p>", "<p>x</p>"},
		{"<p style='@import \"x\"'>x</p>", "<p>x</p>"},
		{"<p style='color'>x</p>", "<p>x</p>"},
		{"<p style='color:'>x</p>", "<p>x</p>"},
		{"<p style=';;;'>x</p>", "<p>x</p>"},
	};
	check_cases(cases, sizeof(cases) / sizeof(*cases));
}

/* ---- what goes ---- */

/* What reads as a comment in one parse is an image in the next, if it is written carelessly. */
static const char mglyph[] =
	"<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=x&gt;\">"
	"</style></mglyph></table></mtext></math>kept";

/* Of each, the word "kept" stays, and nothing that does something. */
static void test_dangerous_elements_go_with_their_content(void **state)
{
	static const char *const cases[] = {
		"<script>alert(1)</script>kept",
		"<SCRIPT SRC=http://x></SCRIPT>kept",
		"<scr<script>ipt>alert(1)</script>kept",
		"<style>body{background:url(x)}</style>kept",
		"<svg onload=alert(1)><a href=x>no</a></svg>kept",
		"<svg><script>alert(1)</script></svg>kept",
		"<svg><style><img src=x onerror=alert(1)></style></svg>kept",
		"<svg></p><style><g title='</style><img src onerror=alert(1)>'>no</svg>kept",
		"<math><mtext>no</mtext></math>kept",
		mglyph,
		"<math><annotation-xml encoding='text/html'><style>no</style></annotation-xml></math>kept",
		"<iframe src=x>no</iframe>kept",
		"<iframe srcdoc='<script>alert(1)</script>'></iframe>kept",
		"<object data=x><param name=y>no</object>kept",
		"<embed src=x>kept",
		"<template><img src=x onerror=alert(1)></template>kept",
		"<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>kept",
		"<textarea><img src=x onerror=alert(1)></textarea>kept",
		"<xmp><img src=x onerror=alert(1)></xmp>kept",
		"<noembed><img src=x></noembed>kept",
		"<select><option>no</select>kept",
		"<video><source onerror=alert(1)></video>kept",
		"<button onclick=alert(1)>no</button>kept",
		"<input onfocus=alert(1) autofocus>kept",
		"<meta http-equiv=refresh content='0;url=javascript:alert(1)'>kept",
		"<link rel=stylesheet href=http://x>kept",
		"<base href='http://x/'>kept",
		"<!-- <script>alert(1)</script> -->kept",
		"<!--><img src=x onerror=alert(1)-->kept",
		"<![CDATA[<script>alert(1)</script>]]>kept",
		"<?xml version='1.0'?>kept",
		"<!DOCTYPE html [<!ENTITY x 'y'>]>kept",
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		sanitise_result result = sanitised(cases[i], false);
		assert_non_null(strstr(result.html, "kept"));
		assert_null(strstr(result.html, "<script"));
		assert_null(strstr(result.html, "<img src"));
		free(result.html);
	}
}

static void test_handlers_and_names_go(void **state)
{
	static const sanitise_case cases[] = {
		{"<b onclick=alert(1)>x</b>", "<b>x</b>"},
		{"<b ONMOUSEOVER='alert(1)'>x</b>", "<b>x</b>"},
		{"<img/src='x'/onerror=alert(1)>", "<img>"},
		{"<p id=login class=top name=form>x</p>", "<p>x</p>"},
		{"<a href='http://e/' ping='http://x' download>y</a>",
		 "<a href=\"http://e/\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">y</a>"},
		{"<a href='http://e/' target=_self rel=opener>y</a>",
		 "<a href=\"http://e/\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">y</a>"},
		{"<p contenteditable tabindex=1 accesskey=x is=y>x</p>", "<p>x</p>"},
		{"<a xlink:href='javascript:alert(1)'>x</a>", "<a>x</a>"},
		{"<p title='&quot; onclick=&quot;alert(1)'>x</p>",
		 "<p title=\"&quot; onclick=&quot;alert(1)\">x</p>"},
		{"<p title='`'>x</p>", "<p title=\"&#96;\">x</p>"},
	};
	check_cases(cases, sizeof(cases) / sizeof(*cases));
}

/* ---- bounds ---- */

static char *repeated(const char *text, size_t count)
{
	size_t length = strlen(text);
	char *all = malloc(length * count + 1);
	for (size_t i = 0; i < count; i++)
		memcpy(all + i * length, text, length);
	all[length * count] = '\0';
	return all;
}

static void test_deep_trees_lose_tags_but_no_text(void **state)
{
	char *html = repeated("<div>x", 15000);
	sanitise_result result = sanitised(html, false);
	size_t texts = 0;
	for (const char *at = result.html; (at = strchr(at, 'x')) != NULL; at++)
		texts++;
	assert_int_equal(texts, 15000);
	assert_true(result.clipped);
	free(result.html);
	free(html);
}

static void test_long_input_is_cut(void **state)
{
	char *html = repeated("0123456789", 200000);
	sanitise_result result = sanitised(html, false);
	assert_int_equal(result.length, SANITISE_BYTES_MAX);
	assert_true(result.clipped);
	free(result.html);
	free(html);
	html = repeated("<br>", SANITISE_TAGS_MAX + 5);
	result = sanitised(html, false);
	assert_int_equal(result.length, 4 * SANITISE_TAGS_MAX);
	assert_true(result.clipped);
	free(result.html);
	free(html);
}

/* Each of these would make a tree or a time that grows with the square of the input, or worse. */
static void test_bombs_end(void **state)
{
	char *fonts = calloc(1, 1 << 20), *attributes = calloc(1, 1 << 20), *spans;
	size_t at = 0;
	for (int i = 0; i < 5000; i++)
		at += (size_t)sprintf(fonts + at, "<b title=%d>", i);
	for (int i = 0; i < 14000; i++)
		at += (size_t)sprintf(fonts + at, "<p>");
	at = (size_t)sprintf(attributes, "<p ");
	for (int i = 0; i < 100000; i++)
		at += (size_t)sprintf(attributes + at, "a%d ", i);
	spans = repeated("<span></x>", 9000);
	const char *const bombs[] = {fonts, attributes, spans};
	for (size_t i = 0; i < sizeof(bombs) / sizeof(*bombs); i++) {
		sanitise_result result;
		char *text;
		int error = sanitise_html(bombs[i], strlen(bombs[i]), &(sanitise_options){0}, &result);
		assert_true(error == 0 || error == -E2BIG);
		if (error == 0)
			free(result.html);
		else
			check_contains(weir_error(), "too much memory or time");
		if (sanitise_text(bombs[i], strlen(bombs[i]), 100, &text) == 0)
			free(text);
	}
	free(spans);
	free(attributes);
	free(fonts);
}

/* ---- text ---- */

static void test_text_of_html(void **state)
{
	static const sanitise_case cases[] = {
		{"<p>one</p><p>two  \n three</p>", "one\n\ntwo three"},
		{"a<br>b", "a\nb"},
		{"<style>no</style>yes<script>no</script>", "yes"},
		{"<table><tr><td>a<td>b<tr><td>c</table>", "a b\n\nc"},
		{"<pre>a\n  b</pre>", "a\n  b"},
		{"&lt;x&gt; &euro;", "<x> \xe2\x82\xac"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *text;
		assert_int_equal(sanitise_text(cases[i].html, strlen(cases[i].html), 1000, &text), 0);
		assert_string_equal(text, cases[i].result);
		free(text);
	}
	char *text;
	assert_int_equal(sanitise_text("aaa\xc3\xbc", 5, 4, &text), 0);
	assert_string_equal(text, "aaa");
	free(text);
}

static void test_lists_are_sorted(void **state)
{
	static const char *const attributes[] = {"align", "alt", "colspan", "title", "valign", "width"};
	for (size_t i = 0; i < sizeof(attributes) / sizeof(*attributes); i++)
		assert_true(sanitise_attribute_allowed(attributes[i]));
	assert_false(sanitise_attribute_allowed("onclick"));
	static const char *const properties[] = {"background",
						 "background-color",
						 "border",
						 "border-bottom",
						 "border-bottom-color",
						 "border-collapse",
						 "border-left",
						 "border-radius",
						 "border-top",
						 "border-width",
						 "clear",
						 "color",
						 "display",
						 "float",
						 "font",
						 "font-weight",
						 "height",
						 "line-height",
						 "margin",
						 "margin-top",
						 "max-width",
						 "min-width",
						 "padding",
						 "padding-top",
						 "table-layout",
						 "text-align",
						 "vertical-align",
						 "white-space",
						 "width",
						 "word-wrap"};
	for (size_t i = 0; i < sizeof(properties) / sizeof(*properties); i++) {
		char style[60], result[80];
		snprintf(style, sizeof(style), "%s:1", properties[i]);
		assert_true(sanitise_style(style, result, sizeof(result)));
	}
}

static void test_plain(void **state)
{
	static const struct {
		const char *text, *html;
	} cases[] = {
		{"", ""},
		{"\n\na < b & \"c\"\n\n", "a &lt; b &amp; &quot;c&quot;\n"},
		{"> said\nnot said", "<span class=\"quote\">&gt; said</span>\nnot said\n"},
		{"see https://x.org/?a=1&b=2, or http://y.",
		 "see <a rel=\"noopener noreferrer\" target=\"_blank\" href=\"https://x.org/?a=1&amp;b=2\">"
		 "https://x.org/?a=1&amp;b=2</a>, or <a rel=\"noopener noreferrer\" target=\"_blank\" "
		 "href=\"http://y\">http://y</a>.\n"},
		{"http:// javascript:alert(1) http://\"onclick=x",
		 "http:// javascript:alert(1) http://&quot;onclick=x\n"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *html = sanitise_plain(cases[i].text);
		assert_string_equal(html, cases[i].html);
		free(html);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_text_and_structure_stay),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_styles),
		cmocka_unit_test(test_dangerous_elements_go_with_their_content),
		cmocka_unit_test(test_handlers_and_names_go),
		cmocka_unit_test(test_deep_trees_lose_tags_but_no_text),
		cmocka_unit_test(test_long_input_is_cut),
		cmocka_unit_test(test_bombs_end),
		cmocka_unit_test(test_text_of_html),
		cmocka_unit_test(test_lists_are_sorted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
