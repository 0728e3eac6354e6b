/* SPDX-License-Identifier: Apache-2.0 */
#include "load/place.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

/* ---- URLs ---- */

static int bad_url(const char *url, const char *what)
{
	char quoted[120];
	return weir_error_set(-EINVAL, "'%s': %s; a URL is http://HOST[:PORT][/PATH]",
			      weir_text_quote(quoted, sizeof(quoted), url), what);
}

static bool skip(const char **at, const char *word)
{
	size_t length = strlen(word);
	if (strncasecmp(*at, word, length) != 0)
		return false;
	*at += length;
	return true;
}

/* "host:port", "[::1]:port", "host": finds where the host ends and the port begins (NULL: none). */
static int split_authority(const char *url, const char *at, const char *end, load_place *place)
{
	const char *host = at, *host_end, *port = NULL;
	if (at < end && *at == '[') {
		host = at + 1;
		host_end = memchr(host, ']', (size_t)(end - host));
		if (host_end == NULL)
			return bad_url(url, "']' is missing");
		if (host_end + 1 < end && host_end[1] != ':')
			return bad_url(url, "after ']' comes ':' and a port, or nothing");
		port = host_end + 1 < end ? host_end + 2 : NULL;
	} else {
		host_end = memchr(at, ':', (size_t)(end - at));
		port = host_end != NULL ? host_end + 1 : NULL;
		host_end = host_end != NULL ? host_end : end;
	}
	size_t length = (size_t)(host_end - host);
	if (length == 0)
		return bad_url(url, "there is no host in it");
	if (length >= sizeof(place->host))
		return bad_url(url, "the host's name is longer than 255 characters");
	memcpy(place->host, host, length);
	place->host[length] = '\0';
	snprintf(place->port, sizeof(place->port), "%s", place->secure ? "443" : "80");
	if (port == NULL)
		return 0;
	length = (size_t)(end - port);
	uint32_t number = 0;
	if (length < sizeof(place->port)) {
		memcpy(place->port, port, length);
		place->port[length] = '\0';
	}
	if (length >= sizeof(place->port) || weir_text_count(place->port, &number) != 0 || number == 0 ||
	    number > 65535)
		return bad_url(url, "the port is a number from 1 to 65535");
	return 0;
}

static void print_authority(load_place *place)
{
	bool usual = strcmp(place->port, place->secure ? "443" : "80") == 0;
	bool brackets = strchr(place->host, ':') != NULL;
	snprintf(place->authority, sizeof(place->authority), "%s%s%s%s%s", brackets ? "[" : "", place->host,
		 brackets ? "]" : "", usual ? "" : ":", usual ? "" : place->port);
	snprintf(place->origin, sizeof(place->origin), "%s://%s", place->secure ? "https" : "http",
		 place->authority);
}

int load_place_parse(const char *url, load_place *ret)
{
	load_place place = {0};
	const char *at = url;
	place.secure = skip(&at, "https://");
	bool has_scheme = place.secure || skip(&at, "http://");
	const char *end = at + strcspn(at, "/?#");
	if (!has_scheme && end > at && end[-1] == ':' && end[0] == '/' && end[1] == '/')
		return bad_url(url, "only http and https are spoken");
	for (const char *c = url; *c != '\0'; c++)
		if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f)
			return bad_url(url, "it has bytes that a URL cannot have");
	if (memchr(at, '@', (size_t)(end - at)) != NULL)
		return bad_url(url, "user names are not supported; use --header 'Authorization: ...'");
	int error = split_authority(url, at, end, &place);
	if (error != 0)
		return error;
	if (*end == '?')
		return bad_url(url, "a path begins with '/'");
	place.target = (weir_span){end, strcspn(end, "#")};
	print_authority(&place);
	*ret = place;
	return 0;
}

/* ---- addresses ---- */

static int try_connect(const struct addrinfo *info, unsigned timeout_ms)
{
	int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	int error = connect(fd, info->ai_addr, info->ai_addrlen) == 0 ? 0 : errno;
	if (error == EINPROGRESS) {
		struct pollfd ready = {.fd = fd, .events = POLLOUT};
		socklen_t length = sizeof(error);
		if (poll(&ready, 1, (int)timeout_ms) != 1)
			error = ETIMEDOUT;
		else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
			error = errno;
	}
	close(fd);
	return -error;
}

