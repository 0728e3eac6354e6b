/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings and the thread that empties them.
 *
 * A ring has `size` bytes and room for one more line after them, so that a line that begins within is
 * contiguous wherever it ends. Positions only grow; their remainder modulo `size` is the offset. After a
 * line that reaches the end, the next one begins at the next multiple of `size` (a lap); `lap_end` says
 * where the data of the previous lap ends. While the writer is still in the previous lap, a line that
 * fits ends before the writer's offset, so it cannot reach the end: there is never more than one such end
 * to remember.
 *
 *  producer: head (release), lap_end before it     writer: tail (release)
 *  free if   line_max <= tail + size - head        data: [tail, head), or to lap_end first
 */
#include "log/log.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"

#define RING_BYTES  (256u << 10)
#define PERIOD_NS   (200 * WEIR_NS_PER_MS)
#define IDLE_NS     (3600 * WEIR_NS_PER_S) /* between two rounds while lines go nowhere */
#define STOP_NS     (2 * WEIR_NS_PER_S)
#define PATIENCE_MS 50   /* timeout of a poll of a pipe that takes nothing */
#define PIPE_PART   4096 /* a pipe that reports to be writable takes this much without blocking */
#define CACHE_LINE  64

typedef struct ring {
	char *bytes;
	/* producer */
	_Alignas(CACHE_LINE) _Atomic uint64_t head;
	_Atomic uint64_t lap_end; /* position where the lap before that of head ends */
	_Atomic uint64_t dropped;
	uint64_t tail_seen; /* so that the writer's cache line is read only when the ring seems full */
	bool woken;         /* since the ring was last found below half */
	/* writer */
	_Alignas(CACHE_LINE) _Atomic uint64_t tail;
	uint64_t dropped_told;
} ring;

struct weir_log {
	/* const after new */
	_Atomic weir_log_format format;
	unsigned rings; /* the shared one is the last */
	size_t size;
	uint64_t period_ns;
	ring *ring;
	pthread_t thread;
	pthread_mutex_t shared; /* the producer's side of the last ring */

	/* writer */
	weir_log_file *file;
	bool torn;     /* the last line was not written completely */
	bool given_up; /* on the file, which is about to be left, as nobody reads it */

	_Atomic uint32_t wake;   /* a futex: incremented for every reason to wake the writer */
	_Atomic uint32_t rounds; /* a futex: number of finished rounds of the writer */
	_Atomic bool stopping, reopen;
	_Atomic(weir_log_file *) next; /* takes the file's place; NULL: none does */
	_Atomic uint64_t lines, lost, written, failures, reopened;
	_Atomic int error; /* of the last write that failed */
};

/* ---- waiting ---- */

static void futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
	struct timespec timeout = {(time_t)(ns / WEIR_NS_PER_S), (long)(ns % WEIR_NS_PER_S)};
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &timeout, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
	atomic_fetch_add(word, 1);
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* ---- producers ---- */

char *weir_log_begin(weir_log *log, unsigned at)
{
	ring *r = &log->ring[at];
	uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	if (head + WEIR_LOG_LINE_MAX > r->tail_seen + log->size)
		r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire);
	if (head + WEIR_LOG_LINE_MAX > r->tail_seen + log->size) {
		atomic_store_explicit(&r->dropped,
				      atomic_load_explicit(&r->dropped, memory_order_relaxed) + 1,
				      memory_order_relaxed);
		return NULL;
	}
	return r->bytes + head % log->size;
}

/* A ring that is half full wakes the writer, once until it has been emptied. */
static void wake_at_half(weir_log *log, ring *r, uint64_t head)
{
	if (head - r->tail_seen > log->size / 2)
		r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire);
	bool half = head - r->tail_seen > log->size / 2;
	if (half && !r->woken)
		futex_wake(&log->wake);
	r->woken = half;
}

void weir_log_end(weir_log *log, unsigned at, size_t length)
{
	ring *r = &log->ring[at];
	uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	uint64_t next = (head / log->size + 1) * log->size;
	if (length == 0)
		return;
	head += length;
	if (head >= next) {
		atomic_store_explicit(&r->lap_end, head, memory_order_relaxed);
		head = next;
	}
	atomic_store_explicit(&r->head, head, memory_order_release);
	wake_at_half(log, r, head);
}

bool weir_log_put(weir_log *log, const char *line, size_t length)
{
	unsigned shared = log->rings - 1;
	if (length > WEIR_LOG_LINE_MAX)
		length = WEIR_LOG_LINE_MAX;
	pthread_mutex_lock(&log->shared);
	char *room = weir_log_begin(log, shared);
	if (room != NULL) {
		memcpy(room, line, length);
		if (length > 0)
			room[length - 1] = '\n';
		weir_log_end(log, shared, length);
	}
	pthread_mutex_unlock(&log->shared);
	return room != NULL;
}

/* ---- the file ---- */

static void begin_file(weir_log *log)
{
	log->torn = log->given_up = false;
	atomic_store(&log->error, 0);
}

