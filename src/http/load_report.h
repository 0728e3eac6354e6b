/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_LOAD_REPORT_H
#define WEIR_HTTP_LOAD_REPORT_H

/*
 * What a server tells in the fields of an answer: about this request, and about its own load.
 *
 *	Server-Timing: cpu;dur=12.5, db;dur=40, io;dur=3, queue;dur=1.5
 *	endpoint-load-metrics: TEXT cpu_utilization=0.4, rps_fractional=120, named_metrics.queue_s=0.02
 *	endpoint-load-metrics: JSON {"cpu_utilization": 0.4, "named_metrics": {"queue_s": 0.02}}
 *
 * Server-Timing is the W3C's; durations are in milliseconds. Of its metrics cpu, db, io and queue are read; a
 * metric that comes several times is added up. endpoint-load-metrics is ORCA's, as proxies of other makers
 * read it; the form without TEXT or JSON is accepted too, the binary one is not. Of its maps these names are
 * read: named_metrics.queue_s, .in_service and .processors, and request_cost.cpu_s, .db_s, .io_s and .queue_s.
 *
 * Nothing in a report is trusted. A value that is not a number, is negative or is larger than the bounds below
 * is left out and counted in `refused`. Values longer than WEIR_LOAD_REPORT_BYTES are not read at all.
 *
 * Threads: any; no state.
 */

#include <weir/http.h>

#define WEIR_LOAD_REPORT_BYTES 4096u
#define WEIR_LOAD_REPORT_TEXT  384u  /* suffices for what the functions below print */
#define WEIR_LOAD_TIME_MOST_S  3600. /* of any time */
#define WEIR_LOAD_SHARE_MOST   100.  /* of a utilization: 1 is all, but an application may exceed its aim */
#define WEIR_LOAD_RATE_MOST    1e9
#define WEIR_LOAD_COUNT_MOST   1e6 /* requests in service, processors */

/* Negative: not told. */
typedef struct weir_load_report {
	/* of this request */
	double cpu_s, db_s, io_s;
	double queue_s; /* before it was served */
	/* of the server, lately */
	double cpu_utilization, application_utilization;
	double rps, eps;     /* requests and errors per second */
	double told_queue_s; /* that requests wait there */
	double in_service;   /* requests */
	double processors;
	uint32_t refused; /* values that were left out */
} weir_load_report;

/* Nothing is told. */
void weir_load_report_init(weir_load_report *ret_report);
/* Adds the value of a field Server-Timing. */
void weir_load_report_read_timing(weir_load_report *report, weir_span value);
/* Adds the value of a field endpoint-load-metrics. */
void weir_load_report_read_orca(weir_load_report *report, weir_span value);
/* Whether the time that this request took by itself is told, at least in part. */
bool weir_load_report_has_service(const weir_load_report *report);
/* Whether anything is told about the server. */
bool weir_load_report_has_server(const weir_load_report *report);

/* Values of the two fields with what is told; returns the length, 0: nothing to tell. */
size_t weir_load_report_print_timing(const weir_load_report *report, char text[static WEIR_LOAD_REPORT_TEXT]);
size_t weir_load_report_print_orca(const weir_load_report *report, char text[static WEIR_LOAD_REPORT_TEXT]);

#endif
