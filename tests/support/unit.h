/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_UNIT_H
#define WEIR_TESTS_UNIT_H

/* What every unit test includes: cmocka and what it needs before it, and assertions that name the seed. */

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* For property tests: on failure, the seed to repeat it with. */
#define assert_for_seed(seed, x)                                                                           \
	do {                                                                                               \
		if (!(x))                                                                                  \
			fail_msg("%s:%d: seed %" PRIu64 ": %s", __FILE__, __LINE__, (uint64_t)(seed), #x); \
	} while (0)

#endif
