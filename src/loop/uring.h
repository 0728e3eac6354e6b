/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOOP_URING_H
#define WEIR_LOOP_URING_H

/*
 * Operations on the ring of a loop that uses io_uring, for the layers above (files, sockets). Only for
 * the loop's thread. They are submitted together with the next wait: for a loop that keeps turning, at
 * the end of the turn.
 */

#include <liburing.h>
#include <weir/loop.h>

typedef struct weir_uring_op weir_uring_op;

struct weir_uring_op {
	/* May be called several times for multishot operations, as indicated by flags & IORING_CQE_F_MORE. */
	void (*complete)(weir_uring_op *op, int result, uint32_t flags);
};

/* Whether this loop has a ring. */
bool weir_uring_is(const weir_loop *loop);
/* The ring itself, for registrations; NULL: none. */
struct io_uring *weir_uring_ring(weir_loop *loop);
/*
 * A submission entry whose completion goes to op (NULL: it is ignored). If the queue is full, submits it
 * first. NULL: no ring, or it is stuck. io_uring_prep_x does not change the user data, which refer to op.
 */
struct io_uring_sqe *weir_uring_sqe(weir_loop *loop, weir_uring_op *op);
/*
 * Asks the kernel to cancel op; its completion still comes. -EAGAIN: the ring is stuck, try again in the
 * next turn.
 */
int weir_uring_cancel(weir_loop *loop, weir_uring_op *op);
/* Submits what has been prepared, without waiting for the end of the turn. */
void weir_uring_submit(weir_loop *loop);

#endif
