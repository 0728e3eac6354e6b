/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_COSTS_H
#define WEIR_CONTROL_COSTS_H

/*
 * What kinds of request cost: the time that requests of a kind take by themselves, without queueing. It is learnt from answers in calm
 * times, and asked for each request before it is offered.
 *
 * Kinds. A kind is a route (a number), a method (a number) and a path without its query, in which identifiers are folded:
 *	- a segment that is a number, a UUID, 8 or more hexadecimal digits, or a long token with digits becomes "*" (costs_key.h);
 *	- once a prefix has had more than WEIR_COSTS_CHILDREN different segments behind it, new ones become "*" there. Of those known by then
 *	  a segment keeps its name only if its cost is known to differ from that of the others, so that folding loses nothing.
 *
 * Falling back. A kind that is unknown, or has had too few answers to be trusted, costs what the longest known prefix of its path costs,
 * else what its route costs, else 0: unknown. Prefixes and routes learn from what is below them, each answer until a kind is trusted and one
 * in WEIR_COSTS_SHARE from then on.
 *
 * Learning. Only calm answers move the estimate (the caller decides what is calm). The typical time follows with a weight of 1/32, so within
 * some 30 to 60 answers, up and down. A time above the bound of what is usual (the typical time and four deviations) counts as that bound, so
 * one outlier moves it by little. Eight such times in a row are a change (a deploy, say), and the kind is learnt anew from them. Where such
 * times keep coming, more than 2 in 100, they belong to the kind: what they take beyond the bound is averaged by itself, with a weight of
 * 1/128, and added. So the expected time is the mean also of a kind of which one in twenty takes a hundred times as long.
 *
 * Bounds. All memory is taken by weir_costs_new: the table has a fixed number of places, in sets of eight, found by a keyed hash. Who sends
 * random paths cannot push out what is in use:
 *	- a kind gets a place only when its key was seen before, by the counters of a sketch (as in TinyLFU: 4 rows, halved from time to
 *	  time); paths that come once get none;
 *	- it takes a free place, or that of a kind which has never had a good answer, or the least used place of its set, and that one only
 *	  if it was itself asked for more often in the same stretch of time;
 *	- prefixes get a place, and count a segment, only with a first good answer: paths that do not exist change nothing.
 *
 * Handles. A weir_cost_kind is an index and a generation. If its place has been given to another kind since, it is stale: learning by it does
 * nothing, looking by it finds nothing. (A place that changes hands at the same moment may get one sample that was not its own.)
 *
 * Threads: find, learn and the functions that read may be called by any threads at once, and never wait. What they share is atomic and each
 * number by itself; two samples at the same moment may count as one. Who changes the table (takes a place, folds, halves) does so
 * under a flag that others do not wait for: they go without, and the next request tries again. new, load and free: one thread alone.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/siphash.h"

#define WEIR_COSTS_CHILDREN 32u /* different segments behind a prefix, before they are folded */
#define WEIR_COSTS_TRUSTED  4u  /* calm answers that make a kind known */
#define WEIR_COSTS_SHARE \
	16u /* one in so many answers of a known kind is told to its prefixes and its route */
#define WEIR_COSTS_TEXT   88u /* bytes of a folded path at most; longer ones end in "/.." */
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
/* One owner more; returns it. Any thread. */
weir_costs *weir_costs_ref(weir_costs *costs);
/* One owner less; the last frees it. NULL: nothing. */
void weir_costs_free(weir_costs *costs);

/*
 * The kind of a request, and in *ret_cost what it is expected to take, in us (at least 1), or 0: unknown. path may have a query, and is
 * any bytes.
 */
weir_cost_kind weir_costs_find(weir_costs *costs, uint32_t route, uint8_t method, const char *path, size_t length,
			  uint32_t *ret_cost);
/*
 * The last paths that one thread has asked for, as they came: most requests are for a path that was asked for a moment ago, and need no folding and no hash then. All zero at
 * first. Only exact repetitions of kinds that are known are found in it, so it changes no result; who asks for ever different paths only goes without it.
 */
