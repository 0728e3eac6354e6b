/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_SUBMIT_H
#define WEBMAIL_SUBMIT_H

/*
 * Mail goes out: what store_send has queued is handed to a submission server by SMTP.
 *
 * A mail stays in the queue, on disk, until the server has taken it for every recipient, or until it is given up
 * and its user has a message about it in the inbox. A crash between the server's yes and ours repeats the mail; it
 * is never lost. A failure that may pass (4xx, no connection, time-out) is tried again after 1, 2, 4 ... minutes,
 * at most SUBMIT_RETRY_MAX_S apart, for SUBMIT_GIVE_UP_S. A recipient that is refused for good (5xx) is given up at
 * once. The others still get the mail.
 *
 * Threads: submit_new and submit_free: the main thread. The work is done on a pool of the module's own, whose
 * threads block in the network and in the database; no request waits for it.
 */

#include <weir/stage.h>

#include "mail/smtp.h"
#include "store.h"

#define SUBMIT_RETRY_FIRST_S 60
#define SUBMIT_RETRY_MAX_S   (4 * 3600)
#define SUBMIT_GIVE_UP_S     (48 * 3600)
#define SUBMIT_BOUNCE_BYTES  (64u << 10) /* of the mail that a message about its failure repeats */

typedef struct submit_options {
	smtp_options smtp; /* without a URL mail stays in the queue */
	const char *spool; /* a folder for files without a name */
	uint64_t every_ns; /* how often the queue is looked at; 0: 1 s */
} submit_options;

typedef struct submit submit;

/* What has happened since the start. */
typedef struct submit_stats {
	uint64_t sent;    /* mails that the server took, for some recipient at least */
	uint64_t retries; /* tries that failed and will be repeated */
	uint64_t bounced; /* messages about failures */
} submit_stats;

/* Begins to work in a world that is running, with stores of this URL. The texts are copied. */
int submit_new(weir_world *world, const char *store_url, const submit_options *options, submit **ret_submit);
/* Reads the counts. Any thread. */
void submit_read_stats(const submit *s, submit_stats *ret_stats);
/* Ends; a try that is under way is broken off and repeated after the next start. Sets it to NULL. */
void submit_free(submit **s);

/*
 * One round, for tests and for programs without a world: tries all mail that is due. Returns how many mails were
 * tried, or an error of the store.
 */
int submit_round(store *s, const submit_options *options, int64_t now_s, submit_stats *stats);
/* When a mail that has failed `tries` times is tried again. */
int64_t submit_next_s(unsigned tries, int64_t now_s);

#endif
