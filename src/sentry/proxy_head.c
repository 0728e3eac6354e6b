/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads on their way through. What passes to the backend unchanged is copied as it came, in runs of bytes up
 * to the next field to be removed. A common request is one run, from its first byte to its last field. So is
 * an answer that is complete and goes from HTTP/1 to HTTP/1.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "http/digits.h"
#include "http/h1_text.h"
#include "sentry/proxy_priv.h"

/* For the lines that are added. */
#define EXTRA_BYTES 512

#define BIT(name) (UINT64_C(1) << WEIR_FIELD_##name)

/* Fields of one connection, in both directions. Framing is handled separately. */
#define HOP_BY_HOP                                                                             \
	(BIT(CONNECTION) | BIT(KEEP_ALIVE) | BIT(PROXY_CONNECTION) | BIT(PROXY_AUTHENTICATE) | \
	 BIT(PROXY_AUTHORIZATION) | BIT(TE) | BIT(TRAILER) | BIT(UPGRADE) | BIT(HTTP2_SETTINGS))
/* Connection must not name these: framing and routing would be another message's. */
#define NOT_TO_BE_NAMED (BIT(HOST) | BIT(CONTENT_LENGTH) | BIT(TRANSFER_ENCODING) | BIT(EXPECT))
/* The framing of an answer, and fields that our server writes itself. */
#define SERVERS_OWN (BIT(CONTENT_LENGTH) | BIT(TRANSFER_ENCODING) | BIT(DATE) | BIT(SERVER))

_Static_assert(WEIR_FIELD_COUNT <= 64, "fields are bits of a word");

/* ---- which fields are removed ---- */

/* The fields of a head, and what a first look at them showed. */
typedef struct fields {
	const char *bytes;
	const weir_head_field *at;
	size_t count;
	uint64_t seen; /* ids, as bits */
	/* the length or the first letter of a name without an id is that of a field to check */
	bool suspicious;
	bool named; /* Connection names some */
} fields;

static weir_span name_of(const fields *f, size_t i)
{
	return (weir_span){f->bytes + f->at[i].name, f->at[i].name_length};
}

static weir_span value_of(const fields *f, size_t i)
{
	return (weir_span){f->bytes + f->at[i].value, f->at[i].value_length};
}

/* Whether Connection names any fields: it rarely does. */
static bool names_fields(const fields *f)
{
	for (size_t i = 0; i < f->count; i++)
		if (f->at[i].id == WEIR_FIELD_CONNECTION && weir_proxy_names_fields(value_of(f, i)))
			return true;
	return false;
}

/* Names without an id that need a second look: proxy..., x-..., weir-... */
static bool is_suspicious(const fields *f, const weir_head_field *field)
{
	char first = f->bytes[field->name] | 0x20;
	return first == 'p' || first == 'x' || first == 'w' || field->name_length == sizeof("forwarded") - 1;
}

static inline void look(fields *f, const char *bytes, const weir_head_field *at, size_t count)
{
	uint64_t seen = 0;
	f->bytes = bytes;
	f->at = at;
	f->count = count;
	f->suspicious = false;
	for (size_t i = 0; i < count; i++) {
		seen |= UINT64_C(1) << at[i].id;
		if (at[i].id == WEIR_FIELD_OTHER)
			f->suspicious |= is_suspicious(f, &at[i]);
	}
	f->seen = seen;
	f->named = (seen & BIT(CONNECTION)) != 0 && names_fields(f);
}

static bool is_named(const fields *f, size_t which)
{
	if (NOT_TO_BE_NAMED >> f->at[which].id & 1)
		return false;
	for (size_t i = 0; i < f->count; i++) {
		if (f->at[i].id != WEIR_FIELD_CONNECTION)
			continue;
		weir_span list = value_of(f, i), option;
		while (weir_list_next(&list, &option))
			if (weir_span_is(option, name_of(f, which)))
				return true;
	}
	return false;
}

bool weir_proxy_passes_trailer(const weir_exchange *exchange, weir_span name)
{
	return !weir_proxy_drops(name, weir_proxy_forwarded(exchange)) &&
	       !weir_edits_drop(exchange->thread->proxy->options.request_edits, name);
}

