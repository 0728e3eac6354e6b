/* SPDX-License-Identifier: Apache-2.0 */
/* What users ask for: targets and weights, sizes, SPECweb99, traces, classes, sessions, thinks, links and cookies. */
#include "support/check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "load/work.h"
#include "sim/trace.h"

#define MS WEIR_NS_PER_MS

static const load_habits plain = {.method = NULL};

#define MADE(call)                                    \
	do {                                          \
		if ((call) < 0)                       \
			fail_msg("%s", weir_error()); \
	} while (0)

static const char *text_of(weir_span span)
{
	static char text[2][5000];
	static unsigned turn;
	turn ^= 1;
	assert_true(span.length < sizeof text[0]);
	if (span.length > 0)
		memcpy(text[turn], span.at, span.length);
	text[turn][span.length] = '\0';
	return text[turn];
}

/* What is sent as the target. */
static const char *target_of(const load_next *next)
{
	return text_of(next->target.length > 0 ? next->target : next->form->target);
}

static void near(double share, double expected, double of)
{
	double sigma = sqrt(expected * (1 - expected) / of);
	if (fabs(share - expected) > 4 * sigma + 1e-12)
		fail_msg("%g, not %g within %g", share, expected, 4 * sigma);
}

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

/* ---- files with targets ---- */

static char folder[64];

static const char *file_with(const char *text)
{
	static char path[80];
	snprintf(path, sizeof path, "%s/list", folder);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	return path;
}

static void a_list_has_weights_and_comments(void **state)
{
	load_work *work = NULL;
	load_user user;
	load_next next;
	unsigned rare = 0;
	MADE(load_work_url_list(&plain, file_with("# two\n9 /often \r\n\n  /rare\n"), &work));
	assert_int_equal(load_work_paths(work), 2);
	load_user_start(work, &user, 2);
	for (unsigned i = 0; i < 20000; i++) {
		load_user_next(work, &user, NULL, &next);
		rare += strcmp(target_of(&next), "/rare") == 0;
	}
	near(rare / 20000.0, 0.1, 20000);
	load_work_free(&work);
}

static void long_lists_share_a_path(void **state)
{
	char text[8000] = "";
	unsigned seen[300] = {0}, own = 0;
	load_work *work = NULL;
	load_user user;
	load_next next;
	for (unsigned i = 0; i < 300; i++)
		sprintf(text + strlen(text), "/p%u\n", i);
	MADE(load_work_url_list(&plain, file_with(text), &work));
	assert_int_equal(load_work_paths(work), LOAD_PATHS_MAX - 1);
	assert_string_equal(load_work_path(work, LOAD_PATHS_MAX - 2), "other");
	load_user_start(work, &user, 3);
	for (unsigned i = 0; i < 60000; i++) {
		load_user_next(work, &user, NULL, &next);
		unsigned at = (unsigned)atoi(target_of(&next) + 2);
		assert_true(at < 300 && next.form->path == (at < 62 ? at : 62));
		own += next.target.length == 0;
		seen[at]++;
	}
	/* 299 degrees of freedom: the sum of squares is 299, with a standard deviation of 24. */
	double squares = 0;
	for (unsigned i = 0; i < 300; i++)
		squares += (seen[i] - 200.0) * (seen[i] - 200.0) / 200;
	assert_true(fabs(squares - 299) < 4 * 24.5);
	assert_true(own > 0 && own < 60000);
	load_work_free(&work);
}

