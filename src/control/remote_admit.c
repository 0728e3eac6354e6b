/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `adaptive-remote`: who is admitted. remote.h defines the terms, docs/laws/adaptive-remote.md explains the
 * rule.
 */
#include <math.h>

#include "control/remote.h"

/* Part of the limit for a request that had spent its target before it came here. */
#define LEFT_LEAST  .125
#define DUE_BURST   4  /* up to this many unused starts of a minimum may be made up for */
#define ABOVE_LEAST 8. /* requests that a credit may admit above the limit, however small the limit is */

/* Takes one start of a class's minimum, if one is due. */
static bool take_due(weir_remote *r, unsigned klass, uint64_t now_ns)
{
	uint64_t every_ns = atomic_load_explicit(&r->due_every_ns[klass], memory_order_relaxed), then;
	uint64_t next_ns = atomic_load_explicit(&r->due_next_ns[klass], memory_order_relaxed);
	if (every_ns == 0)
		return false;
	do {
		if (next_ns > now_ns)
			return false;
		uint64_t first_ns = now_ns > DUE_BURST * every_ns ? now_ns - DUE_BURST * every_ns : 0;
		then = (next_ns > first_ns ? next_ns : first_ns) + every_ns;
	} while (!atomic_compare_exchange_weak_explicit(&r->due_next_ns[klass], &next_ns, then,
							memory_order_relaxed, memory_order_relaxed));
	return true;
}

void weir_remote_earn(weir_remote *r, uint32_t count)
{
	if (atomic_load_explicit(&r->credit, memory_order_relaxed) < (int64_t)(1000 * r->tuning.credit))
		atomic_fetch_add_explicit(&r->credit, (int64_t)((1 - r->quantile) * 1000 * count),
					  memory_order_relaxed);
}

