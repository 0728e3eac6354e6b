/* SPDX-License-Identifier: Apache-2.0 */
/* The table of sessions: its bounds, who makes room for whom, ageing, threads, a successor; and what Set-Cookie says. */
#include "support/guard.h"
#include "support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <weir/random.h>

#include "base/mem.h"
#include "rules/sessions.h"

#define START_NS (1000 * WEIR_NS_PER_S)
#define IDLE_NS  (60 * WEIR_NS_PER_S)

static weir_sessions *make(uint32_t keys)
{
	weir_sessions *sessions = NULL;
	if (weir_sessions_new(keys, &sessions) != 0)
		fail_msg("%s", weir_error());
	return sessions;
}

static uint64_t hash(const weir_sessions *sessions, uint64_t id)
{
	return weir_sessions_hash(sessions, (weir_span){(const char *)&id, sizeof(id)});
}

static bool known(weir_sessions *sessions, uint64_t id, uint64_t now_ns)
{
	return weir_sessions_known(sessions, hash(sessions, id), IDLE_NS, now_ns);
}

static void enter(weir_sessions *sessions, uint64_t id, uint64_t now_ns)
{
	weir_sessions_enter(sessions, hash(sessions, id), IDLE_NS, now_ns);
}

static weir_sessions_stats stats(const weir_sessions *sessions, uint64_t now_ns)
{
	weir_sessions_stats seen;
	weir_sessions_read(sessions, IDLE_NS, now_ns, &seen);
	return seen;
}

/* ---- one session ---- */

static void is_known_while_it_is_used(void **state)
{
	weir_sessions *sessions = make(100);
	uint64_t now = START_NS;
	assert_false(known(sessions, 1, now));
	enter(sessions, 1, now);
	enter(sessions, 1, now);
	assert_int_equal(stats(sessions, now).known, 1);
	/* Each use renews it. */
	for (int i = 0; i < 10; i++) {
		now += IDLE_NS - WEIR_NS_PER_S;
		assert_true(known(sessions, 1, now));
	}
	assert_false(known(sessions, 2, now));
	now += IDLE_NS + WEIR_NS_PER_S;
	assert_false(known(sessions, 1, now));
	assert_int_equal(stats(sessions, now).known, 0);
	/* A shorter idle time counts at once. */
	enter(sessions, 1, now);
	assert_true(weir_sessions_known(sessions, hash(sessions, 1), 2 * WEIR_NS_PER_S, now));
	assert_false(
		weir_sessions_known(sessions, hash(sessions, 1), 2 * WEIR_NS_PER_S, now + 3 * WEIR_NS_PER_S));
	weir_sessions_free(sessions);
}

static void is_forgotten_when_it_is_refused(void **state)
{
	weir_sessions *sessions = make(100);
	enter(sessions, 1, START_NS);
	enter(sessions, 2, START_NS);
	assert_true(known(sessions, 1, START_NS));
	for (int i = 0; i < 2; i++)
		weir_sessions_forget(sessions, hash(sessions, 1), IDLE_NS, START_NS);
	weir_sessions_forget(sessions, 0, IDLE_NS, START_NS);
	assert_false(known(sessions, 1, START_NS));
	assert_true(known(sessions, 2, START_NS));
	enter(sessions, 1, START_NS);
	assert_true(known(sessions, 1, START_NS));
	weir_sessions_free(sessions);
}

/* A thread whose clock is a little behind finds what one ahead of it has entered. */
static void clocks_may_differ(void **state)
{
	weir_sessions *sessions = make(100);
	enter(sessions, 1, START_NS + WEIR_NS_PER_S);
	assert_true(known(sessions, 1, START_NS));
	assert_true(known(sessions, 1, START_NS + WEIR_NS_PER_S));
	weir_sessions_free(sessions);
}

static uint64_t hash_text(const weir_sessions *sessions, const char *text)
{
	return weir_sessions_hash(sessions, (weir_span){text, strlen(text)});
}

