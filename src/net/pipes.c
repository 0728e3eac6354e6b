/* SPDX-License-Identifier: Apache-2.0 */
#include "net/pipes.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>
#include <weir/base.h>

#include "base/assert.h"
#include "base/mem.h"

#define AGAIN_NS WEIR_NS_PER_S

/* Pipes of all loops: the system's bound is for all of them together. */
static _Atomic uint32_t all_made;

/* Where descriptors are few, connections need them more. */
static uint32_t all_most(void)
{
	struct rlimit descriptors;
	if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0 ||
	    descriptors.rlim_cur / WEIR_PIPES_SHARE > WEIR_PIPES_ALL)
		return WEIR_PIPES_ALL;
	return (uint32_t)(descriptors.rlim_cur / WEIR_PIPES_SHARE);
}

static bool count_one(weir_pipes *pipes)
{
	if (pipes->made >= WEIR_PIPES_MOST)
		return false;
	if (atomic_fetch_add_explicit(&all_made, 1, memory_order_relaxed) >= all_most()) {
		atomic_fetch_sub_explicit(&all_made, 1, memory_order_relaxed);
		return false;
	}
	pipes->made++;
	return true;
}

static void uncount_one(weir_pipes *pipes)
{
	pipes->made--;
	atomic_fetch_sub_explicit(&all_made, 1, memory_order_relaxed);
}

/*
 * A user who has many pipes gets small ones, or may not enlarge them. One of the usual 64 KB will do, since
 * what does not fit is copied.
 */
static bool open_pipe(weir_pipe *pipe)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
		return false;
	int size = fcntl(ends[1], F_SETPIPE_SZ, (int)WEIR_PIPE_BYTES);
	if (size < 0)
		size = fcntl(ends[1], F_GETPIPE_SZ);
	if (size < (int)WEIR_PIPES_LEAST) {
		close(ends[0]);
		close(ends[1]);
		return false;
	}
	*pipe = (weir_pipe){.out = ends[0], .in = ends[1]};
	return true;
}

static weir_pipe *make(weir_pipes *pipes)
{
	if (!count_one(pipes))
		return NULL;
	weir_pipe *pipe = weir_mem_zalloc(sizeof(*pipe));
	if (pipe != NULL && open_pipe(pipe))
		return pipe;
	weir_mem_free(pipe);
	uncount_one(pipes);
	return NULL;
}

weir_pipe *weir_pipes_take(weir_pipes *pipes, uint64_t now_ns)
{
	weir_pipe *pipe = pipes->free;
	if (pipe != NULL) {
		pipes->free = pipe->next;
		pipes->kept--;
		return pipe;
	}
	if (now_ns < pipes->not_before_ns)
		return NULL;
	pipe = make(pipes);
	if (pipe == NULL && pipes->made < WEIR_PIPES_MOST)
		pipes->not_before_ns = now_ns + AGAIN_NS;
	return pipe;
}

static void destroy(weir_pipes *pipes, weir_pipe *pipe)
{
	close(pipe->in);
	close(pipe->out);
	weir_mem_free(pipe);
	uncount_one(pipes);
}

/* With many loops, each keeps one: what some keep, others cannot have. */
static bool may_keep(const weir_pipes *pipes)
{
	bool ample = atomic_load_explicit(&all_made, memory_order_relaxed) <= WEIR_PIPES_ALL / 2;
	return pipes->kept < (ample ? WEIR_PIPES_KEPT : 1u);
}

void weir_pipes_give(weir_pipes *pipes, weir_pipe *pipe, bool empty)
{
	if (!empty || !may_keep(pipes)) {
		destroy(pipes, pipe);
		return;
	}
	pipe->next = pipes->free;
	pipes->free = pipe;
	pipes->kept++;
}

void weir_pipes_fini(weir_pipes *pipes)
{
	for (weir_pipe *pipe; (pipe = pipes->free) != NULL;) {
		pipes->free = pipe->next;
		pipes->kept--;
		destroy(pipes, pipe);
	}
	WEIR_ASSERT(pipes->made == 0);
}
