/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_SUBMIT_TRY_H
#define WEBMAIL_SUBMIT_TRY_H

/* One mail of the queue: handing it to the server, and the message about its failure. For submit.c only. */

#include "submit.h"

typedef struct submit_mail {
	uint64_t id;
	uint32_t user;
	unsigned tries;
	int64_t created_s;
	store_body body;
	char *sender;
	char **recipients;
	unsigned count;
	int *codes; /* a recipient's: of SMTP; below 400: it has the mail, or is not known; 0: try again */
	char **answers; /* the server's lines, or why there was none; NULL: none */
} submit_mail;

/*
 * Tries once and fills in codes and answers. 0 whatever the server said; -ECANCELED: *stopping was set (it may be
 * NULL); another error: the store failed, and nothing was tried.
 */
int submit_try(store *s, const submit_options *options, submit_mail *mail, const int *stopping);
/* Puts a message about the recipients with codes of 500 and more into the user's inbox, once. */
int submit_bounce(store *s, const submit_options *options, const submit_mail *mail, int64_t now_s);

#endif
