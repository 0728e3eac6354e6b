/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: what is common to both back ends. States and invariants are in conn_priv.h. */
#include "net/conn_priv.h"

#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "net/acceptor.h"
#include "net/transmit.h"

/* ---- calls of the ops: output written in one is sent when it returns ---- */

static void begin_call(weir_conn *conn)
{
	conn->flags |= WEIR_CONN_CALLING;
}

static void end_call(weir_conn *conn)
{
	const uint32_t busy = WEIR_CONN_SENDING | WEIR_CONN_DEAD | WEIR_CONN_CONNECTING;
	conn->flags &= ~(uint32_t)WEIR_CONN_CALLING;
	if (conn->output.bytes > 0 && !weir_conn_is(conn, busy))
		weir_conn_push(conn);
	if (conn->output.bytes > 0 || weir_conn_is(conn, WEIR_CONN_CLOSING | WEIR_CONN_CLOGGED))
		weir_conn_settle(conn);
}

static void start_lingering(weir_conn *conn)
{
	conn->flags |= WEIR_CONN_LINGERING;
	conn->progress_ns = weir_loop_time(conn->net->loop);
	if (weir_conn_is(conn, WEIR_CONN_EOF) || shutdown(conn->fd, SHUT_WR) != 0) {
		weir_conn_die(conn, 0);
		return;
	}
	weir_conn_arm(conn);
	weir_conn_later(conn);
}

/* Below this, drained is called. */
static size_t ahead(const weir_conn *conn)
{
	return weir_conn_is(conn, WEIR_CONN_SCHEDULED) ? weir_conn_ahead(conn)
						       : conn->limits.output_bytes / 2;
}

/*
 * Exactly as much as the mark counts, too: it is not below it, so whoever writes waits for drained. Asked for
 * every small answer, and no chunk is as small as these.
 */
static inline void mark_clogged(weir_conn *conn)
{
	size_t bytes = conn->output.bytes, mark = conn->limits.output_bytes / 2;
	if (bytes >= WEIR_TRANSMIT_CHUNK_LEAST && weir_conn_is(conn, WEIR_CONN_SCHEDULED))
		mark = weir_conn_ahead(conn);
	if (bytes >= mark)
		conn->flags |= WEIR_CONN_CLOGGED;
}

static bool drained_due(const weir_conn *conn)
{
	return weir_conn_is(conn, WEIR_CONN_CLOGGED) && conn->output.bytes < ahead(conn);
}

void weir_conn_settle(weir_conn *conn)
{
	const uint32_t not_yet = WEIR_CONN_DEAD | WEIR_CONN_LINGERING | WEIR_CONN_CALLING;
	if (conn->output.bytes > 0)
		weir_conn_arm(conn);
	else if (weir_conn_is(conn, WEIR_CONN_CLOSING) && !weir_conn_is(conn, not_yet))
		start_lingering(conn);
	if (drained_due(conn))
		weir_conn_later(conn);
}

static void call_drained(weir_conn *conn)
{
	conn->flags &= ~(uint32_t)WEIR_CONN_CLOGGED;
	if (conn->ops->drained == NULL || weir_conn_is(conn, WEIR_CONN_CLOSING))
		return;
	begin_call(conn);
	conn->ops->drained(conn);
	end_call(conn);
}

void weir_conn_call_open(weir_conn *conn)
{
	begin_call(conn);
	int no = conn->ops->open(conn, conn->user);
	if (no != 0) {
		if (conn->acceptor != NULL)
			weir_acceptor_count_refused(conn->acceptor);
		weir_conn_die(conn, no);
	}
	end_call(conn);
	if (!weir_conn_is(conn, WEIR_CONN_DEAD))
		conn->net->io->input(conn);
}

/* ---- reports of the back ends ---- */

void weir_conn_connected(weir_conn *conn, int result)
{
	conn->flags &= ~(uint32_t)WEIR_CONN_CONNECTING;
	conn->activity_ns = conn->progress_ns = weir_loop_time(conn->net->loop);
	if (result != 0) {
		weir_conn_die(conn, result);
		return;
	}
	weir_conn_arm(conn);
	weir_conn_call_open(conn);
}

