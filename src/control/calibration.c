/* SPDX-License-Identifier: Apache-2.0 */
#include "control/calibration.h"

#include <math.h>
#include <string.h>

#define FIRST        16    /* requests that the backend gets at first, at most */
#define MOST         65536 /* and ever */
#define HOPELESS     .95   /* so many are still unknown after the first lessons: nothing is learnt of them */
#define OVER         64.   /* requests over which that share is averaged */
#define ANSWERS      32.   /* a rate is measured over so many, and over twice as many as are inside */
#define MORE         1.4   /* twice as many inside must be answered so much faster to be worth it */
#define FEWER        .75   /* half as many are too few if they are answered at this part of the rate */
#define LESSONS      200.  /* answers that teach, at least; and at most, if costs stay unknown */
#define LESSONS_MOST 2000.
#define LESSONS_S    .2  /* at least */
#define QUIET_S      .2  /* without a queue, after which the overload is over */
#define LONGEST_S    60. /* of all */
#define TIMES        8   /* as many as it takes until most are known: a cost is known from four answers */

void weir_calibration_init(weir_calibration *c)
{
	memset(c, 0, sizeof(*c));
}

static void enter(weir_calibration *c, int phase, double cap, double skip)
{
	c->phase = phase;
	c->known_at = 0;
	c->skip = skip;
	c->done = c->s = 0;
	atomic_store_explicit(&c->cap, (uint32_t)fmin(fmax(cap, 1), MOST), memory_order_relaxed);
	atomic_store_explicit(&c->learning, false, memory_order_relaxed);
}

static void end(weir_calibration *c)
{
	enter(c, WEIR_CALIBRATION_IDLE, 1, 0);
	atomic_store_explicit(&c->cap, 0, memory_order_relaxed);
	atomic_store_explicit(&c->full_per_s, 0, memory_order_relaxed);
}

static void begin(weir_calibration *c, const weir_calibration_news *news)
{
	if (c->over || news->ever_calm || c->unknown <= WEIR_CALIBRATION_UNKNOWN || !news->busy)
		return;
	c->before = c->quiet_s = 0;
	c->down = false;
	enter(c, WEIR_CALIBRATION_MEASURE, fmin(news->cap, FIRST), 0);
}

/* The rate with this number is known: which is next? */
static void step(weir_calibration *c, double cap)
{
	double rate = c->done / fmax(c->s, 1e-9), before = c->before;
	bool first = before <= 0;
	if (c->down ? rate < FEWER * before : !first && rate < MORE * before && cap > 2 * FIRST)
		/* The smallest number with which it answers as many. */
		enter(c, WEIR_CALIBRATION_LEARN, c->down ? 2 * cap : cap / 2, 2 * cap);
	else if (!c->down && (first || rate >= MORE * before))
		enter(c, WEIR_CALIBRATION_MEASURE, 2 * cap, cap);
	else if (cap <= 1)
		enter(c, WEIR_CALIBRATION_LEARN, 1, 1);
	else {
		/* Twice as many were no better at the first step: half as many may do. */
		enter(c, WEIR_CALIBRATION_MEASURE, c->down ? cap / 2 : cap / 4, 0);
		c->down = true;
	}
	c->before = c->down ? fmax(rate, before) : rate;
	if (c->down || c->phase == WEIR_CALIBRATION_LEARN)
		atomic_store_explicit(&c->full_per_s, (float)c->before, memory_order_relaxed);
}

/* Returns whether most have a cost from now on. */
static bool learn(weir_calibration *c)
{
	bool first = c->known_at == 0 && c->unknown <= WEIR_CALIBRATION_UNKNOWN;
	atomic_store_explicit(&c->learning, true, memory_order_relaxed);
	if (first)
		c->known_at = fmax(c->done, ANSWERS);
	bool some = c->done >= 2 * ANSWERS && c->s >= LESSONS_S;
	bool hopeless = c->known_at == 0 && some && c->unknown > HOPELESS;
	double lessons = fmax(LESSONS, fmin(TIMES * c->known_at, LESSONS_MOST));
	if (hopeless || (c->done >= lessons && c->s >= LESSONS_S)) {
		c->over = true;
		end(c);
	}
	return first;
}

bool weir_calibration_tick(weir_calibration *c, const weir_calibration_news *news)
{
	double cap = atomic_load_explicit(&c->cap, memory_order_relaxed);
	if (news->offered > 0)
		c->unknown +=
			(1 - pow(1 - 1 / OVER, news->offered)) * (news->unknown / news->offered - c->unknown);
	if (c->phase == WEIR_CALIBRATION_IDLE) {
		begin(c, news);
		return false;
	}
	c->quiet_s = news->busy ? 0 : c->quiet_s + news->s;
	c->total_s += news->s;
	c->over |= c->total_s > LONGEST_S;
	if (c->quiet_s > QUIET_S || c->over) {
		end(c);
		return false;
	}
	/* What was started before the last step has to end first. */
	if (news->serving > cap || c->skip > 0) {
		c->skip = fmax(c->skip - news->answers, 0);
		return false;
	}
	c->done += news->answers;
	c->s += news->s;
	if (c->phase == WEIR_CALIBRATION_LEARN)
		return learn(c);
	if (c->done >= fmax(ANSWERS, 2 * cap))
		step(c, cap);
	return false;
}
