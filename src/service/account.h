/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_ACCOUNT_H
#define WEIR_SERVICE_ACCOUNT_H

/*
 * The account of a stage: what its answers earn, by class, what late and failed ones lose, and what was turned
 * away. Beside it: the response time that is promised at the current arrival rate (control/agreement.h), and
 * whether the guaranteed rates of classes are kept.
 *
 * The account is computed from the stage's counts a few times a second, so no request pays for it. A request
 * earns its class's revenue if it is completed within the time that is promised when it ends
 * (weir_stage_promise). Without an agreement that is the target of the law; without a target, every completed
 * request earns. Sums begin with the process, or when the account is first kept.
 *
 * Threads: one at a time; the caller locks.
 */

#include <weir/inspect.h>
#include <weir/metric.h>
#include <weir/stage.h>

#include "service/config.h"

/* What is shown of a class. Rates are of the last second. */
typedef struct weir_account_class {
	const char *name;
	double revenue;            /* of one request */
	double earned, lost, away; /* sums; away: of requests that were turned away */
	double earned_per_s, lost_per_s, away_per_s;
	double guaranteed_per_s, guarantee_used; /* used: 0 to 1, how much of it is asked for */
	uint64_t guarantee_missed;               /* seconds in which fewer were admitted */
} weir_account_class;

/* What is shown of the stage. */
typedef struct weir_account_shown {
	uint64_t promised_ns; /* to class 0; 0: nothing is promised */
	uint64_t step, steps; /* of the agreement, from 1; 0: there is none */
	double arrivals_per_s;
	double capacity_per_s;   /* requests, as the law has measured; 0: unknown */
	double guaranteed_per_s; /* all classes */
	uint64_t overcommitted;  /* 1: more is guaranteed than the capacity */
} weir_account_shown;

typedef struct weir_account {
	bool kept;
	uint64_t last_ns, window_ns; /* of the last look, and when the current second began */
	weir_agreement_state agreed;
	uint64_t promise_ns[WEIR_CLASSES]; /* as the stage was given them */
	weir_stage_stats seen[WEIR_CLASSES],
		second[WEIR_CLASSES]; /* at the last look; when the second began */
	weir_account_shown shown;
	weir_account_class klass[WEIR_CLASSES];
} weir_account;

/* What the configuration says about a stage. */
typedef struct weir_account_terms {
	weir_worth worth;
	const weir_agreement *agreement; /* NULL: none */
} weir_account_terms;

/*
 * Brings the account up to date, and promises what the agreement says. Returns whether the guarantees have just
 * come to exceed the capacity, so that it can be said once.
 */
bool weir_account_keep(weir_account *account, weir_stage *stage, const weir_account_terms *terms,
		       uint64_t now_ns);

/* A new law begins with the target of its parameters: the next look promises again. */
void weir_account_law_replaced(weir_account *account);

extern const weir_metric weir_account_metrics[], weir_account_class_metrics[];

#endif
