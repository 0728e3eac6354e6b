/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_PLAY_H
#define WEIR_STAGE_PLAY_H

/*
 * Plays a reactor thread in a virtual world, for models of what its loop would call: a request that arrives
 * on a connection, an answer from a backend. Between enter and leave an offer runs at once, and takes the
 * short way, whenever it would on that thread.
 *
 * Threads: the world's only one. Calls nest; each enter has its leave.
 */

#include <weir/stage.h>

struct weir_thread;

/* Plays a thread of a reactor domain. Returns the thread played before, for weir_sim_leave. */
struct weir_thread *weir_sim_enter(weir_domain *domain, uint32_t thread);
void weir_sim_leave(struct weir_thread *before);

#endif
