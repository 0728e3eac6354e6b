/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_IMPORT_MBOX_H
#define WEBMAIL_IMPORT_MBOX_H

/*
 * Splits an mbox file into messages. A message begins behind a line "From ...", which begins the file or follows a
 * blank line, and which has a time in it; other lines "From " are text. One '>' is taken from lines ">From " and
 * ">>From " and so on (mboxrd). Memory: one message, at most MAIL_BYTES_MAX. Threads: any.
 */

#include "mail.h"

typedef struct import_message {
	const char *path;
	const char *bytes;
	size_t length;  /* of a message that is too long, too */
	bool too_long;  /* then there are no bytes */
	unsigned flags; /* of store_flag, by the fields Status and X-Status */
} import_message;

/*
 * Calls back for each message; a nonzero result ends it, and is returned. 0, -ENOMEM, or -EIO if the file cannot
 * be read, with weir_error.
 */
int import_mbox(int fd, const char *path, int (*each)(void *arg, const import_message *message), void *arg);

#endif
