/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ON_LOOP_H
#define TESTS_ON_LOOP_H

/*
 * Tests that run on a loop, once for each back end. A test gets its loop as *state; turn_until drives it until a
 * condition holds, for a number of turns that only a failure reaches.
 */

#include "support/on_both.h"
#include "support/unit.h"

#include <stdlib.h>

#include <weir/loop.h>

#define TURNS_MOST 20000

#define turn_until(loop, condition)                                                    \
	do {                                                                           \
		for (int turn_ = 0; turn_ < TURNS_MOST && !(condition); turn_++)       \
			assert_int_equal(weir_loop_turn(loop, 5 * WEIR_NS_PER_MS), 0); \
		assert_true(condition);                                                \
	} while (0)

/* Turns without waiting: what is ready now, and what that makes ready. */
static inline void turn_some(weir_loop *loop)
{
	for (int i = 0; i < 20; i++)
		assert_int_equal(weir_loop_turn(loop, 0), 0);
}

/* The initial state is the back end's name. Where the kernel has no io_uring, its tests are skipped. */
static int on_loop_setup(void **state)
{
	const char *backend = *state;
	setenv("WEIR_LOOP", backend, 1);
	weir_loop *loop = NULL;
	int error = weir_loop_new(&loop);
	if (error != 0)
		printf("%s: %s\n", backend, weir_error());
	*state = loop;
	return 0;
}

static int on_loop_teardown(void **state)
{
	weir_loop *loop = *state;
	weir_loop_free(&loop);
	return 0;
}

#define loop_of(state) (*(state) == NULL ? (skip(), (weir_loop *)NULL) : (weir_loop *)*(state))

#define ON_BOTH(test) ON_BOTH_LOOPS(test, on_loop_setup, on_loop_teardown)

#endif
