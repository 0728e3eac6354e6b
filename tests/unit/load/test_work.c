/* SPDX-License-Identifier: Apache-2.0 */
/* What users ask for: targets and weights, classes, sessions, thinks, links and cookies. */
#include "on_work.h"

#define MS WEIR_NS_PER_MS

/* ---- targets ---- */

static void one_target_is_the_only_form(void **state)
{
	load_work *work = NULL;
	load_user user;
	load_next next;
	MADE(load_work_url(&plain, "/a?b=c", &work));
	const load_form *form = load_work_only(work);
	assert_non_null(form);
	assert_string_equal(text_of(form->method), "GET");
	assert_string_equal(text_of(form->target), "/a?b=c");
	assert_true(form->fields.length == 0 && form->body.length == 0 && form->klass == 0 &&
		    form->path == 0);
	assert_int_equal(load_work_classes(work), 1);
	assert_string_equal(load_work_class(work, 0), "all");
	assert_int_equal(load_work_paths(work), 1);
	assert_string_equal(load_work_path(work, 0), "/a?b=c");
	assert_int_equal(load_work_wants_bodies(work), 0);
	load_user_start(work, &user, 1);
	for (unsigned i = 0; i < 10; i++) {
		load_user_next(work, &user, NULL, &next);
		assert_ptr_equal(next.form, form);
		assert_true(next.target.length == 0 && next.cookies.length == 0 && next.think_ns == 0);
	}
	load_user_end(work, &user);
	load_work_free(&work);
	assert_null(work);
}

static void method_body_and_fields_are_of_every_request(void **state)
{
	const char *const fields[] = {"Accept: text/html", "X-A:1"};
	load_work *work = NULL;
	load_habits habits = {.body = "a\0b", .body_length = 3, .fields = fields, .field_count = 2};
	MADE(load_work_url(&habits, "/", &work));
	const load_form *form = load_work_only(work);
	assert_string_equal(text_of(form->method), "POST");
	assert_int_equal(form->body.length, 3);
	assert_memory_equal(form->body.at, "a\0b", 3);
	assert_string_equal(text_of(form->fields), "Accept: text/html\r\nX-A:1\r\n");
	load_work_free(&work);
	habits.method = "PUT";
	MADE(load_work_url(&habits, "/", &work));
	assert_string_equal(text_of(load_work_only(work)->method), "PUT");
	load_work_free(&work);
}

static void targets_may_be_written_with_their_server(void **state)
{
	static const char *const pairs[][2] = {
		{"http://h:80/x?y", "/x?y"}, {"http://h:80/", "/"}, {"/z", "/z"}};
	load_habits habits = {.origin = "http://h:80"};
	load_work *work = NULL;
	for (unsigned i = 0; i < 3; i++) {
		MADE(load_work_url(&habits, pairs[i][0], &work));
		assert_string_equal(text_of(load_work_only(work)->target), pairs[i][1]);
		load_work_free(&work);
	}
	MADE(load_work_url(&habits, "http://h:80", &work));
	assert_string_equal(text_of(load_work_only(work)->target), "/");
	load_work_free(&work);
	assert_int_equal(load_work_url(&habits, "http://h:8080/", &work), -EINVAL);
	check_contains(weir_error(), "not on the server");
	assert_int_equal(load_work_url(&plain, "http://h:80/", &work), -EINVAL);
	assert_null(work);
}

