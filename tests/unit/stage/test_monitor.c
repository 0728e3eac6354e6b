/* SPDX-License-Identifier: Apache-2.0 */
/* The resource monitor: what it reads from trees of files that tests make, the levels, and who is pressed. */
#include "support/worlds.h"

#include "control/pressure_level.h"
#include "stage/resources.h"
#include "stage/runtime.h"

#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- trees ---- */

static char root[] = "/tmp/weir-monitor-XXXXXX";

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
	return remove(path);
}

static int make_root(void **state)
{
	memset(root + strlen(root) - 6, 'X', 6);
	return mkdtemp(root) != NULL ? check_memory_setup(state) : -1;
}

static int remove_root(void **state)
{
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return check_memory_teardown(state);
}

#define TREE_TEST(function) cmocka_unit_test_setup_teardown(function, make_root, remove_root)

static void put(const char *path, const char *text)
{
	char whole[512];
	snprintf(whole, sizeof whole, "%s/%s", root, path);
	for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
		*slash = '\0';
		mkdir(whole, 0700);
		*slash = '/';
	}
	FILE *file = fopen(whole, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void unput(const char *path)
{
	char whole[512];
	snprintf(whole, sizeof whole, "%s/%s", root, path);
	assert_int_equal(remove(whole), 0);
}

static weir_memory memory(void)
{
	weir_memory found = {.used = 1, .limit = 1};
	weir_resources_memory(root, &found);
	return found;
}

static void expect_found(uint64_t used, uint64_t limit)
{
	weir_memory found = memory();
	assert_int_equal(found.used, used);
	assert_int_equal(found.limit, limit);
}

static void nothing_there_is_nothing_known(void **state)
{
	expect_found(0, 0);
	assert_true(weir_resources_cpu(root) < 0);
	assert_int_equal(memory().own, 0);
}

static void memory_of_a_group_of_version_2(void **state)
{
	put("proc/self/cgroup", "0::/system/web\n");
	put("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 900 kB\n");
	expect_found(100 * 1024, 1000 * 1024); /* no group's files: the machine */
	put("sys/fs/cgroup/system/web/memory.max", "1000000\n");
	expect_found(100 * 1024, 1000 * 1024); /* one of two */
	put("sys/fs/cgroup/system/web/memory.current", "800000\n");
	expect_found(800000, 1000000);
	put("sys/fs/cgroup/system/web/memory.stat", "anon 5\nactive_inactive_file 7\ninactive_file 300000\n");
	expect_found(500000, 1000000);
	assert_true(memory().grouped);
	put("sys/fs/cgroup/system/web/memory.max", "max\n");
	expect_found(100 * 1024, 1000 * 1024);
	/* One above it is tighter. */
	put("sys/fs/cgroup/system/web/memory.max", "1000000\n");
	put("sys/fs/cgroup/system/memory.max", "2000000\n");
	put("sys/fs/cgroup/system/memory.current", "1900000\n");
	expect_found(1900000, 2000000);
	put("sys/fs/cgroup/memory.max", "10000000\n");
	put("sys/fs/cgroup/memory.current", "9900000\n");
	expect_found(9900000, 10000000);
}

static void memory_of_a_group_in_its_own_namespace(void **state)
{
	put("proc/self/cgroup", "0::/\n");
	put("sys/fs/cgroup/memory.max", "1000\n");
	put("sys/fs/cgroup/memory.current", "250\n");
	expect_found(250, 1000);
}

static void memory_of_a_group_of_version_1(void **state)
{
	put("proc/self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/docker/abc\n0::/other\n");
	put("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
	put("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "5\n");
	expect_found(0, 0);                                          /* that large is none */
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "4000\n"); /* as seen from within a container */
	put("sys/fs/cgroup/memory/memory.usage_in_bytes", "3000\n");
	put("sys/fs/cgroup/memory/memory.stat", "inactive_file 9\ntotal_inactive_file 1000\n");
	expect_found(2000, 4000);
}

static void memory_of_the_machine(void **state)
{
	static const char *const nonsense[] = {
		"",
		"MemTotal:\nMemAvailable:\n",
		"MemTotal: 100 kB\n",
		"MemAvailable: 100 kB\n",
		"MemTotal: 0 kB\nMemAvailable: 0 kB\n",
		"MemTotal: 100 kB\nMemAvailable: 200 kB\n",
		"MemTotal: -5 kB\nMemAvailable: -7 kB\n",
		"MemTotal: 99999999999999999999999999 kB\nMemAvailable: 1 kB\n",
		"MemTotal: 18446744073709551615 kB\nMemAvailable: 1 kB\n",
		"MemTotalX: 100 kB\nMemAvailableX: 50 kB\n",
		"\n\n\n",
		"MemTotal",
	};
	for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
		put("proc/meminfo", nonsense[i]);
		expect_found(0, 0);
	}
	put("proc/meminfo", "MemTotal:       16000 kB\nMemFree: 1 kB\nMemAvailable:\t4000 kB\n");
	expect_found(12000 * 1024, 16000 * 1024);
	put("proc/self/statm", "5000 20 3 1 0 9 0\n");
	assert_int_equal(memory().own, 20 * sysconf(_SC_PAGESIZE));
	put("proc/self/statm", "5000");
	assert_int_equal(memory().own, 0);
}

static void nonsense_about_groups_is_as_good_as_nothing(void **state)
{
	static const char *const lines[] = {
		"", "0::", "0::relative", ":::", "0:", "garbage\n\n\n", "3:memory:\n"};
	put("sys/fs/cgroup/memory.max", "1000\n");
	put("sys/fs/cgroup/memory.current", "250\n");
	put("proc/meminfo", "MemTotal: 10 kB\nMemAvailable: 4 kB\n");
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		put("proc/self/cgroup", lines[i]);
		expect_found(6 * 1024, 10 * 1024);
	}
	static const char *const limits[] = {"", "0\n", "-1\n", "one\n", "99999999999999999999999\n"};
	put("proc/self/cgroup", "0::/\n");
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		put("sys/fs/cgroup/memory.max", limits[i]);
		expect_found(6 * 1024, 10 * 1024);
	}
	/* A path longer than any, and a folder where a file should be. */
	static char deep[3000] = "0::";
	memset(deep + 3, 'a', sizeof deep - 5);
	deep[3] = '/';
	put("proc/self/cgroup", deep);
	expect_found(6 * 1024, 10 * 1024);
	unput("proc/meminfo");
	put("proc/meminfo/folder", "x");
	expect_found(0, 0);
	/* More in cache than in use cannot be, but must not wrap. */
	put("proc/self/cgroup", "0::/\n");
	put("sys/fs/cgroup/memory.max", "1000\n");
	put("sys/fs/cgroup/memory.stat", "inactive_file 99999\n");
	expect_found(0, 1000);
}

