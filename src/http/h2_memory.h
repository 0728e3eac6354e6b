/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H2_MEMORY_H
#define WEIR_HTTP_H2_MEMORY_H

/*
 * Memory of a loop's HTTP/2 connections: pools of streams and parts, and an allocator with pools of a few
 * sizes for nghttp2, which allocates several small objects per request. So a usual request needs no malloc.
 *
 * Threads: the loop's. Nothing may be allocated at fini.
 */

#include <nghttp2/nghttp2.h>

#include "net/pool.h"

#define WEIR_H2_SIZES 5 /* 64 to 1024 bytes: a head that nghttp2 copies has 500 to 900 */

typedef struct weir_h2_memory {
	weir_pool streams, parts;
	weir_pool sizes[WEIR_H2_SIZES];
	nghttp2_mem mem;
} weir_h2_memory;

void weir_h2_memory_init(weir_h2_memory *memory);
void weir_h2_memory_fini(weir_h2_memory *memory);

#endif
