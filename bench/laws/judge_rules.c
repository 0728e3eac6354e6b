/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules, written before the data. The percentile is p90, T the cell's target. A lot is what can be told apart: a visible kind, or all
 * invisible kinds together. A lot's own target is T, or 5 times its unloaded p90 where that exceeds T; such requests are held to nothing else. A lot
 * with fewer than 30 answers is not judged. A request that is still inside at the end, past its own target, counts with its age.
 *
 * harm     The cell counts if without any law every lot keeps its own target (1.0 of it). Met: shed + dropped <= 0.1 % of the offered.
 *          Nearly: <= 1 %. In numbers of requests, one refusal is always within the bounds.
 * mixed    Met: p90 of every lot <= 1.1 of its own target; work done >= 95 % of the oracle's; of the refused, <= 1 % had waited (one is
 *          always within the bounds). Work is what the backend worked; where there are classes, that of the completed requests, class 0's weighted.
 *          Measured once the law had time to find out: max(1.5 s, 4 T, twice the slowest kind's unloaded p99.5) after the overload's beginning.
 * change   The same bounds, measured from 2 s after the change on; a pause is over when the backend goes on.
 *
 * Changed after data were seen: a law that refused at most 0.1 % in the measured time does not miss the bound on work. No law could have done more of
 * what was asked for then; the oracle has more only where it carries a queue into the measured time.
 *
 * The oracle bounds what is inside and sheds the rest at once, nothing waits before the backend. It knows the work of each request. It tries a
 * number inside, and an amount of work inside, each as large as keeps every lot's own target (1.0 of it), and has the better of the two. If
 * neither keeps 1.1 of it at its smallest, the cell does not count ("cannot"). Beside it, and without consequence, it is said in how many cells
 * the best number inside alone would do, which knows no costs. With classes, the lower one may use four fifths of the bound.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "laws/judge.h"

#define MOST_REFUSED   .001
#define NEARLY_REFUSED .01
#define MOST_P90       1.1
#define LEAST_WORK     .95
#define MOST_WAITED    .01
#define LEAST_ANSWERS  30
#define LOWER_CLASS    .8
#define HALVINGS       7

/* ---- the oracle ---- */

struct bound_params {
	double most; /* requests, or microseconds of work */
	bool of_work;
};

struct bound {
	struct bound_params params;
	double inside;
};

static int bound_init(void *state, const void *params, const char **ret_wrong)
{
	*(struct bound *)state = (struct bound){.params = *(const struct bound_params *)params};
	return 0;
}

static weir_verdict bound_admit(void *state, const weir_ask *ask)
{
	struct bound *b = state;
	double most = b->params.most * (ask->klass == 0 ? 1 : LOWER_CLASS);
	if (b->inside >= fmax(most, 1))
		return WEIR_SHED_LIMIT;
	b->inside += b->params.of_work ? (double)ask->cost : 1;
	return WEIR_ADMITTED;
}

static void bound_leave(struct bound *b, double cost)
{
	b->inside -= b->params.of_work ? cost : 1;
}

static void bound_refund(void *state, const weir_ask *ask)
{
	bound_leave(state, (double)ask->cost);
}

static void bound_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	bound_leave(state, event->cost);
}

static void bound_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	bound_leave(state, event->cost);
}

static void bound_tick(void *state, const weir_sample *sample)
{
}

static const weir_admission_law law_bound = {
	.name = "bound",
	.brief = "so many inside, or so much work",
	.state_bytes = sizeof(struct bound),
	.params_bytes = sizeof(struct bound_params),
	.tick_ns = WEIR_NS_PER_S,
	.by_class = true,
	.init = bound_init,
	.admit = bound_admit,
	.refund = bound_refund,
	.gone = bound_gone,
	.settle = bound_settle,
	.tick = bound_tick,
};

static struct bound_params trying; /* for fill_bound, which is told no more than the cell */

static void fill_bound(void *params, const struct proxy_cell *cell)
{
	*(struct bound_params *)params = trying;
}

static double worst_p90(const struct proxy_cell *cell, const struct proxy_result *result)
{
	double worst = 0;
	for (unsigned i = 0; i < cell->lots; i++)
		if (result->lot[i].count >= LEAST_ANSWERS)
			worst = fmax(worst, result->lot[i].p90);
	return worst;
}