static void expect_cpu(const char *text, double part)
{
	put("proc/pressure/cpu", text);
	double found = weir_resources_cpu(root);
	if (part < 0 ? found >= 0 : fabs(found - part) > 1e-9)
		fail_msg("'%s' was read as %g", text, found);
}

static void stalls_for_a_processor(void **state)
{
	expect_cpu("some avg10=12.34 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00\n", 0.1234);
	expect_cpu("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", 0);
	expect_cpu("some avg10=100.00 avg60=1", 1);
	expect_cpu("some avg10=7", 0.07);
	expect_cpu("some avg10=100.99", 1);
	expect_cpu("some avg10=101.00", -1);
	expect_cpu("some avg10=-1.00", -1);
	expect_cpu("some avg10=nan", -1);
	expect_cpu("some avg10=", -1);
	expect_cpu("full avg10=3.00", -1);
	expect_cpu("", -1);
	expect_cpu("some avg10=50.00 ", 0.5);
	put("proc/self/cgroup", "0::/web\n");
	put("sys/fs/cgroup/web/cpu.pressure", "some avg10=80.00 avg60=0\n");
	assert_true(fabs(weir_resources_cpu(root) - 0.8) < 1e-9); /* the group's own goes before */
	put("sys/fs/cgroup/web/cpu.pressure", "broken");
	assert_true(fabs(weir_resources_cpu(root) - 0.5) < 1e-9);
}

