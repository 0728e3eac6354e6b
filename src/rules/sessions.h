/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_RULES_SESSIONS_H
#define WEIR_RULES_SESSIONS_H

/*
 * Sessions that were let in: who asks with the identifier of one is a member, and everybody else is a newcomer. Routes use it to handle newcomers one class lower.
 *
 * The table remembers identifiers by a keyed hash, in memory that is taken once: it never grows. An identifier enters after a good answer. It leaves when it has
 * not been used for the idle time, and when a request of it is refused for overload. Without that, sessions that were begun while there was room would all stay members, more
 * than the service can serve, and each would be refused now and then: as if there were no sessions. So there are never more members for long than can be served.
 *
 * Invariants
 *	1. A session that was used after it entered (an established one) keeps its place until it is refused, or has been idle for the idle time, whatever others do.
 *	2. An identifier that was never used again is on trial. It makes room for a newer one if nothing else is free. So identifiers that somebody makes up
 *	   displace each other, and no session in use.
 *	3. Where all places are taken by established sessions, another one is not remembered, and counted as crowded.
 *
 * A table is no proof of identity. Of identifiers that somebody makes up, one in about 270 million is taken for another's: 16 places, 32 bits of the hash each.
 *
 * Threads: any, without a lock. A place is one atomic word, so two threads that enter at once can lose one of the two entries, no more.
 */

#include <stdio.h>
#include <weir/http.h>

#define WEIR_SESSIONS_KEYS     65536u
#define WEIR_SESSIONS_KEYS_MAX (1u << 24)
#define WEIR_SESSIONS_IDLE_NS  (600 * WEIR_NS_PER_S)
#define WEIR_SESSION_ID_MAX    4096u /* bytes; a longer identifier is none */
#define WEIR_SESSION_TEXT_MAX  128u  /* bytes of "cookie NAME", with its end */

typedef struct weir_sessions weir_sessions;

/* What a request is to a route with sessions. */
typedef enum weir_standing {
	WEIR_NO_SESSION, /* the route has none */
	WEIR_NEWCOMER,
	WEIR_MEMBER,
} weir_standing;

typedef struct weir_sessions_stats {
	uint64_t known;   /* sessions now */
	uint64_t crowded; /* times that one was not remembered for want of room */
	uint64_t admitted[WEIR_MEMBER + 1], refused[WEIR_MEMBER + 1]; /* requests, by standing */
} weir_sessions_stats;

/* keys: sessions that it has room for; 0: WEIR_SESSIONS_KEYS. 0 or a negative errno, with weir_error. */
int weir_sessions_new(uint32_t keys, weir_sessions **ret_sessions);
/* Another owner: it goes when each of them has freed it. */
weir_sessions *weir_sessions_ref(weir_sessions *sessions);
/* Also of NULL. */
void weir_sessions_free(weir_sessions *sessions);
uint32_t weir_sessions_keys(const weir_sessions *sessions);

/* What an identifier is known by; 0: it is none, being empty or too long. A pair of double quotes around it does not count. */
uint64_t weir_sessions_hash(const weir_sessions *sessions, weir_span id);
/* Whether the session is known; if so it has been used now. hash may be 0. */
bool weir_sessions_known(weir_sessions *sessions, uint64_t hash, uint64_t idle_ns, uint64_t now_ns);
/* Remembers it from now on. hash may be 0. */
void weir_sessions_enter(weir_sessions *sessions, uint64_t hash, uint64_t idle_ns, uint64_t now_ns);
/* A request of it was refused: it begins anew. hash may be 0. */
void weir_sessions_forget(weir_sessions *sessions, uint64_t hash, uint64_t idle_ns, uint64_t now_ns);

/* A request has had its answer, or was turned away. stripe: of the caller's thread, so that threads do not share a counter. */
void weir_sessions_count(weir_sessions *sessions, unsigned stripe, weir_standing standing, bool refused);
/* Looks at every place: for metrics. */
void weir_sessions_read(const weir_sessions *sessions, uint64_t idle_ns, uint64_t now_ns,
			weir_sessions_stats *ret_stats);

/*
 * For a successor: one line, without its end, that has the secret of the hash and the sessions, the established ones first and at most WEIR_SESSIONS_SAVED. Both
 * processes must have the same monotonic clock.
 */
#define WEIR_SESSIONS_SAVED 16384u
void weir_sessions_save(const weir_sessions *sessions, uint64_t idle_ns, uint64_t now_ns, FILE *to);
/* Into a table that nobody uses yet. false: the line is none, or is of a table of another size; then the table is as before. */
bool weir_sessions_load(weir_sessions *sessions, const char *line);

/*
 * What the value of a Set-Cookie field says of the cookie of this name: true if it is about it. The identifier is empty where the cookie is deleted
 * (an empty value, Max-Age of 0 or less, Expires before now_s, in seconds since 1970).
 */
bool weir_set_cookie_find(weir_span value, weir_span name, int64_t now_s, weir_span *ret_id);

#endif
