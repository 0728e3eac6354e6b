/* SPDX-License-Identifier: Apache-2.0 */
#include "base/timers.h"

#include <errno.h>

#include "base/assert.h"
#include "base/error.h"

static _Thread_local weir_timers *self;

weir_timers *weir_timers_self(void)
{
	return self;
}

weir_timers *weir_timers_set_self(weir_timers *timers)
{
	weir_timers *previous = self;
	self = timers;
	return previous;
}

void weir_timers_start(weir_timers *timers, weir_timer *timer, uint64_t at_ns)
{
	weir_timer_stop(timer);
	timer->at_ns = at_ns;
	timer->owner = timers;
	timers->insert(timers, timer);
}

void weir_timers_fire(weir_timer *timer)
{
	WEIR_ASSERT(timer->owner != NULL);
	timer->owner = NULL;
	timer->fire(timer, timer->arg);
}

void weir_timer_init(weir_timer *timer, weir_timer_fn *fire, void *arg)
{
	*timer = (weir_timer){.fire = fire, .arg = arg};
}

int weir_timer_start(weir_loop *loop, weir_timer *timer, uint64_t at_ns)
{
	/* A loop begins with its weir_timers. */
	weir_timers *timers = loop != NULL ? (weir_timers *)(void *)loop : self;
	if (timers == NULL)
		return weir_error_set(-EINVAL, "timer: no loop given, and this thread has none");
	weir_timers_start(timers, timer, at_ns);
	return 0;
}

void weir_timer_stop(weir_timer *timer)
{
	weir_timers *owner = timer->owner;
	if (owner == NULL)
		return;
	timer->owner = NULL;
	owner->remove(owner, timer);
}

bool weir_timer_pending(const weir_timer *timer)
{
	return timer->owner != NULL;
}