static void nothing_can_break_out_of_its_line(void **state)
{
	static const char *const targets[] = {"",      "x",   "/a b",      "/a\r\nX: 1", "/a\n",
					      "/\x01", "/#x", "/\xc3\xa4", "/\x7f"};
	static const char *const methods[] = {
		"", "GE T", "GET\r\n", "G\x01", "CONNECT", "GET:", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKL"};
	static const char *const fields[] = {"",
					     "X",
					     "X : 1",
					     ": 1",
					     "X: a\r\nY: 1",
					     "X: a\n",
					     "X: \x01",
					     "Host: a",
					     "content-length: 5",
					     "Transfer-Encoding: chunked",
					     "Connection: close",
					     "Upgrade: x",
					     "X\r\nY: 1",
					     "X: \x7f"};
	load_work *work = NULL;
	for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
		if (*targets[i] != '\0')
			assert_int_equal(load_work_url(&plain, targets[i], &work), -EINVAL);
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
		load_habits habits = {.method = methods[i]};
		assert_int_equal(load_work_url(&habits, "/", &work), -EINVAL);
	}
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		load_habits habits = {.fields = &fields[i], .field_count = 1};
		assert_int_equal(load_work_url(&habits, "/", &work), -EINVAL);
	}
	load_habits cookie = {.fields = &(const char *){"Cookie: a=b"}, .field_count = 1};
	MADE(load_work_url(&cookie, "/", &work));
	load_work_free(&work);
	cookie.cookies = true;
	assert_int_equal(load_work_url(&cookie, "/", &work), -EINVAL);
	load_habits bad_mix = {.mix = "a:X: 1\r\nY: 2"};
	assert_int_equal(load_work_url(&bad_mix, "/", &work), -EINVAL);
	assert_null(work);
}

static void weights_are_kept(void **state)
{
	const load_weighted targets[] = {{"/a", 1}, {"/b", 2}, {"/c", 5}};
	load_work *work = NULL;
	load_user user;
	load_next next;
	unsigned seen[3] = {0, 0, 0};
	MADE(load_work_urls(&plain, targets, 3, &work));
	assert_null(load_work_only(work));
	assert_int_equal(load_work_paths(work), 3);
	load_user_start(work, &user, 11);
	for (unsigned i = 0; i < 80000; i++) {
		load_user_next(work, &user, NULL, &next);
		assert_true(next.target.length == 0);
		assert_string_equal(text_of(next.form->target), load_work_path(work, next.form->path));
		seen[next.form->path]++;
	}
	near(seen[0] / 80000.0, 0.125, 80000);
	near(seen[1] / 80000.0, 0.25, 80000);
	near(seen[2] / 80000.0, 0.625, 80000);
	load_work_free(&work);
	assert_int_equal(load_work_urls(&plain, targets, 0, &work), -EINVAL);
	static const double wrong[] = {0, -1, 2e9, NAN, INFINITY};
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(load_work_urls(&plain, &(load_weighted){"/", wrong[i]}, 1, &work), -EINVAL);
}

/* ---- classes ---- */

static void classes_are_drawn_by_their_shares(void **state)
{
	const char *const field = "A: b";
	load_habits habits = {
		.mix = "gold=20:X-Class: gold; silver = 30 : X-Class: silver | X-Tier: 2;rest=50",
		.fields = &field,
		.field_count = 1};
	static const char *const fields[] = {"A: b\r\nX-Class: gold\r\n",
					     "A: b\r\nX-Class: silver\r\nX-Tier: 2\r\n", "A: b\r\n"};
	unsigned seen[3] = {0};
	load_work *work = NULL;
	MADE(load_work_url(&habits, "/", &work));
	assert_null(load_work_only(work));
	assert_int_equal(load_work_classes(work), 3);
	assert_string_equal(load_work_class(work, 1), "silver");
	for (uint64_t i = 0; i < 20000; i++) {
		load_user user;
		load_next next;
		load_user_start(work, &user, i);
		load_user_next(work, &user, NULL, &next);
		assert_int_equal(next.form->klass, user.klass);
		assert_string_equal(text_of(next.form->fields), fields[next.form->klass]);
		seen[next.form->klass]++;
	}
	near(seen[0] / 20000.0, 0.2, 20000);
	near(seen[1] / 20000.0, 0.3, 20000);
	load_work_free(&work);
}

