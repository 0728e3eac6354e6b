/* SPDX-License-Identifier: Apache-2.0 */
/* The log's rings and writer: order, bounds, drops, rotation, threads; and the error log's limits. */
#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/log.h"

#define PATIENCE (30 * WEIR_NS_PER_S)
#define RING     (4 * WEIR_LOG_LINE_MAX)

static char folder[64];

static char *in_folder(const char *name)
{
	static char path[2][128];
	static unsigned at;
	char *text = path[at++ % 2];
	snprintf(text, 128, "%s/%s", folder, name);
	return text;
}

/* The whole file, to be freed; "" where there is none. */
static char *contents(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, 1 << 24);
	assert_non_null(text);
	if (file != NULL) {
		size_t length = fread(text, 1, (1 << 24) - 1, file);
		text[length] = '\0';
		fclose(file);
	}
	return text;
}

static void expect_contents(const char *path, const char *expected)
{
	char *text = contents(path);
	assert_string_equal(text, expected);
	free(text);
}

static weir_log *open_log(const char *path, unsigned rings)
{
	weir_log *log = NULL;
	weir_log_options options = {
		.path = path, .rings = rings, .ring_bytes = RING, .format = WEIR_LOG_PLAIN};
	unlink(path);
	assert_int_equal(weir_log_new(&options, &log), 0);
	return log;
}

static bool write_line(weir_log *log, unsigned ring, const char *text)
{
	char *line = weir_log_begin(log, ring);
	if (line == NULL)
		return false;
	weir_log_end(log, ring, (size_t)sprintf(line, "%s\n", text));
	return true;
}

static weir_log_stats stats_of(const weir_log *log)
{
	weir_log_stats stats;
	weir_log_read_stats(log, &stats);
	return stats;
}

/* ---- plain ---- */

static void test_lines_are_written(void **state)
{
	const char *path = in_folder("plain");
	weir_log *log = open_log(path, 1);
	assert_true(write_line(log, 0, "one"));
	assert_true(write_line(log, 0, "two"));
	assert_true(weir_log_put(log, "three\n", 6));
	assert_true(weir_log_flush(log, PATIENCE));
	expect_contents(path, "one\ntwo\nthree\n");
	assert_int_equal(stats_of(log).lines, 3);
	assert_int_equal(stats_of(log).bytes, 14);
	/* What was begun and given up is nothing. */
	assert_non_null(weir_log_begin(log, 0));
	weir_log_end(log, 0, 0);
	assert_true(write_line(log, 0, "four"));
	weir_log_free(&log);
	assert_null(log);
	weir_log_free(&log);
	expect_contents(path, "one\ntwo\nthree\nfour\n");
}

static void test_a_log_is_appended_to(void **state)
{
	const char *path = in_folder("appended");
	weir_log *log = open_log(path, 0);
	assert_true(weir_log_put(log, "a\n", 2));
	weir_log_free(&log);
	weir_log_options options = {.path = path};
	assert_int_equal(weir_log_new(&options, &log), 0);
	assert_true(weir_log_put(log, "b\n", 2));
	weir_log_free(&log);
	expect_contents(path, "a\nb\n");
	struct stat status;
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0137, 0);
}

/* Every length, so that lines end everywhere about the end of a lap. */
static void test_laps(void **state)
{
	const char *path = in_folder("laps");
	weir_log *log = open_log(path, 1);
	size_t total = 0;
	for (unsigned i = 0; i < 3000; i++) {
		size_t length = 1 + i * 37 % (WEIR_LOG_LINE_MAX - 1);
		char *line;
		while ((line = weir_log_begin(log, 0)) == NULL)
			assert_true(weir_log_flush(log, PATIENCE));
		memset(line, 'a' + (int)(i % 26), length);
		line[length] = '\n';
		weir_log_end(log, 0, length + 1);
		total += length + 1;
	}
	weir_log_free(&log);
	char *text = contents(path), *at = text;
	size_t size = strlen(text);
	assert_true(size >= total);
	for (unsigned i = 0; i < 3000; i++) {
		size_t length = 1 + i * 37 % (WEIR_LOG_LINE_MAX - 1);
		/* Byte by byte: what looks for the end of a text would, under a sanitizer, go through all of it each time. */
		while (at[0] == '2' &&
		       at[1] == '0') /* how many were dropped: those tries above that found no room */
			at = (char *)memchr(at, '\n', (size_t)(text + size - at)) + 1;
		for (size_t k = 0; k < length; k++)
			if (at[k] != (char)('a' + i % 26))
				fail_msg("line %u of %zu bytes is another's at byte %zu", i, length, k);
		assert_int_equal(at[length], '\n');
		at += length + 1;
	}
	free(text);
}

