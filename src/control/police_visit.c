/* SPDX-License-Identifier: Apache-2.0 */
/* `batch`: the visits, and the delays between them. police_batch.c has the rest of the law. */
#include <math.h>

#include "control/police.h"

#define GET(x)    atomic_load_explicit(&(x), memory_order_relaxed)
#define PUT(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)

#define DELAY_PART   .25 /* part of the target that computed delays may take */
#define IN_USE_PER_S .05 /* a class with fewer arrivals is not in use */

/* ---- visits ---- */

/* Returns whether the bucket passed, or was empty. */
static bool visit_bucket(weir_police *police, unsigned klass, unsigned bucket)
{
	uint32_t count = weir_ledger_fresh(&police->ledger, klass, bucket);
	if (count == 0)
		return true;
	bool passed = weir_police_fits(police, klass, bucket, count, GET(police->delay_ns[klass]));
	weir_ledger_decide(&police->ledger, klass, bucket, count, passed);
	return passed;
}

/* From small to large. Bucket 0 has its turn before the first that is larger than the class's mean. */
static bool visit_buckets(weir_police *police, unsigned klass)
{
	double mean_s = weir_police_gauge_service_s(&police->gauge, klass);
	bool passed = true, had_mean = false;
	for (unsigned bucket = 1; bucket <= police->buckets; bucket++) {
		if (!had_mean && police->bucket_s[bucket] > mean_s) {
			passed &= visit_bucket(police, klass, 0);
			had_mean = true;
		}
		passed &= visit_bucket(police, klass, bucket);
	}
	return (had_mean || visit_bucket(police, klass, 0)) && passed;
}

static uint32_t fresh_of(const weir_police *police, unsigned klass)
{
	uint32_t count = 0;
	for (unsigned bucket = 0; bucket <= police->buckets; bucket++)
		count += weir_ledger_fresh(&police->ledger, klass, bucket);
	return count;
}

/* A more important class has failed. */
static void refuse_all(weir_police *police, unsigned klass)
{
	for (unsigned bucket = 0; bucket <= police->buckets; bucket++) {
		uint32_t count = weir_ledger_fresh(&police->ledger, klass, bucket);
		if (count != 0)
			weir_ledger_decide(&police->ledger, klass, bucket, count, false);
	}
}

/* Whether requests of the class were turned away since its last visit: they would have failed now. */
static bool take_turned_away(weir_police *police, unsigned klass)
{
	uint32_t bit = 1u << klass;
	return (GET(police->turned_away) & bit) != 0 &&
	       (atomic_fetch_and_explicit(&police->turned_away, ~bit, memory_order_relaxed) & bit) != 0;
}

/* hopeless: a more important class has failed. Returns whether this one passed. */
static bool visit_class(weir_police *police, unsigned klass, bool hopeless)
{
	bool turned_away = take_turned_away(police, klass), passed = false;
	if (hopeless)
		refuse_all(police, klass);
	else
		passed = visit_buckets(police, klass) && !turned_away;
	weir_police_gauge_tested(&police->gauge, klass, passed);
	return passed;
}

/* Whether a visit of the class has something to judge. */
static bool has_fresh(const weir_police *police, unsigned klass)
{
	return (GET(police->turned_away) >> klass & 1) != 0 ||
	       (weir_ledger_waiting(&police->ledger, klass) > 0 && fresh_of(police, klass) != 0);
}

/* The least important class that is due and has something to judge; -1: none. */
static int last_due(const weir_police *police, uint64_t now_ns)
{
	for (int k = WEIR_CLASSES - 1; k >= 0; k--)
		if (now_ns >= GET(police->next_visit_ns[k]) && has_fresh(police, (unsigned)k))
			return k;
	return -1;
}

