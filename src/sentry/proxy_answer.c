/* SPDX-License-Identifier: Apache-2.0 */
/* An exchange in progress: the client's body to the backend, the backend's answer to the client. */
#include <errno.h>
#include <string.h>

#include "http/grpc.h"
#include "http/server.h"
#include "sentry/proxy_priv.h"
#include "sentry/recent_answers.h"

/* Fields of an answer, on the stack, with ours; weir_proxy_new checks the limit. */
#define FIELDS_MOST WEIR_PROXY_FIELDS(WEIR_PROXY_LIMIT)

/* For the lines of an answer. Longer ones are taken apart. */
#define LINES_ROOM 2048

/* The most of a collected body to send at once: well below half of what may wait. */
#define PART_MOST 32768

/* The most of a body that was not collected to keep for another try. */
#define KEPT_MOST  16384u
#define KEPT_LEAST 512u

/* ---- the client's body, to the backend ---- */

/* A body is kept only while it is small and another try is possible. */
static bool may_keep(const weir_exchange *exchange, size_t length)
{
	size_t have = exchange->kept != NULL ? exchange->kept->length : 0;
	/* A server of HTTP/2 may say that it has not processed a request, whatever its method. */
	return !exchange->story.body_consumed &&
	       (weir_retry_is_idempotent(exchange->story.method) || exchange->backend->at.h2) &&
	       length <= KEPT_MOST - have;
}

/* There will be no other try. */
static void forget_kept(weir_exchange *exchange)
{
	exchange->story.body_consumed = true;
	weir_buf_unref(exchange->kept);
	exchange->kept = NULL;
}

/* Small bodies are usual, so little is taken first. */
static bool make_room(weir_exchange *exchange, size_t length)
{
	weir_buf *old = exchange->kept;
	size_t have = old != NULL ? old->length : 0;
	if (old != NULL && old->capacity - have >= length)
		return true;
	weir_buf *larger = weir_buf_new(have + length <= KEPT_LEAST ? KEPT_LEAST : KEPT_MOST);
	if (larger == NULL)
		return false;
	if (have > 0)
		memcpy(larger->data, old->data, have);
	larger->length = (uint32_t)have;
	weir_buf_unref(old);
	exchange->kept = larger;
	return true;
}

/* false: another call could not get all of it. */
static bool keep_part(weir_exchange *exchange, const weir_buf *buf, size_t offset, size_t length)
{
	if (!may_keep(exchange, length) || !make_room(exchange, length)) {
		forget_kept(exchange);
		return false;
	}
	memcpy(exchange->kept->data + exchange->kept->length, buf->data + offset, length);
	exchange->kept->length += (uint32_t)length;
	return true;
}

/* Between two tries, if the pause came too late for this part. */
static void overflow(weir_exchange *exchange)
{
	weir_call_abort(&exchange->call);
	weir_exchange_give_up(exchange, &(weir_call_failure){.step = WEIR_CALL_CONNECT,
							     .error = -EPIPE,
							     .text = "more of the body than can be kept"});
}

static void body_data(weir_request *request, weir_buf *buf, size_t offset, size_t length, void *arg)
{
	weir_exchange *exchange = arg;
	bool kept = !exchange->tunnel && keep_part(exchange, buf, offset, length);
	if (!exchange->ready) {
		if (!kept)
			overflow(exchange);
		return;
	}
	/*
	 * -EPIPE: the connection is ending, and failed will be called. -ENOBUFS: it was not paused for; what
	 * a client can have on its way fits.
	 */
	if (weir_call_send(&exchange->call, buf, offset, length) == -ENOBUFS) {
		weir_call_abort(&exchange->call);
		weir_exchange_let_go(exchange);
		weir_request_abort(request);
		return;
	}
	if (weir_call_clogged(&exchange->call))
		weir_request_pause(request);
}

#define TRAILERS_MOST 32

static void finish_body(weir_exchange *exchange)
{
	weir_field trailers[TRAILERS_MOST];
	size_t count = 0;
	for (size_t i = 0;
	     count < TRAILERS_MOST && weir_request_trailer(exchange->request, i, &trailers[count]); i++)
		count += weir_proxy_passes_trailer(exchange, trailers[count].name);
	weir_call_finish(&exchange->call, trailers, count);
}

