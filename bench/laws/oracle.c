/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best that a queue in order of arrival can do with a fixed limit on the wait that somebody tells it: everybody is let in, and
 * dropped at its turn if it waited longer. Tried with many limits at the point where a law fell short. If none of them
 * meets all bounds of that part, no law that keeps the order can be blamed for not meeting them. For the highest class behind one worker, what
 * the residual service time alone does.
 *
 * After a fall of the load: two limits, one for those who came in overload and one for those who came when it was over, which it is told as
 * soon as the arrivals can tell anybody; with p90 and those later than two targets within their bounds before the fall and after it.
 */
#include "laws/trial.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

typedef struct limit_params {
	uint64_t limit_ns;
	uint64_t calm_ns,
		after_ns; /* the limit of those who come later than this after a fall; 0: the same */
} limit_params;

static uint64_t fell_ns; /* when the load fell, if it is low; a job runs one trial at a time */
static void note_fall(uint64_t now_ns)
{
	fell_ns = now_ns;
}

static int limit_init(void *state, const void *params, const char **ret_wrong)
{
	(void)ret_wrong;
	*(limit_params *)state = *(const limit_params *)params;
	return 0;
}

static weir_verdict limit_admit(void *state, const weir_ask *ask)
{
	(void)state;
	(void)ask;
	return WEIR_ADMITTED;
}

static weir_verdict limit_start(void *state, const weir_event *event, const weir_turn *turn)
{
	const limit_params *p = state;
	bool calm = p->calm_ns != 0 && event->offered_ns >= fell_ns && turn->now_ns - fell_ns >= p->after_ns;
	uint64_t limit_ns = calm ? p->calm_ns : p->limit_ns;
	return turn->now_ns - event->offered_ns > limit_ns ? WEIR_SHED_WAITED : WEIR_ADMITTED;
}

static const weir_key limit_table[] = {
	{.name = "limit",
	 .type = WEIR_KEY_TIME,
	 .offset = offsetof(limit_params, limit_ns),
	 .min = 0,
	 .max = 1e18,
	 .help = "how long an event may wait"},
	{.name = "calm",
	 .type = WEIR_KEY_TIME,
	 .offset = offsetof(limit_params, calm_ns),
	 .min = 0,
	 .max = 1e18,
	 .help = "and how long if it came after the load fell"},
	{.name = "after",
	 .type = WEIR_KEY_TIME,
	 .offset = offsetof(limit_params, after_ns),
	 .min = 0,
	 .max = 1e18,
	 .help = "how long it takes to find out"},
	{0},
};

static const weir_admission_law limit_law = {
	.name = "limit",
	.brief = "drops at its turn what has waited longer than it was told",
	.state_bytes = sizeof(limit_params),
	.params_bytes = sizeof(limit_params),
	.params = limit_table,
	.init = limit_init,
	.admit = limit_admit,
	.start = limit_start,
};

/* The criteria that are met together or not at all. */
static const criterion together[] = {P90, WORK, LATE, SHED7, SHED8, CALM_P90};

static void try_limit(const trial *t, double of_target, trial *ret_tried)
{
	char setting[64];
	cell_stats stats;
	double target_ns = trial_cell(t, NULL).target_ns;
	snprintf(setting, sizeof(setting), "limit=%.0f", fmin(of_target * target_ns, 1e17));
	trial_stretch(t, &limit_law, (const char *const[]){setting, NULL}, &stats);
	*ret_tried = (trial){0};
	if (t->part == STEADY_PART) {
		trial_note(ret_tried, P90, tally_quantile(&stats.all.response, .9));
		trial_note(ret_tried, WORK, stats.work);
		trial_note(ret_tried, LATE, tally_above(&stats.all.response, 2));
		return;
	}
	trial_note(ret_tried, t->load < .75 ? SHED7 : SHED8,
		   (double)stats.all.shed / (double)stats.all.offered);
	trial_note(ret_tried, CALM_P90, tally_quantile(&stats.all.response, .9));
}

/* How far beyond its bounds a trial is, by the worst criterion; 0 or less: it meets all. */
static double shortfall(const trial *t)
{
	double worst = -INFINITY;
	for (unsigned i = 0; i < sizeof(together) / sizeof(together[0]); i++) {
		criterion c = together[i];
		if (t->judged[c] == NOT_JUDGED)
			continue;
		double bound = criterion_bound(c);
		double by = criterion_at_least(c) ? bound - t->value[c] : t->value[c] - bound;
		worst = fmax(worst, by / bound);
	}
	return worst;
}

static bool failed_together(const trial *t)
{
	for (unsigned i = 0; i < sizeof(together) / sizeof(together[0]); i++)
		if (t->judged[together[i]] == FAILED)
			return true;
	return false;
}

