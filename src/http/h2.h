/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H2_H
#define WEIR_HTTP_H2_H

/*
 * HTTP/2 on a connection. nghttp2 does frames, header compression, windows and the order of sending (RFC
 * 9113, 7541, 9218). It does no I/O and knows no requests. This module connects its session to the link, and
 * its streams to requests:
 *
 *	link ──data──▶ nghttp2_session_mem_recv ──callbacks──▶ h2_head.c, h2_body.c ──▶ request.c
 *	link ◀──pump── nghttp2_session_mem_send ◀──asks for bytes── h2_output.c ◀── h2_write.c ◀── answer.c
 *
 * A stream
 *
 *	HEAD ──END_HEADERS──▶ made ──▶ body: taken, or held while nobody reads ──END_STREAM──▶
 *	                        └──▶ answer: parts wait in the stream until nghttp2 takes them, as windows,
 *	                             priorities and the link allow ──END_STREAM──▶ closed
 *
 * Invariants
 *	1. nghttp2 is never re-entered. What its callbacks and handlers produce is sent when mem_recv has
 *	   returned (INSIDE), or by later at the end of the turn.
 *	2. A stream lives from its HEADERS to nghttp2's on_stream_close. Its request may end earlier (request
 *	   is NULL) or later (GONE).
 *	3. An answer has ended when its last byte was handed to the link. Until then the request stays, since
 *	   parts may point into its memory. Complete or ended answers are REST meanwhile, so that nobody is
 *	   told if the client leaves.
 *	4. Windows are given back only for bytes that were taken or will never be. So the connection's window
 *	   bounds what is held for streams that nobody reads.
 *	5. The link gets at most half of its bound. The rest waits in the streams, where it is bounded per
 *	   stream and in total, and where priorities apply. While the link is full nothing is read.
 *	6. While connections take turns to send (net/transmit.h), the link gets little ahead, and of streams
 *	   with data only the first in the order is shown to nghttp2: the others are HELD.
 *	7. doom is set once. Then nothing more is read, GOAWAY tells why, and the connection closes.
 *
 * Threads: the connection's.
 */

#include <nghttp2/nghttp2.h>

#include "http/h2_guard.h"
#include "http/h2_past.h"
#include "http/server.h"

/* Most bytes held for all streams of a connection together while nobody reads them. */
#define WEIR_H2_WINDOW 1048576
/* What a client may send on a stream before somebody reads it, and after. */
#define WEIR_H2_STREAM_WINDOW 65535
#define WEIR_H2_READ_WINDOW   262144
/* An unwanted body is read up to this size. Beyond it, a reset is cheaper. */
#define WEIR_H2_DRAIN_BYTES 65536u
/* Output of all streams together. Beyond it each stream may have only OUTPUT_LITTLE. */
#define WEIR_H2_OUTPUT        1048576u
#define WEIR_H2_OUTPUT_LITTLE 16384u

typedef struct weir_h2 weir_h2;

/* A file that the link's output or a stream still needs. */
typedef struct weir_h2_file {
	uint32_t refs;
	int fd;
	void (*over)(void *arg);
	void *over_arg;
} weir_h2_file;

/* Bytes of an answer: in a buffer, in a file, or in memory that lives long enough. */
typedef struct weir_h2_part {
	struct weir_h2_part *next;
	weir_buf *buf;
	weir_h2_file *file;
	const char *bytes;
	uint64_t offset, length;
	bool own; /* the buffer is our own, and writes may be appended */
} weir_h2_part;

enum weir_h2_stream_flag {
	WEIR_H2_HEAD = 1 << 0,       /* its head is incomplete */
	WEIR_H2_RECEIVED = 1 << 1,   /* the client has sent END_STREAM */
	WEIR_H2_ANSWERED = 1 << 2,   /* nghttp2 has the head of the answer */
	WEIR_H2_WHOLE = 1 << 3,      /* no more parts will be added */
	WEIR_H2_DEFERRED = 1 << 4,   /* nghttp2 knows that there is nothing to send */
	WEIR_H2_OWED = 1 << 5,       /* drained will be called when there is room */
	WEIR_H2_DUE = 1 << 6,        /* drained is due now: the stream is in h2->due */
	WEIR_H2_DELIVERING = 1 << 7, /* held bytes are being passed to the handler */
	WEIR_H2_RESET = 1 << 8,      /* nghttp2 has the RST_STREAM */
	WEIR_H2_TRAILED = 1 << 9,    /* trailers are arriving */
	WEIR_H2_COUNTS = 1 << 10,    /* bytes sent are counted here, not in answer.c */
	WEIR_H2_LINGERS = 1 << 11,   /* answered; the rest of the body is discarded */
	WEIR_H2_HELD = 1 << 12,      /* DEFERRED although it has data: another stream goes first */
};