int load_place_reach(load_place *place, unsigned timeout_ms)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	int code = getaddrinfo(place->host, place->port, &hints, &found), error = -EHOSTUNREACH;
	if (code != 0)
		return weir_error_set(-EHOSTUNREACH, "%s: %s", place->host, gai_strerror(code));
	for (const struct addrinfo *info = found; info != NULL && error != 0; info = info->ai_next) {
		error = try_connect(info, timeout_ms);
		if (error == 0) {
			memcpy(&place->address.at, info->ai_addr, info->ai_addrlen);
			place->address.length = info->ai_addrlen;
		}
	}
	freeaddrinfo(found);
	if (error != 0)
		return weir_error_set(error, "cannot connect to %s: %s", place->origin, strerror(-error));
	return 0;
}

/* ---- local addresses ---- */

static int bad_source(const char *text)
{
	char quoted[80];
	return weir_error_set(-EINVAL, "'%s' is no address, nor two of IPv4 as FIRST-LAST",
			      weir_text_quote(quoted, sizeof(quoted), text));
}

static int read_address(const char *text, load_address *ret)
{
	struct sockaddr_in *four = (struct sockaddr_in *)(void *)&ret->at;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)&ret->at;
	*ret = (load_address){0};
	if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		ret->length = sizeof(*four);
		return 0;
	}
	if (inet_pton(AF_INET6, text, &six->sin6_addr) != 1)
		return -EINVAL;
	six->sin6_family = AF_INET6;
	ret->length = sizeof(*six);
	return 0;
}

static uint32_t number_of(const load_address *address)
{
	return ntohl(((const struct sockaddr_in *)(const void *)&address->at)->sin_addr.s_addr);
}

/* Returns how many. */
static int read_range(char *text, load_address *ret, unsigned most)
{
	load_address last;
	char *dash = strchr(text, '-');
	if (dash == NULL)
		return most > 0 && read_address(text, ret) == 0 ? 1 : bad_source(text);
	*dash = '\0';
	if (most == 0 || read_address(text, ret) != 0 || read_address(dash + 1, &last) != 0 ||
	    ret->at.ss_family != AF_INET || last.at.ss_family != AF_INET)
		return bad_source(text);
	uint32_t from = number_of(ret), to = number_of(&last);
	if (to < from || to - from >= most)
		return weir_error_set(-EINVAL, "from %s to %s are not 1 to %u addresses", text, dash + 1,
				      most);
	for (uint32_t i = 1; i <= to - from; i++) {
		ret[i] = ret[0];
		((struct sockaddr_in *)(void *)&ret[i].at)->sin_addr.s_addr = htonl(from + i);
	}
	return (int)(to - from + 1);
}

int load_sources_parse(const char *text, load_address *ret, unsigned most)
{
	char copy[4096], *rest;
	unsigned count = 0;
	if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
		return weir_error_set(-EINVAL, "that are too many addresses");
	for (char *part = strtok_r(copy, ", ", &rest); part != NULL; part = strtok_r(NULL, ", ", &rest)) {
		int more = read_range(part, ret + count, most - count);
		if (more < 0)
			return more;
		count += (unsigned)more;
	}
	return count > 0 ? (int)count : bad_source(text);
}

static int check_source(const load_address *source, int family)
{
	char text[INET6_ADDRSTRLEN] = "";
	const void *number =
		source->at.ss_family == AF_INET
			? (const void *)&((const struct sockaddr_in *)(const void *)&source->at)->sin_addr
			: &((const struct sockaddr_in6 *)(const void *)&source->at)->sin6_addr;
	inet_ntop(source->at.ss_family, number, text, sizeof(text));
	if (source->at.ss_family != family)
		return weir_error_set(-EINVAL, "%s is of another family than the address of the service",
				      text);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int error = fd < 0 || bind(fd, (const struct sockaddr *)&source->at, source->length) != 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	return error == 0 ? 0 : weir_error_set(-EINVAL, "%s: %s", text, strerror(error));
}

int load_sources_check(const load_address *sources, unsigned count, const load_place *place)
{
	int error = 0;
	for (unsigned i = 0; i < count && error == 0; i++)
		error = check_source(&sources[i], place->address.at.ss_family);
	return error;
}
