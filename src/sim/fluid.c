/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FAIR is the case of one class without cutoffs. A class has a virtual time: the bytes that each of its jobs
 * has got so far. A job leaves its class when the virtual time reaches the job's mark, so sharing costs a
 * heap and no loop over the jobs. SRPT is one heap by the bytes left: only its top is served, and a smaller
 * top stays the top.
 */
#include "sim/fluid.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"

#define HEAP_FIRST 64
/* Marks this close are equal: they differ by rounding. */
#define SAME 1e-12

typedef struct fluid_item {
	double mark; /* SRPT: bytes left; otherwise the virtual time at which it leaves its class */
	size_t job;
} fluid_item;

typedef struct fluid_heap {
	fluid_item *item;
	size_t count, room;
	double virtual_bytes;
} fluid_heap;

typedef struct fluid_world {
	const weir_fluid_link *link;
	const weir_fluid_job *jobs;
	double now_s;
	double *done_s;
	unsigned classes;
	fluid_heap heap[WEIR_FLUID_CUTOFFS + 1];
} fluid_world;

/* ---- a heap ---- */

static bool goes_first(const fluid_item *a, const fluid_item *b)
{
	return a->mark < b->mark || (a->mark == b->mark && a->job < b->job);
}

static int make_room(fluid_heap *heap)
{
	if (heap->count < heap->room)
		return 0;
	size_t room = heap->room > 0 ? heap->room * 2 : HEAP_FIRST;
	fluid_item *item = weir_mem_array(room, sizeof *item);
	if (item == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	if (heap->count > 0)
		memcpy(item, heap->item, heap->count * sizeof *item);
	weir_mem_free(heap->item);
	heap->item = item;
	heap->room = room;
	return 0;
}

static int push(fluid_heap *heap, double mark, size_t job)
{
	const fluid_item new = {mark, job};
	int failed = make_room(heap);
	if (failed)
		return failed;
	WEIR_ASSERT(heap->item != NULL);
	size_t at = heap->count++;
	while (at > 0 && goes_first(&new, &heap->item[(at - 1) / 2])) {
		heap->item[at] = heap->item[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	heap->item[at] = new;
	return 0;
}

static fluid_item pop(fluid_heap *heap)
{
	const fluid_item top = heap->item[0], last = heap->item[--heap->count];
	size_t at = 0;
	for (size_t child = 1; child < heap->count; child = 2 * at + 1) {
		if (child + 1 < heap->count && goes_first(&heap->item[child + 1], &heap->item[child]))
			child++;
		if (!goes_first(&heap->item[child], &last))
			break;
		heap->item[at] = heap->item[child];
		at = child;
	}
	heap->item[at] = last;
	return top;
}

/* ---- shortest remaining first ---- */

static void serve_srpt(fluid_world *world, double until_s)
{
	fluid_heap *heap = &world->heap[0];
	while (heap->count > 0) {
		fluid_item *top = &heap->item[0];
		double end_s = world->now_s + top->mark / world->link->bytes_per_s;
		if (end_s > until_s) {
			top->mark -= (until_s - world->now_s) * world->link->bytes_per_s;
			top->mark = fmax(top->mark, 0);
			return;
		}
		world->now_s = end_s;
		world->done_s[pop(heap).job] = end_s;
	}
}

/* ---- sharing, in one class or several ---- */

static double floor_of(const fluid_world *world, unsigned klass)
{
	return klass > 0 ? world->link->cutoff[klass - 1] : 0;
}

static int enter(fluid_world *world, unsigned klass, double left, size_t job)
{
	fluid_heap *heap = &world->heap[klass];
	/* Small numbers are exact: the virtual time begins again with each busy period of the class. */
	if (heap->count == 0)
		heap->virtual_bytes = 0;
	return push(heap, heap->virtual_bytes + left - floor_of(world, klass), job);
}

/* All whose mark is reached leave at once: the first would otherwise be served before its equals. */
static int leave(fluid_world *world, unsigned klass)
{
	fluid_heap *heap = &world->heap[klass];
	int failed = 0;
	heap->virtual_bytes = heap->item[0].mark;
	while (failed == 0 && heap->count > 0 && heap->item[0].mark <= heap->virtual_bytes * (1 + SAME)) {
		fluid_item top = pop(heap);
		if (klass > 0)
			failed = enter(world, klass - 1, world->link->cutoff[klass - 1], top.job);
		else
			world->done_s[top.job] = world->now_s;
	}
	return failed;
}

static int serve_shared(fluid_world *world, double until_s)
{
	for (;;) {
		unsigned klass = 0;
		while (klass < world->classes && world->heap[klass].count == 0)
			klass++;
		if (klass == world->classes)
			return 0;
		fluid_heap *heap = &world->heap[klass];
		double share = world->link->bytes_per_s / (double)heap->count;
		double end_s = world->now_s + (heap->item[0].mark - heap->virtual_bytes) / share;
		if (end_s > until_s) {
			heap->virtual_bytes += (until_s - world->now_s) * share;
			return 0;
		}
		world->now_s = fmax(end_s, world->now_s);
		int failed = leave(world, klass);
		if (failed)
			return failed;
	}
}

/* ---- the run ---- */

static int arrive(fluid_world *world, size_t job)
{
	double bytes = world->jobs[job].bytes;
	unsigned klass = 0;
	if (world->link->policy == WEIR_FLUID_SRPT)
		return push(&world->heap[0], bytes, job);
	while (klass + 1 < world->classes && bytes > world->link->cutoff[klass])
		klass++;
	return enter(world, klass, bytes, job);
}

static int serve(fluid_world *world, double until_s)
{
	int failed = 0;
	if (world->link->policy == WEIR_FLUID_SRPT)
		serve_srpt(world, until_s);
	else
		failed = serve_shared(world, until_s);
	if (isfinite(until_s))
		world->now_s = until_s;
	return failed;
}

static int check(const weir_fluid_link *link, const weir_fluid_job *jobs, size_t count)
{
	bool classes = link->policy == WEIR_FLUID_CLASSES;
	if (count > WEIR_FLUID_JOBS)
		return weir_error_set(-EINVAL, "at most %d jobs are accepted", WEIR_FLUID_JOBS);
	if (!(link->bytes_per_s > 0 && isfinite(link->bytes_per_s)))
		return weir_error_set(-EINVAL, "the rate of a link is above 0");
	if (classes && link->cutoffs > WEIR_FLUID_CUTOFFS)
		return weir_error_set(-EINVAL, "at most %d cutoffs are accepted", WEIR_FLUID_CUTOFFS);
	for (unsigned i = 0; classes && i < link->cutoffs; i++)
		if (!(link->cutoff[i] > (i > 0 ? link->cutoff[i - 1] : 0) && isfinite(link->cutoff[i])))
			return weir_error_set(-EINVAL, "cutoffs ascend, and the first is above 0");
	for (size_t i = 0; i < count; i++) {
		if (!(jobs[i].at_s >= (i > 0 ? jobs[i - 1].at_s : 0) && isfinite(jobs[i].at_s)))
			return weir_error_set(-EINVAL, "job %zu: arrivals ascend, from 0 on", i);
		if (!(jobs[i].bytes > 0 && isfinite(jobs[i].bytes)))
			return weir_error_set(-EINVAL, "job %zu: it has more than 0 bytes", i);
	}
	return 0;
}

int weir_fluid_run(const weir_fluid_link *link, const weir_fluid_job *jobs, size_t count, double *ret_done_s)
{
	int failed = check(link, jobs, count);
	if (failed || count == 0)
		return failed;
	fluid_world world = {.link = link, .jobs = jobs};
	world.classes = link->policy == WEIR_FLUID_CLASSES ? link->cutoffs + 1 : 1;
	world.done_s = weir_mem_array(count, sizeof *world.done_s);
	if (world.done_s == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	for (size_t i = 0; i < count && !failed; i++) {
		failed = serve(&world, jobs[i].at_s);
		if (!failed)
			failed = arrive(&world, i);
	}
	if (!failed)
		failed = serve(&world, INFINITY);
	if (!failed)
		memcpy(ret_done_s, world.done_s, count * sizeof *ret_done_s);
	for (unsigned i = 0; i < world.classes; i++)
		weir_mem_free(world.heap[i].item);
	weir_mem_free(world.done_s);
	return failed;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

size_t weir_fluid_most(const weir_fluid_job *jobs, const double *done_s, size_t count)
{
	double *ends = count > 0 ? weir_mem_array(count, sizeof *ends) : NULL;
	size_t most = 0, gone = 0;
	if (ends == NULL)
		return 0;
	memcpy(ends, done_s, count * sizeof *ends);
	qsort(ends, count, sizeof *ends, compare);
	for (size_t i = 0; i < count; i++) {
		while (ends[gone] <= jobs[i].at_s)
			gone++;
		most = i + 1 - gone > most ? i + 1 - gone : most;
	}
	weir_mem_free(ends);
	return most;
}
