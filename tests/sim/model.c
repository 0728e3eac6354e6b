/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/model.h"

#include "stage/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct model_sights model_sights;

#define EXPECT(model, condition)                               \
	do {                                                   \
		if (!(condition) && (model)->broken == NULL) { \
			(model)->broken = #condition;          \
			(model)->broken_line = __LINE__;       \
		}                                              \
	} while (0)

static uint64_t below(struct model *model, uint64_t bound)
{
	return weir_random_below(&model->random, bound);
}

static bool chance(struct model *model, unsigned per_mille)
{
	return below(model, 1000) < per_mille;
}

/* ---- tokens ---- */

static void reap(struct model *model)
{
	for (int i = 0; i < MODEL_TOKENS; i++) {
		struct token *token = &model->tokens[i];
		if (token->state != TOKEN_FINISHING || token->event.lane != NULL)
			continue;
		struct stage_model *at = &model->stages[token->place];
		EXPECT(model, weir_world_now(model->world) >= token->due_ns);
		at->books[token->event.klass].completed++;
		at->started--;
		token->state = TOKEN_FREE;
		token->place = -1;
	}
}

static struct token *token_make(struct model *model, unsigned klass)
{
	if (model->budget == 0)
		return NULL;
	for (int i = 0; i < MODEL_TOKENS; i++) {
		struct token *token = &model->tokens[i];
		if (token->state != TOKEN_FREE)
			continue;
		model->budget--;
		token->model = model;
		token->state = TOKEN_KEPT;
		token->place = -1;
		token->hops = 0;
		token->leaking = false;
		weir_event_init(&token->event, klass);
		token->event.cost = (uint32_t)below(model, 50);
		if (chance(model, 200))
			token->event.deadline_ns =
				weir_world_now(model->world) + below(model, 20 * WEIR_NS_PER_MS) + 1;
		if (chance(model, 50))
			token->event.flags |= WEIR_EVENT_EXEMPT;
		if (chance(model, 50))
			token->event.flags |= WEIR_EVENT_TRACE;
		if (chance(model, 300))
			token->event.home = (uint16_t)below(model, 4);
		return token;
	}
	return NULL;
}

static void token_free(struct token *token)
{
	token->state = TOKEN_FREE;
	token->place = -1;
}

/* ---- verdicts ---- */

static bool by_law(weir_verdict verdict)
{
	return verdict == WEIR_SHED_THRESHOLD || verdict == WEIR_SHED_RATE || verdict == WEIR_SHED_LATE ||
	       verdict == WEIR_SHED_WAITED || verdict == WEIR_SHED_RESOURCE || verdict == WEIR_SHED_UPSTREAM;
}

static void book(struct stage_model *to, unsigned klass, unsigned count, weir_verdict verdict)
{
	to->books[klass].offered += count;
	if (verdict == WEIR_ADMITTED) {
		to->books[klass].admitted += count;
		return;
	}
	to->books[klass].shed += count;
	to->sheds[verdict] += count;
	EXPECT(to->model, verdict != WEIR_SHED_MISUSE && verdict != WEIR_SHED_MEMORY);
}

/* Leaves the stage that has it, in the model; how to undo that is its return value. */
static struct stage_model *leave(struct token *token)
{
	if (token->state != TOKEN_STARTED)
		return NULL;
	struct stage_model *from = &token->model->stages[token->place];
	from->started--;
	return from;
}

/*
 * Offers a token that the model owns (KEPT or STARTED). The token may be long gone by the time an admitting offer
 * returns, for the handler may run within it; so the model moves it first and takes that back when it was shed.
 */
static bool offer(struct stage_model *to, struct token *token)
{
	struct model *model = to->model;
	struct token before = *token;
	unsigned klass = token->event.klass;
	bool exempt = (token->event.flags & WEIR_EVENT_EXEMPT) != 0;
	struct stage_model *from = leave(token);
	token->state = TOKEN_WAITING;
	token->place = to->index;
	weir_verdict verdict = weir_offer(to->stage, &token->event);
	book(to, klass, 1, verdict);
	EXPECT(model, !(exempt && by_law(verdict)));
	if (verdict == WEIR_ADMITTED) {
		if (from != NULL)
			from->books[klass].completed++;
		return true;
	}
	token->state = before.state;
	token->place = before.place;
	if (from != NULL)
		from->started++;
	return false;
}

/* One that nobody retires; there always is one. */
static struct stage_model *any_stage(struct model *model)
{
	struct stage_model *at;
	do
		at = &model->stages[below(model, model->stage_count)];
	while (at->leaving);
	return at;
}

