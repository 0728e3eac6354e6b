/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_TRACE_H
#define WEIR_STAGE_TRACE_H

/*
 * A ring of the last steps of traced events. Writers take a position and fill it. Readers use the sequence
 * number around each entry to skip what is being written or was overwritten meanwhile. Nobody waits.
 */

#include <stdatomic.h>
#include <weir/inspect.h>

typedef struct weir_trace_slot {
	_Atomic uint64_t sequence; /* 2 * position + 1: being written; + 2: complete */
	_Atomic uint64_t at_ns;
	_Atomic uint64_t rest;
} weir_trace_slot;

typedef struct weir_trace {
	weir_trace_slot *slots;
	uint64_t mask;
	_Atomic uint64_t next;
	_Atomic uint32_t every, numbers;
	_Atomic uint32_t seen;
} weir_trace;

int weir_trace_init(weir_trace *trace, uint32_t entries);
void weir_trace_fini(weir_trace *trace);
void weir_trace_put(weir_trace *trace, const weir_trace_entry *entry);
/* Gives an event that enters now a number if it is to be traced. */
void weir_trace_choose(weir_trace *trace, weir_event *event);

#endif
