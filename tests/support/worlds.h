/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_WORLDS_H
#define WEIR_TESTS_WORLDS_H

/* Worlds and domains in one line each; whatever cannot be made fails the test with the runtime's own sentence. */

#include "support/probe.h"

/* Fails the test with weir_error() unless code is 0. */
void must(int code);

weir_world *world_virtual(uint64_t seed);
weir_world *world_real(void);
weir_domain *domain_reactor(weir_world *world, const char *name, uint32_t threads);
weir_domain *domain_elastic(weir_world *world, const char *name, uint32_t min, uint32_t max);
weir_domain *domain_of_kind(weir_world *world, weir_domain_kind kind);

/* A virtual world's clock goes on by this much. */
void world_run(weir_world *world, uint64_t ns);
/* Stops a world that should drain: everything balanced, nothing left; then frees it. */
void world_end(weir_world **world);
/* As world_end, for a test that provoked faults or left events inside: only the counts must balance. */
void world_end_faulty(weir_world **world);

/*
 * A virtual world with one stage whose only place in service is taken: whatever is offered now waits, in both kinds of
 * domain, until plugged_release. The plug itself is one completed event of class 0 in the counts.
 */
struct plugged {
	weir_world *world;
	weir_domain *domain, *other; /* the stage's; a reactor for a second stage */
	struct probe probe;
	weir_stage *stage; /* the probe's */
	struct job plug;
};

void plugged_open(struct plugged *plugged, weir_domain_kind kind, weir_stage_options options);
/* Frees the place and lets everything that can run do so. */
void plugged_release(struct plugged *plugged);
/* Releases when that has not been done, and world_end. */
void plugged_end(struct plugged *plugged);

/* Runs a body for both kinds of domain. */
#define FOR_BOTH_KINDS(kind) \
	for (int kind##_i = 0, kind = WEIR_REACTOR; kind##_i < 2; kind##_i++, kind = WEIR_ELASTIC)

#endif
