/* SPDX-License-Identifier: Apache-2.0 */
/* Mail on its way out: a queue in the database. A worker leases a mail, so a crash only delays it. */
#include "store_priv.h"

#include <errno.h>

#define RECIPIENTS_BYTES (STORE_RECIPIENTS_MAX * 321) /* 64 + '@' + 255 and a line end */

/* ---- sending ---- */

typedef struct store_sending {
	store_job job;
	uint32_t user, draft, message;
	weir_span sender, recipients;
} store_sending;

static int64_t send_work(db *d, void *arg)
{
	store_sending *sending = arg;
	int64_t body = 0, waiting = 0;
	int failed = db_number(d, &waiting, "SELECT COUNT(*) FROM outgoing WHERE user = ?",
			       DB_ARGS(DB_INT(sending->user)));
	if (failed == 0 && waiting >= STORE_OUTGOING_MAX)
		failed = weir_error_set(-ENOSPC, "%d mails wait to be sent already", STORE_OUTGOING_MAX);
	if (failed == 0)
		failed = keep_in(d, &sending->job, sending->user, STORE_SENT, sending->draft,
				 &sending->message, &body);
	if (failed == 0)
		failed = body_ref_again_in(d, body);
	if (failed != 0)
		return failed;
	int64_t now_s = sending->job.mail->now_s;
	return db_run(d,
		      "INSERT INTO outgoing (user, message, body, sender, recipients, error, tries, "
		      "created_s, next_s)"
		      " VALUES (?, ?, ?, ?, ?, '', 0, ?, ?)",
		      DB_ARGS(DB_INT(sending->user), DB_INT(store_key(sending->user, sending->message)),
			      DB_INT(body), DB_TEXT(sending->sender), DB_TEXT(sending->recipients),
			      DB_INT(now_s), DB_INT(now_s)));
}

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

int store_send(store *s, uint32_t user, const store_mail *mail, weir_span sender, weir_span recipients,
	       uint32_t draft, uint32_t *ret_message)
{
	store_sending sending = {.user = user, .draft = draft, .sender = sender, .recipients = recipients};
	int64_t failed = envelope_wrong(sender, recipients);
	if (failed == 0)
		failed = job_prepare(&sending.job, mail, false);
	if (failed == 0)
		failed = db_transaction(s->d, DB_SAFE_FROM_POWER_CUT, send_work, &sending);
	job_free(&sending.job);
	if (failed < 0)
		return (int)failed;
	*ret_message = sending.message;
	return 0;
}

/* ---- the queue ---- */

#define OUTGOING                                                                                     \
	"SELECT o.id, o.user, o.message, o.body, b.size, o.tries, o.created_s, o.next_s, o.sender, " \
	"o.recipients,"                                                                              \
	" o.error FROM outgoing o JOIN bodies b ON b.id = o.body"

static void outgoing_of_row(db_cursor *c, store_outgoing *o)
{
	*o = (store_outgoing){
		.id = (uint64_t)db_int(c, 0),
		.user = (uint32_t)db_int(c, 1),
		.message = store_number(db_int(c, 2)),
		.body = {.key = (uint64_t)db_int(c, 3), .size = (uint64_t)db_int(c, 4)},
		.tries = (unsigned)db_int(c, 5),
		.created_s = db_int(c, 6),
		.next_s = db_int(c, 7),
		.sender = db_bytes(c, 8),
		.recipients = db_bytes(c, 9),
		.error = db_bytes(c, 10),
	};
}

static int outgoing_rows(db_cursor *c, void (*each)(const store_outgoing *outgoing, void *arg), void *arg)
{
	int result;
	int count = 0;
	while ((result = db_step(c)) > 0) {
		store_outgoing outgoing;
		outgoing_of_row(c, &outgoing);
		each(&outgoing, arg);
		count++;
	}
	db_end(c);
	return result < 0 ? result : count;
}

typedef struct store_lease {
	int64_t now_s, until_s, id;
} store_lease;

