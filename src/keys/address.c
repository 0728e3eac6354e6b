/* SPDX-License-Identifier: Apache-2.0 */
#include "keys/address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

#define QUOTE_BYTES 64

bool weir_address_split(const char *text, char *host, size_t size, uint16_t *ret_port)
{
	uint32_t port;
	const char *colon = strrchr(text, ':'), *end = colon;
	if (colon == NULL || weir_text_count(colon + 1, &port) != 0 || port > 65535 || colon[1] == ' ')
		return false;
	if (*text == '[') {
		if (end == text + 1 || end[-1] != ']')
			return false;
		text++;
		end--;
	} else if (strchr(text, ':') != colon) {
		return false; /* an IPv6 address without brackets is ambiguous */
	}
	if ((size_t)(end - text) >= size)
		return false;
	memcpy(host, text, (size_t)(end - text));
	host[end - text] = '\0';
	*ret_port = (uint16_t)port;
	return true;
}

/*
 * "*": all addresses, of IPv6 and with it of IPv4. Of IPv4 alone where there is no IPv6, or where the system keeps
 * them apart (net.ipv6.bindv6only).
 */
static const char *any_address(void)
{
	int apart = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t length = sizeof(apart);
	if (fd < 0)
		return "0.0.0.0";
	if (getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &apart, &length) != 0)
		apart = 1;
	close(fd);
	return apart ? "0.0.0.0" : "::";
}

bool weir_address_is_local(const char *text)
{
	return strncmp(text, WEIR_ADDRESS_LOCAL, strlen(WEIR_ADDRESS_LOCAL)) == 0;
}

int weir_address_read_local(const char *text, struct sockaddr_storage *ret_address, socklen_t *ret_length)
{
	struct sockaddr_un local = {.sun_family = AF_UNIX};
	char quoted[QUOTE_BYTES];
	const char *path = text + strlen(WEIR_ADDRESS_LOCAL);
	size_t length = strlen(path);
	weir_text_quote(quoted, sizeof(quoted), text);
	if (path[0] != '/' || length >= sizeof(local.sun_path))
		return weir_error_set(-EINVAL, "'%s': write unix:/PATH, with a path of at most %zu bytes",
				      quoted, sizeof(local.sun_path) - 1);
	for (const char *at = path; *at != '\0'; at++)
		if (*at <= ' ' || *at > '~' || *at == '"' || *at == '\\')
			return weir_error_set(-EINVAL, "'%s': write a path without spaces and quotes",
					      quoted);
	memcpy(local.sun_path, path, length);
	memset(ret_address, 0, sizeof(*ret_address));
	memcpy(ret_address, &local, sizeof(local));
	*ret_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
	return 0;
}

int weir_address_read(const char *text, struct sockaddr_storage *ret_address, socklen_t *ret_length)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
				 .ai_socktype = SOCK_STREAM},
			*found;
	char host[64], port_text[8], quoted[QUOTE_BYTES], quoted_host[QUOTE_BYTES];
	uint16_t port;
	if (weir_address_is_local(text))
		return weir_address_read_local(text, ret_address, ret_length);
	weir_text_quote(quoted, sizeof(quoted), text);
	if (!weir_address_split(text, host, sizeof(host), &port))
		return weir_error_set(
			-EINVAL,
			"'%s': write an address and a port: 127.0.0.1:8080, [::1]:8080, *:8080; or "
			"unix:/PATH",
			quoted);
	snprintf(port_text, sizeof(port_text), "%u", port);
	bool any = host[0] == '\0' || strcmp(host, "*") == 0;
	const char *numeric = any ? any_address() : strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
	if (getaddrinfo(numeric, port_text, &hints, &found) != 0)
		return weir_error_set(
			-EINVAL,
			"'%s': '%s' is no address; names are not looked up, write 127.0.0.1, ::1 or *",
			quoted, weir_text_quote(quoted_host, sizeof(quoted_host), host));
	memset(ret_address, 0, sizeof(*ret_address));
	memcpy(ret_address, found->ai_addr, found->ai_addrlen);
	*ret_length = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}
