/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_BACKEND_H
#define WEIR_SIM_BACKEND_H

/*
 * A server at the far end, in a virtual world: what a proxy, or several stages that share a database, have before them and cannot
 * look into. It takes jobs of so much work and calls back when each is finished; how long that takes depends on how many it has.
 *
 *	fifo   `workers` jobs at a time, the others wait in order of arrival, unseen
 *	ps     processor sharing: all jobs at once, each at an equal share of `workers`, none faster than one worker
 *
 * What makes real servers worse than that, with either:
 *	thrash   beyond `thrash_from` jobs inside, every further one slows all of them: speed / (1 + thrash_by * excess / thrash_from)
 *	lock     this fraction of every job's work holds a lock that one job at a time can hold
 *	fail     with `most` jobs inside a new one is refused at once (0: never)
 *	speed    can be changed at any time: capacity halved, doubled, a stall (0)
 *	workers  can be changed at any time: one of several servers is gone, or comes back
 *
 * Deterministic: the same calls at the same times give the same ends. One thread, as its world.
 */

#include <weir/sim.h>

typedef struct weir_backend weir_backend;
typedef struct weir_backend_job weir_backend_job;

typedef enum weir_discipline { WEIR_BACKEND_FIFO, WEIR_BACKEND_PS } weir_discipline;

typedef struct weir_backend_options {
	weir_discipline discipline;
	uint32_t workers;     /* 1 or more */
	uint32_t thrash_from; /* 0: it does not thrash */
	double thrash_by;
	double lock; /* 0 .. 1 */
	uint32_t most;
	uint64_t round_trip_ns; /* added to every job, half before and half after */
} weir_backend_options;

/* refused: it was not even tried. */
typedef void weir_backend_done(weir_backend_job *job, bool refused, void *arg);

/* Embedded in the caller's struct; the backend's until done is called. */
struct weir_backend_job {
	weir_timer timer; /* on the way, there or back */
	weir_backend *backend;
	weir_backend_job *next, *prev, *child; /* of a row of waiting ones, or of the heap of running ones */
	double left;                           /* of its work, ns at the speed of one worker */
	double locked;                         /* what of that holds the lock, last */
	double ends; /* running: the virtual time at which this part of it is done */
	uint64_t order;
	uint8_t place; /* where it is: the backend's */
	bool refused;
	weir_backend_done *done;
	void *arg;
};

int weir_backend_new(weir_world *world, const weir_backend_options *options, weir_backend **ret_backend);
/* Jobs still inside are forgotten, their done is not called; those that travel must be abandoned before. Sets *backend to NULL. */
void weir_backend_free(weir_backend **backend);
/* Gives it a job of so much work; done is called later, never from within, not even for a refusal. */
void weir_backend_submit(weir_backend *backend, weir_backend_job *job, double work_ns,
			 weir_backend_done *done, void *arg);
/* The client has gone: the job is taken out, wherever it is; its done is not called. Nothing if it has none. */
void weir_backend_abandon(weir_backend *backend, weir_backend_job *job);
/* 1: as made; 0: nothing moves until it is changed again. */
void weir_backend_speed(weir_backend *backend, double factor);
/*
 * From now on it has so many workers, 1 or more. Of a fifo backend that has fewer now, those jobs that run go on: they share what is left until
 * enough of them have ended.
 */
void weir_backend_workers(weir_backend *backend, uint32_t workers);
/* Jobs there, waiting or running; those that travel are not. */
uint32_t weir_backend_inside(const weir_backend *backend);
/* Work done so far, of jobs that have ended and of those that run, in ns of one worker. */
double weir_backend_worked(const weir_backend *backend);

#endif