/* ---- to the backend ---- */

typedef struct writer {
	const weir_exchange *exchange;
	const weir_request *request;
	fields from;
	uint64_t unwanted; /* ids, as bits */
	weir_forwarded forwarded;
	const weir_edits *edits; /* NULL: none */
	char *to;
} writer;

static void put(writer *w, const void *bytes, size_t length)
{
	memcpy(w->to, bytes, length);
	w->to += length;
}

#define PUT(w, literal) put(w, literal, sizeof(literal) - 1)

static void put_span(writer *w, weir_span span)
{
	if (span.length > 0)
		put(w, span.at, span.length);
}

static void put_line(writer *w, weir_span name, weir_span value)
{
	put_span(w, name);
	PUT(w, ": ");
	put_span(w, value);
	PUT(w, "\r\n");
}

static void put_number(writer *w, uint64_t number)
{
	char digits[20], *at = digits + sizeof(digits);
	do {
		*--at = (char)('0' + number % 10);
	} while ((number /= 10) != 0);
	put(w, at, (size_t)(digits + sizeof(digits) - at));
}

static bool has(const writer *w, weir_field_id id)
{
	return w->from.seen >> id & 1;
}

static bool passes(const writer *w, size_t i)
{
	const weir_head_field *field = &w->from.at[i];
	if (w->unwanted >> field->id & 1)
		return false;
	if (field->id == WEIR_FIELD_OTHER && weir_proxy_drops(name_of(&w->from, i), w->forwarded))
		return false;
	if (weir_edits_drop(w->edits, name_of(&w->from, i)))
		return false;
	return !w->from.named || !is_named(&w->from, i);
}

static void put_request_line(writer *w)
{
	weir_span query = weir_request_query(w->request);
	put_span(w, weir_request_method_text(w->request));
	PUT(w, " ");
	put_span(w, weir_request_path(w->request));
	if (query.at != NULL) {
		PUT(w, "?");
		put_span(w, query);
	}
	PUT(w, " HTTP/1.1\r\n");
}

/* HTTP/1: copies runs of fields that pass. An unchanged request line is part of the first run. */
static void put_runs(writer *w)
{
	const weir_head *head = &w->request->head;
	bool line_stays =
		head->version == 11 && !(head->flags & WEIR_HEAD_ABSOLUTE) && w->request->tidied.at == NULL;
	size_t last = head->length - 2, from = head->start;
	if (!line_stays) {
		put_request_line(w);
		from = w->from.count > 0 ? w->from.at[0].name : last;
	}
	bool all_pass = !(w->from.seen & w->unwanted) && !w->from.suspicious && !w->from.named &&
			!weir_edits_drop_some(w->edits);
	for (size_t i = 0; !all_pass && i < w->from.count; i++) {
		if (passes(w, i))
			continue;
		size_t next = i + 1 < w->from.count ? w->from.at[i + 1].name : last;
		put(w, w->from.bytes + from, w->from.at[i].name - from);
		from = next;
	}
	put(w, w->from.bytes + from, last - from);
}

/* HTTP/2 may have split cookies into several fields (RFC 9113 8.2.3). */
static void put_cookies(writer *w)
{
	bool first = true;
	if (weir_edits_drop(w->edits, WEIR_SPAN("cookie")))
		return;
	for (size_t i = 0; i < w->from.count; i++) {
		if (w->from.at[i].id != WEIR_FIELD_COOKIE)
			continue;
		if (first)
			PUT(w, "Cookie: ");
		else
			PUT(w, "; ");
		put_span(w, value_of(&w->from, i));
		first = false;
	}
	if (!first)
		PUT(w, "\r\n");
}

static void put_each(writer *w)
{
	put_request_line(w);
	w->unwanted |= BIT(HOST) | BIT(COOKIE) | BIT(CONTENT_LENGTH) | BIT(TRANSFER_ENCODING);
	if (w->exchange->backend->sent_host == NULL)
		put_line(w, WEIR_SPAN("Host"), weir_request_host(w->request));
	for (size_t i = 0; i < w->from.count; i++)
		if (passes(w, i))
			put_line(w, name_of(&w->from, i), value_of(&w->from, i));
	put_cookies(w);
	uint64_t length = weir_request_body_length(w->request);
	if (length == WEIR_UNKNOWN_LENGTH) {
		PUT(w, "Transfer-Encoding: chunked\r\n");
	} else if (w->exchange->has_body || has(w, WEIR_FIELD_CONTENT_LENGTH)) {
		PUT(w, "Content-Length: ");
		put_number(w, length);
		PUT(w, "\r\n");
	}
}

