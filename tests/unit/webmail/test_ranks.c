/* SPDX-License-Identifier: Apache-2.0 */
#include "on_store.h"

#include <stdio.h>
#include <string.h>
#include <webmail/ranks.h>

#define T0 (100 * WEIR_NS_PER_S)

static bool believed(ranks *r, const char *name, uint64_t now_ns)
{
	return ranks_believe(r, (weir_span){name, strlen(name)}, now_ns);
}

static void gold_names_are_believed(void **state)
{
	on_store *on = *state;
	ranks *r = ranks_new();
	assert_false(believed(r, "bob", T0));
	assert_int_equal(ranks_read(r, on->s), 0);
	assert_true(believed(r, "bob", T0));
	assert_true(believed(r, "Bob", T0));
	assert_false(believed(r, "ann", T0));
	assert_false(believed(r, "nobody", T0));
	assert_false(believed(r, "", T0));
	char longer[STORE_NAME_MAX + 2];
	memset(longer, 'b', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_false(believed(r, longer, T0));
	ranks_free(r);
	ranks_free(NULL);
}

/* A burst, then one at a time; reading the names again gives nothing back. */
static void a_name_is_used_up(void **state)
{
	on_store *on = *state;
	ranks *r = ranks_new();
	assert_int_equal(ranks_read(r, on->s), 0);
	for (unsigned i = 0; i < RANKS_BURST; i++)
		assert_true(believed(r, "bob", T0));
	assert_false(believed(r, "bob", T0));
	assert_int_equal(ranks_read(r, on->s), 0);
	assert_false(believed(r, "bob", T0 + RANKS_EVERY_NS - 1));
	assert_true(believed(r, "bob", T0 + RANKS_EVERY_NS));
	assert_false(believed(r, "bob", T0 + RANKS_EVERY_NS));
	/* A long rest is worth a burst. */
	unsigned count = 0;
	for (unsigned i = 0; i < 100; i++)
		count += believed(r, "bob", 100 * T0) ? 1 : 0;
	assert_int_equal(count, RANKS_BURST);
	ranks_free(r);
}

static void a_class_that_changes_is_seen(void **state)
{
	on_store *on = *state;
	ranks *r = ranks_new();
	assert_int_equal(ranks_read(r, on->s), 0);
	assert_int_equal(store_user_class(on->s, on->bob, "bronze"), 0);
	assert_int_equal(store_user_class(on->s, on->ann, "gold"), 0);
	assert_true(believed(r, "bob", T0));
	assert_int_equal(ranks_read(r, on->s), 0);
	assert_false(believed(r, "bob", T0));
	assert_true(believed(r, "ann", T0));
	ranks_free(r);
}

static void more_than_fit_are_left_out(void **state)
{
	on_store *on = *state;
	ranks *r = ranks_new();
	unsigned count = 0;
	char name[20];
	for (unsigned i = 0; i < RANKS_MAX + 10; i++) {
		uint32_t user;
		snprintf(name, sizeof(name), "u%u", i);
		assert_int_equal(store_user_add(on->s, name, "", "gold", 0, &user), 0);
	}
	assert_int_equal(ranks_read(r, on->s), 0);
	for (unsigned i = 0; i < RANKS_MAX + 10; i++) {
		snprintf(name, sizeof(name), "u%u", i);
		count += believed(r, name, T0) ? 1 : 0;
	}
	count += believed(r, "bob", T0) ? 1 : 0;
	assert_int_equal(count, RANKS_MAX);
	ranks_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gold_names_are_believed),
		cmocka_unit_test(a_name_is_used_up),
		cmocka_unit_test(a_class_that_changes_is_seen),
		cmocka_unit_test(more_than_fit_are_left_out),
	};
	return on_store_run_sqlite(__FILE__, tests, sizeof(tests) / sizeof(tests[0]));
}