/* A new event to a random stage. inside: what handlers make may come in although the world stops. */
static void offer_one(struct model *model, bool inside)
{
	struct token *token = token_make(model, (unsigned)below(model, WEIR_CLASSES));
	if (token == NULL)
		return;
	struct stage_model *to = any_stage(model);
	uint64_t stopping = to->sheds[WEIR_SHED_STOPPING];
	bool admitted = offer(to, token);
	if (!admitted)
		token_free(token);
	if (!inside && model->stopping)
		EXPECT(model, !admitted);
	if (inside && !model->over)
		EXPECT(model, to->sheds[WEIR_SHED_STOPPING] == stopping);
}

static unsigned keep_tokens(struct model *model, struct token **tokens, unsigned count, unsigned klass)
{
	unsigned kept = 0;
	while (kept < count && (tokens[kept] = token_make(model, klass)) != NULL)
		kept++;
	return kept;
}

static void offer_some(struct model *model)
{
	struct token *tokens[MODEL_PLACES];
	weir_event *events[MODEL_PLACES];
	struct stage_model *to = any_stage(model);
	unsigned klass = (unsigned)below(model, WEIR_CLASSES),
		 count = (unsigned)below(model, MODEL_PLACES) + 1;
	if (count > to->capacity)
		count = to->capacity;
	count = keep_tokens(model, tokens, count, klass);
	if (count == 0)
		return;
	for (unsigned i = 0; i < count; i++) {
		/* One home for all, or which queue is meant? */
		tokens[i]->event.home = tokens[0]->event.home;
		events[i] = &tokens[i]->event;
		tokens[i]->state = TOKEN_WAITING;
		tokens[i]->place = to->index;
	}
	weir_verdict verdict = weir_offer_many(to->stage, events, count);
	book(to, klass, count, verdict);
	/* Only handlers do this while the world stops, and theirs may come in. */
	EXPECT(model, verdict != WEIR_SHED_STOPPING);
	for (unsigned i = 0; i < count && verdict != WEIR_ADMITTED; i++)
		token_free(tokens[i]);
}

/* ---- tickets ---- */

static void ticket_cancel(struct ticket_model *ticket)
{
	weir_cancel(&ticket->ticket);
	EXPECT(ticket->model, ticket->ticket.stage == NULL);
	for (unsigned i = 0; i < ticket->count; i++)
		token_free(ticket->tokens[i]);
	ticket->count = 0;
}

static void ticket_commit(struct ticket_model *ticket)
{
	weir_event *events[MODEL_PLACES];
	unsigned count = ticket->count, klass = ticket->tokens[0]->event.klass;
	for (unsigned i = 0; i < count; i++) {
		events[i] = &ticket->tokens[i]->event;
		ticket->tokens[i]->state = TOKEN_WAITING;
		ticket->tokens[i]->place = ticket->at->index;
	}
	ticket->count = 0;
	EXPECT(ticket->model, weir_commit(&ticket->ticket, events, count) == 0);
	book(ticket->at, klass, count, WEIR_ADMITTED);
}

static void ticket_end(struct ticket_model *ticket)
{
	if (chance(ticket->model, 500))
		ticket_cancel(ticket);
	else
		ticket_commit(ticket);
}

static void ticket_due(weir_timer *timer, void *arg)
{
	struct ticket_model *ticket = arg;
	reap(ticket->model);
	ticket_end(ticket);
}

static void reserve(struct model *model)
{
	struct ticket_model *ticket = &model->tickets[below(model, MODEL_TICKETS)];
	unsigned klass = (unsigned)below(model, WEIR_CLASSES);
	uint64_t cost = 0;
	if (ticket->count != 0)
		return;
	struct stage_model *to = any_stage(model);
	unsigned count = (unsigned)below(model, MODEL_PLACES) + 1;
	if (count > to->capacity)
		count = to->capacity;
	count = keep_tokens(model, ticket->tokens, count, klass);
	if (count == 0)
		return;
	ticket->model = model;
	ticket->at = to;
	for (unsigned i = 0; i < count; i++)
		cost += ticket->tokens[i]->event.cost;
	memset(&ticket->ticket, 0, sizeof ticket->ticket);
	weir_verdict verdict = weir_reserve(to->stage, klass, count, cost, WEIR_ANYWHERE, &ticket->ticket);
	EXPECT(model, verdict != WEIR_SHED_STOPPING);
	if (verdict != WEIR_ADMITTED) {
		book(to, klass, count, verdict);
		for (unsigned i = 0; i < count; i++)
			token_free(ticket->tokens[i]);
		return;
	}
	ticket->count = count;
	if (chance(model, 500)) {
		ticket_end(ticket);
		return;
	}
	weir_timer_init(&ticket->timer, ticket_due, ticket);
	weir_sim_timer(model->world, &ticket->timer,
		       weir_world_now(model->world) + below(model, 10 * WEIR_NS_PER_MS));
}

