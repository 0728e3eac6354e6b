/* SPDX-License-Identifier: Apache-2.0 */
/* How requests on files end other than well: abandoned, in a stop, out of memory. */
#include "on_files.h"

#include <pthread.h>
#include <signal.h>

/* ---- abandoning ---- */

static void abandon(const files_bench *bench, file_call *call)
{
	on_reactor(bench, 0, abandon_op, &call->op);
}

static void feed(const files_bench *bench, const char *pipe, const char *bytes)
{
	int fd = open_raw(bench, pipe, O_WRONLY);
	assert_int_equal(write(fd, bytes, strlen(bytes)), strlen(bytes));
	close(fd);
}

static void abandoned_at_once(void **state)
{
	files_bench *bench = bench_of(state);
	char byte;
	put_file(bench, "a", "abc", 3);
	weir_file *file = open_file(bench, "a", O_RDWR);
	int before = open_descriptors();
	file_call calls[] = {
		{.what = OPEN, .path = "a", .abandon = true},
		{.what = STAT_PATH, .path = "a", .abandon = true},
		{.what = STAT, .file = file, .abandon = true},
		{.what = READ, .file = file, .bytes = &byte, .length = 1, .abandon = true},
		{.what = WRITE, .file = file, .bytes = &byte, .length = 1, .abandon = true},
		{.what = SYNC, .file = file, .abandon = true},
		{.what = READ, .file = file, .bytes = &byte, .length = 1},
	};
	run_all(bench, calls, 7);
	for (int i = 0; i < 6; i++)
		assert_int_equal(outcome(&calls[i]), -ECANCELED);
	assert_null(calls[0].op.file);
	assert_int_equal(outcome(&calls[6]), 1);
	assert_int_equal(byte, 'a');
	assert_int_equal(open_descriptors(), before);
	close_file(bench, file);
}

/* It waits for the one before it, and then is not begun. */
static void abandoned_while_waiting(void **state)
{
	files_bench *bench = bench_of(state);
	char bytes[3] = "";
	make_fifo(bench, "pipe");
	weir_file *file = open_file(bench, "pipe", O_RDWR);
	file_call calls[3] = {0};
	for (int i = 0; i < 3; i++)
		calls[i] = (file_call){.what = READ, .file = file, .bytes = &bytes[i], .length = 1};
	make_on(bench, 0, calls, 3);
	abandon(bench, &calls[1]);
	abandon(bench, &calls[1]);
	assert_false(atomic_load(&calls[1].over));
	feed(bench, "pipe", "xy");
	assert_int_equal(outcome(&calls[0]), 1);
	assert_int_equal(outcome(&calls[1]), -ECANCELED);
	assert_int_equal(outcome(&calls[2]), 1);
	assert_memory_equal(bytes, "x\0y", 3);
	assert_int_equal(calls[1].order, calls[0].order + 1);
	assert_int_equal(calls[2].order, calls[1].order + 1);
	close_file(bench, file);
}

/* The ring lets go of a read; a thread of the pool comes back with something. */
static void abandoned_while_reading(void **state)
{
	files_bench *bench = bench_of(state);
	char bytes[8] = "";
	make_fifo(bench, "pipe");
	weir_file *file = open_file(bench, "pipe", O_RDWR);
	file_call reading = {.what = READ, .file = file, .bytes = bytes, .length = 8};
	make_on(bench, 0, &reading, 1);
	await_begun(bench);
	abandon(bench, &reading);
	if (!uses_ring(bench))
		feed(bench, "pipe", "x");
	assert_int_equal(outcome(&reading), -ECANCELED);
	close_file(bench, file);
}

/* An open for writing waits while somebody has a lease to read. */
static int take_lease(const files_bench *bench, const char *name)
{
	int fd = open_raw(bench, name, O_RDONLY);
	signal(SIGIO, SIG_IGN);
	if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0)
		return fd;
	close(fd);
	skip(); /* not on this file system */
	return -1;
}

