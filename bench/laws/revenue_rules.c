/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules, written before the data. The percentile is p90, T the cell's target. A request's own target is T, or 5 times its kind's
 * unloaded p90 where that exceeds T. A request earns its class's revenue if it is answered within its own target, and nothing otherwise.
 * Measured once the law had time to find out: max(3 s, 8 T, three times the slowest kind's unloaded p99.5) after the overload's beginning.
 *
 * oracle   What a fractional knapsack earns over what was offered in the measured time, if the backend worked all the time and every answer came
 *          in time: what is guaranteed first, then by revenue per expected work of the kind. Where costs are unknown, the expected work is the mean
 *          of the class. Nobody can earn that much: a backend that is never idle has a queue, and a queue makes some late.
 * met      earned >= 97 % of the oracle; p90 of every class <= 1.1 of the own targets (a class with fewer than 30 answers is not judged);
 *          in every second, all that conforms to a guarantee is admitted. (All guarantees are possible: they take at most a fifth of the capacity.)
 * counts   The cell counts if one that is told everything earns 97 % of the oracle and keeps the percentiles: it knows which kinds to admit, and the
 *          best of 24 bounds on the work inside, found by trying. Met is also told over all cells.
 * beside   value >= 1.15 times batch; value >= 1.5 times the order by class without costs (adaptive-remote), where costs differ by 10 and more.
 *          Each over the sums of what is earned, a cell's oracle being 1, and by cell, where the oracle itself earns so much more.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common.h"
#include "control/guarantee.h"
#include "laws/revenue.h"

#define MOST_P90      1.1
#define LEAST_ANSWERS 30
#define NEVER         INFINITY

/* ---- one that is told everything ---- */

struct told_params {
	const struct revenue_cell *cell;
	double dear,
		marginal; /* revenue per ns of work: above `dear` with the whole bound, from `marginal` on with a part */
	double most_ns, part; /* work inside */
};

struct told {
	struct told_params params;
	weir_guarantee guarantee[REVENUE_CLASSES];
	double inside_ns;
};

static int told_init(void *state, const void *params, const char **ret_wrong)
{
	struct told *t = state;
	*t = (struct told){.params = *(const struct told_params *)params};
	for (unsigned k = 0; k < REVENUE_CLASSES; k++)
		weir_guarantee_init(&t->guarantee[k], t->params.cell->guaranteed_per_s[k]);
	return 0;
}

static double told_work_ns(const struct told *t, unsigned klass, uint64_t cost_us)
{
	const struct revenue_cell *cell = t->params.cell;
	for (unsigned i = 0; cost_us == 0 && i < cell->cell.kinds; i++)
		if (cell->cell.kind[i].klass == klass)
			return revenue_expected_ns(cell, i);
	return (double)cost_us * 1e3;
}

static weir_verdict told_admit(void *state, const weir_ask *ask)
{
	struct told *t = state;
	double work_ns = told_work_ns(t, ask->klass, ask->cost);
	/* Costs are in whole microseconds, so prices are a little off. */
	double price = t->params.cell->revenue[ask->klass] / work_ns * 1.001;
	double most = price >= t->params.dear       ? t->params.most_ns
		      : price >= t->params.marginal ? t->params.most_ns * t->params.part
						    : -1;
	bool fits = most >= 0 && (t->inside_ns <= 0 || t->inside_ns + work_ns <= most);
	if (!weir_guarantee_take(&t->guarantee[ask->klass], ask->now_ns) && !fits)
		return WEIR_SHED_LIMIT;
	t->inside_ns += work_ns;
	return WEIR_ADMITTED;
}

static void told_refund(void *state, const weir_ask *ask)
{
	struct told *t = state;
	t->inside_ns -= told_work_ns(t, ask->klass, ask->cost);
}

static void told_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	struct told *t = state;
	t->inside_ns -= told_work_ns(t, event->klass, event->cost);
	if (t->inside_ns < 1)
		t->inside_ns = 0; /* rounding */
}

static void told_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	told_settle(state, event, WEIR_FAILED, now_ns);
}

static void told_tick(void *state, const weir_sample *sample)
{
}

static struct told_params trying;

static void told_defaults(void *params)
{
	*(struct told_params *)params = trying;
}

