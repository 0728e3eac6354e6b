/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_TALLY_H
#define WEIR_LOAD_TALLY_H

/*
 * The outcomes of the requests: counts and histograms, in total and by class, by path, by second. Each
 * thread counts in its own tally; the reporter merges them.
 *
 * Times are counted from when a request was meant to be sent (the arrival, or the end of the think time),
 * not from when it was sent: if a generator or a server falls behind they get longer, as a user would see
 * it. Each request that was meant to be sent is counted once as sent and, when it is over, as exactly one
 * of ok, shed, failed, timed out, aborted; or it was still in progress at the end (`open`). So
 *
 *  sent = ok + shed + errors + timeouts + aborted + open
 *
 * Requests that were meant to be sent and could not be before the end are `unsent`.
 *
 * Threads: one writer per tally. The reporter reads and merges while it is written (counts are relaxed
 * atomics), so two fields of a running tally may differ by a request.
 */

#include "base/hist.h"
#include "load/spread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum load_end {
	LOAD_OK,      /* an answer below 400 */
	LOAD_SHED,    /* 503 or 429 */
	LOAD_ERROR,   /* connection refused or cut, an invalid answer, or any other status of 400 and above */
	LOAD_TIMEOUT, /* --timeout passed */
	LOAD_ABORTED, /* the user's patience ran out */
	LOAD_ENDS
} load_end;

/* The cause of an error, for the report's list. */
typedef enum load_error {
	LOAD_ERROR_NONE,
	LOAD_ERROR_CONNECT,  /* refused, unreachable, no address left */
	LOAD_ERROR_CUT,      /* the connection ended before the answer did */
	LOAD_ERROR_NONSENSE, /* the input was not a valid answer */
	LOAD_ERROR_TLS,
	LOAD_ERROR_REFUSED, /* HTTP/2: REFUSED_STREAM, or a GOAWAY that excluded it: it was not processed */
	LOAD_ERROR_RESET,   /* HTTP/2: the service sent RST_STREAM */
	LOAD_ERROR_STATUS,  /* 400 and above, except 429 and 503 */
	LOAD_ERRORS
} load_error;

/* One group of requests: all, a class, or a path. */
typedef struct load_group {
	_Atomic uint64_t sent, late; /* late: sent more than a millisecond after it was meant to be */
	_Atomic uint64_t ended[LOAD_ENDS];
	_Atomic uint64_t good;  /* ok, and within the target */
	_Atomic uint64_t bytes; /* of answers, as received */
	_Atomic uint64_t retries;
	_Atomic uint64_t response_sum_ns, response_max_ns; /* of ok answers, exact */
	weir_hist response; /* of ok answers: from when it was meant to be sent to the last byte, ns */
	/*
	 * Of a class or a path; those of all requests are in the tally. There can be many paths, so these
	 * are the smaller kind.
	 */
	load_spread first_byte, connect;
} load_group;

typedef struct load_second {
	_Atomic uint64_t sent, late, ended[LOAD_ENDS], good, open; /* open: at its end */
	_Atomic uint64_t response_sum_ns;                          /* of ok */
	_Atomic uint64_t response_max_ns;
	/*
	 * Of ok answers. Allocated by the second's thread when the first answer ends in it, and published
	 * by a release store; NULL: there was none, or no memory.
	 */
	_Atomic(load_spread *) spread;
} load_second;

/* Three digits: services use more statuses than are defined. */
#define LOAD_STATUSES 1000

typedef struct load_tally {
	uint64_t target_ns; /* UINT64_MAX: none was given, and every ok answer is good */
	load_group all;
	load_group *klass, *path; /* arrays, one element per class and path of the work */
	unsigned classes, paths;
	/*
	 * In ns. send_error: how long after it was meant to be sent a request was sent, even to a
	 * connection that is still being made.
	 */
	weir_hist first_byte, connect, shed_response, send_error;
	/* How long the requests that were still in progress at the end had taken by then, in ns. */
	weir_hist unanswered;
	_Atomic uint64_t errors[LOAD_ERRORS];
	_Atomic uint64_t status[LOAD_STATUSES]; /* count per status */
	_Atomic uint64_t connections, unsent, open, offered_late_ns_max;
	/*
	 * behind: requests that the generator itself handled more than a millisecond late, whether or not
	 * there was a connection for them. missed: requests that it never got to (at least; they are part
	 * of unsent).
	 */
	_Atomic uint64_t behind, missed;
	_Atomic uint64_t behind_ns_max; /* the largest delay of that kind, also below a millisecond */
	/*
	 * Of closed runs: the number of users, their ok answers, and the sum of the squares of each
	 * user's answers: how evenly they were served.
	 */
	_Atomic uint64_t users, user_answers, user_squares;
	/* By the second in which a request ended (sent, late: in which it was meant to be sent). */
	load_second *second;
	_Atomic unsigned seconds; /* begun */
	unsigned seconds_max;     /* anything later is counted in the last */
	/*
	 * For the target of a merge: distributions of seconds before this one are skipped. A live screen
	 * shows only the last minute; 0: all.
	 */
	unsigned spread_from;
	/* For the target of a merge: paths are skipped, because there can be many. */
	bool without_paths;
} load_tally;

/* 0 or -ENOMEM; on failure there is nothing to free. */
int load_tally_init(load_tally *tally, unsigned classes, unsigned paths, uint64_t target_ns,
		    unsigned seconds_max);
void load_tally_fini(load_tally *tally);

/* Times are since the start of the measurement. */
/* The generator came to a request this long after it was due, whether or not there is a connection. */
void load_tally_behind(load_tally *tally, uint64_t late_ns);
void load_tally_sent(load_tally *tally, unsigned klass, unsigned path, uint64_t meant_ns, uint64_t sent_ns);
typedef struct load_result {
	load_end end;
	load_error error;
	unsigned klass, path, status;
	uint64_t meant_ns, first_byte_ns, ended_ns; /* since the start of the measurement */
	uint64_t bytes;
} load_result;
void load_tally_ended(load_tally *tally, const load_result *result);
/* A connection is usable, this long after its start. */
void load_tally_connected(load_tally *tally, uint64_t took_ns);
/* The same, for the request for which it was made. */
void load_tally_connected_for(load_tally *tally, unsigned klass, unsigned path, uint64_t took_ns);
/* An attempt failed and there will be another; status 0: it had no answer. */
void load_tally_retried(load_tally *tally, unsigned klass, unsigned path, unsigned status);
/* How many requests are in progress at this time: at the end of a second, or of the run. */
void load_tally_open(load_tally *tally, uint64_t at_ns, uint64_t open);
/* A request that was still in progress at the end, this long after it was meant to be sent. */
void load_tally_unanswered(load_tally *tally, uint64_t ns);
/* A closed user has had another ok answer, after `before` of them. */
void load_tally_user(load_tally *tally, uint32_t before);
/*
 * Adds what `from` has so far; for a report, `into` starts empty. Both have the same numbers of classes,
 * paths and seconds_max.
 */
void load_tally_merge(load_tally *into, const load_tally *from);

#endif