static void identifiers(void **state)
{
	weir_sessions *sessions = make(100), *others = make(100);
	char *large = calloc(1, WEIR_SESSION_ID_MAX + 1);
	assert_int_equal(weir_sessions_hash(sessions, (weir_span){0}), 0);
	assert_int_equal(hash_text(sessions, ""), 0);
	assert_int_equal(hash_text(sessions, "\"\""), 0);
	assert_int_not_equal(hash_text(sessions, "\""), 0);
	assert_int_equal(hash_text(sessions, "\"ab\""), hash_text(sessions, "ab"));
	assert_int_not_equal(hash_text(sessions, "\"ab"), hash_text(sessions, "ab"));
	assert_int_not_equal(hash_text(sessions, "ab"), hash_text(sessions, "aB"));
	/* The hash has a secret. */
	assert_int_not_equal(hash_text(sessions, "ab"), hash_text(others, "ab"));
	assert_int_not_equal(weir_sessions_hash(sessions, (weir_span){large, WEIR_SESSION_ID_MAX}), 0);
	assert_int_equal(weir_sessions_hash(sessions, (weir_span){large, WEIR_SESSION_ID_MAX + 1}), 0);
	/* What is none is never known. */
	weir_sessions_enter(sessions, 0, IDLE_NS, START_NS);
	assert_false(weir_sessions_known(sessions, 0, IDLE_NS, START_NS));
	assert_int_equal(stats(sessions, START_NS).known, 0);
	free(large);
	weir_sessions_free(sessions);
	weir_sessions_free(others);
}

/* ---- many ---- */

enum { KEYS = 4096, MADE_UP = 1 << 20 };

static void has_room_for_as_many_as_were_asked_for(void **state)
{
	weir_sessions *sessions = make(KEYS);
	for (uint64_t id = 1; id <= KEYS; id++) {
		enter(sessions, id, START_NS);
		assert_true(known(sessions, id, START_NS));
	}
	for (uint64_t id = 1; id <= KEYS; id++)
		assert_true(known(sessions, id, START_NS));
	assert_int_equal(stats(sessions, START_NS).known, KEYS);
	assert_int_equal(stats(sessions, START_NS).crowded, 0);
	weir_sessions_free(sessions);
}

/* However many identifiers somebody makes up and has answered well, those who are using theirs stay. */
static void what_is_made_up_displaces_no_session_in_use(void **state)
{
	weir_sessions *sessions = make(KEYS);
	uint64_t now = START_NS;
	for (uint64_t id = 1; id <= KEYS / 2; id++) {
		enter(sessions, id, now);
		assert_true(known(sessions, id, now));
	}
	for (uint64_t i = 0; i < MADE_UP; i++)
		enter(sessions, 1000000 + i, now + i % 50 * WEIR_NS_PER_S);
	now += 50 * WEIR_NS_PER_S;
	for (uint64_t id = 1; id <= KEYS / 2; id++)
		assert_true(known(sessions, id, now));
	assert_in_range(stats(sessions, now).known, KEYS / 2, 2 * KEYS);
	/* Nor do they keep a newcomer out. */
	enter(sessions, 77, now);
	assert_true(known(sessions, 77, now));
	weir_sessions_free(sessions);
}

/* The one whose entry is longest ago goes first, so that a user has some time for a second page. */
static void the_oldest_on_trial_makes_room(void **state)
{
	weir_sessions *sessions = make(8); /* two sets */
	for (uint64_t id = 1; id <= 64; id++)
		enter(sessions, id, START_NS + id * WEIR_NS_PER_S / 2);
	uint64_t now = START_NS + 33 * WEIR_NS_PER_S;
	assert_int_equal(stats(sessions, now).known, 16);
	assert_true(known(sessions, 64, now));
	assert_true(known(sessions, 63, now));
	for (uint64_t id = 1; id <= 32; id++)
		assert_false(known(sessions, id, now));
	weir_sessions_free(sessions);
}

