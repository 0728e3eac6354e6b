/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event leaves `waiting` first and takes what was decided afterwards (release). decide reads in the other
 * order (acquire). So fresh is never too large, and no visit decides about an event that has left.
 */
#include "control/police_ledger.h"

#include <string.h>

static void add(_Atomic int32_t *number, int32_t by)
{
	atomic_fetch_add_explicit(number, by, memory_order_relaxed);
}

/* Takes one, if there is one. */
static bool take(_Atomic int32_t *number)
{
	int32_t had = atomic_load_explicit(number, memory_order_relaxed);
	while (had > 0)
		if (atomic_compare_exchange_weak_explicit(number, &had, had - 1, memory_order_acq_rel,
							  memory_order_relaxed))
			return true;
	return false;
}

void weir_ledger_init(weir_ledger *ledger)
{
	memset(ledger, 0, sizeof(*ledger));
}

void weir_ledger_enter(weir_ledger *ledger, unsigned klass, unsigned bucket, uint32_t count)
{
	weir_ledger_class *k = &ledger->klass[klass];
	add(&k->bucket[bucket].waiting, (int32_t)count);
	add(&k->waiting, (int32_t)count);
}

void weir_ledger_entitle(weir_ledger *ledger, unsigned klass, unsigned bucket, uint32_t count)
{
	weir_ledger_class *k = &ledger->klass[klass];
	add(&k->bucket[bucket].entitled, (int32_t)count);
	add(&k->entitled, (int32_t)count);
	add(&k->decided, (int32_t)count);
	add(&ledger->released, (int32_t)count);
}

uint32_t weir_ledger_fresh(const weir_ledger *ledger, unsigned klass, unsigned bucket)
{
	const weir_ledger_bucket *b = &ledger->klass[klass].bucket[bucket];
	int64_t decided = (int64_t)atomic_load_explicit(&b->passed, memory_order_acquire) +
			  atomic_load_explicit(&b->refused, memory_order_acquire) +
			  atomic_load_explicit(&b->entitled, memory_order_acquire);
	int64_t fresh = atomic_load_explicit(&b->waiting, memory_order_relaxed) - decided;
	return fresh > 0 ? (uint32_t)fresh : 0;
}

void weir_ledger_decide(weir_ledger *ledger, unsigned klass, unsigned bucket, uint32_t count, bool pass)
{
	weir_ledger_class *k = &ledger->klass[klass];
	add(pass ? &k->bucket[bucket].passed : &k->bucket[bucket].refused, (int32_t)count);
	add(&k->decided, (int32_t)count);
	if (pass)
		add(&ledger->released, (int32_t)count);
}

/* The event's bucket, or the nearest where something waits; NULL: nothing of the class is here. */
static weir_ledger_bucket *take_waiting(weir_ledger_class *k, unsigned bucket)
{
	if (!take(&k->waiting))
		return NULL;
	for (unsigned off = 0; off < WEIR_LEDGER_BUCKETS; off++) {
		if (bucket >= off && take(&k->bucket[bucket - off].waiting))
			return &k->bucket[bucket - off];
		if (off > 0 && bucket + off < WEIR_LEDGER_BUCKETS && take(&k->bucket[bucket + off].waiting))
			return &k->bucket[bucket + off];
	}
	return &k->bucket[bucket]; /* another thread is between the two numbers */
}

static bool take_pass(weir_ledger *ledger, weir_ledger_class *k, weir_ledger_bucket *b)
{
	if (!take(&b->passed))
		return false;
	add(&k->decided, -1);
	add(&ledger->released, -1);
	return true;
}

static bool take_refusal(weir_ledger_class *k, weir_ledger_bucket *b)
{
	if (!take(&b->refused))
		return false;
	add(&k->decided, -1);
	return true;
}

static bool take_own_entitlement(weir_ledger *ledger, weir_ledger_class *k, weir_ledger_bucket *b)
{
	if (!take(&b->entitled))
		return false;
	add(&k->entitled, -1);
	add(&k->decided, -1);
	add(&ledger->released, -1);
	return true;
}

/* An entitlement is of the class: a guaranteed rate serves whoever waits there longest. */
static bool take_entitlement(weir_ledger *ledger, weir_ledger_class *k, weir_ledger_bucket *b)
{
	if (take_own_entitlement(ledger, k, b))
		return true;
	if (atomic_load_explicit(&k->entitled, memory_order_relaxed) <= 0)
		return false;
	for (unsigned i = 0; i < WEIR_LEDGER_BUCKETS; i++)
		if (take_own_entitlement(ledger, k, &k->bucket[i]))
			return true;
	return false;
}

weir_ledger_right weir_ledger_leave(weir_ledger *ledger, unsigned klass, unsigned bucket)
{
	weir_ledger_class *k = &ledger->klass[klass];
	weir_ledger_bucket *b = take_waiting(k, bucket);
	if (b == NULL)
		return WEIR_LEDGER_STRANGER;
	if (take_pass(ledger, k, b))
		return WEIR_LEDGER_PASSED;
	if (take_refusal(k, b))
		return WEIR_LEDGER_REFUSED;
	return take_entitlement(ledger, k, b) ? WEIR_LEDGER_ENTITLED : WEIR_LEDGER_FRESH;
}

/* More was decided than waits: what is left over goes, refusals first. */
static void trim(weir_ledger *ledger, weir_ledger_class *k, weir_ledger_bucket *b)
{
	int64_t decided = (int64_t)atomic_load_explicit(&b->passed, memory_order_relaxed) +
			  atomic_load_explicit(&b->refused, memory_order_relaxed) +
			  atomic_load_explicit(&b->entitled, memory_order_relaxed);
	if (decided <= atomic_load_explicit(&b->waiting, memory_order_relaxed))
		return;
	if (!take_refusal(k, b) && !take_pass(ledger, k, b))
		take_own_entitlement(ledger, k, b);
}

void weir_ledger_withdraw(weir_ledger *ledger, unsigned klass, unsigned bucket, uint32_t count)
{
	weir_ledger_class *k = &ledger->klass[klass];
	for (uint32_t i = 0; i < count; i++) {
		weir_ledger_bucket *b = take_waiting(k, bucket);
		if (b == NULL)
			return;
		trim(ledger, k, b);
	}
}
