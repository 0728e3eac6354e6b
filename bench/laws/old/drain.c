/* SPDX-License-Identifier: Apache-2.0 */
#include "laws/old/drain.h"

#include <math.h>

#define REMEMBERED 100.
#define ASSUMED    10. /* answers that an assumption counts as */

/*
 * Forgets as much as came in, so that the memory stays as long as it should be: by the answers where they are few in the time, by the
 * time where they are many. A stretch without a single answer counts in full, so a backend that stops looks slower and slower.
 */
void weir_drain_saw(weir_drain *drain, uint64_t interval_ns, uint32_t answers, uint64_t least_ns)
{
	double interval = (double)interval_ns;
	double by_answers = answers / REMEMBERED, by_time = interval / (double)least_ns;
	double keep = exp(-fmin(by_answers, by_time));
	drain->time_ns = drain->time_ns * keep + interval;
	drain->answers = drain->answers * keep + answers;
}

void weir_drain_assume(weir_drain *drain, double time_per_answer_ns)
{
	drain->answers = ASSUMED;
	drain->time_ns = ASSUMED * time_per_answer_ns;
}

double weir_drain_time_ns(const weir_drain *drain)
{
	return drain->answers > 0 ? drain->time_ns / drain->answers : 0;
}