static void more_than_there_is_room_for_are_counted(void **state)
{
	weir_sessions *sessions = make(8);
	uint64_t id = 1;
	for (; stats(sessions, START_NS).crowded == 0 && id < 1000; id++) {
		enter(sessions, id, START_NS);
		known(sessions, id, START_NS);
	}
	id--;
	assert_false(known(sessions, id, START_NS));
	/* Once those have left there is room again. */
	uint64_t now = START_NS + IDLE_NS + WEIR_NS_PER_S;
	enter(sessions, id, now);
	assert_true(known(sessions, id, now));
	assert_int_equal(stats(sessions, now).known, 1);
	weir_sessions_free(sessions);
}

static void counts_by_standing(void **state)
{
	weir_sessions *sessions = make(0);
	assert_int_equal(weir_sessions_keys(sessions), WEIR_SESSIONS_KEYS);
	for (unsigned stripe = 0; stripe < 100; stripe++) {
		weir_sessions_count(sessions, stripe, WEIR_MEMBER, false);
		weir_sessions_count(sessions, stripe, WEIR_NEWCOMER, stripe % 2);
	}
	weir_sessions_stats seen = stats(sessions, START_NS);
	assert_true(seen.admitted[WEIR_MEMBER] == 100 && seen.refused[WEIR_MEMBER] == 0);
	assert_true(seen.admitted[WEIR_NEWCOMER] == 50 && seen.refused[WEIR_NEWCOMER] == 50);
	weir_sessions_free(sessions);
}

/* ---- threads ---- */

enum { THREADS = 4, OWN = 500, ROUNDS = 200 };

typedef struct worker {
	weir_sessions *sessions;
	uint64_t number;
	unsigned lost;
} worker;

/* Has sessions of its own, uses some that all have, and makes up others. */
static void *work(void *arg)
{
	worker *w = arg;
	uint64_t base = (w->number + 1) << 32;
	/* Another thread may take its place between the entry and the first use, so that is tried again. */
	for (uint64_t id = 0; id < OWN; id++)
		do {
			enter(w->sessions, base + id, START_NS);
			known(w->sessions, base + id, START_NS);
		} while (!known(w->sessions, base + id, START_NS));
	for (uint64_t round = 1; round < ROUNDS; round++) {
		uint64_t now = START_NS + round * (WEIR_NS_PER_S / 10);
		for (uint64_t id = 0; id < OWN; id++) {
			w->lost += !known(w->sessions, base + id, now);
			enter(w->sessions, base + (round << 16) + id, now);
			enter(w->sessions, id, now);
			known(w->sessions, id, now);
		}
	}
	return NULL;
}

static void threads_do_not_lose_what_is_in_use(void **state)
{
	weir_sessions *sessions = make(8192);
	worker workers[THREADS];
	pthread_t threads[THREADS];
	unsigned lost = 0;
	for (uint64_t i = 0; i < THREADS; i++) {
		workers[i] = (worker){sessions, i, 0};
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		lost += workers[i].lost;
	}
	assert_int_equal(lost, 0);
	weir_sessions_free(sessions);
}

/* ---- a successor ---- */

static char *saved(const weir_sessions *sessions, uint64_t now_ns)
{
	char *text = NULL;
	size_t length;
	FILE *to = open_memstream(&text, &length);
	assert_non_null(to);
	weir_sessions_save(sessions, IDLE_NS, now_ns, to);
	fclose(to);
	return text;
}

