/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind "redirect": sends clients elsewhere, with status 308.
 *
 *	route "plain" { match = "scheme http"; redirect = "https" }         the same address by https
 *	route "moved" { match = "path /old/\*"; redirect = "https://b.org" }   the same path elsewhere
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/service.h>

#define LOCATION_BYTES 8192
#define TO_BYTES       512

typedef struct redirect_keys {
	const char *to;
	uint32_t status;
} redirect_keys;

/* What a route leads to. Constant. */
typedef struct redirection {
	char to[TO_BYTES]; /* "https://example.org", without a slash at the end; "": https, the same host */
	uint32_t status;
} redirection;

static const weir_key keys[] = {
	WEIR_KEY("redirect", TEXT, redirect_keys, to, NULL,
		 "Where clients are sent: https (the same host), or the beginning of a URL; the path stays"),
	WEIR_KEY("redirect-status", COUNT, redirect_keys, status, "308",
		 "The status of a redirect: 301, 302, 303, 307 or 308", .min = 301, .max = 308),
	{0},
};

static bool is_url(const char *text)
{
	size_t begin = strncmp(text, "https://", 8) == 0 ? 8 : strncmp(text, "http://", 7) == 0 ? 7 : 0;
	if (begin == 0 || text[begin] == '\0' || text[begin] == '/' || strlen(text) >= TO_BYTES)
		return false;
	for (const char *at = text; *at != '\0'; at++)
		if (*at <= ' ' || *at >= 0x7f || *at == '"' || *at == '<' || *at == '>' || *at == '?' ||
		    *at == '#')
			return false;
	return true;
}

static void check_route(weir_config *config, const weir_route_view *route)
{
	const redirect_keys *values = route->values;
	if (strcmp(values->to, "https") != 0 && !is_url(values->to))
		weir_config_wrong(config, route->head, "redirect",
				  "redirect: '%s': expected https, or a URL without a query", values->to);
	if (values->status > 303 && values->status < 307)
		weir_config_wrong(config, route->head, "redirect-status",
				  "redirect-status: %u is no redirect with a Location", values->status);
}

static void print_route(const weir_route_view *route, FILE *file)
{
	fprintf(file, "redirect to %s", ((const redirect_keys *)route->values)->to);
}

/* The host as the client wrote it, without a port: that of https is another. */
static weir_span host_of(const weir_request *request)
{
	weir_span host = weir_request_host(request);
	const char *end = host.length > 0 && host.at[0] == '[' ? memchr(host.at, ']', host.length) : NULL;
	const char *colon = memchr(end != NULL ? end : host.at, ':',
				   host.length - (end != NULL ? (size_t)(end - host.at) : 0));
	if (colon != NULL)
		host.length = (size_t)(colon - host.at);
	return host;
}

static void redirect(const redirection *r, weir_request *request)
{
	char location[LOCATION_BYTES];
	weir_span host = host_of(request), path = weir_request_path(request),
		  query = weir_request_query(request);
	bool same = r->to[0] == '\0';
	int length = snprintf(location, sizeof(location), "%s%.*s%.*s%s%.*s", same ? "https://" : r->to,
			      same ? (int)host.length : 0, same ? host.at : "",
			      path.at[0] == '/' ? (int)path.length : 0, path.at, query.at != NULL ? "?" : "",
			      query.at != NULL ? (int)query.length : 0, query.at != NULL ? query.at : "");
	if ((same && host.length == 0) || length < 0 || (size_t)length >= sizeof(location)) {
		weir_request_reply_text(request, 400, WEIR_SPAN("This address has no other.\n"));
		return;
	}
	const weir_field field = {WEIR_SPAN("Location"), {location, (size_t)length}};
	weir_request_reply(request, &(weir_reply){.status = r->status, .fields = &field, .field_count = 1});
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		redirect(arg, weir_request_of(events[i]));
}

static int make(const weir_making *making, void **ret_thing, weir_stage **ret_stage)
{
	const redirect_keys *values = making->route.values;
	redirection *r = calloc(1, sizeof(*r));
	if (r == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	r->status = values->status;
	if (strcmp(values->to, "https") != 0)
		snprintf(r->to, sizeof(r->to), "%s", values->to);
	size_t length = strlen(r->to);
	if (length > 0 && r->to[length - 1] == '/')
		r->to[length - 1] = '\0';
	int failed = weir_making_stage(making, NULL, handle, r, ret_stage);
	if (failed != 0)
		free(r);
	else
		*ret_thing = r;
	return failed;
}

const weir_kind weir_kind_redirect = {
	.name = "redirect",
	.keys = keys,
	.bytes = sizeof(redirect_keys),
	.check_route = check_route,
	.print_route = print_route,
	.make = make,
	.free = free,
};