/* ---- levels ---- */

static const weir_level_params params = {.from = 0.8, .full = 1, .most = 0.5, .release_per_s = 0.1};

static void a_level_rises_at_once_and_falls_slowly(void **state)
{
	assert_true(weir_level_step(0, &params, 0.8, 1) == 0);
	assert_true(fabs(weir_level_step(0, &params, 0.9, 1) - 0.25) < 1e-12);
	assert_true(weir_level_step(0, &params, 1, 1) == 0.5);
	assert_true(weir_level_step(0, &params, 50, 0) == 0.5);
	/* Well below: by the release. On the edge: four times slower, but not never. */
	assert_true(fabs(weir_level_step(0.5, &params, 0.7, 1) - 0.4) < 1e-12);
	assert_true(fabs(weir_level_step(0.5, &params, 0.79, 1) - 0.475) < 1e-12);
	double level = 0.5;
	for (int i = 0; i < 25; i++)
		level = weir_level_step(level, &params, 0.79, 1);
	assert_true(level == 0);
	/* Falling towards what is asked, not below. */
	assert_true(fabs(weir_level_step(0.26, &params, 0.9, 100) - 0.25) < 1e-12);
	assert_true(weir_level_step(0.1, &params, 0.5, 100) == 0);
}

static void what_is_unknown_presses_nothing(void **state)
{
	assert_true(weir_level_step(0.5, &params, -1, 0) == 0);
	assert_true(weir_level_step(0.5, &params, NAN, 0) == 0);
	assert_true(weir_level_step(0.5, &params, 0.9, -5) == 0.5); /* time does not go back */
}

/* ---- a virtual world whose resources are given ---- */

static weir_readings given;
static unsigned asked;

static void give(weir_readings *ret_readings, void *arg)
{
	assert_ptr_equal(arg, &asked);
	asked++;
	*ret_readings = given;
}

struct watched {
	weir_world *world;
	weir_domain *domain;
	struct probe first, second, other;
	weir_monitor *monitor;
};

static void open_watched(struct watched *at, weir_monitor_options options)
{
	memset(at, 0, sizeof *at);
	asked = 0;
	given = (weir_readings){.value = {0.5, 0.5, 0.001}};
	options.read = give;
	options.arg = &asked;
	at->world = world_virtual(1);
	at->domain = domain_of_kind(at->world, WEIR_ELASTIC);
	probe_open(&at->first, at->domain, (weir_stage_options){.name = "first", .capacity = 4096});
	probe_open(&at->second, at->domain, (weir_stage_options){.name = "second", .capacity = 4096});
	probe_open(&at->other, at->domain, (weir_stage_options){.name = "other", .capacity = 4096});
	must(weir_monitor_new(at->world, &options, &at->monitor));
	assert_ptr_equal(weir_world_monitor(at->world), at->monitor);
	must(weir_monitor_subscribe(at->monitor, at->first.stage));
	must(weir_world_start(at->world));
	must(weir_monitor_subscribe(at->monitor, at->second.stage));
}

static void close_watched(struct watched *at)
{
	weir_monitor_free(&at->monitor);
	assert_null(at->monitor);
	world_end(&at->world);
}

