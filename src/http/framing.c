/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a head means: which host it is for, where its body ends, whether the connection is kept. All rules
 * against request smuggling that are not about syntax are here; each refusal is one sentence.
 */

#include <arpa/inet.h>
#include <string.h>

#include "http/head.h"
#include "http/scan.h"

/* ---- hosts ---- */

/* Where "[...]" with an IPv6 address ends; `at`: it is not one. Not inlined: rare, and needs much stack. */
__attribute__((noinline)) static size_t literal_end(const char *bytes, size_t at, size_t end)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr address;
	const char *close = memchr(bytes + at, ']', end - at);
	if (close == NULL)
		return at;
	size_t length = (size_t)(close - (bytes + at)) - 1;
	if (length >= sizeof(text))
		return at;
	memcpy(text, bytes + at + 1, length);
	text[length] = '\0';
	return inet_pton(AF_INET6, text, &address) == 1 ? at + length + 2 : at;
}

static bool port_valid(const char *bytes, size_t at, size_t end)
{
	unsigned port = 0;
	if (end - at < 1 || end - at > 5)
		return false;
	for (; at < end; at++) {
		unsigned digit = (unsigned)(uint8_t)bytes[at] - '0';
		if (digit > 9)
			return false;
		port = port * 10 + digit;
	}
	return port <= UINT16_MAX;
}

static inline bool host_valid(const char *bytes, size_t at, size_t end, bool port_needed)
{
	if (at == end)
		return false;
	size_t stop = bytes[at] == '[' ? literal_end(bytes, at, end) : weir_scan()->host(bytes, at, end);
	if (stop == at)
		return false;
	if (stop == end)
		return !port_needed;
	return bytes[stop] == ':' && port_valid(bytes, stop + 1, end);
}

/* ---- targets ---- */

static void set_target_host(weir_head *head, size_t at, size_t length)
{
	head->host = (uint32_t)at;
	head->host_length = (uint32_t)length;
	head->marks |= WEIR_MARK_TARGET_HOST;
}

static const char *authority_form(weir_head *head, const char *bytes)
{
	if (head->query != 0 || !host_valid(bytes, head->path, head->path + head->path_length, true))
		return weir_head_refuse(head, 400, "the target of CONNECT is not host:port");
	set_target_host(head, head->path, head->path_length);
	head->path += head->path_length;
	head->path_length = 0;
	return NULL;
}

/* The length of "http://" or "https://" at the start of the text; 0: neither. */
static size_t scheme_length(const char *text, size_t length)
{
	for (size_t size = 7; size <= 8 && size <= length; size++)
		if (weir_span_is((weir_span){text, size},
				 size == 7 ? WEIR_SPAN("http://") : WEIR_SPAN("https://")))
			return size;
	return 0;
}

static const char *absolute_form(weir_head *head, const char *bytes)
{
	size_t at = head->path, end = at + head->path_length;
	size_t scheme = scheme_length(bytes + at, head->path_length);
	if (scheme == 0)
		return weir_head_refuse(head, 400, "the target is neither a path nor an http URL");
	at += scheme;
	const char *slash = memchr(bytes + at, '/', end - at);
	size_t host_end = slash != NULL ? (size_t)(slash - bytes) : end;
	if (!host_valid(bytes, at, host_end, false))
		return weir_head_refuse(head, 400, "the target's authority is not a host");
	set_target_host(head, at, host_end - at);
	head->flags |= WEIR_HEAD_ABSOLUTE;
	head->path = (uint32_t)host_end;
	head->path_length = (uint32_t)(end - host_end);
	return NULL;
}

const char *weir_framing_target(weir_head *head, const char *bytes)
{
	if (head->method == WEIR_METHOD_CONNECT)
		return authority_form(head, bytes);
	if (bytes[head->path] == '/')
		return NULL;
	if (head->path_length == 1 && bytes[head->path] == '*' && head->query == 0)
		return head->method == WEIR_METHOD_OPTIONS
			       ? NULL
			       : weir_head_refuse(head, 400, "the target * is for OPTIONS only");
	return absolute_form(head, bytes);
}

/* ---- fields ---- */

static weir_span value_of(const char *bytes, const weir_head_field *field)
{
	return (weir_span){bytes + field->value, field->value_length};
}

static const char *take_host(weir_head *head, const char *bytes, const weir_head_field *field)
{
	size_t at = field->value, end = at + field->value_length;
	if (head->marks & WEIR_MARK_HOST)
		return weir_head_refuse(head, 400, "more than one Host");
	head->marks |= WEIR_MARK_HOST;
	if (at != end && !host_valid(bytes, at, end, false))
		return weir_head_refuse(head, 400, "Host is not a host");
	if (head->marks & WEIR_MARK_TARGET_HOST) {
		weir_span target = {bytes + head->host, head->host_length};
		return weir_span_is(target, value_of(bytes, field))
			       ? NULL
			       : weir_head_refuse(head, 400, "Host disagrees with the target");
	}
	head->host = field->value;
	head->host_length = field->value_length;
	return NULL;
}

