/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_STORE_H
#define WEBMAIL_STORE_H

/*
 * Everything that the webmail keeps: users, sessions, folders, messages, the text that is searched, and mail
 * on its way out. A `store` is one connection to the database; one thread uses it at a time. Open one per
 * thread.
 *
 * Isolation. Folders and messages have numbers that count within one user's mail. In the database their key
 * is the user's number in the upper half and theirs in the lower. So a query that is given a user cannot name
 * what belongs to another one, whatever numbers a peer sends.
 *
 * Invariants, which store_check() verifies:
 *  1. A message is in one folder of its user. The folder's counts are those of its messages.
 *  2. A body is stored once for all users, found by its SHA-256. Its references are the messages and the
 *     outgoing mail that use it. It goes with the last one.
 *  3. The search index holds the text of each message, and of no other.
 *  4. A delivery with a known id is stored once a user, however often it is repeated.
 *
 * Writing. A function that changes something is one transaction: all of it has happened, or none. When a
 * delivery or store_send() has returned 0, the mail is on disk and survives a power cut. Other changes
 * survive a crash of the process; a power cut may undo the last ones. One writes at a time; who waits longer
 * than STORE_BUSY_MS gets -EBUSY.
 *
 * Errors are negative errno values with a sentence in weir_error(): -ENOENT there is no such thing (of this
 * user), -EEXIST the name is taken, -EBUSY try again later, -EINVAL or -E2BIG what was given is no good or
 * too large, -ENOSPC a bound was reached, -EIO the database failed. Texts that are given are made valid UTF-8
 * and cut at their bound, without an error, since peers send them.
 *
 * Times are seconds since 1970 and come in as arguments.
 */

#include <weir/request.h>

#include "mail/mailbox.h"

#define STORE_NAME_MAX       64  /* bytes of a user's name */
#define STORE_CLASS_MAX      31  /* bytes of the name of a class */
#define STORE_HASH_MAX       127 /* bytes of a password's hash */
#define STORE_FOLDER_MAX     120 /* bytes of a folder's name */
#define STORE_FIELD_MAX      998 /* bytes of an author, of a subject */
#define STORE_PEOPLE_MAX     4000
#define STORE_SNIPPET_MAX    240
#define STORE_TEXT_MAX       (256 * 1024)       /* bytes of a message that are indexed */
#define STORE_BODY_MAX       (64 * 1024 * 1024) /* bytes of a raw message */
#define STORE_CHUNK          (256 * 1024)       /* bytes of a row of a body; reading is cheapest in these */
#define STORE_PAGE_MAX       50                 /* messages of a page of a list or search */
#define STORE_FOLDERS_MAX    200                /* folders of a user */
#define STORE_SESSIONS_MAX   50                 /* sessions of a user; a new one ends the oldest */
#define STORE_MANY_MAX       1000               /* messages of one change */
#define STORE_RECIPIENTS_MAX 100 /* local recipients of a delivery, recipients of an outgoing mail */
#define STORE_REFERENCES_MAX 20  /* message ids that are looked at to find the thread */
#define STORE_THREAD_MAX     200 /* messages of a thread that are listed */
#define STORE_OUTGOING_MAX   500 /* mails of a user that wait to be sent */
#define STORE_TOKEN_CHARS    43  /* of a session: 32 random bytes in base64url */
#define STORE_BUSY_MS        5000

typedef struct store store;

/* ---- the store ---- */

/*
 * Opens the database: "sqlite:FILE", or "mariadb://USER:PASSWORD@HOST:PORT/DATABASE", with "?socket=PATH" for
 * a unix socket. Makes or migrates the tables where needed. The caller closes it.
 */
int store_open(const char *url, store **ret_store);
/* Opens the database at the URL; if that is NULL, mail.db in the data folder, which is made if need be. */
int store_open_data(const char *data, const char *database, store **ret_store);
/* Closes the connection; NULL is accepted. */
void store_close(store *s);
/* Forgets sessions that have expired, and ids of deliveries older than 30 days whose message is gone. */
int store_tidy(store *s, int64_t now_s);

