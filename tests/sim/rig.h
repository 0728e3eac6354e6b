/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_RIG_H
#define WEIR_TESTS_RIG_H

/*
 * One stage of c workers under one law, in a virtual world: what a baseline is tried on. Parameters are text, as users write them. Arrivals are
 * Poisson, at a load that is a multiple of the capacity and can be changed; what is measured is measured from the last rig_measure.
 */

#include "sim/dist.h"
#include "support/worlds.h"

struct rig_options {
	const weir_admission_law *law;
	const char *const *params; /* name, value, ..., NULL */
	weir_dist service;         /* ns */
	uint32_t workers;
	weir_order order;
	uint64_t newest_after_ns;
	uint32_t capacity; /* 0: 100000 */
	uint64_t seed;
};

struct rig_job {
	weir_event event;
	weir_timer timer;
	struct rig *rig;
	struct rig_job *next; /* while free */
};

struct rig {
	struct rig_options options;
	weir_world *world;
	weir_stage *stage;
	weir_arrivals arrivals;
	weir_random random;
	struct rig_job *free_jobs;
	double *responses; /* of completions, ns */
	size_t count, room;
	uint64_t began_ns;
	uint64_t offered, shed, dropped, completed;
	uint64_t shed_why[WEIR_VERDICT_COUNT], dropped_why[WEIR_VERDICT_COUNT];
	uint32_t inside, most_inside;
	double work_ns; /* completed */
};

void rig_open(struct rig *rig, struct rig_options options);
void rig_load(struct rig *rig, double load);
void rig_run(struct rig *rig, double seconds);
/* Forgets what was counted so far. */
void rig_measure(struct rig *rig);
/* Of the response times of what was completed, ns. */
double rig_quantile(struct rig *rig, double quantile);
/* Completed work as a part of the capacity; shed and dropped as a part of what was offered. */
double rig_busy(const struct rig *rig);
double rig_lost(const struct rig *rig);
/* The part of what completed that took longer than this. */
double rig_later_than(const struct rig *rig, double ns);
weir_report rig_report(const struct rig *rig);
void rig_close(struct rig *rig);

#endif
