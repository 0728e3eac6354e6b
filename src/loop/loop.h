/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOOP_LOOP_H
#define WEIR_LOOP_LOOP_H

/* What the layers above need of a loop beyond weir/loop.h. */

#include <weir/loop.h>

#include "base/clock.h"

/* The loop's clock, turned once a turn; for its own thread. */
weir_clock *weir_loop_clock(weir_loop *loop);
/* Makes the loop (NULL: none) what weir_loop_self and weir_timers_self give on this thread. */
void weir_loop_set_self(weir_loop *loop);
/* The first timer's time; UINT64_MAX: none. */
uint64_t weir_loop_next_timer_ns(const weir_loop *loop);

#endif
