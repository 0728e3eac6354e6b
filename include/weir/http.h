/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H
#define WEIR_HTTP_H

/*
 * An HTTP server on stages: HTTP/1.1 and HTTP/2, with and without TLS, behind one kind of request.
 *
 *	listen → read → parse → classify → admit → handle → write → done
 *
 * The server reads and parses on the reactor threads of one domain, finds class and route of the request by
 * the rules of its weir_routes, and offers the request's event to the route's stage: that offer is the
 * admission. Shed, the server answers by itself, from a canned reply with a reason. Admitted, the request
 * belongs to the stage like every event, until somebody answers it:
 *
 *	weir_request_reply                          a whole answer
 *	weir_request_begin, _write ..., _end        a stream
 *	weir_request_reject                         no answer but why
 *
 * Each of the three (begin, of a stream) settles the event if a handler owns it: as done; as refused where
 * the status is 429 or 503; as failed for other statuses from 500 on. So a stage's response time is that to
 * the first byte, and neither a slow reader nor a long stream counts as a slow service. A handler may as well
 * offer the event on to another stage, or hold it (weir_hold) and answer later. It never calls weir_done and
 * the like on a request: an answer does.
 *
 * Lifetime. A request lives until it is answered to the end, its body has been read or given up, and no stage
 * owns its event. When the client leaves before that, the event is cancelled and the gone function is called;
 * the owner still has to answer, which then only frees it. After a reply, an end, a rejection or an abort the
 * request is not the caller's any more.
 *
 * Threads. A request's home is the thread of its connection. Everything is called there, but for these, which
 * any thread that owns the event may call: the looks at the request (method, path, header, ...),
 * weir_request_alloc, weir_request_reply, weir_request_reject. Streams and bodies for threads that may wait
 * are in weir/stream.h; forms in weir/form.h, cookies in weir/cookie.h, certificates in weir/tls.h, an access
 * log in weir/log.h.
 *
 * Spans point into the request and are valid while the request is, but may move when a handler returns
 * without an answer: look again.
 */

#include <sys/socket.h>
#include <weir/file.h>
#include <weir/net.h>
#include <weir/stage.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_http weir_http;
typedef struct weir_routes weir_routes;
typedef struct weir_request weir_request;

/* Bytes somewhere, not ended by a NUL. */
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
	WEIR_METHOD_OTHER, /* a token, but none of these: see weir_request_method_text */
#define WEIR_X(name) WEIR_METHOD_##name,
	WEIR_METHODS(WEIR_X)
#undef WEIR_X
		WEIR_METHOD_COUNT
} weir_method;

/* ---- looking at a request ---- */

/* The request that an event handed to a stage belongs to, and back. */
WEIR_API weir_request *weir_request_of(weir_event *event);
WEIR_API weir_event *weir_request_event(weir_request *request);

WEIR_API weir_method weir_request_method(const weir_request *request);
WEIR_API weir_span weir_request_method_text(const weir_request *request);
/* As sent, percent-encoded, from the first '/' to before the '?'; "*" for OPTIONS *. Never empty. */
WEIR_API weir_span weir_request_path(const weir_request *request);
/* After the '?'; at is NULL where there is none. */
WEIR_API weir_span weir_request_query(const weir_request *request);
/* Host and port as the target or the Host field gave them; empty: HTTP/1.0 without one. */
WEIR_API weir_span weir_request_host(const weir_request *request);
/* 10, 11 or 20. */
WEIR_API unsigned weir_request_version(const weir_request *request);
WEIR_API bool weir_request_secure(const weir_request *request);
/* The client: of the connection, or as a trusted PROXY header gave it. */
WEIR_API const struct sockaddr *weir_request_client(const weir_request *request);
/* The subject of the client's verified certificate, as "CN=x,O=y"; empty: none. */
WEIR_API weir_span weir_request_certificate(const weir_request *request);
/* The first field of that name, whatever its case; at is NULL: there is none. */
WEIR_API weir_span weir_request_header(const weir_request *request, weir_span name);
/* All fields in the order they came; false: no more. Without HTTP/2's pseudo fields. */
WEIR_API bool weir_request_field(const weir_request *request, size_t at, weir_field *ret_field);
/* Value of the cookie; at is NULL: there is none. */
WEIR_API weir_span weir_request_cookie(const weir_request *request, weir_span name);
/* What its route was given (weir_route_options). */
WEIR_API void *weir_request_arg(const weir_request *request);
WEIR_API const char *weir_request_route_name(const weir_request *request);
/* When its first byte came. */
WEIR_API uint64_t weir_request_began_ns(const weir_request *request);
/*
 * Memory that lives as long as the request, aligned for anything. It is freed with the request, never before.
 * Its owner's thread.
 *
 * A request has WEIR_REQUEST_ALLOC_MAX bytes in all: one piece of that size, or many small ones. The head of
 * the request is kept in the same memory, and so are fields and small bodies of answers from other threads.
 * Pieces are rounded up to 16 bytes, and a piece that does not fit into the rest of a block begins a new one,
 * so some of the total is lost between pieces. The first pieces, about 1 KB together, cost no malloc. NULL:
 * the total is used up, or the system has no memory.
 */