static void test_refused_options(void **state)
{
	weir_log *log = NULL;
	weir_log_options none = {.path = "/nonexistent/folder/log"};
	assert_int_equal(weir_log_new(&none, &log), -ENOENT);
	assert_non_null(strstr(weir_error(), "/nonexistent/folder/log"));
	weir_log_options small = {.path = in_folder("x"), .ring_bytes = 100};
	assert_int_equal(weir_log_new(&small, &log), -EINVAL);
	weir_log_options many = {.path = in_folder("x"), .rings = WEIR_LOG_RINGS_MAX + 1};
	assert_int_equal(weir_log_new(&many, &log), -EINVAL);
	const char *pipe_path = in_folder("pipe");
	assert_int_equal(mkfifo(pipe_path, 0600), 0);
	weir_log_options unread = {.path = pipe_path};
	assert_int_equal(weir_log_new(&unread, &log), -ENXIO);
	assert_null(log);
}

/* ---- a reader that does not read ---- */

static void drain(int fd, char *text, size_t size)
{
	size_t at = 0;
	ssize_t got;
	while (at < size - 1 && (got = read(fd, text + at, size - 1 - at)) > 0)
		at += (size_t)got;
	text[at] = '\0';
}

typedef struct reader {
	int fd;
	char *text;
	size_t size;
} reader;

static void *read_to_end(void *arg)
{
	reader *r = arg;
	drain(r->fd, r->text, r->size);
	return NULL;
}

/* The pipe fills, then the ring: from then on lines are dropped, at once; and when somebody reads, a line says how many. */
static void drop_and_tell(weir_log_format format, const char *word)
{
	int fds[2];
	weir_log *log = NULL;
	unsigned accepted = 0, refused = 0, again = 0;
	assert_int_equal(pipe(fds), 0);
	weir_log_options options = {
		.path = "-", .fd = fds[1], .rings = 1, .ring_bytes = RING, .format = format};
	assert_int_equal(weir_log_new(&options, &log), 0);
	/* Full to the last: the writer does not get through any more. */
	do {
		unsigned *count =
			write_line(log, 0,
				   "{\"a\":\"0123456789012345678901234567890123456789012345678901234\"}")
				? &accepted
				: &refused;
		*count += 1;
		if (accepted > 1000000)
			fail_msg("a pipe that nobody reads took a million lines");
	} while (refused % 1000 != 999 || weir_log_flush(log, 20 * WEIR_NS_PER_MS));
	assert_int_equal(stats_of(log).dropped, refused);
	reader r = {.fd = fds[0], .size = 1 << 24, .text = calloc(1, 1 << 24)};
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, read_to_end, &r), 0);
	assert_true(weir_log_flush(log, PATIENCE));
	while (!write_line(log, 0, "{\"a\":\"last\"}"))
		again++;
	weir_log_free(&log);
	close(fds[1]);
	pthread_join(thread, NULL);
	close(fds[0]);
	unsigned lines = 0;
	unsigned long long told = 0;
	for (char *line = r.text, *rest; (line = strtok_r(line, "\n", &rest)) != NULL; line = NULL) {
		json_t *json = json_loads(line, 0, NULL);
		char *where = strstr(line, word);
		lines += where == NULL;
		if (where != NULL && format == WEIR_LOG_JSON)
			told += (unsigned long long)json_integer_value(json_object_get(json, "dropped"));
		else if (where != NULL)
			told += strtoull(where + strlen(word), NULL, 10);
		assert_true(where == NULL || format != WEIR_LOG_JSON || json != NULL);
		json_decref(json);
	}
	assert_int_equal(lines, accepted + 1);
	assert_int_equal(told, refused + again);
	free(r.text);
}

static void test_drops_are_told(void **state)
{
	drop_and_tell(WEIR_LOG_PLAIN, "warn log: ");
	drop_and_tell(WEIR_LOG_COMBINED, "+0000] ");
	drop_and_tell(WEIR_LOG_JSON, "dropped");
}