/* ---- what is added ---- */

static void write_ipv4(weir_last_client *last, uint32_t address)
{
	const uint8_t *bytes = (const uint8_t *)&address;
	last->address = address;
	last->length = (uint32_t)snprintf(last->text, sizeof(last->text), "%u.%u.%u.%u", bytes[0], bytes[1],
					  bytes[2], bytes[3]);
}

static void put_ipv4(writer *w, uint32_t address)
{
	weir_last_client *last = &w->exchange->thread->last_client;
	if (last->address != address || last->length == 0)
		write_ipv4(last, address);
	/* A fixed size, which is one move; there is room for it. */
	memcpy(w->to, last->text, sizeof(last->text));
	w->to += last->length;
}

static void put_client(writer *w, const struct sockaddr *client)
{
	char text[INET6_ADDRSTRLEN];
	if (client->sa_family == AF_INET) {
		put_ipv4(w, ((const struct sockaddr_in *)(const void *)client)->sin_addr.s_addr);
	} else if (client->sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)client)->sin6_addr, text,
			  sizeof(text));
		put(w, text, strlen(text));
	} else {
		PUT(w, "unknown");
	}
}

static bool has_other(const writer *w, weir_span name)
{
	if (!w->from.suspicious)
		return false;
	for (size_t i = 0; i < w->from.count; i++)
		if (w->from.at[i].id == WEIR_FIELD_OTHER && w->from.at[i].name_length == name.length &&
		    weir_span_is(name_of(&w->from, i), name))
			return true;
	return false;
}

/* Whether it is ours to write: no edit is about it, and no trusted proxy has sent it. */
static inline bool is_free(const writer *w, weir_span name)
{
	return (w->edits == NULL || !weir_edits_drop(w->edits, name)) &&
	       (w->forwarded != WEIR_FORWARDED_APPEND || !has_other(w, name));
}

/*
 * After trusted proxies. The first proxy in the chain knows scheme and host, so those stay; the addresses
 * are a list, to which the last proxy's is added.
 */
static void put_forwarded(writer *w)
{
	bool append = w->forwarded == WEIR_FORWARDED_APPEND;
	PUT(w, "X-Forwarded-For: ");
	bool some = append && has(w, WEIR_FIELD_X_FORWARDED_FOR), listed = false;
	for (size_t i = 0; some && i < w->from.count; i++) {
		if (w->from.at[i].id != WEIR_FIELD_X_FORWARDED_FOR || w->from.at[i].value_length == 0)
			continue;
		if (listed)
			PUT(w, ", ");
		put_span(w, value_of(&w->from, i));
		listed = true;
	}
	const struct sockaddr *peer = weir_request_peer(w->request);
	/* A Unix socket has no address to add: one that cannot be read would end the list for those behind us. */
	if (listed && peer->sa_family != AF_UNIX)
		PUT(w, ", ");
	if (!listed || peer->sa_family != AF_UNIX)
		put_client(w, peer);
	PUT(w, "\r\n");
	if (is_free(w, WEIR_SPAN("x-forwarded-proto"))) {
		PUT(w, "X-Forwarded-Proto: http");
		if (weir_request_secure(w->request))
			PUT(w, "s");
		PUT(w, "\r\n");
	}
	weir_span host = weir_request_span(w->request, w->request->head.host, w->request->head.host_length);
	if (host.length > 0 && is_free(w, WEIR_SPAN("x-forwarded-host")))
		put_line(w, WEIR_SPAN("X-Forwarded-Host"), host);
}

static void put_quality(writer *w)
{
	double quality = weir_stage_quality(w->exchange->stage, w->request->event.klass);
	unsigned hundredths = quality <= 0 ? 0 : quality < 1 ? (unsigned)(quality * 100 + .5) : 100;
	if (hundredths >= 100)
		return;
	PUT(w, "Weir-Quality: ");
	put_number(w, hundredths / 100);
	PUT(w, ".");
	put_number(w, hundredths / 10 % 10);
	put_number(w, hundredths % 10);
	PUT(w, "\r\n");
}

