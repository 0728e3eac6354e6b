/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The servers of a sentry: how they come and go. A server is there while the configuration names it, or while it is a
 * target of a service (SRV) that the configuration names; it may be both. A service is an origin that gets no calls: its
 * targets are origins of their own, each with its health and its bound, and change when its name is resolved anew.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "net/listen_socket.h"
#include "sentry/sentry_priv.h"

void weir_sentry_renew_token(weir_sentry *sentry)
{
	if (sentry->nuclei != NULL)
		weir_nuclei_renew_token(sentry->nuclei);
}

/* ---- leaving ---- */

/*
 * A retired backend visits the reactor threads, one after the other. None chooses it any more, but each may
 * have chosen it before, and may have connections to it. It goes on when a thread has none left. When it has
 * been everywhere, nobody knows it, and it is freed. The way needs no memory, so it cannot fail.
 */
static void visit_thread(weir_origin *backend)
{
	weir_sentry *sentry = backend->leave.sentry;
	weir_loop *loop = weir_domain_loop(sentry->domain, backend->leave.thread);
	if (loop != NULL)
		weir_loop_post(loop, &backend->leave.post);
	else
		weir_fleet_remove(&sentry->fleet, backend);
}

static void go_on(void *arg)
{
	weir_origin *backend = arg;
	backend->leave.thread++;
	visit_thread(backend);
}

static void visit(weir_post *post, void *arg)
{
	weir_origin *backend = arg;
	weir_sentry *sentry = backend->leave.sentry;
	/* Health is checked and nuclei are asked on the first thread. */
	if (backend->leave.thread == 0 && sentry->health != NULL)
		weir_health_forget(sentry->health, backend->index);
	if (backend->leave.thread == 0 && sentry->nuclei != NULL)
		weir_nuclei_forget(sentry->nuclei, backend);
	weir_proxy_leave(sentry->proxy, backend->index, go_on, backend);
}

static void retire_locked(weir_sentry *sentry, weir_origin *backend)
{
	if (weir_fleet_retire(&sentry->fleet, backend->at.name) == NULL)
		return;
	backend->leave.post = (weir_post){.run = visit, .arg = backend};
	backend->leave.sentry = sentry;
	visit_thread(backend);
}

/* ---- joining ---- */

/* It belongs to the fleet, or is freed. */
static int join_locked(weir_sentry *sentry, weir_origin *backend, const char *nucleus)
{
	/* One that joins others while they serve begins slowly, as one does that comes back. */
	if (sentry->started && weir_fleet_usable(&sentry->fleet, weir_clock_ns()) > 0)
		atomic_store(&backend->shared.recovered_ns, weir_clock_ns());
	int error = weir_fleet_add(&sentry->fleet, backend);
	if (error != 0)
		weir_origin_free(backend);
	else if (sentry->has_nuclei)
		error = weir_nuclei_add(sentry->nuclei, nucleus, backend);
	return error;
}

/* The one of this name that is not retired, to be unpinned; NULL: none. */
static weir_origin *pin_named(weir_sentry *sentry, const char *name)
{
	for (uint32_t i = 0; i < weir_fleet_count(&sentry->fleet); i++) {
		weir_origin *backend = weir_fleet_pin(&sentry->fleet, i);
		if (backend != NULL && !atomic_load(&backend->shared.retired) &&
		    strcmp(backend->at.name, name) == 0)
			return backend;
		if (backend != NULL)
			weir_fleet_unpin(&sentry->fleet, backend);
	}
	return NULL;
}

/* ---- the targets of services ---- */

typedef struct target_name {
	char text[WEIR_ORIGIN_NAME];
} target_name;

/* As servers have it: "10.0.0.1:80". Returns how many. */
static uint32_t name_targets(weir_origin *service, target_name ret_names[WEIR_ORIGIN_ADDRESSES])
{
	pthread_mutex_lock(&service->found.lock);
	uint32_t count = 0;
	for (; count < service->found.count && count < WEIR_ORIGIN_ADDRESSES; count++) {
		const weir_address *found = &service->found.address[count];
		weir_listen_address_print(&(weir_listen_address){found->at, found->length},
					  ret_names[count].text, sizeof(ret_names[count].text));
	}
	pthread_mutex_unlock(&service->found.lock);
	return count;
}

/* As the service was configured. */
static int make_target(const weir_origin *service, const target_name *name, weir_origin **ret_backend)
{
	char url[sizeof("http://") + sizeof(*name)];
	weir_origin_options options = service->options;
	snprintf(url, sizeof(url), "http://%.255s", name->text);
	options.url = url;
	options.host = service->sent_host != NULL ? WEIR_HOST_NAMED : WEIR_HOST_CLIENT;
	options.host_name = service->sent_host;
	return weir_origin_new(&options, ret_backend);
}

