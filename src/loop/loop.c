/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop's turn: deferred work, the wait, one clock read, then ready sources, timers, posts, and deferred
 * work again.
 *
 * Invariants
 * 1. A post or a wake is never missed: see shared in loop_priv.h.
 * 2. A loop with deferred work, posts, or due timers does not sleep; otherwise it sleeps until something
 *    comes.
 * 3. Posts run in the order in which they were posted; one posted from within a post runs in the next
 *    turn.
 */
#include "loop/loop_priv.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"

/* Limited, so that a flood of timers cannot keep a turn from ending. The rest stay due in the next turn. */
#define TIMERS_A_TURN 1024

_Thread_local weir_loop *weir_loop_here __attribute__((tls_model("initial-exec")));

weir_loop *weir_loop_self(void)
{
	return weir_loop_here;
}

void weir_loop_set_self(weir_loop *loop)
{
	weir_loop_here = loop;
	weir_timers_set_self(loop != NULL ? &loop->face.timers : NULL);
}

uint64_t weir_loop_now(const weir_loop *loop)
{
	return loop->face.now_ns;
}

const char *weir_loop_backend(const weir_loop *loop)
{
	return loop->backend->name;
}

weir_loop_part *weir_loop_part_of(const weir_loop *loop, enum weir_loop_slot slot)
{
	return loop->part[slot];
}

void weir_loop_set_part(weir_loop *loop, enum weir_loop_slot slot, weir_loop_part *part)
{
	WEIR_ASSERT(loop->part[slot] == NULL);
	loop->part[slot] = part;
}

/* ---- initialisation ---- */

static void insert_timer(weir_timers *timers, weir_timer *timer)
{
	weir_wheel_insert(&((weir_loop *)(void *)timers)->wheel, timer);
}

static void remove_timer(weir_timers *timers, weir_timer *timer)
{
	weir_wheel_remove(&((weir_loop *)(void *)timers)->wheel, timer);
}

static int start_backend(weir_loop *loop, const weir_backend *backend)
{
	loop->backend = backend;
	return backend->init(loop);
}

/* io_uring if it works, because it needs fewer system calls; else epoll, which works everywhere. */
static int choose_backend(weir_loop *loop)
{
	const char *wish = getenv("WEIR_LOOP");
	if (wish == NULL || wish[0] == '\0')
		return start_backend(loop, &weir_backend_uring) == 0
			       ? 0
			       : start_backend(loop, &weir_backend_epoll);
	if (strcmp(wish, weir_backend_epoll.name) == 0)
		return start_backend(loop, &weir_backend_epoll);
	if (strcmp(wish, weir_backend_uring.name) == 0)
		return start_backend(loop, &weir_backend_uring);
	return weir_error_set(-EINVAL, "WEIR_LOOP is \"%s\"; accepted are epoll and uring, or nothing", wish);
}

static void init_times(weir_loop *loop)
{
	loop->face.timers = (weir_timers){.insert = insert_timer, .remove = remove_timer};
	weir_clock_init(&loop->face.clock);
	loop->face.now_ns = weir_clock_turn(&loop->face.clock);
	weir_wheel_init(&loop->wheel, loop->face.now_ns);
}

int weir_loop_new(weir_loop **ret_loop)
{
	weir_loop *loop = weir_mem_aligned(alignof(weir_loop), sizeof(*loop));
	if (loop == NULL)
		return weir_error_set(-ENOMEM, "loop: out of memory");
	init_times(loop);
	loop->deferred_end = &loop->deferred;
	int error;
	loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (loop->wake_fd < 0) {
		error = weir_error_set(-errno, "loop: eventfd: %s", strerror(errno));
		goto out_memory;
	}
	error = choose_backend(loop);
	if (error != 0)
		goto out_wake;
	*ret_loop = loop;
	return 0;
out_wake:
	close(loop->wake_fd);
out_memory:
	weir_mem_free(loop);
	return error;
}

void weir_loop_add_ending(weir_loop *loop, weir_ending *ending)
{
	ending->next = loop->endings;
	ending->link = &loop->endings;
	if (ending->next != NULL)
		ending->next->link = &ending->next;
	loop->endings = ending;
}

