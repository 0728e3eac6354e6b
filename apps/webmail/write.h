/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_WRITE_H
#define WEBMAIL_WRITE_H

/*
 * The page on which a message is written, and what happens with what was written: sent, or kept as a draft.
 *
 * Threads: that of the visit.
 */

#include "mail/mail.h"
#include "webmail.h"

/* What the page begins with. */
typedef struct write_form {
	uint32_t draft;    /* the draft that it replaces; 0: none */
	uint32_t answers;  /* the message that it answers or forwards; 0: none */
	uint32_t files_of; /* the message whose attachments are offered; 0: none */
	weir_span how;     /* "reply", "all", "forward" or "" */
	weir_span to, cc, bcc, subject, text;
	weir_span wrong, done; /* what to say about it */
} write_form;

/* Sends the page, or returns an error. files: the message whose attachments are offered; NULL: none. */
int write_page(visit *v, const write_form *form, const mail_view *files, unsigned status);
/* Reads a message of the user, as text. Errors as store_body_open and mail_open. */
int write_open(visit *v, uint32_t message, mail_view **ret_view);
/* The user's own address, in memory of the request. */
weir_span write_address(visit *v);

#endif
