/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/judge.h"

#include <math.h>
#include <string.h>

#define RATIO_UNIT 10000.0

static double share(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

/* ---- settle times ---- */

typedef struct stretch {
	uint64_t completed, late, offered;
} stretch;

static void add(stretch *sum, const weir_slot *slot)
{
	sum->completed += slot->completed;
	sum->late += slot->late;
	sum->offered += slot->offered;
}

/* If requests arrive and none is completed, the target is not held. */
static bool held(const stretch *sum, double quantile)
{
	if (sum->completed == 0)
		return sum->offered == 0;
	/* One in ten is what p90 allows, though in binary 1 - 0.9 is a little less. */
	return (double)sum->late <= (1 - quantile + 1e-9) * (double)sum->completed;
}

static bool held_from(const weir_record *record, unsigned from, unsigned to, double quantile)
{
	stretch sum = {0};
	unsigned near = from + WEIR_RECORD_SLOTS < to ? from + WEIR_RECORD_SLOTS : to;
	for (unsigned i = from; i < near; i++)
		add(&sum, &record->slot[i]);
	return held(&sum, quantile);
}

/*
 * The first slot from which the target is held; `to`: never. The rest is summed up from the end, in one
 * pass.
 */
static unsigned first_held(const weir_record *record, unsigned from, unsigned to, double quantile)
{
	unsigned best = to;
	stretch rest = {0};
	for (unsigned i = to; i > from; i--) {
		add(&rest, &record->slot[i - 1]);
		if (held(&rest, quantile) && held_from(record, i - 1, to, quantile))
			best = i - 1;
	}
	return best;
}

/* The first slot of a phase; the slot in which it begins belongs to the phase before. */
static unsigned slot_after(const weir_record *record, uint64_t ns)
{
	return (unsigned)((ns + record->slot_ns - 1) / record->slot_ns);
}

static uint64_t settle_of(const weir_record *record, const weir_sim_phase *phase)
{
	unsigned from = slot_after(record, phase->from_ns), to = (unsigned)(phase->to_ns / record->slot_ns);
	if (to <= from)
		return 0;
	unsigned settled = first_held(record, from, to, record->options.quantile);
	if (settled == to)
		return WEIR_NEVER;
	return settled == from ? 0 : settled * record->slot_ns - phase->from_ns;
}

static uint64_t clear_of(const weir_record *record, const weir_sim_phase *phase)
{
	unsigned from = slot_after(record, phase->from_ns), to = (unsigned)(phase->to_ns / record->slot_ns),
		 best = to;
	uint64_t offered = 0, turned_away = 0;
	for (unsigned i = to; i > from; i--) {
		offered += record->slot[i - 1].offered;
		turned_away += record->slot[i - 1].turned_away;
		if (turned_away * 1000 <= offered)
			best = i - 1;
	}
	if (to <= from || best == from)
		return 0;
	return best == to ? WEIR_NEVER : best * record->slot_ns - phase->from_ns;
}

static double overshoot_of(const weir_record *record, const weir_sim_phase *phase)
{
	uint64_t length = record->options.window_ns;
	double most = 0;
	for (uint64_t w = phase->from_ns / length; w < record->windows && w * length < phase->to_ns; w++) {
		const weir_sim_window *window = weir_record_at(record, (unsigned)w, WEIR_CLASSES);
		/*
		 * A window that begins before the phase belongs to the one before, unless there is no
		 * other.
		 */
		if (w * length < phase->from_ns && phase->to_ns > (w + 1) * length)
			continue;
		most = fmax(most, window->ratio);
	}
	return most;
}

/* ---- oscillation ---- */

static void judge_blocks(const weir_record *record, uint64_t from_ns, uint64_t to_ns,
			 weir_phase_judgement *ret)
{
	double sum = 0, squares = 0, count = 0;
	/* The block in progress when the period begins belongs to both sides. */
	unsigned first = 0;
	while (first < record->blocks && record->block[first].end_ns < from_ns)
		first++;
	first++;
	unsigned end = first;
	for (; end < record->blocks && record->block[end].end_ns <= to_ns; end++) {
		double fraction = (double)record->block[end].turned_away / WEIR_RECORD_BLOCK;
		sum += fraction;
		squares += fraction * fraction;
		count++;
	}
	if (count < 2)
		return;
	double mean = sum / count;
	int side = 0;
	for (unsigned i = first; i < end; i++) {
		double off = (double)record->block[i].turned_away / WEIR_RECORD_BLOCK - mean;
		int now = (off > 1e-12) - (off < -1e-12);
		ret->turns += side != 0 && now == -side;
		side = now != 0 ? now : side;
	}
	ret->shed_sd = sqrt(fmax(squares / count - mean * mean, 0));
	ret->blocks = (unsigned)count;
}

/* ---- phases ---- */

static double work_of(const weir_record *record, const weir_sim_phase *phase)
{
	double most = 0;
	for (unsigned i = 0; i < record->options.places; i++)
		most = fmax(most, share(phase->completed_ns[i], phase->capacity_ns[i]));
	return most;
}

static void judge_phase(const weir_record *record, const weir_sim_phase *phase, bool has_target,
			weir_phase_judgement *ret)
{
	double seconds = (double)(phase->to_ns - phase->from_ns) / 1e9;
	*ret = (weir_phase_judgement){
		.from_ns = phase->from_ns,
		.to_ns = phase->to_ns,
		.offered_per_s = (double)phase->offered / seconds,
		.completed_per_s = (double)phase->completed / seconds,
		.good_per_s = (double)phase->good / seconds,
		.useful_per_s = (double)phase->useful / seconds,
		.work = work_of(record, phase),
		.clear_ns = clear_of(record, phase),
		.shed = share((double)phase->turned_away, (double)(phase->offered + phase->inside)),
	};
	if (has_target) {
		ret->ratio = (double)weir_hist_quantile(&phase->ratio, record->options.quantile) / RATIO_UNIT;
		ret->overshoot = overshoot_of(record, phase);
		ret->settle_ns = settle_of(record, phase);
	}
	uint64_t settled = ret->settle_ns == WEIR_NEVER ? 0 : ret->settle_ns;
	judge_blocks(record, phase->from_ns + settled, phase->to_ns, ret);
}

/* Phases that ended before the measurement began are skipped. */
static void judge_phases(const weir_record *record, bool has_target, weir_judgement *ret)
{
	for (unsigned i = 0; i < record->phases; i++) {
		weir_phase_judgement *judged = &ret->phase[ret->phases];
		if (record->phase[i].to_ns <= record->options.warmup_ns)
			continue;
		judge_phase(record, &record->phase[i], has_target, judged);
		ret->phases++;
		ret->turns += judged->turns;
		ret->overshoot = fmax(ret->overshoot, judged->overshoot);
		ret->shed_sd = fmax(ret->shed_sd, judged->shed_sd);
		if (judged->settle_ns > ret->settle_ns)
			ret->settle_ns = judged->settle_ns;
	}
}

/* ---- the whole run ---- */

static double jain_of(const weir_totals *tallies, unsigned count)
{
	double sum = 0, squares = 0, used = 0;
	for (unsigned i = 0; i < count; i++) {
		if (tallies[i].offered == 0)
			continue;
		double served = fmin((double)tallies[i].useful / (double)tallies[i].offered, 1);
		sum += served;
		squares += served * served;
		used++;
	}
	return used > 1 && squares > 0 ? sum * sum / (used * squares) : 0;
}

/* The busiest place is the one that came closest to its capacity. */
static void judge_work(const weir_record *record, weir_judgement *ret)
{
	double all = 0, wasted = 0, most = -1;
	for (unsigned i = 0; i < record->options.places; i++) {
		const weir_place *place = &record->place[i];
		double completed = place->used_ns[WEIR_USED_WELL] + place->used_ns[WEIR_USED_LATE];
		double done = completed + place->used_ns[WEIR_USED_FOR_NOTHING];
		all += done;
		wasted += done - place->used_ns[WEIR_USED_WELL];
		if (share(done, place->capacity_ns) <= most)
			continue;
		most = share(done, place->capacity_ns);
		ret->busiest = i;
		ret->completed_work = share(completed, place->capacity_ns);
	}
	ret->wasted_work = share(wasted, all);
}

void weir_judge(const weir_record *record, bool has_target, weir_judgement *ret)
{
	memset(ret, 0, sizeof *ret);
	weir_record_total(record, &ret->total);
	const weir_totals *total = &ret->total;
	ret->seconds = (double)(record->options.duration_ns - record->options.warmup_ns) / 1e9;
	ret->offered_per_s = (double)total->offered / ret->seconds;
	ret->completed_per_s = (double)total->completed / ret->seconds;
	ret->good_per_s = (double)total->good / ret->seconds;
	ret->useful_per_s = (double)total->useful / ret->seconds;
	ret->shed = share((double)(total->shed + total->dropped), (double)total->offered);
	ret->would = fmin(share((double)total->spared, (double)total->offered), 1);
	ret->too_late = share((double)(total->completed - total->useful), (double)total->completed);
	judge_work(record, ret);
	judge_phases(record, has_target, ret);
	if (has_target) {
		weir_hist all;
		weir_hist_clear(&all);
		for (unsigned i = 0; i < record->phases; i++)
			if (record->phase[i].to_ns > record->options.warmup_ns)
				weir_hist_merge(&all, &record->phase[i].ratio);
		ret->ratio = (double)weir_hist_quantile(&all, record->options.quantile) / RATIO_UNIT;
		ret->ratio_of_offered =
			(double)weir_hist_quantile(&record->ratio_of_offered, record->options.quantile) /
			RATIO_UNIT;
	}
	ret->class_fairness = jain_of(record->klass, record->options.classes);
	ret->type_fairness = jain_of(record->type, record->options.types);
	ret->user_fairness = record->user_fairness;
}

/* ---- single numbers ---- */

#define METRIC(name, expression)                    \
	static double name(const weir_judgement *j) \
	{                                           \
		return (double)(expression);        \
	}
METRIC(get_offered, j->offered_per_s)
METRIC(get_shed, j->shed)
METRIC(get_would, j->would)
METRIC(get_completed, j->completed_per_s)
METRIC(get_good, j->good_per_s)
METRIC(get_useful, j->useful_per_s)
METRIC(get_work, j->completed_work)
METRIC(get_wasted, j->wasted_work)
METRIC(get_p50, weir_hist_quantile(&j->total.response, 0.5) / 1e6)
METRIC(get_p90, weir_hist_quantile(&j->total.response, 0.9) / 1e6)
METRIC(get_p99, weir_hist_quantile(&j->total.response, 0.99) / 1e6)
METRIC(get_ratio, j->ratio)
METRIC(get_ratio_of_offered, j->ratio_of_offered)
METRIC(get_too_late, j->too_late)
METRIC(get_settle, j->settle_ns == WEIR_NEVER ? INFINITY : (double)j->settle_ns / 1e6)
METRIC(get_overshoot, j->overshoot)
METRIC(get_shed_sd, j->shed_sd)
METRIC(get_turns, j->turns)

const weir_sim_metric weir_metrics[] = {
	{"offered_per_s", "offered/s", WEIR_METRIC_PER_S, 1, get_offered},
	{"shed", "shed", WEIR_METRIC_SHARE, 1, get_shed},
	{"would_shed", "would", WEIR_METRIC_SHARE, 1, get_would},
	{"completed_per_s", "done/s", WEIR_METRIC_PER_S, -1, get_completed},
	{"good_per_s", "good", WEIR_METRIC_PER_S, -1, get_good},
	{"useful_per_s", "useful", WEIR_METRIC_PER_S, -1, get_useful},
	{"completed_work", "work", WEIR_METRIC_SHARE, -1, get_work},
	{"wasted_work", "wasted", WEIR_METRIC_SHARE, 1, get_wasted},
	{"p50_ms", "p50", WEIR_METRIC_MS, 1, get_p50},
	{"p90_ms", "p90", WEIR_METRIC_MS, 1, get_p90},
	{"p99_ms", "p99", WEIR_METRIC_MS, 1, get_p99},
	{"ratio", "p/T", WEIR_METRIC_RATIO, 1, get_ratio},
	{"ratio_of_offered", "p/T of offered", WEIR_METRIC_RATIO, 1, get_ratio_of_offered},
	{"too_late", ">2T", WEIR_METRIC_SHARE, 1, get_too_late},
	{"settle_ms", "settle", WEIR_METRIC_MS, 1, get_settle},
	{"overshoot", "peak", WEIR_METRIC_RATIO, 1, get_overshoot},
	{"shed_sd", "sd", WEIR_METRIC_RATIO, 1, get_shed_sd},
	{"turns", "turns", WEIR_METRIC_COUNT, 1, get_turns},
	{NULL, NULL, WEIR_METRIC_COUNT, 0, NULL},
};
