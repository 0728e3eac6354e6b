/* SPDX-License-Identifier: Apache-2.0 */
/* Flags, moving and removing. A change of many messages is one transaction. */
#include "store_priv.h"

#include <errno.h>

/* What a change needs to know of a message. */
typedef struct store_state {
	int64_t id, folder, was, thread, body;
	unsigned flags;
} store_state;

/* False: there is no such message. */
static bool find_state(db *d, int64_t message, store_state *state)
{
	db_cursor *c = NULL;
	if (db_first(d, &c, "SELECT folder, was, thread, body, flags FROM messages WHERE id = ?",
		     DB_ARGS(DB_INT(message))) != 0)
		return false;
	*state = (store_state){.id = message,
			       .folder = db_int(c, 0),
			       .was = db_int(c, 1),
			       .thread = db_int(c, 2),
			       .body = db_int(c, 3),
			       .flags = (unsigned)db_int(c, 4)};
	db_end(c);
	return true;
}

static int64_t unread(unsigned flags)
{
	return (flags & STORE_SEEN) == 0;
}

/* ---- one message ---- */

unsigned purge_in(db *d, int64_t message)
{
	store_state state;
	if (!find_state(d, message, &state))
		return 0;
	/* Which words it has follows from its row. */
	words_remove_in(d, message);
	db_run(d, "DELETE FROM messages WHERE id = ?", DB_ARGS(DB_INT(message)));
	folder_count_in(d, state.folder, -1, -unread(state.flags));
	thread_forget_in(d, state.thread);
	body_unref_in(d, state.body);
	return 1;
}

static unsigned move_in(db *d, const store_state *state, int64_t folder, int64_t was)
{
	if (state->folder == folder)
		return 0;
	db_run(d, "UPDATE messages SET folder = ?, was = ? WHERE id = ?",
	       DB_ARGS(DB_INT(folder), DB_INT(was), DB_INT(state->id)));
	folder_count_in(d, state->folder, -1, -unread(state->flags));
	folder_count_in(d, folder, 1, unread(state->flags));
	return 1;
}

/* Back to where it was, or to the inbox if that folder is gone. */
static unsigned move_back_in(db *d, uint32_t user, const store_state *state)
{
	int64_t folder = 0;
	if (state->was == 0)
		return 0;
	if (db_number(d, &folder, "SELECT id FROM folders WHERE id = ?", DB_ARGS(DB_INT(state->was))) ==
	    -ENOENT)
		folder = folder_of_in(d, user, STORE_INBOX);
	return move_in(d, state, folder, 0);
}

static unsigned flag_in(db *d, const store_state *state, unsigned set, unsigned clear)
{
	unsigned flags = (state->flags & ~clear) | set;
	if (flags != state->flags)
		db_run(d, "UPDATE messages SET flags = ? WHERE id = ?",
		       DB_ARGS(DB_INT(flags), DB_INT(state->id)));
	if (unread(flags) != unread(state->flags))
		folder_count_in(d, state->folder, 0, unread(flags) - unread(state->flags));
	return 1;
}

/* ---- many ---- */

typedef struct store_change_job {
	enum { FLAG, MOVE, MOVE_BACK, PURGE } action;
	uint32_t folder; /* to move to */
	unsigned set, clear;
} store_change_job;

static unsigned act_in(db *d, uint32_t user, const store_change_job *job, int64_t message)
{
	store_state state;
	if (job->action == PURGE)
		return purge_in(d, message);
	if (!find_state(d, message, &state))
		return 0;
	if (job->action == FLAG)
		return flag_in(d, &state, job->set, job->clear);
	if (job->action == MOVE)
		return move_in(d, &state, store_key(user, job->folder), state.folder);
	return move_back_in(d, user, &state);
}

/* A folder to move to must be there, even if no message is. */
static void folder_there_in(db *d, uint32_t user, const store_change_job *job)
{
	int64_t id = 0;
	if (job->action == MOVE && db_number(d, &id, "SELECT id FROM folders WHERE id = ?",
					     DB_ARGS(DB_INT(store_key(user, job->folder)))) == -ENOENT)
		db_fail(d, weir_error_set(-ENOENT, "there is no such folder"));
}

static int change(store *s, uint32_t user, const uint32_t *messages, unsigned count, store_change_job job)
{
	unsigned done = 0;
	if (count > STORE_MANY_MAX)
		return weir_error_set(-E2BIG, "at most %d messages are changed at once", STORE_MANY_MAX);
	db_try t = db_begin(s->d, DB_SAFE_FROM_CRASH);
	while (db_go(&t)) {
		user_lock_in(s->d, user);
		folder_there_in(s->d, user, &job);
		done = 0;
		for (unsigned i = 0; i < count; i++)
			done += act_in(s->d, user, &job, store_key(user, messages[i]));
	}
	return t.failed != 0 ? t.failed : (int)done;
}

int store_flags(store *s, uint32_t user, const uint32_t *messages, unsigned count, unsigned set,
		unsigned clear)
{
	unsigned own = STORE_SEEN | STORE_FLAGGED | STORE_ANSWERED | STORE_FORWARDED | STORE_DRAFT;
	store_change_job job = {.action = FLAG, .set = set & own, .clear = clear & own};
	return change(s, user, messages, count, job);
}

int store_refile(store *s, uint32_t user, const uint32_t *messages, unsigned count, uint32_t folder)
{
	return change(s, user, messages, count, (store_change_job){.action = MOVE, .folder = folder});
}

int store_refile_undo(store *s, uint32_t user, const uint32_t *messages, unsigned count)
{
	return change(s, user, messages, count, (store_change_job){.action = MOVE_BACK});
}

int store_purge(store *s, uint32_t user, const uint32_t *messages, unsigned count)
{
	return change(s, user, messages, count, (store_change_job){.action = PURGE});
}

/* ---- a whole folder, a whole user ---- */

unsigned purge_some_in(db *d, const char *sql, const db_value *values, size_t count)
{
	unsigned done = 0;
	int64_t message = 0;
	while (done < STORE_MANY_MAX && db_number(d, &message, sql, values, count) == 0)
		done += purge_in(d, message);
	return done;
}

int store_empty(store *s, uint32_t user, uint32_t folder)
{
	unsigned done = 0;
	db_try t = db_begin(s->d, DB_SAFE_FROM_CRASH);
	while (db_go(&t)) {
		user_lock_in(s->d, user);
		done = purge_some_in(s->d, "SELECT id FROM messages WHERE folder = ? LIMIT 1",
				     DB_ARGS(DB_INT(store_key(user, folder))));
	}
	return t.failed != 0 ? t.failed : (int)done;
}
