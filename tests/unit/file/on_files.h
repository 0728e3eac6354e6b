/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ON_FILES_H
#define TESTS_ON_FILES_H

/*
 * Tests of files, each in three ways: by the ring, by the pool although there is a ring, by the pool since the loops use
 * epoll. A test gets a started world with two reactor threads and an empty directory.
 *
 * A test makes its requests as an array of calls, which a reactor thread issues in one go (make), and waits for their
 * results (await). It asserts on its own thread only: done functions run on others.
 */

#include "support/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <weir/inspect.h>
#include <weir/random.h>

#include "base/mem.h"
#include "file/priv.h"

typedef struct file_way {
	const char *name, *loop;
	bool no_uring;
} file_way;

typedef struct files_bench {
	const file_way *way;
	weir_world *world;
	weir_domain *domain;
	weir_files *files;
	char dir[32];
	int dir_fd;
	uint64_t live; /* allocations before the setup */
} files_bench;

/* ---- the fixture ---- */

static void bench_start(files_bench *bench, const weir_files_options *options)
{
	weir_files_options with = options != NULL ? *options : (weir_files_options){0};
	with.no_uring = bench->way->no_uring;
	assert_int_equal(weir_world_new(NULL, &bench->world), 0);
	assert_int_equal(weir_files_new(bench->world, &with, &bench->files), 0);
	assert_int_equal(weir_domain_new(bench->world, &(weir_domain_options){.name = "main", .threads = 2},
					 &bench->domain),
			 0);
	assert_int_equal(weir_world_start(bench->world), 0);
}

/* Counts must add up, whatever the test did. */
static void bench_stop(files_bench *bench)
{
	weir_stop_report report;
	if (bench->world == NULL)
		return;
	assert_int_equal(weir_world_stop(bench->world, 20 * WEIR_NS_PER_S, &report), 0);
	assert_int_equal(report.faults, 0);
	weir_files_free(&bench->files);
	assert_null(bench->files);
	weir_world_free(&bench->world);
}

static void bench_restart(files_bench *bench, const weir_files_options *options)
{
	bench_stop(bench);
	bench_start(bench, options);
}

static bool has_ring(void)
{
	weir_loop *loop = NULL;
	setenv("WEIR_LOOP", "uring", 1);
	bool has = weir_loop_new(&loop) == 0;
	weir_loop_free(&loop);
	return has;
}