/* ---- users ---- */

typedef struct store_user {
	uint32_t id;
	char name[STORE_NAME_MAX + 1];
	char class[STORE_CLASS_MAX + 1];
	char hash[STORE_HASH_MAX + 1]; /* of the password (password.h); "" if nobody can log in */
	int64_t created_s;
} store_user;

/* Whether this is a user's name: 1 to 64 of a-z, 0-9 and "._+-@", the first a letter or digit. */
bool store_name_valid(weir_span name);
/* Adds a user with the standard folders. The class may be NULL: "bronze". */
int store_user_add(store *s, const char *name, const char *hash, const char *class, int64_t now_s,
		   uint32_t *ret_user);
/* Finds a user by name; upper case counts as lower. */
int store_user_find(store *s, weir_span name, store_user *ret_user);
/* Finds a user by number. */
int store_user_get(store *s, uint32_t user, store_user *ret_user);
/* Finds who gets mail for an address: the user of that name, else of the part before '@' or "+tag". */
int store_user_of_address(store *s, weir_span address, uint32_t *ret_user);
/* Changes the hash of the password. Ends all sessions of the user. */
int store_user_password(store *s, uint32_t user, const char *hash);
/* Changes the class. Sessions have the new one with their next request. */
int store_user_class(store *s, uint32_t user, const char *class);
/* Removes a user with all mail, a part at a time. It can be repeated after a crash. */
int store_user_remove(store *s, uint32_t user);
/* Calls back for each user, by name; stops at a result other than 0 and returns it. */
int store_users(store *s, int (*each)(const store_user *user, void *arg), void *arg);

/* ---- sessions: only a hash of the token is stored ---- */

typedef struct store_session {
	uint32_t user;
	char name[STORE_NAME_MAX + 1];
	char class[STORE_CLASS_MAX + 1];
	int64_t expires_s;
} store_session;

/* Begins a session; the token is for the cookie. */
int store_session_new(store *s, uint32_t user, int64_t now_s, int64_t expires_s,
		      char ret_token[STORE_TOKEN_CHARS + 1]);
/* Finds the session of a token; -ENOENT if there is none or it has expired. Reads only. */
int store_session_find(store *s, weir_span token, int64_t now_s, store_session *ret_session);
/* Ends the session of a token; 0 also if there is none. */
int store_session_end(store *s, weir_span token);

/* ---- folders ---- */

typedef enum store_role {
	STORE_PLAIN, /* made by the user */
	STORE_INBOX,
	STORE_DRAFTS,
	STORE_SENT,
	STORE_JUNK,
	STORE_TRASH,
	STORE_ROLES,
} store_role;

typedef struct store_folder {
	uint32_t id;
	store_role role;
	uint32_t total, unread;
	weir_span name;
} store_folder;

/* Calls back for each folder, standard ones first, then by name. The name is valid during the call. */
int store_folders(store *s, uint32_t user, void (*each)(const store_folder *folder, void *arg), void *arg);
/* Finds a folder; its name is left empty. */
int store_folder_get(store *s, uint32_t user, uint32_t folder, store_folder *ret_folder);
/* Finds a standard folder; its name is left empty. */
int store_folder_of(store *s, uint32_t user, store_role role, store_folder *ret_folder);
/* Makes a folder of the user's. */
int store_folder_add(store *s, uint32_t user, weir_span name, uint32_t *ret_folder);
/* Renames a folder of the user's; standard ones keep their name (-EINVAL). */
int store_folder_rename(store *s, uint32_t user, uint32_t folder, weir_span name);
/* Removes a folder of the user's that is empty; -ENOTEMPTY if it is not. */
int store_folder_remove(store *s, uint32_t user, uint32_t folder);

/* ---- messages ---- */

/* Those of mail in files (mail/mailbox.h), and two more. */
typedef enum store_flag {
	STORE_SEEN = MAIL_SEEN,
	STORE_FLAGGED = MAIL_FLAGGED,
	STORE_ANSWERED = MAIL_ANSWERED,
	STORE_FORWARDED = MAIL_FORWARDED,
	STORE_DRAFT = 16,
	STORE_ATTACHMENT = 32, /* set by what is delivered; store_flags() does not change it */
} store_flag;

