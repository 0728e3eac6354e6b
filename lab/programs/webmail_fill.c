/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills a webmail's store for the lab: users user0, user1, ... with one password, and an inbox of 1 to 12,794
 * made messages each; user0 has the largest. The same seed makes the same mail.
 *
 *	webmail_fill --db sqlite:FILE [--users N] [--largest N] [--seed N] [--password TEXT] [--gold N]
 *	             [--cheap]
 *	webmail_fill --db sqlite:FILE --passwords [--cheap]
 *	webmail_fill --maildir DIR [--largest N] [--seed N]
 *
 * --cheap: passwords are hashed with the least that argon2id can do, so that a login costs as little as in the
 * papers. --passwords: gives the users that are there the password again, and does nothing else.
 *
 * --maildir: writes the inbox of user0 as a Maildir instead, for other programs.
 *
 * The users are bronze. There are --gold more users of class gold: gold0, gold1, ...
 *
 * Models of users name 200 messages by number. Whoever has fewer in the inbox has the rest among the
 * mail that was sent.
 */
#include <errno.h>
#include <getopt.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "made_mail.h"
#include "webmail/password.h"

#define NAMED 200u /* messages that every user has */

typedef struct fill_options {
	const char *url, *password, *maildir;
	unsigned users, largest, gold;
	uint64_t seed;
	bool cheap, passwords;
} fill_options;

static bool read_options(int argc, char **argv, fill_options *o)
{
	static const struct option known[] = {
		{"db", required_argument, NULL, 'd'},       {"users", required_argument, NULL, 'u'},
		{"largest", required_argument, NULL, 'l'},  {"seed", required_argument, NULL, 's'},
		{"password", required_argument, NULL, 'p'}, {"gold", required_argument, NULL, 'g'},
		{"maildir", required_argument, NULL, 'm'},  {"cheap", no_argument, NULL, 'c'},
		{"passwords", no_argument, NULL, 'P'},      {NULL, 0, NULL, 0}};
	int option;
	*o = (fill_options){.password = "lab password", .users = 10, .largest = MADE_FOLDER_MAX, .seed = 1};
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		unsigned number = (unsigned)strtoul(optarg != NULL ? optarg : "0", NULL, 10);
		if (option == 'd')
			o->url = optarg;
		else if (option == 'p')
			o->password = optarg;
		else if (option == 'u')
			o->users = number;
		else if (option == 'l')
			o->largest = number;
		else if (option == 's')
			o->seed = number;
		else if (option == 'g')
			o->gold = number;
		else if (option == 'm')
			o->maildir = optarg;
		else if (option == 'c')
			o->cheap = true;
		else if (option == 'P')
			o->passwords = true;
		else
			return false;
	}
	return (o->url != NULL) != (o->maildir != NULL) && optind == argc && o->users > 0 && o->largest > 0;
}

static int fill_user(store *s, const fill_options *o, unsigned number, const char *hash)
{
	char name[20];
	uint32_t user = 0;
	store_folder sent = {.id = 0};
	bool gold = number >= o->users;
	snprintf(name, sizeof(name), "%s%u", gold ? "gold" : "user", gold ? number - o->users : number);
	made_mail *made = made_mail_new(o->seed * 1000003 + number);
	int failed = made == NULL ? weir_error_set(-ENOMEM, "out of memory")
				  : store_user_add(s, name, hash, gold ? "gold" : "bronze", 0, &user);
	if (failed == 0)
		failed = store_folder_of(s, user, STORE_SENT, &sent);
	unsigned inbox = made_folder_size(o->seed, number, o->largest);
	for (unsigned i = 0; failed == 0 && (i < inbox || i < NAMED); i++) {
		store_mail mail = *made_mail_next(made);
		mail.not_durable = true;
		failed = store_deliver(s, &mail,
				       &(store_place){.user = user, .folder = i < inbox ? 0 : sent.id}, 1);
	}
	made_mail_free(made);
	return failed;
}

static int write_file(const char *path, weir_span bytes)
{
	FILE *file = fopen(path, "w");
	bool written = file != NULL && fwrite(bytes.at, 1, bytes.length, file) == bytes.length;
	if (file != NULL && fclose(file) != 0)
		written = false;
	return written ? 0 : weir_error_set(-EIO, "%s: it cannot be written", path);
}

static int fill_maildir(const fill_options *o)
{
	char path[4096];
	static const char *const folders[] = {"new", "tmp", "cur"};
	for (unsigned i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", o->maildir, folders[i]);
		if (mkdir(path, 0755) != 0)
			return weir_error_set(-EIO, "%s: %s", path, strerror(errno));
	}
	made_mail *made = made_mail_new(o->seed * 1000003);
	int failed = made == NULL ? weir_error_set(-ENOMEM, "out of memory") : 0;
	for (unsigned i = 0; failed == 0 && i < o->largest; i++) {
		made_mail_next(made);
		snprintf(path, sizeof(path), "%s/cur/%u.made.lab:2,S", o->maildir, 1000000 + i);
		failed = write_file(path, made_mail_raw(made));
	}
	made_mail_free(made);
	return failed;
}

static int hash_password(const fill_options *o, char ret_hash[PASSWORD_HASH_SIZE])
{
	if (!o->cheap)
		return password_hash((weir_span){o->password, strlen(o->password)}, ret_hash);
	if (sodium_init() < 0 ||
	    crypto_pwhash_str_alg(ret_hash, o->password, strlen(o->password), crypto_pwhash_OPSLIMIT_MIN,
				  crypto_pwhash_MEMLIMIT_MIN, crypto_pwhash_ALG_ARGON2ID13) != 0)
		return weir_error_set(-ENOMEM, "out of memory");
	return 0;
}

typedef struct fill_names {
	uint32_t *users;
	unsigned count;
} fill_names;

static int note_user(const store_user *user, void *arg)
{
	fill_names *names = arg;
	uint32_t *larger = realloc(names->users, (names->count + 1) * sizeof(*larger));
	if (larger == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	names->users = larger;
	names->users[names->count++] = user->id;
	return 0;
}

static int change_passwords(store *s, const char *hash)
{
	fill_names names = {NULL, 0};
	int failed = store_users(s, note_user, &names);
	for (unsigned i = 0; failed == 0 && i < names.count; i++)
		failed = store_user_password(s, names.users[i], hash);
	free(names.users);
	return failed;
}

static int fill(store *s, const fill_options *o, const char *hash)
{
	int failed = 0;
	for (unsigned i = 0; failed == 0 && i < o->users + o->gold; i++)
		failed = fill_user(s, o, i, hash);
	return failed;
}

int main(int argc, char **argv)
{
	fill_options options;
	char hash[PASSWORD_HASH_SIZE];
	store *s = NULL;
	if (!read_options(argc, argv, &options)) {
		fputs("usage: webmail_fill --db URL [--users N] [--largest N] [--seed N] [--password TEXT] "
		      "[--gold N] [--cheap]\n       webmail_fill --db URL --passwords [--cheap]\n       "
		      "webmail_fill --maildir DIR [--largest N] [--seed "
		      "N]\n",
		      stderr);
		return 2;
	}
	int failed = options.maildir != NULL ? fill_maildir(&options) : hash_password(&options, hash);
	if (failed == 0 && options.url != NULL)
		failed = store_open(options.url, &s);
	if (failed == 0 && options.url != NULL)
		failed = options.passwords ? change_passwords(s, hash) : fill(s, &options, hash);
	if (failed != 0)
		fprintf(stderr, "webmail_fill: %s\n", weir_error());
	store_close(s);
	return failed != 0;
}
