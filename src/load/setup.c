/* SPDX-License-Identifier: Apache-2.0 */
#include "load/setup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "keys/bitrate.h"
#include "load/volume.h"
#include "sim/trace.h"
#include "tls/tls.h"

#define USERS_USUAL       64u
#define CONNECTIONS_USUAL 10000u
#define DURATION_USUAL    (10 * WEIR_NS_PER_S)
#define REACH_MS          5000u
#define DESCRIPTORS_EXTRA 256u

/* ---- what is requested ---- */

/* The target of the URL, terminated by a NUL: within it, or "/". */
static const char *target_of(const load_setup *setup, char *room, size_t size)
{
	weir_span target = setup->place.target;
	if (target.length == 0 || target.length >= size)
		return "/";
	memcpy(room, target.at, target.length);
	room[target.length] = '\0';
	return room;
}

int load_setup_work(const load_setup *setup, const load_habits *habits, load_work **ret)
{
	const load_options *options = setup->options;
	char room[8192];
	const char *target = target_of(setup, room, sizeof(room));
	if (setup->place.target.length >= sizeof(room))
		return weir_error_set(-EINVAL, "the URL is longer than %zu bytes", sizeof(room) - 1);
	if (setup->trace != NULL)
		return load_work_trace(habits, setup->trace, target, ret);
	if (options->model != NULL)
		return load_work_model(habits, options->model, ret);
	if (options->urls != NULL)
		return load_work_url_list(habits, options->urls, ret);
	if (options->sizes != NULL)
		return load_work_sizes(habits, target, options->sizes, ret);
	if (options->specweb > 0)
		return load_work_specweb(habits, strcmp(target, "/") == 0 ? "" : target, options->specweb,
					 ret);
	return load_work_url(habits, target, ret);
}

/* In an open run each arrival is a user with one request, unless sessions were asked for. */
static load_habits habits_of(const load_setup *setup)
{
	const load_options *options = setup->options;
	load_habits habits = options->habits;
	bool open = options->rate > 0 || options->phases > 0 || options->trace != NULL ||
		    options->transient != NULL || options->load.count > 0;
	habits.origin = setup->place.origin;
	if (options->sessions > 0 && habits.requests == 0)
		habits.requests = options->model != NULL ? 0 : 10;
	else if (open && habits.requests == 0)
		habits.requests = 1;
	return habits;
}

static void name_groups(load_setup *setup)
{
	for (unsigned i = 0; i < load_work_classes(setup->work); i++)
		setup->classes[i] = load_work_class(setup->work, i);
	for (unsigned i = 0; i < load_work_paths(setup->work); i++)
		setup->paths[i] = load_work_path(setup->work, i);
}

int load_setup_make(load_setup *setup, const load_options *options)
{
	*setup = (load_setup){.options = options, .capacity = options->capacity};
	int error = load_place_parse(options->url, &setup->place);
	if (error == 0 && options->uplink_bits_per_s > 0)
		error = load_setup_volume(options, &setup->trace);
	else if (error == 0 && options->trace != NULL)
		error = weir_tracefile_read(options->trace, true, &setup->trace);
	if (error == 0) {
		load_habits habits = habits_of(setup);
		error = load_setup_work(setup, &habits, &setup->work);
	}
	if (error == 0)
		name_groups(setup);
	if (error == 0)
		error = load_place_reach(&setup->place, REACH_MS);
	if (error == 0)
		error = load_sources_check(options->source.at, options->source.count, &setup->place);
	/* Checked once here, rather than for each request. */
	if (error == 0 && setup->place.secure && !options->plan.secure_unverified &&
	    weir_tls_prepare(options->plan.authorities) != 0)
		error = -EINVAL;
	if (error != 0)
		load_setup_free(setup);
	return error;
}

void load_setup_free(load_setup *setup)
{
	load_work_free(&setup->work);
	weir_tracefile_free(&setup->trace);
}

