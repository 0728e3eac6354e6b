/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a sentry, and what it shows. sentry_servers.c has its servers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weir/loop.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "loop/loop.h"
#include "sentry/sentry_priv.h"

#define CAPACITY   1024
#define PERCENTILE .9

/* ---- making one ---- */

static int add_backends(weir_sentry *sentry, const weir_sentry_options *options)
{
	int error = 0;
	if (options->backend_count == 0)
		return weir_error_set(-EINVAL, "sentry: at least one backend is needed");
	for (size_t i = 0; i < options->backend_count && error == 0; i++)
		error = weir_sentry_add(sentry, &options->backends[i]);
	return error;
}

static uint32_t bound_of_all(const weir_sentry_options *options)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < options->backend_count; i++) {
		if (options->backends[i].concurrency == 0)
			return 0;
		uint64_t servers =
			strncmp(options->backends[i].url, "srv:", 4) == 0 ? WEIR_ORIGIN_ADDRESSES : 1;
		sum += servers * options->backends[i].concurrency;
	}
	return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

static int make_stage(weir_sentry *sentry, const weir_sentry_options *options)
{
	weir_adaptive_remote_params remote = {.percentile = options->percentile > 0 ? options->percentile
										    : PERCENTILE,
					      .target_ns = {options->target_ns}};
	weir_stage_options stage = {.name = options->name != NULL ? options->name : "sentry",
				    .handle = weir_proxy_handle,
				    .drop = weir_request_drop,
				    .arg = sentry->proxy,
				    .capacity = options->capacity != 0 ? options->capacity : CAPACITY,
				    .concurrency = options->concurrency != 0 ? options->concurrency
									     : bound_of_all(options),
				    .bound = options->bound,
				    .order = options->order,
				    .heed_downstream = options->heed_downstream,
				    .admission = options->law,
				    .admission_params = options->law_params};
	if (options->law == NULL && options->target_ns != 0) {
		stage.admission = &weir_law_adaptive_remote;
		stage.admission_params = &remote;
	}
	return weir_stage_new(sentry->domain, &stage, &sentry->stage);
}

static int make_nuclei(weir_sentry *sentry, const weir_sentry_options *options)
{
	weir_nuclei_options nuclei = {.servers = &sentry->fleet,
				      .every_ns = options->nucleus_every_ns,
				      .resolve_ns = options->resolve_ns,
				      .token_file = options->nucleus_token,
				      .errors = options->errors};
	sentry->has_nuclei = options->backend_count > 0 && options->backends[0].nucleus != NULL;
	if (!sentry->has_nuclei && options->reports == WEIR_REPORTS_OFF)
		return 0;
	return weir_nuclei_new(&nuclei, &sentry->nuclei);
}

static int make(weir_sentry *sentry, const weir_sentry_options *options)
{
	weir_proxy_options proxy = {.fleet = &sentry->fleet,
				    .forwarded = options->forwarded,
				    .request_id = options->request_id,
				    .no_quality = options->no_quality,
				    .pass_on = options->pass_on,
				    .via = options->via,
				    .limits = options->limits,
				    .reports = options->reports,
				    .report_every_ns = options->nucleus_every_ns,
				    .retry = options->retry,
				    .errors = options->errors,
				    .seed = (uintptr_t)sentry};
	int error = weir_sticky_read(options->sticky, &proxy.sticky);
	if (error == 0)
		error = make_nuclei(sentry, options);
	if (error == 0)
		error = add_backends(sentry, options);
	if (error == 0)
		error = weir_edits_new(options->request_edits, &proxy.request_edits);
	if (error == 0)
		error = weir_edits_new(options->answer_edits, &proxy.answer_edits);
	if (error == 0)
		error = weir_proxy_new(&proxy, &sentry->proxy);
	if (sentry->proxy == NULL) {
		weir_edits_free(proxy.request_edits);
		weir_edits_free(proxy.answer_edits);
	}
	if (error == 0 && options->health.path != NULL)
		error = weir_health_new(&options->health, &sentry->health);
	/* Last, since a stage cannot be removed. */
	return error == 0 ? make_stage(sentry, options) : error;
}

