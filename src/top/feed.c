/* SPDX-License-Identifier: Apache-2.0 */
#include "top/feed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "keys/address.h"

#define READ_BYTES 65536u

/* Reduces "http://127.0.0.1:7777/" to "127.0.0.1:7777". */
static int copy_host(const char *address, char *ret_host, size_t size)
{
	static const char scheme[] = "http://";
	char quoted[100];
	if (strncmp(address, scheme, sizeof(scheme) - 1) == 0)
		address += sizeof(scheme) - 1;
	size_t length = strlen(address);
	if (length > 0 && address[length - 1] == '/')
		length--;
	if (length >= size)
		return weir_error_set(-EINVAL, "'%s' is too long for an address",
				      weir_text_quote(quoted, sizeof(quoted), address));
	memcpy(ret_host, address, length);
	ret_host[length] = '\0';
	return 0;
}

int weir_top_feed_init(weir_top_feed *feed, const char *address, const char *token,
		       weir_top_on_snapshot *on_snapshot, void *arg)
{
	*feed = (weir_top_feed){.fd = -1, .on_snapshot = on_snapshot, .arg = arg};
	int failed = copy_host(address, feed->host, sizeof(feed->host));
	if (failed == 0)
		failed = weir_address_read(feed->host, &feed->address, &feed->address_length);
	if (failed == 0 && token != NULL)
		snprintf(feed->token, sizeof(feed->token), "%s", token);
	return failed;
}

static void forget(weir_top_feed *feed)
{
	if (feed->fd >= 0)
		close(feed->fd);
	feed->fd = -1;
	weir_top_stream_fini(&feed->stream);
}

void weir_top_feed_fini(weir_top_feed *feed)
{
	forget(feed);
}

static void lose(weir_top_feed *feed, const char *why, uint64_t now_ms)
{
	forget(feed);
	feed->state = WEIR_TOP_IDLE;
	feed->until_ms = now_ms + WEIR_TOP_AGAIN_MS;
	snprintf(feed->problem, sizeof(feed->problem), "%s", why);
}

static void begin(weir_top_feed *feed, uint64_t now_ms)
{
	const struct sockaddr *to = (const struct sockaddr *)&feed->address;
	feed->fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (feed->fd < 0 || (connect(feed->fd, to, feed->address_length) != 0 && errno != EINPROGRESS)) {
		lose(feed, strerror(errno), now_ms);
		return;
	}
	feed->state = WEIR_TOP_CONNECTING;
	feed->until_ms = now_ms + WEIR_TOP_SILENCE_MS;
}

/* A request this small fits into the buffer of a new connection. */
static void ask(weir_top_feed *feed, uint64_t now_ms)
{
	char request[512];
	int wrong = 0;
	socklen_t size = sizeof(wrong);
	if (getsockopt(feed->fd, SOL_SOCKET, SO_ERROR, &wrong, &size) != 0 || wrong != 0) {
		lose(feed, strerror(wrong != 0 ? wrong : errno), now_ms);
		return;
	}
	int length =
		snprintf(request, sizeof(request),
			 "GET /api/stream HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n%s%s%s\r\n",
			 weir_address_is_local(feed->host) ? "localhost" : feed->host,
			 feed->token[0] != '\0' ? "Authorization: Bearer " : "", feed->token,
			 feed->token[0] != '\0' ? "\r\n" : "");
	if (length >= (int)sizeof(request) ||
	    send(feed->fd, request, (size_t)length, MSG_NOSIGNAL) != (ssize_t)length) {
		lose(feed, "it does not take the request", now_ms);
		return;
	}
	feed->state = WEIR_TOP_READING;
	feed->until_ms = now_ms + WEIR_TOP_SILENCE_MS;
}

static void take_event(const char *data, size_t length, void *arg)
{
	weir_top_feed *feed = arg;
	json_t *snapshot = json_loadb(data, length, 0, NULL);
	if (snapshot == NULL)
		return; /* a snapshot that is not JSON is ignored */
	feed->snapshots++;
	feed->problem[0] = '\0';
	feed->on_snapshot(snapshot, feed->arg);
}

static void read_some(weir_top_feed *feed, uint64_t now_ms)
{
	char bytes[READ_BYTES];
	ssize_t got = recv(feed->fd, bytes, sizeof(bytes), 0);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		lose(feed, got == 0 ? "it ended the connection" : strerror(errno), now_ms);
		return;
	}
	feed->until_ms = now_ms + WEIR_TOP_SILENCE_MS;
	if (weir_top_stream_take(&feed->stream, bytes, (size_t)got, take_event, feed) != 0)
		lose(feed, weir_error(), now_ms);
}

int weir_top_feed_wait(const weir_top_feed *feed, uint64_t now_ms, struct pollfd *ret_poll)
{
	*ret_poll = (struct pollfd){.fd = feed->fd,
				    .events = feed->state == WEIR_TOP_CONNECTING ? POLLOUT : POLLIN};
	return feed->until_ms > now_ms ? (int)(feed->until_ms - now_ms) : 0;
}

void weir_top_feed_turn(weir_top_feed *feed, short revents, uint64_t now_ms)
{
	if (feed->state == WEIR_TOP_IDLE && now_ms >= feed->until_ms)
		begin(feed, now_ms);
	else if (feed->state == WEIR_TOP_CONNECTING && revents != 0)
		ask(feed, now_ms);
	else if (feed->state == WEIR_TOP_READING && revents != 0)
		read_some(feed, now_ms);
	else if (feed->state != WEIR_TOP_IDLE && now_ms >= feed->until_ms)
		lose(feed, "it does not answer", now_ms);
}
