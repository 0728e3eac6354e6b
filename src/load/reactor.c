/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of a run: turns its loop, sends what is due, and stops in time. */
#include "load/reactor.h"

#include <errno.h>
#include <sys/prctl.h>

#include "base/error.h"
#include "base/mix.h"
#include "loop/loop.h"

#define WAIT_MOST_NS (100 * WEIR_NS_PER_MS)
/* Sent at once, so that answers are read in between, however late the arrivals are. */
#define ARRIVALS_A_TURN 64
#define MISSED_MOST     10000000u

static unsigned share(unsigned of, unsigned number, unsigned threads)
{
	return of / threads + (number < of % threads);
}

static unsigned seconds_of(const load_plan *plan)
{
	const uint64_t most = 7200;
	if (plan->duration_ns == UINT64_MAX)
		return (unsigned)most;
	uint64_t seconds = (plan->duration_ns + plan->drain_ns) / WEIR_NS_PER_S + 2;
	return (unsigned)(seconds < most ? seconds : most);
}

int load_reactor_init(load_reactor *reactor, struct load_engine *engine, const load_plan *plan,
		      unsigned number)
{
	reactor->engine = engine;
	reactor->plan = plan;
	reactor->number = number;
	reactor->users = share(plan->users, number, plan->threads);
	reactor->conns_max = share(plan->connections, number, plan->threads);
	reactor->keeps = plan->schedule == NULL && reactor->conns_max >= reactor->users;
	reactor->streams = plan->streams > 1 && plan->http2 && !reactor->keeps ? plan->streams : 1;
	reactor->kept_bytes = load_work_wants_bodies(plan->work);
	reactor->shows = plan->cookies || reactor->kept_bytes > 0;
	reactor->waiting_end = &reactor->waiting;
	reactor->source = number;
	weir_random_init(&reactor->random, weir_mix(plan->seed + number * WEIR_MIX_STEP));
	int error = load_tally_init(&reactor->tally, load_work_classes(plan->work),
				    load_work_paths(plan->work), plan->target_ns, seconds_of(plan));
	if (error != 0)
		return error;
	error = weir_loop_new(&reactor->loop);
	if (error != 0) {
		load_tally_fini(&reactor->tally);
		return error;
	}
	reactor->clock = weir_loop_clock(reactor->loop);
	weir_pool_init(&reactor->conn_pool, sizeof(load_conn));
	weir_pool_init(&reactor->exchange_pool, sizeof(load_exchange));
	weir_pool_init(&reactor->session_pool, sizeof(load_session));
	load_bytes_init(&reactor->bytes, plan->place->authority, plan->per_connection == 1);
	return 0;
}

void load_reactor_fini(load_reactor *reactor)
{
	weir_loop_free(&reactor->loop);
	weir_pool_fini(&reactor->conn_pool);
	weir_pool_fini(&reactor->exchange_pool);
	weir_pool_fini(&reactor->session_pool);
	load_bytes_fini(&reactor->bytes);
	load_each_fini(&reactor->each);
	load_tally_fini(&reactor->tally);
}

/* ---- arrivals ---- */

static void next_arrival(load_reactor *reactor)
{
	uint64_t at_ns = load_arrivals_next(&reactor->arrivals);
	reactor->arrival_ns = at_ns < UINT64_MAX - reactor->start_ns ? reactor->start_ns + at_ns : UINT64_MAX;
}

static uint64_t user_ns(const load_reactor *reactor)
{
	if (reactor->users_begun == reactor->users)
		return UINT64_MAX;
	double part = (double)reactor->users_begun / (double)reactor->users;
	return reactor->start_ns + (uint64_t)(part * (double)reactor->plan->stagger_ns);
}

/* Not all at once: each of them makes a connection. */
static void begin_users(load_reactor *reactor, uint64_t now_ns)
{
	for (unsigned i = 0; i < ARRIVALS_A_TURN && user_ns(reactor) <= now_ns; i++) {
		if (reactor->connecting >= ARRIVALS_A_TURN)
			return;
		reactor->users_begun++;
		load_session_begin(reactor, load_now(reactor), 0);
	}
}

static bool is_due(const load_reactor *reactor, uint64_t now_ns)
{
	return !load_engine_is_spent(reactor) && reactor->arrival_ns <= now_ns &&
	       reactor->arrival_ns < reactor->end_ns;
}

/* True: more are due. */
static bool begin_arrivals(load_reactor *reactor, uint64_t now_ns)
{
	for (unsigned i = 0; i < ARRIVALS_A_TURN && is_due(reactor, now_ns); i++) {
		uint64_t at_ns = reactor->arrival_ns, number = reactor->arrivals.number;
		next_arrival(reactor);
		if (at_ns >= reactor->measure_ns)
			load_tally_behind(&reactor->tally, now_ns - at_ns);
		load_session_begin(reactor, at_ns, number);
	}
	return is_due(reactor, now_ns);
}

/* ---- the end ---- */

/*
 * Counts arrivals that were due before the end and never processed. The number is limited, so that
 * counting takes only a moment.
 */
