/* SPDX-License-Identifier: Apache-2.0 */
/* Set-Cookie: safe by default, and nothing breaks out. */
#include "on_request.h"

#include <errno.h>
#include <stdio.h>
#include <weir/cookie.h>

static void expect_field(bool tls, weir_cookie cookie, const char *wanted)
{
	bare_request bare;
	weir_field field;
	char text[256];
	weir_request *request = bare_open(&bare);
	bare.request.secure = tls;
	assert_int_equal(weir_request_set_cookie(request, &cookie, &field), 0);
	assert_memory_equal(field.name.at, "Set-Cookie", 10);
	snprintf(text, sizeof(text), "%.*s", (int)field.value.length, field.value.at);
	assert_string_equal(text, wanted);
	bare_close(&bare);
}

static void is_safe_by_default(void **state)
{
	expect_field(false, (weir_cookie){.name = WEIR_SPAN("a"), .value = WEIR_SPAN("1")},
		     "a=1; Path=/; HttpOnly; SameSite=Lax");
	expect_field(true, (weir_cookie){.name = WEIR_SPAN("a"), .value = WEIR_SPAN("1")},
		     "a=1; Path=/; Secure; HttpOnly; SameSite=Lax");
	expect_field(true, (weir_cookie){.name = WEIR_SPAN("__Host-sid")},
		     "__Host-sid=; Path=/; Secure; HttpOnly; SameSite=Lax");
}

static void has_what_is_asked_for(void **state)
{
	expect_field(false,
		     (weir_cookie){.name = WEIR_SPAN("a"),
				   .value = WEIR_SPAN("x=y"),
				   .path = WEIR_SPAN("/in box"),
				   .domain = WEIR_SPAN("mail.example.org"),
				   .max_age_s = 600,
				   .secure = true,
				   .scripts = true,
				   .same_site = WEIR_SAME_SITE_NONE},
		     "a=x=y; Path=/in box; Domain=mail.example.org; Max-Age=600; Secure; SameSite=None");
	expect_field(
		false,
		(weir_cookie){.name = WEIR_SPAN("a"), .max_age_s = -1, .same_site = WEIR_SAME_SITE_STRICT},
		"a=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
	expect_field(false, (weir_cookie){.name = WEIR_SPAN("a"), .max_age_s = INT64_MAX},
		     "a=; Path=/; Max-Age=9223372036854775807; HttpOnly; SameSite=Lax");
	expect_field(false, (weir_cookie){.name = WEIR_SPAN("a"), .max_age_s = INT64_MIN},
		     "a=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax");
	expect_field(false, (weir_cookie){.name = WEIR_SPAN("__Secure-a"), .secure = true},
		     "__Secure-a=; Path=/; Secure; HttpOnly; SameSite=Lax");
}

static void refuses(void **state)
{
	static const struct {
		weir_cookie cookie;
		const char *word;
	} wrong[] = {
		{{.name = {"", 0}}, "name"},
		{{.name = {"a b", 3}}, "name"},
		{{.name = {"a=b", 3}}, "name"},
		{{.name = {"a;b", 3}}, "name"},
		{{.name = {"a\0", 2}}, "name"},
		{{.name = {"\xc3\xa9", 2}}, "name"},
		{{.name = {"a", 1}, .value = {"1; Domain=evil", 14}}, "value"},
		{{.name = {"a", 1}, .value = {"1\r\nX: y", 7}}, "value"},
		{{.name = {"a", 1}, .value = {"1\0", 2}}, "value"},
		{{.name = {"a", 1}, .value = {"1,2", 3}}, "value"},
		{{.name = {"a", 1}, .value = {"\"1\"", 3}}, "value"},
		{{.name = {"a", 1}, .value = {"a\\b", 3}}, "value"},
		{{.name = {"a", 1}, .value = {"1 2", 3}}, "value"},
		{{.name = {"a", 1}, .value = {"\x7f", 1}}, "value"},
		{{.name = {"a", 1}, .path = {"x", 1}}, "path"},
		{{.name = {"a", 1}, .path = {"/;Secure", 8}}, "path"},
		{{.name = {"a", 1}, .path = {"/\n", 2}}, "path"},
		{{.name = {"a", 1}, .domain = {"a;b", 3}}, "domain"},
		{{.name = {"a", 1}, .domain = {"a b", 3}}, "domain"},
		{{.name = {"a", 1}, .same_site = (weir_same_site)3}, "same_site"},
		{{.name = {"a", 1}, .same_site = WEIR_SAME_SITE_NONE}, "SameSite=None"},
		{{.name = {"__Secure-a", 10}}, "prefix"},
		{{.name = {"__host-a", 8}}, "prefix"},
		{{.name = {"__Host-a", 8}, .secure = true, .path = {"/x", 2}}, "__Host-"},
		{{.name = {"__Host-a", 8}, .secure = true, .domain = {"a.org", 5}}, "__Host-"},
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		bare_request bare;
		weir_field field = {.name = WEIR_SPAN("untouched")};
		assert_int_equal(weir_request_set_cookie(bare_open(&bare), &wrong[i].cookie, &field),
				 -EINVAL);
		check_contains(weir_error(), wrong[i].word);
		assert_int_equal(field.name.length, 9);
		bare_close(&bare);
	}
}

static void is_bounded(void **state)
{
	static char value[WEIR_COOKIE_BYTES_MAX];
	bare_request bare;
	weir_field field;
	memset(value, 'v', sizeof(value));
	weir_cookie cookie = {.name = WEIR_SPAN("a"), .value = {value, WEIR_COOKIE_BYTES_MAX - 128}};
	weir_request *request = bare_open(&bare);
	assert_int_equal(weir_request_set_cookie(request, &cookie, &field), -EINVAL);
	cookie.value.length--;
	assert_int_equal(weir_request_set_cookie(request, &cookie, &field), 0);
	assert_true(field.value.length <= WEIR_COOKIE_BYTES_MAX);
	weir_mem_fail_after(1);
	assert_int_equal(weir_request_set_cookie(request, &cookie, &field), -ENOMEM);
	weir_mem_fail_after(0);
	bare_close(&bare);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(is_safe_by_default),
		CHECK_TEST(has_what_is_asked_for),
		CHECK_TEST(refuses),
		CHECK_TEST(is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