static int bench_setup(void **state)
{
	files_bench *made = calloc(1, sizeof(*made));
	made->way = *state;
	*state = made;
	made->live = weir_mem_live();
	strcpy(made->dir, "/tmp/weir-file-XXXXXX");
	if (mkdtemp(made->dir) == NULL)
		return -1;
	made->dir_fd = open(made->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool ring = has_ring();
	setenv("WEIR_LOOP", ring ? made->way->loop : "epoll", 1);
	if (ring || strcmp(made->way->name, "ring") != 0)
		bench_start(made, NULL);
	return 0;
}

static int bench_teardown(void **state)
{
	files_bench *bench = *state;
	bench_stop(bench);
	DIR *dir = fdopendir(bench->dir_fd);
	for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
		unlinkat(bench->dir_fd, entry->d_name, 0);
	closedir(dir);
	rmdir(bench->dir);
	uint64_t left = weir_mem_live() - bench->live;
	free(bench);
	return left == 0 ? 0 : -1;
}

/* Skips the test where its way cannot be had (no io_uring here). */
static inline files_bench *bench_of(void **state)
{
	files_bench *bench = *state;
	if (bench->world == NULL)
		skip();
	assert_non_null(bench->world);
	return bench;
}

static const file_way by_ring = {.name = "ring", .loop = "uring"};
static const file_way by_pool = {.name = "pool", .loop = "uring", .no_uring = true};
static const file_way by_epoll = {.name = "epoll", .loop = "epoll"};

#define EACH_WAY(test)                                                                                  \
	{#test " by the ring", test, bench_setup, bench_teardown, (void *)(uintptr_t)&by_ring},         \
		{#test " by the pool", test, bench_setup, bench_teardown, (void *)(uintptr_t)&by_pool}, \
	{                                                                                               \
#test " on epoll", test, bench_setup, bench_teardown, (void *)(uintptr_t)&by_epoll      \
	}

static inline bool uses_ring(const files_bench *bench)
{
	return bench->way == &by_ring;
}

/* ---- waiting ---- */

/* Until the condition holds, for a minute at most. */
#define await(condition)                                                        \
	do {                                                                    \
		for (int poll_ = 0; poll_ < 600000 && !(condition); poll_++)    \
			nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); \
		assert_true(condition);                                         \
	} while (0)

static inline weir_stage_stats file_stats(const files_bench *bench)
{
	weir_stage_stats stats;
	weir_stage_read(bench->files->stage, WEIR_ALL_CLASSES, &stats);
	return stats;
}

/* Something of the stage is inside, and nothing waits: it has begun. */
static inline void await_begun(const files_bench *bench)
{
	await(file_stats(bench).in_flight == 1 && file_stats(bench).waiting == 0);
}

static inline int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

/* ---- running something on a reactor thread ---- */

typedef struct reactor_job {
	weir_post post;
	void (*run)(void *arg);
	void *arg;
	atomic_bool ran;
} reactor_job;

static void run_job(weir_post *post, void *arg)
{
	reactor_job *job = arg;
	job->run(job->arg);
	atomic_store(&job->ran, true);
}

static inline void on_reactor(const files_bench *bench, unsigned thread, void (*run)(void *arg), void *arg)
{
	reactor_job job = {.run = run, .arg = arg};
	job.post = (weir_post){.run = run_job, .arg = &job};
	weir_loop_post(weir_domain_loop(bench->domain, thread), &job.post);
	await(atomic_load(&job.ran));
}

/* ---- calls ---- */

typedef enum call_kind { OPEN, OPEN_BENEATH, STAT, STAT_PATH, READ, WRITE, SYNC, CLOSE } call_kind;

typedef struct file_call {
	/* what to ask for */
	weir_files *files;
	call_kind what;
	weir_file *file;
	int dir_fd;
	const char *path;
	int flags;
	void *bytes;
	size_t length;
	off_t offset;
	bool abandon; /* at once */
	/* what came of it */
	weir_file_op op;
	int refused; /* what the call returned */
	int order;   /* among all that were done on its thread, from 1 */
	bool nested; /* done was called from within a call: must not be */
	atomic_bool over;
} file_call;

static _Thread_local int done_count;
static _Thread_local bool calling;

static void call_done(weir_file_op *op, void *arg)
{
	file_call *call = arg;
	call->order = ++done_count;
	call->nested = calling;
	atomic_store(&call->over, true);
}

static inline int issue(file_call *call)
{
	weir_file_op *op = &call->op;
	switch (call->what) {
	case OPEN:
		return weir_file_open(call->files, op, call->dir_fd, call->path, call->flags, 0600, call_done,
				      call);
	case OPEN_BENEATH:
		return weir_file_open_beneath(call->files, op, call->dir_fd, call->path, call->flags,
					      call_done, call);
	case STAT:
		return weir_file_stat(call->file, op, call_done, call);
	case STAT_PATH:
		return weir_file_stat_path(call->files, op, call->dir_fd, call->path, call_done, call);
	case READ:
		return weir_file_read(call->file, op, call->bytes, call->length, call->offset, call_done,
				      call);
	case WRITE:
		return weir_file_write(call->file, op, call->bytes, call->length, call->offset, call_done,
				       call);
	case SYNC:
		return weir_file_sync(call->file, op, call_done, call);
	case CLOSE:
		return weir_file_close(call->file, op, call_done, call);
	}
	return -ENOSYS;
}

typedef struct issue_job {
	file_call *calls;
	size_t count;
} issue_job;

static void issue_all(void *arg)
{
	issue_job *job = arg;
	calling = true;
	for (size_t i = 0; i < job->count; i++) {
		file_call *call = &job->calls[i];
		call->refused = issue(call);
		if (call->refused == 0 && call->abandon)
			weir_file_abandon(&call->op);
	}
	calling = false;
}

/* Issues the calls; returns when each is made or refused. */
static inline void make_on(const files_bench *bench, unsigned thread, file_call *calls, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		calls[i].files = bench->files;
		if (calls[i].path != NULL && calls[i].dir_fd == 0)
			calls[i].dir_fd = bench->dir_fd;
	}
	on_reactor(bench, thread, issue_all, &(issue_job){.calls = calls, .count = count});
}

static inline int64_t outcome(file_call *call)
{
	if (call->refused != 0)
		return call->refused;
	await(atomic_load(&call->over));
	assert_false(call->nested);
	return call->op.result;
}

static inline void run_all(const files_bench *bench, file_call *calls, size_t count)
{
	make_on(bench, 0, calls, count);
	for (size_t i = 0; i < count; i++)
		outcome(&calls[i]);
}

static inline int64_t run_one(const files_bench *bench, file_call call)
{
	make_on(bench, 0, &call, 1);
	return outcome(&call);
}

/* ---- common requests ---- */

static inline int64_t try_open(const files_bench *bench, const char *path, int flags, weir_file **ret_file)
{
	file_call opening = {.what = OPEN, .path = path, .flags = flags};
	make_on(bench, 0, &opening, 1);
	int64_t result = outcome(&opening);
	*ret_file = opening.op.file;
	return result;
}

static inline weir_file *open_file(const files_bench *bench, const char *path, int flags)
{
	weir_file *file;
	assert_int_equal(try_open(bench, path, flags, &file), 0);
	assert_non_null(file);
	assert_true(weir_file_fd(file) >= 0);
	return file;
}

static inline void close_file(const files_bench *bench, weir_file *file)
{
	assert_int_equal(run_one(bench, (file_call){.what = CLOSE, .file = file}), 0);
}

static inline void abandon_op(void *arg)
{
	weir_file_abandon(arg);
}

static inline void fill_random(weir_random *random, unsigned char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = (unsigned char)weir_random_u64(random);
}

/* A file with these contents, made without the code under test. */
static inline void put_file(const files_bench *bench, const char *name, const void *bytes, size_t length)
{
	int fd = openat(bench->dir_fd, name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, length), length);
	close(fd);
}

static inline int open_raw(const files_bench *bench, const char *name, int flags)
{
	int fd = openat(bench->dir_fd, name, flags | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static inline void make_fifo(const files_bench *bench, const char *name)
{
	assert_int_equal(mkfifoat(bench->dir_fd, name, 0600), 0);
}

#endif
