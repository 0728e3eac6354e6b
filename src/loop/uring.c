/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The io_uring back end. There is one ring per loop, used by one thread (SINGLE_ISSUER), whose
 * completions are processed only when it waits (DEFER_TASKRUN): submitting a turn's operations, waiting
 * and collecting take one system call.
 *
 * Invariants
 * 1. An operation in the ring refers to a weir_uring_op, which stays in place until its last completion.
 * 2. A prepared entry refers to a file descriptor, which stays open until then: the kernel looks it up at
 *    submission, and a closed one might by then be another file. Watches are exempt: a poll of the wrong
 *    file does nothing, and its cancellation follows immediately.
 */
#include "loop/uring.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "loop/loop_priv.h"

#define SUBMISSIONS 1024
#define SUBMIT_AT   64
#define COMPLETIONS 4096

#define NEEDED_FEATURES \
	(IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_EXT_ARG | IORING_FEAT_CQE_SKIP)

/* ---- operations ---- */

bool weir_uring_is(const weir_loop *loop)
{
	return loop->backend == &weir_backend_uring;
}

struct io_uring *weir_uring_ring(weir_loop *loop)
{
	return weir_uring_is(loop) ? &loop->uring.ring : NULL;
}

static int enable(weir_loop_uring *uring)
{
	if (uring->enabled)
		return 0;
	int error = io_uring_register((unsigned)uring->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
	uring->enabled = error >= 0;
	return error < 0 ? error : 0;
}

void weir_uring_submit(weir_loop *loop)
{
	/* What the ring cannot take now is submitted with the next wait. */
	if (enable(&loop->uring) == 0)
		io_uring_submit(&loop->uring.ring);
}

struct io_uring_sqe *weir_uring_sqe(weir_loop *loop, weir_uring_op *op)
{
	if (!weir_uring_is(loop))
		return NULL;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&loop->uring.ring);
	if (sqe == NULL) {
		weir_uring_submit(loop);
		sqe = io_uring_get_sqe(&loop->uring.ring);
		if (sqe == NULL)
			return NULL;
	}
	io_uring_sqe_set_data(sqe, op);
	return sqe;
}

int weir_uring_cancel(weir_loop *loop, weir_uring_op *op)
{
	struct io_uring_sqe *sqe = weir_uring_sqe(loop, NULL);
	if (sqe == NULL)
		return -EAGAIN;
	io_uring_prep_cancel(sqe, op, 0);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	return 0;
}

/* ---- the back end ---- */

/* A multishot poll completes once per write; nobody needs to read the counter. */
static void arm_wake(weir_deferred *deferred)
{
	weir_loop_uring *uring =
		(weir_loop_uring *)(void *)((char *)deferred - offsetof(weir_loop_uring, wake_again));
	weir_loop *loop = (weir_loop *)(void *)((char *)uring - offsetof(weir_loop, uring));
	struct io_uring_sqe *sqe = weir_uring_sqe(loop, &uring->wake);
	if (sqe == NULL) {
		weir_loop_defer(loop, deferred);
		return;
	}
	io_uring_prep_poll_multishot(sqe, loop->wake_fd, POLLIN);
}

static void wake_complete(weir_uring_op *op, int result, uint32_t flags)
{
	weir_loop_uring *uring = (weir_loop_uring *)(void *)((char *)op - offsetof(weir_loop_uring, wake));
	weir_loop *loop = (weir_loop *)(void *)((char *)uring - offsetof(weir_loop, uring));
	if (!(flags & IORING_CQE_F_MORE))
		weir_loop_defer(loop, &uring->wake_again);
}

static const uint8_t needed_operations[] = {
	IORING_OP_POLL_ADD, IORING_OP_ASYNC_CANCEL, IORING_OP_ACCEPT,  IORING_OP_CONNECT,
	IORING_OP_RECV,     IORING_OP_SEND,         IORING_OP_SENDMSG,
};

/* -ENOSYS: an operation is missing. */
static int probe_operations(struct io_uring *ring)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
	bool all = probe != NULL;
	for (size_t i = 0; all && i < sizeof(needed_operations); i++)
		all = io_uring_opcode_supported(probe, needed_operations[i]);
	io_uring_free_probe(probe);
	return all ? 0 : weir_error_set(-ENOSYS, "loop: io_uring here lacks an operation that is needed");
}

static int open_ring(struct io_uring *ring)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED |
			 IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
		.cq_entries = COMPLETIONS,
	};
	int error = io_uring_queue_init_params(SUBMISSIONS, ring, &params);
	if (error == -EINVAL)
		return weir_error_set(error, "loop: io_uring here is too old: Linux 6.1 is needed");
	if (error != 0)
		return weir_error_set(error, "loop: io_uring cannot be used here: %s", strerror(-error));
	error = (params.features & NEEDED_FEATURES) == NEEDED_FEATURES
			? probe_operations(ring)
			: weir_error_set(-ENOSYS, "loop: io_uring here lacks a feature that is needed");
	if (error != 0)
		io_uring_queue_exit(ring);
	return error;
}

static int uring_init(weir_loop *loop)
{
	weir_loop_uring *uring = &loop->uring;
	*uring = (weir_loop_uring){.wake.complete = wake_complete, .wake_again.run = arm_wake};
	int error = open_ring(&uring->ring);
	if (error == 0)
		weir_loop_defer(loop, &uring->wake_again);
	return error;
}

