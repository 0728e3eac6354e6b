/* SPDX-License-Identifier: Apache-2.0 */
/* Mail on its way out: a queue in the database. A worker leases a mail, so a crash only delays it. */
#include "store_priv.h"

#include <errno.h>

#define RECIPIENTS_BYTES (STORE_RECIPIENTS_MAX * 321) /* 64 + '@' + 255 and a line end */

/* ---- sending ---- */

/* Addresses are lines, so they hold nothing but what can be printed. */
static int envelope_wrong(weir_span sender, weir_span recipients)
{
	unsigned lines = 1;
	bool good = sender.length > 0 && sender.length <= STORE_FIELD_MAX && recipients.length > 0 &&
		    recipients.length <= RECIPIENTS_BYTES;
	for (size_t i = 0; good && i < sender.length; i++)
		good = (unsigned char)sender.at[i] > ' ';
	for (size_t i = 0; good && i < recipients.length; i++) {
		lines += recipients.at[i] == '\n';
		good = recipients.at[i] == '\n' || (unsigned char)recipients.at[i] > ' ';
	}
	if (good && lines <= STORE_RECIPIENTS_MAX + 1)
		return 0;
	return weir_error_set(-EINVAL, "a mail has a sender and 1 to %d recipients, without blanks",
			      STORE_RECIPIENTS_MAX);
}

/* One more refers to the body, which the copy in the folder "sent" has. */
static void queue_in(db *d, uint32_t user, uint32_t message, int64_t body, weir_span sender,
		     weir_span recipients, int64_t now_s)
{
	db_run(d, "UPDATE bodies SET refs = refs + 1 WHERE id = ?", DB_ARGS(DB_INT(body)));
	db_run(d,
	       "INSERT INTO outgoing (user, message, body, sender, recipients, error, tries, created_s, "
	       "next_s)"
	       " VALUES (?, ?, ?, ?, ?, '', 0, ?, ?)",
	       DB_ARGS(DB_INT(user), DB_INT(store_key(user, message)), DB_INT(body), DB_TEXT(sender),
		       DB_TEXT(recipients), DB_INT(now_s), DB_INT(now_s)));
}

int store_send(store *s, uint32_t user, const store_mail *mail, weir_span sender, weir_span recipients,
	       uint32_t draft, uint32_t *ret_message)
{
	store_job job = {0};
	int64_t body = 0, waiting = 0;
	uint32_t message = 0;
	db_try t = db_begin(s->d, DB_SAFE_FROM_POWER_CUT);
	int failed = envelope_wrong(sender, recipients);
	if (failed == 0)
		failed = job_prepare(&job, mail, false);
	while (failed == 0 && db_go(&t)) {
		db_number(s->d, &waiting, "SELECT COUNT(*) FROM outgoing WHERE user = ?",
			  DB_ARGS(DB_INT(user)));
		if (waiting >= STORE_OUTGOING_MAX)
			db_fail(s->d, weir_error_set(-ENOSPC, "%d mails wait to be sent already",
						     STORE_OUTGOING_MAX));
		message = keep_in(s->d, &job, user, STORE_SENT, draft, &body);
		queue_in(s->d, user, message, body, sender, recipients, mail->now_s);
	}
	job_free(&job);
	if (failed != 0 || t.failed != 0)
		return failed != 0 ? failed : t.failed;
	*ret_message = message;
	return 0;
}

/* ---- the queue ---- */

#define OUTGOING                                                                                     \
	"SELECT o.id, o.user, o.message, o.body, b.size, o.tries, o.created_s, o.next_s, o.sender, " \
	"o.recipients,"                                                                              \
	" o.error FROM outgoing o JOIN bodies b ON b.id = o.body"

static int each_row(store *s, void (*each)(const store_outgoing *outgoing, void *arg), void *arg,
		    const char *sql, db_value value)
{
	db_cursor *c = NULL;
	int count = 0, more = db_start(s->d, &c, sql, &value, 1);
	while (c != NULL && (more = db_step(c)) > 0) {
		store_outgoing outgoing = {
			.id = (uint64_t)db_int(c, 0),
			.user = (uint32_t)db_int(c, 1),
			.message = store_number(db_int(c, 2)),
			.body = {(uint64_t)db_int(c, 4), s, (uint64_t)db_int(c, 3)},
			.tries = (unsigned)db_int(c, 5),
			.created_s = db_int(c, 6),
			.next_s = db_int(c, 7),
			.sender = db_bytes(c, 8),
			.recipients = db_bytes(c, 9),
			.error = db_bytes(c, 10),
		};
		each(&outgoing, arg);
		count++;
	}
	return more < 0 ? more : count;
}