static void mistakes_in_lists_have_their_line(void **state)
{
	static const struct {
		const char *text, *where, *why;
	} cases[] = {
		{"", ":1:", "no target"},
		{"# none\n", ":2:", "no target"},
		{"/a\nb\n", ":2:", "'b'"},
		{"/a\nx /b\n", ":2:", "a weight"},
		{"\n\n0 /b\n", ":3:", "above 0"},
		{"/a\n1 /b c\n", ":2:", "'/b c'"},
		{"/a\nhttp://x/\n", ":2:", "not on the server"},
	};
	load_work *work = NULL;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(load_work_url_list(&plain, file_with(cases[i].text), &work), -EINVAL);
		check_contains(weir_error(), cases[i].where);
		check_contains(weir_error(), cases[i].why);
	}
	char *longer = malloc(6000);
	memset(longer, 'a', 5999);
	longer[0] = '/';
	longer[5999] = '\0';
	assert_int_equal(load_work_url_list(&plain, file_with(longer), &work), -EINVAL);
	check_contains(weir_error(), ":1: a line of at most");
	free(longer);
	assert_int_equal(load_work_url_list(&plain, "/nowhere/list", &work), -ENOENT);
	assert_int_equal(load_work_url_list(&plain, "/", &work), -EIO);
	assert_null(work);
}

/* ---- sizes ---- */

static double mean_size(const char *sizes, unsigned count, double *ret_smallest, double *ret_largest)
{
	load_work *work = NULL;
	load_user user;
	load_next next;
	double sum = 0, smallest = INFINITY, largest = 0;
	MADE(load_work_sizes(&plain, "/bytes/{size}?x", sizes, &work));
	load_user_start(work, &user, 4);
	for (unsigned i = 0; i < count; i++) {
		unsigned long long size;
		char rest[8];
		load_user_next(work, &user, NULL, &next);
		assert_int_equal(sscanf(target_of(&next), "/bytes/%llu?%7s", &size, rest), 2);
		sum += (double)size;
		smallest = fmin(smallest, (double)size);
		largest = fmax(largest, (double)size);
	}
	load_work_free(&work);
	*ret_smallest = smallest;
	*ret_largest = largest;
	return sum / count;
}

static void sizes_have_their_mean(void **state)
{
	static const struct {
		const char *text;
		double mean, spread, least, least_max;
	} cases[] = {
		{"10KB", 10240, 1e-9, 10240, 10240},
		{"deterministic 3KB", 3072, 1e-9, 3072, 3072},
		{"1KB .5, 10KB .4, 1MB .1", 512 + 4096 + 104857.6, 0.02, 1024, 1048576},
		{"exponential 4KB", 4096, 0.01, 8, 4096 * 5},
		{"lognormal 10KB sigma=1.5", 10240, 0.02, 44, 10240 * 20},
		{"pareto 10KB alpha=1.1 ratio=1000", 10240, 0.03, 1869, 10240 * 30},
		{"bimodal 8KB share=.1 factor=10", 8192, 0.01, 4312, 40000},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		double smallest, largest, mean = mean_size(cases[i].text, 300000, &smallest, &largest);
		if (fabs(mean / cases[i].mean - 1) > cases[i].spread ||
		    fabs(smallest / cases[i].least - 1) > 0.01 || largest < cases[i].least_max)
			fail_msg("%s: mean %g, from %g to %g", cases[i].text, mean, smallest, largest);
	}
}

static void sizes_are_kept_apart_by_tens(void **state)
{
	load_work *work = NULL;
	MADE(load_work_sizes(&plain, "/{size}", "99,100,1023,1KB,10KB,100KB,1MB,10MB,100MB,1GB", &work));
	static const char *const names[] = {"under 100 B",     "100 B to 1 KB",   "1 KB to 10 KB",
					    "10 KB to 100 KB", "100 KB to 1 MB",  "1 MB to 10 MB",
					    "10 MB to 100 MB", "100 MB and above"};
	assert_int_equal(load_work_paths(work), 8);
	for (unsigned i = 0; i < 8; i++)
		assert_string_equal(load_work_path(work, i), names[i]);
	load_work_free(&work);
}

