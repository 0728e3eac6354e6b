/* SPDX-License-Identifier: Apache-2.0 */
/* Files: contents, order, many at once, the bound, errors. */
#include "on_files.h"

#include "file/beneath.h"

#include <limits.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>

#define SEEDS 40

/* ---- contents ---- */

static void uses_the_way_it_should(void **state)
{
	files_bench *bench = bench_of(state);
	put_file(bench, "a", "abc", 3);
	close_file(bench, open_file(bench, "a", O_RDONLY));
	assert_int_equal(file_stats(bench).completed, 2);
	/* A handler's call is counted when it is over, and it may be slower than the completion. */
	await(file_stats(bench).batches == (uses_ring(bench) ? 0 : 2));
}

/* Requests made where no handler runs come from outside, in each way. */
static void the_graph_shows_where_requests_come_from(void **state)
{
	files_bench *bench = bench_of(state);
	weir_stage *stage = bench->files->stage;
	put_file(bench, "a", "abc", 3);
	close_file(bench, open_file(bench, "a", O_RDONLY));
	assert_int_equal(weir_edge_count(NULL, stage), 2);
	assert_int_equal(weir_edge_count(stage, stage), 0);
}

static void check_reads(const files_bench *bench, uint64_t seed)
{
	enum { READS = 16, MOST = 200000 };
	static unsigned char bytes[MOST], expected[MOST], got[READS][MOST];
	weir_random random;
	weir_random_init(&random, seed);
	size_t size = weir_random_below(&random, MOST);
	fill_random(&random, bytes, size);
	put_file(bench, "a", bytes, size);
	weir_file *file = open_file(bench, "a", O_RDONLY);
	int fd = open_raw(bench, "a", O_RDONLY);
	file_call reads[READS] = {0};
	for (size_t i = 0; i < READS; i++)
		reads[i] = (file_call){.what = READ,
				       .file = file,
				       .bytes = got[i],
				       .length = weir_random_below(&random, MOST),
				       .offset = (off_t)weir_random_below(&random, size + size / 8 + 1)};
	run_all(bench, reads, READS);
	for (size_t i = 0; i < READS; i++) {
		ssize_t length = pread(fd, expected, reads[i].length, reads[i].offset);
		assert_for_seed(seed, outcome(&reads[i]) == length);
		assert_for_seed(seed, memcmp(expected, got[i], (size_t)length) == 0);
	}
	close(fd);
	close_file(bench, file);
}

static void reads_what_pread_reads(void **state)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		check_reads(bench_of(state), seed);
}

static void reads_end_at_the_end(void **state)
{
	files_bench *bench = bench_of(state);
	char got[8] = "";
	put_file(bench, "a", "abcdef", 6);
	put_file(bench, "empty", "", 0);
	weir_file *file = open_file(bench, "a", O_RDONLY), *empty = open_file(bench, "empty", O_RDONLY);
	assert_int_equal(
		run_one(bench,
			(file_call){.what = READ, .file = file, .bytes = got, .length = 8, .offset = 4}),
		2);
	assert_memory_equal(got, "ef", 2);
	assert_int_equal(
		run_one(bench,
			(file_call){.what = READ, .file = file, .bytes = got, .length = 8, .offset = 6}),
		0);
	assert_int_equal(
		run_one(bench,
			(file_call){.what = READ, .file = file, .bytes = got, .length = 8, .offset = 99}),
		0);
	assert_int_equal(run_one(bench, (file_call){.what = READ, .file = file, .bytes = got}), 0);
	assert_int_equal(run_one(bench, (file_call){.what = READ, .file = file}), 0);
	assert_int_equal(run_one(bench, (file_call){.what = READ, .file = empty, .bytes = got, .length = 8}),
			 0);
	assert_int_equal(run_one(bench, (file_call){.what = WRITE, .file = file, .bytes = got}), -EBADF);
	close_file(bench, file);
	close_file(bench, empty);
}