static const weir_admission_law law_told = {
	.name = "told",
	.brief = "so much work inside, of the kinds that are worth most",
	.state_bytes = sizeof(struct told),
	.params_bytes = sizeof(struct told_params),
	.tick_ns = WEIR_NS_PER_S,
	.by_class = true,
	.defaults = told_defaults,
	.init = told_init,
	.admit = told_admit,
	.refund = told_refund,
	.gone = told_gone,
	.settle = told_settle,
	.tick = told_tick,
};

static double price_of(const struct revenue_cell *cell, unsigned kind)
{
	return cell->revenue[cell->cell.kind[kind].klass] / revenue_expected_ns(cell, kind);
}

/* Of a class's requests, those that are guaranteed. */
static double guaranteed_part(const struct revenue_cell *cell, unsigned klass)
{
	double share = 0;
	for (unsigned i = 0; i < cell->cell.kinds; i++)
		share += cell->cell.kind[i].klass == klass ? cell->cell.kind[i].share : 0;
	return cell->guaranteed_per_s[klass] / (cell->load * cell->cell.capacity_per_s * share);
}

/* Work per second that is offered of a kind. */
static double offered_ns(const struct revenue_cell *cell, unsigned kind)
{
	const struct proxy_kind *of = &cell->cell.kind[kind];
	return cell->load * cell->cell.capacity_per_s * of->share * of->work.mean;
}

/* The prices at which what is offered on average fills what the guarantees leave of the backend. */
static void find_prices(const struct revenue_cell *cell, struct told_params *params)
{
	double left = cell->cell.backend.workers * 1e9, price = NEVER;
	params->dear = params->marginal = NEVER;
	for (unsigned i = 0; i < cell->cell.kinds; i++)
		left -= guaranteed_part(cell, cell->cell.kind[i].klass) * offered_ns(cell, i);
	while (left > 0) {
		double above = price, offered = 0;
		price = 0;
		for (unsigned i = 0; i < cell->cell.kinds; i++)
			if (price_of(cell, i) < above * (1 - 1e-9))
				price = fmax(price, price_of(cell, i));
		for (unsigned i = 0; i < cell->cell.kinds; i++)
			if (fabs(price_of(cell, i) / price - 1) < 1e-9)
				offered += (1 - guaranteed_part(cell, cell->cell.kind[i].klass)) *
					   offered_ns(cell, i);
		if (price == 0)
			break;
		params->marginal = price;
		if (offered <= left)
			params->dear = price;
		left -= offered;
	}
}

static bool keeps_percentiles(const struct revenue_result *result, double *ret_worst)
{
	*ret_worst = 0;
	for (unsigned k = 0; k < REVENUE_CLASSES; k++)
		if (result->klass[k].answers >= LEAST_ANSWERS)
			*ret_worst = fmax(*ret_worst, result->klass[k].p90);
	return *ret_worst <= MOST_P90;
}

double revenue_told(const struct revenue_cell *cell)
{
	static const double parts[] = {1, .8, .6}, bounds[] = {.1, .2, .3, .45, .6, .75, .9, 1.1};
	double best = 0, worst;
	trying = (struct told_params){.cell = cell};
	find_prices(cell, &trying);
	for (unsigned b = 0; b < sizeof(bounds) / sizeof(bounds[0]); b++)
		for (unsigned p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
			struct revenue_result result;
			trying.most_ns = bounds[b] * cell->cell.target_s * 1e9 * cell->cell.backend.workers;
			trying.part = parts[p];
			revenue_run(cell, &law_told, &result);
			if (keeps_percentiles(&result, &worst))
				best = fmax(best, result.earned);
		}
	return best;
}

/* ---- the bounds ---- */

static bool failed(bool bad, const char *what, struct revenue_verdict *v)
{
	size_t used = strlen(v->failed);
	if (bad)
		snprintf(v->failed + used, sizeof(v->failed) - used, "%s%s", used != 0 ? " " : "", what);
	return bad;
}

void revenue_decide(const struct revenue_cell *cell, const struct revenue_result *result,
		    struct revenue_verdict *v)
{
	*v = (struct revenue_verdict){.of_oracle = result->earned / result->oracle,
				      .kept = result->kept == result->seconds};
	bool bad = failed(!keeps_percentiles(result, &v->p90), "p90", v);
	bad |= failed(v->of_oracle < REVENUE_LEAST, "earned", v);
	bad |= failed(!v->kept, "guaranteed", v);
	v->met = !bad;
}