/* The part of 200 offers that are shed. */
static double shed(weir_stage *stage, unsigned klass)
{
	static struct job jobs[200];
	unsigned count = 0;
	jobs_init(jobs, 200, klass);
	for (unsigned i = 0; i < 200; i++) {
		weir_verdict verdict = weir_offer(stage, &jobs[i].event);
		assert_true(verdict == WEIR_ADMITTED || verdict == WEIR_SHED_RESOURCE);
		count += verdict != WEIR_ADMITTED;
	}
	while (weir_stage_waiting(stage) != 0)
		weir_sim_run(stage->world, weir_world_now(stage->world) + 1);
	return count / 200.0;
}

static void the_largest_level_presses_those_who_subscribe(void **state)
{
	struct watched at;
	weir_resources seen;
	open_watched(&at, (weir_monitor_options){0});
	world_run(at.world, WEIR_NS_PER_S);
	weir_monitor_read(at.monitor, &seen);
	assert_true(seen.level == 0 && seen.of[WEIR_CPU].known && seen.of[WEIR_CPU].value == 0.5);
	assert_true(asked >= 4 && asked <= 5 && seen.looks == asked);
	assert_true(shed(at.first.stage, 3) == 0);
	given = (weir_readings){.value = {0.94, 0.975, -1}}; /* memory 0.475, cpu 0.15, loops unknown */
	world_run(at.world, WEIR_NS_PER_S);
	weir_monitor_read(at.monitor, &seen);
	assert_true(fabs(seen.of[WEIR_MEMORY].level - 0.475) < 1e-9);
	assert_true(fabs(seen.of[WEIR_CPU].level - 0.15) < 1e-9);
	assert_false(seen.of[WEIR_LOOP_LAG].known);
	assert_true(fabs(seen.level - 0.475) < 1e-9);
	assert_true(fabs(shed(at.first.stage, 3) - 0.475) < 0.01);
	assert_true(fabs(shed(at.second.stage, 3) - 0.475) < 0.01);
	assert_true(shed(at.other.stage, 3) == 0);
	weir_monitor_unsubscribe(at.monitor, at.second.stage);
	assert_true(shed(at.second.stage, 3) == 0);
	must(weir_monitor_subscribe(at.monitor, at.other.stage)); /* late, but at once */
	assert_true(fabs(shed(at.other.stage, 3) - 0.475) < 0.01);
	close_watched(&at);
}

static void it_lets_go_slowly_and_completely(void **state)
{
	struct watched at;
	weir_resources seen;
	open_watched(&at, (weir_monitor_options){0});
	given.value[WEIR_LOOP_LAG] = 5;
	world_run(at.world, WEIR_NS_PER_S);
	weir_monitor_read(at.monitor, &seen);
	assert_true(seen.level == 0.9);
	assert_true(fabs(shed(at.first.stage, 7) - 0.9) < 0.01);
	given.value[WEIR_LOOP_LAG] = 0.001;
	world_run(at.world, 2 * WEIR_NS_PER_S);
	weir_monitor_read(at.monitor, &seen);
	assert_true(seen.level > 0.4 && seen.level < 0.65);
	world_run(at.world, 4 * WEIR_NS_PER_S);
	weir_monitor_read(at.monitor, &seen);
	assert_true(seen.level == 0);
	assert_true(shed(at.first.stage, 7) == 0);
	/* What is not known any more presses nothing from then on. */
	given.value[WEIR_LOOP_LAG] = 5;
	world_run(at.world, WEIR_NS_PER_S);
	given.value[WEIR_LOOP_LAG] = NAN;
	world_run(at.world, WEIR_NS_PER_S);
	assert_true(shed(at.first.stage, 7) == 0);
	close_watched(&at);
}

