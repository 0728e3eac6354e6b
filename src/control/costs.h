/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_COSTS_H
#define WEIR_CONTROL_COSTS_H

/*
 * The cost of kinds of requests: the time that requests of a kind take without queueing. It is learnt
 * from answers in calm times, and looked up for each request before it is offered.
 *
 * Kinds. A kind is a route (a number), a method (a number) and a path without its query, in which
 * identifiers are folded:
 * - A segment that is a number, a UUID, 8 or more hexadecimal digits, or a long token with digits becomes
 *   "*" (costs_key.h).
 * - Once a prefix has had more than WEIR_COSTS_CHILDREN different segments behind it, new ones become "*"
 *   there. A segment known by then keeps its name only if its cost is known to differ from that of the
 *   others, so that folding loses nothing.
 *
 * Fallback. If a kind is unknown, or has had too few answers to be trusted, the cost of the longest known
 * prefix of its path is used, else that of its route, else 0: unknown. Prefixes and routes learn from the
 * kinds below them: from each answer until the kind is trusted, and from one in WEIR_COSTS_SHARE after
 * that.
 *
 * Learning. Only calm answers move the estimate (the caller decides what is calm). The typical time
 * follows with a weight of 1/32, so within some 30 to 60 answers, up and down. A time above the bound of
 * the usual (the typical time plus four deviations) counts as that bound, so a single outlier moves the
 * estimate only a little. Eight such times in a row are a change (a deployment, say), and the kind is
 * learnt anew from them. If such times keep coming, more than 2 in 100, they belong to the kind: the time
 * beyond the bound is averaged separately, with a weight of 1/128, and added. So the expected time is the
 * mean, even for a kind where one request in twenty takes a hundred times as long.
 *
 * Bounds. weir_costs_new takes all memory. The table has a fixed number of places, in sets of eight,
 * found by a keyed hash. A client that sends random paths cannot push out kinds that are in use:
 * - A kind gets a place only if its key was seen before, by the counters of a sketch (as in TinyLFU: 4
 *   rows, halved from time to time). Paths that come once get none.
 * - It takes a free place of its set, or else that of a kind which was requested less often in the same
 *   period: first one that has never had a good answer, then the least used one. Routes keep their
 *   places.
 * - Prefixes get a place, and count a segment, only with a first good answer: paths that do not exist
 *   change nothing.
 *
 * Handles. A weir_cost_kind is an index and a generation. It is stale if its place has been given to
 * another kind since: learning then does nothing, and looking finds nothing. (A place that changes hands
 * at the same moment may get one sample that was not its own.)
 *
 * Threads: find, learn and the functions that read may be called by any threads at once, and never wait.
 * What they share is atomic, each number by itself; two samples at the same moment may count as one.
 * Changes to the table (taking a place, folding, halving) are made under a flag. A thread that finds the
 * flag set does not wait: it skips its change, and the next request tries again. new, load and free: one
 * thread alone.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/siphash.h"

#define WEIR_COSTS_CHILDREN 32u /* different segments behind a prefix before they are folded */
#define WEIR_COSTS_TRUSTED  4u  /* calm answers after which a kind is trusted */
/* One in this many answers of a trusted kind is passed on to its prefixes and its route. */
#define WEIR_COSTS_SHARE  16u
#define WEIR_COSTS_TEXT   88u /* maximum bytes of a folded path; longer ones end in "/.." */
#define WEIR_COSTS_WEIGHT 16u /* the largest weight of a sample */

typedef struct weir_costs weir_costs;

/* A kind, or the prefix or route that stands in for it. All zero: none. */
typedef struct weir_cost_kind {
	uint32_t at, generation;
} weir_cost_kind;

typedef struct weir_costs_options {
	weir_siphash_key key; /* secret */
	uint32_t places;      /* rounded up to a power of two, 64 to 65,536; 0: 1024 */
} weir_costs_options;

/* An empty table with one owner; NULL: out of memory. */
weir_costs *weir_costs_new(const weir_costs_options *options);
/* Adds a reference and returns costs. Any thread. */
weir_costs *weir_costs_ref(weir_costs *costs);
/* Drops a reference; the last one frees the table. NULL is ignored. */
void weir_costs_free(weir_costs *costs);

/*
 * Returns the kind of a request; *ret_cost is its expected time in us (at least 1), or 0: unknown. path
 * may contain a query and any bytes.
 */
weir_cost_kind weir_costs_find(weir_costs *costs, uint32_t route, uint8_t method, const char *path,
			       size_t length, uint32_t *ret_cost);