static void mixes_that_are_none_are_refused(void **state)
{
	static const char *const wrong[] = {"",
					    "=1",
					    "a=0",
					    "a=-1",
					    "a=x",
					    "a;a",
					    "a b",
					    "a:",
					    "a:X",
					    "a:X: 1|",
					    "a;",
					    "a=1e10",
					    "a=nan",
					    "a:Host: x",
					    "a=1:Content-Length: 4",
					    "abcdefghijklmnopqrstuvwxyzabcdefghijklm"};
	load_work *work = NULL;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		load_habits habits = {.mix = wrong[i]};
		if (load_work_url(&habits, "/", &work) != -EINVAL)
			fail_msg("taken: %s", wrong[i]);
	}
	load_habits many = {.mix = "a;b;c;d;e;f;g;h;i;j;k;l;m;n;o;p;q"};
	assert_int_equal(load_work_url(&many, "/", &work), -EINVAL);
	many.mix = "a;b;c;d;e;f;g;h;i;j;k;l;m;n;o;p";
	MADE(load_work_url(&many, "/", &work));
	assert_int_equal(load_work_classes(work), LOAD_CLASSES_MAX);
	load_work_free(&work);
}

/* ---- sessions ---- */

static unsigned session(const load_work *work, uint64_t seed, double *ret_think)
{
	load_user user;
	load_next next;
	unsigned made = 0;
	load_user_start(work, &user, seed);
	for (;; made++) {
		load_user_next(work, &user, made > 0 ? &(load_seen){.status = 200} : NULL, &next);
		if (next.form == NULL)
			break;
		assert_true(made > 0 || next.think_ns == 0);
		*ret_think += (double)next.think_ns;
	}
	load_user_end(work, &user);
	return made;
}

static void sessions_have_their_length_and_think(void **state)
{
	load_habits habits = {.requests = 5, .think_ns = 20 * MS};
	load_work *work = NULL;
	double think = 0;
	MADE(load_work_url(&habits, "/", &work));
	assert_int_equal(session(work, 1, &think), 5);
	assert_true(think == 4.0 * 20 * MS);
	load_work_free(&work);
	habits = (load_habits){
		.requests = 4.5, .geometric = true, .think_ns = 20 * MS, .think_exponential = true};
	MADE(load_work_url(&habits, "/", &work));
	double made = 0, ones = 0;
	think = 0;
	for (uint64_t i = 0; i < 20000; i++) {
		unsigned length = session(work, i, &think);
		made += length;
		ones += length == 1;
	}
	/* The standard deviation of a geometric number of mean m is sqrt(m (m - 1)). */
	assert_true(fabs(made / 20000 - 4.5) < 4 * sqrt(4.5 * 3.5 / 20000));
	near(ones / 20000, 1 / 4.5, 20000);
	assert_true(fabs(think / (made - 20000) / (20 * MS) - 1) < 0.02);
	load_work_free(&work);
}

static void habits_that_are_none_are_refused(void **state)
{
	const load_habits wrong[] = {{.requests = -1},    {.requests = 0.5},        {.requests = 2.5},
				     {.requests = NAN},   {.requests = 1e10},       {.think_ns = UINT64_MAX},
				     {.field_count = 65}, {.body_length = SIZE_MAX}};
	load_work *work = NULL;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(load_work_url(&wrong[i], "/", &work), -EINVAL);
	assert_null(work);
}

/* ---- links and cookies ---- */

static void links_are_followed_so_far_and_no_further(void **state)
{
	load_habits habits = {.links = 2, .origin = "http://h"};
	load_seen page = {.status = 200, .body = WEIR_SPAN("<a href='b'>b</a>")};
	load_seen leaf = {.status = 200, .body = WEIR_SPAN("<p>no links")};
	load_seen shed = {.status = 503, .body = page.body};
	load_work *work = NULL;
	load_user user;
	load_next next;
	MADE(load_work_url(&habits, "/a/", &work));
	assert_null(load_work_only(work));
	assert_true(load_work_wants_bodies(work) >= 4096);
	assert_string_equal(load_work_path(work, 1), "links");
	load_user_start(work, &user, 1);
	load_user_next(work, &user, NULL, &next);
	assert_string_equal(target_of(&next), "/a/");
	load_user_next(work, &user, &page, &next);
	assert_string_equal(target_of(&next), "/a/b");
	assert_string_equal(load_work_path(work, next.form->path), "links");
	page.body = WEIR_SPAN("<a href='../c'>");
	load_user_next(work, &user, &page, &next);
	assert_string_equal(target_of(&next), "/c");
	/* The third in a row is too many. */
	load_user_next(work, &user, &(load_seen){.status = 200, .body = WEIR_SPAN("<a href='/d'>")}, &next);
	assert_string_equal(target_of(&next), "/a/");
	load_user_next(work, &user, &leaf, &next);
	assert_string_equal(target_of(&next), "/a/");
	load_user_next(work, &user, &shed, &next);
	assert_string_equal(target_of(&next), "/a/");
	load_user_next(work, &user, &page, &next);
	assert_string_equal(target_of(&next), "/c");
	load_user_end(work, &user);
	load_work_free(&work);
}