static void sizes_that_are_none_are_refused(void **state)
{
	static const char *const wrong[] = {"",
					    "x",
					    "10XB",
					    "1KB -1",
					    "1KB,,2KB",
					    "1KB 0",
					    "pareto",
					    "pareto 10KB x",
					    "pareto 10KB sigma=1",
					    "2000TB",
					    "lognormal 1TB sigma=5",
					    "exponential 10ms",
					    "1KB 1 2"};
	load_work *work = NULL;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		if (load_work_sizes(&plain, "/{size}", wrong[i], &work) != -EINVAL)
			fail_msg("taken: %s", wrong[i]);
	assert_int_equal(load_work_sizes(&plain, "/x", "1KB", &work), -EINVAL);
	assert_int_equal(load_work_sizes(&plain, "/{size}{size}", "1KB", &work), -EINVAL);
	assert_int_equal(load_work_sizes(&plain, "{size}", "1KB", &work), -EINVAL);
	assert_null(work);
}

static void files_of_sizes_are_made(void **state)
{
	struct stat status;
	char path[100];
	MADE(load_sizes_make(folder, "5, 70000, 0"));
	snprintf(path, sizeof path, "%s/70000", folder);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_size, 70000);
	unlink(path);
	snprintf(path, sizeof path, "%s/5", folder);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_size, 5);
	unlink(path);
	snprintf(path, sizeof path, "%s/0", folder);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(load_sizes_make("/nowhere", "5"), -ENOENT);
	check_contains(weir_error(), "/nowhere/5");
}

/* ---- SPECweb99 ---- */

static void specweb_files_have_their_sizes(void **state)
{
	assert_int_equal(load_specweb_file(0, 0), 102);
	assert_int_equal(load_specweb_file(0, 8), 921);
	assert_int_equal(load_specweb_file(1, 4), 5120);
	assert_int_equal(load_specweb_file(3, 8), 921600);
	assert_int_equal(load_specweb_file(4, 0) + load_specweb_file(0, 9), 0);
	/* 680 directories are the 3.31 GB of the papers, if a GB is 1000 MB of 1024 KB. */
	assert_true(fabs((double)load_specweb_bytes(680) / 1048576000 - 3.31) < 0.015);
}

/* The mix of classes, Zipf over directories and over files in their order of rank, and the mean of 14.7 KB. */
static void specweb_is_asked_for_as_it_should(void **state)
{
	static const unsigned ranks[] = {4, 3, 5, 2, 6, 1, 7, 8, 0};
	enum { N = 400000, DIRECTORIES = 20 };
	double klass_seen[4] = {0}, directory_seen[DIRECTORIES] = {0}, file_seen[9] = {0}, bytes = 0;
	load_work *work = NULL;
	load_user user;
	load_next next;
	MADE(load_work_specweb(&plain, "/set/", DIRECTORIES, &work));
	assert_int_equal(load_work_paths(work), 4);
	assert_string_equal(load_work_path(work, 3), "class 3");
	load_user_start(work, &user, 5);
	for (unsigned i = 0; i < N; i++) {
		unsigned directory, klass, file;
		load_user_next(work, &user, NULL, &next);
		assert_int_equal(
			sscanf(target_of(&next), "/set/dir%5u/class%1u_%1u", &directory, &klass, &file), 3);
		assert_true(directory < DIRECTORIES && klass == next.form->path);
		klass_seen[klass]++;
		directory_seen[directory]++;
		file_seen[file]++;
		bytes += load_specweb_file(klass, file);
	}
	static const double mix[] = {0.35, 0.5, 0.14, 0.01};
	double harmonic = 0, files = 0;
	for (unsigned i = 1; i <= DIRECTORIES; i++)
		harmonic += 1.0 / i;
	for (unsigned i = 1; i <= 9; i++)
		files += 1.0 / i;
	for (unsigned i = 0; i < 4; i++)
		near(klass_seen[i] / N, mix[i], N);
	for (unsigned i = 0; i < DIRECTORIES; i++)
		near(directory_seen[i] / N, 1 / (i + 1.0) / harmonic, N);
	for (unsigned i = 0; i < 9; i++)
		near(file_seen[ranks[i]] / N, 1 / (i + 1.0) / files, N);
	if (fabs(bytes / N / 1000 - 14.73) > 0.3)
		fail_msg("mean %g KB", bytes / N / 1000);
	load_work_free(&work);
}