/*
 * One worker that is always busy, and no preemption: an arrival of the highest class finds a job with this chance that will go on for longer than
 * so many targets: E[(s - x)+] / E[s]. Nothing but idling could help it.
 */
static double blocked(const trial *t, double of_target)
{
	cell_options options = trial_cell(t, NULL);
	double beyond = 0, all = 0, x = of_target * options.target_ns;
	for (unsigned i = 0; i < 100000; i++) {
		double s = weir_dist_quantile(&options.service, (i + .5) / 100000);
		all += s;
		beyond += fmax(0, s - x);
	}
	return beyond / all;
}

static void judge_top(trial *t)
{
	t->possible[TOP] = 1 - blocked(t, 2);
	if (t->workers == 1 && t->judged[TOP] == FAILED && t->possible[TOP] < criterion_bound(TOP))
		t->judged[TOP] = IMPOSSIBLE;
}

/* ---- full admission after a fall ---- */

#define TOLD_RIGHT .99 /* that a fall is seen: who takes one in a hundred for overload sheds them */
#define TOLD_WRONG \
	.1 /* that overload is taken for a fall: who lets in as in calm so often has used up what may be late */

/* P(a Poisson count <= k). */
static double poisson_until(double mean, unsigned k)
{
	double each = exp(-mean), sum = each;
	for (unsigned i = 1; i <= k; i++)
		sum += each *= mean / i;
	return sum;
}

/*
 * The shortest time in which the number of arrivals can tell the load after the fall from that before it. The best test there is: for two
 * rates of Poisson arrivals it is a bound on their number.
 */
static double telling_ns(const trial *t)
{
	for (double services = .1; services < 100; services *= 1.05) {
		double calm = STEP_CALM * services, over = t->load * services;
		unsigned k = 0;
		while (poisson_until(calm, k) < TOLD_RIGHT)
			k++;
		if (poisson_until(over, k) <= TOLD_WRONG)
			return services * t->service_ns / t->workers;
	}
	return INFINITY;
}

static double try_fall(const trial *t, double limit, double calm)
{
	char settings[3][64];
	double target_ns = trial_cell(t, NULL).target_ns;
	trial_steps steps = {.fell = note_fall};
	fell_ns = UINT64_MAX;
	snprintf(settings[0], sizeof(settings[0]), "limit=%.0f", limit * target_ns);
	snprintf(settings[1], sizeof(settings[1]), "calm=%.0f", fmin(calm * target_ns, 1e17));
	snprintf(settings[2], sizeof(settings[2]), "after=%.0f", telling_ns(t));
	trial_step(t, &limit_law, (const char *const[]){settings[0], settings[1], settings[2], NULL}, &steps);
	bool held = fmax(steps.over_p90, steps.fall_p90) <= criterion_bound(P90) &&
		    fmax(steps.over_late, steps.fall_late) <= criterion_bound(LATE);
	return held ? steps.full_s : INFINITY;
}

static void judge_fall(trial *t)
{
	static const double limits[] = {.9, .7, .5, .3}, calms[] = {1e9, 4, 2, 1.5, 1, .75};
	double best = INFINITY;
	if (t->judged[FULL] != FAILED)
		return;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		for (size_t j = 0; j < sizeof(calms) / sizeof(calms[0]); j++) {
			best = fmin(best, try_fall(t, limits[i], calms[j]));
			if (best <= criterion_bound(FULL))
				return;
		}
	t->possible[FULL] = best;
	t->judged[FULL] = IMPOSSIBLE;
}

void oracle_judge(trial *t)
{
	if (t->part == CLASS_PART)
		judge_top(t);
	if (t->part == STEP_PART)
		judge_fall(t);
	static const double steady[] = {.1, .2, .3, .4, .5, .6, .7, .8, .9, 1, 1.2, 1.5, 1.75, 2};
	static const double calm[] = {.5, .75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 10, 30, 1e9};
	bool is_steady = t->part == STEADY_PART;
	if ((!is_steady && t->part != CALM_PART) || !failed_together(t))
		return;
	const double *limits = is_steady ? steady : calm;
	size_t count = is_steady ? sizeof(steady) / sizeof(steady[0]) : sizeof(calm) / sizeof(calm[0]);
	trial best = {0}, tried;
	for (size_t i = 0; i < count; i++) {
		try_limit(t, limits[i], &tried);
		if (i == 0 || shortfall(&tried) < shortfall(&best))
			best = tried;
		if (shortfall(&best) <= 0)
			return;
	}
	for (unsigned i = 0; i < sizeof(together) / sizeof(together[0]); i++) {
		t->possible[together[i]] = best.value[together[i]];
		if (t->judged[together[i]] == FAILED)
			t->judged[together[i]] = IMPOSSIBLE;
	}
}
