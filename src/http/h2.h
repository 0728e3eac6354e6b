/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H2_H
#define WEIR_HTTP_H2_H

/*
 * HTTP/2 on a connection, with nghttp2 for frames, header compression, windows and the order of what is sent (RFC 9113, 7541, 9218). nghttp2 does no I/O and knows no
 * requests; what is here is between its session and the link on one side, and its streams and requests on the other:
 *
 *	link ──data──▶ nghttp2_session_mem_recv ──callbacks──▶ h2_head.c, h2_body.c ──▶ request.c
 *	link ◀──pump── nghttp2_session_mem_send ◀──asks for bytes── h2_output.c ◀── weir_h2_codec (h2_write.c) ◀── answer.c
 *
 * A stream
 *
 *	HEAD ──END_HEADERS──▶ made ──▶ body: taken, or held while nobody reads ──END_STREAM──▶
 *	                        └──▶ answer: parts wait in the stream; nghttp2 takes them as windows, priorities and the link allow ──END_STREAM──▶ closed
 *
 * Invariants
 *	1. nghttp2 is never entered twice: what its callbacks and handlers make possible is sent when mem_recv has returned (inside), or by later at the end of the turn.
 *	2. A stream lives from its HEADERS to nghttp2's on_stream_close. Its request may be over before (request NULL) or after (gone).
 *	3. An answer has ended when its last byte was handed to the link. Until then the request stays, since parts may be bytes of its memory; whole or
 *	   ended answers are REST meanwhile, so that nobody is told when the client leaves.
 *	4. Windows are given back only for bytes that somebody took, or that nobody will. So what is held for streams that nobody reads is bounded by the connection's window.
 *	5. The link gets at most half of its bound; everything else waits in streams, where it is bounded for each and together, and where priorities count.
 *	   While the link is full nothing is read.
 *	6. doom is said once: then no byte is read any more, GOAWAY tells why, and the connection closes.
 *
 * Threads: the connection's.
 */

#include <nghttp2/nghttp2.h>

#include "http/h2_guard.h"
#include "http/server.h"

/* What may be held for all streams of a connection together while nobody reads them. */
#define WEIR_H2_WINDOW 1048576
/* What a stream may send unasked, and how much once somebody reads it. */
#define WEIR_H2_STREAM_WINDOW 65535
#define WEIR_H2_READ_WINDOW   262144
/* So much of a body that nobody wants is read; beyond it a reset is cheaper. */
#define WEIR_H2_DRAIN_BYTES 65536u
/* Output of all streams together; beyond it each may have only a little. */
#define WEIR_H2_OUTPUT        1048576u
#define WEIR_H2_OUTPUT_LITTLE 16384u

typedef struct weir_h2 weir_h2;

/* A file that pieces of the link's output and a stream still need. */
typedef struct weir_h2_file {
	uint32_t refs;
	int fd;
	void (*over)(void *arg);
	void *over_arg;
} weir_h2_file;

/* Bytes of an answer: of a buffer, of a file, or of memory that lives long enough. */
typedef struct weir_h2_part {
	struct weir_h2_part *next;
	weir_buf *buf;
	weir_h2_file *file;
	const char *bytes;
	uint64_t offset, length;
	bool own; /* the buffer is for writes, and may be added to */
} weir_h2_part;

enum weir_h2_stream_flag {
	WEIR_H2_HEAD = 1 << 0,       /* its head is not whole */
	WEIR_H2_RECEIVED = 1 << 1,   /* the client has said all */
	WEIR_H2_ANSWERED = 1 << 2,   /* the head of an answer was given to nghttp2 */
	WEIR_H2_WHOLE = 1 << 3,      /* no parts will be added */
	WEIR_H2_DEFERRED = 1 << 4,   /* nghttp2 was told that there is nothing to send */
	WEIR_H2_OWED = 1 << 5,       /* drained is to be called when there is room again */
	WEIR_H2_DUE = 1 << 6,        /* now: it is in h2->due */
	WEIR_H2_DELIVERING = 1 << 7, /* held bytes are being given to the handler */
	WEIR_H2_RESET = 1 << 8,      /* RST_STREAM was given to nghttp2 */
	WEIR_H2_TRAILED = 1 << 9,    /* trailers are coming in */
	WEIR_H2_COUNTS = 1 << 10,    /* bytes sent are counted here, not in answer.c */
	WEIR_H2_LINGERS = 1 << 11,   /* answered; what is left of the body is read away */
};

typedef struct weir_h2_stream {
	weir_h2 *h2;
	weir_request *request; /* NULL: over, or gone */
	struct weir_h2_stream *next, **prev;
	struct weir_h2_stream *next_due;
	int32_t id;
	uint16_t flags;

	/* the head, as it comes: request->base has head_room bytes, of which head_bytes are used; weight as it would be on HTTP/1 */
	uint16_t status; /* what is wrong with it */
	const char *error;
	uint32_t head_room, head_bytes, head_weight;

	/* the body */
	weir_buf *held; /* bytes that nobody has taken, from held_at on */
	uint32_t held_at, drain_left;
	uint64_t body_ns; /* when the last of it came, or it was wanted */

	/* the answer */
	weir_h2_part *first, *last; /* last: if there is a first */
	size_t output;              /* bytes of parts in memory */
	uint64_t progress_ns;       /* when something was sent, or began to wait */
	const nghttp2_nv *trailers; /* in the request's memory */
	size_t trailer_count;
} weir_h2_stream;