/* What is known of a message without its body. Spans that are read are valid during the callback. */
typedef struct store_message {
	/* Given by the one who delivers. */
	weir_span from;    /* "Ann Lee <ann@example.org>" */
	weir_span author;  /* for lists: "Ann Lee" */
	weir_span subject; /* one line */
	weir_span to, cc;  /* addresses with names */
	weir_span snippet;
	weir_span message_id; /* without < > */
	int64_t date_s;
	unsigned flags;
	/* Given by the store. */
	uint32_t id, folder;
	uint32_t thread; /* the number of its first message, which may be gone */
	uint32_t size;   /* bytes of the raw message */
} store_message;

/* What comes in: by LMTP, by import, or as a copy of what was written here. */
typedef struct store_mail {
	store_message head;
	weir_span text;         /* for the index; cut at STORE_TEXT_MAX */
	weir_span sort_subject; /* lower case, without "Re:"; empty: made of the subject */
	weir_span references;   /* message ids without < >, separated by blanks, the nearest last */
	mail_source raw;        /* read twice */
	/*
	 * The id of this delivery: a repetition with the same id stores nothing more and succeeds. NULL: the
	 * hash of the raw bytes, so that an MTA may send again what it had no answer for, and an import can
	 * be repeated.
	 */
	const weir_span *delivery;
	/* A power cut may undo it, and it costs a tenth: for imports, which can be repeated. */
	bool not_durable;
	int64_t now_s;
} store_mail;

/* Where a mail goes. */
typedef struct store_place {
	uint32_t user;
	uint32_t folder; /* 0: the inbox */
	/* Results. */
	uint32_t message; /* the new one, or the one that was there already; 0 if that was purged */
	bool known;       /* it was there already */
} store_place;

/*
 * Stores a mail for all places, in one transaction, durably. Users are named once. On failure nothing is
 * stored for anybody and the places are untouched. -ENOENT: a user or folder is not there.
 */
int store_deliver(store *s, const store_mail *mail, store_place *places, unsigned count);
/*
 * Stores a mail that was written here in a standard folder (a draft, a copy), whether or not it is there
 * already, and purges the draft `replaces` (0: none) in the same transaction.
 */
int store_keep(store *s, uint32_t user, store_role role, const store_mail *mail, uint32_t replaces,
	       uint32_t *ret_message);

typedef enum store_sort {
	STORE_BY_DATE, /* newest first, unless reversed */
	STORE_BY_AUTHOR,
	STORE_BY_SUBJECT,
	STORE_SORTS,
} store_sort;

typedef struct store_list {
	uint32_t folder;
	store_sort sort;
	bool reversed;
	uint32_t skip;  /* messages before the page */
	uint32_t count; /* of the page, at most STORE_PAGE_MAX */
} store_list;

typedef void (*store_each)(const store_message *message, void *arg);

/* Calls back for each message of a page; returns how many, or an error. */
int store_messages(store *s, uint32_t user, const store_list *list, store_each each, void *arg);
/* Calls back for the messages of a message's thread in all folders, oldest first; returns how many. */
int store_thread(store *s, uint32_t user, uint32_t message, store_each each, void *arg);
/* Calls back once for one message. */
int store_message_get(store *s, uint32_t user, uint32_t message, store_each each, void *arg);
/*
 * The messages before and after one in its list (0: none): for keys j and k. The list's skip and count do not
 * matter.
 */
int store_neighbours(store *s, uint32_t user, const store_list *list, uint32_t message, uint32_t *ret_before,
		     uint32_t *ret_after);

/* The raw bytes of a message. */
typedef struct store_body {
	uint64_t size;
	/* the store's own */
	store *store;
	uint64_t key; /* in the database */
} store_body;

