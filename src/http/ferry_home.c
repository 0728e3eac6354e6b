/* SPDX-License-Identifier: Apache-2.0 */
/* Home's side of a stream: carries out orders, sends pieces as the client takes them. See ferry.h. */
#include "http/ferry.h"

#include <errno.h>

#include "base/mem.h"

/* ---- telling the owner ---- */

static void set_gone(weir_ferry *ferry)
{
	pthread_mutex_lock(&ferry->loop->lock);
	ferry->gone = true;
	pthread_cond_broadcast(&ferry->change);
	pthread_mutex_unlock(&ferry->loop->lock);
}

static void client_gone(weir_request *request, void *arg)
{
	weir_ferry *ferry = arg;
	set_gone(ferry);
	if (ferry->gone_fn != NULL)
		ferry->gone_fn(request, ferry->gone_arg);
}

/* ---- sending ---- */

/* The next piece; it stays first in `sending` until it is sent. */
static weir_piece *next_piece(weir_ferry *ferry)
{
	if (ferry->sending.first != NULL)
		return ferry->sending.first;
	pthread_mutex_lock(&ferry->loop->lock);
	if (ferry->out.first != NULL) {
		ferry->sending = ferry->out;
		weir_pieces_init(&ferry->out);
	}
	pthread_mutex_unlock(&ferry->loop->lock);
	return ferry->sending.first;
}

/* The first piece was sent, or nobody wants it. */
static void drop_piece(weir_ferry *ferry)
{
	weir_piece *piece = weir_pieces_take(&ferry->sending);
	pthread_mutex_lock(&ferry->loop->lock);
	size_t before = ferry->out_bytes, half = ferry->out_most / 2;
	ferry->out_bytes -= weir_piece_cost(piece);
	/* A waiting writer is woken once there is room for more than one piece. */
	if ((before > half && ferry->out_bytes <= half) || ferry->out_bytes == 0)
		pthread_cond_signal(&ferry->change);
	pthread_mutex_unlock(&ferry->loop->lock);
	weir_mem_free(piece);
}

/* Whether everything so far has been sent or dropped. */
static bool send_pieces(weir_ferry *ferry)
{
	weir_request *request = ferry->request;
	weir_piece *piece;
	bool lost = weir_request_is(request, WEIR_REQUEST_GONE);
	while ((piece = next_piece(ferry)) != NULL) {
		int error = lost ? 0 : weir_request_write(request, piece->bytes, piece->length);
		if (error == -ENOBUFS)
			return false;
		if (error != 0) {
			lost = true;
			ferry->broken = ferry->broken || error != -EPIPE;
			set_gone(ferry);
		}
		drop_piece(ferry);
	}
	return true;
}

/* This ends the request, and the ferry with it. */
static void end_request(weir_ferry *ferry)
{
	weir_request *request = ferry->request;
	if (ferry->broken || ferry->ending & WEIR_FERRY_ABORT)
		weir_request_abort(request);
	else
		weir_request_end(request, NULL, 0);
}

static void pump(weir_ferry *ferry)
{
	/* The `drained` callback may come from inside the write. */
	if (ferry->pumping)
		return;
	ferry->pumping = true;
	bool all = send_pieces(ferry);
	ferry->pumping = false;
	if ((all || ferry->ending & WEIR_FERRY_ABORT) && ferry->ending != 0)
		end_request(ferry);
}

static void drained(weir_request *request, void *arg)
{
	pump(arg);
}

/* Called at the first order. */
static void hook(weir_ferry *ferry)
{
	weir_request *request = ferry->request;
	if (ferry->hooked)
		return;
	ferry->hooked = true;
	ferry->gone_fn = request->gone;
	ferry->gone_arg = request->gone_arg;
	weir_request_on_gone(request, client_gone, ferry);
	weir_request_on_drained(request, drained, ferry);
	if (weir_request_is(request, WEIR_REQUEST_GONE))
		set_gone(ferry);
}

