/* SPDX-License-Identifier: Apache-2.0 */
/* The check finds each thing that it says it looks for. */
#include "on_store.h"

#include <string.h>

typedef struct damage {
	const char *sql, *found;
	bool sqlite_only;
} damage;

static const damage damages[] = {
	{"UPDATE messages SET folder = 4242", "is in a folder that is not there", false},
	{"DELETE FROM users WHERE name = 'ann'", "is of a user that is not there", false},
	{"UPDATE folders SET user = user + 7 WHERE role = 2", "is of a user that is not there", false},
	{"UPDATE users SET next_number = 1", "has not given out", false},
	{"UPDATE folders SET total = total + 1", "has counts that are not", false},
	{"UPDATE folders SET unread = unread + 1", "has counts that are not", false},
	{"DELETE FROM folders WHERE role = 5", "one folder of each standard kind", false},
	{"DELETE FROM bodies", "has no body", false},
	{"UPDATE messages SET size = size + 1", "one of another size", false},
	{"UPDATE bodies SET refs = refs + 1", "does not count those who refer", false},
	{"INSERT INTO chunks (id, data) VALUES (99999999, 'x')", "is of no body", false},
	{"UPDATE outgoing SET body = 4242", "on its way out has no body", false},
	{"UPDATE deliveries SET message = 1", "was stored by", false},
	{"UPDATE deliveries SET user = user + 1000", "another user's", false},
	{"UPDATE messages SET thread = 1", "in a thread of another user", false},
	{"UPDATE links SET thread = 1", "has no message left", false},
	{"UPDATE chunks SET data = 'x'", "is not what was stored", false},
	{"DELETE FROM chunks", "is not what was stored", false},
	{"UPDATE bodies SET digest = 'x' || id", "is not what was stored", true},
	{"DELETE FROM words", "is not in the index", false},
	{"DELETE FROM messages", "which is not there", false},
	{"DELETE FROM words_content", "the index of words does not hold", true},
};

typedef struct findings {
	const char *wanted;
	bool found;
} findings;

static void look(const char *sentence, void *arg)
{
	findings *f = arg;
	f->found = f->found || strstr(sentence, f->wanted) != NULL;
}

static void fill(on_store *on)
{
	made_mail *made = made_mail_new(5);
	uint32_t message;
	for (unsigned i = 0; i < 3; i++)
		on_store_deliver(on->s, on->ann, made_mail_next(made));
	assert_int_equal(store_send(on->s, on->ann, on_store_mail("out", "text"), WEIR_SPAN("ann@x"),
				    WEIR_SPAN("c@x"), 0, &message),
			 0);
	made_mail_free(made);
}

static void finds_damage(void **state)
{
	on_store *on = *state;
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		if (damages[i].sqlite_only && on->kind != DB_SQLITE)
			continue;
		on_store own;
		db *d = NULL;
		findings f = {damages[i].found, false};
		on_store_begin(&own, on->kind);
		fill(&own);
		on_store_check(own.s);
		assert_int_equal(db_open(own.url, 1000, &d), 0);
		if (db_script(d, damages[i].sql) != 0)
			fail_msg("%s: %s", damages[i].sql, weir_error());
		db_close(d);
		int found = store_check(own.s, look, &f);
		if (found <= 0 || !f.found)
			fail_msg("'%s' is not found to be wrong (%d)", damages[i].sql, found);
		on_store_end(&own);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(finds_damage)};
	return ON_STORE(tests);
}
