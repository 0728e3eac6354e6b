/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepting on io_uring: multishot while there is ample room; near the bound a poll and plain accepts,
 * because a multishot accept may take the whole backlog before we can stop it.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "net/acceptor.h"

static weir_acceptor *acceptor_of(weir_uring_op *op)
{
	return (weir_acceptor *)(void *)((char *)op - offsetof(weir_acceptor, op));
}

static void accepted(weir_uring_op *op, int result, uint32_t flags)
{
	weir_acceptor *acceptor = acceptor_of(op);
	bool more = flags & IORING_CQE_F_MORE;
	if (!more)
		acceptor->flags &= ~(uint32_t)(WEIR_ACCEPTOR_ARMED | WEIR_ACCEPTOR_STOPPED);
	/* -EAGAIN: a successor with the same socket has made it non-blocking. */
	if (result != -ECANCELED && result != -EAGAIN)
		weir_acceptor_accepted(acceptor, result);
	if (!more)
		weir_acceptor_stopped(acceptor);
	else if (!weir_listener_has_ample_room(acceptor->listener))
		weir_io_uring_accept_stop(acceptor);
}

static void acceptable(weir_uring_op *op, int result, uint32_t flags)
{
	weir_acceptor *acceptor = acceptor_of(op);
	acceptor->flags &= ~(uint32_t)(WEIR_ACCEPTOR_ARMED | WEIR_ACCEPTOR_STOPPED);
	if (result >= 0)
		weir_acceptor_ready(acceptor);
	else if (result != -ECANCELED)
		weir_acceptor_accepted(acceptor, result);
	weir_acceptor_stopped(acceptor);
}

int weir_io_uring_accept_start(weir_acceptor *acceptor)
{
	bool ample = weir_listener_has_ample_room(acceptor->listener);
	struct io_uring_sqe *sqe = weir_uring_sqe(acceptor->loop, &acceptor->op);
	if (sqe == NULL)
		return -EAGAIN;
	/*
	 * The ring waits by itself, but on a non-blocking socket some kernels would not; plain accepts
	 * must not wait.
	 */
	weir_io_set_blocking(acceptor->fd, ample);
	acceptor->op.complete = ample ? accepted : acceptable;
	if (ample)
		io_uring_prep_multishot_accept(sqe, acceptor->fd, NULL, NULL, SOCK_CLOEXEC);
	else
		io_uring_prep_poll_add(sqe, acceptor->fd, POLLIN);
	return 0;
}

void weir_io_uring_accept_stop(weir_acceptor *acceptor)
{
	if (acceptor->flags & WEIR_ACCEPTOR_STOPPED)
		return;
	if (weir_uring_cancel(acceptor->loop, &acceptor->op) == 0)
		acceptor->flags |= WEIR_ACCEPTOR_STOPPED;
}