static int want_target_locked(weir_sentry *sentry, const weir_origin *service, const target_name *name)
{
	weir_origin *backend = pin_named(sentry, name->text);
	int error = 0;
	if (backend == NULL) {
		error = make_target(service, name, &backend);
		if (error == 0)
			error = join_locked(sentry, backend, NULL);
		backend = error == 0 ? pin_named(sentry, name->text) : NULL;
	}
	if (backend == NULL)
		return error;
	if (backend->service == NULL)
		backend->service = weir_mem_strdup(service->at.name);
	error = backend->service != NULL ? 0 : weir_error_set(-ENOMEM, "out of memory");
	weir_fleet_unpin(&sentry->fleet, backend);
	return error;
}

static bool is_among(const char *name, const target_name *names, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(names[i].text, name) == 0)
			return true;
	return false;
}

/* Those that are not configured themselves are retired. */
static void drop_target_locked(weir_sentry *sentry, weir_origin *backend)
{
	weir_mem_free(backend->service);
	backend->service = NULL;
	if (!backend->configured)
		retire_locked(sentry, backend);
}

/* All targets of the service of this name, but for these. */
static void drop_targets_locked(weir_sentry *sentry, const char *service, const target_name *names,
				uint32_t count)
{
	for (uint32_t i = 0; i < weir_fleet_count(&sentry->fleet); i++) {
		weir_origin *backend = weir_fleet_pin(&sentry->fleet, i);
		if (backend == NULL)
			continue;
		if (backend->service != NULL && strcmp(backend->service, service) == 0 &&
		    !is_among(backend->at.name, names, count))
			drop_target_locked(sentry, backend);
		weir_fleet_unpin(&sentry->fleet, backend);
	}
}

/* New ones first, so that there is always one. */
static int renew_targets_locked(weir_sentry *sentry, weir_origin *service)
{
	target_name names[WEIR_ORIGIN_ADDRESSES];
	uint32_t count = name_targets(service, names);
	int error = 0;
	for (uint32_t i = 0; i < count && error == 0; i++)
		error = want_target_locked(sentry, service, &names[i]);
	if (error == 0)
		drop_targets_locked(sentry, service->at.name, names, count);
	return error;
}

void weir_sentry_renew_targets(weir_origin *service, void *arg)
{
	weir_sentry *sentry = arg;
	int error = 0;
	pthread_mutex_lock(&sentry->targets);
	/* A sentry at rest is perhaps about to end. */
	if (service->configured && !atomic_load(&sentry->fleet.resting))
		error = renew_targets_locked(sentry, service);
	pthread_mutex_unlock(&sentry->targets);
	if (error != 0)
		weir_errors_say(sentry->fleet.errors, WEIR_LOG_WARN, "backend", "%s: %s", service->at.name,
				weir_error());
}

/* ---- what is configured ---- */

/* -EEXIST: it was there, perhaps as a target; it is configured now all the same. */
static int configure_locked(weir_sentry *sentry, weir_origin *backend, const char *nucleus)
{
	weir_origin *there = pin_named(sentry, backend->at.name);
	if (there != NULL) {
		there->configured = true;
		weir_fleet_unpin(&sentry->fleet, there);
	} else {
		backend->configured = true;
	}
	int error = join_locked(sentry, backend, nucleus);
	return error == 0 && backend->at.service ? renew_targets_locked(sentry, backend) : error;
}

int weir_sentry_add(weir_sentry *sentry, const weir_origin_options *options)
{
	weir_origin *backend;
	int error = weir_origin_new(options, &backend);
	if (error != 0)
		return error;
	pthread_mutex_lock(&sentry->targets);
	error = configure_locked(sentry, backend, options->nucleus);
	pthread_mutex_unlock(&sentry->targets);
	return error == 0 ? weir_sentry_resolve(sentry) : error;
}

int weir_sentry_retire(weir_sentry *sentry, const char *name)
{
	pthread_mutex_lock(&sentry->targets);
	weir_origin *backend = pin_named(sentry, name);
	if (backend != NULL) {
		backend->configured = false;
		if (backend->service == NULL)
			retire_locked(sentry, backend);
		drop_targets_locked(sentry, name, NULL, 0);
		weir_fleet_unpin(&sentry->fleet, backend);
	}
	pthread_mutex_unlock(&sentry->targets);
	return backend != NULL ? 0
			       : weir_error_set(-ENOENT, "backend '%s': there is none of that name", name);
}
