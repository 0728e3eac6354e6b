/* SPDX-License-Identifier: Apache-2.0 */
#include "service/account.h"

#include <math.h>
#include <string.h>

#define SECOND_NS WEIR_NS_PER_S
/* A bucket lets requests through one by one, so the edge of a second may cost one. */
#define MISSED_SLACK 2.
#define OVER_FROM    1.  /* of the capacity: guarantees above it are said ... */
#define OVER_UNTIL   .95 /* ... until they are below this part of it */

#define KLASS(name, is, field, help)                                              \
	{                                                                         \
		name, WEIR_METRIC_##is, offsetof(weir_account_class, field), help \
	}
const weir_metric weir_account_class_metrics[] = {
	KLASS("class", TEXT, name, "The class."),
	KLASS("revenue", NUMBER, revenue, "What a request earns that is answered in time."),
	KLASS("earned", SUM, earned, "Revenue of requests that were answered within the promised time."),
	KLASS("lost", SUM, lost, "Revenue of requests that were answered late, or failed."),
	KLASS("turned_away", SUM, away, "Revenue of requests that were turned away."),
	KLASS("earned_per_second", NUMBER, earned_per_s, "Revenue earned in the last second."),
	KLASS("lost_per_second", NUMBER, lost_per_s, "Revenue lost in the last second."),
	KLASS("turned_away_per_second", NUMBER, away_per_s, "Revenue turned away in the last second."),
	KLASS("guaranteed_per_second", NUMBER, guaranteed_per_s, "Requests that the class is guaranteed."),
	KLASS("guarantee_used", NUMBER, guarantee_used, "Part of the guarantee that is asked for."),
	KLASS("guarantee_missed", COUNTER, guarantee_missed,
	      "Seconds in which fewer were admitted than guaranteed and asked for."),
	{0},
};
#undef KLASS

#define SHOWN(name, is, field, help)                                              \
	{                                                                         \
		name, WEIR_METRIC_##is, offsetof(weir_account_shown, field), help \
	}
const weir_metric weir_account_metrics[] = {
	SHOWN("promised_ns", TIME, promised_ns, "The response time that is promised now."),
	SHOWN("step", GAUGE, step, "The step of the agreement in force, from 1."),
	SHOWN("steps", GAUGE, steps, "The steps of the agreement."),
	SHOWN("arrivals_per_second", NUMBER, arrivals_per_s, "Requests that arrive, smoothed."),
	SHOWN("capacity_per_second", NUMBER, capacity_per_s, "Requests that can be served, as measured."),
	SHOWN("guaranteed_all_per_second", NUMBER, guaranteed_per_s, "Requests guaranteed to all classes."),
	SHOWN("overcommitted", GAUGE, overcommitted, "1: more is guaranteed than can be served."),
	{0},
};
#undef SHOWN

/* ---- the promise ---- */

/* The targets that the law holds; all 0: it has none. */
static void read_targets(const weir_stage *stage, uint64_t ret_target_ns[WEIR_CLASSES])
{
	weir_report report;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		ret_target_ns[k] = weir_stage_report(stage, k, &report) ? report.target_ns : 0;
}

/* Promised once, at each change: what an operator sets by the API meanwhile stays until then. */
static void promise(weir_account *account, weir_stage *stage, const weir_agreement *agreement,
		    double interval_s, uint64_t arrivals)
{
	uint64_t wanted_ns[WEIR_CLASSES];
	read_targets(stage, wanted_ns);
	static const weir_agreement none = {.steps = 1};
	uint64_t agreed_ns = weir_agreement_tick(agreement != NULL ? agreement : &none, &account->agreed,
						 interval_s, arrivals);
	for (unsigned k = 0; agreement != NULL && k < WEIR_CLASSES; k++)
		wanted_ns[k] = agreed_ns;
	if (memcmp(account->promise_ns, wanted_ns, sizeof(wanted_ns)) != 0)
		weir_stage_promise(stage,
				   wanted_ns); /* a law that cannot follow: late ones are still counted */
	memcpy(account->promise_ns, wanted_ns, sizeof(wanted_ns));
	account->shown.promised_ns = wanted_ns[0];
	account->shown.step = agreement != NULL ? account->agreed.at + 1 : 0;
	account->shown.steps = agreement != NULL ? agreement->steps : 0;
	account->shown.arrivals_per_s = account->agreed.rate_per_s;
}

