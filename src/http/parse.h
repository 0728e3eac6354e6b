/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_PARSE_H
#define WEIR_HTTP_PARSE_H

/*
 * HTTP/1 heads and chunks as bytes: RFC 9112, strictly. Nothing is copied; what is found is told as places within the bytes given. No allocation, no state
 * but the structs below, no I/O.
 *
 * Strictness: whatever two implementations could read differently is refused: bare LF or CR, obs-fold, space before a colon, empty or repeated Content-Length (also "5, 5"),
 * Content-Length with Transfer-Encoding, any transfer coding but a single final "chunked", Transfer-Encoding in HTTP/1.0, control bytes and NUL anywhere, bytes >= 0x80 in names and targets, more than one Host,
 * a Host that is no host, an HTTP/1.1 request without Host, an absolute-form target whose authority disagrees with its Host, spaces in targets, anything but exactly one SP between the parts of the request line, chunk sizes with signs, spaces,
 * "0x", more than 16 digits, chunk extensions over 256 bytes or with control bytes. One empty line before a request line is skipped (RFC 9112 2.2), more are refused.
 *
 * Incremental: a parse that says WEIR_PARSE_MORE is called again with the same bytes and more. `seen` avoids looking at the same bytes twice: a head that comes byte by
 * byte costs time linear in its length. What a prefix is told (MORE, or BAD with which error) does not depend on how it arrived. The array of fields may be another one at each
 * call; what is in it counts after DONE only. After BAD: BAD for ever.
 *
 * The scanners use SSE4.2/AVX2 where the processor has them (chosen once) and plain loops elsewhere; results are the same, and tests compare them. They never read outside the bytes given.
 *
 * Threads: any.
 */

#include <weir/http.h>

typedef enum weir_parse {
	WEIR_PARSE_DONE,
	WEIR_PARSE_MORE,
	WEIR_PARSE_BAD,
} weir_parse;

/* Fields that the framing, routing and serving of messages look at; all others are FIELD_OTHER. X(name, text in lower case) */
/* clang-format off */
#define WEIR_KNOWN_FIELDS(X)                          \
	X(HOST, "host")                               \
	X(CONNECTION, "connection")                   \
	X(CONTENT_LENGTH, "content-length")           \
	X(TRANSFER_ENCODING, "transfer-encoding")     \
	X(EXPECT, "expect")                           \
	X(UPGRADE, "upgrade")                         \
	X(TE, "te")                                   \
	X(TRAILER, "trailer")                         \
	X(KEEP_ALIVE, "keep-alive")                   \
	X(PROXY_CONNECTION, "proxy-connection")       \
	X(PROXY_AUTHENTICATE, "proxy-authenticate")   \
	X(PROXY_AUTHORIZATION, "proxy-authorization") \
	X(RANGE, "range")                             \
	X(IF_RANGE, "if-range")                       \
	X(IF_MATCH, "if-match")                       \
	X(IF_NONE_MATCH, "if-none-match")             \
	X(IF_MODIFIED_SINCE, "if-modified-since")     \
	X(IF_UNMODIFIED_SINCE, "if-unmodified-since") \
	X(ACCEPT_ENCODING, "accept-encoding")         \
	X(COOKIE, "cookie")                           \
	X(CONTENT_TYPE, "content-type")               \
	X(AUTHORIZATION, "authorization")             \
	X(USER_AGENT, "user-agent")                   \
	X(REFERER, "referer")                         \
	X(PRIORITY, "priority")                       \
	X(DATE, "date")                               \
	X(SERVER, "server")                           \
	X(RETRY_AFTER, "retry-after")                 \
	X(FORWARDED, "forwarded")                     \
	X(X_FORWARDED_FOR, "x-forwarded-for")         \
	X(VIA, "via")                                 \
	X(HTTP2_SETTINGS, "http2-settings")           \
	X(LAST_MODIFIED, "last-modified")             \
	X(ETAG, "etag")                               \
	X(LOCATION, "location")
/* clang-format on */

typedef enum weir_field_id {
	WEIR_FIELD_OTHER,
#define WEIR_X(name, text) WEIR_FIELD_##name,
	WEIR_KNOWN_FIELDS(WEIR_X)
#undef WEIR_X
		WEIR_FIELD_COUNT
} weir_field_id;

/* The number of a method, which is a token. */
weir_method weir_method_find(weir_span text);
/* The id of a name, which is a token, in any case. */
weir_field_id weir_field_find(weir_span name);
/* Its text in lower case; of a known one. */
weir_span weir_field_name(weir_field_id id);

/* A field as places relative to the first byte of the head. */
typedef struct weir_head_field {
	uint32_t name, value;  /* where they begin */
	uint32_t value_length; /* without spaces around it */
	uint16_t name_length;
	uint16_t id; /* weir_field_id */
} weir_head_field;

/* How the bytes of a body are found. */
typedef enum weir_framing {
	WEIR_BODY_NONE,
	WEIR_BODY_LENGTH,
	WEIR_BODY_CHUNKED,
	WEIR_BODY_TO_END, /* answers only */
} weir_framing;