void weir_loop_remove_ending(weir_ending *ending)
{
	if (ending->link == NULL)
		return;
	*ending->link = ending->next;
	if (ending->next != NULL)
		ending->next->link = ending->link;
	ending->link = NULL;
}

void weir_loop_end(weir_loop *loop)
{
	/* A pending post may be about to create a part. */
	weir_loop_turn(loop, 0);
	while (loop->endings != NULL) {
		weir_ending *ending = loop->endings;
		weir_loop_remove_ending(ending);
		ending->run(ending);
	}
	for (int i = 0; i < WEIR_LOOP_SLOTS; i++)
		if (loop->part[i] != NULL && loop->part[i]->end != NULL)
			loop->part[i]->end(loop->part[i]);
}

void weir_loop_free(weir_loop **where)
{
	weir_loop *loop = *where;
	if (loop == NULL)
		return;
	*where = NULL;
	for (int i = 0; i < WEIR_LOOP_SLOTS; i++)
		if (loop->part[i] != NULL)
			loop->part[i]->free(loop->part[i]);
	loop->backend->fini(loop);
	close(loop->wake_fd);
	if (weir_loop_here == loop)
		weir_loop_set_self(NULL);
	weir_mem_free(loop);
}

/* ---- from other threads ---- */

/* One system call for each time the loop sleeps, however many threads ask. */
static void interrupt_sleep(weir_loop *loop)
{
	if (!atomic_load(&loop->shared.sleeping) || !atomic_exchange(&loop->shared.sleeping, false))
		return;
	uint64_t one = 1;
	/* Cannot fail: the counter is far from its limit, and the descriptor lives as long as the loop. */
	ssize_t written = write(loop->wake_fd, &one, sizeof(one));
	(void)written;
}

void weir_loop_wake(weir_loop *loop)
{
	atomic_store(&loop->shared.woken, true);
	interrupt_sleep(loop);
}

void weir_loop_post(weir_loop *loop, weir_post *post)
{
	weir_post *head = atomic_load_explicit(&loop->shared.posts, memory_order_relaxed);
	do
		post->next = head;
	while (!atomic_compare_exchange_weak(&loop->shared.posts, &head, post));
	/*
	 * If this was not the first post, whoever posted the first must wake the loop. (The loop owns
	 * post by now, so it must not be accessed.)
	 */
	if (head == NULL)
		interrupt_sleep(loop);
}

static weir_post *take_posts(weir_loop *loop)
{
	if (atomic_load_explicit(&loop->shared.posts, memory_order_relaxed) == NULL)
		return NULL;
	weir_post *oldest = NULL, *next, *post = atomic_exchange(&loop->shared.posts, NULL);
	for (; post != NULL; post = next) {
		next = post->next;
		post->next = oldest;
		oldest = post;
	}
	return oldest;
}

bool weir_loop_unpost(weir_loop *loop, const weir_post *post)
{
	weir_post *next, *at = take_posts(loop);
	bool found = false;
	for (; at != NULL; at = next) {
		next = at->next;
		if (at == post)
			found = true;
		else
			weir_loop_post(loop, at);
	}
	return found;
}

static void run_posts(weir_loop *loop)
{
	weir_post *next, *post = take_posts(loop);
	for (; post != NULL; post = next) {
		next = post->next;
		post->run(post, post->arg);
	}
}

/* ---- the turn ---- */

void weir_loop_defer(weir_loop *loop, weir_deferred *deferred)
{
	deferred->next = NULL;
	*loop->deferred_end = deferred;
	loop->deferred_end = &deferred->next;
}

static void run_deferred(weir_loop *loop)
{
	weir_deferred *next, *deferred = loop->deferred;
	loop->deferred = NULL;
	loop->deferred_end = &loop->deferred;
	for (; deferred != NULL; deferred = next) {
		next = deferred->next;
		deferred->run(deferred);
	}
}

bool weir_loop_run_deferred(weir_loop *loop)
{
	if (loop->deferred == NULL)
		return false;
	run_deferred(loop);
	return true;
}

