/* SPDX-License-Identifier: Apache-2.0 */
/* Active users: what they request next, when, and what they do when it fails. */
#include "base/mix.h"
#include "load/reactor.h"
#include "loop/loop.h"

/* After a failed connect the user pauses before it tries again, or a closed run would do nothing else. */
#define REFUSED_PAUSE_NS (10 * WEIR_NS_PER_MS)
#define BACKOFF_STEPS    10

static uint64_t since(const load_reactor *reactor, uint64_t at_ns)
{
	return at_ns > reactor->measure_ns ? at_ns - reactor->measure_ns : 0;
}

/* ---- due times ---- */

/* If the session waits for a connection, its patience is over. */
static void timer_fired(weir_timer *timer, void *arg)
{
	load_session *session = arg;
	if (session->link_in == NULL) {
		if (session->counted)
			load_tally_behind(&session->reactor->tally,
					  load_now(session->reactor) - session->due_ns);
		load_client_send(session);
		return;
	}
	const load_outcome outcome = {.end = LOAD_ABORTED, .ended_ns = load_now(session->reactor)};
	load_client_unwait(session);
	load_session_over(session, &outcome);
}

void load_session_waits(load_session *session)
{
	load_reactor *reactor = session->reactor;
	uint64_t patience_ns = reactor->plan->patience_ns;
	if (patience_ns < UINT64_MAX - session->due_ns)
		weir_timer_start(reactor->loop, &session->timer, session->due_ns + patience_ns);
}

static void be_due_at(load_session *session, uint64_t at_ns)
{
	load_reactor *reactor = session->reactor;
	session->due_ns = at_ns;
	if (at_ns <= load_now(reactor))
		load_client_send(session);
	else
		weir_timer_start(reactor->loop, &session->timer, at_ns);
}

static void start_user(load_session *session, uint64_t number)
{
	load_reactor *reactor = session->reactor;
	load_user_start_at(reactor->plan->work, &session->user, weir_random_u64(&reactor->random), number);
}

/* The request is meant for from_ns plus the think time that the work asks for. */
static void plan_request(load_session *session, const load_next *next, uint64_t from_ns)
{
	session->form = next->form;
	session->target = next->target;
	session->cookies = next->cookies;
	session->meant_ns = from_ns + next->think_ns;
	session->attempt = 0;
	session->counted = session->meant_ns >= session->reactor->measure_ns;
	session->sent = false;
	if (session->counted && !load_engine_take(session->reactor)) {
		session->counted = false;
		load_session_free(session);
		return;
	}
	be_due_at(session, session->meant_ns);
}

/* A closed run has a constant number of users: when a session is over, another begins. */
static void go_on(load_session *session, const load_seen *seen, uint64_t from_ns)
{
	load_reactor *reactor = session->reactor;
	const load_work *work = reactor->plan->work;
	load_next next = {0};
	load_user_next(work, &session->user, seen, &next);
	if (next.form == NULL && reactor->plan->schedule == NULL) {
		load_user_end(work, &session->user);
		start_user(session, 0);
		load_user_next(work, &session->user, NULL, &next);
	}
	if (next.form == NULL)
		load_session_free(session);
	else
		plan_request(session, &next, from_ns);
}

void load_session_begin(load_reactor *reactor, uint64_t at_ns, uint64_t number)
{
	if (load_engine_is_spent(reactor))
		return;
	load_session *session =
		reactor->sessions < LOAD_SESSIONS_MAX ? weir_pool_take(&reactor->session_pool) : NULL;
	if (session == NULL) {
		if (at_ns >= reactor->measure_ns)
			weir_hist_bump(&reactor->tally.unsent, 1);
		return;
	}
	*session = (load_session){
		.reactor = reactor, .number = number, .all_next = reactor->all, .all_link = &reactor->all};
	if (reactor->all != NULL)
		reactor->all->all_link = &session->all_next;
	reactor->all = session;
	reactor->sessions++;
	if (reactor->plan->schedule == NULL)
		weir_hist_bump(&reactor->tally.users, 1);
	weir_timer_init(&session->timer, timer_fired, session);
	start_user(session, number);
	go_on(session, NULL, at_ns);
}

void load_session_free(load_session *session)
{
	load_reactor *reactor = session->reactor;
	weir_timer_stop(&session->timer);
	load_client_unwait(session);
	load_client_part(session);
	load_user_end(reactor->plan->work, &session->user);
	*session->all_link = session->all_next;
	if (session->all_next != NULL)
		session->all_next->all_link = session->all_link;
	reactor->sessions--;
	weir_pool_give(&reactor->session_pool, session);
}

