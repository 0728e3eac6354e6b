/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cataclysm 3.1 and 3.2: policing in batches. Requests of class k wait in their class's queue and are judged
 * at visits, d_k apart. Each class has buckets of service time. A visit makes one test per bucket that is not
 * empty, for all requests in it:
 *
 *  Q + (eta + ceil(beta / n)) S <= R - d_k        (4)
 *
 * beta   requests of the bucket that wait for this visit
 * S      service time that stands for the bucket: the middle of its range; bucket 0: the mean of the class
 * eta    requests in service per server, those let go and not yet started included
 * n, Q   servers, and the time that a request waits there before it is served
 * R      the class's target
 *
 * If the test holds, all of them may start, and eta is larger in the next test. Otherwise all are dropped.
 *
 *  - A class with d = 0 has no visits: each request is judged when it comes.
 *  - A visit begins with all more important classes, whether they are due or not. Otherwise places that
 *    became free since their last visit would go to a less important class, though more important requests wait.
 *  - A class fails if a test of one of its buckets fails. What waits in less important classes is then
 *    refused without a test, at the latest one tick later. What comes after that is judged by its own test.
 *  - While requests of a class are refused, and for one target after that, lesser classes leave room for one
 *    of them.
 *  - A visit lasts until its requests are taken from the queues. A fresh request that has its turn meanwhile
 *    (in the queue of another thread, or when the stage stops) is judged by a test of its own.
 *  - With `order = fifo` all requests of a class are in bucket 0.
 *
 * A visit costs O(buckets x classes). The numbers that tests need are counters; no request is touched.
 */
#include <math.h>
#include <string.h>

#include "control/aimd_core.h"
#include "control/police.h"

#define GET(x)    atomic_load_explicit(&(x), memory_order_relaxed)
#define PUT(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)

#define FIRST_EXPONENT 6 /* service times below 64 us are in the first bucket */
#define PARTS          4 /* steps per octave */

/* ---- buckets ---- */

/* The step of a service time in us. */
static unsigned step_of(uint64_t us)
{
	if (us >> FIRST_EXPONENT == 0)
		return 0;
	unsigned exponent = 63 - (unsigned)__builtin_clzll(us);
	unsigned step = (exponent - FIRST_EXPONENT) * PARTS + (unsigned)(us >> (exponent - 2) & (PARTS - 1));
	return step < WEIR_POLICE_FINE ? step : WEIR_POLICE_FINE - 1;
}

/* The lower end of a step, in seconds. */
static double step_from_s(unsigned step)
{
	double part = 1 + (double)(step % PARTS) / PARTS;
	return step == 0 ? 0 : ldexp(part, (int)(FIRST_EXPONENT + step / PARTS)) / 1e6;
}

static unsigned first_step(const weir_police *police, unsigned bucket)
{
	unsigned step = 0;
	while (step < WEIR_POLICE_FINE && police->bucket_of[step] < bucket)
		step++;
	return step;
}

static void make_buckets(weir_police *police, unsigned count)
{
	police->buckets = count;
	for (unsigned step = 0; step < WEIR_POLICE_FINE; step++)
		police->bucket_of[step] = (uint8_t)(1 + step * count / WEIR_POLICE_FINE);
	for (unsigned bucket = 1; bucket <= count; bucket++)
		police->bucket_s[bucket] = (step_from_s(first_step(police, bucket)) +
					    step_from_s(first_step(police, bucket + 1))) /
					   2;
}

static unsigned bucket_of(const weir_police *police, uint64_t cost_us)
{
	return police->smaller_first && cost_us != 0 ? police->bucket_of[step_of(cost_us)] : 0;
}

static unsigned bucket_of_ask(const weir_police *police, const weir_ask *ask)
{
	return bucket_of(police, ask->count > 1 ? ask->cost / ask->count : ask->cost);
}

/* Without the skew it is as the paper has it. */
double weir_police_service_s(const weir_police *police, unsigned klass, unsigned bucket)
{
	double service =
		bucket != 0 ? police->bucket_s[bucket] : weir_police_gauge_service_s(&police->gauge, klass);
	return service * weir_police_gauge_trust(&police->gauge, klass) *
	       (police->gauge.skewed ? weir_police_gauge_pace(&police->gauge) : 1);
}