bool load_setup_needs_capacity(const load_options *options)
{
	if (options->uplink_bits_per_s > 0)
		return false;
	for (unsigned i = 0; i < options->phases; i++)
		if (load_phase_is_multiple(options->phase[i]))
			return true;
	return options->load.count > 0 || (options->transient != NULL && options->uplink_bits_per_s == 0);
}

/* ---- a load in bytes ---- */

/* Phases in multiples of the uplink; returns how many there are, or a negative errno. */
static int volume_phases(const load_options *options, load_phase *phases)
{
	int count = (int)options->phases;
	if (options->transient != NULL) {
		load_transient_phases(load_transient_find(options->transient), 1, phases);
		count = 2;
	}
	for (unsigned i = 0; i < options->phases; i++) {
		int error = load_phase_parse(options->phase[i], 1, &phases[i]);
		if (error != 0)
			return error;
	}
	for (int i = 0; options->faster > 0 && i < count; i++) {
		double ns = (double)phases[i].length_ns / options->faster;
		phases[i].length_ns = ns < 1                         ? 1
				      : ns < (double)LOAD_LENGTH_MAX ? (uint64_t)ns
								     : LOAD_LENGTH_MAX;
	}
	return count;
}

static int make_volume(const load_options *options, const load_trace *trace, load_trace **ret)
{
	static load_phase phases[LOAD_PHASES_MAX];
	int count = volume_phases(options, phases);
	if (count < 0)
		return count;
	uint64_t duration_ns = options->plan.duration_ns;
	const load_volume volume = {
		.bytes_per_s = (double)options->uplink_bits_per_s / 8,
		.phases = phases,
		.phase_count = (unsigned)count,
		.repeat = duration_ns != 0 && (options->transient != NULL || options->repeat),
		.until_ns = duration_ns != 0 ? duration_ns + options->plan.warmup_ns : UINT64_MAX,
		.poisson = options->poisson,
		.per_connection = options->plan.per_connection,
		.seed = options->plan.seed,
		.trace = trace,
		.sizes = options->sizes};
	return load_volume_trace(&volume, ret);
}

int load_setup_volume(const load_options *options, load_trace **ret)
{
	load_trace *sizes = NULL;
	int error = options->trace != NULL ? weir_tracefile_read(options->trace, true, &sizes) : 0;
	if (error == 0)
		error = make_volume(options, sizes, ret);
	weir_tracefile_free(&sizes);
	return error;
}

/* ---- arrivals ---- */

static int one_phase(double rate, load_run *run, bool poisson)
{
	const load_phase phase = {.length_ns = LOAD_LENGTH_MAX, .rate = rate};
	return load_schedule_phases(&phase, 1, poisson, false, UINT64_MAX, &run->schedule);
}

/* Arrivals per second that make as many requests as the capacity: fewer, if each arrival makes several. */
static double arrivals_at_capacity(const load_setup *setup)
{
	double requests = setup->options->habits.requests;
	return requests > 1 ? setup->capacity / requests : setup->capacity;
}

static int schedule_phases(const load_setup *setup, load_run *run)
{
	const load_options *options = setup->options;
	static load_phase phases[LOAD_PHASES_MAX];
	uint64_t until_ns =
		options->plan.duration_ns != 0 ? options->plan.duration_ns + run->plan.warmup_ns : UINT64_MAX;
	for (unsigned i = 0; i < options->phases; i++) {
		int error = load_phase_parse(options->phase[i], arrivals_at_capacity(setup), &phases[i]);
		if (error != 0)
			return error;
	}
	if (options->repeat && until_ns == UINT64_MAX)
		until_ns = DURATION_USUAL;
	snprintf(run->arrivals, sizeof(run->arrivals), "open, %u phases%s, %s", options->phases,
		 options->repeat ? " again and again" : "", options->poisson ? "Poisson" : "evenly spaced");
	return load_schedule_phases(phases, options->phases, options->poisson, options->repeat, until_ns,
				    &run->schedule);
}

