/* SPDX-License-Identifier: Apache-2.0 */
#include "control/backlog.h"

#include <string.h>

#define GET(x)    atomic_load_explicit(&(x), memory_order_relaxed)
#define PUT(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)

#define SHIFT_LEAST 14 /* slices of 16 us: no target needs shorter ones */
#define SHIFT_MOST  40
#define SHIFT_FIRST 26 /* until a target is known: 67 ms, 8 s ahead */
/* Part of the pool that a class is assumed to get, whatever the classes above it take. */
#define LEFT_LEAST .02f

void weir_backlog_init(weir_backlog *backlog)
{
	memset(backlog, 0, sizeof(*backlog));
	PUT(backlog->shift, SHIFT_FIRST);
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		PUT(backlog->pace[k], 1);
}

static bool is_empty(const weir_backlog *backlog)
{
	uint64_t sum = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		sum += GET(backlog->total[k]);
	return sum == 0;
}

void weir_backlog_reach(weir_backlog *backlog, uint64_t longest_ns, uint64_t now_ns)
{
	uint32_t shift = SHIFT_LEAST;
	while (shift < SHIFT_MOST && (uint64_t)(WEIR_BACKLOG_SLICES - 2) << shift < longest_ns)
		shift++;
	if (shift == GET(backlog->shift) || !is_empty(backlog))
		return;
	PUT(backlog->shift, shift);
	PUT(backlog->first, (uint32_t)(now_ns >> shift));
}

/* ---- slices ---- */

static void change(_Atomic uint64_t *sum, uint64_t by)
{
	PUT(*sum, GET(*sum) + by);
}

/* Work that was due in slices that have passed becomes overdue. */
static void advance(weir_backlog *backlog, uint32_t now)
{
	uint32_t first = GET(backlog->first);
	int32_t passed = (int32_t)(now - first);
	if (passed <= 0)
		return;
	for (int32_t i = 0; i < passed && i < WEIR_BACKLOG_SLICES; i++)
		for (unsigned k = 0; k < WEIR_CLASSES; k++) {
			_Atomic uint64_t *work =
				&backlog->work[k][(first + (uint32_t)i) % WEIR_BACKLOG_SLICES];
			if (GET(*work) == 0)
				continue;
			change(&backlog->overdue[k], GET(*work));
			PUT(*work, 0);
		}
	PUT(backlog->first, now);
}

static uint32_t slice_at(const weir_backlog *backlog, uint64_t ns)
{
	return (uint32_t)(ns >> GET(backlog->shift));
}

/*
 * Work that was due long ago goes to the slice before the first, work due beyond the last slice to the
 * last.
 */
uint32_t weir_backlog_add(weir_backlog *backlog, unsigned klass, uint64_t due_ns, uint64_t now_ns,
			  uint64_t work)
{
	uint32_t now = slice_at(backlog, now_ns), slice = slice_at(backlog, due_ns);
	advance(backlog, now);
	uint32_t first = GET(backlog->first);
	change(&backlog->total[klass], work);
	if (due_ns < now_ns || (int32_t)(slice - first) < 0) {
		change(&backlog->overdue[klass], work);
		return first - 1;
	}
	if (slice - first >= WEIR_BACKLOG_SLICES)
		slice = first + WEIR_BACKLOG_SLICES - 1;
	change(&backlog->work[klass][slice % WEIR_BACKLOG_SLICES], work);
	return slice;
}

void weir_backlog_remove(weir_backlog *backlog, unsigned klass, uint32_t slice, uint64_t work)
{
	bool passed = (int32_t)(slice - GET(backlog->first)) < 0;
	_Atomic uint64_t *from =
		passed ? &backlog->overdue[klass] : &backlog->work[klass][slice % WEIR_BACKLOG_SLICES];
	change(from, -work);
	change(&backlog->total[klass], -work);
}

/* ---- pace ---- */

void weir_backlog_disturbed(weir_backlog *backlog)
{
	backlog->failed = true;
}

void weir_backlog_started(weir_backlog *backlog, unsigned klass, uint64_t now_ns, uint64_t work,
			  uint32_t threads, bool saturated)
{
	if (backlog->saturated && !backlog->failed && now_ns >= backlog->last_ns) {
		backlog->pace_time += (double)(now_ns - backlog->last_ns) * threads;
		backlog->pace_work += (double)(work << WEIR_WORK_SHIFT);
		backlog->measured_ns = now_ns;
	}
	backlog->started[klass] += (double)work;
	backlog->last_ns = now_ns;
	backlog->saturated = saturated;
	backlog->failed = false;
}

/*
 * The pace of a class depends on what the classes above it leave of the pool. They take their share of what
 * was started if the pool is always busy, and otherwise what they are offered.
 */