static void put_upgrade(writer *w)
{
	for (size_t i = 0; i < w->from.count; i++)
		if (w->from.at[i].id == WEIR_FIELD_UPGRADE)
			put_line(w, WEIR_SPAN("Upgrade"), value_of(&w->from, i));
	PUT(w, "Connection: upgrade\r\n");
}

static void put_extra(writer *w)
{
	const weir_exchange *exchange = w->exchange;
	const weir_proxy *proxy = exchange->thread->proxy;
	const char *name = exchange->backend->sent_host;
	if (name == NULL && w->request->head.version == 10 && !has(w, WEIR_FIELD_HOST))
		name = weir_origin_host(exchange->backend);
	if (name != NULL)
		put_line(w, WEIR_SPAN("Host"), (weir_span){name, strlen(name)});
	if (w->forwarded != WEIR_FORWARDED_OFF)
		put_forwarded(w);
	const weir_field *added;
	size_t count = weir_edits_added(w->edits, &added);
	for (size_t i = 0; i < count; i++)
		put_line(w, added[i].name, added[i].value);
	if (exchange->made_id && exchange->id.at != NULL &&
	    !weir_edits_drop(w->edits, WEIR_SPAN("x-request-id")))
		put_line(w, WEIR_SPAN("X-Request-ID"), exchange->id);
	if (exchange->trace.at != NULL && !weir_edits_drop(w->edits, WEIR_SPAN("traceparent")))
		put_line(w, WEIR_SPAN("traceparent"), exchange->trace);
	put(w, proxy->via_line, proxy->via_length);
	if (!proxy->options.no_quality)
		put_quality(w);
	if (proxy->options.pass_on)
		w->to = weir_proxy_put_hop(w->request, w->to);
	if (exchange->upgrade)
		put_upgrade(w);
	PUT(w, "\r\n");
}

/* An upper bound of the head's size. */
static size_t bound(const writer *w)
{
	const weir_head *head = &w->request->head;
	size_t bytes = EXTRA_BYTES + head->path_length + head->query_length + 2 * head->host_length +
		       strlen(w->exchange->backend->at.name) + w->exchange->thread->proxy->via_length;
	if (w->exchange->backend->sent_host != NULL)
		bytes += strlen(w->exchange->backend->sent_host);
	const weir_field *added;
	for (size_t i = weir_edits_added(w->edits, &added); i-- > 0;)
		bytes += added[i].name.length + added[i].value.length + 4;
	/* The head as it came, and forwarded addresses once more. */
	if (head->version != 20)
		return bytes + 2 * (size_t)head->length;
	for (size_t i = 0; i < w->from.count; i++)
		bytes += 2 * (w->from.at[i].name_length + w->from.at[i].value_length + 4u);
	return bytes;
}

static uint64_t unwanted_ids(const weir_exchange *exchange, weir_forwarded forwarded)
{
	uint64_t ids = HOP_BY_HOP;
	if (!exchange->expects)
		ids |= BIT(EXPECT);
	if (forwarded != WEIR_FORWARDED_OFF)
		ids |= BIT(X_FORWARDED_FOR);
	if (forwarded == WEIR_FORWARDED_REPLACE)
		ids |= BIT(FORWARDED);
	if (exchange->backend->sent_host != NULL)
		ids |= BIT(HOST);
	return ids;
}

weir_forwarded weir_proxy_forwarded(const weir_exchange *exchange)
{
	weir_forwarded forwarded = exchange->thread->proxy->options.forwarded;
	bool trusted = weir_request_is(exchange->request, WEIR_REQUEST_TRUSTED);
	return forwarded == WEIR_FORWARDED_APPEND && !trusted ? WEIR_FORWARDED_REPLACE : forwarded;
}

