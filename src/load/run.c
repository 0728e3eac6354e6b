/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of `weir load`: the signals that stop them, a single run with its screen, and the search for a
 * capacity.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/error.h"
#include "load/setup.h"

#define SCREEN_NS (500 * WEIR_NS_PER_MS)
#define LOOK_NS   (20 * WEIR_NS_PER_MS)
/* The seconds that a live screen shows. */
#define SCREEN_SECONDS 120u

/* ---- signals: blocked in all threads, and checked while waiting ---- */

static void stop_signals(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGTERM);
	sigaddset(ret, SIGHUP);
}

void load_signals_hold(void)
{
	sigset_t signals;
	stop_signals(&signals);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

bool load_signals_came(uint64_t wait_ns)
{
	sigset_t signals;
	const struct timespec wait = {.tv_sec = (time_t)(wait_ns / WEIR_NS_PER_S),
				      .tv_nsec = (long)(wait_ns % WEIR_NS_PER_S)};
	stop_signals(&signals);
	return sigtimedwait(&signals, NULL, &wait) > 0;
}

static double cpu_s(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* ---- one run ---- */

static int read_so_far(load_run *run, const load_engine *engine, double cpu_before_s)
{
	unsigned seconds = run->has_tally ? run->tally.seconds : 0;
	if (run->has_tally)
		load_tally_fini(&run->tally);
	run->has_tally = load_engine_tally(engine, &run->tally) == 0;
	if (!run->has_tally)
		return -ENOMEM;
	bool over = load_engine_is_over(engine);
	run->tally.without_paths = !over;
	run->tally.spread_from = !over && seconds > SCREEN_SECONDS ? seconds - SCREEN_SECONDS : 0;
	run->story.length_ns = load_engine_length(engine);
	load_engine_read(engine, &run->tally);
	run->story.tally = &run->tally;
	run->story.interrupted = run->interrupted;
	run->story.client_cpu_s = cpu_s() - cpu_before_s;
	return 0;
}

static int watch(load_run *run, load_engine *engine, load_screen *screen, double cpu_before_s)
{
	uint64_t draw_ns = weir_clock_ns() + SCREEN_NS;
	while (!load_engine_is_over(engine)) {
		if (load_signals_came(LOOK_NS)) {
			run->interrupted = true;
			load_engine_stop(engine);
		}
		if (screen == NULL || weir_clock_ns() < draw_ns)
			continue;
		draw_ns = weir_clock_ns() + SCREEN_NS;
		if (read_so_far(run, engine, cpu_before_s) == 0)
			load_screen_draw(screen, &run->story);
	}
	return read_so_far(run, engine, cpu_before_s);
}

/* A run that was measured and not written has failed: the rows cannot be had again. */
static int write_each(const char *path, const load_engine *engine)
{
	FILE *file = fopen(path, "we");
	if (file == NULL)
		return weir_error_set(-errno, "%s: %s", path, strerror(errno));
	uint64_t left_out = load_engine_each(engine, file);
	if (left_out > 0)
		fprintf(stderr, "weir load: %s: %llu rows were left out for want of memory\n", path,
			(unsigned long long)left_out);
	bool bad = ferror(file) != 0;
	bad = fclose(file) != 0 || bad;
	return bad ? weir_error_set(-EIO, "%s: it could not be written", path) : 0;
}

int load_run_do(load_run *run, load_screen *screen)
{
	load_engine *engine;
	double cpu_before_s = cpu_s();
	int error = load_engine_start(&run->plan, &engine);
	if (error == 0) {
		error = watch(run, engine, screen, cpu_before_s);
		if (error == 0 && run->each != NULL)
			error = write_each(run->each, engine);
		snprintf(run->tls_failure, sizeof(run->tls_failure), "%s", load_engine_tls_failure(engine));
		snprintf(run->failure, sizeof(run->failure), "%s", load_engine_failure(engine));
		load_engine_free(&engine);
	}
	if (error == 0 && screen != NULL)
		load_screen_draw(screen, &run->story);
	return error;
}

void load_run_free(load_run *run)
{
	load_schedule_free(&run->schedule);
	if (run->has_tally)
		load_tally_fini(&run->tally);
	run->has_tally = false;
}

/* ---- the capacity ---- */

#define STEP_NS   (WEIR_NS_PER_S * 3 / 2)
#define USERS_MAX 4096u
/* 1 to 4096 users, and the best twice more. */
_Static_assert(LOAD_STEPS_MAX >= 13 + 2, "the steps of a search");
/* A smaller gain is noise. */
#define GAIN 1.05

static void keep_step(load_search *search, const load_run *run, unsigned users)
{
	const load_group *all = &run->tally.all;
	double ok = (double)all->ended[LOAD_OK];
	if (search->steps == LOAD_STEPS_MAX)
		return;
	search->step[search->steps++] =
		(load_step){.users = users,
			    .per_s = run->story.length_ns > 0 ? ok * 1e9 / (double)run->story.length_ns : 0,
			    .mean_ms = ok > 0 ? (double)all->response_sum_ns / 1e6 / ok : 0,
			    .interrupted = run->interrupted};
	search->interrupted = run->interrupted;
}

static void tell_step(FILE *out, const load_step *step)
{
	fprintf(out, "capacity: %4u users: %10.1f answers/s, mean %.3f ms%s\n", step->users, step->per_s,
		step->mean_ms, step->interrupted ? ", interrupted" : "");
}

/* Answers per second of a closed run with this many users. */
static int measure(load_setup *setup, const load_work *work, unsigned users, FILE *out, double *ret_per_s)
{
	load_search *search = &setup->search;
	load_run run;
	int error = load_run_plan_closed(setup, work, users, STEP_NS, &run);
	if (error == 0)
		error = load_run_do(&run, NULL);
	if (error == 0 && run.failure[0] != '\0')
		error = weir_error_set(-EIO, "%s", run.failure);
	if (error == 0) {
		keep_step(search, &run, users);
		*ret_per_s = search->step[search->steps - 1].per_s;
		if (out != NULL)
			tell_step(out, &search->step[search->steps - 1]);
		if (run.interrupted)
			error = weir_error_set(-EINTR, "interrupted");
	}
	load_run_free(&run);
	return error;
}

static double middle(double a, double b, double c)
{
	double low = a < b ? a : b, high = a < b ? b : a;
	return c < low ? low : c > high ? high : c;
}

/*
 * Doubles the users until two consecutive steps gave no more. Then the best step is measured twice more,
 * and the median counts.
 */
static int climb(load_setup *setup, const load_work *work, FILE *out, double *ret_per_s)
{
	double best = 0, per_s = 0, again[2];
	unsigned best_users = 1, without = 0;
	for (unsigned users = 1; users <= USERS_MAX && without < 2; users *= 2) {
		int error = measure(setup, work, users, out, &per_s);
		if (error != 0)
			return error;
		without = per_s > best * GAIN ? 0 : without + 1;
		if (per_s > best * GAIN || best == 0) {
			best = per_s;
			best_users = users;
		}
	}
	for (unsigned i = 0; i < 2; i++) {
		int error = measure(setup, work, best_users, out, &again[i]);
		if (error != 0)
			return error;
	}
	*ret_per_s = middle(best, again[0], again[1]);
	if (*ret_per_s <= 0)
		return weir_error_set(-EIO, "no capacity can be found: there was no successful answer");
	if (out != NULL)
		fprintf(out, "capacity: %.1f answers/s, of %u users\n", *ret_per_s, best_users);
	return 0;
}

int load_find_capacity(load_setup *setup, FILE *out)
{
	load_habits habits = setup->options->habits;
	load_work *work = NULL;
	habits.origin = setup->place.origin;
	habits.think_ns = 0;
	habits.requests = 0;
	setup->searched = true;
	int error = load_setup_work(setup, &habits, &work);
	if (error == 0)
		error = climb(setup, work, out, &setup->capacity);
	load_work_free(&work);
	return error;
}
