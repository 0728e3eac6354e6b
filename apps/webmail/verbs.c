/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs of the command line that need no service: `user` and `check`. */
#include "verbs.h"
#include "password.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* ---- what all verbs have ---- */

int store_open_data(const char *data, const char *database, store **ret_store)
{
	char url[4096];
	if (database != NULL)
		return store_open(database, ret_store);
	if (data == NULL)
		return weir_error_set(-EINVAL, "there is no --data DIR, and no --db URL");
	if (mkdir(data, 0700) != 0 && errno != EEXIST)
		return weir_error_set(-errno, "%s: %s", data, strerror(errno));
	int length = snprintf(url, sizeof(url), "sqlite:%s/mail.db", data);
	if (length < 0 || (size_t)length >= sizeof(url))
		return weir_error_set(-ENAMETOOLONG, "--data: the name is too long");
	return store_open(url, ret_store);
}

int verb_failed(const char *verb)
{
	fprintf(stderr, "weir-webmail %s: %s\n", verb, weir_error());
	return 1;
}

int verb_options_read(int argc, char **argv, verb_options *options)
{
	static const struct option known[] = {
		{"data", required_argument, NULL, offsetof(verb_options, data)},
		{"db", required_argument, NULL, offsetof(verb_options, database)},
		{"class", required_argument, NULL, offsetof(verb_options, class)},
		{"user", required_argument, NULL, offsetof(verb_options, user)},
		{"folder", required_argument, NULL, offsetof(verb_options, folder)},
		{NULL, 0, NULL, 0}};
	int option;
	*options = (verb_options){.data = NULL};
	optind = 0;
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (option == '?')
			return 0;
		*(const char **)((char *)options + option) = optarg;
	}
	return optind;
}

/* ---- passwords ---- */

static void show_typing(bool show)
{
	struct termios terminal;
	if (tcgetattr(STDIN_FILENO, &terminal) != 0)
		return;
	if (show)
		terminal.c_lflag |= ECHO;
	else
		terminal.c_lflag &= ~(tcflag_t)ECHO;
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &terminal);
}

/* A line of the standard input, without being shown on a terminal. */
static int read_password(char hash[PASSWORD_HASH_SIZE])
{
	char line[PASSWORD_MAX + 3];
	bool terminal = isatty(STDIN_FILENO) != 0;
	if (terminal) {
		fputs("password: ", stderr);
		show_typing(false);
	}
	bool read = fgets(line, sizeof(line), stdin) != NULL;
	if (terminal) {
		show_typing(true);
		fputc('\n', stderr);
	}
	if (!read)
		return weir_error_set(-EINVAL, "there is no password on the standard input");
	int failed = password_hash((weir_span){line, strcspn(line, "\r\n")}, hash);
	explicit_bzero(line, sizeof(line));
	return failed;
}

/* ---- user ---- */

static int add_user(store *s, const char *name, const verb_options *options)
{
	char hash[PASSWORD_HASH_SIZE];
	uint32_t user;
	int failed = read_password(hash);
	if (failed == 0)
		failed = store_user_add(s, name, hash, options->class, (int64_t)time(NULL), &user);
	return failed;
}

static int change_password(store *s, uint32_t user)
{
	char hash[PASSWORD_HASH_SIZE];
	int failed = read_password(hash);
	return failed != 0 ? failed : store_user_password(s, user, hash);
}

static int print_user(const store_user *user, void *arg)
{
	printf("%s\t%s\n", user->name, user->class);
	return 0;
}

/* What is done to a user that is there. */
static int change_user(store *s, const char *what, int argc, char **argv)
{
	store_user user;
	int failed = store_user_find(s, (weir_span){argv[0], strlen(argv[0])}, &user);
	if (failed != 0)
		return weir_error_set(failed, "there is no user '%s'", argv[0]);
	if (strcmp(what, "passwd") == 0)
		return change_password(s, user.id);
	if (strcmp(what, "class") == 0)
		return store_user_class(s, user.id, argv[1]);
	return store_user_remove(s, user.id);
}

static int user_verb(store *s, int argc, char **argv, const verb_options *options)
{
	if (strcmp(argv[0], "list") == 0)
		return store_users(s, print_user, NULL);
	if (strcmp(argv[0], "add") == 0)
		return add_user(s, argv[1], options);
	return change_user(s, argv[0], argc - 1, argv + 1);
}

static int user_usage(void)
{
	fputs("usage: weir-webmail user [--data DIR | --db URL] VERB\n\n"
	      "  add NAME [--class CLASS]  adds a user; the password is read from the standard input\n"
	      "  passwd NAME               changes the password and ends all sessions\n"
	      "  class NAME CLASS          changes the class, such as gold or bronze\n"
	      "  remove NAME               removes the user and all mail\n"
	      "  list                      lists names and classes\n",
	      stderr);
	return 2;
}

/* Whether the words are a verb and as many names as it takes. */
static bool user_words_good(int argc, char **argv)
{
	static const struct {
		const char *name;
		int words;
	} verbs[] = {{"add", 2}, {"passwd", 2}, {"class", 3}, {"remove", 2}, {"list", 1}};
	for (size_t i = 0; argc > 0 && i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(argv[0], verbs[i].name) == 0)
			return argc == verbs[i].words;
	return false;
}

int users_main(int argc, char **argv)
{
	verb_options options;
	int first = verb_options_read(argc, argv, &options);
	if (first == 0 || !user_words_good(argc - first, argv + first))
		return user_usage();
	store *s = NULL;
	int failed = store_open_data(options.data, options.database, &s);
	if (failed == 0)
		failed = user_verb(s, argc - first, argv + first, &options);
	int status = failed != 0 ? verb_failed("user") : 0;
	store_close(s);
	return status;
}

/* ---- check ---- */

static void print_wrong(const char *sentence, void *arg)
{
	printf("%s\n", sentence);
}

int check_main(int argc, char **argv)
{
	verb_options options;
	int first = verb_options_read(argc, argv, &options);
	if (first == 0 || first != argc) {
		fputs("usage: weir-webmail check [--data DIR | --db URL]\n", stderr);
		return 2;
	}
	store *s = NULL;
	int found = store_open_data(options.data, options.database, &s);
	if (found == 0)
		found = store_check(s, print_wrong, NULL);
	if (found == 0)
		puts("nothing is wrong");
	int status = found < 0 ? verb_failed("check") : found > 0;
	store_close(s);
	return status;
}
