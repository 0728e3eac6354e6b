/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_AIMD_CORE_H
#define WEIR_CONTROL_AIMD_CORE_H

/*
 * The response-time controller of AOC 3.2, as a component: a window of response times, their smoothed
 * percentile, the error against a target, and a token bucket whose rate follows it. `aimd` has one of
 * these, `multiclass` one per class, `quality` one whose bucket is used only sometimes.
 *
 *  settle ──▶ window ──(observe, at a tick)──▶ cur, err ──(step)──▶ rate ──▶ bucket ──▶ admit
 *
 * A window is checked at every tick, and ends when
 * 1. it has `samples` response times, or
 * 2. `timeout` has passed and it has `samples_min`, or
 * 3. `timeout` has passed and nothing is inside: with no samples (idle: an empty stage has a response
 *    time of 0), or with too few of them although it refused some (starved: waiting for more would take
 *    longer the less is admitted).
 *
 * Otherwise everything stays as it is, and the window continues.
 *
 * Threads: any thread may call enter, admit, refund, start, gone, settle, explain and report; the thread
 * of the ticks calls observe, step and set_rate. The number inside is admitted - ended. In a dry run, or
 * with admission switched off, more events end than were asked about. A tick then resets the number to 0,
 * so that it is right once the stage has been empty.
 */

#include <stddef.h>
#include <weir/law.h>

#include "control/shaper.h"
#include "control/window.h"

#define WEIR_AIMD_TICK_NS UINT64_C(10000000)

typedef struct weir_aimd {
	/* const after init */
	weir_aimd_tuning tuning; /* with all defaults filled in */
	uint64_t target_ns;
	uint64_t patience_ns; /* UINT64_MAX: unlimited */
	/* any thread */
	weir_shaper shaper;
	_Atomic uint64_t admitted, refused, ended;
	/* written at ticks, read by any */
	_Atomic double rate_per_s, sample_ns, cur_ns, error;
	_Atomic uint64_t windows;
	_Atomic bool shedding; /* it refused some in the last window */
	/* the thread of the ticks */
	uint64_t began_ns, began_admitted, began_refused, began_ended;
	/* of the last window */
	bool asked; /* there was at least one offer */
	bool used;  /* at least half of the rate was used, or some were refused */
	double ended_per_s;
	weir_window window;
} weir_aimd;

void weir_aimd_defaults(weir_aimd_tuning *tuning);
/* -EINVAL, with *ret_wrong saying what is accepted. */
int weir_aimd_check(const weir_aimd_tuning *tuning, const char **ret_wrong);
/* Checks that a target is from 1 us to an hour. Returns as weir_aimd_check. */
int weir_aimd_check_target(uint64_t target_ns, const char **ret_wrong);
void weir_aimd_init(weir_aimd *aimd, const weir_aimd_tuning *tuning, uint64_t target_ns);

/* Admits the ask without the bucket. */
void weir_aimd_enter(weir_aimd *aimd, const weir_ask *ask);
weir_verdict weir_aimd_admit(weir_aimd *aimd, const weir_ask *ask);
void weir_aimd_refund(weir_aimd *aimd, const weir_ask *ask);
weir_verdict weir_aimd_start(weir_aimd *aimd, const weir_event *event, const weir_turn *turn);
void weir_aimd_gone(weir_aimd *aimd);
void weir_aimd_settle(weir_aimd *aimd, const weir_event *event, weir_outcome outcome, uint64_t now_ns);

/* Returns true if a window has ended: cur and err are new, and a step is due. */
bool weir_aimd_observe(weir_aimd *aimd, uint64_t now_ns);
/* Whether there has ever been an offer; any thread. */
bool weir_aimd_used(const weir_aimd *aimd);
/* Whether there was an offer in this window or the one before; at ticks. */
bool weir_aimd_wanted(const weir_aimd *aimd);
/* The error is above the band, or below it. */
bool weir_aimd_over(const weir_aimd *aimd);
bool weir_aimd_under(const weir_aimd *aimd);
/* Raises the rate by what the error says, unless half_used forbids it. */
void weir_aimd_raise(weir_aimd *aimd, uint64_t now_ns);
void weir_aimd_cut(weir_aimd *aimd, double factor, uint64_t now_ns);
/* Clamps the rate to rate_min and rate_max. */
void weir_aimd_set_rate(weir_aimd *aimd, double rate_per_s, uint64_t now_ns);
double weir_aimd_rate(const weir_aimd *aimd);

