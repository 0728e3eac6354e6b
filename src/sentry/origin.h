/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_ORIGIN_H
#define WEIR_SENTRY_ORIGIN_H

/*
 * An origin: a backend as this process knows it: its address, load and health, over all threads.
 *
 * Health has two sources. Active checks (health.h) count answers in a row: after `fall` bad ones it is down,
 * after `rise` good ones it is up again. Real calls are the passive source: `failures` in a row eject it, for
 * a time that doubles with each ejection. The fleet (balance.h) decides whether to eject, and never ejects
 * the last one. A backend that comes back, either way, starts slowly: its weight grows from a tenth to 1
 * within slow_start_ns.
 *
 * Addresses. A name is resolved when the backend is made, and then again by a separate thread (resolve.h), when
 * its time to live is over, never by a reactor. New connections first try the address that worked last, then the others.
 * A service (SRV) is an origin that gets no calls: each of its targets is an origin of its own (sentry.c).
 *
 * Threads: options and names are const. Addresses are under a lock, held for a copy, that only new
 * connections take. Everything else is atomic and approximate: two threads that report at once may lose a
 * count, never a bound.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <weir/http.h>
#include <weir/loop.h>

#define WEIR_ORIGIN_ADDRESSES 8
#define WEIR_ORIGIN_NAME      256 /* bytes of "host:port", with its end */

/* The Host field that is sent to a backend. */
typedef enum weir_host_policy {
	WEIR_HOST_CLIENT,  /* as the client sent it */
	WEIR_HOST_BACKEND, /* host and port of the backend's URL */
	WEIR_HOST_NAMED,   /* host_name */
} weir_host_policy;

typedef struct weir_origin_options {
	const char *url; /* "http://HOST[:PORT]", "https://...", "h2c://...", "h2://...", "unix:/PATH" or
			  * "srv:NAME"; copied */
	weir_host_policy host;
	const char *host_name;  /* for WEIR_HOST_NAMED: "inner.test", perhaps with a port; copied */
	uint32_t concurrency;   /* calls at once, over all threads; 0: no bound */
	const char *ca;         /* https: PEM file to verify by; NULL: the system's */
	bool unverified;        /* https: take any certificate */
	uint32_t failures;      /* failed calls in a row that eject it; 0: 5 */
	uint64_t eject_ns;      /* the first ejection; 0: 2 s */
	uint64_t eject_most_ns; /* 0: 60 s */
	uint64_t slow_start_ns; /* 0: 10 s; UINT64_MAX: none */
	uint32_t rise, fall;    /* active checks in a row; 0: 2 and 3 */
	const char *resolver;   /* "ADDRESS:PORT" of the name server; NULL: those of the system; copied */
	const char *nucleus;    /* "http://HOST:PORT/nucleus"; NULL: none; used by the sentry, not kept */
} weir_origin_options;

/* A URL taken apart. */
typedef struct weir_origin_url {
	char name[WEIR_ORIGIN_NAME]; /* "host:port", as written */
	char host[WEIR_ORIGIN_NAME]; /* for resolving and SNI */
	uint16_t port;
	bool secure;
	bool h2;      /* HTTP/2; else HTTP/1.1 */
	bool service; /* resolved by SRV, gets no calls itself: name is "srv:NAME", host is NAME */
	bool local;   /* a Unix socket: name is "unix:/PATH", host is "localhost" */
} weir_origin_url;

typedef struct weir_address {
	struct sockaddr_storage at;
	socklen_t length;
} weir_address;