static void begin(weir_ferry *ferry)
{
	weir_request *request = ferry->request;
	const weir_reply *reply = &ferry->reply;
	weir_ferry_let_go(request);
	request->flags |= WEIR_REQUEST_BEGUN;
	request->status = (uint16_t)reply->status;
	request->answer_left = ferry->length;
	if (weir_request_is(request, WEIR_REQUEST_GONE))
		return;
	weir_answer answer = {.status = reply->status,
			      .fields = reply->fields,
			      .field_count = reply->field_count,
			      .length = ferry->length};
	ferry->broken = request->codec->begin(request, &answer) != 0;
	if (ferry->broken)
		set_gone(ferry);
}

/* ---- reading ---- */

static void body_data(weir_request *request, weir_buf *buf, size_t offset, size_t length, void *arg)
{
	weir_ferry *ferry = arg;
	weir_piece *piece = length > 0 ? weir_piece_new(buf->data + offset, length) : NULL;
	if (length == 0)
		return;
	pthread_mutex_lock(&ferry->loop->lock);
	if (piece != NULL) {
		weir_pieces_add(&ferry->in, piece);
		ferry->in_bytes += weir_piece_cost(piece);
	} else {
		ferry->in_failed = -ENOMEM;
	}
	bool full = piece == NULL || ferry->in_bytes > WEIR_FERRY_IN_BYTES;
	ferry->paused = ferry->paused || full;
	pthread_cond_signal(&ferry->change);
	pthread_mutex_unlock(&ferry->loop->lock);
	if (full)
		weir_request_pause(request);
}

static void body_end(weir_request *request, void *arg)
{
	weir_ferry *ferry = arg;
	pthread_mutex_lock(&ferry->loop->lock);
	ferry->in_over = true;
	pthread_cond_signal(&ferry->change);
	pthread_mutex_unlock(&ferry->loop->lock);
}

static const weir_body_ops body_ops = {.data = body_data, .end = body_end};

void weir_ferry_let_go(weir_request *request)
{
	if (request->body_ops != &body_ops)
		return;
	weir_request_pause(request);
	request->body_ops = NULL;
}

/* ---- orders ---- */

static void free_ferry(weir_ferry *ferry)
{
	weir_pieces_free(&ferry->out);
	weir_pieces_free(&ferry->sending);
	weir_pieces_free(&ferry->in);
	weir_mem_free(ferry->reading);
	pthread_cond_destroy(&ferry->change);
	weir_mem_free(ferry);
}

static unsigned take_orders(weir_ferry *ferry)
{
	pthread_mutex_lock(&ferry->loop->lock);
	unsigned orders = ferry->orders;
	ferry->orders = 0;
	ferry->posted = false;
	pthread_mutex_unlock(&ferry->loop->lock);
	return orders;
}

void weir_ferry_arrive(weir_ferry *ferry)
{
	weir_request *request = ferry->request;
	weir_http_loop *loop = ferry->loop;
	unsigned orders = take_orders(ferry);
	if (request == NULL) {
		free_ferry(ferry);
		weir_http_loop_unref(loop);
		return;
	}
	hook(ferry);
	if (orders & WEIR_FERRY_READ)
		weir_request_read(request, &body_ops, ferry);
	if (orders & WEIR_FERRY_RESUME)
		weir_request_resume(request);
	if (orders & WEIR_FERRY_BEGIN)
		begin(ferry);
	ferry->ending |= orders & (WEIR_FERRY_END | WEIR_FERRY_ABORT);
	if (weir_request_is(request, WEIR_REQUEST_BEGUN))
		pump(ferry);
}

void weir_ferry_leave(weir_ferry *ferry)
{
	weir_http_loop *loop = ferry->loop;
	pthread_mutex_lock(&loop->lock);
	bool posted = ferry->posted;
	ferry->request = NULL;
	if (posted)
		weir_http_loop_ref(loop);
	pthread_mutex_unlock(&loop->lock);
	if (!posted)
		free_ferry(ferry);
}
