/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_SERVICE_H
#define WEBMAIL_SERVICE_H

/*
 * What runs beside the pages: mail that comes in by LMTP, and mail that goes out.
 *
 * Threads: the main thread; service_read: any.
 */

#include "webmail.h"

typedef struct service_counts {
	uint64_t sessions, delivered, refused, deferred, sent, retries, bounced;
} service_counts;

/* Keeps what the configuration says, which does not live as long. 0 or a negative errno with weir_error. */
int service_prepare(webmail *mail, const mail_keys *keys);
/* Begins, once the world runs. Further calls do nothing. */
int service_start(webmail *mail);
/* Ends, before or after the world has stopped. */
void service_end(webmail *mail);
/* What has happened so far: the service_counts of a webmail (weir_kind.read_shared). */
void service_read(const void *mail, void *ret_counts);
/* Reads "127.0.0.1:2424" or "[::1]:2424"; both results may be NULL. 0, or -EINVAL with weir_error. */
int service_address(const char *text, struct sockaddr_storage *ret_address, socklen_t *ret_length);

#endif