static void count_bulk(weir_net *net, uint32_t turn, uint32_t bytes)
{
	if (net->bulk_turn != turn) {
		net->bulk_turn = turn;
		net->bulk_bytes = 0;
	}
	net->bulk_bytes += bytes;
}

void weir_conn_data(weir_conn *conn, weir_buf *buf)
{
	conn->activity_ns = weir_loop_time(conn->net->loop);
	conn->turn_bytes += buf->length;
	if (weir_conn_is(conn, WEIR_CONN_BULK))
		count_bulk(conn->net, conn->turn, buf->length);
	if (conn->rate != 0)
		weir_conn_charge(conn, buf->length);
	if (weir_conn_is(conn, WEIR_CONN_LINGERING))
		return;
	begin_call(conn);
	conn->ops->data(conn, buf);
	end_call(conn);
}

int64_t weir_conn_pull(weir_conn *conn)
{
	begin_call(conn);
	int64_t got = conn->pull(conn);
	end_call(conn);
	return got;
}

void weir_conn_eof(weir_conn *conn)
{
	conn->flags |= WEIR_CONN_EOF;
	if (weir_conn_is(conn, WEIR_CONN_LINGERING)) {
		weir_conn_die(conn, 0);
		return;
	}
	begin_call(conn);
	if (conn->ops->eof != NULL)
		conn->ops->eof(conn);
	else
		weir_conn_close(conn);
	end_call(conn);
}

void weir_conn_sent(weir_conn *conn, size_t count)
{
	conn->activity_ns = conn->progress_ns = weir_loop_time(conn->net->loop);
	weir_output_sent(&conn->output, &conn->net->output, count);
	weir_net_tell_over(conn->net);
	if (weir_conn_is(conn, WEIR_CONN_SCHEDULED))
		weir_transmit_sent(conn, count);
}

/* Otherwise the kernel would continue to send what it has, then end the stream as if it were complete. */
static void close_with_reset(int fd)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

void weir_conn_die(weir_conn *conn, int why)
{
	if (weir_conn_is(conn, WEIR_CONN_DEAD))
		return;
	conn->flags = (conn->flags | WEIR_CONN_DEAD) & ~(uint32_t)WEIR_CONN_FAR;
	conn->why = why;
	weir_timer_stop(&conn->timer);
	if (conn->place != NULL)
		weir_transmit_forget(conn);
	if (conn->output.bytes > 0 && !weir_conn_is(conn, WEIR_CONN_CONNECTING))
		close_with_reset(conn->fd);
	conn->net->io->close(conn);
}

/*
 * A lingering connection has sent everything and been closed: however the peer ends it, that is no
 * failure.
 */
void weir_conn_fail(weir_conn *conn, int why)
{
	weir_conn_die(conn, weir_conn_is(conn, WEIR_CONN_LINGERING) ? 0 : why);
}

static void clear_output(weir_conn *conn)
{
	weir_quick *quick = &conn->net->quick;
	if (quick->owner == conn) {
		conn->output.bytes -= quick->length;
		quick->owner = NULL;
		quick->length = 0;
	}
	weir_output_clear(&conn->output, &conn->net->output);
}

void weir_conn_gone(weir_conn *conn)
{
	if (weir_conn_is(conn, WEIR_CONN_GONE))
		return;
	conn->flags |= WEIR_CONN_GONE;
	close(conn->fd);
	conn->fd = -1;
	clear_output(conn);
	weir_conn_later(conn);
}

/* ---- the end of the turn ---- */

void weir_conn_later(weir_conn *conn)
{
	if (weir_conn_is(conn, WEIR_CONN_QUEUED))
		return;
	conn->flags |= WEIR_CONN_QUEUED;
	weir_loop_defer(conn->net->loop, &conn->deferred);
}

void weir_conn_unlink(weir_conn *conn)
{
	*conn->link = conn->next;
	if (conn->next != NULL)
		conn->next->link = conn->link;
}

static void finish(weir_conn *conn)
{
	/* Whatever closed calls, nothing more is queued. */
	conn->flags |= WEIR_CONN_QUEUED;
	weir_net *net = conn->net;
	/* The owners of its files are told first, so that closed stays the last call. */
	weir_output_run_over(&net->output);
	conn->ops->closed(conn, conn->why);
	weir_conn_unlink(conn);
	if (conn->acceptor != NULL)
		weir_acceptor_released(conn->acceptor);
	weir_pool_give(&net->conns, conn);
}

