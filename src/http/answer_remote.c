/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers from other threads. What is needed of an answer is copied into the request's arena. The event is
 * settled on the handler's thread, before the handler returns. The request goes home in a list under the
 * loop's lock; one post serves all that arrive together.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "http/ferry.h"
#include "http/field_check.h"
#include "http/request.h"
#include "http/server.h"
#include "stage/friends.h"

#define BYTES_IN_ARENA 1024 /* larger bodies have their own buffer */

/* ---- on another thread ---- */

static bool copy_span(weir_request *request, weir_span *span)
{
	char *copy = weir_request_alloc(request, span->length);
	if (copy == NULL)
		return false;
	if (span->length > 0)
		memcpy(copy, span->at, span->length);
	span->at = copy;
	return true;
}

bool weir_reply_keep_fields(weir_request *request, weir_reply *reply)
{
	size_t count = reply->field_count;
	if (count > WEIR_REQUEST_ARENA_MOST / sizeof(weir_field))
		return false;
	weir_field *fields = weir_request_alloc(request, count * sizeof(*fields));
	if (fields == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		fields[i] = reply->fields[i];
		if (!copy_span(request, &fields[i].name) || !copy_span(request, &fields[i].value))
			return false;
	}
	reply->fields = fields;
	return true;
}

static bool copy_body(weir_request *request, weir_reply *reply)
{
	weir_span bytes = {reply->bytes, (size_t)reply->length};
	if (reply->file_length != 0)
		return true;
	if (reply->buf != NULL) {
		weir_buf_ref(reply->buf);
		return true;
	}
	if (reply->bytes == NULL)
		return true;
	if (reply->length <= BYTES_IN_ARENA) {
		bool copied = copy_span(request, &bytes);
		reply->bytes = bytes.at;
		return copied;
	}
	reply->buf = weir_buf_new(bytes.length);
	if (reply->buf == NULL)
		return false;
	memcpy(reply->buf->data, bytes.at, bytes.length);
	reply->buf->length = (uint32_t)bytes.length;
	reply->offset = 0;
	return true;
}

/* Sends the request home; the caller must not touch it after this. */
static void go_home(weir_request *request)
{
	weir_http_loop *loop = request->loop;
	pthread_mutex_lock(&loop->lock);
	bool over = loop->over;
	if (!over) {
		request->next = NULL;
		*loop->arrived_end = request;
		loop->arrived_end = &request->next;
		weir_http_loop_announce_locked(loop);
	}
	pthread_mutex_unlock(&loop->lock);
	/* The loop has ended, and all connections with it: only memory is left to free. */
	if (over)
		weir_request_arrive(request);
}

static void settle_and_go(weir_request *request, unsigned status)
{
	/* A settled request does not delay a stop of the world; this does, until it is on its way. */
	weir_visit visit = weir_visit_begin(request->loop->world);
	if (weir_request_settle(request, status))
		go_home(request);
	weir_visit_end(&visit);
}

/*
 * A thread of a pool handles one request after the other, and uses no processor time while it waits: its time since its
 * last answer is what this request took. The first answer of a thread has nothing before it.
 */
static void note_cpu(weir_request *request)
{
	static _Thread_local uint64_t last_us;
	struct timespec used;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	uint64_t now_us = (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000,
		 took_us = now_us - last_us;
	request->cpu_us = last_us == 0           ? 0
			  : took_us > UINT32_MAX ? UINT32_MAX
						 : (uint32_t)took_us + (took_us == 0);
	last_us = now_us;
}

static weir_afar out_of_memory = {.error = -ENOMEM};

/* Between the start and the end of a stream nothing else may answer. */
static bool streams(const weir_request *request)
{
	return request->ferry != NULL && request->ferry->begun;
}

int weir_request_reply_afar(weir_request *request, const weir_reply *reply)
{
	if (streams(request))
		return weir_error_set(-EINVAL, "reply: the answer has been begun as a stream");
	int error = weir_reply_check(reply);
	weir_afar *afar = weir_request_alloc(request, sizeof(*afar));
	unsigned status = reply->status;
	if (afar != NULL) {
		*afar = (weir_afar){.reply = *reply, .error = error};
		if (error == 0 &&
		    (!weir_reply_keep_fields(request, &afar->reply) || !copy_body(request, &afar->reply)))
			afar->error = -ENOMEM;
	} else {
		afar = &out_of_memory;
	}
	if (afar->error != 0)
		status = afar->error == -ENOMEM ? 503 : 500;
	else if (request->standing != WEIR_NO_SESSION)
		weir_request_remember(request, reply);
	request->afar = afar;
	if (request->loop->tell_timing)
		note_cpu(request);
	settle_and_go(request, status);
	return error;
}

void weir_request_reject_afar(weir_request *request, weir_verdict why, const weir_why *about)
{
	if (streams(request))
		return;
	weir_afar *afar = weir_request_alloc(request, sizeof(*afar));
	if (afar != NULL)
		*afar = (weir_afar){.rejected = true,
				    .why = why,
				    .stage = about->stage,
				    .retry_after_ns = about->retry_after_ns};
	request->afar = afar != NULL ? afar : &out_of_memory;
	settle_and_go(request, 503);
}

/* ---- at home ---- */

static void answer_failed(weir_request *request, const weir_afar *afar)
{
	weir_reply reply = {.status = afar->error == -ENOMEM ? 503 : 500,
			    .over = afar->reply.over,
			    .over_arg = afar->reply.over_arg};
	weir_request_answer(request, &reply);
}

void weir_request_arrive(weir_request *request)
{
	weir_afar *afar = request->afar;
	if (request->ferry != NULL)
		weir_ferry_let_go(request);
	if (afar->rejected && weir_request_is(request, WEIR_REQUEST_GONE)) {
		weir_request_ended(request);
	} else if (afar->rejected) {
		weir_request_turn_away(request, afar->why, afar->stage, afar->retry_after_ns);
	} else if (afar->error != 0) {
		answer_failed(request, afar);
	} else {
		/* The answer takes its own reference if it needs one. */
		weir_buf *buf = afar->reply.buf;
		weir_request_answer(request, &afar->reply);
		weir_buf_unref(buf);
	}
}
