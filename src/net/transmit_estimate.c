/* SPDX-License-Identifier: Apache-2.0 */
#include "net/transmit_estimate.h"

#include <weir/base.h>

#define CRUISE_AT    .97
#define DRAIN_AT     .90
#define DRAIN_DEEPER .10 /* less in each interval, while nearly all round trips stay long, */
#define DRAIN_LEAST  .50 /* down to this */
#define PROBE_EVERY  10u
#define PROBE_FOR    2u
#define PROBE_LEAST  .04
#define PROBE_MOST   1.
#define PROBE_GAIN   .6
#define SHORT        .985 /* of what is sent arrives less than this: the network is full */
#define SHORT_MUCH   .80  /* two intervals are enough to tell */
#define BLOCKED_MOST \
	3u /* intervals in which the network was the limit and nearly all round trips are long, */
#define BLOCKED_MANY   5u  /* or most of them are, */
#define BLOCKED_PART   .75 /* and much less arrives than may be sent */
#define STANDING_MOST  3u  /* intervals with a queue that does not go away, */
#define STANDING_FALL  .99 /* for which the estimate is lowered to this */
#define ALL_PART       .9  /* nearly all round trips are long: those of this part of the connections */
#define FRESH_AFTER    4u  /* busy intervals until a new estimate is tested */
#define OPEN_DELAYED   2u  /* intervals before the limit begins */
#define DRAIN_MOST     4u  /* intervals, while round trips stay long, */
#define DRAIN_ALL_MOST 12u /* or nearly all of them */
#define FALL_LEAST     .98 /* each time the estimate falls by at least this, */
#define FALL_MOST      .5  /* and at most to this */
#define FLOOR          .5  /* of an estimate that was tested once, */
#define FLOOR_FIRST    .2 /* and of one that was not: a single interval may tell several times what arrives */
#define STUCK_MOST     5u
#define AGAIN_NS       (10 * WEIR_NS_PER_S)
#define RIVAL_NS       (30 * WEIR_NS_PER_S)
#define UNUSED_NS      (60 * WEIR_NS_PER_S)
#define LEAST_PER_S    1000.
#define BEGIN_LEAST    .02  /* of what is sent, at least this much must arrive before a limit begins */
#define OFF_MOST_ROW   32u  /* intervals in a row in which less is sent than may be: the limit is useless */
#define EMPTYING       1.5  /* so much more arrives than is sent: sockets are emptied */
#define CARRIED_MORE   1.05 /* a crowded uplink carried so much more than the estimate */
#define OFF_LEAST      .9   /* an interval in which much less, or more, was sent than planned tells nothing */
#define OFF_MOST       1.15

void weir_transmit_estimate_init(weir_transmit_estimate *estimate, double link_per_s)
{
	*estimate =
		(weir_transmit_estimate){.phase = link_per_s > 0 ? WEIR_TRANSMIT_CRUISE : WEIR_TRANSMIT_OPEN,
					 .link_per_s = link_per_s,
					 .entry_per_s = link_per_s,
					 .probe = PROBE_LEAST};
}

const char *weir_transmit_phase_name(weir_transmit_phase phase)
{
	static const char *const names[] = {"open", "cruise", "probe", "drain"};
	return names[phase];
}

/* ---- the last intervals ---- */

static void forget(weir_transmit_estimate *e)
{
	e->filled = e->at = e->shorts = e->blocked = 0;
}

static void note(weir_transmit_estimate *e, const weir_transmit_sample *sample)
{
	e->shorts = sample->delivered_per_s < SHORT_MUCH * sample->taken_per_s ? e->shorts + 1 : 0;
	e->taken[e->at] = sample->taken_per_s;
	e->delivered[e->at] = sample->delivered_per_s;
	e->at = (e->at + 1) % WEIR_TRANSMIT_WINDOW;
	if (e->filled < WEIR_TRANSMIT_WINDOW)
		e->filled++;
}

