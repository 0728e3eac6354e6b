/* SPDX-License-Identifier: Apache-2.0 */
/* What the error log says about clients. */
#include "http/server.h"

void weir_http_set_transmit(weir_http *http, struct weir_transmit *transmit)
{
	http->transmit = transmit;
}

void weir_http_set_errors(weir_http *http, weir_errors *errors)
{
	http->errors = errors;
}

void weir_http_tell(const weir_http_loop *loop, const weir_client *client, weir_log_level level,
		    const char *kind, const char *what)
{
	char text[64];
	const weir_http *http = loop->http;
	if (http == NULL || !weir_errors_hears(http->errors, level))
		return;
	weir_log_print_address(text, &client->any);
	weir_errors_say(http->errors, level, kind, "%s: %s", text, what);
}

void weir_http_tell_refused(const weir_http_loop *loop, const weir_client *client, unsigned status,
			    const char *what)
{
	char text[64];
	const weir_http *http = loop->http;
	if (http == NULL || !weir_errors_hears(http->errors, WEIR_LOG_DEBUG))
		return;
	weir_log_print_address(text, &client->any);
	if (status != 0)
		weir_errors_say(http->errors, WEIR_LOG_DEBUG, "request", "%s: %s: answered with %u", text,
				what, status);
	else
		weir_errors_say(http->errors, WEIR_LOG_DEBUG, "request", "%s: %s", text, what);
}