/* A pipe gives what it has: a read is put together from many. The offset means nothing to it. */
static void short_reads_go_on(void **state)
{
	enum { LENGTH = 100000, PIECE = 7001 };
	static unsigned char sent[LENGTH], got[LENGTH];
	files_bench *bench = bench_of(state);
	weir_random random;
	weir_random_init(&random, 1);
	fill_random(&random, sent, LENGTH);
	make_fifo(bench, "pipe");
	weir_file *file = open_file(bench, "pipe", O_RDWR);
	int fd = open_raw(bench, "pipe", O_WRONLY);
	file_call reading = {.what = READ, .file = file, .bytes = got, .length = LENGTH, .offset = 5};
	make_on(bench, 0, &reading, 1);
	for (size_t at = 0, next; at < LENGTH; at = next) {
		next = at + PIECE < LENGTH ? at + PIECE : LENGTH;
		assert_int_equal(write(fd, sent + at, next - at), next - at);
		/* Taken before the next piece comes, so that each is a short read. */
		int left;
		await(ioctl(fd, FIONREAD, &left) == 0 && left == 0);
	}
	assert_int_equal(outcome(&reading), LENGTH);
	assert_memory_equal(got, sent, LENGTH);
	close(fd);
	close_file(bench, file);
}

/* Opening a pipe does not wait for the other end, reading from it does wait for bytes. */
static void opens_do_not_wait_but_reads_do(void **state)
{
	files_bench *bench = bench_of(state);
	weir_file *file;
	char bytes[2] = "";
	make_fifo(bench, "pipe");
	assert_int_equal(try_open(bench, "pipe", O_WRONLY, &file), -ENXIO);
	assert_int_equal(try_open(bench, "pipe", O_WRONLY | O_CREAT, &file), -ENXIO);
	close_file(bench, open_file(bench, "pipe", O_RDONLY | O_CREAT));
	file = open_file(bench, "pipe", O_RDONLY | O_NONBLOCK);
	assert_int_equal(fcntl(weir_file_fd(file), F_GETFL) & O_NONBLOCK, 0);
	int fd = open_raw(bench, "pipe", O_WRONLY);
	file_call reading = {.what = READ, .file = file, .bytes = bytes, .length = 2};
	make_on(bench, 0, &reading, 1);
	await_begun(bench);
	assert_int_equal(write(fd, "a", 1), 1);
	assert_int_equal(write(fd, "b", 1), 1);
	assert_int_equal(outcome(&reading), 2);
	assert_memory_equal(bytes, "ab", 2);
	close(fd);
	assert_int_equal(run_one(bench, (file_call){.what = READ, .file = file, .bytes = bytes, .length = 1}),
			 0);
	close_file(bench, file);
}

static void compare_stats(const struct stat *a, const struct stat *b)
{
	assert_int_equal(a->st_dev, b->st_dev);
	assert_int_equal(a->st_ino, b->st_ino);
	assert_int_equal(a->st_mode, b->st_mode);
	assert_int_equal(a->st_nlink, b->st_nlink);
	assert_int_equal(a->st_uid, b->st_uid);
	assert_int_equal(a->st_gid, b->st_gid);
	assert_int_equal(a->st_rdev, b->st_rdev);
	assert_int_equal(a->st_size, b->st_size);
	assert_int_equal(a->st_blksize, b->st_blksize);
	assert_int_equal(a->st_blocks, b->st_blocks);
	assert_int_equal(a->st_mtim.tv_sec, b->st_mtim.tv_sec);
	assert_int_equal(a->st_mtim.tv_nsec, b->st_mtim.tv_nsec);
	assert_int_equal(a->st_ctim.tv_nsec, b->st_ctim.tv_nsec);
	assert_int_equal(a->st_atim.tv_nsec, b->st_atim.tv_nsec);
}

static void stats_are_the_systems(void **state)
{
	files_bench *bench = bench_of(state);
	struct stat expected;
	put_file(bench, "a", "abcdef", 6);
	assert_int_equal(symlinkat("a", bench->dir_fd, "link"), 0);
	weir_file *file = open_file(bench, "a", O_RDONLY);
	file_call stats[] = {{.what = STAT, .file = file},
			     {.what = STAT_PATH, .path = "a"},
			     {.what = STAT_PATH, .path = "link"},
			     {.what = STAT_PATH, .path = "/dev/null", .dir_fd = AT_FDCWD}};
	run_all(bench, stats, 4);
	assert_int_equal(fstatat(bench->dir_fd, "a", &expected, 0), 0);
	for (int i = 0; i < 3; i++)
		compare_stats(&stats[i].op.stat, &expected);
	assert_ptr_equal(stats[0].op.file, file);
	assert_null(stats[1].op.file);
	assert_int_equal(stat("/dev/null", &expected), 0);
	compare_stats(&stats[3].op.stat, &expected);
	close_file(bench, file);
}

