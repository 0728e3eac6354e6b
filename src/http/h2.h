/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H2_H
#define WEIR_HTTP_H2_H

/*
 * HTTP/2 on a connection (RFC 9113, 7541, 9218): frames from the link's bytes, streams from frames,
 * requests from streams; and back.
 *
 *	link ──data──▶ h2_input.c ──frames──▶ h2_stream.c ──▶ h2_head.c, h2_body.c ──▶ request.c
 *	link ◀──pump── h2_send.c ◀──streams that are ready── h2_output.c ◀── h2_write.c ◀── answer.c
 *
 * A stream
 *
 *	HEAD ──END_HEADERS──▶ made ──▶ body: taken, or held while nobody reads ──END_STREAM──▶ RECEIVED
 *	                        └──▶ answer: parts wait in the stream until windows, priorities and the
 *	                             link allow ──END_STREAM──▶ OUT
 *	RECEIVED and OUT: closed.
 *	RST_STREAM of the client: closed at once. RESET by us: closed by the next weir_h2_finish.
 *
 * Invariants
 *	1. No stream is freed while a handler of it runs. Streams that are OUT or RESET go to h2->done, and
 *	   end when the frames that have come are read, or at the end of the turn.
 *	2. A stream lives from the end of its first header block until it is closed. Its request may end
 *	   earlier (request is NULL) or later (GONE).
 *	3. An answer has ended when its last byte was handed to the link. Until then the request stays, since
 *	   parts may point into its memory. Complete or ended answers are REST meanwhile, so that nobody is
 *	   told if the client leaves.
 *	4. Windows are given back only for bytes that were taken or will never be. So the connection's window
 *	   bounds what is held for streams that nobody reads.
 *	5. The link gets at most half of its bound. The rest waits in the streams, where it is bounded per
 *	   stream and in total, and where priorities apply. While the link is full nothing is read. Frames
 *	   other than DATA then wait in h2->pending, in the order in which they were made: heads are
 *	   compressed when they are made.
 *	6. While connections take turns to send (net/transmit.h), the link gets little ahead, and of streams
 *	   with data only the first in the order may send.
 *	7. doom is set once. Then nothing more is read, GOAWAY tells why, and the connection closes.
 *
 * Bounds, for each connection: a frame that comes in parts (16 KB), a header block that does (h2_guard.h),
 * the tables of hpack.h, 256 acknowledgements and a head for each stream in h2->pending.
 *
 * Threads: the connection's.
 */

#include "http/h2_gather.h"
#include "http/h2_guard.h"
#include "http/h2_past.h"
#include "http/hpack.h"
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
	WEIR_H2_ANSWERED = 1 << 2,   /* the head of the answer was sent */
	WEIR_H2_WHOLE = 1 << 3,      /* no more parts will be added */
	WEIR_H2_READY = 1 << 4,      /* it could send: in a list of h2->ready */
	WEIR_H2_OWED = 1 << 5,       /* drained will be called when there is room */
	WEIR_H2_DUE = 1 << 6,        /* drained is due now: the stream is in h2->due */
	WEIR_H2_DELIVERING = 1 << 7, /* held bytes are being passed to the handler */
	WEIR_H2_RESET = 1 << 8,      /* RST_STREAM was sent */
	WEIR_H2_TRAILED = 1 << 9,    /* trailers are arriving */
	WEIR_H2_COUNTS = 1 << 10,    /* bytes sent are counted here, not in answer.c */
	WEIR_H2_LINGERS = 1 << 11,   /* answered; the rest of the body is discarded */
	WEIR_H2_TURNS =
		1 << 12,        /* the client can use parts of it: it takes turns with others (RFC 9218: i) */
	WEIR_H2_OUT = 1 << 13,  /* END_STREAM was sent */
	WEIR_H2_TOLD = 1 << 14, /* and the request knows */
	WEIR_H2_DONE = 1 << 15, /* in h2->done */
	WEIR_H2_BROKEN = 1 << 16, /* a header block of it breaks a rule of RFC 9113 8 */
};

typedef struct weir_h2_stream {
	weir_h2 *h2;
	weir_request *request; /* NULL: ended or gone */
	struct weir_h2_stream *next, **prev;
	struct weir_h2_stream *next_same; /* of the same slot */
	struct weir_h2_stream *next_due, *next_done;
	struct weir_h2_stream *next_ready, *prev_ready;
	uint32_t id;
	uint32_t flags;
	uint32_t code;   /* of its reset: weir_h2_code */
	uint8_t urgency; /* 0 is the highest */
	uint8_t seen;    /* of its head: h2_rules.c */

	/* windows: what we may send, and the client; how large its own is, and what it gets back later */
	int32_t send_window;
	int32_t receive_window, receive_size;
	uint32_t receive_owed;

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
	uint64_t body_ns;     /* when bytes last arrived, or were wanted */
	uint64_t length_left; /* by its content-length; WEIR_UNKNOWN_LENGTH */

	/* the answer */
	weir_h2_part *first, *last; /* last is valid if there is a first */
	size_t output;              /* bytes of parts in memory */
	uint64_t progress_ns;       /* when something was last sent, or began to wait */
	const weir_field *trailers; /* in the request's memory */
	size_t trailer_count;
} weir_h2_stream;

