/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_PARSE_H
#define WEIR_HTTP_PARSE_H

/*
 * Parses HTTP/1 heads and chunks: RFC 9112, strictly. Nothing is copied: results are offsets into the bytes
 * given. No allocation, no state but the structs below, no I/O.
 *
 * Strictness: whatever two implementations could read differently is refused:
 *	- bare LF or CR, obs-fold, space before a colon, control bytes and NUL anywhere
 *	- bytes >= 0x80 in names and targets, spaces in targets, anything but exactly one SP between the parts
 *	  of the request line
 *	- an empty or repeated Content-Length (also "5, 5"), Content-Length with Transfer-Encoding, any
 *	  transfer coding but a single final "chunked", Transfer-Encoding in HTTP/1.0
 *	- more than one Host, an invalid Host, HTTP/1.1 without Host, an absolute-form target whose authority
 *	  disagrees with its Host
 *	- chunk sizes with signs, spaces, "0x" or more than 16 digits, chunk extensions over 256 bytes or with
 *	  control bytes
 *
 * One empty line before a request line is skipped (RFC 9112 2.2); more are refused.
 *
 * Incremental: after WEIR_PARSE_MORE, call again with the same bytes and more. `seen` avoids scanning bytes
 * twice, so a head that arrives byte by byte costs time linear in its length. The result for a prefix (MORE,
 * or BAD with which error) does not depend on how it arrived. Each call may pass another array of fields; its
 * contents are valid only after DONE. After BAD every call returns BAD.
 *
 * The scanners use SSE4.2 or AVX2 where the processor has them (chosen once) and plain loops elsewhere. The
 * results are the same, and tests compare them. Scanners never read outside the bytes given.
 *
 * Threads: any.
 */

#include <weir/http.h>

typedef enum weir_parse {
	WEIR_PARSE_DONE,
	WEIR_PARSE_MORE,
	WEIR_PARSE_BAD,
} weir_parse;

/* Fields that matter for framing, routing or serving; others are FIELD_OTHER. X(name, text in lower case) */
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

/* Looks up a method; text is a token. */
weir_method weir_method_find(weir_span text);
/* Looks up a field name, in any case; name is a token. */
weir_field_id weir_field_find(weir_span name);
/* The name of a known field, in lower case. */
weir_span weir_field_name(weir_field_id id);

/* A field, as offsets from the first byte of the head. */
typedef struct weir_head_field {
	uint32_t name, value;  /* where they start */
	uint32_t value_length; /* without surrounding spaces */
	uint16_t name_length;
	uint16_t id; /* weir_field_id */
} weir_head_field;

/* How a body is delimited. */
typedef enum weir_framing {
	WEIR_BODY_NONE,
	WEIR_BODY_LENGTH,
	WEIR_BODY_CHUNKED,
	WEIR_BODY_TO_END, /* answers only: by the end of the connection */
} weir_framing;

enum weir_head_flag {
	WEIR_HEAD_KEEP = 1 << 0,         /* the connection may be used again after this message */
	WEIR_HEAD_CONTINUE = 1 << 1,     /* Expect: 100-continue */
	WEIR_HEAD_UPGRADE = 1 << 2,      /* Connection: upgrade, with an Upgrade field, HTTP/1.1 */
	WEIR_HEAD_ABSOLUTE = 1 << 3,     /* an absolute-form target */
	WEIR_HEAD_TRAILERS = 1 << 4,     /* TE: trailers */
	WEIR_HEAD_EXPECT_OTHER = 1 << 5, /* an unknown expectation: 417 */
};

typedef struct weir_head_limits {
	uint32_t line_bytes; /* of the first line, without its CRLF */
	uint32_t head_bytes; /* all of it, with a skipped empty line and all CRLFs */
	uint32_t fields;     /* at most the length of the caller's array */
} weir_head_limits;

/* A parsed head, as offsets into its bytes. */
typedef struct weir_head {
	/*
	 * the parser's state between calls: how far it has looked, where the current line and its colon
	 * are, what it expects, which fields it has seen
	 */
	uint32_t seen, line, colon;
	uint8_t phase;
	uint8_t marks;
	/* results */
	uint32_t length; /* of the whole head, with its last CRLF */
	uint16_t field_count;
	/* answers: 100 .. 999; a BAD request: the status to answer with (400, 414, 431, 501, 505) */
	uint16_t status;
	uint8_t version; /* 10 or 11 */
	uint8_t method;  /* weir_method; requests only */
	uint8_t framing; /* weir_framing */
	uint8_t flags;
	uint32_t method_length; /* the method begins at `start` */
	uint32_t start;         /* after a skipped empty line */
	/* requests only; path_length 0 (an absolute-form target without a path) means "/" */
	uint32_t path, path_length;
	uint32_t query, query_length;   /* without '?'; query 0: none */
	uint32_t host, host_length;     /* from the target or the Host field; length 0: none or empty */
	uint32_t reason, reason_length; /* answers only */
	/* for WEIR_BODY_LENGTH, and never 0: a length of 0 is WEIR_BODY_NONE */
	uint64_t body_length;
	const char *error; /* BAD: a static sentence */
} weir_head;

