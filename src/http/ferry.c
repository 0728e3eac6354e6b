/* SPDX-License-Identifier: Apache-2.0 */
/* The owner's side of a stream: weir/stream.h. ferry.h has the overview. */
#include "http/ferry.h"

#include <errno.h>
#include <string.h>
#include <weir/stream.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "http/field_check.h"
#include "stage/friends.h"

/* How often a wait checks whether the world has stopped. The stop itself wakes nobody here. */
#define LOOK_NS (100 * WEIR_NS_PER_MS)

/* ---- pieces ---- */

weir_piece *weir_piece_new(const void *bytes, size_t length)
{
	weir_piece *piece = weir_mem_raw(sizeof(*piece) + length);
	if (piece == NULL)
		return NULL;
	piece->next = NULL;
	piece->length = length;
	memcpy(piece->bytes, bytes, length);
	return piece;
}

void weir_pieces_free(weir_pieces *pieces)
{
	for (weir_piece *piece; (piece = weir_pieces_take(pieces)) != NULL;)
		weir_mem_free(piece);
}

/* ---- creation ---- */

static weir_ferry *make_ferry(weir_request *request)
{
	weir_http_loop *loop = request->loop;
	weir_ferry *ferry = weir_request_hold_chunk(request) ? weir_mem_zalloc(sizeof(*ferry)) : NULL;
	if (ferry == NULL)
		return NULL;
	ferry->loop = loop;
	ferry->request = request;
	ferry->out_most = loop->limits.output_bytes;
	/* A piece fits into the queue, and into what the protocol takes at once. */
	ferry->piece_most =
		ferry->out_most / 4 < WEIR_FERRY_PIECE_BYTES ? ferry->out_most / 4 : WEIR_FERRY_PIECE_BYTES;
	weir_pieces_init(&ferry->out);
	weir_pieces_init(&ferry->in);
	weir_pieces_init(&ferry->sending);
	weir_http_init_condition(&ferry->change);
	return ferry;
}

/* The request's ferry, created by the first call. NULL with *ret_error: not possible here. */
static weir_ferry *ferry_of(weir_request *request, const char *what, int *ret_error)
{
	if (weir_loop_self() != NULL) {
		*ret_error = weir_error_set(-EINVAL, "%s: reactor threads must not wait", what);
		return NULL;
	}
	if (request->ferry == NULL)
		request->ferry = make_ferry(request);
	if (request->ferry == NULL)
		*ret_error = weir_error_set(-ENOMEM, "%s: out of memory", what);
	return request->ferry;
}

static weir_ferry *begun_ferry(const weir_request *request, const char *what)
{
	if (weir_loop_self() == NULL && request->ferry != NULL && request->ferry->begun)
		return request->ferry;
	weir_error_set(-EINVAL, "%s: no stream has been begun, or this thread must not wait", what);
	return NULL;
}

/* ---- orders ---- */

bool weir_ferry_order_locked(weir_ferry *ferry, unsigned orders)
{
	weir_http_loop *loop = ferry->loop;
	ferry->orders |= orders;
	if (loop->over)
		return true;
	if (ferry->posted)
		return false;
	ferry->posted = true;
	ferry->next = NULL;
	*loop->ferries_end = ferry;
	loop->ferries_end = &ferry->next;
	weir_http_loop_announce_locked(loop);
	return false;
}

static void give_orders(weir_ferry *ferry, unsigned orders)
{
	weir_http_loop *loop = ferry->loop;
	pthread_mutex_lock(&loop->lock);
	bool here = weir_ferry_order_locked(ferry, orders);
	pthread_mutex_unlock(&loop->lock);
	if (here)
		weir_ferry_arrive(ferry);
}

/* ---- waiting ---- */

static uint64_t time_after(uint64_t ns)
{
	uint64_t now_ns = weir_clock_ns();
	return ns < UINT64_MAX / 2 - now_ns ? now_ns + ns : UINT64_MAX / 2;
}

/* 0: check again. */
static int wait_locked(weir_ferry *ferry, uint64_t until_ns)
{
	weir_http_loop *loop = ferry->loop;
	uint64_t now_ns = weir_clock_ns();
	if (weir_world_has_stopped(loop->world))
		return -ECANCELED;
	if (now_ns >= until_ns)
		return -ETIMEDOUT;
	uint64_t look_ns = until_ns - now_ns > LOOK_NS ? now_ns + LOOK_NS : until_ns;
	struct timespec at = {.tv_sec = (time_t)(look_ns / WEIR_NS_PER_S),
			      .tv_nsec = (long)(look_ns % WEIR_NS_PER_S)};
	pthread_cond_timedwait(&ferry->change, &loop->lock, &at);
	return 0;
}

/* A stop of the world waits for its own threads, and for visits of others. */
static weir_visit enter(const weir_ferry *ferry)
{
	return weir_visit_begin(ferry->loop->world);
}

/* ---- the answer ---- */

int weir_request_stream_begin(weir_request *request, const weir_reply *reply, uint64_t length)
{
	weir_reply head = {
		.status = reply->status, .fields = reply->fields, .field_count = reply->field_count};
	int error = weir_reply_check(&head);
	weir_ferry *ferry = error == 0 ? ferry_of(request, "stream", &error) : NULL;
	if (ferry == NULL)
		return error;
	if (ferry->begun)
		return weir_error_set(-EINVAL, "stream: it has been begun");
	if (!weir_reply_keep_fields(request, &head))
		return weir_error_set(-ENOMEM, "stream: the request has no memory for the answer's fields");
	if (request->standing != WEIR_NO_SESSION)
		weir_request_remember(request, reply);
	/* The time depends on the client as much as on the service, so nothing is learnt about costs. */
	request->kind = (weir_cost_kind){0};
	ferry->reply = head;
	ferry->length = ferry->left = length;
	ferry->begun = true;
	const weir_visit here = enter(ferry);
	give_orders(ferry, WEIR_FERRY_BEGIN);
	weir_visit_end(&here);
	return 0;
}