static double mean(const double *values, unsigned count)
{
	double sum = 0;
	for (unsigned i = 0; i < count; i++)
		sum += values[i];
	return count > 0 ? sum / count : 0;
}

static bool falls_short(const weir_transmit_estimate *e)
{
	if (e->shorts >= 2)
		return true;
	return e->filled >= WEIR_TRANSMIT_WINDOW - 1 &&
	       mean(e->delivered, e->filled) < SHORT * mean(e->taken, e->filled);
}

/* ---- phases ---- */

static void enter(weir_transmit_estimate *e, weir_transmit_phase phase)
{
	e->phase = phase;
	e->in_phase = 0;
	e->drain = DRAIN_AT;
}

static void reopen(weir_transmit_estimate *e)
{
	enter(e, WEIR_TRANSMIT_OPEN);
	forget(e);
	e->delayed = e->stuck = e->off = 0;
	e->probe = PROBE_LEAST;
}

/*
 * The highest of the last intervals, since errors are not alike: an estimate that is too high is lowered
 * within a few intervals, and one that is too low keeps the uplink idle until probes have raised it. If
 * hardly anything has arrived, nothing is known.
 */
static void begin_limit(weir_transmit_estimate *e)
{
	double highest = 0;
	for (unsigned i = 0; i < e->filled; i++)
		highest = e->delivered[i] > highest ? e->delivered[i] : highest;
	if (highest < BEGIN_LEAST * mean(e->taken, e->filled) || highest < LEAST_PER_S) {
		e->delayed = 0;
		forget(e);
		return;
	}
	e->link_per_s = highest;
	e->entry_per_s = e->link_per_s;
	e->tested = false;
	e->stuck = 0;
	e->fresh = true;
	forget(e);
	enter(e, WEIR_TRANSMIT_DRAIN);
}

/* Sending less does not help. The uplink is measured anew; if it was just now, somebody else fills it. */
static void give_up(weir_transmit_estimate *e, uint64_t now_ns)
{
	if (e->gave_up_ns != 0 && now_ns - e->gave_up_ns < AGAIN_NS)
		e->rival_ns = now_ns + RIVAL_NS;
	e->gave_up_ns = now_ns;
	reopen(e);
}

static void lower(weir_transmit_estimate *e, double to, uint64_t now_ns)
{
	double before = e->link_per_s, least = (e->tested ? FLOOR : FLOOR_FIRST) * e->entry_per_s;
	if (least < LEAST_PER_S)
		least = LEAST_PER_S;
	e->link_per_s = to > least ? to : least;
	e->stuck = e->link_per_s >= before ? e->stuck + 1 : 0;
	e->probe = PROBE_LEAST;
	forget(e);
	if (e->stuck > STUCK_MOST)
		give_up(e, now_ns);
	else
		enter(e, WEIR_TRANSMIT_DRAIN);
}

static void back_off(weir_transmit_estimate *e, const weir_transmit_sample *sample)
{
	double arrived = e->shorts >= 2 ? sample->delivered_per_s : mean(e->delivered, e->filled);
	double to = arrived > FALL_MOST * e->link_per_s ? arrived : FALL_MOST * e->link_per_s;
	if (to > FALL_LEAST * e->link_per_s)
		to = FALL_LEAST * e->link_per_s;
	e->fresh = true;
	lower(e, to, sample->now_ns);
}

static bool all_delayed(const weir_transmit_sample *sample)
{
	return sample->progressed > 0 && sample->delayed >= ALL_PART * sample->progressed;
}

/* More arrives than at cruising speed, by most of what was added. */
static bool probe_succeeds(const weir_transmit_estimate *e, double delivered_per_s)
{
	return delivered_per_s > (CRUISE_AT + PROBE_GAIN * (1 + e->probe - CRUISE_AT)) * e->link_per_s;
}

