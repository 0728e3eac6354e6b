/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_MONITOR_H
#define WEIR_MONITOR_H

/*
 * The resource monitor: what no stage's law can see, and all stages share. It looks at memory, processor and event loops a few times
 * a second, makes of each a level from 0 (nothing to worry about) to 1, and has the stages that subscribe turn away the largest of
 * these as a part of what they are offered, lowest class first (weir_stage_press, reason "resource"). Exempt events are never turned away by it.
 *
 *	memory     what the control group uses of its limit (version 2 or 1; what can be dropped, as file cache, not counted), the
 *	           tightest of it and those above it; without a limit, what is not available of the machine's
 *	cpu        the part of the last 10 s in which somebody waited for a processor (pressure stall information), of the control
 *	           group or of the machine
 *	loop lag   how late the slowest event loop of the world runs what it is given, in seconds
 *
 * What cannot be found out here (no such file, nonsense in it) is unknown, never an error, and presses nothing. A level rises at once
 * and falls slowly. No level reaches 1 unless told so: a process that holds on to its memory would otherwise never serve again.
 *
 * Threads: making, freeing and subscribing by any one thread at a time; reading by any. The looking is done by the world's controller,
 * without a lock that offers, stages or their settings need. While nothing is offered nothing is looked at.
 */

#include <weir/stage.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_monitor weir_monitor;

typedef enum weir_resource { WEIR_MEMORY, WEIR_CPU, WEIR_LOOP_LAG, WEIR_RESOURCES } weir_resource;

/* What was measured: memory and cpu as parts (0 to 1), loop lag in seconds; less than 0, or not a number: unknown. */
typedef struct weir_readings {
	double value[WEIR_RESOURCES];
} weir_readings;

/* When a resource presses. All zero: the defaults. */
typedef struct weir_resource_bounds {
	double from; /* above this the level rises from 0 ... */
	double full; /* ... until here, where it is `most` */
	double most; /* at most 1 */
	bool off;    /* measured, but presses nothing */
} weir_resource_bounds;

typedef struct weir_monitor_options {
	/* Defaults: memory 0.90 to 0.98, at most 0.95; cpu 0.95 to 1, at most 0.3; loop lag 0.1 s to 1 s, at most 0.9. */
	weir_resource_bounds bounds[WEIR_RESOURCES];
	uint64_t interval_ns; /* between looks; 0: 250 ms; at least 10 ms */
	double release_per_s; /* how fast levels fall; 0: 0.2 */
	double own_memory_least; /* the machine's memory presses only a process that has this part of it; 0: 0.05 */
	const char *root;        /* of proc and sys, copied; NULL: "/" */
	/* Instead of looking: a virtual world's resources, or others than the system's. Sets what it knows; called without a lock. */
	void (*read)(weir_readings *ret_readings, void *arg);
	void *arg;
} weir_monitor_options;

/* What it last saw. */
typedef struct weir_resources {
	struct {
		bool known;
		double value; /* as in weir_readings; 0 if unknown */
		double level;
	} of[WEIR_RESOURCES];
	double level;                                   /* that the subscribers are asked to turn away */
	uint64_t memory_used, memory_limit, memory_own; /* bytes; 0: unknown */
	uint64_t looks;                                 /* so far */
} weir_resources;

/* Makes the monitor of a world that has none; NULL options are the defaults. -EINVAL, -EEXIST, -ENOMEM, with weir_error. */
WEIR_API int weir_monitor_new(weir_world *world, const weir_monitor_options *options,
			      weir_monitor **ret_monitor);
/* Lets go of its stages and frees it, before or after its world; not from its own read function. Sets *monitor to NULL. */
WEIR_API void weir_monitor_free(weir_monitor **monitor);
/* When each resource presses from now on, by any thread; what its level is by now falls as slowly as ever. -EINVAL, with weir_error: nothing has changed. */
WEIR_API int weir_monitor_set(weir_monitor *monitor, const weir_resource_bounds bounds[WEIR_RESOURCES]);
/* The stage, of the same world, sheds as the resources ask. Any number of stages, any time. -EINVAL: another world's. */
WEIR_API int weir_monitor_subscribe(weir_monitor *monitor, weir_stage *stage);
WEIR_API void weir_monitor_unsubscribe(weir_monitor *monitor, weir_stage *stage);
WEIR_API void weir_monitor_read(const weir_monitor *monitor, weir_resources *ret_resources);
/* "memory", "cpu", "loop-lag": stable names, as in metrics and logs. */
WEIR_API const char *weir_resource_name(weir_resource resource);

#ifdef __cplusplus
}
#endif
#endif
