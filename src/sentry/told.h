/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_TOLD_H
#define WEIR_SENTRY_TOLD_H

/*
 * What the servers of a fleet tell about themselves, and what a stage's law is told of it.
 *
 * Reports come by two ways: a nucleus is asked for them (nuclei.h), or an answer carries them in its field
 * endpoint-load-metrics. Either way the latest is kept with the origin for three periods; after that the
 * server is silent, and nothing about it is known. The sum of all fresh reports goes to the law.
 *
 * Threads: any. The numbers of a report are atomic each by itself, so a reader may see some of one report and
 * some of the next.
 */

#include <weir/law.h>

#include "http/load_report.h"
#include "http/nucleus_report.h"
#include "sentry/balance.h"

/* Periods after which a report is no longer believed. */
#define WEIR_TOLD_PERIODS 3u

/* A nucleus' report came; it is asked every every_ns. */
void weir_told_nucleus(weir_origin *origin, const weir_nucleus_report *report, uint64_t every_ns,
		       uint64_t now_ns);
/* An answer carried a report about the server. */
void weir_told_answer(weir_origin *origin, const weir_load_report *report, uint64_t every_ns,
		      uint64_t now_ns);
/* Whether the server's last report is still believed. */
bool weir_told_fresh(const weir_origin *origin, uint64_t now_ns);
/* Sums up over the fleet's servers that are not retired. */
void weir_told_sum(const weir_fleet *fleet, uint64_t now_ns, weir_told *ret_told);

#endif
