/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for the end of a drain: the last connection of each draining loop tells. */
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "http/server.h"

/*
 * The count is lowered before the lock is taken, and waiters read it under the lock. So they see the new
 * count, or are woken after it.
 */
void weir_http_left(weir_http_loop *loop)
{
	weir_http *http = loop->http;
	if (http == NULL || atomic_load_explicit(&loop->counts.open, memory_order_relaxed) > 0)
		return;
	pthread_mutex_lock(&http->lock);
	pthread_cond_broadcast(&http->change);
	pthread_mutex_unlock(&http->lock);
}

static struct timespec time_after(uint64_t ns)
{
	uint64_t now_ns = weir_clock_ns();
	uint64_t most_ns = UINT64_C(1000000000) * WEIR_NS_PER_S; /* 30 years: no sum overflows */
	uint64_t at_ns = now_ns + (ns < most_ns ? ns : most_ns);
	return (struct timespec){.tv_sec = (time_t)(at_ns / WEIR_NS_PER_S),
				 .tv_nsec = (long)(at_ns % WEIR_NS_PER_S)};
}

int weir_http_drain_wait(weir_http *http, uint64_t timeout_ns)
{
	struct timespec until = time_after(timeout_ns);
	if (weir_loop_self() != NULL)
		return weir_error_set(-EINVAL, "http: reactor threads do not wait for a drain");
	weir_http_drain(http);
	int failed = 0;
	pthread_mutex_lock(&http->lock);
	while (weir_http_open(http) > 0 && failed == 0)
		failed = pthread_cond_timedwait(&http->change, &http->lock, &until);
	uint32_t open = weir_http_open(http);
	pthread_mutex_unlock(&http->lock);
	if (open == 0)
		return 0;
	return weir_error_set(-ETIMEDOUT, "http: %u connections are still open", open);
}