static void body_end(weir_request *request, void *arg)
{
	weir_exchange *exchange = arg;
	if (exchange->tunnel) {
		weir_call_finish(&exchange->call, NULL, 0);
		weir_exchange_let_go(exchange);
		weir_request_end(request, NULL, 0);
		return;
	}
	exchange->ended = true;
	if (exchange->ready)
		finish_body(exchange);
}

static const weir_body_ops body_ops = {body_data, body_end};

static void start_reading(weir_exchange *exchange)
{
	if (exchange->reading)
		return;
	exchange->reading = true;
	weir_timer_stop(&exchange->timer);
	weir_request_read(exchange->request, &body_ops, exchange);
}

void weir_exchange_late(weir_timer *timer, void *arg)
{
	start_reading(arg);
}

/* Sends as much of a collected body as the connection takes; the rest when it has drained. */
static void send_collected(weir_exchange *exchange, weir_buf *body)
{
	while (exchange->collected_sent < body->length && !weir_call_clogged(&exchange->call)) {
		size_t rest = body->length - exchange->collected_sent;
		size_t part = rest < PART_MOST ? rest : PART_MOST;
		/* Only fails if the connection is ending, and failed will be called: it is not clogged. */
		if (weir_call_send(&exchange->call, body, exchange->collected_sent, part) != 0)
			return;
		exchange->collected_sent += part;
	}
	if (exchange->collected_sent == body->length)
		weir_call_finish(&exchange->call, NULL, 0);
}

/* Sends what the previous call was given, then the rest. */
static void go_on_reading(weir_exchange *exchange)
{
	weir_buf *kept = exchange->kept;
	/* Only fails if the connection is ending, and failed will be called: this is all it has so far. */
	if (kept != NULL)
		weir_call_send(&exchange->call, kept, 0, kept->length);
	if (exchange->ended)
		finish_body(exchange);
	else
		weir_request_resume(exchange->request);
}

static void call_ready(weir_call *call)
{
	weir_exchange *exchange = weir_exchange_of(call);
	weir_buf *collected = weir_request_collected(exchange->request);
	exchange->ready = true;
	if (!exchange->has_body)
		return;
	/* A collected body is sent from the start, so it does not prevent another try. */
	exchange->collected_sent = 0;
	if (collected != NULL)
		send_collected(exchange, collected);
	else if (exchange->reading)
		go_on_reading(exchange);
	else if (exchange->expects)
		weir_timer_start(weir_upstream_loop(exchange->thread->upstream), &exchange->timer,
				 call->started_ns + exchange->thread->proxy->options.expect_ns);
	else
		start_reading(exchange);
}

static void call_drained(weir_call *call)
{
	weir_exchange *exchange = weir_exchange_of(call);
	weir_buf *collected = weir_request_collected(exchange->request);
	if (collected != NULL && !exchange->tunnel)
		send_collected(exchange, collected);
	else
		weir_request_resume(exchange->request);
}

/* ---- the answer, to the client ---- */

static void request_drained(weir_request *request, void *arg);

static void note_backend(weir_exchange *exchange)
{
	if (!weir_http_logs(exchange->request->loop->http, WEIR_ADMITTED))
		return;
	weir_exchange_note(exchange, exchange->backend->note, exchange->backend->note_length);
}

static void nonsense(weir_exchange *exchange, const char *text)
{
	weir_call_abort(&exchange->call);
	weir_exchange_give_up(exchange,
			      &(weir_call_failure){.step = WEIR_CALL_HEAD, .error = -EPROTO, .text = text});
}

static void call_interim(weir_call *call, const weir_call_answer *answer)
{
	weir_exchange *exchange = weir_exchange_of(call);
	weir_field fields[FIELDS_MOST];
	if (answer->head->status != 100) {
		size_t count = weir_proxy_fields(exchange->thread->proxy, answer, false, fields);
		/* It does not matter if this fails. */
		weir_request_interim(exchange->request, answer->head->status, fields, count);
	} else if (exchange->has_body && exchange->expects) {
		start_reading(exchange);
	}
}

/*
 * The outcome of gRPC is in the head if the answer has no body, as with nearly all errors. It settles the
 * request, since the status of HTTP is 200. In trailers it comes too late for that, and only counts.
 */
