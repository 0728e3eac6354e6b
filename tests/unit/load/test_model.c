/* SPDX-License-Identifier: Apache-2.0 */
/* Models of users: what is read, how often each page comes, what happens on a rejection, and every mistake with its line. */
#include "support/check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "load/work.h"

#define MS WEIR_NS_PER_MS
#define S  WEIR_NS_PER_S

static const load_habits plain = {.method = NULL};
static const load_seen fine = {.status = 200}, shed = {.status = 503}, none = {.status = 0};

static load_work *made_with(const load_habits *habits, const char *text)
{
	load_work *work = NULL;
	if (load_work_model_text(habits, "m", text, strlen(text), &work) < 0)
		fail_msg("%s", weir_error());
	return work;
}

static load_work *made(const char *text)
{
	return made_with(&plain, text);
}

static const char *page_of(const load_work *work, const load_next *next)
{
	return next->form != NULL ? load_work_path(work, next->form->path) : "end";
}

static const char *target_of(const load_next *next)
{
	static char text[600];
	weir_span target = next->target.length > 0 ? next->target : next->form->target;
	snprintf(text, sizeof text, "%.*s", (int)target.length, target.at);
	return text;
}

/* Goes on after what was seen, and must come to this page. */
static void comes(const load_work *work, load_user *user, const load_seen *seen, const char *page,
		  uint64_t think_ns)
{
	load_next next;
	load_user_next(work, user, seen, &next);
	assert_string_equal(page_of(work, &next), page);
	assert_int_equal(next.think_ns, think_ns);
}

#define THREE                                                 \
	"[model]\nthink = 20ms\nrejected = wait 5s, one\n"    \
	"[page one]\ntarget = /1\nnext = two\n"               \
	"[page two]\ntarget = /2\nthink = 1s\nnext = three\n" \
	"[page three]\nmethod = DELETE\ntarget = /3\nnext = back\n"

static void pages_come_one_after_the_other(void **state)
{
	load_work *work = made(THREE);
	load_user user;
	load_user_start(work, &user, 1);
	comes(work, &user, NULL, "one", 0);
	comes(work, &user, &fine, "two", 20 * MS);
	comes(work, &user, &fine, "three", S);
	comes(work, &user, &fine, "two", 20 * MS);
	comes(work, &user, &shed, "one", 5 * S);
	comes(work, &user, &none, "two", 20 * MS);
	load_user_end(work, &user);
	assert_null(load_work_only(work));
	assert_int_equal(load_work_paths(work), 3);
	load_work_free(&work);
}

static void back_on_the_first_page_is_the_start(void **state)
{
	load_work *work = made("[page one]\ntarget = /1\nnext = back\n");
	load_user user;
	load_user_start(work, &user, 1);
	comes(work, &user, NULL, "one", 0);
	comes(work, &user, &fine, "one", 0);
	load_work_free(&work);
}

static void sessions_end_where_the_model_says(void **state)
{
	load_work *work = made("[model]\nstart = b\nfailed = wait 0, end\n[page a]\ntarget = /a\nnext = end\n"
			       "[page b]\ntarget = /b\nnext = a\n");
	static const unsigned failures[] = {0, 400, 404, 500, 504};
	load_user user;
	load_user_start(work, &user, 1);
	comes(work, &user, NULL, "b", 0);
	comes(work, &user, &fine, "a", 0);
	comes(work, &user, &fine, "end", 0);
	for (unsigned i = 0; i < 5; i++) {
		load_user_start(work, &user, 1);
		comes(work, &user, NULL, "b", 0);
		comes(work, &user, &(load_seen){.status = failures[i]}, "end", 0);
	}
	/* A rejection is no failure, and nothing is said about one. */
	load_user_start(work, &user, 1);
	comes(work, &user, NULL, "b", 0);
	comes(work, &user, &shed, "a", 0);
	load_work_free(&work);
	work = made_with(&(load_habits){.requests = 2, .think_ns = MS}, "[page a]\ntarget = /a\nnext = a\n");
	load_user_start(work, &user, 1);
	comes(work, &user, NULL, "a", 0);
	comes(work, &user, &fine, "a", MS);
	comes(work, &user, &fine, "end", 0);
	load_work_free(&work);
}