static void overwritten_path(void *arg)
{
	file_call *call = arg;
	char path[] = "a";
	call->path = path;
	call->refused = issue(call);
	memset(path, 'z', 1);
}

static void paths_are_copied(void **state)
{
	files_bench *bench = bench_of(state);
	put_file(bench, "a", "abc", 3);
	file_call calls[] = {{.what = STAT_PATH, .dir_fd = bench->dir_fd, .files = bench->files},
			     {.what = OPEN, .dir_fd = bench->dir_fd, .files = bench->files}};
	for (int i = 0; i < 2; i++) {
		on_reactor(bench, 0, overwritten_path, &calls[i]);
		assert_int_equal(outcome(&calls[i]), 0);
	}
	assert_int_equal(fcntl(weir_file_fd(calls[1].op.file), F_GETFD), FD_CLOEXEC);
	close_file(bench, calls[1].op.file);
}

/* ---- order ---- */

enum { STEPS = 48, FILE_MOST = 5000, PIECE_MOST = 2000 };

typedef struct file_model {
	unsigned char bytes[FILE_MOST];
	size_t size;
} file_model;

typedef struct model_step {
	unsigned char bytes[PIECE_MOST], expected[PIECE_MOST];
	int64_t result;
	size_t size; /* of the file, for a stat */
} model_step;

/* What the step's call does to the model, done at once. */
static void run_on_model(file_model *model, const file_call *call, model_step *step)
{
	size_t offset = (size_t)call->offset;
	if (call->what == WRITE) {
		memcpy(model->bytes + offset, step->bytes, call->length);
		if (call->length != 0 && offset + call->length > model->size)
			model->size = offset + call->length;
		step->result = (int64_t)call->length;
	} else if (call->what == READ) {
		size_t left = offset < model->size ? model->size - offset : 0;
		size_t length = left < call->length ? left : call->length;
		memcpy(step->expected, model->bytes + offset, length);
		step->result = (int64_t)length;
	}
	step->size = model->size;
}

static void check_order(const files_bench *bench, uint64_t seed)
{
	static const call_kind kinds[] = {READ, READ, READ, WRITE, WRITE, WRITE, STAT, SYNC};
	static model_step steps[STEPS];
	static file_model model;
	weir_random random;
	weir_random_init(&random, seed);
	memset(&model, 0, sizeof(model));
	memset(steps, 0, sizeof(steps));
	weir_file *file = open_file(bench, "a", O_RDWR | O_CREAT | O_TRUNC);
	file_call calls[STEPS] = {0};
	for (size_t i = 0; i < STEPS; i++) {
		calls[i].what = kinds[weir_random_below(&random, 8)];
		calls[i].file = file;
		calls[i].bytes = steps[i].bytes;
		calls[i].length = weir_random_below(&random, PIECE_MOST);
		calls[i].offset = (off_t)weir_random_below(&random, FILE_MOST - PIECE_MOST);
		if (calls[i].what == WRITE)
			fill_random(&random, steps[i].bytes, calls[i].length);
		run_on_model(&model, &calls[i], &steps[i]);
	}
	run_all(bench, calls, STEPS);
	for (size_t i = 0; i < STEPS; i++) {
		assert_for_seed(seed, calls[i].refused == 0);
		assert_for_seed(seed, calls[i].op.result == steps[i].result);
		assert_for_seed(seed, i == 0 || calls[i].order == calls[i - 1].order + 1);
		if (calls[i].what == READ)
			assert_for_seed(seed, memcmp(steps[i].bytes, steps[i].expected,
						     (size_t)steps[i].result) == 0);
		if (calls[i].what == STAT)
			assert_for_seed(seed, (size_t)calls[i].op.stat.st_size == steps[i].size);
	}
	close_file(bench, file);
}

static void requests_on_a_file_keep_their_order(void **state)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		check_order(bench_of(state), seed);
}

