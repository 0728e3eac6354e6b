/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of requests. request.h has the invariants. */
#include "base/bytes.h"
#include "base/mem.h"
#include "http/ferry.h"
#include "http/request.h"
#include "http/server.h"

#define FREE_KEPT 256 /* blocks kept for the next requests: about 1 MB */

#define BEHIND_ZERO offsetof(weir_request, loop)

static weir_request *take_block(weir_http_loop *loop)
{
	weir_request *request = loop->free;
	if (request == NULL)
		return weir_mem_zalloc(loop->request_bytes);
	loop->free = request->next;
	loop->free_count--;
	weir_clear(request, BEHIND_ZERO);
	return request;
}

void weir_request_slim(weir_http_loop *loop)
{
	for (uint32_t kept = loop->free_count / 2; loop->free_count > kept; loop->free_count--) {
		weir_request *request = loop->free;
		loop->free = request->next;
		weir_mem_free(request);
	}
}

weir_request *weir_request_new(weir_http_conn *conn, const weir_codec *codec, void *stream, uint64_t now_ns)
{
	weir_http_loop *loop = conn->loop;
	weir_request *request = take_block(loop);
	if (request == NULL)
		return NULL;
	request->fields = (weir_head_field *)(void *)(request + 1);
	request->arena = (char *)(request->fields + loop->head_limits.fields);
	request->arena_end = (char *)request + loop->request_bytes;
	request->loop = loop;
	request->conn = conn;
	request->codec = codec;
	request->stream = stream;
	request->client = conn->client;
	request->began_ns = now_ns;
	weir_http_loop_ref(loop);
	request->holder = conn->holder;
	weir_shares_begin(&loop->shares, conn->holder);
	return request;
}

static void free_chunks(weir_request *request)
{
	weir_chunk *next;
	for (weir_chunk *chunk = request->chunks; chunk != NULL; chunk = next) {
		next = chunk->next;
		weir_mem_free(chunk);
	}
}

static void free_parts(weir_request *request)
{
	if (request->ferry != NULL)
		weir_ferry_leave(request->ferry);
	free_chunks(request);
	weir_buf_unref(request->collected);
	weir_request_drop_ahead(request);
	weir_buf_unref(request->rest);
	if (request->trailers != NULL)
		weir_mem_free(request->trailers->base);
	weir_mem_free(request->trailers);
}

/* The loop is over: other threads may do the same at this time. */
static void give_over(weir_http_loop *loop, weir_request *request)
{
	pthread_mutex_lock(&loop->lock);
	if (request->table != NULL)
		weir_table_drop(request->table);
	pthread_mutex_unlock(&loop->lock);
	weir_mem_free(request);
	weir_http_loop_unref(loop);
}

/* Frees its block and drops its reference. */
static inline void give(weir_http_loop *loop, weir_request *request)
{
	if (__builtin_expect(loop->over, 0)) {
		give_over(loop, request);
		return;
	}
	weir_shares_end(&loop->shares, request->holder);
	if (request->table != NULL) {
		weir_table_drop(request->table);
		weir_http_gauge(&loop->counts.busy, -1);
	}
	if (loop->free_count < FREE_KEPT) {
		request->next = loop->free;
		loop->free = request;
		loop->free_count++;
	} else {
		weir_mem_free(request);
	}
	weir_http_loop_unref_home(loop);
}

void weir_request_free(weir_request *request)
{
	if (request->chunks != NULL || request->collected != NULL || request->rest != NULL ||
	    request->trailers != NULL || request->ahead != NULL)
		free_parts(request);
	if (request->freed != NULL)
		*request->freed = true;
	give(request->loop, request);
}

void *weir_request_alloc_chunk(weir_request *request, size_t bytes)
{
	if (bytes > WEIR_REQUEST_ARENA_MOST || request->chunk_bytes > WEIR_REQUEST_ARENA_MOST - bytes)
		return NULL;
	size_t size = bytes > WEIR_REQUEST_ARENA ? bytes : 2 * WEIR_REQUEST_ARENA;
	weir_chunk *chunk = weir_mem_zalloc(sizeof(*chunk) + size);
	if (chunk == NULL)
		return NULL;
	chunk->next = request->chunks;
	request->chunks = chunk;
	request->chunk_bytes += size;
	/* What is left of the block is small, so what comes next goes into the chunk. */
	request->arena = chunk->bytes + bytes;
	request->arena_end = chunk->bytes + size;
	return chunk->bytes;
}

bool weir_request_hold_chunk(weir_request *request)
{
	return request->chunks != NULL || weir_request_alloc_chunk(request, 0) != NULL;
}

void *weir_request_alloc(weir_request *request, size_t bytes)
{
	return weir_request_take(request, bytes);
}
