/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_RESOURCES_H
#define WEIR_STAGE_RESOURCES_H

/*
 * What the system reports about memory and processor, read from proc and sys below a root (tests have their
 * own). A bounded number of small reads. What is missing or absurd is unknown: 0 bytes, or a fraction < 0.
 */

#include <stdint.h>

typedef struct weir_memory {
	uint64_t used, limit; /* of the tightest control group, otherwise of the machine; limit 0: unknown */
	uint64_t own;         /* resident memory of this process */
	int grouped;          /* the limit is a control group's */
} weir_memory;

void weir_resources_memory(const char *root, weir_memory *ret_memory);
/* The fraction of the time in which some task waited for a processor. */
double weir_resources_cpu(const char *root);

#endif
