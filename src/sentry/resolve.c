/* SPDX-License-Identifier: Apache-2.0 */
#include "sentry/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "keys/address.h"
#include "sentry/dns.h"

/* How often names are resolved again that have no time to live, as those of /etc/hosts. */
#define EVERY_NS (30 * WEIR_NS_PER_S)
/* How often it looks whose time to live is over; a shorter one does not count. */
#define LOOK_NS WEIR_NS_PER_S
/* A longer time to live does not count: somebody may have made a mistake with it. */
#define TTL_MOST_S 300u

struct weir_resolver {
	weir_fleet *fleet;
	uint64_t every_ns;
	weir_renew_targets *renew;
	void *arg;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t change;
	bool ending; /* under lock */
};

/* ---- addresses of a backend ---- */

static int failed(const weir_origin *backend, int error)
{
	int code = error == EAI_MEMORY ? -ENOMEM : error == EAI_AGAIN ? -EAGAIN : -ENOENT;
	return weir_error_set(code, "backend '%s': %s", backend->at.name, gai_strerror(error));
}

/* getaddrinfo orders by preference; the order is kept. */
static void store(weir_origin *backend, const struct addrinfo *list)
{
	uint32_t count = 0;
	pthread_mutex_lock(&backend->found.lock);
	for (; list != NULL && count < WEIR_ORIGIN_ADDRESSES; list = list->ai_next) {
		if (list->ai_addrlen > sizeof(backend->found.address[0].at))
			continue;
		memcpy(&backend->found.address[count].at, list->ai_addr, list->ai_addrlen);
		backend->found.address[count++].length = list->ai_addrlen;
	}
	if (count != backend->found.count)
		backend->found.preferred = 0;
	backend->found.count = count;
	pthread_mutex_unlock(&backend->found.lock);
}

static void store_found(weir_origin *backend, const weir_dns_found *found)
{
	uint64_t ttl_s = found->ttl_s < TTL_MOST_S ? found->ttl_s : TTL_MOST_S;
	pthread_mutex_lock(&backend->found.lock);
	memcpy(backend->found.address, found->address, sizeof(backend->found.address));
	if (found->count != backend->found.count)
		backend->found.preferred = 0;
	backend->found.count = found->count;
	backend->found.until_ns = weir_clock_ns() + ttl_s * WEIR_NS_PER_S;
	pthread_mutex_unlock(&backend->found.lock);
}

static void store_local(weir_origin *backend)
{
	weir_dns_found found = {.count = 1};
	weir_address_read_local(backend->at.name, &found.address[0].at, &found.address[0].length);
	store_found(backend, &found);
	backend->numeric = true;
}

/* By a name server that was given, or for a service. */
static int resolve_by_dns(weir_origin *backend)
{
	weir_dns_found found;
	int error = backend->at.service
			    ? weir_dns_service(backend->resolver, backend->at.host, &found)
			    : weir_dns_host(backend->resolver, backend->at.host, backend->at.port, &found);
	if (error == 0) {
		store_found(backend, &found);
		return 0;
	}
	char why[256];
	snprintf(why, sizeof(why), "%s", weir_error());
	return weir_error_set(error, "backend '%s': %s", backend->at.name, why);
}

/* How long what the system has found is good, if a name server knows. */
static void note_ttl(weir_origin *backend, uint64_t otherwise_ns)
{
	weir_dns_found found;
	uint64_t ns = otherwise_ns;
	if (weir_dns_host(NULL, backend->at.host, backend->at.port, &found) == 0)
		ns = (found.ttl_s < TTL_MOST_S ? found.ttl_s : TTL_MOST_S) * WEIR_NS_PER_S;
	pthread_mutex_lock(&backend->found.lock);
	backend->found.until_ns = weir_clock_ns() + ns;
	pthread_mutex_unlock(&backend->found.lock);
}

int weir_origin_resolve(weir_origin *backend)
{
	struct addrinfo *list = NULL, hints = {.ai_socktype = SOCK_STREAM};
	char port[8];
	if (backend->at.local) {
		store_local(backend);
		return 0;
	}
	if (backend->at.service)
		return resolve_by_dns(backend);
	snprintf(port, sizeof(port), "%u", backend->at.port);
	hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
	int error = getaddrinfo(backend->at.host, port, &hints, &list);
	if (error == 0) {
		backend->numeric = true;
	} else if (backend->resolver != NULL) {
		return resolve_by_dns(backend);
	} else {
		hints.ai_flags = AI_NUMERICSERV;
		error = getaddrinfo(backend->at.host, port, &hints, &list);
	}
	if (error != 0)
		return failed(backend, error);
	store(backend, list);
	freeaddrinfo(list);
	return 0;
}

