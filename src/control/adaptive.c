/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <weir/law.h>

#include "control/service.h"

#define CREDIT_ONE    0x1p20 /* credit is counted in 2^-20 requests */
#define SLICES        64
#define LEARN_STARTS  4
#define ENOUGH        16 /* service times, before limits are made of them */

typedef struct adaptive_class {
	/* const after init */
	double late_share; /* 1 - percentile */
	uint64_t target_ns;
	unsigned slice_shift;
	double minimum;
	/* any thread: offers */
	_Atomic uint64_t admitted, shed;
	_Atomic uint64_t slice;                /* the newest */
	_Atomic uint64_t before[SLICES];       /* admitted before the slice began */
	/* any thread */
	_Atomic int64_t credit;
	_Atomic float tau_ns;                  /* time per start while somebody waits */
	_Atomic float limit_ns;                /* the admissible wait */
	_Atomic float measured_ns;
	weir_service service;
	/* start and gone, read by others */
	_Atomic uint64_t left; /* of the admitted: started, dropped, gone */
	uint64_t last_ns;      /* the last start */
	uint64_t starts;
	bool queued;           /* somebody waited ever since */
	uint64_t shed_seen;
	uint64_t load_offered, load_ns; /* up to here the load is measured */
	double load_count, load_time, tau_long_ns;
	_Atomic float overload;
	/* tick's, read by others */
	_Atomic float base_ns, up_ns, over_ns, down_ns, most_ns, per_credit, bound, slack;
	bool unreachable;
} adaptive_class;

typedef struct adaptive {
	adaptive_class klass[WEIR_CLASSES];
} adaptive;

#define GET(x)    atomic_load_explicit(&(x), memory_order_relaxed)
#define PUT(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)

/* ---- offers ---- */

static void roll(adaptive_class *k, uint64_t slice, uint64_t newest)
{
	if (slice < newest || !atomic_compare_exchange_strong_explicit(&k->slice, &newest, slice, memory_order_relaxed,
						      memory_order_relaxed))
		return;
	uint64_t from = slice - newest > SLICES ? slice - SLICES : newest, admitted = GET(k->admitted);
	while (from++ < slice)
		PUT(k->before[from % SLICES], admitted);
}

/* Those admitted within the last limit: who is older will be dropped at its turn and costs nobody time. */
static uint64_t young(const adaptive_class *k, uint64_t now_ns, float limit_ns)
{
	uint64_t since_ns = now_ns > (uint64_t)limit_ns ? now_ns - (uint64_t)limit_ns : 0;
	uint64_t slice = since_ns >> k->slice_shift, newest = GET(k->slice);
	if (slice > newest)
		return 0;
	if (newest - slice >= SLICES)
		return UINT64_MAX;
	return GET(k->admitted) - GET(k->before[slice % SLICES]);
}

static weir_verdict adaptive_admit(void *state, const weir_ask *ask)
{
	adaptive_class *k = &((adaptive *)state)->klass[ask->klass];
	uint64_t slice = ask->now_ns >> k->slice_shift, newest = GET(k->slice);
	if (slice != newest)
		roll(k, slice, newest);
	uint64_t admitted = GET(k->admitted), left = GET(k->left);
	uint64_t waiting = admitted > left ? admitted - left : 0;
	float limit = GET(k->limit_ns), tau = GET(k->tau_ns), room = limit * GET(k->slack);
	if (waiting != 0) {
		if (tau == 0 ? waiting >= 4 * ((uint64_t)ask->in_service + 1) : (float)waiting * tau > room) {
			uint64_t fresh = young(k, ask->now_ns, limit);
			if (tau == 0 || (fresh < waiting ? (float)fresh : (float)waiting) * tau > room) {
				atomic_fetch_add_explicit(&k->shed, ask->count, memory_order_relaxed);
				return WEIR_SHED_LATE;
			}
		}
	}
	atomic_fetch_add_explicit(&k->admitted, ask->count, memory_order_relaxed);
	return WEIR_ADMITTED;
}

static void adaptive_refund(void *state, const weir_ask *ask)
{
	adaptive_class *k = &((adaptive *)state)->klass[ask->klass];
	atomic_fetch_sub_explicit(&k->admitted, ask->count, memory_order_relaxed);
}

/* ---- credit ---- */

