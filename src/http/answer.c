/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of handlers: what is checked, when the event is settled, which codec function sends them. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "http/field_check.h"
#include "http/request.h"
#include "http/server.h"
#include "http/tell.h"
#include "stage/friends.h"

bool weir_request_at_home(const weir_request *request)
{
	return weir_loop_here == request->loop->loop;
}

/* ---- settling ---- */

bool weir_request_settle(weir_request *request, unsigned status)
{
	weir_event *event = &request->event;
	switch (weir_event_state(event)) {
	case WEIR_EVENT_HANDLING:
	case WEIR_EVENT_HELD:
		/* Refusals and failures take more or less time than the work. */
		if (status < 400 && request->kind.generation != 0)
			weir_request_learn(request);
		if (status < 500 && status != 429)
			weir_done(event);
		else if (status == 429 || status == 503)
			weir_refused(event);
		else
			weir_fail(event);
		return true;
	case WEIR_EVENT_FREE:
		return true;
	default:
		/* In a stage's queue: the handler gave it away before answering. weir_done counts that. */
		weir_done(event);
		return false;
	}
}

bool weir_request_settle_with(weir_request *request, const weir_reply *reply)
{
	if (request->standing != WEIR_NO_SESSION)
		weir_request_remember(request, reply);
	return weir_request_settle(request, reply->status);
}

/* ---- complete answers ---- */

static int check_body(const weir_reply *reply)
{
	if (reply->file_length != 0)
		return reply->file >= 0 ? 0
					: weir_error_set(-EINVAL, "reply: a file is needed for its length");
	if (reply->buf != NULL &&
	    (reply->offset > reply->buf->length || reply->length > reply->buf->length - reply->offset))
		return weir_error_set(-EINVAL, "reply: the buffer has fewer bytes");
	return 0;
}

int weir_reply_check(const weir_reply *reply)
{
	if (reply->status < 200 || reply->status > 599)
		return weir_error_set(-EINVAL, "reply: %u is no status; 200 to 599 are", reply->status);
	int error = weir_fields_check(reply->fields, reply->field_count);
	return error != 0 ? error : check_body(reply);
}

static weir_answer answer_of(const weir_reply *reply)
{
	weir_answer answer = {.status = reply->status,
			      .fields = reply->fields,
			      .field_count = reply->field_count,
			      .length = reply->length};
	if (reply->file_length != 0) {
		answer.file = reply->file;
		answer.file_offset = reply->offset;
		answer.length = reply->file_length;
		answer.has_file = true;
	} else if (reply->buf != NULL) {
		answer.buf = reply->buf;
		answer.offset = reply->offset;
	} else if (reply->bytes != NULL) {
		answer.bytes = reply->bytes;
	} else {
		answer.length = 0;
	}
	return answer;
}

/* The client has gone: the request only ends. */
static void forget(weir_request *request)
{
	weir_request_ended(request);
}

/* With what is added to it. */
static void send_telling(weir_request *request, weir_answer *answer)
{
	weir_tell_room room;
	weir_tell(request, answer, &room);
	if (request->codec->reply(request, answer) != 0)
		request->codec->abort(request);
}

static inline void send_answer(weir_request *request, weir_answer *answer)
{
	if (weir_request_is(request, WEIR_REQUEST_GONE)) {
		forget(request);
		return;
	}
	request->status = (uint16_t)answer->status;
	request->flags |= WEIR_REQUEST_BEGUN;
	if (request->loop->tells)
		send_telling(request, answer);
	else if (request->codec->reply(request, answer) != 0)
		request->codec->abort(request);
}

static void send_reply(weir_request *request, const weir_reply *reply, weir_span lines)
{
	weir_answer answer = answer_of(reply);
	answer.lines = lines;
	request->over = reply->over;
	request->over_arg = reply->over_arg;
	send_answer(request, &answer);
}

void weir_request_answer(weir_request *request, const weir_reply *reply)
{
	send_reply(request, reply, (weir_span){0});
}

void weir_request_answer_lines(weir_request *request, weir_answer *answer)
{
	send_answer(request, answer);
}

static const weir_reply internal_error = {.status = 500};

int weir_request_reply(weir_request *request, const weir_reply *reply)
{
	if (!weir_request_at_home(request))
		return weir_request_reply_afar(request, reply);
	if (weir_request_is(request, WEIR_REQUEST_BEGUN))
		return weir_error_set(-EINVAL, "reply: the request has been answered");
	int error = weir_reply_check(reply);
	if (!weir_request_settle_with(request, error == 0 ? reply : &internal_error))
		return weir_error_set(-EINVAL, "reply: a stage's queue has the request");
	if (error != 0 && reply->over != NULL)
		reply->over(reply->over_arg);
	weir_request_answer(request, error == 0 ? reply : &internal_error);
	return error;
}