static void note_grpc(weir_exchange *exchange, const weir_call_answer *answer, bool settles)
{
	int code = weir_grpc_status(answer->fields, answer->head->field_count, answer->bytes);
	if (code < 0 || !weir_grpc_is(exchange->request))
		return;
	if (weir_grpc_is_refusal(code))
		WEIR_PROXY_COUNT(exchange, grpc_refused);
	if (settles && code != WEIR_GRPC_OK)
		weir_request_settle(exchange->request, weir_grpc_as_http(code));
}

static size_t client_fields(const weir_exchange *exchange, const weir_call_answer *answer, bool tunnel,
			    weir_field *ret_fields)
{
	size_t count = weir_proxy_fields(exchange->thread->proxy, answer, tunnel, ret_fields);
	return weir_exchange_stick(exchange, ret_fields, count);
}

/* The length that an answer without a body has announced. */
static uint64_t announced(const weir_call_answer *answer)
{
	for (size_t i = 0; i < answer->head->field_count; i++) {
		const weir_head_field *field = &answer->fields[i];
		if (field->id != WEIR_FIELD_CONTENT_LENGTH)
			continue;
		/* The parser has checked that it is a number of at most 19 digits. */
		uint64_t length = 0;
		for (size_t at = 0; at < field->value_length; at++)
			length = length * 10 + (uint64_t)(answer->bytes[field->value + at] - '0');
		return length;
	}
	return WEIR_UNKNOWN_LENGTH;
}

/* Whether nobody but the client looks at the fields, and the client's protocol is the server's. */
static bool is_as_sent(const weir_exchange *exchange, const weir_call_answer *answer)
{
	const weir_request *request = exchange->request;
	return !answer->bodiless && !exchange->backend->at.h2 && request->head.version != 20 &&
	       request->standing == WEIR_NO_SESSION && !request->loop->tells &&
	       exchange->thread->proxy->options.sticky.kind != WEIR_STICKY_COOKIE;
}

/* The lines to send, made in this room, or as they were made for an answer with the same head; at NULL: by fields. */
static weir_span lines_of(const weir_exchange *exchange, const weir_call_answer *answer, size_t length,
			  char *room)
{
	weir_recent_answer *recent = answer->recent;
	if (!is_as_sent(exchange, answer))
		return (weir_span){0};
	if (recent != NULL && recent->lines_length != 0)
		return (weir_span){recent->lines, recent->lines_length};
	weir_span lines = weir_proxy_lines(exchange->thread->proxy, answer, length, room, LINES_ROOM);
	if (recent != NULL && lines.at != NULL && lines.length <= sizeof(recent->lines)) {
		memcpy(recent->lines, lines.at, lines.length);
		recent->lines_length = (uint32_t)lines.length;
	}
	return lines;
}

/* Nothing of a session is in it: see is_as_sent. */
static void answer_as_sent(weir_exchange *exchange, weir_answer *answer)
{
	weir_exchange_let_go(exchange);
	if (weir_request_settle(exchange->request, answer->status))
		weir_request_answer_lines(exchange->request, answer);
}

static void call_whole(weir_call *call, const weir_call_answer *answer, weir_buf *buf, size_t offset,
		       size_t length)
{
	weir_exchange *exchange = weir_exchange_of(call);
	weir_request *request = exchange->request;
	weir_field fields[FIELDS_MOST];
	if (answer->head->status > 599) {
		nonsense(exchange, "a status above 599");
		return;
	}
	char room[LINES_ROOM];
	weir_span lines = lines_of(exchange, answer, length, room);
	note_backend(exchange);
	weir_exchange_read_reports(exchange, answer);
	if (lines.at != NULL) {
		weir_answer as_sent = {.status = answer->head->status,
				       .lines = lines,
				       .length = length,
				       .buf = buf,
				       .offset = offset};
		answer_as_sent(exchange, &as_sent);
		return;
	}
	weir_reply reply = {.status = answer->head->status,
			    .fields = fields,
			    .field_count = client_fields(exchange, answer, false, fields),
			    .buf = buf,
			    .offset = offset,
			    .length = length};
	if (exchange->backend->at.h2)
		note_grpc(exchange, answer, true);
	weir_exchange_let_go(exchange);
	if (answer->bodiless && (request->head.method == WEIR_METHOD_HEAD || reply.status == 304)) {
		weir_request_begin(request, &reply, announced(answer));
		weir_request_end(request, NULL, 0);
		return;
	}
	/* Like weir_request_reply, without the checks that the parser has made. */
	if (weir_request_settle_with(request, &reply))
		weir_request_answer(request, &reply);
}

