/* SPDX-License-Identifier: Apache-2.0 */
/* Folders, and their counts. */
#include "store_priv.h"

#include <errno.h>
#include <string.h>

static int no_folder(void)
{
	return weir_error_set(-ENOENT, "there is no such folder");
}

int64_t folder_of_in(db *d, uint32_t user, store_role role)
{
	int64_t folder = 0;
	if (db_number(d, &folder, "SELECT id FROM folders WHERE user = ? AND role = ?",
		      DB_ARGS(DB_INT(user), DB_INT(role))) == -ENOENT)
		db_fail(d, no_folder());
	return folder;
}

static int taken(void)
{
	return weir_error_set(-EEXIST, "there is a folder of that name already");
}

uint32_t folder_add_in(db *d, uint32_t user, store_role role, weir_span name)
{
	uint32_t number = user_number_in(d, user);
	if (db_run(d, "INSERT INTO folders (id, user, role, name, total, unread) VALUES (?, ?, ?, ?, 0, 0)",
		   DB_ARGS(DB_INT(store_key(user, number)), DB_INT(user), DB_INT(role), DB_TEXT(name))) ==
	    -EEXIST)
		taken();
	return number;
}

void folder_count_in(db *d, int64_t folder, int64_t total, int64_t unread)
{
	if (db_run(d, "UPDATE folders SET total = total + ?, unread = unread + ? WHERE id = ?",
		   DB_ARGS(DB_INT(total), DB_INT(unread), DB_INT(folder))) == 0)
		db_fail(d, no_folder());
}

static store_folder folder_of_row(db_cursor *c)
{
	return (store_folder){.id = store_number(db_int(c, 0)),
			      .role = (store_role)db_int(c, 1),
			      .total = (uint32_t)db_int(c, 2),
			      .unread = (uint32_t)db_int(c, 3),
			      .name = {"", 0}};
}

int store_folders(store *s, uint32_t user, void (*each)(const store_folder *folder, void *arg), void *arg)
{
	db_cursor *c = NULL;
	int count = 0;
	int more = db_start(s->d, &c,
			    "SELECT id, role, total, unread, name FROM folders WHERE user = ?"
			    " ORDER BY CASE role WHEN 0 THEN 99 ELSE role END, name",
			    DB_ARGS(DB_INT(user)));
	while (c != NULL && (more = db_step(c)) > 0) {
		store_folder folder = folder_of_row(c);
		folder.name = db_bytes(c, 4);
		each(&folder, arg);
		count++;
	}
	return more < 0 ? more : count;
}

static int one_folder(store *s, const char *sql, uint32_t user, int64_t which, store_folder *ret_folder)
{
	db_cursor *c = NULL;
	int failed = db_first(s->d, &c, sql, DB_ARGS(DB_INT(user), DB_INT(which)));
	if (failed == 0)
		*ret_folder = folder_of_row(c);
	db_end(c);
	return failed == -ENOENT ? no_folder() : failed;
}

int store_folder_get(store *s, uint32_t user, uint32_t folder, store_folder *ret_folder)
{
	return one_folder(s, "SELECT id, role, total, unread FROM folders WHERE user = ? AND id = ?", user,
			  store_key(user, folder), ret_folder);
}

int store_folder_of(store *s, uint32_t user, store_role role, store_folder *ret_folder)
{
	return one_folder(s, "SELECT id, role, total, unread FROM folders WHERE user = ? AND role = ?", user,
			  role, ret_folder);
}

/* ---- changes ---- */

/* A name that can be shown; it may not be empty or only blanks. */
static int clean_name(weir_span name, char clean[STORE_FOLDER_MAX + 1], weir_span *ret_name)
{
	size_t length = text_clean(name, clean, STORE_FOLDER_MAX + 1);
	if (strspn(clean, " ") == length)
		return weir_error_set(-EINVAL, "a folder has a name of 1 to %d bytes", STORE_FOLDER_MAX);
	*ret_name = (weir_span){clean, length};
	return 0;
}

int store_folder_add(store *s, uint32_t user, weir_span name, uint32_t *ret_folder)
{
	char clean[STORE_FOLDER_MAX + 1];
	int64_t count = 0;
	uint32_t made = 0;
	int failed = clean_name(name, clean, &name);
	db_try t = db_begin(s->d, DB_SAFE_FROM_CRASH);
	while (failed == 0 && db_go(&t)) {
		user_lock_in(s->d, user);
		db_number(s->d, &count, "SELECT COUNT(*) FROM folders WHERE user = ?", DB_ARGS(DB_INT(user)));
		if (count >= STORE_FOLDERS_MAX)
			db_fail(s->d,
				weir_error_set(-ENOSPC, "a user has at most %d folders", STORE_FOLDERS_MAX));
		made = folder_add_in(s->d, user, STORE_PLAIN, name);
	}
	if (failed != 0 || t.failed != 0)
		return failed != 0 ? failed : t.failed;
	*ret_folder = made;
	return 0;
}

/* The folder must be there, and made by the user. */
static void plain_in(db *d, uint32_t user, uint32_t folder)
{
	int64_t role = STORE_PLAIN;
	user_lock_in(d, user);
	if (db_number(d, &role, "SELECT role FROM folders WHERE user = ? AND id = ?",
		      DB_ARGS(DB_INT(user), DB_INT(store_key(user, folder)))) == -ENOENT)
		db_fail(d, no_folder());
	if (role != STORE_PLAIN)
		db_fail(d, weir_error_set(-EINVAL, "a standard folder stays as it is"));
}

int store_folder_rename(store *s, uint32_t user, uint32_t folder, weir_span name)
{
	char clean[STORE_FOLDER_MAX + 1];
	int failed = clean_name(name, clean, &name);
	db_try t = db_begin(s->d, DB_SAFE_FROM_CRASH);
	while (failed == 0 && db_go(&t)) {
		plain_in(s->d, user, folder);
		db_run(s->d, "UPDATE folders SET name = ? WHERE id = ?",
		       DB_ARGS(DB_TEXT(name), DB_INT(store_key(user, folder))));
	}
	return t.failed == -EEXIST ? taken() : failed != 0 ? failed : t.failed;
}

int store_folder_remove(store *s, uint32_t user, uint32_t folder)
{
	db_try t = db_begin(s->d, DB_SAFE_FROM_CRASH);
	while (db_go(&t)) {
		plain_in(s->d, user, folder);
		if (db_run(s->d, "DELETE FROM folders WHERE id = ? AND total = 0",
			   DB_ARGS(DB_INT(store_key(user, folder)))) == 0)
			db_fail(s->d, weir_error_set(-ENOTEMPTY, "the folder is not empty"));
	}
	return t.failed;
}
