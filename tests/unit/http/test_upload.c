/* SPDX-License-Identifier: Apache-2.0 */
#include "support/on_http.h"

#include <weir/upload.h>

#define HEAD(name) "Content-Disposition: form-data; name=\"" name "\"\r\n\r\n"

static int parse(const char *body, const char *boundary, weir_upload *to)
{
	/* At the end of an allocation, so that a sanitizer sees a look beyond it. */
	size_t length = strlen(body);
	char *copy = malloc(length > 0 ? length : 1);
	memcpy(copy, body, length);
	int failed =
		weir_upload_parse((weir_span){copy, length}, (weir_span){boundary, strlen(boundary)}, to);
	if (failed != 0)
		free(copy);
	else
		to->map = copy; /* for release */
	return failed;
}

static void release(weir_upload *u)
{
	free(u->map);
	u->map = NULL;
}

static void expect_span(weir_span got, const char *wanted)
{
	assert_int_equal(got.length, strlen(wanted));
	assert_memory_equal(got.at, wanted, got.length);
}

static void fields_and_files(void **state)
{
	static weir_upload u;
	assert_int_equal(
		parse("--b\r\n" HEAD(
			      "to") "ann\r\nbob\r\n--b\r\ncontent-disposition: form-data; name=\"file\"; "
				    "filename=\"a \\b.txt\"\r\nContent-Type:  "
				    "text/plain\r\n\r\n--bx\r\n-\r\n--b\r\n" HEAD(
					    "empty") "\r\n--b--\r\nafter",
		      "b", &u),
		0);
	assert_int_equal(u.count, 3);
	expect_span(u.fields[0].value, "ann\r\nbob");
	assert_null(u.fields[0].file.at);
	expect_span(u.fields[1].name, "file");
	expect_span(u.fields[1].file, "a \\b.txt");
	expect_span(u.fields[1].type, "text/plain");
	expect_span(u.fields[1].value, "--bx\r\n-");
	expect_span(weir_upload_value(&u, "empty"), "");
	expect_span(weir_upload_value(&u, "to"), "ann\r\nbob");
	assert_null(weir_upload_value(&u, "file").at); /* a file is no value */
	assert_null(weir_upload_value(&u, "nobody").at);
	release(&u);
}

static void a_form_without_fields(void **state)
{
	static weir_upload u;
	assert_int_equal(parse("--b--", "b", &u), 0);
	assert_int_equal(u.count, 0);
	release(&u);
	assert_int_equal(parse("--b\r\nX: y\r\n\r\nno name\r\n--b--\r\n", "b", &u), 0);
	assert_int_equal(u.count, 0);
	release(&u);
}