static int schedule_transient(const load_setup *setup, load_run *run)
{
	const load_transient *transient = load_transient_find(setup->options->transient);
	load_phase phases[2];
	load_transient_phases(transient, arrivals_at_capacity(setup), phases);
	snprintf(run->arrivals, sizeof(run->arrivals), "open, %s at a capacity of %.0f/s", transient->name,
		 setup->capacity);
	return load_schedule_phases(phases, 2, setup->options->poisson, true, UINT64_MAX, &run->schedule);
}

static int schedule_trace(const load_setup *setup, load_run *run)
{
	const load_options *options = setup->options;
	double faster = options->faster > 0 ? options->faster : 1;
	int error = options->rate > 0 ? load_trace_faster(setup->trace, options->rate, &faster) : 0;
	snprintf(run->arrivals, sizeof(run->arrivals), "open, trace %.60s, %.3g times as fast",
		 options->trace, faster);
	return error != 0 ? error : load_schedule_trace(setup->trace, faster, &run->schedule);
}

static int schedule_volume(const load_setup *setup, load_run *run)
{
	const load_options *options = setup->options;
	char rate[32];
	snprintf(run->arrivals, sizeof(run->arrivals), "open, %s in bytes of an uplink of %s, %s",
		 options->transient != NULL ? options->transient : "phases",
		 weir_bitrate_print(rate, sizeof(rate), options->uplink_bits_per_s),
		 options->poisson ? "Poisson" : "evenly spaced");
	return load_schedule_trace(setup->trace, 1, &run->schedule);
}

static int schedule(const load_setup *setup, double load, load_run *run)
{
	const load_options *options = setup->options;
	double rate = load > 0                ? load * arrivals_at_capacity(setup)
		      : options->sessions > 0 ? options->sessions
					      : options->rate;
	if (options->uplink_bits_per_s > 0)
		return schedule_volume(setup, run);
	if (options->phases > 0)
		return schedule_phases(setup, run);
	if (options->transient != NULL)
		return schedule_transient(setup, run);
	if (options->trace != NULL)
		return schedule_trace(setup, run);
	if (rate == 0) {
		snprintf(run->arrivals, sizeof(run->arrivals), "closed, %u users", run->plan.users);
		return 0;
	}
	snprintf(run->arrivals, sizeof(run->arrivals), "%s, %s, %.6g%s/s",
		 options->sessions > 0 ? "partly open" : "open",
		 options->poisson ? "Poisson" : "evenly spaced", rate,
		 options->sessions > 0 ? " sessions" : "");
	return one_phase(rate, run, options->poisson);
}

/* ---- plans ---- */

/* Raises the limit of descriptors for this many connections; reports it if that is not possible. */
static void raise_descriptors(load_plan *plan)
{
	struct rlimit limit;
	uint64_t wanted = (uint64_t)plan->connections + DESCRIPTORS_EXTRA;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < wanted) {
		unsigned most = limit.rlim_cur > 2 * DESCRIPTORS_EXTRA
					? (unsigned)limit.rlim_cur - DESCRIPTORS_EXTRA
					: DESCRIPTORS_EXTRA;
		fprintf(stderr,
			"weir load: only %u connections instead of %u: the limit of open files (ulimit -n) "
			"is %llu\n",
			most, plan->connections, (unsigned long long)limit.rlim_max);
		plan->connections = most;
	}
}

static unsigned cores(void)
{
	long count = sysconf(_SC_NPROCESSORS_ONLN);
	return count < 1 ? 1 : count > (long)LOAD_THREADS_MAX ? LOAD_THREADS_MAX : (unsigned)count;
}

/* As many connections as the users need, divided evenly among the threads. */
static unsigned connections_of(unsigned users, unsigned streams, unsigned threads)
{
	WEIR_ASSERT(threads > 0 && streams > 0);
	unsigned share = (users + threads - 1) / threads;
	return threads * ((share + streams - 1) / streams);
}

