/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_KNAPSACK_H
#define WEIR_CONTROL_KNAPSACK_H

/*
 * A fractional knapsack over what is offered, filled greedily: who earns most per unit of work comes first.
 * For `value`.
 *
 * Offers are counted by their price (revenue per unit of work), in buckets of a quarter of an octave. Once
 * per tick the work offered is added up, from the dearest bucket down, until the capacity is reached. That
 * gives each bucket its share of the room:
 *
 *  dear       all that is offered down to here fits: the whole room
 *  marginal   the capacity is reached in this bucket: a part of the room, so that the dear ones find some
 *             (less if nine tenths of the capacity were reached above it)
 *  close      it was reached a little above: half of that part or less, so that an error in the capacity
 *             leaves nothing idle
 *  cheap      nothing
 *
 * The room says when the backend is full, so a marginal bucket gets in as often as there is room: smoothly,
 * and no request is refused while the backend has nothing to do.
 *
 * Threads: any thread may call offer and share; one at a time calls tick and clear. A count may be read
 * while it changes: then it is in the next tick's.
 */

#include <stdatomic.h>
#include <stdint.h>

#define WEIR_KNAPSACK_BUCKETS 128

typedef struct weir_knapsack {
	/* any thread writes */
	_Alignas(64) _Atomic uint64_t offered[WEIR_KNAPSACK_BUCKETS]; /* work, ever */
	_Atomic uint64_t first; /* work that comes before all others, ever */
	/* any thread reads; the tick writes */
	_Alignas(64) _Atomic float share[WEIR_KNAPSACK_BUCKETS];
	/* the tick */
	uint64_t seen[WEIR_KNAPSACK_BUCKETS], seen_first;
	double lately[WEIR_KNAPSACK_BUCKETS], lately_first; /* sums that fade */
	unsigned marginal;                                  /* the bucket in which the capacity is reached */
} weir_knapsack;

/* All have the whole room, until a tick says otherwise. */
void weir_knapsack_init(weir_knapsack *k);

/* The bucket for what costs so many times as much per revenue as the dearest there can be. */
unsigned weir_knapsack_bucket(double times);
/* The other way round, for reports: the middle of the bucket. */
double weir_knapsack_times(unsigned bucket);

static inline void weir_knapsack_offer(weir_knapsack *k, unsigned bucket, uint64_t work)
{
	atomic_fetch_add_explicit(&k->offered[bucket], work, memory_order_relaxed);
}

/* Work that is admitted at any price. */
static inline void weir_knapsack_first(weir_knapsack *k, uint64_t work)
{
	atomic_fetch_add_explicit(&k->first, work, memory_order_relaxed);
}

/* The share of the room that this bucket may fill; 0: none. */
static inline double weir_knapsack_share(const weir_knapsack *k, unsigned bucket)
{
	return (double)atomic_load_explicit(&k->share[bucket], memory_order_relaxed);
}

/* Counts what was offered since the last tick. keep: the factor by which what was counted before fades. */
void weir_knapsack_count(weir_knapsack *k, double keep);
/*
 * Sets the shares. capacity: work that can be done, counted and faded as the offers are. part: the marginal
 * bucket's.
 */
void weir_knapsack_fill(weir_knapsack *k, double capacity, double part);
/* The work that was offered lately, counted and faded. */
double weir_knapsack_offered(const weir_knapsack *k);
/* Forgets what was offered; all have the whole room. */
void weir_knapsack_clear(weir_knapsack *k);

#endif
