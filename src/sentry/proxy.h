/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_PROXY_H
#define WEIR_SENTRY_PROXY_H

/*
 * The handler of a sentry's stage: a request becomes a call to one of the fleet's backends, and its answer the request's.
 *
 * The event is held while the backend works, and settled by the head of the answer: so what the stage's law measures is the time to the first byte, for streams and
 * long polls too. A backend's 429 or 503 settles it as refused and goes to the client as it is, with its Retry-After.
 *
 * What changes on the way. Fields of one connection (Connection and what it names, Keep-Alive, Proxy-*, TE, Trailer, Transfer-Encoding, Upgrade) are taken out; framing
 * is each side's own; X-Forwarded-For, -Proto and -Host and Via are added as the options say; Weir-Quality tells the backend what it should deliver while the
 * stage's law asks for less than the best. Everything else passes as it is, byte for byte.
 *
 * Expect: 100-continue is passed to the backend, and the client's body is read once the backend has asked for it, or after expect_ns. Upgrades become tunnels. Interim answers are passed on.
 *
 * Errors: 502 where the backend could not be reached or answered nonsense, 504 where it took too long, 503 (as the route rejects) where every backend has as many calls as it may; the reason is in the access
 * log's note. Before that, retry.h decides whether it is tried again. An answer that breaks off is cut, so that the client knows.
 *
 * Threads: one part a reactor thread, made by its first request; parts share the fleet only. Made before the world starts or later, freed once it has stopped.
 */

#include <weir/stage.h>

#include "sentry/retry.h"
#include "sentry/upstream.h"

typedef enum weir_forwarded {
	WEIR_FORWARDED_APPEND,  /* the client's address is added to what came */
	WEIR_FORWARDED_REPLACE, /* what came is not believed */
	WEIR_FORWARDED_OFF,     /* nothing is touched */
} weir_forwarded;

typedef struct weir_proxy_options {
	weir_fleet *fleet;
	weir_forwarded forwarded;
	bool no_quality; /* backends are not told by Weir-Quality */
	const char *via; /* our name in Via; NULL: "weir"; "": none. Copied */
	weir_upstream_limits limits;
	weir_retry_options retry; /* shares are each thread's own */
	uint64_t expect_ns;       /* 0: 1 s */
	uint64_t seed;
	weir_errors *errors; /* is told of calls that fail; NULL: nobody is */
} weir_proxy_options;

/* What a proxy counts. X(name) */
#define WEIR_PROXY_COUNTS(X)                                                                    \
	X(requests)                                                                             \
	X(retries)         /* paid for */                                                       \
	X(free_retries)    /* of kept connections that had ended */                             \
	X(retries_refused) /* would have been safe, but the budget or the tries were used up */ \
	X(bad_gateway)                                                                          \
	X(timeouts)                                                                             \
	X(full) /* turned away: every backend had as many calls as it may */                    \
	X(gone) /* the client left */                                                           \
	X(cut)  /* answers that broke off */                                                    \
	X(upgrades)

typedef struct weir_proxy_stats {
#define WEIR_X(name) uint64_t name;
	WEIR_PROXY_COUNTS(WEIR_X)
#undef WEIR_X
} weir_proxy_stats;

typedef struct weir_proxy weir_proxy;

int weir_proxy_new(const weir_proxy_options *options, weir_proxy **ret_proxy);
/*
 * Ends its connections while the world runs, once no request uses it any more. True: none is left. False: not yet;
 * call again.
 */
bool weir_proxy_end(weir_proxy *proxy);
/* Once no thread uses it any more: it has ended, or the world has stopped. */
void weir_proxy_free(weir_proxy *proxy);
/* weir_stage_options.handle; its arg is the proxy. */
void weir_proxy_handle(weir_stage *stage, weir_event **events, size_t count, void *arg);
/* This thread's connections; NULL: out of memory. For health checks. */
weir_upstream *weir_proxy_upstream(weir_proxy *proxy);
/* Any thread. */
void weir_proxy_read_stats(const weir_proxy *proxy, weir_proxy_stats *ret_stats);
void weir_proxy_read_counts(const weir_proxy *proxy, uint32_t backend, weir_upstream_counts *ret_counts);

#endif