static void broken_ones_are_refused(void **state)
{
	static weir_upload u;
	static const char *const broken[] = {"",
					     "-",
					     "--",
					     "--b",
					     "--b\r",
					     "--b\r\n",
					     "--b-",
					     "--bx\r\n\r\n",
					     "x--b--",
					     "--b\r\n" HEAD("a") "no end",
					     "--b\r\n" HEAD("a") "\r\n--b",
					     "--b\r\n" HEAD("a") "\r\n--bz",
					     "--b\r\nContent-Disposition: form-data; name=\"a",
					     "--b\r\nno empty line\r\n--b--"};
	for (unsigned i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
		assert_int_equal(parse(broken[i], "b", &u), -EINVAL);
	assert_int_equal(parse("--b--", "", &u), -EMEDIUMTYPE);
}

static void append(char *to, const char *text)
{
	memcpy(to, text, strlen(text) + 1);
}

static void bounds(void **state)
{
	static weir_upload u;
	static char body[1u << 20];
	char *at = body;
	for (unsigned i = 0; i < WEIR_UPLOAD_FIELDS_MAX; i++)
		at += sprintf(at, "--b\r\n" HEAD("a") "%u\r\n", i);
	append(at, "--b--\r\n");
	assert_int_equal(parse(body, "b", &u), 0);
	assert_int_equal(u.count, WEIR_UPLOAD_FIELDS_MAX);
	release(&u);
	append(at, "--b\r\n" HEAD("a") "\r\n--b--\r\n");
	assert_int_equal(parse(body, "b", &u), -E2BIG);
	at = body + sprintf(body, "--b\r\nX: ");
	memset(at, 'x', WEIR_UPLOAD_HEAD_MAX);
	append(at + WEIR_UPLOAD_HEAD_MAX, "\r\n\r\nvalue\r\n--b--\r\n");
	assert_int_equal(parse(body, "b", &u), -EINVAL);
}

static void boundaries(void **state)
{
	static const struct {
		const char *type, *boundary;
	} cases[] = {{"multipart/form-data; boundary=abc", "abc"},
		     {"Multipart/Form-Data;charset=x; BOUNDARY=\"a b;c\"", "a b;c"},
		     {"multipart/form-data", ""},
		     {"multipart/form-data; xboundary=a", ""},
		     {"multipart/form-data; boundary=", ""},
		     {"application/x-www-form-urlencoded; boundary=a", ""},
		     {"multipart/form-data; "
		      "boundary=12345678901234567890123456789012345678901234567890123456789012345678901",
		      ""}};
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_span(weir_upload_boundary((weir_span){cases[i].type, strlen(cases[i].type)}),
			    cases[i].boundary);
	assert_int_equal(weir_upload_boundary((weir_span){NULL, 0}).length, 0);
}

/* ---- from a request ---- */

static const char *_Atomic folder = "/tmp";

/* Tells what became of the form, and its field "title". */
static void page_form(site *s, weir_request *request)
{
	weir_upload *form = NULL;
	char text[100];
	int failed = weir_upload_read(request, folder, 500, &form);
	weir_span title = failed == 0 ? weir_upload_value(form, "title") : WEIR_SPAN("");
	int length = snprintf(text, sizeof(text), "%s: %.*s.\n",
			      failed == 0              ? "good"
			      : failed == -EMEDIUMTYPE ? "no form"
			      : failed == -E2BIG       ? "too large"
			      : failed == -EINVAL      ? "broken"
			      : failed == -ENOENT      ? "no folder"
						       : weir_error(),
			      (int)title.length, title.at);
	weir_request_reply_text(request, 200, (weir_span){text, (size_t)length});
	weir_upload_free(form);
}

static const page pages[] = {POOL_PAGE("/form", page_form), NO_PAGE};

static char *post(const char *type, const char *body)
{
	static char text[4000];
	snprintf(text, sizeof(text),
		 "POST /form HTTP/1.0\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n%s", type,
		 strlen(body), body);
	return text;
}

static void reads_a_request(void **state)
{
	skip_without(state);
	site s = {.pages = pages};
	char long_one[700];
	const char *type = "multipart/form-data; boundary=x";
	site_open(&s);
	expect_contains(&s, post(type, "--x\r\n" HEAD("title") "A b\r\n--x--\r\n"), "\r\n\r\ngood: A b.\n");
	expect_contains(&s, post(type, "--x\r\n" HEAD("title") "A b"), "\r\n\r\nbroken: .\n");
	expect_contains(&s, post(type, ""), "\r\n\r\nbroken: .\n");
	expect_contains(&s, post("text/plain", "title=x"), "\r\n\r\nno form: .\n");
	memset(long_one, 'x', sizeof(long_one) - 1);
	long_one[sizeof(long_one) - 1] = '\0';
	expect_contains(&s, post(type, long_one), "\r\n\r\ntoo large: .\n");
	/* One that does not say how long it is. */
	int fd = dial(&s);
	say(fd, "POST /form HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
		"Content-Type: multipart/form-data; boundary=x\r\n\r\n2bb\r\n");
	say(fd, long_one);
	say(fd, "\r\n0\r\n\r\n");
	heard h = hear_all(fd);
	check_contains(h.text, "too large: .");
	free(h.text);
	close(fd);
	folder = "/no/such/folder";
	expect_contains(&s, post(type, "--x--\r\n"), "\r\n\r\nno folder: .\n");
	folder = "/tmp";
	site_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_and_files),
		cmocka_unit_test(a_form_without_fields),
		cmocka_unit_test(broken_ones_are_refused),
		cmocka_unit_test(bounds),
		cmocka_unit_test(boundaries),
		ON_BOTH(reads_a_request),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