static unsigned connection_mark(weir_span option)
{
	if (option.length == 10 && weir_token_is(option.at, "keep-alive", 10))
		return WEIR_MARK_KEEP_ALIVE;
	if (option.length == 5 && weir_token_is(option.at, "close", 5))
		return WEIR_MARK_CLOSE;
	return option.length == 7 && weir_token_is(option.at, "upgrade", 7) ? WEIR_MARK_UPGRADE_OPTION : 0;
}

/* Usually there is one option. */
static void take_connection(weir_head *head, weir_span list)
{
	unsigned mark = connection_mark(list);
	for (weir_span option; mark == 0 && weir_list_next(&list, &option);)
		head->marks |= (uint8_t)connection_mark(option);
	head->marks |= (uint8_t)mark;
}

/* Only digits, and at most INT64_MAX, for peers that read it as a signed number. */
static bool read_length(weir_span text, uint64_t *ret_length)
{
	uint64_t length = 0;
	if (text.length < 1 || text.length > 19)
		return false;
	for (size_t i = 0; i < text.length; i++) {
		unsigned digit = (unsigned)(uint8_t)text.at[i] - '0';
		if (digit > 9)
			return false;
		length = length * 10 + digit;
	}
	if (length > INT64_MAX)
		return false;
	*ret_length = length;
	return true;
}

static const char *take_length(weir_head *head, weir_span value)
{
	if (head->marks & WEIR_MARK_LENGTH)
		return weir_head_refuse(head, 400, "more than one Content-Length");
	if (head->marks & WEIR_MARK_CHUNKED)
		return weir_head_refuse(head, 400, "Content-Length beside Transfer-Encoding");
	head->marks |= WEIR_MARK_LENGTH;
	if (!read_length(value, &head->body_length))
		return weir_head_refuse(head, 400, "Content-Length is not a number of bytes");
	return NULL;
}

static const char *take_coding(weir_head *head, weir_span value)
{
	if (head->version == 10)
		return weir_head_refuse(head, 400, "Transfer-Encoding in HTTP/1.0");
	if (head->marks & WEIR_MARK_CHUNKED)
		return weir_head_refuse(head, 400, "more than one Transfer-Encoding");
	if (head->marks & WEIR_MARK_LENGTH)
		return weir_head_refuse(head, 400, "Transfer-Encoding beside Content-Length");
	head->marks |= WEIR_MARK_CHUNKED;
	if (value.length == 0)
		return weir_head_refuse(head, 400, "an empty Transfer-Encoding");
	if (!weir_span_is(value, WEIR_SPAN("chunked")))
		return weir_head_refuse(head, 501, "a transfer coding other than chunked");
	return NULL;
}

/* HTTP/1.0 has no expectations (RFC 9110 10.1.1). */
static void take_expect(weir_head *head, weir_span list)
{
	if (head->version == 10)
		return;
	for (weir_span element; weir_list_next(&list, &element);)
		head->flags |= weir_span_is(element, WEIR_SPAN("100-continue")) ? WEIR_HEAD_CONTINUE
										: WEIR_HEAD_EXPECT_OTHER;
}

static void take_te(weir_head *head, weir_span list)
{
	for (weir_span element; weir_list_next(&list, &element);)
		if (weir_span_is(element, WEIR_SPAN("trailers")))
			head->flags |= WEIR_HEAD_TRAILERS;
}

const char *weir_framing_answer_field(weir_head *head, const char *bytes, const weir_head_field *field)
{
	switch (field->id) {
	case WEIR_FIELD_CONNECTION:
		take_connection(head, value_of(bytes, field));
		return NULL;
	case WEIR_FIELD_CONTENT_LENGTH:
		return take_length(head, value_of(bytes, field));
	case WEIR_FIELD_TRANSFER_ENCODING:
		return take_coding(head, value_of(bytes, field));
	case WEIR_FIELD_UPGRADE:
		head->marks |= WEIR_MARK_UPGRADE_FIELD;
		return NULL;
	default:
		return NULL;
	}
}

const char *weir_framing_request_field(weir_head *head, const char *bytes, const weir_head_field *field)
{
	switch (field->id) {
	case WEIR_FIELD_HOST:
		return take_host(head, bytes, field);
	case WEIR_FIELD_EXPECT:
		take_expect(head, value_of(bytes, field));
		return NULL;
	case WEIR_FIELD_TE:
		take_te(head, value_of(bytes, field));
		return NULL;
	default:
		return weir_framing_answer_field(head, bytes, field);
	}
}

const char *weir_framing_fields(weir_head *head, const char *bytes, const weir_head_field *field,
				const weir_head_field *end, const weir_head_field *but, bool answer)
{
	const char *error = NULL;
	for (; field < end && error == NULL; field++)
		if (WEIR_FRAMING_FIELDS >> field->id & 1 && field != but)
			error = answer ? weir_framing_answer_field(head, bytes, field)
				       : weir_framing_request_field(head, bytes, field);
	return error;
}

