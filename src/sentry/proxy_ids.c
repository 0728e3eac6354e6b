/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identifiers of requests, so that log lines of several programs can be found together: X-Request-ID, and the
 * trace context of the W3C (traceparent). What a client sends passes; where it sends none, one is made. A trace
 * that begins here is not sampled: whoever collects traces decides about that.
 */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "sentry/proxy_priv.h"

#define ID_BYTES    32 /* of an identifier that is made */
#define TRACE_BYTES 55 /* "00-", 32, "-", 16, "-00" */
#define NOTE_BYTES  256

void weir_proxy_ids_init(weir_proxy_thread *thread)
{
	uint64_t seed = 0;
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
		seed = (uintptr_t)thread;
	weir_random_init(&thread->ids, seed);
}

static uint64_t draw(weir_proxy_thread *thread)
{
	uint64_t number = weir_random_u64(&thread->ids);
	return number != 0 ? number : 1; /* an identifier of zeroes is invalid */
}

static weir_span make_id(weir_exchange *exchange)
{
	weir_proxy_thread *thread = exchange->thread;
	char *text = weir_request_alloc(exchange->request, ID_BYTES + 1);
	if (text == NULL)
		return (weir_span){0};
	snprintf(text, ID_BYTES + 1, "%016llx%016llx", (unsigned long long)draw(thread),
		 (unsigned long long)draw(thread));
	return (weir_span){text, ID_BYTES};
}

static weir_span make_trace(weir_exchange *exchange)
{
	weir_proxy_thread *thread = exchange->thread;
	char *text = weir_request_alloc(exchange->request, TRACE_BYTES + 1);
	if (text == NULL)
		return (weir_span){0};
	snprintf(text, TRACE_BYTES + 1, "00-%016llx%016llx-%016llx-00", (unsigned long long)draw(thread),
		 (unsigned long long)draw(thread), (unsigned long long)draw(thread));
	return (weir_span){text, TRACE_BYTES};
}

void weir_exchange_identify(weir_exchange *exchange)
{
	weir_span id = weir_request_header(exchange->request, WEIR_SPAN("x-request-id"));
	weir_span trace = weir_request_header(exchange->request, WEIR_SPAN("traceparent"));
	exchange->made_id = id.length == 0;
	exchange->id = exchange->made_id ? make_id(exchange) : id;
	if (trace.at == NULL)
		exchange->trace = make_trace(exchange);
}

void weir_exchange_note_id(const weir_exchange *exchange)
{
	char note[NOTE_BYTES];
	const weir_origin *backend = exchange->backend;
	size_t before = backend->note_length < NOTE_BYTES / 2 ? backend->note_length : NOTE_BYTES / 2;
	int length = snprintf(note, sizeof(note), "%.*s id=%.*s", (int)before, backend->note,
			      (int)(exchange->id.length < 100 ? exchange->id.length : 100), exchange->id.at);
	weir_request_note(exchange->request, (weir_span){note, (size_t)length});
}
