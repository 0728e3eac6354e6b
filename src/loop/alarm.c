/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A timer of a loop that any thread may set. Threads write what they want and post to the loop, at most one
 * post at a time; the loop's thread starts or stops the timer.
 *
 * No wish is lost: a thread writes its wish, then sets `posted`. The post clears `posted`, then reads the
 * wish. Both are sequentially consistent, so a thread that finds `posted` set has written in time.
 */
#include "loop/loop.h"

#define NOT_SET 0

static void apply(weir_alarm *alarm)
{
	uint64_t at_ns = __atomic_load_n(&alarm->wanted_ns, __ATOMIC_SEQ_CST);
	alarm->started_ns = at_ns;
	if (at_ns == NOT_SET)
		weir_timer_stop(&alarm->timer);
	else
		weir_timer_start(alarm->loop, &alarm->timer, at_ns);
}

static void arrive(weir_post *post, void *arg)
{
	weir_alarm *alarm = arg;
	__atomic_exchange_n(&alarm->posted, 0, __ATOMIC_SEQ_CST);
	weir_alarm_fn *closed = __atomic_load_n(&alarm->closed, __ATOMIC_SEQ_CST);
	if (closed == NULL) {
		apply(alarm);
		return;
	}
	weir_timer_stop(&alarm->timer);
	closed(alarm, alarm->arg);
}

/* A wish for the same time that comes before this is fulfilled by it; a later one starts the timer again. */
static void fire(weir_timer *timer, void *arg)
{
	weir_alarm *alarm = arg;
	uint64_t at_ns = alarm->started_ns;
	bool wanted = __atomic_compare_exchange_n(&alarm->wanted_ns, &at_ns, NOT_SET, false, __ATOMIC_SEQ_CST,
						  __ATOMIC_SEQ_CST);
	/* Otherwise it has been set anew or cancelled, and a post is on its way. */
	if (wanted && __atomic_load_n(&alarm->closed, __ATOMIC_SEQ_CST) == NULL)
		alarm->fire(alarm, alarm->arg);
}

static void post(weir_alarm *alarm)
{
	if (__atomic_exchange_n(&alarm->posted, 1, __ATOMIC_SEQ_CST) == 0)
		weir_loop_post(alarm->loop, &alarm->post);
}

void weir_alarm_init(weir_alarm *alarm, weir_loop *loop, weir_alarm_fn *fn, void *arg)
{
	*alarm = (weir_alarm){.loop = loop, .fire = fn, .arg = arg};
	weir_timer_init(&alarm->timer, fire, alarm);
	alarm->post = (weir_post){.run = arrive, .arg = alarm};
}

static void change(weir_alarm *alarm, uint64_t at_ns)
{
	__atomic_store_n(&alarm->wanted_ns, at_ns, __ATOMIC_SEQ_CST);
	if (alarm->loop == NULL || weir_loop_self() == alarm->loop)
		apply(alarm);
	else
		post(alarm);
}

void weir_alarm_set(weir_alarm *alarm, uint64_t at_ns)
{
	change(alarm, at_ns != NOT_SET ? at_ns : 1);
}

void weir_alarm_cancel(weir_alarm *alarm)
{
	change(alarm, NOT_SET);
}

void weir_alarm_close(weir_alarm *alarm, weir_alarm_fn *closed)
{
	__atomic_store_n(&alarm->closed, closed, __ATOMIC_SEQ_CST);
	if (alarm->loop == NULL)
		arrive(&alarm->post, alarm);
	else
		post(alarm);
}
