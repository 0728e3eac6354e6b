/* SPDX-License-Identifier: Apache-2.0 */
/* Requests as bytes of HTTP/1: what is written, what is kept, what is written anew. */
#include "support/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "load/bytes.h"

static const weir_span none = {0};

static load_form form_of(const char *method, const char *target)
{
	return (load_form){.method = {method, strlen(method)}, .target = {target, strlen(target)}};
}

static void expect(load_bytes *bytes, const load_form *form, weir_span target, weir_span cookies,
		   const char *text)
{
	load_request request;
	assert_int_equal(load_bytes_of(bytes, form, target, cookies, &request), 0);
	assert_int_equal(request.length, strlen(text));
	assert_memory_equal(request.bytes, text, strlen(text));
}

static void written(void **state)
{
	load_bytes bytes;
	load_form get = form_of("GET", "/a"), post = form_of("POST", "/b"), odd = form_of("BREW", "/c");
	load_form put = form_of("PUT", "/d"), patch = form_of("PATCH", "/e"), head = form_of("HEAD", "/f");
	load_bytes_init(&bytes, "h:1", false);
	expect(&bytes, &get, none, none, "GET /a HTTP/1.1\r\nHost: h:1\r\n\r\n");
	/* Without a body, and nobody has to guess. */
	expect(&bytes, &post, none, none, "POST /b HTTP/1.1\r\nHost: h:1\r\nContent-Length: 0\r\n\r\n");
	expect(&bytes, &put, none, none, "PUT /d HTTP/1.1\r\nHost: h:1\r\nContent-Length: 0\r\n\r\n");
	expect(&bytes, &patch, none, none, "PATCH /e HTTP/1.1\r\nHost: h:1\r\nContent-Length: 0\r\n\r\n");
	expect(&bytes, &odd, none, none, "BREW /c HTTP/1.1\r\nHost: h:1\r\n\r\n");
	expect(&bytes, &head, none, none, "HEAD /f HTTP/1.1\r\nHost: h:1\r\n\r\n");
	load_bytes_fini(&bytes);
}

static void whole(void **state)
{
	load_bytes bytes;
	load_request request;
	load_form form = form_of("POST", "/b");
	form.fields = WEIR_SPAN("X-A: b\r\nX-C: d\r\n");
	form.body = WEIR_SPAN("body");
	load_bytes_init(&bytes, "h", true);
	expect(&bytes, &form, none, none,
	       "POST /b HTTP/1.1\r\nHost: h\r\nX-A: b\r\nX-C: d\r\nContent-Length: 4\r\nConnection: "
	       "close\r\n\r\nbody");
	expect(&bytes, &form, WEIR_SPAN("/own?x"), WEIR_SPAN("id=7; b=c"),
	       "POST /own?x HTTP/1.1\r\nHost: h\r\nX-A: b\r\nX-C: d\r\nCookie: id=7; b=c\r\nContent-Length: "
	       "4\r\n"
	       "Connection: close\r\n\r\nbody");
	expect(&bytes, &form, none, WEIR_SPAN("id=7"),
	       "POST /b HTTP/1.1\r\nHost: h\r\nX-A: b\r\nX-C: d\r\nCookie: id=7\r\nContent-Length: 4\r\n"
	       "Connection: close\r\n\r\nbody");
	/* The reader must know that a HEAD has no body. */
	load_form head = form_of("HEAD", "/");
	assert_int_equal(load_bytes_of(&bytes, &head, none, none, &request), 0);
	assert_int_equal(request.method, WEIR_METHOD_HEAD);
	assert_int_equal(load_bytes_of(&bytes, &head, WEIR_SPAN("/x"), none, &request), 0);
	assert_int_equal(request.method, WEIR_METHOD_HEAD);
	load_bytes_fini(&bytes);
}

/* A form is written out once: the second time it is the same bytes at the same place, however many came in between. */
static void kept(void **state)
{
	enum { FORMS = 3000 };
	load_form *forms = calloc(FORMS, sizeof(*forms));
	char(*targets)[16] = calloc(FORMS, sizeof(*targets));
	const char **at = calloc(FORMS, sizeof(*at));
	load_bytes bytes;
	load_request request;
	load_bytes_init(&bytes, "h", false);
	for (unsigned i = 0; i < FORMS; i++) {
		snprintf(targets[i], sizeof(targets[i]), "/%u", i);
		forms[i] = form_of("GET", targets[i]);
		assert_int_equal(load_bytes_of(&bytes, &forms[i], none, none, &request), 0);
		at[i] = request.bytes;
	}
	assert_int_equal(bytes.count, FORMS);
	for (unsigned i = 0; i < FORMS; i++) {
		char text[64];
		snprintf(text, sizeof(text), "GET /%u HTTP/1.1\r\nHost: h\r\n\r\n", i);
		expect(&bytes, &forms[i], none, none, text);
		assert_int_equal(load_bytes_of(&bytes, &forms[i], none, none, &request), 0);
		assert_ptr_equal(request.bytes, at[i]);
		/* Its own target does not spoil what is kept. */
		expect(&bytes, &forms[i], WEIR_SPAN("/x"), none, "GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
	}
	assert_int_equal(bytes.count, FORMS);
	load_bytes_fini(&bytes);
	free(forms);
	free(targets);
	free(at);
}

/* Beyond so many they are written each time: a peer's links and a trace's paths must not fill the memory. */
static void bounded(void **state)
{
	load_form *forms = calloc(LOAD_BYTES_FORMS + 2, sizeof(*forms));
	load_bytes bytes;
	load_request request;
	load_bytes_init(&bytes, "h", false);
	for (unsigned i = 0; i < LOAD_BYTES_FORMS + 2; i++) {
		forms[i] = form_of("GET", i % 2 == 0 ? "/even" : "/odd");
		assert_int_equal(load_bytes_of(&bytes, &forms[i], none, none, &request), 0);
	}
	assert_int_equal(bytes.count, LOAD_BYTES_FORMS);
	expect(&bytes, &forms[LOAD_BYTES_FORMS + 1], none, none, "GET /odd HTTP/1.1\r\nHost: h\r\n\r\n");
	assert_int_equal(bytes.count, LOAD_BYTES_FORMS);
	load_bytes_fini(&bytes);
	free(forms);
}

/* Whichever allocation fails, it is told, and works again when there is memory. */
static void no_memory(void **state)
{
	for (uint64_t nth = 1; nth < 6; nth++) {
		load_bytes bytes;
		load_request request;
		load_form get = form_of("GET", "/a"), other = form_of("GET", "/b");
		load_bytes_init(&bytes, "h", false);
		weir_mem_fail_after(nth);
		int first = load_bytes_of(&bytes, &get, none, none, &request);
		int second = load_bytes_of(&bytes, &other, WEIR_SPAN("/c"), none, &request);
		weir_mem_fail_after(0);
		assert_true((first == 0 || first == -ENOMEM) && (second == 0 || second == -ENOMEM));
		expect(&bytes, &get, none, none, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
		expect(&bytes, &other, WEIR_SPAN("/c"), none, "GET /c HTTP/1.1\r\nHost: h\r\n\r\n");
		load_bytes_fini(&bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(written), CHECK_TEST(whole),     CHECK_TEST(kept),
		CHECK_TEST(bounded), CHECK_TEST(no_memory),
	};
	return cmocka_run_group_tests_name("load_bytes", tests, NULL, NULL);
}