#define WEIR_REQUEST_ALLOC_MAX (1024u * 1024u)
WEIR_API void *weir_request_alloc(weir_request *request, size_t bytes);
/* The owner's pointer; NULL at first. The server never frees it. */
WEIR_API void weir_request_set_user(weir_request *request, void *user);
WEIR_API void *weir_request_user(const weir_request *request);
/* Called once, at home, when the client leaves before the end of the answer; not from within another call. NULL fn: nobody wants to know. */
WEIR_API void weir_request_on_gone(weir_request *request, void (*fn)(weir_request *request, void *arg),
				   void *arg);
/* Its reply does not count in the access log as one of its own: the sentry's health checks, say. Adds text to the log's line: "upstream=127.0.0.1:9000". Copied. */
WEIR_API void weir_request_note(weir_request *request, weir_span note);

/* ---- the request's body ---- */

#define WEIR_UNKNOWN_LENGTH UINT64_MAX

/* Bytes announced; 0: no body; WEIR_UNKNOWN_LENGTH: chunked, or HTTP/2 without a length. */
WEIR_API uint64_t weir_request_body_length(const weir_request *request);
/* The whole body, if the route collects bodies (weir_route_options.collect_bytes); NULL: it has none. The request keeps its reference. */
WEIR_API weir_buf *weir_request_collected(const weir_request *request);

typedef struct weir_body_ops {
	/* buf->data[offset .. offset + length), read-only; take a reference to keep them. */
	void (*data)(weir_request *request, weir_buf *buf, size_t offset, size_t length, void *arg);
	/* No more will come; trailers are found by weir_request_trailer. */
	void (*end)(weir_request *request, void *arg);
} weir_body_ops;

/*
 * Starts to deliver the body ("100 Continue" is sent if the client waits for it); data may be called from within. A body whose bytes are wrong or
 * late is an end of the connection: the gone function. A request that is answered without reading its body has it drained or its connection closed, whichever is cheaper.
 */
WEIR_API void weir_request_read(weir_request *request, const weir_body_ops *ops, void *arg);
/* Pushes back on the client; what is at hand already may still come once. */
WEIR_API void weir_request_pause(weir_request *request);
WEIR_API void weir_request_resume(weir_request *request);
WEIR_API bool weir_request_trailer(const weir_request *request, size_t at, weir_field *ret_field);

/* ---- answering ---- */

/* Of an answer. Framing (Content-Length, Transfer-Encoding, Connection), Date and Server are the server's own: fields of these names are refused as misuse. */
typedef struct weir_reply {
	unsigned status;          /* 200 .. 599 */
	const weir_field *fields; /* copied */
	size_t field_count;
	/* The body, one of: a part of a buffer (a reference is taken), bytes that are copied, a part of a file (which must stay open until the answer is over). */
	weir_buf *buf;
	const void *bytes;
	int file; /* a descriptor, if file_length is not 0 */
	uint64_t offset, length;
	uint64_t file_length;
	void (*over)(
		void *arg); /* called at home once neither file nor buffer is needed any more; NULL: not called */
	void *over_arg;
} weir_reply;

