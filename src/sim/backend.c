/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At any moment all running jobs progress at the same rate, whatever the discipline: the speed, less what
 * thrashing takes, shared if there are more jobs than workers. So a virtual clock that runs at this rate
 * gives all their ends in advance: a job of work w that starts when it shows v ends when it shows v + w,
 * however the rate changes meanwhile. The next end is the minimum of a heap, and one timer waits for it.
 * A change of the rate moves only this timer.
 *
 *  submit ─▶ GOING ─▶ WAITING ─▶ RUNNING ─▶ (LOCKING ─▶ RUNNING) ─▶ COMING ─▶ done
 *              └── refused ───────────────────────────────────────────▲
 *
 * GOING and COMING occur only with a round trip, or for a refusal. A job runs its part without the lock
 * first. A job that waits for the lock keeps its worker, as a thread would, but takes nothing of the
 * others' share.
 *
 * Invariants: inside = waiting + busy; busy = running + those that wait for the lock; fifo: busy <=
 * workers, unless workers were removed while they ran.
 */
#include <errno.h>
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "sim/backend.h"

#define NEVER_NS 0x1p62
#define ROUNDING 1e-6 /* tolerance of virtual time, in ns, for sums of doubles */

enum place { OUTSIDE, GOING, WAITING, RUNNING, LOCKING, COMING };

struct row {
	weir_backend_job *first, *last;
};

struct weir_backend {
	weir_world *world;
	weir_backend_options options;
	weir_timer timer; /* fires at the next end */
	double speed, rate;
	double virtual_ns, worked_ns;
	uint64_t at_ns; /* when virtual_ns was computed */
	uint64_t orders;
	uint32_t inside, busy, running;
	struct row waiting, locking;
	weir_backend_job *holder; /* of the lock */
	weir_backend_job *heap;
};

/* ---- queues, in order of arrival ---- */

static void row_append(struct row *row, weir_backend_job *job)
{
	job->next = NULL;
	job->prev = row->last;
	if (row->last != NULL)
		row->last->next = job;
	else
		row->first = job;
	row->last = job;
}

static void row_remove(struct row *row, weir_backend_job *job)
{
	if (job->prev != NULL)
		job->prev->next = job->next;
	else
		row->first = job->next;
	if (job->next != NULL)
		job->next->prev = job->prev;
	else
		row->last = job->prev;
}

/*
 * ---- a pairing heap: next is the sibling, child the first child, prev the parent or previous sibling
 * ----
 */

static bool earlier(const weir_backend_job *a, const weir_backend_job *b)
{
	return a->ends != b->ends ? a->ends < b->ends : a->order < b->order;
}

static weir_backend_job *meld(weir_backend_job *a, weir_backend_job *b)
{
	if (a == NULL || b == NULL)
		return a != NULL ? a : b;
	if (earlier(b, a)) {
		weir_backend_job *swap = a;
		a = b;
		b = swap;
	}
	b->next = a->child;
	if (b->next != NULL)
		b->next->prev = b;
	b->prev = a;
	a->child = b;
	return a;
}

/* Two passes: pairs from the left, then all of them from the right. */
static weir_backend_job *meld_row(weir_backend_job *row)
{
	weir_backend_job *pairs = NULL, *heap = NULL;
	while (row != NULL) {
		weir_backend_job *a = row, *b = a->next;
		row = b != NULL ? b->next : NULL;
		a->next = NULL;
		if (b != NULL)
			b->next = NULL;
		weir_backend_job *pair = meld(a, b);
		pair->next = pairs;
		pairs = pair;
	}
	while (pairs != NULL) {
		weir_backend_job *next = pairs->next;
		pairs->next = NULL;
		heap = meld(heap, pairs);
		pairs = next;
	}
	return heap;
}

static void set_heap(weir_backend *backend, weir_backend_job *root)
{
	backend->heap = root;
	if (root != NULL)
		root->next = root->prev = NULL;
}

static void heap_insert(weir_backend *backend, weir_backend_job *job)
{
	job->next = job->prev = job->child = NULL;
	set_heap(backend, meld(backend->heap, job));
}