/* 1 with a lease, or 0 if none is due. */
static int64_t lease_work(db *d, void *arg)
{
	store_lease *lease = arg;
	int failed = db_number(
		d, &lease->id,
		db_is(d) == DB_MARIADB
			? "SELECT id FROM outgoing WHERE next_s <= ? ORDER BY next_s LIMIT 1 FOR UPDATE"
			: "SELECT id FROM outgoing WHERE next_s <= ? ORDER BY next_s LIMIT 1",
		DB_ARGS(DB_INT(lease->now_s)));
	if (failed != 0)
		return failed == -ENOENT ? 0 : failed;
	return db_run(d, "UPDATE outgoing SET next_s = ?, tries = tries + 1 WHERE id = ?",
		      DB_ARGS(DB_INT(lease->until_s), DB_INT(lease->id)));
}

int store_outgoing_next(store *s, int64_t now_s, int64_t lease_s,
			void (*one)(const store_outgoing *outgoing, void *arg), void *arg)
{
	store_lease lease = {.now_s = now_s, .until_s = now_s + lease_s};
	int64_t due = 0;
	/* Nobody needs the lock of those who write when nothing is due. */
	int failed = store_outgoing_due(s, &due);
	if (failed != 0 || due == 0 || due > now_s)
		return failed;
	int64_t result = db_transaction(s->d, DB_SAFE_FROM_CRASH, lease_work, &lease);
	if (result <= 0)
		return (int)result;
	db_cursor *c = NULL;
	failed = db_start(s->d, &c, OUTGOING " WHERE o.id = ?", DB_ARGS(DB_INT(lease.id)));
	return failed != 0 ? failed : outgoing_rows(c, one, arg);
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
	db_cursor *c = NULL;
	int failed = db_start(s->d, &c, OUTGOING " WHERE o.user = ? ORDER BY o.id", DB_ARGS(DB_INT(user)));
	return failed != 0 ? failed : outgoing_rows(c, each, arg);
}

/* ---- its end ---- */

static int64_t done_work(db *d, void *arg)
{
	int64_t id = *(const int64_t *)arg, body = 0;
	int failed = db_number(d, &body, "SELECT body FROM outgoing WHERE id = ?", DB_ARGS(DB_INT(id)));
	if (failed == -ENOENT)
		return weir_error_set(-ENOENT, "there is no such mail on its way out");
	int64_t result =
		failed != 0 ? failed : db_run(d, "DELETE FROM outgoing WHERE id = ?", DB_ARGS(DB_INT(id)));
	return result < 0 ? result : body_unref_in(d, body);
}

int store_outgoing_done(store *s, uint64_t outgoing)
{
	int64_t id = (int64_t)outgoing;
	return (int)db_transaction(s->d, DB_SAFE_FROM_POWER_CUT, done_work, &id);
}

int store_outgoing_retry(store *s, uint64_t outgoing, weir_span recipients, weir_span error, int64_t next_s)
{
	char clean[STORE_FIELD_MAX + 1];
	int failed = envelope_wrong(WEIR_SPAN("-"), recipients);
	if (failed != 0)
		return failed;
	text_clean(error, clean, sizeof(clean));
	int64_t changed = db_change(
		s->d, "UPDATE outgoing SET recipients = ?, error = ?, next_s = ? WHERE id = ?",
		DB_ARGS(DB_TEXT(recipients), DB_TEXT(span_of(clean)), DB_INT(next_s), DB_INT(outgoing)));
	if (changed == 0)
		return weir_error_set(-ENOENT, "there is no such mail on its way out");
	return changed < 0 ? (int)changed : 0;
}

int outgoing_forget_in(db *d, uint32_t user)
{
	int64_t result = 0;
	while (result >= 0) {
		int64_t id = 0;
		result = db_number(d, &id, "SELECT id FROM outgoing WHERE user = ? LIMIT 1",
				   DB_ARGS(DB_INT(user)));
		if (result == -ENOENT)
			return 0;
		if (result == 0)
			result = done_work(d, &id);
	}
	return (int)result;
}
