/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_RANKS_H
#define WEBMAIL_RANKS_H

/*
 * The names of gold users, in memory, so that somebody who logs in with one comes before others at the
 * login, before any session is known. A name is no proof. So a name is believed RANKS_BURST times, and then
 * once in RANKS_EVERY_NS, whoever uses it; beyond that, a login with it is like any other. This bounds what a
 * stranger gains who knows such names. The session that a login leads to has the class of its user, as the
 * database says.
 *
 * RANKS_MAX names at most: users beyond that log in like any other.
 *
 * Threads: any; one lock, held for the time of a look-up. Time comes in as an argument.
 */

#include "store.h"

#define RANKS_MAX      2048u
#define RANKS_BURST    5u
#define RANKS_EVERY_NS WEIR_NS_PER_S

typedef struct ranks ranks;

/* Makes an empty table. NULL: out of memory. */
ranks *ranks_new(void);
/* Frees it; NULL is accepted. After the last thread that uses it. */
void ranks_free(ranks *r);
/* Reads the names anew. 0, or a negative errno: the table is as it was. */
int ranks_read(ranks *r, store *db);
/* Whether a login with this name may be taken for a gold user's now. Each time counts. */
bool ranks_believe(ranks *r, weir_span name, uint64_t now_ns);

#endif
