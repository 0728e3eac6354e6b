/* SPDX-License-Identifier: Apache-2.0 */
/* Names of fields that a client may not pass to a backend, in any spelling; and what one Weir tells another. */
#include <stdio.h>

#include "http/server.h"
#include "loop/loop.h"
#include "sentry/proxy_priv.h"

/* Whether the name begins like this. Gateways to other protocols make '_' of '-', so they are the same. */
static bool is_like(weir_span name, weir_span lower, bool *ret_exact)
{
	if (name.length < lower.length)
		return false;
	for (size_t i = 0; i < lower.length; i++) {
		char c = name.at[i];
		if (c == '_')
			*ret_exact = false;
		c = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
		if (c != lower.at[i])
			return false;
	}
	return true;
}

/*
 * Whether the name says who asked, or is meant to be taken for one that does. ret_exact: it is spelt as
 * proxies spell it.
 */
static bool tells_client(weir_span name, bool *ret_exact)
{
	static const weir_span whole[] = {WEIR_SPAN("x-real-ip"), WEIR_SPAN("forwarded")};
	*ret_exact = true;
	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
		if (name.length == whole[i].length && is_like(name, whole[i], ret_exact))
			return true;
	*ret_exact = true;
	return is_like(name, WEIR_SPAN("x-forwarded-"), ret_exact);
}

/* "Proxy" becomes HTTP_PROXY in CGI programs, which many take for a setting. */
bool weir_proxy_is_for_proxies(weir_span name)
{
	bool exact;
	return is_like(name, WEIR_SPAN("proxy"), &exact) &&
	       (name.length == 5 || name.at[5] == '-' || name.at[5] == '_');
}

/* What one Weir tells another, or a service. */
static bool is_ours(weir_span name)
{
	static const weir_span ours[] = {WEIR_SPAN("weir-quality"), WEIR_SPAN("weir-class"),
					 WEIR_SPAN("weir-deadline")};
	bool exact;
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (name.length == ours[i].length && is_like(name, ours[i], &exact))
			return true;
	return false;
}

bool weir_proxy_drops(weir_span name, weir_forwarded forwarded)
{
	bool exact;
	if (weir_proxy_is_for_proxies(name))
		return true;
	if (is_ours(name))
		return true;
	return forwarded != WEIR_FORWARDED_OFF && tells_client(name, &exact) &&
	       (forwarded == WEIR_FORWARDED_REPLACE || !exact);
}

/* Clocks differ, so it is told how much time is left. */
char *weir_proxy_put_hop(const weir_request *request, char *to)
{
	uint64_t now_ns = weir_loop_time(request->loop->loop), until_ns = request->event.deadline_ns;
	uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns) / WEIR_NS_PER_MS : 0;
	to += snprintf(to, WEIR_PROXY_HOP, "Weir-Class: %u\r\n", request->klass);
	if (until_ns != 0)
		to += snprintf(to, WEIR_PROXY_HOP / 2, "Weir-Deadline: %u\r\n",
			       left_ms < 999999999 ? (unsigned)left_ms : 999999999u);
	return to;
}

static bool is_usual_option(weir_span option)
{
	return weir_span_is(option, WEIR_SPAN("keep-alive")) || weir_span_is(option, WEIR_SPAN("close")) ||
	       weir_span_is(option, WEIR_SPAN("upgrade"));
}

bool weir_proxy_names_fields(weir_span list)
{
	weir_span option;
	while (weir_list_next(&list, &option))
		if (option.length > 0 && !is_usual_option(option))
			return true;
	return false;
}
