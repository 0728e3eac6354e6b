/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may ask. A page anywhere can make a visitor's browser send requests to 127.0.0.1, under a name that resolves to it (rebinding) or as a cross-site request; so the name that was asked for
 * must be one of ours, and an Origin must be the page's own. Whatever changes something needs the token as well, and so does everything when the listener is reachable from elsewhere.
 */
#include <string.h>

#include "admin/inside.h"
#include "http/parse.h"

/* Without looking at where they differ. */
static bool same_secret(weir_span given, const char *secret)
{
	size_t length = strlen(secret);
	unsigned char different = given.length != length;
	for (size_t i = 0; i < given.length; i++)
		different |= (unsigned char)given.at[i] ^ (unsigned char)secret[length != 0 ? i % length : 0];
	return different == 0 && length != 0;
}

static bool has_token(const weir_admin *admin, const weir_request *request)
{
	static const char scheme[] = "Bearer ";
	weir_span value = weir_request_header(request, WEIR_SPAN("authorization"));
	size_t skip = sizeof(scheme) - 1;
	if (value.at == NULL || value.length <= skip ||
	    !weir_span_is((weir_span){value.at, skip}, WEIR_SPAN("Bearer ")))
		return false;
	return same_secret((weir_span){value.at + skip, value.length - skip}, admin->token);
}

/* "name:port" without its port; "[::1]:7777" as "[::1]". */
static weir_span name_of(weir_span host)
{
	for (size_t i = host.length; i > 0; i--) {
		if (host.at[i - 1] == ':')
			return (weir_span){host.at, i - 1};
		if (host.at[i - 1] == ']')
			break;
	}
	return host;
}

static bool own_name(const weir_admin *admin, weir_span host)
{
	weir_span name = name_of(host);
	weir_span bound = name_of((weir_span){admin->address, strlen(admin->address)});
	weir_span given = {admin->host, strlen(admin->host)};
	return weir_span_is(name, WEIR_SPAN("localhost")) || weir_span_is(name, WEIR_SPAN("127.0.0.1")) ||
	       weir_span_is(name, WEIR_SPAN("[::1]")) || weir_span_is(name, bound) ||
	       (given.length != 0 && weir_span_is(name, given));
}

static bool own_origin(const weir_request *request)
{
	static const char scheme[] = "http://";
	weir_span origin = weir_request_header(request, WEIR_SPAN("origin"));
	weir_span host = weir_request_host(request);
	size_t skip = sizeof(scheme) - 1;
	if (origin.at == NULL)
		return true;
	return origin.length == skip + host.length && memcmp(origin.at, scheme, skip) == 0 &&
	       weir_span_is((weir_span){origin.at + skip, host.length}, host);
}

static void refuse_token(const weir_admin *admin, weir_request *request)
{
	static const weir_field fields[] = {{WEIR_SPAN("WWW-Authenticate"), WEIR_SPAN("Bearer")},
					    {WEIR_SPAN("Content-Type"), WEIR_SPAN("application/json")}};
	bool shown = weir_request_header(request, WEIR_SPAN("authorization")).at != NULL;
	const char *text = admin->token[0] == '\0'
				   ? "{\"error\":\"this needs a token, and none is configured\"}\n"
			   : shown ? "{\"error\":\"that is not the token; accepted is 'Authorization: Bearer "
				     "TOKEN' with that of token-file, or as printed at start\"}\n"
				   : "{\"error\":\"this needs 'Authorization: Bearer TOKEN'\"}\n";
	weir_reply reply = {
		.status = 401, .fields = fields, .field_count = 2, .bytes = text, .length = strlen(text)};
	weir_request_reply(request, &reply);
}

bool weir_admin_guard(const weir_admin *admin, weir_request *request, bool changes)
{
	if (!own_name(admin, weir_request_host(request))) {
		weir_admin_reply_error(request, 421, "the host that was asked for is not this listener's");
		return false;
	}
	if (!own_origin(request)) {
		weir_admin_reply_error(request, 403, "requests of other pages are not answered");
		return false;
	}
	if ((changes || !admin->loopback) && !has_token(admin, request)) {
		refuse_token(admin, request);
		return false;
	}
	return true;
}