static void call_head(weir_call *call, const weir_call_answer *answer)
{
	weir_exchange *exchange = weir_exchange_of(call);
	weir_field fields[FIELDS_MOST];
	if (answer->head->status > 599) {
		nonsense(exchange, "a status above 599");
		return;
	}
	weir_reply reply = {.status = answer->head->status,
			    .fields = fields,
			    .field_count = client_fields(exchange, answer, false, fields)};
	note_backend(exchange);
	weir_exchange_read_reports(exchange, answer);
	if (exchange->backend->at.h2)
		note_grpc(exchange, answer, true);
	weir_request_on_drained(exchange->request, request_drained, exchange);
	if (weir_request_begin_checked(exchange->request, &reply, answer->length) != 0) {
		nonsense(exchange, "a head that cannot be passed on");
		return;
	}
	exchange->begun = true;
	forget_kept(exchange);
	if (weir_request_pulls(exchange->request))
		weir_call_pull(call);
}

static void call_upgraded(weir_call *call, const weir_call_answer *answer)
{
	weir_exchange *exchange = weir_exchange_of(call);
	weir_field fields[FIELDS_MOST];
	size_t count = client_fields(exchange, answer, true, fields);
	note_backend(exchange);
	weir_request_on_drained(exchange->request, request_drained, exchange);
	WEIR_PROXY_COUNT(exchange, upgrades);
	exchange->reading = exchange->tunnel = exchange->begun = true;
	weir_request_read(exchange->request, &body_ops, exchange);
	/* This delivers what the client has already sent, perhaps to its end: the exchange may be over. */
	if (weir_request_upgrade(exchange->request, fields, count) != 0) {
		exchange->tunnel = exchange->begun = false;
		nonsense(exchange, "an upgrade that cannot be passed on");
	}
}

/* If the client reads slowly, a part that does not fit is held, and the backend is paused until it does. */
static void call_data(weir_call *call, weir_buf *buf, size_t offset, size_t length)
{
	weir_exchange *exchange = weir_exchange_of(call);
	if (weir_request_send(exchange->request, buf, offset, length) != -ENOBUFS)
		return;
	exchange->held = weir_buf_ref(buf);
	exchange->held_offset = offset;
	exchange->held_length = length;
	weir_call_pause(call);
	weir_exchange_stall(exchange);
}

/* The same without copying: what does not fit stays in the backend's socket. */
static int64_t call_pull(weir_call *call, weir_conn *from)
{
	weir_exchange *exchange = weir_exchange_of(call);
	int64_t moved = weir_request_pull(exchange->request, from);
	if (moved == -ENOBUFS) {
		weir_call_pause(call);
		weir_exchange_stall(exchange);
	}
	return moved;
}

static void request_drained(weir_request *request, void *arg)
{
	weir_exchange *exchange = arg;
	weir_buf *held = exchange->held;
	if (held != NULL) {
		if (weir_request_send(request, held, exchange->held_offset, exchange->held_length) ==
		    -ENOBUFS)
			return;
		exchange->held = NULL;
		weir_buf_unref(held);
	}
	if (exchange->stalled_at != NULL)
		weir_exchange_unstall(exchange);
	weir_call_resume(&exchange->call);
}

static void call_end(weir_call *call, const weir_call_answer *trailers)
{
	weir_exchange *exchange = weir_exchange_of(call);
	weir_field fields[FIELDS_MOST];
	size_t count = 0;
	if (trailers != NULL) {
		note_grpc(exchange, trailers, false);
		const weir_edits *edits = exchange->thread->proxy->options.answer_edits;
		for (size_t i = 0; i < trailers->head->field_count && count < FIELDS_MOST; i++) {
			const weir_head_field *field = &trailers->fields[i];
			fields[count] = (weir_field){{trailers->bytes + field->name, field->name_length},
						     {trailers->bytes + field->value, field->value_length}};
			count += !weir_edits_drop(edits, fields[count].name);
		}
	}
	weir_exchange_let_go(exchange);
	weir_request_end(exchange->request, fields, count);
}

const weir_call_ops weir_proxy_call_ops = {.ready = call_ready,
					   .interim = call_interim,
					   .whole = call_whole,
					   .head = call_head,
					   .upgraded = call_upgraded,
					   .data = call_data,
					   .end = call_end,
					   .failed = weir_proxy_failed,
					   .drained = call_drained,
					   .pull = call_pull};