static bool sent_prepared(weir_request *request, const weir_prepared *prepared)
{
	const weir_codec *codec = request->codec;
	if (codec->prepared == NULL || prepared->reply.over != NULL ||
	    weir_request_is(request, WEIR_REQUEST_GONE))
		return false;
	request->status = (uint16_t)prepared->reply.status;
	request->flags |= WEIR_REQUEST_BEGUN;
	return codec->prepared(request, prepared);
}

int weir_request_reply_prepared(weir_request *request, const weir_prepared *prepared)
{
	const weir_reply *reply = &prepared->reply;
	size_t line = prepared->line_length;
	/* From another thread, or in error: too rare for a fast path. */
	if (!weir_request_at_home(request) || weir_request_is(request, WEIR_REQUEST_BEGUN) ||
	    request->loop->tells)
		return weir_request_reply(request, reply);
	if (!weir_request_settle_with(request, reply))
		return weir_error_set(-EINVAL, "reply: a stage's queue has the request");
	if (!sent_prepared(request, prepared))
		send_reply(request, reply,
			   (weir_span){prepared->head.at + line, prepared->head.length - line});
	return 0;
}

int weir_request_reply_text(weir_request *request, unsigned status, weir_span text)
{
	static const weir_field plain = {{"Content-Type", 12}, {"text/plain; charset=utf-8", 25}};
	weir_reply reply = {.status = status,
			    .fields = &plain,
			    .field_count = 1,
			    .bytes = text.at,
			    .length = text.length};
	return weir_request_reply(request, &reply);
}

int weir_request_reply_not_allowed(weir_request *request, const char *allow)
{
	static const weir_span text = {"this method is not allowed here\n", 32};
	const weir_field fields[] = {{WEIR_SPAN("Allow"), {allow, strlen(allow)}},
				     {WEIR_SPAN("Content-Type"), WEIR_SPAN("text/plain; charset=utf-8")}};
	weir_reply reply = {
		.status = 405, .fields = fields, .field_count = 2, .bytes = text.at, .length = text.length};
	return weir_request_reply(request, &reply);
}

void weir_request_refuse(weir_request *request, unsigned status, const char *why)
{
	request->error = why;
	weir_http_tell_refused(request->loop, &request->client, status, why);
	weir_request_reply_text(request, status, (weir_span){why, strlen(why)});
}

/* ---- streams ---- */

static int check_stream(const weir_request *request, const char *what, uint32_t not_yet)
{
	if (!weir_request_at_home(request))
		return weir_error_set(-EINVAL, "%s: only on the request's own thread", what);
	if (weir_request_is(request, not_yet))
		return weir_error_set(-EINVAL, "%s: the request has been answered", what);
	return 0;
}

int weir_request_begin(weir_request *request, const weir_reply *reply, uint64_t length)
{
	int error = weir_reply_check(&(weir_reply){
		.status = reply->status, .fields = reply->fields, .field_count = reply->field_count});
	return error != 0 ? error : weir_request_begin_checked(request, reply, length);
}

int weir_request_begin_checked(weir_request *request, const weir_reply *reply, uint64_t length)
{
	int error = check_stream(request, "begin", WEIR_REQUEST_BEGUN);
	if (error != 0)
		return error;
	if (!weir_request_settle_with(request, reply))
		return weir_error_set(-EINVAL, "begin: a stage's queue has the request");
	request->flags |= WEIR_REQUEST_BEGUN;
	request->status = (uint16_t)reply->status;
	request->answer_left = length;
	if (weir_request_is(request, WEIR_REQUEST_GONE))
		return 0;
	weir_answer answer = {.status = reply->status,
			      .fields = reply->fields,
			      .field_count = reply->field_count,
			      .length = length};
	weir_tell_room room;
	if (request->loop->tells)
		weir_tell(request, &answer, &room);
	return request->codec->begin(request, &answer);
}

int weir_request_interim(weir_request *request, unsigned status, const weir_field *fields, size_t count)
{
	int error = check_stream(request, "interim", WEIR_REQUEST_BEGUN);
	if (error == 0 && (status < 100 || status > 199 || status == 101))
		error = weir_error_set(-EINVAL, "interim: %u is no status of an interim answer", status);
	if (error == 0)
		error = weir_fields_check(fields, count);
	if (error != 0)
		return error;
	if (weir_request_is(request, WEIR_REQUEST_GONE))
		return -EPIPE;
	return request->codec->interim(request, status, fields, count);
}