/* RFC 9110 6.5.1: framing, routing, authentication, request modifiers, content. Other fields are allowed. */
#define NOT_IN_TRAILERS                                                                                   \
	(WEIR_FIELD_BIT(HOST) | WEIR_FIELD_BIT(CONNECTION) | WEIR_FIELD_BIT(CONTENT_LENGTH) |             \
	 WEIR_FIELD_BIT(TRANSFER_ENCODING) | WEIR_FIELD_BIT(EXPECT) | WEIR_FIELD_BIT(UPGRADE) |           \
	 WEIR_FIELD_BIT(TE) | WEIR_FIELD_BIT(TRAILER) | WEIR_FIELD_BIT(KEEP_ALIVE) |                      \
	 WEIR_FIELD_BIT(PROXY_CONNECTION) | WEIR_FIELD_BIT(PROXY_AUTHENTICATE) |                          \
	 WEIR_FIELD_BIT(PROXY_AUTHORIZATION) | WEIR_FIELD_BIT(RANGE) | WEIR_FIELD_BIT(IF_RANGE) |         \
	 WEIR_FIELD_BIT(IF_MATCH) | WEIR_FIELD_BIT(IF_NONE_MATCH) | WEIR_FIELD_BIT(IF_MODIFIED_SINCE) |   \
	 WEIR_FIELD_BIT(IF_UNMODIFIED_SINCE) | WEIR_FIELD_BIT(ACCEPT_ENCODING) | WEIR_FIELD_BIT(COOKIE) | \
	 WEIR_FIELD_BIT(CONTENT_TYPE) | WEIR_FIELD_BIT(AUTHORIZATION) | WEIR_FIELD_BIT(PRIORITY) |        \
	 WEIR_FIELD_BIT(RETRY_AFTER) | WEIR_FIELD_BIT(FORWARDED) | WEIR_FIELD_BIT(X_FORWARDED_FOR) |      \
	 WEIR_FIELD_BIT(HTTP2_SETTINGS) | WEIR_FIELD_BIT(LOCATION))

const char *weir_framing_trailer_field(weir_head *head, const weir_head_field *field)
{
	return NOT_IN_TRAILERS >> field->id & 1
		       ? weir_head_refuse(head, 400, "a field that must not come as a trailer")
		       : NULL;
}

/* ---- complete heads ---- */

static void set_connection_flags(weir_head *head)
{
	unsigned marks = head->marks;
	if (!(marks & WEIR_MARK_CLOSE) && (head->version == 11 || marks & WEIR_MARK_KEEP_ALIVE))
		head->flags |= WEIR_HEAD_KEEP;
	if (head->version == 11 && marks & WEIR_MARK_UPGRADE_OPTION && marks & WEIR_MARK_UPGRADE_FIELD)
		head->flags |= WEIR_HEAD_UPGRADE;
}

/* A length of 0 means no body. */
static void set_framing(weir_head *head, weir_framing otherwise)
{
	if (head->marks & WEIR_MARK_CHUNKED)
		head->framing = WEIR_BODY_CHUNKED;
	else if (head->marks & WEIR_MARK_LENGTH)
		head->framing = head->body_length != 0 ? WEIR_BODY_LENGTH : WEIR_BODY_NONE;
	else
		head->framing = (uint8_t)otherwise;
}

const char *weir_framing_request(weir_head *head)
{
	if (head->version == 11 && !(head->marks & WEIR_MARK_HOST))
		return weir_head_refuse(head, 400, "HTTP/1.1 without Host");
	set_connection_flags(head);
	set_framing(head, WEIR_BODY_NONE);
	if (head->method == WEIR_METHOD_CONNECT && head->framing != WEIR_BODY_NONE)
		return weir_head_refuse(head, 400, "CONNECT with a body");
	return NULL;
}

/* RFC 9112 6.3, in its order. */
const char *weir_framing_answer(weir_head *head, weir_method asked)
{
	unsigned status = head->status;
	bool empty = status < 200 || status == 204;
	set_connection_flags(head);
	set_framing(head, WEIR_BODY_TO_END);
	if (empty && (head->framing == WEIR_BODY_LENGTH || head->framing == WEIR_BODY_CHUNKED))
		return weir_head_refuse(head, 502, "a body where the status allows none");
	bool tunnel = status == 101 || (asked == WEIR_METHOD_CONNECT && status < 300 && status >= 200);
	if (empty || tunnel || status == 304 || asked == WEIR_METHOD_HEAD) {
		head->framing = WEIR_BODY_NONE;
		head->body_length = 0;
	}
	/* A 304 with Transfer-Encoding has no body, but some servers and clients disagree. */
	bool doubtful = status == 304 && head->marks & WEIR_MARK_CHUNKED;
	if (tunnel || doubtful || head->framing == WEIR_BODY_TO_END)
		head->flags &= (uint8_t)~WEIR_HEAD_KEEP;
	return NULL;
}
