/* SPDX-License-Identifier: Apache-2.0 */
#include "sentry/balance.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mix.h"

/* ---- the list ---- */

int weir_fleet_init(weir_fleet *fleet)
{
	weir_clear(fleet, sizeof(*fleet));
	atomic_init(&fleet->nobody.shared.retired, true);
	for (uint32_t i = 0; i < WEIR_FLEET_MOST; i++)
		atomic_init(&fleet->backend[i], &fleet->nobody);
	return -pthread_mutex_init(&fleet->lock, NULL);
}

void weir_fleet_fini(weir_fleet *fleet)
{
	for (uint32_t i = 0; i < weir_fleet_count(fleet); i++)
		weir_origin_free(fleet->owned[i]);
	atomic_store(&fleet->count, 0);
	pthread_mutex_destroy(&fleet->lock);
}

static bool retired(const weir_origin *backend)
{
	return atomic_load_explicit(&backend->shared.retired, memory_order_relaxed);
}

static weir_origin *find_locked(const weir_fleet *fleet, const char *name)
{
	for (uint32_t i = 0; i < weir_fleet_count(fleet); i++) {
		weir_origin *backend = fleet->owned[i];
		if (backend != NULL && !retired(backend) && strcmp(backend->at.name, name) == 0)
			return backend;
	}
	return NULL;
}

static int add_locked(weir_fleet *fleet, weir_origin *backend)
{
	uint32_t at = 0;
	if (find_locked(fleet, backend->at.name) != NULL)
		return weir_error_set(-EEXIST, "backend '%s': there is one already", backend->at.name);
	while (at < WEIR_FLEET_MOST && fleet->owned[at] != NULL)
		at++;
	if (at == WEIR_FLEET_MOST)
		return weir_error_set(-ENOSPC, "fleet: more than %d backends", WEIR_FLEET_MOST);
	backend->index = at;
	fleet->owned[at] = backend;
	if (!backend->at.service)
		atomic_store_explicit(&fleet->backend[at], backend, memory_order_release);
	if (at == weir_fleet_count(fleet))
		atomic_store_explicit(&fleet->count, at + 1, memory_order_release);
	return 0;
}

int weir_fleet_add(weir_fleet *fleet, weir_origin *backend)
{
	pthread_mutex_lock(&fleet->lock);
	int error = add_locked(fleet, backend);
	pthread_mutex_unlock(&fleet->lock);
	return error;
}

weir_origin *weir_fleet_retire(weir_fleet *fleet, const char *name)
{
	pthread_mutex_lock(&fleet->lock);
	weir_origin *backend = find_locked(fleet, name);
	if (backend != NULL) {
		atomic_store_explicit(&backend->shared.retired, true, memory_order_relaxed);
		atomic_store_explicit(&fleet->backend[backend->index], &fleet->nobody, memory_order_release);
		fleet->leaving++;
	}
	pthread_mutex_unlock(&fleet->lock);
	return backend;
}

/* A thread that still sees the old count finds nobody in what is behind the new one. */
void weir_fleet_remove(weir_fleet *fleet, weir_origin *backend)
{
	pthread_mutex_lock(&fleet->lock);
	uint32_t count = weir_fleet_count(fleet);
	fleet->owned[backend->index] = NULL;
	fleet->leaving--;
	while (count > 0 && fleet->owned[count - 1] == NULL)
		count--;
	atomic_store_explicit(&fleet->count, count, memory_order_release);
	backend->removed = true;
	bool pinned = backend->pins != 0;
	pthread_mutex_unlock(&fleet->lock);
	if (!pinned)
		weir_origin_free(backend);
}

weir_origin *weir_fleet_pin(weir_fleet *fleet, uint32_t index)
{
	pthread_mutex_lock(&fleet->lock);
	weir_origin *backend = fleet->owned[index];
	if (backend != NULL)
		backend->pins++;
	pthread_mutex_unlock(&fleet->lock);
	return backend;
}

void weir_fleet_unpin(weir_fleet *fleet, weir_origin *backend)
{
	pthread_mutex_lock(&fleet->lock);
	bool last = --backend->pins == 0 && backend->removed;
	pthread_mutex_unlock(&fleet->lock);
	if (last)
		weir_origin_free(backend);
}

static bool healthy(const weir_origin *backend, uint64_t now_ns)
{
	return !retired(backend) && weir_origin_usable(backend, now_ns);
}

