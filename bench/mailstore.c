/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The webmail's store: how long a page of a list and a search take, on one folder of made mail.
 *
 *	mailstore --db URL --fill N    makes a user with an inbox of N messages
 *	mailstore --db URL --ask N     asks N times for each, and prints the 90th percentiles in milliseconds
 *
 * Pages are anywhere in the folder, by date, author and subject in turn. Searches are for one or two words, from frequent
 * to rare.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "made_mail.h"

#define SEED      1
#define ASKED_MAX 10000

static double now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int fill(store *s, unsigned count)
{
	uint32_t user = 0;
	made_mail *made = made_mail_new(SEED);
	int failed = made == NULL ? -ENOMEM : store_user_add(s, "bench", "", NULL, 0, &user);
	for (unsigned i = 0; failed == 0 && i < count; i++) {
		store_mail mail = *made_mail_next(made);
		mail.not_durable = true;
		failed = store_deliver(s, &mail, &(store_place){.user = user}, 1);
	}
	made_mail_free(made);
	return failed;
}

/* ---- asking ---- */

typedef struct asking {
	store *s;
	uint32_t user;
	store_folder inbox;
	weir_random random;
	made_mail *made;
} asking;

static void ignore(const store_message *message, void *arg)
{
}

static int ask_list(asking *a, unsigned turn)
{
	store_list list = {.folder = a->inbox.id,
			   .sort = turn % STORE_SORTS,
			   .skip = (uint32_t)weir_random_below(&a->random, a->inbox.total),
			   .count = 10};
	return store_messages(a->s, a->user, &list, ignore, NULL);
}

static int ask_first(asking *a, unsigned turn)
{
	store_list list = {.folder = a->inbox.id, .sort = turn % STORE_SORTS, .count = 10};
	return store_messages(a->s, a->user, &list, ignore, NULL);
}

static int ask_search(asking *a, unsigned turn)
{
	static const unsigned rarities[] = {3, 10, 30, 100, 1000};
	char words[60];
	const char *one = made_mail_word(a->made, rarities[turn % 5]);
	const char *two = made_mail_word(a->made, rarities[weir_random_below(&a->random, 5)] + 1);
	snprintf(words, sizeof(words), "%s %s", one, turn % 2 == 0 ? "" : two);
	store_query query = {.words = {words, strlen(words)}, .count = 10};
	return store_search(a->s, a->user, &query, ignore, NULL);
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;
	return (a > b) - (a < b);
}

static int ask(asking *a, const char *what, int (*one)(asking *a, unsigned turn), unsigned count)
{
	static double took_ms[ASKED_MAX];
	for (unsigned i = 0; i < count; i++) {
		double start = now_ms();
		int result = one(a, i);
		took_ms[i] = now_ms() - start;
		if (result < 0)
			return result;
	}
	qsort(took_ms, count, sizeof(took_ms[0]), compare);
	printf("%s_p90_ms %.4f\n", what, took_ms[count * 9 / 10]);
	return 0;
}

static int ask_all(store *s, unsigned count)
{
	store_user user;
	asking a = {.s = s, .made = made_mail_new(SEED)};
	weir_random_init(&a.random, SEED);
	int failed = a.made == NULL ? -ENOMEM : store_user_find(s, WEIR_SPAN("bench"), &user);
	a.user = failed == 0 ? user.id : 0;
	if (failed == 0)
		failed = store_folder_of(s, a.user, STORE_INBOX, &a.inbox);
	if (failed == 0)
		failed = ask(&a, "first", ask_first, count);
	if (failed == 0)
		failed = ask(&a, "list", ask_list, count);
	if (failed == 0)
		failed = ask(&a, "search", ask_search, count);
	made_mail_free(a.made);
	return failed;
}

int main(int argc, char **argv)
{
	store *s = NULL;
	unsigned count = argc == 5 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
	bool filling = argc == 5 && strcmp(argv[3], "--fill") == 0;
	if (argc != 5 || strcmp(argv[1], "--db") != 0 || count == 0 || (!filling && count > ASKED_MAX)) {
		fputs("usage: mailstore --db URL --fill N | --ask N\n", stderr);
		return 2;
	}
	int failed = store_open(argv[2], &s);
	if (failed == 0)
		failed = filling ? fill(s, count) : ask_all(s, count);
	if (failed != 0)
		fprintf(stderr, "mailstore: %s\n", weir_error());
	store_close(s);
	return failed != 0;
}
