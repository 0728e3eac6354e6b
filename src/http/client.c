/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who the client is. A connection's peer is, unless it is a proxy that the listener trusts: then the
 * X-Forwarded-For that it sends says for whom it asks. The list is read from its end, since each proxy
 * appends; the first address that is not a trusted proxy's is the client. What an untrusted client has put
 * into the field stands before that, and is never reached.
 */
#include <arpa/inet.h>
#include <string.h>

#include "http/request.h"
#include "http/server.h"
#include "rules/match.h"

#define HOPS_MOST 32

bool weir_client_is_trusted(const weir_matcher *trusted, const weir_client *client)
{
	const weir_match_input input = {.client = &client->any};
	return weir_matcher_matches(trusted, &input);
}

void weir_client_set(weir_client *client, const struct sockaddr_storage *address)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
	client->any.sa_family = address->ss_family;
	if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = v6->sin6_port};
		memcpy(&v4.sin_addr, &v6->sin6_addr.s6_addr[12], 4);
		client->v4 = v4;
	} else if (address->ss_family == AF_INET || address->ss_family == AF_INET6) {
		memcpy(client, address, sizeof(*client));
	}
}

/* Removes the last element from the list. */
static weir_span take_last(weir_span *list)
{
	size_t at = list->length;
	while (at > 0 && list->at[at - 1] != ',')
		at--;
	weir_span last = {list->at + at, list->length - at};
	list->length = at > 0 ? at - 1 : 0;
	while (last.length > 0 && (last.at[0] == ' ' || last.at[0] == '\t')) {
		last.at++;
		last.length--;
	}
	while (last.length > 0 && (last.at[last.length - 1] == ' ' || last.at[last.length - 1] == '\t'))
		last.length--;
	return last;
}

/* "192.0.2.1", "192.0.2.1:8080", "2001:db8::1", "[2001:db8::1]:8080". The port is of no use here. */
bool weir_client_parse(weir_span text, weir_client *ret_client)
{
	char address[INET6_ADDRSTRLEN];
	const char *colon = text.length > 0 ? memchr(text.at, ':', text.length) : NULL;
	if (text.length > 0 && text.at[0] == '[') {
		const char *end = memchr(text.at, ']', text.length);
		if (end == NULL)
			return false;
		text = (weir_span){text.at + 1, (size_t)(end - text.at - 1)};
	} else if (colon != NULL &&
		   memchr(colon + 1, ':', (size_t)(text.at + text.length - colon - 1)) == NULL) {
		text.length = (size_t)(colon - text.at);
	}
	if (text.length == 0 || text.length >= sizeof(address))
		return false;
	memcpy(address, text.at, text.length);
	address[text.length] = '\0';
	weir_client client = {0};
	if (inet_pton(AF_INET, address, &client.v4.sin_addr) == 1)
		client.any.sa_family = AF_INET;
	else if (inet_pton(AF_INET6, address, &client.v6.sin6_addr) == 1)
		client.any.sa_family = AF_INET6;
	else
		return false;
	*ret_client = client;
	return true;
}

/* Follows the proxies back. What cannot be read ends the way: who wrote it is the last that is known. */
static void follow(weir_request *request, const weir_matcher *trusted)
{
	unsigned hops = 0;
	for (size_t i = request->head.field_count; i-- > 0;) {
		const weir_head_field *field = &request->fields[i];
		if (field->id != WEIR_FIELD_X_FORWARDED_FOR)
			continue;
		weir_span list = weir_request_span(request, field->value, field->value_length);
		while (list.length > 0) {
			weir_span last = take_last(&list);
			if (last.length == 0)
				continue;
			if (++hops > HOPS_MOST || !weir_client_parse(last, &request->client) ||
			    !weir_client_is_trusted(trusted, &request->client))
				return;
		}
	}
}

/* The nearest proxy knows how it was asked. */
static void follow_scheme(weir_request *request)
{
	weir_span scheme = {0}, name = WEIR_SPAN("x-forwarded-proto");
	weir_field field;
	for (size_t i = 0; weir_request_field(request, i, &field); i++)
		if (weir_span_is(field.name, name))
			scheme = field.value;
	if (scheme.length == 0)
		return;
	scheme = take_last(&scheme);
	if (weir_span_is(scheme, WEIR_SPAN("https")))
		request->secure = true;
	else if (weir_span_is(scheme, WEIR_SPAN("http")))
		request->secure = false;
}

/* A number of at most nine digits; false: it is none. */
static bool read_number(weir_span text, uint32_t *ret_number)
{
	uint32_t number = 0;
	if (text.length == 0 || text.length > 9)
		return false;
	for (size_t i = 0; i < text.length; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return false;
		number = number * 10 + (uint32_t)(text.at[i] - '0');
	}
	*ret_number = number;
	return true;
}

/* What the Weir in front has decided. What cannot be read is not there. */
static void follow_hop(weir_request *request)
{
	uint32_t number;
	if (read_number(weir_request_header(request, WEIR_SPAN("weir-class")), &number))
		request->told_class = (uint8_t)((number < WEIR_CLASSES ? number : WEIR_CLASSES - 1) + 1);
	/* With nothing left it is still a deadline. */
	if (read_number(weir_request_header(request, WEIR_SPAN("weir-deadline")), &number))
		request->told_left_ns = number > 0 ? number * WEIR_NS_PER_MS : 1;
}

void weir_request_follow_proxies(weir_request *request, const weir_matcher *trusted)
{
	if (!weir_client_is_trusted(trusted, &request->client))
		return;
	request->flags |= WEIR_REQUEST_TRUSTED;
	follow(request, trusted);
	follow_scheme(request);
	if (request->conn->listener->hops)
		follow_hop(request);
	weir_shares_change(request);
}

const struct sockaddr *weir_request_peer(const weir_request *request)
{
	return request->conn != NULL ? &request->conn->client.any : &request->client.any;
}