static void specweb_files_are_made_once(void **state)
{
	struct stat status;
	char path[120];
	MADE(load_specweb_make(folder, 2));
	snprintf(path, sizeof path, "%s/dir00001/class3_8", folder);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_size, 921600);
	ino_t inode = status.st_ino;
	struct timespec when = status.st_mtim;
	snprintf(path, sizeof path, "%s/dir00000/class0_0", folder);
	assert_int_equal(truncate(path, 3), 0);
	MADE(load_specweb_make(folder, 2));
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_size, 102);
	snprintf(path, sizeof path, "%s/dir00001/class3_8", folder);
	assert_int_equal(stat(path, &status), 0);
	assert_true(status.st_ino == inode && status.st_mtim.tv_nsec == when.tv_nsec);
	for (unsigned i = 0; i < 72; i++) {
		snprintf(path, sizeof path, "%s/dir%05u/class%u_%u", folder, i / 36, i / 9 % 4, i % 9);
		assert_int_equal(unlink(path), 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/dir%05u", folder, i);
		assert_int_equal(rmdir(path), 0);
	}
	load_work *work = NULL;
	assert_int_equal(load_specweb_make("/nowhere", 1), -ENOENT);
	assert_int_equal(load_specweb_make(folder, 0), -EINVAL);
	assert_int_equal(load_work_specweb(&plain, "", LOAD_SPECWEB_DIRECTORIES + 1, &work), -EINVAL);
	assert_int_equal(load_work_specweb(&plain, "x", 1, &work), -EINVAL);
}

/* ---- traces ---- */

static load_trace *trace_of(const char *text)
{
	load_trace *trace = NULL;
	MADE(weir_tracefile_parse("t.csv", text, strlen(text), true, &trace));
	return trace;
}

static void a_user_at_a_line_asks_for_it_and_is_done(void **state)
{
	load_trace *trace = trace_of("1,/a\n2,/b\n3,/a\n");
	static const char *const expected[] = {"/a", "/b", "/a", "/a"};
	load_work *work = NULL;
	load_user user;
	load_next next;
	MADE(load_work_trace(&plain, trace, NULL, &work));
	weir_tracefile_free(&trace);
	for (unsigned i = 0; i < 4; i++) {
		load_user_start_at(work, &user, 1, i);
		load_user_next(work, &user, NULL, &next);
		assert_string_equal(target_of(&next), expected[i]);
		load_user_next(work, &user, &(load_seen){.status = 200}, &next);
		assert_null(next.form);
	}
	unsigned seen = 0;
	load_user_start(work, &user, 1);
	for (unsigned i = 0; i < 30000; i++) {
		load_user_next(work, &user, NULL, &next);
		seen += strcmp(target_of(&next), "/a") == 0;
	}
	near(seen / 30000.0, 2.0 / 3, 30000);
	load_work_free(&work);
}

