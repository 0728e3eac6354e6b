/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets on io_uring.
 *
 * Receiving is one multishot operation per connection, which takes a buffer of the loop's ring for each
 * piece that arrives. It stays armed while the connection is paused: usually nothing arrives, and pausing
 * then costs nothing. If something does arrive it is put aside (waiting), and the operation is cancelled.
 * The same happens to a connection that has had its 16 KB of this turn. A connection that sends in bulk,
 * or has a read rate, is TIGHT: it receives one piece at a time, requested when the last one has been
 * delivered.
 *
 * The end of the stream, or an error, is kept (ENDED) behind the waiting buffers.
 *
 * While nothing is being received, a poll for errors detects a reset.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/assert.h"
#include "net/acceptor.h"
#include "net/conn_priv.h"

#define conn_of(op, member) ((weir_conn *)(void *)((char *)(op)-offsetof(weir_conn, uring.member)))

#define UNDER_WAY (WEIR_CONN_RECEIVING | WEIR_CONN_SENDING | WEIR_CONN_POLLING)

static void received(weir_uring_op *op, int result, uint32_t flags);
static void readable(weir_uring_op *op, int result, uint32_t flags);
static void polled(weir_uring_op *op, int result, uint32_t flags);
static void note_end(weir_conn *conn, int result);

void weir_io_set_blocking(int fd, bool blocking)
{
	int flags = fcntl(fd, F_GETFL), wanted = blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK;
	if (wanted != flags)
		fcntl(fd, F_SETFL, wanted);
}

static int uring_io_init(weir_net *net)
{
	return weir_buf_ring_init(&net->ring, weir_uring_ring(net->loop), net->reads);
}

static void uring_io_fini(weir_net *net)
{
	weir_buf_ring_fini(&net->ring, weir_uring_ring(net->loop));
}

static int uring_start(weir_conn *conn)
{
	conn->uring.poll.complete = polled;
	return 0;
}

static int uring_connect(weir_conn *conn, const struct sockaddr *to, socklen_t to_length)
{
	uring_start(conn);
	struct io_uring_sqe *sqe = weir_uring_sqe(conn->net->loop, &conn->uring.poll);
	if (sqe == NULL)
		return -EAGAIN;
	io_uring_prep_connect(sqe, conn->fd, to, to_length);
	conn->flags |= WEIR_CONN_POLLING;
	/* The address belongs to the caller: submitting reads it before this returns. */
	weir_uring_submit(conn->net->loop);
	return 0;
}

/* ---- closing: operations in progress are cancelled, and the last completion ends it ---- */

/* Cancels an operation if it is in progress, once. False: the ring is stuck. */
static bool cancel(weir_conn *conn, weir_uring_op *op, uint32_t under_way, uint32_t asked)
{
	if (!weir_conn_is(conn, under_way) || weir_conn_is(conn, asked))
		return true;
	if (weir_uring_cancel(conn->net->loop, op) != 0)
		return false;
	conn->flags |= asked;
	return true;
}

static bool stop_receiving(weir_conn *conn)
{
	return cancel(conn, &conn->uring.receive, WEIR_CONN_RECEIVING, WEIR_CONN_STOPPING);
}

void weir_io_uring_close(weir_conn *conn)
{
	weir_conn_drop_waiting(conn);
	if (!weir_conn_is(conn, UNDER_WAY)) {
		weir_conn_gone(conn);
		return;
	}
	bool all = stop_receiving(conn);
	all &= cancel(conn, &conn->uring.send, WEIR_CONN_SENDING, WEIR_CONN_SEND_ENDED);
	all &= cancel(conn, &conn->uring.poll, WEIR_CONN_POLLING, WEIR_CONN_POLL_ENDED);
	if (!all)
		weir_conn_later(conn);
}

/* ---- input ---- */

/*
 * The ring has fewer buffers than a busy loop has connections. If all receives that found no buffer asked
 * again at once, they would find none again. So only as many of them ask in a turn as there are buffers;
 * the others ask in the next.
 */
static bool must_wait_for_buffer(weir_conn *conn)
{
	weir_net *net = conn->net;
	uint64_t turn = weir_loop_turns(net->loop);
	if (!weir_conn_is(conn, WEIR_CONN_HUNGRY))
		return false;
	if (!weir_buf_ring_fill(&net->ring))
		return false; /* none at all, and none available: let the receive fail and report it */
	if (net->hungry_turn != turn) {
		net->hungry_turn = turn;
		net->hungry_left = weir_buf_ring_filled(&net->ring);
	}
	if (net->hungry_left == 0)
		return true;
	net->hungry_left--;
	return false;
}