enum weir_h2_flag {
	WEIR_H2_INSIDE = 1 << 0,  /* nghttp2 is running */
	WEIR_H2_CLOSED = 1 << 1,  /* the link was closed or aborted by us */
	WEIR_H2_GREETED = 1 << 2, /* the client's SETTINGS came */
	WEIR_H2_ACKED = 1 << 3,   /* it has our settings */
	WEIR_H2_NOTICE = 1 << 4,  /* GOAWAY has been announced */
	WEIR_H2_LAST =
		1 << 5, /* GOAWAY with the last stream is on its way: closes when there are no streams */
	WEIR_H2_STOPPED = 1 << 6,    /* reading is paused: the link is full */
	WEIR_H2_BLOCK = 1 << 7,      /* a header block is coming in */
	WEIR_H2_BLOCK_LAST = 1 << 8, /* its last frame has begun */
};

struct weir_h2 {
	weir_http_conn *conn;
	nghttp2_session *session;
	weir_h2_stream *streams, *due;
	uint32_t stream_count;
	int32_t block_id; /* whose header block it is */
	uint16_t flags;
	uint32_t doom; /* nghttp2_error_code */
	const char *doom_why;
	weir_buf *in;  /* what nghttp2 is reading */
	size_t output; /* of all streams */
	uint64_t began_ns, idle_ns, block_ns, notice_ns;
	weir_h2_guard guard;
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

/* What was given to nghttp2 goes out, at once or when it is not inside. */
void weir_h2_go_on(weir_h2 *h2);
/* The same now, as far as the link takes it. */
void weir_h2_flush(weir_h2 *h2);
/* The connection ends after this: the peer does what no client does. */
void weir_h2_set_doom(weir_h2 *h2, uint32_t code, const char *why);
/* Sees to it that the timer fires no later than so long after that. */
void weir_h2_arm(weir_h2 *h2, uint64_t from_ns, uint64_t ns);
/* No more than what is here: announces the end, or tells the last stream. */
void weir_h2_leave(weir_h2 *h2);

/* ---- h2_stream.c: streams, and nghttp2's calls about them ---- */

/* nghttp2's callbacks; NULL: out of memory. */
nghttp2_session_callbacks *weir_h2_callbacks_new(void);
/* Ends the exchange; its request is gone, if it has one. */
void weir_h2_stream_lose(weir_h2_stream *stream, uint32_t code, const char *error);
/* RST_STREAM, once. */
void weir_h2_stream_reset(weir_h2_stream *stream, uint32_t code);
/* Without nghttp2's knowledge: the connection is over. */
void weir_h2_stream_free(weir_h2_stream *stream, const char *error);
/* The codec's over. */
void weir_h2_over(weir_request *request);

/* ---- h2_head.c ---- */

/* A field of the head, or of the trailers. */
void weir_h2_head_field(weir_h2_stream *stream, weir_span name, weir_span value);
/* The head is whole: makes the request, or answers that it is none. */
void weir_h2_head_end(weir_h2_stream *stream, bool last);
void weir_h2_trailers_begin(weir_h2_stream *stream);
/* false: they are wrong, and the stream has been seen to. */
bool weir_h2_trailers_end(weir_h2_stream *stream);

/* ---- h2_body.c ---- */

void weir_h2_body_data(weir_h2_stream *stream, const uint8_t *bytes, size_t length);
/* END_STREAM has come. */
void weir_h2_body_end(weir_h2_stream *stream);
/* Bytes that are held are not wanted any more. */
void weir_h2_body_drop(weir_h2_stream *stream);
/* The answer is out, but the body is not over: it is drained, or the stream reset. */
void weir_h2_body_linger(weir_h2_stream *stream, uint64_t left);
/* The codec's want. */
void weir_h2_want(weir_request *request);
/* Its bytes or trailers are wrong, late, or too many. */
void weir_h2_body_is_bad(weir_h2_stream *stream, unsigned status, uint32_t code, const char *error);
/* When it will be late; UINT64_MAX: it is not waited for. */
uint64_t weir_h2_body_deadline(const weir_h2_stream *stream);

/* ---- h2_write.c ---- */

/* An answer to what is no request; the text is static. */
void weir_h2_write_error(weir_h2_stream *stream, unsigned status, const char *why);
int weir_h2_write_continue(weir_h2_stream *stream);
/* END_STREAM is out. */
void weir_h2_sent(weir_h2_stream *stream);
/* ---- h2_output.c ---- */

/* Up to so much is copied rather than sent as a segment of its own. */
#define WEIR_H2_SMALL_BODY 2048u

/* The parts of a whole answer. 0 or -ENOMEM, as for all of these. */
int weir_h2_add_body(weir_h2_stream *stream, weir_request *request, const weir_answer *answer);
int weir_h2_add_copy(weir_h2_stream *stream, const void *bytes, size_t length);
/* Takes a reference. */
int weir_h2_add_buf(weir_h2_stream *stream, weir_buf *buf, size_t offset, size_t length);
/* Static text. */
int weir_h2_add_text(weir_h2_stream *stream, const char *text, size_t length);
/* Whether so much more may wait; false: drained will be called. */
bool weir_h2_has_room(weir_h2_stream *stream, size_t length);
/* After one of the above: tells nghttp2, unless there was an error, which is returned. */
int weir_h2_part_added(weir_h2_stream *stream, int error);
/* There is more to send than nghttp2 was told, or the end. */
void weir_h2_awake(weir_h2_stream *stream);
/* nghttp2 asks how much there is. */
ssize_t weir_h2_read_body(nghttp2_session *session, int32_t id, uint8_t *into, size_t length, uint32_t *flags,
			  nghttp2_data_source *source, void *user);
/* The frame that nghttp2 wants to send now, header first, to the link. */
int weir_h2_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *header, size_t length,
		      nghttp2_data_source *source, void *user);
/* Calls drained where it is due; false: nowhere. */
bool weir_h2_run_due(weir_h2 *h2);
void weir_h2_free_parts(weir_h2_stream *stream);

#endif
