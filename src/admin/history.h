/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_ADMIN_HISTORY_H
#define WEIR_ADMIN_HISTORY_H

/*
 * The last hour of each stage: response times and rates, by second for five minutes and by ten seconds for an
 * hour, so that whoever looks at the live page in an incident sees how it began.
 *
 * Bounds: WEIR_HISTORY_STAGES stages, the first ones that were offered something; about 24 KB each, allocated
 * when they are. A stage is known by its name, so that one which a reload has replaced goes on, and so does one of a
 * successor (history_text.c).
 *
 * Threads: one.
 */

#include "admin/snapshot.h"

#include <stdio.h>

#define WEIR_HISTORY_STAGES  64u
#define WEIR_HISTORY_SECONDS 300u
#define WEIR_HISTORY_TEN     10u
#define WEIR_HISTORY_TENS    360u /* of ten seconds each: an hour */
#define WEIR_HISTORY_VALUES  9u

/* NaN: there was none. Times in ms, rates per second; the names are in history.c. */
typedef struct weir_history_point {
	float value[WEIR_HISTORY_VALUES];
} weir_history_point;

typedef struct weir_history_stage {
	char name[96];
	bool fresh; /* it has a point of this second */
	weir_history_point second[WEIR_HISTORY_SECONDS], ten[WEIR_HISTORY_TENS];
	weir_history_point sum; /* of the seconds of the ten that is being gathered */
	unsigned gathered;      /* these seconds */
} weir_history_stage;

typedef struct weir_history {
	weir_history_stage *stage[WEIR_HISTORY_STAGES];
	unsigned stages;
	uint64_t second_ns[WEIR_HISTORY_SECONDS], ten_ns[WEIR_HISTORY_TENS]; /* when each was taken */
	uint64_t seconds, tens; /* taken so far; the rings are indexed by the remainder */
} weir_history;

/* Adds what a snapshot has. */
void weir_history_take(weir_history *history, const weir_snapshot *snapshot);
/*
 * Writes it as JSON: "now" and "times", in seconds since 1970, and for each stage as many values. wall_s: the
 * time of day at now_ns.
 */
void weir_history_print(const weir_history *history, uint64_t now_ns, double wall_s, FILE *to);
/* Makes all points of a stage gaps. */
void weir_history_clear(weir_history_stage *stage);

/* Writes it as one line of text, without its end. */
void weir_history_save(weir_history *history, FILE *to);
/* Reads such a text, by a clock that goes on. False: it is not valid, or of another version; then it is empty. */
bool weir_history_load(weir_history *history, const char *text, uint64_t now_ns);
/* All zero is an empty one. */
void weir_history_fini(weir_history *history);

#endif
