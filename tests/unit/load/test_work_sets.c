/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of what is asked for: lists, sizes, SPECweb99, traces; the files that are made for them; and memory that runs out. */
#include "on_work.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/trace.h"

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

/* The first have a path each; what is beyond is one, whose requests have targets of their own. */
static void long_lists_share_a_path(void **state)
{
	enum { TARGETS = 3000, KEPT = LOAD_PATHS_MAX - 2, DRAWN = 60000 };
	static char text[TARGETS * 8];
	static unsigned seen[TARGETS];
	unsigned own = 0;
	size_t length = 0;
	load_work *work = NULL;
	load_user user;
	load_next next;
	memset(seen, 0, sizeof seen);
	for (unsigned i = 0; i < TARGETS; i++)
		length += (size_t)sprintf(text + length, "/p%u\n", i);
	MADE(load_work_url_list(&plain, file_with(text), &work));
	assert_int_equal(load_work_paths(work), 1023);
	assert_string_equal(load_work_path(work, 1021), "/p1021");
	assert_string_equal(load_work_path(work, 1022), "other");
	load_user_start(work, &user, 3);
	for (unsigned i = 0; i < DRAWN; i++) {
		load_user_next(work, &user, NULL, &next);
		unsigned at = (unsigned)atoi(target_of(&next) + 2);
		assert_true(at < TARGETS && next.form->path == (at < KEPT ? at : KEPT));
		own += next.target.length == 0;
		seen[at]++;
	}
	/* 2999 degrees of freedom: the sum of squares is 2999, with a standard deviation of 77.4. */
	double squares = 0, mean = (double)DRAWN / TARGETS;
	for (unsigned i = 0; i < TARGETS; i++)
		squares += (seen[i] - mean) * (seen[i] - mean) / mean;
	assert_true(fabs(squares - 2999) < 4 * 77.4);
	assert_true(own > 0 && own < DRAWN);
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
	MADE(load_work_sizes(&plain, "/{size}", "10MB,100,10KB,1KB,100KB,1MB,100MB", &work));
	static const char *const names[] = {"under 100 B",     "100 B to 1 KB",   "1 KB to 10 KB",
					    "10 KB to 100 KB", "100 KB to 1 MB",  "1 MB to 10 MB",
					    "10 MB to 100 MB", "100 MB and above"};
	assert_int_equal(load_work_paths(work), 7);
	for (unsigned i = 0; i < 7; i++)
		assert_string_equal(load_work_path(work, i), names[i + 1]);
	load_work_free(&work);
	MADE(load_work_sizes(&plain, "/{size}", "1GB,99,1023", &work));
	assert_int_equal(load_work_paths(work), 3);
	assert_string_equal(load_work_path(work, 0), names[0]);
	assert_string_equal(load_work_path(work, 1), names[1]);
	assert_string_equal(load_work_path(work, 2), names[7]);
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
	load_trace *trace = trace_of("time,bytes\n1,870\n2,50\n3,900\n");
	load_work *work = NULL;
	load_user user;
	load_next next;
	static const char *const expected[] = {"/f/870.x", "/f/50.x", "/f/900.x"};
	MADE(load_work_trace(&plain, trace, "/f/{size}.x", &work));
	assert_int_equal(load_work_paths(work), 2);
	for (unsigned i = 0; i < 3; i++) {
		load_user_start_at(work, &user, 1, i);
		load_user_next(work, &user, NULL, &next);
		assert_string_equal(target_of(&next), expected[i]);
		assert_int_equal(next.form->path, i != 1);
	}
	load_work_free(&work);
	MADE(load_work_trace(&plain, trace, "/", &work));
	load_user_start_at(work, &user, 1, 1);
	load_user_next(work, &user, NULL, &next);
	assert_string_equal(target_of(&next), "/bytes/50");
	load_work_free(&work);
	assert_int_equal(load_work_trace(&plain, trace, "/f", &work), -EINVAL);
	load_habits links = {.links = 1};
	assert_int_equal(load_work_trace(&links, trace, NULL, &work), -EINVAL);
	weir_tracefile_free(&trace);
	trace = trace_of("1\n2\n");
	MADE(load_work_trace(&plain, trace, "/f", &work));
	assert_string_equal(text_of(load_work_only(work)->target), "/f");
	load_work_free(&work);
	weir_tracefile_free(&trace);
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
		CHECK_TEST(memory_that_runs_out_is_an_error),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
