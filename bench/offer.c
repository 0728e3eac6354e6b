/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an offer costs on a reactor thread: admission, counting, the handler's call and the settling, with a handler that
 * does nothing else.
 *
 *	offer --mode inline|queued|shed [--law none|threshold|bucket|any other with a target] [--bursts N] [--burst 1..256] [--turn-ms T]
 *
 * A driver stage on the same thread offers in bursts, each in a loop turn of its own, so that none outlasts the turn's
 * budget of time. Inlined, one event is enough, and only the time inside the bursts counts; queued, a burst of
 * events is offered, all of them are handled, and all time counts, the loop's included. The thread's CPU time is
 * taken, so that other users of the core do not show.
 */
#include <pthread.h>

#include "world.h"

#define BURST_MAX 256

typedef struct run {
	weir_stage *driver, *target;
	weir_loop *loop;
	weir_post next; /* starts a burst */
	weir_event drive, event[BURST_MAX];
	bool queued, shed;
	size_t burst, left, outstanding; /* events a burst; bursts to come; events offered and not handled */
	uint64_t begin_ns, spent_ns, offered, unexpected;
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

/* As little as a handler can do. There is one event at a time. */
static void handle_one(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	((run *)arg)->outstanding = 0;
	weir_done(events[0]);
}

static void handle_many(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	run *r = arg;

	for (size_t i = 0; i < count; i++)
		weir_done(events[i]);
	r->outstanding -= count;
	if (r->outstanding == 0)
		weir_loop_post(r->loop, &r->next);
}

/* A new request each time: the laws count from its entry. */
static weir_verdict offer_anew(weir_stage *target, weir_event *event)
{
	event->entered_ns = 0;
	return weir_offer(target, event);
}

/*
 * One event again and again: it is handled, and free, when the offer returns. Unless the turn's time is up, because
 * somebody else had the core for a while: then it was queued, and the burst ends.
 */
static size_t offer_inline(run *r, weir_stage *target, size_t burst)
{
	size_t i, bad = 0;

	for (i = 0; i < burst && r->outstanding == 0; i++) {
		r->outstanding = 1;
		bad += offer_anew(target, &r->event[0]) != WEIR_ADMITTED;
	}
	r->unexpected += bad;
	return i;
}

static size_t offer_shed(run *r, weir_stage *target, size_t burst)
{
	size_t bad = 0;

	for (size_t i = 0; i < burst; i++)
		bad += weir_offer(target, &r->event[0]) != WEIR_SHED_RATE;
	r->unexpected += bad;
	return burst;
}

static void burst_inline(run *r)
{
	uint64_t begin_ns = thread_ns();

	r->offered += (r->shed ? offer_shed : offer_inline)(r, r->target, r->burst);
	r->spent_ns += thread_ns() - begin_ns;
}

static void burst_queued(run *r)
{
	r->outstanding = r->burst;
	for (size_t i = 0; i < r->burst; i++)
		if (offer_anew(r->target, &r->event[i]) != WEIR_ADMITTED) {
			r->unexpected++;
			r->outstanding--;
		}
	r->offered += r->burst;
	if (r->outstanding == 0)
		weir_loop_post(r->loop, &r->next);
}

static void handle_driver(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	run *r = arg;

	weir_done(events[0]);
	r->left--;
	if (r->queued) {
		burst_queued(r);
		return;
	}
	/* An event that was queued is handled before this turn ends, so before the next burst. */
	burst_inline(r);
	weir_loop_post(r->loop, &r->next);
}

static void next_burst(weir_post *post, void *arg)
{
	run *r = arg;

	if (r->begin_ns == 0)
		r->begin_ns = thread_ns();
	if (r->left == 0)
		end(r);
	else
		r->unexpected += weir_offer(r->driver, &r->drive) != WEIR_ADMITTED;
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
	} else if (strcmp(law, "none") != 0) {
		bench_law(options, law, "100ms");
	}
}

static void run_to_end(run *r)
{
	weir_loop_post(r->loop, &r->next);
	pthread_mutex_lock(&r->lock);
	while (!r->end)
		pthread_cond_wait(&r->ended, &r->lock);
	pthread_mutex_unlock(&r->lock);
}

int main(int argc, char **argv)
{
	const char *mode = bench_text(argv, "mode", "inline");
	/* Under callgrind a burst takes fifty times as long and needs a wider budget of time to run inlined. */
	bench_world at = bench_world_new((uint64_t)bench_number(argv, "turn-ms", 0) * WEIR_NS_PER_MS);
	weir_stage_options target = {.name = "target", .capacity = 4096};
	weir_stage_options driver = {.name = "driver", .handle = handle_driver, .capacity = 16};
	static run r = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
	weir_stage_stats stats;

	r.queued = strcmp(mode, "queued") == 0;
	r.shed = strcmp(mode, "shed") == 0;
	r.left = (size_t)bench_number(argv, "bursts", 4000);
	r.burst = (size_t)bench_number(argv, "burst", BURST_MAX);
	BENCH_REQUIRE(r.burst >= 1 && r.burst <= BURST_MAX);
	target.no_inline = r.queued;
	target.handle = r.queued ? handle_many : handle_one;
	target.arg = driver.arg = &r;
	choose_law(&target, r.shed ? "bucket" : bench_text(argv, "law", "none"), r.shed);
	r.target = bench_stage(at, target);
	r.driver = bench_stage(at, driver);
	weir_event_init(&r.drive, 0);
	for (size_t i = 0; i < BURST_MAX; i++)
		weir_event_init(&r.event[i], 0);
	BENCH_CHECK(weir_world_start(at.world));
	r.loop = weir_domain_loop(at.domain, 0);
	r.next = (weir_post){.run = next_burst, .arg = &r};
	if (r.shed) {
		/* The bucket's only token; its event is through before the first burst. */
		r.outstanding = 1;
		BENCH_REQUIRE(weir_offer(r.target, &r.event[1]) == WEIR_ADMITTED);
	}
	run_to_end(&r);
	weir_stage_read(r.target, WEIR_ALL_CLASSES, &stats);
	printf("ns_per_event %.3f\nunexpected %llu\ninlined_share %.4f\n",
	       (double)r.spent_ns / (double)r.offered, (unsigned long long)r.unexpected,
	       (double)stats.inlined / (double)r.offered);
	bench_world_end(&at);
	/* A law may refuse a few of the first burst, when it knows nothing. */
	return r.unexpected * 1000 > r.offered;
}
