/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_STATIC_H
#define WEBMAIL_STATIC_H

/*
 * Files that are part of the program: style, script, icon. Their addresses contain a hash of their content,
 * so browsers keep them for good. They are answered on the reactor threads, from memory.
 */

#include <weir/request.h>

typedef struct static_file {
	const char *path; /* "/static/HASH/style.css" */
	const char *type;
	const unsigned char *bytes;
	size_t length;
} static_file;

/* Ended by one without a path. */
extern const static_file static_files[];

#endif
