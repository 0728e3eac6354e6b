/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a request: collected before the offer, read by the handler, or dropped. */
#include <string.h>

#include "http/grpc.h"
#include "http/server.h"
#include "loop/loop.h"

/* ---- collected, or gathered, before the offer ---- */

static bool collect_part(weir_request *request, const weir_buf *buf, size_t offset, size_t length)
{
	size_t have = request->collected != NULL ? request->collected->length : 0;
	if (length > request->route->collect_bytes - have) {
		weir_request_refuse(request, 413, "the body is larger than this route takes");
		return false;
	}
	if (request->collected == NULL || request->collected->capacity - have < length) {
		/* A known length is allocated once; otherwise the buffer doubles. */
		size_t size = request->body_left != WEIR_UNKNOWN_LENGTH ? (size_t)request->head.body_length
									: 2 * (have + length);
		weir_buf *larger = weir_buf_new(size);
		if (larger == NULL) {
			weir_request_refuse(request, 503, "out of memory");
			return false;
		}
		if (have > 0)
			memcpy(larger->data, request->collected->data, have);
		weir_buf_unref(request->collected);
		request->collected = larger;
	}
	memcpy(request->collected->data + have, buf->data + offset, length);
	request->collected->length = (uint32_t)(have + length);
	return true;
}

/* The time that the client took to send its body is not the service's. */
static void offer(weir_request *request, weir_body_mode mode)
{
	request->body_mode = (uint8_t)mode;
	request->event.entered_ns = weir_loop_time(request->loop->loop);
	weir_request_offer(request);
}

void weir_request_drop_ahead(weir_request *request)
{
	if (request->ahead == NULL)
		return;
	request->loop->gathered -= request->ahead->held;
	if (request->holder != NULL)
		request->holder->bytes -= request->ahead->held;
	weir_ahead_free(request->ahead);
	request->ahead = NULL;
}

/* false: out of memory. */
static bool add_ahead(weir_request *request, weir_buf *buf, size_t offset, size_t length)
{
	if (request->ahead == NULL && (request->ahead = weir_ahead_new()) == NULL)
		return false;
	size_t before = request->ahead->held;
	int error = weir_ahead_add(request->ahead, buf, offset, length, request->body_left);
	request->loop->gathered += request->ahead->held - before;
	if (request->holder != NULL)
		request->holder->bytes += request->ahead->held - before;
	return error == 0;
}

/*
 * If all requests of the loop together have gathered too much, or those of this client while there is little
 * left, the request is offered at once: better that a slow body holds a place than that it is refused.
 */
static bool has_gathered_enough(const weir_request *request)
{
	const weir_http_loop *loop = request->loop;
	const weir_holder *holder = request->holder;
	return request->ahead->length >= request->route->gather_bytes || loop->gathered > loop->gather_most ||
	       (holder != NULL && weir_shares_over(&loop->shares, holder->bytes, loop->gather_most,
						   loop->gathered, loop->gather_most));
}

/* Once enough is there, the request is offered; its end offers it as well. */
static void gather_part(weir_request *request, weir_buf *buf, size_t offset, size_t length)
{
	if (!add_ahead(request, buf, offset, length)) {
		weir_request_refuse(request, 503, "out of memory");
		return;
	}
	if (has_gathered_enough(request) && request->body_left != 0) {
		request->body_mode = WEIR_BODY_HELD;
		request->codec->want(request);
		offer(request, WEIR_BODY_HELD);
	}
}

/* A stream of both directions may send nothing before it has been answered. */
static bool is_stream(const weir_request *request)
{
	return request->body_left == WEIR_UNKNOWN_LENGTH && !request->route->gather_streams &&
	       weir_grpc_is(request);
}

void weir_request_gather(weir_request *request)
{
	if (is_stream(request)) {
		weir_request_offer(request);
		return;
	}
	request->body_mode = WEIR_BODY_GATHER;
	request->codec->want(request);
}

/* ---- its bytes and its end ---- */

void weir_request_body_data(weir_request *request, weir_buf *buf, size_t offset, size_t length)
{
	request->body_received += length;
	if (request->body_mode == WEIR_BODY_READ)
		request->body_ops->data(request, buf, offset, length, request->body_arg);
	else if (request->body_mode == WEIR_BODY_COLLECT)
		collect_part(request, buf, offset, length);
	else if (request->body_mode == WEIR_BODY_GATHER)
		gather_part(request, buf, offset, length);
}

