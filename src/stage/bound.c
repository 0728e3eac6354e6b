/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exact bound on the events in service in several stages and all their threads. No lane is starved.
 *
 *	             take (free ones)                 give: somebody waits
 *	free places ─────────────────▶ in service ─────────────────────▶ granted to that lane ─▶ in service
 *	     ▲                             │ give: nobody waits                │ it cannot use it
 *	     └─────────────────────────────┴───────────────────────────────────┘
 *
 * Shares per thread would be simpler; a lane's own `concurrency` has them. But they are not exact if the
 * number of threads does not divide the bound, and a thread with work would wait beside one without. First
 * come, first served would be unfair: the thread that gives a place back is already running, the others have
 * to be woken. So a place that becomes free is granted to the waiting lanes in turn.
 *
 * Invariants: `taken` counts the places in service and those granted. It exceeds `most` only after `most` was
 * lowered, or through weir_offer_held, whose work has begun before the bound is asked. Then places that come
 * back are not given out again.
 *
 * No place is idle while a lane wants it. A lane says that it wants one, then looks for a free one. Whoever
 * gives one back makes it free, then looks for lanes that want one. All of this is sequentially consistent,
 * so one of the two sees the other. A lane says so only if it has something that nothing but this bound keeps
 * from starting. A granted place that turns out not to be usable is passed on.
 *
 * Threads: any. The lock is for stages that come and go. The table has holes; walk it in a section (grace.h).
 */
#include <errno.h>

#include "base/error.h"
#include "base/mem.h"
#include "stage/runtime.h"

struct weir_bound {
	/* any thread */
	_Atomic uint32_t most, taken;
	_Atomic uint32_t turn; /* the search for waiting lanes begins after this one */
	_Atomic uint32_t stage_count;
	_Atomic(weir_stage *) stages[WEIR_STAGES_MAX];
	/* stages that come and go */
	pthread_mutex_t lock;
};

int weir_bound_new(uint32_t most, weir_bound **ret_bound)
{
	if (most == 0)
		return weir_error_set(-EINVAL, "a bound of 0 lets nothing start; expected 1 or more");
	weir_bound *bound = weir_mem_zalloc(sizeof(*bound));
	if (bound == NULL)
		return weir_error_set(-ENOMEM, "bound: out of memory");
	atomic_init(&bound->most, most);
	pthread_mutex_init(&bound->lock, NULL);
	*ret_bound = bound;
	return 0;
}

void weir_bound_free(weir_bound **where)
{
	weir_bound *bound = *where;
	if (bound == NULL)
		return;
	*where = NULL;
	pthread_mutex_destroy(&bound->lock);
	weir_mem_free(bound);
}

void weir_bound_enlist(weir_bound *bound, weir_stage *stage)
{
	pthread_mutex_lock(&bound->lock);
	uint32_t count = atomic_load(&bound->stage_count), at = 0;
	while (at < count && atomic_load(&bound->stages[at]) != NULL)
		at++;
	atomic_store(&bound->stages[at], stage);
	if (at == count)
		atomic_store(&bound->stage_count, count + 1);
	pthread_mutex_unlock(&bound->lock);
}

void weir_bound_delist(weir_bound *bound, const weir_stage *stage)
{
	pthread_mutex_lock(&bound->lock);
	for (uint32_t i = 0; i < atomic_load(&bound->stage_count); i++)
		if (atomic_load(&bound->stages[i]) == stage)
			atomic_store(&bound->stages[i], NULL);
	pthread_mutex_unlock(&bound->lock);
}

uint32_t weir_bound_most(const weir_bound *bound)
{
	return atomic_load_explicit(&bound->most, memory_order_relaxed);
}

uint32_t weir_bound_inside(const weir_bound *bound)
{
	return atomic_load_explicit(&bound->taken, memory_order_relaxed);
}

/* ---- taking ---- */

static uint32_t take_free(weir_bound *bound, uint32_t wanted)
{
	uint32_t taken = atomic_load(&bound->taken), most = atomic_load(&bound->most), got;
	do {
		uint32_t left = taken < most ? most - taken : 0;
		got = wanted < left ? wanted : left;
	} while (got != 0 && !atomic_compare_exchange_weak(&bound->taken, &taken, taken + got));
	return got;
}

static uint32_t take_granted(weir_lane *lane, uint32_t wanted)
{
	uint32_t granted = atomic_load(&lane->granted), got;
	do
		got = wanted < granted ? wanted : granted;
	while (got != 0 && !atomic_compare_exchange_weak(&lane->granted, &granted, granted - got));
	return got;
}

