/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_LAWS_CLOSED_H
#define BENCH_LAWS_CLOSED_H

/*
 * Crowds of clients that each ask again as soon as they are answered, as load generators do, before a backend that has
 * to be found out from cold. The number inside is constant then: nothing grows, and no quicker answer was ever seen.
 *
 * A crowd that is too large: some are refused, and at least 60 % of what the backend can do is done in time. A crowd
 * that the backend can serve: nobody is refused (0.5 % at most), and 97 % of what is done without a law is done.
 */

#include <stdbool.h>
#include <stdint.h>

struct closed_cell {
	unsigned users, workers, think_ms;
	double mean_ms, target_ms;
	const char *work, *discipline;
	bool ramp; /* the crowd comes within 200 ms; otherwise at once */
	bool healthy;
	uint64_t seed;
};

struct closed_result {
	double shed;   /* of those that were offered */
	double useful; /* done in time, of what the backend can do */
	double kept;   /* healthy: done, of what is done without a law */
	bool holds;
};

/* The cells of a half: "tune" (the law was changed with these), "held", or "healthy". NULL after the last. */
const struct closed_cell *closed_cell_at(const char *half, unsigned index);
void closed_cell_name(const struct closed_cell *cell, char *text, unsigned size);
/* Under a law that has a target. Ends the process if the scenario is wrong. */
void closed_cell_run(const struct closed_cell *cell, const char *law, struct closed_result *ret_result);

#endif