/* ---- parameters ---- */

static void set_delays(weir_police *police, const weir_police_params *params)
{
	uint64_t delay_ns = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		delay_ns = params->delay_ns[k] != 0 ? params->delay_ns[k] : delay_ns;
		PUT(police->delay_ns[k], delay_ns);
	}
	police->auto_delays = params->delays == 0 && delay_ns == 0;
}

int weir_police_init(void *state, const void *params, const char **ret_wrong)
{
	weir_police *police = state;
	const weir_police_params *p = params;
	int failed = weir_police_check(p, ret_wrong);
	if (failed != 0)
		return failed;
	memset(police, 0, sizeof(*police));
	police->smaller_first = p->order != 0;
	police->epsilon = p->epsilon;
	police->early = p->early;
	police->busy = p->busy;
	police->dwell_ns = p->dwell_ns;
	make_buckets(police, p->buckets);
	set_delays(police, p);
	weir_ledger_init(&police->ledger);
	weir_cut_init(&police->cut);
	weir_police_gauge_init(&police->gauge, p);
	return 0;
}

/* ---- the test ---- */

static double left_s(const weir_police *police, unsigned klass, uint64_t delay_ns)
{
	return ((double)weir_police_gauge_target_ns(&police->gauge, klass) - (double)delay_ns) / 1e9;
}

/* What the test takes a typical request of the class to need. */
static double typical_s(const weir_police *police, unsigned klass)
{
	double mean_s = weir_police_gauge_service_s(&police->gauge, klass);
	return weir_police_service_s(police, klass, bucket_of(police, (uint64_t)(mean_s * 1e6)));
}

/*
 * Whether so many requests more, so much later, leave room for one typical request of each more important
 * class that was lately refused. Service times are estimates. If those of a lesser class are a little lower
 * than those of a more important one, or on the other side of a bucket's end, it would take the places that
 * the latter is refused. A class of which no two fit on a server keeps nobody out, or servers would idle.
 */
static bool leaves_room(const weir_police *police, unsigned klass, uint32_t count, uint64_t delay_ns,
			uint64_t later_ns)
{
	uint32_t pressed = GET(police->pressed) & ((1u << klass) - 1);
	for (; pressed != 0; pressed &= pressed - 1) {
		unsigned above = (unsigned)__builtin_ctz(pressed);
		double service_s = typical_s(police, above);
		double room_s = left_s(police, above, delay_ns);
		if (2 * service_s * weir_police_gauge_skew(&police->gauge) <= room_s &&
		    weir_police_gauge_least_s(&police->gauge, weir_ledger_released(&police->ledger),
					      service_s, count + 1, (double)later_ns / 1e9) > room_s)
			return false;
	}
	return true;
}

bool weir_police_fits(const weir_police *police, unsigned klass, unsigned bucket, uint32_t count,
		      uint64_t delay_ns)
{
	return weir_police_gauge_estimate_s(&police->gauge, weir_ledger_released(&police->ledger),
					    weir_police_service_s(police, klass, bucket),
					    count) <= left_s(police, klass, delay_ns) &&
	       leaves_room(police, klass, count, delay_ns, 0);
}

static void note_failure(weir_police *police, unsigned klass)
{
	uint32_t bit = 1u << klass;
	/* Written only once per tick: all refusing threads share the word. */
	if (!(GET(police->failed) & bit))
		atomic_fetch_or_explicit(&police->failed, bit, memory_order_relaxed);
}

/* One request, or an offer of several, outside of a visit. */
static bool passes_alone(weir_police *police, unsigned klass, unsigned bucket, uint32_t count,
			 uint64_t delay_ns)
{
	bool passed = weir_police_fits(police, klass, bucket, count, delay_ns);
	weir_police_gauge_tested(&police->gauge, klass, passed);
	if (!passed)
		note_failure(police, klass);
	return passed;
}

/* ---- arrivals ---- */

static weir_verdict entitled(weir_police *police, unsigned klass, unsigned bucket, uint32_t count)
{
	weir_ledger_enter(&police->ledger, klass, bucket, count);
	weir_ledger_entitle(&police->ledger, klass, bucket, count);
	return WEIR_ADMITTED;
}

