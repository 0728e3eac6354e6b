/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_STICKY_H
#define WEIR_SENTRY_STICKY_H

/*
 * Which requests go to the same server:
 *
 *	"cookie NAME"       those of one client: the sentry gives it a cookie that names its server
 *	"hash client"       those of one address
 *	"hash path"         those for one path
 *	"hash header NAME"  those with the same value of this field; without the field, any server
 *	"hash cookie NAME"  the same for a cookie of the service
 *
 * A server that is down, ejected or full gets none of them; they go to others meanwhile. With a hash, no server
 * gets much more than the mean (balance.h), so one popular key does no harm.
 *
 * Threads: immutable once read; any.
 */

#include <stddef.h>
#include <weir/request.h>

#define WEIR_STICKY_NAME 64u

typedef enum weir_sticky_kind {
	WEIR_STICKY_NOT,
	WEIR_STICKY_COOKIE,
	WEIR_STICKY_CLIENT,
	WEIR_STICKY_PATH,
	WEIR_STICKY_HEADER,
	WEIR_STICKY_BY_COOKIE,
} weir_sticky_kind;

typedef struct weir_sticky {
	weir_sticky_kind kind;
	char name[WEIR_STICKY_NAME]; /* of the field or cookie */
} weir_sticky;

/* NULL: none. -EINVAL with weir_error. */
int weir_sticky_read(const char *text, weir_sticky *ret_sticky);

#endif
