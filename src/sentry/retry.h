/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_RETRY_H
#define WEIR_SENTRY_RETRY_H

/*
 * When a call that failed may be made again.
 *
 * Safe is a repetition only if the backend cannot have acted on the first one, or acting twice is acting once: nothing was sent; or the method is idempotent,
 * no byte of an answer came, and the request's body was not consumed.
 *
 * A backend that did not answer in time is not asked again, nor is a third one asked after two of them: it has the first call's work to do still, and
 * another would double it.
 *
 * Retries are paid from a budget, so that a backend that fails is not met with a multiple of its load: each request adds a part of a token (`retry-budget`), time adds a few (the floor), a retry
 * costs one. Only a reused connection that ended before any byte is free, once: the backend closed it for its own reasons while the request was on its way.
 *
 * Threads: a budget belongs to one thread. Pure: time comes in as an argument.
 */

#include "sentry/upstream.h"

typedef struct weir_retry_options {
	double share;       /* of the requests that may be repeated; 0: .2; below 0: none */
	double floor_per_s; /* in addition; 0: 1; below 0: none */
	uint32_t attempts;  /* for one request in all, the free one not counted; 0: 3 */
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
	bool late;         /* a call before this one was */
	bool elsewhere;    /* there is another backend to try */
	uint32_t attempts; /* so far */
} weir_retry_story;

typedef enum weir_retry_verdict {
	WEIR_RETRY_NO,
	WEIR_RETRY_FREE, /* on a fresh connection */
	WEIR_RETRY_PAID,
} weir_retry_verdict;

void weir_retry_init(weir_retry *retry, const weir_retry_options *options, uint64_t now_ns);
/* A request came: adds its share. */
static inline void weir_retry_earn(weir_retry *retry)
{
	retry->tokens += retry->options.share;
}
bool weir_retry_is_idempotent(weir_method method);
/* Whether the call may be made again; takes the token. */
weir_retry_verdict weir_retry_ask(weir_retry *retry, const weir_retry_story *story,
				  const weir_call_failure *failure, uint64_t now_ns);

#endif
