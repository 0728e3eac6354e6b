/* SPDX-License-Identifier: Apache-2.0 */
#include "control/agreement.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#define AVERAGE_S 1.  /* of the arrival rate */
#define BACK      .9  /* of a bound: below it a shorter time can be promised again ... */
#define BACK_S    10. /* ... after so long */

const char *weir_agreement_wrong(const weir_agreement *agreement)
{
	unsigned last = agreement->steps - 1;
	if (agreement->steps == 0 || agreement->steps > WEIR_AGREEMENT_STEPS)
		return "an agreement has 1 to 8 times";
	for (unsigned i = 0; i < last; i++) {
		if (!(agreement->step[i].below_per_s > 0) || !isfinite(agreement->step[i].below_per_s))
			return "only the last time has no bound";
		if (agreement->step[i].below_per_s >= agreement->step[i + 1].below_per_s)
			return "each rate must be higher than the one before it";
		if (agreement->step[i].time_ns > agreement->step[i + 1].time_ns)
			return "the promised times must not fall when more requests arrive";
	}
	if (isfinite(agreement->step[last].below_per_s))
		return "the last time must have no bound: it is promised at every higher rate";
	return NULL;
}

static void follow_rate(weir_agreement_state *state, double interval_s, uint64_t arrivals)
{
	double rate = (double)arrivals / interval_s;
	double part = state->begun ? 1 - exp(-interval_s / AVERAGE_S) : 1;
	state->rate_per_s += part * (rate - state->rate_per_s);
	state->begun = true;
}

uint64_t weir_agreement_tick(const weir_agreement *agreement, weir_agreement_state *state, double interval_s,
			     uint64_t arrivals)
{
	unsigned last = agreement->steps - 1;
	if (interval_s > 0)
		follow_rate(state, interval_s, arrivals);
	if (state->at > last) /* another agreement has fewer */
		state->at = last;
	while (state->at < last && state->rate_per_s >= agreement->step[state->at].below_per_s) {
		state->at++;
		state->calm_s = 0;
	}
	bool low = state->at > 0 && state->rate_per_s < BACK * agreement->step[state->at - 1].below_per_s;
	state->calm_s = low ? state->calm_s + interval_s : 0;
	if (state->calm_s >= BACK_S) {
		state->at--;
		state->calm_s = 0;
	}
	return agreement->step[state->at].time_ns;
}
