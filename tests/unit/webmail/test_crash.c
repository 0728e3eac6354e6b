/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that delivers and refiles is killed at a random moment, again and again. It tells each step over
 * a pipe when it was acknowledged. After each kill, what was acknowledged must be there once, and what was
 * under way must have happened wholly or not at all. The next process repeats the delivery that had no
 * answer, as an MTA does.
 *
 * The moment is chosen by a count of steps and then some microseconds, so it hits everything that a step
 * does, on a busy machine too. WEIR_LONG=1: 1000 kills of each kind; WEIR_SEED repeats a run.
 */
#include "on_store.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGES_MAX  6000
#define LIVES_A_STORE 50

/* One step of the child: asked before it, done after it. */
typedef struct crash_step {
	enum { DELIVERED, REFILE_ASKED, REFILED } what;
	uint32_t number, id, folder;
} crash_step;

/* What the parent knows. Numbers count mails; ids are the store's. */
typedef struct crash_model {
	uint32_t delivered; /* mails 1 to this were acknowledged */
	uint32_t ids[MESSAGES_MAX];
	uint32_t folders[MESSAGES_MAX];
	crash_step asked; /* a refile without an answer; number 0: none */
	uint32_t folder_ids[5];
} crash_model;

/* ---- the child ---- */

static const store_mail *numbered_mail(uint32_t number)
{
	static char subject[40], text[3000], raw[6000];
	static weir_span bytes;
	static store_mail mail;
	snprintf(subject, sizeof(subject), "message %u", number);
	size_t length = 0;
	for (uint32_t i = 0; i < 20 + number % 200; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "word%u ",
					   (number * 31 + i * i) % 1000);
	bytes = (weir_span){raw, (size_t)snprintf(raw, sizeof(raw), "Subject: %s\r\n\r\n%s", subject, text)};
	mail = *on_store_mail(subject, text);
	mail.raw = mail_from_memory(bytes.at, bytes.length);
	mail.head.date_s = number;
	return &mail;
}

static void tell(int pipe_fd, crash_step step)
{
	if (write(pipe_fd, &step, sizeof(step)) != sizeof(step))
		_exit(3);
}

/* Never returns: it is killed, or ends when the database does. */
static void live(const on_store *on, const crash_model *model, uint64_t seed, int pipe_fd)
{
	weir_random random;
	store *s = NULL;
	static uint32_t ids[MESSAGES_MAX];
	memcpy(ids, model->ids, sizeof(ids));
	weir_random_init(&random, seed);
	if (store_open(on->url, &s) != 0)
		_exit(1);
	for (uint32_t number = model->delivered + 1; number < MESSAGES_MAX; number++) {
		store_place both[] = {{.user = on->ann}, {.user = on->bob}};
		if (store_deliver(s, numbered_mail(number), both, 2) != 0)
			_exit(2);
		ids[number] = both[0].message;
		tell(pipe_fd, (crash_step){.what = DELIVERED, .number = number, .id = both[0].message});
		uint32_t which = 1 + (uint32_t)weir_random_below(&random, number);
		crash_step refile = {REFILE_ASKED, which, ids[which],
				     model->folder_ids[weir_random_below(&random, 5)]};
		tell(pipe_fd, refile);
		if (store_refile(s, on->ann, &refile.id, 1, refile.folder) < 0)
			_exit(2);
		refile.what = REFILED;
		tell(pipe_fd, refile);
	}
	_exit(0);
}

/* ---- the parent ---- */

static void learn(crash_model *model, const crash_step *step)
{
	if (step->what == DELIVERED) {
		assert_int_equal(step->number, model->delivered + 1);
		model->delivered = step->number;
		model->ids[step->number] = step->id;
		model->folders[step->number] = model->folder_ids[0];
	} else if (step->what == REFILE_ASKED) {
		model->asked = *step;
	} else {
		model->folders[step->number] = step->folder;
		model->asked.number = 0;
	}
}

/* A whole step, or false at the end. A pipe passes writes of this size as a whole. */
static bool hear(int pipe_fd, crash_model *model)
{
	crash_step step;
	if (read(pipe_fd, &step, sizeof(step)) != sizeof(step))
		return false;
	learn(model, &step);
	return true;
}

/* One life of the child; with `server`, the database is killed first. */
static void kill_one(const on_store *on, crash_model *model, weir_random *random, bool server)
{
	int pipes[2];
	uint64_t seed = weir_random_u64(random), steps = weir_random_below(random, 30);
	assert_int_equal(pipe(pipes), 0);
	pid_t pid = fork();
	if (pid == 0) {
		close(pipes[0]);
		live(on, model, seed, pipes[1]);
	}
	close(pipes[1]);
	bool more = true;
	for (uint64_t i = 0; i < steps && more; i++)
		more = hear(pipes[0], model);
	nanosleep(&(struct timespec){.tv_nsec = (long)weir_random_below(random, 3000000)}, NULL);
	if (server)
		on_mariadb_crash();
	kill(pid, SIGKILL);
	while (more)
		more = hear(pipes[0], model);
	waitpid(pid, NULL, 0);
	close(pipes[0]);
}