static void forms_have_what_pages_say(void **state)
{
	load_work *work = made_with(&(load_habits){.method = "PUT", .body = "b", .body_length = 1},
				    "[class gold]\nfields = X: 1 | Y: 2\n[class plain]\n"
				    "[page a]\ntarget = /a\nclass = plain\nnext = b\n"
				    "[page b]\ntarget = /b\nbody = k=v&w # not\nnext = c\n"
				    "[page c]\nmethod = DELETE\ntarget = /c\nnext = a\n");
	static const struct {
		const char *method, *body, *fields;
		unsigned klass;
	} expected[] = {{"PUT", "b", "", 1},
			{"POST", "k=v&w", "X: 1\r\nY: 2\r\n", 0},
			{"DELETE", "", "X: 1\r\nY: 2\r\n", 0}};
	load_user user;
	load_next next;
	assert_int_equal(load_work_classes(work), 2);
	load_user_start(work, &user, 1);
	for (unsigned i = 0; i < 3; i++) {
		load_user_next(work, &user, i > 0 ? &fine : NULL, &next);
		const load_form *form = next.form;
		assert_int_equal(form->klass, expected[i].klass);
		assert_true(form->method.length == strlen(expected[i].method) &&
			    memcmp(form->method.at, expected[i].method, form->method.length) == 0);
		assert_true(form->body.length == strlen(expected[i].body) &&
			    memcmp(form->body.at, expected[i].body, form->body.length) == 0);
		assert_true(form->fields.length == strlen(expected[i].fields) &&
			    memcmp(form->fields.at, expected[i].fields, form->fields.length) == 0);
	}
	load_work_free(&work);
}

static void targets_are_made_with_numbers(void **state)
{
	load_work *work = made("[model]\nusers = 50\n"
			       "[page a]\ntarget = /u/{user}/m/{7..9}?x={0..4294967295}&y\nnext = a\n");
	unsigned users[50] = {0}, messages[10] = {0};
	double sum = 0;
	for (uint64_t i = 0; i < 2000; i++) {
		unsigned user_number, again, message;
		double number;
		load_user user;
		load_next next;
		load_user_start(work, &user, i);
		load_user_next(work, &user, NULL, &next);
		char rest[4];
		assert_int_equal(sscanf(target_of(&next), "/u/%u/m/%u?x=%lf&%3s", &user_number, &message,
					&number, rest),
				 4);
		load_user_next(work, &user, &fine, &next);
		assert_int_equal(sscanf(target_of(&next), "/u/%u/", &again), 1);
		assert_int_equal(user_number, again);
		assert_true(user_number < 50 && message >= 7 && message <= 9);
		users[user_number]++;
		messages[message]++;
		sum += number;
		load_user_end(work, &user);
	}
	for (unsigned i = 0; i < 50; i++)
		assert_true(users[i] > 12 && users[i] < 75);
	for (unsigned i = 7; i < 10; i++)
		assert_true(messages[i] > 580 && messages[i] < 750);
	assert_true(fabs(sum / 2000 / 4294967295.0 - 0.5) < 0.03);
	load_work_free(&work);
}

/* Other braces stand for themselves. The form is not one of those that are kept as bytes, so there is a target. */
static void bodies_are_made_with_numbers(void **state)
{
	load_work *work = made("[model]\nusers = 50\n[page a]\ntarget = /a\n"
			       "body = {\"user\": {user}, \"x\": {}, \"n\": {7..9}}\nnext = b\n"
			       "[page b]\ntarget = /b/{user}\nbody = {1..1}\nnext = a\n");
	for (uint64_t i = 0; i < 200; i++) {
		unsigned number, again, drawn;
		char text[100];
		load_user user;
		load_next next;
		load_user_start(work, &user, i);
		load_user_next(work, &user, NULL, &next);
		snprintf(text, sizeof(text), "%.*s", (int)next.form->body.length, next.form->body.at);
		assert_int_equal(sscanf(text, "{\"user\": %u, \"x\": {}, \"n\": %u}", &number, &drawn), 2);
		assert_int_equal(text[strlen(text) - 1], '}');
		assert_true(number < 50 && drawn >= 7 && drawn <= 9);
		assert_int_equal(next.target.length, 2);
		assert_int_equal(next.form->path, 0);
		load_user_next(work, &user, &fine, &next);
		assert_int_equal(sscanf(target_of(&next), "/b/%u", &again), 1);
		assert_int_equal(number, again);
		assert_int_equal(next.form->body.length, 1);
		assert_int_equal(next.form->path, 1);
		load_user_end(work, &user);
	}
	load_work_free(&work);
}

