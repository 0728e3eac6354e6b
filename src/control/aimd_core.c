/* SPDX-License-Identifier: Apache-2.0 */
#include "control/aimd_core.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* With `proportional`, a rise is the paper's up to this rate, and grows with the rate above it. */
#define PROPORTIONAL_FROM_PER_S 100

#define GET(field)        atomic_load_explicit(&(field), memory_order_relaxed)
#define SET(field, value) atomic_store_explicit(&(field), value, memory_order_relaxed)
#define ADD(field, count) atomic_fetch_add_explicit(&(field), count, memory_order_relaxed)

/* ---- parameters ---- */

void weir_aimd_defaults(weir_aimd_tuning *tuning)
{
	*tuning = (weir_aimd_tuning){.percentile = .9,
				     .samples = 100,
				     .timeout_ns = WEIR_NS_PER_S,
				     .alpha = .7,
				     .err_i = -.5,
				     .err_d = 0,
				     .adj_i = 2,
				     .adj_d = 1.2,
				     .c_i = -.1,
				     .rate_min = .05,
				     .rate_max = 5000};
}

static bool within(double value, double min, double max)
{
	return value >= min && value <= max; /* false for NaN, too */
}

static bool rate(double per_s)
{
	return within(per_s, WEIR_SHAPER_RATE_MIN, WEIR_SHAPER_RATE_MAX);
}

static const char *wrong_window(const weir_aimd_tuning *t)
{
	if (!within(t->percentile, .5, .999))
		return "percentile must be from p50 to p99.9";
	if (t->samples < 1 || t->samples > WEIR_WINDOW_MAX)
		return "samples must be from 1 to 1000";
	if (t->samples_min > t->samples)
		return "samples_min must be 0 (then what the percentile needs) or from 1 to samples";
	if (!within((double)t->timeout_ns, 1e7, 3.6e12))
		return "timeout must be from 10ms to 1h";
	return NULL;
}

static const char *wrong_steps(const weir_aimd_tuning *t)
{
	if (!within(t->alpha, 0, .999))
		return "alpha must be from 0 to 0.999";
	if (!within(t->err_d, -1, 100))
		return "err_d must be from -1 to 100";
	if (!within(t->err_i, -1, t->err_d))
		return "err_i must be from -1 to err_d";
	if (!within(t->adj_i, 0, 1e6))
		return "adj_i must be from 0 to 1000000";
	if (!within(t->adj_d, 1, 1000))
		return "adj_d must be from 1 to 1000";
	if (!within(t->c_i, t->err_i, 100))
		return "c_i must be from err_i (below it a rise would be a fall) to 100";
	if (!within(t->patience, 0, 1000))
		return "patience must be 0 (any) or up to 1000 targets";
	return NULL;
}

static const char *wrong_rates(const weir_aimd_tuning *t)
{
	if (!rate(t->rate_min))
		return "rate_min must be from 0.001 to 10000000";
	if (!rate(t->rate_max) || t->rate_max < t->rate_min)
		return "rate_max must be from rate_min to 10000000";
	if (t->rate_start != 0 && !within(t->rate_start, t->rate_min, t->rate_max))
		return "rate_start must be 0 (then rate_max) or from rate_min to rate_max";
	if (t->burst_ns > 3600 * WEIR_NS_PER_S)
		return "burst must be 0 (then half of the target, at most 1s) or up to 1h";
	if (t->depth != 0 && !within(t->depth, 1, 1e9))
		return "depth must be 0 (then by burst) or from 1 to 1000000000";
	return NULL;
}

int weir_aimd_check(const weir_aimd_tuning *tuning, const char **ret_wrong)
{
	const char *wrong = wrong_window(tuning);
	if (wrong == NULL)
		wrong = wrong_steps(tuning);
	if (wrong == NULL)
		wrong = wrong_rates(tuning);
	if (wrong == NULL)
		return 0;
	*ret_wrong = wrong;
	return -EINVAL;
}

