/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_JAR_H
#define WEIR_LOAD_JAR_H

/*
 * A user's cookies, stored as they are sent: "a=1; b=2". There is one server, so no domains. Path,
 * Secure, Expires and the rest are ignored, but a Max-Age of 0 or less deletes. At most LOAD_COOKIES
 * cookies and LOAD_JAR_MAX bytes are kept; further ones are ignored.
 *
 * Threads: that of the user.
 */

#include <weir/http.h>

#define LOAD_COOKIES 32
#define LOAD_JAR_MAX 4096

typedef struct load_jar {
	char *text;
	uint32_t length, room;
} load_jar;

/*
 * Processes the value of a Set-Cookie: keeps, replaces or deletes. Cookies that are malformed, or for
 * which there is no room or memory, are not kept.
 */
void load_jar_set(load_jar *jar, weir_span cookie);
void load_jar_fini(load_jar *jar);

#endif