/* ---- handlers ---- */

static void settle(struct token *token, bool well)
{
	struct stage_model *at = &token->model->stages[token->place];
	struct books *books = &at->books[token->event.klass];
	/* Not FREE before the runtime has let go: settling may run handlers, which take free tokens. */
	token->state = TOKEN_KEPT;
	token->place = -1;
	at->started--;
	if (well) {
		books->completed++;
		weir_done(&token->event);
	} else {
		books->failed++;
		weir_fail(&token->event);
	}
	token_free(token);
}

static void move_on(struct token *token)
{
	struct model *model = token->model;
	if (token->hops++ < 10 && offer(any_stage(model), token))
		return;
	settle(token, chance(model, 500));
}

static void held_due(weir_timer *timer, void *arg)
{
	struct token *token = arg;
	reap(token->model);
	EXPECT(token->model, token->state == TOKEN_STARTED);
	if (chance(token->model, 300))
		move_on(token);
	else
		settle(token, chance(token->model, 800));
}

static void hold(struct token *token)
{
	struct model *model = token->model;
	weir_hold(&token->event);
	weir_timer_init(&token->timer, held_due, token);
	weir_sim_timer(model->world, &token->timer,
		       weir_world_now(model->world) + below(model, 20 * WEIR_NS_PER_MS));
}

static void finish_later(struct token *token)
{
	struct model *model = token->model;
	uint64_t delay_ns = below(model, 10 * WEIR_NS_PER_MS);
	token->state = TOKEN_FINISHING;
	token->due_ns = weir_world_now(model->world) + delay_ns;
	weir_finish_after(&token->event, &token->timer, delay_ns);
}

static void cancel_somebody(struct model *model)
{
	struct token *token = &model->tokens[below(model, MODEL_TOKENS)];
	if (token->state == TOKEN_WAITING || token->state == TOKEN_STARTED)
		weir_event_cancel(&token->event);
}

static void change_the_world(struct model *model);

/* What a handler does besides settling its event. */
static void meddle(struct model *model)
{
	if (chance(model, 100))
		offer_one(model, true);
	if (chance(model, 30))
		offer_some(model);
	if (chance(model, 30))
		reserve(model);
	if (chance(model, 50))
		cancel_somebody(model);
	if (chance(model, 5))
		change_the_world(model);
}

static void handle_one(struct token *token)
{
	struct model *model = token->model;
	meddle(model);
	if (chance(model, model->leak_per_mille)) {
		token->leaking = true;
		return;
	}
	unsigned what = (unsigned)below(model, 100);
	if (what < 35)
		settle(token, true);
	else if (what < 42)
		settle(token, false);
	else if (what < 58)
		hold(token);
	else if (what < 68)
		finish_later(token);
	else
		move_on(token);
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	struct stage_model *at = arg;
	struct model *model = at->model;
	uint64_t now = weir_world_now(model->world);
	reap(model);
	EXPECT(model, at->stage == NULL || at->stage == stage);
	EXPECT(model, !model->over);
	EXPECT(model, count > 0 && count <= at->batch);
	EXPECT(model, !at->single || at->inside == 0);
	at->inside++;
	for (size_t i = 0; i < count; i++) {
		struct token *token = (struct token *)events[i];
		EXPECT(model, token->state == TOKEN_WAITING && token->place == at->index);
		EXPECT(model, !weir_event_cancelled(events[i]));
		EXPECT(model, events[i]->deadline_ns == 0 || events[i]->deadline_ns >= now);
		token->state = TOKEN_STARTED;
		at->started++;
	}
	EXPECT(model, at->concurrency == 0 || at->started <= at->concurrency);
	for (size_t i = 0; i < count; i++)
		handle_one((struct token *)events[i]);
	at->inside--;
}

