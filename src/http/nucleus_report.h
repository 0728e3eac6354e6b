/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_NUCLEUS_REPORT_H
#define WEIR_HTTP_NUCLEUS_REPORT_H

/*
 * What a nucleus answers to GET /nucleus: how busy one server is. `weir nucleus` prints it, so does the admin
 * listener of every service, and the sentry reads it (docs/nucleus.md).
 *
 *	{"version": 1, "age_s": 0.04, "queue_s": 0.012, "backlog": 3, "in_service": 8, "rate_per_s": 118, ...}
 *
 * A number that is unknown is null or missing. Reading checks each number that is there: one that is negative,
 * larger than the bounds of load_report.h, or not a number makes the whole report invalid, because whoever
 * sends such a number is wrong about the others too.
 *
 * Threads: any; no state.
 */

#include <jansson.h>

#include "http/load_report.h"

#define WEIR_NUCLEUS_VERSION 1
#define WEIR_NUCLEUS_BYTES   16384u /* the longest report that is read */

/* Negative: unknown. */
typedef struct weir_nucleus_report {
	double age_s;        /* of the last measurement, when the report was made */
	double every_s;      /* between two measurements */
	double queue_s;      /* that a request waits before the server takes it */
	double backlog;      /* requests that wait so, now */
	double in_service;   /* requests that the server works on */
	double rate_per_s;   /* requests */
	double cpu_s;        /* processor time of a request */
	double io_s;         /* time of a request that is not processor time */
	double alpha;        /* service_s = cpu_s + alpha * io_s */
	double service_s;    /* time of a request on an unloaded server */
	double processors;   /* that the server may use */
	double busy;         /* part of them that is used */
	double cpu_total_s;  /* processor time since the nucleus began */
	double requests;     /* since the nucleus began */
	double in_service_s; /* sum of the times in service since the nucleus began */
	double self_cpu;     /* part of a processor that the nucleus uses itself */
} weir_nucleus_report;

/* Everything is unknown. */
void weir_nucleus_report_init(weir_nucleus_report *ret_report);
/* A new reference; NULL: out of memory. */
json_t *weir_nucleus_report_json(const weir_nucleus_report *report);
/*
 * Reads such a text. 0; or -EINVAL with weir_error saying what is wrong: *ret_report is then untouched.
 * Members that are not known are ignored, so that a newer nucleus may tell more.
 */
int weir_nucleus_report_read(const char *text, size_t length, weir_nucleus_report *ret_report);
/* The same numbers as an ORCA report, as far as that has a place for them. */
void weir_nucleus_report_orca(const weir_nucleus_report *report, weir_load_report *ret_report);

#endif
