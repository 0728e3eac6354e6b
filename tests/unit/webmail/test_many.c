/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads, each with a store of its own, on the same mail. */
#include "on_store.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define THREADS 4
#define TURNS   40

typedef struct worker {
	on_store *on;
	unsigned number;
	unsigned failed; /* results that may not be */
	unsigned delivered;
} worker;

/* All deliver the same mail to both users: it must be there once. */
static void *work(void *arg)
{
	worker *w = arg;
	store *s = NULL;
	if (store_open(w->on->url, &s) != 0) {
		w->failed++;
		return NULL;
	}
	made_mail *made = made_mail_new(9);
	for (unsigned i = 0; i < TURNS; i++) {
		store_place both[] = {{.user = w->on->bob}, {.user = w->on->ann}};
		store_mail mail = *made_mail_next(made);
		mail.not_durable = true;
		w->failed += store_deliver(s, &mail, both, 2) != 0;
		w->delivered += !both[0].known;
		uint32_t folder = 1 + (w->number + i) % 5;
		w->failed += store_refile(s, w->on->ann, &both[1].message, 1, folder) < 0;
		w->failed += store_flags(s, w->on->bob, &both[0].message, 1, i % 2, !(i % 2)) < 0;
		on_messages seen = {0};
		store_list list = {.folder = 1, .count = 20};
		w->failed += store_messages(s, w->on->ann, &list, on_message, &seen) < 0;
	}
	made_mail_free(made);
	store_close(s);
	return NULL;
}

static void work_at_once(void **state)
{
	on_store *on = *state;
	pthread_t threads[THREADS];
	worker workers[THREADS];
	unsigned delivered = 0;
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (worker){.on = on, .number = i};
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(workers[i].failed, 0);
		delivered += workers[i].delivered;
	}
	assert_int_equal(delivered, TURNS);
	on_store_check(on->s);
}

/* ---- the first who open a store make its tables ---- */

static void *open_new(void *arg)
{
	store *s = NULL;
	uintptr_t failed = store_open(arg, &s) != 0;
	if (failed)
		fprintf(stderr, "%s\n", weir_error());
	store_close(s);
	return (void *)failed;
}

/* A database that nobody has opened yet. */
static void new_url(const on_store *on, unsigned number, char *url, size_t size)
{
	char sql[60];
	db *d = NULL;
	if (on->kind == DB_SQLITE) {
		snprintf(url, size, "sqlite:%s/new%u.db", on->folder, number);
		return;
	}
	snprintf(sql, sizeof(sql), "CREATE DATABASE new%u", number);
	assert_int_equal(db_open(on->url, 1000, &d), 0);
	assert_int_equal(db_script(d, sql), 0);
	db_close(d);
	const char *socket = strchr(on->url, '?');
	snprintf(url, size, "mariadb://root@localhost/new%u%s", number, socket);
}

static void open_at_once(void **state)
{
	on_store *on = *state;
	for (unsigned turn = 0; turn < (on->kind == DB_SQLITE ? 20 : 1); turn++) {
		pthread_t threads[THREADS];
		char url[400];
		new_url(on, turn, url, sizeof(url));
		for (unsigned i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, open_new, url), 0);
		for (unsigned i = 0; i < THREADS; i++) {
			void *failed = NULL;
			pthread_join(threads[i], &failed);
			assert_null(failed);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(work_at_once), cmocka_unit_test(open_at_once)};
	return ON_STORE(tests);
}