static void heap_remove(weir_backend *backend, weir_backend_job *job)
{
	weir_backend_job *below = meld_row(job->child);
	if (job == backend->heap) {
		set_heap(backend, below);
		return;
	}
	if (job->prev->child == job)
		job->prev->child = job->next;
	else
		job->prev->next = job->next;
	if (job->next != NULL)
		job->next->prev = job->prev;
	set_heap(backend, meld(backend->heap, below));
}

/* ---- virtual time ---- */

static double rate_now(const weir_backend *backend)
{
	const weir_backend_options *o = &backend->options;
	double rate = backend->speed;
	if (o->thrash_from != 0 && backend->inside > o->thrash_from)
		rate /= 1 + o->thrash_by * (backend->inside - o->thrash_from) / o->thrash_from;
	if (backend->running > o->workers)
		rate *= (double)o->workers / backend->running;
	return rate;
}

/* To be called before anything changes on which the rate depends. */
static void advance(weir_backend *backend)
{
	uint64_t now_ns = weir_world_now(backend->world);
	double step_ns = backend->rate * (double)(now_ns - backend->at_ns);
	backend->virtual_ns += step_ns;
	backend->worked_ns += step_ns * backend->running;
	backend->at_ns = now_ns;
	if (backend->heap == NULL)
		backend->virtual_ns = 0; /* no end refers to it: a chance to drop rounding errors */
}

/* To be called after such a change. */
static void rearm(weir_backend *backend)
{
	backend->rate = rate_now(backend);
	weir_timer_stop(&backend->timer);
	if (backend->heap == NULL || !(backend->rate > 0))
		return;
	double in_ns = ceil((backend->heap->ends - backend->virtual_ns) / backend->rate);
	if (in_ns < NEVER_NS)
		weir_sim_timer(backend->world, &backend->timer,
			       backend->at_ns + (in_ns > 0 ? (uint64_t)in_ns : 0));
}

/* ---- the path of a job ---- */

/* Runs this much more of its work. */
static void run(weir_backend *backend, weir_backend_job *job, double work_ns)
{
	job->place = RUNNING;
	job->ends = backend->virtual_ns + work_ns;
	job->order = backend->orders++;
	job->left -= work_ns;
	backend->running++;
	heap_insert(backend, job);
}

static void take_lock(weir_backend *backend, weir_backend_job *job)
{
	backend->holder = job;
	run(backend, job, job->left);
}

static void begin(weir_backend *backend, weir_backend_job *job)
{
	backend->busy++;
	run(backend, job, job->left - job->locked);
}

static void begin_waiting(weir_backend *backend)
{
	const weir_backend_options *o = &backend->options;
	weir_backend_job *job;
	while ((job = backend->waiting.first) != NULL &&
	       (o->discipline == WEIR_BACKEND_PS || backend->busy < o->workers)) {
		row_remove(&backend->waiting, job);
		begin(backend, job);
	}
}

static void release_lock(weir_backend *backend)
{
	weir_backend_job *next = backend->locking.first;
	backend->holder = NULL;
	if (next == NULL)
		return;
	row_remove(&backend->locking, next);
	take_lock(backend, next);
}

static void stop_running(weir_backend *backend, weir_backend_job *job)
{
	heap_remove(backend, job);
	backend->running--;
}

/* Gives up its worker, and the lock. */
static void leave(weir_backend *backend, weir_backend_job *job)
{
	backend->inside--;
	backend->busy--;
	if (backend->holder == job)
		release_lock(backend);
	begin_waiting(backend);
}

static void travel(weir_backend *backend, weir_backend_job *job, enum place place)
{
	job->place = (uint8_t)place;
	weir_sim_timer(backend->world, &job->timer,
		       weir_world_now(backend->world) + backend->options.round_trip_ns / 2);
}

static void answer(weir_backend_job *job)
{
	job->place = OUTSIDE;
	job->done(job, job->refused, job->arg); /* the job may now be freed, or submitted again */
}

