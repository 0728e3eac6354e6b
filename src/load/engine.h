/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_ENGINE_H
#define WEIR_LOAD_ENGINE_H

/*
 * A run: the threads of a plan, started and stopped together, and what they have counted so far.
 *
 * Threads: one thread starts, reads, stops and frees it.
 */

#include <stdio.h>

#include "load/plan.h"
#include "load/tally.h"

typedef struct load_engine load_engine;

/* The plan, and everything it points to, must outlive the engine. 0 or a negative errno with weir_error. */
int load_engine_start(const load_plan *plan, load_engine **ret);
/*
 * Ends the run early: there are no more arrivals. What was due is sent, and answers are awaited, as at
 * any other end.
 */
void load_engine_stop(load_engine *engine);
/* Everything has been sent and counted. */
bool load_engine_is_over(const load_engine *engine);
/* Adds what has been counted so far to a tally made by load_engine_tally. */
void load_engine_read(const load_engine *engine, load_tally *into);
int load_engine_tally(const load_engine *engine, load_tally *ret);
/*
 * How long it has been measuring. At the end: until the last answer, and not less than planned unless it
 * was stopped.
 */
uint64_t load_engine_length(const load_engine *engine);
/*
 * Writes a row per request (plan.each) as CSV, once it is over. Returns how many rows were left out for want
 * of room.
 */
uint64_t load_engine_each(const load_engine *engine, FILE *out);
/* Why it ended early by itself; "": it did not. */
const char *load_engine_failure(const load_engine *engine);
/* Once it is over: why the first TLS handshake that failed did, in the words of TLS; "": none failed. */
const char *load_engine_tls_failure(const load_engine *engine);
/* Waits for the threads. Sets *engine to NULL. */
void load_engine_free(load_engine **engine);

#endif
