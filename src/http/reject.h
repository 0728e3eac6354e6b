/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_REJECT_H
#define WEIR_HTTP_REJECT_H

/*
 * The fields of a plain rejection, "Weir-Shed" first, kept by a loop for each stage, class and reason that they were last put together for.
 *
 * Threads: the loop's.
 */

#include "http/routes.h"

#define WEIR_SHED_LINES     16
#define WEIR_SHED_NAME_MOST 64

typedef struct weir_shed_line {
	const char *stage; /* compared by its place; NULL: empty */
	const weir_routes *routes;
	uint8_t klass, why;
	uint16_t value, value_length; /* where in text */
	uint16_t length;
	char text[3 * WEIR_SHED_NAME_MOST + 128];
} weir_shed_line;

#endif
