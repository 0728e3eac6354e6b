/* SPDX-License-Identifier: Apache-2.0 */
#include "laws/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MS 1e6

static const double noise_floor[WEIR_DIST_KINDS] = {.03, .05, .06, .09, .12};

const char *const criterion_text[CRITERION_COUNT] = {
#define CRITERION(name, text, bound, least) [name] = text,
	CRITERIA(CRITERION)
#undef CRITERION
};

const char *const part_name[PART_COUNT] = {"steady", "step",    "cold", "calm",
					   "change", "classes", "rare", "retry"};

double criterion_bound(criterion c)
{
	static const double bounds[CRITERION_COUNT] = {
#define CRITERION(name, text, bound, least) [name] = bound,
		CRITERIA(CRITERION)
#undef CRITERION
	};
	return bounds[c];
}

bool criterion_at_least(criterion c)
{
	static const bool least[CRITERION_COUNT] = {
#define CRITERION(name, text, bound, least) [name] = least,
		CRITERIA(CRITERION)
#undef CRITERION
	};
	return least[c];
}

/* A trial may note a criterion several times: the worst counts. */
void trial_note(trial *t, criterion c, double value)
{
	bool least = criterion_at_least(c);
	if (t->judged[c] != NOT_JUDGED)
		value = least ? fmin(value, t->value[c]) : fmax(value, t->value[c]);
	t->value[c] = value;
	t->judged[c] = (least ? value >= criterion_bound(c) : value <= criterion_bound(c)) ? PASSED : FAILED;
}

cell_options trial_cell(const trial *t, const weir_admission_law *law)
{
	weir_dist service = {.kind = t->dist, .mean = t->service_ns};
	return (cell_options){.law = law,
			      .service = service,
			      .workers = t->workers,
			      .target_ns = t->target_of_p90 * cell_service_p90(&service),
			      .seed = t->seed,
			      .dry_run = t->dry_run,
			      .reasons = t->reasons};
}

static cell *open_cell(const cell_options *options)
{
	cell *c = cell_new(options);
	if (c == NULL) {
		fprintf(stderr, "grid_own: %s\n", weir_error());
		exit(2);
	}
	return c;
}

static bool heavy(const trial *t)
{
	return t->dist == WEIR_DIST_LOGNORMAL || t->dist == WEIR_DIST_PARETO;
}

/* Long enough for so many completions by the workers. */
static double time_of(const trial *t, double completions)
{
	return completions * (t->quick ? .3 : 1) * t->service_ns / t->workers;
}

/* What the bound of the recovery is. */
static double allowed_ns(const trial *t)
{
	return fmax(500 * MS, 20 * t->service_ns);
}

/* ---- steady, calm ---- */

void trial_stretch(const trial *t, const weir_admission_law *law, const char *const *settings,
		   cell_stats *ret_stats)
{
	cell_options options = trial_cell(t, law);
	options.settings = settings;
	bool calm = t->part == CALM_PART;
	double enough = calm ? (heavy(t) ? 200000 : 60000) : heavy(t) ? 40000 : 20000;
	if (t->service_ns > 100 * MS)
		enough /= 2;
	cell *c = open_cell(&options);
	cell_load(c, t->load);
	cell_run(c, fmax(fmax(6 * options.target_ns, 300 * t->service_ns), 30 * MS));
	cell_mark(c);
	cell_run(c, fmax(fmax(20 * options.target_ns, time_of(t, enough)), 20 * MS));
	cell_read(c, ret_stats);
	cell_free(&c);
}

void trial_dry(const trial *t, const weir_admission_law *law, double *ret_enforced, double *ret_would)
{
	cell_stats stats;
	trial dry = *t;
	trial_stretch(t, law, NULL, &stats);
	*ret_enforced = (double)stats.all.shed / fmax((double)stats.all.offered, 1);
	dry.dry_run = true;
	trial_stretch(&dry, law, NULL, &stats);
	*ret_would = stats.would;
}

