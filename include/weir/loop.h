/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOOP_H
#define WEIR_LOOP_H

/*
 * The event loop of a reactor thread: timers, posts from other threads, signals, readiness of file
 * descriptors. Sockets and files have layers of their own (weir/net.h, weir/file.h).
 *
 * There are two back ends, epoll and io_uring, which behave alike. The better one that works on this
 * machine is found by probing. The environment variable WEIR_LOOP=epoll or WEIR_LOOP=uring forces one; if
 * that one does not work, the error says why.
 *
 * Threads: weir_loop_post, weir_loop_wake and what is done to alarms may be called by any thread, everything
 * else only by the loop's own thread. All objects are yours and are embedded in your structs. A loop
 * allocates nothing per timer or post, so its memory is bounded by what its users have.
 *
 * The clock is read once per turn: weir_loop_now is the time at which this turn began.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- creating a loop; the threads of a reactor domain already have one ---- */

/* Makes a loop for the calling thread. 0 or a negative errno, with weir_error. */
WEIR_API int weir_loop_new(weir_loop **ret_loop);
/* The loop must be idle, with no watch, timer or socket left on it. Sets *loop to NULL. */
WEIR_API void weir_loop_free(weir_loop **loop);
/*
 * One turn: waits at most wait_ns for something to happen, then handles everything that has happened.
 * Returns 0 or a negative errno.
 */
WEIR_API int weir_loop_turn(weir_loop *loop, uint64_t wait_ns);
/* The loop of the calling thread, inside handlers and callbacks of a reactor; NULL elsewhere. */
WEIR_API weir_loop *weir_loop_self(void);
/* The time at which this turn began. */
WEIR_API uint64_t weir_loop_now(const weir_loop *loop);
/* "epoll" or "uring". */
WEIR_API const char *weir_loop_backend(const weir_loop *loop);
/* Ends the current wait, or the next one. Any thread. Wake-ups of a sleeping loop coalesce. */
WEIR_API void weir_loop_wake(weir_loop *loop);

/* ---- timers: O(1), in a wheel with slots of 65 us; exact in a virtual world ---- */

typedef struct weir_timer weir_timer;
typedef void weir_timer_fn(weir_timer *timer, void *arg);

struct weir_timer {
	weir_timer *next, **link; /* for the timer wheel, or for a virtual world's heap */
	weir_timer *child;
	uint64_t at_ns;
	uint64_t order; /* among timers of the same instant, in a virtual world */
	weir_timer_fn *fire;
	void *arg;
	struct weir_timers *owner; /* loop or virtual world that it is pending on; NULL: not pending */
};

/* Prepares a timer. It does not run before weir_timer_start. */
WEIR_API void weir_timer_init(weir_timer *timer, weir_timer_fn *fire, void *arg);
/*
 * Fires once, at at_ns or as soon afterwards as the wheel's step allows, never before. Restarts a pending
 * timer. If loop is NULL, the timer runs on this thread's loop, or in the virtual world that is running;
 * -EINVAL if there is neither.
 */
WEIR_API int weir_timer_start(weir_loop *loop, weir_timer *timer, uint64_t at_ns);
/* After this the timer does not fire. Does nothing to a timer that is not pending. */
WEIR_API void weir_timer_stop(weir_timer *timer);
/* Whether it is started and has not fired. */
WEIR_API bool weir_timer_pending(const weir_timer *timer);

/* ---- posts: run a function on the loop's thread, in the order of posting ---- */

typedef struct weir_post weir_post;
typedef void weir_post_fn(weir_post *post, void *arg);

struct weir_post {
	weir_post *next;
	weir_post_fn *run;
	void *arg;
};

/* Any thread. The loop owns the post until it runs; it may be posted again from within run. */
WEIR_API void weir_loop_post(weir_loop *loop, weir_post *post);

/* ---- alarms: timers of a loop that any thread may set ---- */

