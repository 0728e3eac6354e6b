/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_REQUEST_H
#define WEIR_REQUEST_H

/*
 * An HTTP request, from the offer of its event to a stage on: looking at it, reading its body, answering.
 * weir/http.h has the server that makes it. It belongs to the stage like every event, until somebody answers it:
 *
 *  weir_request_reply                          a whole answer
 *  weir_request_begin, _write ..., _end        a stream
 *  weir_request_reject                         a refusal, with the reason
 *
 * Each of the three (for a stream: begin) settles the event if a handler owns it: as refused if the
 * status is 429 or 503, as failed for other statuses from 500 on, otherwise as done. So a stage's
 * response time is the time to the first byte, and neither a slow reader nor a long stream counts as a
 * slow service. A handler may also offer the event on to another stage, or hold it (weir_hold) and answer
 * later. It never calls weir_done and the like on a request: the answer does.
 *
 * Lifetime. A request lives until its answer is complete, its body has been read or given up, and no
 * stage owns its event. If the client leaves before that, the event is cancelled and the gone function is
 * called. The owner still has to answer, which then only frees the request. After a reply, an end, a
 * rejection or an abort the caller must not use the request any more.
 *
 * Threads. A request's home is the thread of its connection. All functions are called there, except
 * these, which may be called by any thread that owns the event: the functions that look at the request
 * (method, path, header, ...), weir_request_alloc, weir_request_reply, weir_request_reject. Streams and
 * bodies for threads that may wait are in weir/stream.h.
 *
 * Spans point into the request and are valid as long as it is. They may move when a handler returns
 * without an answer; look them up again after that.
 */

#include <sys/socket.h>
#include <weir/file.h>
#include <weir/net.h>
#include <weir/stage.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_request weir_request;

/* A range of bytes, not terminated by a NUL. */
typedef struct weir_span {
	const char *at;
	size_t length;
} weir_span;

#define WEIR_SPAN(literal) ((weir_span){(literal), sizeof(literal) - 1})

typedef struct weir_field {
	weir_span name, value;
} weir_field;

#define WEIR_METHODS(X) X(GET) X(HEAD) X(POST) X(PUT) X(DELETE) X(OPTIONS) X(PATCH) X(CONNECT) X(TRACE)

typedef enum weir_method {
	WEIR_METHOD_OTHER, /* a valid token, but none of these: see weir_request_method_text */
#define WEIR_X(name) WEIR_METHOD_##name,
	WEIR_METHODS(WEIR_X)
#undef WEIR_X
		WEIR_METHOD_COUNT
} weir_method;

/* ---- looking at a request ---- */

/* Converts between a request and the event that is handed to stages. */
WEIR_API weir_request *weir_request_of(weir_event *event);
/* The event of a request, which is what stages are offered. */
WEIR_API weir_event *weir_request_event(weir_request *request);

/* WEIR_METHOD_OTHER for what has no constant: weir_request_method_text has its name. */
WEIR_API weir_method weir_request_method(const weir_request *request);
/* The name of the method, as sent. */
WEIR_API weir_span weir_request_method_text(const weir_request *request);
/*
 * Percent-encoded as sent, from the first '/' up to the '?'; "*" for OPTIONS *. Never empty. "." and ".."
 * segments are resolved and "//" is merged, so that it is the path that rules have seen, unless the routes
 * take paths as they come (weir_routes_raw_paths).
 */