int weir_aimd_check_target(uint64_t target_ns, const char **ret_wrong)
{
	if (within((double)target_ns, WEIR_AIMD_TARGET_MIN, WEIR_AIMD_TARGET_MAX))
		return 0;
	*ret_wrong = target_ns == 0 ? "target is required: a response time from 1us to 1h"
				    : "target must be from 1us to 1h";
	return -EINVAL;
}

/* As many as have one sample above the percentile, on average. */
static uint32_t samples_needed(const weir_aimd_tuning *t)
{
	double needed = ceil(1 / (1 - t->percentile) - 1e-6);
	return needed < t->samples ? (uint32_t)needed : t->samples;
}

void weir_aimd_init(weir_aimd *aimd, const weir_aimd_tuning *tuning, uint64_t target_ns)
{
	weir_aimd_tuning *t = &aimd->tuning;
	*t = *tuning;
	t->samples_min = t->samples_min != 0 ? t->samples_min : samples_needed(t);
	t->rate_start = t->rate_start != 0 ? t->rate_start : t->rate_max;
	if (t->burst_ns == 0)
		t->burst_ns = target_ns / 2 < WEIR_NS_PER_S ? target_ns / 2 : WEIR_NS_PER_S;
	aimd->target_ns = target_ns;
	aimd->patience_ns = t->patience > 0 ? (uint64_t)(t->patience * (double)target_ns) : UINT64_MAX;
	atomic_init(&aimd->admitted, 0);
	atomic_init(&aimd->refused, 0);
	atomic_init(&aimd->ended, 0);
	atomic_init(&aimd->sample_ns, 0);
	atomic_init(&aimd->cur_ns, 0);
	atomic_init(&aimd->error, 0);
	atomic_init(&aimd->windows, 0);
	atomic_init(&aimd->shedding, false);
	atomic_init(&aimd->rate_per_s, t->rate_start);
	aimd->began_ns = aimd->began_admitted = aimd->began_refused = aimd->began_ended = 0;
	aimd->used = aimd->asked = false;
	aimd->ended_per_s = 0;
	weir_window_init(&aimd->window, t->samples);
	weir_shaper_init(&aimd->shaper, t->rate_start, 1);
	weir_aimd_set_rate(aimd, t->rate_start, 0);
}

/* ---- events ---- */

void weir_aimd_enter(weir_aimd *aimd, const weir_ask *ask)
{
	ADD(aimd->admitted, ask->count);
}

weir_verdict weir_aimd_admit(weir_aimd *aimd, const weir_ask *ask)
{
	if (weir_shaper_take(&aimd->shaper, ask->count, ask->now_ns)) {
		ADD(aimd->admitted, ask->count);
		return WEIR_ADMITTED;
	}
	ADD(aimd->refused, ask->count);
	return WEIR_SHED_RATE;
}

/* Releases what was written for the event, above all its admission: see inside. */
static void end(weir_aimd *aimd, uint32_t count)
{
	atomic_fetch_add_explicit(&aimd->ended, count, memory_order_release);
}

void weir_aimd_refund(weir_aimd *aimd, const weir_ask *ask)
{
	weir_shaper_refund(&aimd->shaper, ask->count);
	end(aimd, ask->count);
}

weir_verdict weir_aimd_start(weir_aimd *aimd, const weir_event *event, const weir_turn *turn)
{
	/* No subtraction: the time of entry may come from a thread whose clock is a little ahead. */
	if (aimd->patience_ns == UINT64_MAX || turn->now_ns <= event->entered_ns + aimd->patience_ns)
		return WEIR_ADMITTED;
	end(aimd, 1);
	return WEIR_SHED_WAITED;
}

void weir_aimd_gone(weir_aimd *aimd)
{
	end(aimd, 1);
}

