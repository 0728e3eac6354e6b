/* SPDX-License-Identifier: Apache-2.0 */
/* Output on io_uring: segments by the ring, files and pipes by calls. */
#include <errno.h>
#include <poll.h>

#include "net/conn_priv.h"

#define conn_of(op) ((weir_conn *)(void *)((char *)(op)-offsetof(weir_conn, uring.send)))

#define HALF_CLOSED_NS (20 * WEIR_NS_PER_MS)

static void sent(weir_uring_op *op, int result, uint32_t flags);
static void room(weir_uring_op *op, int result, uint32_t flags);

/* An entry that continues the output; NULL: the ring is stuck, and it is tried again in the next turn. */
static struct io_uring_sqe *send_entry(weir_conn *conn,
				       void (*complete)(weir_uring_op *op, int result, uint32_t flags))
{
	struct io_uring_sqe *sqe = weir_uring_sqe(conn->net->loop, &conn->uring.send);
	if (sqe == NULL) {
		weir_conn_later(conn);
		return NULL;
	}
	conn->uring.send.complete = complete;
	conn->flags |= WEIR_CONN_SENDING;
	return sqe;
}

static void send_segments(weir_conn *conn)
{
	weir_output_block *block = conn->output.head;
	int flags = weir_output_flags(block);
	struct io_uring_sqe *sqe = send_entry(conn, sent);
	if (sqe == NULL)
		return;
	if (block->end - block->first == 1) {
		struct iovec *segment = &block->segment[block->first];
		io_uring_prep_send(sqe, conn->fd, segment->iov_base, segment->iov_len, flags);
	} else {
		io_uring_prep_sendmsg(sqe, conn->fd, weir_output_message(block), (unsigned)flags);
	}
}

static void await_room(weir_conn *conn)
{
	struct io_uring_sqe *sqe = send_entry(conn, room);
	if (sqe != NULL)
		io_uring_prep_poll_add(sqe, conn->fd, POLLOUT);
}

/* Whether a file is next in the output. */
static bool has_file(const weir_conn *conn)
{
	return conn->output.bytes > 0 && conn->output.head->is_file && !weir_conn_is(conn, WEIR_CONN_DEAD);
}

/*
 * Files are sent by sendfile and polls: the ring's own splice runs on kernel threads, one for each
 * connection that waits for its peer. The socket must then be non-blocking, which does not affect the
 * ring's sends and receives.
 */
static void send_files(weir_conn *conn, size_t *budget)
{
	weir_conn_set_nonblocking(conn);
	while (has_file(conn) && *budget > 0) {
		int error = weir_conn_send_from_file(conn, budget);
		if (error == -EAGAIN)
			await_room(conn);
		if (error != 0)
			return;
	}
}

void weir_io_uring_send(weir_conn *conn)
{
	size_t budget = WEIR_CONN_FILE_BYTES;
	if (has_file(conn))
		send_files(conn, &budget);
	if (has_file(conn) && budget == 0)
		weir_conn_later(conn);
	if (conn->output.bytes > 0 && !conn->output.head->is_file && !weir_conn_is(conn, WEIR_CONN_DEAD))
		send_segments(conn);
}

/* Whole segments of the first block, or a part of its first. It does not wait for room: await_room does. */
static size_t send_part(weir_conn *conn, size_t most)
{
	weir_output_block *block = conn->output.head;
	struct iovec *first = &block->segment[block->first];
	size_t bytes = first->iov_len < most ? first->iov_len : most;
	unsigned count = 1;
	while (block->first + count < block->end && first[count].iov_len <= most - bytes)
		bytes += first[count++].iov_len;
	unsigned flags = MSG_NOSIGNAL | MSG_DONTWAIT;
	struct io_uring_sqe *sqe = send_entry(conn, sent);
	if (sqe == NULL)
		return 0;
	if (bytes < conn->output.bytes)
		flags |= MSG_MORE;
	if (count == 1) {
		io_uring_prep_send(sqe, conn->fd, first->iov_base, bytes, (int)flags);
	} else {
		weir_output_message(block)->msg_iovlen = count;
		io_uring_prep_sendmsg(sqe, conn->fd, &block->message, flags);
	}
	weir_transmit_began(conn, bytes);
	return bytes;
}

size_t weir_io_uring_send_some(weir_conn *conn, size_t most)
{
	size_t left = most;
	if (has_file(conn))
		send_files(conn, &left);
	if (left > 0 && conn->output.bytes > 0 && !conn->output.head->is_file &&
	    !weir_conn_is(conn, WEIR_CONN_DEAD))
		left -= send_part(conn, left);
	return most - left;
}

static void go_on_sending(weir_conn *conn)
{
	if (conn->output.bytes > 0 && !weir_conn_is(conn, WEIR_CONN_DEAD))
		weir_conn_push(conn);
	weir_conn_settle(conn);
}

/* The ring's polls end at once if the peer has ended its side, room or not. Such a connection looks again later. */
static void look_later(weir_conn *conn)
{
	static struct __kernel_timespec pause = {.tv_nsec = HALF_CLOSED_NS};
	struct io_uring_sqe *sqe = send_entry(conn, room);
	if (sqe != NULL)
		io_uring_prep_timeout(sqe, &pause, 0, 0);
}

static void room(weir_uring_op *op, int result, uint32_t flags)
{
	weir_conn *conn = conn_of(op);
	conn->flags &= ~(uint32_t)WEIR_CONN_SENDING;
	if (weir_conn_is(conn, WEIR_CONN_DEAD))
		weir_io_uring_close(conn);
	else if (result > 0 && !(result & (POLLOUT | POLLERR | POLLHUP | POLLNVAL)))
		look_later(conn);
	else
		go_on_sending(conn);
}

static void sent(weir_uring_op *op, int result, uint32_t flags)
{
	weir_conn *conn = conn_of(op);
	conn->flags &= ~(uint32_t)WEIR_CONN_SENDING;
	if (weir_conn_is(conn, WEIR_CONN_DEAD)) {
		weir_io_uring_close(conn);
		return;
	}
	if (weir_conn_is(conn, WEIR_CONN_SCHEDULED))
		weir_transmit_completed(conn, result > 0 ? (size_t)result : 0);
	if (result > 0)
		weir_conn_sent(conn, (size_t)result);
	else if (result < 0 && result != -EAGAIN && result != -EINTR)
		weir_conn_fail(conn, result);
	if (result == -EAGAIN)
		await_room(conn);
	else
		go_on_sending(conn);
}
