/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_H
#define WEIR_SIM_H

/*
 * The virtual world: the same stages, queues, laws and handlers, on one thread, under a clock that jumps
 * from timer to timer. It is made with weir_world_options.simulated. Two runs with the same seed are
 * identical. The clock starts at one second, because 0 means "no time".
 *
 * Work is modelled by holding. A handler that would compute or block for a while calls weir_finish_after,
 * or holds the event and settles it from a timer. In an elastic domain every event has a thread to
 * itself, from its start until it is settled, and batches have one event. A stage's concurrency bound
 * works as in the real world. Timers are started with NULL as the loop, or with weir_sim_timer.
 *
 * Threads: one, the same for all calls of a world.
 */

#include <weir/loop.h>
#include <weir/random.h>
#include <weir/stage.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs until the clock reaches until_ns. Returns how many timers fired, including the world's own. */
WEIR_API uint64_t weir_sim_run(weir_world *world, uint64_t until_ns);
/* Starts a timer on the world's clock. */
WEIR_API void weir_sim_timer(weir_world *world, weir_timer *timer, uint64_t at_ns);
/* The world's random number generator. */
WEIR_API weir_random *weir_sim_random(weir_world *world);

/*
 * From a handler: holds the event and settles it as done after delay_ns. The timer is next to the event
 * in your struct and needs no init. On a real thread of an elastic domain, which may block, this sleeps
 * and then settles. There is no notification: if something must be done or freed at the end, hold the
 * event and settle it from a timer of your own.
 */
WEIR_API void weir_finish_after(weir_event *event, weir_timer *timer, uint64_t delay_ns);

/*
 * From a handler of a pool: cpu_ns of its work is processor time, the rest is waiting. If it is never
 * called, the pool's law has no processor times.
 */
WEIR_API void weir_sim_cpu(weir_stage *stage, uint64_t cpu_ns);

/* ---- arrivals: a function is called at seeded times ---- */

typedef struct weir_arrivals weir_arrivals;
typedef void weir_arrive_fn(weir_arrivals *arrivals, void *arg);

typedef enum weir_arrival_kind { WEIR_CONSTANT, WEIR_POISSON } weir_arrival_kind;

struct weir_arrivals {
	weir_timer timer;
	weir_world *world;
	weir_arrival_kind kind;
	double per_s;   /* 0: paused */
	uint64_t count; /* so far */
	weir_arrive_fn *arrive;
	void *arg;
};

/* Starts arrivals that are not running, now. The rate can be changed at any time. */
WEIR_API void weir_arrivals_start(weir_arrivals *arrivals, weir_world *world, weir_arrival_kind kind,
				  double per_s, weir_arrive_fn *arrive, void *arg);
/* Changes the rate from now on. */
WEIR_API void weir_arrivals_rate(weir_arrivals *arrivals, double per_s);
/* No more arrivals; they can be started again. */
WEIR_API void weir_arrivals_stop(weir_arrivals *arrivals);

#ifdef __cplusplus
}
#endif
#endif
