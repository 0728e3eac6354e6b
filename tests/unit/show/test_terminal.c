/* SPDX-License-Identifier: Apache-2.0 */
/* A screen on a terminal: what is written for a picture, and that the terminal is left as it was, also by a program that gives up. */
#include "support/check.h"

#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "show/terminal.h"

#define ENTERED "\033[?1049h\033[?25l"
#define LEFT    "\033[0m\033[?25h\033[?1049l"

static char *painted(const weir_screen *screen, bool colour)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	weir_terminal_paint(out, screen, colour);
	fclose(out);
	return text;
}

static void a_picture_is_written_in_one_piece(void **state)
{
	weir_screen screen;
	assert_int_equal(weir_screen_init(&screen, 3, 6, true), 0);
	weir_screen_put(&screen, 0, 0, 6, WEIR_TONE_BAD, "ab");
	weir_screen_put(&screen, 0, 3, 6, WEIR_TONE_PLAIN, "c");
	weir_screen_sign(&screen, 2, 0, WEIR_TONE_PLAIN, 0x2588, '#');
	weir_screen_put(&screen, 2, 1, 6, WEIR_TONE_PLAIN, "12345");
	char *with = painted(&screen, true), *without = painted(&screen, false);
	/* What is behind a row is erased, but not behind a row that is full: that would erase its last sign. */
	assert_string_equal(with, "\033[?2026h\033[H\033[0m\033[1;31mab \033[0mc\033[K\r\n\033[K\r\n\u2588"
				  "12345\033[?2026l");
	assert_string_equal(without, "\033[?2026h\033[H\033[0m\033[1mab \033[0mc\033[K\r\n\033[K\r\n\u2588"
				     "12345\033[?2026l");
	free(with);
	free(without);
	weir_screen_fini(&screen);
}

static void entered_and_left(void **state)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	weir_terminal_enter(out);
	assert_string_equal(text, ENTERED);
	weir_terminal_leave();
	assert_string_equal(text, ENTERED LEFT);
	weir_terminal_leave();
	fflush(out);
	assert_string_equal(text, ENTERED LEFT);
	fclose(out);
	free(text);
}

/* All that a child writes to a terminal of this size; it ends by exit() without leaving. */
static size_t seen_of_child(unsigned rows, unsigned columns, char *text, size_t room)
{
	struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
	int master, status;
	size_t length = 0;
	pid_t child = forkpty(&master, NULL, NULL, &size);
	assert_true(child >= 0);
	if (child == 0) {
		unsigned told_rows, told_columns;
		if (!weir_terminal_can(stdout))
			_exit(9);
		weir_terminal_enter(stdout);
		weir_terminal_size(stdout, &told_rows, &told_columns);
		printf("%ux%u", told_rows, told_columns);
		exit(7);
	}
	for (ssize_t got; length + 1 < room && (got = read(master, text + length, room - 1 - length)) > 0;)
		length += (size_t)got;
	text[length] = '\0';
	close(master);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	return length;
}

static void exit_leaves_it_as_it_was(void **state)
{
	char text[256];
	setenv("TERM", "xterm", 1);
	seen_of_child(11, 37, text, sizeof(text));
	assert_string_equal(text, ENTERED "11x37" LEFT);
}

static void a_terminal_that_does_not_tell_its_size_has_the_usual(void **state)
{
	char text[256];
	setenv("TERM", "xterm", 1);
	seen_of_child(0, 0, text, sizeof(text));
	assert_string_equal(text, ENTERED "24x80" LEFT);
}

static void colour_only_where_it_is_welcome(void **state)
{
	setenv("TERM", "xterm", 1);
	unsetenv("NO_COLOR");
	assert_true(weir_terminal_colour());
	setenv("NO_COLOR", "", 1);
	assert_true(weir_terminal_colour());
	setenv("NO_COLOR", "1", 1);
	assert_false(weir_terminal_colour());
	unsetenv("NO_COLOR");
	setenv("TERM", "dumb", 1);
	assert_false(weir_terminal_colour());
	unsetenv("TERM");
	assert_false(weir_terminal_colour());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(a_picture_is_written_in_one_piece),
		CHECK_TEST(entered_and_left),
		CHECK_TEST(exit_leaves_it_as_it_was),
		CHECK_TEST(a_terminal_that_does_not_tell_its_size_has_the_usual),
		CHECK_TEST(colour_only_where_it_is_welcome),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
