/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOOP_URING_H
#define WEIR_LOOP_URING_H

/*
 * Operations on the ring of a loop that uses io_uring, for the layers above (files, sockets). The loop's thread only.
 * They are submitted together at the end of the turn.
 */

#include <liburing.h>
#include <weir/loop.h>

typedef struct weir_uring_op weir_uring_op;

struct weir_uring_op {
	/* May be called several times for multishot operations: flags & IORING_CQE_F_MORE tells. */
	void (*complete)(weir_uring_op *op, int result, uint32_t flags);
};

/* Whether this loop has a ring. */
bool weir_uring_is(const weir_loop *loop);
/* A submission entry whose completion goes to op; submits what is there when the queue is full. NULL: no ring, or it is stuck. */
struct io_uring_sqe *weir_uring_sqe(weir_loop *loop, weir_uring_op *op);
/* Asks the kernel to cancel op; its completion still comes. */
void weir_uring_cancel(weir_loop *loop, weir_uring_op *op);

#endif