void weir_aimd_explain(const weir_aimd *aimd, const weir_ask *ask, weir_why *ret_why);
void weir_aimd_report(const weir_aimd *aimd, weir_report *ret_report);
/* Adds one of the law's own values; it is dropped when there are too many. */
void weir_report_add(weir_report *report, const char *name, double value);
/* What is worth keeping over a restart, as two numbers: rate, cur. Returns as snprintf does. */
typedef struct weir_aimd_learned {
	double rate_per_s, cur_ns;
} weir_aimd_learned;
int weir_aimd_save(const weir_aimd *aimd, char *text, size_t size);
/* Reads them from *text and advances it behind them. -EINVAL: they are not there. */
int weir_aimd_parse(const char **text, weir_aimd_learned *ret_learned);
void weir_aimd_learn(weir_aimd *aimd, const weir_aimd_learned *learned);

/* The rows of a parameter table for a struct with a `tuning`. */
#define WEIR_AIMD_ROW(of, field, is, least, most, tells) \
	WEIR_KEY(#field, is, of, tuning.field, NULL, tells, .min = least, .max = most)
#define WEIR_AIMD_TIME(of, field, least, most, tells) \
	WEIR_KEY(#field, TIME, of, tuning.field##_ns, NULL, tells, .min = least, .max = most)
#define WEIR_AIMD_PARAMS(type)                                                                               \
	WEIR_AIMD_ROW(type, percentile, PERCENTILE, .5, .999,                                                \
		      "The percentile of the response times that is held"),                                  \
		WEIR_AIMD_ROW(type, samples, COUNT, 1, WEIR_WINDOW_MAX, "The response times of a window"),   \
		WEIR_AIMD_ROW(type, samples_min, COUNT, 0, WEIR_WINDOW_MAX,                                  \
			      "With fewer response times the rate stays; 0: as many as the percentile "      \
			      "needs, 10 for p90"),                                                          \
		WEIR_AIMD_TIME(type, timeout, 1e7, 3.6e12,                                                   \
			       "A window that is not full ends after this time"),                            \
		WEIR_AIMD_ROW(type, alpha, NUMBER, 0, .999, "The weight of the past in the moving average"), \
		WEIR_AIMD_ROW(type, err_i, NUMBER, -1, 100, "The error below which the rate rises"),         \
		WEIR_AIMD_ROW(type, err_d, NUMBER, -1, 100, "The error above which the rate falls"),         \
		WEIR_AIMD_ROW(type, adj_i, NUMBER, 0, 1e6, "The additive rise of the rate in a window"),     \
		WEIR_AIMD_ROW(type, adj_d, NUMBER, 1, 1000, "The factor by which the rate falls"),           \
		WEIR_AIMD_ROW(type, c_i, NUMBER, -1, 100, "The error at which the rise would be zero"),      \
		WEIR_AIMD_ROW(type, rate_min, NUMBER, WEIR_SHAPER_RATE_MIN, WEIR_SHAPER_RATE_MAX,            \
			      "The lowest rate, in admissions per second"),                                  \
		WEIR_AIMD_ROW(type, rate_max, NUMBER, WEIR_SHAPER_RATE_MIN, WEIR_SHAPER_RATE_MAX,            \
			      "The highest rate, in admissions per second"),                                 \
		WEIR_AIMD_ROW(type, rate_start, NUMBER, 0, WEIR_SHAPER_RATE_MAX,                             \
			      "The rate at the beginning; 0: rate_max"),                                     \
		WEIR_AIMD_TIME(type, burst, 0, 3.6e12,                                                       \
			       "The depth of the bucket, as time at the current rate; 0: half of the "       \
			       "target, at most 1s"),                                                        \
		WEIR_AIMD_ROW(type, depth, NUMBER, 0, 1e9,                                                   \
			      "The depth of the bucket in requests, at any rate; 0: by burst"),              \
		WEIR_AIMD_ROW(type, proportional, SWITCH, 0, 1,                                              \
			      "Above 100 per second the rise grows with the rate"),                          \
		WEIR_AIMD_ROW(type, half_used, SWITCH, 0, 1,                                                 \
			      "The rate does not rise while less than half of it is used"),                  \
		WEIR_AIMD_ROW(type, patience, NUMBER, 0, 1000,                                               \
			      "Requests older than this many targets at their start are dropped; 0: none")
/* Range of `target`, in ns. */
#define WEIR_AIMD_TARGET_MIN 1e3
#define WEIR_AIMD_TARGET_MAX 3.6e12

#endif
