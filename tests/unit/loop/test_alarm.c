/* SPDX-License-Identifier: Apache-2.0 */
/* Timers of a loop that other threads set and cancel. */
#include "support/on_loop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <weir/sim.h>

typedef struct bell {
	weir_alarm alarm;
	weir_loop *loop;
	_Atomic unsigned rung, closed;
	_Atomic uint64_t at_ns; /* the least time at which it may ring */
	bool early, elsewhere;
	pthread_t thread; /* that turns the loop */
	weir_post post;
	uint64_t again_ns; /* not 0: set again from within, once */
} bell;

static void ring(weir_alarm *alarm, void *arg)
{
	bell *b = arg;
	b->rung++;
	b->early |= b->loop != NULL && weir_loop_now(b->loop) < b->at_ns;
	b->elsewhere |= !pthread_equal(pthread_self(), b->thread);
	if (b->again_ns == 0)
		return;
	uint64_t again_ns = b->again_ns;
	b->again_ns = 0;
	weir_alarm_set(alarm, again_ns);
}

static void note_close(weir_alarm *alarm, void *arg)
{
	bell *b = arg;
	b->closed++;
	b->elsewhere |= !pthread_equal(pthread_self(), b->thread);
	memset(alarm, 0x5a, sizeof *alarm); /* nobody looks at it any more */
}

static bell bell_on(weir_loop *loop)
{
	return (bell){.loop = loop, .thread = pthread_self()};
}

static void close_bell(bell *b)
{
	weir_alarm_close(&b->alarm, note_close);
	turn_until(b->loop, b->closed == 1);
	assert_false(b->early || b->elsewhere);
}

static void *set_it(void *arg)
{
	bell *b = arg;
	weir_alarm_set(&b->alarm, b->at_ns);
	return NULL;
}

static void run_elsewhere(void *(*what)(void *arg), void *arg)
{
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, what, arg), 0);
	pthread_join(thread, NULL);
}

static void rings_where_the_loop_runs(void **state)
{
	weir_loop *loop = loop_of(state);
	bell b = bell_on(loop);
	weir_alarm_init(&b.alarm, loop, ring, &b);
	b.at_ns = weir_loop_now(loop) + 2 * WEIR_NS_PER_MS;
	run_elsewhere(set_it, &b);
	assert_int_equal(b.rung, 0);
	turn_until(loop, b.rung == 1);
	/* It rings once for each set. */
	turn_some(loop);
	assert_int_equal(b.rung, 1);
	run_elsewhere(set_it, &b);
	turn_until(loop, b.rung == 2);
	close_bell(&b);
}

static void the_last_wish_counts(void **state)
{
	weir_loop *loop = loop_of(state);
	bell b = bell_on(loop);
	weir_alarm_init(&b.alarm, loop, ring, &b);
	/* Put off before and after the loop has heard of it, and then brought forward. */
	b.at_ns = weir_loop_now(loop) + 3600 * WEIR_NS_PER_S;
	weir_alarm_set(&b.alarm, 1);
	run_elsewhere(set_it, &b);
	turn_some(loop);
	assert_int_equal(b.rung, 0);
	b.at_ns += WEIR_NS_PER_S;
	run_elsewhere(set_it, &b);
	turn_some(loop);
	assert_int_equal(b.rung, 0);
	b.at_ns = 0;
	run_elsewhere(set_it, &b);
	turn_until(loop, b.rung == 1);
	close_bell(&b);
	assert_int_equal(b.rung, 1);
}

static void *cancel_it(void *arg)
{
	weir_alarm_cancel(&((bell *)arg)->alarm);
	return NULL;
}

static void a_cancel_takes_it_back(void **state)
{
	weir_loop *loop = loop_of(state);
	bell b = bell_on(loop);
	weir_alarm_init(&b.alarm, loop, ring, &b);
	weir_alarm_cancel(&b.alarm); /* not set: nothing happens */
	turn_some(loop);
	run_elsewhere(set_it, &b); /* due at once, but the loop has not turned */
	run_elsewhere(cancel_it, &b);
	turn_some(loop);
	assert_int_equal(b.rung, 0);
	b.at_ns = weir_loop_now(loop) + 3600 * WEIR_NS_PER_S;
	run_elsewhere(set_it, &b);
	turn_some(loop);
	run_elsewhere(cancel_it, &b);
	turn_some(loop);
	assert_false(weir_timer_pending(&b.alarm.timer));
	close_bell(&b);
	assert_int_equal(b.rung, 0);
}