/* A whole answer. HEAD, 204 and 304 send no body, whatever is given. 0, or -EINVAL for what no answer can be: then a 500 was sent. */
WEIR_API int weir_request_reply(weir_request *request, const weir_reply *reply);
/* A short text as the body, text/plain; for errors and examples. */
WEIR_API int weir_request_reply_text(weir_request *request, unsigned status, weir_span text);
/*
 * 405: the path exists, but not for this method. allow becomes the field Allow, as in "GET, HEAD"; "" is an
 * empty one: no method is allowed at the moment. For handlers that look at the method themselves; see
 * "Methods" below for what the server does.
 */
WEIR_API int weir_request_reply_not_allowed(weir_request *request, const char *allow);

/* The head of a streamed answer of that many bytes (WEIR_UNKNOWN_LENGTH: chunked, or up to the end of the connection). Body members of reply are ignored. At home. */
WEIR_API int weir_request_begin(weir_request *request, const weir_reply *reply, uint64_t length);
/* An interim answer (100, 103); before begin. At home. */
WEIR_API int weir_request_interim(weir_request *request, unsigned status, const weir_field *fields,
				  size_t count);
/* Bytes of the body: 0; -ENOBUFS: more than the bound wait, nothing taken, drained will be called; -EPIPE: the client has gone; -EMSGSIZE: more than announced. */
WEIR_API int weir_request_write(weir_request *request, const void *bytes, size_t length);
WEIR_API int weir_request_send(weir_request *request, weir_buf *buf, size_t offset, size_t length);
/* Sends what was written now instead of at the end of the turn. */
WEIR_API void weir_request_flush(weir_request *request);
/* Called whenever what waits to be sent has fallen below half of its bound after a -ENOBUFS or after it was above half. */
WEIR_API void weir_request_on_drained(weir_request *request, void (*fn)(weir_request *request, void *arg),
				      void *arg);
/* Bytes that wait to be sent. */
WEIR_API size_t weir_request_output(const weir_request *request);
/* The end of a stream, with trailers where the protocol has room for them. Fewer bytes than announced: the connection (HTTP/2: the stream) is cut. */
WEIR_API void weir_request_end(weir_request *request, const weir_field *trailers, size_t count);
/* Cuts the answer, so that the client knows that it is not whole. */
WEIR_API void weir_request_abort(weir_request *request);
/*
 * Switches protocols: 101 and these fields, and from then on the bytes both ways as they are: from the client by the body's ops (set by weir_request_read before), to it by
 * write and send, until end or abort. HTTP/1.1 only; elsewhere -ENOTSUP.
 */
WEIR_API int weir_request_upgrade(weir_request *request, const weir_field *fields, size_t count);

/*
 * Turns it away as the route says: 503 with Retry-After and Weir-Shed, from the last offer's weir_why_shed
 * where that is about it. Weir-Shed names the stage or quota, the class and the reason;
 * weir_http_options.no_shed_details leaves it out.
 */
WEIR_API void weir_request_reject(weir_request *request, weir_verdict why);
/* The drop function for stages that handle requests: rejects. */
WEIR_API void weir_request_drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg);

/* ---- routes: which requests go where, as which class ---- */