void weir_conn_strand(weir_conn *conn)
{
	const uint32_t over = WEIR_CONN_DEAD | WEIR_CONN_GONE | WEIR_CONN_QUEUED;
	if (!weir_conn_is(conn, WEIR_CONN_DEAD))
		conn->why = -ECANCELED;
	conn->flags |= over;
	weir_timer_stop(&conn->timer);
	if (conn->place != NULL)
		weir_transmit_forget(conn);
	if (conn->fd >= 0)
		close(conn->fd);
	conn->fd = -1;
	weir_conn_drop_waiting(conn);
	clear_output(conn);
	finish(conn);
}

static void turn_conn(weir_conn *conn)
{
	if (conn->output.bytes > 0 && !weir_conn_is(conn, WEIR_CONN_SENDING))
		weir_conn_push(conn);
	if (!weir_conn_is(conn, WEIR_CONN_DEAD) && drained_due(conn))
		call_drained(conn);
	if (!weir_conn_is(conn, WEIR_CONN_DEAD))
		conn->net->io->input(conn);
	if (!weir_conn_is(conn, WEIR_CONN_DEAD))
		weir_conn_settle(conn);
}

void weir_conn_turn(weir_deferred *deferred)
{
	weir_conn *conn = (weir_conn *)(void *)((char *)deferred - offsetof(weir_conn, deferred));
	conn->flags &= ~(uint32_t)WEIR_CONN_QUEUED;
	if (weir_conn_is(conn, WEIR_CONN_GONE))
		finish(conn);
	else if (weir_conn_is(conn, WEIR_CONN_DEAD))
		conn->net->io->close(conn);
	else if (!weir_conn_is(conn, WEIR_CONN_CONNECTING))
		turn_conn(conn);
}

/* ---- calls of the user ---- */

int weir_conn_check_output(weir_conn *conn, size_t length)
{
	if (weir_conn_is(conn, WEIR_CONN_CLOSING | WEIR_CONN_DEAD))
		return -EPIPE;
	if (length > conn->limits.output_bytes || conn->output.bytes > conn->limits.output_bytes - length) {
		conn->flags |= WEIR_CONN_CLOGGED;
		/*
		 * Nothing waits, so no progress will trigger the call of drained: the data was simply too
		 * much at once.
		 */
		if (conn->output.bytes == 0)
			weir_conn_later(conn);
		return -ENOBUFS;
	}
	return 0;
}

void weir_conn_output_added(weir_conn *conn, size_t before)
{
	if (before == 0)
		conn->progress_ns = weir_loop_time(conn->net->loop);
	mark_clogged(conn);
	if (!weir_conn_is(conn, WEIR_CONN_CALLING | WEIR_CONN_SENDING | WEIR_CONN_CONNECTING))
		weir_conn_later(conn);
}

/* ---- the quick buffer ---- */

int weir_conn_unquick(weir_conn *conn)
{
	weir_quick *quick = &conn->net->quick;
	if (quick->owner != conn)
		return 0;
	conn->output.bytes -= quick->length;
	int error = weir_output_copy(&conn->output, &conn->net->output, quick->bytes, quick->length);
	if (error != 0) {
		conn->output.bytes += quick->length;
		return error;
	}
	quick->owner = NULL;
	quick->length = 0;
	conn->progress_ns = weir_loop_time(conn->net->loop);
	return 0;
}

char *weir_conn_reserve(weir_conn *conn, size_t most)
{
	const uint32_t unfit = WEIR_CONN_CLOSING | WEIR_CONN_DEAD | WEIR_CONN_SENDING | WEIR_CONN_CONNECTING;
	weir_quick *quick = &conn->net->quick;
	if (weir_conn_is(conn, unfit) || conn->output.head != NULL ||
	    (quick->owner != NULL && quick->owner != conn) || !conn->net->io->quick)
		return NULL;
	/* This is its whole output, so the bound applies here. */
	size_t length = quick->length + most;
	if (length > WEIR_QUICK_BYTES || length > conn->limits.output_bytes)
		return NULL;
	return quick->bytes + quick->length;
}

