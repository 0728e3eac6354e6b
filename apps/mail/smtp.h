/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAIL_SMTP_H
#define MAIL_SMTP_H

/*
 * Hands one message to a submission server, in one SMTP transaction with all of its recipients. The library tells
 * what goes over the wire, and from that each recipient gets the answer that the server gave.
 *
 * Threads: smtp_init once, before all others; smtp_send: any that may wait for minutes.
 */

#include "mail.h"

#define SMTP_TRY_S 300 /* one try, from connect to the answer */

typedef struct smtp_options {
	const char *url;             /* "smtp://host:587", "smtps://host:465" */
	bool starttls;               /* smtp:// fails without it; otherwise it is not used */
	const char *user, *password; /* for AUTH; NULL: none */
	const char *ca_file;         /* who signs the server's certificate; NULL: the system's */
	const char *host;            /* the name given in EHLO; NULL: localhost */
} smtp_options;

/* The envelope, and what became of it. */
typedef struct smtp_mail {
	char *sender;
	char **recipients;
	unsigned count;
	int *codes; /* a recipient's: of SMTP; below 400: it has the mail, or is not known; 0: try again */
	char **answers; /* the server's lines, or why there was none; NULL: none; g_free them */
} smtp_mail;

/* Prepares the library. 0 or -EIO. */
int smtp_init(void);
/* Whether the URL names this machine, where nobody else can listen: localhost, 127.0.0.1 or ::1. */
bool smtp_is_local(const char *url);
/* Tries once and fills in codes and answers. 0 whatever the server said; -ECANCELED: *stopping was set (it may be NULL). */
int smtp_send(const smtp_options *options, const mail_source *source, smtp_mail *mail, const int *stopping);

#endif
