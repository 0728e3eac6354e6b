/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The setting of an operator who knows the capacity: a rate, a number of events inside, or both. It
 * learns nothing and adapts to nothing, which makes it the law to compare others with.
 *
 * An offer passes the bound on the number first: a place there is easily given back, and tokens are for
 * those that are admitted.
 *
 * Threads: as in law.h; bucket and count are one atomic word each.
 */
#include <errno.h>

#include <weir/law.h>

#include "control/bucket.h"
#include "control/inside.h"
#include "control/recent.h"

typedef struct fixed {
	/* const after init */
	double rate_per_s; /* 0: unlimited */
	uint32_t most;     /* inside; UINT32_MAX: unlimited */
	/* any thread */
	weir_bucket bucket;
	weir_inside inside;
	weir_recent recent;
} fixed;

static int fixed_init(void *state, const void *params, const char **ret_wrong)
{
	fixed *f = state;
	const weir_fixed_params *p = params;
	if (p == NULL || (p->rate_per_s == 0 && p->concurrency == 0)) {
		*ret_wrong = "a rate (a second), a concurrency, or both are required";
		return -EINVAL;
	}
	if (p->rate_per_s == 0 && p->burst != 0) {
		*ret_wrong = "a burst needs a rate";
		return -EINVAL;
	}
	*f = (fixed){.rate_per_s = p->rate_per_s, .most = p->concurrency != 0 ? p->concurrency : UINT32_MAX};
	return p->rate_per_s != 0 ? weir_bucket_init(&f->bucket, p->rate_per_s, p->burst, ret_wrong) : 0;
}

/* Without a bound on how many are inside, nobody counts them. */
static void leave(fixed *f, uint32_t count)
{
	if (f->most != UINT32_MAX)
		weir_inside_leave(&f->inside, count);
}

static weir_verdict decide(fixed *f, const weir_ask *ask)
{
	if (f->most != UINT32_MAX && !weir_inside_enter(&f->inside, ask, f->most))
		return WEIR_SHED_LIMIT;
	if (f->rate_per_s == 0 || weir_bucket_take(&f->bucket, ask->now_ns, ask->count))
		return WEIR_ADMITTED;
	leave(f, ask->count);
	return WEIR_SHED_RATE;
}

static weir_verdict fixed_admit(void *state, const weir_ask *ask)
{
	fixed *f = state;
	weir_verdict verdict = decide(f, ask);
	if (verdict != WEIR_ADMITTED)
		weir_recent_refused(&f->recent, ask->klass);
	return verdict;
}

static void fixed_refund(void *state, const weir_ask *ask)
{
	fixed *f = state;
	leave(f, ask->count);
	if (f->rate_per_s != 0)
		weir_bucket_give_back(&f->bucket, ask->count);
}

static void fixed_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	leave(state, 1);
}

static void fixed_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	leave(state, 1);
}

/* Only needed to say when there will be room. */
static void fixed_tick(void *state, const weir_sample *sample)
{
	weir_recent_tick(&((fixed *)state)->recent, sample);
}

static void fixed_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	const fixed *f = state;
	uint64_t retry_ns = 0;
	if (ret_why->verdict == WEIR_SHED_LIMIT && ask->count <= f->most)
		retry_ns = weir_recent_retry_ns(&f->recent, ask->count);
	else if (ret_why->verdict == WEIR_SHED_RATE)
		retry_ns = weir_bucket_retry_ns(&f->bucket, ask->now_ns, ask->count);
	ret_why->retry_after_ns = retry_ns;
}

static void fixed_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const fixed *f = state;
	ret_report->rate_per_s = f->rate_per_s;
	ret_report->limit = f->most != UINT32_MAX ? f->most : 0;
	ret_report->shedding = weir_recent_shedding(&f->recent, klass);
	if (f->most == UINT32_MAX)
		return;
	ret_report->value[0].name = "inside";
	ret_report->value[0].value = weir_inside_count(&f->inside);
	ret_report->count = 1;
}

static const weir_key fixed_params[] = {
	WEIR_KEY("rate", NUMBER, weir_fixed_params, rate_per_s, NULL,
		 "Events per second, on average; 0: any number", .max = WEIR_BUCKET_RATE_MAX),
	WEIR_KEY("burst", NUMBER, weir_fixed_params, burst, NULL,
		 "Events at once; 0: those of a tenth of a second, at least 1", .max = 1e18),
	WEIR_KEY("concurrency", COUNT, weir_fixed_params, concurrency, NULL,
		 "Events inside, with those that wait; 0: any number", .max = UINT32_MAX),
	{.name = NULL},
};

const weir_admission_law weir_law_fixed = {
	.name = "fixed",
	.brief = "a fixed rate, a fixed number inside, or both",
	.state_bytes = sizeof(fixed),
	.params_bytes = sizeof(weir_fixed_params),
	.params = fixed_params,
	.tick_ns = 100 * WEIR_NS_PER_MS,
	.ignores_cost = true,
	.init = fixed_init,
	.admit = fixed_admit,
	.refund = fixed_refund,
	.gone = fixed_gone,
	.settle = fixed_settle,
	.tick = fixed_tick,
	.explain = fixed_explain,
	.report = fixed_report,
};