/* Files that have nothing to do with each other do not wait for each other. */
static void files_do_not_wait_for_each_other(void **state)
{
	files_bench *bench = bench_of(state);
	char byte = 0, other = 0;
	make_fifo(bench, "pipe");
	put_file(bench, "a", "x", 1);
	weir_file *stuck = open_file(bench, "pipe", O_RDWR), *file = open_file(bench, "a", O_RDONLY);
	file_call reading = {.what = READ, .file = stuck, .bytes = &byte, .length = 1};
	make_on(bench, 0, &reading, 1);
	assert_int_equal(
		run_one(bench, (file_call){.what = READ, .file = file, .bytes = &other, .length = 1}), 1);
	assert_false(atomic_load(&reading.over));
	int fd = open_raw(bench, "pipe", O_WRONLY);
	assert_int_equal(write(fd, "y", 1), 1);
	close(fd);
	assert_int_equal(outcome(&reading), 1);
	assert_int_equal(byte, 'y');
	assert_int_equal(other, 'x');
	close_file(bench, stuck);
	close_file(bench, file);
}

enum { FILES = 64, LENGTH = 3000 };

typedef struct file_crowd {
	char name[FILES][8];
	unsigned char bytes[FILES][LENGTH], got[FILES][LENGTH];
	weir_file *files[FILES];
} file_crowd;

static file_call crowd_call(file_crowd *crowd, call_kind what, size_t i)
{
	unsigned char *bytes = what == WRITE ? crowd->bytes[i] : crowd->got[i];
	return (file_call){.what = what,
			   .path = what == OPEN ? crowd->name[i] : NULL,
			   .flags = O_RDWR | O_CREAT,
			   .file = crowd->files[i],
			   .bytes = bytes,
			   .length = LENGTH};
}

/* Even numbers on one thread, odd ones on the other. */
static void crowd_step(const files_bench *bench, file_crowd *crowd, call_kind what, int64_t result)
{
	file_call calls[2][FILES / 2];
	memset(calls, 0, sizeof(calls));
	for (size_t i = 0; i < FILES; i++)
		calls[i % 2][i / 2] = crowd_call(crowd, what, i);
	make_on(bench, 0, calls[0], FILES / 2);
	make_on(bench, 1, calls[1], FILES / 2);
	for (size_t i = 0; i < FILES; i++) {
		assert_int_equal(outcome(&calls[i % 2][i / 2]), result);
		crowd->files[i] = calls[i % 2][i / 2].op.file;
	}
}

static void many_files_at_once(void **state)
{
	static file_crowd crowd;
	files_bench *bench = bench_of(state);
	weir_random random;
	weir_random_init(&random, 7);
	memset(&crowd, 0, sizeof(crowd));
	for (size_t i = 0; i < FILES; i++) {
		snprintf(crowd.name[i], sizeof(crowd.name[i]), "%zu", i);
		fill_random(&random, crowd.bytes[i], LENGTH);
	}
	crowd_step(bench, &crowd, OPEN, 0);
	crowd_step(bench, &crowd, WRITE, LENGTH);
	crowd_step(bench, &crowd, SYNC, 0);
	crowd_step(bench, &crowd, READ, LENGTH);
	crowd_step(bench, &crowd, CLOSE, 0);
	assert_memory_equal(crowd.bytes, crowd.got, sizeof(crowd.bytes));
	weir_stage_stats stats = file_stats(bench);
	assert_int_equal(stats.offered, 5 * FILES);
	assert_int_equal(stats.completed, 5 * FILES);
	assert_int_equal(stats.in_flight, 0);
	assert_true(weir_stage_quantile(bench->files->stage, 0, WEIR_RESPONSE, 0.5) > 0);
}

/* ---- the bound ---- */

