/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAIL_SPOOL_H
#define MAIL_SPOOL_H

/* Files for messages that are on their way: without a name, so that a crash leaves none behind. Threads: any. */

#include <stddef.h>

/* A new file in the folder, for reading and writing; a descriptor, or a negative errno with weir_error. */
int spool_open(const char *folder);
/* Appends all bytes. 0 or a negative errno with weir_error. */
int spool_write(int fd, const void *bytes, size_t length);

#endif
