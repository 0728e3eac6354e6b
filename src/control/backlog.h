/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_BACKLOG_H
#define WEIR_CONTROL_BACKLOG_H

/*
 * The work that waits for a pool of threads, in all stages that share the pool, and how fast the pool
 * does it.
 *
 * The pool takes the highest class first, and within a class the work that is due first. So work is kept
 * by class and by the slice of time in which it is due. For an offer with a given due time this tells how
 * long the pool will take for the work that goes before it.
 *
 * Work is expected service time. How fast the pool does it (the pace, time per work) is measured from
 * start to start, and only while every thread is busy and something waits that could start: other
 * intervals show how much arrives, not how fast the pool is.
 *
 * Threads: the functions that change it are called under a lock of the user's. Any thread may call
 * weir_backlog_look at any time; what it reads is atomic, each field is right by itself, and the results
 * are estimates.
 *
 * Invariants: total[c] is the sum of overdue[c] and of work[c][*]. What was added in a slice is removed
 * from it, or from overdue once the time of the slice has passed.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/event.h>

#define WEIR_WORK_SHIFT     6 /* work is counted in 2^this ns */
#define WEIR_BACKLOG_SLICES 128

typedef struct weir_backlog {
	/* under the lock; read by any thread */
	_Alignas(64) _Atomic uint64_t total[WEIR_CLASSES];
	_Atomic uint64_t overdue[WEIR_CLASSES]; /* due before the first slice */
	_Atomic float pace[WEIR_CLASSES]; /* of a class: higher classes that arrive meanwhile go before it */
	_Atomic uint32_t first;           /* the slice that contains the current time */
	_Atomic uint32_t shift;           /* a slice is 2^this ns */
	_Atomic uint64_t work[WEIR_CLASSES][WEIR_BACKLOG_SLICES];
	/* under the lock */
	double pace_time, pace_work; /* time of all threads, and work started in it: decaying sums */
	uint64_t last_ns;            /* time of the last start */
	uint64_t measured_ns;        /* when the pace was last measured */
	bool saturated; /* since the last start every thread has been busy, and something waits */
	bool failed;    /* something has failed since: failing is quick, and no sign of speed */
	double started[WEIR_CLASSES]; /* work, as decaying sums */
} weir_backlog;

void weir_backlog_init(weir_backlog *backlog);
/* Makes slices long enough that a time this far ahead has one of its own. Does nothing while work waits. */
void weir_backlog_reach(weir_backlog *backlog, uint64_t longest_ns, uint64_t now_ns);
/* Returns the slice, which must be passed when the same work is removed. */
uint32_t weir_backlog_add(weir_backlog *backlog, unsigned klass, uint64_t due_ns, uint64_t now_ns,
			  uint64_t work);
void weir_backlog_remove(weir_backlog *backlog, unsigned klass, uint32_t slice, uint64_t work);
/*
 * Work of the class was started. saturated: all of this many threads are busy now, and something waits
 * that could start.
 */
void weir_backlog_started(weir_backlog *backlog, unsigned klass, uint64_t now_ns, uint64_t work,
			  uint32_t threads, bool saturated);
/* Something failed, or a thread went idle: the time until the next start must not be measured. */
void weir_backlog_disturbed(weir_backlog *backlog);
/*
 * To be called from time to time. memory_ns: about how long the pace is remembered; threads: how many
 * there are now; load: the work offered to a class and those above it, over what the pool can do.
 */
void weir_backlog_tick(weir_backlog *backlog, uint64_t now_ns, uint64_t memory_ns, uint32_t threads,
		       const double load[WEIR_CLASSES]);
/*
 * How long the pool will take for all waiting work of this class and those above (total), and for the
 * part of it that goes before an offer with this due time (ahead). Any thread.
 */
void weir_backlog_look(const weir_backlog *backlog, unsigned klass, uint64_t due_ns, uint64_t now_ns,
		       uint64_t *ret_ahead_ns, uint64_t *ret_total_ns);
/* The largest share of its remaining time that any of the waiting work needs: above 1 some will be late. */
double weir_backlog_fill(const weir_backlog *backlog, uint64_t now_ns);
/* Time that the pool needs for a unit of work, measured or assumed, for the highest class. */
static inline double weir_backlog_pace(const weir_backlog *backlog)
{
	return (double)atomic_load_explicit(&backlog->pace[0], memory_order_relaxed);
}

#endif