static void health_checks_pass_whatever_happens(void **state)
{
	struct watched at;
	struct job job;
	weir_monitor_options options = {.bounds[WEIR_MEMORY] = {.from = 0.5, .full = 0.6, .most = 1}};
	open_watched(&at, options);
	given.value[WEIR_MEMORY] = 1;
	world_run(at.world, WEIR_NS_PER_S);
	assert_true(shed(at.first.stage, 0) == 1);
	job_init(&job, 1, 7);
	job.event.flags = WEIR_EVENT_EXEMPT;
	assert_int_equal(weir_offer(at.first.stage, &job.event), WEIR_ADMITTED);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(job.handled, 1);
	close_watched(&at);
}

static void a_resource_can_be_switched_off(void **state)
{
	struct watched at;
	weir_resources seen;
	open_watched(&at, (weir_monitor_options){.bounds[WEIR_CPU] = {.off = true}});
	given.value[WEIR_CPU] = 1;
	world_run(at.world, WEIR_NS_PER_S);
	weir_monitor_read(at.monitor, &seen);
	assert_true(seen.level == 0 && seen.of[WEIR_CPU].value == 1);
	close_watched(&at);
}

static void when_it_presses_can_be_changed(void **state)
{
	struct watched at;
	weir_resources seen;
	weir_resource_bounds bounds[WEIR_RESOURCES] = {[WEIR_MEMORY] = {.from = .4, .full = .6, .most = 1}};
	open_watched(&at, (weir_monitor_options){.release_per_s = 10});
	world_run(at.world, WEIR_NS_PER_S);
	assert_true(shed(at.first.stage, 3) == 0);
	must(weir_monitor_set(at.monitor, bounds));
	world_run(at.world, WEIR_NS_PER_S);
	weir_monitor_read(at.monitor, &seen);
	assert_true(fabs(seen.level - .5) < 1e-9);
	assert_true(fabs(shed(at.first.stage, 3) - .5) < .01);
	/* What is wrong changes nothing. */
	bounds[WEIR_MEMORY].off = true;
	bounds[WEIR_CPU].from = 2;
	bounds[WEIR_CPU].full = 1;
	assert_int_equal(weir_monitor_set(at.monitor, bounds), -EINVAL);
	check_contains(weir_error(), "cpu");
	world_run(at.world, WEIR_NS_PER_S);
	assert_true(fabs(shed(at.first.stage, 3) - .5) < .01);
	bounds[WEIR_CPU] = (weir_resource_bounds){0};
	must(weir_monitor_set(at.monitor, bounds));
	world_run(at.world, WEIR_NS_PER_S);
	assert_true(shed(at.first.stage, 3) == 0);
	close_watched(&at);
}

static void what_others_ask_of_a_stage_stays(void **state)
{
	struct watched at;
	open_watched(&at, (weir_monitor_options){0});
	weir_stage_press(at.first.stage, 0.2);
	world_run(at.world, WEIR_NS_PER_S);
	assert_true(fabs(shed(at.first.stage, 3) - 0.2) < 0.01);
	given.value[WEIR_MEMORY] = 0.94;
	world_run(at.world, WEIR_NS_PER_S);
	assert_true(fabs(shed(at.first.stage, 3) - 0.475) < 0.01);
	weir_monitor_free(&at.monitor);
	assert_true(fabs(shed(at.first.stage, 3) - 0.2) < 0.01);
	weir_stage_press(at.first.stage, 0);
	assert_true(shed(at.first.stage, 3) == 0);
	unsigned before = asked;
	world_run(at.world, WEIR_NS_PER_S);
	assert_int_equal(asked, before);
	close_watched(&at);
}

static void it_may_outlive_its_world(void **state)
{
	struct watched at;
	weir_resources seen;
	open_watched(&at, (weir_monitor_options){0});
	given.value[WEIR_MEMORY] = 0.94;
	world_run(at.world, WEIR_NS_PER_S);
	world_end(&at.world);
	weir_monitor_read(at.monitor, &seen);
	assert_true(seen.level > 0.4);
	weir_monitor_free(&at.monitor);
	weir_monitor_free(&at.monitor); /* nothing */
}

