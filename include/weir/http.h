/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H
#define WEIR_HTTP_H

/*
 * An HTTP server on stages: HTTP/1.1 and HTTP/2, with and without TLS, behind one request type.
 *
 *  listen → read → parse → classify → admit → handle → write → done
 *
 * The server reads and parses on the reactor threads of one domain. It finds the request's class and
 * route by the rules of its weir_routes and offers the request's event to the route's stage: that offer
 * is the admission. If the event is shed, the server answers by itself, with a canned reply that states
 * the reason. If it is admitted, the request belongs to the stage, whose handler answers it
 * (weir/request.h).
 *
 * Beside this header: forms in weir/form.h, cookies in weir/cookie.h, certificates in weir/tls.h, an access
 * log in weir/log.h.
 *
 * Threads: a table of routes is made by one thread. Servers: as each function says.
 */

#include <weir/request.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_http weir_http;
typedef struct weir_routes weir_routes;

/* ---- routes: which requests go to which stage, in which class ---- */

/*
 * Rules are words; all rules of a list must match:
 *  "path /exact", "path /prefix/\*" (a star at the end), "path *.jpg" (at the beginning),
 *  "host www.example.org", "host *.example.org", "method GET HEAD" (one of them),
 *  "header NAME" (is present), "header NAME = VALUE", "header NAME ~ PART" (contains it),
 *  "cookie NAME", "cookie NAME = VALUE", "from 10.0.0.0/8 ::1" (one of them),
 *  "signed-cookie NAME by FILE", "signed-cookie NAME = VALUE by FILE" (signed with a key in the file:
 *  docs/config.md says how; the file is read when the rule is made),
 *  "certificate" (any), "certificate CN=VALUE", "scheme https", "not RULE".
 *
 * Methods. If no route matches a request, but a route would match it with another method, the answer is 405
 * with Allow. Otherwise it is 404. Allow lists those of WEIR_METHODS that a route would match, except
 * CONNECT. Rules other than "method" must match as usual, so clients do not learn of routes that are not for them. A
 * last route that matches everything takes such requests; its handler may answer with
 * weir_request_reply_not_allowed.
 *
 * Copies. All texts in the options below (names, rules, location, page_type, session, key) and the arrays of
 * rules are copied; they need not outlive the call. A reference is taken to page. stage, arg, classify_arg
 * and refuse_arg are kept as pointers: the stage must live as long as the server, and the others as long as
 * requests of the route.
 */
#define WEIR_RULES_MAX 16

/*
 * Sees a request before it is admitted, and decides its class: from a session that the application has
 * verified, say. It sees the head: method, path, query, fields, cookies, client, certificate. If the route
 * collects bodies, it is called once the body is there (weir_request_collected); otherwise no body has come. It
 * is called once for a request. klass is what rules and sessions came to, and what is returned is the class; anything
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
 * What a rejected request is answered with, if its route has a function for that. The server adds
 * Retry-After and Weir-Shed. What the members point to is copied when the function has returned: use memory
 * of weir_request_alloc, or constants.
 */
typedef struct weir_refusal {
	weir_verdict why;
	unsigned status;        /* as the route says; may be changed to another one from 200 to 599 */
	uint32_t retry_after_s; /* what the client is told */
	/* to be filled */
	const weir_field *fields; /* Content-Type, say */
	size_t field_count;       /* at most WEIR_REFUSAL_FIELDS; those beyond are left out */
	const void *bytes;        /* the body; up to 64 KB, anything longer is not sent */
	size_t length;
} weir_refusal;

#define WEIR_REFUSAL_FIELDS 8
#define WEIR_REFUSAL_BYTES  (64u * 1024u)

/*
 * Makes the answer to a request that its stage rejected, or that was dropped: a page in the application's
 * own style, which keeps what was typed into a form (weir_request_collected). false: the answer is as
 * `reject` of the route says. It is not called for requests beyond a quota.
 *
 * Threads: as weir_classify. It must not block, answer or offer the request. Under overload most requests
 * come here, so its time is taken from those that are served.
 */
typedef bool weir_refuse(weir_request *request, weir_refusal *refusal, void *arg);

/*
 * Called before a rejected request is logged, if requests that were not rejected are logged, too: it may note
 * (weir_request_note) what a handler would have. Threads: as weir_classify.
 */
typedef void weir_note_shed(weir_request *request, void *arg);

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
	const char *const *rules; /* ends with NULL; an empty list matches every request */
} weir_class_options;

