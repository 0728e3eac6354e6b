/* SPDX-License-Identifier: Apache-2.0 */
/* Users, sessions and folders. */
#include "on_store.h"

#include <errno.h>
#include <string.h>

static weir_span text(const char *words)
{
	return (weir_span){words, strlen(words)};
}

static void finds_users(void **state)
{
	on_store *on = *state;
	store_user user;
	uint32_t id = 0;
	assert_int_equal(store_user_find(on->s, text("Ann"), &user), 0);
	assert_int_equal(user.id, on->ann);
	assert_string_equal(user.name, "ann");
	assert_string_equal(user.class, "bronze");
	assert_int_equal(store_user_get(on->s, on->bob, &user), 0);
	assert_string_equal(user.class, "gold");
	assert_int_equal(store_user_find(on->s, text("an"), &user), -ENOENT);
	assert_int_equal(store_user_find(on->s, text(""), &user), -ENOENT);
	assert_int_equal(store_user_find(on->s, text("ann'; --"), &user), -ENOENT);
	assert_int_equal(store_user_get(on->s, 999999, &user), -ENOENT);
	assert_int_equal(store_user_add(on->s, "ann", "", NULL, 0, &id), -EEXIST);
	check_contains(weir_error(), "ann");
	static const char *const bad[] = {"", "Ann", "-ann", "a b", "a/b", "\xc3\xa4", "a\nb"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(store_user_add(on->s, bad[i], "", NULL, 0, &id), -EINVAL);
	assert_int_equal(store_user_add(on->s, "carl", "", "Gold!", 0, &id), -EINVAL);
	assert_int_equal(id, 0);
}

static void finds_recipients(void **state)
{
	on_store *on = *state;
	uint32_t user = 0, full;
	assert_int_equal(store_user_of_address(on->s, text("ann@example.org"), &user), 0);
	assert_int_equal(user, on->ann);
	assert_int_equal(store_user_of_address(on->s, text("BOB+lists@example.org"), &user), 0);
	assert_int_equal(user, on->bob);
	assert_int_equal(store_user_of_address(on->s, text("carl@example.org"), &user), -ENOENT);
	assert_int_equal(store_user_of_address(on->s, text("@example.org"), &user), -ENOENT);
	assert_int_equal(store_user_of_address(on->s, text(""), &user), -ENOENT);
	/* A whole address that is a user goes before its local part. */
	assert_int_equal(store_user_add(on->s, "ann@other.org", "", NULL, 0, &full), 0);
	assert_int_equal(store_user_of_address(on->s, text("ann@other.org"), &user), 0);
	assert_int_equal(user, full);
}

static int count_user(const store_user *user, void *arg)
{
	(*(unsigned *)arg)++;
	return 0;
}

static void changes_users(void **state)
{
	on_store *on = *state;
	char token[STORE_TOKEN_CHARS + 1];
	store_session session;
	unsigned count = 0;
	assert_int_equal(store_users(on->s, count_user, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(store_session_new(on->s, on->ann, 100, 200, token), 0);
	assert_int_equal(store_user_class(on->s, on->ann, "gold"), 0);
	assert_int_equal(store_session_find(on->s, text(token), 150, &session), 0);
	assert_string_equal(session.class, "gold");
	assert_int_equal(store_user_class(on->s, on->ann, "no class"), -EINVAL);
	assert_int_equal(store_user_class(on->s, 999999, "gold"), -ENOENT);
	/* A new password ends what was begun with the old one. */
	assert_int_equal(store_user_password(on->s, on->ann, "hash"), 0);
	assert_int_equal(store_session_find(on->s, text(token), 150, &session), -ENOENT);
	assert_int_equal(store_user_password(on->s, 999999, "hash"), -ENOENT);
}

static void keeps_sessions(void **state)
{
	on_store *on = *state;
	char token[STORE_TOKEN_CHARS + 1], other[STORE_TOKEN_CHARS + 1];
	store_session session;
	assert_int_equal(store_session_new(on->s, on->ann, 100, 200, token), 0);
	assert_int_equal(store_session_new(on->s, on->ann, 100, 200, other), 0);
	assert_string_not_equal(token, other);
	assert_int_equal(strlen(token), STORE_TOKEN_CHARS);
	assert_int_equal(store_session_find(on->s, text(token), 199, &session), 0);
	assert_int_equal(session.user, on->ann);
	assert_string_equal(session.name, "ann");
	assert_int_equal(store_session_find(on->s, text(token), 200, &session), -ENOENT);
	assert_int_equal(store_session_find(on->s, text("no token"), 150, &session), -ENOENT);
	assert_int_equal(store_session_end(on->s, text(token)), 0);
	assert_int_equal(store_session_end(on->s, text(token)), 0);
	assert_int_equal(store_session_find(on->s, text(token), 150, &session), -ENOENT);
	assert_int_equal(store_session_find(on->s, text(other), 150, &session), 0);
	assert_int_equal(store_tidy(on->s, 300), 0);
	assert_int_equal(store_session_find(on->s, text(other), 150, &session), -ENOENT);
	assert_int_equal(store_session_new(on->s, 999999, 100, 200, token), -ENOENT);
}

static void bounds_sessions(void **state)
{
	on_store *on = *state;
	char first[STORE_TOKEN_CHARS + 1], second[STORE_TOKEN_CHARS + 1], more[STORE_TOKEN_CHARS + 1];
	store_session session;
	assert_int_equal(store_session_new(on->s, on->ann, 1, 1000, first), 0);
	assert_int_equal(store_session_new(on->s, on->ann, 2, 1000, second), 0);
	for (int i = 2; i < STORE_SESSIONS_MAX + 1; i++)
		assert_int_equal(store_session_new(on->s, on->ann, 3, 1000, more), 0);
	assert_int_equal(store_session_find(on->s, text(first), 500, &session), -ENOENT);
	assert_int_equal(store_session_find(on->s, text(second), 500, &session), 0);
	assert_int_equal(store_session_find(on->s, text(more), 500, &session), 0);
}

typedef struct seen_folders {
	unsigned count;
	char names[300];
} seen_folders;

static void see_folder(const store_folder *folder, void *arg)
{
	seen_folders *seen = arg;
	size_t length = strlen(seen->names);
	seen->count++;
	snprintf(seen->names + length, sizeof(seen->names) - length, "%.*s %u/%u;", (int)folder->name.length,
		 folder->name.at, folder->unread, folder->total);
}

static void keeps_folders(void **state)
{
	on_store *on = *state;
	seen_folders seen = {0};
	uint32_t work = 0, again = 0;
	assert_int_equal(store_folder_add(on->s, on->ann, text("Work"), &work), 0);
	assert_int_equal(store_folder_add(on->s, on->ann, text("Work"), &again), -EEXIST);
	assert_int_equal(store_folder_add(on->s, on->ann, text("Inbox"), &again), -EEXIST);
	assert_int_equal(store_folder_add(on->s, on->ann, text("  "), &again), -EINVAL);
	assert_int_equal(store_folder_add(on->s, 999999, text("Work"), &again), -ENOENT);
	assert_int_equal(store_folder_add(on->s, on->ann,
					  text("\xff\n"
					       "A"),
					  &again),
			 0);
	assert_int_equal(store_folder_rename(on->s, on->ann, again, text("A")), 0);
	assert_int_equal(store_folder_rename(on->s, on->ann, again, text("Work")), -EEXIST);
	on_store_deliver(on->s, on->ann, on_store_mail("hello", "text"));
	assert_int_equal(store_folders(on->s, on->ann, see_folder, &seen), 7);
	assert_string_equal(seen.names, "Inbox 1/1;Drafts 0/0;Sent 0/0;Junk 0/0;Trash 0/0;A 0/0;Work 0/0;");
	uint32_t inbox = on_store_role(on->s, on->ann, STORE_INBOX);
	assert_int_equal(store_folder_rename(on->s, on->ann, inbox, text("Mine")), -EINVAL);
	assert_int_equal(store_folder_remove(on->s, on->ann, inbox), -EINVAL);
	uint32_t message = on_store_deliver(on->s, on->ann, on_store_mail("hello", "text"));
	assert_int_equal(store_refile(on->s, on->ann, &message, 1, work), 1);
	assert_int_equal(store_folder_remove(on->s, on->ann, work), -ENOTEMPTY);
	assert_int_equal(store_purge(on->s, on->ann, &message, 1), 1);
	assert_int_equal(store_folder_remove(on->s, on->ann, work), 0);
	assert_int_equal(store_folder_remove(on->s, on->ann, work), -ENOENT);
	on_store_check(on->s);
}

static void bounds_folders(void **state)
{
	on_store *on = *state;
	uint32_t folder;
	char name[20];
	for (int i = 5; i < STORE_FOLDERS_MAX; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		assert_int_equal(store_folder_add(on->s, on->ann, text(name), &folder), 0);
	}
	assert_int_equal(store_folder_add(on->s, on->ann, text("more"), &folder), -ENOSPC);
}

static void removes_users(void **state)
{
	on_store *on = *state;
	made_mail *made = made_mail_new(7);
	store_user user;
	uint32_t message;
	for (unsigned i = 0; i < 60; i++) {
		store_place both[] = {{.user = on->ann}, {.user = on->bob}};
		assert_int_equal(store_deliver(on->s, made_mail_next(made), both, 2), 0);
	}
	assert_int_equal(store_send(on->s, on->ann, on_store_mail("out", "text"), text("ann@x.org"),
				    text("carl@x.org"), 0, &message),
			 0);
	assert_int_equal(store_user_remove(on->s, on->ann), 0);
	assert_int_equal(store_user_get(on->s, on->ann, &user), -ENOENT);
	assert_int_equal(store_user_remove(on->s, on->ann), -ENOENT);
	on_store_check(on->s);
	store_folder folder;
	assert_int_equal(store_folder_of(on->s, on->bob, STORE_INBOX, &folder), 0);
	assert_int_equal(folder.total, 60);
	/* A number is not given twice. */
	uint32_t again;
	assert_int_equal(store_user_add(on->s, "ann", "", NULL, 0, &again), 0);
	assert_int_not_equal(again, on->ann);
	made_mail_free(made);
}

/* A database of the first version gets what has come since. */
static void migrates(void **state)
{
	on_store *on = *state;
	const char *drop = on->kind == DB_SQLITE ? "DROP INDEX sessions_by_end"
						 : "DROP INDEX sessions_by_end ON sessions";
	for (int turn = 0; turn < 2; turn++) { /* the second time shows that it was there again */
		db *d = NULL;
		store *again = NULL;
		assert_int_equal(db_open(on->url, 1000, &d), 0);
		assert_int_equal(db_script(d, drop), 0);
		assert_int_equal(db_change(d, "UPDATE settings SET value = 1 WHERE name = 'schema'", DB_NONE),
				 1);
		db_close(d);
		assert_int_equal(store_open(on->url, &again), 0);
		store_close(again);
	}
	on_store_check(on->s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_users),     cmocka_unit_test(finds_recipients),
		cmocka_unit_test(changes_users),   cmocka_unit_test(keeps_sessions),
		cmocka_unit_test(bounds_sessions), cmocka_unit_test(keeps_folders),
		cmocka_unit_test(bounds_folders),  cmocka_unit_test(removes_users),
		cmocka_unit_test(migrates),
	};
	return ON_STORE(tests);
}