static void without_memory_numbers_are_the_lowest(void **state)
{
	load_work *work = made("[page a]\ntarget = /{user}/{7..9}\nbody = {user}.{3..4}\nnext = a\n");
	load_user user;
	load_next next;
	load_user_start(work, &user, 1);
	weir_mem_fail_after(1);
	load_user_next(work, &user, NULL, &next);
	weir_mem_fail_after(0);
	assert_string_equal(target_of(&next), "/0/7");
	assert_int_equal(next.form->body.length, 3);
	assert_memory_equal(next.form->body.at, "0.3", 3);
	load_user_end(work, &user);
	load_work_free(&work);
}

/* ---- how often ---- */

/*
 * The webmail model. Delete and refile go back to where they came from, so list, show and search lead to themselves by way of them; without those two the chain is
 * login → folders → list, and the balance of the rest gives how often each page comes.
 */
static void webmail_pages_come_as_often_as_they_should(void **state)
{
	enum { LOGIN, FOLDERS, LIST, SHOW, DELETE, REFILE, SEARCH, PAGES, N = 400000 };
	static const double to[PAGES][PAGES] = {
		[LOGIN] = {[FOLDERS] = 1},
		[FOLDERS] = {[LIST] = 1},
		[LIST] = {[LOGIN] = .27, [SHOW] = .68, [LIST] = .04, [SEARCH] = .01},
		[SHOW] = {[LOGIN] = .03, [LIST] = .58, [SHOW] = .38, [SEARCH] = .01},
		[SEARCH] = {[LOGIN] = .27, [SHOW] = .68, [SEARCH] = .05},
	};
	double share[PAGES] = {[LOGIN] = 1}, next_share[PAGES], seen[PAGES] = {0};
	for (unsigned step = 0; step < 2000; step++) {
		memset(next_share, 0, sizeof next_share);
		for (unsigned i = 0; i < PAGES; i++)
			for (unsigned j = 0; j < PAGES; j++)
				next_share[j] += share[i] * to[i][j];
		/* Half a step only, so that it settles. */
		for (unsigned i = 0; i < PAGES; i++)
			share[i] = (share[i] + next_share[i]) / 2;
	}
	/* Each visit to those pages takes its share of visits to delete and refile along. */
	share[DELETE] = .02 * share[LIST] + .18 * share[SHOW] + .02 * share[SEARCH];
	share[REFILE] = .02 * share[LIST] + .20 * share[SHOW] + .02 * share[SEARCH];
	double all = 1 + share[DELETE] + share[REFILE];
	load_work *work = NULL;
	load_user user;
	load_next next;
	if (load_work_model(&plain, WEBMAIL_MODEL, &work) < 0)
		fail_msg("%s", weir_error());
	assert_int_equal(load_work_paths(work), PAGES);
	assert_string_equal(load_work_path(work, SEARCH), "search");
	load_user_start(work, &user, 3);
	for (unsigned i = 0; i < N; i++) {
		load_user_next(work, &user, i > 0 ? &fine : NULL, &next);
		assert_int_equal(next.think_ns, i > 0 ? 20 * MS : 0);
		seen[next.form->path]++;
	}
	load_user_end(work, &user);
	load_work_free(&work);
	for (unsigned i = 0; i < PAGES; i++) {
		double expected = share[i] / all, off = fabs(seen[i] / N - expected);
		/* Visits are not independent: 6 standard deviations of those that are. */
		if (off > 6 * sqrt(expected * (1 - expected) / N))
			fail_msg("page %u: %g, not %g", i, seen[i] / N, expected);
	}
}

/* ---- mistakes ---- */

#define A "[page a]\ntarget = /a\nnext = a\n"

