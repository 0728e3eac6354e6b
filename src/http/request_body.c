/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a request: collected before the offer, read by the handler, or dropped. */
#include <string.h>

#include "http/request.h"
#include "http/server.h"
#include "loop/loop.h"

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

void weir_request_body_data(weir_request *request, weir_buf *buf, size_t offset, size_t length)
{
	request->body_received += length;
	if (request->body_mode == WEIR_BODY_READ)
		request->body_ops->data(request, buf, offset, length, request->body_arg);
	else if (request->body_mode == WEIR_BODY_COLLECT)
		collect_part(request, buf, offset, length);
}

void weir_request_body_end(weir_request *request)
{
	weir_body_mode mode = request->body_mode;
	request->body_ended_ns = weir_loop_time(request->loop->loop);
	request->flags |= WEIR_REQUEST_BODY_OVER;
	if (weir_request_is(request, WEIR_REQUEST_ENDED)) {
		weir_request_over(request);
	} else if (mode == WEIR_BODY_COLLECT) {
		request->body_mode = WEIR_BODY_DROP;
		weir_request_offer(request);
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

void weir_request_read(weir_request *request, const weir_body_ops *ops, void *arg)
{
	if (weir_request_is(request, WEIR_REQUEST_ENDED | WEIR_REQUEST_GONE))
		return;
	request->body_ops = ops;
	request->body_arg = arg;
	if (weir_request_is(request, WEIR_REQUEST_BODY_OVER) && !(request->head.flags & WEIR_HEAD_UPGRADE)) {
		/* The body has ended already; whoever waits for its end is told. */
		request->body_mode = WEIR_BODY_DROP;
		if (ops->end != NULL)
			ops->end(request, arg);
		return;
	}
	request->body_mode = WEIR_BODY_READ;
	request->codec->want(request);
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
	request->body_mode = WEIR_BODY_READ;
	request->body_since_ns += weir_loop_time(request->loop->loop) - request->body_paused_ns;
	request->codec->want(request);
}
