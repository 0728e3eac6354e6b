/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_BACKEND_H
#define WEIR_SIM_BACKEND_H

/*
 * A remote server in a virtual world: what a proxy, or several stages that share a database, see from
 * outside only. It takes jobs of a given amount of work and calls back when each is finished. How long
 * that takes depends on how many it has.
 *
 *  fifo   `workers` jobs at a time; the others wait in order of arrival, invisibly
 *  ps     processor sharing: all jobs at once, each with an equal share of `workers`, none faster than
 *         one worker
 *
 * Effects that make real servers worse, with either discipline:
 *  thrash   beyond `thrash_from` jobs inside, every further one slows all of them down:
 *           speed / (1 + thrash_by * excess / thrash_from)
 *  lock     this fraction of every job's work holds a lock that one job at a time can hold
 *  fail     with `most` jobs inside a new one is refused at once (0: never)
 *  speed    can be changed at any time: capacity halved, doubled, a stall (0)
 *  workers  can be changed at any time: one of several servers leaves, or comes back
 *
 * Deterministic: the same calls at the same times give the same ends. One thread, that of its world.
 */

#include <weir/sim.h>

typedef struct weir_backend weir_backend;
typedef struct weir_backend_job weir_backend_job;

typedef enum weir_discipline { WEIR_BACKEND_FIFO, WEIR_BACKEND_PS } weir_discipline;

typedef struct weir_backend_options {
	weir_discipline discipline;
	uint32_t workers;     /* 1 or more */
	uint32_t thrash_from; /* 0: no thrashing */
	double thrash_by;
	double lock; /* 0 .. 1 */
	uint32_t most;
	uint64_t round_trip_ns; /* added to every job, half before and half after */
} weir_backend_options;

/* refused: the job was never started. */
typedef void weir_backend_done(weir_backend_job *job, bool refused, void *arg);

/* Embedded in the caller's struct; owned by the backend until done is called. */
struct weir_backend_job {
	weir_timer timer; /* while it travels, there or back */
	weir_backend *backend;
	/* In a queue of waiting jobs, or in the heap of running ones. */
	weir_backend_job *next, *prev, *child;
	double left;   /* remaining work, in ns at the speed of one worker */
	double locked; /* the last part of it, which holds the lock */
	double ends;   /* running: the virtual time at which this part of it ends */
	uint64_t order;
	uint8_t place; /* its state, for the backend */
	bool refused;
	weir_backend_done *done;
	void *arg;
};

int weir_backend_new(weir_world *world, const weir_backend_options *options, weir_backend **ret_backend);
/*
 * Jobs still inside are forgotten and their done is not called; jobs that travel must be abandoned
 * before. Sets *backend to NULL.
 */
void weir_backend_free(weir_backend **backend);
/* Submits a job of this much work. done is called later, never from within, not even for a refusal. */
void weir_backend_submit(weir_backend *backend, weir_backend_job *job, double work_ns,
			 weir_backend_done *done, void *arg);
/*
 * The client has gone: removes the job, wherever it is; done is not called. Does nothing if the job is
 * not in the backend.
 */
void weir_backend_abandon(weir_backend *backend, weir_backend_job *job);
/* 1: as made; 0: nothing progresses until it is changed again. */
void weir_backend_speed(weir_backend *backend, double factor);
/*
 * Sets the number of workers, 1 or more. If a fifo backend has fewer than before, its running jobs
 * continue: they share the remaining workers until enough of them have ended.
 */
void weir_backend_workers(weir_backend *backend, uint32_t workers);
/* Jobs there, waiting or running; those that travel are not counted. */
uint32_t weir_backend_inside(const weir_backend *backend);
/* Work done so far, on jobs that have ended and on those running, in ns of one worker. */
double weir_backend_worked(const weir_backend *backend);

#endif
