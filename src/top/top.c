/* SPDX-License-Identifier: Apache-2.0 */
#include "top/top.h"

#include <curses.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "keys/options.h"
#include "keys/token.h"
#include "show/terminal.h"
#include "top/feed.h"
#include "top/screen.h"

#define ONCE_COLUMNS 100u
#define ONCE_ROWS    24u /* plus one for each stage and backend */
#define ONCE_MS      5000u
#define KEY_ESCAPE   27

typedef struct top {
	bool has_chosen; /* otherwise the selection follows what matters */
	char token[WEIR_TOKEN_BYTES];
	weir_top_feed feed;
	weir_top_model model;
	weir_top_view view;
} top;

static uint64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void take_snapshot(json_t *snapshot, void *arg)
{
	top *t = arg;
	weir_top_model_add(&t->model, snapshot);
}

/* Waits for the listener and, if there are any, for keys. */
static void wait_and_turn(top *t, bool keys)
{
	struct pollfd wait[2] = {{.fd = -1}, {.fd = STDIN_FILENO, .events = POLLIN}};
	int timeout_ms = weir_top_feed_wait(&t->feed, now_ms(), &wait[0]);
	if (poll(wait, keys ? 2 : 1, timeout_ms) < 0)
		wait[0].revents = 0;
	weir_top_feed_turn(&t->feed, wait[0].revents, now_ms());
}

static void look(top *t)
{
	size_t stages = weir_top_stage_count(&t->model);
	t->view.connected = t->feed.state == WEIR_TOP_READING && t->feed.problem[0] == '\0';
	t->view.problem = t->feed.problem[0] != '\0' ? t->feed.problem : "connecting";
	if (!t->has_chosen)
		t->view.chosen = weir_top_usual_stage(&t->model);
	if (t->view.chosen >= stages)
		t->view.chosen = stages > 0 ? stages - 1 : 0;
	if (t->view.scroll >= json_array_size(t->model.sheds))
		t->view.scroll = 0;
}

/* ---- --once ---- */

static unsigned columns_of_output(void)
{
	struct winsize size;
	return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40
		       ? size.ws_col
		       : ONCE_COLUMNS;
}

static int print_screen(const weir_screen *screen)
{
	char *text = malloc(4 * (size_t)screen->columns + 1);
	unsigned rows = screen->rows;
	if (text == NULL)
		return WEIR_EXIT_FAILED;
	while (rows > 0 && weir_screen_line(screen, rows - 1, text) == 0)
		rows--;
	for (unsigned row = 0; row < rows; row++) {
		weir_screen_line(screen, row, text);
		puts(text);
	}
	free(text);
	return WEIR_EXIT_OK;
}

static int run_once(top *t)
{
	weir_screen screen;
	uint64_t until_ms = now_ms() + ONCE_MS;
	while (t->model.snapshot == NULL && t->feed.problem[0] == '\0' && now_ms() < until_ms)
		wait_and_turn(t, false);
	if (t->model.snapshot == NULL) {
		fprintf(stderr, "weir top: nothing from http://%s: %s\n", t->feed.host,
			t->feed.problem[0] != '\0' ? t->feed.problem : "it does not answer");
		return WEIR_EXIT_FAILED;
	}
	size_t more =
		weir_top_stage_count(&t->model) + json_array_size(weir_top_at(t->model.snapshot, "backends"));
	if (weir_screen_init(&screen, ONCE_ROWS + (unsigned)more, columns_of_output(),
			     weir_terminal_utf8()) != 0)
		return WEIR_EXIT_FAILED;
	look(t);
	weir_top_draw(&screen, &t->model, &t->view);
	int status = print_screen(&screen);
	weir_screen_fini(&screen);
	return status;
}

/* ---- the terminal ---- */

static bool coloured;

static void choose_colours(void)
{
	static const short colours[WEIR_TONES] = {-1, -1, -1, COLOR_GREEN, COLOR_YELLOW, COLOR_RED};
	coloured =
		weir_terminal_colour() && has_colors() && start_color() == OK && use_default_colors() == OK;
	for (short tone = 0; coloured && tone < WEIR_TONES; tone++)
		init_pair((short)(tone + 1), colours[tone], -1);
}

/* Without colours, what matters still stands out. */
static attr_t attributes_of(const weir_cell *cell)
{
	static const attr_t with[WEIR_TONES] = {0, A_DIM, A_BOLD, 0, A_BOLD, A_BOLD};
	attr_t attributes = with[cell->tone] | (cell->chosen ? A_REVERSE : 0);
	if (cell->chosen)
		attributes &= ~A_DIM;
	return attributes;
}