void weir_aimd_settle(weir_aimd *aimd, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	end(aimd, 1);
	weir_window_settle(&aimd->window, event, outcome, aimd->target_ns, now_ns);
}

/* ---- windows ---- */

/*
 * Events admitted and not ended. The ends are read first: every event that ended was admitted before, so
 * the result cannot be too low.
 */
static int64_t inside(const weir_aimd *aimd)
{
	uint64_t ended = atomic_load_explicit(&aimd->ended, memory_order_acquire);
	return (int64_t)(GET(aimd->admitted) - ended);
}

/*
 * Events that were admitted without being asked about (a dry run, admission switched off) also end. These
 * ends must not count against later events.
 */
static void forgive(weir_aimd *aimd)
{
	int64_t count = inside(aimd);
	if (count >= 0)
		return;
	ADD(aimd->admitted, (uint64_t)-count);
	aimd->began_admitted += (uint64_t)-count;
}

static bool ends(const weir_aimd *aimd, uint64_t now_ns)
{
	uint32_t count = weir_window_count(&aimd->window);
	if (count >= aimd->tuning.samples)
		return true;
	if (now_ns - aimd->began_ns < aimd->tuning.timeout_ns)
		return false;
	if (count >= aimd->tuning.samples_min)
		return true;
	return inside(aimd) == 0 && (count == 0 || GET(aimd->refused) != aimd->began_refused);
}

static void begin(weir_aimd *aimd, uint64_t now_ns)
{
	aimd->began_ns = now_ns;
	aimd->began_admitted = GET(aimd->admitted);
	aimd->began_refused = GET(aimd->refused);
	aimd->began_ended = GET(aimd->ended);
}

/* How much of the rate the window has used. */
static void account(weir_aimd *aimd, uint64_t now_ns)
{
	double seconds = (double)(now_ns - aimd->began_ns) / 1e9;
	double admitted = (double)(GET(aimd->admitted) - aimd->began_admitted);
	bool refused = GET(aimd->refused) != aimd->began_refused;
	aimd->used = refused || admitted >= .5 * GET(aimd->rate_per_s) * seconds;
	aimd->ended_per_s = (double)(GET(aimd->ended) - aimd->began_ended) / seconds;
	aimd->asked = refused || admitted > 0;
	SET(aimd->shedding, refused);
}

bool weir_aimd_observe(weir_aimd *aimd, uint64_t now_ns)
{
	uint64_t samples[WEIR_WINDOW_MAX], sample_ns = 0;
	if (aimd->began_ns == 0)
		begin(aimd, now_ns);
	forgive(aimd);
	if (!ends(aimd, now_ns) || now_ns == aimd->began_ns)
		return false;
	uint32_t count = weir_window_take(&aimd->window, samples);
	if (count != 0)
		sample_ns = weir_window_quantile(samples, count, aimd->tuning.percentile);
	double alpha = aimd->tuning.alpha, target = (double)aimd->target_ns;
	double cur = alpha * GET(aimd->cur_ns) + (1 - alpha) * (double)sample_ns;
	SET(aimd->sample_ns, (double)sample_ns);
	SET(aimd->cur_ns, cur);
	SET(aimd->error, (cur - target) / target);
	ADD(aimd->windows, 1);
	account(aimd, now_ns);
	begin(aimd, now_ns);
	return true;
}

bool weir_aimd_used(const weir_aimd *aimd)
{
	return GET(aimd->admitted) != 0 || GET(aimd->refused) != 0;
}

bool weir_aimd_wanted(const weir_aimd *aimd)
{
	return aimd->asked || GET(aimd->admitted) != aimd->began_admitted ||
	       GET(aimd->refused) != aimd->began_refused;
}

bool weir_aimd_over(const weir_aimd *aimd)
{
	return GET(aimd->error) > aimd->tuning.err_d;
}

bool weir_aimd_under(const weir_aimd *aimd)
{
	return GET(aimd->error) < aimd->tuning.err_i;
}

/* ---- the rate ---- */

