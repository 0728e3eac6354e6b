/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `adaptive-remote`: how many requests a second the backend is known to cope with. remote.h defines the terms.
 *
 * A backend that is not saturated has long queues, too, and drains them: one long request holds up all others before
 * one worker. Such a queue looks like an overload for as long as it lasts. Arrivals tell the two apart: in an overload
 * more come than before. Requests that the law is not asked about, such as exempt ones, do not count.
 *
 *  stretch   at least a second, five targets and 256 requests long. It ends when the backend is drained, that is,
 *            when no more are inside than the highest calm level. If all of them fitted, the backend copes with the
 *            stretch's rate
 *  excess    a leaky bucket: what came beyond 1.25 times the rate that the backend copes with
 *  lenient   the excess is small. Then requests come in above the limit, and nothing is learnt from those that are late
 *
 * The backend itself may have become slower, or hang. So it is not known to cope with anything if it is not drained for
 * a second and two targets, and more than 64 were late or refused meanwhile, or more are inside than come in two targets.
 */
#include <math.h>

#include "control/remote.h"

#define STRETCH_LEAST_S 1.
#define STRETCH_TARGETS 5.
#define STRETCH_LEAST   256.
#define COPE_MORE       1.25 /* times the rate: chance, and bursts */
#define EXCESS_MOST     64.
#define SPELL_BAD       64.
#define SPELL_MOST_S    1.
#define SPELL_TARGETS   2.
#define COPE_UP         .25  /* weight of a stretch with a higher rate, ... */
#define COPE_DOWN       .016 /* ... and with a lower one: little load proves little */

static void end_stretch(weir_remote *r)
{
	double rate = r->cope.came / r->cope.s, more = rate - r->cope.rate;
	if (!r->cope.pressed)
		r->cope.rate += r->cope.rate == 0 ? more : more * (more > 0 ? COPE_UP : COPE_DOWN);
	r->cope.came = r->cope.s = 0;
	r->cope.pressed = false;
}

/*
 * By Little's law, requests take longer than two targets if more are inside than come in that time. This is seen even if
 * nobody is answered.
 */
static bool is_bad(const weir_remote *r, double target_s)
{
	return r->cope.spell_bad > SPELL_BAD ||
	       (double)weir_remote_inside(r) > SPELL_BAD + SPELL_TARGETS * target_s * r->cope.rate;
}

static void decide_lenient(weir_remote *r, double s)
{
	/* What fits into the bucket by the next tick: a burst between two ticks may be large. */
	double room = EXCESS_MOST - r->cope.excess + COPE_MORE * r->cope.rate * s;
	atomic_store_explicit(&r->asked_most, r->seen_asked + (uint32_t)fmin(fmax(room, 0), 1e9),
			      memory_order_relaxed);
	atomic_store_explicit(&r->lenient,
			      !r->mix_changes && r->cope.rate > 0 && r->cope.excess <= EXCESS_MOST,
			      memory_order_relaxed);
}

void weir_remote_learn_cope(weir_remote *r, double came, double bad, double s)
{
	double target_s = (double)weir_remote_least_target_ns(r) / 1e9;
	bool drained = weir_remote_is_calm(r, 0);
	r->cope.came += came;
	r->cope.s += s;
	r->cope.pressed |= r->pressed;
	r->cope.spell_s = drained ? 0 : r->cope.spell_s + s;
	r->cope.spell_bad = drained ? 0 : r->cope.spell_bad + bad;
	r->cope.excess = fmin(fmax(r->cope.excess + came - COPE_MORE * r->cope.rate * s, 0), 2 * EXCESS_MOST);
	if (drained && (r->cope.pressed || (r->cope.came >= STRETCH_LEAST &&
					    r->cope.s >= fmax(STRETCH_LEAST_S, STRETCH_TARGETS * target_s))))
		end_stretch(r);
	if (r->cope.spell_s > fmax(SPELL_MOST_S, SPELL_TARGETS * target_s) && is_bad(r, target_s))
		r->cope.rate = 0;
	decide_lenient(r, s);
}
