/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_GRACE_H
#define WEIR_STAGE_GRACE_H

/*
 * Grace periods: when something may be freed that threads look at without a lock.
 *
 * Threads find stages, laws and domains in tables, and use these pointers only within a section. The
 * sections:
 *
 *	reactor thread   a turn: all handlers, callbacks of the loop and posts run in one
 *	pool thread      a handler call; also any time while it holds its domain's lock
 *	controller       any time while it holds control_lock; without it, as any other thread
 *	any other        a call into the world, from weir_outsider_enter to weir_outsider_leave
 *
 * A grace period is over when every section has ended that was under way when it began. To free something,
 * take it out of the tables, ask for a grace period, and free it when that is over. After the sections, each
 * reactor thread has to end two more turns, so that everything that those sections have posted has run as
 * well.
 *
 * Sections cost nothing extra: reactor threads count their turns anyway, pool threads take the lock anyway,
 * and calls from outside count themselves in and out anyway. The last two count on one of two sides. A grace
 * period begins by making new sections count on the other side; then it waits until the old side is empty. A
 * thread may have read the side without having counted itself yet, and then arrives late on the old side.
 * That does not harm this period, as it finds the tables without what was taken out. But the next period must
 * wait for it. So a period does not begin before the side that it switches to is empty.
 *
 * Invariants:
 *  1. What a thread finds in a table within a section is not freed before the section ends.
 *  2. ended <= begun <= ended + 1. Whoever asks gets a period that has not begun yet.
 *  3. During a period, new sections count on `side`. Before a period begins, the other side is empty.
 *  4. A handler or a turn that does not end delays the freeing, and nothing else.
 *
 * Threads: any for the side and the counts; the rest is under control_lock. Whoever waits for a period
 * advances it (weir_grace_step_locked); otherwise the controller does.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <weir/stage.h>

struct weir_thread;

typedef struct weir_grace {
	/* any thread */
	_Atomic uint64_t outsiders[2]; /* outside threads that are in a call, by side */
	_Atomic uint32_t side;         /* on which new sections count */
	/* under control_lock */
	uint64_t asked, begun, ended;     /* numbers of periods */
	bool sections_over;               /* of the period under way: only posts are left */
	uint64_t turns[WEIR_THREADS_MAX]; /* of the reactor threads when that began, by slot - 1 */
} weir_grace;

/*
 * A call from outside begins. It keeps a stop from ending, and what it finds from being freed. Returns the
 * side, for weir_outsider_leave. Does nothing if self is not NULL.
 */
unsigned weir_outsider_enter(weir_world *world, const struct weir_thread *self);
void weir_outsider_leave(weir_world *world, const struct weir_thread *self, unsigned side);
/* Whether any outside thread is in a call. */
bool weir_outsiders_inside(weir_world *world);

/* Asks for a period that begins after this; returns its number. First take the thing out of the tables. */
uint64_t weir_grace_ask_locked(weir_world *world);
/* Advances as far as possible without waiting. */
void weir_grace_step_locked(weir_world *world);
bool weir_grace_over_locked(const weir_world *world, uint64_t number);
/* The controller: steps, and frees laws that waited; returns when to come again, UINT64_MAX: nobody waits. */
uint64_t weir_grace_tick_locked(weir_world *world, uint64_t now_ns);

#endif
