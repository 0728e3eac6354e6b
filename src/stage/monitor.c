/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resource monitor. When it is due, the controller releases its lock, looks, takes the lock again and
 * presses the stages that subscribe. Meanwhile the monitor is `busy`, and freeing it waits.
 *
 * Loop lag is measured by a post that each reactor thread owns: it notes how late it ran. The lag of a post
 * that has not run yet is its age, so that a loop that hangs is seen while it hangs.
 */
#include <weir/monitor.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "control/pressure_level.h"
#include "stage/resources.h"
#include "stage/runtime.h"

struct weir_monitor {
	/* const after init */
	weir_monitor_options options;
	char *root;
	/* under the world's control_lock; world NULL: it was freed first, nobody else has the monitor */
	weir_world *world;
	uint64_t at_ns, last_ns;
	bool busy, due;
	/* under its own lock, which is held only briefly */
	pthread_mutex_t lock;
	weir_level_params params[WEIR_RESOURCES];
	weir_resources seen;
};

/* ---- making and freeing ---- */

static const weir_level_params defaults[WEIR_RESOURCES] = {
	[WEIR_MEMORY] = {.from = 0.90, .full = 0.98, .most = 0.95},
	[WEIR_CPU] = {.from = 0.95, .full = 1, .most = 0.3},
	[WEIR_LOOP_LAG] = {.from = 0.1, .full = 1, .most = 0.9},
};

const char *weir_resource_name(weir_resource resource)
{
	static const char *const names[] = {"memory", "cpu", "loop-lag"};
	return (unsigned)resource < WEIR_RESOURCES ? names[resource] : "unknown";
}

static int read_bounds(const weir_resource_bounds *bounds, weir_resource resource, double release_per_s,
		       weir_level_params *params)
{
	*params = defaults[resource];
	params->release_per_s = release_per_s;
	if (bounds->from != 0 || bounds->full != 0) {
		params->from = bounds->from;
		params->full = bounds->full;
	}
	if (bounds->most != 0)
		params->most = bounds->most;
	if (!(params->from >= 0 && params->full > params->from && isfinite(params->full)))
		return weir_error_set(-EINVAL,
				      "monitor: %s must press from a value of 0 or more to a larger one",
				      weir_resource_name(resource));
	if (!(params->most > 0 && params->most <= 1))
		return weir_error_set(-EINVAL,
				      "monitor: %s may have at most a part turned away, above 0 to 1",
				      weir_resource_name(resource));
	if (bounds->off)
		params->most = 0;
	return 0;
}

int weir_monitor_set(weir_monitor *monitor, const weir_resource_bounds bounds[WEIR_RESOURCES])
{
	weir_level_params params[WEIR_RESOURCES];
	for (unsigned r = 0; r < WEIR_RESOURCES; r++)
		if (read_bounds(&bounds[r], (weir_resource)r, monitor->options.release_per_s, &params[r]) !=
		    0)
			return -EINVAL;
	pthread_mutex_lock(&monitor->lock);
	memcpy(monitor->params, params, sizeof(params));
	pthread_mutex_unlock(&monitor->lock);
	return 0;
}

static int set_options(weir_monitor *monitor, const weir_monitor_options *options)
{
	weir_monitor_options *own = &monitor->options;
	if (options != NULL)
		*own = *options;
	if (own->interval_ns == 0)
		own->interval_ns = 250 * WEIR_NS_PER_MS;
	if (own->release_per_s == 0)
		own->release_per_s = 0.2;
	if (own->own_memory_least == 0)
		own->own_memory_least = 0.05;
	if (own->interval_ns < 10 * WEIR_NS_PER_MS)
		return weir_error_set(-EINVAL, "monitor: it looks every 10 ms at most");
	if (!(own->release_per_s > 0) || !(own->own_memory_least > 0 && own->own_memory_least <= 1))
		return weir_error_set(-EINVAL,
				      "monitor: release and own share are above 0, a share at most 1");
	if (weir_monitor_set(monitor, own->bounds) != 0)
		return -EINVAL;
	const char *root = own->root != NULL && strcmp(own->root, "/") != 0 ? own->root : "";
	monitor->root = weir_mem_strdup(root);
	own->root = monitor->root;
	return monitor->root != NULL ? 0 : weir_error_set(-ENOMEM, "monitor: out of memory");
}

static void destroy(weir_monitor *monitor)
{
	pthread_mutex_destroy(&monitor->lock);
	weir_mem_free(monitor->root);
	weir_mem_free(monitor);
}

