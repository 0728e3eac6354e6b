/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proportional-integral controller on the logarithm of the factor, because the ratio is what matters:
 * half the work, twice the rate.
 *
 *  room     the part of the allowed wait that is used: smoothed, at most ROOM_MOST
 *  error    room - ROOM_WANTED; within BAND of it the drift rests
 *  drift    falls by GAIN² / 4 x error per target, and at least at LEAST_PER_S while there is no room at
 *           all; rises likewise
 *  factor   exp(drift - GAIN x error), between the least and 1
 *
 * The queue is an integrator: of the load beyond what the service does at this factor, in targets. With
 * drift' = -k error the characteristic polynomial is s² + GAIN s + k, in targets; k = GAIN² / 4 is the
 * critically damped case.
 */
#include "control/degrade.h"

#include <math.h>

#define GAIN        .6
#define ROOM_WANTED .5
#define ROOM_MOST   1.25
#define BAND        .1
#define SCALE_LEAST .05 /* s: a target shorter than a few ticks is not followed faster */
/* S: a longer one is not followed more slowly, or it would take minutes to return to 1. */
#define SCALE_MOST  1.
#define SMOOTHED    .25 /* time constant, as a part of the scale */
#define NO_ROOM     .95 /* from here on: something is shed at every step, or about to be */
#define ALL_ROOM    .02 /* up to here: next to nothing waits */
#define LEAST_PER_S .25 /* minimum speed of the drift in both of these cases */

void weir_degrade_init(weir_degrade *degrade)
{
	degrade->room = degrade->drift = 0;
	atomic_init(&degrade->factor, 1);
}

static double outside_band(double error)
{
	return error > BAND ? error - BAND : error < -BAND ? error + BAND : 0;
}

/* Per second. Where the room only says "far off", it moves as fast as for a short target. */
static double drift_per_s(double room, double scale_s)
{
	double rate = -GAIN * GAIN / 4 * outside_band(room - ROOM_WANTED) / scale_s;
	if (room >= NO_ROOM)
		return fmin(rate, -LEAST_PER_S);
	return room <= ALL_ROOM ? fmax(rate, LEAST_PER_S) : rate;
}

void weir_degrade_step(weir_degrade *degrade, const weir_degrade_sample *sample)
{
	double scale_s = fmin(fmax(sample->target_s, SCALE_LEAST), SCALE_MOST);
	double least = log(sample->least), room = fmin(fmax(sample->room, 0), ROOM_MOST);
	degrade->room += fmin(sample->interval_s / (SMOOTHED * scale_s), 1) * (room - degrade->room);
	double drift = degrade->drift + drift_per_s(degrade->room, scale_s) * sample->interval_s;
	degrade->drift = fmin(fmax(drift, least), 0);
	double at_once = GAIN * outside_band(degrade->room - ROOM_WANTED);
	double factor = fmin(fmax(degrade->drift - at_once, least), 0);
	/* exp of the logarithm of the least may be a little below it. */
	atomic_store_explicit(&degrade->factor, fmax(exp(factor), sample->least), memory_order_relaxed);
}
