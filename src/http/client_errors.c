/* SPDX-License-Identifier: Apache-2.0 */
/* What the error log says about clients, and about the room for them. */
#include <errno.h>
#include <string.h>

#include "http/server.h"
#include "tls/tls.h"

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

void weir_http_starved(int error, void *arg)
{
	const weir_http_listener *listener = arg;
	weir_http *http = listener->http;
	bool descriptors = error == -EMFILE || error == -ENFILE;
	weir_http_count(&http->loops[weir_thread_home()]->counts.accept_failures);
	weir_errors_say(http->errors, WEIR_LOG_ERROR, "accept", "connections wait to be accepted: %s%s",
			strerrordesc_np(-error),
			descriptors ? "; raise the limit of open files (LimitNOFILE=, ulimit -n), or lower "
				      "max-connections"
				    : "");
}

/* Clients that just close the connection are many, and nobody has failed. */
void weir_http_tell_tls(const weir_http_conn *conn, int why)
{
	const char *error = conn->link.tls != NULL ? weir_tls_error(&conn->link) : "";
	if (error[0] == '\0')
		return;
	if (why != -ECONNABORTED)
		weir_http_count(&conn->loop->counts.tls_failures);
	weir_http_tell(conn->loop, &conn->client, why != -ECONNABORTED ? WEIR_LOG_WARN : WEIR_LOG_DEBUG,
		       "tls", error);
}