static void abandoned_while_opening(void **state)
{
	files_bench *bench = bench_of(state);
	put_file(bench, "a", "abc", 3);
	int lease = take_lease(bench, "a"), before = open_descriptors();
	file_call opening = {.what = OPEN, .path = "a", .flags = O_WRONLY};
	make_on(bench, 0, &opening, 1);
	/* The kernel has been asked to break the lease: the open waits for that. */
	await(fcntl(lease, F_GETLEASE) == F_UNLCK);
	assert_false(atomic_load(&opening.over));
	abandon(bench, &opening);
	if (!uses_ring(bench))
		fcntl(lease, F_SETLEASE, F_UNLCK);
	assert_int_equal(outcome(&opening), -ECANCELED);
	assert_null(opening.op.file);
	assert_int_equal(open_descriptors(), before);
	close(lease);
}

static void an_open_waits_for_a_lease(void **state)
{
	files_bench *bench = bench_of(state);
	put_file(bench, "a", "abc", 3);
	int lease = take_lease(bench, "a");
	file_call opening = {.what = OPEN, .path = "a", .flags = O_WRONLY};
	make_on(bench, 0, &opening, 1);
	await(fcntl(lease, F_GETLEASE) == F_UNLCK);
	fcntl(lease, F_SETLEASE, F_UNLCK);
	assert_int_equal(outcome(&opening), 0);
	close_file(bench, opening.op.file);
	close(lease);
}

/* But not below a folder, where whoever asks has others to serve. */
static void an_open_beneath_does_not_wait_for_a_lease(void **state)
{
	files_bench *bench = bench_of(state);
	put_file(bench, "a", "abc", 3);
	int lease = take_lease(bench, "a");
	file_call opening = {.what = OPEN_BENEATH, .path = "a", .flags = O_WRONLY};
	make_on(bench, 0, &opening, 1);
	assert_int_equal(outcome(&opening), -EAGAIN);
	fcntl(lease, F_SETLEASE, F_UNLCK);
	close(lease);
}

static void an_abandoned_close_closes(void **state)
{
	files_bench *bench = bench_of(state);
	put_file(bench, "a", "abc", 3);
	int before = open_descriptors();
	weir_file *file = open_file(bench, "a", O_RDONLY);
	file_call closing = {.what = CLOSE, .file = file, .abandon = true};
	run_all(bench, &closing, 1);
	assert_int_equal(outcome(&closing), -ECANCELED);
	assert_null(closing.op.file);
	assert_int_equal(open_descriptors(), before);
	assert_int_equal(run_one(bench, (file_call){.what = STAT, .file = file}), -EBADF);
}

static void abandoning_what_is_over_does_nothing(void **state)
{
	files_bench *bench = bench_of(state);
	put_file(bench, "a", "abc", 3);
	file_call opening = {.what = OPEN, .path = "a"}, never = {0};
	abandon(bench, &never);
	make_on(bench, 0, &opening, 1);
	assert_int_equal(outcome(&opening), 0);
	abandon(bench, &opening);
	assert_int_equal(opening.op.result, 0);
	close_file(bench, opening.op.file);
}

/* At any moment of an open, whoever is faster: no descriptor stays behind. */
static void abandoned_opens_leave_nothing(void **state)
{
	enum { ROUNDS = 40, OPENS = 24 };
	files_bench *bench = bench_of(state);
	weir_random random;
	weir_random_init(&random, 5);
	put_file(bench, "a", "abc", 3);
	int before = open_descriptors();
	for (int round = 0; round < ROUNDS; round++) {
		file_call opens[OPENS] = {0};
		for (int i = 0; i < OPENS; i++)
			opens[i] = (file_call){.what = OPEN, .path = "a", .abandon = i % 4 == 0};
		make_on(bench, 0, opens, OPENS);
		for (uint64_t spin = weir_random_below(&random, 20000); spin > 0; spin--)
			atomic_signal_fence(memory_order_seq_cst);
		for (int i = 1; i < OPENS; i += 2)
			abandon(bench, &opens[i]);
		for (int i = 0; i < OPENS; i++) {
			int64_t result = outcome(&opens[i]);
			assert_true(result == 0 || (result == -ECANCELED && opens[i].op.file == NULL));
			assert_true(result == 0 || i % 2 != 0 || i % 4 == 0);
			if (result == 0)
				close_file(bench, opens[i].op.file);
		}
	}
	assert_int_equal(open_descriptors(), before);
}

