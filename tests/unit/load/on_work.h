/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_ON_WORK_H
#define WEIR_TESTS_ON_WORK_H

/* What the tests of works share. */

#include "support/check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "load/work.h"

static const load_habits plain = {.method = NULL};

#define MADE(call)                                    \
	do {                                          \
		if ((call) < 0)                       \
			fail_msg("%s", weir_error()); \
	} while (0)

static inline const char *text_of(weir_span span)
{
	static char text[2][5000];
	static unsigned turn;
	turn ^= 1;
	assert_true(span.length < sizeof text[0]);
	if (span.length > 0)
		memcpy(text[turn], span.at, span.length);
	text[turn][span.length] = '\0';
	return text[turn];
}

/* What is sent as the target. */
static inline const char *target_of(const load_next *next)
{
	return text_of(next->target.length > 0 ? next->target : next->form->target);
}

static inline void near(double share, double expected, double of)
{
	double sigma = sqrt(expected * (1 - expected) / of);
	if (fabs(share - expected) > 4 * sigma + 1e-12)
		fail_msg("%g, not %g within %g", share, expected, 4 * sigma);
}

#endif
