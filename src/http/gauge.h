/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_GAUGE_H
#define WEIR_HTTP_GAUGE_H

/*
 * From what is seen of a server, every 100 ms or so, to what is reported about it. Pure: time is an argument.
 *
 *  queue      by Little's law: the mean number of requests that wait, over the rate at which they come. The age
 *             of the oldest that waits bounds it from both sides, because the count of requests may be wrong
 *             (requests of several segments, connections that were missed) and the age cannot be.
 *  cpu        processor time over requests
 *  io         the rest of the time in service. Where single answers are timed, that is their mean time without
 *             what they waited: to be read, or for a processor, whichever is more, since a process that has no
 *             processor reads nothing. Elsewhere it is again Little's law, the mean number in service over the
 *             rate, and takes many more looks: each sees few in service. Under load waits are most of it, so
 *             the rest is learnt only while less than half of the processors are in use or waited for, and kept
 *             otherwise. Waiting counts because neighbours may use the rest: such a server is overloaded with
 *             few processors in use.
 *  service    cpu + alpha * io
 *
 * Whether it was calm is judged in blocks of half a second or more that end when processor time has grown: that
 * of many processes is read less often than the rest, and counted in clock ticks. If each sample were judged,
 * just those with much of it would be left out.
 *
 * Means fade: those of the queue over a quarter of a second, that of the I/O time over twenty seconds in
 * which it is learnt, the others over two seconds, or some periods if these are longer.
 *
 * Threads: one at a time.
 */

#include "http/nucleus_report.h"

/* What is seen at one moment. Negative: not known. */
typedef struct weir_gauge_sample {
	uint64_t now_ns;
	double waiting;     /* requests that have come and were not read yet */
	double oldest_s;    /* how long the oldest of them has waited; 0: none waits */
	double in_service;  /* requests */
	double requests;    /* that have come since some time before */
	double answers;     /* that were timed since some time before; 0: none is */
	double took_s;      /* from the request to the answer: the sum over these */
	double cpu_total_s; /* processor time of the server since some time before */
	double cpu_delay_s; /* time that it was ready to run and had no processor, since some time before */
	double processors;
	double self_cpu_s; /* processor time of the nucleus */
} weir_gauge_sample;

/* A mean that fades. */
typedef struct weir_gauge_mean {
	double sum, weight;
} weir_gauge_mean;

/* What came within some time, all of it in seconds or requests. */
typedef struct weir_gauge_sums {
	double time_s, waiting_s, in_service_s, requests, cpu_s, delay_s, answers, took_s;
} weir_gauge_sums;

typedef struct weir_gauge {
	/* const after init */
	double every_s, alpha;
	/* the rest is the gauge's */
	weir_gauge_sample last;
	bool begun;
	weir_gauge_mean waiting, oldest, in_service, rate, cpu, delay, self;
	weir_gauge_sums block, calm; /* not judged yet; while it was calm */
	double requests, cpu_total_s, in_service_s;
} weir_gauge;

void weir_gauge_init(weir_gauge *gauge, double every_s, double alpha);
/* Samples come in the order of their times. */
void weir_gauge_add(weir_gauge *gauge, const weir_gauge_sample *sample);
void weir_gauge_report(const weir_gauge *gauge, uint64_t now_ns, weir_nucleus_report *ret_report);

#endif
