/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_REVENUE_H
#define WEIR_BENCH_REVENUE_H

/*
 * The judge of revenue: cells in which classes differ in what their requests are worth and in what they cost,
 * drawn from a seed (revenue_cells.c), what a law earns there (revenue_run.c), and the rules by which that is
 * judged (revenue_rules.c). One thread; processes share the cells.
 */

#include "laws/proxy_cell.h"
#include "laws/tally.h"

#define REVENUE_CELLS   288
#define REVENUE_CLASSES 3
#define REVENUE_SECONDS 400 /* the longest run */

/* The bounds, of what the oracle earns, and of what others earn. */
#define REVENUE_LEAST      .97
#define REVENUE_OVER_BATCH 1.15
#define REVENUE_OVER_ORDER 1.5

/* How a class's revenue goes with what its requests cost. */
enum revenue_relation {
	REVENUE_RISING,  /* the dearest requests are worth the most */
	REVENUE_FALLING, /* the cheapest are */
	REVENUE_MIXED,   /* each class has requests of every cost */
	REVENUE_UNKNOWN, /* the same, and nobody knows what a request costs */
	REVENUE_RELATIONS
};

struct revenue_cell {
	struct proxy_cell cell;
	enum revenue_relation relation;
	double spread; /* of the costs: 1, 10 or 100 */
	double load;   /* 2, 5 or 10 times the capacity */
	double revenue[REVENUE_CLASSES];
	double guaranteed_per_s[REVENUE_CLASSES]; /* 0: none */
	bool held;                                /* out: not for choosing constants */
};

/* One request that was offered in the measured time, for the oracles. */
struct revenue_request {
	double work_ns;
	uint8_t kind;
	bool conforms; /* to its class's guarantee */
};

struct revenue_class {
	double earned, late, turned_away; /* revenue: in time; answered too late; refused or dropped */
	double p90;                       /* of all answers, in own targets */
	uint64_t answers;
};

/* What came of a law in a cell, over the measured time. */
struct revenue_result {
	struct proxy_result proxy;
	double earned;
	struct revenue_class klass[REVENUE_CLASSES];
	unsigned seconds, kept; /* in which a guarantee was possible; in which it was kept */
	double oracle; /* a fractional knapsack over what was offered, by the expected cost of each kind */
	double clairvoyant; /* the same by every request's own cost */
	double busy;        /* the oracle's, if the backend worked only as much as it did */
};

extern const char *const revenue_relation_names[REVENUE_RELATIONS];

/*
 * All cells: what they are comes from `draw`, what happens in them from that and `seed`. Returns their
 * number.
 */
size_t revenue_cells(struct revenue_cell *cells, uint64_t draw, uint64_t seed);
/* The overload begins at once, and all that can be known of costs is what a table of costs learns there. */
void revenue_begin_cold(struct revenue_cell *cell);
/* The expected work of a request of the kind, as far as it can be known when it comes. */
double revenue_expected_ns(const struct revenue_cell *cell, unsigned kind);

/* Runs a law, with target, revenue and guarantees set where it has such parameters. */
void revenue_run(const struct revenue_cell *cell, const weir_admission_law *law,
		 struct revenue_result *ret_result);
/*
 * What the best of many policies earns that are told the kinds to admit and how much may be inside, and that
 * keep every class's percentile: as much as anybody can be expected to earn. 0: none keeps them.
 */
double revenue_told(const struct revenue_cell *cell);

/* ---- the rules ---- */

struct revenue_verdict {
	double of_oracle; /* earned, of what the oracle earns */
	double p90;       /* the worst class's */
	bool kept;        /* all guarantees, in every second */
	bool met;
	char failed[40];
};

void revenue_decide(const struct revenue_cell *cell, const struct revenue_result *result,
		    struct revenue_verdict *ret_verdict);

#endif
