/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_THROTTLE_H
#define WEBMAIL_THROTTLE_H

/*
 * Slows down those who guess passwords. Failures are counted for a name from one client, for a client, and
 * for a name from anywhere. Each may fail a few times for nothing; after that each failure doubles the time
 * until the next try, from a second up to THROTTLE_MOST_NS. A count is forgotten when it has not grown for
 * THROTTLE_FORGET_NS, and the first of the three when the right password was given.
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

#define THROTTLE_NAME_CLIENT 5u   /* failures for nothing */
#define THROTTLE_CLIENT      30u  /* the same for all names from one client (IPv6: from one /64) */
#define THROTTLE_NAME        100u /* the same for a name from anywhere */
#define THROTTLE_MOST_NS     (15 * 60 * WEIR_NS_PER_S)
#define THROTTLE_FORGET_NS   (30 * 60 * WEIR_NS_PER_S)
#define THROTTLE_PLACES      8192u

typedef struct throttle throttle;

/* Makes an empty table. NULL: out of memory. */
throttle *throttle_new(void);
/* Frees it; NULL is accepted. */
void throttle_free(throttle *t);
/* How long this client has to wait before it may try this name, in ns; 0: not at all. */
uint64_t throttle_wait(throttle *t, weir_span name, const struct sockaddr *client, uint64_t now_ns);
/* The password was wrong. */
void throttle_failed(throttle *t, weir_span name, const struct sockaddr *client, uint64_t now_ns);
/* The password was right. */
void throttle_passed(throttle *t, weir_span name, const struct sockaddr *client);

#endif