enum weir_h2_flag {
	WEIR_H2_INSIDE = 1 << 0,  /* frames are being read or sent */
	WEIR_H2_CLOSED = 1 << 1,  /* the link was closed or aborted by us */
	WEIR_H2_GREETED = 1 << 2, /* the client's SETTINGS arrived */
	WEIR_H2_ACKED = 1 << 3,   /* the client has acknowledged our settings */
	WEIR_H2_NOTICE = 1 << 4,  /* a first GOAWAY has announced the end */
	/* the final GOAWAY is on its way: closes when there are no streams */
	WEIR_H2_LAST = 1 << 5,
	WEIR_H2_STOPPED = 1 << 6, /* reading is paused: the link is full */
	WEIR_H2_BLOCK = 1 << 7,   /* a header block is arriving */
	WEIR_H2_LEAVES = 1 << 8,  /* the client has sent GOAWAY */
	WEIR_H2_PACED = 1 << 9,   /* streams have waited for the connection's turn */
};

/* Frames that wait for room in the link. */
typedef struct weir_h2_pending {
	uint8_t *bytes;
	size_t at, end, room;
	uint32_t acks; /* among them */
} weir_h2_pending;

#define WEIR_H2_SLOTS     32u
#define WEIR_H2_URGENCIES 8u
#define WEIR_H2_URGENCY   3u /* of streams that say nothing */

typedef struct weir_h2_list {
	weir_h2_stream *first, *last;
} weir_h2_list;

