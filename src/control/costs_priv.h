/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_COSTS_PRIV_H
#define WEIR_CONTROL_COSTS_PRIV_H

/*
 * Internals of the table of costs. Reading order: costs_key.c (folding), costs.c (look-up, places),
 * costs_fold.c (prefixes, many children), costs_learn.c (estimates), costs_text.c (views, saving).
 *
 * A place is a mark and a record. The marks of a set are adjacent, so that a look-up reads two cache
 * lines which change seldom; the records change with every answer. A mark's tag is the hash of the key
 * (64 bits with a secret: two keys share one only by chance); 0: free, 1: being written.
 */

#include <stdatomic.h>

#include "control/costs.h"
#include "control/costs_key.h"

#define WEIR_COSTS_WAYS    8u
#define WEIR_COSTS_ROWS    4u
#define WEIR_COSTS_WINDOW  32u /* length of the estimate's memory, in answers */
#define WEIR_COSTS_NOBODY  0u
#define WEIR_COSTS_WRITING 1u

typedef struct weir_cost_mark {
	_Atomic uint64_t tag;
	_Atomic uint32_t generation; /* of the place; never 0 once it has been used */
	_Atomic uint32_t cost_us;    /* 0: not trusted */
} weir_cost_mark;

typedef struct weir_cost_record {
	/* of the key; written while the tag is WRITING */
	_Atomic uint32_t route;
	_Atomic uint8_t method, sort, length;
	_Atomic bool proven; /* has had a good answer, and its prefixes have counted it */
	_Atomic bool folds;  /* a prefix: new segments behind it become "*" */
	_Atomic bool spared; /* set while a prefix above it is being folded */
	_Atomic uint64_t text[WEIR_COSTS_TEXT / 8];
	/* any thread */
	_Atomic uint64_t parent;      /* a weir_cost_kind: the longest prefix, or the route; 0: none */
	_Atomic uint64_t children[2]; /* a prefix: segments seen behind it, one bit per hash */
	_Atomic uint32_t uses;        /* recent ones: halved with the sketch */
	_Atomic uint32_t samples;     /* calm answers, up to the window */
	_Atomic uint32_t run;         /* unusually long times in a row */
	_Atomic float run_ns;         /* their mean */
	_Atomic float base_ns, extra_ns, deviation_ns, p90_ns;
	_Atomic float rare; /* share of the unusually long times */
	_Atomic float work_ns;
	_Atomic uint64_t work_at_ns, last_ns, count;
} weir_cost_record;

struct weir_costs {
	/* const after init */
	weir_siphash_key key;
	uint32_t places, set_mask, sketch_mask;
	weir_cost_mark *marks;
	weir_cost_record *records;
	_Atomic uint8_t *sketch[WEIR_COSTS_ROWS];
	/* any thread */
	_Atomic uint32_t owners;
	_Atomic uint32_t bumps; /* of the sketch since it was halved */
	_Atomic bool changing;  /* a thread is changing the table; others skip their changes */
};

#define WEIR_COSTS_GET(field)        atomic_load_explicit(&(field), memory_order_relaxed)
#define WEIR_COSTS_SET(field, value) atomic_store_explicit(&(field), (value), memory_order_relaxed)

/* ---- costs.c ---- */

uint64_t weir_costs_hash(const weir_costs *costs, const weir_cost_key *key);
/* The place with this tag; NULL if there is none. */
weir_cost_mark *weir_costs_look(const weir_costs *costs, uint64_t hash);
/* Takes the right to change the table; false: another thread has it. */
bool weir_costs_enter(weir_costs *costs);
void weir_costs_leave(weir_costs *costs);
/*
 * Takes a place for a key that has none; frequency: how often it was requested. NULL: none available.
 * Only between enter and leave.
 */
weir_cost_mark *weir_costs_take(weir_costs *costs, const weir_cost_key *key, uint64_t hash,
				uint32_t frequency);
/* Frees a place. Only between enter and leave. */
void weir_costs_drop(weir_costs *costs, weir_cost_mark *mark);
/* Reads the key at a place and fills in its segments; false: the place has just changed hands. */
bool weir_costs_read_key(const weir_costs *costs, const weir_cost_mark *mark, weir_cost_key *ret_key);
/* The route's place, found or taken as by weir_costs_take; NULL: none. Only between enter and leave. */
weir_cost_mark *weir_costs_route(weir_costs *costs, uint32_t route, uint32_t frequency);

static inline weir_cost_record *weir_costs_record(const weir_costs *costs, const weir_cost_mark *mark)
{
	return &costs->records[mark - costs->marks];
}

/* The place of a handle; NULL: stale. */
static inline weir_cost_mark *weir_costs_place(const weir_costs *costs, weir_cost_kind kind)
{
	if (kind.generation == 0 || kind.at >= costs->places)
		return NULL;
	weir_cost_mark *mark = &costs->marks[kind.at];
	return WEIR_COSTS_GET(mark->generation) == kind.generation ? mark : NULL;
}

static inline weir_cost_kind weir_costs_kind(const weir_costs *costs, const weir_cost_mark *mark)
{
	return (weir_cost_kind){(uint32_t)(mark - costs->marks), WEIR_COSTS_GET(mark->generation)};
}

static inline uint64_t weir_costs_pack(weir_cost_kind kind)
{
	return (uint64_t)kind.at << 32 | kind.generation;
}

static inline weir_cost_kind weir_costs_unpack(uint64_t packed)
{
	return (weir_cost_kind){(uint32_t)(packed >> 32), (uint32_t)packed};
}

/* ---- costs_fold.c ---- */

/*
 * Finds the longest known prefix, and puts "*" where prefixes fold. Returns the prefix; NULL if there is
 * none.
 */
weir_cost_mark *weir_costs_walk(const weir_costs *costs, weir_cost_key *key);
/* A kind's first good answer: its prefixes get places and count it. The kind may be folded as a result. */
void weir_costs_prove(weir_costs *costs, weir_cost_mark *mark);

#endif
