/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_WEB_TYPES_H
#define WEIR_WEB_TYPES_H

/*
 * The media type of a file, by the ending of its name. Common types are built in; a file in the format of
 * /etc/mime.types ("type end end ...", '#' begins a comment) adds to them and overrides them.
 *
 * Threads: immutable once made.
 */

#include <stddef.h>

#define WEIR_TYPE_UNKNOWN "application/octet-stream"
#define WEIR_TYPE_MOST    127 /* bytes of a type */

typedef struct weir_types weir_types;

/* path NULL: only the built-in ones. 0, or a negative errno with weir_error: which line, what is wrong. */
int weir_types_new(const char *path, weir_types **ret_types);
void weir_types_free(weir_types **types);
/* By the name's last '.'; never NULL, and no longer than WEIR_TYPE_MOST. Lives as long as the types. */
const char *weir_types_find(const weir_types *types, const char *name);

#endif
