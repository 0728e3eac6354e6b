/* SPDX-License-Identifier: Apache-2.0 */
/* The live screen of `weir load`: the picture at several sizes, and lines where there is no terminal. */
#include "support/check.h"

#include <locale.h>
#include <stdio.h>

#include "load/screen_draw.h"
#include "on_load.h"
#include "show/terminal.h"

static const char *const names[] = {"gold", "bronze"};

/* Three seconds of five: one request ok in 10 ms in the first, three in the second of which one is too slow, two shed in the third. */
static void make(made_load *made)
{
	made_load_init(made, 2, 1, 5, 100000000);
	made->story.class_names = names;
	made->story.asked_rate = 10;
	made->story.length_ns = 3200000000;
	for (unsigned i = 0; i < 6; i++)
		made_load_sent(made, i % 2, 0, i < 1 ? 0 : i < 4 ? 1 : 2, 0);
	made_load_ended(made, 0, 0, 0, LOAD_OK, 10000000, 200);
	made_load_ended(made, 0, 0, 1, LOAD_OK, 20000000, 200);
	made_load_ended(made, 1, 0, 1, LOAD_OK, 40000000, 200);
	made_load_ended(made, 1, 0, 1, LOAD_OK, 400000000, 200);
	made_load_ended(made, 0, 0, 2, LOAD_SHED, 1000000, 503);
	made_load_ended(made, 1, 0, 2, LOAD_SHED, 1000000, 503);
}

static void expect_line(const weir_screen *screen, unsigned row, const char *expected)
{
	char text[4 * 1000 + 1];
	weir_screen_line(screen, row, text);
	assert_string_equal(text, expected);
}

static void the_picture(void **state)
{
	static const char *const rows[] = {
		" weir load http://127.0.0.1:8080/                                3.20s of 5.00s",
		" open, Poisson, 10/s",
		" ##############################################..........................  64%",
		"",
		"            asked    sent      ok    good    shed  failed    late    open",
		" now /s        10       2       0       0       2       0       0       0",
		" mean /s        -     1.9     1.2     0.9     0.6       0       0",
		"",
		"             mean     p50     p90     p99   p99.9     max",
		" now            -       -       -       -       -       -",
		" in all     118ms    20ms   398ms   398ms   398ms   400ms",
		"",
		" good                                                 =#_ 0/s",
		" p90                                                  _#  -, target 100ms",
		" shed                                                 __# 2/s",
		"",
		" class             sent/s    ok/s  good/s  shed/s     p50     p90     p99",
		" gold                 0.9     0.6     0.6     0.3    10ms    20ms    20ms",
		" bronze               0.9     0.6     0.3     0.3    40ms   398ms   398ms",
		"",
	};
	made_load made;
	weir_screen screen;
	make(&made);
	assert_int_equal(weir_screen_init(&screen, 24, 80, false), 0);
	load_screen_picture(&screen, &made.story);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		expect_line(&screen, i, rows[i]);
	weir_screen_fini(&screen);
	made_load_fini(&made);
}

static void it_tells_what_is_wrong(void **state)
{
	made_load made;
	weir_screen screen;
	make(&made);
	made.tally.unsent = made.tally.missed = 2;
	made.tally.behind = 1;
	made_load_sent(&made, 0, 0, 2, 2500000);
	made_load_ended(&made, 0, 0, 2, LOAD_ERROR, 0, 0);
	made.tally.errors[LOAD_ERROR_CUT] = 1;
	made_load_ended(&made, 0, 0, 2, LOAD_TIMEOUT, 0, 0);
	made_load_ended(&made, 0, 0, 2, LOAD_ABORTED, 0, 0);
	assert_int_equal(weir_screen_init(&screen, 24, 80, false), 0);
	load_screen_picture(&screen, &made.story);
	expect_line(&screen, 3, " !!! THE GENERATOR FALLS BEHIND: 11.1% late, by up to 2.50ms");
	expect_line(&screen, 16, " failed   cut 1  timeout 1  aborted 1");
	weir_screen_fini(&screen);
	made.tally.missed = made.tally.behind = 0;
	assert_int_equal(weir_screen_init(&screen, 24, 80, false), 0);
	load_screen_picture(&screen, &made.story);
	expect_line(&screen, 3, " !!! NO CONNECTION IS FREE: 11.1% late, by up to 2.50ms");
	weir_screen_fini(&screen);
	made_load_fini(&made);
}

/* Whatever the size: nothing is written outside (the sanitizer sees it), and no number is cut. */
static void any_size(void **state)
{
	made_load made;
	weir_screen screen;
	make(&made);
	for (unsigned rows = 1; rows < 30; rows += 3)
		for (unsigned columns = 1; columns < 130; columns += 4) {
			assert_int_equal(weir_screen_init(&screen, rows, columns, true), 0);
			load_screen_picture(&screen, &made.story);
			weir_screen_fini(&screen);
		}
	/* 17 rows have none to spare; of 40 columns the table has three that are whole. */
	assert_int_equal(weir_screen_init(&screen, 12, 40, false), 0);
	load_screen_picture(&screen, &made.story);
	expect_line(&screen, 3, "            asked    sent      ok");
	expect_line(&screen, 4, " now /s        10       2       0");
	weir_screen_fini(&screen);
	made_load_fini(&made);
}

