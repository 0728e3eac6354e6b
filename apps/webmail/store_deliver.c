/* SPDX-License-Identifier: Apache-2.0 */
/* Mail that comes in. What can be computed before the transaction is, since one writes at a time. */
#include "store_priv.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

/* ---- before the transaction ---- */

static weir_span cut(weir_span text, size_t most)
{
	return text.length > most ? (weir_span){text.at, most} : text;
}

static store_texts *clean_texts(const store_mail *mail)
{
	weir_span text = cut(mail->text, STORE_TEXT_MAX);
	/* A byte that is no UTF-8 becomes three. */
	size_t size = 3 * text.length + 1;
	store_texts *t = malloc(sizeof(*t) + size);
	if (t == NULL)
		return NULL;
	const store_message *head = &mail->head;
	text_clean(head->from, t->sender, sizeof(t->sender));
	text_clean(head->author.length > 0 ? head->author : head->from, t->author, sizeof(t->author));
	text_clean(head->subject, t->subject, sizeof(t->subject));
	text_clean(head->to, t->to, sizeof(t->to));
	text_clean(head->cc, t->cc, sizeof(t->cc));
	text_clean(head->snippet, t->snippet, sizeof(t->snippet));
	text_clean(head->message_id, t->message_id, sizeof(t->message_id));
	text_fold(span_of(t->author), t->author_key, sizeof(t->author_key));
	text_fold(mail->sort_subject.length > 0 ? mail->sort_subject : head->subject, t->subject_key,
		  sizeof(t->subject_key));
	t->text_length = text_clean(text, t->text, size);
	return t;
}

int job_prepare(store_job *job, const store_mail *mail, bool repeatable)
{
	*job = (store_job){.mail = mail, .repeatable = repeatable};
	int failed = body_digest(&mail->raw, job->digest);
	if (failed != 0)
		return failed;
	if (mail->delivery != NULL)
		crypto_hash_sha256(job->delivery, (const unsigned char *)mail->delivery->at,
				   mail->delivery->length);
	else
		memcpy(job->delivery, job->digest, STORE_DIGEST);
	job->texts = clean_texts(mail);
	return job->texts != NULL ? 0 : weir_error_set(-ENOMEM, "out of memory");
}

void job_free(store_job *job)
{
	free(job->texts);
	job->texts = NULL;
}

/* ---- inside ---- */

/* Whether the user has had this delivery. */
static bool known_in(db *d, const store_job *job, store_place *place)
{
	int64_t message = 0, there = 0;
	if (db_number(d, &message, "SELECT message FROM deliveries WHERE user = ? AND delivery = ?",
		      DB_ARGS(DB_INT(place->user), DB_BYTES(digest_span(job->delivery)))) != 0)
		return false;
	db_number(d, &there, "SELECT id FROM messages WHERE id = ?", DB_ARGS(DB_INT(message)));
	place->message = store_number(there);
	return true;
}

static void insert_row_in(db *d, const store_job *job, int64_t key, int64_t folder, int64_t thread,
			  int64_t body)
{
	const store_texts *t = job->texts;
	const store_message *head = &job->mail->head;
	db_run(d,
	       "INSERT INTO messages (id, folder, was, thread, date_s, flags, size, body, author_key,"
	       " subject_key, sender, author, subject, sent_to, sent_cc, snippet, message_id)"
	       " VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	       DB_ARGS(DB_INT(key), DB_INT(folder), DB_INT(thread), DB_INT(head->date_s), DB_INT(head->flags),
		       DB_INT(job->mail->raw.bytes), DB_INT(body), DB_TEXT(span_of(t->author_key)),
		       DB_TEXT(span_of(t->subject_key)), DB_TEXT(span_of(t->sender)),
		       DB_TEXT(span_of(t->author)), DB_TEXT(span_of(t->subject)), DB_TEXT(span_of(t->to)),
		       DB_TEXT(span_of(t->cc)), DB_TEXT(span_of(t->snippet)),
		       DB_TEXT(span_of(t->message_id))));
}

