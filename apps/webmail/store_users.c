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

static bool class_valid(const char *class)
{
	size_t length = strlen(class);
	return length > 0 && length <= STORE_CLASS_MAX &&
	       strspn(class, "abcdefghijklmnopqrstuvwxyz0123456789-_") == length;
}

static int class_wrong(const char *class)
{
	return weir_error_set(-EINVAL, "class '%s': 1 to %d of a-z, 0-9, '-' and '_'", class,
			      STORE_CLASS_MAX);
}

static int no_user(void)
{
	return weir_error_set(-ENOENT, "there is no such user");
}

/* ---- numbers and locks ---- */

int64_t user_number_in(db *d, uint32_t user)
{
	int64_t changed = db_run(d, "UPDATE users SET next_number = next_number + 1 WHERE id = ?",
				 DB_ARGS(DB_INT(user)));
	if (changed <= 0)
		return changed < 0 ? changed : no_user();
	int64_t number = 0;
	int failed =
		db_number(d, &number, "SELECT next_number FROM users WHERE id = ?", DB_ARGS(DB_INT(user)));
	if (failed != 0)
		return failed;
	if (number > UINT32_MAX)
		return weir_error_set(-ENOSPC, "the user has had 4 billion messages");
	return number;
}

int user_lock_in(db *d, uint32_t user)
{
	int64_t id = 0;
	int failed = db_number(d, &id,
			       db_is(d) == DB_MARIADB ? "SELECT id FROM users WHERE id = ? FOR UPDATE"
						      : "SELECT id FROM users WHERE id = ?",
			       DB_ARGS(DB_INT(user)));
	return failed == -ENOENT ? no_user() : failed;
}

/* ---- adding ---- */

typedef struct store_adding {
	const char *name, *hash, *class;
	int64_t now_s;
	uint32_t user;
} store_adding;

static int64_t add_work(db *d, void *arg)
{
	static const char *const folders[STORE_ROLES] = {
		[STORE_INBOX] = "Inbox", [STORE_DRAFTS] = "Drafts", [STORE_SENT] = "Sent",
		[STORE_JUNK] = "Junk",   [STORE_TRASH] = "Trash",
	};
	store_adding *adding = arg;
	int64_t changed = db_run(
		d, "INSERT INTO users (name, hash, class, created_s, next_number) VALUES (?, ?, ?, ?, 0)",
		DB_ARGS(DB_TEXT(span_of(adding->name)), DB_TEXT(span_of(adding->hash)),
			DB_TEXT(span_of(adding->class)), DB_INT(adding->now_s)));
	if (changed == -EEXIST)
		return weir_error_set(-EEXIST, "there is a user '%s' already", adding->name);
	if (changed < 0)
		return changed;
	adding->user = (uint32_t)db_inserted(d);
	for (store_role role = STORE_INBOX; role < STORE_ROLES; role++) {
		uint32_t folder;
		int failed = folder_add_in(d, adding->user, role, span_of(folders[role]), &folder);
		if (failed != 0)
			return failed;
	}
	return 0;
}