/* An end does not wait for ever for a reader, and a pipe without one is no death. */
static void test_an_end_without_a_reader(void **state)
{
	int fds[2];
	weir_log *log = NULL;
	assert_int_equal(pipe(fds), 0);
	weir_log_options options = {.path = "-", .fd = fds[1], .rings = 2, .ring_bytes = RING};
	assert_int_equal(weir_log_new(&options, &log), 0);
	do
		for (unsigned ring = 0; ring < 2; ring++)
			for (unsigned i = 0;
			     i < 100000 && write_line(log, ring, "0123456789012345678901234567890"); i++)
				;
	while (weir_log_flush(log, 20 * WEIR_NS_PER_MS));
	weir_log_free(&log);
	close(fds[0]);
	assert_int_equal(weir_log_new(&options, &log), 0);
	assert_true(write_line(log, 0, "nobody"));
	assert_true(weir_log_flush(log, PATIENCE));
	assert_int_equal(stats_of(log).dropped, 1);
	assert_true(stats_of(log).failures > 0);
	weir_log_free(&log);
	close(fds[1]);
}

static void test_a_full_device(void **state)
{
	weir_log *log = NULL;
	weir_log_options options = {.path = "/dev/full", .rings = 1};
	assert_int_equal(weir_log_new(&options, &log), 0);
	assert_true(write_line(log, 0, "nowhere"));
	assert_true(weir_log_flush(log, PATIENCE));
	assert_int_equal(stats_of(log).lines, 0);
	assert_int_equal(stats_of(log).dropped, 1);
	weir_log_free(&log);
}

/* ---- rotation ---- */

/* Lines from before a change go to the old file, later ones to the new one; without a file they go nowhere. */
static void test_another_file(void **state)
{
	char one[128], two[128];
	weir_log_file *next = NULL;
	snprintf(one, sizeof(one), "%s/one", folder);
	snprintf(two, sizeof(two), "%s/two", folder);
	weir_log *log = open_log(one, 1);
	assert_int_equal(weir_log_file_open("/nonexistent/folder/log", 2, &next), -ENOENT);
	assert_null(next);
	assert_true(write_line(log, 0, "a"));
	assert_int_equal(weir_log_file_open(two, 2, &next), 0);
	weir_log_use(log, next);
	assert_true(weir_log_flush(log, PATIENCE));
	assert_true(write_line(log, 0, "b"));
	assert_int_equal(weir_log_file_open(NULL, 2, &next), 0);
	weir_log_use(log, next);
	assert_true(weir_log_flush(log, PATIENCE));
	assert_true(write_line(log, 0, "nowhere"));
	assert_int_equal(weir_log_file_open(two, 2, &next), 0);
	weir_log_use(log, next);
	/* Two at once: the last one counts. */
	assert_int_equal(weir_log_file_open(one, 2, &next), 0);
	weir_log_use(log, next);
	assert_true(weir_log_flush(log, PATIENCE));
	assert_true(write_line(log, 0, "c"));
	assert_true(weir_log_flush(log, PATIENCE));
	assert_int_equal(stats_of(log).dropped, 0);
	/* One that was given and not used yet is freed. */
	assert_int_equal(weir_log_file_open(two, 2, &next), 0);
	weir_log_use(log, next);
	weir_log_free(&log);
	expect_contents(one, "a\nc\n");
	expect_contents(two, "b\n");
}

/* A pipe that nobody reads can be left. */
static void test_another_file_than_a_stuck_pipe(void **state)
{
	int fds[2];
	weir_log *log = NULL;
	weir_log_file *next = NULL;
	const char *path = in_folder("left");
	assert_int_equal(pipe(fds), 0);
	weir_log_options options = {.path = "-", .fd = fds[1], .rings = 1, .ring_bytes = RING};
	assert_int_equal(weir_log_new(&options, &log), 0);
	do
		for (unsigned i = 0; i < 100000 && write_line(log, 0, "0123456789012345678901234567890"); i++)
			;
	while (weir_log_flush(log, 20 * WEIR_NS_PER_MS));
	assert_int_equal(weir_log_file_open(path, 2, &next), 0);
	weir_log_use(log, next);
	assert_true(weir_log_flush(log, PATIENCE));
	while (!write_line(log, 0, "here"))
		assert_true(weir_log_flush(log, PATIENCE));
	weir_log_free(&log);
	char *text = contents(path);
	assert_non_null(strstr(text, "here\n"));
	free(text);
	close(fds[0]);
	close(fds[1]);
}