/*
 * Rules are words; all rules of a list must match:
 *	"path /exact", "path /prefix/\*" (a star at the end), "path *.jpg" (at the beginning), "host www.example.org", "host *.example.org",
 *	"method GET HEAD" (one of them), "header NAME" (is there), "header NAME = VALUE", "header NAME ~ PART" (contains it),
 *	"cookie NAME", "cookie NAME = VALUE", "from 10.0.0.0/8 ::1" (one of them), "certificate" (any), "certificate CN=VALUE", "scheme https",
 *	"not RULE".
 *
 * Methods. A request that no route matches, but that a route would match by another method, is answered with
 * 405 and Allow; all others that no route matches with 404. Allow lists the methods of WEIR_METHODS that a
 * route would match; CONNECT, and methods of other names, are not listed. Rules other than "method" must
 * match as ever, so nobody learns of routes that are not for him. A route behind them that matches everything
 * takes such requests; its handler may answer by weir_request_reply_not_allowed.
 *
 * Copies. All texts in the options below (names, rules, location, page_type, session, key) are copied, as are
 * the arrays of rules: nothing that an option points to need outlive the call. Two are not: of page a
 * reference is taken, and stage and arg are kept as pointers, so the stage must live as long as the server,
 * and arg as long as requests of the route.
 */
#define WEIR_RULES_MAX 16

/*
 * Sees a request before it is admitted, and decides its class: from a session that the application has
 * verified, say. Its head is all there is: method, path, query, fields, cookies, client, certificate. The
 * body has not come. klass is what rules and sessions came to, and what is returned is the class; anything
 * beyond the lowest class is taken as the lowest. It may also note what it found for the handler:
 * weir_request_set_user, with memory of weir_request_alloc or something that outlives the request, since a
 * request that is shed then is freed without another call of the application.
 *
 * Nothing that a client sends sets the class past this function. So it has to verify what it goes by (a
 * signature, a look at a table of sessions): a class that is taken from a field or cookie as it came is one
 * that every client can choose.
 *
 * Threads: the request's home, for several requests at once on several threads. It must not block, answer or
 * offer the request. Cost: its own time, for every request of the route that no quota has turned away, also
 * under overload, when most are then shed: keep it to a microsecond or so. A route without it pays nothing.
 */
typedef unsigned weir_classify(weir_request *request, unsigned klass, void *arg);

/*
 * For weir_route_options.klass. A route that says nothing (0) leaves the class to the rules of
 * weir_routes_add_class. -1 says the same. 1 to 7 are that class. As 0 is what forgetting gives, the highest
 * class has to be asked for by name.
 */
#define WEIR_CLASS_BY_RULES 0
#define WEIR_CLASS_HIGHEST  (-100)

typedef enum weir_reject_kind {
	WEIR_REJECT_STATUS,   /* status with a short text */
	WEIR_REJECT_REDIRECT, /* to location */
	WEIR_REJECT_PAGE,     /* status with page as the body */
} weir_reject_kind;

typedef struct weir_class_options {
	const char *name;         /* for Weir-Shed, logs and metrics */
	unsigned klass;           /* 0 is the highest, 7 the lowest; there is no default */
	const char *const *rules; /* ends with NULL; none: every request */
} weir_class_options;

typedef struct weir_route_options {
	const char *name;
	const char *const *rules;
	weir_stage *stage; /* where its requests are offered to; required */
	void *arg;
	int klass;               /* 1 to 7, WEIR_CLASS_HIGHEST, or 0: as the classes say */
	bool exempt;             /* never shed by a law: health checks */
	weir_classify *classify; /* has the last word on the class; NULL: nobody is asked */
	void *classify_arg;
	size_t collect_bytes; /* bodies are collected before the offer, up to this; beyond: 413. 0: handlers read them */
	uint64_t deadline_ns; /* after the first byte of the request; 0: none */
	weir_reject_kind reject;
	unsigned reject_status; /* 0: 503 */
	const char *location;
	weir_buf *page;
	const char *page_type;
	/*
	 * Admission by session: "cookie NAME" or "header NAME" says what a session is known by. NULL: nothing. A request of a session that was let in and answered well keeps its
	 * class; any other is offered one class lower. Routes with the same text share what they know, and must have the same idle time and keys.
	 */
	const char *session;
	uint64_t session_idle_ns; /* a session that is not used for so long is forgotten; 0: 10 min */
	uint32_t session_keys;    /* sessions remembered at most; 0: 65,536 */
} weir_route_options;

