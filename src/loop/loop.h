/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOOP_LOOP_H
#define WEIR_LOOP_LOOP_H

/* What the layers above need of a loop beyond weir/loop.h. Only for the loop's own thread. */

#include <weir/loop.h>

#include "base/clock.h"
#include "base/timers.h"

/* The beginning of every loop. It is visible here so that reading the time needs no function call. */
typedef struct weir_loop_face {
	weir_timers timers; /* first: see base/timers.h */
	uint64_t now_ns;    /* of this turn */
	uint64_t turns;     /* begun so far */
	weir_clock clock;   /* read anew once per turn */
} weir_loop_face;

/* As weir_loop_now. */
static inline uint64_t weir_loop_time(const weir_loop *loop)
{
	return ((const weir_loop_face *)(const void *)loop)->now_ns;
}

static inline uint64_t weir_loop_turns(const weir_loop *loop)
{
	return ((const weir_loop_face *)(const void *)loop)->turns;
}

/* The loop's clock, for its own thread. */
static inline weir_clock *weir_loop_clock(weir_loop *loop)
{
	return &((weir_loop_face *)(void *)loop)->clock;
}

/* The value of weir_loop_self. */
extern _Thread_local weir_loop *weir_loop_here __attribute__((tls_model("initial-exec")));

/* Sets what weir_loop_self and weir_timers_self return on this thread (NULL: no loop). */
void weir_loop_set_self(weir_loop *loop);

/*
 * Work deferred to the end of the turn, or, if it is deferred between turns, until before the next wait.
 * Work that such work defers runs in the next round, and the loop does not sleep before it has run.
 */
typedef struct weir_deferred weir_deferred;

struct weir_deferred {
	weir_deferred *next;
	void (*run)(weir_deferred *deferred);
};

/* It must not be deferred already. */
void weir_loop_defer(weir_loop *loop, weir_deferred *deferred);
/*
 * Runs what has been deferred since the last turn, for a caller that must know the outcome before it lets
 * the loop sleep. True: something ran. What that defers is left for the turn.
 */
bool weir_loop_run_deferred(weir_loop *loop);
bool weir_loop_has_deferred(const weir_loop *loop);

/*
 * Takes back a post that has not run. true: it was pending. Outside of turns: for code that ends with the
 * loop and must leave nothing that a last turn would run.
 */
bool weir_loop_unpost(weir_loop *loop, const weir_post *post);

/*
 * A place in each loop for what a layer above has once per loop. It is freed with the loop, before the
 * back end.
 */
enum weir_loop_slot { WEIR_LOOP_NET, WEIR_LOOP_SLOTS };

typedef struct weir_loop_part weir_loop_part;

struct weir_loop_part {
	void (*end)(weir_loop_part *part); /* called by weir_loop_end; may turn the loop; may be NULL */
	void (*free)(weir_loop_part *part);
};

/*
 * Something that must be called when the loop ends, whatever state it is in. The caller owns it, and may
 * remove it at any time.
 */
typedef struct weir_ending weir_ending;

struct weir_ending {
	weir_ending *next, **link; /* link NULL: not added */
	void (*run)(weir_ending *ending);
};

void weir_loop_add_ending(weir_loop *loop, weir_ending *ending);
/* Does nothing if it was not added. */
void weir_loop_remove_ending(weir_ending *ending);

/*
 * The loop will not be turned any more: runs the endings, makes its parts release what they have on it,
 * closes connections. Called by the loop's thread, outside of a turn, before the thread ends.
 */
void weir_loop_end(weir_loop *loop);

weir_loop_part *weir_loop_part_of(const weir_loop *loop, enum weir_loop_slot slot);
void weir_loop_set_part(weir_loop *loop, enum weir_loop_slot slot, weir_loop_part *part);

#endif