static void reopen(weir_log *log)
{
	if (log->file->path == NULL)
		return;
	if (weir_log_file_reopen(log->file) != 0) {
		atomic_fetch_add(&log->failures, 1);
		return;
	}
	begin_file(log);
	atomic_fetch_add(&log->reopened, 1);
}

static void take_next(weir_log *log)
{
	weir_log_file_close(&log->file);
	log->file = atomic_exchange(&log->next, NULL);
	begin_file(log);
}

/* Whether the file is about to be left: lines that it does not take for a while are lost. */
static bool leaves(weir_log *log)
{
	return atomic_load(&log->stopping) || atomic_load(&log->next) != NULL;
}

/* Whether a write now would not block, even if only because it fails at once; waits a little for that. */
static bool writable(weir_log *log)
{
	struct pollfd look = {.fd = log->file->fd, .events = POLLOUT};
	return log->file->regular || poll(&look, 1, PATIENCE_MS) == 1;
}

/* Bytes that were written; 0: none yet, try again; -1: it cannot be written. */
static ssize_t write_some(weir_log *log, const char *bytes, size_t length)
{
	if (!writable(log))
		return 0;
	bool all = log->file->regular || length < PIPE_PART;
	ssize_t taken = write(log->file->fd, bytes, all ? length : PIPE_PART);
	if (taken >= 0)
		return taken;
	if (errno == EAGAIN || errno == EINTR)
		return 0;
	atomic_store(&log->error, errno);
	return -1;
}

static unsigned count_lines(const char *bytes, size_t length)
{
	unsigned count = 0;
	for (const char *at = bytes, *end = bytes + length;
	     at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++)
		count++;
	return count;
}

/* ---- the writer ---- */

/* Writes all of them, or gives up. At the end, a reader that does not read for a while loses them. */
static void write_all(weir_log *log, const char *bytes, size_t length)
{
	uint64_t until_ns = 0;
	size_t done = 0;
	ssize_t taken = 0;
	while (done < length && taken >= 0 && !log->given_up) {
		taken = write_some(log, bytes + done, length - done);
		if (taken > 0) {
			done += (size_t)taken;
			until_ns = 0;
		} else if (leaves(log) && until_ns == 0) {
			until_ns = weir_clock_ns() + STOP_NS;
		}
		log->given_up = until_ns != 0 && weir_clock_ns() > until_ns;
	}
	if (done < length) {
		atomic_fetch_add(&log->failures, 1);
		atomic_fetch_add(&log->lost, count_lines(bytes + done, length - done));
	}
	if (done > 0)
		log->torn = bytes[done - 1] != '\n';
	atomic_fetch_add(&log->written, done);
	atomic_fetch_add(&log->lines, count_lines(bytes, done));
}

/* The rest of a line that a full disk cut off must not become the beginning of the next. */
static void write_lines(weir_log *log, const char *bytes, size_t length)
{
	if (log->file->fd < 0)
		return;
	if (log->torn && length > 0)
		log->torn = write_some(log, "\n", 1) != 1;
	write_all(log, bytes, length);
}

static uint64_t empty_ring(weir_log *log, ring *r)
{
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
	uint64_t from = tail;
	if (tail / log->size != head / log->size) {
		uint64_t end = atomic_load_explicit(&r->lap_end, memory_order_relaxed);
		write_lines(log, r->bytes + tail % log->size, end - tail);
		tail = head / log->size * log->size;
		atomic_store_explicit(&r->tail, tail, memory_order_release);
	}
	if (head > tail) {
		write_lines(log, r->bytes + tail % log->size, head - tail);
		atomic_store_explicit(&r->tail, head, memory_order_release);
	}
	return head - from;
}

static void tell_dropped(weir_log *log)
{
	char line[200];
	weir_log_clock clock = {0};
	uint64_t count = 0;
	for (unsigned i = 0; i < log->rings; i++) {
		uint64_t dropped = atomic_load_explicit(&log->ring[i].dropped, memory_order_relaxed);
		count += dropped - log->ring[i].dropped_told;
		log->ring[i].dropped_told = dropped;
	}
	if (count == 0)
		return;
	weir_log_clock_set(&clock, weir_clock_ns());
	int length;
	if (log->format == WEIR_LOG_JSON)
		length = snprintf(line, sizeof(line), "{\"time\":\"%s.%03uZ\",\"dropped\":%" PRIu64 "}\n",
				  clock.utc, clock.millisecond, count);
	else if (log->format == WEIR_LOG_COMBINED)
		length = snprintf(line, sizeof(line),
				  "# [%s] %" PRIu64 " lines were dropped: the log is slower than they came\n",
				  clock.local, count);
	else
		length = snprintf(line, sizeof(line),
				  "%s.%03uZ warn log: %" PRIu64
				  " lines were dropped: the log is slower than they came\n",
				  clock.utc, clock.millisecond, count);
	write_lines(log, line, (size_t)length);
}