static const struct {
	const char *text, *line, *why;
} wrong[] = {
	{"", "m:1:", "no page"},
	{"[model]\n", "m:1:", "no page"},
	{"x = 1\n", "m:1:", "before the first section"},
	{"[page a\n", "m:1:", "ends with ']'"},
	{"[]\n", "m:1:", "there is no section"},
	{"[pages a]\n", "m:1:", "there is no section"},
	{"[page]\n", "m:1:", "not a name"},
	{"[page a b]\n", "m:1:", "not a name"},
	{"[page end]\n", "m:1:", "meaning of its own"},
	{"[page back]\n", "m:1:", "meaning of its own"},
	{"[page abcdefghijklmnopqrstuvwxyzabcdefghij]\n", "m:1:", "not a name"},
	{A "\n[page a]\n", "m:5:", "taken since line 1"},
	{A "[model]\n", "m:4:", "comes first"},
	{"[model]\n[model]\n", "m:2:", "there once"},
	{"[model x]\n", "m:1:", "no name"},
	{"[page a]\ntarget\n", "m:2:", "neither a section nor a setting"},
	{"[page a]\ntarget =\n", "m:2:", "neither of them empty"},
	{"[page a]\n= /\n", "m:2:", "neither of them empty"},
	{"[page a]\ncolour = red\n", "m:2:", "accepted are method, target"},
	{"[model]\ntarget = /\n", "m:2:", "accepted are start, think"},
	{"[class x]\nclass = /\n", "m:2:", "accepted are fields"},
	{"[page a]\ntarget = /a\ntarget = /b\n", "m:3:", "set twice"},
	{"[page a]\ntarget = a\n", "m:2:", "not a target"},
	{"[page a]\ntarget = /a b\n", "m:2:", "not a target"},
	{"[page a]\ntarget = /{\n", "m:2:", "in pairs"},
	{"[page a]\ntarget = /}\n", "m:2:", "in pairs"},
	{"[page a]\ntarget = /{}\n", "m:2:", "{user}"},
	{"[page a]\ntarget = /{users}\n", "m:2:", "{user}"},
	{"[page a]\ntarget = /{1..}\n", "m:2:", "{1..100}"},
	{"[page a]\ntarget = /{5..4}\n", "m:2:", "larger"},
	{"[page a]\ntarget = /{0..0}\n", "m:2:", "larger"},
	{"[page a]\ntarget = /{1..99999999999}\n", "m:2:", "{1..100}"},
	{"[page a]\ntarget = /{user}{user}{user}{user}{user}\n", "m:2:", "at most 4"},
	{"[page a]\ntarget = /\nbody = {user}{user}{user}{user}{user}\n", "m:3:", "at most 4"},
	{"[page a]\nmethod = G T\n", "m:2:", "not a method"},
	{"[page a]\nthink = fast\n", "m:2:", "20ms"},
	{"[page a]\nthink = exponential\n", "m:2:", "20ms"},
	{"[model]\nthink = 5\n", "m:2:", "20ms"},
	{"[model]\nusers = 0\n", "m:2:", "from 1"},
	{"[model]\nusers = many\n", "m:2:", "a whole number"},
	{"[model]\nstart = a b\n", "m:2:", "not a name"},
	{"[model]\nstart = b\n" A, "m:2:", "no page 'b'"},
	{"[model]\nstart = end\n" A, "m:2:", "begin with its end"},
	{"[model]\nrejected = 5s, a\n" A, "m:2:", "wait 5s, PAGE"},
	{"[model]\nrejected = wait 5s\n" A, "m:2:", "wait 5s, PAGE"},
	{"[model]\nrejected = wait exponential, a\n" A, "m:2:", "exponential 5s"},
	{"[model]\nrejected = wait 1001h, a\n" A, "m:2:", "1000h"},
	{"[model]\nrejected = wait long, a\n" A, "m:2:", "rejected:"},
	{"[model]\nrejected = wait 5s, a b\n" A, "m:2:", "not a name"},
	{"[model]\nrejected = wait 5s, b\n" A, "m:2:", "no page 'b'"},
	{"[model]\nfailed = wait 2000h, a\n" A, "m:2:", "1000h"},
	{"[model]\nfailed = wait 5s, back\n" A, "m:2:", "no page 'back'"},
	{"[page a]\nnext = a\n", "m:1:", "no target"},
	{"\n[page a]\ntarget = /\n", "m:2:", "what comes next is missing"},
	{"[page a]\ntarget = /\nnext = b\n", "m:3:", "no page 'b'"},
	{"[page a]\ntarget = /\nnext = a .5, end .4\n", "m:3:", "add up to 1"},
	{"[page a]\ntarget = /\nnext = a .5, end .6\n", "m:3:", "add up to 1"},
	{"[page a]\ntarget = /\nnext = a .5, a .5\n", "m:3:", "there twice"},
	{"[page a]\ntarget = /\nnext = a -1, end 2\n", "m:3:", "above 0"},
	{"[page a]\ntarget = /\nnext = a x\n", "m:3:", "names with shares"},
	{"[page a]\ntarget = /\nnext = a, , end\n", "m:3:", "name"},
	{"[page a]\ntarget = /\nclass = c\nnext = a\n", "m:3:", "no class 'c'"},
	{"[class c]\nfields = X\n", "m:2:", "not a field"},
	{"[class c]\nfields = Host: x\n", "m:2:", "client itself"},
	{"[class c]\n[class c]\n", "m:2:", "taken since line 1"},
	{"[class c d]\n", "m:1:", "not a name"},
	{A "[page b]\ntarget = /b\nnext = a\n", "m:4:", "no way leads"},
	{"[page a]\ntarget = /\x01\n", "m:2:", "not text"},
	{"[page a]\n\xff\n", "m:2:", "not text"},
};