uint32_t weir_fleet_usable(const weir_fleet *fleet, uint64_t now_ns)
{
	uint32_t usable = 0;
	for (uint32_t i = 0; i < weir_fleet_count(fleet); i++)
		usable += healthy(weir_fleet_at(fleet, i), now_ns);
	return usable;
}

static void tell_ejected(const weir_fleet *fleet, const weir_origin *backend, uint64_t now_ns)
{
	uint64_t until_ns = atomic_load_explicit(&backend->shared.ejected_until_ns, memory_order_relaxed);
	uint64_t time_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	weir_errors_say(fleet->errors, WEIR_LOG_WARN, "health",
			"backend %s is ejected for %.3g s: %u requests in a row have failed",
			backend->at.name, (double)time_ns / WEIR_NS_PER_S, backend->options.failures);
}

/*
 * An ejection ends by itself, which the first call afterwards shows. In panic, ejected ones get calls, too.
 */
static void tell_returned(const weir_fleet *fleet, weir_origin *backend, uint64_t now_ns)
{
	if (!atomic_load_explicit(&backend->shared.away, memory_order_relaxed) ||
	    !weir_origin_usable(backend, now_ns) || !atomic_exchange(&backend->shared.away, false))
		return;
	weir_errors_say(fleet->errors, WEIR_LOG_INFO, "health", "backend %s gets requests again",
			backend->at.name);
}

bool weir_fleet_failed(weir_fleet *fleet, weir_origin *backend, uint64_t now_ns)
{
	if (!weir_origin_failed(backend))
		return false;
	/* The lock keeps two threads from ejecting the last two backends at once. */
	pthread_mutex_lock(&fleet->lock);
	bool eject = healthy(backend, now_ns) && weir_fleet_usable(fleet, now_ns) > 1;
	if (eject)
		weir_origin_eject(backend, now_ns);
	pthread_mutex_unlock(&fleet->lock);
	if (eject)
		tell_ejected(fleet, backend, now_ns);
	return eject;
}

/* ---- choosing ---- */

/* During a slow start, a backend that won a choice may still lose it. */
static weir_origin *less_loaded(weir_random *random, weir_origin *a, weir_origin *b, uint64_t now_ns)
{
	if (weir_origin_in_flight(b) < weir_origin_in_flight(a)) {
		weir_origin *swap = a;
		a = b;
		b = swap;
	}
	double weight = weir_origin_weight(a, now_ns);
	if (weight >= 1 || weir_origin_weight(b, now_ns) <= weight)
		return a;
	return weir_random_unit(random) < weight ? a : b;
}

typedef struct candidates {
	weir_origin *at[WEIR_FLEET_MOST];
	uint32_t count;
} candidates;

/* Backends with room; only healthy ones, unless in panic. */
static void collect(const weir_fleet *fleet, uint64_t now_ns, const weir_origin *not_this, bool panic,
		    candidates *found)
{
	found->count = 0;
	for (uint32_t i = 0; i < weir_fleet_count(fleet); i++) {
		weir_origin *backend = weir_fleet_at(fleet, i);
		bool fit = panic ? !retired(backend) : healthy(backend, now_ns);
		if (fit && backend != not_this && weir_origin_has_room(backend))
			found->at[found->count++] = backend;
	}
}

static weir_origin *draw(weir_random *random, const candidates *found, uint64_t now_ns)
{
	if (found->count < 2)
		return found->count == 0 ? NULL : found->at[0];
	uint32_t a = (uint32_t)weir_random_below(random, found->count);
	uint32_t b = (uint32_t)weir_random_below(random, found->count - 1);
	return less_loaded(random, found->at[a], found->at[b + (b >= a)], now_ns);
}

static weir_origin *choose_slowly(weir_fleet *fleet, weir_random *random, uint64_t now_ns,
				  const weir_origin *not_this)
{
	candidates found;
	collect(fleet, now_ns, not_this, false, &found);
	if (found.count == 0)
		collect(fleet, now_ns, NULL, false, &found);
	if (found.count == 0 && weir_fleet_usable(fleet, now_ns) == 0) {
		atomic_fetch_add_explicit(&fleet->panics, 1, memory_order_relaxed);
		collect(fleet, now_ns, not_this, true, &found);
		if (found.count == 0)
			collect(fleet, now_ns, NULL, true, &found);
	}
	return draw(random, &found, now_ns);
}

