/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_UPLINK_INSIDE_H
#define WEIR_UPLINK_INSIDE_H

/* What the files of src/uplink share. */

#include "uplink/uplink.h"

/* weir_uplink_look by a socket that is open. */
int weir_uplink_view_read(weir_kernel *kernel, const char *device, weir_uplink_view *ret_view);

/*
 * Makes the queues of a plan on a device that has none, step by step. `plan->prio` is set to what became of
 * it. A negative errno with weir_error; what was made stays, and the caller removes it.
 */
int weir_uplink_make(weir_kernel *kernel, weir_uplink_plan *plan, weir_uplink_form form);

#endif
