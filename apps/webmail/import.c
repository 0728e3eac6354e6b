/* SPDX-License-Identifier: Apache-2.0 */
#include "import.h"
#include "deliver.h"
#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct importing {
	const import_options *options;
	import_counts *counts;
} importing;

static void refuse(void *arg, const char *path, const char *sentence)
{
	importing *i = arg;
	i->counts->refused++;
	if (i->options->wrong != NULL)
		i->options->wrong(i->options->arg, path, sentence);
}

/* What only this message is to blame for does not end the import. */
static bool is_of_message(int error)
{
	return error == -E2BIG || error == -EINVAL;
}

static int store_one(void *arg, const char *path, const mail_source *source, unsigned flags)
{
	importing *i = arg;
	deliver_mail mail;
	store_place place = {.user = i->options->user, .folder = i->options->folder};
	int error = deliver_prepare(&mail, source, i->options->now_s);
	if (error == 0) {
		mail.mail.head.flags |= flags;
		error = store_deliver(i->options->store, &mail.mail, &place, 1);
		deliver_release(&mail);
	}
	i->counts->bytes += source->bytes;
	if (is_of_message(error))
		refuse(i, path, weir_error());
	else if (error != 0)
		return error;
	else if (place.known)
		i->counts->known++;
	else
		i->counts->stored++;
	return i->options->progress != NULL ? i->options->progress(i->options->arg, i->counts) : 0;
}

int import_path(const import_options *options, const char *path, import_counts *counts)
{
	importing i = {.options = options, .counts = counts};
	return mailbox_read(&(mailbox_reader){.each = store_one, .wrong = refuse, .arg = &i}, path);
}

/* ---- the verb ---- */

static int usage(void)
{
	fputs("usage: weir-webmail import --data DIR --user NAME [--folder NAME] PATH...\n"
	      "Imports mbox files, Maildir folders, and files of single messages. What is there already is "
	      "not stored\n"
	      "again. --db URL names another database than DIR/mail.db.\n",
	      stderr);
	return 2;
}

static void print_wrong(void *arg, const char *path, const char *sentence)
{
	fprintf(stderr, "%s%s: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", path, sentence);
}

static void print_counts(const import_counts *counts, const char *end)
{
	fprintf(stderr, "%llu stored, %llu known, %llu refused, %llu MB%s",
		(unsigned long long)counts->stored, (unsigned long long)counts->known,
		(unsigned long long)counts->refused, (unsigned long long)(counts->bytes >> 20), end);
}

/* On a terminal a line that changes, elsewhere a line every thousand messages. */
static int print_progress(void *arg, const import_counts *counts)
{
	uint64_t messages = counts->stored + counts->known + counts->refused;
	bool terminal = isatty(STDERR_FILENO) != 0;
	if (terminal && messages % 50 == 0) {
		fputs("\r\033[K", stderr);
		print_counts(counts, "");
	} else if (!terminal && messages % 1000 == 0) {
		print_counts(counts, "\n");
	}
	return 0;
}

typedef struct import_wanted {
	weir_span name;
	uint32_t id;
} import_wanted;

static void match_folder(const store_folder *folder, void *arg)
{
	import_wanted *wanted = arg;
	if (folder->name.length == wanted->name.length &&
	    strncasecmp(folder->name.at, wanted->name.at, wanted->name.length) == 0)
		wanted->id = folder->id;
}

/* Finds the folder, or makes it. */
static int find_folder(store *s, uint32_t user, const char *name, uint32_t *ret_folder)
{
	import_wanted wanted = {.name = {name, strlen(name)}};
	int error = store_folders(s, user, match_folder, &wanted);
	if (error >= 0 && wanted.id == 0)
		error = store_folder_add(s, user, wanted.name, &wanted.id);
	*ret_folder = wanted.id;
	return error < 0 ? error : 0;
}

static int run(store *s, const verb_options *words, char **paths)
{
	store_user user;
	uint32_t folder = 0;
	int error = store_user_find(s, (weir_span){words->user, strlen(words->user)}, &user);
	if (error == 0 && words->folder != NULL)
		error = find_folder(s, user.id, words->folder, &folder);
	if (error != 0)
		return verb_failed("import");
	import_counts counts = {0};
	import_options options = {.store = s,
				  .user = user.id,
				  .folder = folder,
				  .now_s = (int64_t)time(NULL),
				  .progress = print_progress,
				  .wrong = print_wrong};
	for (; error == 0 && *paths != NULL; paths++)
		error = import_path(&options, *paths, &counts);
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	print_counts(&counts, "\n");
	if (error != 0)
		return verb_failed("import");
	return counts.refused > 0 ? 1 : 0;
}

int import_main(int argc, char **argv)
{
	verb_options words;
	int first = verb_options_read(argc, argv, &words);
	if (first == 0 || first >= argc || words.user == NULL)
		return usage();
	store *s;
	mail_init();
	if (store_open_data(words.data, words.database, &s) != 0)
		return verb_failed("import");
	int status = run(s, &words, argv + first);
	store_close(s);
	return status;
}