static void test_rotation(void **state)
{
	char path[128], old[128];
	snprintf(path, sizeof(path), "%s/rotated", folder);
	snprintf(old, sizeof(old), "%s/rotated.1", folder);
	weir_log *log = open_log(path, 1);
	assert_true(write_line(log, 0, "before"));
	assert_true(weir_log_flush(log, PATIENCE));
	assert_int_equal(rename(path, old), 0);
	assert_true(write_line(log, 0, "between"));
	assert_true(weir_log_flush(log, PATIENCE));
	weir_log_reopen(log);
	CHECK_EVENTUALLY(stats_of(log).reopened == 1);
	assert_true(write_line(log, 0, "after"));
	assert_true(weir_log_flush(log, PATIENCE));
	expect_contents(old, "before\nbetween\n");
	expect_contents(path, "after\n");
	/* A file that cannot be opened: the old one stays. */
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	weir_log_reopen(log);
	CHECK_EVENTUALLY(stats_of(log).failures == 1);
	assert_true(write_line(log, 0, "kept"));
	assert_true(weir_log_flush(log, PATIENCE));
	assert_int_equal(stats_of(log).lines, 4);
	weir_log_free(&log);
	rmdir(path);
}

/* ---- threads ---- */

enum { THREADS = 4, LINES = 20000 };

typedef struct producer {
	weir_log *log;
	unsigned number;
	uint64_t written;
} producer;

static void *produce(void *arg)
{
	producer *p = arg;
	for (unsigned i = 0; i < LINES; i++) {
		char *line = weir_log_begin(p->log, p->number);
		if (line != NULL) {
			weir_log_end(p->log, p->number,
				     (size_t)sprintf(line, "%u %u %u\n", p->number, i, i * 7));
			p->written++;
		}
		if (i % 16 == 0) {
			char shared[64];
			int length = sprintf(shared, "9 %u %u\n", i, i * 7);
			p->written += weir_log_put(p->log, shared, (size_t)length);
		}
	}
	return NULL;
}

/* Each line whole, those of a ring in order, as many as were taken; while the file is rotated again and again. */
static void test_threads(void **state)
{
	char path[128], old[128];
	snprintf(path, sizeof(path), "%s/threads", folder);
	weir_log *log = open_log(path, THREADS);
	producer p[THREADS];
	pthread_t thread[THREADS];
	uint64_t written = 0, lines = 0, dropped;
	unsigned rotations = 0;
	for (unsigned i = 0; i < THREADS; i++) {
		p[i] = (producer){.log = log, .number = i};
		assert_int_equal(pthread_create(&thread[i], NULL, produce, &p[i]), 0);
	}
	for (; rotations < 20; rotations++) {
		snprintf(old, sizeof(old), "%s/threads.%u", folder, rotations);
		rename(path, old);
		weir_log_reopen(log);
		CHECK_EVENTUALLY(stats_of(log).reopened > rotations);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		written += p[i].written;
	}
	assert_true(weir_log_flush(log, PATIENCE));
	dropped = stats_of(log).dropped;
	weir_log_free(&log);
	assert_int_equal(written + dropped, THREADS * (LINES + LINES / 16));
	uint64_t told = 0;
	long last[THREADS] = {-1, -1, -1, -1};
	for (unsigned file = 0; file <= rotations; file++) {
		snprintf(old, sizeof(old), file < rotations ? "%s/threads.%u" : "%s/threads", folder, file);
		char *text = contents(old);
		for (char *line = text, *rest; (line = strtok_r(line, "\n", &rest)) != NULL; line = NULL) {
			unsigned number, i, check;
			char *where = strstr(line, "warn log: ");
			if (where != NULL) {
				told += strtoull(where + 10, NULL, 10);
				continue;
			}
			if (sscanf(line, "%u %u %u", &number, &i, &check) != 3 || check != i * 7)
				fail_msg("not a whole line: %s", line);
			lines++;
			if (number < THREADS) {
				assert_true((long)i > last[number]);
				last[number] = i;
			}
		}
		free(text);
		unlink(old);
	}
	assert_int_equal(lines, written);
	assert_int_equal(told, dropped);
}

/* ---- the error log ---- */