static int enlist(weir_world *world, weir_monitor *monitor)
{
	pthread_mutex_lock(&world->control_lock);
	int failed = world->monitor != NULL ? -EEXIST : 0;
	if (failed == 0) {
		monitor->world = world;
		world->monitor = monitor;
		monitor->at_ns = monitor->last_ns = weir_world_now(world);
		pthread_cond_signal(&world->control_wake);
	}
	pthread_mutex_unlock(&world->control_lock);
	if (failed != 0)
		return weir_error_set(failed, "monitor: the world has one already");
	if (world->sim != NULL && atomic_load(&world->phase) == WEIR_PHASE_RUNNING)
		weir_sim_start(world);
	return 0;
}

int weir_monitor_new(weir_world *world, const weir_monitor_options *options, weir_monitor **ret_monitor)
{
	weir_monitor *monitor = weir_mem_zalloc(sizeof(*monitor));
	if (monitor == NULL)
		return weir_error_set(-ENOMEM, "monitor: out of memory");
	pthread_mutex_init(&monitor->lock, NULL);
	int failed = set_options(monitor, options);
	if (failed == 0)
		failed = enlist(world, monitor);
	if (failed != 0) {
		destroy(monitor);
		return failed;
	}
	*ret_monitor = monitor;
	return 0;
}

static void press_subscribers_locked(weir_world *world, double level)
{
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages; i++) {
		weir_stage *stage = weir_world_stage(world, i);
		if (stage != NULL && stage->heeds_monitor && stage->pressure.asked[WEIR_BY_MONITOR] != level)
			weir_pressure_set_locked(stage, WEIR_BY_MONITOR, level);
	}
}

void weir_monitor_free(weir_monitor **monitor_at)
{
	weir_monitor *monitor = *monitor_at;
	if (monitor == NULL)
		return;
	weir_world *world = monitor->world;
	if (world != NULL) {
		pthread_mutex_lock(&world->control_lock);
		world->monitor = NULL; /* no longer due */
		while (monitor->busy)
			pthread_cond_wait(&world->monitor_done, &world->control_lock);
		press_subscribers_locked(world, 0);
		uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
		for (uint32_t i = 0; i < stages; i++) {
			weir_stage *stage = weir_world_stage(world, i);
			if (stage != NULL)
				stage->heeds_monitor = false;
		}
		pthread_mutex_unlock(&world->control_lock);
	}
	destroy(monitor);
	*monitor_at = NULL;
}

weir_monitor *weir_world_monitor(const weir_world *world)
{
	return world->monitor;
}

void weir_monitor_orphan(weir_world *world)
{
	if (world->monitor != NULL)
		world->monitor->world = NULL;
}

/* ---- subscribers, readers ---- */

static void subscribe(weir_monitor *monitor, weir_stage *stage, bool heeds)
{
	weir_world *world = stage->world;
	weir_resources seen;
	weir_monitor_read(monitor, &seen);
	pthread_mutex_lock(&world->control_lock);
	stage->heeds_monitor = heeds;
	weir_pressure_set_locked(stage, WEIR_BY_MONITOR, heeds ? seen.level : 0);
	pthread_cond_signal(&world->control_wake);
	pthread_mutex_unlock(&world->control_lock);
	if (world->sim != NULL && atomic_load(&world->phase) == WEIR_PHASE_RUNNING)
		weir_sim_start(world);
}

int weir_monitor_subscribe(weir_monitor *monitor, weir_stage *stage)
{
	if (monitor->world != stage->world)
		return weir_error_set(-EINVAL, "monitor: stage '%s' is of another world", stage->name);
	subscribe(monitor, stage, true);
	return 0;
}

void weir_monitor_unsubscribe(weir_monitor *monitor, weir_stage *stage)
{
	if (monitor->world == stage->world)
		subscribe(monitor, stage, false);
}

void weir_monitor_read(const weir_monitor *monitor, weir_resources *ret_resources)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&monitor->lock;
	pthread_mutex_lock(lock);
	*ret_resources = monitor->seen;
	pthread_mutex_unlock(lock);
}

/* ---- looking ---- */

static void note_lag(weir_post *post, void *arg)
{
	weir_lag *lag = arg;
	uint64_t sent_ns = atomic_load_explicit(&lag->sent_ns, memory_order_relaxed),
		 now_ns = weir_clock_ns();
	(void)post;
	atomic_store_explicit(&lag->last_ns, now_ns > sent_ns ? now_ns - sent_ns : 0, memory_order_relaxed);
	atomic_store_explicit(&lag->sent_ns, 0, memory_order_release);
}

