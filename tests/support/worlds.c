/* SPDX-License-Identifier: Apache-2.0 */
#include "support/worlds.h"

#include <errno.h>
#include <string.h>

void must(int code)
{
	if (code != 0)
		fail_msg("%d (%s): %s", code, strerror(-code), weir_error());
}

weir_world *world_virtual(uint64_t seed)
{
	weir_world *world = NULL;
	must(weir_world_new(&(weir_world_options){.simulated = true, .seed = seed}, &world));
	return world;
}

weir_world *world_real(void)
{
	weir_world *world = NULL;
	must(weir_world_new(NULL, &world));
	return world;
}

weir_domain *domain_reactor(weir_world *world, const char *name, uint32_t threads)
{
	weir_domain *domain = NULL;
	weir_domain_options options = {.name = name, .kind = WEIR_REACTOR, .threads = threads};
	must(weir_domain_new(world, &options, &domain));
	return domain;
}

weir_domain *domain_elastic(weir_world *world, const char *name, uint32_t min, uint32_t max)
{
	weir_domain *domain = NULL;
	weir_domain_options options = {
		.name = name, .kind = WEIR_ELASTIC, .min_threads = min, .max_threads = max};
	must(weir_domain_new(world, &options, &domain));
	return domain;
}

weir_domain *domain_of_kind(weir_world *world, weir_domain_kind kind)
{
	if (kind == WEIR_REACTOR)
		return domain_reactor(world, "reactor", 1);
	return domain_elastic(world, "elastic", 1, 1);
}

void world_run(weir_world *world, uint64_t ns)
{
	uint64_t until = weir_world_now(world) + ns;
	weir_sim_run(world, until);
	assert_int_equal(weir_world_now(world), until);
}

void world_end(weir_world **world)
{
	weir_stop_report report = {.undrained = 99, .unbalanced = 99};
	must(weir_world_stop(*world, 60 * WEIR_NS_PER_S, &report));
	assert_int_equal(report.undrained, 0);
	assert_int_equal(report.unbalanced, 0);
	assert_int_equal(report.faults, 0);
	assert_null(report.stuck);
	assert_int_equal(weir_world_check(*world), 0);
	weir_world_free(world);
	assert_null(*world);
}

void world_end_faulty(weir_world **world)
{
	weir_stop_report report = {.unbalanced = 99};
	int rc = weir_world_stop(*world, WEIR_NS_PER_MS, &report);
	assert_int_not_equal(rc, -EPROTO);
	assert_int_equal(report.unbalanced, 0);
	assert_int_equal(weir_world_check(*world), 0);
	weir_world_free(world);
	assert_null(*world);
}

void plugged_open(struct plugged *plugged, weir_domain_kind kind, weir_stage_options options)
{
	memset(plugged, 0, sizeof *plugged);
	plugged->world = world_virtual(1);
	plugged->domain = domain_of_kind(plugged->world, kind);
	plugged->other = domain_reactor(plugged->world, "other", 1);
	options.concurrency = 1;
	probe_open(&plugged->probe, plugged->domain, options);
	plugged->stage = plugged->probe.stage;
	must(weir_world_start(plugged->world));

	plugged->probe.act = PROBE_HOLD;
	job_init(&plugged->plug, 0, 0);
	assert_int_equal(weir_offer(plugged->stage, &plugged->plug.event), WEIR_ADMITTED);
	world_run(plugged->world, WEIR_NS_PER_MS);
	assert_int_equal(plugged->plug.handled, 1);
	plugged->probe.act = PROBE_DONE;
	probe_clear(&plugged->probe);
}

void plugged_release(struct plugged *plugged)
{
	weir_done(&plugged->plug.event);
	plugged->plug.handled = 0;
	world_run(plugged->world, WEIR_NS_PER_MS);
}

void plugged_end(struct plugged *plugged)
{
	if (plugged->plug.handled != 0)
		plugged_release(plugged);
	world_end(&plugged->world);
}