/* An empty table. Made by one thread, then given to a server, which takes a reference; immutable from then on. */
WEIR_API int weir_routes_new(weir_routes **ret_routes);
WEIR_API void weir_routes_unref(weir_routes *routes);
/* The first class, the first route whose rules match is taken. -EINVAL with weir_error: what is wrong in which rule, and what would be accepted. */
WEIR_API int weir_routes_add_class(weir_routes *routes, const weir_class_options *options);
WEIR_API int weir_routes_add(weir_routes *routes, const weir_route_options *options);
/*
 * A quota: so many a second for each client, each value of a header, or all together. Asked before the offer; what is beyond it is answered with 429 and counted under the
 * verdict "rate". Every limit whose rules match is asked, in order.
 */
typedef struct weir_limit_options {
	const char *name;
	const char *const *rules;
	const char *key; /* "client", "header NAME", "cookie NAME", "all"; NULL: "client" */
	double rate_per_s, burst;
	uint32_t keys; /* kept at most; 0: 65,536 */
} weir_limit_options;
WEIR_API int weir_routes_add_limit(weir_routes *routes, const weir_limit_options *options);
/*
 * The class of a request that no class' rules match. Without this call it is 0, the highest: right where
 * there are no classes, and wrong where the classes are those of better clients. Call it wherever
 * weir_routes_add_class is called without a class for the rest.
 */
WEIR_API int weir_routes_default_class(weir_routes *routes, unsigned klass, const char *name);

/* ---- servers ---- */

typedef struct weir_http_limits {
	uint32_t line_bytes;       /* of the request line; 0: 8 KB */
	uint32_t head_bytes;       /* of line and fields; 0: 32 KB */
	uint32_t fields;           /* 0: 100 */
	uint64_t body_bytes;       /* 0: 1 GB; a route's collect_bytes bounds what is kept */
	uint64_t first_byte_ns;    /* from accept (and handshake) to the first byte; 0: 10 s */
	uint64_t head_ns;          /* from the first byte to the end of the head; 0: 10 s */
	uint64_t body_gap_ns;      /* between two parts of a body; 0: 30 s */
	uint32_t body_bytes_per_s; /* slower than this on average after the first ten seconds: cut; 0: 100 */
	uint64_t idle_ns;          /* between requests; 0: 60 s */
	uint64_t drain_idle_ns; /* a drain leaves an idle connection so long for one more request; 0: 1 s */
	/*
	 * A client that has ended its side of the connection, and whose answer has not begun, is taken for gone after so long: one that gives up looks no different
	 * from one that has said all. HTTP/1. 0: 50 ms; UINT64_MAX: never.
	 */
	uint64_t half_closed_ns;
	/* The same once its answer has begun, if nothing of it flows for so long (up to twice that); nobody cuts an answer that goes on. 0: 1 s; UINT64_MAX: never. */
	uint64_t half_closed_gap_ns;
	uint64_t handshake_ns; /* of TLS; 0: 10 s */
	uint32_t requests;     /* on one connection; 0: no bound */
	uint32_t output_bytes; /* of an answer, waiting to be sent; 0: 256 KB */
	uint64_t output_ns;    /* without progress; 0: 30 s */
	uint32_t streams;      /* of an HTTP/2 connection at once; 0: 128 */
} weir_http_limits;

/* One line of the access log. Spans are valid during the call. */
typedef struct weir_http_record {
	const weir_request *request; /* NULL: what came was no request */
	unsigned status; /* 0: the client left before one was sent; 400 and so on for what was no request */
	uint64_t began_ns, first_byte_ns, ended_ns;
	uint64_t body_bytes; /* of the answer, sent */
	weir_verdict shed;   /* WEIR_ADMITTED: it was not */
	unsigned klass;
	weir_span stage, note;
	const struct sockaddr *client;
	const char *error; /* what was wrong with it, NULL: nothing */
	bool gone;         /* the client left before the end */
} weir_http_record;

