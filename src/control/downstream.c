/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The law keeps a rate, not a fraction: the capacity of the stages below does not change with the load.
 * So when the load falls below the rate, everything is admitted again at the next step, with nothing to
 * be learnt first.
 *
 * While they shed, the throughput of the stages below is what arrived there less what they shed. That
 * much is admitted, and WANTED on top. Events that are shed now were admitted a while ago (the lag, which
 * each shed event reports), so "what arrived" is what was admitted that long ago. The difference is right
 * whatever was admitted meanwhile, so there is no need to wait for the effect of a change of the rate.
 *
 * While nothing is shed, nobody knows how much more would be possible, so the rate probes: slowly at
 * first, then faster and faster the longer no shed has occurred. Neither rare events nor events that have
 * not arrived yet must be mistaken for a quiet time: the rarer the events and the longer the lag, the
 * slower it probes.
 */
#include "control/downstream.h"

#include <math.h>

#define WANTED    WEIR_DOWNSTREAM_WANTED
#define STEPS     WEIR_DOWNSTREAM_STEPS
#define STEP_NS   1e8
#define SECOND_NS 1e9
#define RECENT_NS 3e8 /* after a shed this recent, a moment without one proves nothing */
/* Without a shed for this long, and with a rate above the load, the limit is dropped. */
#define FORGET_NS 2e9
#define FAR       0.06 /* a fraction shed that is no chance */
#define FLOOR     0.02 /* part of the offers that is always admitted, or a recovery would go unnoticed */
#define ENOUGH    20   /* events that make a step significant */
#define SMOOTH    0.2  /* the weight of such a step */
/*
 * Probing: growth per step at first, and after this time, this many events and this many lags without a
 * shed.
 */
#define SLOWEST 0.002
#define FASTEST 0.5
/* If nearly all were shed before; the rarer sheds were, the less a time without them means. */
#define UNIT_NS 1.8e9
#define PATIENT 20 /* likewise */
#define LAGS    12

void weir_downstream_init(weir_downstream *state, uint64_t now_ns)
{
	*state = (weir_downstream){.limit_per_s = INFINITY, .offered_per_s = -1, .harmed_ns = now_ns};
}

static double per_s(uint64_t count, const weir_downstream_sample *sample)
{
	return (double)count * SECOND_NS / (double)sample->interval_ns;
}

static void take_in(weir_downstream *state, const weir_downstream_sample *sample)
{
	double offered = per_s(sample->offered, sample), shed = per_s(sample->shed, sample);
	if (sample->shed != 0) {
		double lag_ns = fmin((double)sample->lag_ns, (STEPS - 1) * STEP_NS);
		double weight = state->lag_ns == 0 ? 1 : 0.25;
		state->lag_ns += (uint64_t)(int64_t)(weight * (lag_ns - (double)state->lag_ns));
		state->harmed_ns = sample->now_ns;
	}
	state->offered_per_s = state->offered_per_s < 0 ? offered : (state->offered_per_s + offered) / 2;
	state->let_in_per_s[++state->step % STEPS] = per_s(sample->let_in, sample);
	unsigned ago = (unsigned)((double)state->lag_ns / STEP_NS + 0.5);
	double came = state->let_in_per_s[(state->step - ago) % STEPS];
	double enough = came * STEP_NS / SECOND_NS / ENOUGH;
	double weight = fmin(fmax(enough, 0.1), 1) * SMOOTH;
	state->came_per_s += weight * (came - state->came_per_s);
	state->shed_per_s += weight * (shed - state->shed_per_s);
}

static void follow(weir_downstream *state)
{
	double shed = state->shed_per_s / fmax(state->came_per_s, 1e-9);
	state->harm = fmin(shed, 1);
	double wanted = fmax(state->came_per_s - state->shed_per_s, 0) / (1 - WANTED);
	wanted = fmax(wanted, fmax(state->offered_per_s * FLOOR, 1));
	if (isinf(state->limit_per_s))
		state->limit_per_s = shed > WANTED ? wanted : INFINITY;
	else if (shed <= WANTED)
		state->limit_per_s *= 1 + (WANTED - shed) / 4;
	else if (wanted < state->limit_per_s)
		state->limit_per_s += (wanted - state->limit_per_s) * (shed > FAR ? 0.5 : SMOOTH);
}

static void probe(weir_downstream *state, const weir_downstream_sample *sample, double quiet_ns)
{
	double harm = fmax(state->harm, WANTED / 2);
	double unit_ns = fmax(UNIT_NS / cbrt(harm), PATIENT / harm * SECOND_NS / state->limit_per_s);
	double time = quiet_ns / fmax(unit_ns, LAGS * (double)state->lag_ns);
	double growth = (SLOWEST + FASTEST * time * time * time) * (double)sample->interval_ns / STEP_NS;
	state->limit_per_s *= 1 + fmin(growth, FASTEST);
}

static double part(const weir_downstream *state)
{
	bool binding = state->limit_per_s < state->offered_per_s;
	return binding ? state->limit_per_s / state->offered_per_s : 1;
}

double weir_downstream_step(weir_downstream *state, const weir_downstream_sample *sample)
{
	if (sample->interval_ns == 0)
		return part(state);
	take_in(state, sample);
	double quiet_ns = (double)(sample->now_ns - state->harmed_ns) - (double)state->lag_ns;
	if (quiet_ns < RECENT_NS)
		follow(state);
	else if (part(state) < 1)
		probe(state, sample, quiet_ns);
	else if (quiet_ns > FORGET_NS)
		state->limit_per_s = INFINITY;
	return part(state);
}
