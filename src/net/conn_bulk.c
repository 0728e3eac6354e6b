/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading in bulk. A connection whose last read filled its buffer has more to give: from then on several
 * buffers are filled by one call, until one comes back less than half full. What comes is in the
 * connection's list `waiting` and is delivered from there, buffer by buffer, as long as it is wanted.
 */
#include <errno.h>
#include <sys/socket.h>

#include "net/conn_priv.h"

/* Buffers for this many bytes, fewer if memory is short. Returns how many there are. */
static unsigned take_buffers(weir_net *net, size_t bytes, weir_buf **bufs, struct iovec *parts)
{
	unsigned count = 0;
	while (count < WEIR_BULK_BUFFERS && bytes > 0) {
		weir_buf *buf = weir_buf_pool_take(net->reads);
		if (buf == NULL)
			break;
		size_t part = bytes < WEIR_BUF_READ_BYTES ? bytes : WEIR_BUF_READ_BYTES;
		bufs[count] = buf;
		parts[count++] = (struct iovec){.iov_base = buf->data, .iov_len = part};
		bytes -= part;
	}
	return count;
}

void weir_conn_put_aside(weir_conn *conn, weir_buf *buf)
{
	weir_pooled *pooled = (weir_pooled *)(void *)buf;
	pooled->next = NULL;
	*conn->waiting_end = pooled;
	conn->waiting_end = &pooled->next;
}

weir_buf *weir_conn_take_waiting(weir_conn *conn)
{
	weir_pooled *pooled = conn->waiting;
	conn->waiting = pooled->next;
	if (conn->waiting == NULL)
		conn->waiting_end = &conn->waiting;
	return &pooled->buf;
}

void weir_conn_drop_waiting(weir_conn *conn)
{
	while (conn->waiting != NULL)
		weir_buf_unref(weir_conn_take_waiting(conn));
}

/* Puts aside the buffers that have bytes, and releases the others. */
static void keep_filled(weir_conn *conn, weir_buf **bufs, unsigned count, size_t got)
{
	for (unsigned i = 0; i < count; i++) {
		size_t part = got < WEIR_BUF_READ_BYTES ? got : WEIR_BUF_READ_BYTES;
		bufs[i]->length = (uint32_t)part;
		got -= part;
		if (part > 0)
			weir_conn_put_aside(conn, bufs[i]);
		else
			weir_buf_unref(bufs[i]);
	}
}

int64_t weir_conn_read_bulk(weir_conn *conn, size_t most)
{
	weir_buf *bufs[WEIR_BULK_BUFFERS];
	struct iovec parts[WEIR_BULK_BUFFERS];
	unsigned count = take_buffers(conn->net, most, bufs, parts);
	if (count == 0)
		return -ENOMEM;
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
	ssize_t got = recvmsg(conn->fd, &message, MSG_DONTWAIT);
	int error = errno;
	keep_filled(conn, bufs, count, got > 0 ? (size_t)got : 0);
	/* A short read has emptied the socket. Little of it: the bulk is over. */
	if (got < (ssize_t)(WEIR_BUF_READ_BYTES / 2))
		conn->flags &= ~(uint32_t)WEIR_CONN_BULK;
	return got >= 0 ? got : -error;
}
