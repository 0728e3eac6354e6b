/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an offer costs on a reactor thread: admission, counting, the handler's call and the settling, with a handler that
 * does nothing else.
 *
 *	offer --mode inline|queued|shed [--law none|threshold|bucket] [--events N]
 *
 * A driver stage on the same thread offers in bursts. Inlined, one event is enough, and only the time inside the
 * bursts counts; queued, a burst of events is offered, all of them are handled, and all time counts, the loop's
 * included. The thread's CPU time is taken, so that other users of the core do not show.
 */
#include <pthread.h>

#include "world.h"

#define BURST 256

typedef struct run {
	weir_stage *driver, *target;
	weir_event drive, event[BURST];
	bool queued, shed;
	uint64_t left, outstanding; /* events to offer; offered and not handled */
	uint64_t begin_ns, spent_ns, unexpected;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool end; /* under lock */
} run;

static uint64_t thread_ns(void)
{
	return bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void end(run *r)
{
	if (r->queued)
		r->spent_ns = thread_ns() - r->begin_ns;
	pthread_mutex_lock(&r->lock);
	r->end = true;
	pthread_cond_signal(&r->ended);
	pthread_mutex_unlock(&r->lock);
}

static void handle_target(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	run *r = arg;

	for (size_t i = 0; i < count; i++)
		weir_done(events[i]);
	if (!r->queued)
		return;
	r->outstanding -= count;
	if (r->outstanding == 0 && weir_offer(r->driver, &r->drive) != WEIR_ADMITTED)
		r->unexpected++;
}

/* One event again and again: it is handled, and free, when the offer returns. */
static void burst_inline(run *r, size_t count)
{
	weir_verdict expected = r->shed ? WEIR_SHED_RATE : WEIR_ADMITTED;
	uint64_t begin_ns = thread_ns();

	for (size_t i = 0; i < count; i++)
		r->unexpected += weir_offer(r->target, &r->event[0]) != expected;
	r->spent_ns += thread_ns() - begin_ns;
}

static void burst_queued(run *r, size_t count)
{
	r->outstanding = count;
	for (size_t i = 0; i < count; i++)
		r->unexpected += weir_offer(r->target, &r->event[i]) != WEIR_ADMITTED;
}

static void handle_driver(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	run *r = arg;
	size_t burst = r->left < BURST ? r->left : BURST;

	if (r->begin_ns == 0)
		r->begin_ns = thread_ns();
	weir_done(events[0]);
	if (burst == 0) {
		end(r);
		return;
	}
	r->left -= burst;
	if (r->queued) {
		burst_queued(r, burst);
		return;
	}
	burst_inline(r, burst);
	if (weir_offer(r->driver, &r->drive) != WEIR_ADMITTED)
		r->unexpected++;
}

static void choose_law(weir_stage_options *options, const char *law, bool shed)
{
	static weir_threshold_params threshold = {
		.waiting = {1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000}};
	static weir_bucket_params bucket = {.rate_per_s = 1e9, .burst = 1e9};

	if (shed)
		bucket = (weir_bucket_params){.rate_per_s = 1e-6, .burst = 1};
	if (strcmp(law, "threshold") == 0) {
		options->admission = &weir_law_threshold;
		options->admission_params = &threshold;
	} else if (strcmp(law, "bucket") == 0) {
		options->admission = &weir_law_bucket;
		options->admission_params = &bucket;
	}
}

static void run_to_end(run *r)
{
	BENCH_REQUIRE(weir_offer(r->driver, &r->drive) == WEIR_ADMITTED);
	pthread_mutex_lock(&r->lock);
	while (!r->end)
		pthread_cond_wait(&r->ended, &r->lock);
	pthread_mutex_unlock(&r->lock);
}

int main(int argc, char **argv)
{
	uint64_t events = (uint64_t)bench_number(argv, "events", 1e6);
	const char *mode = bench_text(argv, "mode", "inline");
	/* A wide budget of time: under callgrind a burst takes fifty times as long and must still run inlined. */
	bench_world at = bench_world_new(10 * WEIR_NS_PER_S);
	weir_stage_options target = {.name = "target", .handle = handle_target, .capacity = 4096};
	weir_stage_options driver = {
		.name = "driver", .handle = handle_driver, .capacity = 16, .no_inline = true, .batch = 1};
	static run r = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
	weir_stage_stats stats;

	r.queued = strcmp(mode, "queued") == 0;
	r.shed = strcmp(mode, "shed") == 0;
	r.left = events;
	target.no_inline = r.queued;
	target.arg = driver.arg = &r;
	choose_law(&target, r.shed ? "bucket" : bench_text(argv, "law", "none"), r.shed);
	r.target = bench_stage(at, target);
	r.driver = bench_stage(at, driver);
	weir_event_init(&r.drive, 0);
	for (size_t i = 0; i < BURST; i++)
		weir_event_init(&r.event[i], 0);
	BENCH_CHECK(weir_world_start(at.world));
	if (r.shed)
		BENCH_REQUIRE(weir_offer(r.target, &r.event[1]) == WEIR_ADMITTED);
	run_to_end(&r);
	weir_stage_read(r.target, WEIR_ALL_CLASSES, &stats);
	printf("ns_per_event %.3f\nunexpected %llu\ninlined_share %.4f\n",
	       (double)r.spent_ns / (double)events, (unsigned long long)r.unexpected,
	       (double)stats.inlined / (double)events);
	bench_world_end(&at);
	return r.unexpected != 0;
}
