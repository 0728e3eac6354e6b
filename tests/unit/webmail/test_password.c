/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <errno.h>
#include <string.h>

#include "webmail/password.h"

static weir_span text(const char *words)
{
	return (weir_span){words, strlen(words)};
}

static void matches_its_own(void **state)
{
	char hash[PASSWORD_HASH_SIZE], other[PASSWORD_HASH_SIZE];
	assert_int_equal(password_hash(text("correct horse"), hash), 0);
	assert_int_equal(password_hash(text("correct horse"), other), 0);
	assert_memory_equal(hash, "$argon2id$", 10);
	assert_string_not_equal(hash, other);
	assert_true(password_matches(hash, text("correct horse")));
	assert_false(password_matches(hash, text("correct horsf")));
	assert_false(password_matches(hash, text("")));
}

static void matches_nothing_without_a_hash(void **state)
{
	assert_false(password_matches("", text("correct horse")));
	assert_false(password_matches("", text("")));
	assert_false(password_matches("$argon2id$nonsense", text("correct horse")));
	assert_false(password_matches("!", text("!")));
}

static void refuses_lengths(void **state)
{
	static char longest[PASSWORD_MAX + 1];
	char hash[PASSWORD_HASH_SIZE] = "untouched";
	memset(longest, 'x', sizeof(longest));
	assert_int_equal(password_hash(text("short"), hash), -EINVAL);
	assert_int_equal(password_hash((weir_span){longest, sizeof(longest)}, hash), -EINVAL);
	assert_string_equal(hash, "untouched");
	assert_false(password_matches(hash, (weir_span){longest, sizeof(longest)}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matches_its_own),
		cmocka_unit_test(matches_nothing_without_a_hash),
		cmocka_unit_test(refuses_lengths),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
