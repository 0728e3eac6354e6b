/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOOP_LOOP_H
#define WEIR_LOOP_LOOP_H

/* What the layers above need of a loop beyond weir/loop.h. All for the loop's own thread. */

#include <weir/loop.h>

#include "base/clock.h"
#include "base/timers.h"

/* The beginning of every loop, in sight so that those who serve requests need no call to ask for the time. */
typedef struct weir_loop_face {
	weir_timers timers; /* first: see base/timers.h */
	uint64_t now_ns;    /* of this turn */
	uint64_t turns;     /* begun so far */
	weir_clock clock;   /* turned once a turn */
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

/* What weir_loop_self gives. */
extern _Thread_local weir_loop *weir_loop_here __attribute__((tls_model("initial-exec")));

/* Makes the loop (NULL: none) what weir_loop_self and weir_timers_self give on this thread. */
void weir_loop_set_self(weir_loop *loop);
/* The first timer's time; UINT64_MAX: none. */
uint64_t weir_loop_next_timer_ns(const weir_loop *loop);

/*
 * Work put off to the end of the turn, or to before the next wait when deferred between turns. What is deferred by
 * such work runs in the next round, and the loop does not sleep before it has.
 */
typedef struct weir_deferred weir_deferred;

struct weir_deferred {
	weir_deferred *next;
	void (*run)(weir_deferred *deferred);
};

/* It must not be deferred already. */
void weir_loop_defer(weir_loop *loop, weir_deferred *deferred);
/*
 * Runs what has been deferred since the last turn, for a caller that must know what comes of it before it lets the loop sleep. True: something ran. What that
 * deferred is left for the turn.
 */
bool weir_loop_run_deferred(weir_loop *loop);
bool weir_loop_has_deferred(const weir_loop *loop);

/*
 * Takes back a post that has not run. true: it was there. Outside of turns: for who ends with the loop, and
 * must leave nothing behind that a last turn would run.
 */
bool weir_loop_unpost(weir_loop *loop, const weir_post *post);

/* A place in each loop for what a layer above has once a loop. It is freed with the loop, before its back end. */
enum weir_loop_slot { WEIR_LOOP_NET, WEIR_LOOP_SLOTS };

typedef struct weir_loop_part weir_loop_part;

struct weir_loop_part {
	void (*end)(weir_loop_part *part); /* for weir_loop_end; may turn the loop; may be NULL */
	void (*free)(weir_loop_part *part);
};

/* Something that must be told when the loop ends, whatever state it is in. It is yours, and may be removed at any time. */
typedef struct weir_ending weir_ending;

struct weir_ending {
	weir_ending *next, **link; /* link NULL: not added */
	void (*run)(weir_ending *ending);
};

void weir_loop_add_ending(weir_loop *loop, weir_ending *ending);
/* Does nothing to one that was not added. */
void weir_loop_remove_ending(weir_ending *ending);

/*
 * The loop will not be turned any more: endings are run, its parts let go of what they have on it, connections are closed. By the loop's thread,
 * outside of a turn, before it ends.
 */
void weir_loop_end(weir_loop *loop);

weir_loop_part *weir_loop_part_of(const weir_loop *loop, enum weir_loop_slot slot);
void weir_loop_set_part(weir_loop *loop, enum weir_loop_slot slot, weir_loop_part *part);

#endif