/* Two draws from the whole list, which is correct if both are fit; NULL: use choose_slowly. */
static weir_origin *choose_quickly(weir_fleet *fleet, weir_random *random, uint64_t now_ns,
				   const weir_origin *not_this)
{
	uint32_t count = weir_fleet_count(fleet);
	if (count == 0)
		return NULL;
	uint32_t a = 0, b = 0;
	if (count > 1) {
		a = (uint32_t)weir_random_below(random, count);
		b = (uint32_t)weir_random_below(random, count - 1);
		b += b >= a;
	}
	weir_origin *one = weir_fleet_at(fleet, a), *two = weir_fleet_at(fleet, b);
	bool fit = healthy(one, now_ns) && one != not_this && weir_origin_has_room(one);
	if (!fit || one == two)
		return fit ? one : NULL;
	fit = healthy(two, now_ns) && two != not_this && weir_origin_has_room(two);
	return fit ? less_loaded(random, one, two, now_ns) : NULL;
}

weir_origin *weir_fleet_pick(weir_fleet *fleet, weir_random *random, uint64_t now_ns,
			     const weir_origin *not_this)
{
	weir_origin *backend = choose_quickly(fleet, random, now_ns, not_this);
	/* Another thread may have taken the last place in the meantime. */
	for (uint32_t i = 0; i <= weir_fleet_count(fleet); i++) {
		if (backend == NULL)
			backend = choose_slowly(fleet, random, now_ns, not_this);
		if (backend == NULL)
			return NULL;
		if (weir_origin_take(backend)) {
			tell_returned(fleet, backend, now_ns);
			return backend;
		}
		backend = NULL;
	}
	return NULL;
}

/* ---- sticking ---- */

/* How far above the mean a backend may be. */
#define MOST_OF_MEAN 1.25

static double mean_in_flight(const candidates *found)
{
	uint64_t sum = 1; /* the one that is to be placed */
	for (uint32_t i = 0; i < found->count; i++)
		sum += weir_origin_in_flight(found->at[i]);
	return (double)sum / found->count;
}

/* At least one: a fleet with little to do has a mean below that. */
static bool is_overfull(const weir_origin *backend, double mean, uint64_t now_ns)
{
	double most = mean * MOST_OF_MEAN * weir_origin_weight(backend, now_ns);
	return weir_origin_in_flight(backend) >= (most > 1 ? most : 1);
}

/* A random value below the weight in a slow start: a part of the keys stays with the others until then. */
static bool is_ramping(const weir_origin *backend, uint64_t key, uint64_t now_ns)
{
	double weight = weir_origin_weight(backend, now_ns);
	return weight < 1 && (double)(weir_mix(key + WEIR_MIX_STEP) >> 11) * 0x1p-53 >= weight;
}

static weir_origin *highest(const candidates *found, uint64_t key, uint64_t now_ns)
{
	double mean = found->count > 0 ? mean_in_flight(found) : 0;
	weir_origin *best = NULL;
	uint64_t most = 0;
	for (uint32_t i = 0; i < found->count; i++) {
		weir_origin *backend = found->at[i];
		uint64_t score = weir_mix(key ^ backend->hash);
		if ((best == NULL || score > most) && !is_overfull(backend, mean, now_ns) &&
		    !is_ramping(backend, key ^ backend->hash, now_ns)) {
			best = backend;
			most = score;
		}
	}
	return best;
}

weir_origin *weir_fleet_pick_by_key(weir_fleet *fleet, weir_random *random, uint64_t key, uint64_t now_ns,
				    const weir_origin *not_this)
{
	candidates found;
	collect(fleet, now_ns, not_this, false, &found);
	weir_origin *backend = highest(&found, key, now_ns);
	if (backend == NULL || !weir_origin_take(backend))
		return weir_fleet_pick(fleet, random, now_ns, not_this);
	tell_returned(fleet, backend, now_ns);
	return backend;
}

weir_origin *weir_fleet_pick_named(weir_fleet *fleet, uint64_t hash, uint64_t now_ns,
				   const weir_origin *not_this)
{
	for (uint32_t i = 0; i < weir_fleet_count(fleet); i++) {
		weir_origin *backend = weir_fleet_at(fleet, i);
		if (backend->hash != hash || backend == not_this || !healthy(backend, now_ns) ||
		    !weir_origin_take(backend))
			continue;
		tell_returned(fleet, backend, now_ns);
		return backend;
	}
	return NULL;
}
