/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_RULES_SESSIONS_H
#define WEIR_RULES_SESSIONS_H

/*
 * Sessions that were admitted: a request with the identifier of one is a member's, and every other a
 * newcomer's. Routes use this to handle newcomers one class lower.
 *
 * The table remembers identifiers by a keyed hash, in memory that is allocated once: it never grows. An
 * identifier enters after a good answer. It leaves when it has not been used for the idle time, and when
 * one of its requests is refused for overload. Otherwise sessions that began while there was room would
 * all stay members, more than the service can serve, and each would be refused now and then, as if there
 * were no sessions. So there are never more members for long than can be served.
 *
 * Invariants
 * 1. A session that was used after it entered (an established one) keeps its place until it is refused,
 *    or has been idle for the idle time, whatever others do.
 * 2. An identifier that was never used again is on trial. It makes room for a newer one if nothing else
 *    is free. So invented identifiers displace each other, and no session in use.
 * 3. If all places are taken by established sessions, a further one is not remembered, and counted as
 *    crowded.
 *
 * A table is no proof of identity. Of invented identifiers, one in about 270 million is taken for
 * another's: 16 places, 32 bits of the hash each.
 *
 * Threads: any, without a lock. A place is one atomic word, so two threads that enter at once can lose
 * one of the two entries, no more.
 */

#include <stdio.h>
#include <weir/http.h>

#define WEIR_SESSIONS_KEYS     65536u
#define WEIR_SESSIONS_KEYS_MAX (1u << 24)
#define WEIR_SESSIONS_IDLE_NS  (600 * WEIR_NS_PER_S)
#define WEIR_SESSION_ID_MAX    4096u /* bytes; a longer identifier is ignored */
#define WEIR_SESSION_TEXT_MAX  128u  /* bytes of "cookie NAME", with its NUL */

typedef struct weir_sessions weir_sessions;

/* The standing of a request on a route with sessions. */
typedef enum weir_standing {
	WEIR_NO_SESSION, /* the route has no sessions */
	WEIR_NEWCOMER,
	WEIR_MEMBER,
} weir_standing;

typedef struct weir_sessions_stats {
	uint64_t known;   /* current sessions */
	uint64_t crowded; /* how many times one was not remembered for lack of room */
	uint64_t admitted[WEIR_MEMBER + 1], refused[WEIR_MEMBER + 1]; /* requests, by standing */
} weir_sessions_stats;

/*
 * keys: number of sessions that it has room for; 0: WEIR_SESSIONS_KEYS. 0 or a negative errno, with
 * weir_error.
 */
int weir_sessions_new(uint32_t keys, weir_sessions **ret_sessions);
/* Adds an owner; the table is freed when each of them has freed it. */
weir_sessions *weir_sessions_ref(weir_sessions *sessions);
/* NULL is ignored. */
void weir_sessions_free(weir_sessions *sessions);
uint32_t weir_sessions_keys(const weir_sessions *sessions);

/* The hash of an identifier; 0: it is empty or too long. A pair of double quotes around it does not count. */
uint64_t weir_sessions_hash(const weir_sessions *sessions, weir_span id);
/* Whether the session is known; if so, this counts as a use. hash may be 0. */
bool weir_sessions_known(weir_sessions *sessions, uint64_t hash, uint64_t idle_ns, uint64_t now_ns);
/* Remembers the session from now on. hash may be 0. */
void weir_sessions_enter(weir_sessions *sessions, uint64_t hash, uint64_t idle_ns, uint64_t now_ns);
/* One of its requests was refused: the session starts over. hash may be 0. */
void weir_sessions_forget(weir_sessions *sessions, uint64_t hash, uint64_t idle_ns, uint64_t now_ns);

/*
 * Counts a request that was answered, or refused. stripe: of the caller's thread, so that threads do not
 * share a counter.
 */
void weir_sessions_count(weir_sessions *sessions, unsigned stripe, weir_standing standing, bool refused);
/* Scans every place: for metrics. */
void weir_sessions_read(const weir_sessions *sessions, uint64_t idle_ns, uint64_t now_ns,
			weir_sessions_stats *ret_stats);

/*
 * For a successor: writes one line, without its end, with the secret of the hash and the sessions, the
 * established ones first and at most WEIR_SESSIONS_SAVED. Both processes must have the same monotonic
 * clock.
 */
#define WEIR_SESSIONS_SAVED 16384u
void weir_sessions_save(const weir_sessions *sessions, uint64_t idle_ns, uint64_t now_ns, FILE *to);
/*
 * Loads the line into a table that nobody uses yet. false: the line is invalid, or of a table of another
 * size; then the table is unchanged.
 */
bool weir_sessions_load(weir_sessions *sessions, const char *line);

/*
 * Parses the value of a Set-Cookie field: true if it is about the cookie with this name. The identifier
 * is empty if the cookie is deleted (an empty value, Max-Age of 0 or less, Expires before now_s, in
 * seconds since 1970).
 */
bool weir_set_cookie_find(weir_span value, weir_span name, int64_t now_s, weir_span *ret_id);

#endif