static void a_successor_knows_them(void **state)
{
	weir_sessions *old = make(100), *new = make(100), *other = make(101);
	uint64_t now = START_NS;
	enter(old, 1, now);
	now += IDLE_NS / 2 + 2 * WEIR_NS_PER_S;
	enter(old, 2, now);
	enter(old, 3, now);
	assert_true(known(old, 3, now));
	now += IDLE_NS / 2;
	char *text = saved(old, now); /* without 1, which is over */
	assert_false(weir_sessions_load(other, text));
	assert_int_equal(stats(other, now).known, 0);
	assert_true(weir_sessions_load(new, text));
	assert_false(known(new, 1, now));
	assert_true(known(new, 2, now) && known(new, 3, now));
	assert_false(known(new, 4, now));
	assert_int_equal(stats(new, now).known, 2);
	free(text);
	weir_sessions_free(old);
	weir_sessions_free(new);
	weir_sessions_free(other);
}

static void a_bad_line_changes_nothing(void **state)
{
	static const char *const wrong[] = {"",
					    "64",
					    "64 1",
					    "64 1 ",
					    "64 1 2 x",
					    "64 1 2 0",
					    "64 1 2 0=",
					    "64 1 2 0=1 1",
					    "64 1 2 =1",
					    "64 1 2  0=1",
					    "64 -1 2 0=1",
					    "65 1 2 0=1",
					    "64 1 2 0=11111111111111111",
					    "64 1 2 c8=1",
					    "64 1 2 ffffffffffffffff=1",
					    "64 1 2 0=1=2"};
	weir_sessions *sessions = make(100); /* 0x64; 200 places, 0xc8 */
	enter(sessions, 5, START_NS);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (weir_sessions_load(sessions, wrong[i]))
			fail_msg("believed: %s", wrong[i]);
		assert_true(known(sessions, 5, START_NS));
		assert_int_equal(stats(sessions, START_NS).known, 1);
	}
	assert_true(weir_sessions_load(sessions, "64 1 2"));
	assert_true(weir_sessions_load(sessions, "64 1 2 c7=1"));
	weir_sessions_free(sessions);
}

/* What a line may take. Those that are established go first. */
static void what_is_handed_over_is_bounded(void **state)
{
	weir_sessions *old = make(2 * WEIR_SESSIONS_SAVED), *new = make(2 * WEIR_SESSIONS_SAVED);
	for (uint64_t id = 0; id < 2 * WEIR_SESSIONS_SAVED; id++) {
		enter(old, id, START_NS);
		if (id % 4 == 0)
			known(old, id, START_NS);
	}
	char *text = saved(old, START_NS);
	assert_true(strlen(text) < 32 * WEIR_SESSIONS_SAVED);
	assert_true(weir_sessions_load(new, text));
	assert_int_equal(stats(new, START_NS).known, WEIR_SESSIONS_SAVED);
	for (uint64_t id = 0; id < 2 * WEIR_SESSIONS_SAVED; id += 4)
		assert_true(known(new, id, START_NS));
	free(text);
	weir_sessions_free(old);
	weir_sessions_free(new);
}

static void survives_without_memory(void **state)
{
	weir_sessions *sessions = NULL;
	int failed = -1;
	for (unsigned n = 1; failed != 0 && n < 10; n++) {
		weir_mem_fail_after(n);
		failed = weir_sessions_new(10, &sessions);
		weir_mem_fail_after(0);
		assert_true(failed == 0 || failed == -ENOMEM);
		assert_true(n > 2 || failed != 0);
	}
	weir_sessions_free(weir_sessions_ref(sessions));
	weir_sessions_free(sessions);
	weir_sessions_free(NULL);
	assert_int_equal(weir_sessions_new(WEIR_SESSIONS_KEYS_MAX + 1, &sessions), -EINVAL);
}

/* ---- Set-Cookie ---- */

#define NOW_S 1800000000

