/* SPDX-License-Identifier: Apache-2.0 */
#include "nucleus/fetch.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <weir/base.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "keys/address.h"

#define HEAD_MOST 8192u

int weir_fetch_init(weir_fetch *fetch, const char *url)
{
	static const char scheme[] = "http://";
	char quoted[100];
	const char *host = url + sizeof(scheme) - 1;
	*fetch = (weir_fetch){0};
	weir_text_quote(quoted, sizeof(quoted), url);
	if (strncmp(url, scheme, sizeof(scheme) - 1) != 0 || strpbrk(url, " \r\n\t") != NULL)
		return weir_error_set(-EINVAL, "'%s': write http://ADDRESS:PORT/PATH", quoted);
	size_t length = strcspn(host, "/");
	if (length + 4 > sizeof(fetch->host) || strlen(host + length) >= sizeof(fetch->path))
		return weir_error_set(-EINVAL, "'%s' is too long", quoted);
	snprintf(fetch->host, sizeof(fetch->host), "%.*s", (int)length, host);
	snprintf(fetch->path, sizeof(fetch->path), "%s", host[length] == '/' ? host + length : "/");
	const char *bracket = strrchr(fetch->host, ']');
	if (strchr(bracket != NULL ? bracket : fetch->host, ':') == NULL)
		memcpy(fetch->host + length, ":80", sizeof(":80"));
	return weir_address_read(fetch->host, &fetch->address, &fetch->address_length);
}

/* Waits for the descriptor. 0, or -ETIMEDOUT. */
static int await(int fd, short events, uint64_t until_ns)
{
	struct pollfd wait = {.fd = fd, .events = events};
	for (;;) {
		uint64_t now_ns = weir_clock_ns();
		if (now_ns >= until_ns)
			return -ETIMEDOUT;
		int got = poll(&wait, 1, (int)((until_ns - now_ns) / WEIR_NS_PER_MS) + 1);
		if (got > 0)
			return 0;
		if (got < 0 && errno != EINTR)
			return -errno;
	}
}

static int begin(const weir_fetch *fetch, uint64_t until_ns, int *ret_fd)
{
	const struct sockaddr *to = (const struct sockaddr *)&fetch->address;
	int wrong = 0, fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(wrong);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	if (connect(fd, to, fetch->address_length) == 0)
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	int error = await(fd, POLLOUT, until_ns);
	if (error == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &wrong, &size) != 0)
		return -errno;
	return error != 0 ? error : -wrong;
}

/* A request this small fits into the buffer of a new connection. */
static int send_request(const weir_fetch *fetch, int fd)
{
	char request[sizeof(fetch->path) + sizeof(fetch->host) + 128];
	int length = snprintf(
		request, sizeof(request),
		"GET %s HTTP/1.0\r\nHost: %s\r\nUser-Agent: weir-nucleus\r\nConnection: close\r\n\r\n",
		fetch->path, fetch->host);
	ssize_t sent = send(fd, request, (size_t)length, MSG_NOSIGNAL);
	return sent == length ? 0 : sent < 0 ? -errno : -EPIPE;
}

/* Reads to the end of the connection. */
static int receive(int fd, uint64_t until_ns, char *text, size_t room, size_t *ret_length)
{
	size_t length = 0;
	for (;;) {
		int error = await(fd, POLLIN, until_ns);
		if (error != 0)
			return error;
		ssize_t got = recv(fd, text + length, room - length, 0);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (got < 0)
			return -errno;
		length += (size_t)got;
		if (got > 0 && length == room)
			return -EMSGSIZE;
		if (got == 0) {
			*ret_length = length;
			return 0;
		}
	}
}

static int read_answer(weir_fetched *fetched, size_t length)
{
	char *text = fetched->text, *end;
	text[length] = '\0';
	if (sscanf(text, "HTTP/1.%*1[01] %3u", &fetched->status) != 1 ||
	    (end = memmem(text, length, "\r\n\r\n", 4)) == NULL)
		return -EPROTO;
	end[2] = '\0';
	fetched->body = end + 4;
	fetched->body_length = length - (size_t)(fetched->body - text);
	return 0;
}

int weir_fetch_get(const weir_fetch *fetch, uint64_t timeout_ns, size_t most_bytes, weir_fetched *ret_fetched)
{
	uint64_t now_ns = weir_clock_ns(), until_ns = now_ns + timeout_ns;
	size_t room = most_bytes + HEAD_MOST, length = 0;
	int fd = -1;
	weir_fetched fetched = {.text = malloc(room + 1)};
	int error = fetched.text != NULL ? begin(fetch, until_ns, &fd) : -ENOMEM;
	if (error == 0)
		error = send_request(fetch, fd);
	if (error == 0)
		error = receive(fd, until_ns, fetched.text, room, &length);
	fetched.took_ns = weir_clock_ns() - now_ns;
	if (error == 0)
		error = read_answer(&fetched, length);
	if (fd >= 0)
		close(fd);
	if (error != 0) {
		free(fetched.text);
		return weir_error_set(error, "http://%s%s: %s", fetch->host, fetch->path, strerror(-error));
	}
	*ret_fetched = fetched;
	return 0;
}

void weir_fetched_fini(weir_fetched *fetched)
{
	free(fetched->text);
	*fetched = (weir_fetched){0};
}

const char *weir_fetched_field(const weir_fetched *fetched, const char *name, size_t *ret_length)
{
	size_t length = strlen(name);
	for (const char *line = strstr(fetched->text, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
		line += 2;
		if (strncasecmp(line, name, length) != 0 || line[length] != ':')
			continue;
		line += length + 1;
		line += strspn(line, " \t");
		*ret_length = strcspn(line, "\r");
		return line;
	}
	return NULL;
}