static void refuses_above_the_bound(void **state)
{
	files_bench *bench = bench_of(state);
	bench_restart(bench, &(weir_files_options){.max_requests = 4});
	make_fifo(bench, "pipe");
	put_file(bench, "a", "abc", 3);
	weir_file *other = open_file(bench, "a", O_RDONLY);
	/* One waits for a byte, three wait for it. */
	char bytes[5] = "";
	weir_file *pipe = open_file(bench, "pipe", O_RDWR);
	file_call calls[5] = {0};
	for (int i = 0; i < 5; i++)
		calls[i] = (file_call){.what = READ, .file = pipe, .bytes = &bytes[i], .length = 1};
	make_on(bench, 0, calls, 5);
	assert_int_equal(calls[4].refused, -EAGAIN);
	assert_int_equal(run_one(bench, (file_call){.what = STAT_PATH, .path = "a"}), -EAGAIN);
	assert_int_equal(run_one(bench, (file_call){.what = OPEN, .path = "a"}), -EAGAIN);
	assert_int_equal(run_one(bench, (file_call){.what = SYNC, .file = other}), -EAGAIN);
	/* The bound is a thread's own. And whoever gives something back is not turned away. */
	file_call elsewhere = {.what = STAT_PATH, .path = "a"};
	make_on(bench, 1, &elsewhere, 1);
	assert_int_equal(outcome(&elsewhere), 0);
	close_file(bench, other);
	weir_stage_stats stats = file_stats(bench);
	assert_int_equal(stats.shed, 4);
	assert_int_equal(stats.by_verdict[WEIR_SHED_LIMIT], 4);
	assert_int_equal(stats.offered, stats.admitted + stats.shed);
	int fd = open_raw(bench, "pipe", O_WRONLY);
	assert_int_equal(write(fd, "wxyz", 4), 4);
	close(fd);
	for (int i = 0; i < 4; i++)
		assert_int_equal(outcome(&calls[i]), 1);
	assert_memory_equal(bytes, "wxyz", 5);
	close_file(bench, pipe);
	stats = file_stats(bench);
	assert_int_equal(stats.shed, 4);
	assert_int_equal(stats.completed, stats.admitted);
	assert_int_equal(stats.admitted, 2 + 4 + 1 + 2);
}

/* ---- errors ---- */

static int64_t open_fails(const files_bench *bench, const char *path, int flags)
{
	weir_file *file;
	int64_t result = try_open(bench, path, flags, &file);
	assert_null(file);
	return result;
}

static void says_why_an_open_fails(void **state)
{
	files_bench *bench = bench_of(state);
	char longest[PATH_MAX], too_long[PATH_MAX + 1], name[NAME_MAX + 2];
	memset(longest, '/', sizeof(longest));
	memcpy(longest + PATH_MAX - 2, "x", 2);
	memset(too_long, '/', sizeof(too_long));
	memcpy(too_long + PATH_MAX - 1, "x", 2);
	memset(name, 'n', sizeof(name));
	name[NAME_MAX + 1] = '\0';
	put_file(bench, "a", "abc", 3);
	assert_int_equal(symlinkat("a", bench->dir_fd, "link"), 0);
	int before = open_descriptors();
	assert_int_equal(open_fails(bench, "missing", O_RDONLY), -ENOENT);
	assert_int_equal(open_fails(bench, "", O_RDONLY), -ENOENT);
	assert_int_equal(open_fails(bench, ".", O_WRONLY), -EISDIR);
	assert_int_equal(open_fails(bench, "a/b", O_RDONLY), -ENOTDIR);
	assert_int_equal(open_fails(bench, "link", O_RDONLY | O_NOFOLLOW), -ELOOP);
	assert_int_equal(open_fails(bench, "a", O_WRONLY | O_CREAT | O_EXCL), -EEXIST);
	assert_int_equal(open_fails(bench, longest, O_RDONLY), -ENOENT);
	assert_int_equal(open_fails(bench, name, O_RDONLY), -ENAMETOOLONG);
	assert_int_equal(open_fails(bench, too_long, O_RDONLY), -ENAMETOOLONG);
	assert_int_equal(run_one(bench, (file_call){.what = OPEN}), -EINVAL);
	assert_int_equal(run_one(bench, (file_call){.what = STAT_PATH, .path = "missing"}), -ENOENT);
	assert_int_equal(run_one(bench, (file_call){.what = STAT_PATH, .path = too_long}), -ENAMETOOLONG);
	assert_int_equal(run_one(bench, (file_call){.what = STAT_PATH, .path = "a", .dir_fd = -1}), -EBADF);
	assert_int_equal(open_descriptors(), before);
	weir_stage_stats stats = file_stats(bench);
	assert_int_equal(stats.failed, 10);
	assert_int_equal(stats.offered, 10);
}