/* Room for a head: where it is sent from, or in a buffer, which is the call's head then. NULL: out of memory. */
static char *place_of(weir_call_request *call, const weir_exchange *exchange, size_t most)
{
	weir_upstream *upstream = exchange->thread->upstream;
	char *place = call->fresh ? NULL : weir_call_place(upstream, exchange->backend, most);
	if (place != NULL)
		return place;
	call->head = weir_upstream_buf(upstream, most);
	return call->head != NULL ? (char *)call->head->data : NULL;
}

bool weir_proxy_head(const weir_exchange *exchange, weir_call_request *call)
{
	const weir_request *request = exchange->request;
	writer w;
	w.exchange = exchange;
	w.request = request;
	w.forwarded = weir_proxy_forwarded(exchange);
	w.edits = exchange->thread->proxy->options.request_edits;
	w.unwanted = unwanted_ids(exchange, w.forwarded);
	look(&w.from, request->base, request->fields, request->head.field_count);
	char *place = place_of(call, exchange, bound(&w));
	if (place == NULL)
		return false;
	w.to = place;
	if (request->head.version == 20)
		put_each(&w);
	else
		put_runs(&w);
	put_extra(&w);
	if (call->head != NULL)
		call->head->length = (uint32_t)(w.to - place);
	else
		call->placed = (size_t)(w.to - place);
	return true;
}

/* ---- to the client ---- */

/* Whether a field of an answer passes. */
static inline bool passes_back(const weir_proxy *proxy, const fields *from, size_t i, uint64_t unwanted)
{
	const weir_head_field *field = &from->at[i];
	if (unwanted >> field->id & 1 || (from->named && is_named(from, i)))
		return false;
	if (from->suspicious && field->id == WEIR_FIELD_OTHER && weir_proxy_is_for_proxies(name_of(from, i)))
		return false;
	if (proxy->options.reports == WEIR_REPORTS_TAKE && weir_proxy_is_report(field, from->bytes))
		return false;
	return proxy->options.answer_edits == NULL ||
	       !weir_edits_drop(proxy->options.answer_edits, name_of(from, i));
}

size_t weir_proxy_fields(const weir_proxy *proxy, const weir_call_answer *answer, bool tunnel,
			 weir_field *ret_fields)
{
	fields from;
	look(&from, answer->bytes, answer->fields, answer->head->field_count);
	const uint64_t unwanted = (HOP_BY_HOP | SERVERS_OWN) & ~(tunnel ? BIT(UPGRADE) : 0);
	const weir_field *added;
	size_t count = 0;
	for (size_t i = 0; i < from.count; i++)
		if (passes_back(proxy, &from, i, unwanted))
			ret_fields[count++] = (weir_field){name_of(&from, i), value_of(&from, i)};
	for (size_t i = weir_edits_added(proxy->options.answer_edits, &added); i > 0; i--)
		ret_fields[count++] = *added++;
	if (proxy->via_length > 0)
		ret_fields[count++] =
			(weir_field){WEIR_SPAN("Via"), {proxy->via_line + 5, proxy->via_length - 7}};
	return count;
}

/* "Content-Length: ", 20 digits, CRLF */
#define LENGTH_LINE 38

weir_span weir_proxy_lines(const weir_proxy *proxy, const weir_call_answer *answer, uint64_t length,
			   char *room, size_t size)
{
	fields from;
	const weir_field *added;
	size_t last = answer->head->length - 2;
	if (answer->head->length + proxy->via_length + LENGTH_LINE > size || answer->head->field_count == 0 ||
	    weir_edits_added(proxy->options.answer_edits, &added) != 0)
		return (weir_span){0};
	look(&from, answer->bytes, answer->fields, answer->head->field_count);
	size_t at = from.at[0].name;
	char *to = room;
	for (size_t i = 0; i < from.count; i++) {
		if (passes_back(proxy, &from, i, HOP_BY_HOP | SERVERS_OWN))
			continue;
		to = weir_copy(to, from.bytes + at, from.at[i].name - at);
		at = i + 1 < from.count ? from.at[i + 1].name : last;
	}
	to = weir_copy(to, from.bytes + at, last - at);
	to = weir_copy(to, proxy->via_line, proxy->via_length);
	to = weir_put_number(WEIR_H1_PUT(to, "Content-Length: "), length);
	to = WEIR_H1_PUT(to, "\r\n");
	return (weir_span){room, (size_t)(to - room)};
}