typedef struct weir_http_options {
	weir_domain *domain; /* a reactor domain */
	weir_routes *routes; /* a reference is taken */
	weir_http_limits limits;
	const char *server; /* the Server field; NULL: "weir"; "": none */
	/* Told of every request once it is over, on its home thread; must not block. NULL: no log. */
	void (*log)(const weir_http_record *record, void *arg);
	void *log_arg;
	bool log_sheds_only; /* told only of those that were turned away: the others need not pay for a record */
	/*
	 * Usually a server learns what its requests take by themselves, per route, method and folded path, from answers below 400 while their stage is calm (weir_stage_calm), and
	 * sets the event's cost to it, in microseconds, before the first offer. true: it does not, and the cost is 0.
	 */
	bool no_costs;
	/*
	 * Usually a request that is turned away is told by whom and why, in the field Weir-Shed:
	 * "stage=db;class=gold;reason=full". Good for clients of one's own and for finding faults; but it
	 * tells strangers the names of stages, quotas and classes. true: there is no such field. Status and
	 * Retry-After stay, and the log has the reason in either case.
	 */
	bool no_shed_details;
} weir_http_options;

typedef struct weir_http_stats {
	uint64_t connections, requests, malformed, rejected, timeouts, gone, handshakes, handshakes_failed;
	uint64_t h2_connections, upgrades;
	uint32_t open, tls_open; /* connections now */
	uint32_t busy;           /* requests now */
} weir_http_stats;

/* Makes a server of a world that has started or not yet. */
WEIR_API int weir_http_new(const weir_http_options *options, weir_http **ret_http);
/* Other routes from now on; requests under way keep theirs. Any thread. */
WEIR_API int weir_http_set_routes(weir_http *http, weir_routes *routes);
WEIR_API void weir_http_read_stats(const weir_http *http, weir_http_stats *ret_stats);

typedef struct weir_tls weir_tls; /* certificates and settings: weir/tls.h */

typedef struct weir_http_listen {
	const struct sockaddr *address;
	socklen_t address_length;
	const int *
		fds; /* sockets that listen already, taken over (one for each thread, or fewer); NULL: made anew */
	size_t fd_count;
	int backlog;
	uint32_t max_connections;
	weir_tls *tls; /* a reference is taken; NULL: plain */
	bool http2;    /* by prior knowledge, and by ALPN with TLS */
	bool proxy;    /* every connection begins with a PROXY header (v1 or v2) */
} weir_http_listen;

/* Adds a listener, of a started world. The number is for the calls below. */
WEIR_API int weir_http_add_listener(weir_http *http, const weir_http_listen *listen, unsigned *ret_number);
WEIR_API int weir_http_address(const weir_http *http, unsigned number, char *ret_text, size_t size,
			       struct sockaddr_storage *ret_address);
/*
 * Other certificates from the next handshake on, for a listener that has TLS already: after a renewal. Takes
 * a reference. Any one thread that is no reactor. -EINVAL: there is no such listener, or it has no TLS.
 */
WEIR_API int weir_http_set_tls(weir_http *http, unsigned number, weir_tls *tls);
/* No new connections; idle ones are closed, busy ones after their answer ("Connection: close", GOAWAY). Any thread but reactors. */
WEIR_API void weir_http_drain(weir_http *http);
/*
 * Drains, and waits until the last connection has closed: every request that came has its answer by then. At
 * most timeout_ns (UINT64_MAX: as long as it takes). 0, or -ETIMEDOUT: some are still open, and the server
 * goes on draining; call it again, or go on and cut them. The world has to run meanwhile. Any thread but
 * reactors (-EINVAL). An orderly end is
 *
 *	weir_http_drain_wait(http, ...);    answers are out
 *	weir_world_stop(world, ...);        stages are empty
 *	weir_http_free(&http);
 *	weir_world_free(&world);
 */
WEIR_API int weir_http_drain_wait(weir_http *http, uint64_t timeout_ns);
/* Connections still open. */
WEIR_API uint32_t weir_http_open(const weir_http *http);
/* Closes everything, frees. As weir_listener_free: not on a reactor thread. Sets it to NULL. */
WEIR_API void weir_http_free(weir_http **http);

#ifdef __cplusplus
}
#endif
#endif