int store_outgoing_next(store *s, int64_t now_s, int64_t lease_s,
			void (*one)(const store_outgoing *outgoing, void *arg), void *arg)
{
	int64_t due = 0, id = 0;
	/* Nobody needs the lock of those who write when nothing is due. */
	int failed = store_outgoing_due(s, &due);
	if (failed != 0 || due == 0 || due > now_s)
		return failed;
	db_try t = db_begin(s->d, DB_SAFE_FROM_CRASH);
	while (db_go(&t)) {
		id = 0;
		db_number(s->d, &id,
			  db_is(s->d) == DB_MARIADB
				  ? "SELECT id FROM outgoing WHERE next_s <= ? ORDER BY next_s LIMIT 1 FOR "
				    "UPDATE"
				  : "SELECT id FROM outgoing WHERE next_s <= ? ORDER BY next_s LIMIT 1",
			  DB_ARGS(DB_INT(now_s)));
		db_run(s->d, "UPDATE outgoing SET next_s = ?, tries = tries + 1 WHERE id = ?",
		       DB_ARGS(DB_INT(now_s + lease_s), DB_INT(id)));
	}
	if (t.failed != 0 || id == 0)
		return t.failed;
	return each_row(s, one, arg, OUTGOING " WHERE o.id = ?", DB_INT(id));
}

int store_outgoing_due(store *s, int64_t *ret_due_s)
{
	int64_t due = 0;
	int failed = db_number(s->d, &due, "SELECT MIN(next_s) FROM outgoing", DB_NONE);
	if (failed == 0)
		*ret_due_s = due;
	return failed;
}

int store_outgoing_list(store *s, uint32_t user, void (*each)(const store_outgoing *outgoing, void *arg),
			void *arg)
{
	return each_row(s, each, arg, OUTGOING " WHERE o.user = ? ORDER BY o.id", DB_INT(user));
}

/* ---- its end ---- */

static int no_outgoing(void)
{
	return weir_error_set(-ENOENT, "there is no such mail on its way out");
}

static void done_in(db *d, int64_t outgoing)
{
	int64_t body = 0;
	if (db_number(d, &body, "SELECT body FROM outgoing WHERE id = ?", DB_ARGS(DB_INT(outgoing))) ==
	    -ENOENT)
		db_fail(d, no_outgoing());
	db_run(d, "DELETE FROM outgoing WHERE id = ?", DB_ARGS(DB_INT(outgoing)));
	body_unref_in(d, body);
}

int store_outgoing_done(store *s, uint64_t outgoing)
{
	db_try t = db_begin(s->d, DB_SAFE_FROM_POWER_CUT);
	while (db_go(&t))
		done_in(s->d, (int64_t)outgoing);
	return t.failed;
}

int store_outgoing_retry(store *s, uint64_t outgoing, weir_span recipients, weir_span error, int64_t next_s)
{
	char clean[STORE_FIELD_MAX + 1];
	int failed = envelope_wrong(WEIR_SPAN("-"), recipients);
	if (failed != 0)
		return failed;
	text_clean(error, clean, sizeof(clean));
	int changed = db_change(
		s->d, "UPDATE outgoing SET recipients = ?, error = ?, next_s = ? WHERE id = ?",
		DB_ARGS(DB_TEXT(recipients), DB_TEXT(span_of(clean)), DB_INT(next_s), DB_INT(outgoing)));
	return changed == 0 ? no_outgoing() : changed < 0 ? changed : 0;
}

void outgoing_forget_in(db *d, uint32_t user)
{
	int64_t id = 0;
	while (db_number(d, &id, "SELECT id FROM outgoing WHERE user = ? LIMIT 1", DB_ARGS(DB_INT(user))) ==
	       0)
		done_in(d, id);
}
