/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAIL_COMPOSE_H
#define MAIL_COMPOSE_H

/*
 * Writing messages: a form becomes a MIME message, and a message becomes the form of its answer.
 *
 * What a user typed cannot add header fields: names, subjects and addresses with line breaks or other control
 * characters are refused, and the MIME library encodes everything else. Text goes out as UTF-8, in lines that
 * SMTP allows. Bcc is part of the envelope only.
 *
 * Threads: any; a form belongs to one thread at a time.
 */

#include "mail.h"
#include "smtp.h"

#define COMPOSE_RECIPIENTS_MAX  100u        /* To, Cc and Bcc together */
#define COMPOSE_FILES_MAX       50u         /* attachments */
#define COMPOSE_TEXT_BYTES_MAX  (4u << 20)  /* of the text */
#define COMPOSE_BYTES_MAX       (36u << 20) /* of text and attachments: encoded, they fit into a message */
#define COMPOSE_FIELD_BYTES_MAX 16000u      /* of a list of addresses, as typed */

typedef struct compose_file {
	const char *name; /* folders before it are left out; may be "" */
	const char *type; /* "image/png"; what is no type counts as application/octet-stream; may be NULL */
	const mail_source *content;
} compose_file;

/* All texts are UTF-8; NULL is "". */
typedef struct compose_form {
	const char *from;          /* one address, with or without a name: "Ann Lee <ann@example.org>" */
	const char *to, *cc, *bcc; /* as typed, separated by commas */
	const char *subject;
	const char *text;
	const char *message_id;  /* without brackets; NULL: a new one is made, of the domain of from */
	const char *in_reply_to; /* the id of the message that this one answers, without brackets */
	const char *references;  /* ids separated by blanks, as in mail_summary */
	const compose_file *files;
	size_t file_count;
	int64_t now_s;
	bool draft; /* nothing need be complete: wrong addresses are left out, and Bcc is kept in the message */
} compose_form;

typedef struct compose_message {
	int fd;             /* the message, in a file without a name */
	mail_source source; /* of that file */
	char *sender;       /* the address of from, for the envelope */
	char *recipients;   /* addresses, one a line, each once */
	unsigned recipient_count;
} compose_message;

/*
 * Makes a message. -EINVAL: something that was typed is no good, and weir_error says what, for the user;
 * -E2BIG: too much of something. The file is made in the folder `spool`. Free it with compose_message_fini.
 */
int compose_build(const compose_form *form, const char *spool, compose_message *ret_message);
/* Closes the file and frees the texts. */
void compose_message_fini(compose_message *message);

/*
 * Makes the message about a failure, to its sender: those with codes of 500 and more did not get it. host is ours;
 * the beginning of the message is attached. As compose_build.
 */
int compose_bounce(const smtp_mail *mail, const char *host, const mail_source *beginning, int64_t now_s,
		   const char *spool, compose_message *ret_message);

/* ---- answers ---- */

typedef enum compose_kind { COMPOSE_REPLY, COMPOSE_REPLY_ALL, COMPOSE_FORWARD } compose_kind;

/* What a form begins with; all texts are there, may be "", and are freed by compose_answer_free. */
typedef struct compose_answer {
	char *to, *cc, *subject, *text;
	char *in_reply_to, *references;
} compose_answer;

/*
 * The beginning of an answer to a message, or of a message that forwards it as text. own: the user's address,
 * which gets no copy. The attachments of a forwarded message are the caller's to add.
 */
compose_answer *compose_answer_to(compose_kind kind, const mail_view *view, const char *own);
/* Frees; NULL is ignored. Sets it to NULL. */
void compose_answer_free(compose_answer **answer);

#endif
