/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_INSPECT_H
#define WEIR_INSPECT_H

/*
 * Looking inside: counters, distributions, graph, faults, trace. Any thread, at any time: reading
 * takes no lock that a running stage needs. Numbers read while the world runs are each right, but not all of one instant.
 * Stages that are retired vanish from all of it, with the edges that led to them and from them.
 */

#include <stdio.h>

#include <weir/stage.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_ALL_CLASSES WEIR_CLASSES

typedef struct weir_stage_stats {
	uint64_t offered, admitted, shed, completed, failed, dropped;
	uint64_t late;                           /* of those completed: later than promised */
	uint64_t in_flight;                      /* waiting, or started and not settled */
	uint64_t waiting;                        /* all classes */
	uint64_t in_service;                     /* started and not settled, all classes */
	uint64_t inlined;                        /* admitted and handled at once */
	uint64_t batches;                        /* handler calls, all classes */
	uint64_t by_verdict[WEIR_VERDICT_COUNT]; /* shed at the offer, by reason */
	uint64_t drops[WEIR_VERDICT_COUNT];      /* dropped after admission, by reason */
	uint64_t spared[WEIR_VERDICT_COUNT];     /* refused but let in all the same: dry run, shed ceiling */
} weir_stage_stats;

/* klass: 0 .. WEIR_CLASSES - 1, or WEIR_ALL_CLASSES. */
WEIR_API void weir_stage_read(const weir_stage *stage, unsigned klass, weir_stage_stats *ret_stats);

/* What is set on a stage now. */
typedef struct weir_stage_settings {
	const weir_admission_law *law; /* in force; NULL: none */
	weir_admission_mode mode;
	double shed_ceiling;     /* 1: none */
	uint32_t capacity;       /* events that may wait */
	const weir_bound *bound; /* that it shares with other stages; NULL: none */
} weir_stage_settings;

/* What is in force now. */
WEIR_API void weir_stage_read_settings(const weir_stage *stage, weir_stage_settings *ret_settings);
/*
 * Copies the parameters that were given for this law, law->params_bytes of them. false: another law is in
 * force by now, or it was given none.
 */
WEIR_API bool weir_stage_read_params(const weir_stage *stage, const weir_admission_law *law,
				     void *ret_params);

/* Numbers of stages, as in a trace entry, are from 0 to below this. */
WEIR_API uint32_t weir_world_stage_count(const weir_world *world);
/*
 * The stage of this number; NULL: none has it now. A number can be used again after a retirement. What is found
 * stays valid on a thread of the world until its handler or callback returns, on other threads until the stage is
 * retired.
 */
WEIR_API weir_stage *weir_world_stage_at(const weir_world *world, uint32_t number);
/* A number that no other stage of the world has had or will have. */
WEIR_API uint64_t weir_stage_serial(const weir_stage *stage);

typedef enum weir_measure { WEIR_WAITING, WEIR_SERVICE, WEIR_RESPONSE, WEIR_MEASURES } weir_measure;

/*
 * The quantile (0 to 1) of what was measured since the start, in ns, accurate to 3 %; 0 if nothing was
 * measured.
 */
WEIR_API uint64_t weir_stage_quantile(const weir_stage *stage, unsigned klass, weir_measure measure,
				      double quantile);

/*
 * As weir_stage_quantile, for `count` quantiles at once, of what was measured in the last eight to ten
 * seconds. Returns how many measurements that were. The first call for a stage, class and measure begins to
 * remember (48 KB, until the stage is freed); if the stage is older than ten seconds, that call finds nothing
 * yet. Takes a lock that settings and ticks need, but no offer. Without memory: 0.
 */
WEIR_API uint64_t weir_stage_recent(weir_stage *stage, unsigned klass, weir_measure measure,
				    const double *quantiles, uint64_t *ret_ns, size_t count);

/*
 * How many events one stage's handler offered to the other and had admitted. If from is NULL: offered
 * from outside any handler.
 */
WEIR_API uint64_t weir_edge_count(const weir_stage *from, const weir_stage *to);

/* Misuse that was survived. X(name, text) */
#define WEIR_FAULTS(X)                                                                                   \
	X(LEAKED, "a handler returned without settling an event")                                        \
	X(NOT_FREE, "an event was offered that another stage or nobody's handler owns")                  \
	X(NOT_INIT, "an event was offered that was never initialised")                                   \
	X(BAD_CLASS, "an event or reservation named a class that does not exist")                        \
	X(NOT_OWNED, "an event was settled that no handler owned")                                       \
	X(BAD_OFFER, "an offer of many was empty, too large, of mixed classes, or named an event twice") \
	X(BAD_WAIT, "a waiting offer on a reactor thread or in a virtual world")                         \
	X(WAIT_CYCLE, "a waiting offer would have closed a circle of waiting domains")                   \
	X(NOT_STARTED, "an offer before the world was started or after it was stopped")                  \
	X(BAD_TICKET, "a commit of a ticket that holds no place, or of other events than reserved")      \
	X(UNDRAINED, "events that a stop could not drain in time")                                       \
	X(UNSETTLED, "events still held when the world stopped")

typedef enum weir_fault {
#define WEIR_X(name, text) WEIR_FAULT_##name,
	WEIR_FAULTS(WEIR_X)
#undef WEIR_X
		WEIR_FAULT_COUNT
} weir_fault;

/* How many faults of this kind the stage has counted. */
WEIR_API uint64_t weir_stage_faults(const weir_stage *stage, weir_fault fault);
/* A sentence about the fault, for people. */
WEIR_API const char *weir_fault_text(weir_fault fault);

/* One step of a traced event. */
typedef struct weir_trace_entry {
	uint64_t at_ns;
	uint32_t event; /* its number */
	uint16_t stage; /* its number: that of a stage that was retired may be another's by now */
	uint8_t klass;
	/* 'o'ffered and run at once, 'q'ueued, 's'hed, 'b'egun, 'h'eld, 'd'one, 'f'ailed, 'x': dropped */
	uint8_t step;
	weir_verdict verdict; /* for 's' and 'x' */
} weir_trace_entry;

/* Copies the newest entries, oldest first; returns how many. */
WEIR_API size_t weir_trace_read(const weir_world *world, weir_trace_entry *ret_entries, size_t count);
/* The name of the entry's stage, "(retired)" if that is gone; valid as the stage (weir_world_stage_at). */
WEIR_API const char *weir_trace_stage(const weir_world *world, const weir_trace_entry *entry);
/* Traces one of every n events from now on (0: only those with WEIR_EVENT_TRACE). */
WEIR_API void weir_trace_every(weir_world *world, uint32_t n);

/* Everything above as JSON. 0 or a negative errno. */
WEIR_API int weir_dump(const weir_world *world, FILE *to);
/* The stage graph in DOT, with counts on the edges. */
WEIR_API int weir_dump_graph(const weir_world *world, FILE *to);

#ifdef __cplusplus
}
#endif
#endif
