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

/* Whether the user has had this delivery: 1, with its message, or 0. */
static int known_in(db *d, const store_job *job, store_place *place)
{
	int64_t message = 0, there = 0;
	int failed = db_number(d, &message, "SELECT message FROM deliveries WHERE user = ? AND delivery = ?",
			       DB_ARGS(DB_INT(place->user), DB_BYTES(digest_span(job->delivery))));
	if (failed != 0)
		return failed == -ENOENT ? 0 : failed;
	failed = db_number(d, &there, "SELECT id FROM messages WHERE id = ?", DB_ARGS(DB_INT(message)));
	if (failed != 0 && failed != -ENOENT)
		return failed;
	place->known = true;
	place->message = failed == 0 ? store_number(message) : 0;
	return 1;
}

static int64_t insert_row(db *d, const store_job *job, int64_t key, int64_t folder, int64_t thread,
			  int64_t body)
{
	const store_texts *t = job->texts;
	const store_message *head = &job->mail->head;
	return db_run(d,
		      "INSERT INTO messages (id, folder, was, thread, date_s, flags, size, body, author_key,"
		      " subject_key, sender, author, subject, sent_to, sent_cc, snippet, message_id)"
		      " VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		      DB_ARGS(DB_INT(key), DB_INT(folder), DB_INT(thread), DB_INT(head->date_s),
			      DB_INT(head->flags), DB_INT(job->mail->raw.size), DB_INT(body),
			      DB_TEXT(span_of(t->author_key)), DB_TEXT(span_of(t->subject_key)),
			      DB_TEXT(span_of(t->sender)), DB_TEXT(span_of(t->author)),
			      DB_TEXT(span_of(t->subject)), DB_TEXT(span_of(t->to)), DB_TEXT(span_of(t->cc)),
			      DB_TEXT(span_of(t->snippet)), DB_TEXT(span_of(t->message_id))));
}

static int remember_in(db *d, const store_job *job, uint32_t user, int64_t key)
{
	if (!job->repeatable)
		return 0;
	int64_t changed =
		db_run(d, "INSERT INTO deliveries (user, delivery, message, created_s) VALUES (?, ?, ?, ?)",
		       DB_ARGS(DB_INT(user), DB_BYTES(digest_span(job->delivery)), DB_INT(key),
			       DB_INT(job->mail->now_s)));
	return changed < 0 ? (int)changed : 0;
}

/* Stores a mail that is not there yet in a folder that is. */
static int insert_in(db *d, const store_job *job, uint32_t user, int64_t folder, uint32_t *ret_message,
		     int64_t *ret_body)
{
	int64_t number = user_number_in(d, user);
	if (number < 0)
		return (int)number;
	int64_t key = store_key(user, (uint32_t)number);
	int64_t thread = 0;
	int failed = body_ref_in(d, &job->mail->raw, job->digest, ret_body);
	if (failed == 0)
		failed = thread_in(d, user, (uint32_t)number, span_of(job->texts->message_id),
				   job->mail->references, &thread);
	int64_t result = failed != 0 ? failed : insert_row(d, job, key, folder, thread, *ret_body);
	if (result >= 0)
		result = words_add_in(d, key, job->texts);
	if (result >= 0)
		result = folder_count_in(d, folder, 1, (job->mail->head.flags & STORE_SEEN) == 0);
	if (result >= 0)
		result = remember_in(d, job, user, key);
	if (result < 0)
		return (int)result;
	*ret_message = (uint32_t)number;
	return 0;
}

static int deliver_in(db *d, const store_job *job, store_place *place)
{
	int failed = user_lock_in(d, place->user);
	int known = failed != 0 ? failed : known_in(d, job, place);
	if (known != 0)
		return known < 0 ? known : 0;
	int64_t folder = store_key(place->user, place->folder), body = 0;
	if (place->folder == 0)
		failed = folder_of_in(d, place->user, STORE_INBOX, &folder);
	place->known = false;
	return failed != 0 ? failed : insert_in(d, job, place->user, folder, &place->message, &body);
}

/* ---- deliveries ---- */

typedef struct store_delivery {
	store_job job;
	store_place *places;
	unsigned count;
} store_delivery;

static int64_t deliver_work(db *d, void *arg)
{
	store_delivery *delivery = arg;
	int failed = 0;
	for (unsigned i = 0; failed == 0 && i < delivery->count; i++)
		failed = deliver_in(d, &delivery->job, &delivery->places[i]);
	return failed;
}

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
	store_delivery delivery = {.places = ordered, .count = count};
	int failed = job_prepare(&delivery.job, mail, true);
	if (failed == 0)
		failed = (int)db_transaction(s->d,
					     mail->not_durable ? DB_SAFE_FROM_CRASH : DB_SAFE_FROM_POWER_CUT,
					     deliver_work, &delivery);
	for (unsigned i = 0; failed == 0 && i < count; i++)
		*whose[i] = ordered[i];
	job_free(&delivery.job);
	return failed;
}

/* ---- what was written here ---- */

/* A draft that is still one; anything else is left alone. */
static int purge_draft_in(db *d, uint32_t user, uint32_t draft)
{
	int64_t key = 0;
	if (draft == 0)
		return 0;
	int failed = db_number(d, &key,
			       "SELECT m.id FROM messages m JOIN folders f ON f.id = m.folder WHERE m.id = ?"
			       " AND f.role = ?",
			       DB_ARGS(DB_INT(store_key(user, draft)), DB_INT(STORE_DRAFTS)));
	if (failed == -ENOENT)
		return 0;
	int purged = failed == 0 ? purge_in(d, key) : failed;
	return purged < 0 ? purged : 0;
}

int keep_in(db *d, const store_job *job, uint32_t user, store_role role, uint32_t draft,
	    uint32_t *ret_message, int64_t *ret_body)
{
	int64_t folder = 0;
	int failed = user_lock_in(d, user);
	if (failed == 0)
		failed = folder_of_in(d, user, role, &folder);
	if (failed == 0)
		failed = insert_in(d, job, user, folder, ret_message, ret_body);
	return failed != 0 ? failed : purge_draft_in(d, user, draft);
}

typedef struct store_keeping {
	store_job job;
	uint32_t user, draft, message;
	store_role role;
} store_keeping;

static int64_t keep_work(db *d, void *arg)
{
	store_keeping *keeping = arg;
	int64_t body = 0;
	return keep_in(d, &keeping->job, keeping->user, keeping->role, keeping->draft, &keeping->message,
		       &body);
}

int store_keep(store *s, uint32_t user, store_role role, const store_mail *mail, uint32_t replaces,
	       uint32_t *ret_message)
{
	store_keeping keeping = {.user = user, .draft = replaces, .role = role};
	if (role <= STORE_PLAIN || role >= STORE_ROLES)
		return weir_error_set(-EINVAL, "mail is kept in a standard folder");
	int failed = job_prepare(&keeping.job, mail, false);
	if (failed == 0)
		failed = (int)db_transaction(s->d, DB_SAFE_FROM_POWER_CUT, keep_work, &keeping);
	job_free(&keeping.job);
	if (failed == 0)
		*ret_message = keeping.message;
	return failed;
}