void weir_account_law_replaced(weir_account *account)
{
	memset(account->promise_ns, 0, sizeof(account->promise_ns));
}

/* ---- classes ---- */

/* Counts of the time between two looks. */
typedef struct counted {
	double offered, admitted, in_time, lost, away;
} counted;

static counted between(const weir_stage_stats *before, const weir_stage_stats *now)
{
	uint64_t late = now->late - before->late;
	uint64_t left = now->drops[WEIR_SHED_CANCELLED] - before->drops[WEIR_SHED_CANCELLED];
	return (counted){
		.offered = (double)(now->offered - before->offered),
		.admitted = (double)(now->admitted - before->admitted),
		.in_time = fmax((double)(now->completed - before->completed) - (double)late, 0),
		.lost = (double)(late + now->failed - before->failed),
		/* A client that left was not turned away. */
		.away = fmax((double)(now->shed - before->shed + now->dropped - before->dropped) -
				     (double)left,
			     0),
	};
}

static void add_up(weir_account_class *klass, const counted *more)
{
	klass->earned += klass->revenue * more->in_time;
	klass->lost += klass->revenue * more->lost;
	klass->away += klass->revenue * more->away;
}

static void close_second(weir_account_class *klass, const counted *of, double seconds)
{
	double asked = fmin(of->offered, klass->guaranteed_per_s * seconds);
	klass->earned_per_s = klass->revenue * of->in_time / seconds;
	klass->lost_per_s = klass->revenue * of->lost / seconds;
	klass->away_per_s = klass->revenue * of->away / seconds;
	klass->guarantee_used =
		klass->guaranteed_per_s > 0 ? fmin(of->offered / seconds / klass->guaranteed_per_s, 1) : 0;
	klass->guarantee_missed += klass->guaranteed_per_s > 0 && of->admitted < asked - MISSED_SLACK;
}

/* ---- guarantees against the capacity ---- */

static bool compare_capacity(weir_account *account, const weir_stage *stage, const weir_worth *worth)
{
	weir_account_shown *shown = &account->shown;
	weir_report report;
	bool over = shown->overcommitted != 0;
	shown->guaranteed_per_s = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		shown->guaranteed_per_s += worth->guaranteed_per_s[k];
	shown->capacity_per_s = weir_stage_report(stage, 0, &report) ? report.rate_per_s : 0;
	double most = (over ? OVER_UNTIL : OVER_FROM) * shown->capacity_per_s;
	shown->overcommitted = shown->capacity_per_s > 0 && shown->guaranteed_per_s > most;
	return shown->overcommitted != 0 && !over;
}

/* ---- all ---- */

bool weir_account_keep(weir_account *account, weir_stage *stage, const weir_account_terms *terms,
		       uint64_t now_ns)
{
	bool first = !account->kept;
	double interval_s = first ? 0 : (double)(now_ns - account->last_ns) / 1e9, arrivals = 0;
	double seconds = first ? 0 : (double)(now_ns - account->window_ns) / 1e9;
	bool full = !first && now_ns - account->window_ns >= SECOND_NS;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		weir_account_class *klass = &account->klass[k];
		weir_stage_stats now;
		weir_stage_read(stage, k, &now);
		klass->revenue = terms->worth.revenue[k];
		klass->guaranteed_per_s = terms->worth.guaranteed_per_s[k];
		if (first)
			account->seen[k] = now;
		counted more = between(&account->seen[k], &now);
		add_up(klass, &more);
		arrivals += more.offered;
		if (full) {
			counted second = between(&account->second[k], &now);
			close_second(klass, &second, seconds);
		}
		if (first || full)
			account->second[k] = now;
		account->seen[k] = now;
	}
	if (first || full)
		account->window_ns = now_ns;
	account->last_ns = now_ns;
	account->kept = true;
	promise(account, stage, terms->agreement, interval_s, (uint64_t)arrivals);
	return compare_capacity(account, stage, &terms->worth);
}