static void cookies_come_back(void **state)
{
	load_habits habits = {.cookies = true};
	weir_span cookies[] = {WEIR_SPAN("a=1; Path=/"), WEIR_SPAN("b=2")}, gone = WEIR_SPAN("a=; Max-Age=0");
	load_work *work = NULL;
	load_user user;
	load_next next;
	MADE(load_work_url(&habits, "/", &work));
	load_user_start(work, &user, 1);
	load_user_next(work, &user, NULL, &next);
	assert_int_equal(next.cookies.length, 0);
	load_user_next(work, &user, &(load_seen){.status = 200, .cookies = cookies, .cookie_count = 2},
		       &next);
	assert_string_equal(text_of(next.cookies), "a=1; b=2");
	load_user_next(work, &user, &(load_seen){.status = 200, .cookies = &gone, .cookie_count = 1}, &next);
	assert_string_equal(text_of(next.cookies), "b=2");
	load_user_end(work, &user);
	assert_null(user.own);
	load_work_free(&work);
}

/* A user without memory goes on, without links and cookies. */
static void users_do_without_memory(void **state)
{
	load_habits habits = {.cookies = true, .links = 3};
	weir_span cookie = WEIR_SPAN("a=1");
	load_seen page = {
		.status = 200, .body = WEIR_SPAN("<a href='/b'>"), .cookies = &cookie, .cookie_count = 1};
	load_work *work = NULL;
	load_next next;
	MADE(load_work_url(&habits, "/", &work));
	for (uint64_t nth = 1; nth < 4; nth++) {
		load_user user;
		load_user_start(work, &user, 1);
		weir_mem_fail_after(nth);
		for (unsigned i = 0; i < 3; i++) {
			load_user_next(work, &user, i > 0 ? &page : NULL, &next);
			assert_non_null(next.form);
		}
		weir_mem_fail_after(0);
		load_user_end(work, &user);
	}
	load_work_free(&work);
}

/* Nothing is allocated for a request. */
static void asking_takes_no_memory(void **state)
{
	load_habits habits = {
		.mix = "a;b", .requests = 100, .geometric = true, .think_ns = MS, .think_exponential = true};
	load_work *work = NULL;
	MADE(load_work_specweb(&habits, "", 3, &work));
	uint64_t before = weir_mem_count();
	double think = 0;
	for (uint64_t i = 0; i < 100; i++)
		session(work, i, &think);
	assert_int_equal(weir_mem_count(), before);
	load_work_free(&work);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(one_target_is_the_only_form),
		CHECK_TEST(method_body_and_fields_are_of_every_request),
		CHECK_TEST(targets_may_be_written_with_their_server),
		CHECK_TEST(nothing_can_break_out_of_its_line),
		CHECK_TEST(weights_are_kept),
		CHECK_TEST(classes_are_drawn_by_their_shares),
		CHECK_TEST(mixes_that_are_none_are_refused),
		CHECK_TEST(sessions_have_their_length_and_think),
		CHECK_TEST(habits_that_are_none_are_refused),
		CHECK_TEST(links_are_followed_so_far_and_no_further),
		CHECK_TEST(cookies_come_back),
		CHECK_TEST(users_do_without_memory),
		CHECK_TEST(asking_takes_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
