/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_WINDOW_H
#define WEIR_CONTROL_WINDOW_H

/*
 * The most recent response times, for laws that look at them at their ticks. A ring: when more come than
 * it holds, the newest stay.
 *
 * Threads: any number at once may add, without a lock; the thread of the ticks calls count and take. A
 * time whose writer has taken a slot but not yet written it is left out, and appears in the next window.
 */

#include <stdatomic.h>
#include <weir/law.h>

#define WEIR_WINDOW_MAX 1000

typedef struct weir_window {
	uint32_t size; /* const after init; 1 .. WEIR_WINDOW_MAX */
	_Atomic uint32_t taken;
	_Atomic uint64_t at[WEIR_WINDOW_MAX]; /* 0: empty */
} weir_window;

void weir_window_init(weir_window *window, uint32_t size);
void weir_window_add(weir_window *window, uint64_t ns);
/*
 * Adds the time since the event's request entered the system. Failures count only if they took longer
 * than the target: a fast failure says nothing about how fast the work would have been. An event that was
 * refused further down has missed the target by far, however fast it came back.
 */
void weir_window_settle(weir_window *window, const weir_event *event, weir_outcome outcome,
			uint64_t target_ns, uint64_t now_ns);
/* How many there are, at most `size`. */
uint32_t weir_window_count(const weir_window *window);
/* Moves all of them to ret_ns, which has room for WEIR_WINDOW_MAX; returns how many. */
uint32_t weir_window_take(weir_window *window, uint64_t *ret_ns);

/*
 * The (q x count)-th of them in order, counted from one and rounded up. Reorders them; count must not be
 * 0.
 */
uint64_t weir_window_quantile(uint64_t *ns, uint32_t count, double q);
double weir_window_mean(const uint64_t *ns, uint32_t count);

#endif
