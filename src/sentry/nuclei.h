/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_NUCLEI_H
#define WEIR_SENTRY_NUCLEI_H

/*
 * Asks the nuclei of a fleet's servers for their reports, and tells the stage's law what all of them say
 * (told.h). Each server has at most one nucleus: an HTTP server that answers GET with a report
 * (http/nucleus_report.h). The law is told every every_ns, as long as any report is fresh, and once more when
 * the last one has become stale. This also serves reports that come with answers.
 *
 * A nucleus is never trusted and never needed. One that is slow, answers nonsense, answers too much or does
 * not answer costs one bounded call a period; what it says is left out and counted. The error log gets one
 * line when a nucleus becomes unusable, and one when it is usable again.
 *
 * A nucleus that wants a token (an admin listener that is not on loopback) gets that of token_file, in a
 * field of each ask. It is never written anywhere else.
 *
 * Calls to nuclei are not load: they have an upstream of their own, so no law and no counter sees them.
 *
 * Threads: new, add and free by one thread that is not a reactor; everything else on the loop that it was
 * started on. Adding while it runs is fine: the list only grows, and what a server that left had is used again.
 */

#include "sentry/told.h"
#include "sentry/upstream.h"

typedef struct weir_nuclei weir_nuclei;

typedef struct weir_nuclei_options {
	weir_fleet *servers;
	uint64_t every_ns;      /* 0: 500 ms */
	uint64_t resolve_ns;    /* how often names are resolved again; 0: 30 s */
	const char *token_file; /* copied; NULL: asks have no token */
	weir_errors *errors;    /* may be NULL */
} weir_nuclei_options;

#define WEIR_NUCLEI_EVERY_NS (500 * WEIR_NS_PER_MS)

/* Reads the token, if there is one. -ENOENT, -EINVAL ... with weir_error. */
int weir_nuclei_new(const weir_nuclei_options *options, weir_nuclei **ret_nuclei);
/*
 * The nucleus of a server of the fleet: "http://HOST:PORT/PATH". Resolves its name, which may block. -EINVAL,
 * -ENOENT, -ENOSPC ... with weir_error.
 */
int weir_nuclei_add(weir_nuclei *nuclei, const char *url, weir_origin *server);
/* Forgets a server that leaves the fleet: a call in progress is aborted. On the loop. */
void weir_nuclei_forget(weir_nuclei *nuclei, const weir_origin *server);
/* Starts a thread that resolves names again, once there is a name. By the thread that adds. */
int weir_nuclei_resolve(weir_nuclei *nuclei);
/*
 * Reads the token again, which may block. If that fails, the old one is kept and the error log says so. By
 * the thread that adds.
 */
void weir_nuclei_renew_token(weir_nuclei *nuclei);
/* While it rests, no names are resolved. Any thread. */
void weir_nuclei_rest(weir_nuclei *nuclei, bool resting);
/* The first round starts at once. */
int weir_nuclei_start(weir_nuclei *nuclei, weir_loop *loop, weir_stage *stage);
/* Asks no more. True: its connections are gone. False: not yet; call again. */
bool weir_nuclei_stop(weir_nuclei *nuclei);
/* Only if it was never started, has stopped, or its loop has ended. NULL is ignored. */
void weir_nuclei_free(weir_nuclei *nuclei);

/*
 * Fills in {host} and {port} of a pattern; server is "host:port". -EINVAL with weir_error: it has other braces,
 * or is too long.
 */
int weir_nuclei_url(const char *pattern, weir_span server, char *ret_url, size_t size);
/*
 * Checks such a URL, and splits it into the address ("http://HOST:PORT") and the path. -EINVAL with
 * weir_error.
 */
int weir_nuclei_split(const char *url, char *ret_address, size_t address_size, char *ret_path,
		      size_t path_size);

#endif
