/* SPDX-License-Identifier: Apache-2.0 */
/* Timers on a host that only notes what it is asked. */
#include "support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/timers.h"

typedef struct host {
	weir_timers timers; /* first, as in a loop */
	weir_timer *pending;
	int inserts, removes;
	uint64_t at_ns;
} host;

static void host_insert(weir_timers *timers, weir_timer *timer)
{
	host *h = (host *)timers;
	assert_null(h->pending);
	h->pending = timer;
	h->at_ns = timer->at_ns;
	h->inserts++;
}

static void host_remove(weir_timers *timers, weir_timer *timer)
{
	host *h = (host *)timers;
	assert_ptr_equal(h->pending, timer);
	h->pending = NULL;
	h->removes++;
}

#define HOST                                                              \
	{                                                                 \
		.timers = {.insert = host_insert, .remove = host_remove } \
	}

static int fired;

static void note(weir_timer *timer, void *arg)
{
	assert_false(weir_timer_pending(timer));
	fired++;
}

static void test_start_and_stop(void **state)
{
	host h = HOST;
	weir_timer timer;
	weir_timer_init(&timer, note, NULL);
	assert_false(weir_timer_pending(&timer));
	weir_timer_stop(&timer);
	assert_int_equal(weir_timer_start((weir_loop *)&h, &timer, 7), 0);
	assert_true(weir_timer_pending(&timer));
	assert_int_equal(h.at_ns, 7);
	assert_int_equal(weir_timer_start((weir_loop *)&h, &timer, 9), 0);
	assert_int_equal(h.at_ns, 9);
	assert_int_equal(h.inserts, 2);
	assert_int_equal(h.removes, 1);
	weir_timer_stop(&timer);
	weir_timer_stop(&timer);
	assert_int_equal(h.removes, 2);
	assert_false(weir_timer_pending(&timer));
}

static void test_moves_between_hosts(void **state)
{
	host one = HOST, two = HOST;
	weir_timer timer;
	weir_timer_init(&timer, note, NULL);
	weir_timers_start(&one.timers, &timer, 1);
	weir_timers_start(&two.timers, &timer, 2);
	assert_null(one.pending);
	assert_ptr_equal(two.pending, &timer);
	weir_timer_stop(&timer);
}

static void restart(weir_timer *timer, void *arg)
{
	weir_timers_start(arg, timer, timer->at_ns + 5);
}

static void test_fire(void **state)
{
	host h = HOST;
	weir_timer timer;
	fired = 0;
	weir_timer_init(&timer, note, NULL);
	weir_timers_start(&h.timers, &timer, 1);
	h.pending = NULL;
	weir_timers_fire(&timer);
	assert_int_equal(fired, 1);
	assert_false(weir_timer_pending(&timer));
	weir_timer_init(&timer, restart, &h.timers);
	weir_timers_start(&h.timers, &timer, 1);
	h.pending = NULL;
	weir_timers_fire(&timer);
	assert_true(weir_timer_pending(&timer));
	assert_int_equal(h.at_ns, 6);
}

static void *self_elsewhere(void *arg)
{
	*(bool *)arg = weir_timers_self() == NULL;
	return NULL;
}

static void test_self(void **state)
{
	host h = HOST;
	weir_timer timer;
	pthread_t thread;
	bool none = false;
	weir_timer_init(&timer, note, NULL);
	assert_null(weir_timers_self());
	assert_int_equal(weir_timer_start(NULL, &timer, 1), -EINVAL);
	assert_non_null(strstr(weir_error(), "loop"));
	assert_false(weir_timer_pending(&timer));
	assert_null(weir_timers_set_self(&h.timers));
	assert_int_equal(weir_timer_start(NULL, &timer, 1), 0);
	assert_ptr_equal(h.pending, &timer);
	assert_int_equal(pthread_create(&thread, NULL, self_elsewhere, &none), 0);
	pthread_join(thread, NULL);
	assert_true(none);
	assert_ptr_equal(weir_timers_set_self(NULL), &h.timers);
	weir_timer_stop(&timer);
	assert_null(h.pending);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start_and_stop),
		cmocka_unit_test(test_moves_between_hosts),
		cmocka_unit_test(test_fire),
		cmocka_unit_test(test_self),
	};
	return cmocka_run_group_tests_name("timers", tests, NULL, NULL);
}