static bool may_be_dropped_for(const struct token *token, weir_verdict why)
{
	uint64_t now = weir_world_now(token->model->world);
	switch (why) {
	case WEIR_SHED_LEAKED:
		return token->leaking && token->state == TOKEN_STARTED;
	case WEIR_SHED_EXPIRED:
		return token->event.deadline_ns != 0 && token->event.deadline_ns < now;
	case WEIR_SHED_CANCELLED:
		return weir_event_cancelled(&token->event);
	case WEIR_SHED_WAITED:
		return (token->event.flags & WEIR_EVENT_EXEMPT) == 0;
	case WEIR_SHED_STOPPING:
		return token->model->stopping;
	default:
		return false;
	}
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	struct stage_model *at = arg;
	struct model *model = at->model;
	struct token *token = (struct token *)event;
	reap(model);
	EXPECT(model, token->place == at->index);
	EXPECT(model, may_be_dropped_for(token, why));
	EXPECT(model, token->state == TOKEN_WAITING || why == WEIR_SHED_LEAKED);
	EXPECT(model, event->lane == NULL);
	if (token->state == TOKEN_STARTED)
		at->started--;
	at->books[event->klass].dropped++;
	at->drops[why]++;
	if (why == WEIR_SHED_STOPPING)
		model->left_at_stop++;
	token->state = TOKEN_KEPT;
	token->place = -1;
	if (token->hops++ < 10 && chance(model, 100)) {
		token->leaking = false;
		weir_event_init(event, event->klass);
		if (offer(any_stage(model), token))
			return;
	}
	token_free(token);
}

/* ---- a law without reason, but with books ---- */

struct chaos {
	struct model *model;
	struct ledger *ledger;
};

static int chaos_init(void *state, const void *params, const char **ret_wrong)
{
	struct stage_model *at = *(struct stage_model *const *)params;
	struct model *model = at->model;
	struct ledger *ledger = &model->ledgers[model->ledger_count++];
	EXPECT(model, model->ledger_count < MODEL_LEDGERS);
	model->ledger_count %= MODEL_LEDGERS;
	*ledger = (struct ledger){
		.at = at, .loose = at->lenient, .limit = UINT32_MAX, .patience_ns = UINT64_MAX};
	*(struct chaos *)state = (struct chaos){.model = model, .ledger = ledger};
	return 0;
}

static weir_verdict chaos_admit(void *state, const weir_ask *ask)
{
	struct chaos *chaos = state;
	struct model *model = chaos->model;
	static const weir_verdict reasons[] = {WEIR_SHED_LATE, WEIR_SHED_RESOURCE, WEIR_SHED_RATE};
	EXPECT(model, ask->count > 0 && ask->klass < WEIR_CLASSES);
	EXPECT(model, ask->now_ns == weir_world_now(model->world));
	if (chance(model, 200))
		return reasons[below(model, 3)];
	chaos->ledger->admitted += ask->count;
	return WEIR_ADMITTED;
}

static void chaos_refund(void *state, const weir_ask *ask)
{
	((struct chaos *)state)->ledger->refunded += ask->count;
}

/* Not one of another law's, nor an exempt one. */
static bool *chaos_following(const struct chaos *chaos, const weir_event *event)
{
	const struct token *token = (const struct token *)event;
	EXPECT(chaos->model, !chaos->ledger->retired);
	EXPECT(chaos->model, (event->flags & WEIR_EVENT_EXEMPT) == 0);
	EXPECT(chaos->model, event->lane->stage == chaos->ledger->at->stage);
	return &chaos->ledger->started[token - chaos->model->tokens];
}

static weir_verdict chaos_start(void *state, const weir_event *event, const weir_turn *turn)
{
	struct chaos *chaos = state;
	struct model *model = chaos->model;
	bool *started = chaos_following(chaos, event);
	EXPECT(model, turn->now_ns == weir_world_now(model->world));
	EXPECT(model, !*started);
	*started = chaos->ledger->loose || !chance(model, 100);
	chaos->ledger->refused += !*started;
	return *started ? WEIR_ADMITTED : WEIR_SHED_WAITED;
}

static void chaos_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	struct chaos *chaos = state;
	EXPECT(chaos->model, !*chaos_following(chaos, event));
	chaos->ledger->gone++;
}

static void chaos_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	struct chaos *chaos = state;
	bool *started = chaos_following(chaos, event);
	EXPECT(chaos->model, *started || chaos->ledger->loose);
	*started = false;
	chaos->ledger->settled++;
}

static void chaos_tick(void *state, const weir_sample *sample)
{
	struct chaos *chaos = state;
	struct model *model = chaos->model;
	chaos->ledger->limit = chance(model, 300) ? UINT32_MAX : (uint32_t)below(model, 6);
	chaos->ledger->patience_ns = chance(model, 500) ? UINT64_MAX : below(model, 8 * WEIR_NS_PER_MS);
}

static uint32_t chaos_limit(const void *state)
{
	return ((const struct chaos *)state)->ledger->limit;
}

static uint64_t chaos_patience(const void *state, unsigned klass)
{
	const struct ledger *ledger = ((const struct chaos *)state)->ledger;
	return klass < 4 ? UINT64_MAX : ledger->patience_ns;
}

static int chaos_save(const void *state, char *text, size_t size)
{
	return snprintf(text, size, "x");
}

static int chaos_load(void *state, const char *text)
{
	return strcmp(text, "x") == 0 ? 0 : -EINVAL;
}

#define CHAOS                                                                                   \
	.state_bytes = sizeof(struct chaos), .params_bytes = sizeof(struct stage_model *),      \
	.init = chaos_init, .admit = chaos_admit, .refund = chaos_refund, .start = chaos_start, \
	.gone = chaos_gone, .settle = chaos_settle, .save = chaos_save, .load = chaos_load

static const weir_admission_law chaos_law = {.name = "chaos", CHAOS};
static const weir_admission_law tight_law = {.name = "tight",
					     CHAOS,
					     .tick_ns = 3 * WEIR_NS_PER_MS,
					     .tick = chaos_tick,
					     .limit = chaos_limit,
					     .patience = chaos_patience};
static const weir_admission_law lanes_law = {.name = "lanes",
					     CHAOS,
					     .per_lane = true,
					     .tick_ns = 3 * WEIR_NS_PER_MS,
					     .tick = chaos_tick,
					     .limit = chaos_limit,
					     .patience = chaos_patience};

/* What ended, of what it was told of. */
static uint64_t ledger_ends(const struct ledger *ledger)
{
	return ledger->refunded + ledger->refused + ledger->gone + ledger->settled;
}

static void ledger_close(struct model *model, const struct ledger *ledger)
{
	if (!ledger->loose)
		EXPECT(model, ledger_ends(ledger) <= ledger->admitted);
	if (!ledger->loose && !ledger->retired)
		EXPECT(model, ledger_ends(ledger) == ledger->admitted);
	model_sights.strict += !ledger->loose && !ledger->retired && ledger->admitted != 0;
	model_sights.refunded += ledger->refunded;
	model_sights.gone += ledger->gone;
}

/* Those of one stage that has nothing inside any more. */
static void ledgers_close_of(struct stage_model *at)
{
	for (unsigned i = 0; i < at->model->ledger_count; i++) {
		struct ledger *ledger = &at->model->ledgers[i];
		if (ledger->at != at)
			continue;
		ledger_close(at->model, ledger);
		ledger->at = NULL;
	}
}

static void ledgers_close(struct model *model)
{
	for (unsigned i = 0; i < model->ledger_count; i++)
		if (model->ledgers[i].at != NULL)
			ledger_close(model, &model->ledgers[i]);
}

/* Calls with a random law and parameters for it. */
static const weir_admission_law *any_law(struct stage_model *at, const void **ret_params)
{
	static weir_threshold_params threshold;
	static weir_bucket_params bucket;
	static struct stage_model *chaos;
	static const weir_admission_law *const chaotic[] = {&chaos_law, &tight_law, &lanes_law};
	struct model *model = at->model;
	switch (below(model, 6)) {
	case 0:
		for (int k = 0; k < WEIR_CLASSES; k++)
			threshold.waiting[k] = (uint32_t)below(model, 10);
		*ret_params = &threshold;
		return &weir_law_threshold;
	case 1:
		bucket = (weir_bucket_params){.rate_per_s = 1 + (double)below(model, 5000),
					      .burst = (double)below(model, 20)};
		*ret_params = &bucket;
		return &weir_law_bucket;
	case 2:
	case 3:
	case 4:
		chaos = at;
		*ret_params = &chaos;
		return chaotic[below(model, 3)];
	default:
		*ret_params = NULL;
		return NULL;
	}
}

/* From now on the stage's laws may be told of what they have refused. */
static void be_lenient(struct stage_model *at)
{
	at->lenient = true;
	for (unsigned i = 0; i < at->model->ledger_count; i++)
		if (at->model->ledgers[i].at == at)
			at->model->ledgers[i].loose = true;
}

static void swap_law(struct stage_model *at)
{
	struct model *model = at->model;
	const void *params;
	for (unsigned i = 0; i < model->ledger_count; i++)
		if (model->ledgers[i].at == at)
			model->ledgers[i].retired = true;
	const weir_admission_law *law = any_law(at, &params);
	EXPECT(model, weir_stage_admission(at->stage, law, params) == 0);
}

static void change_the_world(struct model *model)
{
	struct stage_model *at = any_stage(model);
	unsigned what = (unsigned)below(model, 100);
	weir_report report;
	if (what < 15) {
		weir_stage_close(at->stage);
	} else if (what < 30) {
		weir_stage_press(at->stage, chance(model, 500) ? 0 : (double)below(model, 100) / 100);
	} else if (what < 45 && model->meddlesome) {
		be_lenient(at);
		weir_stage_mode(at->stage, (weir_admission_mode)below(model, 3));
	} else if (what < 55 && model->meddlesome) {
		be_lenient(at);
		EXPECT(model, weir_stage_shed_ceiling(at->stage, (double)below(model, 11) / 10) == 0);
	} else if (what < 60) {
		weir_stage_report(at->stage, 0, &report);
		weir_stage_quality(at->stage, 0);
	} else {
		swap_law(at);
	}
}

/* ---- the whole ---- */

static void make_domain(struct model *model, unsigned number, weir_domain_kind kind)
{
	char name[32];
	struct domain_model *domain = &model->domains[number];
	weir_domain_options options = {.name = name, .inline_depth = (uint32_t)below(model, 5)};
	snprintf(name, sizeof name, "domain-%u", number);
	options.kind = domain->kind = kind;
	if (kind == WEIR_REACTOR) {
		options.threads = (uint32_t)below(model, 3) + 1;
		domain->threads = options.threads;
	} else {
		options.min_threads = (uint32_t)below(model, 3) + 1;
		options.max_threads = options.min_threads + (uint32_t)below(model, 4);
		options.pool = chance(model, 200) ? &weir_pool_seda : NULL;
		domain->threads = 1;
	}
	must(weir_domain_new(model->world, &options, &domain->domain));
}

static uint32_t shared(uint32_t bound, uint32_t threads)
{
	return (bound + threads - 1) / threads * threads;
}

static void make_stage(struct model *model, unsigned number, unsigned domain)
{
	char name[32];
	struct stage_model *at = &model->stages[number];
	uint32_t threads = model->domains[domain].threads;
	weir_stage_options options = {
		.name = name,
		.handle = handle,
		.drop = drop,
		.arg = at,
		.capacity = (uint32_t)below(model, 20) + threads,
		.cost_capacity = chance(model, 300) ? 50 + below(model, 300) : 0,
		.order = (weir_order)below(model, 4),
		.newest_after_ns = below(model, 5 * WEIR_NS_PER_MS),
		.single = chance(model, 200),
		.no_inline = chance(model, 200),
		.concurrency = chance(model, 400) ? (uint32_t)below(model, 6) + 1 : 0,
		.batch = (uint32_t)below(model, 6),
		.batch_law = chance(model, 200) ? &weir_batch_prompt : NULL,
		.heed_downstream = chance(model, 300),
	};
	snprintf(name, sizeof name, "stage-%u", number);
	if (options.single)
		threads = 1;
	*at = (struct stage_model){.model = model, .index = (int)number, .domain = domain};
	at->capacity = shared(options.capacity, threads);
	at->concurrency = shared(options.concurrency, threads);
	at->batch = options.batch == 0 ? 32 : options.batch;
	at->single = options.single;
	options.admission = any_law(at, &options.admission_params);
	must(weir_stage_new(model->domains[domain].domain, &options, &at->stage));
}

static void arrive(weir_arrivals *arrivals, void *arg)
{
	struct model *model = arg;
	reap(model);
	if (!chance(model, 150))
		offer_one(model, false);
	else if (!model->stopping)
		meddle(model);
}

void model_open(struct model *model, uint64_t seed)
{
	memset(model, 0, sizeof *model);
	weir_random_init(&model->random, seed);
	model->world = world_virtual(seed + 1);
	model->budget = 400;
	model->leak_per_mille = chance(model, 300) ? 10 : 0;
	model->meddlesome = chance(model, 500);
	model->domain_count = (unsigned)below(model, MODEL_DOMAINS) + 1;
	model->stage_count = (unsigned)below(model, MODEL_STAGES) + 1;
	for (unsigned i = 0; i < model->domain_count; i++)
		make_domain(model, i, chance(model, 500) ? WEIR_REACTOR : WEIR_ELASTIC);
	for (unsigned i = 0; i < model->stage_count; i++)
		make_stage(model, i, (unsigned)below(model, model->domain_count));
	must(weir_world_start(model->world));
	double rate = 100 + (double)below(model, 10000);
	weir_arrivals_start(&model->arrivals, model->world, WEIR_POISSON, rate, arrive, model);
}

static void compare_stage(struct model *model, struct stage_model *at)
{
	weir_stage_stats stats;
	unsigned waiting = 0, kept = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		const struct books *books = &at->books[k];
		weir_stage_read(at->stage, k, &stats);
		EXPECT(model, stats.offered == books->offered);
		EXPECT(model, stats.admitted == books->admitted);
		EXPECT(model, stats.shed == books->shed);
		EXPECT(model, stats.completed == books->completed);
		EXPECT(model, stats.failed == books->failed);
		EXPECT(model, stats.dropped == books->dropped);
		EXPECT(model, stats.in_flight ==
				      books->admitted - books->completed - books->failed - books->dropped);
	}
	for (int i = 0; i < MODEL_TOKENS; i++)
		waiting += model->tokens[i].state == TOKEN_WAITING && model->tokens[i].place == at->index;
	weir_stage_read(at->stage, WEIR_ALL_CLASSES, &stats);
	for (int i = 0; i < MODEL_TICKETS; i++)
		kept += model->tickets[i].at == at ? model->tickets[i].count : 0;
	/* A place kept by a ticket counts as taken. */
	EXPECT(model, stats.waiting == waiting + kept);
	EXPECT(model, weir_stage_waiting(at->stage) == waiting + kept);
	EXPECT(model, waiting + kept <= at->capacity);
	for (int v = 0; v < WEIR_VERDICT_COUNT; v++) {
		EXPECT(model, v == WEIR_ADMITTED || stats.by_verdict[v] == at->sheds[v]);
		EXPECT(model, stats.drops[v] == at->drops[v]);
	}
	for (int fault = 0; fault < WEIR_FAULT_COUNT; fault++) {
		uint64_t faults = weir_stage_faults(at->stage, (weir_fault)fault);
		if (fault == WEIR_FAULT_LEAKED)
			EXPECT(model, faults == at->drops[WEIR_SHED_LEAKED]);
		else if (fault != WEIR_FAULT_UNDRAINED && fault != WEIR_FAULT_UNSETTLED && !model->over)
			EXPECT(model, faults == 0);
	}
}

void model_compare(struct model *model)
{
	reap(model);
	for (unsigned i = 0; i < model->stage_count; i++)
		if (model->stages[i].stage != NULL)
			compare_stage(model, &model->stages[i]);
	EXPECT(model, weir_world_check(model->world) == 0);
}

void model_run(struct model *model, uint64_t ns)
{
	weir_sim_run(model->world, weir_world_now(model->world) + ns);
	model_compare(model);
}

/* ---- retirement ---- */

/* By the model's books nothing is inside, and no ticket holds a place. */
static void expect_empty(struct model *model, const struct stage_model *at)
{
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		const struct books *books = &at->books[k];
		EXPECT(model, books->offered == books->admitted + books->shed);
		EXPECT(model, books->admitted == books->completed + books->failed + books->dropped);
	}
	for (int i = 0; i < MODEL_TOKENS; i++)
		EXPECT(model, model->tokens[i].state == TOKEN_FREE || model->tokens[i].place != at->index);
	for (int i = 0; i < MODEL_TICKETS; i++)
		EXPECT(model, model->tickets[i].count == 0 || model->tickets[i].at != at);
	EXPECT(model, at->started == 0 && at->inside == 0);
}

/* A stage that is being retired takes nothing, and says why. */
static void offer_to_leaving(struct model *model, struct stage_model *to)
{
	struct token *token = token_make(model, 0);
	if (token == NULL)
		return;
	uint64_t stopping = to->sheds[WEIR_SHED_STOPPING];
	EXPECT(model, !offer(to, token) && to->sheds[WEIR_SHED_STOPPING] == stopping + 1);
	token_free(token);
}

static void retire_stage(struct model *model, struct stage_model *at)
{
	static const uint64_t patience[] = {0, WEIR_NS_PER_MS, 10 * WEIR_NS_PER_S};
	uint64_t patience_ns = patience[below(model, 3)];
	weir_retire_report report = {0};
	at->leaving = true;
	int rc = weir_stage_retire(&at->stage, patience_ns, &report);
	reap(model);
	EXPECT(model, rc == 0 || rc == -ETIMEDOUT);
	EXPECT(model, (rc == 0) == (at->stage == NULL));
	/* Everything that is held or worked on ends within milliseconds. */
	EXPECT(model, rc == 0 || patience_ns < 10 * WEIR_NS_PER_S);
	model_sights.stages_retired += rc == 0;
	model_sights.retired_too_late += rc != 0;
	if (rc != 0) {
		offer_to_leaving(model, at);
		return;
	}
	expect_empty(model, at);
	EXPECT(model, report.inside == 0 && report.faults == at->drops[WEIR_SHED_LEAKED]);
	ledgers_close_of(at);
}

static void retire_domain(struct model *model, unsigned number)
{
	struct domain_model *domain = &model->domains[number];
	bool used = false;
	for (unsigned i = 0; i < model->stage_count; i++)
		used |= model->stages[i].stage != NULL && model->stages[i].domain == number;
	int expected = domain->kind == WEIR_REACTOR ? -ENOTSUP : used ? -EBUSY : 0;
	EXPECT(model, weir_domain_retire(&domain->domain, 0) == expected);
	EXPECT(model, (domain->domain == NULL) == (expected == 0));
	model_sights.domains_retired += expected == 0;
}

static unsigned staying(const struct model *model)
{
	unsigned count = 0;
	for (unsigned i = 0; i < model->stage_count; i++)
		count += !model->stages[i].leaving;
	return count;
}

void model_renew(struct model *model)
{
	struct stage_model *at = &model->stages[below(model, model->stage_count)];
	unsigned number = (unsigned)below(model, model->domain_count);
	if (model->domains[number].domain == NULL)
		make_domain(model, number, WEIR_ELASTIC);
	else if (at->stage == NULL)
		make_stage(model, (unsigned)at->index, number);
	else if (at->leaving || (staying(model) > 1 && chance(model, 500)))
		retire_stage(model, at);
	else
		retire_domain(model, number);
	model_compare(model);
}

/* What the stop had to leave behind: settle it, so that the books can be closed. Returns how many events that were. */
static uint64_t settle_leftovers(struct model *model, uint64_t *ret_places)
{
	uint64_t left = 0;
	*ret_places = 0;
	for (int i = 0; i < MODEL_TICKETS; i++) {
		struct ticket_model *ticket = &model->tickets[i];
		*ret_places += ticket->count;
		weir_timer_stop(&ticket->timer);
		if (ticket->count != 0)
			ticket_cancel(ticket);
	}
	for (int i = 0; i < MODEL_TOKENS; i++) {
		struct token *token = &model->tokens[i];
		if (token->state == TOKEN_FREE)
			continue;
		EXPECT(model, token->state == TOKEN_STARTED || token->state == TOKEN_FINISHING);
		weir_timer_stop(&token->timer);
		settle(token, true);
		left++;
	}
	return left;
}

static void see(const struct stage_model *at)
{
	weir_stage_stats stats = stats_of(at->stage);
	model_sights.events += stats.admitted;
	model_sights.inlined += stats.inlined;
	model_sights.completed += stats.completed;
	model_sights.failed += stats.failed;
	for (int v = 0; v < WEIR_VERDICT_COUNT; v++)
		model_sights.spared += stats.spared[v];
	for (int v = 0; v < WEIR_VERDICT_COUNT; v++) {
		model_sights.sheds[v] += at->sheds[v];
		model_sights.drops[v] += at->drops[v];
	}
}

void model_close(struct model *model, uint64_t patience_ns)
{
	weir_stop_report report = {0};
	uint64_t places = 0, unsettled = 0;
	model->stopping = true;
	int rc = weir_world_stop(model->world, patience_ns, &report);
	model->over = true;
	weir_arrivals_stop(&model->arrivals);
	model_compare(model);
	for (unsigned i = 0; i < model->stage_count; i++)
		if (model->stages[i].stage != NULL)
			unsettled += weir_stage_faults(model->stages[i].stage, WEIR_FAULT_UNSETTLED);
	uint64_t held = settle_leftovers(model, &places);
	uint64_t left = held + model->left_at_stop;
	EXPECT(model, report.unbalanced == 0);
	/* Everything that is held or worked on ends within milliseconds: what waits then was forgotten. */
	EXPECT(model, patience_ns < 10 * WEIR_NS_PER_S || model->left_at_stop == 0);
	EXPECT(model, unsettled == held);
	EXPECT(model, report.undrained >= left && report.undrained <= left + places);
	EXPECT(model, (rc == 0) == (left + places == 0));
	EXPECT(model, rc == 0 || rc == -ETIMEDOUT);
	EXPECT(model, (report.stuck != NULL) == (left != 0));
	model_compare(model);
	ledgers_close(model);
	model_sights.stops_in_time += rc == 0;
	model_sights.stops_too_late += rc != 0;
	model_sights.places_cancelled_late += places;
	for (unsigned i = 0; i < model->stage_count; i++)
		if (model->stages[i].stage != NULL)
			see(&model->stages[i]);
	weir_world_free(&model->world);
}