static void run_steady(trial *t, const weir_admission_law *law)
{
	cell_stats stats;
	trial_stretch(t, law, NULL, &stats);
	t->arrivals = stats.all.offered;
	trial_note(t, P90, tally_quantile(&stats.all.response, .9));
	trial_note(t, WORK, stats.work);
	trial_note(t, LATE, tally_above(&stats.all.response, 2));
	if (t->load == 1.4)
		trial_note(t, STEADY, stats.shed_sd / noise_floor[t->dist]);
}

static void run_calm(trial *t, const weir_admission_law *law)
{
	cell_stats stats;
	trial_stretch(t, law, NULL, &stats);
	t->arrivals = stats.all.offered;
	trial_note(t, t->load < .75 ? SHED7 : SHED8, (double)stats.all.shed / (double)stats.all.offered);
	trial_note(t, CALM_P90, tally_quantile(&stats.all.response, .9));
}

/* ---- steps: many repetitions laid over each other, so that p90 at a moment is of many ---- */

#define STEP_SLICES 60
#define FALL_SLICES 300
#define FEW         40 /* samples in a slice that say something */

static double slice_p90(const cell_slices *s, unsigned at)
{
	return s->at[at].response.count >= FEW ? tally_quantile(&s->at[at].response, .9) : 0;
}

static double peak_of(const cell_slices *s)
{
	double peak = 0;
	for (unsigned i = 0; i < s->count; i++)
		peak = fmax(peak, slice_p90(s, i));
	return peak;
}

/* From the first slice above the target to the end of the last one before two in a row are within it, ns. */
static double time_above(const cell_slices *s)
{
	unsigned from = 0;
	while (from < s->count && slice_p90(s, from) <= 1.1)
		from++;
	unsigned to = from;
	for (unsigned within = 0; to + within < s->count && within < 2;) {
		if (slice_p90(s, to + within) <= 1.1) {
			within++;
		} else {
			to += within + 1;
			within = 0;
		}
	}
	return (double)(to - from) * (double)s->width_ns;
}

static double shed_of(const cell_slices *s, unsigned from, unsigned to)
{
	uint64_t offered = 0, shed = 0;
	for (unsigned i = from; i < to && i < s->count; i++) {
		offered += s->at[i].offered;
		shed += s->at[i].shed;
	}
	return offered != 0 ? (double)shed / (double)offered : 0;
}

#define NEVER_S 1000.

/*
 * From the start until hardly anything is shed, one in a hundred. Looked at over stretches long enough that one or two are not
 * one in a hundred. A law that still sheds when the looking ends has not come to it.
 */
static double seconds_shedding(const cell_slices *s)
{
	unsigned full = 0, last = s->count * 2 / 3;
	for (unsigned i = 0; i < last; i++) {
		unsigned to = i;
		for (uint64_t offered = 0; to < s->count && offered < 300; to++)
			offered += s->at[to].offered;
		if (shed_of(s, i, to) > .01)
			full = i + 1;
	}
	return full == last ? NEVER_S : (double)full * (double)s->width_ns / 1e9;
}

/* So often that a slice has enough in it. */
static unsigned repeats(const trial *t, double slice_ns)
{
	double each = t->workers * slice_ns / t->service_ns;
	double wanted = ceil((t->quick ? 60 : 120) / each);
	return (unsigned)fmin(fmax(wanted, 2), 80);
}

static void ends_of(const cell_slices *s, unsigned from, double *ret_p90, double *ret_late)
{
	tally all = {0};
	for (unsigned i = from; i < s->count; i++)
		tally_merge(&all, &s->at[i].response);
	*ret_p90 = tally_quantile(&all, .9);
	*ret_late = tally_above(&all, 2);
}