/* Call this before parsing a message. */
void weir_head_init(weir_head *head);
/*
 * Parses the head of a request at the start of bytes; fields has room for limits->fields. DONE: the head has
 * length bytes. BAD: error and status say why. A head that is too long is BAD as soon as that is certain.
 */
weir_parse weir_parse_request(weir_head *head, const char *bytes, size_t length,
			      const weir_head_limits *limits, weir_head_field *fields);
/* The same, cheaper if the fields have come before: recent_fields.h. */
struct weir_recent_fields;
weir_parse weir_parse_request_recent(weir_head *head, const char *bytes, size_t length,
				     const weir_head_limits *limits, weir_head_field *fields,
				     struct weir_recent_fields *recent);
/*
 * The same for an answer; its framing depends on the method that was asked. Interim answers (1xx but 101)
 * have no body. After 101, and after 2xx to CONNECT, another protocol follows: WEIR_BODY_NONE, without
 * WEIR_HEAD_KEEP. A BAD answer has status 502.
 */
weir_parse weir_parse_answer(weir_head *head, const char *bytes, size_t length,
			     const weir_head_limits *limits, weir_method asked, weir_head_field *fields);
/* Trailers after the last chunk, with the empty line. Fields that RFC 9110 6.5.1 forbids there are BAD. */
weir_parse weir_parse_trailers(weir_head *head, const char *bytes, size_t length,
			       const weir_head_limits *limits, weir_head_field *fields);

/* ---- chunks ---- */

/* Decoder of a chunked body; initially all zero. */
typedef struct weir_chunks {
	uint64_t left;      /* bytes left in this chunk */
	uint32_t line_seen; /* bytes of the current size line seen */
	uint8_t state;
	const char *error;
} weir_chunks;

/*
 * Consumes bytes. Returns how many were used and which of them are data, at most one part per call, so call
 * again while some are left. DONE: the size line of the last chunk was used; trailers (weir_parse_trailers)
 * follow.
 */
weir_parse weir_chunks_take(weir_chunks *chunks, const char *bytes, size_t length, size_t *ret_used,
			    size_t *ret_data, size_t *ret_data_length);

/* ---- small readers that servers and clients share ---- */

/* The next element of a comma-separated list with quoted strings; false: no more. *list: the rest. */
bool weir_list_next(weir_span *list, weir_span *ret_element);
/* Equal, ignoring the case of ASCII letters. */
bool weir_span_is(weir_span a, weir_span b);
/*
 * Parses an IMF-fixdate, rfc850 or asctime date into seconds since 1970; -1: not a date. now_s decides the
 * century of a two-digit year.
 */
int64_t weir_date_parse(weir_span text, int64_t now_s);
/* "Sun, 06 Nov 1994 08:49:37 GMT"; text has room for 30 bytes. */
void weir_date_print(char *text, int64_t seconds);
/*
 * Decodes and normalises a path: percent-decodes once, resolves "." and ".." segments, merges "//". false: a
 * malformed escape, an encoded NUL or '/', a ".." above the root, or no room. The result starts with '/' and
 * ends with a NUL. ret_dot: some segment starts with a dot.
 */
bool weir_path_clean(weir_span path, char *ret_path, size_t size, size_t *ret_length, bool *ret_dot);
/*
 * Resolves "." and ".." segments (in any spelling) and merges "//", and leaves every other byte as it was sent. So
 * whoever decodes the result finds the same path as weir_path_clean does. path begins with '/'; ret_path has
 * room for as many bytes. false: a ".." above the root.
 */
bool weir_path_tidy(weir_span path, char *ret_path, size_t *ret_length);
/* Whether weir_path_tidy would change nothing. */
bool weir_path_is_tidy(weir_span path);
/* Whether all escapes are valid and none is a NUL: enough for a path that is passed on unchanged. */
bool weir_path_decodes(weir_span path);

/* For tests: forces a scanner ("plain", "sse4.2", "avx2"; NULL: the best); false: not available. */
bool weir_scan_force(const char *name);

#endif
