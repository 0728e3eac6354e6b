/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_STORE_PRIV_H
#define WEBMAIL_STORE_PRIV_H

/*
 * What the store's own files share. Functions that end in _in run inside of a transaction; what fails in one of them
 * fails the transaction (db.h), so they return no errors.
 */

#include <string.h>

#include "db/db.h"
#include "mail/query.h"
#include "mail/text.h"
#include "store.h"

#define STORE_DIGEST        32  /* bytes of a SHA-256 */
#define STORE_KEY_BYTES     96  /* of what lists are sorted by */
#define STORE_CHUNKS_A_BODY 256 /* a body's chunks have the keys body * 256 and following */
#define STORE_ID_MAX        998 /* bytes of a message id */
#define STORE_DELIVERY_DAYS 30
#define STORE_TERM_SIZE     72  /* of a word of the index */
#define STORE_MERGE_MAX     500 /* messages of a thread that is still joined with another */

struct store {
	db *d;
	/* The chunk that was read last, since readers ask for small parts of it. */
	char *chunk;
	size_t chunk_length;
	int64_t chunk_key; /* 0: none */
};

/* The key of a folder or message of a user. */
static inline int64_t store_key(uint32_t user, uint32_t number)
{
	return (int64_t)((uint64_t)user << 32 | number);
}

static inline uint32_t store_number(int64_t key)
{
	return (uint32_t)key;
}

static inline weir_span span_of(const char *text)
{
	return (weir_span){text, strlen(text)};
}

static inline weir_span digest_span(const unsigned char digest[STORE_DIGEST])
{
	return (weir_span){(const char *)digest, STORE_DIGEST};
}

/* Copies a span as a text that ends with NUL, cut at size - 1 bytes. */
static inline void span_copy(char *to, size_t size, weir_span from)
{
	size_t length = from.length < size ? from.length : size - 1;
	memcpy(to, from.at, length);
	to[length] = '\0';
}

/* ---- schema.c ---- */

int schema_migrate(db *d);

/* ---- store_users.c ---- */

/* A new number within the user's mail. Locks the user, as below. */
uint32_t user_number_in(db *d, uint32_t user);
/* Locks the user where the database locks rows, so that counts change one at a time. There must be one. */
void user_lock_in(db *d, uint32_t user);

/* ---- store_folders.c ---- */

/* The key of a standard folder. */
int64_t folder_of_in(db *d, uint32_t user, store_role role);
uint32_t folder_add_in(db *d, uint32_t user, store_role role, weir_span name);
/* Changes the counts by so many messages. */
void folder_count_in(db *d, int64_t folder, int64_t total, int64_t unread);

/* ---- store_bodies.c ---- */

/* The SHA-256 of a source. */
int body_digest(const mail_source *source, unsigned char ret_digest[STORE_DIGEST]);
/* One reference more to the body with this digest, which is stored if it is new; its key. */
int64_t body_ref_in(db *d, const mail_source *source, const unsigned char digest[STORE_DIGEST]);
/* One less; the last one removes it. */
void body_unref_in(db *d, int64_t body);

/* ---- store_words.c ---- */

/* The texts of a mail as they are stored: valid and cut. */
typedef struct store_texts {
	char sender[STORE_FIELD_MAX + 1];
	char author[STORE_FIELD_MAX + 1];
	char subject[STORE_FIELD_MAX + 1];
	char to[STORE_PEOPLE_MAX + 1];
	char cc[STORE_PEOPLE_MAX + 1];
	char snippet[STORE_SNIPPET_MAX + 1];
	char message_id[STORE_ID_MAX + 1];
	char author_key[STORE_KEY_BYTES + 1];
	char subject_key[STORE_KEY_BYTES + 1];
	size_t text_length;
	char text[]; /* ends with NUL */
} store_texts;

/* Puts the words of a message into the index. */
void words_add_in(db *d, int64_t message, const store_texts *texts);
/* Takes them out. */
void words_remove_in(db *d, int64_t message);

/* ---- store_terms.c: the index of databases that have none that serves ---- */

/* One word to look for; those of a header field have its letter before them: "s_hello". */
typedef struct store_key_word {
	char word[STORE_TERM_SIZE];
	bool without; /* must not occur */
	bool begins;  /* a pattern for the beginning of a word: only the first may be one */
} store_key_word;

#define STORE_KEY_WORDS_MAX 12

/* The word as the index has it, or a pattern for its beginning. */
void terms_key(const char *mark, weir_span word, bool begins, store_key_word *ret_key);
/* Puts the words of a message into the index. */
void terms_add_in(db *d, int64_t message, const store_texts *texts);
void terms_remove_in(db *d, int64_t message);
/*
 * Begins a search for messages with keys below one that have all words, the newest first: rows of
 * STORE_MESSAGE_COLUMNS and the text ("" unless asked for). The first word is one that must occur. folder 0:
 * all but trash and junk.
 */
int terms_search(db *d, db_cursor **ret_cursor, uint32_t user, const store_key_word *words, unsigned count,
		 const store_query *query, bool text, int64_t below, uint32_t skip, uint32_t limit);
/* Moves the rarest of the words that must occur to the front. */
int terms_order(db *d, uint32_t user, store_key_word *words, unsigned count);

/* ---- store_deliver.c ---- */

/* A mail, prepared before the transaction. */
typedef struct store_job {
	const store_mail *mail;
	unsigned char digest[STORE_DIGEST];
	unsigned char delivery[STORE_DIGEST];
	bool repeatable; /* its delivery has an id that is remembered */
	store_texts *texts;
} store_job;

int job_prepare(store_job *job, const store_mail *mail, bool repeatable);
void job_free(store_job *job);
/* Keeps a prepared mail in a standard folder and purges a draft (0: none); the body is for who else refers to it. */
uint32_t keep_in(db *d, const store_job *job, uint32_t user, store_role role, uint32_t draft,
		 int64_t *ret_body);

/* ---- store_thread.c ---- */

/* The thread of a message that is new: that of one of its references, or its own. Remembers its ids. */
int64_t thread_in(db *d, uint32_t user, uint32_t message, weir_span message_id, weir_span references);
/* Forgets a thread that has no messages any more. */
void thread_forget_in(db *d, int64_t thread);

/* ---- store_change.c ---- */

/* Removes one message for good: 1, or 0 if it is not there. */
unsigned purge_in(db *d, int64_t message);
/* Removes messages whose key such a statement finds, up to STORE_MANY_MAX; how many. */
unsigned purge_some_in(db *d, const char *sql, const db_value *values, size_t count);

/* ---- store_messages.c ---- */

#define STORE_MESSAGE_COLUMNS                                                                             \
	"m.id, m.folder, m.thread, m.date_s, m.flags, m.size, m.sender, m.author, m.subject, m.sent_to, " \
	"m.sent_cc, "                                                                                     \
	"m.snippet, m.message_id"
#define STORE_MESSAGE_COLUMN_COUNT 13

/* The row of a cursor over STORE_MESSAGE_COLUMNS. */
store_message message_of_row(db_cursor *c);

/* ---- store_outgoing.c ---- */

/* Removes the mail of a user that waits. */
void outgoing_forget_in(db *d, uint32_t user);

#endif
