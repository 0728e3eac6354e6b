/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ON_ENGINE_H
#define TESTS_ON_ENGINE_H

/* A run of the load generator against a server of the test ("r"), which begins before it and ends after it. */

#include "support/check.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "load/engine.h"

typedef struct rig {
	load_place place;
	load_habits habits;
	load_work *work;
	load_schedule *schedule;
	load_plan plan;
	load_engine *engine;
	load_tally tally;
} rig;

static rig r;

/* A listener on loopback; where, in *ret_at. */
static inline int listen_anywhere(struct sockaddr_in *ret_at)
{
	socklen_t length = sizeof(*ret_at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	*ret_at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(bind(listener, (struct sockaddr *)ret_at, sizeof(*ret_at)), 0);
	assert_int_equal(listen(listener, 128), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)ret_at, &length), 0);
	return listener;
}

/* count arrivals within so many milliseconds, each a user with one request; one thread. */
static inline void rig_prepare(const struct sockaddr_in *at, unsigned count, unsigned ms)
{
	memset(&r, 0, sizeof(r));
	const load_phase phase = {.length_ns = ms * WEIR_NS_PER_MS, .rate = count * 1000.0 / ms};
	assert_int_equal(load_schedule_phases(&phase, 1, false, false, UINT64_MAX, &r.schedule), 0);
	strcpy(r.place.authority, "test");
	memcpy(&r.place.address.at, at, sizeof(*at));
	r.place.address.length = sizeof(*at);
	r.habits.requests = 1;
	r.plan = (load_plan){.schedule = r.schedule,
			     .place = &r.place,
			     .threads = 1,
			     .connections = 1,
			     .seed = 1,
			     .duration_ns = UINT64_MAX,
			     .drain_ns = 10 * WEIR_NS_PER_S,
			     .timeout_ns = 60 * WEIR_NS_PER_S,
			     .patience_ns = UINT64_MAX,
			     .target_ns = UINT64_MAX};
}

static inline uint64_t ends(void)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < LOAD_ENDS; i++)
		sum += r.tally.all.ended[i];
	return sum;
}

static inline int rig_begin(void)
{
	int error = load_work_url(&r.habits, "/page", &r.work);
	r.plan.work = r.work;
	return error == 0 ? load_engine_start(&r.plan, &r.engine) : error;
}

static inline void rig_look(void)
{
	load_tally_fini(&r.tally);
	assert_int_equal(load_engine_tally(r.engine, &r.tally), 0);
	load_engine_read(r.engine, &r.tally);
}

/* Waits for the end of a run that has begun: what was sent has ended in some way, or is open. */
static inline void rig_await(void)
{
	CHECK_EVENTUALLY(load_engine_is_over(r.engine));
	rig_look();
	assert_int_equal(r.tally.all.sent, ends() + r.tally.open);
}

/* A run whose nth allocation fails: it does not begin, or it comes to its end. */
static inline void rig_run_without_memory(uint64_t nth)
{
	assert_int_equal(load_work_url(&r.habits, "/", &r.work), 0);
	r.plan.work = r.work;
	weir_mem_fail_after(nth);
	int error = load_engine_start(&r.plan, &r.engine);
	assert_true(error == 0 || error == -ENOMEM);
	if (error == 0)
		CHECK_EVENTUALLY(load_engine_is_over(r.engine));
	weir_mem_fail_after(0);
}

static inline void rig_finish(void)
{
	load_tally_fini(&r.tally);
	load_engine_free(&r.engine);
	load_schedule_free(&r.schedule);
	load_work_free(&r.work);
}

#endif