typedef struct weir_route_options {
	const char *name;
	const char *const *rules;
	weir_stage *stage; /* where its requests are offered; required */
	void *arg;
	int klass;               /* 1 to 7, WEIR_CLASS_HIGHEST, or 0: as determined by the classes */
	bool exempt;             /* never shed by a law: health checks */
	weir_classify *classify; /* has the last word on the class; NULL: none */
	void *classify_arg;
	weir_refuse *refuse; /* answers what was rejected; NULL: as reject says */
	void *refuse_arg;
	weir_note_shed *note_shed; /* NULL: rejected requests have no note */
	void *note_shed_arg;
	/*
	 * Bodies up to this size are collected before the offer; larger ones get 413. 0: handlers read
	 * them.
	 */
	size_t collect_bytes;
	/*
	 * A request with a body is offered once so much of its body has come, or all of it: until then a slow
	 * client holds nothing but memory. 0: it is offered as soon as its head is there. A stream of
	 * gRPC is, too, since its client may wait for an answer before it sends anything; unless gather_streams
	 * says that nothing here understands those.
	 */
	size_t gather_bytes;
	bool gather_streams;
	uint64_t deadline_ns; /* after the first byte of the request; 0: none */
	weir_reject_kind reject;
	unsigned reject_status; /* 0: 503 */
	const char *location;
	weir_buf *page;
	const char *page_type;
	/*
	 * Admission by session: "cookie NAME" or "header NAME" identifies the session; NULL: no sessions.
	 * A request of a session that was admitted and answered well keeps its class; any other is
	 * offered one class lower. Routes with the same text share their sessions, and must have the same
	 * idle time and number of keys.
	 */
	const char *session;
	uint64_t session_idle_ns; /* a session unused for this long is forgotten; 0: 10 min */
	uint32_t session_keys;    /* maximum number of sessions remembered; 0: 65,536 */
} weir_route_options;

/*
 * Makes an empty table. One thread fills it and then gives it to a server, which takes a reference. From
 * then on it is immutable.
 */
WEIR_API int weir_routes_new(weir_routes **ret_routes);
/* Drops a reference; the last one frees the table. */
WEIR_API void weir_routes_unref(weir_routes *routes);
/*
 * The first class and the first route whose rules match are used. -EINVAL, with weir_error: what is wrong
 * in which rule, and what would be accepted.
 */
WEIR_API int weir_routes_add_class(weir_routes *routes, const weir_class_options *options);
/* Adds a route, after those that are there. Errors as above. */
WEIR_API int weir_routes_add(weir_routes *routes, const weir_route_options *options);
/*
 * A quota: a rate for each client, for each value of a header or cookie, or for all together. It is
 * checked before the offer. Requests beyond it are answered with 429 and counted under the verdict
 * "rate". Every limit whose rules match is checked, in order.
 */
typedef struct weir_limit_options {
	const char *name;
	const char *const *rules;
	const char *key; /* "client", "header NAME", "cookie NAME", "all"; NULL: "client" */
	double rate_per_s, burst;
	uint32_t keys; /* kept at most; 0: 65,536 */
} weir_limit_options;
/* Adds a quota, which every request that its rules match must pass. Errors as above. */
WEIR_API int weir_routes_add_limit(weir_routes *routes, const weir_limit_options *options);
/*
 * The class of requests that match no class's rules. Without this call it is 0, the highest. That is right
 * where there are no classes, and wrong where the classes are those of better clients. Call it whenever you
 * add classes but none for the rest.
 */
WEIR_API int weir_routes_default_class(weir_routes *routes, unsigned klass, const char *name);

/*
 * Takes paths as they come: rules compare the path as it was sent, percent-encoded, and handlers and backends
 * get that path. Without this call rules see the decoded path with dot segments resolved, and handlers and
 * backends get a path that means the same: what was judged is what is asked for.
 */
WEIR_API int weir_routes_raw_paths(weir_routes *routes);

/* ---- servers ---- */

