/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SEDA's event-driven server (Figure 4): tasks go round through one stage on one reactor thread; each reads 8 KB of a
 * file in the page cache, which does not block, and comes in again behind the others.
 *
 *	pipeline --tasks N [--seconds S] [--warm S]
 *
 * The window opens when every task has been through once and the warm-up is over.
 */
#include <stdatomic.h>

#include "task.h"
#include "world.h"

#define FILL 64

static int file;
static _Atomic uint64_t completed;
static _Atomic bool stop;

/* Offers the task again before it looks at the next: the queue is never empty while there are several. */
static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	static char buffer[TASK_BYTES];
	bool ending = atomic_load_explicit(&stop, memory_order_relaxed);
	uint64_t before = atomic_load_explicit(&completed, memory_order_relaxed);

	/* Before the offers: a nested call of this handler counts on from here. */
	atomic_store_explicit(&completed, before + count, memory_order_relaxed);
	for (size_t i = 0; i < count; i++) {
		task_run(file, buffer);
		if (ending)
			weir_done(events[i]);
		else
			BENCH_REQUIRE(weir_offer(stage, events[i]) == WEIR_ADMITTED);
	}
}

static void fill(weir_stage *stage, weir_event *tasks, size_t count)
{
	weir_event *batch[FILL];
	size_t n;

	for (size_t i = 0; i < count; i += n) {
		n = count - i < FILL ? count - i : FILL;
		for (size_t k = 0; k < n; k++) {
			weir_event_init(&tasks[i + k], 0);
			batch[k] = &tasks[i + k];
		}
		BENCH_REQUIRE(weir_offer_many(stage, batch, n) == WEIR_ADMITTED);
	}
}

static void measure(size_t tasks, double seconds, double warm)
{
	uint64_t begin_ns, count, cpu_ns;

	while (atomic_load(&completed) < 2 * tasks)
		bench_sleep(0.005);
	bench_sleep(warm);
	begin_ns = bench_now_ns();
	cpu_ns = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	count = atomic_load(&completed);
	bench_sleep(seconds);
	count = atomic_load(&completed) - count;
	cpu_ns = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
	begin_ns = bench_now_ns() - begin_ns;
	printf("tasks_per_s %.1f\ntasks_per_cpu_s %.1f\n", (double)count * 1e9 / (double)begin_ns,
	       (double)count * 1e9 / (double)cpu_ns);
}

int main(int argc, char **argv)
{
	size_t tasks = (size_t)bench_number(argv, "tasks", 1);
	weir_event *events = malloc(tasks * sizeof(*events));
	bench_world at = bench_world_new(0);
	weir_stage *stage;

	BENCH_REQUIRE(events != NULL);
	file = task_file();
	/* Room for all, and for those that are offered again while their batch is not yet counted out. */
	stage = bench_stage(at, (weir_stage_options){.name = "task",
						     .handle = handle,
						     .capacity = (uint32_t)tasks + WEIR_BATCH_MAX});
	BENCH_CHECK(weir_world_start(at.world));
	fill(stage, events, tasks);
	measure(tasks, bench_number(argv, "seconds", 0.3), bench_number(argv, "warm", 0.05));
	atomic_store(&stop, true);
	bench_world_end(&at);
	free(events);
	return 0;
}