void weir_request_body_end(weir_request *request)
{
	weir_body_mode mode = request->body_mode;
	request->body_ended_ns = weir_loop_time(request->loop->loop);
	request->flags |= WEIR_REQUEST_BODY_OVER;
	if (weir_request_is(request, WEIR_REQUEST_ENDED)) {
		weir_request_over(request);
	} else if (mode == WEIR_BODY_COLLECT) {
		weir_request_classify(request);
		offer(request, WEIR_BODY_DROP);
	} else if (mode == WEIR_BODY_GATHER) {
		offer(request, WEIR_BODY_HELD);
	} else if (request->ahead != NULL) {
		/* Its reader is told once it has all. */
	} else if (mode != WEIR_BODY_DROP && request->body_ops != NULL && request->body_ops->end != NULL) {
		/* Also if the body was paused with the last part: nothing is left to hold back. */
		request->body_ops->end(request, request->body_arg);
	}
}

void weir_request_body_given_up(weir_request *request)
{
	request->flags |= WEIR_REQUEST_BODY_OVER;
	request->body_mode = WEIR_BODY_DROP;
	if (weir_request_is(request, WEIR_REQUEST_ENDED))
		weir_request_over(request);
}

uint64_t weir_request_body_length(const weir_request *request)
{
	switch (request->head.framing) {
	case WEIR_BODY_NONE:
		return 0;
	case WEIR_BODY_LENGTH:
		return request->head.body_length;
	default:
		return WEIR_UNKNOWN_LENGTH;
	}
}

weir_buf *weir_request_collected(const weir_request *request)
{
	return request->collected;
}

/* ---- reading ---- */

/* The first part of what was gathered, which is there; the last one ends it. */
static weir_buf *take_ahead(weir_request *request, size_t *ret_offset, size_t *ret_length)
{
	weir_buf *buf = NULL;
	size_t before = request->ahead->held;
	weir_ahead_take(request->ahead, &buf, ret_offset, ret_length);
	request->loop->gathered -= before - request->ahead->held;
	if (request->ahead->first == NULL)
		weir_request_drop_ahead(request);
	return buf;
}

/*
 * Gives the reader what was gathered, until it pauses. false: nothing more is to be done, since it has paused
 * before the last part, has answered, or the request is gone.
 */
static bool give_ahead(weir_request *request)
{
	while (request->ahead != NULL) {
		if (request->body_mode != WEIR_BODY_READ)
			return false;
		size_t offset = 0, length = 0;
		weir_buf *buf = take_ahead(request, &offset, &length);
		bool freed = false;
		request->freed = &freed;
		if (buf != NULL)
			request->body_ops->data(request, buf, offset, length, request->body_arg);
		weir_buf_unref(buf);
		if (freed)
			return false;
		request->freed = NULL;
		if (weir_request_is(request, WEIR_REQUEST_ENDED | WEIR_REQUEST_GONE))
			return false;
	}
	return true;
}

/*
 * The reader goes on: what was gathered, and then what comes, or the end. If it has paused and resumes while it
 * is being given a part, whoever gives the part goes on.
 */
static void go_on(weir_request *request)
{
	request->body_mode = WEIR_BODY_READ;
	if (request->freed != NULL)
		return;
	bool gathered = request->ahead != NULL;
	if (gathered && !give_ahead(request))
		return;
	if (!gathered || !weir_request_is(request, WEIR_REQUEST_BODY_OVER)) {
		request->codec->want(request);
		return;
	}
	request->body_mode = WEIR_BODY_DROP;
	if (request->body_ops->end != NULL)
		request->body_ops->end(request, request->body_arg);
}

void weir_request_read(weir_request *request, const weir_body_ops *ops, void *arg)
{
	if (weir_request_is(request, WEIR_REQUEST_ENDED | WEIR_REQUEST_GONE))
		return;
	request->body_ops = ops;
	request->body_arg = arg;
	if (weir_request_is(request, WEIR_REQUEST_BODY_OVER) && request->ahead == NULL &&
	    !(request->head.flags & WEIR_HEAD_UPGRADE)) {
		/* The body has ended already; whoever waits for its end is told. */
		request->body_mode = WEIR_BODY_DROP;
		if (ops->end != NULL)
			ops->end(request, arg);
		return;
	}
	go_on(request);
}

void weir_request_pause(weir_request *request)
{
	if (request->body_mode != WEIR_BODY_READ || weir_request_is(request, WEIR_REQUEST_GONE))
		return;
	request->body_mode = WEIR_BODY_PAUSED;
	request->body_paused_ns = weir_loop_time(request->loop->loop);
	request->codec->want(request);
}

void weir_request_resume(weir_request *request)
{
	if (request->body_mode != WEIR_BODY_PAUSED || weir_request_is(request, WEIR_REQUEST_GONE))
		return;
	request->body_since_ns += weir_loop_time(request->loop->loop) - request->body_paused_ns;
	go_on(request);
}
