/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_THEORY_H
#define TESTS_THEORY_H

/* Queueing theory, to hold simulations against. */

#include "support/check.h"

#include <math.h>

static inline void expect_close(const char *what, double value, double theory, double tolerance)
{
	if (fabs(value - theory) > (CHECK_SLOW ? 3 : 1) * tolerance * theory)
		fail_msg("%s is %g, theory says %g", what, value, theory);
}

/* Probability that an arrival has to wait (Erlang C). */
static inline double erlang_c(unsigned servers, double rho)
{
	double load = servers * rho, term = 1, sum = 1;
	for (unsigned k = 1; k < servers; k++) {
		term *= load / k;
		sum += term;
	}
	term *= load / servers / (1 - rho);
	return term / (sum + term);
}

#endif
