/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/keys.h"

#include "sim/values.h"

#define US 1e3
#define MS 1e6
#define S  1e9
#define H  3.6e12

static const char *const orders[] = {"fifo", "by-class", "shortest", "newest-late", NULL};
static const char *const modes[] = {"enforce", "dry-run", "admit-all", NULL};
static const char *const disciplines[] = {"fifo", "ps", NULL};
static const char *const forms[] = {"poisson", "constant", "burst", "closed", "trace", NULL};

#define ROW(key, is, member, ...) WEIR_KEY(key, is, SECTION, member, __VA_ARGS__)
#define AS(key, as, member, initial, ...) \
	ROW(key, FORM, member, initial, __VA_ARGS__, .form = &weir_form_##as)
#define BETWEEN(a, b) .min = a, .max = b
/* A change while the scenario runs can set it. */
#define LIVE .flags = WEIR_KEY_LIVE

#define SECTION weir_scenario
static const weir_key scenario_keys[] = {
	AS("title", text, title, NULL, "A title for tables and plots. Without one: the path"),
	ROW("duration", TIME, duration_ns, "60s", "The simulated time", BETWEEN(MS, 1000 * H)),
	ROW("warmup", TIME, warmup_ns, "0s", "The time at the beginning that is not measured",
	    BETWEEN(0, 1000 * H)),
	ROW("window", TIME, window_ns, NULL,
	    "Percentiles and rates over time are calculated per window. Without it: about two hundred "
	    "windows, of at "
	    "least 10ms",
	    BETWEEN(MS, H)),
	ROW("seed", COUNT, seed, "1", "Everything random follows from the seed", BETWEEN(1, 4294967295.0)),
	{0}};
#undef SECTION

#define SECTION weir_scenario_stage
const weir_key weir_stage_keys[] = {
	ROW("workers", COUNT, workers, NULL,
	    "The number of workers. Without it: 1; with threads, no bound unless there is a service",
	    BETWEEN(1, 4096)),
	ROW("threads", COUNT, threads, NULL,
	    "The threads of a reactor, each with its own queue. Without it: a pool with one queue",
	    BETWEEN(1, 16)),
	ROW("capacity", COUNT, capacity, "10000", "The number of requests that may wait", BETWEEN(1, 1e6)),
	ROW("order", CHOICE, order, "fifo",
	    "The order of the queue. shortest: by the type's cost; newest-late: newest first while late",
	    .words = orders),
	ROW("newest_after", TIME, newest_after_ns, NULL,
	    "The wait from which newest-late counts as late. Without it: 100ms", BETWEEN(US, H)),
	AS("service", dist, service, NULL, "The service time. Without it, a backend is required", LIVE),
	AS("next", shares, next, NULL,
	   "The stage that follows, or several with shares. Without it, the request is completed",
	   BETWEEN(1, WEIR_SCENARIO_NEXT)),
	AS("pool", name, pool, NULL,
	   "Stages with the same pool share their workers, and must give the same number of them. Without "
	   "it: its own "
	   "workers"),
	AS("backend", name, backend, NULL,
	   "The request continues at this backend, and holds its worker meanwhile"),
	AS("work", dist, work, NULL, "The work that it asks of the backend. Required with a backend", LIVE),
	ROW("degrade", NUMBER, degrade, "1",
	    "The fraction of the service time that is left at quality 0. With 1 it cannot degrade",
	    BETWEEN(0, 1)),
	ROW("heeds", SWITCH, heeds, "off", "The stage admits less while stages further down shed"),
	ROW("mode", CHOICE, mode, "enforce", "What the stage does with refusals of its law", .words = modes,
	    LIVE),
	ROW("ceiling", NUMBER, ceiling, "1", "The largest fraction of the offers that the law may shed",
	    BETWEEN(0, 1), LIVE),
	AS("law", name, law, NULL,
	   "A law of `weir sim --laws`, or none. Without it: no law, not even with --law", LIVE),
	{0}};
#undef SECTION

#define SECTION weir_scenario_backend
static const weir_key backend_keys[] = {
	ROW("workers", COUNT, options.workers, "1", "The number of workers", BETWEEN(1, 4096)),
	ROW("discipline", CHOICE, options.discipline, "fifo",
	    "ps is processor sharing: all jobs run at once, each at an equal share", .words = disciplines),
	ROW("thrash_from", COUNT, options.thrash_from, NULL,
	    "With more jobs than this the backend slows down. Without it, it does not", BETWEEN(1, 1e6)),
	ROW("thrash_by", NUMBER, options.thrash_by, NULL,
	    "The speed is divided by 1 + thrash_by x excess / thrash_from", BETWEEN(0, 1000)),
	ROW("lock", NUMBER, options.lock, "0",
	    "The fraction of every job that holds a lock, one job at a time", BETWEEN(0, 1)),
	ROW("most", COUNT, options.most, NULL,
	    "With so many jobs inside, a new one is refused. Without it: no limit", BETWEEN(1, 1e6)),
	ROW("round_trip", TIME, options.round_trip_ns, "0s", "The time that is added to every job",
	    BETWEEN(0, 60 * S)),
	{0}};
#undef SECTION

#define SECTION weir_scenario_type
static const weir_key type_keys[] = {
	AS("stage", name, stage, NULL, "The stage where it enters. Without it: the first one"),
	ROW("cost", NUMBER, cost, "1", "The factor on the stages' service times and work",
	    BETWEEN(1e-6, 1e6)),
	AS("class", class, klass, "load", "The class; 0 is the highest. load: that of the load",
	   BETWEEN(0, WEIR_CLASSES - 1)),
	ROW("revenue", NUMBER, revenue, "0", "What a request earns that is answered within its target",
	    BETWEEN(0, 1e12)),
	{0}};
#undef SECTION

#define SECTION weir_scenario_load
static const weir_key load_keys[] = {
	ROW("arrivals", CHOICE, form, "poisson", "How requests arrive. closed: users who wait for answers",
	    .words = forms),
	AS("rate", profile, rate, NULL, "Requests per second. Required, except for closed and trace"),
	AS("users", profile, rate, NULL, "The number of users. Required for closed"),
	ROW("class", COUNT, klass, "0", "The class; 0 is the highest", BETWEEN(0, WEIR_CLASSES - 1)),
	AS("stage", name, stage, NULL, "The stage where its own type enters. Without it: the first one"),
	ROW("cost", NUMBER, cost, "1", "The cost of its own type", BETWEEN(1e-6, 1e6)),
	ROW("revenue", NUMBER, revenue, "0",
	    "Without a mix: what a request earns that is answered within its target", BETWEEN(0, 1e12)),
	AS("mix", shares, mix, NULL, "Types with shares, page .99, search .01. Without it: its own type",
	   BETWEEN(1, WEIR_SCENARIO_TYPES)),
	ROW("exempt", SWITCH, exempt, "off", "No law may shed its requests"),
	ROW("together", COUNT, together, "1", "So many arrive at once, and all of them are admitted or none",
	    BETWEEN(1, 64)),
	AS("think", dist, think, "exponential 1s", "closed: the time between an answer and the next request"),
	ROW("on", TIME, on_ns, "100ms", "burst: the mean length of a burst", BETWEEN(US, H)),
	ROW("off", TIME, off_ns, "100ms",
	    "burst: the mean time between bursts. The rate is the mean over bursts and pauses",
	    BETWEEN(US, H)),
	AS("file", text, file, NULL,
	   "trace: a CSV file next to the scenario. Its times, in seconds, are in the column whose name "
	   "begins with "
	   "t_offset or time, or in the first one. Required for trace"),
	ROW("faster", NUMBER, faster, "1", "trace: the factor by which time passes faster",
	    BETWEEN(1e-6, 1e6)),
	ROW("patience", TIME, patience_ns, NULL, "The time after which a client leaves. Without it: never",
	    BETWEEN(US, 1000 * H)),
	ROW("noticed", SWITCH, noticed, "on", "The service notices that a client has left. off: it works on"),
	AS("retries", retries, retries, "0", "The attempts after the first, when rejected or out of patience",
	   BETWEEN(0, 1e6)),
	ROW("backoff", TIME, backoff_ns, "100ms", "The time before the first retry", BETWEEN(US, H)),
	ROW("backoff_factor", NUMBER, backoff_factor, "2", "The factor by which it grows with each retry",
	    BETWEEN(1, 100)),
	ROW("backoff_max", TIME, backoff_max_ns, "60s", "The longest time before a retry",
	    BETWEEN(US, 1000 * H)),
	ROW("jitter", NUMBER, jitter, "0.5", "The fraction by which it varies, up and down", BETWEEN(0, 1)),
	ROW("honours", SWITCH, honours, "off", "Clients wait at least as long as the law's Retry-After says"),
	ROW("rejected_wait", TIME, rejected_wait_ns, "1s",
	    "closed: a user without retries left waits this long and begins again", BETWEEN(US, 1000 * H)),
	ROW("target", TIME, target_ns, NULL,
	    "The target of the whole request. Without it: that of the stage where it enters, or of the next "
	    "stage that "
	    "has one",
	    BETWEEN(US, 1000 * H)),
	{0}};
#undef SECTION

#define ARRAY(of, array, count, limit)                                                  \
	.title = "NAME", .bytes = sizeof(of), .offset = offsetof(weir_scenario, array), \
	.count_offset = offsetof(weir_scenario, count), .most = limit

static const weir_section_kind kinds[] = {
	[WEIR_SECTION_SCENARIO] = {.name = "scenario", .help = "The run as a whole.", .keys = scenario_keys},
	[WEIR_SECTION_STAGE] =
		{.name = "stage",
		 .help = "A queue with workers and, perhaps, a law. A worker is busy with a request until "
			 "its service, and its work at the backend, is done.",
		 .keys = weir_stage_keys,
		 .begin = weir_scenario_begin_stage,
		 .set = weir_scenario_set_stage,
		 ARRAY(weir_scenario_stage, stage, stages, WEIR_SCENARIO_STAGES)},
	[WEIR_SECTION_BACKEND] = {.name = "backend",
				  .help = "A server behind the stages, shared by all stages that name it.",
				  .keys = backend_keys,
				  ARRAY(weir_scenario_backend, backend, backends, WEIR_SCENARIO_BACKENDS)},
	[WEIR_SECTION_TYPE] = {.name = "type",
			       .help = "A kind of request. A load that names no types has one of its own.",
			       .keys = type_keys,
			       ARRAY(weir_scenario_type, type, types, WEIR_SCENARIO_TYPES)},
	[WEIR_SECTION_LOAD] = {.name = "load",
			       .help = "Requests that arrive, and what their clients do.",
			       .keys = load_keys,
			       .set = weir_scenario_set_load,
			       ARRAY(weir_scenario_load, load, loads, WEIR_SCENARIO_LOADS)},
	{.name = "at",
	 .title = "TIME",
	 .help = "Changes while the scenario runs, as NAME.KEY = VALUE.",
	 .offset = offsetof(weir_scenario, at),
	 .begin = weir_scenario_begin_at,
	 .set = weir_scenario_set_at},
	{0}};

const weir_sections weir_scenario_sections = {.kinds = kinds, .one_namespace = true};