/* The completion is there, but not yet its turn in the loop: an open that succeeded is closed. */
static void outrun_open(void *arg)
{
	file_call *call = arg;
	weir_stage_stats stats;
	call->refused = issue(call);
	do {
		sched_yield();
		weir_stage_read(call->files->stage, WEIR_ALL_CLASSES, &stats);
	} while (stats.batches == 0);
	weir_file_abandon(&call->op);
}

static void outrun_open_and_close_stage(void *arg)
{
	file_call *call = arg;
	outrun_open(call);
	weir_stage_close(call->files->stage);
}

static void check_outrun(const files_bench *bench, void (*outrun)(void *arg), uint64_t admitted)
{
	put_file(bench, "a", "abc", 3);
	int before = open_descriptors();
	file_call opening = {.what = OPEN, .path = "a", .files = bench->files, .dir_fd = bench->dir_fd};
	on_reactor(bench, 0, outrun, &opening);
	assert_int_equal(outcome(&opening), -ECANCELED);
	assert_null(opening.op.file);
	assert_int_equal(open_descriptors(), before);
	assert_int_equal(file_stats(bench).admitted, admitted);
}

static void abandoned_after_it_was_opened(void **state)
{
	files_bench *bench = bench_of(state);
	if (uses_ring(bench))
		skip(); /* there the completion is seen as soon as it is known */
	/* The close is an event of its own; where the stage takes none any more, it happens at once. */
	check_outrun(bench, outrun_open, 2);
	bench_restart(bench, NULL);
	check_outrun(bench, outrun_open_and_close_stage, 1);
}

/* ---- stopping ---- */

enum { CHAINS = 32, CHAIN_LENGTH = 6000 };

/* Open, write, sync, read, close, each from the done function of the one before. */
typedef struct file_chain {
	weir_file_op op;
	weir_files *files;
	int dir_fd;
	char name[8];
	unsigned char bytes[CHAIN_LENGTH], got[CHAIN_LENGTH];
	int steps, refused;
	atomic_bool over;
} file_chain;

static void chain_next(weir_file_op *op, void *arg)
{
	file_chain *chain = arg;
	weir_file *file = op->file;
	int step = chain->steps++, failed = 0;
	if (op->result < 0)
		failed = (int)op->result;
	else if (step == 0)
		failed = weir_file_write(file, op, chain->bytes, CHAIN_LENGTH, 0, chain_next, chain);
	else if (step == 1)
		failed = weir_file_sync(file, op, chain_next, chain);
	else if (step == 2)
		failed = weir_file_read(file, op, chain->got, CHAIN_LENGTH, 0, chain_next, chain);
	else if (step == 3)
		failed = weir_file_close(file, op, chain_next, chain);
	chain->refused = failed;
	if (failed != 0 || step == 4)
		atomic_store(&chain->over, true);
}

static void start_chains(void *arg)
{
	file_chain *chains = arg;
	for (int i = 0; i < CHAINS; i++)
		chains[i].refused =
			weir_file_open(chains[i].files, &chains[i].op, chains[i].dir_fd, chains[i].name,
				       O_RDWR | O_CREAT, 0600, chain_next, &chains[i]);
}

static void a_stop_waits_for_requests(void **state)
{
	static file_chain chains[CHAINS];
	files_bench *bench = bench_of(state);
	weir_random random;
	weir_random_init(&random, 11);
	memset(chains, 0, sizeof(chains));
	int before = open_descriptors();
	for (int i = 0; i < CHAINS; i++) {
		chains[i].files = bench->files;
		chains[i].dir_fd = bench->dir_fd;
		snprintf(chains[i].name, sizeof(chains[i].name), "%d", i);
		fill_random(&random, chains[i].bytes, CHAIN_LENGTH);
	}
	on_reactor(bench, 0, start_chains, chains);
	weir_stop_report report;
	assert_int_equal(weir_world_stop(bench->world, 20 * WEIR_NS_PER_S, &report), 0);
	assert_int_equal(report.undrained, 0);
	assert_int_equal(report.unbalanced, 0);
	assert_int_equal(report.faults, 0);
	for (int i = 0; i < CHAINS; i++) {
		assert_int_equal(chains[i].refused, 0);
		assert_true(atomic_load(&chains[i].over));
		assert_int_equal(chains[i].steps, 5);
		assert_memory_equal(chains[i].bytes, chains[i].got, CHAIN_LENGTH);
	}
	assert_int_equal(file_stats(bench).completed, 5 * CHAINS);
	assert_int_equal(open_descriptors(), before);
}