static void before_anything_has_happened(void **state)
{
	made_load made;
	weir_screen screen;
	made_load_init(&made, 1, 1, 0, UINT64_MAX);
	made.story.planned_ns = UINT64_MAX;
	made.story.url = made.story.arrivals = NULL;
	assert_int_equal(weir_screen_init(&screen, 24, 80, false), 0);
	load_screen_picture(&screen, &made.story);
	expect_line(&screen, 0,
		    " weir load                                               0, until it is stopped");
	expect_line(&screen, 2, "");
	expect_line(&screen, 5, " no second is over yet");
	expect_line(&screen, 10, " in all         -       -       -       -       -       -");
	expect_line(&screen, 13, " p90                                                      -");
	weir_screen_fini(&screen);
	made_load_fini(&made);
}

/* More than a minute: the last sixty seconds are shown, the newest at the right. */
static void a_minute_is_the_last_one(void **state)
{
	made_load made;
	weir_screen screen;
	made_load_init(&made, 1, 1, 90, UINT64_MAX);
	for (unsigned i = 0; i < 90; i++)
		made.tally.second[i].good = i < 89 ? 100 : 1000;
	/* A minute and one second ago: out of sight, and of the scale. */
	made.tally.second[29].good = 100000;
	assert_int_equal(weir_screen_init(&screen, 24, 100, false), 0);
	load_screen_picture(&screen, &made.story);
	expect_line(&screen, 12,
		    " good     ...........................................................# 1000/s");
	weir_screen_fini(&screen);
	made_load_fini(&made);
}

static char *drawn(made_load *made, bool terminal)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	load_screen *screen = NULL;
	assert_int_equal(load_screen_open(out, terminal, &screen), 0);
	for (uint64_t ms = 500; ms <= 3200; ms += 450) {
		made->story.length_ns = ms * 1000000;
		load_screen_draw(screen, &made->story);
	}
	load_screen_close(&screen);
	assert_null(screen);
	fclose(out);
	return text;
}

static void a_line_a_second_without_a_terminal(void **state)
{
	made_load made;
	make(&made);
	char *text = drawn(&made, false);
	assert_string_equal(
		text,
		"1s  sent 1  ok 1  good 1  shed 0  failed 0  late 0  open 0  p50 10ms  p90 10ms  p99 10ms\n"
		"2s  sent 3  ok 3  good 2  shed 0  failed 0  late 0  open 0  p50 40ms  p90 398ms  p99 398ms\n"
		"3s  sent 2  ok 0  good 0  shed 2  failed 0  late 0  open 0\n");
	free(text);
	made_load_fini(&made);
}

static void another_run_begins_with_its_first_second(void **state)
{
	made_load made;
	char *text;
	size_t size;
	load_screen *screen = NULL;
	FILE *out = open_memstream(&text, &size);
	make(&made);
	assert_int_equal(load_screen_open(out, false, &screen), 0);
	for (unsigned run = 0; run < 2; run++)
		for (unsigned second = 0; second <= 2; second++) {
			made.story.length_ns = second * UINT64_C(1000000000);
			load_screen_draw(screen, &made.story);
		}
	load_screen_close(&screen);
	fclose(out);
	const char *again = strstr(text, "\n1s ");
	assert_non_null(again);
	check_contains(again, "\n2s ");
	free(text);
	made_load_fini(&made);
}

static void a_terminal_is_left_as_it_was(void **state)
{
	made_load made;
	make(&made);
	char *text = drawn(&made, true);
	assert_int_equal(strncmp(text, "\033[?1049h\033[?25l", 14), 0);
	assert_string_equal(text + strlen(text) - 18, "\033[0m\033[?25h\033[?1049l");
	check_contains(text, "http://127.0.0.1:8080/");
	free(text);
	made_load_fini(&made);
}

static void without_memory(void **state)
{
	made_load made;
	load_screen *screen = NULL;
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	make(&made);
	weir_mem_fail_after(1);
	assert_int_equal(load_screen_open(out, true, &screen), -12);
	assert_null(screen);
	assert_int_equal(load_screen_open(out, true, &screen), 0);
	weir_mem_fail_after(1);
	load_screen_draw(screen, &made.story);
	load_screen_draw(screen, &made.story);
	load_screen_close(&screen);
	fclose(out);
	check_contains(text, "3.20s of 5.00s");
	free(text);
	made_load_fini(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(the_picture),
		CHECK_TEST(it_tells_what_is_wrong),
		CHECK_TEST(any_size),
		CHECK_TEST(before_anything_has_happened),
		CHECK_TEST(a_minute_is_the_last_one),
		CHECK_TEST(a_line_a_second_without_a_terminal),
		CHECK_TEST(another_run_begins_with_its_first_second),
		CHECK_TEST(a_terminal_is_left_as_it_was),
		CHECK_TEST(without_memory),
	};
	setlocale(LC_ALL, "C");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