/* One round: writes everything that is there now. Returns how much that was. */
static uint64_t round_trip(weir_log *log)
{
	uint64_t bytes = 0;
	bool next = atomic_load(&log->next) != NULL;
	if (atomic_exchange(&log->reopen, false))
		reopen(log);
	for (unsigned i = 0; i < log->rings; i++)
		bytes += empty_ring(log, &log->ring[i]);
	tell_dropped(log);
	if (next)
		take_next(log);
	futex_wake(&log->rounds);
	return bytes;
}

static void *write_for_ever(void *arg)
{
	weir_log *log = arg;
	sigset_t all;
	pthread_setname_np(pthread_self(), "weir-log");
	/* Signals are handled by other threads, and a closed pipe is a failed write. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	while (!atomic_load(&log->stopping)) {
		uint32_t seen = atomic_load(&log->wake);
		/* Half a ring in one round is much: there may already be as much again. */
		if (round_trip(log) < log->size / 2 && !atomic_load(&log->stopping))
			futex_wait(&log->wake, seen, log->file->fd >= 0 ? log->period_ns : IDLE_NS);
	}
	round_trip(log);
	return NULL;
}

/* ---- start and end ---- */

static int make_rings(weir_log *log)
{
	log->ring = weir_mem_aligned(CACHE_LINE, log->rings * sizeof(ring));
	if (log->ring == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < log->rings; i++) {
		log->ring[i].bytes = weir_mem_zalloc(log->size + WEIR_LOG_LINE_MAX);
		if (log->ring[i].bytes == NULL)
			return -ENOMEM;
	}
	return 0;
}

static void free_log(weir_log *log)
{
	for (unsigned i = 0; log->ring != NULL && i < log->rings; i++)
		weir_mem_free(log->ring[i].bytes);
	weir_mem_free(log->ring);
	weir_log_file *next = atomic_load(&log->next);
	weir_log_file_close(&next);
	weir_log_file_close(&log->file);
	pthread_mutex_destroy(&log->shared);
	weir_mem_free(log);
}

static int start(weir_log *log)
{
	int failed = make_rings(log);
	return failed != 0 ? failed : -pthread_create(&log->thread, NULL, write_for_ever, log);
}

int weir_log_new(const weir_log_options *options, weir_log **ret_log)
{
	size_t size = options->ring_bytes != 0 ? options->ring_bytes : RING_BYTES;
	weir_log *log = NULL;
	if (options->rings > WEIR_LOG_RINGS_MAX || size < 4 * WEIR_LOG_LINE_MAX)
		return weir_error_set(-EINVAL, "a log has at most %d rings of at least %d bytes",
				      WEIR_LOG_RINGS_MAX, 4 * WEIR_LOG_LINE_MAX);
	log = weir_mem_zalloc(sizeof(*log));
	if (log == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	pthread_mutex_init(&log->shared, NULL);
	log->format = options->format;
	log->rings = options->rings + 1;
	log->size = size;
	log->period_ns = options->period_ns != 0 ? options->period_ns : PERIOD_NS;
	int failed = weir_log_file_open(options->path, options->fd, &log->file);
	if (failed == 0 && (failed = start(log)) != 0)
		weir_error_set(failed, "log: %s", strerror(-failed));
	if (failed != 0)
		free_log(log);
	else
		*ret_log = log;
	return failed;
}

void weir_log_free(weir_log **log)
{
	if (*log == NULL)
		return;
	atomic_store(&(*log)->stopping, true);
	futex_wake(&(*log)->wake);
	pthread_join((*log)->thread, NULL);
	free_log(*log);
	*log = NULL;
}

/* ---- requests to the writer ---- */

void weir_log_set_format(weir_log *log, weir_log_format format)
{
	atomic_store_explicit(&log->format, format, memory_order_relaxed);
}

void weir_log_reopen(weir_log *log)
{
	atomic_store(&log->reopen, true);
	futex_wake(&log->wake);
}

void weir_log_use(weir_log *log, weir_log_file *file)
{
	weir_log_file *unused = atomic_exchange(&log->next, file);
	weir_log_file_close(&unused);
	futex_wake(&log->wake);
}

/* The round in progress may have passed what is there now; the next one has not. */
bool weir_log_flush(weir_log *log, uint64_t timeout_ns)
{
	uint64_t until = weir_clock_ns() + timeout_ns;
	uint32_t first = atomic_load(&log->rounds), seen;
	futex_wake(&log->wake);
	while ((seen = atomic_load(&log->rounds)) - first < 2) {
		uint64_t now = weir_clock_ns();
		if (now >= until)
			return false;
		futex_wake(&log->wake);
		futex_wait(&log->rounds, seen, until - now);
	}
	return true;
}

void weir_log_read_stats(const weir_log *log, weir_log_stats *ret_stats)
{
	weir_log_stats stats = {
		.lines = atomic_load(&log->lines),
		.dropped = atomic_load(&log->lost),
		.bytes = atomic_load(&log->written),
		.failures = atomic_load(&log->failures),
		.reopened = atomic_load(&log->reopened),
		.error = atomic_load(&log->error),
	};
	for (unsigned i = 0; i < log->rings; i++)
		stats.dropped += atomic_load_explicit(&log->ring[i].dropped, memory_order_relaxed);
	*ret_stats = stats;
}
