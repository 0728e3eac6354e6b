/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills a webmail's store for the lab: users user0, user1, ... with one password, and an inbox of 1 to 12,794
 * made messages each; user0 has the largest. The same seed makes the same mail.
 *
 *	webmail_fill --db sqlite:FILE [--users N] [--largest N] [--seed N] [--password TEXT] [--gold N]
 *
 * The users are bronze. There are --gold more users of class gold: gold0, gold1, ...
 *
 * Models of users name messages by number, 1 to 200. Whoever has fewer in the inbox has the rest among the
 * mail that was sent.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "made_mail.h"
#include "webmail/password.h"

#define NAMED 200u /* messages that every user has */

typedef struct fill_options {
	const char *url, *password;
	unsigned users, largest, gold;
	uint64_t seed;
} fill_options;

static bool read_options(int argc, char **argv, fill_options *o)
{
	static const struct option known[] = {{"db", required_argument, NULL, 'd'},
					      {"users", required_argument, NULL, 'u'},
					      {"largest", required_argument, NULL, 'l'},
					      {"seed", required_argument, NULL, 's'},
					      {"password", required_argument, NULL, 'p'},
					      {"gold", required_argument, NULL, 'g'},
					      {NULL, 0, NULL, 0}};
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
		else
			return false;
	}
	return o->url != NULL && optind == argc && o->users > 0 && o->largest > 0;
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

int main(int argc, char **argv)
{
	fill_options options;
	char hash[PASSWORD_HASH_SIZE];
	store *s = NULL;
	if (!read_options(argc, argv, &options)) {
		fputs("usage: webmail_fill --db URL [--users N] [--largest N] [--seed N] [--password TEXT] "
		      "[--gold N]\n",
		      stderr);
		return 2;
	}
	int failed = password_hash((weir_span){options.password, strlen(options.password)}, hash);
	if (failed == 0)
		failed = store_open(options.url, &s);
	for (unsigned i = 0; failed == 0 && i < options.users + options.gold; i++)
		failed = fill_user(s, &options, i, hash);
	if (failed != 0)
		fprintf(stderr, "webmail_fill: %s\n", weir_error());
	store_close(s);
	return failed != 0;
}