static void raise_link(weir_transmit_estimate *e, double delivered_per_s)
{
	double most = (1 + e->probe) * e->link_per_s;
	double to = delivered_per_s < most ? delivered_per_s : most;
	if (to > e->link_per_s)
		e->link_per_s = to;
	if (e->link_per_s > e->entry_per_s)
		e->entry_per_s = e->link_per_s;
	e->stuck = 0;
}

static void probed(weir_transmit_estimate *e, const weir_transmit_sample *sample)
{
	if (e->in_phase == 1) {
		e->gained = sample->delivered_per_s;
		return;
	}
	/* Two intervals tell more than one, unless what the first sent has arrived in the second. */
	double delivered = .5 * (e->gained + sample->delivered_per_s);
	if (!probe_succeeds(e, delivered))
		delivered = sample->delivered_per_s;
	forget(e);
	if (probe_succeeds(e, delivered)) {
		raise_link(e, delivered);
		e->probe = 2 * e->probe < PROBE_MOST ? 2 * e->probe : PROBE_MOST;
		enter(e, WEIR_TRANSMIT_PROBE);
	} else {
		e->probe = PROBE_LEAST;
		enter(e, WEIR_TRANSMIT_DRAIN);
	}
}

static void drained(weir_transmit_estimate *e, const weir_transmit_sample *sample, bool delayed)
{
	bool all = all_delayed(sample);
	/* Sockets still send what they were given before the limit began. That ends, and is nobody else. */
	if (sample->delivered_per_s > EMPTYING * sample->taken_per_s && e->in_phase > 1)
		e->in_phase--;
	if (all && falls_short(e)) {
		back_off(e, sample);
		return;
	}
	if (delayed && e->in_phase < (all ? DRAIN_ALL_MOST : DRAIN_MOST)) {
		if (all && e->drain > DRAIN_LEAST)
			e->drain -= DRAIN_DEEPER;
		return;
	}
	if (delayed && all) {
		give_up(e, sample->now_ns);
		return;
	}
	e->delayed = 0;
	forget(e);
	enter(e, WEIR_TRANSMIT_CRUISE);
}

/* It has held for some intervals. The first time, it is what later ones are held against. */
static void begin_probe(weir_transmit_estimate *e)
{
	if (!e->tested)
		e->entry_per_s = e->link_per_s;
	e->tested = true;
	e->fresh = false;
	forget(e);
	enter(e, WEIR_TRANSMIT_PROBE);
}

static void step_busy(weir_transmit_estimate *e, const weir_transmit_sample *sample)
{
	bool delayed = 2 * sample->delayed > sample->progressed;
	e->busy_ns = sample->now_ns;
	e->in_phase++;
	e->delayed = delayed ? e->delayed + 1 : 0;
	note(e, sample);
	switch (e->phase) {
	case WEIR_TRANSMIT_OPEN:
		if (!delayed || sample->now_ns < e->rival_ns)
			forget(e);
		else if (e->delayed >= OPEN_DELAYED)
			begin_limit(e);
		break;
	case WEIR_TRANSMIT_CRUISE:
		if (delayed && falls_short(e)) {
			back_off(e, sample);
		} else if (e->delayed >= STANDING_MOST && all_delayed(sample)) {
			lower(e, STANDING_FALL * e->link_per_s, sample->now_ns);
		} else if (e->in_phase >= (e->fresh ? FRESH_AFTER : PROBE_EVERY)) {
			begin_probe(e);
		}
		break;
	case WEIR_TRANSMIT_PROBE:
		probed(e, sample);
		break;
	case WEIR_TRANSMIT_DRAIN:
		drained(e, sample, delayed);
		break;
	}
}

/* Slow clients have queues of their own. So most round trips are enough only if the limit is far from what arrives. */
static bool is_without_effect(const weir_transmit_estimate *e, const weir_transmit_sample *sample)
{
	if (all_delayed(sample))
		return true;
	return 2 * sample->delayed > sample->progressed &&
	       sample->delivered_per_s < BLOCKED_PART * CRUISE_AT * e->link_per_s;
}