static void wrong_options_are_refused(void **state)
{
	static const struct {
		weir_monitor_options options;
		const char *says;
	} wrong[] = {
		{{.interval_ns = 1}, "10 ms"},
		{{.release_per_s = -1}, "above 0"},
		{{.own_memory_least = 2}, "share"},
		{{.bounds[WEIR_CPU] = {.from = 0.9, .full = 0.5}}, "cpu"},
		{{.bounds[WEIR_MEMORY] = {.from = -1, .full = 1}}, "memory"},
		{{.bounds[WEIR_LOOP_LAG] = {.most = 1.5}}, "loop-lag"},
		{{.bounds[WEIR_LOOP_LAG] = {.from = 1, .full = INFINITY}}, "loop-lag"},
	};
	struct watched at;
	weir_monitor *monitor = NULL;
	open_watched(&at, (weir_monitor_options){0});
	assert_int_equal(weir_monitor_new(at.world, NULL, &monitor), -EEXIST);
	weir_monitor_free(&at.monitor);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(weir_monitor_new(at.world, &wrong[i].options, &monitor), -EINVAL);
		check_contains(weir_error(), wrong[i].says);
		assert_null(monitor);
	}
	weir_world *another = world_virtual(2);
	must(weir_monitor_new(another, NULL, &monitor));
	assert_int_equal(weir_monitor_subscribe(monitor, at.first.stage), -EINVAL);
	check_contains(weir_error(), "'first'");
	weir_world_free(&another);
	weir_monitor_free(&monitor);
	close_watched(&at);
}

/* ---- the real world ---- */

static void keep_busy(weir_stage *stage)
{
	struct job job;
	job_init(&job, 1, 0);
	if (weir_offer(stage, &job.event) == WEIR_ADMITTED)
		CHECK_EVENTUALLY(stats_of(stage).in_flight == 0);
}

static void files_are_read_and_the_stage_is_pressed(void **state)
{
	weir_world *world = world_real();
	struct probe probe = {0};
	weir_monitor *monitor = NULL;
	weir_resources seen;
	put("proc/self/cgroup", "0::/\n");
	put("sys/fs/cgroup/memory.max", "1000\n");
	put("sys/fs/cgroup/memory.current", "940\n");
	probe_open(&probe, domain_elastic(world, "pool", 1, 1), (weir_stage_options){0});
	must(weir_monitor_new(
		world, &(weir_monitor_options){.root = root, .interval_ns = 10 * WEIR_NS_PER_MS}, &monitor));
	must(weir_monitor_subscribe(monitor, probe.stage));
	must(weir_world_start(world));
	CHECK_EVENTUALLY((weir_monitor_read(monitor, &seen), seen.looks > 2));
	assert_true(fabs(seen.level - 0.475) < 1e-6);
	assert_int_equal(seen.memory_limit, 1000);
	assert_int_equal(seen.memory_used, 940);
	assert_false(seen.of[WEIR_CPU].known);
	assert_false(seen.of[WEIR_LOOP_LAG].known); /* there is no loop */
	struct job job;
	job_init(&job, 1, 0);
	for (int i = 0; i < 4; i++)
		if (weir_offer(probe.stage, &job.event) == WEIR_ADMITTED)
			CHECK_EVENTUALLY(stats_of(probe.stage).in_flight == 0);
	assert_true(stats_of(probe.stage).by_verdict[WEIR_SHED_RESOURCE] > 0);
	unput("sys/fs/cgroup/memory.max");
	CHECK_EVENTUALLY((keep_busy(probe.stage), weir_monitor_read(monitor, &seen), seen.level == 0));
	assert_false(seen.of[WEIR_MEMORY].known);
	weir_monitor_free(&monitor);
	world_end(&world);
}

static void sleep_a_while(struct probe *probe, struct job *job)
{
	nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
	weir_done(&job->event);
}