int weir_sentry_new(weir_domain *domain, const weir_sentry_options *options, weir_sentry **ret_sentry)
{
	weir_sentry *sentry = weir_mem_zalloc(sizeof(*sentry));
	if (sentry == NULL)
		return weir_error_set(-ENOMEM, "sentry: out of memory");
	sentry->domain = domain;
	sentry->resolve_ns = options->resolve_ns;
	int error = weir_fleet_init(&sentry->fleet);
	if (error != 0) {
		weir_mem_free(sentry);
		return weir_error_set(error, "sentry: no lock");
	}
	sentry->fleet.errors = options->errors;
	pthread_mutex_init(&sentry->targets, NULL);
	error = make(sentry, options);
	if (error == 0)
		*ret_sentry = sentry;
	else
		weir_sentry_free(&sentry);
	return error;
}

static void start_asking(weir_post *post, void *arg)
{
	weir_sentry *sentry = arg;
	weir_upstream *upstream = sentry->health != NULL ? weir_proxy_upstream(sentry->proxy) : NULL;
	/* Out of memory: health is then judged by calls only, and the law by what it sees. */
	if (upstream != NULL)
		weir_health_start(sentry->health, upstream);
	if (sentry->nuclei != NULL)
		weir_nuclei_start(sentry->nuclei, weir_loop_self(), sentry->stage);
}

int weir_sentry_resolve(weir_sentry *sentry)
{
	int error = 0;
	pthread_mutex_lock(&sentry->fleet.lock);
	if (sentry->started && sentry->resolver == NULL)
		error = weir_resolver_new_locked(&sentry->fleet, sentry->resolve_ns,
						 weir_sentry_renew_targets, sentry, &sentry->resolver);
	bool started = sentry->started;
	pthread_mutex_unlock(&sentry->fleet.lock);
	return error == 0 && started && sentry->nuclei != NULL ? weir_nuclei_resolve(sentry->nuclei) : error;
}

int weir_sentry_start(weir_sentry *sentry)
{
	weir_loop *loop = weir_domain_loop(sentry->domain, 0);
	if (loop == NULL)
		return weir_error_set(-EINVAL,
				      "sentry: its domain has no loop; a reactor of a started world does");
	pthread_mutex_lock(&sentry->fleet.lock);
	sentry->started = true;
	pthread_mutex_unlock(&sentry->fleet.lock);
	int error = weir_sentry_resolve(sentry);
	if (error != 0 || (sentry->health == NULL && sentry->nuclei == NULL))
		return error;
	sentry->start_post.run = start_asking;
	sentry->start_post.arg = sentry;
	weir_loop_post(loop, &sentry->start_post);
	return 0;
}

static void stop_asking(weir_post *post, void *arg)
{
	weir_sentry *sentry = arg;
	if (sentry->health != NULL)
		weir_health_stop(sentry->health);
	bool gone = sentry->nuclei == NULL || weir_nuclei_stop(sentry->nuclei);
	atomic_store(&sentry->stopped, gone ? 2 : 0);
}

bool weir_sentry_end(weir_sentry *sentry)
{
	bool asks = sentry->health != NULL || sentry->nuclei != NULL;
	if (asks && sentry->started && atomic_load(&sentry->stopped) < 2) {
		if (atomic_load(&sentry->stopped) == 0) {
			atomic_store(&sentry->stopped, 1);
			sentry->stop_post = (weir_post){.run = stop_asking, .arg = sentry};
			weir_loop_post(weir_domain_loop(sentry->domain, 0), &sentry->stop_post);
		}
		return false;
	}
	if (!weir_proxy_end(sentry->proxy))
		return false;
	pthread_mutex_lock(&sentry->fleet.lock);
	uint32_t leaving = sentry->fleet.leaving;
	pthread_mutex_unlock(&sentry->fleet.lock);
	return leaving == 0;
}

/* What leaves, and waits for its turn on a loop that has ended. */
static void call_back(weir_sentry *sentry)
{
	for (uint32_t i = 0; i < weir_fleet_count(&sentry->fleet); i++) {
		const weir_origin *backend = sentry->fleet.owned[i];
		if (backend != NULL && backend->leave.sentry != NULL)
			weir_loop_unpost(weir_domain_loop(sentry->domain, backend->leave.thread),
					 &backend->leave.post);
	}
}

