/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOOP_LOOP_PRIV_H
#define WEIR_LOOP_LOOP_PRIV_H

/* The inside of a loop, for src/loop only. */

#include <stdalign.h>
#include <stdatomic.h>

#include "base/wheel.h"
#include "loop/epoll.h"
#include "loop/loop.h"
#include "loop/uring.h"

#define WEIR_LOOP_EPOLL_EVENTS 256

/* A back end: how a loop waits, and how it finds out what is ready. */
typedef struct weir_backend {
	const char *name;
	/* 0, or a negative errno with weir_error set. The wake descriptor is open. */
	int (*init)(weir_loop *loop);
	void (*fini)(weir_loop *loop);
	/* Waits; UINT64_MAX: without end. 0 also when interrupted or when nothing happened. */
	int (*wait)(weir_loop *loop, uint64_t wait_ns);
	/* Handles what wait found. */
	void (*dispatch)(weir_loop *loop);
	int (*watch)(weir_loop *loop, weir_watch *watch);
	void (*unwatch)(weir_loop *loop, weir_watch *watch);
} weir_backend;

extern const weir_backend weir_backend_epoll;
extern const weir_backend weir_backend_uring;

typedef struct weir_loop_epoll {
	int fd;
	int count, cursor; /* of events: found by the last wait; the one being handled */
	weir_epoll_source wake;
	struct epoll_event events[WEIR_LOOP_EPOLL_EVENTS];
} weir_loop_epoll;

typedef struct weir_loop_uring {
	struct io_uring ring;
	bool enabled; /* a ring belongs to the thread that enables it, which is the first to turn the loop */
	weir_uring_op wake;
	weir_deferred wake_again; /* arms wake */
	struct weir_uring_watch *watches;
} weir_loop_uring;

struct weir_loop {
	weir_loop_face face; /* first; the owner thread's */

	/* const after init */
	const weir_backend *backend;
	int wake_fd;

	/* owner thread */
	weir_deferred *deferred, **deferred_end;
	weir_ending *endings;
	weir_loop_part *part[WEIR_LOOP_SLOTS];
	union {
		weir_loop_epoll epoll;
		weir_loop_uring uring;
	};
	weir_wheel wheel;

	/*
	 * Any thread. Posts are a stack, newest first, taken as a whole. A loop that is about to sleep sets sleeping, then looks at
	 * posts and woken; a poster writes these first, then looks at sleeping. All four are seq_cst, so at least one of
	 * the two sees the other. Whoever takes sleeping from true to false writes to wake_fd: one write a sleep.
	 */
	struct {
		alignas(64) _Atomic(weir_post *) posts;
		atomic_bool sleeping;
		atomic_bool woken;
	} shared;
};

/* The poll bits (POLLIN and so on, the same numbers as EPOLLIN) for weir_ready bits, and back. */
uint32_t weir_loop_poll_bits(uint32_t ready);
uint32_t weir_loop_ready_bits(uint32_t wanted, uint32_t poll_bits);

#endif
