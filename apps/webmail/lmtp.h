/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_LMTP_H
#define WEBMAIL_LMTP_H

/*
 * Mail comes in: an LMTP server (RFC 2033), for a mail server to hand mail over to.
 *
 * A recipient's 250 after the data means that the message is in the database, on disk. Without that answer the
 * mail server sends it again; the same message to the same user is stored once.
 *
 * Commands are read on reactor threads. Users are looked up, and messages are read and stored, on a pool of the
 * server's own; meanwhile its connection is not read, which holds the peer back. A connection holds at most 300
 * KB of a message in memory; longer messages go to files without a name in the folder `spool`.
 *
 * Bounds: connections, bytes of a message, recipients, bytes of a command, commands that are wrong, time without
 * a byte and time of a whole transaction. The end of the data is CRLF "." CRLF and nothing else, so that no
 * message can contain another one's envelope.
 *
 * Threads: all functions: the main thread; read_stats: any.
 */

#include <weir/net.h>

#include "store.h"

typedef struct lmtp lmtp;

typedef struct lmtp_options {
	weir_domain *reactor; /* of a running world */
	const struct sockaddr *address;
	socklen_t address_length;
	const char *store_url;
	const char *spool;        /* a folder; files in it have no name */
	const char *host;         /* for the greeting */
	uint64_t bytes_max;       /* of a message; 0: MAIL_SENT_BYTES_MAX, which is also the most */
	uint32_t connections_max; /* 0: 64 */
	uint32_t threads;         /* 0: 2 */
	uint64_t idle_ns;         /* without a byte; 0: 5 minutes */
	uint64_t transaction_ns;  /* from MAIL to the end of the data; 0: 30 minutes */
} lmtp_options;

typedef struct lmtp_stats {
	uint64_t delivered; /* recipients whose message was stored, or was there already */
	uint64_t refused;   /* recipients and messages that will never be taken */
	uint64_t failed;    /* recipients told to try again */
	uint32_t connections;
} lmtp_stats;

/* Listens. 0 or a negative errno with weir_error. The texts are copied. */
int lmtp_new(const lmtp_options *options, lmtp **ret_lmtp);
/* Where it listens, as text. */
int lmtp_address(const lmtp *l, char *ret_text, size_t size);
/* Reads the counts. */
void lmtp_read_stats(const lmtp *l, lmtp_stats *ret_stats);
/*
 * Stops listening, ends the connections, waits for what is being stored, and frees. While the world runs, or after
 * it has stopped. Not on a thread of the world. Sets it to NULL.
 */
void lmtp_free(lmtp **l);

#endif
