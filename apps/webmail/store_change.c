/* SPDX-License-Identifier: Apache-2.0 */
/* Flags, moving and removing. A change of many messages is one transaction. */
#include "store_priv.h"

#include <errno.h>

/* What a change needs to know of a message. */
typedef struct store_state {
	int64_t id, folder, was, thread, body;
	unsigned flags;
} store_state;

/* 1, or 0 if there is no such message. */
static int find_state(db *d, int64_t message, store_state *state)
{
	db_cursor *c = NULL;
	int result = db_start(d, &c, "SELECT folder, was, thread, body, flags FROM messages WHERE id = ?",
			      DB_ARGS(DB_INT(message)));
	if (result != 0)
		return result;
	result = db_step(c);
	if (result > 0)
		*state = (store_state){.id = message,
				       .folder = db_int(c, 0),
				       .was = db_int(c, 1),
				       .thread = db_int(c, 2),
				       .body = db_int(c, 3),
				       .flags = (unsigned)db_int(c, 4)};
	db_end(c);
	return result;
}

static int64_t unread(unsigned flags)
{
	return (flags & STORE_SEEN) == 0;
}

/* ---- one message ---- */

int purge_in(db *d, int64_t message)
{
	store_state state = {0};
	int found = find_state(d, message, &state);
	if (found <= 0)
		return found;
	/* Which words it has follows from its row. */
	int64_t result = words_remove_in(d, message);
	if (result >= 0)
		result = db_run(d, "DELETE FROM messages WHERE id = ?", DB_ARGS(DB_INT(message)));
	if (result >= 0)
		result = folder_count_in(d, state.folder, -1, -unread(state.flags));
	if (result >= 0)
		result = thread_forget_in(d, state.thread);
	if (result >= 0)
		result = body_unref_in(d, state.body);
	return result < 0 ? (int)result : 1;
}

static int move_in(db *d, const store_state *state, int64_t folder, int64_t was)
{
	if (state->folder == folder)
		return 0;
	int64_t result = db_run(d, "UPDATE messages SET folder = ?, was = ? WHERE id = ?",
				DB_ARGS(DB_INT(folder), DB_INT(was), DB_INT(state->id)));
	if (result >= 0)
		result = folder_count_in(d, state->folder, -1, -unread(state->flags));
	if (result >= 0)
		result = folder_count_in(d, folder, 1, unread(state->flags));
	return result < 0 ? (int)result : 1;
}

/* Back to where it was, or to the inbox if that folder is gone. */
static int move_back_in(db *d, uint32_t user, const store_state *state)
{
	int64_t folder = 0;
	if (state->was == 0)
		return 0;
	int failed =
		db_number(d, &folder, "SELECT id FROM folders WHERE id = ?", DB_ARGS(DB_INT(state->was)));
	if (failed == -ENOENT)
		failed = folder_of_in(d, user, STORE_INBOX, &folder);
	return failed != 0 ? failed : move_in(d, state, folder, 0);
}

static int flag_in(db *d, const store_state *state, unsigned set, unsigned clear)
{
	unsigned flags = (state->flags & ~clear) | set;
	if (flags == state->flags)
		return 1;
	int64_t result = db_run(d, "UPDATE messages SET flags = ? WHERE id = ?",
				DB_ARGS(DB_INT(flags), DB_INT(state->id)));
	int64_t more = unread(flags) - unread(state->flags);
	if (result >= 0 && more != 0)
		result = folder_count_in(d, state->folder, 0, more);
	return result < 0 ? (int)result : 1;
}

/* ---- many ---- */

typedef enum store_action {
	STORE_ACT_FLAG,
	STORE_ACT_MOVE,
	STORE_ACT_MOVE_BACK,
	STORE_ACT_PURGE,
} store_action;

typedef struct store_change_job {
	store_action action;
	uint32_t user;
	const uint32_t *messages;
	unsigned count;
	unsigned set, clear;
	uint32_t folder;
} store_change_job;

