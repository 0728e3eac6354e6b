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

#define ID_BYTES    32 /* of an identifier that is made, and of a trace */
#define ID_MOST     100
#define TRACE_BYTES 55 /* "00-", 32, "-", 16, "-00"; later versions may have more */
#define IDS_MOST    (sizeof(" id= trace=") + ID_MOST + ID_BYTES)
#define NOTE_BYTES  (256 + IDS_MOST)

static unsigned long long draw(void)
{
	static _Thread_local struct {
		weir_random random;
		bool seeded;
	} ids;
	uint64_t seed = 0;
	if (!ids.seeded) {
		if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
			seed = (uintptr_t)&ids;
		weir_random_init(&ids.random, seed);
		ids.seeded = true;
	}
	uint64_t number = weir_random_u64(&ids.random);
	return number != 0 ? number : 1; /* an identifier of zeroes is invalid */
}

static weir_span make_id(weir_request *request)
{
	char *text = weir_request_alloc(request, ID_BYTES + 1);
	if (text == NULL)
		return (weir_span){0};
	snprintf(text, ID_BYTES + 1, "%016llx%016llx", draw(), draw());
	return (weir_span){text, ID_BYTES};
}

static weir_span make_trace(weir_request *request)
{
	char *text = weir_request_alloc(request, TRACE_BYTES + 1);
	if (text == NULL)
		return (weir_span){0};
	snprintf(text, TRACE_BYTES + 1, "00-%016llx%016llx-%016llx-00", draw(), draw(), draw());
	return (weir_span){text, TRACE_BYTES};
}

void weir_exchange_identify(weir_exchange *exchange)
{
	weir_request *request = exchange->request;
	weir_span id = weir_request_header(request, WEIR_SPAN("x-request-id"));
	exchange->made_id = id.length == 0;
	exchange->id = exchange->made_id ? make_id(request) : id;
	if (weir_request_header(request, WEIR_SPAN("traceparent")).at == NULL)
		exchange->trace = make_trace(request);
}

/* The trace that it belongs to; nothing if its client sent something that is no trace context. */
static weir_span trace_id(const weir_exchange *exchange)
{
	weir_span trace = exchange->trace;
	if (trace.at == NULL)
		trace = weir_request_header(exchange->request, WEIR_SPAN("traceparent"));
	if (trace.length < TRACE_BYTES || trace.at[2] != '-' || trace.at[3 + ID_BYTES] != '-')
		return (weir_span){0};
	for (size_t i = 3; i < 3 + ID_BYTES; i++)
		if (!((trace.at[i] >= '0' && trace.at[i] <= '9') ||
		      (trace.at[i] >= 'a' && trace.at[i] <= 'f')))
			return (weir_span){0};
	return (weir_span){trace.at + 3, ID_BYTES};
}

void weir_exchange_note(const weir_exchange *exchange, const char *text, size_t length)
{
	char note[NOTE_BYTES];
	size_t most = sizeof(note) - IDS_MOST, at = length < most ? length : most;
	weir_span id = exchange->id, trace = {0};
	if (id.at != NULL) {
		memcpy(note, text, at);
		trace = trace_id(exchange);
		length = at + (size_t)snprintf(note + at, IDS_MOST, "%sid=%.*s%s%.*s", at > 0 ? " " : "",
					       (int)(id.length < ID_MOST ? id.length : ID_MOST), id.at,
					       trace.length > 0 ? " trace=" : "", (int)trace.length,
					       trace.length > 0 ? trace.at : "");
		text = note;
	}
	weir_request_note(exchange->request, (weir_span){text, length});
}

/* It has no exchange of its own, since it was never handled. */
void weir_proxy_note_shed(const weir_proxy *proxy, weir_request *request)
{
	if (!proxy->options.request_id)
		return;
	weir_exchange exchange = {.request = request};
	weir_exchange_identify(&exchange);
	weir_exchange_note(&exchange, "", 0);
}