typedef struct late_feeder {
	pthread_t thread;
	weir_world *world;
	int fd;
} late_feeder;

static void *feed_when_stopped(void *arg)
{
	late_feeder *feeder = arg;
	while (!weir_world_has_stopped(feeder->world))
		sched_yield();
	if (write(feeder->fd, "x", 1) != 1)
		abort();
	return NULL;
}

/* A thread of the pool is waited for even without patience, so it gets a byte then; the ring's read is left behind. */
static void stop_without_patience(files_bench *bench, weir_stop_report *ret_report)
{
	late_feeder feeder = {.world = bench->world, .fd = open_raw(bench, "pipe", O_WRONLY)};
	if (!uses_ring(bench))
		pthread_create(&feeder.thread, NULL, feed_when_stopped, &feeder);
	int failed = weir_world_stop(bench->world, WEIR_NS_PER_MS, ret_report);
	if (!uses_ring(bench))
		pthread_join(feeder.thread, NULL);
	assert_true(failed == -ETIMEDOUT || (failed == 0 && ret_report->undrained == 0));
	assert_int_equal(ret_report->unbalanced, 0);
	close(feeder.fd);
}

/* What could not be drained is counted; descriptors and memory come back all the same. */
static void a_stop_out_of_patience(void **state)
{
	static char byte; /* in use until the world is freed */
	static file_call reading;
	files_bench *bench = bench_of(state);
	make_fifo(bench, "pipe");
	int before = open_descriptors();
	weir_file *pipe = open_file(bench, "pipe", O_RDWR);
	reading = (file_call){.what = READ, .file = pipe, .bytes = &byte, .length = 1};
	make_on(bench, 0, &reading, 1);
	await_begun(bench);
	weir_stop_report report;
	stop_without_patience(bench, &report);
	if (uses_ring(bench))
		assert_int_equal(report.undrained, 1);
	if (report.undrained != 0)
		assert_string_equal(report.stuck, "file");
	weir_files_free(&bench->files);
	assert_int_equal(open_descriptors(), before);
	weir_world_free(&bench->world);
}

/* Waiting in its file, or in the pool: nothing is lost track of. */
static void a_stop_drops_what_waits(void **state)
{
	static char bytes[4];
	static file_call reading, reads[3];
	files_bench *bench = bench_of(state);
	bench_restart(bench, &(weir_files_options){.max_threads = 1});
	make_fifo(bench, "pipe");
	put_file(bench, "a", "abc", 3);
	int before = open_descriptors();
	weir_file *file = open_file(bench, "a", O_RDONLY), *pipe = open_file(bench, "pipe", O_RDWR);
	reading = (file_call){.what = READ, .file = pipe, .bytes = &bytes[3], .length = 1};
	make_on(bench, 0, &reading, 1);
	await_begun(bench);
	for (int i = 0; i < 3; i++)
		reads[i] = (file_call){
			.what = READ, .file = i == 2 ? pipe : file, .bytes = &bytes[i], .length = 1};
	make_on(bench, 0, reads, 3);
	weir_stop_report report;
	stop_without_patience(bench, &report);
	weir_files_free(&bench->files);
	assert_int_equal(open_descriptors(), before);
	weir_world_free(&bench->world);
}

static void a_closed_stage_takes_no_requests(void **state)
{
	files_bench *bench = bench_of(state);
	put_file(bench, "a", "abc", 3);
	weir_file *file = open_file(bench, "a", O_RDONLY);
	weir_stage_close(bench->files->stage);
	assert_int_equal(run_one(bench, (file_call){.what = STAT, .file = file}), -ESHUTDOWN);
	assert_int_equal(run_one(bench, (file_call){.what = CLOSE, .file = file}), -ESHUTDOWN);
	assert_true(weir_file_fd(file) >= 0);
	assert_int_equal(run_one(bench, (file_call){.what = OPEN, .path = "a"}), -ESHUTDOWN);
	assert_int_equal(run_one(bench, (file_call){.what = STAT_PATH, .path = "a"}), -ESHUTDOWN);
	assert_int_equal(file_stats(bench).by_verdict[WEIR_SHED_CLOSED], 4);
}