static void says_when_it_may_not(void **state)
{
	files_bench *bench = bench_of(state);
	if (geteuid() == 0)
		skip(); /* who may everything is refused nothing */
	put_file(bench, "a", "abc", 3);
	assert_int_equal(fchmodat(bench->dir_fd, "a", 0, 0), 0);
	assert_int_equal(open_fails(bench, "a", O_RDONLY), -EACCES);
}

static void says_why_a_transfer_fails(void **state)
{
	files_bench *bench = bench_of(state);
	char bytes[16] = "";
	put_file(bench, "a", "abc", 3);
	weir_file *dir = open_file(bench, ".", O_RDONLY), *file = open_file(bench, "a", O_RDONLY);
	weir_file *full = open_file(bench, "/dev/full", O_WRONLY);
	file_call read = {.what = READ, .file = dir, .bytes = bytes, .length = sizeof(bytes)}, write = read;
	write.what = WRITE;
	assert_int_equal(run_one(bench, read), -EISDIR);
	write.file = file;
	assert_int_equal(run_one(bench, write), -EBADF);
	write.file = full;
	assert_int_equal(run_one(bench, write), -ENOSPC);
	read.file = full;
	assert_int_equal(run_one(bench, read), -EBADF);
	read.offset = write.offset = -1;
	assert_int_equal(run_one(bench, read), -EINVAL);
	assert_int_equal(run_one(bench, write), -EINVAL);
	read.offset = 1;
	read.length = SIZE_MAX;
	assert_int_equal(run_one(bench, read), -EINVAL);
	close_file(bench, dir);
	close_file(bench, file);
	close_file(bench, full);
}

