/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_THROTTLE_H
#define WEIR_THROTTLE_H

/*
 * Slows down those who guess passwords: ask before a password is checked, and tell how it went. Failures are counted for a name from one client, for a client, and
 * for a name from anywhere. Each may fail a few times for nothing; after that each failure doubles the time
 * until the next try, from a second up to WEIR_THROTTLE_MOST_NS. A count is forgotten when it has not grown for
 * WEIR_THROTTLE_FORGET_NS, and the first of the three when the right password was given.
 *
 * A name from anywhere is allowed many more failures than a name from one client, so that a stranger cannot
 * easily lock somebody out.
 *
 * Clients on this machine are not counted as such: they are a proxy, and everybody may be behind it.
 *
 * The table has a fixed size. New keys take the place of those that were not used for the longest time;
 * whoever makes up names to push others out has used up the client's own allowance long before.
 *
 * Threads: any; one lock. Time comes in as an argument.
 */

#include <weir/request.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_THROTTLE_NAME_CLIENT 5u   /* failures for nothing */
#define WEIR_THROTTLE_CLIENT      30u  /* the same for all names from one client (IPv6: from one /64) */
#define WEIR_THROTTLE_NAME        100u /* the same for a name from anywhere */
#define WEIR_THROTTLE_MOST_NS     (15 * 60 * WEIR_NS_PER_S)
#define WEIR_THROTTLE_FORGET_NS   (30 * 60 * WEIR_NS_PER_S)
#define WEIR_THROTTLE_PLACES      8192u

typedef struct weir_throttle weir_throttle;

/* Makes an empty table. NULL: out of memory. */
WEIR_API weir_throttle *weir_throttle_new(void);
/* Frees it; NULL is accepted. */
WEIR_API void weir_throttle_free(weir_throttle *t);
/* How long this client has to wait before it may try this name, in ns; 0: not at all. */
WEIR_API uint64_t weir_throttle_wait(weir_throttle *t, weir_span name, const struct sockaddr *client,
				     uint64_t now_ns);
/* The password was wrong. */
WEIR_API void weir_throttle_failed(weir_throttle *t, weir_span name, const struct sockaddr *client,
				   uint64_t now_ns);
/* The password was right. */
WEIR_API void weir_throttle_passed(weir_throttle *t, weir_span name, const struct sockaddr *client);

#ifdef __cplusplus
}
#endif

#endif
