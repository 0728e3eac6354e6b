/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H2_MEMORY_H
#define WEIR_HTTP_H2_MEMORY_H

/*
 * Memory of a loop's HTTP/2 connections: pools of streams and parts of the server's side, of asks and pieces of the
 * client's. So a usual request needs no malloc.
 *
 * Threads: the loop's. Nothing may be allocated at fini.
 */

#include "net/pool.h"

typedef struct weir_h2_memory {
	weir_pool streams, parts;
	weir_pool asks, pieces;
} weir_h2_memory;

void weir_h2_memory_init(weir_h2_memory *memory);
void weir_h2_memory_fini(weir_h2_memory *memory);

#endif