static weir_verdict by_threshold(weir_police *police, unsigned klass, unsigned bucket, uint32_t count)
{
	bool admitted = weir_cut_admits(&police->cut, klass);
	weir_police_gauge_tested(&police->gauge, klass, admitted);
	return admitted ? entitled(police, klass, bucket, count) : WEIR_SHED_THRESHOLD;
}

/*
 * Whether the batch that the request would join fails its test at the next visit, even if the servers get
 * nothing else until then. It would only wait in order to be dropped, and the batch with it.
 */
static bool is_hopeless(const weir_police *police, const weir_ask *ask, unsigned bucket, uint64_t delay_ns)
{
	unsigned klass = ask->klass % WEIR_CLASSES;
	uint64_t visit_ns = GET(police->next_visit_ns[klass]) + WEIR_POLICE_TICK_NS;
	uint64_t later_ns = visit_ns > ask->now_ns ? visit_ns - ask->now_ns : WEIR_POLICE_TICK_NS;
	uint32_t count = weir_ledger_fresh(&police->ledger, klass, bucket) + ask->count;
	return weir_police_gauge_least_s(&police->gauge, weir_ledger_released(&police->ledger),
					 weir_police_service_s(police, klass, bucket), count,
					 (double)later_ns / 1e9) > left_s(police, klass, delay_ns) ||
	       !leaves_room(police, klass, count, delay_ns, later_ns);
}

_Static_assert(WEIR_LEDGER_BUCKETS <= 64, "one bit for each bucket");

void weir_police_foresee(weir_police *police, uint64_t now_ns)
{
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		const weir_ask ask = {.now_ns = now_ns, .klass = (uint8_t)k, .count = 1};
		uint64_t delay_ns = GET(police->delay_ns[k]), hopeless = 0;
		bool lately = (GET(police->turned_away) >> k & 1) != 0 && delay_ns != 0;
		for (unsigned bucket = 0; lately && bucket <= police->buckets; bucket++)
			hopeless |= (uint64_t)is_hopeless(police, &ask, bucket, delay_ns) << bucket;
		if (hopeless != GET(police->hopeless[k]))
			PUT(police->hopeless[k], hopeless);
	}
}

/* The next visit counts as a failure of the class. */
static weir_verdict turn_away(weir_police *police, unsigned klass)
{
	uint32_t bit = 1u << klass;
	weir_recent_refused(&police->gauge.recent, klass);
	/* Written only once per visit: all refusing threads share the word. */
	if (!(GET(police->turned_away) & bit))
		atomic_fetch_or_explicit(&police->turned_away, bit, memory_order_relaxed);
	return WEIR_SHED_LATE;
}

weir_verdict weir_police_admit(void *state, const weir_ask *ask)
{
	weir_police *police = state;
	unsigned klass = ask->klass % WEIR_CLASSES, bucket = bucket_of_ask(police, ask);
	if (weir_police_gauge_arrived(&police->gauge, ask) != 0)
		return entitled(police, klass, bucket, ask->count);
	if (GET(police->by_threshold))
		return by_threshold(police, klass, bucket, ask->count);
	uint64_t delay_ns = GET(police->delay_ns[klass]);
	if (delay_ns == 0)
		return passes_alone(police, klass, bucket, ask->count, 0)
			       ? entitled(police, klass, bucket, ask->count)
			       : WEIR_SHED_LATE;
	if (police->early &&
	    ((GET(police->hopeless[klass]) >> bucket & 1) != 0 || is_hopeless(police, ask, bucket, delay_ns)))
		return turn_away(police, klass);
	weir_ledger_enter(&police->ledger, klass, bucket, ask->count);
	return WEIR_ADMITTED;
}

void weir_police_refund(void *state, const weir_ask *ask)
{
	weir_police *police = state;
	weir_ledger_withdraw(&police->ledger, ask->klass % WEIR_CLASSES, bucket_of_ask(police, ask),
			     ask->count);
}

/* ---- turns and ends ---- */

void weir_police_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	weir_police *police = state;
	weir_ledger_withdraw(&police->ledger, event->klass % WEIR_CLASSES, bucket_of(police, event->cost), 1);
}

