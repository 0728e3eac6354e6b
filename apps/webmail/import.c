/* SPDX-License-Identifier: Apache-2.0 */
#include "import.h"
#include "deliver.h"
#include "import_mbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FOLDER_DEPTH_MAX 16u

typedef struct importing {
	const import_options *options;
	import_counts *counts;
	unsigned depth; /* of folders */
} importing;

static void complain(importing *i, const char *path, const char *sentence)
{
	if (i->options->wrong != NULL)
		i->options->wrong(i->options->arg, path, sentence);
}

static void complain_errno(importing *i, const char *path)
{
	i->counts->refused++;
	complain(i, path, strerror(errno));
}

/* ---- one message ---- */

/* What only this message is to blame for does not end the import. */
static bool is_of_message(int error)
{
	return error == -E2BIG || error == -EINVAL;
}

static int store_one(importing *i, const mail_source *source, const char *path, unsigned flags)
{
	deliver_mail mail;
	store_place place = {.user = i->options->user, .folder = i->options->folder};
	int error = deliver_prepare(&mail, source, i->options->now_s);
	if (error == 0) {
		mail.mail.head.flags |= flags;
		error = store_deliver(i->options->store, &mail.mail, &place, 1);
		deliver_release(&mail);
	}
	i->counts->bytes += source->bytes;
	if (is_of_message(error)) {
		i->counts->refused++;
		complain(i, path, weir_error());
	} else if (error != 0) {
		return error;
	} else if (place.known) {
		i->counts->known++;
	} else {
		i->counts->stored++;
	}
	return i->options->progress != NULL ? i->options->progress(i->options->arg, i->counts) : 0;
}

/* ---- files ---- */

static int each_of_mbox(void *arg, const import_message *message)
{
	importing *i = arg;
	mail_source source = mail_from_memory(message->bytes, message->length);
	if (message->too_long) {
		i->counts->refused++;
		i->counts->bytes += message->length;
		complain(i, message->path, "a message has too many bytes");
		return 0;
	}
	return store_one(i, &source, message->path, message->flags);
}

/* The letters behind ":2," in a name of a Maildir. */
static unsigned maildir_flags(const char *path)
{
	const char *info = strstr(path, ":2,");
	unsigned flags = 0;
	for (const char *at = info != NULL ? info + 3 : ""; *at != '\0'; at++)
		flags |= *at == 'S'   ? STORE_SEEN
			 : *at == 'R' ? STORE_ANSWERED
			 : *at == 'F' ? STORE_FLAGGED
			 : *at == 'P' ? STORE_FORWARDED
				      : 0u;
	return flags;
}

static int import_file(importing *i, const char *path)
{
	struct stat status;
	char start[5] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error = 0;
	if (fd < 0 || fstat(fd, &status) != 0) {
		complain_errno(i, path);
	} else if (pread(fd, start, sizeof(start), 0) == (ssize_t)sizeof(start) &&
		   memcmp(start, "From ", sizeof(start)) == 0) {
		error = import_mbox(fd, path, each_of_mbox, i);
		if (error == -EIO) {
			complain(i, path, weir_error());
			error = 0;
		}
	} else if (status.st_size > 0) {
		mail_source source = mail_from_fd(fd, (uint64_t)status.st_size);
		error = store_one(i, &source, path, maildir_flags(path));
	}
	if (fd >= 0)
		close(fd);
	return error;
}

static int import_any(importing *i, const char *path);

/* In a Maildir, mail is in `cur` and `new`; `tmp` has what is not complete. Index files begin with a dot. */
static bool is_skipped(const char *name, bool maildir)
{
	if (maildir)
		return strcmp(name, "cur") != 0 && strcmp(name, "new") != 0;
	return name[0] == '.';
}

static bool has_folder(const char *path, const char *name)
{
	char below[4096];
	struct stat status;
	snprintf(below, sizeof(below), "%s/%s", path, name);
	return stat(below, &status) == 0 && S_ISDIR(status.st_mode);
}

static int import_folder(importing *i, const char *path)
{
	struct dirent **names;
	bool maildir = has_folder(path, "cur") && has_folder(path, "new");
	int count = scandir(path, &names, NULL, alphasort), error = 0;
	if (count < 0) {
		complain_errno(i, path);
		return 0;
	}
	for (int at = 0; at < count; at++) {
		char below[4096];
		int length = snprintf(below, sizeof(below), "%s/%s", path, names[at]->d_name);
		if (error == 0 && !is_skipped(names[at]->d_name, maildir) && length < (int)sizeof(below))
			error = import_any(i, below);
		free(names[at]);
	}
	free(names);
	return error;
}

/* Links are followed only where they are named by the user, so that folders cannot lead in circles. */
static int import_any(importing *i, const char *path)
{
	struct stat status;
	int error = 0;
	if ((i->depth == 0 ? stat(path, &status) : lstat(path, &status)) != 0) {
		complain_errno(i, path);
		return 0;
	}
	if (S_ISDIR(status.st_mode) && i->depth < FOLDER_DEPTH_MAX) {
		i->depth++;
		error = import_folder(i, path);
		i->depth--;
	} else if (S_ISREG(status.st_mode)) {
		error = import_file(i, path);
	} else if (!S_ISLNK(status.st_mode)) {
		i->counts->refused++;
		complain(i, path, "this is neither a file nor a folder that can be read");
	}
	return error;
}

int import_path(const import_options *options, const char *path, import_counts *counts)
{
	importing i = {.options = options, .counts = counts};
	return import_any(&i, path);
}

/* ---- the verb ---- */

typedef struct import_words {
	const char *data, *database, *user, *folder;
} import_words;

static int usage(void)
{
	fputs("usage: weir-webmail import --data DIR --user NAME [--folder NAME] PATH...\n"
	      "Imports mbox files, Maildir folders, and files of single messages. What is there already is "
	      "not stored\n"
	      "again. --db URL names another database than DIR/mail.db.\n",
	      stderr);
	return 2;
}

static int failed(const char *what)
{
	fprintf(stderr, "weir-webmail import: %s%s%s\n", what, *what != '\0' ? ": " : "", weir_error());
	return 1;
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

static int run(store *s, const import_words *words, char **paths)
{
	store_user user;
	uint32_t folder = 0;
	int error = store_user_find(s, (weir_span){words->user, strlen(words->user)}, &user);
	if (error == 0 && words->folder != NULL)
		error = find_folder(s, user.id, words->folder, &folder);
	if (error != 0)
		return failed("");
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
		return failed("");
	return counts.refused > 0 ? 1 : 0;
}

int import_main(int argc, char **argv)
{
	static const struct option known[] = {{"data", required_argument, NULL, 'd'},
					      {"db", required_argument, NULL, 'b'},
					      {"user", required_argument, NULL, 'u'},
					      {"folder", required_argument, NULL, 'f'},
					      {NULL, 0, NULL, 0}};
	import_words words = {0};
	int option;
	optind = 0;
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		const char **value = option == 'd'   ? &words.data
				     : option == 'b' ? &words.database
				     : option == 'u' ? &words.user
				     : option == 'f' ? &words.folder
						     : NULL;
		if (value == NULL)
			return usage();
		*value = optarg;
	}
	if (words.user == NULL || optind >= argc)
		return usage();
	store *s;
	mail_init();
	if (store_open_data(words.data, words.database, &s) != 0)
		return failed("");
	int status = run(s, &words, argv + optind);
	store_close(s);
	return status;
}