/* How late the last post was, or the pending one is; sends the next one if none is pending. */
static double look_at_loop(weir_thread *thread, uint64_t now_ns)
{
	weir_lag *lag = &thread->lag;
	uint64_t sent_ns = atomic_load_explicit(&lag->sent_ns, memory_order_acquire);
	if (sent_ns != 0)
		return (double)(now_ns > sent_ns ? now_ns - sent_ns : 0) / WEIR_NS_PER_S;
	uint64_t last_ns = atomic_load_explicit(&lag->last_ns, memory_order_relaxed);
	lag->post = (weir_post){.run = note_lag, .arg = lag};
	atomic_store_explicit(&lag->sent_ns, now_ns, memory_order_relaxed);
	weir_loop_post(thread->loop, &lag->post);
	return (double)last_ns / WEIR_NS_PER_S;
}

static double look_at_loops(weir_world *world)
{
	double most = -1;
	for (uint32_t i = 0; i < world->reactor_count; i++) {
		weir_thread *thread = world->reactors[i];
		double lag_s = thread->loop != NULL ? look_at_loop(thread, weir_clock_ns()) : -1;
		most = lag_s > most ? lag_s : most;
	}
	return most;
}

/* If other processes have filled the memory, shedding our work does not help. */
static double memory_part(const weir_monitor *monitor, const weir_memory *memory)
{
	if (memory->limit == 0)
		return -1;
	double own = (double)memory->own / (double)memory->limit;
	if (!memory->grouped && memory->own != 0 && own < monitor->options.own_memory_least)
		return -1;
	return (double)memory->used / (double)memory->limit;
}

static weir_readings take_readings(weir_monitor *monitor, weir_world *world, weir_memory *ret_memory)
{
	weir_readings readings = {.value = {-1, -1, -1}};
	if (monitor->options.read != NULL) {
		monitor->options.read(&readings, monitor->options.arg);
		return readings;
	}
	weir_resources_memory(monitor->root, ret_memory);
	readings.value[WEIR_MEMORY] = memory_part(monitor, ret_memory);
	readings.value[WEIR_CPU] = weir_resources_cpu(monitor->root);
	readings.value[WEIR_LOOP_LAG] = look_at_loops(world);
	return readings;
}

static double judge(weir_monitor *monitor, const weir_readings *readings, const weir_memory *memory,
		    double interval_s)
{
	weir_level_params params[WEIR_RESOURCES];
	pthread_mutex_lock(&monitor->lock);
	weir_resources now = monitor->seen;
	memcpy(params, monitor->params, sizeof(params));
	pthread_mutex_unlock(&monitor->lock);
	now.level = 0;
	for (unsigned r = 0; r < WEIR_RESOURCES; r++) {
		double value = readings->value[r];
		now.of[r].known = value >= 0;
		now.of[r].value = now.of[r].known ? value : 0;
		now.of[r].level = weir_level_step(now.of[r].level, &params[r], value, interval_s);
		now.level = now.of[r].level > now.level ? now.of[r].level : now.level;
	}
	now.memory_used = memory->used;
	now.memory_limit = memory->limit;
	now.memory_own = memory->own;
	now.looks++;
	pthread_mutex_lock(&monitor->lock);
	monitor->seen = now;
	pthread_mutex_unlock(&monitor->lock);
	return now.level;
}

/* ---- the controller ---- */

uint64_t weir_monitor_tick_locked(weir_world *world, uint64_t now_ns)
{
	weir_monitor *monitor = world->monitor;
	if (monitor == NULL)
		return UINT64_MAX;
	if (now_ns >= monitor->at_ns)
		monitor->due = true;
	return monitor->due ? now_ns + monitor->options.interval_ns : monitor->at_ns;
}

bool weir_monitor_is_due(const weir_world *world)
{
	return world->monitor != NULL && world->monitor->due;
}

void weir_monitor_look(weir_world *world)
{
	pthread_mutex_lock(&world->control_lock);
	weir_monitor *monitor = weir_monitor_is_due(world) ? world->monitor : NULL;
	uint64_t now_ns = weir_world_now(world), last_ns = 0;
	if (monitor != NULL) {
		monitor->due = false;
		monitor->busy = true;
		last_ns = monitor->last_ns;
		monitor->last_ns = now_ns;
		monitor->at_ns = now_ns + monitor->options.interval_ns;
	}
	pthread_mutex_unlock(&world->control_lock);
	if (monitor == NULL)
		return;
	weir_memory memory = {0};
	weir_readings readings = take_readings(monitor, world, &memory);
	double level = judge(monitor, &readings, &memory, (double)(now_ns - last_ns) / WEIR_NS_PER_S);
	pthread_mutex_lock(&world->control_lock);
	if (world->monitor == monitor)
		press_subscribers_locked(world, level);
	monitor->busy = false;
	pthread_cond_broadcast(&world->monitor_done);
	pthread_mutex_unlock(&world->control_lock);
}
