/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access control. Any page can make a visitor's browser send requests to us, under a name that resolves to
 * our address (DNS rebinding) or cross-site. So the host asked for must be one of ours, and an Origin must be
 * the page's own. Changes also need the token; if the listener can be reached from elsewhere, so does
 * everything but /healthz and /readyz.
 *
 * A listener that others can reach may have addresses that it does not know, such as those of forwarded
 * ports. There any address is accepted, as rebinding needs a name.
 *
 * Tools send the token as "Bearer TOKEN". Browsers ask the user for it (Basic, with any name), since neither
 * a link nor an EventSource can send a field of its own. From then on they send it with every request, even
 * one that another page causes. So Basic alone allows no change: the request must also show that it comes
 * from our page.
 */
#include <arpa/inet.h>
#include <string.h>

#include "admin/inside.h"
#include "http/parse.h"

#define BASIC_BYTES 768u /* of a name and a token */

/* In constant time. */
static bool same_secret(weir_span given, const char *secret)
{
	size_t length = strlen(secret);
	unsigned char different = given.length != length;
	for (size_t i = 0; i < given.length; i++)
		different |= (unsigned char)given.at[i] ^ (unsigned char)secret[length != 0 ? i % length : 0];
	return different == 0 && length != 0;
}

/* What follows the name of the scheme; NULL: another scheme. */
static weir_span shown_by(weir_span authorization, weir_span scheme)
{
	if (authorization.length <= scheme.length ||
	    !weir_span_is((weir_span){authorization.at, scheme.length}, scheme))
		return (weir_span){0};
	return (weir_span){authorization.at + scheme.length, authorization.length - scheme.length};
}

static int digit_of(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c != '\0' ? strchr(digits, c) : NULL;
	return at != NULL ? (int)(at - digits) : -1;
}

/* Base64 into at most size bytes; false: not Base64, or longer. */
static bool decode(weir_span text, char *ret_bytes, size_t size, size_t *ret_length)
{
	unsigned bits = 0, held = 0;
	size_t length = 0;
	while (text.length > 0 && text.at[text.length - 1] == '=')
		text.length--;
	for (size_t i = 0; i < text.length; i++) {
		int digit = digit_of(text.at[i]);
		if (digit < 0)
			return false;
		bits = (bits << 6 | (unsigned)digit) & 0xffff;
		held += 6;
		if (held < 8)
			continue;
		if (length == size)
			return false;
		held -= 8;
		ret_bytes[length++] = (char)(bits >> held & 0xff);
	}
	*ret_length = length;
	return true;
}

static bool is_basic(const weir_admin *admin, weir_span shown)
{
	char text[BASIC_BYTES];
	size_t length = 0;
	if (shown.at == NULL || !decode(shown, text, sizeof(text), &length))
		return false;
	const char *colon = memchr(text, ':', length);
	return colon != NULL &&
	       same_secret((weir_span){colon + 1, (size_t)(text + length - colon - 1)}, admin->token);
}

/* As the page's own requests do. Any other Origin was refused before. */
static bool is_from_our_page(const weir_request *request)
{
	weir_span site = weir_request_header(request, WEIR_SPAN("sec-fetch-site"));
	return site.at != NULL ? weir_span_is(site, WEIR_SPAN("same-origin"))
			       : weir_request_header(request, WEIR_SPAN("origin")).at != NULL;
}

static bool has_token(const weir_admin *admin, const weir_request *request, bool changes)
{
	weir_span value = weir_request_header(request, WEIR_SPAN("authorization"));
	if (value.at == NULL)
		return false;
	weir_span bearer = shown_by(value, WEIR_SPAN("Bearer "));
	if (bearer.at != NULL)
		return same_secret(bearer, admin->token);
	return is_basic(admin, shown_by(value, WEIR_SPAN("Basic "))) &&
	       (!changes || is_from_our_page(request));
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

/* "10.0.0.5", "[fd00::5]". */
static bool is_address(weir_span name)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr any;
	bool brackets = name.length > 2 && name.at[0] == '[' && name.at[name.length - 1] == ']';
	weir_span bare = brackets ? (weir_span){name.at + 1, name.length - 2} : name;
	if (bare.length >= sizeof(text))
		return false;
	memcpy(text, bare.at, bare.length);
	text[bare.length] = '\0';
	return inet_pton(brackets ? AF_INET6 : AF_INET, text, &any) == 1;
}

static bool is_given(const weir_admin *admin, weir_span name)
{
	for (const char *at = admin->hosts; *at != '\0'; at += strcspn(at, " ") + 1)
		if (weir_span_is(name, (weir_span){at, strcspn(at, " ")}))
			return true;
	return false;
}

static bool own_name(const weir_admin *admin, weir_span host)
{
	weir_span name = name_of(host);
	weir_span bound = {admin->name, strlen(admin->name)};
	return weir_span_is(name, WEIR_SPAN("localhost")) || weir_span_is(name, WEIR_SPAN("127.0.0.1")) ||
	       weir_span_is(name, WEIR_SPAN("[::1]")) || weir_span_is(name, bound) || is_given(admin, name) ||
	       (!admin->loopback && is_address(name));
}

/* https if there is a TLS proxy in front of us. */
static bool own_origin(const weir_request *request)
{
	weir_span origin = weir_request_header(request, WEIR_SPAN("origin"));
	weir_span host = weir_request_host(request);
	if (origin.at == NULL)
		return true;
	weir_span asked = shown_by(origin, WEIR_SPAN("http://"));
	if (asked.at == NULL)
		asked = shown_by(origin, WEIR_SPAN("https://"));
	return asked.at != NULL && weir_span_is(asked, host);
}

static bool is_scheme(weir_span authorization, weir_span scheme)
{
	return authorization.at != NULL && shown_by(authorization, scheme).at != NULL;
}

/* Only readers are offered Basic, so that the browser asks for it; for changes, the page itself asks. */
static void refuse_token(const weir_admin *admin, weir_request *request, bool changes)
{
	static const weir_field fields[] = {
		{WEIR_SPAN("Content-Type"), WEIR_SPAN("application/json")},
		{WEIR_SPAN("WWW-Authenticate"), WEIR_SPAN("Bearer")},
		{WEIR_SPAN("WWW-Authenticate"), WEIR_SPAN("Basic realm=\"weir\", charset=\"UTF-8\"")}};
	weir_span value = weir_request_header(request, WEIR_SPAN("authorization"));
	const char *text =
		admin->token[0] == '\0' ? "{\"error\":\"this needs a token, and none is configured\"}\n"
		: changes && is_scheme(value, WEIR_SPAN("Basic "))
			? "{\"error\":\"to change something, Basic is for the live page only; this needs "
			  "'Authorization: Bearer TOKEN'\"}\n"
		: value.at != NULL ? "{\"error\":\"that is not the token; accepted is 'Authorization: Bearer "
				     "TOKEN' with that of token-file, or as printed at start\"}\n"
				   : "{\"error\":\"this needs 'Authorization: Bearer TOKEN'\"}\n";
	weir_reply reply = {.status = 401,
			    .fields = fields,
			    .field_count = changes ? 2 : 3,
			    .bytes = text,
			    .length = strlen(text)};
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
	if (weir_http_open(admin->http) > WEIR_ADMIN_CONNECTIONS + WEIR_ADMIN_CLOSING &&
	    !has_token(admin, request, changes)) {
		weir_admin_reply_error(
			request, 503,
			"too many connections are open; the rest is for requests with the token");
		return false;
	}
	if ((changes || !admin->loopback) && !has_token(admin, request, changes)) {
		refuse_token(admin, request, changes);
		return false;
	}
	return true;
}
