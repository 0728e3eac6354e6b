/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BASE_TIMERS_H
#define WEIR_BASE_TIMERS_H

/*
 * What a timer can be pending on: a loop's wheel, or a virtual world's heap. Each embeds a weir_timers as
 * its first member; weir_timer_start and weir_timer_stop (timers.c) call through it.
 */

#include <weir/loop.h>

typedef struct weir_timers {
	void (*insert)(struct weir_timers *timers,
		       weir_timer *timer); /* at timer->at_ns; the timer must not be pending */
	void (*remove)(struct weir_timers *timers, weir_timer *timer); /* the timer must be pending here */
} weir_timers;

/* The timers of the running thread; NULL: none. */
weir_timers *weir_timers_self(void);
/* Returns the previous value, so that it can be restored. */
weir_timers *weir_timers_set_self(weir_timers *timers);
/* As weir_timer_start, on these timers. */
void weir_timers_start(weir_timers *timers, weir_timer *timer, uint64_t at_ns);
/*
 * Calls the function of a timer that has been removed from its wheel or heap. It is no longer pending,
 * and may be started again.
 */
void weir_timers_fire(weir_timer *timer);

#endif
