/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAIL_LMTP_TALK_H
#define MAIL_LMTP_TALK_H

/*
 * The LMTP protocol of one connection, without sockets, threads, clock or database.
 *
 *	feed bytes ─▶ step ─▶ WAIT     more bytes are needed
 *	                      FIND     the owner looks up `address`, then says `found`
 *	                      SPOOL    the owner puts the data aside, then says `spooled`
 *	                      DELIVER  the owner stores the message, then says `delivered`
 *	                      QUIT     the owner closes the connection
 *
 * States: a command is expected, or data is. While the owner works, nothing is fed and no step is made. Answers
 * go out through `say`, in the order of the commands, however many of them arrive at once.
 *
 * Threads: one at a time.
 */

#include <weir/base.h>

#define LMTP_INPUT_BYTES       (48u << 10) /* fed and not yet read; the owner feeds at most 16 KB at a time */
#define LMTP_DATA_BYTES        (256u << 10) /* of a message in memory */
#define LMTP_COMMAND_BYTES_MAX 2048u
#define LMTP_WRONG_MAX         20u /* commands that are wrong, then the connection is closed */
#define LMTP_ADDRESS_BYTES     320u
#define LMTP_RECIPIENTS_MAX    100u

typedef enum lmtp_step { LMTP_WAIT, LMTP_FIND, LMTP_SPOOL, LMTP_DELIVER, LMTP_QUIT } lmtp_step;

typedef struct lmtp_talk {
	/* Set by the owner. */
	const char *host;
	uint64_t bytes_max;
	void (*say)(void *arg, const char *text, size_t length);
	void *arg;

	/* For the owner to read. */
	char sender[LMTP_ADDRESS_BYTES + 1];  /* "" is the null sender */
	char address[LMTP_ADDRESS_BYTES + 1]; /* to be found */
	uint32_t users[LMTP_RECIPIENTS_MAX];  /* the owner's numbers of the recipients; one may occur twice */
	unsigned recipients;
	char *data; /* LMTP_DATA_BYTES, while there is a message */
	size_t data_bytes;
	uint64_t message_bytes; /* in all, with what was put aside */
	bool in_transaction;    /* from MAIL to the answer to the data */
	bool failed; /* the message is too long, or could not be put aside: it is read and thrown away */

	/* The talk's own. */
	bool greeted, in_data, too_long;
	int fault;         /* why it failed, a negative errno */
	size_t head_bytes; /* of a line that is put before the message, and does not count as the peer's */
	unsigned wrong;
	unsigned line_state; /* of the data: how much of CRLF "." CRLF was seen */
	bool skipping;       /* a command that is too long */
	char *input;
	size_t input_at, input_bytes;
} lmtp_talk;

/* Begins, and says the greeting; the owner's fields are set. 0 or -ENOMEM. */
int lmtp_talk_begin(lmtp_talk *talk);
/* Frees its memory. */
void lmtp_talk_end(lmtp_talk *talk);
/* Takes bytes from the peer. -ENOBUFS: more than there is room for. */
int lmtp_talk_feed(lmtp_talk *talk, const void *bytes, size_t length);
/* Goes on until something is to be done. */
lmtp_step lmtp_talk_step(lmtp_talk *talk);
/* The answer to FIND: 0 and the user, -ENOENT, or another error. */
void lmtp_talk_found(lmtp_talk *talk, int error, uint32_t user);
/* The answer to SPOOL: the data is put aside, or an error. */
void lmtp_talk_spooled(lmtp_talk *talk, int error);
/* The answer to DELIVER: a result a recipient, 0 or an error of the store. */
void lmtp_talk_delivered(lmtp_talk *talk, const int *results);

#endif