/* Each thread has at least one user and one connection. */
static void fill(load_plan *plan, bool closed)
{
	unsigned streams = plan->http2 && plan->streams > 0 ? plan->streams : 1;
	bool given = plan->connections > 0;
	if (!given)
		plan->connections = closed ? connections_of(plan->users, streams, 1) : CONNECTIONS_USUAL;
	unsigned most = closed && plan->users < plan->connections ? plan->users : plan->connections;
	if (plan->threads == 0)
		plan->threads = cores();
	if (plan->threads > most)
		plan->threads = most;
	if (!given && closed)
		plan->connections =
			streams > 1 ? connections_of(plan->users, streams, plan->threads) : plan->users;
	raise_descriptors(plan);
}

static unsigned users_of(const load_options *options)
{
	return options->users > 0         ? options->users
	       : options->concurrency > 0 ? options->concurrency
					  : USERS_USUAL;
}

/* How long it takes, unless arrivals end before. */
static uint64_t duration_of(const load_plan *plan, uint64_t end_ns)
{
	bool ends = end_ns < LOAD_LENGTH_MAX && end_ns > plan->warmup_ns;
	uint64_t asked_ns = plan->duration_ns, rest_ns = ends ? end_ns - plan->warmup_ns : UINT64_MAX;
	if (asked_ns == 0)
		asked_ns = ends || plan->total > 0 ? UINT64_MAX : DURATION_USUAL;
	return rest_ns < asked_ns ? rest_ns : asked_ns;
}

int load_run_plan(const load_setup *setup, double load, load_run *ret)
{
	const load_options *options = setup->options;
	memset(ret, 0, sizeof(*ret));
	load_plan *plan = &ret->plan;
	*plan = options->plan;
	bool closed = options->rate == 0 && options->sessions == 0 && options->phases == 0 &&
		      options->trace == NULL && options->transient == NULL && load == 0;
	plan->work = setup->work;
	plan->place = &setup->place;
	plan->users = !closed ? 0 : users_of(options);
	plan->stagger_ns = options->habits.think_ns;
	plan->each = options->each != NULL;
	ret->each = options->each;
	fill(plan, closed);
	int error = schedule(setup, load, ret);
	if (error != 0)
		return error;
	plan->schedule = ret->schedule;
	if (plan->total > 0) {
		size_t length = strlen(ret->arrivals);
		snprintf(ret->arrivals + length, sizeof(ret->arrivals) - length, ", %u requests",
			 plan->total);
	}
	uint64_t end_ns = ret->schedule != NULL ? load_schedule_end(ret->schedule) : UINT64_MAX;
	plan->duration_ns = duration_of(plan, end_ns);
	ret->story = (load_story){.url = options->url,
				  .arrivals = ret->arrivals,
				  .class_names = setup->classes,
				  .path_names = setup->paths,
				  .planned_ns = plan->duration_ns,
				  .asked_rate = ret->schedule != NULL ? load_schedule_rate(ret->schedule) : 0,
				  .load = load,
				  .search = setup->searched ? &setup->search : NULL,
				  .capacity = setup->capacity};
	return 0;
}

int load_run_plan_closed(const load_setup *setup, const load_work *work, unsigned users, uint64_t duration_ns,
			 load_run *ret)
{
	memset(ret, 0, sizeof(*ret));
	load_plan *plan = &ret->plan;
	*plan = setup->options->plan;
	plan->work = work;
	plan->place = &setup->place;
	plan->users = users;
	plan->connections = 0;
	plan->total = 0;
	plan->duration_ns = duration_ns;
	plan->warmup_ns = duration_ns / 4;
	plan->retries = 0;
	plan->patience_ns = UINT64_MAX;
	plan->obey_retry_after = false;
	plan->drain_ns = 2 * WEIR_NS_PER_S;
	fill(plan, true);
	snprintf(ret->arrivals, sizeof(ret->arrivals), "closed, %u users", users);
	ret->story = (load_story){.url = setup->options->url,
				  .arrivals = ret->arrivals,
				  .class_names = setup->classes,
				  .path_names = setup->paths,
				  .planned_ns = duration_ns};
	return 0;
}