WEIR_API weir_span weir_request_path(const weir_request *request);
/* The part after the '?'; at is NULL if there is no '?'. */
WEIR_API weir_span weir_request_query(const weir_request *request);
/* Host and port as given by the target or the Host field; empty: HTTP/1.0 without one. */
WEIR_API weir_span weir_request_host(const weir_request *request);
/* 10, 11 or 20. */
WEIR_API unsigned weir_request_version(const weir_request *request);
/* Whether it came by TLS. */
WEIR_API bool weir_request_secure(const weir_request *request);
/* The client's address: the connection's peer, or as given by a trusted PROXY header. */
WEIR_API const struct sockaddr *weir_request_client(const weir_request *request);
/* The subject of the client's verified certificate, as "CN=x,O=y"; empty: no certificate. */
WEIR_API weir_span weir_request_certificate(const weir_request *request);
/* The first field with that name, ignoring case; at is NULL if there is none. */
WEIR_API weir_span weir_request_header(const weir_request *request, weir_span name);
/* All fields in the order in which they came; false: no more. HTTP/2's pseudo fields are not included. */
WEIR_API bool weir_request_field(const weir_request *request, size_t at, weir_field *ret_field);
/* The value of the cookie; at is NULL if there is none. */
WEIR_API weir_span weir_request_cookie(const weir_request *request, weir_span name);
/* The arg of its route (weir_route_options). */
WEIR_API void *weir_request_arg(const weir_request *request);
/* The name of its route, as in weir_route_options. */
WEIR_API const char *weir_request_route_name(const weir_request *request);
/* The name of its class; NULL: it has none. */
WEIR_API const char *weir_request_class_name(const weir_request *request);
/* "member" or "newcomer" on a route with sessions, else NULL. */
WEIR_API const char *weir_request_standing(const weir_request *request);
/* When its first byte arrived. */
WEIR_API uint64_t weir_request_began_ns(const weir_request *request);
#define WEIR_REQUEST_ALLOC_MAX (1024u * 1024u) /* bytes of memory of one request, in all */

/*
 * Memory that lives as long as the request, aligned for any type. It is freed with the request, never
 * before. On the owner's thread.
 *
 * A request has WEIR_REQUEST_ALLOC_MAX bytes in all: one piece of that size, or many small ones. The head of
 * the request is kept in the same memory, and so are fields and small bodies of answers from other threads.
 * Pieces are rounded up to 16 bytes. A piece that does not fit into the rest of a block begins a new one, so
 * some of the total is lost between pieces. The first pieces, about 1 KB together, cost no malloc. NULL: the
 * total is used up, or the system has no memory.
 */
WEIR_API void *weir_request_alloc(weir_request *request, size_t bytes);
/* A pointer for the owner's use; NULL at first. The server never frees it. */
WEIR_API void weir_request_set_user(weir_request *request, void *user);
/* The pointer that weir_request_set_user has set. */
WEIR_API void *weir_request_user(const weir_request *request);
/*
 * Sets a function that is called once, at home, when the client leaves before the end of the answer. It
 * is not called from within another call. NULL fn: none.
 */
WEIR_API void weir_request_on_gone(weir_request *request, void (*fn)(weir_request *request, void *arg),
				   void *arg);
/* Adds a text to the request's line in the access log, such as "upstream=127.0.0.1:9000". Copied. */
WEIR_API void weir_request_note(weir_request *request, weir_span note);

/* ---- the request's body ---- */

#define WEIR_UNKNOWN_LENGTH UINT64_MAX

/* Announced length in bytes; 0: no body; WEIR_UNKNOWN_LENGTH: chunked, or HTTP/2 without a length. */
WEIR_API uint64_t weir_request_body_length(const weir_request *request);
/*
 * The whole body, if the route collects bodies (weir_route_options.collect_bytes); NULL: the request has
 * none. The request keeps its reference.
 */
WEIR_API weir_buf *weir_request_collected(const weir_request *request);

typedef struct weir_body_ops {
	/* buf->data[offset .. offset + length), read-only. Take a reference to keep them. */
	void (*data)(weir_request *request, weir_buf *buf, size_t offset, size_t length, void *arg);
	/* The body is complete. Trailers are available through weir_request_trailer. */
	void (*end)(weir_request *request, void *arg);
} weir_body_ops;

/*
 * Starts to deliver the body; data may be called from within. Sends "100 Continue" if the client waits
 * for it. If the body is malformed or late, the connection ends and the gone function is called. If a
 * request is answered without reading its body, the body is drained or the connection closed, whichever
 * is cheaper.
 */
WEIR_API void weir_request_read(weir_request *request, const weir_body_ops *ops, void *arg);
/* Pushes back on the client. Bytes that have already arrived may still be delivered once. */
WEIR_API void weir_request_pause(weir_request *request);
/* Ends a pause. */
WEIR_API void weir_request_resume(weir_request *request);
/* Fields that came after the body, once it has ended; false: no more. */
WEIR_API bool weir_request_trailer(const weir_request *request, size_t at, weir_field *ret_field);

/* ---- answering ---- */

