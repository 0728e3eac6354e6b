/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ON_REQUEST_H
#define TESTS_ON_REQUEST_H

/* A request without a server: memory and a head, for functions that need no more of one. */

#include "support/check.h"

#include <string.h>

#include "base/mem.h"
#include "http/request.h"

typedef struct bare_request {
	weir_request request;
	weir_route route;
	weir_head_field fields[1];
	char head[256];
	_Alignas(16) char arena[WEIR_REQUEST_ARENA];
} bare_request;

static inline weir_request *bare_open(bare_request *bare)
{
	memset(bare, 0, sizeof(*bare));
	bare->route.name = (char *)(uintptr_t) "bare";
	bare->request.fields = bare->fields;
	bare->request.base = bare->head;
	bare->request.route = &bare->route;
	bare->request.arena = bare->arena;
	bare->request.arena_end = bare->arena + sizeof(bare->arena);
	return &bare->request;
}

static inline void bare_close(bare_request *bare)
{
	weir_chunk *next;
	for (weir_chunk *chunk = bare->request.chunks; chunk != NULL; chunk = next) {
		next = chunk->next;
		weir_mem_free(chunk);
	}
	weir_buf_unref(bare->request.collected);
}

/* As if its head had this query; from the second byte on, as 0 says that there is none. */
static inline void bare_query(bare_request *bare, const char *query)
{
	size_t length = strlen(query);
	assert_true(length < sizeof(bare->head) - 1);
	memcpy(bare->head + 1, query, length);
	bare->request.head.query = 1;
	bare->request.head.query_length = (uint32_t)length;
}

/* As if it had come with this body, which the route has collected. */
static inline void bare_body(bare_request *bare, const char *type, const char *body)
{
	size_t name = strlen("Content-Type"), length = strlen(type);
	memcpy(bare->head, "Content-Type", name);
	memcpy(bare->head + name, type, length);
	bare->fields[0] = (weir_head_field){.name = 0,
					    .name_length = (uint16_t)name,
					    .value = (uint32_t)name,
					    .value_length = (uint32_t)length,
					    .id = weir_field_find(WEIR_SPAN("content-type"))};
	bare->request.head.field_count = 1;
	bare->request.head.framing = WEIR_BODY_LENGTH;
	bare->request.head.body_length = strlen(body);
	bare->request.collected = weir_buf_new(strlen(body) + 1);
	assert_non_null(bare->request.collected);
	memcpy(bare->request.collected->data, body, strlen(body));
	bare->request.collected->length = (uint32_t)strlen(body);
}

#endif