typedef struct weir_h2_stream {
	weir_h2 *h2;
	weir_request *request; /* NULL: ended or gone */
	struct weir_h2_stream *next, **prev;
	struct weir_h2_stream *next_due;
	int32_t id;
	uint16_t flags;
	uint8_t urgency; /* 0 is the highest; noted if there is an order of sending */

	/*
	 * the head while it arrives: request->base has head_room bytes, head_bytes of them in use.
	 * head_weight is the size that the head would have in HTTP/1.
	 */
	uint16_t status; /* for a malformed head */
	const char *error;
	uint32_t head_room, head_bytes, head_weight;

	/* the body */
	weir_buf *held; /* bytes that nobody has taken, from held_at on */
	uint32_t held_at, drain_left;
	uint64_t body_ns; /* when bytes last arrived, or were wanted */

	/* the answer */
	weir_h2_part *first, *last; /* last is valid if there is a first */
	size_t output;              /* bytes of parts in memory */
	uint64_t progress_ns;       /* when something was last sent, or began to wait */
	const nghttp2_nv *trailers; /* in the request's memory */
	size_t trailer_count;
} weir_h2_stream;

enum weir_h2_flag {
	WEIR_H2_INSIDE = 1 << 0,  /* nghttp2 is running */
	WEIR_H2_CLOSED = 1 << 1,  /* the link was closed or aborted by us */
	WEIR_H2_GREETED = 1 << 2, /* the client's SETTINGS arrived */
	WEIR_H2_ACKED = 1 << 3,   /* the client has acknowledged our settings */
	WEIR_H2_NOTICE = 1 << 4,  /* a first GOAWAY has announced the end */
	/* the final GOAWAY is on its way: closes when there are no streams */
	WEIR_H2_LAST = 1 << 5,
	WEIR_H2_STOPPED = 1 << 6,    /* reading is paused: the link is full */
	WEIR_H2_BLOCK = 1 << 7,      /* a header block is arriving */
	WEIR_H2_BLOCK_LAST = 1 << 8, /* its last frame has begun */
};

struct weir_h2 {
	weir_http_conn *conn;
	nghttp2_session *session;
	weir_h2_stream *streams, *due;
	uint32_t stream_count;
	int32_t block_id; /* the stream of the header block */
	uint16_t flags;
	uint32_t doom; /* nghttp2_error_code */
	const char *doom_why;
	weir_buf *in;  /* what nghttp2 is reading */
	size_t output; /* of all streams */
	uint64_t began_ns, idle_ns, block_ns, notice_ns;
	weir_h2_guard guard;
	weir_h2_past past;
};

extern const weir_codec weir_h2_codec;
extern const weir_link_ops weir_h2_link_ops;
extern const weir_protocol weir_h2_protocol;

static inline weir_h2 *weir_h2_of(const weir_http_conn *conn)
{
	return conn->session;
}

static inline uint64_t weir_h2_now(const weir_h2 *h2)
{
	return weir_loop_time(h2->conn->loop->loop);
}

/* ---- h2.c: the connection ---- */

/* Sends what nghttp2 has, at once or when nghttp2 is not running. */
void weir_h2_go_on(weir_h2 *h2);
/* Sends now as much as the link takes. */
void weir_h2_flush(weir_h2 *h2);
/* Ends the connection, because the peer misbehaves. */
void weir_h2_set_doom(weir_h2 *h2, uint32_t code, const char *why);
/* Makes sure that the timer fires no later than ns after from_ns. */
void weir_h2_arm(weir_h2 *h2, uint64_t from_ns, uint64_t ns);
/* Takes no new streams: announces the end, or names the last stream. */
void weir_h2_leave(weir_h2 *h2);

/* ---- h2_stream.c: streams, and nghttp2's callbacks about them ---- */

/* nghttp2's callbacks; NULL: out of memory. */
nghttp2_session_callbacks *weir_h2_callbacks_new(void);
/* Ends the exchange; its request, if any, is told that the client has gone. */
void weir_h2_stream_lose(weir_h2_stream *stream, uint32_t code, const char *error);
/* Sends RST_STREAM, at most once. */
void weir_h2_stream_reset(weir_h2_stream *stream, uint32_t code);
/* Frees it without telling nghttp2: the connection is over. */
void weir_h2_stream_free(weir_h2_stream *stream, const char *error);
/* codec->over */
void weir_h2_over(weir_request *request);