/* 1: send it; 0: nothing to send; else the error. */
static int check_part(weir_request *request, size_t length)
{
	if (!weir_request_is(request, WEIR_REQUEST_BEGUN) || weir_request_is(request, WEIR_REQUEST_ENDED))
		return weir_error_set(-EINVAL, "write: no stream has been begun");
	if (weir_request_is(request, WEIR_REQUEST_GONE))
		return -EPIPE;
	if (length > request->answer_left)
		return -EMSGSIZE;
	if (length == 0)
		return 0;
	if (!weir_request_is(request, WEIR_REQUEST_NO_BODY))
		return 1;
	if (request->answer_left != WEIR_UNKNOWN_LENGTH)
		request->answer_left -= length;
	return 0;
}

static int part_sent(weir_request *request, size_t length, int error)
{
	if (error == -ENOBUFS)
		request->flags |= WEIR_REQUEST_CLOGGED;
	if (error != 0)
		return error;
	if (request->answer_left != WEIR_UNKNOWN_LENGTH)
		request->answer_left -= length;
	request->answer_bytes += length;
	return 0;
}

int weir_request_write(weir_request *request, const void *bytes, size_t length)
{
	int go = check_part(request, length);
	return go <= 0 ? go : part_sent(request, length, request->codec->write(request, bytes, length));
}

int weir_request_send(weir_request *request, weir_buf *buf, size_t offset, size_t length)
{
	if (offset > buf->length || length > buf->length - offset)
		return weir_error_set(-EINVAL, "send: the buffer has %u bytes, not %zu from %zu on",
				      buf->length, length, offset);
	int go = check_part(request, length);
	return go <= 0 ? go : part_sent(request, length, request->codec->send(request, buf, offset, length));
}

void weir_request_flush(weir_request *request)
{
	if (!weir_request_is(request, WEIR_REQUEST_GONE | WEIR_REQUEST_ENDED))
		request->codec->flush(request);
}

void weir_request_on_drained(weir_request *request, void (*fn)(weir_request *request, void *arg), void *arg)
{
	request->drained = fn;
	request->drained_arg = arg;
}

size_t weir_request_output(const weir_request *request)
{
	return weir_request_is(request, WEIR_REQUEST_GONE) ? 0 : request->codec->output(request);
}

void weir_request_end(weir_request *request, const weir_field *trailers, size_t count)
{
	if (!weir_request_is(request, WEIR_REQUEST_BEGUN) || weir_request_is(request, WEIR_REQUEST_ENDED))
		return;
	if (weir_request_is(request, WEIR_REQUEST_GONE)) {
		forget(request);
		return;
	}
	bool whole = request->answer_left == 0 || request->answer_left == WEIR_UNKNOWN_LENGTH ||
		     weir_request_is(request, WEIR_REQUEST_NO_BODY);
	if (weir_fields_check(trailers, count) != 0)
		count = 0;
	request->codec->end(request, trailers, count, whole);
}

void weir_request_abort(weir_request *request)
{
	if (weir_request_is(request, WEIR_REQUEST_ENDED))
		return;
	if (!weir_request_is(request, WEIR_REQUEST_BEGUN) && !weir_request_settle(request, 500))
		return;
	request->flags |= WEIR_REQUEST_BEGUN;
	if (weir_request_is(request, WEIR_REQUEST_GONE))
		forget(request);
	else
		request->codec->abort(request);
}

int weir_request_upgrade(weir_request *request, const weir_field *fields, size_t count)
{
	int error = check_stream(request, "upgrade", WEIR_REQUEST_BEGUN);
	if (error == 0)
		error = weir_fields_check(fields, count);
	if (error != 0)
		return error;
	if (weir_request_is(request, WEIR_REQUEST_GONE))
		return -EPIPE;
	if (request->codec->upgrade == NULL || !(request->head.flags & WEIR_HEAD_UPGRADE) ||
	    !weir_request_is(request, WEIR_REQUEST_BODY_OVER))
		return weir_error_set(-ENOTSUP, "upgrade: this request does not ask for one");
	if (!weir_request_settle_with(request,
				      &(weir_reply){.status = 101, .fields = fields, .field_count = count}))
		return weir_error_set(-EINVAL, "upgrade: a stage's queue has the request");
	weir_http_count(&request->loop->counts.upgrades);
	request->status = 101;
	request->answer_left = WEIR_UNKNOWN_LENGTH;
	request->flags |= WEIR_REQUEST_BEGUN | WEIR_REQUEST_UPGRADED;
	request->flags &= ~(uint32_t)WEIR_REQUEST_BODY_OVER;
	return request->codec->upgrade(request, fields, count);
}