/* failed: the classes that have failed now, as bits. They keep their room for one target. */
static void press(weir_police *police, uint32_t failed, uint64_t now_ns)
{
	uint32_t pressed = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		if (failed >> k & 1)
			police->pressed_until_ns[k] = now_ns + weir_police_gauge_target_ns(&police->gauge, k);
		pressed |= (uint32_t)(now_ns < police->pressed_until_ns[k]) << k;
	}
	if (pressed != GET(police->pressed))
		PUT(police->pressed, pressed);
}

/* Visits what is due, down to class `last`; below it only what a failure above makes hopeless. */
static void visit_until(weir_police *police, int last, uint64_t now_ns)
{
	uint32_t failed = atomic_exchange_explicit(&police->failed, 0, memory_order_relaxed);
	for (int k = 0; k < WEIR_CLASSES; k++) {
		bool hopeless = (failed & ((1u << k) - 1)) != 0;
		if (!has_fresh(police, (unsigned)k) || (k > last && !hopeless))
			continue;
		if (!visit_class(police, (unsigned)k, hopeless))
			failed |= 1u << k;
		PUT(police->next_visit_ns[k], now_ns + GET(police->delay_ns[k]));
	}
	press(police, failed, now_ns);
}

void weir_police_visit_all(weir_police *police, uint64_t now_ns)
{
	visit_until(police, WEIR_CLASSES - 1, now_ns);
}

/* ---- delays ---- */

/* The classes in use, in the order of importance; returns how many. */
static unsigned classes_in_use(const weir_police_gauge *gauge, unsigned in_use[WEIR_CLASSES])
{
	unsigned count = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		if (GET(gauge->rate[k]) > IN_USE_PER_S)
			in_use[count++] = k;
	return count;
}

static void describe(const weir_police_gauge *gauge, const unsigned *in_use, weir_delays_model *model)
{
	double all = 0, work = 0, failing = 0;
	for (unsigned i = 0; i < model->classes; i++) {
		weir_times_sum sum = {0};
		unsigned k = in_use[i];
		model->rate[i] = GET(gauge->rate[k]);
		model->filled[i] = GET(gauge->failing[k]);
		weir_times_sum_up(&sum, &gauge->times[k], 0);
		weir_delays_service(model, i, &sum);
		all += model->rate[i];
		work += model->rate[i] * weir_police_gauge_service_s(gauge, k);
		failing += model->rate[i] * model->filled[i];
	}
	if (!(work > 0))
		return;
	model->p_drop = failing / all;
	model->freed = weir_police_gauge_servers(gauge) * all / work;
	model->places = (double)weir_police_gauge_target_ns(gauge, in_use[0]) / 1e9 * all / work;
}

/* Classes that are not in use have the delay of the next one above, so that it never falls. */
static void compute_delays(weir_police *police)
{
	unsigned in_use[WEIR_CLASSES];
	weir_delays_model model = {.classes = classes_in_use(&police->gauge, in_use)};
	double delay_s[WEIR_CLASSES], now_s = 0, target_ns = INFINITY;
	describe(&police->gauge, in_use, &model);
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		target_ns = fmin(target_ns, (double)weir_police_gauge_target_ns(&police->gauge, k));
	weir_delays_solve(&model, police->epsilon, DELAY_PART * target_ns / 1e9, delay_s);
	for (unsigned k = 0, i = 0; k < WEIR_CLASSES; k++) {
		if (i < model.classes && in_use[i] == k)
			now_s = delay_s[i++];
		/* A delay below a tick is none. */
		PUT(police->delay_ns[k], now_s * 1e9 < WEIR_POLICE_TICK_NS ? 0 : (uint64_t)(now_s * 1e9));
	}
}

void weir_police_tick(void *state, const weir_sample *sample)
{
	weir_police *police = state;
	bool period = weir_police_gauge_tick(&police->gauge, sample);
	if (period && police->auto_delays)
		compute_delays(police);
	if (period && GET(police->by_threshold))
		weir_cut_set(&police->cut, &police->gauge);
	visit_until(police, last_due(police, sample->now_ns), sample->now_ns);
	if (police->early)
		weir_police_foresee(police, sample->now_ns);
}