static void test_errors(void **state)
{
	const char *path = in_folder("errors");
	weir_log *log = open_log(path, 0);
	weir_errors *errors = NULL;
	assert_int_equal(weir_errors_new(log, WEIR_LOG_INFO, 0, &errors), 0);
	weir_errors_say(errors, WEIR_LOG_DEBUG, "tls", "too quiet");
	weir_errors_say(errors, WEIR_LOG_WARN, "tls", "client %s: bad\nrecord \xff", "1.2.3.4");
	weir_errors_say(errors, WEIR_LOG_ERROR, "disk", "%.3000s", "full");
	weir_errors_say(NULL, WEIR_LOG_ERROR, "disk", "nobody");
	weir_errors_free(&errors);
	weir_errors_free(&errors);
	weir_log_free(&log);
	char *text = contents(path);
	check_contains(text, "Z warn tls: client 1.2.3.4: bad\\x0arecord \\xff\n");
	check_contains(text, "Z error disk: full\n");
	assert_null(strstr(text, "quiet"));
	assert_null(strstr(text, "nobody"));
	free(text);
}

/* Of one kind at most so many; other kinds are not concerned; what was left out is told with the next. */
static void test_errors_are_limited(void **state)
{
	const char *path = in_folder("limited");
	weir_log *log = open_log(path, 0);
	weir_errors *errors = NULL;
	unsigned said = 0, more = 0, sentences = 0;
	char long_text[5000];
	memset(long_text, '\n', sizeof(long_text));
	long_text[sizeof(long_text) - 1] = '\0';
	assert_int_equal(weir_errors_new(log, WEIR_LOG_DEBUG, 1, &errors), 0);
	for (unsigned i = 0; i < 1000; i++, sentences++)
		weir_errors_say(errors, WEIR_LOG_ERROR, "flood", "no %u", i);
	weir_errors_say(errors, WEIR_LOG_ERROR, "other", "%s", long_text);
	assert_true(weir_log_flush(log, PATIENCE));
	uint64_t lines = stats_of(log).lines;
	assert_true(lines >= 2 && lines < 500);
	/* Until the next two are let through. */
	for (unsigned polls = 0; stats_of(log).lines < lines + 2 && polls < 60000; polls++, sentences++) {
		check_breathe();
		weir_errors_say(errors, WEIR_LOG_ERROR, "flood", "again");
		assert_true(weir_log_flush(log, PATIENCE));
	}
	weir_errors_free(&errors);
	weir_log_free(&log);
	char *text = contents(path);
	for (char *line = text, *rest; (line = strtok_r(line, "\n", &rest)) != NULL; line = NULL) {
		said += strstr(line, "flood: ") != NULL;
		char *where = strstr(line, "(and ");
		more += where != NULL ? (unsigned)strtoul(where + 5, NULL, 10) : 0;
	}
	assert_int_equal(said + more, sentences);
	free(text);
}

/* More kinds than there are places for share the last one. */
static void test_many_kinds(void **state)
{
	static char names[100][16];
	const char *path = in_folder("kinds");
	weir_log *log = open_log(path, 0);
	weir_errors *errors = NULL;
	assert_int_equal(weir_errors_new(log, WEIR_LOG_DEBUG, 1, &errors), 0);
	for (unsigned i = 0; i < 100; i++) {
		snprintf(names[i], sizeof(names[i]), "kind-%u", i);
		weir_errors_say(errors, WEIR_LOG_INFO, names[i], "hello");
	}
	assert_true(weir_log_flush(log, PATIENCE));
	assert_true(stats_of(log).lines >= 64 && stats_of(log).lines < 100);
	weir_errors_free(&errors);
	weir_log_free(&log);
}

static int make_folder(void **state)
{
	snprintf(folder, sizeof(folder), "/tmp/weir-test-log-XXXXXX");
	setenv("TZ", "UTC", 1);
	return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(test_lines_are_written),
		CHECK_TEST(test_a_log_is_appended_to),
		CHECK_TEST(test_laps),
		CHECK_TEST(test_refused_options),
		CHECK_TEST(test_drops_are_told),
		CHECK_TEST(test_an_end_without_a_reader),
		CHECK_TEST(test_a_full_device),
		CHECK_TEST(test_rotation),
		CHECK_TEST(test_another_file),
		CHECK_TEST(test_another_file_than_a_stuck_pipe),
		CHECK_TEST(test_threads),
		CHECK_TEST(test_errors),
		CHECK_TEST(test_errors_are_limited),
		CHECK_TEST(test_many_kinds),
	};
	return cmocka_run_group_tests_name("log", tests, make_folder, remove_folder);
}