/* What it has waited already is gone, and so is the delay that the test allows for. */
static bool passes_late(weir_police *police, unsigned klass, unsigned bucket, const weir_event *event,
			uint64_t now_ns)
{
	uint64_t waited_ns = now_ns > event->offered_ns ? now_ns - event->offered_ns : 0;
	uint64_t delay_ns = GET(police->delay_ns[klass]);
	return passes_alone(police, klass, bucket, 1, waited_ns > delay_ns ? waited_ns : delay_ns);
}

/* A stranger was refused and runs anyway, or the law was not asked. In a dry run it does not count. */
weir_verdict weir_police_start(void *state, const weir_event *event, const weir_turn *turn)
{
	weir_police *police = state;
	unsigned klass = event->klass % WEIR_CLASSES, bucket = bucket_of(police, event->cost);
	weir_ledger_right right = weir_ledger_leave(&police->ledger, klass, bucket);
	bool refused =
		right == WEIR_LEDGER_REFUSED ||
		(right == WEIR_LEDGER_FRESH && !passes_late(police, klass, bucket, event, turn->now_ns));
	bool counts = !refused && !(right == WEIR_LEDGER_STRANGER && GET(police->gauge.dry_run));
	if (counts)
		weir_police_gauge_started(&police->gauge, turn->note, weir_ledger_released(&police->ledger),
					  weir_police_service_s(police, klass, bucket));
	else
		weir_police_gauge_not_started(turn->note);
	return refused ? WEIR_SHED_LATE : WEIR_ADMITTED;
}

void weir_police_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	weir_police *police = state;
	weir_police_gauge_settled(&police->gauge, event, outcome, weir_ledger_released(&police->ledger),
				  now_ns);
}

/* ---- reading ---- */

/* All that were let go are in time if they start now; later than the target they cannot be. */
uint64_t weir_police_patience(const void *state, unsigned klass)
{
	return weir_police_gauge_target_ns(&((const weir_police *)state)->gauge, klass);
}

uint32_t weir_police_open(const void *state)
{
	const weir_police *police = state;
	uint32_t open = 0;
	if (GET(police->by_threshold))
		return UINT32_MAX;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		if (GET(police->delay_ns[k]) == 0 || weir_ledger_open(&police->ledger, k))
			open |= 1u << k;
	return open;
}

void weir_police_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	const weir_police *police = state;
	unsigned klass = ask->klass % WEIR_CLASSES;
	weir_police_gauge_explain(&police->gauge, ask, weir_ledger_released(&police->ledger),
				  weir_police_service_s(police, klass, bucket_of_ask(police, ask)),
				  GET(police->delay_ns[klass]), ret_why);
}

void weir_police_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const weir_police *police = state;
	klass %= WEIR_CLASSES;
	weir_police_gauge_report(&police->gauge, klass, weir_ledger_released(&police->ledger),
				 GET(police->delay_ns[klass]), ret_report);
	weir_report_add(ret_report, "waiting", weir_ledger_waiting(&police->ledger, klass));
	weir_report_add(ret_report, "by_threshold", GET(police->by_threshold));
}

bool weir_police_calm(const void *state)
{
	return weir_police_gauge_calm(&((const weir_police *)state)->gauge);
}

void weir_police_retarget(void *state, const uint64_t target_ns[WEIR_CLASSES])
{
	weir_police_gauge_retarget(&((weir_police *)state)->gauge, target_ns);
}

void weir_police_told(void *state, const weir_told *told)
{
	weir_police *police = state;
	weir_police_gauge_told(&police->gauge, told, weir_ledger_released(&police->ledger));
}

const weir_admission_law weir_law_batch = {
	.name = "batch",
	.brief = "classes judged in batches at visits, small requests first (Cataclysm 3.2)",
	.state_bytes = sizeof(weir_police),
	.params_bytes = sizeof(weir_police_params),
	.params = weir_police_batch_keys,
	.defaults = weir_police_defaults,
	.tick_ns = WEIR_POLICE_TICK_NS,
	.by_class = true,
	.init = weir_police_init,
	.admit = weir_police_admit,
	.refund = weir_police_refund,
	.start = weir_police_start,
	.gone = weir_police_gone,
	.settle = weir_police_settle,
	.tick = weir_police_tick,
	.patience = weir_police_patience,
	.explain = weir_police_explain,
	.report = weir_police_report,
	.calm = weir_police_calm,
	.retarget = weir_police_retarget,
	.told = weir_police_told,
	.open = weir_police_open,
};
