/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_PROXY_CELL_H
#define WEIR_BENCH_PROXY_CELL_H

/*
 * One cell of the proxy's grid: a law on a stage whose every started event is a request to a backend that the law cannot look into, a
 * load, and what came of it. Run on the real runtime in a virtual world, so the same cell is always the same run.
 */

#include <weir/sim.h>

#include "sim/backend.h"
#include "sim/dist.h"

#define PROXY_PHASES 4

/* From at_s on the load and the backend's speed are these; 0 at_s: unused. */
struct proxy_phase {
	double at_s;
	double load, speed;
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
};

/* What came of it, in the measured time. */
struct proxy_result {
	double work;          /* done, of what the backend could have done */
	double timely;        /* of the completions, those within two targets */
	double p50, p90, p99; /* of the response times, in targets */
	double shed, dropped; /* of the offered: refused at once, or after a wait */
	double top;           /* of class 0's offered, completed within two targets */
	double limit;         /* in force at the end */
	uint64_t offered, completed;
};

/* Parameters of a law for a cell. */
typedef void proxy_params(void *params, const struct proxy_cell *cell);

void proxy_cell_run(const struct proxy_cell *cell, const weir_admission_law *law, proxy_params *fill,
		    struct proxy_result *ret_result);
/* Whether the cell's bounds hold; what_failed gets their names. */
bool proxy_cell_passed(const struct proxy_cell *cell, const struct proxy_result *result, char *what_failed,
		       size_t size);

/* By how much the worst of the cell's bounds is kept, as a part of it; below 0: not at all. */
double proxy_cell_slack(const struct proxy_cell *cell, const struct proxy_result *result);
/* Whether a proxy that was told everything meets the bounds (proxy_oracle.c). */
bool proxy_cell_possible(const struct proxy_cell *cell);

/* All cells of the grid, seeded by this and by their places; returns their number. */
size_t proxy_cells(struct proxy_cell *cells, size_t most, uint64_t seed);

#endif