static void a_loop_that_hangs_is_seen(void **state)
{
	weir_world *world = world_real();
	struct probe probe = {0};
	weir_monitor *monitor = NULL;
	weir_resources seen;
	probe_open(&probe, domain_reactor(world, "reactor", 2), (weir_stage_options){0});
	must(weir_monitor_new(
		world, &(weir_monitor_options){.root = root, .interval_ns = 10 * WEIR_NS_PER_MS}, &monitor));
	must(weir_world_start(world));
	CHECK_EVENTUALLY((weir_monitor_read(monitor, &seen), seen.looks > 3));
	assert_true(seen.of[WEIR_LOOP_LAG].known);
	probe.each = sleep_a_while;
	struct job job;
	job_init(&job, 1, 0);
	assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
	CHECK_EVENTUALLY((weir_monitor_read(monitor, &seen), seen.of[WEIR_LOOP_LAG].level > 0));
	world_end(&world);
	weir_monitor_free(&monitor);
}

static void the_machine_presses_only_those_who_have_some_of_it(void **state)
{
	weir_world *world = world_real();
	weir_monitor *monitor = NULL;
	weir_resources seen;
	struct probe probe = {0};
	put("proc/meminfo", "MemTotal: 100000 kB\nMemAvailable: 1000 kB\n");
	put("proc/self/statm", "100 100 1 1 0 1 0\n");
	probe_open(&probe, domain_elastic(world, "pool", 1, 1), (weir_stage_options){0});
	must(weir_monitor_new(
		world, &(weir_monitor_options){.root = root, .interval_ns = 10 * WEIR_NS_PER_MS}, &monitor));
	must(weir_world_start(world));
	CHECK_EVENTUALLY((weir_monitor_read(monitor, &seen), seen.looks > 2));
	assert_true(seen.level == 0 && !seen.of[WEIR_MEMORY].known);
	assert_int_equal(seen.memory_limit, 100000 * 1024);
	put("proc/self/statm", "10000 10000 1 1 0 1 0\n");
	CHECK_EVENTUALLY((keep_busy(probe.stage), weir_monitor_read(monitor, &seen), seen.level > 0.9));
	weir_monitor_free(&monitor);
	world_end(&world);
}

/* On whatever machine this is: no crash, no nonsense. */
static void this_machine_makes_sense(void **state)
{
	weir_memory here;
	weir_resources_memory("", &here);
	assert_true(here.limit == 0 || here.used <= here.limit * 2);
	double cpu = weir_resources_cpu("");
	assert_true(cpu < 0 || cpu <= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TREE_TEST(nothing_there_is_nothing_known),
		TREE_TEST(memory_of_a_group_of_version_2),
		TREE_TEST(memory_of_a_group_in_its_own_namespace),
		TREE_TEST(memory_of_a_group_of_version_1),
		TREE_TEST(memory_of_the_machine),
		TREE_TEST(nonsense_about_groups_is_as_good_as_nothing),
		TREE_TEST(stalls_for_a_processor),
		CHECK_TEST(a_level_rises_at_once_and_falls_slowly),
		CHECK_TEST(what_is_unknown_presses_nothing),
		CHECK_TEST(the_largest_level_presses_those_who_subscribe),
		CHECK_TEST(it_lets_go_slowly_and_completely),
		CHECK_TEST(health_checks_pass_whatever_happens),
		CHECK_TEST(a_resource_can_be_switched_off),
		CHECK_TEST(when_it_presses_can_be_changed),
		CHECK_TEST(what_others_ask_of_a_stage_stays),
		CHECK_TEST(it_may_outlive_its_world),
		CHECK_TEST(wrong_options_are_refused),
		TREE_TEST(files_are_read_and_the_stage_is_pressed),
		TREE_TEST(a_loop_that_hangs_is_seen),
		TREE_TEST(the_machine_presses_only_those_who_have_some_of_it),
		CHECK_TEST(this_machine_makes_sense),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
