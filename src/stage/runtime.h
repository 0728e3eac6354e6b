/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_RUNTIME_H
#define WEIR_STAGE_RUNTIME_H

/*
 * The runtime's own structures. Read this page, then the files in the order in which an event meets them:
 *
 *	offer.h      the steps of every offer: admission, places, counting
 *	offer.c      one event: run at once or queue    offer_many.c offer_wait.c reserve.c   the other forms
 *	why.c        why the last one was shed
 *	lane.c       a stage's queue on one thread: places, pushing, waking, taking out a batch
 *	turn.c       whose turn it is among stages, and the backlog of a pool    pool_load.c  its offered load
 *	dispatch.c   handler calls (frames) and settling
 *	reactor.c    a reactor thread: its turn           elastic.c  a pool thread, and the pool's size
 *	gate.c       laws in force and their settings     pressure.c  what others ask to be shed
 *	recent.c     what was measured lately             every.c    periodic work
 *	control.c    the controller     tick.c   ticks of admission, pool and batch laws     rest.c   idle stages
 *	monitor.c resources.c   memory, processor, loops
 *	drain.c      stopping without loss                sim.c      the virtual world
 *	retire.c     stages and pools that end before the world      grace.c  when memory may be freed
 *	stage.c domain.c world.c   making and freeing     inspect.c dump.c trace.c   looking inside
 *
 *	friends.h    what other folders may use, and nothing else
 *	gate.h lane.h stage.h domain.h world.h dispatch.h   structures, and what files offer each other
 */

#include "base/assert.h"
#include "loop/loop.h"
#include "stage/dispatch.h"
#include "stage/domain.h"
#include "stage/gate.h"
#include "stage/lane.h"
#include "stage/stage.h"
#include "stage/world.h"

#endif