struct weir_h2 {
	weir_http_conn *conn;
	weir_h2_stream *streams, *due, *done;
	uint32_t stream_count;
	uint16_t flags;
	uint16_t ready_bits; /* the lists of `ready` that have streams */
	uint32_t doom;       /* weir_h2_code */
	const char *doom_why;
	weir_buf *in;  /* that is being read */
	size_t output; /* of all streams */
	uint64_t began_ns, idle_ns, block_ns, notice_ns;
	/* windows, as in a stream; peer_window is that of new streams */
	int32_t send_window, peer_window;
	int32_t receive_window;
	uint32_t receive_owed;
	weir_h2_guard guard;
	weir_h2_past past;
	weir_h2_input input;
	weir_h2_pending pending;
	weir_h2_list ready[WEIR_H2_URGENCIES]; /* by urgency */
	weir_h2_stream *slots[WEIR_H2_SLOTS];  /* by number */
	weir_hpack_decoder decoder;
	weir_hpack_encoder encoder;
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

/* Sends what there is, at once or when frames are not being read. */
void weir_h2_go_on(weir_h2 *h2);
/* Sends now as much as the link takes. */
void weir_h2_flush(weir_h2 *h2);
/* Ends the connection, because the peer misbehaves. */
void weir_h2_set_doom(weir_h2 *h2, uint32_t code, const char *why);
/* Makes sure that the timer fires no later than ns after from_ns. */
void weir_h2_arm(weir_h2 *h2, uint64_t from_ns, uint64_t ns);
/* Takes no new streams: announces the end, or names the last stream. */
void weir_h2_leave(weir_h2 *h2);
/* The link has as much as it gets: it calls drained at the same bound. */
bool weir_h2_link_is_full(const weir_h2 *h2);

/* ---- h2_input.c: frames ---- */

/* Reads what the client has sent, until doom. */
void weir_h2_read(weir_h2 *h2, const uint8_t *at, size_t length);
void weir_h2_input_fini(weir_h2 *h2);

/* ---- h2_control.c: frames about the connection, and windows ---- */

void weir_h2_take_settings(weir_h2 *h2, const weir_h2_frame *frame, const uint8_t *payload);
void weir_h2_take_ping(weir_h2 *h2, const weir_h2_frame *frame, const uint8_t *payload);
void weir_h2_take_window(weir_h2 *h2, const weir_h2_frame *frame, const uint8_t *payload);
void weir_h2_take_priority(weir_h2 *h2, const weir_h2_frame *frame, const uint8_t *payload);
/* The client sends so many bytes of DATA, with padding; stream may be NULL. false: beyond a window. */
bool weir_h2_window_take(weir_h2 *h2, weir_h2_stream *stream, uint32_t length);
/* Gives the connection's window back for bytes that were taken, or the stream's too. */
void weir_h2_window_back(weir_h2 *h2, size_t length);
void weir_h2_window_back_stream(weir_h2_stream *stream, size_t length);
/* Lets the client send up to size bytes of the stream at once. */
void weir_h2_window_widen(weir_h2_stream *stream, int32_t size);

/* ---- h2_stream.c: streams ---- */

/* NULL: there is none. */
weir_h2_stream *weir_h2_find(const weir_h2 *h2, uint32_t id);
/* A header block is complete. */
void weir_h2_take_block(weir_h2 *h2, const weir_h2_frame *frame, const uint8_t *block, size_t length);
/* A frame on a stream that is not there: whether the client may send it. false: doom, or a reset was sent. */
bool weir_h2_judge_absent(weir_h2 *h2, uint32_t id);
void weir_h2_take_reset(weir_h2 *h2, const weir_h2_frame *frame, const uint8_t *payload);
/* Ends the exchange; its request, if any, is told that the client has gone. */
void weir_h2_stream_lose(weir_h2_stream *stream, uint32_t code, const char *error);
/* Sends RST_STREAM, at most once. */
void weir_h2_stream_reset(weir_h2_stream *stream, uint32_t code);
/* The same, because the client broke a rule: it costs the client as much as a reset of its own. */
void weir_h2_stream_break(weir_h2_stream *stream, uint32_t code);
/* The stream is OUT, RESET or RECEIVED: it ends when it can. */
void weir_h2_stream_done(weir_h2_stream *stream);
/* Ends those that are done. */
void weir_h2_finish(weir_h2 *h2);
/* Frees it without a frame: the connection is over. */
void weir_h2_stream_free(weir_h2_stream *stream, const char *error);
/* codec->over */
void weir_h2_over(weir_request *request);

/* ---- h2_rules.c: what RFC 9113 8 demands of fields ---- */

/* Whether a field may be in a head, or in trailers, behind those before it. id: what its name is. */
bool weir_h2_rules_field(weir_h2_stream *stream, const weir_hpack_field *field, weir_field_id id);
/* Whether it is of a form that fields have, and not about a connection: of requests and of answers. */
bool weir_h2_rules_form(const weir_hpack_field *field, weir_field_id id);
/* Whether one that is refused has only bytes that an authority or a path may have. */
bool weir_h2_rules_authority(weir_span value);
bool weir_h2_rules_path(weir_span value);
/* Whether the head has what it must have. */
bool weir_h2_rules_head(const weir_h2_stream *stream, bool last);

/* ---- h2_head.c ---- */

/* A field of the head, or of the trailers. id: what its name is. */
void weir_h2_head_field(weir_h2_stream *stream, const weir_hpack_field *field, weir_field_id id);
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
/* Sends the trailers, which end the stream. 0 or -ENOMEM. */
int weir_h2_write_trailers(weir_h2_stream *stream);
/* END_STREAM was sent. */
void weir_h2_sent(weir_h2_stream *stream);

/* ---- h2_order.c: which stream is next ---- */

/* The link has as much data as it should have while it waits for its turn. Other frames do not count. */
bool weir_h2_is_ahead(const weir_h2 *h2);
/* The stream that sends next; NULL: none can. */
weir_h2_stream *weir_h2_next(weir_h2 *h2);
/* Whether it is up to us, not to the client, that it makes no progress. */
bool weir_h2_is_held(const weir_h2_stream *stream);
/* Streams that waited for the connection's turn are not late because of that. */
void weir_h2_note_pace(weir_h2 *h2);
/* The value of a priority field, or of PRIORITY_UPDATE. */
void weir_h2_note_priority(weir_h2_stream *stream, const char *text, size_t length);
/* Puts the stream among those that are ready, if it can send. */
void weir_h2_set_ready(weir_h2_stream *stream);
void weir_h2_unset_ready(weir_h2_stream *stream);
/* weir_link_ops.left */
void weir_h2_left(weir_link *link, weir_conn_left *left);

/* ---- h2_send.c: frames to the link ---- */

/* Sends complete frames, or keeps them until there is room. 0; -ENOMEM: doom is set. */
int weir_h2_say(weir_h2 *h2, const uint8_t *frames, size_t length);
void weir_h2_say_settings(weir_h2 *h2);
void weir_h2_say_ack(weir_h2 *h2, weir_h2_type type, const uint8_t *payload, size_t length);
void weir_h2_say_reset(weir_h2 *h2, uint32_t id, uint32_t code);
void weir_h2_say_window(weir_h2 *h2, uint32_t id, uint32_t more);
void weir_h2_say_goaway(weir_h2 *h2, uint32_t last, uint32_t code);
/* Asks for an answer that says that all before has been read. */
void weir_h2_say_ping(weir_h2 *h2);
/* Sends what waits. 0 or a negative errno. */
int weir_h2_send_pending(weir_h2 *h2);
/* Sends a frame of the stream's body, or its end. 0 or a negative errno. */
int weir_h2_send_body(weir_h2_stream *stream);

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
/* After one of the above: lets the stream send, unless there was an error. Returns error. */
int weir_h2_part_added(weir_h2_stream *stream, int error);
/* There is more to send, or the end. */
void weir_h2_awake(weir_h2_stream *stream);
/* Sends a DATA frame with the next bytes of the parts. 0 or a negative errno. */
int weir_h2_send_parts(weir_h2_stream *stream, const uint8_t *head, size_t length);
/* Calls drained where it is due; false: nowhere. */
bool weir_h2_run_due(weir_h2 *h2);
void weir_h2_free_parts(weir_h2_stream *stream);

#endif