static int uring_await(weir_loop *loop, uint64_t wait_ns)
{
	struct io_uring *ring = &loop->uring.ring;
	int got = enable(&loop->uring);
	if (got < 0)
		return got;
	if (wait_ns == 0) {
		got = io_uring_submit_and_get_events(ring);
	} else if (wait_ns == UINT64_MAX) {
		got = io_uring_submit_and_wait(ring, 1);
	} else {
		struct io_uring_cqe *cqe;
		struct __kernel_timespec t = {.tv_sec = (int64_t)(wait_ns / WEIR_NS_PER_S),
					      .tv_nsec = (int64_t)(wait_ns % WEIR_NS_PER_S)};
		got = io_uring_submit_and_wait_timeout(ring, &cqe, 1, &t, NULL);
	}
	/*
	 * Short of memory or of completion space: collecting what is there helps, and then it is tried
	 * again.
	 */
	bool passing = got == -EINTR || got == -ETIME || got == -EBUSY || got == -EAGAIN;
	return got >= 0 || passing ? 0 : got;
}

/*
 * Each entry is returned to the ring before its call: the call may submit, and then the kernel may need
 * the space. A thousand may be ready at once, and what the first of them request does not wait for the
 * last.
 */
static void uring_dispatch(weir_loop *loop)
{
	struct io_uring *ring = &loop->uring.ring;
	for (unsigned left = io_uring_cq_ready(ring); left > 0; left--) {
		struct io_uring_cqe *cqe = &ring->cq.cqes[*ring->cq.khead & ring->cq.ring_mask];
		weir_uring_op *op = io_uring_cqe_get_data(cqe);
		int result = cqe->res;
		uint32_t flags = cqe->flags;
		io_uring_cq_advance(ring, 1);
		if (op != NULL)
			op->complete(op, result, flags);
		if (io_uring_sq_ready(ring) >= SUBMIT_AT)
			weir_uring_submit(loop);
	}
}

/* ---- watches: a poll that is armed again after each call, and so finds what is still ready ---- */

typedef struct weir_uring_watch weir_uring_watch;

struct weir_uring_watch {
	weir_uring_op op;
	weir_deferred again;
	weir_loop *loop;
	weir_watch *watch; /* NULL: stopped, to be freed */
	bool armed, calling, deferred;
	weir_uring_watch *next, **link; /* in the loop's list */
};

static void free_watch(weir_uring_watch *entry)
{
	*entry->link = entry->next;
	if (entry->next != NULL)
		entry->next->link = entry->link;
	weir_mem_free(entry);
}

static bool watch_busy(const weir_uring_watch *entry)
{
	return entry->armed || entry->calling || entry->deferred;
}

/* Arms or cancels, whichever is due; later if the ring is stuck. */
static void settle_watch(weir_uring_watch *entry)
{
	bool stuck = false;
	if (entry->watch == NULL && !watch_busy(entry)) {
		free_watch(entry);
		return;
	}
	if (entry->watch == NULL && entry->armed) {
		stuck = weir_uring_cancel(entry->loop, &entry->op) != 0;
	} else if (entry->watch != NULL && !entry->armed) {
		struct io_uring_sqe *sqe = weir_uring_sqe(entry->loop, &entry->op);
		if (sqe != NULL)
			io_uring_prep_poll_add(sqe, entry->watch->fd,
					       weir_loop_poll_bits(entry->watch->events));
		entry->armed = sqe != NULL;
		stuck = sqe == NULL;
	}
	if (stuck && !entry->deferred) {
		entry->deferred = true;
		weir_loop_defer(entry->loop, &entry->again);
	}
}

static void settle_watch_again(weir_deferred *deferred)
{
	weir_uring_watch *entry =
		(weir_uring_watch *)(void *)((char *)deferred - offsetof(weir_uring_watch, again));
	entry->deferred = false;
	settle_watch(entry);
}

static void watch_complete(weir_uring_op *op, int result, uint32_t flags)
{
	weir_uring_watch *entry = (weir_uring_watch *)(void *)op;
	weir_watch *watch = entry->watch;
	entry->armed = false;
	if (watch != NULL) {
		uint32_t ready = weir_loop_ready_bits(watch->events, result < 0 ? POLLERR : (uint32_t)result);
		entry->calling = true;
		if (ready != 0)
			watch->fn(watch, ready, watch->arg);
		entry->calling = false;
	}
	/* A descriptor that cannot be polled has been reported once; polling again would only spin. */
	if (entry->watch == NULL || result >= 0)
		settle_watch(entry);
}

static int uring_watch(weir_loop *loop, weir_watch *watch)
{
	if (fcntl(watch->fd, F_GETFD) < 0)
		return -errno;
	weir_uring_watch *entry = weir_mem_zalloc(sizeof(*entry));
	if (entry == NULL)
		return -ENOMEM;
	*entry = (weir_uring_watch){.op.complete = watch_complete,
				    .again.run = settle_watch_again,
				    .loop = loop,
				    .watch = watch,
				    .next = loop->uring.watches,
				    .link = &loop->uring.watches};
	if (entry->next != NULL)
		entry->next->link = &entry->next;
	loop->uring.watches = entry;
	watch->backend = entry;
	settle_watch(entry);
	return 0;
}

static void uring_unwatch(weir_loop *loop, weir_watch *watch)
{
	weir_uring_watch *entry = watch->backend;
	entry->watch = NULL;
	settle_watch(entry);
}

/* Stopped watches whose cancellation nobody waited for are still in the list. */
static void uring_fini(weir_loop *loop)
{
	io_uring_queue_exit(&loop->uring.ring);
	while (loop->uring.watches != NULL)
		free_watch(loop->uring.watches);
}

const weir_backend weir_backend_uring = {
	.name = "uring",
	.init = uring_init,
	.fini = uring_fini,
	.wait = uring_await,
	.dispatch = uring_dispatch,
	.watch = uring_watch,
	.unwatch = uring_unwatch,
};