/*
 * A timer that lives on one loop, for other threads to start and to cancel. They post to the loop, which does
 * it in its next turn.
 *
 *  - The function runs on the loop's thread, never before the time that was set last.
 *  - Of several calls the last one counts, whichever thread makes it. One set gives at most one call of the
 *    function: none if another set or a cancel comes in between.
 *  - On the loop's own thread a call has effect at once: after a cancel the function is not called.
 *  - On another thread it has effect in the loop's next turn. Until then the function may still be called, or
 *    be running when the call returns. Whoever must know that it is over closes the alarm.
 *  - If the loop ends first, as with its world, neither the function nor `closed` is called any more. The
 *    alarm is yours again when the loop has been freed.
 *
 * The alarm is yours and allocates nothing. It must stay where it is from its first set until `closed` has
 * been called, or until the loop has been freed.
 */
typedef struct weir_alarm weir_alarm;
typedef void weir_alarm_fn(weir_alarm *alarm, void *arg);

struct weir_alarm {
	/* the loop's thread */
	weir_timer timer;
	uint64_t started_ns; /* what the timer was last started for */
	weir_post post;
	weir_loop *loop;
	weir_alarm_fn *fire;
	void *arg;
	/* atomic */
	uint64_t wanted_ns;    /* 0: not set */
	weir_alarm_fn *closed; /* NULL: not to be closed */
	uint8_t posted;
};

/*
 * loop NULL, as weir_domain_loop gives it in a virtual world: the timer is one of that world, and every call
 * takes effect at once, while the world runs.
 */
WEIR_API void weir_alarm_init(weir_alarm *alarm, weir_loop *loop, weir_alarm_fn *fire, void *arg);
/* It goes off at this time, instead of any set before. Any thread. */
WEIR_API void weir_alarm_set(weir_alarm *alarm, uint64_t at_ns);
/* Does nothing to an alarm that is not set. */
WEIR_API void weir_alarm_cancel(weir_alarm *alarm);
/*
 * Cancels it, and calls closed on the loop's thread, in its next turn, when nothing refers to the alarm any
 * more: it may be freed there, or set up again. After this no other call with it.
 */
WEIR_API void weir_alarm_close(weir_alarm *alarm, weir_alarm_fn *closed);

/* ---- watches: readiness of any file descriptor ---- */

typedef struct weir_watch weir_watch;
typedef void weir_watch_fn(weir_watch *watch, uint32_t ready, void *arg);

enum weir_ready { WEIR_READABLE = 1, WEIR_WRITABLE = 2, WEIR_HANGUP = 4 };

struct weir_watch {
	int fd;
	uint32_t events; /* weir_ready bits wanted */
	weir_watch_fn *fn;
	void *arg;
	void *backend; /* for the loop */
};

/* Calls fn whenever fd is ready (level-triggered) until stopped. The watch must outlive the stop. */
WEIR_API int weir_watch_start(weir_loop *loop, weir_watch *watch, int fd, uint32_t events, weir_watch_fn *fn,
			      void *arg);
/* After this fn is not called any more. */
WEIR_API void weir_watch_stop(weir_loop *loop, weir_watch *watch);

/* ---- signals ---- */

typedef struct weir_signal weir_signal;
typedef void weir_signal_fn(weir_signal *signal, int signo, void *arg);

struct weir_signal {
	weir_watch watch;
	int signo;
	weir_signal_fn *fn;
	void *arg;
};

/*
 * Calls fn on the loop's thread for each arrival of signo. The signal must be blocked in all threads:
 * call weir_signal_block before any thread starts.
 */
WEIR_API int weir_signal_start(weir_loop *loop, weir_signal *signal, int signo, weir_signal_fn *fn,
			       void *arg);
/* After this fn is not called any more; the signal stays blocked. */
WEIR_API void weir_signal_stop(weir_loop *loop, weir_signal *signal);
/* Blocks the signal in the calling thread, and in the threads that it starts. 0 or a negative errno. */
WEIR_API int weir_signal_block(int signo);

#ifdef __cplusplus
}
#endif
#endif
