/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_FIGURES_H
#define WEIR_LOAD_FIGURES_H

/*
 * The figures that all reports show, computed from a tally in one place, so that text, JSON, CSV, plot
 * and screen cannot differ.
 *
 * Threads: any; only reads.
 */

#include "load/report.h"

/* In milliseconds. If count is 0 there are none. */
typedef struct load_times {
	uint64_t count;
	double mean, p50, p90, p99, p99_9, max;
} load_times;

/* Mean and maximum are exact, the percentiles accurate to 1.6 %. */
load_times load_times_of_group(const load_group *group);
/*
 * The response times, and with them the times that unanswered requests had taken by the end: what users saw
 * is at least this.
 */
load_times load_times_with_unanswered(const load_tally *tally);
load_times load_times_of_second(const load_second *second);
/* All accurate to 1.6 %. */
load_times load_times_of_hist(const weir_hist *hist);
load_times load_times_of_spread(const load_spread *spread);

/* Ended in any way that is neither ok nor shed. */
uint64_t load_failed_group(const load_group *group);
uint64_t load_failed_second(const load_second *second);

/* Seconds measured; never 0, so that one can divide by it. */
double load_seconds(const load_story *story);
/* The length of a second of the series: the last one, in which the run ended, is shorter. */
double load_second_length(const load_story *story, unsigned second);
/* The last complete second; -1: there is none. */
int load_last_second(const load_story *story);
/*
 * Requests per second that an open workload meant to send, over the whole run: each was sent, or could
 * not be.
 */
double load_asked(const load_story *story);
/*
 * Jain's index over the users of a closed run and their ok answers: 1 if all have the same number, 1/n if
 * one has them all; NAN: an open run, or no ok answer.
 */
double load_fairness(const load_tally *tally);
/* The largest delay of a send, in ms. */
double load_latest_ms(const load_story *story);

/* "gold"; without names, a number. Returns a name, or text, which has 16 bytes. */
const char *load_name(const char *const *names, unsigned at, char *text);
/* For programs: "connect"; for people: "connection refused or unreachable". */
const char *load_error_name(load_error error);
const char *load_error_words(load_error error);

/* The end of every report: 0, or -EIO with weir_error if writing to the stream failed. */
int load_report_end(FILE *out);

static inline uint64_t load_get(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif
