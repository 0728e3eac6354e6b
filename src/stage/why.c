/* SPDX-License-Identifier: Apache-2.0 */
/* Why the last offer of a thread was shed, or its event dropped: remembered, explained, forgotten. */
#include "stage/offer.h"

_Thread_local weir_last_shed weir_offer_last __attribute__((tls_model("initial-exec")));

/*
 * Whether stage and law are still in use. Call it after weir_things_gone was read. Things are counted there
 * after they have left their tables, so what is still in its table will be counted later than that read.
 */
static bool in_use(const weir_attempt *offer)
{
	return !atomic_load(&offer->stage->unlisted) &&
	       (offer->gate == NULL || atomic_load(&offer->stage->gate) == offer->gate);
}

/* A thread of the world forgets the shed when its section ends. Until then nothing it refers to is freed. */
void weir_offer_remember(const weir_attempt *offer, weir_verdict why)
{
	weir_offer_last.offer = *offer;
	weir_offer_last.verdict = why;
	if (offer->self != NULL)
		return;
	weir_offer_last.world = offer->stage->world;
	weir_offer_last.things_gone = atomic_load(&weir_things_gone);
	if (!in_use(offer))
		weir_offer_forget();
}

void weir_offer_forget(void)
{
	weir_offer_last.verdict = WEIR_ADMITTED;
}

void weir_offer_note_drop(weir_lane *lane, weir_thread *self, const weir_event *event, weir_verdict why,
			  uint64_t now_ns)
{
	weir_attempt offer = {.stage = lane->stage,
			      .self = self,
			      .lane = lane,
			      .gate = weir_event_gate(event, lane->stage),
			      .ask = weir_offer_ask(event, now_ns)};
	offer.ask.waiting = atomic_load_explicit(&lane->waiting, memory_order_relaxed);
	offer.ask.in_service = atomic_load_explicit(&lane->in_service, memory_order_relaxed);
	weir_offer_remember(&offer, why);
}

/*
 * Clients that are told the same time would all come back at once, so up to half of it is added. It follows
 * from the time and the count of sheds, so that a virtual world repeats exactly.
 */
static uint64_t jitter(uint64_t wait_ns, const weir_attempt *offer, weir_verdict why)
{
	const weir_counts *counts = weir_stage_counts(offer->stage, offer->self);
	uint64_t turn = weir_count_get(&counts->shed[offer->ask.klass][why]);
	uint64_t mixed = (offer->ask.now_ns + turn) * UINT64_C(0x9e3779b97f4a7c15);
	mixed = (mixed ^ mixed >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return wait_ns + (uint64_t)((unsigned __int128)(wait_ns / 2) * (mixed >> 32) >> 32);
}

/* Whether laws give this reason. Their numbers do not explain others, such as a full queue. */
static bool is_laws(weir_verdict why)
{
	return why == WEIR_SHED_LATE || why == WEIR_SHED_WAITED || why == WEIR_SHED_THRESHOLD ||
	       why == WEIR_SHED_RATE || why == WEIR_SHED_PRICE || why == WEIR_SHED_LIMIT;
}

static void explain(const weir_attempt *offer, bool spread, weir_why *ret_why)
{
	*ret_why = (weir_why){
		.stage = offer->stage->name, .verdict = weir_offer_last.verdict, .klass = offer->ask.klass};
	/* These are not the law's decisions. Pressure is looked at again within about a second. */
	bool pressed = ret_why->verdict == WEIR_SHED_UPSTREAM || ret_why->verdict == WEIR_SHED_RESOURCE;
	if (pressed)
		ret_why->retry_after_ns = WEIR_NS_PER_S;
	if (offer->gate == NULL)
		return;
	ret_why->law = offer->gate->bare ? NULL : offer->gate->law->name;
	if (offer->gate->law->explain != NULL && !pressed)
		offer->gate->law->explain(weir_gate_state(offer->gate, offer->lane), &offer->ask, ret_why);
	if (!is_laws(ret_why->verdict))
		ret_why->estimate_ns = ret_why->bound_ns = 0;
	if (spread)
		ret_why->retry_after_ns = jitter(ret_why->retry_after_ns, offer, ret_why->verdict);
}

static bool nothing_gone(void)
{
	return weir_offer_last.things_gone == atomic_load(&weir_things_gone);
}

/* For an outside thread: in a section of its own, if nothing has gone since the shed. */
static bool explain_outside(bool spread, weir_why *ret_why)
{
	weir_world *world = weir_offer_last.world;
	if (!nothing_gone())
		return false; /* the world itself may be gone */
	unsigned side = weir_outsider_enter(world, NULL);
	bool known = nothing_gone();
	if (known)
		explain(&weir_offer_last.offer, spread, ret_why);
	weir_outsider_leave(world, NULL, side);
	return known;
}

static bool why(bool spread, weir_why *ret_why)
{
	if (weir_offer_last.verdict == WEIR_ADMITTED)
		return false;
	if (weir_offer_last.offer.self == NULL)
		return explain_outside(spread, ret_why);
	explain(&weir_offer_last.offer, spread, ret_why);
	return true;
}

bool weir_why_unspread(weir_why *ret_why)
{
	return why(false, ret_why);
}

bool weir_why_shed(weir_why *ret_why)
{
	return why(true, ret_why);
}