void weir_aimd_set_rate(weir_aimd *aimd, double rate_per_s, uint64_t now_ns)
{
	const weir_aimd_tuning *t = &aimd->tuning;
	rate_per_s = fmin(fmax(rate_per_s, t->rate_min), t->rate_max);
	double depth = t->depth != 0 ? t->depth : fmax(rate_per_s * (double)t->burst_ns / 1e9, 1);
	SET(aimd->rate_per_s, rate_per_s);
	weir_shaper_set(&aimd->shaper, rate_per_s, depth, now_ns);
}

double weir_aimd_rate(const weir_aimd *aimd)
{
	return GET(aimd->rate_per_s);
}

void weir_aimd_raise(weir_aimd *aimd, uint64_t now_ns)
{
	const weir_aimd_tuning *t = &aimd->tuning;
	double now_per_s = GET(aimd->rate_per_s), step = -(GET(aimd->error) - t->c_i) * t->adj_i;
	if (t->half_used && !aimd->used)
		return;
	if (t->proportional)
		step *= fmax(now_per_s / PROPORTIONAL_FROM_PER_S, 1);
	weir_aimd_set_rate(aimd, now_per_s + step, now_ns);
}

void weir_aimd_cut(weir_aimd *aimd, double factor, uint64_t now_ns)
{
	weir_aimd_set_rate(aimd, GET(aimd->rate_per_s) / factor, now_ns);
}

/* ---- reports ---- */

void weir_aimd_explain(const weir_aimd *aimd, const weir_ask *ask, weir_why *ret_why)
{
	ret_why->estimate_ns = (uint64_t)GET(aimd->cur_ns);
	ret_why->target_ns = aimd->target_ns;
	ret_why->retry_after_ns = weir_shaper_wait_ns(&aimd->shaper, ask->count, ask->now_ns);
}

void weir_report_add(weir_report *report, const char *name, double value)
{
	if (report->count >= WEIR_REPORT_VALUES)
		return;
	report->value[report->count].name = name;
	report->value[report->count++].value = value;
}

void weir_aimd_report(const weir_aimd *aimd, weir_report *ret_report)
{
	double rate_per_s = GET(aimd->rate_per_s);
	ret_report->quantile = aimd->tuning.percentile;
	ret_report->target_ns = aimd->target_ns;
	ret_report->measured_ns = (uint64_t)GET(aimd->cur_ns);
	ret_report->rate_per_s = rate_per_s;
	ret_report->shedding = GET(aimd->shedding);
	ret_report->unreachable = rate_per_s <= aimd->tuning.rate_min && weir_aimd_over(aimd);
	weir_report_add(ret_report, "err", GET(aimd->error));
	weir_report_add(ret_report, "samp_s", GET(aimd->sample_ns) / 1e9);
	weir_report_add(ret_report, "windows", (double)GET(aimd->windows));
}

int weir_aimd_save(const weir_aimd *aimd, char *text, size_t size)
{
	return snprintf(text, size, "%.9g %.9g", GET(aimd->rate_per_s), GET(aimd->cur_ns));
}

static bool number(const char **text, double *ret_value)
{
	char *end;
	double value = strtod(*text, &end);
	if (end == *text || !isfinite(value) || value < 0)
		return false;
	*text = end;
	*ret_value = value;
	return true;
}

int weir_aimd_parse(const char **text, weir_aimd_learned *ret_learned)
{
	const char *at = *text;
	weir_aimd_learned learned;
	if (!number(&at, &learned.rate_per_s) || !number(&at, &learned.cur_ns))
		return -EINVAL;
	*text = at;
	*ret_learned = learned;
	return 0;
}

void weir_aimd_learn(weir_aimd *aimd, const weir_aimd_learned *learned)
{
	SET(aimd->cur_ns, learned->cur_ns);
	weir_aimd_set_rate(aimd, learned->rate_per_s, 0);
}