bool weir_origin_address(weir_origin *backend, uint32_t attempt, weir_address *ret_address)
{
	pthread_mutex_lock(&backend->found.lock);
	uint32_t count = backend->found.count;
	bool there = attempt < count;
	if (there)
		*ret_address = backend->found.address[(backend->found.preferred + attempt) % count];
	pthread_mutex_unlock(&backend->found.lock);
	return there;
}

void weir_origin_prefer(weir_origin *backend, uint32_t attempt)
{
	if (attempt == 0)
		return;
	pthread_mutex_lock(&backend->found.lock);
	if (backend->found.count > 0)
		backend->found.preferred = (backend->found.preferred + attempt) % backend->found.count;
	pthread_mutex_unlock(&backend->found.lock);
}

/* ---- the thread ---- */

static void resolve_again(const weir_resolver *resolver, weir_origin *backend)
{
	if (weir_clock_ns() < backend->found.until_ns)
		return;
	bool by_system = backend->resolver == NULL && !backend->at.service;
	int error = weir_origin_resolve(backend);
	if (by_system)
		note_ttl(backend, resolver->every_ns);
	else if (error != 0)
		backend->found.until_ns = weir_clock_ns() + LOOK_NS;
	if (error == 0 && backend->at.service)
		resolver->renew(backend, resolver->arg);
}

static void resolve_all(const weir_resolver *resolver)
{
	for (uint32_t i = 0; i < weir_fleet_count(resolver->fleet) && !atomic_load(&resolver->fleet->resting);
	     i++) {
		weir_origin *backend = weir_fleet_pin(resolver->fleet, i);
		if (backend == NULL)
			continue;
		if (!backend->numeric && !atomic_load(&backend->shared.retired))
			resolve_again(resolver, backend);
		weir_fleet_unpin(resolver->fleet, backend);
	}
}

/* Called with the lock held; true: continue. */
static bool wait_for_turn(weir_resolver *resolver)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	uint64_t look_ns = resolver->every_ns < LOOK_NS ? resolver->every_ns : LOOK_NS;
	uint64_t at_ns = (uint64_t)until.tv_nsec + look_ns;
	until.tv_sec += (time_t)(at_ns / WEIR_NS_PER_S);
	until.tv_nsec = (long)(at_ns % WEIR_NS_PER_S);
	int error = 0;
	while (!resolver->ending && error == 0)
		error = pthread_cond_timedwait(&resolver->change, &resolver->lock, &until);
	return !resolver->ending;
}

static void *run(void *arg)
{
	weir_resolver *resolver = arg;
	pthread_mutex_lock(&resolver->lock);
	while (wait_for_turn(resolver)) {
		pthread_mutex_unlock(&resolver->lock);
		resolve_all(resolver);
		pthread_mutex_lock(&resolver->lock);
	}
	pthread_mutex_unlock(&resolver->lock);
	return NULL;
}

static bool has_names_locked(const weir_fleet *fleet)
{
	for (uint32_t i = 0; i < weir_fleet_count(fleet); i++)
		if (fleet->owned[i] != NULL && !fleet->owned[i]->numeric)
			return true;
	return false;
}

static int start(weir_resolver *resolver)
{
	pthread_condattr_t attributes;
	pthread_mutex_init(&resolver->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&resolver->change, &attributes);
	pthread_condattr_destroy(&attributes);
	int error = pthread_create(&resolver->thread, NULL, run, resolver);
	if (error != 0) {
		pthread_cond_destroy(&resolver->change);
		pthread_mutex_destroy(&resolver->lock);
	}
	return -error;
}

int weir_resolver_new_locked(weir_fleet *fleet, uint64_t every_ns, weir_renew_targets *renew, void *arg,
			     weir_resolver **ret_resolver)
{
	if (!has_names_locked(fleet)) {
		*ret_resolver = NULL;
		return 0;
	}
	weir_resolver *resolver = weir_mem_zalloc(sizeof(*resolver));
	if (resolver == NULL)
		return weir_error_set(-ENOMEM, "resolver: out of memory");
	resolver->fleet = fleet;
	resolver->every_ns = every_ns != 0 ? every_ns : EVERY_NS;
	resolver->renew = renew;
	resolver->arg = arg;
	int error = start(resolver);
	if (error != 0) {
		weir_mem_free(resolver);
		return weir_error_set(error, "resolver: no thread: %s", strerror(-error));
	}
	*ret_resolver = resolver;
	return 0;
}

void weir_resolver_free(weir_resolver *resolver)
{
	if (resolver == NULL)
		return;
	pthread_mutex_lock(&resolver->lock);
	resolver->ending = true;
	pthread_cond_signal(&resolver->change);
	pthread_mutex_unlock(&resolver->lock);
	pthread_join(resolver->thread, NULL);
	pthread_cond_destroy(&resolver->change);
	pthread_mutex_destroy(&resolver->lock);
	weir_mem_free(resolver);
}