bool weir_remote_spend(weir_remote *r, unsigned klass, uint32_t count)
{
	int64_t price = (int64_t)count * 1000, had = atomic_load_explicit(&r->credit, memory_order_relaxed);
	bool top = klass <= atomic_load_explicit(&r->top_class, memory_order_relaxed);
	if (klass >= atomic_load_explicit(&r->spenders, memory_order_relaxed))
		return false;
	int64_t kept = top ? 0 : (int64_t)(500 * r->tuning.credit);
	while (had >= price + kept)
		if (atomic_compare_exchange_weak_explicit(&r->credit, &had, had - price, memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	return false;
}

double weir_remote_room(const weir_remote *r, const weir_ask *ask, unsigned klass, double limit)
{
	double spent = ask->entered_ns != 0 ? (double)weir_remote_span(ask->entered_ns, ask->now_ns) : 0;
	return limit * fmax(1 - spent / weir_remote_bound_ns(r, klass), LEFT_LEAST);
}

void weir_remote_note(weir_remote *r, unsigned klass, double wanted, double room)
{
	double bound_ns = weir_remote_bound_ns(r, klass);
	weir_refusal_note(&r->refused[klass], bound_ns * wanted / room, bound_ns);
}

bool weir_remote_fits_shadow(weir_remote *r, const weir_ask *ask, unsigned klass, double limit)
{
	double rate = atomic_load_explicit(&r->told_rate, memory_order_relaxed);
	uint64_t ends_ns = atomic_load_explicit(&r->shadow_ns, memory_order_relaxed), then_ns;
	do {
		uint64_t from_ns = ends_ns > ask->now_ns ? ends_ns : ask->now_ns;
		double ahead = (double)(from_ns - ask->now_ns) * rate / 1e9;
		double room = weir_remote_room(r, ask, klass, limit);
		if (ahead + ask->count > room && ahead > 0) {
			weir_remote_note(r, klass, ahead + ask->count, room);
			return false;
		}
		then_ns = from_ns + (uint64_t)(ask->count / rate * 1e9);
	} while (!atomic_compare_exchange_weak_explicit(&r->shadow_ns, &ends_ns, then_ns,
							memory_order_relaxed, memory_order_relaxed));
	return true;
}

int64_t weir_remote_inside(const weir_remote *r)
{
	int64_t inside = weir_remote_serving(r);
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		inside += atomic_load_explicit(&r->waiting[k], memory_order_relaxed);
	return inside;
}

bool weir_remote_is_calm(const weir_remote *r, uint32_t more)
{
	return weir_remote_inside(r) + more <= (int64_t)atomic_load_explicit(&r->floor, memory_order_relaxed);
}

/* Above the limit, as long as no more come than the backend is known to cope with. */
static bool take_above(weir_remote *r, const weir_ask *ask)
{
	uint32_t asked = atomic_load_explicit(&r->asked, memory_order_relaxed),
		 most = atomic_load_explicit(&r->asked_most, memory_order_relaxed);
	if (!atomic_load_explicit(&r->lenient, memory_order_relaxed) || (int32_t)(asked - most) > 0)
		return false;
	atomic_fetch_add_explicit(&r->above, ask->count, memory_order_relaxed);
	return true;
}

static bool fits(weir_remote *r, const weir_ask *ask, unsigned klass, uint32_t limit)
{
	if (atomic_load_explicit(&r->dry_run, memory_order_relaxed))
		return weir_remote_fits_shadow(r, ask, klass, limit);
	if (weir_guarantee_take_all(&r->guaranteed[klass], ask->now_ns, ask->count))
		return true;
	double ahead = weir_remote_ahead(r, klass, limit), room = weir_remote_room(r, ask, klass, limit);
	if (ahead + ask->count <= room || ahead <= 0 || weir_remote_is_calm(r, ask->count)) {
		weir_remote_earn(r, ask->count);
		return true;
	}
	if (take_above(r, ask) ||
	    (ahead <= room + fmax(room, ABOVE_LEAST) && weir_remote_spend(r, klass, ask->count)))
		return true;
	weir_remote_note(r, klass, ahead + ask->count, room);
	return ask->count == 1 && take_due(r, klass, ask->now_ns);
}

void weir_remote_enter_queue(weir_remote *r, unsigned klass, uint32_t count)
{
	atomic_fetch_add_explicit(&r->waiting[klass], (int32_t)count, memory_order_relaxed);
}

void weir_remote_refused(weir_remote *r, unsigned klass, uint32_t count)
{
	atomic_fetch_add_explicit(&r->shed[klass], count, memory_order_relaxed);
}

weir_verdict weir_remote_admit(void *state, const weir_ask *ask)
{
	weir_remote *r = state;
	unsigned klass = ask->klass % WEIR_CLASSES;
	uint32_t limit = atomic_load_explicit(&r->limit[klass], memory_order_relaxed);
	atomic_fetch_add_explicit(&r->asked, ask->count, memory_order_relaxed);
	if (limit != WEIR_REMOTE_OPEN && !fits(r, ask, klass, limit)) {
		weir_remote_refused(r, klass, ask->count);
		return WEIR_SHED_LATE;
	}
	weir_remote_enter_queue(r, klass, ask->count);
	return WEIR_ADMITTED;
}

void weir_remote_leave_queue(weir_remote *r, unsigned klass, uint32_t count)
{
	atomic_fetch_sub_explicit(&r->waiting[klass % WEIR_CLASSES], (int32_t)count, memory_order_relaxed);
}

void weir_remote_refund(void *state, const weir_ask *ask)
{
	weir_remote_leave_queue(state, ask->klass, ask->count);
}

void weir_remote_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	weir_remote *r = state;
	unsigned klass = event->klass % WEIR_CLASSES;
	uint64_t waited_ns = weir_remote_span(event->offered_ns, now_ns),
		 patience_ns = weir_remote_patience(r, klass);
	if (waited_ns > patience_ns)
		weir_refusal_note(&r->dropped[klass], (double)waited_ns, (double)patience_ns);
	weir_remote_leave_queue(state, event->klass, 1);
}
