/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_BALANCE_H
#define WEIR_SENTRY_BALANCE_H

/*
 * A fleet: the backends of one sentry, and which of them gets a call.
 *
 * The choice is the less loaded of two that are drawn at random (Mitzenmacher): nearly as good as the least loaded of all, and threads that choose at the same moment do not all
 * choose the same. One that starts slowly loses a choice it has won with the probability that its weight lacks.
 *
 * Backends that are down, ejected, or have as many calls as they may are left out. Where all of them are down or ejected, health is not looked at any more (panic): a check that is wrong about all of them,
 * or a fault that they share, must not turn a bad service into none.
 *
 * Threads: the list is made by one thread and grows by one thread; every reader may be on any. Backends stay until the fleet is freed; one that is retired is not chosen again.
 */

#include <weir/random.h>

#include "log/log.h"
#include "sentry/origin.h"

#define WEIR_FLEET_MOST 256

typedef struct weir_fleet {
	_Atomic(weir_origin *) backend[WEIR_FLEET_MOST];
	_Atomic uint32_t count;
	pthread_mutex_t lock; /* of ejections and additions */
	_Atomic uint64_t panics;
	weir_errors
		*errors; /* is told of ejections and returns; set before the first call; NULL: nobody is */
	_Atomic bool resting; /* nobody is to come any more: neither checked nor resolved */
} weir_fleet;

int weir_fleet_init(weir_fleet *fleet);
/* Frees the backends; none may have a call. */
void weir_fleet_fini(weir_fleet *fleet);
/* Takes the backend over. -ENOSPC: it has as many as it may, and the backend is still the caller's. */
int weir_fleet_add(weir_fleet *fleet, weir_origin *backend);

static inline uint32_t weir_fleet_count(const weir_fleet *fleet)
{
	return atomic_load_explicit(&fleet->count, memory_order_acquire);
}

static inline weir_origin *weir_fleet_at(const weir_fleet *fleet, uint32_t index)
{
	return atomic_load_explicit(&fleet->backend[index], memory_order_relaxed);
}

/*
 * Chooses a backend, with a place taken in it (weir_origin_give). not_this, which may be NULL, is chosen only where there is no other. NULL: all of them
 * are full.
 */
weir_origin *weir_fleet_pick(weir_fleet *fleet, weir_random *random, uint64_t now_ns,
			     const weir_origin *not_this);
/* A call to the backend failed by its fault: may eject it, but not the last usable one. true: ejected. */
bool weir_fleet_failed(weir_fleet *fleet, weir_origin *backend, uint64_t now_ns);
/* Backends that may be chosen by their health. */
uint32_t weir_fleet_usable(const weir_fleet *fleet, uint64_t now_ns);

#endif
