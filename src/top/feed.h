/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TOP_FEED_H
#define WEIR_TOP_FEED_H

/*
 * Snapshots from an admin listener: a small HTTP client that reads server-sent events and never blocks,
 * so that the terminal stays responsive while nobody answers.
 *
 *  IDLE ──(it is time)──▶ CONNECTING ──(connected, asked)──▶ READING ──(end, silence, nonsense)──▶ IDLE
 *
 * Bounds: a head of WEIR_TOP_HEAD_BYTES, an event of WEIR_TOP_EVENT_BYTES, WEIR_TOP_SILENCE_MS without a
 * byte. Whatever the peer sends, the worst consequence is the end of the connection.
 *
 * Threads: one.
 */

#include <jansson.h>
#include <poll.h>
#include <sys/socket.h>

#include "http/parse.h"

#define WEIR_TOP_HEAD_BYTES  16384u
#define WEIR_TOP_FIELDS      64u
#define WEIR_TOP_EVENT_BYTES (8u << 20)
#define WEIR_TOP_SILENCE_MS  10000u
#define WEIR_TOP_AGAIN_MS    1000u

/* Called with the text of each event named "snapshot", which is valid until the call returns. */
typedef void weir_top_on_event(const char *data, size_t length, void *arg);

/* An answer as it arrives: its head, then events. All zero at the beginning. */
typedef struct weir_top_stream {
	bool has_head;
	bool chunked;
	weir_head head;
	weir_head_field fields[WEIR_TOP_FIELDS];
	weir_chunks chunks;
	char *bytes; /* the head, then the current event */
	size_t length, room;
} weir_top_stream;

/*
 * Takes the next bytes. 0; -ENODATA: the answer is over; other negative codes: it is no such stream, with
 * weir_error.
 */
int weir_top_stream_take(weir_top_stream *stream, const char *bytes, size_t length,
			 weir_top_on_event *on_event, void *arg);
void weir_top_stream_fini(weir_top_stream *stream);

/* Called with each snapshot, which the callee then owns. */
typedef void weir_top_on_snapshot(json_t *snapshot, void *arg);

typedef enum weir_top_state { WEIR_TOP_IDLE, WEIR_TOP_CONNECTING, WEIR_TOP_READING } weir_top_state;

typedef struct weir_top_feed {
	/* const */
	struct sockaddr_storage address;
	socklen_t address_length;
	char host[128];
	char token[256]; /* "": none */
	weir_top_on_snapshot *on_snapshot;
	void *arg;
	/* state */
	weir_top_state state;
	int fd;
	uint64_t until_ms; /* IDLE: when to try; else: when to give up */
	weir_top_stream stream;
	uint64_t snapshots;
	char problem[200]; /* why it is not READING; "": no problem so far */
} weir_top_feed;

/*
 * "127.0.0.1:7777", "[::1]:7777", "localhost:7777", with or without "http://" and "/". token may be NULL.
 * 0, or -EINVAL with weir_error.
 */
int weir_top_feed_init(weir_top_feed *feed, const char *address, const char *token,
		       weir_top_on_snapshot *on_snapshot, void *arg);
void weir_top_feed_fini(weir_top_feed *feed);
/* What to wait for (fd -1: nothing), and for how many milliseconds at most. */
int weir_top_feed_wait(const weir_top_feed *feed, uint64_t now_ms, struct pollfd *ret_poll);
/* Does what can be done now; revents: the result of poll for its descriptor. */
void weir_top_feed_turn(weir_top_feed *feed, short revents, uint64_t now_ms);

#endif