typedef struct weir_http_limits {
	uint32_t line_bytes;    /* of the request line; 0: 8 KB */
	uint32_t head_bytes;    /* of line and fields; 0: 32 KB */
	uint32_t fields;        /* 0: 100 */
	uint64_t body_bytes;    /* 0: 1 GB; a route's collect_bytes bounds what is kept */
	uint64_t first_byte_ns; /* from accept (or handshake) to the first byte; 0: 10 s */
	uint64_t head_ns;       /* from the first byte to the end of the head; 0: 10 s */
	uint64_t body_gap_ns;   /* between two parts of a body; 0: 30 s */
	/* Minimum average after the first ten seconds, slower ones are cut; 0: 100. */
	uint32_t body_bytes_per_s;
	uint64_t idle_ns; /* between requests; 0: 60 s */
	/* During a drain, how long an idle connection may send one more request; 0: 1 s. */
	uint64_t drain_idle_ns;
	/*
	 * If a client has closed its side of the connection before its answer begins, it is taken for
	 * gone after this time: a client that gives up looks the same as one that has sent everything.
	 * HTTP/1. 0: 50 ms; UINT64_MAX: never.
	 */
	uint64_t half_closed_ns;
	/*
	 * The same once the answer has begun, if none of it has been sent for this long (up to twice as
	 * long). An answer that makes progress is never cut. 0: 1 s; UINT64_MAX: never.
	 */
	uint64_t half_closed_gap_ns;
	uint64_t handshake_ns; /* of TLS; 0: 10 s */
	uint32_t requests;     /* per connection; 0: no bound */
	uint32_t output_bytes; /* of an answer, waiting to be sent; 0: 256 KB */
	uint64_t output_ns;    /* output without progress; 0: 30 s */
	uint32_t streams;      /* concurrent streams of an HTTP/2 connection; 0: 128 */
	/*
	 * Bytes of bodies, of all threads together, that are gathered before their requests are offered; beyond
	 * that requests are offered at once. 0: 64 MB.
	 */
	uint64_t gather_bytes;
	/*
	 * Rejections per second to one address beyond which each waits for the delay before it is sent. 0: none
	 * waits. The delay is 250 ms unless set.
	 */
	double hammering_per_s;
	uint64_t hammering_delay_ns;
	uint32_t requests_at_once; /* of all connections; further ones are rejected; 0: 65536 */
	/*
	 * While three quarters of the connections, of the requests at once, of the memory for gathered bodies or of a
	 * backend's connections are in use, a client address that holds this part of them gets no more, if there
	 * are other clients. 0: a quarter; 1: no such bound.
	 */
	double client_share;
} weir_http_limits;

/* One line of the access log. Spans are valid during the call. */
typedef struct weir_http_record {
	const weir_request *request; /* NULL: the input was not a valid request */
	unsigned status; /* 0: the client left before one was sent; 400 and so on for invalid requests */
	uint64_t began_ns, first_byte_ns, ended_ns;
	uint64_t body_bytes; /* of the answer, sent */
	weir_verdict shed;   /* WEIR_ADMITTED: not shed */
	unsigned klass;
	weir_span stage, note;
	weir_span path; /* as it was sent; empty: the input was not a valid request */
	const struct sockaddr *client;
	const char *error; /* what was wrong with the request; NULL: nothing */
	bool gone;         /* the client left before the end of the answer */
} weir_http_record;

typedef struct weir_http_options {
	weir_domain *domain; /* a reactor domain */
	weir_routes *routes; /* a reference is taken */
	weir_http_limits limits;
	const char *server; /* the Server field; NULL: "weir"; "": none */
	/* Called for every request once it is over, on its home thread. It must not block. NULL: no log. */
	void (*log)(const weir_http_record *record, void *arg);
	void *log_arg;
	bool log_sheds_only; /* call log only for requests that were shed: the others then cost no record */
	/*
	 * By default a server learns how long its requests take without queueing, per route, method and
	 * folded path, from answers below 400 while their stage is calm (weir_stage_calm). It sets the
	 * event's cost to that time, in microseconds, before the first offer. true: it does not, and the
	 * cost is 0.
	 */
	bool no_costs;
	/*
	 * Usually a request that is turned away is told by whom and why, in the field Weir-Shed:
	 * "stage=db;class=gold;reason=full". Good for clients of one's own and for finding faults; but it
	 * tells strangers the names of stages, quotas and classes. true: there is no such field. Status and
	 * Retry-After stay, and the log has the reason in either case.
	 */
	bool no_shed_details;
	/*
	 * Answers of handlers tell in the field Server-Timing how long the request waited before its handler got
	 * it: "queue;dur=1.500", in milliseconds, which a sentry before this server takes off its cost. For whole answers
	 * from the thread of a pool they also tell its processor time: "cpu;dur=12.500". That counts from the
	 * thread's answer before, so it assumes that a thread answers each request before it takes the next. For an
	 * answer that has such a field already, nothing is added.
	 */
	bool tell_timing;
	/*
	 * Answers of handlers tell in the field endpoint-load-metrics how busy this server is, in the text
	 * form of ORCA: processor use, requests per second, the time that requests wait in its stages, how
	 * many are in service. It is measured again every 100 ms while there are answers. For an answer that
	 * has such a field already, nothing is added.
	 */
	bool tell_load;
} weir_http_options;

