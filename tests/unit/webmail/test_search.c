/* SPDX-License-Identifier: Apache-2.0 */
/* Search: what is found, and that nothing that is typed is taken for the index's own syntax. */
#include "on_store.h"

#include <errno.h>
#include <string.h>

static weir_span text(const char *words)
{
	return (weir_span){words, strlen(words)};
}

static int find(on_store *on, uint32_t user, const char *words, on_messages *seen)
{
	*seen = (on_messages){0};
	return store_search(on->s, user, &(store_query){.words = text(words), .count = 50}, on_message, seen);
}

static int found(on_store *on, const char *words)
{
	on_messages seen;
	return find(on, on->ann, words, &seen);
}

static void finds_words(void **state)
{
	on_store *on = *state;
	store_mail mail = *on_store_mail("Quarterly figures",
					 "Please look at the attached apples and pears. F\xc3\x9cNF");
	mail.head.from = text("Carla Jones <carla@example.net>");
	uint32_t id = on_store_deliver(on->s, on->ann, &mail);
	on_store_deliver(on->s, on->ann, on_store_mail("Holidays", "apples only, at the beach house"));
	on_messages seen;
	assert_int_equal(found(on, "apples"), 2);
	assert_int_equal(found(on, "APPLES"), 2);
	assert_int_equal(found(on, "apples pears"), 1);
	assert_int_equal(found(on, "apples -pears"), 1);
	assert_int_equal(found(on, "\"apples and pears\""), 1);
	assert_int_equal(found(on, "\"pears and apples\""), 0);
	assert_int_equal(found(on, "quart*"), 1);
	assert_int_equal(found(on, "quart"), 0);
	assert_int_equal(found(on, "subject:quart*"), 1);
	assert_int_equal(found(on, "from:quart*"), 0);
	assert_int_equal(found(on, "apples quart*"), 1);
	assert_int_equal(found(on, "app* -quart*"), 1);
	assert_int_equal(found(on, "\"apples and pe*\""), 1);
	assert_int_equal(found(on, "\"apples and pe\"*"), 1);
	assert_int_equal(found(on, "\"apples and pea\"*"), 1);
	assert_int_equal(found(on, "apples -\"apples and pears\""), 1);
	assert_int_equal(found(on, "at"), 2);
	assert_int_equal(found(on, "f\xc3\xbcnf"), 1);
	assert_int_equal(found(on, "carla"), 1);
	assert_int_equal(found(on, "from:carla"), 1);
	assert_int_equal(found(on, "subject:carla"), 0);
	assert_int_equal(found(on, "subject:figures apples"), 1);
	assert_int_equal(found(on, "to:ann"), 2);
	assert_int_equal(found(on, "subject:\"quarterly figures\""), 1);
	assert_int_equal(find(on, on->ann, "pears", &seen), 1);
	assert_int_equal(seen.rows[0].id, id);
	check_contains(seen.rows[0].snippet, "apples and pears");
	assert_int_equal(find(on, on->bob, "apples", &seen), 0);
	assert_int_equal(store_purge(on->s, on->ann, &id, 1), 1);
	assert_int_equal(found(on, "pears"), 0);
	assert_int_equal(found(on, "apples"), 1);
}

/* The newest first, a page at a time, in one folder or in all but trash and junk. */
static void lists_what_is_found(void **state)
{
	on_store *on = *state;
	uint32_t ids[10], trash = on_store_role(on->s, on->ann, STORE_TRASH);
	for (unsigned i = 0; i < 10; i++)
		ids[i] = on_store_deliver(on->s, on->ann, on_store_mail("number", "common words"));
	on_messages seen = {0};
	store_query query = {.words = text("common"), .skip = 3, .count = 4, .no_excerpts = true};
	assert_int_equal(store_search(on->s, on->ann, &query, on_message, &seen), 4);
	assert_int_equal(seen.rows[0].id, ids[6]);
	assert_int_equal(seen.rows[3].id, ids[3]);
	assert_string_equal(seen.rows[0].snippet, "the beginning");
	assert_int_equal(store_refile(on->s, on->ann, ids, 3, trash), 3);
	assert_int_equal(found(on, "common"), 7);
	query = (store_query){.words = text("common"), .folder = trash, .count = 50};
	assert_int_equal(store_search(on->s, on->ann, &query, on_message, &seen), 3);
	query.folder = 4242;
	assert_int_equal(store_search(on->s, on->ann, &query, on_message, &seen), 0);
}

/* None of these is an error of the database's; most find nothing. */
static void understands_anything(void **state)
{
	static const char *const typed[] = {"\"",
					    "\"\"\"",
					    "NEAR(a b)",
					    "a OR b",
					    "AND",
					    "NOT",
					    "body:apples",
					    "*",
					    "apples*\"",
					    "(apples",
					    "apples)",
					    "+apples",
					    "~apples",
					    ">apples <pears",
					    "@1 apples",
					    "apples'; DROP TABLE users; --",
					    "{author} : x",
					    "^apples",
					    "a-b-c",
					    "from:",
					    "from:\"",
					    "-from:",
					    "\xff\xfe apples",
					    "\xe2\x82",
					    "apples\n\tpears",
					    "ap* pe*",
					    "-apples pears",
					    "- apples",
					    "\"apples",
					    "subject:\"a b",
					    "????",
					    "%",
					    "_",
					    "\\"};
	on_store *on = *state;
	on_store_deliver(on->s, on->ann, on_store_mail("apples", "pears"));
	for (size_t i = 0; i < sizeof(typed) / sizeof(typed[0]); i++) {
		int count = found(on, typed[i]);
		if (count < 0 && count != -EINVAL)
			fail_msg("'%s': %d %s", typed[i], count, weir_error());
	}
	assert_int_equal(found(on, ""), -EINVAL);
	assert_int_equal(found(on, "   "), -EINVAL);
	assert_int_equal(found(on, "-apples"), -EINVAL);
	assert_int_equal(found(on, "apples'; DROP TABLE users; --"), 0);
	assert_int_equal(found(on, "+apples"), 1);
	char many[4000] = "";
	for (unsigned i = 0; i < 500; i++)
		memcpy(many + (size_t)i * 7, i % 2 == 0 ? "pears  " : "apples ", 8);
	assert_int_equal(found(on, many), 1);
	memset(many, 'x', sizeof(many) - 1);
	assert_true(found(on, many) >= -EINVAL);
	on_store_check(on->s);
}

/* Random bytes are never an error of the database's. */
static void survives_noise(void **state)
{
	on_store *on = *state;
	weir_random random;
	weir_random_init(&random, 11);
	static const char likely[] = "\"*:-+ ()ab\xc3\xa4'^{}~@<>\\%_NEARfromto";
	on_store_deliver(on->s, on->ann, on_store_mail("ab", "aaa bbb"));
	for (unsigned i = 0; i < 500; i++) {
		char noise[40];
		size_t length = weir_random_below(&random, sizeof(noise) - 1);
		for (size_t k = 0; k < length; k++)
			noise[k] = likely[weir_random_below(&random, sizeof(likely) - 1)];
		noise[length] = '\0';
		int count = found(on, noise);
		if (count < 0 && count != -EINVAL)
			fail_msg("'%s': %d %s", noise, count, weir_error());
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_words),
		cmocka_unit_test(lists_what_is_found),
		cmocka_unit_test(understands_anything),
		cmocka_unit_test(survives_noise),
	};
	return ON_STORE(tests);
}