static void arm_receive(weir_conn *conn)
{
	if (must_wait_for_buffer(conn)) {
		weir_conn_later(conn);
		return;
	}
	struct io_uring_sqe *sqe = weir_uring_sqe(conn->net->loop, &conn->uring.receive);
	if (sqe == NULL) {
		weir_conn_later(conn);
		return;
	}
	if (weir_conn_is(conn, WEIR_CONN_PULLED) && conn->rate == 0)
		io_uring_prep_recv(sqe, conn->fd, NULL, WEIR_CONN_HEAD_BYTES, 0);
	else if (weir_conn_is(conn, WEIR_CONN_TIGHT) || conn->rate != 0)
		io_uring_prep_recv(sqe, conn->fd, NULL, weir_conn_read_most(conn), 0);
	else
		io_uring_prep_recv_multishot(sqe, conn->fd, NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = WEIR_BUF_RING_GROUP;
	conn->uring.receive.complete = received;
	conn->flags |= WEIR_CONN_RECEIVING;
}

/* For a connection whose owner pulls: the ring only tells when there is something. */
static void arm_input_poll(weir_conn *conn)
{
	struct io_uring_sqe *sqe = weir_uring_sqe(conn->net->loop, &conn->uring.receive);
	if (sqe == NULL) {
		weir_conn_later(conn);
		return;
	}
	io_uring_prep_poll_add(sqe, conn->fd, POLLIN | POLLRDHUP);
	conn->uring.receive.complete = readable;
	conn->flags |= WEIR_CONN_RECEIVING;
}

/* Nothing is being received: watches for a reset. */
static void arm_error_poll(weir_conn *conn)
{
	struct io_uring_sqe *sqe = weir_uring_sqe(conn->net->loop, &conn->uring.poll);
	if (sqe == NULL)
		return;
	io_uring_prep_poll_add(sqe, conn->fd, POLLERR);
	conn->flags |= WEIR_CONN_POLLING;
}

static void deliver(weir_conn *conn, weir_buf *buf)
{
	weir_net *net = conn->net;
	weir_conn_data(conn, buf);
	weir_buf_ring_give(&net->ring, buf);
}

static void deliver_waiting(weir_conn *conn)
{
	while (conn->waiting != NULL && weir_conn_wants_input(conn)) {
		if (weir_conn_allowance(conn) < conn->waiting->buf.length) {
			weir_conn_later(conn);
			return;
		}
		deliver(conn, weir_conn_take_waiting(conn));
	}
}

static void deliver_end(weir_conn *conn)
{
	if (conn->uring.end == 0)
		weir_conn_eof(conn);
	else
		weir_conn_fail(conn, conn->uring.end);
}

/*
 * In bulk, several buffers are read at once by a call, as long as the socket has that much. A receive of
 * the ring fills one.
 */
static void read_many(weir_conn *conn)
{
	uint32_t allowance = weir_conn_allowance(conn);
	if (allowance == 0) {
		weir_conn_later(conn);
		return;
	}
	int64_t got = weir_conn_read_bulk(conn, allowance);
	if (got == 0 || (got < 0 && got != -EAGAIN && got != -EINTR))
		note_end(conn, (int)got);
	deliver_waiting(conn);
	/* The socket is empty: the ring waits for more. */
	if (got < allowance)
		conn->flags &= ~(uint32_t)WEIR_CONN_BULK;
	else
		weir_conn_later(conn);
}

/*
 * Once per call: then the ring says whether there is more, which takes no call of its own. If the bytes have
 * to be read, they are read in bulk.
 */
static void pull(weir_conn *conn)
{
	int64_t got = weir_conn_pull(conn);
	if (got == -ENOTSUP) {
		conn->flags |= WEIR_CONN_BULK;
		return;
	}
	conn->flags &= ~(uint32_t)WEIR_CONN_BULK;
	if (got <= 0 && got != -ENOBUFS)
		note_end(conn, (int)got);
}

static void uring_input(weir_conn *conn)
{
	const uint32_t over = WEIR_CONN_DEAD | WEIR_CONN_RECEIVING | WEIR_CONN_ENDED;
	deliver_waiting(conn);
	if (conn->pull != NULL && conn->waiting == NULL && !weir_conn_is(conn, over) &&
	    weir_conn_wants_input(conn))
		pull(conn);
	if (conn->waiting == NULL && weir_conn_is(conn, WEIR_CONN_BULK) && !weir_conn_is(conn, over) &&
	    conn->rate == 0 && weir_conn_wants_input(conn)) {
		read_many(conn);
		if (weir_conn_is(conn, WEIR_CONN_BULK) && weir_conn_wants_input(conn))
			return;
	}
	/* What the ring receives now comes by data; then it is pulled. */
	if (conn->pull != NULL && weir_conn_is(conn, WEIR_CONN_RECEIVING) &&
	    conn->uring.receive.complete == received && !stop_receiving(conn))
		weir_conn_later(conn);
	if (weir_conn_is(conn, WEIR_CONN_DEAD | WEIR_CONN_RECEIVING))
		return;
	bool empty = conn->waiting == NULL;
	if (empty && weir_conn_is(conn, WEIR_CONN_ENDED) && weir_conn_wants_input(conn))
		deliver_end(conn);
	if (weir_conn_is(conn, WEIR_CONN_DEAD))
		return;
	if (weir_conn_wants_input(conn) && empty && conn->pull != NULL)
		arm_input_poll(conn);
	else if (weir_conn_wants_input(conn) && empty)
		arm_receive(conn);
	else if (!weir_conn_wants_input(conn) && !weir_conn_is(conn, WEIR_CONN_POLLING))
		arm_error_poll(conn);
}

/* Kept for later delivery; until then no more is wanted. */
static void put_aside(weir_conn *conn, weir_buf *buf)
{
	weir_conn_put_aside(conn, buf);
	conn->flags |= WEIR_CONN_TIGHT;
	weir_buf_ring_fill(&conn->net->ring);
	if (!stop_receiving(conn))
		weir_conn_later(conn);
}

/* A full buffer is a sign of bulk, a partial one of its end. */
static void choose_pace(weir_conn *conn, size_t count)
{
	if (count == WEIR_BUF_READ_BYTES) {
		conn->flags |= WEIR_CONN_TIGHT | WEIR_CONN_BULK;
		if (!stop_receiving(conn))
			weir_conn_later(conn);
	} else if (count < WEIR_BUF_READ_BYTES / 2) {
		conn->flags &= ~(uint32_t)(WEIR_CONN_TIGHT | WEIR_CONN_BULK);
	}
}

static void arrived(weir_conn *conn, weir_buf *buf)
{
	bool now = conn->waiting == NULL && weir_conn_wants_input(conn) &&
		   weir_conn_allowance(conn) >= buf->length;
	if (!now) {
		put_aside(conn, buf);
		weir_conn_later(conn);
		return;
	}
	conn->flags &= ~(uint32_t)(WEIR_CONN_HUNGRY | WEIR_CONN_PULLED);
	choose_pace(conn, buf->length);
	deliver(conn, buf);
}

static void note_end(weir_conn *conn, int result)
{
	/* Cancelled, interrupted, or no buffer at that moment: requested again if it is still wanted. */
	if (result == -ECANCELED || result == -EINTR || result == -EAGAIN)
		return;
	if (result == -ENOBUFS && weir_buf_ring_fill(&conn->net->ring)) {
		conn->flags |= WEIR_CONN_HUNGRY;
		return;
	}
	conn->uring.end = result == -ENOBUFS ? -ENOMEM : result;
	conn->flags |= WEIR_CONN_ENDED;
}

static void received(weir_uring_op *op, int result, uint32_t flags)
{
	weir_conn *conn = conn_of(op, receive);
	weir_buf *buf = flags & IORING_CQE_F_BUFFER ? weir_buf_ring_take(&conn->net->ring, flags) : NULL;
	if (!(flags & IORING_CQE_F_MORE))
		conn->flags &= ~(uint32_t)(WEIR_CONN_RECEIVING | WEIR_CONN_STOPPING);
	if (buf != NULL && (result <= 0 || weir_conn_is(conn, WEIR_CONN_DEAD))) {
		weir_buf_ring_give(&conn->net->ring, buf);
		buf = NULL;
	}
	if (weir_conn_is(conn, WEIR_CONN_DEAD)) {
		weir_io_uring_close(conn);
		return;
	}
	if (buf != NULL) {
		buf->length = (uint32_t)result;
		arrived(conn, buf);
	} else {
		note_end(conn, result);
	}
	if (!weir_conn_is(conn, WEIR_CONN_RECEIVING | WEIR_CONN_DEAD))
		uring_input(conn);
}

static void readable(weir_uring_op *op, int result, uint32_t flags)
{
	weir_conn *conn = conn_of(op, receive);
	conn->flags &= ~(uint32_t)(WEIR_CONN_RECEIVING | WEIR_CONN_STOPPING);
	if (weir_conn_is(conn, WEIR_CONN_DEAD))
		weir_io_uring_close(conn);
	else
		uring_input(conn);
}

/* ---- connecting, and errors while nothing is received ---- */

static int socket_error(int fd)
{
	int error = 0;
	socklen_t length = sizeof(error);
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? -error : -errno;
}

static void polled(weir_uring_op *op, int result, uint32_t flags)
{
	weir_conn *conn = conn_of(op, poll);
	conn->flags &= ~(uint32_t)WEIR_CONN_POLLING;
	if (weir_conn_is(conn, WEIR_CONN_DEAD)) {
		weir_io_uring_close(conn);
	} else if (weir_conn_is(conn, WEIR_CONN_CONNECTING)) {
		weir_conn_connected(conn, result);
	} else if (!weir_conn_wants_input(conn)) {
		int error = socket_error(conn->fd);
		if (error != 0)
			weir_conn_fail(conn, error);
	}
}

const weir_io weir_io_uring = {
	.init = uring_io_init,
	.fini = uring_io_fini,
	.start = uring_start,
	.connect = uring_connect,
	.input = uring_input,
	.send = weir_io_uring_send,
	.send_some = weir_io_uring_send_some,
	.close = weir_io_uring_close,
	.accept_start = weir_io_uring_accept_start,
	.accept_stop = weir_io_uring_accept_stop,
};