enum weir_head_flag {
	WEIR_HEAD_KEEP = 1 << 0,         /* the connection may be used again after this message */
	WEIR_HEAD_CONTINUE = 1 << 1,     /* Expect: 100-continue */
	WEIR_HEAD_UPGRADE = 1 << 2,      /* Connection: upgrade, with an Upgrade field, HTTP/1.1 */
	WEIR_HEAD_ABSOLUTE = 1 << 3,     /* an absolute-form target */
	WEIR_HEAD_TRAILERS = 1 << 4,     /* TE: trailers */
	WEIR_HEAD_EXPECT_OTHER = 1 << 5, /* an expectation nobody knows: 417 */
};

typedef struct weir_head_limits {
	uint32_t line_bytes; /* of the first line, without its CRLF */
	uint32_t head_bytes; /* with everything: an empty line before it, all CRLF */
	uint32_t fields;     /* at most the length of the array given */
} weir_head_limits;

/* A head: in which bytes, and what is where in them. */
typedef struct weir_head {
	/* the parser's, between two calls: how far it looked, where the line and its value begin, what it looks for, what it found */
	uint32_t seen, line, colon;
	uint8_t phase;
	uint8_t marks;
	/* results */
	uint32_t length; /* of the whole head, its last CRLF included */
	uint16_t field_count;
	uint16_t
		status; /* answers: 100 .. 999; a BAD request: the status to answer with (400, 414, 431, 501, 505) */
	uint8_t version; /* 10 or 11 */
	uint8_t method;  /* weir_method; requests */
	uint8_t framing; /* weir_framing */
	uint8_t flags;
	uint32_t method_length; /* the method begins at `start` */
	uint32_t start;         /* after a skipped empty line */
	uint32_t path,
		path_length; /* requests; an absolute-form target without a path: path_length 0, which means "/" */
	uint32_t query, query_length;   /* without '?'; query 0: there is none */
	uint32_t host, host_length;     /* from the target or the Host field; length 0: none or empty */
	uint32_t reason, reason_length; /* answers */
	uint64_t body_length; /* for WEIR_BODY_LENGTH, where it is not 0: a length of 0 is WEIR_BODY_NONE */
	const char *error;    /* BAD: one sentence, static */
} weir_head;

/* Before the first call for a message. */
void weir_head_init(weir_head *head);
/*
 * Parses the head of a request at the beginning of bytes; fields has room for limits->fields. DONE: length bytes are the head. BAD: error and status say why.
 * Too long is BAD as soon as it is certain, even while more bytes are to come.
 */
weir_parse weir_parse_request(weir_head *head, const char *bytes, size_t length,
			      const weir_head_limits *limits, weir_head_field *fields);
/*
 * The same of an answer; the framing needs to know what was asked. Interim answers (1xx but 101) have no body; after 101, and after 2xx to CONNECT, comes another protocol: WEIR_BODY_NONE
 * and not WEIR_HEAD_KEEP. A BAD one has status 502.
 */
weir_parse weir_parse_answer(weir_head *head, const char *bytes, size_t length,
			     const weir_head_limits *limits, weir_method asked, weir_head_field *fields);
/* Trailer fields up to and with the empty line, after the last chunk; fields that could change framing or routing are BAD. */
weir_parse weir_parse_trailers(weir_head *head, const char *bytes, size_t length,
			       const weir_head_limits *limits, weir_head_field *fields);

/* ---- chunks ---- */

/* A decoder of a chunked body; all zero at the beginning. */
typedef struct weir_chunks {
	uint64_t left;      /* bytes of data left in this chunk */
	uint32_t line_seen; /* bytes of the current size line */
	uint8_t state;
	const char *error;
} weir_chunks;

/*
 * Takes bytes: tells how many were used, and which of these are data (at most one part a call, so call again while some are left). DONE: the size line of the last chunk is
 * used up, trailers (weir_parse_trailers) follow.
 */
weir_parse weir_chunks_take(weir_chunks *chunks, const char *bytes, size_t length, size_t *ret_used,
			    size_t *ret_data, size_t *ret_data_length);

/* ---- small readers that servers and clients share ---- */

/* The next element of a comma-separated list (quoted strings respected); false: no more. *list becomes the rest. */
bool weir_list_next(weir_span *list, weir_span *ret_element);
/* Equal but for the case of ASCII letters. */
bool weir_span_is(weir_span a, weir_span b);
/* An IMF-fixdate, rfc850 or asctime date as seconds since 1970; -1: no date. now_s decides the century of two digits. */
int64_t weir_date_parse(weir_span text, int64_t now_s);
/* "Sun, 06 Nov 1994 08:49:37 GMT"; text has room for 30 bytes. */
void weir_date_print(char *text, int64_t seconds);
/*
 * A path decoded and cleaned: percent-decoding once, "." and ".." segments resolved, "//" merged. false: malformed escape, an encoded NUL or '/', a ".." above the root, or it
 * does not fit. The result begins with '/' and is ended by a NUL. ret_dot: some segment begins with a dot.
 */
bool weir_path_clean(weir_span path, char *ret_path, size_t size, size_t *ret_length, bool *ret_dot);
/* Whether its escapes are escapes, and none is a NUL: all that is asked of a path that is passed on as it came. */
bool weir_path_decodes(weir_span path);

/* For tests: force a scanner ("plain", "sse4.2", "avx2"); false: not on this machine. NULL: the best one again. */
bool weir_scan_force(const char *name);

#endif
