/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_PROXY_H
#define WEIR_SENTRY_PROXY_H

/*
 * The handler of a sentry's stage: each request becomes a call to one of the fleet's backends, and the answer
 * goes back.
 *
 * The event is held while the backend works, and settled by the head of the answer. So the stage's law
 * measures the time to the first byte, also for streams and long polls. A backend's 429 or 503 settles it as
 * refused, and goes to the client unchanged, with its Retry-After.
 *
 * What is changed. Fields of one connection (Connection and what it names, Keep-Alive, Proxy-*, TE, Trailer,
 * Transfer-Encoding, Upgrade) are removed. Each side has its own framing. X-Forwarded-For, -Proto and -Host
 * and Via are added as the options say. While the stage's law asks for less than the best, Weir-Quality tells
 * the backend how much to deliver. With pass_on, Weir-Class and Weir-Deadline tell it the class and the
 * milliseconds that are left, for a Weir there. Clients' own fields of these names are removed. Everything else
 * passes unchanged, byte for byte.
 *
 * Expect: 100-continue is passed to the backend. The client's body is read once the backend has asked for it,
 * or after expect_ns. Upgrades become tunnels. Interim answers are passed on.
 *
 * Errors: 502 if the backend could not be reached or its answer is malformed; 504 if it took too long; 503
 * (as the route rejects) if every backend is full. The reason is in the access log's note. Before that,
 * retry.h decides about another try. An answer that breaks off is cut, so that the client notices.
 *
 * Threads: one part for each reactor thread, made by its first request; parts share only the fleet. Can be
 * made before or after the world starts; freed once it has stopped.
 */

#include <weir/stage.h>

#include "sentry/edits.h"
#include "sentry/retry.h"
#include "sentry/sticky.h"
#include "sentry/upstream.h"

typedef enum weir_forwarded {
	/* from a trusted proxy: its address is added to the list; from others: what came is dropped */
	WEIR_FORWARDED_APPEND,
	WEIR_FORWARDED_REPLACE, /* what came is dropped */
	WEIR_FORWARDED_OFF,     /* nothing is changed */
} weir_forwarded;

/* Reports in answers (http/load_report.h). */
typedef enum weir_reports {
	WEIR_REPORTS_PASS, /* read, and passed on */
	WEIR_REPORTS_TAKE, /* read, and taken out of the answer */
	WEIR_REPORTS_OFF,  /* passed on without a look */
} weir_reports;

typedef struct weir_proxy_options {
	weir_fleet *fleet;
	weir_reports reports;
	uint64_t report_every_ns; /* about how often a server that reports does so; 0: 500 ms */
	weir_forwarded forwarded;
	/* Changes of fields, to the server and to the client; the proxy's from weir_proxy_new on. NULL: none. */
	weir_edits *request_edits, *answer_edits;
	bool request_id; /* send X-Request-ID and traceparent, made where the client sends none */
	bool no_quality; /* do not send Weir-Quality */
	bool pass_on;    /* send Weir-Class and Weir-Deadline */
	weir_sticky sticky;
	const char *via; /* our name in Via; NULL: "weir"; "": none. Copied */
	weir_upstream_limits limits;
	weir_retry_options retry; /* each thread has its own budget */
	uint64_t expect_ns;       /* 0: 1 s */
	uint64_t seed;
	weir_errors *errors; /* hears of failed calls; may be NULL */
} weir_proxy_options;

/* What a proxy counts. X(name) */
#define WEIR_PROXY_COUNTS(X)                                                              \
	X(requests)                                                                       \
	X(retries)         /* from the budget */                                          \
	X(free_retries)    /* a kept connection had ended */                              \
	X(retries_refused) /* safe, but the budget or the attempts were used up */        \
	X(bad_gateway)                                                                    \
	X(timeouts)                                                                       \
	X(refused)      /* by a server, unprocessed (HTTP/2), and not tried again */      \
	X(grpc_refused) /* answers with grpc-status UNAVAILABLE or RESOURCE_EXHAUSTED */  \
	X(full)         /* rejected: every backend was full */                            \
	X(gone)         /* the client left */                                             \
	X(cut)          /* answers that broke off */                                      \
	X(stalled_cut)  /* answers that were cut to make room: the client did not read */ \
	X(upgrades)                                                                       \
	X(answer_reports)         /* answers with a report */                             \
	X(answer_reports_refused) /* answers with a value that cannot be */

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
/* On a reactor thread: its connections to a backend that gets no more calls end (weir_upstream_leave). */
void weir_proxy_leave(weir_proxy *proxy, uint32_t backend, void (*gone)(void *arg), void *arg);
/* Once no thread uses it any more: it has ended, or the world has stopped. */
void weir_proxy_free(weir_proxy *proxy);
/* weir_stage_options.handle; its arg is the proxy. */
void weir_proxy_handle(weir_stage *stage, weir_event **events, size_t count, void *arg);
/* The identifiers of a request that was rejected, as a note for the access log. On its reactor thread. */
void weir_proxy_note_shed(const weir_proxy *proxy, weir_request *request);
/* This thread's connections, for health checks; NULL: out of memory. */
weir_upstream *weir_proxy_upstream(weir_proxy *proxy);
/* Any thread. */
void weir_proxy_read_stats(const weir_proxy *proxy, weir_proxy_stats *ret_stats);
void weir_proxy_read_counts(const weir_proxy *proxy, uint32_t backend, weir_upstream_counts *ret_counts);

#endif