static void what_set_cookie_says(void **state)
{
	static const struct {
		const char *value, *id; /* NULL: nothing about it; "": deleted */
	} all[] = {
		{"sid=31d4", "31d4"},
		{"sid=31d4; Path=/; HttpOnly; SameSite=Lax", "31d4"},
		{"  sid =  31d4  ;Secure", "31d4"},
		{"sid=\"31d4\"; Path=/", "\"31d4\""},
		{"sid=a=b==", "a=b=="},
		{"sid=x; Max-Age=600", "x"},
		{"sid=x; max-age=1; expires=Thu, 01 Jan 1970 00:00:00 GMT", "x"},
		{"sid=x; expires=Fri, 31 Dec 2199 00:00:00 GMT", "x"},
		{"sid=x; expires=tomorrow", "x"},
		{"sid=x; Max-Age", "x"},
		{"sid=x;;;=;", "x"},
		{"sid=", ""},
		{"sid=; Max-Age=600", ""},
		{"sid=deleted; expires=Thu, 01 Jan 1970 00:00:01 GMT", ""},
		{"sid=deleted; Path=/; Max-Age=0", ""},
		{"sid=deleted; Max-Age=000", ""},
		{"sid=deleted; Max-Age=-1; Expires=Fri, 31 Dec 2199 00:00:00 GMT", ""},
		{"sid", NULL},
		{"sidx=1", NULL},
		{"si=1", NULL},
		{"SID=1", NULL},
		{"other=1; sid=2", NULL},
		{"=sid", NULL},
		{";sid=1", NULL},
		{"", NULL},
		{"=", NULL},
		{";", NULL},
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		size_t length = strlen(all[i].value);
		weir_span id = {NULL, 99}, value = {guard_end(all[i].value, length), length};
		bool found = weir_set_cookie_find(value, WEIR_SPAN("sid"), NOW_S, &id);
		if (found != (all[i].id != NULL) ||
		    (found && (id.length != strlen(all[i].id) || memcmp(id.at, all[i].id, id.length) != 0)))
			fail_msg("%s: %s, %.*s", all[i].value, found ? "found" : "not found",
				 found ? (int)id.length : 0, found ? id.at : "");
	}
}

/* Whatever the bytes are, nothing outside of them is looked at, and what is found is within them. */
static void hostile_set_cookies(void **state)
{
	static const char letters[] = "sid=;\" \tmax-age=0expires,:GMT\0\xff";
	for (uint64_t seed = 1; seed <= 20000; seed++) {
		weir_random random;
		weir_random_init(&random, seed);
		char text[48];
		size_t length = weir_random_below(&random, sizeof(text) + 1);
		for (size_t i = 0; i < length; i++)
			text[i] = letters[weir_random_below(&random, sizeof(letters) - 1)];
		if (length > 4 && seed % 2)
			memcpy(text, "sid=", 4);
		weir_span id,
			value = {seed % 4 < 2 ? guard_end(text, length) : guard_begin(text, length), length};
		if (weir_set_cookie_find(value, WEIR_SPAN("sid"), NOW_S, &id))
			assert_for_seed(seed,
					id.at >= value.at && id.at + id.length <= value.at + value.length);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_known_while_it_is_used),
		cmocka_unit_test(is_forgotten_when_it_is_refused),
		cmocka_unit_test(clocks_may_differ),
		cmocka_unit_test(identifiers),
		cmocka_unit_test(has_room_for_as_many_as_were_asked_for),
		cmocka_unit_test(what_is_made_up_displaces_no_session_in_use),
		cmocka_unit_test(the_oldest_on_trial_makes_room),
		cmocka_unit_test(more_than_there_is_room_for_are_counted),
		cmocka_unit_test(counts_by_standing),
		cmocka_unit_test(threads_do_not_lose_what_is_in_use),
		cmocka_unit_test(a_successor_knows_them),
		cmocka_unit_test(a_bad_line_changes_nothing),
		cmocka_unit_test(what_is_handed_over_is_bounded),
		cmocka_unit_test(survives_without_memory),
		cmocka_unit_test(what_set_cookie_says),
		cmocka_unit_test(hostile_set_cookies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