static void set_and_cancel(weir_post *post, void *arg)
{
	bell *b = arg;
	weir_alarm_set(&b->alarm, 1);
	weir_alarm_cancel(&b->alarm);
	assert_false(weir_timer_pending(&b->alarm.timer));
	weir_alarm_set(&b->alarm, weir_loop_now(b->loop) + 3600 * WEIR_NS_PER_S);
	assert_true(weir_timer_pending(&b->alarm.timer));
}

static void on_its_own_thread_it_acts_at_once(void **state)
{
	weir_loop *loop = loop_of(state);
	bell b = bell_on(loop);
	weir_alarm_init(&b.alarm, loop, ring, &b);
	b.post = (weir_post){.run = set_and_cancel, .arg = &b};
	weir_loop_post(loop, &b.post);
	turn_some(loop);
	assert_true(weir_timer_pending(&b.alarm.timer));
	/* From within its own function, too. */
	b.again_ns = 1;
	run_elsewhere(set_it, &b);
	turn_until(loop, b.rung == 2);
	close_bell(&b);
}

static void closing_is_the_end_of_it(void **state)
{
	weir_loop *loop = loop_of(state);
	bell b = bell_on(loop);
	weir_alarm_init(&b.alarm, loop, ring, &b);
	run_elsewhere(set_it, &b); /* due at once, and its post is under way */
	close_bell(&b);
	turn_some(loop);
	assert_int_equal(b.rung, 0);
	assert_int_equal(b.closed, 1);
}

#define ROUNDS 3000

typedef struct meddler {
	bell *b;
	uint64_t now_ns;
} meddler;

/* Ends with a set that is due, so that the bell must ring after the last of these. */
static void *meddle(void *arg)
{
	meddler *m = arg;
	for (int i = 0; i < ROUNDS; i++) {
		weir_alarm_set(&m->b->alarm, i % 3 == 0 ? 1 : m->now_ns + 3600 * WEIR_NS_PER_S);
		if (i % 7 == 0)
			weir_alarm_cancel(&m->b->alarm);
	}
	weir_alarm_set(&m->b->alarm, 1);
	return NULL;
}

static void no_wish_is_lost(void **state)
{
	weir_loop *loop = loop_of(state);
	bell b = bell_on(loop);
	pthread_t threads[3];
	meddler m = {.b = &b, .now_ns = weir_loop_now(loop)};
	weir_alarm_init(&b.alarm, loop, ring, &b);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, meddle, &m), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(weir_loop_turn(loop, 0), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	/* Whichever was last, it was due: nothing is set any more once the loop has heard of it. */
	turn_until(loop, !weir_timer_pending(&b.alarm.timer) && b.rung != 0);
	turn_some(loop);
	assert_false(weir_timer_pending(&b.alarm.timer));
	close_bell(&b);
}

static void set_for_later(weir_timer *timer, void *arg)
{
	bell *b = arg;
	weir_alarm_set(&b->alarm, 1); /* long past: at once */
	weir_alarm_cancel(&b->alarm);
	weir_alarm_set(&b->alarm, 2 * WEIR_NS_PER_S);
	b->again_ns = 3 * WEIR_NS_PER_S;
}

static void in_a_virtual_world_it_is_exact(void **state)
{
	weir_world *world = NULL;
	weir_domain *domain = NULL;
	bell b = bell_on(NULL);
	weir_domain_options options = {.name = "d", .kind = WEIR_REACTOR, .threads = 1};
	assert_int_equal(weir_world_new(&(weir_world_options){.simulated = true}, &world), 0);
	assert_int_equal(weir_domain_new(world, &options, &domain), 0);
	assert_int_equal(weir_world_start(world), 0);
	weir_alarm_init(&b.alarm, weir_domain_loop(domain, 0), ring, &b);
	weir_timer starter;
	weir_timer_init(&starter, set_for_later, &b);
	weir_sim_timer(world, &starter, 0);
	weir_sim_run(world, 2 * WEIR_NS_PER_S - 1);
	assert_int_equal(b.rung, 0);
	weir_sim_run(world, 3 * WEIR_NS_PER_S - 1);
	assert_int_equal(b.rung, 1);
	weir_sim_run(world, 3 * WEIR_NS_PER_S);
	assert_int_equal(b.rung, 2);
	weir_alarm_close(&b.alarm, note_close);
	assert_int_equal(b.closed, 1);
	weir_world_free(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(rings_where_the_loop_runs),
		ON_BOTH(the_last_wish_counts),
		ON_BOTH(a_cancel_takes_it_back),
		ON_BOTH(on_its_own_thread_it_acts_at_once),
		ON_BOTH(closing_is_the_end_of_it),
		ON_BOTH(no_wish_is_lost),
		cmocka_unit_test(in_a_virtual_world_it_is_exact),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