/* The first write is cut short at the limit, and going on fails: nothing but the error is reported. */
static void a_short_write_goes_on_and_fails(void **state)
{
	enum { LIMIT = 65536, ALL = 100000 };
	static unsigned char bytes[ALL], got[ALL];
	files_bench *bench = bench_of(state);
	struct rlimit before, small;
	weir_random random;
	weir_random_init(&random, 3);
	fill_random(&random, bytes, ALL);
	weir_file *file = open_file(bench, "a", O_RDWR | O_CREAT);
	getrlimit(RLIMIT_FSIZE, &before);
	small = (struct rlimit){.rlim_cur = LIMIT, .rlim_max = before.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	file_call write = {.what = WRITE, .file = file, .bytes = bytes, .length = ALL};
	int64_t result = run_one(bench, write);
	setrlimit(RLIMIT_FSIZE, &before);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(result, -EFBIG);
	assert_int_equal(run_one(bench, (file_call){.what = READ, .file = file, .bytes = got, .length = ALL}),
			 LIMIT);
	assert_memory_equal(got, bytes, LIMIT);
	assert_int_equal(run_one(bench, write), ALL);
	close_file(bench, file);
}

static void says_when_descriptors_are_out(void **state)
{
	files_bench *bench = bench_of(state);
	struct rlimit before, none;
	weir_file *file;
	put_file(bench, "a", "abc", 3);
	getrlimit(RLIMIT_NOFILE, &before);
	int lowest = dup(bench->dir_fd);
	close(lowest);
	none = (struct rlimit){.rlim_cur = (rlim_t)lowest, .rlim_max = before.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	int64_t result = try_open(bench, "a", O_RDONLY, &file);
	setrlimit(RLIMIT_NOFILE, &before);
	assert_int_equal(result, -EMFILE);
	close_file(bench, open_file(bench, "a", O_RDONLY));
}

/* ---- misuse ---- */

static void only_on_its_reactor_thread(void **state)
{
	files_bench *bench = bench_of(state);
	put_file(bench, "a", "abc", 3);
	weir_file *file = open_file(bench, "a", O_RDONLY);
	file_call opening = {.what = OPEN, .files = bench->files, .dir_fd = bench->dir_fd, .path = "a"};
	file_call reading = {.what = STAT, .file = file};
	assert_int_equal(issue(&opening), -EINVAL);
	assert_non_null(strstr(weir_error(), "reactor thread"));
	assert_int_equal(issue(&reading), -EINVAL);
	make_on(bench, 1, &reading, 1);
	assert_int_equal(reading.refused, -EINVAL);
	close_file(bench, file);
	assert_int_equal(file_stats(bench).offered, 2);
}

static void a_closed_file_is_an_error(void **state)
{
	files_bench *bench = bench_of(state);
	char byte;
	put_file(bench, "a", "abc", 3);
	weir_file *file = open_file(bench, "a", O_RDONLY);
	file_call calls[] = {{.what = READ, .file = file, .bytes = &byte, .length = 1},
			     {.what = CLOSE, .file = file},
			     {.what = READ, .file = file, .bytes = &byte, .length = 1},
			     {.what = CLOSE, .file = file}};
	run_all(bench, calls, 4);
	assert_int_equal(outcome(&calls[0]), 1);
	assert_int_equal(outcome(&calls[1]), 0);
	assert_null(calls[1].op.file);
	assert_int_equal(outcome(&calls[2]), -EBADF);
	assert_int_equal(outcome(&calls[3]), -EBADF);
	assert_int_equal(run_one(bench, (file_call){.what = STAT, .file = file}), -EBADF);
	assert_int_equal(run_one(bench, (file_call){.what = CLOSE, .file = file}), -EBADF);
	assert_int_equal(weir_file_fd(file), -1);
}

/* Whoever is refused a request still has the file in his op. */
static void refusal_leaves_the_file(void **state)
{
	files_bench *bench = bench_of(state);
	put_file(bench, "a", "abc", 3);
	file_call opening = {.what = OPEN, .path = "a"};
	run_all(bench, &opening, 1);
	weir_file *file = opening.op.file;
	opening = (file_call){.what = READ, .file = file, .offset = -1, .op.file = file};
	make_on(bench, 0, &opening, 1);
	assert_int_equal(opening.refused, -EINVAL);
	assert_ptr_equal(opening.op.file, file);
	close_file(bench, file);
}

static void files_are_one_a_world(void **state)
{
	files_bench *bench = bench_of(state);
	weir_files *files = NULL;
	weir_world *world = NULL;
	assert_int_equal(weir_files_new(bench->world, NULL, &files), -EEXIST);
	assert_int_equal(weir_world_new(&(weir_world_options){.simulated = true}, &world), 0);
	assert_int_equal(weir_files_new(world, NULL, &files), -ENOTSUP);
	weir_world_free(&world);
	assert_int_equal(weir_world_new(NULL, &world), 0);
	assert_int_equal(weir_files_new(world, NULL, &files), 0);
	weir_files *second = NULL;
	assert_int_equal(weir_files_new(world, NULL, &second), -EEXIST);
	assert_null(second);
	weir_files_free(&files);
	weir_files_free(&files);
	weir_world_free(&world);
}

/* ---- below a folder ---- */

static int64_t open_below(const files_bench *bench, const char *path)
{
	file_call opening = {.what = OPEN_BENEATH, .path = path, .flags = O_RDONLY};
	make_on(bench, 0, &opening, 1);
	int64_t result = outcome(&opening);
	if (result == 0)
		close_file(bench, opening.op.file);
	return result;
}

static void what_is_below_opens_and_nothing_else(void **state)
{
	files_bench *bench = bench_of(state);
	put_file(bench, "a", "x", 1);
	assert_int_equal(mkdirat(bench->dir_fd, "d", 0700), 0);
	put_file(bench, "d/b", "x", 1);
	assert_int_equal(symlinkat("../a", bench->dir_fd, "d/within"), 0);
	assert_int_equal(symlinkat("../../etc/passwd", bench->dir_fd, "d/out"), 0);
	assert_int_equal(symlinkat("/etc/passwd", bench->dir_fd, "absolute"), 0);
	assert_int_equal(symlinkat("..", bench->dir_fd, "up"), 0);
	assert_int_equal(open_below(bench, "a"), 0);
	assert_int_equal(open_below(bench, "d/b"), 0);
	assert_int_equal(open_below(bench, "d/within"), 0);
	assert_int_equal(open_below(bench, "d/out"), -EXDEV);
	assert_int_equal(open_below(bench, "absolute"), -EXDEV);
	assert_int_equal(open_below(bench, "up"), -EXDEV);
	assert_int_equal(open_below(bench, "up/etc/passwd"), -EXDEV);
	assert_int_equal(open_below(bench, "../etc/passwd"), -EXDEV);
	assert_int_equal(open_below(bench, "/etc/passwd"), -EXDEV);
	assert_int_equal(open_below(bench, "none"), -ENOENT);
	assert_int_equal(run_one(bench, (file_call){.what = OPEN_BENEATH, .path = "new", .flags = O_CREAT}),
			 -EINVAL);
	make_fifo(bench, "pipe");
	assert_int_equal(open_below(bench, "pipe"), 0);
	unlinkat(bench->dir_fd, "d/b", 0);
	unlinkat(bench->dir_fd, "d/within", 0);
	unlinkat(bench->dir_fd, "d/out", 0);
	unlinkat(bench->dir_fd, "d", AT_REMOVEDIR);
}

/* Without openat2: no link at all, and never more than with it. */
static void a_walk_follows_no_link(void **state)
{
	files_bench *bench = bench_of(state);
	put_file(bench, "a", "x", 1);
	assert_int_equal(mkdirat(bench->dir_fd, "d", 0700), 0);
	put_file(bench, "d/b", "x", 1);
	assert_int_equal(symlinkat("a", bench->dir_fd, "link"), 0);
	assert_int_equal(symlinkat("d", bench->dir_fd, "folder"), 0);
	int before = open_descriptors();
	int fd = weir_beneath_walk(bench->dir_fd, "d//b", O_RDONLY);
	assert_true(fd >= 0);
	close(fd);
	fd = weir_beneath_walk(bench->dir_fd, "d/", O_RDONLY | O_DIRECTORY);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(weir_beneath_walk(bench->dir_fd, "link", O_RDONLY), -ELOOP);
	assert_int_equal(weir_beneath_walk(bench->dir_fd, "folder/b", O_RDONLY), -ENOTDIR);
	assert_int_equal(weir_beneath_walk(bench->dir_fd, "a/b", O_RDONLY), -ENOTDIR);
	assert_int_equal(weir_beneath_walk(bench->dir_fd, "..", O_RDONLY), -EXDEV);
	assert_int_equal(weir_beneath_walk(bench->dir_fd, "d/../a", O_RDONLY), -EXDEV);
	assert_int_equal(weir_beneath_walk(bench->dir_fd, "/etc/passwd", O_RDONLY), -EXDEV);
	assert_int_equal(weir_beneath_walk(bench->dir_fd, "", O_RDONLY), -ENOENT);
	char deep[8192];
	memset(deep, '/', sizeof(deep));
	deep[0] = 'd';
	deep[sizeof(deep) - 1] = '\0';
	assert_int_equal(weir_beneath_walk(bench->dir_fd, deep, O_RDONLY), -ENAMETOOLONG);
	assert_int_equal(open_descriptors(), before);
	unlinkat(bench->dir_fd, "d/b", 0);
	unlinkat(bench->dir_fd, "d", AT_REMOVEDIR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH_WAY(uses_the_way_it_should),
		EACH_WAY(the_graph_shows_where_requests_come_from),
		EACH_WAY(reads_what_pread_reads),
		EACH_WAY(reads_end_at_the_end),
		EACH_WAY(short_reads_go_on),
		EACH_WAY(opens_do_not_wait_but_reads_do),
		EACH_WAY(stats_are_the_systems),
		EACH_WAY(paths_are_copied),
		EACH_WAY(requests_on_a_file_keep_their_order),
		EACH_WAY(files_do_not_wait_for_each_other),
		EACH_WAY(many_files_at_once),
		EACH_WAY(refuses_above_the_bound),
		EACH_WAY(says_why_an_open_fails),
		EACH_WAY(says_when_it_may_not),
		EACH_WAY(says_why_a_transfer_fails),
		EACH_WAY(a_short_write_goes_on_and_fails),
		EACH_WAY(says_when_descriptors_are_out),
		EACH_WAY(only_on_its_reactor_thread),
		EACH_WAY(a_closed_file_is_an_error),
		EACH_WAY(refusal_leaves_the_file),
		EACH_WAY(files_are_one_a_world),
		EACH_WAY(what_is_below_opens_and_nothing_else),
		EACH_WAY(a_walk_follows_no_link),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
