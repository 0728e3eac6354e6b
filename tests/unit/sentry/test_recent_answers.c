/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of answers that came before: found only if all is the same; what is not kept. */
#include "sentry/recent_answers.h"

#include "base/mem.h"
#include "support/unit.h"

#define FIELDS_MAX 100
#define HELLO      "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"

static weir_recent_answers recent;

static void parse(const char *text, weir_head *head, weir_head_field *fields)
{
	const weir_head_limits limits = {8192, 32768, FIELDS_MAX};
	weir_head_init(head);
	assert_int_equal(weir_parse_answer(head, text, strlen(text), &limits, WEIR_METHOD_GET, fields),
			 WEIR_PARSE_DONE);
}

static weir_recent_answer *find(const char *text)
{
	return weir_answers_find(&recent, text, strlen(text));
}

/* Whether it is found afterwards; then it is what the parser says. */
static bool keep(const char *text)
{
	weir_head head;
	weir_head_field fields[FIELDS_MAX];
	parse(text, &head, fields);
	weir_answers_keep(&recent, &head, fields, text, strlen(text));
	const weir_recent_answer *found = find(text);
	if (found == NULL)
		return false;
	assert_memory_equal(&found->head, &head, sizeof(head));
	assert_memory_equal(found->fields, fields, head.field_count * sizeof(fields[0]));
	return true;
}

static void a_head_is_kept_when_it_comes_again(void **state)
{
	assert_null(find(HELLO));
	assert_false(keep(HELLO));
	assert_true(keep(HELLO));
	/* The body may be another one. */
	assert_non_null(
		find("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nother"));
	weir_answers_forget(&recent);
	assert_null(find(HELLO));
}

static void all_bytes_count(void **state)
{
	keep(HELLO);
	assert_true(keep(HELLO));
	char other[] = HELLO;
	size_t head = sizeof(HELLO) - 1 - strlen("hello");
	for (size_t i = 0; i < head; i++) {
		other[i] ^= 1;
		assert_null(find(other));
		other[i] ^= 1;
	}
	/* A part of it, and one that something follows. */
	for (size_t length = 0; length < sizeof(HELLO) - 1; length++)
		assert_null(weir_answers_find(&recent, HELLO, length));
	assert_null(find(HELLO "HTTP/1.1 200 OK\r\n"));
	weir_answers_forget(&recent);
}

/* What was made of the old one is not used for the new one. */
static void another_takes_the_place(void **state)
{
	keep(HELLO);
	assert_true(keep(HELLO));
	find(HELLO)->lines_length = 7;
	find(HELLO)->reports_nothing = true;
	const char *other = "HTTP/1.1 200 OK\r\nContent-Type: text/html!\r\nContent-Length: 5\r\n\r\nhello";
	assert_false(keep(other));
	assert_non_null(find(HELLO));
	assert_true(keep(other));
	assert_int_equal(find(other)->lines_length, 0);
	assert_false(find(other)->reports_nothing);
	assert_null(find(HELLO));
	weir_answers_forget(&recent);
}

static void some_are_not_kept(void **state)
{
	static char many[8192], large[8192];
	char *to = many + sprintf(many, "HTTP/1.1 200 OK\r\n");
	for (unsigned i = 0; i < WEIR_ANSWER_FIELDS; i++)
		to += sprintf(to, "X-%u: y\r\n", i);
	sprintf(to, "Content-Length: 1\r\n\r\nx");
	to = large + sprintf(large, "HTTP/1.1 200 OK\r\nX: ");
	memset(to, 'y', WEIR_ANSWER_BYTES);
	sprintf(to + WEIR_ANSWER_BYTES, "\r\nContent-Length: 1\r\n\r\nx");
	const char *const cases[] = {
		"HTTP/1.1 200 OK\r\nset-cookie: a=b\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: y\r\n\r\nx",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 1\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n",
		many,
		large,
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int again = 0; again < 3; again++)
			assert_false(keep(cases[i]));
	weir_answers_forget(&recent);
}

static void without_memory_nothing_is_kept(void **state)
{
	uint64_t before = weir_mem_live();
	keep(HELLO);
	weir_mem_fail_after(1);
	assert_false(keep(HELLO));
	weir_mem_fail_after(0);
	assert_true(keep(HELLO));
	assert_int_equal(weir_mem_live(), before + 1);
	weir_answers_forget(&recent);
	assert_int_equal(weir_mem_live(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_head_is_kept_when_it_comes_again),
		cmocka_unit_test(all_bytes_count),
		cmocka_unit_test(another_takes_the_place),
		cmocka_unit_test(some_are_not_kept),
		cmocka_unit_test(without_memory_nothing_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
