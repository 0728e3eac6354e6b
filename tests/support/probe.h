/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_PROBE_H
#define WEIR_TESTS_PROBE_H

/*
 * Stages that record. A job is an event that knows what happened to it; a probe is a stage whose handler does as
 * told and notes what it saw. The record may be written by several threads; what the handler does is set
 * before offers are made, or by the handler's own thread.
 */

#include <pthread.h>

#include "support/check.h"

#define PROBE_RECORDS 4096

struct job {
	weir_event event;
	weir_timer timer;
	unsigned id;
	_Atomic unsigned handled; /* times a handler got it */
	_Atomic unsigned dropped; /* times a drop function got it */
	weir_verdict why;         /* of the last drop */
	void *data;
};

typedef enum probe_act {
	PROBE_DONE,
	PROBE_FAIL,
	PROBE_HOLD,
	PROBE_LEAK,
	PROBE_WORK,    /* finishes after work_ns */
	PROBE_FORWARD, /* offers it to next; done when that sheds it */
} probe_act;

struct probe {
	weir_stage *stage;
	probe_act act;
	uint64_t work_ns;
	weir_stage *next;
	void (*each)(struct probe *probe, struct job *job);    /* instead of act */
	void (*on_drop)(struct probe *probe, struct job *job); /* after it was recorded */
	void *data;

	_Atomic unsigned calls, handled, dropped;
	_Atomic unsigned drops[WEIR_VERDICT_COUNT];
	_Atomic unsigned largest_batch;
	_Atomic unsigned inside, most_inside; /* handler calls at one time */
	pthread_mutex_t lock;
	unsigned order[PROBE_RECORDS]; /* ids as they were handled, under lock */
	unsigned order_count;
};

/* An event of a class that is ready to be offered; jobs_init numbers them from 1. */
void job_init(struct job *job, unsigned id, unsigned klass);
void jobs_init(struct job *jobs, size_t count, unsigned klass);
/* As weir_offer_many. */
weir_verdict jobs_offer_many(weir_stage *stage, struct job *jobs, size_t count);
struct job *job_of(weir_event *event);
/* The next job of a ring that no stage owns; *next goes round. There must be more jobs than can be inside. */
struct job *jobs_next_free(struct job *jobs, size_t count, size_t *next);

/*
 * Makes a stage of the probe. Handler, drop function and argument are set here; the name is "probe" and the
 * capacity 64 unless options say otherwise.
 */
void probe_open(struct probe *probe, weir_domain *domain, weir_stage_options options);
/* Forgets what was seen. */
void probe_clear(struct probe *probe);
/* The ids were handled in exactly this order. */
void probe_expect_order(struct probe *probe, const unsigned *ids, size_t count);

/* The counts of a stage over all classes. */
weir_stage_stats stats_of(const weir_stage *stage);
/* That they are as given, and that the rest of the invariant holds. */
void expect_counts(const weir_stage *stage, uint64_t admitted, uint64_t shed, uint64_t completed,
		   uint64_t failed, uint64_t dropped);

#endif
