/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_DELIVER_H
#define WEBMAIL_DELIVER_H

/*
 * Between messages (mail.h) and the store (store.h): what the store wants to know of a message that comes in, and
 * the bytes of a stored message as a source.
 *
 * Threads: as the store that is given, one at a time.
 */

#include "mail/mail.h"
#include "store.h"

/* A message that is ready for store_deliver, store_keep or store_send. It stays where it is until it is released. */
typedef struct deliver_mail {
	store_mail mail; /* flags, delivery id and date may be changed before it is stored */
	mail_summary *summary;
	const mail_source *source;
} deliver_mail;

/*
 * Reads a message and fills in what the store wants. A date that is missing, or more than a day ahead, becomes
 * now_s. Errors as mail_summarise. Release it with deliver_release.
 */
int deliver_prepare(deliver_mail *deliver, const mail_source *source, int64_t now_s);
/* Frees what prepare has made. */
void deliver_release(deliver_mail *deliver);

/* Reads a message and stores it in the places, all or none. Errors as mail_summarise and store_deliver. */
int deliver_to(store *s, const mail_source *source, int64_t now_s, store_place *places, unsigned count);

/* The bytes of a stored message. It stays where it is while its source is in use. */
typedef struct deliver_body {
	mail_source source; /* give this to mail_open and the like */
	store *store;
	store_body body;
	char *chunk; /* the piece that was read last */
	uint64_t chunk_at;
	size_t chunk_bytes;
} deliver_body;

/* Prepares the source of a body. Reads nothing yet. 0 or -ENOMEM. */
int deliver_body_init(deliver_body *b, store *s, const store_body *body);
/* The same, for a message of a user. Errors as store_body_open. */
int deliver_body_open(deliver_body *b, store *s, uint32_t user, uint32_t message);
/* Frees what init or open has made. */
void deliver_body_fini(deliver_body *b);

#endif