static void set_paces(weir_backlog *backlog, double pace, const double load[WEIR_CLASSES])
{
	double all = 0, above = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		all += backlog->started[k];
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		double taken = all > 0 ? above / all : 0;
		double left = 1 - (k > 0 && load[k - 1] < taken ? load[k - 1] : taken);
		/* The classes above take capacity away only while the pool is busy. */
		if (!backlog->saturated || left > 1)
			left = 1;
		PUT(backlog->pace[k],
		    (float)(pace / (left > (double)LEFT_LEAST ? left : (double)LEFT_LEAST)));
		above += backlog->started[k];
	}
}

/* Limits the sums to at most this much time of the threads. */
static void fade(weir_backlog *backlog, double memory_ns)
{
	double time = backlog->pace_time, keep = time > memory_ns ? memory_ns / time : 1, all = 0;
	backlog->pace_time *= keep;
	backlog->pace_work *= keep;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		all += backlog->started[k];
	double most = memory_ns / (1 << WEIR_WORK_SHIFT);
	for (unsigned k = 0; all > most && k < WEIR_CLASSES; k++)
		backlog->started[k] *= most / all;
}

void weir_backlog_tick(weir_backlog *backlog, uint64_t now_ns, uint64_t memory_ns, uint32_t threads,
		       const double load[WEIR_CLASSES])
{
	advance(backlog, slice_at(backlog, now_ns));
	/*
	 * Nothing has been measured for long. A pace so slow that nobody may wait would never be measured
	 * again.
	 */
	if (now_ns > backlog->measured_ns + 4 * memory_ns)
		backlog->pace_time = backlog->pace_work = 0;
	bool known = backlog->pace_work > 0 && backlog->pace_time > 0;
	threads = threads > 0 ? threads : 1;
	set_paces(backlog, (known ? backlog->pace_time / backlog->pace_work : 1) / threads, load);
	fade(backlog, (double)memory_ns * threads);
}

/* ---- queries ---- */

static float time_of(const weir_backlog *backlog, unsigned klass, uint64_t work)
{
	return (float)(work << WEIR_WORK_SHIFT) * GET(backlog->pace[klass]);
}

/* Work of the class that is due before the offer. */
static uint64_t due_before(const weir_backlog *backlog, unsigned klass, uint64_t due_ns, uint64_t now_ns)
{
	uint32_t shift = GET(backlog->shift), first = GET(backlog->first);
	uint32_t mine = (uint32_t)(due_ns >> shift) - first;
	uint64_t sum = GET(backlog->overdue[klass]);
	if (due_ns < now_ns || (int32_t)mine < 0)
		return sum;
	for (uint32_t i = 0; i < mine && i < WEIR_BACKLOG_SLICES; i++)
		sum += GET(backlog->work[klass][(first + i) % WEIR_BACKLOG_SLICES]);
	if (mine >= WEIR_BACKLOG_SLICES)
		return sum;
	float part = (float)(due_ns & ((UINT64_C(1) << shift) - 1)) / (float)(UINT64_C(1) << shift);
	return sum +
	       (uint64_t)((float)GET(backlog->work[klass][(first + mine) % WEIR_BACKLOG_SLICES]) * part);
}

/* Usually so little waits that all of it is done long before the offer is due, in any order. */
void weir_backlog_look(const weir_backlog *backlog, unsigned klass, uint64_t due_ns, uint64_t now_ns,
		       uint64_t *ret_ahead_ns, uint64_t *ret_total_ns)
{
	uint64_t above = 0;
	for (unsigned k = 0; k < klass; k++)
		above += GET(backlog->total[k]);
	float all = time_of(backlog, klass, above + GET(backlog->total[klass]));
	*ret_ahead_ns = *ret_total_ns = (uint64_t)all;
	if (due_ns <= now_ns || 4 * all > (float)(due_ns - now_ns))
		*ret_ahead_ns =
			(uint64_t)time_of(backlog, klass, above + due_before(backlog, klass, due_ns, now_ns));
}

double weir_backlog_fill(const weir_backlog *backlog, uint64_t now_ns)
{
	uint32_t shift = GET(backlog->shift), first = GET(backlog->first);
	uint64_t end_ns = ((now_ns >> shift) + 1) << shift, before = 0;
	float worst = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; before += GET(backlog->total[k++])) {
		uint64_t sum = before + GET(backlog->overdue[k]);
		if (GET(backlog->total[k]) == 0)
			continue;
		for (uint32_t i = 0; i < WEIR_BACKLOG_SLICES; i++) {
			uint64_t work = GET(backlog->work[k][(first + i) % WEIR_BACKLOG_SLICES]);
			float until = (float)(end_ns - now_ns + ((uint64_t)i << shift));
			sum += work;
			if (work != 0 && time_of(backlog, k, sum) > worst * until)
				worst = time_of(backlog, k, sum) / until;
		}
	}
	return (double)worst;
}