/*
 * An answer. Framing (Content-Length, Transfer-Encoding, Connection), Date and Server are set by the
 * server: fields with these names are rejected as misuse.
 */
typedef struct weir_reply {
	unsigned status;          /* 200 .. 599 */
	const weir_field *fields; /* copied */
	size_t field_count;
	/*
	 * The body is one of: a part of a buffer (a reference is taken), bytes (copied), or a part of a
	 * file (which must stay open until the answer is over).
	 */
	weir_buf *buf;
	const void *bytes;
	int file; /* a descriptor, if file_length is not 0 */
	uint64_t offset, length;
	uint64_t file_length;
	/* Called at home once neither file nor buffer is needed any more; NULL: not called. */
	void (*over)(void *arg);
	void *over_arg;
} weir_reply;

/*
 * Sends a whole answer. HEAD, 204 and 304 send no body, whatever is given. Returns 0, or -EINVAL for an
 * invalid answer; in that case a 500 has been sent.
 */
WEIR_API int weir_request_reply(weir_request *request, const weir_reply *reply);
/* Answers with a short text/plain body; for errors and examples. */
WEIR_API int weir_request_reply_text(weir_request *request, unsigned status, weir_span text);
/*
 * 405: the path exists, but not for this method. allow becomes the field Allow, as in "GET, HEAD"; "" is an
 * empty one: no method is allowed at the moment. For handlers that look at the method themselves; see
 * "Methods" below for what the server does.
 */
WEIR_API int weir_request_reply_not_allowed(weir_request *request, const char *allow);

/*
 * Sends the head of a streamed answer of that many bytes (WEIR_UNKNOWN_LENGTH: chunked, or up to the end
 * of the connection). The body members of reply are ignored. At home.
 */
WEIR_API int weir_request_begin(weir_request *request, const weir_reply *reply, uint64_t length);
/* Sends an interim answer (100, 103); before begin. At home. */
WEIR_API int weir_request_interim(weir_request *request, unsigned status, const weir_field *fields,
				  size_t count);
/*
 * Sends bytes of the body. Returns 0; -ENOBUFS: more than the bound would wait, nothing was taken, and
 * drained will be called; -EPIPE: the client has gone; -EMSGSIZE: more than announced.
 */
WEIR_API int weir_request_write(weir_request *request, const void *bytes, size_t length);
/* The same for a part of a buffer, without a copy; a reference is taken. */
WEIR_API int weir_request_send(weir_request *request, weir_buf *buf, size_t offset, size_t length);
/* Sends what has been written now, instead of at the end of the turn. */
WEIR_API void weir_request_flush(weir_request *request);
/*
 * Sets a function that is called whenever the output falls below half of its bound, after a -ENOBUFS or
 * after it was above half.
 */
WEIR_API void weir_request_on_drained(weir_request *request, void (*fn)(weir_request *request, void *arg),
				      void *arg);
/* Bytes waiting to be sent. */
WEIR_API size_t weir_request_output(const weir_request *request);
/*
 * Ends a stream, with trailers if the protocol allows them. If fewer bytes were sent than announced, the
 * connection (HTTP/2: the stream) is cut.
 */
WEIR_API void weir_request_end(weir_request *request, const weir_field *trailers, size_t count);
/* Cuts the answer, so that the client can tell that it is incomplete. */
WEIR_API void weir_request_abort(weir_request *request);
/*
 * Switches protocols: sends 101 and these fields. From then on bytes pass unchanged in both directions:
 * from the client through the body's ops (set before, by weir_request_read), to the client by write and
 * send, until end or abort. HTTP/1.1 only; otherwise -ENOTSUP.
 */
WEIR_API int weir_request_upgrade(weir_request *request, const weir_field *fields, size_t count);

/*
 * Rejects the request as its route says: by default 503 with Retry-After and Weir-Shed. The details come
 * from weir_why_shed if the last offer on this thread was that of this request. Weir-Shed names the stage
 * or quota, the class and the reason; weir_http_options.no_shed_details leaves it out.
 */
WEIR_API void weir_request_reject(weir_request *request, weir_verdict why);
/* The drop function for stages that handle requests: it rejects them. */
WEIR_API void weir_request_drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg);

#ifdef __cplusplus
}
#endif
#endif
