/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>
#include <webmail/page.h>

static void expect_page(webpage *p, const char *wanted)
{
	assert_false(p->failed);
	assert_int_equal(p->buf->length, strlen(wanted));
	assert_memory_equal(p->buf->data, wanted, strlen(wanted));
	page_drop(p);
	assert_null(p->buf);
}

static void text_is_escaped(void **state)
{
	webpage p = {NULL, false};
	page_text(&p, WEIR_SPAN("<a href=\"x\" b='y'>&amp;\0</a>"));
	expect_page(&p, "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;\xef\xbf\xbd&lt;/a&gt;");
	page_text(&p, WEIR_SPAN("plain \xc3\xbc"));
	expect_page(&p, "plain \xc3\xbc");
}

static void queries_are_encoded(void **state)
{
	webpage p = {NULL, false};
	page_query(&p, WEIR_SPAN("a-b_c.d~E9 &=?/%\n\xc3\xbc"));
	expect_page(&p, "a-b_c.d~E9%20%26%3D%3F%2F%25%0A%C3%BC");
}

static void numbers_and_html(void **state)
{
	webpage p = {NULL, false};
	page_number(&p, INT64_MIN);
	page_html(&p, WEIR_SPAN("<b>"));
	page_number(&p, 0);
	page_text(&p, page_span(NULL));
	page_html(&p, page_span(""));
	expect_page(&p, "-9223372036854775808<b>0");
}

static void it_grows(void **state)
{
	webpage p = {NULL, false};
	for (unsigned i = 0; i < 100000; i++)
		page_number(&p, i % 10);
	assert_false(p.failed);
	assert_int_equal(p.buf->length, 100000);
	for (unsigned i = 0; i < 100000; i++)
		assert_int_equal(p.buf->data[i], '0' + i % 10);
	page_drop(&p);
}

/* Beyond the bound nothing is added, and it says so. */
static void it_is_bounded(void **state)
{
	webpage p = {NULL, false};
	static char much[1u << 20];
	for (unsigned i = 0; i < PAGE_BYTES_MAX / sizeof(much); i++)
		page_add(&p, much, sizeof(much));
	assert_false(p.failed);
	page_add(&p, "", 0);
	assert_false(p.failed);
	page_add(&p, "x", 1);
	assert_true(p.failed);
	assert_int_equal(p.buf->length, PAGE_BYTES_MAX);
	page_drop(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_escaped),  cmocka_unit_test(queries_are_encoded),
		cmocka_unit_test(numbers_and_html), cmocka_unit_test(it_grows),
		cmocka_unit_test(it_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