typedef struct weir_http_stats {
	uint64_t connections, requests, malformed, rejected, timeouts, gone, handshakes, handshakes_failed;
	uint64_t h2_connections, upgrades;
	uint64_t accept_failures; /* times that accepting stopped for want of descriptors or memory */
	uint64_t tls_failures;    /* connections whose TLS failed after the handshake */
	uint64_t share_refused;   /* connections and requests of clients that held more than their share */
	uint32_t open, tls_open;  /* open connections */
	uint32_t busy;            /* requests in progress */
} weir_http_stats;

/* Statuses are below this. */
#define WEIR_HTTP_STATUSES 600

/* Makes a server, before or after the world has started. */
WEIR_API int weir_http_new(const weir_http_options *options, weir_http **ret_http);
/* Replaces the routes from now on; requests in progress keep theirs. Any thread. */
WEIR_API int weir_http_set_routes(weir_http *http, weir_routes *routes);
/* The counts of all threads together, at any time. */
WEIR_API void weir_http_read_stats(const weir_http *http, weir_http_stats *ret_stats);
/* How many answers had which status, of all threads together. Requests whose client left before have none. */
WEIR_API void weir_http_read_statuses(const weir_http *http, uint64_t ret_counts[WEIR_HTTP_STATUSES]);

typedef struct weir_tls weir_tls; /* certificates and settings: weir/tls.h */

typedef struct weir_http_listen {
	const struct sockaddr *address;
	socklen_t address_length;
	const struct weir_listen_file *file; /* of a new socket path (weir/net.h); NULL: by the umask */
	/* Listening sockets that are taken over (one per thread, or fewer); NULL: new ones are made. */
	const int *fds;
	size_t fd_count;
	bool owns_path; /* their socket path is removed at the end, as one that was made */
	int backlog;
	uint32_t max_connections;
	/*
	 * If a thread has so many connections, the one that has been silent for longest (no request is under way)
	 * is closed for each new one. For listeners with few clients, which nobody should keep out. 0: never.
	 */
	uint32_t crowded;
	weir_tls *tls; /* a reference is taken; NULL: plain */
	bool http2;    /* by prior knowledge, and by ALPN with TLS */
	bool proxy;    /* every connection begins with a PROXY header (v1 or v2) */
	/*
	 * Proxies in front: addresses and networks, "10.0.0.0/8", ended by NULL. From these the client is who
	 * X-Forwarded-For says, read from its end past other trusted proxies, and X-Forwarded-Proto tells
	 * whether it uses TLS. NULL: nobody is believed.
	 */
	const char *const *trusted;
	/*
	 * The trusted proxies are Weirs: the class and the time that is left are what their fields Weir-Class and
	 * Weir-Deadline say. Others would have to remove these fields where clients send them.
	 */
	bool hops;
} weir_http_listen;

/* Adds a listener in a started world. *ret_number identifies it in the calls below. */
WEIR_API int weir_http_add_listener(weir_http *http, const weir_http_listen *listen, unsigned *ret_number);
/* Where it listens, as text and as a sockaddr; either may be NULL. */
WEIR_API int weir_http_address(const weir_http *http, unsigned number, char *ret_text, size_t size,
			       struct sockaddr_storage *ret_address);
/*
 * Replaces the certificates of a listener with TLS, from the next handshake on: after a renewal. Takes a
 * reference. Any one thread that is not a reactor thread. -EINVAL: there is no such listener, or it has no
 * TLS.
 */
WEIR_API int weir_http_set_tls(weir_http *http, unsigned number, weir_tls *tls);
/*
 * Accepts no new connections, closes idle ones, and closes busy ones after their answer ("Connection:
 * close", GOAWAY). Any thread except reactor threads.
 */
WEIR_API void weir_http_drain(weir_http *http);
/*
 * Drains, and waits until the last connection has closed: by then every request that came has its answer. At
 * most timeout_ns (UINT64_MAX: as long as it takes). 0, or -ETIMEDOUT: some are still open, and the server
 * goes on draining; call it again, or go on and cut them. The world has to run meanwhile. Any thread except
 * reactor threads (-EINVAL). An orderly end is
 *
 *  weir_http_drain_wait(http, ...);    answers are out
 *  weir_world_stop(world, ...);        stages are empty
 *  weir_http_free(&http);
 *  weir_world_free(&world);
 */
WEIR_API int weir_http_drain_wait(weir_http *http, uint64_t timeout_ns);
/* Number of open connections. */
WEIR_API uint32_t weir_http_open(const weir_http *http);
/*
 * Closes everything and frees the server. Like weir_listener_free, not on a reactor thread. Sets *http to
 * NULL.
 */
WEIR_API void weir_http_free(weir_http **http);

#ifdef __cplusplus
}
#endif
#endif