static void pay(adaptive_class *k, float requests)
{
	int64_t bound = (int64_t)GET(k->bound);
	int64_t add = (int64_t)(requests * (float)CREDIT_ONE);
	int64_t now = atomic_fetch_add_explicit(&k->credit, add, memory_order_relaxed) + add;
	if (now > bound)
		PUT(k->credit, bound);
	else if (now < -bound)
		PUT(k->credit, -bound);
}

static void set_limit(adaptive_class *k)
{
	float x = (float)GET(k->credit) * GET(k->per_credit), over = GET(k->overload);
	float up = GET(k->up_ns), most = GET(k->most_ns), target = (float)k->target_ns;
	up += (GET(k->over_ns) - up) * over;
	most = 4 * target + (most - 4 * target) * over;
	float limit = GET(k->base_ns) + x * (x > 0 ? up : GET(k->down_ns));
	limit = limit > most ? most : limit;
	limit = limit < target / 4 ? target / 4 : limit;
	PUT(k->limit_ns, limit);
}

/* That it will be late if it starts now. */
static float late_chance(const adaptive_class *k, uint64_t waited_ns)
{
	return waited_ns >= k->target_ns ? 1 : weir_service_tail(&k->service, k->target_ns - waited_ns);
}

static void measure_load(adaptive_class *k, uint64_t now_ns)
{
	uint64_t offered = GET(k->admitted) + GET(k->shed), more = offered - k->load_offered;
	if (more < 16)
		return;
	double keep = 64. / (64. + (double)more);
	k->load_count = k->load_count * keep + (double)more;
	k->load_time = k->load_time * keep + (double)(now_ns - k->load_ns);
	k->load_offered = offered;
	k->load_ns = now_ns;
	double load = k->tau_long_ns * k->load_count / k->load_time;
	double over = (load - 1.05) / .15;
	PUT(k->overload, (float)(over < 0 ? 0 : over > 1 ? 1 : over));
}

static void measure_tau(adaptive_class *k, uint64_t now_ns)
{
	if (k->queued) {
		float took = (float)(now_ns - k->last_ns), tau = GET(k->tau_ns);
		k->starts++;
		float n = k->starts < 64 ? (float)k->starts : 64;
		PUT(k->tau_ns, tau + (took - tau) / n);
		double m = k->starts < 1000 ? (double)k->starts : 1000;
		k->tau_long_ns += ((double)took - k->tau_long_ns) / m;
	}
	k->last_ns = now_ns;
}

static weir_verdict adaptive_start(void *state, const weir_event *event, const weir_turn *turn)
{
	adaptive_class *k = &((adaptive *)state)->klass[event->klass];
	uint64_t left = GET(k->left) + 1, now_ns = turn->now_ns;
	PUT(k->left, left);
	uint64_t waited_ns = now_ns > event->offered_ns ? now_ns - event->offered_ns : 0;
	bool others = GET(k->admitted) > left;
	if ((float)waited_ns > GET(k->limit_ns)) {
		k->queued = k->queued && others;
		atomic_fetch_add_explicit(&k->shed, 1, memory_order_relaxed);
		k->load_offered++; /* it was counted when it came */
		return WEIR_SHED_WAITED;
	}
	measure_tau(k, now_ns);
	k->queued = others;
	measure_load(k, now_ns);
	uint64_t shed = GET(k->shed);
	pay(k, (float)k->late_share * (shed != k->shed_seen ? .5f : 1) - late_chance(k, waited_ns));
	k->shed_seen = shed;
	set_limit(k);
	return WEIR_ADMITTED;
}

static void adaptive_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	(void)now_ns;
	adaptive_class *k = &((adaptive *)state)->klass[event->klass];
	uint64_t left = GET(k->left) + 1;
	PUT(k->left, left);
	k->queued = k->queued && GET(k->admitted) > left;
}

static void adaptive_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	adaptive_class *k = &((adaptive *)state)->klass[event->klass];
	uint64_t waited_ns = event->started_ns - event->offered_ns, service_ns = now_ns - event->started_ns;
	float expected = late_chance(k, waited_ns), late = waited_ns + service_ns > k->target_ns;
	pay(k, expected - late);
	if (outcome == WEIR_DONE)
		weir_service_add(&k->service, service_ns);
}

/* ---- ticks ---- */