/* Finds the body of a message of the user. */
int store_body_open(store *s, uint32_t user, uint32_t message, store_body *ret_body);
/*
 * Reads at most size bytes from an offset; returns how many, 0 at the end. Holds no lock between calls;
 * -ENOENT when the last message with this body was purged meanwhile.
 */
int64_t store_body_read(const store_body *body, uint64_t offset, void *into, size_t size);
/* The body as a source of a message. It must stay, and so must its store. */
mail_source store_body_source(const store_body *body);

/* Sets and clears flags of messages; those that are not there are left out. Returns how many there are. */
int store_flags(store *s, uint32_t user, const uint32_t *messages, unsigned count, unsigned set,
		unsigned clear);
/* Moves messages to a folder, each remembering where it was; returns how many were moved. */
int store_refile(store *s, uint32_t user, const uint32_t *messages, unsigned count, uint32_t folder);
/* Moves messages back to where they were before the last store_refile(); returns how many were moved. */
int store_refile_undo(store *s, uint32_t user, const uint32_t *messages, unsigned count);
/* Removes messages for good; returns how many. */
int store_purge(store *s, uint32_t user, const uint32_t *messages, unsigned count);
/* Removes up to STORE_MANY_MAX messages of a folder for good; returns how many: repeat it until 0. */
int store_empty(store *s, uint32_t user, uint32_t folder);

/* ---- search ---- */

typedef struct store_query {
	weir_span words; /* what a user typed (mail/query.h) */
	uint32_t folder; /* 0: all but trash and junk */
	uint32_t skip;
	uint32_t count;   /* at most STORE_PAGE_MAX */
	bool no_excerpts; /* cheaper: the snippet is the message's, not the place where the words are */
} store_query;

/*
 * Calls back for the messages that are found, those that arrived last first, with an excerpt of where the
 * first word was found as snippet. Returns how many; -EINVAL if there is no word to look for.
 */
int store_search(store *s, uint32_t user, const store_query *query, store_each each, void *arg);

/* ---- mail on its way out ---- */

typedef struct store_outgoing {
	uint64_t id;
	uint32_t user;
	uint32_t message;     /* the copy in the folder "sent" */
	weir_span sender;     /* of the envelope */
	weir_span recipients; /* those that are left, one a line */
	weir_span error;      /* of the last try; empty: none yet */
	unsigned tries;
	int64_t created_s, next_s;
	store_body body;
} store_outgoing;

/*
 * In one transaction, durably: keeps the mail as sent, queues it for the recipients (one a line), and purges
 * the draft (0: none). -ENOSPC if STORE_OUTGOING_MAX wait already.
 */
int store_send(store *s, uint32_t user, const store_mail *mail, weir_span sender, weir_span recipients,
	       uint32_t draft, uint32_t *ret_message);
/*
 * Calls back for the mail that is due first, and hides it until now_s + lease_s, so that another worker does
 * not take it and a crash delays it only. Its tries are one more. Returns 1, or 0 if none is due.
 */
int store_outgoing_next(store *s, int64_t now_s, int64_t lease_s,
			void (*one)(const store_outgoing *outgoing, void *arg), void *arg);
/* When the next mail is due; 0: none waits. */
int store_outgoing_due(store *s, int64_t *ret_due_s);
/* Takes a mail out of the queue: it was sent, or it was given up and its user was told. */
int store_outgoing_done(store *s, uint64_t outgoing);
/* Puts a mail back for those recipients that are left, with the reason. */
int store_outgoing_retry(store *s, uint64_t outgoing, weir_span recipients, weir_span error, int64_t next_s);
/* Calls back for the user's mail that waits, the oldest first; returns how many. */
int store_outgoing_list(store *s, uint32_t user, void (*each)(const store_outgoing *outgoing, void *arg),
			void *arg);

/* ---- check ---- */

/*
 * Verifies the invariants above and what the database can verify of itself, reading every body. Calls back
 * with a sentence for each thing that is wrong; returns how many there are, or an error if it could not look.
 * Others may read and write meanwhile.
 */
int store_check(store *s, void (*wrong)(const char *sentence, void *arg), void *arg);

#endif
