/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_GATE_H
#define WEIR_STAGE_GATE_H

/*
 * What decides about offers to a stage beside its bounds: the law in force (a gate), what others ask to be
 * shed (pressure), and what the controller remembers between two ticks of the law.
 *
 * Threads: grouped by who may touch a field. A gate is found by any thread within a section (grace.h); it is
 * never changed, only replaced.
 */

#include <stdatomic.h>
#include <weir/inspect.h>

#include "base/hist.h"
#include "control/downstream.h"

struct weir_lane;

/*
 * An admission law with its state, or with one state per lane. Events carry the number of the gate they
 * passed, so that a law is told of its own events only. A replaced gate is freed after a grace period
 * (grace.h), once no ticket refers to it.
 */
typedef struct weir_gate {
	/* const after init */
	const weir_admission_law *law;
	const void *params; /* a copy; NULL: none given */
	uint32_t number;
	uint32_t states;
	size_t stride; /* from one lane's state to the next; 0: one state for all */
	bool learnt;   /* started from saved state */
	bool bare;     /* has no law: the stage needs a gate for other reasons */
	/* any thread */
	_Atomic bool special;     /* more than the law decides: see gate.c */
	_Atomic uint32_t tickets; /* reservations that would be refunded here */
	/* under control_lock */
	struct weir_gate *retired;
	uint64_t grace; /* once replaced: the grace period after which nobody uses it */
	_Alignas(64) unsigned char state[];
} weir_gate;

/* Fractions are stored in units of 1 / WEIR_WHOLE. */
#define WEIR_WHOLE (UINT32_C(1) << 16)

/* Who may report that resources are short; the largest value counts. */
typedef enum weir_presser { WEIR_BY_USER, WEIR_BY_MONITOR, WEIR_PRESSERS } weir_presser;

/*
 * What others ask a stage to shed, per class: because resources are short, or because stages further down
 * shed what entered here (pressure.c).
 */
typedef struct weir_pressure {
	/* any thread */
	_Atomic bool active;
	_Atomic uint32_t part[WEIR_CLASSES]; /* to be shed, in WEIR_WHOLE */
	/* because resources are short; false: because stages further down shed */
	_Atomic bool by_resources[WEIR_CLASSES];
	_Atomic int64_t carry[WEIR_CLASSES];    /* asked for and not yet shed, in WEIR_WHOLE */
	_Atomic uint64_t below[WEIR_CLASSES];   /* events that entered here and were shed further down */
	_Atomic uint64_t lag_sum[WEIR_CLASSES]; /* sum of their times from entry to shed, in ns */
	/* the controller */
	double asked[WEIR_PRESSERS]; /* fraction to shed for lack of resources, 0 to 1 */
	uint64_t at_ns, last_ns;
	double mix[WEIR_CLASSES];  /* proportions of the recent offers */
	double kept[WEIR_CLASSES]; /* fraction to admit because of stages further down */
	weir_downstream downstream[WEIR_CLASSES];
	struct {
		uint64_t offered, admitted, below, lag_sum;
	} last[WEIR_CLASSES];
} weir_pressure;

/* What the last tick of an admission law saw. */
typedef struct weir_ticks {
	uint64_t at_ns, last_ns;
	uint64_t rest_until_ns; /* 0: the stage does not rest */
	uint64_t busy_ns;       /* the last tick that saw anything (rest.c); 0: none yet */
	uint64_t cpu_ns;        /* processor time of the process at the last tick; 0: none was asked for */
	uint32_t unreachable;   /* classes, as bits, whose target was out of reach */
	uint32_t notify;        /* those of them not yet reported */
	uint64_t reports_at_ns;
	weir_class_sample total[WEIR_CLASSES];
	weir_hist *seen[WEIR_CLASSES][WEIR_MEASURES];
} weir_ticks;

/* Whether events may wait at the law that only a tick can drop or let start. */
static inline bool weir_law_holds_back(const weir_admission_law *law)
{
	return law->patience != NULL || law->limit != NULL || law->open != NULL;
}

/* ---- gate.c ---- */

/* For a stage that nobody refers to any more. */
void weir_gates_free(weir_stage *stage);
/* Frees replaced gates that nobody can be using any more. Under control_lock. */
void weir_gates_collect_locked(weir_stage *stage);
/* Applies the settings around the law again. Under control_lock. */
void weir_gate_update_locked(weir_stage *stage);
/* Asks the law about an event's start, as far as it is enforced. */
weir_verdict weir_gate_start(weir_gate *gate, struct weir_lane *lane, const weir_event *event,
			     const weir_turn *turn);
/* How many of `count` waiting events a law may drop under mode and ceiling; and that it dropped some. */
size_t weir_gate_may_drop(const weir_stage *stage, size_t count);
void weir_gate_dropped(weir_stage *stage, size_t count);

/* ---- pressure.c ---- */

void weir_pressure_init(weir_stage *stage);
weir_verdict weir_pressure_ask(weir_stage *stage, unsigned klass, uint32_t count);
/*
 * Called when an event that entered elsewhere is shed here: reports it to the stage where it entered. The
 * thread of the event's owner.
 */
void weir_pressure_below(const weir_stage *stage, weir_event *event, weir_verdict why, uint64_t now_ns);
/* Called when a handler gives up an event because something further down, perhaps outside, is overloaded. */
void weir_pressure_refused(const weir_stage *stage, weir_event *event, uint64_t now_ns);
/* As weir_stage_press. Under control_lock. */
void weir_pressure_set_locked(weir_stage *stage, weir_presser who, double fraction);
/* Whether anybody asks for something to be shed. Under control_lock. */
bool weir_pressure_is_on(const weir_stage *stage);
/* Adapts the fractions to be shed; returns when to come again, UINT64_MAX: never. Under control_lock. */
uint64_t weir_pressure_tick_locked(weir_stage *stage, uint64_t now_ns);

#endif
