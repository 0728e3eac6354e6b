/* SPDX-License-Identifier: Apache-2.0 */
#include "sentry/retry.h"

#include <errno.h>

#define SHARE       .2
#define FLOOR_PER_S 1.
#define ATTEMPTS    3
/* The most tokens that can be saved up. */
#define TOKENS_MOST 50.

void weir_retry_init(weir_retry *retry, const weir_retry_options *options, uint64_t now_ns)
{
	*retry = (weir_retry){.options = *options, .then_ns = now_ns};
	weir_retry_options *own = &retry->options;
	own->share = own->share == 0 ? SHARE : own->share < 0 ? 0 : own->share;
	own->floor_per_s = own->floor_per_s == 0 ? FLOOR_PER_S : own->floor_per_s < 0 ? 0 : own->floor_per_s;
	if (own->attempts == 0)
		own->attempts = ATTEMPTS;
	/* As much as after a quiet time. A server may die just after a takeover, and the requests that it had are
	   retried by a process that has hardly seen any. Without a share, the tokens of one second. */
	retry->tokens = own->share > 0 && own->floor_per_s > 0 ? TOKENS_MOST : own->floor_per_s;
}

bool weir_retry_is_idempotent(weir_method method)
{
	switch (method) {
	case WEIR_METHOD_GET:
	case WEIR_METHOD_HEAD:
	case WEIR_METHOD_PUT:
	case WEIR_METHOD_DELETE:
	case WEIR_METHOD_OPTIONS:
	case WEIR_METHOD_TRACE:
		return true;
	default:
		return false;
	}
}

static bool is_safe(const weir_retry_story *story, const weir_call_failure *failure)
{
	if (failure->received || story->body_consumed || failure->error == -ECANCELED)
		return false;
	return !failure->sent || weir_retry_is_idempotent(story->method);
}

static bool take(weir_retry *retry, uint64_t now_ns)
{
	if (now_ns > retry->then_ns) {
		double passed_s = (double)(now_ns - retry->then_ns) / (double)WEIR_NS_PER_S;
		retry->tokens += passed_s * retry->options.floor_per_s;
		retry->then_ns = now_ns;
	}
	if (retry->tokens > TOKENS_MOST)
		retry->tokens = TOKENS_MOST;
	if (retry->tokens < 1)
		return false;
	retry->tokens -= 1;
	return true;
}

static bool was_late(const weir_call_failure *failure)
{
	return failure->error == -ETIMEDOUT;
}

/* The backend may close a kept connection at any time. A timeout, though, means a backend in trouble. */
static bool is_stale(const weir_call_failure *failure)
{
	return failure->reused && !was_late(failure);
}

weir_retry_verdict weir_retry_ask(weir_retry *retry, const weir_retry_story *story,
				  const weir_call_failure *failure, uint64_t now_ns)
{
	if (!is_safe(story, failure) || (was_late(failure) && (story->late || !story->elsewhere)))
		return WEIR_RETRY_NO;
	if (is_stale(failure) && !story->free_used) {
		retry->free_retries++;
		return WEIR_RETRY_FREE;
	}
	if (story->attempts < retry->options.attempts && take(retry, now_ns)) {
		retry->retries++;
		return WEIR_RETRY_PAID;
	}
	retry->refused++;
	return WEIR_RETRY_NO;
}
