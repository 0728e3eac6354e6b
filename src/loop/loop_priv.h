/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOOP_LOOP_PRIV_H
#define WEIR_LOOP_LOOP_PRIV_H

/* The internals of a loop, for src/loop only. */

#include <stdalign.h>
#include <stdatomic.h>

#include "base/wheel.h"
#include "loop/epoll.h"
#include "loop/loop.h"
#include "loop/uring.h"

#define WEIR_LOOP_EPOLL_EVENTS 256

/* A back end: how a loop waits, and how it finds what is ready. */
typedef struct weir_backend {
	const char *name;
	/* 0, or a negative errno with weir_error set. The wake descriptor is already open. */
	int (*init)(weir_loop *loop);
	void (*fini)(weir_loop *loop);
	/* Waits; UINT64_MAX: without limit. Returns 0 also if it was interrupted or nothing happened. */
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
	int count, cursor; /* events found by the last wait, and the one being handled */
	weir_epoll_source wake;
	struct epoll_event events[WEIR_LOOP_EPOLL_EVENTS];
} weir_loop_epoll;

typedef struct weir_loop_uring {
	struct io_uring ring;
	bool enabled; /* a ring belongs to the thread that enables it: the first to turn the loop */
	weir_uring_op wake;
	weir_deferred wake_again; /* arms wake */
	struct weir_uring_watch *watches;
} weir_loop_uring;

struct weir_loop {
	weir_loop_face face; /* must be first; owner thread */

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
	 * Any thread. Posts are a stack, newest first, taken as a whole. A loop that is about to sleep
	 * sets sleeping, then reads posts and woken; a poster writes these first, then reads sleeping.
	 * All four accesses are seq_cst, so at least one of the two sees the other. Whoever changes
	 * sleeping from true to false writes to wake_fd: one write per sleep.
	 */
	struct {
		alignas(64) _Atomic(weir_post *) posts;
		atomic_bool sleeping;
		atomic_bool woken;
	} shared;
};

/* Converts weir_ready bits to poll bits (POLLIN and so on, which equal EPOLLIN) and back. */
uint32_t weir_loop_poll_bits(uint32_t ready);
uint32_t weir_loop_ready_bits(uint32_t wanted, uint32_t poll_bits);

#endif
