/* SPDX-License-Identifier: Apache-2.0 */
/* Names of fields that a client may not pass to a backend, in any spelling. */
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

bool weir_proxy_drops(weir_span name, weir_forwarded forwarded)
{
	bool exact;
	if (weir_proxy_is_for_proxies(name))
		return true;
	if (name.length == 12 && is_like(name, WEIR_SPAN("weir-quality"), &exact))
		return true;
	return forwarded != WEIR_FORWARDED_OFF && tells_client(name, &exact) &&
	       (forwarded == WEIR_FORWARDED_REPLACE || !exact);
}