#define WEIR_COSTS_RECENT 64u
#define WEIR_COSTS_WHOLE  48u /* longer paths are not kept */

typedef struct weir_costs_recent {
	struct weir_costs_asked {
		weir_cost_kind kind;
		uint32_t route;
		uint8_t method, length;
		char path[WEIR_COSTS_WHOLE];
	} asked[WEIR_COSTS_RECENT];
} weir_costs_recent;

/* As weir_costs_find; recent is the calling thread's alone. */
weir_cost_kind weir_costs_find_recent(weir_costs *costs, weir_costs_recent *recent, uint32_t route, uint8_t method,
				 const char *path, size_t length, uint32_t *ret_cost);
/*
 * A request of the kind has been answered well after took_ns. weight: 0: it may have queued, so it is counted and teaches nothing; 1: a calm
 * answer (so `calm` as a bool is right); up to WEIR_COSTS_WEIGHT: what a server reports, worth so many answers.
 */
void weir_costs_learn(weir_costs *costs, weir_cost_kind kind, uint64_t took_ns, unsigned weight, uint64_t now_ns);
/*
 * Learning costs more than asking, and nobody needs to learn from each of a thousand answers a second. Whether the kind should learn from this one: it has not learnt much yet, or not for WEIR_COSTS_DUE_NS. Of
 * the other answers it is enough to draw some at random, each to stand for so many.
 */
#define WEIR_COSTS_DUE_NS UINT64_C(10000000)
bool weir_costs_is_due(const weir_costs *costs, weir_cost_kind kind, uint64_t now_ns);
/* As weir_costs_learn for one answer that was drawn at random and stands for so many: it counts for all of them, and teaches as one. */
void weir_costs_learn_drawn(weir_costs *costs, weir_cost_kind kind, uint64_t took_ns, unsigned weight,
			    unsigned answers, uint64_t now_ns);

/* ---- looking ---- */

typedef enum weir_costs_sort { WEIR_COSTS_KIND, WEIR_COSTS_PREFIX, WEIR_COSTS_ROUTE } weir_costs_sort;

typedef struct weir_costs_view {
	weir_costs_sort sort;
	uint32_t route;
	uint8_t method;
	bool folds; /* a prefix behind which segments become "*" */
	char path
		[WEIR_COSTS_TEXT +
		 1]; /* printable ASCII without spaces; of a prefix it ends with "/", of a route it is empty */
	uint64_t count;        /* answers, calm or not */
	uint64_t expected_ns;  /* the mean; 0: not trusted yet */
	uint64_t typical_ns;   /* the mean without the rare long ones */
	uint64_t deviation_ns; /* mean of the distances from the typical time */
	uint64_t p90_ns;
	double confidence; /* 0: nothing is known; towards 1 with the number of calm answers */
	double work_ns;    /* time taken by its answers, those of ten minutes ago counting half */
	uint64_t age_ns;   /* since its last answer */
} weir_costs_view;

/* How many places there are; weir_costs_view_at takes smaller numbers. */
uint32_t weir_costs_places(const weir_costs *costs);
/* false: nothing at this place that has had an answer. */
bool weir_costs_view_at(const weir_costs *costs, uint32_t at, uint64_t now_ns, weir_costs_view *ret_view);
/* The same for a kind at hand; false: stale. */
bool weir_costs_view_of(const weir_costs *costs, weir_cost_kind kind, uint64_t now_ns, weir_costs_view *ret_view);

/* ---- keeping: for a successor ---- */

/* Longer than any line. */
#define WEIR_COSTS_LINE 256u

/* What is known at a place as one line without a line end; false: nothing worth it. */
bool weir_costs_save(const weir_costs *costs, uint32_t at, uint64_t now_ns,
		     char text[static WEIR_COSTS_LINE]);
/* Takes such a line over, unless the kind is there. -EINVAL: not such a line, or of another version, and nothing has changed; -ENOSPC: no place for it. */
int weir_costs_load(weir_costs *costs, const char *text, uint64_t now_ns);

#endif