void trial_step(const trial *t, const weir_admission_law *law, const char *const *settings,
		trial_steps *steps)
{
	cell_options options = trial_cell(t, law);
	options.settings = settings;
	double target = options.target_ns, fill = target / fmin(t->load - 1, 1);
	double up = fmax(fmax(fill + 4 * target, 60 * t->service_ns), fmin(600 * MS, 1500 * t->service_ns));
	double down = fmax(fmax(4 * target, 100 * t->service_ns), fmin(1800 * MS, 3000 * t->service_ns));
	cell_slices *rise = cell_slices_new(STEP_SLICES, up / STEP_SLICES);
	cell_slices *fall = cell_slices_new(FALL_SLICES, down / FALL_SLICES);
	unsigned times = repeats(t, up / STEP_SLICES);
	cell *c = open_cell(&options);
	cell_load(c, STEP_CALM);
	cell_run(c, fmax(fmax(4 * target, 300 * t->service_ns), 30 * MS));
	for (unsigned i = 0; i < times; i++) {
		cell_load(c, t->load);
		cell_slices_set(c, rise);
		if (steps->fell != NULL)
			steps->fell(UINT64_MAX);
		cell_run(c, up);
		cell_load(c, STEP_CALM);
		cell_slices_set(c, fall);
		if (steps->fell != NULL)
			steps->fell(cell_now(c));
		cell_run(c, down);
	}
	cell_free(&c);
	steps->peak = peak_of(rise);
	steps->above_ns = time_above(rise);
	steps->full_s = seconds_shedding(fall);
	ends_of(rise, STEP_SLICES / 2, &steps->over_p90, &steps->over_late);
	ends_of(fall, 0, &steps->fall_p90, &steps->fall_late);
	free(rise);
	free(fall);
}

static void run_step(trial *t, const weir_admission_law *law)
{
	trial_steps steps = {0};
	trial_step(t, law, NULL, &steps);
	trial_note(t, PEAK, steps.peak);
	trial_note(t, BACK, steps.above_ns / allowed_ns(t));
	trial_note(t, FULL, steps.full_s);
}

static void run_cold(trial *t, const weir_admission_law *law)
{
	cell_options options = trial_cell(t, law);
	double up =
		fmax(fmax(5 * options.target_ns, 60 * t->service_ns), fmin(600 * MS, 1500 * t->service_ns));
	cell_slices *rise = cell_slices_new(STEP_SLICES, up / STEP_SLICES);
	unsigned times = repeats(t, up / STEP_SLICES);
	for (unsigned i = 0; i < times; i++) {
		options.seed = t->seed * 1000 + i;
		cell *c = open_cell(&options);
		cell_load(c, t->load);
		cell_slices_set(c, rise);
		cell_run(c, up);
		cell_free(&c);
	}
	trial_note(t, COLD, peak_of(rise));
	free(rise);
}

/* ---- capacity halved and doubled, the load as it was ---- */

static void note_change(trial *t, cell *c)
{
	cell_stats stats;
	cell_read(c, &stats);
	trial_note(t, CHANGE_P90, tally_quantile(&stats.all.response, .9));
	trial_note(t, CHANGE_WORK, stats.work);
}

static void run_change(trial *t, const weir_admission_law *law)
{
	cell_options options = trial_cell(t, law);
	double settle = fmax(allowed_ns(t), 6 * options.target_ns);
	double stay = fmax(20 * options.target_ns, time_of(t, heavy(t) ? 20000 : 10000));
	/* 500 ms are a long time for fast services: what matters is some ticks */
	settle = fmin(settle, fmax(6 * options.target_ns, 3000 * t->service_ns));
	cell_slices *slices = cell_slices_new(STEP_SLICES, settle / STEP_SLICES);
	unsigned times = (repeats(t, settle / STEP_SLICES) + 3) / 4;
	cell *c = open_cell(&options);
	cell_load(c, t->load);
	cell_run(c, settle);
	for (unsigned i = 0; i < times; i++) {
		cell_speed(c, .5);
		cell_slices_set(c, slices);
		cell_run(c, settle);
		cell_slices_set(c, NULL);
		cell_mark(c);
		cell_run(c, stay);
		if (i == times - 1)
			note_change(t, c);
		cell_speed(c, 1);
		cell_run(c, settle);
		cell_mark(c);
		cell_run(c, stay);
		if (i == times - 1)
			note_change(t, c);
	}
	trial_note(t, CHANGE_BACK, time_above(slices) / allowed_ns(t));
	cell_free(&c);
	free(slices);
}

/* ---- classes ---- */

static double success(const cell_class_stats *k)
{
	return k->offered != 0 ? (double)k->completed / (double)k->offered : 1;
}