void weir_sentry_free(weir_sentry **where)
{
	weir_sentry *sentry = *where;
	if (sentry == NULL)
		return;
	*where = NULL;
	weir_resolver_free(sentry->resolver); /* first: it may retire targets */
	call_back(sentry);
	weir_health_free(sentry->health);
	weir_nuclei_free(sentry->nuclei);
	weir_proxy_free(sentry->proxy);
	weir_fleet_fini(&sentry->fleet);
	pthread_mutex_destroy(&sentry->targets);
	weir_mem_free(sentry);
}

weir_stage *weir_sentry_stage(const weir_sentry *sentry)
{
	return sentry->stage;
}

void weir_sentry_note_shed(const weir_sentry *sentry, weir_request *request)
{
	weir_proxy_note_shed(sentry->proxy, request);
}

void weir_sentry_rest(weir_sentry *sentry, bool resting)
{
	pthread_mutex_lock(&sentry->targets);
	atomic_store(&sentry->fleet.resting, resting);
	pthread_mutex_unlock(&sentry->targets);
	if (sentry->nuclei != NULL)
		weir_nuclei_rest(sentry->nuclei, resting);
}

/* ---- stats ---- */

uint32_t weir_sentry_backends(const weir_sentry *sentry)
{
	return weir_fleet_count(&sentry->fleet);
}

const char *weir_sentry_state_name(weir_sentry_state state)
{
	static const char *const names[] = {"up", "slow-start", "failing", "ejected", "down", "retired"};
	return names[state];
}

static weir_sentry_state state_of(const weir_origin *backend, uint64_t now_ns)
{
	if (atomic_load(&backend->shared.retired))
		return WEIR_BACKEND_RETIRED;
	if (atomic_load(&backend->shared.down))
		return WEIR_BACKEND_DOWN;
	if (!weir_origin_usable(backend, now_ns))
		return WEIR_BACKEND_EJECTED;
	if (weir_origin_is_failing(backend))
		return WEIR_BACKEND_FAILING;
	return weir_origin_weight(backend, now_ns) < 1 ? WEIR_BACKEND_SLOW : WEIR_BACKEND_UP;
}

bool weir_sentry_read_backend(weir_sentry *sentry, uint32_t index, uint64_t now_ns,
			      weir_sentry_backend_stats *ret_stats)
{
	weir_origin *backend = weir_fleet_pin(&sentry->fleet, index);
	weir_upstream_counts counts;
	if (backend == NULL)
		return false;
	bool told = weir_told_fresh(backend, now_ns);
	weir_proxy_read_counts(sentry->proxy, index, &counts);
	*ret_stats = (weir_sentry_backend_stats){
		.state = atomic_load(&sentry->fleet.resting) ? WEIR_BACKEND_RETIRED
							     : state_of(backend, now_ns),
		.weight = weir_origin_weight(backend, now_ns),
		.in_flight = weir_origin_in_flight(backend),
		.open = counts.open,
		.idle = counts.idle,
		.latency_ns = atomic_load(&backend->shared.latency_ns),
		.calls = counts.calls,
		.answers = {counts.answers[0], counts.answers[1], counts.answers[2], counts.answers[3]},
		.failures = counts.failures,
		.connects = counts.connects,
		.reused = counts.reused,
		.ejections = atomic_load(&backend->shared.ejections),
		.checks = atomic_load(&backend->shared.checks),
		.checks_failed = atomic_load(&backend->shared.checks_failed),
		.queue_s = told ? atomic_load(&backend->shared.queue_s) : -1,
		.in_service = told ? atomic_load(&backend->shared.in_service) : -1,
		.busy = told ? atomic_load(&backend->shared.busy) : -1,
		.reports = atomic_load(&backend->shared.reports),
		.reports_refused = atomic_load(&backend->shared.reports_refused),
		.reports_missed = atomic_load(&backend->shared.reports_missed)};
	snprintf(ret_stats->name, sizeof(ret_stats->name), "%s", backend->at.name);
	ret_stats->service = backend->at.service;
	pthread_mutex_lock(&sentry->targets);
	ret_stats->configured = backend->configured;
	pthread_mutex_unlock(&sentry->targets);
	weir_fleet_unpin(&sentry->fleet, backend);
	return true;
}

void weir_sentry_read_stats(const weir_sentry *sentry, weir_proxy_stats *ret_stats, uint64_t *ret_panics)
{
	weir_proxy_read_stats(sentry->proxy, ret_stats);
	*ret_panics = atomic_load(&sentry->fleet.panics);
}
