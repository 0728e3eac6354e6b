/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NUCLEUS_STATUS_H
#define WEIR_NUCLEUS_STATUS_H

/*
 * Status pages of servers: Apache's mod_status (server-status?auto), nginx' stub_status, php-fpm's (plain or
 * JSON). Which one it is follows from the text. The request for the page itself is not counted as work.
 *
 * Threads: any; no state.
 */

#include <stdbool.h>
#include <stddef.h>

#define WEIR_STATUS_BYTES 65536u

/* Negative: the page does not say. */
typedef struct weir_status {
	double busy;      /* requests being served */
	double requests;  /* since the server began */
	double waiting;   /* connections that wait to be accepted */
	const char *kind; /* "apache", "nginx", "php-fpm" */
} weir_status;

/* false: not a page that is known. The text need not end with a NUL. */
bool weir_status_read(const char *text, size_t length, weir_status *ret_status);

#endif
