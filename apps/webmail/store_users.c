/* SPDX-License-Identifier: Apache-2.0 */
/* Users. */
#include "store_priv.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define USER_COLUMNS "id, name, class, hash, created_s"

bool store_name_valid(weir_span name)
{
	if (name.length == 0 || name.length > STORE_NAME_MAX || !isalnum((unsigned char)name.at[0]))
		return false;
	for (size_t i = 0; i < name.length; i++) {
		char c = name.at[i];
		bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
		if (!plain && (c == '\0' || strchr("._+-@", c) == NULL))
			return false;
	}
	return true;
}

static int class_wrong(const char *class)
{
	size_t length = strlen(class);
	if (length > 0 && length <= STORE_CLASS_MAX &&
	    strspn(class, "abcdefghijklmnopqrstuvwxyz0123456789-_") == length)
		return 0;
	return weir_error_set(-EINVAL, "class '%s': 1 to %d of a-z, 0-9, '-' and '_'", class,
			      STORE_CLASS_MAX);
}

static int hash_wrong(const char *hash)
{
	return strlen(hash) <= STORE_HASH_MAX
		       ? 0
		       : weir_error_set(-EINVAL, "the hash of a password has at most %d bytes",
					STORE_HASH_MAX);
}

static int no_user(void)
{
	return weir_error_set(-ENOENT, "there is no such user");
}

/* ---- numbers and locks ---- */

uint32_t user_number_in(db *d, uint32_t user)
{
	int64_t number = 0;
	if (db_run(d, "UPDATE users SET next_number = next_number + 1 WHERE id = ?", DB_ARGS(DB_INT(user))) ==
	    0)
		db_fail(d, no_user());
	db_number(d, &number, "SELECT next_number FROM users WHERE id = ?", DB_ARGS(DB_INT(user)));
	if (number > UINT32_MAX)
		db_fail(d, weir_error_set(-ENOSPC, "the user has had 4 billion messages"));
	return (uint32_t)number;
}

void user_lock_in(db *d, uint32_t user)
{
	int64_t id = 0;
	if (db_number(d, &id,
		      db_is(d) == DB_MARIADB ? "SELECT id FROM users WHERE id = ? FOR UPDATE"
					     : "SELECT id FROM users WHERE id = ?",
		      DB_ARGS(DB_INT(user))) == -ENOENT)
		db_fail(d, no_user());
}

/* ---- adding ---- */

static uint32_t add_in(db *d, const char *name, const char *hash, const char *class, int64_t now_s)
{
	static const char *const folders[STORE_ROLES] = {
		[STORE_INBOX] = "Inbox", [STORE_DRAFTS] = "Drafts", [STORE_SENT] = "Sent",
		[STORE_JUNK] = "Junk",   [STORE_TRASH] = "Trash",
	};
	if (db_run(d, "INSERT INTO users (name, hash, class, created_s, next_number) VALUES (?, ?, ?, ?, 0)",
		   DB_ARGS(DB_TEXT(span_of(name)), DB_TEXT(span_of(hash)), DB_TEXT(span_of(class)),
			   DB_INT(now_s))) == -EEXIST)
		weir_error_set(-EEXIST, "there is a user '%s' already", name);
	uint32_t user = (uint32_t)db_inserted(d);
	for (store_role role = STORE_INBOX; db_failed(d) == 0 && role < STORE_ROLES; role++)
		folder_add_in(d, user, role, span_of(folders[role]));
	return user;
}

int store_user_add(store *s, const char *name, const char *hash, const char *class, int64_t now_s,
		   uint32_t *ret_user)
{
	uint32_t user = 0;
	class = class != NULL ? class : "bronze";
	if (!store_name_valid(span_of(name)))
		return weir_error_set(-EINVAL,
				      "user '%s': a name is 1 to %d of a-z, 0-9 and '._+-@', and begins with "
				      "a letter or digit",
				      name, STORE_NAME_MAX);
	int failed = class_wrong(class);
	if (failed == 0)
		failed = hash_wrong(hash);
	db_try t = db_begin(s->d, DB_SAFE_FROM_POWER_CUT);
	while (failed == 0 && db_go(&t))
		user = add_in(s->d, name, hash, class, now_s);
	if (failed != 0 || t.failed != 0)
		return failed != 0 ? failed : t.failed;
	*ret_user = user;
	return 0;
}

/* ---- finding ---- */

static void user_of_row(db_cursor *c, store_user *user)
{
	user->id = (uint32_t)db_int(c, 0);
	span_copy(user->name, sizeof(user->name), db_bytes(c, 1));
	span_copy(user->class, sizeof(user->class), db_bytes(c, 2));
	span_copy(user->hash, sizeof(user->hash), db_bytes(c, 3));
	user->created_s = db_int(c, 4);
}

