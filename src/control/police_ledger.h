/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_POLICE_LEDGER_H
#define WEIR_CONTROL_POLICE_LEDGER_H

/*
 * Who waits for a visit, by class and bucket of service time, and what was decided about them. The requests
 * themselves wait in the stage's queues; a law sees each of them only at its arrival (without the event) and
 * at its start or end. So the ledger keeps numbers, not requests:
 *
 *  waiting   admitted to the queue, not started, not gone
 *  passed    of them, that a visit let start
 *  refused   of them, that a visit refused: each is dropped at its turn
 *  entitled  of them, that may start whatever visits say: judged, or guaranteed, when they came
 *
 * The others are fresh: their visit is still to come. A request that has its turn takes what its bucket has:
 * a pass, a refusal, or an entitlement of its class. Within a bucket requests are alike, so it does not
 * matter which of them the visit counted. Each visit decides about fresh ones only, so nobody is judged
 * twice.
 *
 * Invariants, when no call is under way: all numbers are 0 or more; in each bucket passed + refused +
 * entitled is at most waiting; a class's numbers are the sums of its buckets'.
 *
 * An offer of many has one bucket, though its events may differ. An event that finds its bucket empty leaves
 * from the nearest one that is not, so the class's sum stays right.
 *
 * Threads: any thread may call anything; one at a time calls decide.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/law.h>

#define WEIR_LEDGER_BUCKETS 33 /* bucket 0 is for requests of unknown cost */

typedef struct weir_ledger_bucket {
	_Atomic int32_t waiting, passed, refused, entitled;
} weir_ledger_bucket;

typedef struct weir_ledger_class {
	_Atomic int32_t waiting;
	_Atomic int32_t decided; /* passed, refused or entitled, in all buckets */
	_Atomic int32_t entitled;
	weir_ledger_bucket bucket[WEIR_LEDGER_BUCKETS];
} weir_ledger_class;

typedef struct weir_ledger {
	_Atomic int32_t released; /* passed or entitled, in all classes: as good as in service */
	weir_ledger_class klass[WEIR_CLASSES];
} weir_ledger;

/* What an event that leaves the queue takes with it. */
typedef enum weir_ledger_right {
	WEIR_LEDGER_FRESH,
	WEIR_LEDGER_PASSED,
	WEIR_LEDGER_REFUSED,
	WEIR_LEDGER_ENTITLED,
	WEIR_LEDGER_STRANGER, /* nothing of its class is in the ledger: it never entered */
} weir_ledger_right;

void weir_ledger_init(weir_ledger *ledger);
void weir_ledger_enter(weir_ledger *ledger, unsigned klass, unsigned bucket, uint32_t count);
/* Some that have just entered may start without a visit. */
void weir_ledger_entitle(weir_ledger *ledger, unsigned klass, unsigned bucket, uint32_t count);
/* How many of the bucket wait for a visit. */
uint32_t weir_ledger_fresh(const weir_ledger *ledger, unsigned klass, unsigned bucket);
/* A visit lets this many fresh ones of the bucket start, or refuses them. */
void weir_ledger_decide(weir_ledger *ledger, unsigned klass, unsigned bucket, uint32_t count, bool pass);
/* An event has its turn. */
weir_ledger_right weir_ledger_leave(weir_ledger *ledger, unsigned klass, unsigned bucket);
/* Events leave without a turn: refunded or gone. What was decided about them passes to others of the bucket. */
void weir_ledger_withdraw(weir_ledger *ledger, unsigned klass, unsigned bucket, uint32_t count);

static inline int32_t weir_ledger_released(const weir_ledger *ledger)
{
	return atomic_load_explicit(&ledger->released, memory_order_relaxed);
}

static inline int32_t weir_ledger_waiting(const weir_ledger *ledger, unsigned klass)
{
	return atomic_load_explicit(&ledger->klass[klass].waiting, memory_order_relaxed);
}

/*
 * Whether events of the class may have their turn: something was decided about one of them, or none of those
 * that wait is in the ledger (exempt ones, or those that another law admitted).
 */
static inline bool weir_ledger_open(const weir_ledger *ledger, unsigned klass)
{
	const weir_ledger_class *k = &ledger->klass[klass];
	return atomic_load_explicit(&k->decided, memory_order_relaxed) > 0 ||
	       atomic_load_explicit(&k->waiting, memory_order_relaxed) <= 0;
}

#endif