/* ---- h2_head.c ---- */

/* A field of the head, or of the trailers. */
void weir_h2_head_field(weir_h2_stream *stream, weir_span name, weir_span value);
/* The head is complete: makes the request, or answers that it is malformed. */
void weir_h2_head_end(weir_h2_stream *stream, bool last);
void weir_h2_trailers_begin(weir_h2_stream *stream);
/* false: they were malformed, and the stream has been dealt with. */
bool weir_h2_trailers_end(weir_h2_stream *stream);

/* ---- h2_body.c ---- */

void weir_h2_body_data(weir_h2_stream *stream, const uint8_t *bytes, size_t length);
/* END_STREAM has arrived. */
void weir_h2_body_end(weir_h2_stream *stream);
/* Discards held bytes. */
void weir_h2_body_drop(weir_h2_stream *stream);
/* The answer is out but the body is not: reads it away, or resets the stream. */
void weir_h2_body_linger(weir_h2_stream *stream, uint64_t left);
/* codec->want */
void weir_h2_want(weir_request *request);
/* The body or its trailers are malformed, late, or too large. */
void weir_h2_body_is_bad(weir_h2_stream *stream, unsigned status, uint32_t code, const char *error);
/* When the body will be late; UINT64_MAX: nobody waits for it. */
uint64_t weir_h2_body_deadline(const weir_h2_stream *stream);

/* ---- h2_write.c ---- */

/* Answers malformed input; the text is static. */
void weir_h2_write_error(weir_h2_stream *stream, unsigned status, const char *why);
int weir_h2_write_continue(weir_h2_stream *stream);
/* END_STREAM was sent. */
void weir_h2_sent(weir_h2_stream *stream);

/* ---- h2_order.c: which stream is next, while the connection sends in its turn ---- */

/* The link has as much data as it should have while it waits for its turn. Other frames do not count. */
bool weir_h2_is_ahead(const weir_h2 *h2);
/* nghttp2 asks for data of this stream. true: it is not its turn. */
bool weir_h2_hold(weir_h2_stream *stream);
/* nghttp2 has nothing to send. true: a stream that was held is next, and nghttp2 has been told. */
bool weir_h2_release(weir_h2 *h2);
/* Whether it is up to us, not to the client, that it makes no progress. */
bool weir_h2_is_held(const weir_h2_stream *stream);
/* The value of a priority field, or of PRIORITY_UPDATE. */
void weir_h2_note_urgency(weir_h2_stream *stream, const char *text, size_t length);
/* weir_link_ops.left */
void weir_h2_left(weir_link *link, weir_conn_left *left);

/* ---- h2_output.c ---- */

/* Bodies up to this size are copied rather than sent as a segment of their own. */
#define WEIR_H2_SMALL_BODY 2048u

/* Adds the parts of a complete answer. 0 or -ENOMEM, as for all weir_h2_add functions. */
int weir_h2_add_body(weir_h2_stream *stream, weir_request *request, const weir_answer *answer);
int weir_h2_add_copy(weir_h2_stream *stream, const void *bytes, size_t length);
/* Takes a reference. */
int weir_h2_add_buf(weir_h2_stream *stream, weir_buf *buf, size_t offset, size_t length);
/* The text is static. */
int weir_h2_add_text(weir_h2_stream *stream, const char *text, size_t length);
/* Whether length more bytes may wait; if false, drained will be called. */
bool weir_h2_has_room(weir_h2_stream *stream, size_t length);
/* After one of the above: tells nghttp2, unless there was an error. Returns error. */
int weir_h2_part_added(weir_h2_stream *stream, int error);
/* Tells nghttp2 that there is more to send, or the end. */
void weir_h2_awake(weir_h2_stream *stream);
/* nghttp2's callback: how much there is to send. */
ssize_t weir_h2_read_body(nghttp2_session *session, int32_t id, uint8_t *into, size_t length, uint32_t *flags,
			  nghttp2_data_source *source, void *user);
/* nghttp2's callback: passes a DATA frame, header first, to the link. */
int weir_h2_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *header, size_t length,
		      nghttp2_data_source *source, void *user);
/* Calls drained where it is due; false: nowhere. */
bool weir_h2_run_due(weir_h2 *h2);
void weir_h2_free_parts(weir_h2_stream *stream);

#endif