static void arrive(weir_backend *backend, weir_backend_job *job)
{
	const weir_backend_options *o = &backend->options;
	if (o->most != 0 && backend->inside >= o->most) {
		job->refused = true;
		travel(backend, job, COMING);
		return;
	}
	advance(backend);
	backend->inside++;
	job->place = WAITING;
	row_append(&backend->waiting, job);
	begin_waiting(backend);
	rearm(backend);
}

static void travelled(weir_timer *timer, void *arg)
{
	weir_backend_job *job = arg;
	if (job->place == GOING)
		arrive(job->backend, job);
	else
		answer(job);
}

/* A part of a job has finished: the rest needs the lock, or the job is complete. */
static void part_done(weir_backend *backend, weir_backend_job *job)
{
	stop_running(backend, job);
	if (job->left > 0 && backend->holder == NULL) {
		take_lock(backend, job);
	} else if (job->left > 0) {
		job->place = LOCKING;
		row_append(&backend->locking, job);
	} else {
		leave(backend, job);
		if (backend->options.round_trip_ns != 0)
			travel(backend, job, COMING);
		else
			answer(job);
	}
}

static void ended(weir_timer *timer, void *arg)
{
	weir_backend *backend = arg;
	advance(backend);
	while (backend->heap != NULL && backend->heap->ends <= backend->virtual_ns + ROUNDING)
		part_done(backend, backend->heap);
	advance(backend);
	rearm(backend);
}

/* ---- public functions ---- */

int weir_backend_new(weir_world *world, const weir_backend_options *options, weir_backend **ret_backend)
{
	if (options->workers == 0 || !(options->lock >= 0 && options->lock <= 1) ||
	    !(options->thrash_by >= 0))
		return weir_error_set(-EINVAL,
				      "a backend needs workers, a lock from 0 to 1 and thrash_by from 0");
	weir_backend *backend = weir_mem_zalloc(sizeof(*backend));
	if (backend == NULL)
		return weir_error_set(-ENOMEM, "no memory for a backend");
	backend->world = world;
	backend->options = *options;
	backend->speed = backend->rate = 1;
	backend->at_ns = weir_world_now(world);
	weir_timer_init(&backend->timer, ended, backend);
	*ret_backend = backend;
	return 0;
}

void weir_backend_free(weir_backend **backend)
{
	if (*backend == NULL)
		return;
	weir_timer_stop(&(*backend)->timer);
	weir_mem_free(*backend);
	*backend = NULL;
}

void weir_backend_submit(weir_backend *backend, weir_backend_job *job, double work_ns,
			 weir_backend_done *done, void *arg)
{
	*job = (weir_backend_job){.backend = backend, .done = done, .arg = arg};
	job->left = work_ns > 0 ? work_ns : 0;
	job->locked = job->left * backend->options.lock;
	weir_timer_init(&job->timer, travelled, job);
	if (backend->options.round_trip_ns != 0)
		travel(backend, job, GOING);
	else
		arrive(backend, job);
}

void weir_backend_abandon(weir_backend *backend, weir_backend_job *job)
{
	enum place place = (enum place)job->place;
	job->place = OUTSIDE;
	weir_timer_stop(&job->timer);
	if (place != WAITING && place != RUNNING && place != LOCKING)
		return;
	advance(backend);
	if (place == WAITING) {
		row_remove(&backend->waiting, job);
		backend->inside--;
	} else {
		if (place == RUNNING)
			stop_running(backend, job);
		else
			row_remove(&backend->locking, job);
		leave(backend, job);
	}
	rearm(backend);
}

void weir_backend_speed(weir_backend *backend, double factor)
{
	advance(backend);
	backend->speed = factor > 0 ? factor : 0;
	rearm(backend);
}

void weir_backend_workers(weir_backend *backend, uint32_t workers)
{
	advance(backend);
	backend->options.workers = workers > 0 ? workers : 1;
	begin_waiting(backend);
	rearm(backend);
}

uint32_t weir_backend_inside(const weir_backend *backend)
{
	return backend->inside;
}

double weir_backend_worked(const weir_backend *backend)
{
	double since_ns = (double)(weir_world_now(backend->world) - backend->at_ns);
	return backend->worked_ns + backend->rate * since_ns * backend->running;
}