typedef struct weir_origin {
	/* const after init */
	weir_origin_url at;
	char *sent_host; /* the Host field; NULL: the client's */
	char *ca;
	char *resolver;
	char note[280]; /* "upstream=host:port", for logs */
	size_t note_length;
	bool numeric;  /* need not be resolved again */
	uint64_t hash; /* of its name, the same in every process: for sticking (balance.h) */
	weir_origin_options options;
	uint32_t index; /* its slot in its fleet */

	/* under the sentry's lock of targets: who wants it (sentry_servers.c) */
	bool configured;
	char *service; /* the name of the service that it is a target of; NULL: of none */

	/* under the fleet's lock */
	uint32_t pins; /* threads that look at it */
	bool removed;  /* the last of them frees it */

	/* retired: its way through the threads that may know it (sentry.c) */
	struct {
		weir_post post;
		struct weir_sentry *sentry;
		uint32_t thread; /* the one that is asked */
	} leave;

	struct {
		pthread_mutex_t lock;
		weir_address address[WEIR_ORIGIN_ADDRESSES];
		uint32_t count;
		uint32_t preferred;
		uint64_t until_ns; /* to be resolved again then; the resolver's */
	} found;                   /* under its lock */

	/* any thread */
	struct {
		_Atomic uint32_t in_flight;
		_Atomic uint32_t failed_in_row;
		_Atomic uint32_t ejections_in_row;
		_Atomic uint32_t checks_in_row; /* of the kind that would change `down` */
		_Atomic uint64_t latency_ns;    /* to the first byte, a moving average */
		_Atomic uint64_t ejected_until_ns;
		_Atomic uint64_t recovered_ns; /* 0: was never down */
		_Atomic uint64_t ejections, checks_failed, checks;
		_Atomic bool down, retired;
		_Atomic bool away; /* was ejected, and has had no call since that ended */
		/* What it tells about itself (told.h); negative: unknown. */
		_Atomic double queue_s, in_service, busy, processors;
		_Atomic uint64_t told_ns;     /* when that was so; 0: never */
		_Atomic uint64_t told_for_ns; /* how long it is believed */
		_Atomic uint64_t reports, reports_refused, reports_missed;
	} shared;
} weir_origin;

/* -EINVAL, with weir_error. */
int weir_origin_read_url(const char *url, weir_origin_url *ret_url);
/* Parses the URL and resolves its host (which may block). -EINVAL, -ENOENT ... with weir_error. */
int weir_origin_new(const weir_origin_options *options, weir_origin **ret_backend);
void weir_origin_free(weir_origin *backend);

/* What it is called in a Host field: "host:port" as in its URL. */
static inline const char *weir_origin_host(const weir_origin *backend)
{
	return backend->at.local || backend->at.service ? backend->at.host : backend->at.name;
}

/* ---- addresses ---- */

/* Resolves again; on failure the old addresses stay. May block. */
int weir_origin_resolve(weir_origin *backend);
/* The attempt-th address to try, counted from the one that worked last; false: there are no more. */
bool weir_origin_address(weir_origin *backend, uint32_t attempt, weir_address *ret_address);
/* Notes that the attempt-th one works. */
void weir_origin_prefer(weir_origin *backend, uint32_t attempt);

/* ---- calls ---- */

/* Whether its health allows a call. */
bool weir_origin_usable(const weir_origin *backend, uint64_t now_ns);
/* 1, or less during a slow start. */
double weir_origin_weight(const weir_origin *backend, uint64_t now_ns);
/* Takes a place; false: it is full. Each place that was taken must be given back. */
bool weir_origin_take(weir_origin *backend);
void weir_origin_give(weir_origin *backend);
/* The first byte of an answer came after first_byte_ns. */
void weir_origin_answered(weir_origin *backend, uint64_t first_byte_ns);
/* A call failed by the backend's fault. true: it should be ejected. */
bool weir_origin_failed(weir_origin *backend);
/* Whether it should have been, and was not, since it is the last one. */
bool weir_origin_is_failing(const weir_origin *backend);
/* Ejects it, for longer each time. */
void weir_origin_eject(weir_origin *backend, uint64_t now_ns);
/* Notes the result of an active check. true: it is now down, or up again. */
bool weir_origin_checked(weir_origin *backend, bool good, uint64_t now_ns);

static inline uint32_t weir_origin_in_flight(const weir_origin *backend)
{
	return atomic_load_explicit(&backend->shared.in_flight, memory_order_relaxed);
}

static inline bool weir_origin_has_room(const weir_origin *backend)
{
	uint32_t most = backend->options.concurrency;
	return most == 0 || weir_origin_in_flight(backend) < most;
}

#endif