/* Three classes of .2 each; then the lowest twelve times that. */
static void run_burst(trial *t, const weir_admission_law *law)
{
	cell_options options = trial_cell(t, law);
	options.order = WEIR_BY_CLASS;
	cell_stats stats;
	cell *c = open_cell(&options);
	cell_shares(c, (double[WEIR_CLASSES]){1, 1, 1});
	cell_load(c, .6);
	cell_run(c, fmax(6 * options.target_ns, time_of(t, 3000)));
	cell_shares(c, (double[WEIR_CLASSES]){1, 1, 12});
	cell_load(c, 2.8);
	cell_mark(c);
	cell_run(c, fmax(20 * options.target_ns, time_of(t, 20000)));
	cell_read(c, &stats);
	cell_free(&c);
	trial_note(t, TOP, success(&stats.klass[0]));
}

/* Three classes with one target, the highest alone too much. */
static void run_starve(trial *t, const weir_admission_law *law)
{
	cell_options options = trial_cell(t, law);
	options.order = WEIR_BY_CLASS;
	cell_stats stats;
	cell *c = open_cell(&options);
	cell_shares(c, (double[WEIR_CLASSES]){1, 1, 1});
	cell_load(c, t->load * 3);
	cell_run(c, fmax(fmax(6 * options.target_ns, time_of(t, 3000)), 30 * MS));
	cell_mark(c);
	cell_run(c, fmax(40 * options.target_ns, time_of(t, 20000)));
	cell_read(c, &stats);
	cell_free(&c);
	for (unsigned k = 1; k < 3; k++) {
		double share = (double)stats.klass[k].completed / (double)stats.all.completed;
		trial_note(t, MINIMUM, share / .01);
		trial_note(t, ORDER, success(&stats.klass[k - 1]) - success(&stats.klass[k]));
	}
	trial_note(t, P90, tally_quantile(&stats.klass[0].response, .9));
	trial_note(t, WORK, stats.work);
}

static void run_classes(trial *t, const weir_admission_law *law)
{
	run_burst(t, law);
	run_starve(t, law);
}

/* One in a hundred costs twenty times as much, and has a target of its own. */
static void run_rare(trial *t, const weir_admission_law *law)
{
	cell_options options = trial_cell(t, law);
	options.klass[0].share = 99;
	options.klass[1].share = 1;
	options.klass[1].cost = 20;
	options.klass[1].target = 20;
	cell_stats stats;
	cell *c = open_cell(&options);
	cell_load(c, t->load);
	cell_run(c, fmax(20 * options.target_ns, time_of(t, 20000)));
	cell_mark(c);
	cell_run(c, fmax(60 * options.target_ns, time_of(t, 60000)));
	cell_read(c, &stats);
	cell_free(&c);
	trial_note(t, RARE, tally_quantile(&stats.klass[1].response, .9));
	trial_note(t, RARE_OTHERS, tally_quantile(&stats.klass[0].response, .9));
}

/* ---- clients that try again ---- */

static void run_retry(trial *t, const weir_admission_law *law)
{
	cell_options options = trial_cell(t, law);
	options.retries = (cell_retries){.most = 8, .after = 1, .give_up = 4};
	double spike = fmax(10 * options.target_ns, 300 * t->service_ns);
	cell_stats stats;
	cell *c = open_cell(&options);
	cell_load(c, .8);
	cell_run(c, fmax(spike, 30 * MS));
	cell_load(c, t->load);
	cell_run(c, spike);
	cell_load(c, .8);
	/* those who were turned away come again for a while: 2^8 targets at most */
	cell_run(c, 40 * options.target_ns);
	cell_mark(c);
	cell_run(c, fmax(100 * options.target_ns, time_of(t, 20000)));
	cell_read(c, &stats);
	cell_free(&c);
	trial_note(t, RETRY, (double)stats.all.served / (double)stats.all.first);
}

void trial_run(trial *t, const weir_admission_law *law)
{
	static void (*const run[PART_COUNT])(trial *, const weir_admission_law *) = {
		[STEADY_PART] = run_steady, [STEP_PART] = run_step,     [COLD_PART] = run_cold,
		[CALM_PART] = run_calm,     [CHANGE_PART] = run_change, [CLASS_PART] = run_classes,
		[RARE_PART] = run_rare,     [RETRY_PART] = run_retry,
	};
	run[t->part](t, law);
}
