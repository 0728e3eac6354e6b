/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_SESSIONS_H
#define WEBMAIL_SESSIONS_H

/*
 * Sessions that were seen lately, in memory: for the class of a request before it is admitted, and so that
 * most requests need not ask the database who they are from. The database has the truth; a session is only
 * put here once it was found there, and has to be looked up again after SESSIONS_TRUST_NS. So a cookie that
 * nobody was given has no class, and a session that another process has ended is over that much later.
 *
 * The table has a fixed size and is divided into rows of SESSIONS_ROW places. A new session takes the place
 * of the one in its row that was not used for the longest time. Tokens are kept as keyed hashes.
 *
 * Each session also keeps its user's list of folders as it was last shown, for pages that are made cheaper
 * under load.
 *
 * Threads: any; a lock is held for the time of a copy.
 */

#include "store.h"

#define SESSIONS_TRUST_NS   (2 * WEIR_NS_PER_S)
#define SESSIONS_ROW        8u
#define SESSIONS_MAX        16384u /* places */
#define SESSIONS_CSRF_CHARS 22u    /* 16 bytes in base64url */
#define SESSIONS_KEPT_BYTES 8192u  /* of a list of folders; a longer one is not kept */

typedef struct sessions sessions;

/* A session as a request sees it. */
typedef struct session {
	store_session is;
	bool fresh; /* it was found in the database within SESSIONS_TRUST_NS */
} session;

/* Makes an empty table. NULL: out of memory. */
sessions *sessions_new(void);
/* Frees it; NULL is accepted. After the last thread that uses it. */
void sessions_free(sessions *s);
/* Finds a session; false: it is not here, which says nothing about the database. */
bool sessions_find(sessions *s, weir_span token, uint64_t now_ns, session *ret_session);
/* Puts a session here that was just found in the database, or made. */
void sessions_put(sessions *s, weir_span token, const store_session *is, uint64_t now_ns);
/*
 * What the forms of a session contain; it follows from the token, and is the same after a restart. It costs more than
 * to find the session, so requests that are only classified go without.
 */
void sessions_csrf(weir_span token, char ret_csrf[SESSIONS_CSRF_CHARS + 1]);
/* Forgets a session. */
void sessions_drop(sessions *s, weir_span token);
/* Keeps the list of folders of a session that is here; takes a reference. */
void sessions_keep(sessions *s, weir_span token, weir_buf *folders);
/* What was kept, with a reference of the caller's; NULL: nothing. */
weir_buf *sessions_kept(sessions *s, weir_span token);
/* How many are here. */
uint64_t sessions_count(const sessions *s);

#endif
