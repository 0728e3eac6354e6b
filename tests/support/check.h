/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_CHECK_H
#define WEIR_TESTS_CHECK_H

/*
 * What every test program needs: cmocka, in the order it wants its headers; a patient wait; a check that a test gave
 * back all memory. cmocka's assertions jump, so they are for the main thread only: other threads count what they
 * see, and the main thread looks at the counts.
 */

#include "support/unit.h"

#include <stdatomic.h>
#include <time.h>

#include <weir/weir.h>

/* Gives other threads time; the length is of no importance to any result. */
static inline void check_breathe(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

/* Waits for what other threads will bring about. The bound is only there so that a broken runtime ends the test. */
#define CHECK_EVENTUALLY(condition)                                  \
	do {                                                         \
		unsigned check_polls_ = 0;                           \
		while (!(condition) && ++check_polls_ < 60000)       \
			check_breathe();                             \
		if (!(condition))                                    \
			fail_msg("never came true: %s", #condition); \
	} while (0)

/* The text contains the word; says both when not. */
void check_contains(const char *text, const char *word);

/* Setup and teardown: the test must leave as much memory allocated as it found. */
int check_memory_setup(void **state);
int check_memory_teardown(void **state);
#define CHECK_TEST(function) \
	cmocka_unit_test_setup_teardown(function, check_memory_setup, check_memory_teardown)

/* ThreadSanitizer makes a virtual world, which has one thread, twenty times slower and no more interesting. */
#if defined(__SANITIZE_THREAD__)
#define CHECK_SLOW 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CHECK_SLOW 1
#endif
#endif
#ifndef CHECK_SLOW
#define CHECK_SLOW 0
#endif

/*
 * Whether all is to be tried that there is (WEIR_LONG=1, as ./dev test --long has it): a simulation of minutes otherwise tries a part of it, for
 * the same properties.
 */
bool check_long(void);
/* So many seeds, or as many as there are. */
uint64_t check_seeds(uint64_t few, uint64_t all);

/* A number from the environment, or a default: WEIR_SEED and the like. */
uint64_t check_env(const char *name, uint64_t otherwise);

#endif
