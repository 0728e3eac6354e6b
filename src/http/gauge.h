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
 *  io         the rest of the time in service, which is again Little's law: the mean number in service over the
 *             rate. Under load that time contains waiting for processors, so the rest is learnt only while less
 *             than half of them are in use or waited for, and kept otherwise. Waiting counts because
 *             neighbours may use the rest: such a server is overloaded with few processors in use.
 *  service    cpu + alpha * io
 *
 * Means fade: those of the queue over a quarter of a second, that of the I/O time over twenty seconds in
 * which it is learnt (a look sees few requests in service, so it takes many), the others over two seconds, or
 * some periods if these are longer.
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
	double cpu_total_s; /* processor time of the server since some time before */
	double cpu_delay_s; /* time that it was ready to run and had no processor, since some time before */
	double processors;
	double self_cpu_s; /* processor time of the nucleus */
} weir_gauge_sample;

/* A mean that fades. */
typedef struct weir_gauge_mean {
	double sum, weight;
} weir_gauge_mean;

typedef struct weir_gauge {
	/* const after init */
	double every_s, alpha;
	/* the rest is the gauge's */
	weir_gauge_sample last;
	bool begun;
	weir_gauge_mean waiting, oldest, in_service, rate, cpu, delay, self;
	weir_gauge_mean calm_in_service, calm_requests, calm_cpu; /* while it was calm */
	double requests, cpu_total_s, in_service_s;
} weir_gauge;

void weir_gauge_init(weir_gauge *gauge, double every_s, double alpha);
/* Samples come in the order of their times. */
void weir_gauge_add(weir_gauge *gauge, const weir_gauge_sample *sample);
void weir_gauge_report(const weir_gauge *gauge, uint64_t now_ns, weir_nucleus_report *ret_report);

#endif
