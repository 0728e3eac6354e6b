/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SEDA's threaded server: every task in the pipeline has a thread of its own, made before the measurement. A task
 * that completes comes in again behind those already waiting, so its thread lets the others go first: with n tasks
 * in the pipeline every task costs a switch of threads, as it does when each thread waits for its own client.
 *
 *	thread_per_task --tasks N [--seconds S] [--warm S]
 */
#include <pthread.h>
#include <stdatomic.h>

#include "task.h"

/* A thread counts on a line of its own: a shared counter would be a cost the model does not have. */
typedef struct task_thread {
	pthread_t id;
	_Atomic uint64_t completed;
} __attribute__((aligned(64))) task_thread;

static int file;

/* Held by main until all threads are there: making the last ones would take minutes beside running ones. */
static pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;

static void *serve(void *arg)
{
	task_thread *self = arg;
	char buffer[TASK_BYTES];

	pthread_rwlock_rdlock(&gate);
	for (;;) {
		task_run(file, buffer);
		atomic_store_explicit(&self->completed, self->completed + 1, memory_order_relaxed);
		sched_yield();
	}
	return NULL;
}

static uint64_t completed(task_thread *threads, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += atomic_load_explicit(&threads[i].completed, memory_order_relaxed);
	return sum;
}

/* Makes up to count threads; fewer when the system allows no more. */
static size_t start(task_thread *threads, size_t count)
{
	pthread_attr_t attributes;
	size_t made = 0;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 65536);
	while (made < count && pthread_create(&threads[made].id, &attributes, serve, &threads[made]) == 0)
		made++;
	pthread_attr_destroy(&attributes);
	return made;
}

int main(int argc, char **argv)
{
	size_t tasks = (size_t)bench_number(argv, "tasks", 1), made;
	double seconds = bench_number(argv, "seconds", 0.5), warm = bench_number(argv, "warm", 0.1);
	task_thread *threads = aligned_alloc(64, tasks * sizeof(*threads));
	uint64_t begin_ns, cpu_ns, count;

	BENCH_REQUIRE(threads != NULL);
	memset(threads, 0, tasks * sizeof(*threads));
	file = task_file();
	pthread_rwlock_wrlock(&gate);
	made = start(threads, tasks);
	pthread_rwlock_unlock(&gate);
	/* The system allows no more threads: there is no such point of the curve here. */
	BENCH_REQUIRE(made == tasks);
	bench_sleep(warm);
	begin_ns = bench_now_ns();
	cpu_ns = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	count = completed(threads, made);
	bench_sleep(seconds);
	count = completed(threads, made) - count;
	cpu_ns = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
	begin_ns = bench_now_ns() - begin_ns;
	printf("tasks_per_s %.1f\ntasks_per_cpu_s %.1f\n", (double)count * 1e9 / (double)begin_ns,
	       (double)count * 1e9 / (double)cpu_ns);
	fflush(stdout);
	/* The threads end with the process: joining thousands of busy ones takes longer than the measurement. */
	_exit(0);
}
