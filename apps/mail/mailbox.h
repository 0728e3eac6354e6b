/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAIL_MAILBOX_H
#define MAIL_MAILBOX_H

/*
 * Mail in files: mbox files, Maildir folders, files of single messages (EML), and folders of these. What cannot be
 * read is named and left out; the others go on.
 *
 * In an mbox, a message begins behind a line "From ...", which begins the file or follows a blank line, and which
 * has a time in it; other lines "From " are text. One '>' is taken from lines ">From " and ">>From " and so on
 * (mboxrd). Memory: one message of an mbox, at most MAIL_BYTES_MAX.
 *
 * Threads: any.
 */

#include "mail.h"

/* What other programs have noted about a message. */
typedef enum mail_flag {
	MAIL_SEEN = 1,
	MAIL_FLAGGED = 2,
	MAIL_ANSWERED = 4,
	MAIL_FORWARDED = 8,
} mail_flag;

/* Who reads. */
typedef struct mailbox_reader {
	/* A message, with its flags; a nonzero result ends the reading, which returns it. */
	int (*each)(void *arg, const char *path, const mail_source *source, unsigned flags);
	/* What is wrong with a file or with a message in it. */
	void (*wrong)(void *arg, const char *path, const char *sentence);
	void *arg;
} mailbox_reader;

/* Reads a file or a folder. 0, what the reader returned, or -ENOMEM. */
int mailbox_read(const mailbox_reader *reader, const char *path);
/* Reads an mbox from an open file, which stays the caller's. As mailbox_read. */
int mbox_read(const mailbox_reader *reader, int fd, const char *path);

#endif
