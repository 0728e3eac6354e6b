/* SPDX-License-Identifier: Apache-2.0 */
#include "on_store.h"

#include <errno.h>
#include <mail/mail.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <webmail/import.h>

typedef struct import_seen {
	unsigned progress, wrong;
	int answer;
	char sentence[200];
} import_seen;

static int progress(void *arg, const import_counts *counts)
{
	import_seen *seen = arg;
	seen->progress++;
	return seen->answer;
}

static void wrong(void *arg, const char *path, const char *sentence)
{
	import_seen *seen = arg;
	seen->wrong++;
	snprintf(seen->sentence, sizeof(seen->sentence), "%s", sentence);
}

static const char *path_of(on_store *on, const char *name)
{
	static char path[500];
	snprintf(path, sizeof(path), "%s/%s", on->folder, name);
	return path;
}

static void write_file(on_store *on, const char *name, const char *text, size_t length)
{
	FILE *file = fopen(path_of(on, name), "w");
	assert_non_null(file);
	fwrite(text, 1, length, file);
	fclose(file);
}

static import_counts imported(on_store *on, const char *name, import_seen *seen, int expected)
{
	import_counts counts = {0};
	import_options options = {.store = on->s,
				  .user = on->ann,
				  .now_s = 1700000000,
				  .progress = progress,
				  .wrong = wrong,
				  .arg = seen};
	assert_int_equal(import_path(&options, path_of(on, name), &counts), expected);
	return counts;
}

static on_messages inbox(on_store *on)
{
	on_messages messages = {0};
	store_list list = {.folder = on_store_role(on->s, on->ann, STORE_INBOX), .count = 50};
	assert_true(store_messages(on->s, on->ann, &list, on_message, &messages) >= 0);
	return messages;
}

#define MBOX                                                                                         \
	"From a@example.org Thu Jan  1 12:34:56 2026\nSubject: one\nDate: Thu, 1 Jan 2004 00:00:00 " \
	"+0000\nStatus: RO\n\n"                                                                      \
	">From me\n>>From you\nFrom here it is text\n\nFrom there, too\n\n"                          \
	"From b@example.org Thu Jan  1 12:34:56 2026\nSubject: two\nDate: Thu, 1 Jan 2003 00:00:00 " \
	"+0000\nX-Status: AF\n\nb\n"

static void test_mbox(void **state)
{
	on_store *on = *state;
	import_seen seen = {0};
	write_file(on, "box", MBOX, strlen(MBOX));
	import_counts counts = imported(on, "box", &seen, 0);
	assert_int_equal(counts.stored, 2);
	assert_int_equal(seen.progress, 2);
	on_messages messages = inbox(on);
	assert_int_equal(messages.count, 2);
	assert_string_equal(messages.rows[0].subject, "one");
	assert_string_equal(messages.rows[0].snippet, "From me From here it is text From there, too");
	assert_true(messages.rows[0].flags & STORE_SEEN);
	assert_string_equal(messages.rows[1].subject, "two");
	assert_true(messages.rows[1].flags & STORE_ANSWERED);
	assert_true(messages.rows[1].flags & STORE_FLAGGED);
	counts = imported(on, "box", &seen, 0);
	assert_int_equal(counts.stored, 0);
	assert_int_equal(counts.known, 2);
	assert_int_equal(inbox(on).count, 2);
	on_store_check(on->s);
}

static void test_maildir_and_folders(void **state)
{
	on_store *on = *state;
	import_seen seen = {0};
	static const char *const folders[] = {"all",         "all/dir",     "all/dir/cur",
					      "all/dir/new", "all/dir/tmp", "all/eml"};
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
		assert_int_equal(mkdir(path_of(on, folders[i]), 0700), 0);
	write_file(on, "all/dir/cur/1:2,FS", "Subject: seen\n\n", 15);
	write_file(on, "all/dir/new/2", "Subject: new\n\n", 14);
	write_file(on, "all/dir/tmp/3", "Subject: not complete\n\n", 23);
	write_file(on, "all/dir/uidlist", "no mail", 7);
	write_file(on, "all/eml/a.eml", "Subject: alone\n\n", 16);
	write_file(on, "all/eml/.hidden", "Subject: hidden\n\n", 17);
	write_file(on, "all/eml/empty", "", 0);
	assert_int_equal(symlink("..", path_of(on, "all/eml/circle")), 0);
	import_counts counts = imported(on, "all", &seen, 0);
	assert_int_equal(counts.stored, 3);
	assert_int_equal(counts.refused, 0);
	on_messages messages = inbox(on);
	for (unsigned i = 0; i < messages.count; i++)
		assert_int_equal(!!(messages.rows[i].flags & STORE_SEEN),
				 strcmp(messages.rows[i].subject, "seen") == 0);
}

static void test_what_is_wrong_is_left_out(void **state)
{
	on_store *on = *state;
	import_seen seen = {0};
	size_t length = 6000000;
	char *bomb = malloc(length);
	memset(bomb, 'A', length);
	memcpy(bomb, "A: ", 3);
	assert_int_equal(mkdir(path_of(on, "some"), 0700), 0);
	write_file(on, "some/bomb", bomb, length);
	write_file(on, "some/good", "Subject: good\n\n", 15);
	import_counts counts = imported(on, "some", &seen, 0);
	assert_int_equal(counts.stored, 1);
	assert_int_equal(counts.refused, 1);
	assert_int_equal(seen.wrong, 1);
	check_contains(seen.sentence, "header");
	counts = imported(on, "nothing", &seen, 0);
	assert_int_equal(counts.refused, 1);
	assert_int_equal(mkfifo(path_of(on, "some/pipe"), 0600), 0);
	counts = imported(on, "some", &seen, 0);
	assert_int_equal(counts.refused, 2);
	free(bomb);
}

static void test_an_end_on_request(void **state)
{
	on_store *on = *state;
	import_seen seen = {.answer = -EINTR};
	write_file(on, "box", MBOX, strlen(MBOX));
	import_counts counts = imported(on, "box", &seen, -EINTR);
	assert_int_equal(counts.stored, 1);
}

static void test_a_user_that_is_not_there(void **state)
{
	on_store *on = *state;
	import_counts counts = {0};
	write_file(on, "box", MBOX, strlen(MBOX));
	import_options options = {.store = on->s, .user = 77, .now_s = 1};
	assert_int_equal(import_path(&options, path_of(on, "box"), &counts), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mbox),
		cmocka_unit_test(test_maildir_and_folders),
		cmocka_unit_test(test_what_is_wrong_is_left_out),
		cmocka_unit_test(test_an_end_on_request),
		cmocka_unit_test(test_a_user_that_is_not_there),
	};
	mail_init();
	return on_store_run_sqlite(__FILE__, tests, sizeof(tests) / sizeof(*tests));
}