static void tick_class(adaptive_class *k)
{
	double rate = GET(k->tau_ns) > 0 ? 1e9 / (double)GET(k->tau_ns) : 0;
	if (!weir_service_learn(&k->service, fmax(1000, rate)) || k->service.count < ENOUGH || rate == 0)
		return;
	double target = (double)k->target_ns, tau = (double)GET(k->tau_ns);
	double s_r = weir_service_quantile(&k->service, 1 - .7 * k->late_share);
	double s_99 = weir_service_quantile(&k->service, 1 - .07 * k->late_share);
	double spread = 12 * k->service.moment2 / 2;
	double bound = fmin(fmax(20, fmax(.1 * rate, spread)), fmax(20, target * rate / 1e9));
	double base = fmin(target - s_r, 2 * target - s_99);
	double n = fmax(2, base / tau);
	double slack = k->service.mean / weir_service_mean_below(&k->service, 1 - 1 / n);
	PUT(k->slack, (float)fmin(slack, 8));
	PUT(k->bound, (float)(bound * CREDIT_ONE));
	PUT(k->per_credit, (float)(1 / (bound * CREDIT_ONE)));
	PUT(k->base_ns, (float)base);
	PUT(k->over_ns, (float)(spread * tau));
	PUT(k->up_ns, (float)fmax(spread * tau, 3 * target));
	PUT(k->down_ns, (float)fmax(spread * tau, s_r));
	PUT(k->most_ns, (float)fmin(1.75 * target, 2 * target - s_r));
	set_limit(k);
}

static void adaptive_tick(void *state, const weir_sample *sample)
{
	(void)sample;
	adaptive *a = state;
	for (unsigned i = 0; i < WEIR_CLASSES; i++)
		if (GET(a->klass[i].admitted) != 0)
			tick_class(&a->klass[i]);
}

/* ---- making ---- */

static void init_class(adaptive_class *k, double percentile, uint64_t target_ns, double minimum)
{
	k->late_share = 1 - percentile;
	k->target_ns = target_ns;
	k->minimum = minimum;
	k->slice_shift = 60 - (unsigned)__builtin_clzll(target_ns | 8);
	PUT(k->limit_ns, (float)target_ns / 2);
	PUT(k->base_ns, (float)target_ns / 2);
	PUT(k->most_ns, (float)target_ns / 2);
	PUT(k->slack, 1);
	PUT(k->bound, (float)(20 * CREDIT_ONE));
	PUT(k->per_credit, (float)(1 / (20 * CREDIT_ONE)));
	weir_service_init(&k->service);
}

static int adaptive_init(void *state, const void *params, const char **ret_wrong)
{
	adaptive *a = state;
	const weir_adaptive_params *p = params;
	if (p == NULL || p->target_ns[0] == 0) {
		*ret_wrong = "target is required: a time";
		return -EINVAL;
	}
	memset(a, 0, sizeof(*a));
	uint64_t target_ns = 0;
	double percentile = 0;
	for (unsigned i = 0; i < WEIR_CLASSES; i++) {
		target_ns = p->target_ns[i] != 0 ? p->target_ns[i] : target_ns;
		percentile = p->percentile[i] != 0 ? p->percentile[i] : percentile;
		init_class(&a->klass[i], percentile, target_ns, p->minimum[i]);
	}
	return 0;
}

static void adaptive_defaults(void *params)
{
	weir_adaptive_params *p = params;
	p->percentile[0] = 0.9;
	for (unsigned i = 0; i < WEIR_CLASSES; i++)
		p->minimum[i] = 0.01;
}

#define AT(field) offsetof(weir_adaptive_params, field)
static const weir_param adaptive_params[] = {
	{"target", WEIR_PARAM_TIME, AT(target_ns), true, 1000, 3.6e12, "response time to hold; required"},
	{"percentile", WEIR_PARAM_PERCENTILE, AT(percentile), true, 0.5, 0.999, "of the response times; p90"},
	{"minimum", WEIR_PARAM_NUMBER, AT(minimum), true, 0, 0.1, "share of the starts that a class keeps; 0.01"},
	{0},
};

const weir_admission_law weir_law_adaptive = {
	.name = "adaptive",
	.brief = "holds a percentile of the response times at a target, and needs nothing else",
	.state_bytes = sizeof(adaptive),
	.params_bytes = sizeof(weir_adaptive_params),
	.params = adaptive_params,
	.defaults = adaptive_defaults,
	.tick_ns = 10000000,
	.per_lane = true,
	.init = adaptive_init,
	.admit = adaptive_admit,
	.refund = adaptive_refund,
	.start = adaptive_start,
	.gone = adaptive_gone,
	.settle = adaptive_settle,
	.tick = adaptive_tick,
};
