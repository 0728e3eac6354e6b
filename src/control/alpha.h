/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_ALPHA_H
#define WEIR_CONTROL_ALPHA_H

/*
 * The constant alpha in S = cpu + alpha * io: how much of the time that a request waits for data counts as its
 * service time on an unloaded server (Cataclysm, equation 2). It is fitted by least squares to requests whose
 * time, processor time and I/O time are known: the alpha that makes the sum of (time - cpu - alpha * io)^2
 * smallest. Only requests that did not queue may be added.
 *
 * With a memory, older requests count less, so that alpha follows a server that changes.
 *
 * Threads: the owner's; no state of its own.
 */

#include <stdbool.h>
#include <stdint.h>

#define WEIR_ALPHA_LEAST 0.
#define WEIR_ALPHA_MOST  10.

/* All zero: no requests yet. */
typedef struct weir_alpha {
	double count;
	double io_io, io_rest, rest_rest; /* sums of products; rest: the time without cpu */
} weir_alpha;

/* Adds a request. Times that are negative, infinite or not numbers are left out. */
void weir_alpha_add(weir_alpha *alpha, double time_s, double cpu_s, double io_s);
/* As above, and what was added before counts by 1 - 1/memory of what it did. */
void weir_alpha_add_fading(weir_alpha *alpha, double time_s, double cpu_s, double io_s, double memory);
/*
 * The fitted alpha, from 0 to 10, and its standard error. false: what was added cannot tell: fewer than
 * three requests, or none that waited for data.
 */
bool weir_alpha_fit(const weir_alpha *alpha, double *ret_alpha, double *ret_error);

#endif
