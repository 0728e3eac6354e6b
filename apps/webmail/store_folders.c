/* SPDX-License-Identifier: Apache-2.0 */
/* Folders, and their counts. */
#include "store_priv.h"

#include <errno.h>
#include <string.h>

static int no_folder(void)
{
	return weir_error_set(-ENOENT, "there is no such folder");
}

int folder_of_in(db *d, uint32_t user, store_role role, int64_t *ret_folder)
{
	int failed = db_number(d, ret_folder, "SELECT id FROM folders WHERE user = ? AND role = ?",
			       DB_ARGS(DB_INT(user), DB_INT(role)));
	return failed == -ENOENT ? no_folder() : failed;
}

int folder_add_in(db *d, uint32_t user, store_role role, weir_span name, uint32_t *ret_folder)
{
	int64_t number = user_number_in(d, user);
	if (number < 0)
		return (int)number;
	int64_t changed = db_run(
		d, "INSERT INTO folders (id, user, role, name, total, unread) VALUES (?, ?, ?, ?, 0, 0)",
		DB_ARGS(DB_INT(store_key(user, (uint32_t)number)), DB_INT(user), DB_INT(role),
			DB_TEXT(name)));
	if (changed == -EEXIST)
		return weir_error_set(-EEXIST, "there is a folder of that name already");
	if (changed < 0)
		return (int)changed;
	*ret_folder = (uint32_t)number;
	return 0;
}

int folder_count_in(db *d, int64_t folder, int64_t total, int64_t unread)
{
	int64_t changed = db_run(d, "UPDATE folders SET total = total + ?, unread = unread + ? WHERE id = ?",
				 DB_ARGS(DB_INT(total), DB_INT(unread), DB_INT(folder)));
	return changed > 0 ? 0 : changed == 0 ? no_folder() : (int)changed;
}

static void folder_of_row(db_cursor *c, store_folder *folder)
{
	folder->id = store_number(db_int(c, 0));
	folder->role = (store_role)db_int(c, 1);
	folder->total = (uint32_t)db_int(c, 2);
	folder->unread = (uint32_t)db_int(c, 3);
}

int store_folders(store *s, uint32_t user, void (*each)(const store_folder *folder, void *arg), void *arg)
{
	db_cursor *c = NULL;
	int result = db_start(s->d, &c,
			      "SELECT id, role, total, unread, name FROM folders WHERE user = ?"
			      " ORDER BY CASE role WHEN 0 THEN 99 ELSE role END, name",
			      DB_ARGS(DB_INT(user)));
	if (result != 0)
		return result;
	int count = 0;
	while ((result = db_step(c)) > 0) {
		store_folder folder;
		folder_of_row(c, &folder);
		folder.name = db_bytes(c, 4);
		each(&folder, arg);
		count++;
	}
	db_end(c);
	return result < 0 ? result : count;
}

static int one_folder(store *s, const char *sql, uint32_t user, int64_t which, store_folder *ret_folder)
{
	db_cursor *c = NULL;
	int result = db_start(s->d, &c, sql, DB_ARGS(DB_INT(user), DB_INT(which)));
	if (result != 0)
		return result;
	result = db_step(c);
	if (result > 0) {
		folder_of_row(c, ret_folder);
		ret_folder->name = (weir_span){"", 0};
	}
	db_end(c);
	return result > 0 ? 0 : result == 0 ? no_folder() : result;
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

typedef struct store_folder_job {
	uint32_t user, folder;
	weir_span name;
} store_folder_job;

/* A name that can be shown; it may not be empty or only blanks. */
static int clean_name(weir_span name, char clean[STORE_FOLDER_MAX + 1], weir_span *ret_name)
{
	size_t length = text_clean(name, clean, STORE_FOLDER_MAX + 1);
	if (strspn(clean, " ") == length)
		return weir_error_set(-EINVAL, "a folder has a name of 1 to %d bytes", STORE_FOLDER_MAX);
	*ret_name = (weir_span){clean, length};
	return 0;
}

static int64_t add_work(db *d, void *arg)
{
	store_folder_job *job = arg;
	int64_t count = 0;
	int failed = user_lock_in(d, job->user);
	if (failed == 0)
		failed = db_number(d, &count, "SELECT COUNT(*) FROM folders WHERE user = ?",
				   DB_ARGS(DB_INT(job->user)));
	if (failed == 0 && count >= STORE_FOLDERS_MAX)
		failed = weir_error_set(-ENOSPC, "a user has at most %d folders", STORE_FOLDERS_MAX);
	return failed != 0 ? failed : folder_add_in(d, job->user, STORE_PLAIN, job->name, &job->folder);
}

int store_folder_add(store *s, uint32_t user, weir_span name, uint32_t *ret_folder)
{
	char clean[STORE_FOLDER_MAX + 1];
	store_folder_job job = {.user = user};
	int failed = clean_name(name, clean, &job.name);
	if (failed == 0)
		failed = (int)db_transaction(s->d, DB_SAFE_FROM_CRASH, add_work, &job);
	if (failed == 0)
		*ret_folder = job.folder;
	return failed;
}

/* The folder is there and was made by the user. */
static int plain_in(db *d, const store_folder_job *job)
{
	int64_t role = 0;
	int failed = user_lock_in(d, job->user);
	if (failed == 0)
		failed = db_number(d, &role, "SELECT role FROM folders WHERE user = ? AND id = ?",
				   DB_ARGS(DB_INT(job->user), DB_INT(store_key(job->user, job->folder))));
	if (failed == -ENOENT)
		return no_folder();
	if (failed == 0 && role != STORE_PLAIN)
		return weir_error_set(-EINVAL, "a standard folder stays as it is");
	return failed;
}

static int64_t rename_work(db *d, void *arg)
{
	const store_folder_job *job = arg;
	int failed = plain_in(d, job);
	if (failed != 0)
		return failed;
	int64_t changed = db_run(d, "UPDATE folders SET name = ? WHERE id = ?",
				 DB_ARGS(DB_TEXT(job->name), DB_INT(store_key(job->user, job->folder))));
	if (changed == -EEXIST)
		return weir_error_set(-EEXIST, "there is a folder of that name already");
	return changed < 0 ? changed : 0;
}

int store_folder_rename(store *s, uint32_t user, uint32_t folder, weir_span name)
{
	char clean[STORE_FOLDER_MAX + 1];
	store_folder_job job = {.user = user, .folder = folder};
	int failed = clean_name(name, clean, &job.name);
	return failed != 0 ? failed : (int)db_transaction(s->d, DB_SAFE_FROM_CRASH, rename_work, &job);
}

static int64_t remove_work(db *d, void *arg)
{
	const store_folder_job *job = arg;
	int failed = plain_in(d, job);
	if (failed != 0)
		return failed;
	int64_t changed = db_run(d, "DELETE FROM folders WHERE id = ? AND total = 0",
				 DB_ARGS(DB_INT(store_key(job->user, job->folder))));
	if (changed == 0)
		return weir_error_set(-ENOTEMPTY, "the folder is not empty");
	return changed < 0 ? changed : 0;
}

int store_folder_remove(store *s, uint32_t user, uint32_t folder)
{
	store_folder_job job = {.user = user, .folder = folder};
	return (int)db_transaction(s->d, DB_SAFE_FROM_CRASH, remove_work, &job);
}
