/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What overload does to a service, without and with admission control.
 *
 * The service is a stage on four threads that blocks for 10 ms a request, so it can do 400 a second and no more. It is
 * offered from half to ten times that, open-loop: requests come when they come, whether or not earlier ones are done, as
 * from a crowd. First it has a long queue and nothing else; then a threshold law sheds while enough requests wait.
 *
 *	overload [SECONDS]     how long each load lasts; 2 when not given
 */

#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <weir/weir.h>

enum {
	THREADS = 4,
	SERVICE_MS = 10,
	CAPACITY_PER_S = THREADS * 1000 / SERVICE_MS,
	PATIENCE_MS = 100,
	WAITING_MAX = 24
};

static const double loads[] = {0.5, 1, 2, 5, 10};
enum { LOADS = sizeof(loads) / sizeof(loads[0]) };

/* A service under one load, made anew for each so that no row carries the backlog of the one before. */
typedef struct service {
	weir_world *world;
	weir_stage *stage;
	weir_event *requests; /* one each for all that may come */
	size_t size;          /* of requests */
	size_t offered;
	atomic_uint_fast64_t in_time; /* done before people lose patience */
	uint64_t began_ns;
} service;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signo)
{
	interrupted = 1;
}

static void sleep_until(uint64_t at_ns)
{
	struct timespec at = {(time_t)(at_ns / WEIR_NS_PER_S), (long)(at_ns % WEIR_NS_PER_S)};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* Stands for a database call, a disk, another service: it takes its time, and its thread with it. */
static void serve(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	service *s = arg;
	for (size_t i = 0; i < count; i++) {
		struct timespec work = {.tv_nsec = SERVICE_MS * 1000000L};
		nanosleep(&work, NULL);
		if (weir_world_now(s->world) - events[i]->entered_ns <= PATIENCE_MS * WEIR_NS_PER_MS)
			atomic_fetch_add(&s->in_time, 1);
		weir_done(events[i]);
	}
}

/* Only what still waits at the end of a load is dropped; it lives in the array, so there is nothing to free. */
static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
}

static void start(service *s, double load, double seconds, bool shed)
{
	weir_threshold_params threshold = {.waiting = {WAITING_MAX}};
	weir_domain_options threads = {
		.name = "threads", .kind = WEIR_ELASTIC, .min_threads = THREADS, .max_threads = THREADS};
	weir_domain *domain;

	*s = (service){.size = (size_t)(load * CAPACITY_PER_S * seconds) + 1};
	s->requests = calloc(s->size, sizeof(*s->requests));
	if (s->requests == NULL)
		err(1, "overload");
	weir_stage_options options = {.name = "service",
				      .handle = serve,
				      .drop = drop,
				      .arg = s,
				      .capacity = (uint32_t)s->size,
				      .batch = 1,
				      .admission = shed ? &weir_law_threshold : NULL,
				      .admission_params = &threshold};
	if (weir_world_new(NULL, &s->world) || weir_domain_new(s->world, &threads, &domain) ||
	    weir_stage_new(domain, &options, &s->stage) || weir_world_start(s->world))
		errx(1, "%s", weir_error());
	s->began_ns = weir_world_now(s->world);
}

/* Nobody wants what still waits: cancelled, it is dropped as its turn comes, and the stop takes 10 ms. */
static void stop(service *s)
{
	for (size_t i = 0; i < s->offered; i++)
		weir_event_cancel(&s->requests[i]);
	if (weir_world_stop(s->world, 5 * WEIR_NS_PER_S, NULL))
		errx(1, "%s", weir_error());
	weir_world_free(&s->world);
	free(s->requests);
}

static void print_row(const service *s, double load, const char *end)
{
	weir_stage_stats stats;
	double seconds = (double)(weir_world_now(s->world) - s->began_ns) / 1e9;

	weir_stage_read(s->stage, WEIR_ALL_CLASSES, &stats);
	printf("%5.1fx %10.0f %11.0f %8.0f %12.0f %15.0f %8.0f ms %8.0f ms%s", load,
	       (double)stats.offered / seconds, (double)stats.admitted / seconds,
	       (double)stats.shed / seconds, (double)stats.completed / seconds,
	       (double)atomic_load(&s->in_time) / seconds,
	       (double)weir_stage_quantile(s->stage, WEIR_ALL_CLASSES, WEIR_RESPONSE, 0.5) / 1e6,
	       (double)weir_stage_quantile(s->stage, WEIR_ALL_CLASSES, WEIR_RESPONSE, 0.9) / 1e6, end);
	fflush(stdout);
}

/*
 * Offers requests at their times. A request counts from when it was due, not from when this thread got round to it: else a
 * generator that falls behind would flatter the service.
 */
static void offer_until(service *s, uint64_t until_ns, uint64_t gap_ns)
{
	while (s->offered < s->size && !interrupted) {
		uint64_t due_ns = s->began_ns + s->offered * gap_ns;
		if (due_ns >= until_ns)
			break;
		if (due_ns > weir_world_now(s->world))
			sleep_until(due_ns);
		weir_event *request = &s->requests[s->offered++];
		weir_event_init(request, 0);
		request->entered_ns = due_ns;
		weir_offer(s->stage, request);
	}
	if (!interrupted)
		sleep_until(until_ns);
}

/* Returns how many a second were done in time. */
static double run(double load, double seconds, bool shed)
{
	service s;
	uint64_t gap_ns = (uint64_t)((double)WEIR_NS_PER_S / (load * CAPACITY_PER_S));

	start(&s, load, seconds, shed);
	uint64_t end_ns = s.began_ns + (uint64_t)(seconds * 1e9);
	for (uint64_t now_ns = s.began_ns; now_ns < end_ns && !interrupted;) {
		now_ns += 200 * WEIR_NS_PER_MS;
		offer_until(&s, now_ns < end_ns ? now_ns : end_ns, gap_ns);
		if (isatty(STDOUT_FILENO))
			print_row(&s, load, "\r");
	}
	print_row(&s, load, "\n");
	double in_time_per_s = (double)atomic_load(&s.in_time) / seconds;
	stop(&s);
	return in_time_per_s;
}

static double run_all(const char *title, double seconds, bool shed)
{
	double last = 0;

	printf("\n%s\n%6s %10s %11s %8s %12s %15s %11s %11s\n", title, "load", "offered/s", "admitted/s",
	       "shed/s", "completed/s", "within 100 ms/s", "p50", "p90");
	for (size_t i = 0; i < LOADS && !interrupted; i++)
		last = run(loads[i], seconds, shed);
	return last;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 2;
	if (argc > 2 || !(seconds > 0 && seconds <= 60))
		errx(2, "usage: overload [SECONDS]; up to 60 for each load");

	struct sigaction action = {.sa_handler = on_interrupt};
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);

	setvbuf(stdout, NULL, _IOLBF, 0); /* rows come out as they are made, into a pipe too */
	printf("A service on %d threads that blocks for %d ms a request: it can do %d a second.\n", THREADS,
	       SERVICE_MS, CAPACITY_PER_S);
	double without = run_all(
		"With a long queue and nothing else; the times grow for as long as the load lasts:", seconds,
		false);
	double with = run_all(
		"With the same queue, and a threshold law that sheds while 24 wait; the times hold:", seconds,
		true);
	if (interrupted)
		return 128 + SIGINT;
	printf("\nAt ten times the load the service can bear, %.0f of its %d requests a second were "
	       "answered\n"
	       "within %d ms with the queue alone, and %.0f with admission control.\n",
	       without, CAPACITY_PER_S, PATIENCE_MS, with);
	return 0;
}