/* Stores a mail that is not there yet in a folder that is; its number. */
static uint32_t insert_in(db *d, const store_job *job, uint32_t user, int64_t folder, int64_t *ret_body)
{
	uint32_t number = user_number_in(d, user);
	int64_t key = store_key(user, number);
	*ret_body = body_ref_in(d, &job->mail->raw, job->digest);
	int64_t thread = thread_in(d, user, number, span_of(job->texts->message_id), job->mail->references);
	insert_row_in(d, job, key, folder, thread, *ret_body);
	words_add_in(d, key, job->texts);
	folder_count_in(d, folder, 1, (job->mail->head.flags & STORE_SEEN) == 0);
	if (job->repeatable)
		db_run(d, "INSERT INTO deliveries (user, delivery, message, created_s) VALUES (?, ?, ?, ?)",
		       DB_ARGS(DB_INT(user), DB_BYTES(digest_span(job->delivery)), DB_INT(key),
			       DB_INT(job->mail->now_s)));
	return number;
}

static void deliver_in(db *d, const store_job *job, store_place *place)
{
	int64_t body, folder = store_key(place->user, place->folder);
	user_lock_in(d, place->user);
	place->known = known_in(d, job, place);
	if (place->known)
		return;
	if (place->folder == 0)
		folder = folder_of_in(d, place->user, STORE_INBOX);
	place->message = insert_in(d, job, place->user, folder, &body);
}

/* ---- deliveries ---- */

/* Users are locked in the order of their numbers, so that two deliveries do not wait for each other. */
static int by_user(const void *left, const void *right)
{
	const store_place *const *a = left, *const *b = right;
	return ((*a)->user > (*b)->user) - ((*a)->user < (*b)->user);
}

int store_deliver(store *s, const store_mail *mail, store_place *places, unsigned count)
{
	store_place ordered[STORE_RECIPIENTS_MAX];
	store_place *whose[STORE_RECIPIENTS_MAX];
	if (count == 0 || count > STORE_RECIPIENTS_MAX)
		return weir_error_set(-E2BIG, "a mail has 1 to %d recipients here", STORE_RECIPIENTS_MAX);
	for (unsigned i = 0; i < count; i++)
		whose[i] = &places[i];
	qsort(whose, count, sizeof(whose[0]), by_user);
	for (unsigned i = 0; i < count; i++)
		ordered[i] = *whose[i];
	store_job job;
	db_try t = db_begin(s->d, mail->not_durable ? DB_SAFE_FROM_CRASH : DB_SAFE_FROM_POWER_CUT);
	int failed = job_prepare(&job, mail, true);
	while (failed == 0 && db_go(&t))
		for (unsigned i = 0; i < count; i++)
			deliver_in(s->d, &job, &ordered[i]);
	failed = failed != 0 ? failed : t.failed;
	for (unsigned i = 0; failed == 0 && i < count; i++)
		*whose[i] = ordered[i];
	job_free(&job);
	return failed;
}

/* ---- what was written here ---- */

/* A draft that is still one; anything else is left alone. */
static void purge_draft_in(db *d, uint32_t user, uint32_t draft)
{
	int64_t key = 0;
	if (draft != 0 && db_number(d, &key,
				    "SELECT m.id FROM messages m JOIN folders f ON f.id = m.folder WHERE "
				    "m.id = ? AND f.role = ?",
				    DB_ARGS(DB_INT(store_key(user, draft)), DB_INT(STORE_DRAFTS))) == 0)
		purge_in(d, key);
}

uint32_t keep_in(db *d, const store_job *job, uint32_t user, store_role role, uint32_t draft,
		 int64_t *ret_body)
{
	user_lock_in(d, user);
	uint32_t message = insert_in(d, job, user, folder_of_in(d, user, role), ret_body);
	purge_draft_in(d, user, draft);
	return message;
}

int store_keep(store *s, uint32_t user, store_role role, const store_mail *mail, uint32_t replaces,
	       uint32_t *ret_message)
{
	store_job job;
	int64_t body;
	uint32_t message = 0;
	if (role <= STORE_PLAIN || role >= STORE_ROLES)
		return weir_error_set(-EINVAL, "mail is kept in a standard folder");
	db_try t = db_begin(s->d, DB_SAFE_FROM_POWER_CUT);
	int failed = job_prepare(&job, mail, false);
	while (failed == 0 && db_go(&t))
		message = keep_in(s->d, &job, user, role, replaces, &body);
	job_free(&job);
	if (failed != 0 || t.failed != 0)
		return failed != 0 ? failed : t.failed;
	*ret_message = message;
	return 0;
}
