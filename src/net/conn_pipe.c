/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes from one connection to another through a pipe: what is common to both back ends, which both call
 * splice(2) when a socket is ready. (The ring's own splice runs on kernel threads.)
 *
 * A pipe holds as many parts of packets as it has pages, however small they are. So a splice that takes
 * nothing, while there are bytes in the pipe, may have found the socket empty or the pipe full.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "net/conn_priv.h"

#define SPLICE_FLAGS (SPLICE_F_MOVE | SPLICE_F_NONBLOCK)

void weir_conn_set_nonblocking(weir_conn *conn)
{
	if (conn->net->io->socket_flags & SOCK_NONBLOCK || weir_conn_is(conn, WEIR_CONN_NONBLOCKING))
		return;
	weir_io_set_blocking(conn->fd, false);
	conn->flags |= WEIR_CONN_NONBLOCKING;
}

/* ---- from the socket ---- */

void weir_conn_set_pull(weir_conn *conn, int64_t (*pull)(weir_conn *conn))
{
	if (pull != NULL)
		weir_conn_later(conn);
	else if (conn->pull != NULL)
		conn->flags = (conn->flags & ~(uint32_t)WEIR_CONN_BULK) | WEIR_CONN_PULLED;
	conn->pull = pull;
}

static bool is_full(const weir_pipe *pipe)
{
	struct pollfd end = {.fd = pipe->in, .events = POLLOUT};
	return poll(&end, 1, 0) == 0;
}

/* Into a pipe that is empty, or the last in an output. */
static int64_t fill(weir_conn *from, const weir_pipe *pipe, bool empty, size_t most)
{
	ssize_t got = splice(from->fd, NULL, pipe->in, NULL, most, SPLICE_FLAGS);
	if (got >= 0)
		return got;
	if (errno == EINVAL)
		return -ENOTSUP; /* not a socket of this kind */
	if (errno == EAGAIN && !empty && is_full(pipe))
		return -ENOTSUP;
	return -errno;
}

/* How many bytes the output may take; 0: drained will be called. */
static size_t room_in(weir_conn *to, size_t most)
{
	size_t bound = to->limits.output_bytes, waiting = to->output.bytes;
	if (waiting < bound)
		return most < bound - waiting ? most : bound - waiting;
	weir_conn_check_output(to, most);
	return 0;
}

/* The bytes are in the pipe now, and nowhere else. */
static int64_t pass_on(weir_conn *to, weir_pipe *pipe, size_t count)
{
	size_t before = to->output.bytes;
	if (weir_output_add_piped(&to->output, &to->net->output, pipe, count) != 0) {
		weir_pipes_give(&to->net->pipes, pipe, false);
		weir_conn_fail(to, -ENOMEM);
		return (int64_t)count;
	}
	weir_conn_output_added(to, before);
	if (weir_conn_is(to, WEIR_CONN_SENDING | WEIR_CONN_CALLING | WEIR_CONN_CONNECTING))
		return (int64_t)count;
	/* At once: nearly always the pipe is then empty, and can be used for others. */
	weir_conn_push(to);
	weir_conn_settle(to);
	return (int64_t)count;
}

int64_t weir_conn_splice(weir_conn *from, weir_conn *to, size_t most)
{
	const uint32_t unfit = WEIR_CONN_DEAD | WEIR_CONN_CLOSING | WEIR_CONN_SCHEDULED;
	weir_net *net = from->net;
	if (to->net != net || weir_conn_is(to, unfit) || from->rate != 0 || weir_conn_unquick(to) != 0)
		return -ENOTSUP;
	most = room_in(to, most < WEIR_PIPE_BYTES ? most : WEIR_PIPE_BYTES);
	if (most == 0)
		return -ENOBUFS;
	weir_pipe *last = weir_output_last_pipe(&to->output);
	weir_pipe *pipe = last != NULL ? last : weir_pipes_take(&net->pipes, weir_loop_time(net->loop));
	if (pipe == NULL)
		return -ENOTSUP;
	weir_conn_set_nonblocking(from);
	weir_net_block_sigpipe(net);
	int64_t got = fill(from, pipe, last == NULL, most);
	if (got <= 0) {
		if (last == NULL)
			weir_pipes_give(&net->pipes, pipe, true);
		return got;
	}
	from->activity_ns = weir_loop_time(net->loop);
	return pass_on(to, pipe, (size_t)got);
}

bool weir_conn_is_silent(weir_conn *conn)
{
	char byte;
	if (conn->waiting != NULL || weir_conn_is(conn, WEIR_CONN_DEAD | WEIR_CONN_EOF | WEIR_CONN_ENDED) ||
	    recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
	    (errno != EAGAIN && errno != EWOULDBLOCK))
		return false;
	/* Whatever comes later makes an edge of its own. */
	if (!weir_conn_is(conn, WEIR_CONN_HALF))
		conn->flags &= ~(uint32_t)WEIR_CONN_READABLE;
	return true;
}

/* ---- to the socket ---- */

int weir_conn_send_from_pipe(weir_conn *conn, size_t *budget)
{
	const weir_output_file *file = &conn->output.head->file;
	size_t most = file->left < *budget ? (size_t)file->left : *budget;
	unsigned flags = SPLICE_FLAGS | (conn->output.head->next != NULL ? SPLICE_F_MORE : 0u);
	ssize_t sent = splice(file->fd, NULL, conn->fd, NULL, most, flags);
	if (sent > 0) {
		*budget -= (size_t)sent;
		weir_conn_sent(conn, (size_t)sent);
		return 0;
	}
	/* A pipe that has fewer bytes than were put in cannot be. */
	int error = sent == 0 ? EIO : errno;
	if (error == EAGAIN || error == EWOULDBLOCK)
		return -EAGAIN;
	if (error != EINTR)
		weir_conn_fail(conn, -error);
	return 0;
}