int store_user_add(store *s, const char *name, const char *hash, const char *class, int64_t now_s,
		   uint32_t *ret_user)
{
	store_adding adding = {name, hash, class != NULL ? class : "bronze", now_s, 0};
	if (!store_name_valid(span_of(name)))
		return weir_error_set(-EINVAL,
				      "user '%s': a name is 1 to %d of a-z, 0-9 and '._+-@', and begins with "
				      "a letter or digit",
				      name, STORE_NAME_MAX);
	if (!class_valid(adding.class))
		return class_wrong(adding.class);
	if (strlen(hash) > STORE_HASH_MAX)
		return weir_error_set(-EINVAL, "the hash of a password has at most %d bytes", STORE_HASH_MAX);
	int64_t failed = db_transaction(s->d, DB_SAFE_FROM_POWER_CUT, add_work, &adding);
	if (failed < 0)
		return (int)failed;
	*ret_user = adding.user;
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
	int result = db_start(s->d, &c, sql, &value, 1);
	if (result != 0)
		return result;
	result = db_step(c);
	if (result > 0)
		user_of_row(c, ret_user);
	db_end(c);
	return result > 0 ? 0 : result == 0 ? no_user() : result;
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
	if (result != 0)
		return result;
	while ((result = db_step(c)) > 0) {
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

typedef struct store_user_change {
	uint32_t user;
	const char *hash;
} store_user_change;

static int64_t password_work(db *d, void *arg)
{
	const store_user_change *change = arg;
	int64_t changed = db_run(d, "UPDATE users SET hash = ? WHERE id = ?",
				 DB_ARGS(DB_TEXT(span_of(change->hash)), DB_INT(change->user)));
	if (changed == 0)
		return no_user();
	if (changed > 0)
		changed = db_run(d, "DELETE FROM sessions WHERE user = ?", DB_ARGS(DB_INT(change->user)));
	return changed < 0 ? changed : 0;
}

int store_user_password(store *s, uint32_t user, const char *hash)
{
	if (strlen(hash) > STORE_HASH_MAX)
		return weir_error_set(-EINVAL, "the hash of a password has at most %d bytes", STORE_HASH_MAX);
	store_user_change change = {user, hash};
	return (int)db_transaction(s->d, DB_SAFE_FROM_POWER_CUT, password_work, &change);
}

int store_user_class(store *s, uint32_t user, const char *class)
{
	if (!class_valid(class))
		return class_wrong(class);
	int64_t changed = db_change(s->d, "UPDATE users SET class = ? WHERE id = ?",
				    DB_ARGS(DB_TEXT(span_of(class)), DB_INT(user)));
	return changed > 0 ? 0 : changed == 0 ? no_user() : (int)changed;
}

/* ---- removing ---- */

/* Purges so many messages as one change may have; how many, 0 when none is left. */
static int64_t purge_some_work(db *d, void *arg)
{
	uint32_t user = *(const uint32_t *)arg;
	int64_t purged = user_lock_in(d, user);
	while (purged >= 0 && purged < STORE_MANY_MAX) {
		int64_t message = 0;
		int result =
			db_number(d, &message, "SELECT id FROM messages WHERE id BETWEEN ? AND ? LIMIT 1",
				  DB_ARGS(DB_INT(store_key(user, 0)), DB_INT(store_key(user, UINT32_MAX))));
		if (result == -ENOENT)
			break;
		if (result == 0)
			result = purge_in(d, message);
		purged = result < 0 ? result : purged + 1;
	}
	return purged;
}

/* Removes the user if no mail is left; 1 if some is. */
static int64_t remove_work(db *d, void *arg)
{
	static const char *const rest[] = {
		"DELETE FROM folders WHERE user = ?",    "DELETE FROM sessions WHERE user = ?",
		"DELETE FROM deliveries WHERE user = ?", "DELETE FROM links WHERE user = ?",
		"DELETE FROM users WHERE id = ?",
	};
	uint32_t user = *(const uint32_t *)arg;
	int64_t left = 0;
	int64_t result = user_lock_in(d, user);
	if (result == 0)
		result = db_number(d, &left, "SELECT COUNT(*) FROM messages WHERE id BETWEEN ? AND ?",
				   DB_ARGS(DB_INT(store_key(user, 0)), DB_INT(store_key(user, UINT32_MAX))));
	if (result != 0 || left > 0)
		return result != 0 ? result : 1;
	result = outgoing_forget_in(d, user);
	for (size_t i = 0; result >= 0 && i < sizeof(rest) / sizeof(rest[0]); i++)
		result = db_run(d, rest[i], DB_ARGS(DB_INT(user)));
	return result < 0 ? result : 0;
}

int store_user_remove(store *s, uint32_t user)
{
	int64_t result = store_user_password(s, user, "");
	while (result >= 0) {
		do
			result = db_transaction(s->d, DB_SAFE_FROM_CRASH, purge_some_work, &user);
		while (result > 0);
		if (result == 0)
			result = db_transaction(s->d, DB_SAFE_FROM_POWER_CUT, remove_work, &user);
		if (result == 0)
			return 0;
	}
	return (int)result;
}
