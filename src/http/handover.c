/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners of a running server: handed to a successor, closed, given new certificates or another owner. */
#include <errno.h>

#include "base/error.h"
#include "base/mem.h"
#include "http/server.h"
#include "tls/tls.h"

weir_http_listener *weir_http_listener_at(const weir_http *http, unsigned number)
{
	return number < WEIR_HTTP_LISTENERS_MAX ? http->listeners[number] : NULL;
}

size_t weir_http_fds(weir_http *http, unsigned number, int *ret_fds, size_t most)
{
	weir_http_listener *at = weir_http_listener_at(http, number);
	int count = at != NULL ? weir_listener_fds(at->listener, ret_fds, most) : 0;
	return count > 0 ? (size_t)count : 0;
}

int weir_http_set_file(weir_http *http, unsigned number, const weir_listen_file *file,
		       weir_listen_file *ret_before)
{
	weir_http_listener *at = weir_http_listener_at(http, number);
	return at != NULL ? weir_listener_set_file(at->listener, file, ret_before) : -ENOENT;
}

/* The listener is kept for its connections, which refer to it. Its number becomes free. */
void weir_http_close_listener(weir_http *http, unsigned number)
{
	weir_http_listener *at = weir_http_listener_at(http, number);
	if (at == NULL)
		return;
	weir_listener_close(at->listener);
	http->listeners[number] = NULL;
	at->next = http->closed;
	http->closed = at;
	weir_http_reap_listeners(http);
}

/* Freeing waits for its acceptors, which have nothing left to do. */
void weir_http_reap_listeners(weir_http *http)
{
	for (weir_http_listener **at = &http->closed; *at != NULL;) {
		weir_http_listener *listener = *at;
		weir_listener_stats stats;
		weir_listener_read_stats(listener->listener, &stats);
		if (stats.connections == 0) {
			*at = listener->next;
			weir_http_listener_free(listener);
		} else {
			at = &listener->next;
		}
	}
}

/*
 * A thread that has read the pointer takes its own reference a moment later, in weir_tls_accept. So a
 * replaced one is freed once every loop has run a post (weir_http_free_old_tls), or after WEIR_HTTP_OLD_TLS
 * further replacements: no handshake takes that long to begin.
 */
int weir_http_set_tls(weir_http *http, unsigned number, weir_tls *tls)
{
	weir_http_listener *at = weir_http_listener_at(http, number);
	if (at == NULL || at->tls == NULL || tls == NULL)
		return weir_error_set(-EINVAL, "http: listener %u has no TLS to be replaced", number);
	pthread_mutex_lock(&http->lock);
	weir_tls *oldest = at->old_tls[at->old_tls_at];
	at->old_tls[at->old_tls_at] = __atomic_exchange_n(&at->tls, weir_tls_ref(tls), __ATOMIC_ACQ_REL);
	at->old_tls_seen &= ~(1u << at->old_tls_at);
	at->old_tls_at = (at->old_tls_at + 1) % WEIR_HTTP_OLD_TLS;
	pthread_mutex_unlock(&http->lock);
	weir_tls_unref(oldest);
	return 0;
}

static void free_old_tls_locked(weir_http_listener *listener)
{
	for (unsigned i = 0; i < WEIR_HTTP_OLD_TLS; i++) {
		if (listener->old_tls_seen & 1u << i) {
			weir_tls_unref(listener->old_tls[i]);
			listener->old_tls[i] = NULL;
		}
	}
	listener->old_tls_seen = 0;
	for (unsigned i = 0; i < WEIR_HTTP_OLD_TLS; i++)
		if (listener->old_tls[i] != NULL)
			listener->old_tls_seen |= 1u << i;
}

void weir_http_free_old_tls(weir_http *http)
{
	pthread_mutex_lock(&http->lock);
	for (unsigned i = 0; i < WEIR_HTTP_LISTENERS_MAX; i++)
		if (http->listeners[i] != NULL)
			free_old_tls_locked(http->listeners[i]);
	pthread_mutex_unlock(&http->lock);
}

void weir_http_listener_free(weir_http_listener *listener)
{
	weir_listener_free(&listener->listener);
	weir_tls_unref(listener->tls);
	for (unsigned i = 0; i < WEIR_HTTP_OLD_TLS; i++)
		weir_tls_unref(listener->old_tls[i]);
	weir_matcher_free(listener->trusted);
	weir_mem_free(listener);
}