static void mistakes_are_told_with_their_line(void **state)
{
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		load_work *work = NULL;
		int failed = load_work_model_text(&plain, "m", wrong[i].text, strlen(wrong[i].text), &work);
		if (failed != -EINVAL || strncmp(weir_error(), wrong[i].line, strlen(wrong[i].line)) != 0 ||
		    strstr(weir_error(), wrong[i].why) == NULL)
			fail_msg("%s: %d, %s", wrong[i].text, failed, weir_error());
		assert_null(work);
	}
}

static void there_are_bounds(void **state)
{
	size_t room = 3u << 20;
	char *text = calloc(1, room);
	load_work *work = NULL;
	for (unsigned i = 0; i < 61; i++)
		sprintf(text + strlen(text), "[page p%u]\ntarget = /\nnext = p%u\n", i, (i + 1) % 61);
	assert_int_equal(load_work_model_text(&plain, "m", text, strlen(text), &work), -EINVAL);
	check_contains(weir_error(), "m:181: too many sections; at most 60");
	*text = '\0';
	for (unsigned i = 0; i < 17; i++)
		sprintf(text + strlen(text), "[class c%u]\n", i);
	assert_int_equal(load_work_model_text(&plain, "m", text, strlen(text), &work), -EINVAL);
	check_contains(weir_error(), "m:17: too many sections; at most 16");
	memset(text, ' ', room);
	assert_int_equal(load_work_model_text(&plain, "m", text, 2000, &work), -EINVAL);
	check_contains(weir_error(), "m:1: a line of at most");
	memset(text, '\n', room);
	assert_int_equal(load_work_model_text(&plain, "m", text, room, &work), -EINVAL);
	check_contains(weir_error(), "at most 1 MB");
	sprintf(text, "[page a]\ntarget = /%0600d{user}\nnext = a\n", 0);
	assert_int_equal(load_work_model_text(&plain, "m", text, strlen(text), &work), -EINVAL);
	check_contains(weir_error(), "m:2: target: a target with braces");
	free(text);
}

static void what_does_not_go_together_is_refused(void **state)
{
	load_work *work = NULL;
	load_habits links = {.links = 1}, mix = {.mix = "a;b"};
	static const char classes[] = "[class c]\n" A;
	assert_int_equal(load_work_model_text(&links, "m", A, strlen(A), &work), -EINVAL);
	check_contains(weir_error(), "links");
	assert_int_equal(load_work_model_text(&mix, "m", classes, strlen(classes), &work), -EINVAL);
	check_contains(weir_error(), "classes of its own");
	work = made_with(&mix, A);
	assert_int_equal(load_work_classes(work), 2);
	load_work_free(&work);
	assert_int_equal(load_work_model(&plain, "/nowhere/m", &work), -ENOENT);
	assert_int_equal(load_work_model(&plain, "/", &work), -EIO);
	assert_null(work);
}

static void memory_that_runs_out_is_an_error(void **state)
{
	static const char text[] =
		"[model]\nrejected = wait 1s, a\n[class c]\nfields = X: 1\n[class d]\n"
		"[page a]\nbody = x{user}\ntarget = /{user}/{1..9}/b\nnext = a .5, end .5\n";
	for (uint64_t nth = 1;; nth++) {
		load_work *work = NULL;
		uint64_t live = weir_mem_live();
		weir_mem_fail_after(nth);
		int failed = load_work_model_text(&plain, "m", text, strlen(text), &work);
		weir_mem_fail_after(0);
		if (failed == 0) {
			load_work_free(&work);
			assert_true(nth > 15);
			break;
		}
		assert_int_equal(failed, -ENOMEM);
		assert_null(work);
		assert_int_equal(weir_mem_live(), live);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(pages_come_one_after_the_other),
		CHECK_TEST(back_on_the_first_page_is_the_start),
		CHECK_TEST(sessions_end_where_the_model_says),
		CHECK_TEST(forms_have_what_pages_say),
		CHECK_TEST(targets_are_made_with_numbers),
		CHECK_TEST(bodies_are_made_with_numbers),
		CHECK_TEST(without_memory_numbers_are_the_lowest),
		CHECK_TEST(webmail_pages_come_as_often_as_they_should),
		CHECK_TEST(mistakes_are_told_with_their_line),
		CHECK_TEST(there_are_bounds),
		CHECK_TEST(what_does_not_go_together_is_refused),
		CHECK_TEST(memory_that_runs_out_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
