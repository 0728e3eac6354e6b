/* SPDX-License-Identifier: Apache-2.0 */
/* Where nuclei are: patterns with the server's host and port, and the parts of a URL. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "sentry/nuclei.h"

/* Adds bytes; false: there is no room. */
static bool append(char *text, size_t size, size_t *at, weir_span bytes)
{
	if (bytes.length >= size - *at)
		return false;
	memcpy(text + *at, bytes.at, bytes.length);
	*at += bytes.length;
	text[*at] = '\0';
	return true;
}

/* "host:port" as two parts; an IPv6 address keeps its brackets. The port may be empty. */
static void split_server(weir_span server, weir_span *ret_host, weir_span *ret_port)
{
	const char *colon = memrchr(server.at, ':', server.length),
		   *bracket = memrchr(server.at, ']', server.length);
	if (colon != NULL && bracket != NULL && colon < bracket)
		colon = NULL;
	size_t host = colon != NULL ? (size_t)(colon - server.at) : server.length;
	*ret_host = (weir_span){server.at, host};
	*ret_port = colon != NULL ? (weir_span){colon + 1, server.length - host - 1} : (weir_span){"", 0};
}

int weir_nuclei_url(const char *pattern, weir_span server, char *ret_url, size_t size)
{
	weir_span host, port;
	size_t at = 0;
	bool fits = true;
	split_server(server, &host, &port);
	ret_url[0] = '\0';
	while (*pattern != '\0' && fits) {
		size_t plain = strcspn(pattern, "{");
		bool is_host = strncmp(pattern + plain, "{host}", 6) == 0,
		     is_port = strncmp(pattern + plain, "{port}", 6) == 0 && port.length > 0;
		if (pattern[plain] != '\0' && !is_host && !is_port)
			return weir_error_set(-EINVAL, "between { and } there can be host, or port if the "
						       "server has one");
		fits = append(ret_url, size, &at, (weir_span){pattern, plain});
		pattern += plain + (is_host || is_port ? 6 : 0);
		if (fits && (is_host || is_port))
			fits = append(ret_url, size, &at, is_host ? host : port);
	}
	return fits ? 0 : weir_error_set(-EINVAL, "a nucleus' URL is too long");
}

int weir_nuclei_split(const char *url, char *ret_address, size_t address_size, char *ret_path,
		      size_t path_size)
{
	char quoted[100];
	size_t scheme = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
	size_t host = strcspn(url + scheme, "/");
	const char *path = url + scheme + host;
	if (*path == '\0')
		path = "/nucleus";
	if (scheme == 0 || host == 0 || scheme + host >= address_size || strlen(path) >= path_size ||
	    strpbrk(url, " \r\n\t#") != NULL)
		return weir_error_set(-EINVAL, "'%s': write http://HOST:PORT/nucleus",
				      weir_text_quote(quoted, sizeof(quoted), url));
	snprintf(ret_address, address_size, "%.*s", (int)(scheme + host), url);
	snprintf(ret_path, path_size, "%s", path);
	return 0;
}