static int find_one(store *s, const char *sql, db_value value, store_user *ret_user)
{
	db_cursor *c = NULL;
	int failed = db_first(s->d, &c, sql, &value, 1);
	if (failed == 0)
		user_of_row(c, ret_user);
	db_end(c);
	return failed == -ENOENT ? no_user() : failed;
}

int store_user_find(store *s, weir_span name, store_user *ret_user)
{
	char lower[STORE_NAME_MAX];
	if (name.length == 0 || name.length > STORE_NAME_MAX)
		return no_user();
	for (size_t i = 0; i < name.length; i++)
		lower[i] = (char)(name.at[i] >= 'A' && name.at[i] <= 'Z' ? name.at[i] + 32 : name.at[i]);
	weir_span folded = {lower, name.length};
	if (!store_name_valid(folded))
		return no_user();
	return find_one(s, "SELECT " USER_COLUMNS " FROM users WHERE name = ?", DB_TEXT(folded), ret_user);
}

int store_user_get(store *s, uint32_t user, store_user *ret_user)
{
	return find_one(s, "SELECT " USER_COLUMNS " FROM users WHERE id = ?", DB_INT(user), ret_user);
}

int store_user_of_address(store *s, weir_span address, uint32_t *ret_user)
{
	store_user user = {0};
	int failed = store_user_find(s, address, &user);
	const char *at = address.length > 0 ? memrchr(address.at, '@', address.length) : NULL;
	weir_span local = {address.at, at != NULL ? (size_t)(at - address.at) : address.length};
	if (failed == -ENOENT)
		failed = store_user_find(s, local, &user);
	const char *plus = local.length > 0 ? memchr(local.at, '+', local.length) : NULL;
	if (failed == -ENOENT && plus != NULL)
		failed = store_user_find(s, (weir_span){local.at, (size_t)(plus - local.at)}, &user);
	if (failed == 0)
		*ret_user = user.id;
	return failed;
}

int store_users(store *s, int (*each)(const store_user *user, void *arg), void *arg)
{
	db_cursor *c = NULL;
	int result = db_start(s->d, &c, "SELECT " USER_COLUMNS " FROM users ORDER BY name", DB_NONE);
	while (c != NULL && (result = db_step(c)) > 0) {
		store_user user;
		user_of_row(c, &user);
		result = each(&user, arg);
		if (result != 0)
			break;
	}
	db_end(c);
	return result;
}

/* ---- changing ---- */

int store_user_password(store *s, uint32_t user, const char *hash)
{
	int failed = hash_wrong(hash);
	db_try t = db_begin(s->d, DB_SAFE_FROM_POWER_CUT);
	while (failed == 0 && db_go(&t)) {
		if (db_run(s->d, "UPDATE users SET hash = ? WHERE id = ?",
			   DB_ARGS(DB_TEXT(span_of(hash)), DB_INT(user))) == 0)
			db_fail(s->d, no_user());
		db_run(s->d, "DELETE FROM sessions WHERE user = ?", DB_ARGS(DB_INT(user)));
	}
	return failed != 0 ? failed : t.failed;
}

int store_user_class(store *s, uint32_t user, const char *class)
{
	int changed = class_wrong(class);
	if (changed == 0)
		changed = db_change(s->d, "UPDATE users SET class = ? WHERE id = ?",
				    DB_ARGS(DB_TEXT(span_of(class)), DB_INT(user)));
	return changed > 0 ? 0 : changed == 0 ? no_user() : changed;
}

/* ---- removing ---- */

/* As many messages as one change may have, and the user when none is left: true. */
static bool remove_some_in(db *d, uint32_t user)
{
	static const char *const rest[] = {
		"DELETE FROM folders WHERE user = ?",    "DELETE FROM sessions WHERE user = ?",
		"DELETE FROM deliveries WHERE user = ?", "DELETE FROM links WHERE user = ?",
		"DELETE FROM users WHERE id = ?",
	};
	user_lock_in(d, user);
	unsigned purged =
		purge_some_in(d, "SELECT id FROM messages WHERE id BETWEEN ? AND ? LIMIT 1",
			      DB_ARGS(DB_INT(store_key(user, 0)), DB_INT(store_key(user, UINT32_MAX))));
	if (purged == STORE_MANY_MAX)
		return false;
	outgoing_forget_in(d, user);
	for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
		db_run(d, rest[i], DB_ARGS(DB_INT(user)));
	return true;
}

int store_user_remove(store *s, uint32_t user)
{
	int failed = store_user_password(s, user, ""); /* from now on nobody logs in */
	for (bool done = false; failed == 0 && !done;) {
		db_try t = db_begin(s->d, DB_SAFE_FROM_POWER_CUT);
		while (db_go(&t))
			done = remove_some_in(s->d, user);
		failed = t.failed;
	}
	return failed;
}