static int act_in(db *d, const store_change_job *job, int64_t message)
{
	store_state state = {0};
	if (job->action == STORE_ACT_PURGE)
		return purge_in(d, message);
	int found = find_state(d, message, &state);
	if (found <= 0)
		return found;
	if (job->action == STORE_ACT_FLAG)
		return flag_in(d, &state, job->set, job->clear);
	if (job->action == STORE_ACT_MOVE)
		return move_in(d, &state, store_key(job->user, job->folder), state.folder);
	return move_back_in(d, job->user, &state);
}

/* A folder to move to must be there, even if no message is. */
static int folder_there(db *d, const store_change_job *job)
{
	int64_t id = 0;
	if (job->action != STORE_ACT_MOVE)
		return 0;
	int failed = db_number(d, &id, "SELECT id FROM folders WHERE id = ?",
			       DB_ARGS(DB_INT(store_key(job->user, job->folder))));
	return failed == -ENOENT ? weir_error_set(-ENOENT, "there is no such folder") : failed;
}

static int64_t change_work(db *d, void *arg)
{
	const store_change_job *job = arg;
	int64_t done = user_lock_in(d, job->user);
	if (done == 0)
		done = folder_there(d, job);
	for (unsigned i = 0; done >= 0 && i < job->count; i++) {
		int result = act_in(d, job, store_key(job->user, job->messages[i]));
		done = result < 0 ? result : done + result;
	}
	return done;
}

static int change(store *s, store_change_job *job)
{
	if (job->count > STORE_MANY_MAX)
		return weir_error_set(-E2BIG, "at most %d messages are changed at once", STORE_MANY_MAX);
	return (int)db_transaction(s->d, DB_SAFE_FROM_CRASH, change_work, job);
}

int store_flags(store *s, uint32_t user, const uint32_t *messages, unsigned count, unsigned set,
		unsigned clear)
{
	unsigned own = STORE_SEEN | STORE_FLAGGED | STORE_ANSWERED | STORE_FORWARDED | STORE_DRAFT;
	return change(s, &(store_change_job){.action = STORE_ACT_FLAG,
					     .user = user,
					     .messages = messages,
					     .count = count,
					     .set = set & own,
					     .clear = clear & own});
}

int store_refile(store *s, uint32_t user, const uint32_t *messages, unsigned count, uint32_t folder)
{
	return change(s, &(store_change_job){.action = STORE_ACT_MOVE,
					     .user = user,
					     .messages = messages,
					     .count = count,
					     .folder = folder});
}

int store_refile_undo(store *s, uint32_t user, const uint32_t *messages, unsigned count)
{
	return change(s, &(store_change_job){.action = STORE_ACT_MOVE_BACK,
					     .user = user,
					     .messages = messages,
					     .count = count});
}

int store_purge(store *s, uint32_t user, const uint32_t *messages, unsigned count)
{
	return change(s,
		      &(store_change_job){
			      .action = STORE_ACT_PURGE, .user = user, .messages = messages, .count = count});
}

/* ---- a whole folder ---- */

typedef struct store_emptying {
	uint32_t user, folder;
} store_emptying;

static int64_t empty_work(db *d, void *arg)
{
	const store_emptying *job = arg;
	int64_t key = store_key(job->user, job->folder), message = 0;
	int64_t done = user_lock_in(d, job->user);
	while (done >= 0 && done < STORE_MANY_MAX) {
		int result = db_number(d, &message, "SELECT id FROM messages WHERE folder = ? LIMIT 1",
				       DB_ARGS(DB_INT(key)));
		if (result == -ENOENT)
			break;
		if (result == 0)
			result = purge_in(d, message);
		done = result < 0 ? result : done + 1;
	}
	return done;
}

int store_empty(store *s, uint32_t user, uint32_t folder)
{
	return (int)db_transaction(s->d, DB_SAFE_FROM_CRASH, empty_work, &(store_emptying){user, folder});
}