/* ---- outcomes ---- */

void load_session_sent(load_session *session, uint64_t now_ns)
{
	load_reactor *reactor = session->reactor;
	if (session->sent || !session->counted)
		return;
	session->sent = true;
	reactor->open++;
	load_tally_sent(&reactor->tally, session->form->klass, session->form->path,
			since(reactor, session->meant_ns), since(reactor, now_ns));
}

static void keep_row(load_session *session, const load_result *result)
{
	const load_each_row row = {.number = session->number,
				   .meant_ns = result->meant_ns,
				   .first_byte_ns = result->first_byte_ns,
				   .ended_ns = result->ended_ns,
				   .bytes = result->bytes,
				   .attempts = session->attempt + 1,
				   .end = result->end};
	load_each_add(&session->reactor->each, &row);
}

static void count_end(load_session *session, const load_outcome *outcome)
{
	load_reactor *reactor = session->reactor;
	if (!session->counted)
		return;
	const load_result result = {.end = outcome->end,
				    .error = outcome->error,
				    .klass = session->form->klass,
				    .path = session->form->path,
				    .status = outcome->status,
				    .meant_ns = since(reactor, session->meant_ns),
				    .first_byte_ns = since(reactor, outcome->first_byte_ns),
				    .ended_ns = since(reactor, outcome->ended_ns),
				    .bytes = outcome->bytes};
	load_session_sent(session, outcome->ended_ns);
	reactor->open--;
	reactor->last_ns = outcome->ended_ns;
	load_tally_ended(&reactor->tally, &result);
	if (reactor->plan->each)
		keep_row(session, &result);
	if (reactor->plan->schedule == NULL && outcome->end == LOAD_OK)
		load_tally_user(&reactor->tally, session->answers++);
}

static uint64_t told_to_wait(const load_session *session, const load_outcome *outcome)
{
	return session->reactor->plan->obey_retry_after && outcome->end == LOAD_SHED
		       ? outcome->retry_after_s * WEIR_NS_PER_S
		       : 0;
}

/* Doubles each time, with jitter: between half and one and a half times that. */
static uint64_t backoff(const load_session *session)
{
	load_reactor *reactor = session->reactor;
	unsigned doublings = session->attempt < BACKOFF_STEPS ? session->attempt : BACKOFF_STEPS;
	double ns = (double)reactor->plan->backoff_ns * (double)(1u << doublings);
	return (uint64_t)(ns * (0.5 + weir_random_unit(&reactor->random)));
}

static bool tries_again(const load_session *session, const load_outcome *outcome)
{
	bool for_nothing = outcome->end != LOAD_OK && outcome->error != LOAD_ERROR_STATUS;
	return for_nothing && session->attempt < session->reactor->plan->retries;
}

static void try_again(load_session *session, const load_outcome *outcome)
{
	load_reactor *reactor = session->reactor;
	uint64_t wait_ns = backoff(session), told_ns = told_to_wait(session, outcome);
	if (wait_ns < REFUSED_PAUSE_NS && outcome->error == LOAD_ERROR_CONNECT)
		wait_ns = REFUSED_PAUSE_NS;
	session->attempt++;
	load_session_sent(session, outcome->ended_ns);
	if (session->counted)
		load_tally_retried(&reactor->tally, session->form->klass, session->form->path,
				   outcome->status);
	be_due_at(session, outcome->ended_ns + (told_ns > wait_ns ? told_ns : wait_ns));
}

void load_session_over(load_session *session, const load_outcome *outcome)
{
	load_seen seen = {.status = outcome->status};
	if (tries_again(session, outcome)) {
		try_again(session, outcome);
		return;
	}
	count_end(session, outcome);
	if (session->reactor->ending) {
		load_session_free(session);
		return;
	}
	if (outcome->kept != NULL) {
		seen.body = (weir_span){outcome->kept->body, outcome->kept->length};
		seen.cookies = outcome->kept->cookies;
		seen.cookie_count = outcome->kept->cookie_count;
	}
	uint64_t wait_ns = told_to_wait(session, outcome);
	if (outcome->error == LOAD_ERROR_CONNECT)
		wait_ns = REFUSED_PAUSE_NS;
	go_on(session, &seen, outcome->ended_ns + wait_ns);
}
