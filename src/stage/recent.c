/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stage measured in the last seconds. Its histograms only grow, so a ring keeps what they were at the
 * last few steps, and the difference between now and the oldest is what was measured since.
 *
 * A ring is made when somebody asks for the first time, since not all are looked at. From then on the controller
 * turns it. While the controller pauses, nothing is measured; whoever turns the ring next makes up for the
 * steps left out. All under control_lock.
 *
 * A histogram has 10 KB, most of them zero: the times of a stage are within a few octaves. So what it was is kept
 * from its first bucket that is not zero to its last.
 */
#include <weir/inspect.h>

#include "base/mem.h"
#include "stage/runtime.h"

#define SLOTS   5u
#define STEP_NS (2 * WEIR_NS_PER_S)

/* What was measured until some time. Steps at which nothing was measured share one. */
typedef struct past {
	unsigned uses;
	unsigned from, count; /* buckets; all others are 0 */
	uint64_t bucket[];
} past;

struct weir_recent_ring {
	unsigned oldest;
	uint64_t turned_ns; /* the last step */
	past *past[SLOTS];  /* NULL: nothing had been measured */
};

static uint64_t in_bucket(const weir_hist *hist, unsigned index)
{
	return atomic_load_explicit(&hist->bucket[index], memory_order_relaxed);
}

/* NULL: out of memory. */
static past *keep(const weir_hist *hist)
{
	unsigned from = 0, to = WEIR_HIST_BUCKETS;
	while (from < to && in_bucket(hist, from) == 0)
		from++;
	while (to > from && in_bucket(hist, to - 1) == 0)
		to--;
	past *kept = weir_mem_zalloc(sizeof(*kept) + (to - from) * sizeof(kept->bucket[0]));
	if (kept == NULL)
		return NULL;
	kept->from = from;
	kept->count = to - from;
	for (unsigned i = 0; i < kept->count; i++)
		kept->bucket[i] = in_bucket(hist, from + i);
	return kept;
}

static void drop(past *kept)
{
	if (kept != NULL && --kept->uses == 0)
		weir_mem_free(kept);
}

static void subtract(weir_hist *from, const past *kept)
{
	for (unsigned i = 0; kept != NULL && i < kept->count; i++)
		weir_hist_bump(&from->bucket[kept->from + i], -kept->bucket[i]);
}

/*
 * `now`: what has been measured until now_ns. The clock of another thread may be behind. Without memory the ring stays
 * as it is, and what is recent is older than it should be.
 */
static void turn(struct weir_recent_ring *ring, const weir_hist *now, uint64_t now_ns)
{
	uint64_t steps = now_ns > ring->turned_ns ? (now_ns - ring->turned_ns) / STEP_NS : 0;
	past *kept = steps > 0 ? keep(now) : NULL;
	for (uint64_t i = 0; kept != NULL && i < steps && i < SLOTS; i++) {
		drop(ring->past[ring->oldest]);
		ring->past[ring->oldest] = kept;
		kept->uses++;
		ring->oldest = (ring->oldest + 1) % SLOTS;
	}
	ring->turned_ns += steps * STEP_NS;
}

/* A ring of zeros that was last turned when the stage was made: nothing had been measured by then. */
static struct weir_recent_ring *ring_of_locked(weir_stage *stage, unsigned klass, weir_measure measure)
{
	struct weir_recent_ring **ring = &stage->recent[klass][measure];
	if (*ring != NULL)
		return *ring;
	*ring = weir_mem_zalloc(sizeof(**ring));
	if (*ring == NULL)
		return NULL;
	(*ring)->turned_ns = stage->born_ns;
	stage->recent_rings++;
	weir_control_wake_locked(stage->world);
	if (stage->world->sim != NULL && atomic_load(&stage->world->phase) == WEIR_PHASE_RUNNING)
		weir_sim_start(stage->world);
	return *ring;
}

static bool recent_locked(weir_stage *stage, unsigned klass, weir_measure measure, weir_hist *ret_recent)
{
	struct weir_recent_ring *ring = ring_of_locked(stage, klass, measure);
	if (ring == NULL)
		return false;
	weir_stage_measured(stage, klass, measure, ret_recent);
	turn(ring, ret_recent, weir_world_now(stage->world));
	subtract(ret_recent, ring->past[ring->oldest]);
	return true;
}

uint64_t weir_stage_recent(weir_stage *stage, unsigned klass, weir_measure measure, const double *quantiles,
			   uint64_t *ret_ns, size_t count)
{
	weir_hist recent;
	if ((unsigned)measure >= WEIR_MEASURES)
		return 0;
	weir_visit visit = weir_visit_begin(stage->world);
	pthread_mutex_lock(&stage->world->control_lock);
	bool known = recent_locked(stage, klass < WEIR_CLASSES ? klass : WEIR_ALL_CLASSES, measure, &recent);
	pthread_mutex_unlock(&stage->world->control_lock);
	weir_visit_end(&visit);
	for (size_t i = 0; i < count; i++)
		ret_ns[i] = known ? weir_hist_quantile(&recent, quantiles[i]) : 0;
	return known ? weir_hist_count(&recent) : 0;
}

uint64_t weir_recent_tick_locked(weir_stage *stage, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;
	weir_hist now;
	for (unsigned at = 0; stage->recent_rings != 0 && at < (WEIR_CLASSES + 1) * WEIR_MEASURES; at++) {
		unsigned klass = at / WEIR_MEASURES, measure = at % WEIR_MEASURES;
		struct weir_recent_ring *ring = stage->recent[klass][measure];
		if (ring == NULL)
			continue;
		if (now_ns >= ring->turned_ns + STEP_NS) {
			weir_stage_measured(stage, klass, (weir_measure)measure, &now);
			turn(ring, &now, now_ns);
		}
		next = ring->turned_ns + STEP_NS < next ? ring->turned_ns + STEP_NS : next;
	}
	return next;
}

static void free_ring(struct weir_recent_ring *ring)
{
	for (unsigned i = 0; ring != NULL && i < SLOTS; i++)
		drop(ring->past[i]);
	weir_mem_free(ring);
}

void weir_recent_free(weir_stage *stage)
{
	for (unsigned klass = 0; klass <= WEIR_CLASSES; klass++)
		for (unsigned measure = 0; measure < WEIR_MEASURES; measure++)
			free_ring(stage->recent[klass][measure]);
}
