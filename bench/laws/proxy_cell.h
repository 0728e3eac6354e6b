/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_PROXY_CELL_H
#define WEIR_BENCH_PROXY_CELL_H

/*
 * One cell of the proxy's grid: a law on a stage whose every started event is a request to a backend that the law cannot look into, a
 * load, and what came of it. Run on the real runtime in a virtual world, so the same cell is always the same run.
 */

#include <weir/sim.h>

#include "laws/reasons.h"
#include "sim/backend.h"
#include "sim/dist.h"

#define PROXY_PHASES 16
#define PROXY_KINDS  12

/* From at_s on the load and the backend's speed are these; 0 at_s: unused. */
struct proxy_phase {
	double at_s;
	double load, speed;
};

/*
 * A kind of request. One that is visible has its cost set, in microseconds, as a table of costs would have learnt it: what it takes unloaded, on
 * average. Of the others the proxy is told nothing. What cannot be told apart has one target: kinds are gathered into lots, each
 * visible kind being one and all invisible ones together another.
 */
struct proxy_kind {
	weir_dist work;
	double share; /* of the requests */
	bool visible;
	unsigned lot;  /* made by proxy_cell_lots */
	uint8_t klass; /* of its requests, in cells that are watched */
};

/* What happened to a request, for those who watch a cell. */
enum proxy_step { PROXY_OFFERED, PROXY_ADMITTED, PROXY_SHED, PROXY_DROPPED, PROXY_ANSWERED, PROXY_STUCK };

struct proxy_seen {
	enum proxy_step step;
	bool measured; /* now */
	unsigned kind;
	uint64_t now_ns;
	double work_ns;
	uint64_t took_ns; /* answered, or stuck (inside at the end, past its target): since it was offered */
};

typedef void proxy_watch(void *arg, const struct proxy_seen *seen);

/* What is judged together. */
struct proxy_lot {
	double alone_s;  /* what nine of ten take unloaded */
	double target_s; /* its own: the cell's, or a multiple of alone_s where that is more than the cell's */
};

/* How requests come: one by one; `burst` at one instant; or one by one for active_s, and then none for silent_s. */
struct proxy_pattern {
	unsigned burst; /* 0: one by one */
	double active_s, silent_s;
};

struct proxy_cell {
	char name[96];
	const char *part;
	weir_backend_options backend;
	weir_dist work;
	double capacity_per_s; /* the backend's best */
	double target_s;
	double load; /* of the capacity */
	struct proxy_phase phase[PROXY_PHASES];
	double warm_s, measure_s;
	/* shares of the requests, 0: none */
	double failing_fast, failing_slow; /* answer with an error at once, or after two targets */
	double hanging;                    /* never answer, and cost the backend nothing */
	uint32_t concurrency; /* a bound on the stage, for laws that set no limit themselves; 0: none */
	unsigned
		retries; /* clients give up after two targets and try again so often, as they do when they are shed */
	unsigned classes; /* 2: a tenth of the capacity in class 0, the rest of the load in class 1 */
	uint64_t seed;
	double told_every_s; /* how often the backend tells the law about itself; 0: never */

	/* The judge's grids; 0 in the others. `work` above is not looked at where there are kinds. */
	unsigned
		lanes; /* threads of the proxy's domain, which get the requests in turn; at least 1 where there are kinds */
	unsigned kinds, lots;
	struct proxy_kind kind[PROXY_KINDS];
	struct proxy_lot lot[PROXY_KINDS];
	struct proxy_pattern pattern;
	double workers_left[PROXY_PHASES]; /* from that phase on, of the backend's; 0: as before */
	double top_share;  /* of the requests, in class 0; the others are in class 1; 0: all are in class 0 */
	double top_weight; /* of the work of class 0, that of class 1 being 1 */
	proxy_watch
		*watch; /* sees every request; then each kind has its class, and top_share is not looked at */
	void *watch_arg;
	bool dry_run; /* nobody is refused */
	bool exact;   /* every request's cost is the very work that it will be: for oracles */
	bool learns; /* of visible kinds nothing is known at first: a table of costs learns, as in a sentry */
};

/* Of a lot: the answers, and the percentile of them in its own target. */
struct proxy_lot_result {
	uint64_t count;
	double p90;
};

/* What came of it, in the measured time. */
struct proxy_result {
	double work;          /* done, of what the backend could have done */
	double timely;        /* of the completions, those within two targets */
	double p50, p90, p99; /* of the response times, in targets */
	double shed, dropped; /* of the offered: refused at once, or after a wait */
	double would;         /* of the offered: refused, if it were not a dry run */
	double top;           /* of class 0's offered, completed within two targets */
	double limit;         /* in force at the end */
	uint64_t offered, completed;
	/* What the law said of itself when it first shed, and when that was; below 0: never. */
	weir_report first_shed;
	double first_shed_s;
	struct reasons reasons; /* of the whole run */
	/* Where there are kinds: */
	double done_s; /* work done in seconds of a worker, or where there are classes that of the completed, weighted */
	struct proxy_lot_result lot[PROXY_KINDS];
};

/* Parameters of a law for a cell. */
typedef void proxy_params(void *params, const struct proxy_cell *cell);

void proxy_cell_run(const struct proxy_cell *cell, const weir_admission_law *law, proxy_params *fill,
		    struct proxy_result *ret_result);
/* Whether all of its requests should be done. */
bool proxy_cell_light(const struct proxy_cell *cell);
/* Whether the cell's bounds hold; what_failed gets their names. */
bool proxy_cell_passed(const struct proxy_cell *cell, const struct proxy_result *result, char *what_failed,
		       size_t size);

/* By how much the worst of the cell's bounds is kept, as a part of it; below 0: not at all. */
double proxy_cell_slack(const struct proxy_cell *cell, const struct proxy_result *result);
/* Whether a proxy that was told everything meets the bounds (proxy_oracle.c). */
bool proxy_cell_possible(const struct proxy_cell *cell);

/* Gathers the cell's kinds into lots, with their targets: of a lot that takes longer than the cell's target by itself, so many times what it takes. */
void proxy_cell_lots(struct proxy_cell *cell, double own_factor);

/* All cells of the grid, seeded by this and by their places; returns their number. */
size_t proxy_cells(struct proxy_cell *cells, size_t most, uint64_t seed);

#endif