void weir_conn_commit(weir_conn *conn, size_t length)
{
	weir_quick *quick = &conn->net->quick;
	quick->owner = conn;
	quick->length += (uint32_t)length;
	conn->output.bytes += length;
	mark_clogged(conn);
	if (weir_conn_is(conn, WEIR_CONN_CALLING))
		return;
	weir_conn_push(conn);
	weir_conn_settle(conn);
}

/* ---- output ---- */

int weir_conn_write(weir_conn *conn, const void *data, size_t length)
{
	size_t before = conn->output.bytes;
	int error = weir_conn_check_output(conn, length);
	if (error == 0 && length != 0)
		error = weir_conn_unquick(conn);
	if (error != 0 || length == 0)
		return error;
	error = weir_output_copy(&conn->output, &conn->net->output, data, length);
	if (error == 0)
		weir_conn_output_added(conn, before);
	return error;
}

int weir_conn_send(weir_conn *conn, weir_buf *buf, size_t offset, size_t length)
{
	size_t before = conn->output.bytes;
	/* Bytes beyond the used length are not ours, and must not be sent to a peer. */
	if (offset > buf->length || length > buf->length - offset)
		return weir_error_set(-EINVAL, "send: the buffer has %u bytes, not %zu from %zu on",
				      buf->length, length, offset);
	int error = weir_conn_check_output(conn, length);
	if (error == 0 && length != 0)
		error = weir_conn_unquick(conn);
	if (error != 0 || length == 0)
		return error;
	error = weir_output_add(&conn->output, &conn->net->output, buf, offset, length);
	if (error == 0)
		weir_conn_output_added(conn, before);
	return error;
}

void weir_conn_flush(weir_conn *conn)
{
	const uint32_t busy = WEIR_CONN_SENDING | WEIR_CONN_DEAD | WEIR_CONN_CONNECTING;
	if (conn->output.bytes > 0 && !weir_conn_is(conn, busy))
		weir_conn_push(conn);
	if (weir_uring_is(conn->net->loop))
		weir_uring_submit(conn->net->loop);
	weir_conn_settle(conn);
}

void weir_conn_pause(weir_conn *conn)
{
	conn->flags |= WEIR_CONN_PAUSED;
}

void weir_conn_resume(weir_conn *conn)
{
	if (!weir_conn_is(conn, WEIR_CONN_PAUSED))
		return;
	conn->flags &= ~(uint32_t)WEIR_CONN_PAUSED;
	weir_conn_later(conn);
}

void weir_conn_close(weir_conn *conn)
{
	if (weir_conn_is(conn, WEIR_CONN_CLOSING | WEIR_CONN_DEAD))
		return;
	conn->flags |= WEIR_CONN_CLOSING;
	if (weir_conn_is(conn, WEIR_CONN_CONNECTING))
		weir_conn_die(conn, 0);
	else
		weir_conn_later(conn);
}

void weir_conn_abort(weir_conn *conn, int why)
{
	weir_conn_die(conn, why);
}

weir_net *weir_conn_net(const weir_conn *conn)
{
	return conn->net;
}

void weir_conn_bound_output(weir_conn *conn, uint32_t output_bytes)
{
	conn->limits.output_bytes = output_bytes;
}

void weir_conn_call_drained(weir_conn *conn)
{
	conn->flags |= WEIR_CONN_CLOGGED;
	weir_conn_later(conn);
}

void weir_conn_set_user(weir_conn *conn, void *user)
{
	conn->user = user;
}

void *weir_conn_user(const weir_conn *conn)
{
	return conn->user;
}

int weir_conn_fd(const weir_conn *conn)
{
	return conn->fd;
}

weir_loop *weir_conn_loop(const weir_conn *conn)
{
	return conn->net->loop;
}

int weir_conn_peer(const weir_conn *conn, struct sockaddr_storage *ret_peer)
{
	struct sockaddr_storage peer = {0};
	socklen_t length = sizeof(peer);
	if (conn->fd < 0)
		return -ENOTCONN;
	if (conn->net->opening.conn == conn) {
		*ret_peer = *conn->net->opening.peer;
		return 0;
	}
	if (getpeername(conn->fd, (struct sockaddr *)&peer, &length) != 0)
		return -errno;
	*ret_peer = peer;
	return 0;
}

size_t weir_conn_output(const weir_conn *conn)
{
	return conn->output.bytes;
}