bool weir_loop_has_deferred(const weir_loop *loop)
{
	return loop->deferred != NULL;
}

/*
 * How long this turn may wait. The time of the last turn is too old for that, because handlers have run
 * since.
 */
static uint64_t patience(weir_loop *loop, uint64_t wait_ns)
{
	if (wait_ns == 0 || loop->deferred != NULL)
		return 0;
	uint64_t next_ns = weir_wheel_next_ns(&loop->wheel);
	if (next_ns == UINT64_MAX)
		return wait_ns;
	uint64_t now_ns = weir_clock_now(&loop->face.clock);
	if (next_ns <= now_ns)
		return 0;
	return next_ns - now_ns < wait_ns ? next_ns - now_ns : wait_ns;
}

/* False: there is something to do first. */
static bool fall_asleep(weir_loop *loop)
{
	atomic_store(&loop->shared.sleeping, true);
	return atomic_load(&loop->shared.posts) == NULL && !atomic_load(&loop->shared.woken);
}

static int sleep_until_ready(weir_loop *loop, uint64_t wait_ns)
{
	wait_ns = patience(loop, wait_ns);
	bool may_sleep = wait_ns > 0;
	if (may_sleep && !fall_asleep(loop))
		wait_ns = 0;
	int error = loop->backend->wait(loop, wait_ns);
	if (may_sleep)
		atomic_store_explicit(&loop->shared.sleeping, false, memory_order_relaxed);
	/* Cleared before any handler runs, so that handlers see what a waker wrote before it woke us. */
	if (atomic_load_explicit(&loop->shared.woken, memory_order_relaxed))
		atomic_exchange(&loop->shared.woken, false);
	return error;
}

static void expire(weir_timer *timer, void *arg)
{
	weir_timers_fire(timer);
}

int weir_loop_turn(weir_loop *loop, uint64_t wait_ns)
{
	weir_loop *before = weir_loop_here;
	if (before != loop)
		weir_loop_set_self(loop);
	/*
	 * Such work may have put something into a stage's queue, and the loop's caller checks that before
	 * the loop may sleep.
	 */
	if (loop->deferred != NULL) {
		run_deferred(loop);
		wait_ns = 0;
	}
	int error = sleep_until_ready(loop, wait_ns);
	loop->face.now_ns = weir_clock_turn(&loop->face.clock);
	loop->face.turns++;
	if (error == 0)
		loop->backend->dispatch(loop);
	weir_wheel_advance(&loop->wheel, loop->face.now_ns, TIMERS_A_TURN, expire, loop);
	run_posts(loop);
	run_deferred(loop);
	if (before != loop)
		weir_loop_set_self(before);
	return error;
}

/* ---- watches ---- */

uint32_t weir_loop_poll_bits(uint32_t ready)
{
	return (ready & WEIR_READABLE ? POLLIN : 0u) | (ready & WEIR_WRITABLE ? POLLOUT : 0u);
}

/* After a hangup or an error, reading and writing do not block: everything that was asked for is ready. */
uint32_t weir_loop_ready_bits(uint32_t wanted, uint32_t poll_bits)
{
	if (poll_bits & (POLLHUP | POLLERR))
		return wanted | WEIR_HANGUP;
	return ((poll_bits & POLLIN ? WEIR_READABLE : 0u) | (poll_bits & POLLOUT ? WEIR_WRITABLE : 0u)) &
	       wanted;
}

int weir_watch_start(weir_loop *loop, weir_watch *watch, int fd, uint32_t events, weir_watch_fn *fn,
		     void *arg)
{
	*watch = (weir_watch){.fd = fd, .events = events, .fn = fn, .arg = arg};
	int error = loop->backend->watch(loop, watch);
	if (error != 0)
		return weir_error_set(error, "watch of descriptor %d: %s", fd, strerror(-error));
	return 0;
}

void weir_watch_stop(weir_loop *loop, weir_watch *watch)
{
	if (watch->backend == NULL)
		return;
	loop->backend->unwatch(loop, watch);
	watch->backend = NULL;
}
