/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_TALLY_H
#define WEIR_LOAD_TALLY_H

/*
 * What came of the requests: counts and histograms, whole and by class, by path, by second. A thread counts in its own tally; the one who reports merges them.
 *
 * Times are counted from when a request was meant to be sent (the arrival, or the end of the think), not from when it was: a generator or a server that falls behind makes them longer, as
 * a user would see it. Each request that was meant to be sent is counted once as sent, and once, when it is over, as exactly one of ok, shed, failed, timed out, aborted; or it
 * was still under way at the end (`open`). So sent = ok + shed + errors + timeouts + aborted + open. What was meant to be sent and could not be before the end is `unsent`.
 *
 * Threads: one writer a tally; the reporter reads and merges while it is written (counts are relaxed atomics), so a picture of a running tally may be a request off between two fields.
 */

#include "base/hist.h"
#include "load/spread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum load_end {
	LOAD_OK,      /* an answer below 400, or one that was told to be expected */
	LOAD_SHED,    /* 503 or 429 */
	LOAD_ERROR,   /* connection refused or cut, nonsense, or any other answer of 400 and above */
	LOAD_TIMEOUT, /* --timeout passed */
	LOAD_ABORTED, /* the user's patience was over */
	LOAD_ENDS
} load_end;

/* Why an error was one; for the report's list. */
typedef enum load_error {
	LOAD_ERROR_NONE,
	LOAD_ERROR_CONNECT,  /* refused, unreachable, no address left */
	LOAD_ERROR_CUT,      /* the connection ended before the answer did */
	LOAD_ERROR_NONSENSE, /* what came was no answer */
	LOAD_ERROR_TLS,
	LOAD_ERROR_REFUSED, /* HTTP/2: REFUSED_STREAM, or a GOAWAY that left it out: it was not looked at */
	LOAD_ERROR_RESET,   /* HTTP/2: RST_STREAM of the service */
	LOAD_ERROR_STATUS,  /* 400 and above, but 429 and 503 */
	LOAD_ERRORS
} load_error;

/* One group of requests: all, a class, a path, or a second. */
typedef struct load_group {
	_Atomic uint64_t sent, late; /* late: sent more than a millisecond after it was meant to be */
	_Atomic uint64_t ended[LOAD_ENDS];
	_Atomic uint64_t good;  /* ok, and within the target */
	_Atomic uint64_t bytes; /* of answers, as received */
	_Atomic uint64_t retries;
	_Atomic uint64_t response_sum_ns, response_max_ns; /* of those that are ok, exactly */
	weir_hist response; /* of those that are ok: meant to be sent to last byte, ns */
	/* Of a class or a path; those of all are the tally's. There can be many paths, so these are the smaller kind. */
	load_spread first_byte, connect;
} load_group;

typedef struct load_second {
	_Atomic uint64_t sent, late, ended[LOAD_ENDS], good, open; /* open: at its end */
	_Atomic uint64_t response_sum_ns;                          /* of ok */
	_Atomic uint64_t response_max_ns;
	/* Of ok. Made by the second's thread when the first ends in it, and published by a release store; NULL: none did, or there was no memory. */
	_Atomic(load_spread *) spread;
} load_second;

/* Three digits: services have made up more than there are. */
#define LOAD_STATUSES 1000

typedef struct load_tally {
	uint64_t target_ns; /* UINT64_MAX: none was given, ok is good */
	load_group all;
	load_group *klass, *path; /* arrays, as many as the work has */
	unsigned classes, paths;
	weir_hist first_byte, connect, shed_response,
		send_error; /* ns; send_error: how long after it was meant to be a request was sent, be it to a connection that is still being made */
	_Atomic uint64_t errors[LOAD_ERRORS];
	_Atomic uint64_t status[LOAD_STATUSES]; /* how often each was seen */
	_Atomic uint64_t connections, unsent, open, offered_late_ns_max;
	/* What the generator itself came to more than a millisecond after it was due, whether or not there was a connection for it; and what it never came to (at least; it is part of unsent). */
	_Atomic uint64_t behind, missed;
	/* Of closed runs: how many users there are, their answers that were ok, and the sum of the squares of each one's: how evenly they were served. */
	_Atomic uint64_t users, user_answers, user_squares;
	load_second
		*second; /* by the second in which it ended (sent, late: in which it was meant to be sent) */
	_Atomic unsigned seconds; /* begun */
	unsigned seconds_max;     /* what comes later is counted in the last */
	/* Of what is merged into: spreads of seconds before this one are left out. A live screen looks at the last minute only; 0: all. */
	unsigned spread_from;
	/* The same: paths are left out, of which there can be many. */
	bool without_paths;
} load_tally;

/* 0 or -ENOMEM; then there is nothing to finish. */
int load_tally_init(load_tally *tally, unsigned classes, unsigned paths, uint64_t target_ns,
		    unsigned seconds_max);
void load_tally_fini(load_tally *tally);

/* at_ns: since the start of the run. */
void load_tally_sent(load_tally *tally, unsigned klass, unsigned path, uint64_t meant_ns, uint64_t sent_ns);
typedef struct load_result {
	load_end end;
	load_error error;
	unsigned klass, path, status;
	uint64_t meant_ns, first_byte_ns, ended_ns; /* since the start of the run */
	uint64_t bytes;
} load_result;
void load_tally_ended(load_tally *tally, const load_result *result);
/* A connection can be used, so long after its start. */
void load_tally_connected(load_tally *tally, uint64_t took_ns);
/* It was made for a request of these. */
void load_tally_connected_for(load_tally *tally, unsigned klass, unsigned path, uint64_t took_ns);
/* An attempt was for nothing and there will be another; status 0: it had no answer. */
void load_tally_retried(load_tally *tally, unsigned klass, unsigned path, unsigned status);
/* How many are under way at this time, which is the end of a second or of the run. */
void load_tally_open(load_tally *tally, uint64_t at_ns, uint64_t open);
/* A closed user has had another answer that was ok, after `before` of them. */
void load_tally_user(load_tally *tally, uint32_t before);
/* Adds what `from` has so far; for a report, `into` starts empty. Both have as many classes, paths and seconds_max. */
void load_tally_merge(load_tally *into, const load_tally *from);

#endif