static void count_missed(load_reactor *reactor)
{
	if (load_engine_is_spent(reactor))
		reactor->arrival_ns = UINT64_MAX;
	for (unsigned i = 0; i < MISSED_MOST && reactor->arrival_ns < reactor->end_ns; i++) {
		if (reactor->arrival_ns >= reactor->measure_ns) {
			weir_hist_bump(&reactor->tally.missed, 1);
			weir_hist_bump(&reactor->tally.unsent, 1);
		}
		next_arrival(reactor);
	}
	reactor->arrival_ns = UINT64_MAX;
}

/*
 * From now on there are no arrivals, and users who think do not return. What was due before is still
 * sent, even if late.
 */
static void end_arrivals(load_reactor *reactor)
{
	uint64_t now_ns = load_now(reactor);
	load_session *next;
	reactor->end_ns = now_ns < reactor->end_ns ? now_ns : reactor->end_ns;
	reactor->users = reactor->users_begun;
	reactor->ending = true;
	for (load_session *session = reactor->all; session != NULL; session = next) {
		next = session->all_next;
		if (weir_timer_pending(&session->timer) && session->link_in == NULL && !session->sent)
			load_session_free(session);
	}
}

/* Requests that should have been sent and were not will never be. */
static void give_up(load_reactor *reactor)
{
	count_missed(reactor);
	load_tally_open(&reactor->tally, load_now(reactor) - reactor->measure_ns, reactor->open);
	reactor->stopped = true;
	while (reactor->all != NULL) {
		const load_session *session = reactor->all;
		if (session->counted && session->sent)
			load_tally_unanswered(&reactor->tally, load_now(reactor) - session->meant_ns);
		else if (session->counted)
			weir_hist_bump(&reactor->tally.unsent, 1);
		load_session_free(reactor->all);
	}
}

static void clean_up(load_reactor *reactor)
{
	load_client_pump(reactor);
	while (reactor->roomy != NULL)
		load_client_drop(reactor->roomy);
	while (reactor->conns > 0 && weir_loop_turn(reactor->loop, WAIT_MOST_NS) == 0)
		;
	weir_loop_end(reactor->loop);
}

/* ---- the thread ---- */

static void count_second(load_reactor *reactor, uint64_t now_ns)
{
	if (now_ns < reactor->second_ns)
		return;
	load_tally_open(&reactor->tally, reactor->second_ns - reactor->measure_ns, reactor->open);
	while (reactor->second_ns <= now_ns)
		reactor->second_ns += WEIR_NS_PER_S;
}

static uint64_t wait_of(load_reactor *reactor, uint64_t until_ns)
{
	uint64_t now_ns = load_now(reactor), user = user_ns(reactor), at_ns = now_ns + WAIT_MOST_NS;
	at_ns = until_ns < at_ns ? until_ns : at_ns;
	at_ns = reactor->arrival_ns < at_ns && reactor->arrival_ns < reactor->end_ns ? reactor->arrival_ns
										     : at_ns;
	/* Users whose time has come wait for connections: the loop will wake us. */
	at_ns = user < at_ns && user > now_ns ? user : at_ns;
	return at_ns > now_ns ? at_ns - now_ns : 0;
}

static bool nobody_comes(const load_reactor *reactor)
{
	if (reactor->all == NULL && load_engine_is_spent(reactor))
		return true;
	return reactor->end_ns == UINT64_MAX && reactor->plan->schedule != NULL &&
	       reactor->arrival_ns == UINT64_MAX && reactor->all == NULL;
}

static void send_until_end(load_reactor *reactor, const atomic_bool *stop)
{
	uint64_t now_ns = load_now(reactor);
	while (now_ns < reactor->end_ns && !atomic_load_explicit(stop, memory_order_relaxed) &&
	       !nobody_comes(reactor)) {
		bool more = begin_arrivals(reactor, now_ns);
		if (reactor->users_begun < reactor->users)
			begin_users(reactor, now_ns);
		more |= load_client_pump(reactor);
		weir_loop_turn(reactor->loop, more ? 0 : wait_of(reactor, reactor->end_ns));
		now_ns = load_now(reactor);
		count_second(reactor, now_ns);
	}
}

static void drain(load_reactor *reactor)
{
	uint64_t now_ns = load_now(reactor), until_ns = now_ns + reactor->plan->drain_ns;
	while ((reactor->all != NULL || is_due(reactor, now_ns)) && now_ns < until_ns) {
		bool more = begin_arrivals(reactor, now_ns);
		more |= load_client_pump(reactor);
		weir_loop_turn(reactor->loop, more ? 0 : wait_of(reactor, until_ns));
		now_ns = load_now(reactor);
		count_second(reactor, now_ns);
	}
}

void load_reactor_run(load_reactor *reactor, const atomic_bool *stop)
{
	const load_plan *plan = reactor->plan;
	/* Otherwise the kernel may wake us 50 us later than asked. */
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	weir_clock_turn(reactor->clock);
	reactor->arrival_ns = UINT64_MAX;
	reactor->second_ns = reactor->measure_ns + WEIR_NS_PER_S;
	if (plan->schedule != NULL) {
		load_arrivals_start(&reactor->arrivals, plan->schedule, reactor->number, plan->threads,
				    weir_random_u64(&reactor->random));
		next_arrival(reactor);
	}
	weir_loop_set_self(reactor->loop);
	send_until_end(reactor, stop);
	end_arrivals(reactor);
	drain(reactor);
	give_up(reactor);
	atomic_store(&reactor->over, true);
	clean_up(reactor);
	weir_loop_set_self(NULL);
}