/* Whether the kind is known by answers of its own. false: a prefix or a route stands in for it, or nothing. */
bool weir_costs_is_own(const weir_costs *costs, weir_cost_kind kind);
/*
 * The last paths that one thread has looked up, verbatim. Most requests are for a path that was requested
 * a moment ago, and then need neither folding nor a hash. All zero at first. It holds only exact
 * repetitions of known kinds, so it changes no result; a client with ever different paths merely gets no
 * benefit.
 */
#define WEIR_COSTS_RECENT 64u
#define WEIR_COSTS_WHOLE  48u /* longer paths are not cached */

typedef struct weir_costs_recent {
	struct weir_costs_asked {
		weir_cost_kind kind;
		uint32_t route;
		uint8_t method, length;
		char path[WEIR_COSTS_WHOLE];
	} asked[WEIR_COSTS_RECENT];
} weir_costs_recent;

/* As weir_costs_find and weir_costs_is_own; recent belongs to the calling thread alone. */
weir_cost_kind weir_costs_find_recent(weir_costs *costs, weir_costs_recent *recent, uint32_t route,
				      uint8_t method, const char *path, size_t length, uint32_t *ret_cost,
				      bool *ret_own);
/*
 * A request of the kind has been answered well after took_ns. weight 0: it may have queued, so it is
 * counted but teaches nothing; 1: a calm answer (so `calm` as a bool works); up to WEIR_COSTS_WEIGHT: a
 * time reported by the server, worth this many answers.
 */
void weir_costs_learn(weir_costs *costs, weir_cost_kind kind, uint64_t took_ns, unsigned weight,
		      uint64_t now_ns);
/*
 * Learning costs more than a look-up, and need not be done for each of a thousand answers a second.
 * Returns whether the kind should learn from this one: it has learnt little yet, or nothing for
 * WEIR_COSTS_DUE_NS. Of the other answers it is enough to draw some at random, each to represent several.
 */
#define WEIR_COSTS_DUE_NS UINT64_C(10000000)
bool weir_costs_is_due(const weir_costs *costs, weir_cost_kind kind, uint64_t now_ns);
/*
 * As weir_costs_learn, for one answer drawn at random that represents several: it counts as all of them,
 * and teaches as one.
 */
void weir_costs_learn_drawn(weir_costs *costs, weir_cost_kind kind, uint64_t took_ns, unsigned weight,
			    unsigned answers, uint64_t now_ns);

/* ---- views ---- */

typedef enum weir_costs_sort { WEIR_COSTS_KIND, WEIR_COSTS_PREFIX, WEIR_COSTS_ROUTE } weir_costs_sort;

typedef struct weir_costs_view {
	weir_costs_sort sort;
	uint32_t route;
	uint8_t method;
	bool folds; /* a prefix behind which segments become "*" */
	/* Printable ASCII without spaces; a prefix ends with "/", a route is empty. */
	char path[WEIR_COSTS_TEXT + 1];
	uint64_t count;        /* answers, calm or not */
	uint64_t expected_ns;  /* the mean; 0: not trusted yet */
	uint64_t typical_ns;   /* the mean without the rare long ones */
	uint64_t deviation_ns; /* mean distance from the typical time */
	uint64_t p90_ns;
	double confidence; /* 0: nothing is known; approaches 1 with the number of calm answers */
	double work_ns;    /* time taken by its answers; half-life ten minutes */
	uint64_t age_ns;   /* since its last answer */
} weir_costs_view;

/* The number of places; weir_costs_view_at takes smaller numbers. */
uint32_t weir_costs_places(const weir_costs *costs);
/* false: this place is empty, or has had no answer. */
bool weir_costs_view_at(const weir_costs *costs, uint32_t at, uint64_t now_ns, weir_costs_view *ret_view);
/* The same for a given kind; false: stale. */
bool weir_costs_view_of(const weir_costs *costs, weir_cost_kind kind, uint64_t now_ns,
			weir_costs_view *ret_view);

/* ---- saving, for a successor ---- */

/* Longer than any line. */
#define WEIR_COSTS_LINE 256u

/* Writes what is known at a place as one line, without a newline; false: nothing worth saving. */
bool weir_costs_save(const weir_costs *costs, uint32_t at, uint64_t now_ns,
		     char text[static WEIR_COSTS_LINE]);
/*
 * Loads such a line, unless the kind is already there. -EINVAL: not such a line, or of another version,
 * and nothing has changed; -ENOSPC: no place for it.
 */
int weir_costs_load(weir_costs *costs, const char *text, uint64_t now_ns);

#endif
