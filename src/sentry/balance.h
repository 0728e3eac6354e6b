/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_BALANCE_H
#define WEIR_SENTRY_BALANCE_H

/*
 * A fleet: the backends of one sentry, and the choice among them for each call.
 *
 * The choice is the less loaded of two drawn at random (Mitzenmacher). This is nearly as good as the least
 * loaded of all, and threads that choose at the same moment do not all choose the same one. During a slow
 * start, a backend keeps a choice that it has won only with the probability of its weight.
 *
 * Backends that are down, ejected or full are left out. If all are down or ejected, health is ignored
 * (panic): a check that is wrong about all of them, or a fault that they share, must not turn a bad service
 * into none.
 *
 * A service has a slot, too, so that it is known by its name; but nobody can choose it.
 *
 * Slots. A backend has one slot for as long as it is owned. Threads choose from `backend`, without a lock. One
 * that is retired is taken out of there at once, and keeps its slot until whoever retired it says that no
 * thread knows it any more (weir_fleet_remove; sentry.c has the way there). Then the slot is free for another.
 *
 * Threads: additions and removals are under the lock; any thread may read the list. A pointer from there is
 * good until the thread's turn ends. Other threads than reactors pin what they look at, or hold the lock.
 */

#include <weir/random.h>

#include "log/log.h"
#include "sentry/origin.h"

/* Twice what one configuration may have: a reload adds its servers before it retires the others. */
#define WEIR_FLEET_MOST 512

typedef struct weir_fleet {
	_Atomic(weir_origin *) backend[WEIR_FLEET_MOST]; /* what threads choose from */
	_Atomic uint32_t count;                          /* slots up to the last that is owned */
	weir_origin nobody;                              /* stands where none can be chosen: is retired */
	pthread_mutex_t lock;                            /* for ejections, additions and removals */
	weir_origin *owned[WEIR_FLEET_MOST];             /* under the lock; NULL: the slot is free */
	uint32_t leaving;                                /* under the lock: retired, not yet removed */
	_Atomic uint64_t panics;
	weir_errors *errors;  /* hears of ejections and returns; set before the first call; may be NULL */
	_Atomic bool resting; /* no more requests will come, so nothing is checked or resolved */
} weir_fleet;

int weir_fleet_init(weir_fleet *fleet);
/* Frees the backends; none may have a call. */
void weir_fleet_fini(weir_fleet *fleet);
/*
 * Takes ownership of the backend. -EEXIST: there is one of its name that is not retired; -ENOSPC: the fleet is
 * full. Then the backend is still the caller's.
 */
int weir_fleet_add(weir_fleet *fleet, weir_origin *backend);
/* Retires the one of that name: no turn that begins after this finds it. NULL: there is none. */
weir_origin *weir_fleet_retire(weir_fleet *fleet, const char *name);
/* Frees a retired one, which only those may know that have pinned it. */
void weir_fleet_remove(weir_fleet *fleet, weir_origin *backend);
/* The backend in a slot, which is not freed before it is unpinned; NULL: the slot is free. Not on reactors. */
weir_origin *weir_fleet_pin(weir_fleet *fleet, uint32_t index);
void weir_fleet_unpin(weir_fleet *fleet, weir_origin *backend);

static inline uint32_t weir_fleet_count(const weir_fleet *fleet)
{
	return atomic_load_explicit(&fleet->count, memory_order_acquire);
}

static inline weir_origin *weir_fleet_at(const weir_fleet *fleet, uint32_t index)
{
	return atomic_load_explicit(&fleet->backend[index], memory_order_acquire);
}

/*
 * Chooses a backend and takes a place in it (weir_origin_give). not_this, which may be NULL, is chosen only
 * if there is no other. NULL: all are full.
 */
weir_origin *weir_fleet_pick(weir_fleet *fleet, weir_random *random, uint64_t now_ns,
			     const weir_origin *not_this);
/*
 * The same for a key: the same key gets the same backend while that is fit, whatever others come and go
 * (rendezvous hashing: the highest mix of key and backend wins). No backend gets more than a quarter above the mean of
 * what is in flight, or its part of that in a slow start; a key whose backend has that many goes to its next one
 * (bounded loads; Mirrokni and others). So a popular key does no harm.
 */
weir_origin *weir_fleet_pick_by_key(weir_fleet *fleet, weir_random *random, uint64_t key, uint64_t now_ns,
				    const weir_origin *not_this);
/* The one whose name has this hash, if it is fit and has room. NULL: choose another. */
weir_origin *weir_fleet_pick_named(weir_fleet *fleet, uint64_t hash, uint64_t now_ns,
				   const weir_origin *not_this);
/* A call failed by the backend's fault: may eject it, unless it is the last usable one. true: ejected. */
bool weir_fleet_failed(weir_fleet *fleet, weir_origin *backend, uint64_t now_ns);
/* How many backends are fit by their health. */
uint32_t weir_fleet_usable(const weir_fleet *fleet, uint64_t now_ns);

#endif
