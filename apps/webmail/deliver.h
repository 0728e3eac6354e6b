/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_DELIVER_H
#define WEBMAIL_DELIVER_H

/*
 * Between messages (mail/mail.h) and the store (store.h): what the store wants to know of a message that comes in.
 *
 * Threads: any, one at a time.
 */

#include "mail/mail.h"
#include "store.h"

/* A message that is ready for store_deliver, store_keep or store_send. */
typedef struct deliver_mail {
	store_mail mail; /* flags, delivery id and date may be changed before it is stored */
	mail_summary *summary;
} deliver_mail;

/*
 * Reads a message and fills in what the store wants. A date that is missing, or more than a day ahead, becomes
 * now_s. Errors as mail_summarise. Release it with deliver_release.
 */
int deliver_prepare(deliver_mail *deliver, const mail_source *source, int64_t now_s);
/* Frees what prepare has made. */
void deliver_release(deliver_mail *deliver);

#endif