/* What the store has of each mail. */
typedef struct crash_seen {
	uint32_t times[MESSAGES_MAX];
	uint32_t ids[MESSAGES_MAX];
	uint32_t folders[MESSAGES_MAX];
} crash_seen;

static void see(const store_message *message, void *arg)
{
	crash_seen *seen = arg;
	char subject[40];
	unsigned number = 0;
	snprintf(subject, sizeof(subject), "%.*s", (int)message->subject.length, message->subject.at);
	assert_int_equal(sscanf(subject, "message %u", &number), 1);
	assert_true(number < MESSAGES_MAX);
	seen->times[number]++;
	seen->ids[number] = message->id;
	seen->folders[number] = message->folder;
}

static void see_all(store *s, uint32_t user, const uint32_t *folders, crash_seen *seen)
{
	memset(seen, 0, sizeof(*seen));
	for (unsigned i = 0; i < 5; i++) {
		store_list list = {.folder = folders[i], .count = STORE_PAGE_MAX};
		while (store_messages(s, user, &list, see, seen) > 0)
			list.skip += STORE_PAGE_MAX;
	}
}

/* Whether the refile that had no answer has happened. */
static void settle(on_store *on, crash_model *model)
{
	on_messages seen = {0};
	/* A database that is a server may still be at the last step: whoever writes next waits for it. */
	assert_int_equal(store_flags(on->s, on->ann, NULL, 0, 0, 0), 0);
	uint32_t number = model->asked.number;
	if (number == 0)
		return;
	assert_int_equal(store_message_get(on->s, on->ann, model->asked.id, on_message, &seen), 0);
	if (seen.rows[0].folder != model->folders[number])
		assert_int_equal(seen.rows[0].folder, model->asked.folder);
	model->folders[number] = seen.rows[0].folder;
	model->asked.number = 0;
}

/* Those that were acknowledged once, and at most one more: the one under way. */
static void judge(on_store *on, const crash_model *model)
{
	static crash_seen seen;
	see_all(on->s, on->ann, model->folder_ids, &seen);
	for (uint32_t number = 1; number <= model->delivered; number++) {
		assert_int_equal(seen.times[number], 1);
		assert_int_equal(seen.ids[number], model->ids[number]);
		assert_int_equal(seen.folders[number], model->folders[number]);
	}
	assert_true(seen.times[model->delivered + 1] <= 1);
	uint32_t under_way = seen.times[model->delivered + 1];
	see_all(on->s, on->bob, model->folder_ids, &seen);
	assert_int_equal(seen.times[model->delivered + 1], under_way);
	for (uint32_t number = 1; number <= model->delivered; number++)
		assert_int_equal(seen.times[number], 1);
	on_store_check(on->s);
}

static void lose_nothing(db_kind kind, unsigned kills, unsigned server_kills)
{
	weir_random random;
	uint64_t seed = check_env("WEIR_SEED", 1);
	static crash_model model;
	uint64_t delivered = 0;
	weir_random_init(&random, seed);
	for (unsigned done = 0; done < kills;) {
		on_store on;
		on_store_begin(&on, kind);
		memset(&model, 0, sizeof(model));
		for (store_role role = STORE_INBOX; role < STORE_ROLES; role++)
			model.folder_ids[role - STORE_INBOX] = on_store_role(on.s, on.ann, role);
		for (unsigned life = 0; life < LIVES_A_STORE && done < kills; life++, done++) {
			store_close(on.s);
			bool server = server_kills > 0 && done % (kills / server_kills) == 0;
			kill_one(&on, &model, &random, server);
			assert_int_equal(store_open(on.url, &on.s), 0);
			settle(&on, &model);
			if (life % 5 == 4 || server || done + 1 == kills)
				judge(&on, &model);
		}
		delivered += model.delivered;
		on_store_end(&on);
	}
	print_message("%u kills, %u of the server, %llu mails acknowledged and none lost\n", kills,
		      server_kills, (unsigned long long)delivered);
	assert_true(delivered > 0);
}

static void loses_nothing_on_sqlite(void **state)
{
	lose_nothing(DB_SQLITE, check_long() ? 1000 : 40, 0);
}

static void loses_nothing_on_mariadb(void **state)
{
	if (on_mariadb_start() == NULL) {
		print_message("left out: MariaDB, which is not installed\n");
		return;
	}
	lose_nothing(DB_MARIADB, check_long() ? 1000 : 20, check_long() ? 50 : 1);
	on_mariadb_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loses_nothing_on_sqlite),
		cmocka_unit_test(loses_nothing_on_mariadb),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
