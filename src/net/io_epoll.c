/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets on epoll. A connection is registered once, edge-triggered for both directions, so that serving
 * it takes no epoll_ctl: a turn costs one recv and one send per request, and a share of one epoll_wait.
 *
 * Edges. READABLE is set by an edge and cleared when the socket is known to be empty: by EAGAIN, or by a
 * read that did not fill the buffer (later bytes cause an edge of their own). The peer's end may hide
 * behind a short read, so an edge that reported it (HALF) keeps READABLE until the end has been read. A
 * send that was cut short waits for the edge that reports room (SENDING).
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/acceptor.h"
#include "net/conn_priv.h"

static void conn_ready(weir_epoll_source *source, uint32_t events);

static int epoll_io_init(weir_net *net)
{
	net->spare = NULL;
	return 0;
}

static void epoll_io_fini(weir_net *net)
{
	weir_buf_unref(net->spare);
}

static int add(weir_conn *conn)
{
	conn->epoll.source.ready = conn_ready;
	return weir_epoll_add(conn->net->loop, &conn->epoll.source, conn->fd,
			      EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

static int epoll_connect(weir_conn *conn, const struct sockaddr *to, socklen_t to_length)
{
	int error = connect(conn->fd, to, to_length) == 0 ? 0 : errno;
	/* If it succeeds at once, the first edge still reports it. */
	if (error == 0 || error == EINPROGRESS)
		return add(conn);
	weir_conn_die(conn, -error);
	return 0;
}

static int socket_error(int fd)
{
	int error = 0;
	socklen_t length = sizeof(error);
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? -error : -errno;
}

/* ---- input ---- */

/* The same buffer again and again, hot in the cache, as long as nobody keeps it. */
static weir_buf *read_buffer(weir_net *net)
{
	weir_buf *buf = net->spare;
	if (buf != NULL && weir_buf_exclusive(buf))
		return buf;
	weir_buf_unref(buf);
	net->spare = weir_buf_pool_take(net->reads);
	return net->spare;
}

/*
 * The C library's recv and send are cancellation points: in a program with threads, each call first
 * enables cancellation and then disables it again. Nobody cancels our threads.
 */
static ssize_t receive_bytes(int fd, void *into, size_t most)
{
	return syscall(SYS_recvfrom, fd, into, most, 0, NULL, NULL);
}

static ssize_t send_bytes(int fd, const void *from, size_t length, int flags)
{
	return syscall(SYS_sendto, fd, from, length, flags, NULL, 0);
}

static void read_failed(weir_conn *conn, int error)
{
	if (error == EAGAIN || error == EWOULDBLOCK)
		conn->flags &= ~(uint32_t)WEIR_CONN_READABLE;
	else if (error != EINTR)
		weir_conn_fail(conn, -error);
}

static inline __attribute__((always_inline)) void read_once(weir_conn *conn, uint32_t most)
{
	weir_buf *buf = read_buffer(conn->net);
	if (buf == NULL) {
		weir_conn_fail(conn, -ENOMEM);
		return;
	}
	ssize_t got = receive_bytes(conn->fd, buf->data, most);
	if (got > 0) {
		if ((size_t)got < most && !weir_conn_is(conn, WEIR_CONN_HALF))
			conn->flags &= ~(uint32_t)WEIR_CONN_READABLE;
		if ((size_t)got == WEIR_BUF_READ_BYTES)
			conn->flags |= WEIR_CONN_BULK;
		buf->length = (uint32_t)got;
		weir_conn_data(conn, buf);
	} else if (got == 0) {
		conn->flags &= ~(uint32_t)WEIR_CONN_READABLE;
		weir_conn_eof(conn);
	} else {
		read_failed(conn, errno);
	}
}

static void deliver_waiting(weir_conn *conn)
{
	while (conn->waiting != NULL && weir_conn_wants_input(conn)) {
		weir_buf *buf = weir_conn_take_waiting(conn);
		weir_conn_data(conn, buf);
		weir_buf_unref(buf);
	}
}

static void read_many(weir_conn *conn, uint32_t most)
{
	int64_t got = weir_conn_read_bulk(conn, most);
	if (got < 0) {
		read_failed(conn, (int)-got);
		return;
	}
	if (got < most && !weir_conn_is(conn, WEIR_CONN_HALF))
		conn->flags &= ~(uint32_t)WEIR_CONN_READABLE;
	if (got == 0) {
		conn->flags &= ~(uint32_t)WEIR_CONN_READABLE;
		weir_conn_eof(conn);
	}
	deliver_waiting(conn);
}

/* false: the bytes are to be read. */
static bool pull(weir_conn *conn)
{
	int64_t got = weir_conn_pull(conn);
	if (got == -ENOTSUP)
		return false;
	if (got == 0) {
		conn->flags &= ~(uint32_t)WEIR_CONN_READABLE;
		weir_conn_eof(conn);
	} else if (got < 0 && got != -ENOBUFS) {
		read_failed(conn, (int)-got);
	}
	/* Others have their turn before the next. */
	if ((got > 0 || got == -EINTR) && conn->pull != NULL)
		weir_conn_later(conn);
	return true;
}

/* What keeps a connection from being read in the usual way, or at all. */
#define UNUSUAL                                                                            \
	(WEIR_CONN_CONNECTING | WEIR_CONN_CLOSING | WEIR_CONN_LINGERING | WEIR_CONN_DEAD | \
	 WEIR_CONN_PAUSED | WEIR_CONN_RATED | WEIR_CONN_EOF | WEIR_CONN_BULK | WEIR_CONN_PULLED)

static inline bool is_read_as_usual(const weir_conn *conn)
{
	return (conn->flags & (UNUSUAL | WEIR_CONN_READABLE)) == WEIR_CONN_READABLE && conn->pull == NULL &&
	       conn->waiting == NULL && conn->rate == 0;
}

static void input_otherwise(weir_conn *conn);

/* As input_otherwise, with what most connections need asked at once. */
static void epoll_input(weir_conn *conn)
{
	while (is_read_as_usual(conn)) {
		uint32_t allowance = weir_conn_usual_allowance(conn);
		if (allowance == 0) {
			weir_conn_later(conn);
			return;
		}
		read_once(conn, allowance);
	}
	if (conn->waiting != NULL || weir_conn_is(conn, WEIR_CONN_READABLE))
		input_otherwise(conn);
}

static __attribute__((noinline)) void input_otherwise(weir_conn *conn)
{
	deliver_waiting(conn);
	while (weir_conn_is(conn, WEIR_CONN_READABLE) && weir_conn_wants_input(conn)) {
		/* Asked anew, since a head that was just read may have begun it. */
		if (conn->pull != NULL && pull(conn)) {
			if (conn->pull != NULL)
				return;
			continue;
		}
		uint32_t allowance = weir_conn_allowance(conn), most = weir_conn_read_most(conn);
		if (allowance == 0) {
			weir_conn_later(conn);
			return;
		}
		if (__builtin_expect(weir_conn_is(conn, WEIR_CONN_PULLED), 0)) {
			conn->flags &= ~(uint32_t)WEIR_CONN_PULLED;
			most = most < WEIR_CONN_HEAD_BYTES ? most : WEIR_CONN_HEAD_BYTES;
		}
		if (weir_conn_is(conn, WEIR_CONN_BULK) && conn->rate == 0)
			read_many(conn, allowance);
		else
			read_once(conn, most < allowance ? most : allowance);
	}
}

/* ---- output ---- */

static ssize_t send_block(int fd, weir_output_block *block)
{
	int flags = weir_output_flags(block);
	if (block->end - block->first == 1) {
		struct iovec *segment = &block->segment[block->first];
		return send_bytes(fd, segment->iov_base, segment->iov_len, flags);
	}
	return sendmsg(fd, weir_output_message(block), flags);
}

static size_t block_bytes(const weir_output_block *block)
{
	size_t bytes = 0;
	for (uint32_t i = block->first; i < block->end; i++)
		bytes += block->segment[i].iov_len;
	return bytes;
}

static void send_failed(weir_conn *conn, int error)
{
	if (error == EAGAIN || error == EWOULDBLOCK)
		conn->flags |= WEIR_CONN_SENDING;
	else if (error != EINTR)
		weir_conn_fail(conn, -error);
}

static void sent_part(weir_conn *conn, size_t count)
{
	weir_conn_sent(conn, count);
	conn->flags |= WEIR_CONN_SENDING;
}

static void send_segments(weir_conn *conn)
{
	size_t bytes = block_bytes(conn->output.head);
	ssize_t sent = send_block(conn->fd, conn->output.head);
	if (sent < 0)
		send_failed(conn, errno);
	else if ((size_t)sent < bytes)
		sent_part(conn, (size_t)sent);
	else
		weir_conn_sent(conn, (size_t)sent);
}

static void send_quick(weir_conn *conn)
{
	weir_quick *quick = &conn->net->quick;
	ssize_t sent = send_bytes(conn->fd, quick->bytes, quick->length, MSG_NOSIGNAL);
	if (__builtin_expect(sent == (ssize_t)quick->length, 1)) {
		conn->activity_ns = conn->progress_ns = weir_loop_time(conn->net->loop);
		conn->output.bytes = 0;
		quick->owner = NULL;
		quick->length = 0;
		if (weir_conn_is(conn, WEIR_CONN_SCHEDULED))
			weir_transmit_sent(conn, (size_t)sent);
		return;
	}
	int why = errno;
	/* What cannot be sent at once waits like everything else. */
	if (weir_conn_unquick(conn) != 0)
		weir_conn_fail(conn, -ENOMEM);
	else if (sent < 0)
		send_failed(conn, why);
	else
		sent_part(conn, (size_t)sent);
}

static void epoll_send(weir_conn *conn)
{
	size_t budget = WEIR_CONN_FILE_BYTES;
	if (conn->net->quick.owner == conn)
		send_quick(conn);
	while (conn->output.bytes > 0 && !weir_conn_is(conn, WEIR_CONN_SENDING | WEIR_CONN_DEAD)) {
		if (!conn->output.head->is_file) {
			send_segments(conn);
		} else if (budget == 0) {
			weir_conn_later(conn);
			return;
		} else {
			int error = weir_conn_send_from_file(conn, &budget);
			if (error == -EINPROGRESS)
				return;
			if (error == -EAGAIN)
				conn->flags |= WEIR_CONN_SENDING;
		}
	}
}

/* At most so many bytes of the first block: whole segments, or a part of the first. 0: none now. */
static size_t send_part(weir_conn *conn, size_t most)
{
	weir_output_block *block = conn->output.head;
	struct iovec part[WEIR_OUTPUT_SEGMENTS];
	size_t bytes = 0;
	unsigned count = 0;
	for (uint32_t i = block->first; i < block->end && bytes < most; i++) {
		size_t length = block->segment[i].iov_len;
		part[count] = block->segment[i];
		part[count].iov_len = length < most - bytes ? length : most - bytes;
		bytes += part[count++].iov_len;
	}
	/* What is not a whole packet waits for what follows. */
	int flags = bytes < conn->output.bytes ? MSG_NOSIGNAL | MSG_MORE : MSG_NOSIGNAL;
	struct msghdr message = {.msg_iov = part, .msg_iovlen = count};
	ssize_t sent = count == 1 ? send_bytes(conn->fd, part[0].iov_base, part[0].iov_len, flags)
				  : sendmsg(conn->fd, &message, flags);
	if (sent < 0) {
		send_failed(conn, errno);
		return 0;
	}
	if ((size_t)sent < bytes)
		sent_part(conn, (size_t)sent);
	else
		weir_conn_sent(conn, (size_t)sent);
	return (size_t)sent;
}

static size_t epoll_send_some(weir_conn *conn, size_t most)
{
	const uint32_t ended = WEIR_CONN_SENDING | WEIR_CONN_DEAD;
	size_t left = most;
	while (left > 0 && conn->output.bytes > 0 && !weir_conn_is(conn, ended)) {
		size_t before = left;
		if (!conn->output.head->is_file) {
			left -= send_part(conn, left);
		} else {
			int error = weir_conn_send_from_file(conn, &left);
			if (error == -EINPROGRESS)
				break;
			if (error == -EAGAIN)
				conn->flags |= WEIR_CONN_SENDING;
		}
		if (left == before)
			break;
	}
	return most - left;
}

/* ---- edges ---- */

static void note_edge(weir_conn *conn, uint32_t events)
{
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		conn->flags |= WEIR_CONN_READABLE;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		conn->flags |= WEIR_CONN_HALF;
	if (events & EPOLLOUT)
		conn->flags &= ~(uint32_t)WEIR_CONN_SENDING;
}

/* A reset is reported even while nothing is read, so that whoever works for this peer can stop. */
static void note_error(weir_conn *conn, uint32_t events)
{
	if (!(events & EPOLLERR) || weir_conn_wants_input(conn))
		return;
	int error = socket_error(conn->fd);
	if (error != 0)
		weir_conn_fail(conn, error);
}

static void conn_ready(weir_epoll_source *source, uint32_t events)
{
	weir_conn *conn = (weir_conn *)(void *)((char *)source - offsetof(weir_conn, epoll.source));
	if (weir_conn_is(conn, WEIR_CONN_DEAD))
		return;
	note_edge(conn, events);
	if (weir_conn_is(conn, WEIR_CONN_CONNECTING)) {
		weir_conn_connected(conn, socket_error(conn->fd));
		return;
	}
	note_error(conn, events);
	epoll_input(conn);
	if (conn->output.bytes > 0 && !weir_conn_is(conn, WEIR_CONN_SENDING | WEIR_CONN_DEAD)) {
		weir_conn_push(conn);
		weir_conn_settle(conn);
	}
}

/*
 * Not left to close(): a forked child may also hold the socket, and then epoll would continue to report
 * it.
 */
static void epoll_close(weir_conn *conn)
{
	weir_epoll_remove(conn->net->loop, &conn->epoll.source, conn->fd);
	weir_conn_drop_waiting(conn);
	weir_conn_gone(conn);
}

/* ---- accepting ---- */

static void acceptor_ready(weir_epoll_source *source, uint32_t events)
{
	weir_acceptor_ready((weir_acceptor *)(void *)((char *)source - offsetof(weir_acceptor, source)));
}

static int epoll_accept_start(weir_acceptor *acceptor)
{
	acceptor->source.ready = acceptor_ready;
	return weir_epoll_add(acceptor->loop, &acceptor->source, acceptor->fd, EPOLLIN);
}

static void epoll_accept_stop(weir_acceptor *acceptor)
{
	weir_epoll_remove(acceptor->loop, &acceptor->source, acceptor->fd);
	weir_acceptor_stopped(acceptor);
}

const weir_io weir_io_epoll = {
	.quick = true,
	.socket_flags = SOCK_NONBLOCK,
	.init = epoll_io_init,
	.fini = epoll_io_fini,
	.start = add,
	.connect = epoll_connect,
	.input = epoll_input,
	.send = epoll_send,
	.send_some = epoll_send_some,
	.close = epoll_close,
	.accept_start = epoll_accept_start,
	.accept_stop = epoll_accept_stop,
};