static void a_free_closes_what_is_open(void **state)
{
	files_bench *bench = bench_of(state);
	put_file(bench, "a", "abc", 3);
	int before = open_descriptors();
	open_file(bench, "a", O_RDONLY);
	assert_int_equal(weir_world_stop(bench->world, 20 * WEIR_NS_PER_S, NULL), 0);
	weir_files_free(&bench->files); /* closes what nobody closed */
	assert_int_equal(open_descriptors(), before);
	weir_world_free(&bench->world);
}

/* ---- memory ---- */

static void new_files_out_of_memory(void **state)
{
	files_bench *bench = bench_of(state);
	bench_stop(bench);
	uint64_t live = weir_mem_live();
	int failed = -ENOMEM;
	uint64_t nth;
	for (nth = 1; failed != 0 && nth < 100; nth++) {
		weir_world *world;
		weir_files *files = NULL;
		assert_int_equal(weir_world_new(NULL, &world), 0);
		weir_mem_fail_after(nth);
		failed = weir_files_new(world, NULL, &files);
		weir_mem_fail_after(0);
		assert_true(failed == 0 || failed == -ENOMEM);
		assert_true((files == NULL) == (failed != 0));
		weir_files_free(&files);
		weir_world_free(&world);
		assert_int_equal(weir_mem_live(), live);
	}
	assert_true(nth > 4);
}

typedef struct short_of_memory {
	file_call call;
	uint64_t nth;
} short_of_memory;

static void issue_short_of_memory(void *arg)
{
	short_of_memory *attempt = arg;
	weir_mem_fail_after(attempt->nth);
	attempt->call.refused = issue(&attempt->call);
	weir_mem_fail_after(0);
}

static int64_t attempt_with(const files_bench *bench, call_kind what, uint64_t nth, weir_file **ret_file)
{
	short_of_memory attempt = {
		.call = {.files = bench->files, .what = what, .path = "a", .dir_fd = bench->dir_fd},
		.nth = nth};
	on_reactor(bench, 0, issue_short_of_memory, &attempt);
	int64_t result = outcome(&attempt.call);
	*ret_file = attempt.call.op.file;
	return result;
}

/* The path, the file: once there has been a file, its memory is used again. */
static void requests_out_of_memory(void **state)
{
	files_bench *bench = bench_of(state);
	weir_file *file = NULL;
	put_file(bench, "a", "abc", 3);
	assert_int_equal(attempt_with(bench, OPEN, 1, &file), -ENOMEM);
	assert_int_equal(attempt_with(bench, OPEN, 2, &file), -ENOMEM);
	assert_int_equal(attempt_with(bench, STAT_PATH, 2, &file), -ENOMEM);
	assert_int_equal(file_stats(bench).offered, 0);
	for (uint64_t nth = 3; nth < 12; nth++) {
		assert_int_equal(attempt_with(bench, OPEN, nth, &file), 0);
		close_file(bench, file);
	}
	assert_int_equal(attempt_with(bench, STAT_PATH, 1, &file), -ENOMEM);
	assert_int_equal(attempt_with(bench, STAT_PATH, 2, &file), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH_WAY(abandoned_at_once),
		EACH_WAY(abandoned_while_waiting),
		EACH_WAY(abandoned_while_reading),
		EACH_WAY(abandoned_while_opening),
		EACH_WAY(an_open_waits_for_a_lease),
		EACH_WAY(an_open_beneath_does_not_wait_for_a_lease),
		EACH_WAY(an_abandoned_close_closes),
		EACH_WAY(abandoning_what_is_over_does_nothing),
		EACH_WAY(abandoned_opens_leave_nothing),
		EACH_WAY(abandoned_after_it_was_opened),
		EACH_WAY(a_stop_waits_for_requests),
		EACH_WAY(a_stop_out_of_patience),
		EACH_WAY(a_stop_drops_what_waits),
		EACH_WAY(a_closed_stage_takes_no_requests),
		EACH_WAY(a_free_closes_what_is_open),
		EACH_WAY(new_files_out_of_memory),
		EACH_WAY(requests_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