/* Less is sent than may be, since the network takes no more. */
static void step_blocked(weir_transmit_estimate *e, const weir_transmit_sample *sample)
{
	unsigned blocked = e->blocked + 1;
	e->busy_ns = sample->now_ns;
	if (e->phase != WEIR_TRANSMIT_CRUISE || !is_without_effect(e, sample)) {
		forget(e);
		if (e->phase != WEIR_TRANSMIT_CRUISE)
			enter(e, WEIR_TRANSMIT_CRUISE);
		return;
	}
	note(e, sample);
	e->blocked = blocked;
	if (blocked >= (all_delayed(sample) ? BLOCKED_MOST : BLOCKED_MANY))
		back_off(e, sample);
}

/* Nothing is learnt: an unfinished probe does not count, and a limit that nobody needs ends. */
static void step_idle(weir_transmit_estimate *e, uint64_t now_ns)
{
	forget(e);
	e->delayed = 0;
	if (e->phase == WEIR_TRANSMIT_OPEN)
		return;
	if (e->busy_ns == 0)
		e->busy_ns = now_ns;
	if (now_ns - e->busy_ns > UNUSED_NS)
		reopen(e);
	else if (e->phase != WEIR_TRANSMIT_CRUISE)
		enter(e, WEIR_TRANSMIT_CRUISE);
}

static double pace(const weir_transmit_estimate *e)
{
	switch (e->phase) {
	case WEIR_TRANSMIT_CRUISE:
		return CRUISE_AT * e->link_per_s;
	case WEIR_TRANSMIT_PROBE:
		return (1 + e->probe) * e->link_per_s;
	case WEIR_TRANSMIT_DRAIN:
		return e->drain * e->link_per_s;
	default:
		return 0;
	}
}

/* We were slow ourselves, or what threads have told does not fit together. */
static bool is_off(const weir_transmit_estimate *e, const weir_transmit_sample *sample)
{
	double wanted = pace(e);
	return wanted > 0 &&
	       (sample->taken_per_s < OFF_LEAST * wanted || sample->taken_per_s > OFF_MOST * wanted);
}

static void step_unless_off(weir_transmit_estimate *e, const weir_transmit_sample *sample)
{
	if (!is_off(e, sample)) {
		e->off = 0;
		step_busy(e, sample);
		return;
	}
	e->busy_ns = sample->now_ns;
	if (++e->off >= OFF_MOST_ROW)
		reopen(e);
}

/* Whether the estimate was raised to what a crowded uplink carried in two intervals. */
static bool learn_carried(weir_transmit_estimate *e, const weir_transmit_sample *sample)
{
	double before = e->carried, now = all_delayed(sample) ? sample->delivered_per_s : 0;
	e->carried = now;
	if (e->phase != WEIR_TRANSMIT_CRUISE && e->phase != WEIR_TRANSMIT_DRAIN)
		return false;
	double carried = before < now ? before : now;
	if (sample->windowed || carried < CARRIED_MORE * e->link_per_s)
		return false;
	e->link_per_s = carried;
	if (e->link_per_s > e->entry_per_s)
		e->entry_per_s = e->link_per_s;
	e->stuck = 0;
	e->busy_ns = sample->now_ns;
	forget(e);
	enter(e, WEIR_TRANSMIT_DRAIN);
	return true;
}

double weir_transmit_estimate_step(weir_transmit_estimate *e, const weir_transmit_sample *sample)
{
	if (learn_carried(e, sample))
		return pace(e);
	if (sample->busy && !sample->windowed && sample->progressed > 0)
		step_unless_off(e, sample);
	else if (sample->blocked && !sample->windowed && e->phase != WEIR_TRANSMIT_OPEN)
		step_blocked(e, sample);
	else
		step_idle(e, sample->now_ns);
	return pace(e);
}