static void show_cell(const weir_screen *screen, unsigned row, unsigned column)
{
	const weir_cell *cell = &screen->cells[(size_t)row * screen->columns + column];
	wchar_t sign[2] = {(wchar_t)cell->sign, L'\0'};
	cchar_t complex;
	setcchar(&complex, sign, attributes_of(cell), coloured ? (short)(cell->tone + 1) : 0, NULL);
	mvadd_wch((int)row, (int)column, &complex);
}

static void show(top *t)
{
	weir_screen screen;
	int rows, columns;
	getmaxyx(stdscr, rows, columns);
	if (rows < 1 || columns < 1 ||
	    weir_screen_init(&screen, (unsigned)rows, (unsigned)columns, weir_terminal_utf8()) != 0)
		return;
	look(t);
	weir_top_draw(&screen, &t->model, &t->view);
	erase();
	for (unsigned row = 0; row < screen.rows; row++)
		for (unsigned column = 0; column < screen.columns; column++)
			show_cell(&screen, row, column);
	move(rows - 1, 0);
	refresh();
	weir_screen_fini(&screen);
}

static void step(top *t, int by)
{
	bool scrolls = t->view.page == WEIR_TOP_SHEDDING || t->view.page == WEIR_TOP_COSTS;
	size_t *at = scrolls ? &t->view.scroll : &t->view.chosen;
	t->has_chosen = true;
	if (by > 0)
		*at += 1;
	else if (*at > 0)
		*at -= 1;
}

/* Shows the page, or returns to the overview if it is already shown. */
static void turn_to(top *t, weir_top_page page)
{
	t->view.page = t->view.page == page ? WEIR_TOP_OVERVIEW : page;
	t->view.scroll = 0;
}

/* false: quit. */
static bool press(top *t, int key)
{
	switch (key) {
	case 'q':
		return false;
	case 'j':
	case KEY_DOWN:
		step(t, 1);
		break;
	case 'k':
	case KEY_UP:
		step(t, -1);
		break;
	case '\r':
	case '\n':
	case KEY_ENTER:
		turn_to(t, WEIR_TOP_STAGE);
		break;
	case 's':
		turn_to(t, WEIR_TOP_SHEDDING);
		break;
	case 'c':
		turn_to(t, WEIR_TOP_COSTS);
		break;
	case 'i':
		t->model.unfolded = !t->model.unfolded;
		break;
	case '?':
	case 'h':
		turn_to(t, WEIR_TOP_HELP);
		break;
	case 'p':
	case ' ':
		weir_top_model_pause(&t->model, !t->model.paused);
		break;
	case KEY_ESCAPE:
	case 'b':
	case KEY_BACKSPACE:
		turn_to(t, WEIR_TOP_OVERVIEW);
		break;
	default:
		break;
	}
	return true;
}

static void follow(top *t)
{
	for (bool going = true; going;) {
		show(t);
		wait_and_turn(t, true);
		for (int key; going && (key = getch()) != ERR;)
			going = press(t, key);
		if (feof(stdin) || getppid() == 1)
			break; /* the terminal has gone */
	}
}

static int run_terminal(top *t)
{
	SCREEN *terminal = NULL;
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) ||
	    (terminal = newterm(NULL, stdout, stdin)) == NULL) {
		fputs("weir top: this is no terminal that it can draw on; --once prints the numbers once\n",
		      stderr);
		return WEIR_EXIT_FAILED;
	}
	set_term(terminal);
	set_escdelay(25);
	cbreak();
	noecho();
	nodelay(stdscr, TRUE);
	keypad(stdscr, TRUE);
	curs_set(0);
	choose_colours();
	t->view.keys = true;
	follow(t);
	endwin();
	delscreen(terminal);
	return WEIR_EXIT_OK;
}

/* ---- the program ---- */

static int read_token(top *t, const char *path)
{
	if (weir_token_read(path, t->token) == 0)
		return WEIR_EXIT_OK;
	fprintf(stderr, "weir top: --token-file: %s\n", weir_error());
	return WEIR_EXIT_FAILED;
}

int weir_top_run(const weir_top_options *options)
{
	top t = {0};
	setlocale(LC_ALL, "");
	int status = options->token_file != NULL ? read_token(&t, options->token_file) : WEIR_EXIT_OK;
	if (status != WEIR_EXIT_OK)
		return status;
	if (weir_top_feed_init(&t.feed, options->address, t.token, take_snapshot, &t) != 0) {
		fprintf(stderr, "weir top: %s\n", weir_error());
		return WEIR_EXIT_USAGE;
	}
	if (weir_top_model_init(&t.model) != 0)
		return WEIR_EXIT_FAILED;
	status = options->once ? run_once(&t) : run_terminal(&t);
	weir_top_feed_fini(&t.feed);
	weir_top_model_fini(&t.model);
	return status;
}
