/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes from outside to a law in force: the times that are promised, and what the servers behind the stage
 * report. Both are given under control_lock, so that the law does not tick meanwhile.
 */
#include <errno.h>
#include <math.h>

#include "base/error.h"
#include "stage/runtime.h"

#define PROMISE_MAX_NS (3600 * WEIR_NS_PER_S)
#define TOLD_S_MAX     3600.
#define TOLD_MAX       1e6 /* requests or processors of a server */

/* ---- promises ---- */

static int check_promise(const weir_stage *stage, const uint64_t promise_ns[WEIR_CLASSES])
{
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		if (promise_ns[k] > PROMISE_MAX_NS || (promise_ns[k] != 0 && promise_ns[k] < WEIR_NS_PER_US))
			return weir_error_set(-EINVAL, "stage '%s': a promised time must be from 1us to 1h",
					      stage->name);
	return 0;
}

/* Returns whether there is a law whose target changes. Laws of several lanes have a state each. */
static bool retarget_locked(weir_stage *stage, const uint64_t target_ns[WEIR_CLASSES])
{
	weir_gate *gate = weir_stage_gate(stage);
	if (gate == NULL || gate->law->retarget == NULL)
		return false;
	for (uint32_t i = 0; i < gate->states; i++)
		gate->law->retarget(gate->state + i * gate->stride, target_ns);
	return true;
}

int weir_stage_promise(weir_stage *stage, const uint64_t promise_ns[WEIR_CLASSES])
{
	uint64_t filled_ns[WEIR_CLASSES], above_ns = 0;
	int failed = check_promise(stage, promise_ns);
	if (failed != 0)
		return failed;
	pthread_mutex_lock(&stage->world->control_lock);
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		above_ns = filled_ns[k] = promise_ns[k] != 0 ? promise_ns[k] : above_ns;
		atomic_store(&stage->promise_ns[k], promise_ns[0] != 0 ? filled_ns[k] : 0);
	}
	weir_stage_update_open(stage);
	bool held = promise_ns[0] == 0 || retarget_locked(stage, filled_ns);
	pthread_mutex_unlock(&stage->world->control_lock);
	if (!held)
		return weir_error_set(-ENOTSUP, "stage '%s': its law's target cannot change", stage->name);
	return 0;
}

/* ---- reports ---- */

/* A number from 0 to most, or below 0: unknown. */
static bool is_told(double value, double most)
{
	return isfinite(value) && value <= most;
}

static int check_told(const weir_stage *stage, const weir_told *told)
{
	bool sound = is_told(told->queue_s, TOLD_S_MAX) && is_told(told->in_service, TOLD_MAX) &&
		     is_told(told->busy, 1) && is_told(told->processors, TOLD_MAX) && told->processors >= 0;
	return sound ? 0
		     : weir_error_set(-EINVAL, "stage '%s': a report with numbers that cannot be",
				      stage->name);
}

int weir_stage_tell(weir_stage *stage, const weir_told *told)
{
	int failed = check_told(stage, told);
	if (failed != 0)
		return failed;
	pthread_mutex_lock(&stage->world->control_lock);
	weir_gate *gate = weir_stage_gate(stage);
	bool heeded = gate != NULL && gate->law->told != NULL;
	for (uint32_t i = 0; heeded && i < gate->states; i++)
		gate->law->told(gate->state + i * gate->stride, told);
	pthread_mutex_unlock(&stage->world->control_lock);
	if (!heeded)
		return weir_error_set(-ENOTSUP, "stage '%s': its law does not use reports", stage->name);
	return 0;
}