/* Takes ownership of the piece, also on failure. */
static int put_piece(weir_ferry *ferry, weir_piece *piece, uint64_t until_ns)
{
	weir_http_loop *loop = ferry->loop;
	size_t cost = weir_piece_cost(piece);
	int error = 0;
	bool here = false;
	pthread_mutex_lock(&loop->lock);
	while (error == 0 && !ferry->gone && ferry->out_bytes > 0 &&
	       ferry->out_bytes + cost > ferry->out_most)
		error = wait_locked(ferry, until_ns);
	if (ferry->gone)
		error = -EPIPE;
	if (error == 0) {
		weir_pieces_add(&ferry->out, piece);
		ferry->out_bytes += cost;
		here = weir_ferry_order_locked(ferry, 0);
	}
	pthread_mutex_unlock(&loop->lock);
	if (error != 0)
		weir_mem_free(piece);
	if (here)
		weir_ferry_arrive(ferry);
	return error;
}

static int write_pieces(weir_ferry *ferry, const char *bytes, size_t length, uint64_t until_ns)
{
	while (length > 0) {
		size_t part = length < ferry->piece_most ? length : ferry->piece_most;
		weir_piece *piece = weir_piece_new(bytes, part);
		int error = piece != NULL ? put_piece(ferry, piece, until_ns) : -ENOMEM;
		if (error != 0)
			return error;
		if (ferry->left != WEIR_UNKNOWN_LENGTH)
			ferry->left -= part;
		bytes += part;
		length -= part;
	}
	return 0;
}

int weir_request_stream_write(weir_request *request, const void *bytes, size_t length, uint64_t timeout_ns)
{
	weir_ferry *ferry = begun_ferry(request, "stream");
	if (ferry == NULL)
		return -EINVAL;
	if (ferry->left != WEIR_UNKNOWN_LENGTH && length > ferry->left)
		return -EMSGSIZE;
	const weir_visit here = enter(ferry);
	int error = write_pieces(ferry, bytes, length, time_after(timeout_ns));
	weir_visit_end(&here);
	return error;
}

/* The event is settled first: once the order is given, the request may be freed. */
static int finish(weir_request *request, unsigned order)
{
	weir_ferry *ferry = begun_ferry(request, "stream");
	if (ferry == NULL)
		return -EINVAL;
	const weir_visit here = enter(ferry);
	bool settled = weir_request_settle(request, ferry->reply.status);
	if (settled)
		give_orders(ferry, order);
	weir_visit_end(&here);
	return settled ? 0 : weir_error_set(-EINVAL, "stream: a stage's queue has the request");
}

int weir_request_stream_end(weir_request *request)
{
	return finish(request, WEIR_FERRY_END);
}

int weir_request_stream_abort(weir_request *request)
{
	return finish(request, WEIR_FERRY_ABORT);
}

/* ---- the body ---- */

/* Makes ferry->reading the next piece. 0: there is one, or the body has ended. */
static int take_locked(weir_ferry *ferry, uint64_t until_ns, bool *ret_here)
{
	int error = 0;
	while (error == 0 && ferry->in.first == NULL && !ferry->in_over) {
		error = ferry->gone ? -EPIPE : ferry->in_failed;
		if (error == 0)
			error = wait_locked(ferry, until_ns);
	}
	ferry->reading = error == 0 ? weir_pieces_take(&ferry->in) : NULL;
	if (ferry->reading == NULL)
		return error;
	ferry->read_at = 0;
	ferry->in_bytes -= weir_piece_cost(ferry->reading);
	if (ferry->paused && ferry->in_bytes < WEIR_FERRY_IN_BYTES / 2) {
		ferry->paused = false;
		*ret_here = weir_ferry_order_locked(ferry, WEIR_FERRY_RESUME);
	}
	return 0;
}

static int take_piece(weir_ferry *ferry, uint64_t until_ns)
{
	weir_http_loop *loop = ferry->loop;
	bool here = false;
	const weir_visit v = enter(ferry);
	if (!ferry->reads) {
		ferry->reads = true;
		give_orders(ferry, WEIR_FERRY_READ);
	}
	pthread_mutex_lock(&loop->lock);
	int error = take_locked(ferry, until_ns, &here);
	pthread_mutex_unlock(&loop->lock);
	if (here)
		weir_ferry_arrive(ferry);
	weir_visit_end(&v);
	return error;
}

static size_t read_piece(weir_ferry *ferry, void *to, size_t size)
{
	weir_piece *piece = ferry->reading;
	size_t left = piece->length - ferry->read_at;
	size_t length = left < size ? left : size;
	memcpy(to, piece->bytes + ferry->read_at, length);
	ferry->read_at += length;
	if (ferry->read_at == piece->length) {
		ferry->reading = NULL;
		weir_mem_free(piece);
	}
	return length;
}

int weir_request_stream_read(weir_request *request, void *to, size_t size, uint64_t timeout_ns,
			     size_t *ret_length)
{
	int error = 0;
	weir_ferry *ferry = ferry_of(request, "stream", &error);
	if (ferry == NULL)
		return error;
	if (ferry->begun || size == 0)
		return weir_error_set(-EINVAL, "stream: a body is read before the answer, into some room");
	if (ferry->reading == NULL)
		error = take_piece(ferry, time_after(timeout_ns));
	if (error == 0)
		*ret_length = ferry->reading != NULL ? read_piece(ferry, to, size) : 0;
	return error;
}
