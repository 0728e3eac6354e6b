/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_MONITOR_H
#define WEIR_MONITOR_H

/*
 * The resource monitor watches what all stages share and no stage's law can see: memory, processor and
 * event loops. A few times a second it turns each of them into a level from 0 (no concern) to 1. Each
 * stage that subscribes sheds a fraction of its offers equal to the highest of these levels, lowest class
 * first (weir_stage_press, reason "resource"). It never sheds exempt events.
 *
 *  memory     use of the control group's limit (version 2 or 1), not counting what the kernel can
 *             reclaim, such as file cache; the tightest of the group and its ancestors counts; without
 *             a limit, the part of the machine's memory that is not available
 *  cpu        the part of the last 10 s in which some task waited for a processor (pressure stall
 *             information), of the control group or of the machine
 *  loop lag   how late the slowest event loop of the world runs its work, in seconds
 *
 * A resource that cannot be read on this machine (no such file, nonsense in it) is unknown. That is never
 * an error, and puts no pressure on stages. A level rises at once and falls slowly. With the default
 * bounds no level reaches 1: otherwise a process that never releases its memory would never serve again.
 *
 * Threads: one thread at a time may make, free and subscribe; any thread may read. The world's controller
 * does the measuring, without a lock that offers, stages or their settings need. While nothing is
 * offered, nothing is measured.
 */

#include <weir/stage.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_monitor weir_monitor;

typedef enum weir_resource { WEIR_MEMORY, WEIR_CPU, WEIR_LOOP_LAG, WEIR_RESOURCES } weir_resource;

/* Measurements: memory and cpu as fractions (0 to 1), loop lag in seconds. Negative or NaN: unknown. */
typedef struct weir_readings {
	double value[WEIR_RESOURCES];
} weir_readings;

/* When a resource puts pressure on the stages. All zero: the defaults. */
typedef struct weir_resource_bounds {
	double from; /* above this the level rises from 0 ... */
	double full; /* ... up to `most` at this value */
	double most; /* at most 1 */
	bool off;    /* measured, but puts no pressure on the stages */
} weir_resource_bounds;

typedef struct weir_monitor_options {
	/*
	 * Defaults: memory 0.90 to 0.98, at most 0.95; cpu 0.95 to 1, at most 0.3; loop lag 0.1 s to 1 s,
	 * at most 0.9.
	 */
	weir_resource_bounds bounds[WEIR_RESOURCES];
	uint64_t interval_ns; /* between measurements; 0: 250 ms; at least 10 ms */
	double release_per_s; /* how fast levels fall; 0: 0.2 */
	/* The machine's memory counts only if this process holds at least this fraction of it; 0: 0.05. */
	double own_memory_least;
	const char *root; /* prefix of the proc and sys paths, copied; NULL: "/" */
	/*
	 * Replaces the measurements: for the resources of a virtual world, or other ones than the
	 * system's. Sets the values that it knows. Called without a lock.
	 */
	void (*read)(weir_readings *ret_readings, void *arg);
	void *arg;
} weir_monitor_options;

/* The latest measurements. */
typedef struct weir_resources {
	struct {
		bool known;
		double value; /* as in weir_readings; 0 if unknown */
		double level;
	} of[WEIR_RESOURCES];
	double level;                                   /* the fraction that subscribers are asked to shed */
	uint64_t memory_used, memory_limit, memory_own; /* bytes; 0: unknown */
	uint64_t looks;                                 /* measurements so far */
} weir_resources;

/*
 * Makes the monitor of a world that has none. NULL options are the defaults. -EINVAL, -EEXIST or -ENOMEM,
 * with weir_error.
 */
WEIR_API int weir_monitor_new(weir_world *world, const weir_monitor_options *options,
			      weir_monitor **ret_monitor);
/*
 * Unsubscribes its stages and frees it, before or after its world. Must not be called from its own read
 * function. Sets *monitor to NULL.
 */
WEIR_API void weir_monitor_free(weir_monitor **monitor);
/* The world's monitor; NULL: it has none. Valid until somebody frees it. */
WEIR_API weir_monitor *weir_world_monitor(const weir_world *world);
/*
 * Changes the bounds from now on, by any thread. A level that is already high still falls at its usual
 * rate. -EINVAL, with weir_error: nothing has changed.
 */
WEIR_API int weir_monitor_set(weir_monitor *monitor, const weir_resource_bounds bounds[WEIR_RESOURCES]);
/*
 * The stage, which must be of the same world, sheds as the resources require. Any number of stages, at
 * any time. -EINVAL: the stage belongs to another world.
 */
WEIR_API int weir_monitor_subscribe(weir_monitor *monitor, weir_stage *stage);
/* The stage sheds no more for the resources. */
WEIR_API void weir_monitor_unsubscribe(weir_monitor *monitor, weir_stage *stage);
/* The last values, and what follows from them. */
WEIR_API void weir_monitor_read(const weir_monitor *monitor, weir_resources *ret_resources);
/* "memory", "cpu", "loop-lag": stable names, as in metrics and logs. */
WEIR_API const char *weir_resource_name(weir_resource resource);

#ifdef __cplusplus
}
#endif
#endif
