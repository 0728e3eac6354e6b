/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_RETRY_H
#define WEIR_SENTRY_RETRY_H

/*
 * When a failed call may be made again.
 *
 * A retry is safe only if the backend cannot have acted on the first call, or acting twice does no harm:
 * nothing was sent; or the method is idempotent, no byte of an answer came, and the request's body was not
 * consumed.
 *
 * A backend that timed out is not asked again, and after two timeouts no third one is: it still has the first
 * call's work to do, and another call would double it.
 *
 * Retries are paid from a budget, so that a failing backend does not get a multiple of its load. Each request
 * adds a part of a token (`retry-budget`), time adds a few (the floor), and a retry costs one. One retry is
 * free: if a reused connection ended before any byte, the backend closed it for its own reasons while the
 * request was on its way.
 *
 * Threads: a budget belongs to one thread. Pure: time comes in as an argument.
 */

#include "sentry/upstream.h"

typedef struct weir_retry_options {
	double share;       /* tokens that each request adds; 0: .2; below 0: none */
	double floor_per_s; /* in addition; 0: 1; below 0: none */
	uint32_t attempts;  /* for one request in all, not counting the free one; 0: 3 */
} weir_retry_options;

typedef struct weir_retry {
	weir_retry_options options;
	double tokens;
	uint64_t then_ns;
	uint64_t retries, free_retries, refused; /* counts */
} weir_retry;

/* What a request has been through. */
typedef struct weir_retry_story {
	weir_method method;
	bool body_consumed;
	bool free_used;
	bool late;         /* an earlier call timed out */
	bool elsewhere;    /* there is another backend to try */
	uint32_t attempts; /* so far */
} weir_retry_story;

typedef enum weir_retry_verdict {
	WEIR_RETRY_NO,
	WEIR_RETRY_FREE, /* on a fresh connection */
	WEIR_RETRY_PAID,
} weir_retry_verdict;

void weir_retry_init(weir_retry *retry, const weir_retry_options *options, uint64_t now_ns);
/* Adds the share of a new request. */
static inline void weir_retry_earn(weir_retry *retry)
{
	retry->tokens += retry->options.share;
}
bool weir_retry_is_idempotent(weir_method method);
/* Whether the call may be made again; takes the token. */
weir_retry_verdict weir_retry_ask(weir_retry *retry, const weir_retry_story *story,
				  const weir_call_failure *failure, uint64_t now_ns);

#endif