/* Whether the percentiles hold with this bound; keeps the most work that was done so. */
static bool attempt(const struct proxy_cell *cell, double most, bool of_work, double most_p90,
		    struct judge_bar *bar)
{
	struct proxy_result result;
	trying = (struct bound_params){most, of_work};
	proxy_cell_run(cell, &law_bound, fill_bound, &result);
	if (worst_p90(cell, &result) > most_p90)
		return false;
	bar->counts = true;
	bar->done_s = fmax(bar->done_s, result.done_s);
	if (!of_work)
		bar->blind_s = fmax(bar->blind_s, result.done_s);
	return true;
}

/* The more inside, the more work and the later the answers: the largest bound that holds is the best. */
static void search(const struct proxy_cell *cell, double least, double most, bool of_work,
		   struct judge_bar *bar)
{
	if (attempt(cell, most, of_work, 1, bar))
		return;
	for (int i = 0; i < HALVINGS; i++) {
		double middle = sqrt(least * most);
		if (attempt(cell, middle, of_work, 1, bar))
			least = middle;
		else
			most = middle;
	}
	if (!bar->counts)
		attempt(cell, least, of_work, MOST_P90, bar);
}

static void ask_oracle(const struct proxy_cell *cell, struct judge_bar *bar)
{
	struct proxy_cell exact = *cell;
	double longest_s = cell->target_s, workers = cell->backend.workers;
	for (unsigned i = 0; i < cell->lots; i++)
		longest_s = fmax(longest_s, cell->lot[i].target_s);
	exact.exact = true;
	search(&exact, 1, 4 * (cell->capacity_per_s * longest_s + workers), false, bar);
	search(&exact, 1e5 * workers / cell->capacity_per_s, 4e6 * longest_s * workers, true, bar);
}

void judge_measure_bar(const struct judge_cell *cell, struct judge_bar *ret_bar)
{
	struct proxy_result result;
	*ret_bar = (struct judge_bar){0};
	if (cell->grid != JUDGE_HARM) {
		ask_oracle(&cell->cell, ret_bar);
		return;
	}
	proxy_cell_run(&cell->cell, NULL, NULL, &result);
	ret_bar->counts = worst_p90(&cell->cell, &result) <= 1;
}

/* ---- the bounds ---- */

static bool failed(bool bad, const char *what, struct judge_outcome *outcome)
{
	size_t used = strlen(outcome->failed);
	if (bad)
		snprintf(outcome->failed + used, sizeof(outcome->failed) - used, "%s%s", used != 0 ? " " : "",
			 what);
	return bad;
}

/* Whether a share of so many is above a bound, and more than one of them is. */
static bool above(double share, double of, double most)
{
	return share > most && share * of > 1.5;
}

static void decide_harm(struct judge_outcome *o)
{
	double offered = (double)o->result.offered, refused = o->result.shed + o->result.dropped;
	o->met = !failed(above(refused, offered, MOST_REFUSED), "refused", o);
	o->nearly = !above(refused, offered, NEARLY_REFUSED);
	o->work = 1;
	o->slack = 1 - refused / MOST_REFUSED;
}

static void decide_overload(const struct judge_cell *cell, struct judge_outcome *o)
{
	const struct proxy_result *r = &o->result;
	double refused = r->shed + r->dropped;
	bool bad = false;
	o->work = o->bar.done_s > 0 ? r->done_s / o->bar.done_s : 1;
	o->blind = o->bar.blind_s >= LEAST_WORK * o->bar.done_s;
	bad |= failed(o->p90 > MOST_P90, "p90", o);
	bad |= failed(o->work < LEAST_WORK && refused > MOST_REFUSED, "work", o);
	bad |= failed(above(o->waited, refused * (double)r->offered, MOST_WAITED), "waited", o);
	o->met = o->nearly = !bad;
	o->slack = fmin(1 - o->p90 / MOST_P90, o->work / LEAST_WORK - 1);
}

void judge_decide(const struct judge_cell *cell, struct judge_outcome *o)
{
	double refused = o->result.shed + o->result.dropped;
	o->failed[0] = 0;
	o->p90 = worst_p90(&cell->cell, &o->result);
	o->waited = refused > 0 ? o->result.dropped / refused : 0;
	if (cell->grid == JUDGE_HARM)
		decide_harm(o);
	else
		decide_overload(cell, o);
}