bool weir_bound_open(const weir_lane *lane)
{
	const weir_bound *bound = lane->stage->options.bound;
	return bound == NULL || atomic_load(&lane->granted) != 0 ||
	       atomic_load(&bound->taken) < atomic_load(&bound->most);
}

uint32_t weir_bound_take(weir_lane *lane, uint32_t wanted)
{
	weir_bound *bound = lane->stage->options.bound;
	if (bound == NULL)
		return wanted;
	uint32_t got = take_granted(lane, wanted);
	return got + take_free(bound, wanted - got);
}

void weir_bound_force(const weir_lane *lane)
{
	if (lane->stage->options.bound != NULL)
		atomic_fetch_add(&lane->stage->options.bound->taken, 1);
}

/* ---- giving back ---- */

/* NULL: a stage was retired since the lanes were counted. */
static weir_lane *lane_at(const weir_bound *bound, uint32_t at)
{
	for (uint32_t i = 0; i < atomic_load(&bound->stage_count); i++) {
		weir_stage *stage = atomic_load(&bound->stages[i]);
		uint32_t lanes = stage != NULL ? stage->lane_count : 0;
		if (at < lanes)
			return &stage->lanes[at];
		at -= lanes;
	}
	return NULL;
}

static uint32_t count_lanes(const weir_bound *bound)
{
	uint32_t lanes = 0;
	for (uint32_t i = 0; i < atomic_load(&bound->stage_count); i++) {
		const weir_stage *stage = atomic_load(&bound->stages[i]);
		lanes += stage != NULL ? stage->lane_count : 0;
	}
	return lanes;
}

static bool somebody_wants(const weir_bound *bound)
{
	for (uint32_t i = 0; i < atomic_load(&bound->stage_count); i++) {
		const weir_stage *stage = atomic_load(&bound->stages[i]);
		for (uint32_t k = 0; stage != NULL && k < stage->lane_count; k++)
			if (atomic_load(&stage->lanes[k].wants))
				return true;
	}
	return false;
}

/* Grants a place that is already taken to the next lane, in turn, that wants one. False: none does. */
static bool grant(weir_bound *bound, weir_thread *self)
{
	uint32_t lanes = count_lanes(bound), turn = atomic_load(&bound->turn);
	for (uint32_t i = 1; i <= lanes; i++) {
		weir_lane *lane = lane_at(bound, (turn + i) % lanes);
		if (lane == NULL || !atomic_load(&lane->wants) || !atomic_exchange(&lane->wants, false))
			continue;
		atomic_store(&bound->turn, (turn + i) % lanes);
		atomic_fetch_add(&lane->granted, 1);
		weir_lane_kick(lane, self);
		return true;
	}
	return false;
}

static void grant_free(weir_bound *bound, weir_thread *self)
{
	while (somebody_wants(bound) && take_free(bound, 1) != 0)
		if (!grant(bound, self))
			/* another thread was first; the loop looks again for lanes that want a place */
			atomic_fetch_sub(&bound->taken, 1);
}

static void give(weir_bound *bound, uint32_t count, weir_thread *self)
{
	while (count != 0 && atomic_load(&bound->taken) <= atomic_load(&bound->most) && grant(bound, self))
		count--;
	if (count == 0)
		return;
	atomic_fetch_sub(&bound->taken, count);
	grant_free(bound, self);
}

void weir_bound_give(weir_lane *lane, uint32_t count, weir_thread *self)
{
	if (lane->stage->options.bound != NULL && count != 0)
		give(lane->stage->options.bound, count, self);
}

void weir_bound_clear(weir_stage *stage)
{
	weir_bound *bound = stage->options.bound;
	for (uint32_t i = 0; bound != NULL && i < stage->lane_count; i++) {
		uint32_t granted = atomic_exchange(&stage->lanes[i].granted, 0);
		if (granted != 0)
			give(bound, granted, NULL);
	}
}

bool weir_bound_wait(weir_lane *lane, bool could_start, weir_thread *self)
{
	weir_bound *bound = lane->stage->options.bound;
	if (bound == NULL)
		return false;
	if (!could_start) {
		atomic_store(&lane->wants, false);
		if (atomic_load(&lane->granted) != 0)
			give(bound, atomic_exchange(&lane->granted, 0), self);
		return false;
	}
	atomic_store(&lane->wants, true);
	if (!weir_bound_open(lane))
		return false;
	atomic_store(&lane->wants, false);
	return true;
}

void weir_bound_set(weir_bound *bound, uint32_t most)
{
	atomic_store(&bound->most, most != 0 ? most : 1);
	grant_free(bound, NULL);
}
