/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_KIND_H
#define WEBMAIL_KIND_H

/*
 * The kind "webmail": what the service kit makes of a configuration. `mail { data = "/srv/mail" }` is all
 * that has to be written; the routes follow from it, one for each of webmail_types.
 *
 * Threads: as weir_kind says; the handlers of each type are on the threads of its pool.
 */

#include "webmail.h"

/* What a route leads to. */
typedef struct webmail_thing {
	webmail *mail;
	const webmail_type *type;
} webmail_thing;

extern const weir_kind webmail_kind;

/* What is missing before there is anything to do. */
const char *webmail_missing(const weir_config *config);

#endif
