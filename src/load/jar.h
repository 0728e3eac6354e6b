/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_JAR_H
#define WEIR_LOAD_JAR_H

/*
 * A user's cookies, kept as they are sent: "a=1; b=2". One server, so no domains; Path, Secure, Expires and the rest are ignored, but Max-Age of 0 or less deletes. At most
 * LOAD_COOKIES of them and LOAD_JAR_MAX bytes: what goes beyond is not kept.
 *
 * Threads: the user's.
 */

#include <weir/http.h>

#define LOAD_COOKIES 32
#define LOAD_JAR_MAX 4096

typedef struct load_jar {
	char *text;
	uint32_t length, room;
} load_jar;

/* The value of a Set-Cookie: keeps, replaces or deletes. What is not one, does not fit, or has no memory is not kept. */
void load_jar_set(load_jar *jar, weir_span cookie);
void load_jar_fini(load_jar *jar);

#endif