static void sizes_of_a_trace_are_put_into_the_target(void **state)
{
	load_trace *trace = trace_of("time,bytes\n1,50\n2,870\n3,900\n");
	load_work *work = NULL;
	load_user user;
	load_next next;
	static const char *const expected[] = {"/f/50.x", "/f/870.x", "/f/900.x"};
	MADE(load_work_trace(&plain, trace, "/f/{size}.x", &work));
	assert_int_equal(load_work_paths(work), 2);
	for (unsigned i = 0; i < 3; i++) {
		load_user_start_at(work, &user, 1, i);
		load_user_next(work, &user, NULL, &next);
		assert_string_equal(target_of(&next), expected[i]);
		assert_int_equal(next.form->path, i > 0);
	}
	load_work_free(&work);
	assert_int_equal(load_work_trace(&plain, trace, "/f", &work), -EINVAL);
	load_habits links = {.links = 1};
	assert_int_equal(load_work_trace(&links, trace, NULL, &work), -EINVAL);
	weir_tracefile_free(&trace);
	trace = trace_of("1\n2\n");
	assert_int_equal(load_work_trace(&plain, trace, NULL, &work), -EINVAL);
	check_contains(weir_error(), "no paths or sizes");
	weir_tracefile_free(&trace);
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

/* ---- memory ---- */

static int make_kind(unsigned kind, load_trace *trace, load_work **ret)
{
	const char *const field = "A: b";
	load_habits habits = {.mix = "a=1:X: 1;b=2",
			      .fields = &field,
			      .field_count = 1,
			      .body = "x",
			      .body_length = 1,
			      .origin = "http://h"};
	const load_weighted targets[] = {{"/a", 1}, {"/b", 2}};
	switch (kind) {
	case 0:
		habits.links = 1;
		return load_work_urls(&habits, targets, 2, ret);
	case 1:
		return load_work_sizes(&habits, "/{size}", "1KB,2KB", ret);
	case 2:
		return load_work_specweb(&habits, "/", 1, ret);
	case 3:
		return load_work_url_list(&habits, file_with("/a\n/b\n"), ret);
	default:
		return load_work_trace(&habits, trace, NULL, ret);
	}
}

static void memory_that_runs_out_is_an_error(void **state)
{
	load_trace *trace = trace_of("1,/a\n2,/b\n");
	for (unsigned kind = 0; kind < 5; kind++)
		for (uint64_t nth = 1;; nth++) {
			load_work *work = NULL;
			uint64_t live = weir_mem_live();
			weir_mem_fail_after(nth);
			int failed = make_kind(kind, trace, &work);
			weir_mem_fail_after(0);
			if (failed == 0) {
				load_work_free(&work);
				assert_true(nth > 10);
				break;
			}
			assert_int_equal(failed, -ENOMEM);
			assert_null(work);
			assert_int_equal(weir_mem_live(), live);
		}
	weir_tracefile_free(&trace);
}

static int make_folder(void **state)
{
	snprintf(folder, sizeof folder, "/tmp/weir-work-XXXXXX");
	return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
	char path[80];
	snprintf(path, sizeof path, "%s/list", folder);
	unlink(path);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(one_target_is_the_only_form),
		CHECK_TEST(method_body_and_fields_are_of_every_request),
		CHECK_TEST(targets_may_be_written_with_their_server),
		CHECK_TEST(nothing_can_break_out_of_its_line),
		CHECK_TEST(weights_are_kept),
		CHECK_TEST(a_list_has_weights_and_comments),
		CHECK_TEST(long_lists_share_a_path),
		CHECK_TEST(mistakes_in_lists_have_their_line),
		CHECK_TEST(sizes_have_their_mean),
		CHECK_TEST(sizes_are_kept_apart_by_tens),
		CHECK_TEST(sizes_that_are_none_are_refused),
		CHECK_TEST(files_of_sizes_are_made),
		CHECK_TEST(specweb_files_have_their_sizes),
		CHECK_TEST(specweb_is_asked_for_as_it_should),
		CHECK_TEST(specweb_files_are_made_once),
		CHECK_TEST(a_user_at_a_line_asks_for_it_and_is_done),
		CHECK_TEST(sizes_of_a_trace_are_put_into_the_target),
		CHECK_TEST(classes_are_drawn_by_their_shares),
		CHECK_TEST(mixes_that_are_none_are_refused),
		CHECK_TEST(sessions_have_their_length_and_think),
		CHECK_TEST(habits_that_are_none_are_refused),
		CHECK_TEST(links_are_followed_so_far_and_no_further),
		CHECK_TEST(cookies_come_back),
		CHECK_TEST(users_do_without_memory),
		CHECK_TEST(asking_takes_no_memory),
		CHECK_TEST(memory_that_runs_out_is_an_error),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
