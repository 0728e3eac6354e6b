/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_TRANSMIT_ESTIMATE_H
#define WEIR_NET_TRANSMIT_ESTIMATE_H

/*
 * Estimates the rate of the uplink from what the kernel tells about connections, and says at which rate to
 * send. Numbers go in, one rate comes out: no clock, no sockets, no locks.
 *
 *	OPEN ──round trips grow while answers wait──▶ DRAIN ──▶ CRUISE ──each 10th busy interval──▶ PROBE
 *	  ▲                                             ▲          │  ▲                               │
 *	  │                                             ├─backs off┘  └──────── one interval ◀── DRAIN┘
 *	  └── nothing has waited for a minute, or less sending does not shorten the round trips ◀── any
 *
 * OPEN     No limit. The uplink is not known to be the bottleneck, and TCP does as it always does.
 * CRUISE   Sends at 97 % of the estimate, so that no queue builds up in the network.
 * PROBE    Sends a little more for two intervals: 4 %, and twice as much each time that more arrives.
 * DRAIN    Sends at 90 %, and at less while that does not help, so that a queue that was built up is emptied.
 *
 * Rules
 * 1. An interval in which nothing waited, or in which receivers' windows held up what waited, teaches
 *    nothing: less was sent because less was there to be sent. Nor does one in which we did not come to send
 *    what we might have, because the machine was busy.
 * 2. Long round trips of most connections do not lower the estimate, since slow clients have queues of their
 *    own. What arrives must also fall short of what is sent; or nearly all of them are long, and stay so.
 * 3. If what is sent waits for the network although it is less than the limit, and all round trips are long,
 *    or most of them and it is much less, then the limit is too high to have any effect: it is lowered to what
 *    arrives.
 * 4. While all round trips are long the uplink is never idle, so what arrives is what it carries. If that is
 *    more than the estimate in two intervals in a row, the estimate is raised to it: when a limit begins,
 *    sockets still send what they were given before.
 * 5. If sending less does not help, the uplink is measured anew. If that does not help either, somebody else
 *    fills it. Then there is no limit for half a minute: TCP competes for the share, and answers are sent as
 *    without scheduling.
 *
 * Threads: one at a time.
 */

#include <stdbool.h>
#include <stdint.h>

/* What one interval showed. Bytes are those on the wire, with headers. */
typedef struct weir_transmit_sample {
	uint64_t now_ns;
	double taken_per_s;     /* handed to the network, repeated bytes included */
	double delivered_per_s; /* of these: arrived */
	uint32_t progressed;    /* connections on which something arrived */
	uint32_t delayed;       /* of these: their round trips are much longer than their shortest */
	bool busy;              /* all the time something waited: for its turn or, if OPEN, for the network */
	bool blocked;           /* all the time something waited for the network, and not for its turn */
	bool windowed;          /* most of what waited did so for its receiver */
} weir_transmit_sample;

typedef enum weir_transmit_phase {
	WEIR_TRANSMIT_OPEN,
	WEIR_TRANSMIT_CRUISE,
	WEIR_TRANSMIT_PROBE,
	WEIR_TRANSMIT_DRAIN,
} weir_transmit_phase;

#define WEIR_TRANSMIT_WINDOW 4

typedef struct weir_transmit_estimate {
	weir_transmit_phase phase;
	double link_per_s;  /* the estimate; 0: none yet */
	double entry_per_s; /* the estimate when the limit began, then what it was when it was first tested */
	double probe;       /* how much more a probe sends */
	double drain;       /* the part of the estimate that DRAIN sends */
	double gained;      /* delivered in the first interval of the probe */
	unsigned in_phase;  /* busy intervals in this phase */
	unsigned delayed;   /* busy intervals in a row with long round trips */
	unsigned shorts;    /* in a row in which much less arrived than was sent */
	unsigned blocked;   /* in a row in which the network was the limit, not we */
	unsigned off;       /* in a row in which we did not send what we may */
	double carried; /* what arrived in the last interval while all round trips were long; 0: they were not */
	bool fresh;     /* the estimate is new: it is tested soon */
	bool tested;    /* it was, since the limit began */
	unsigned stuck;      /* times in a row that the estimate could not be lowered further */
	uint64_t busy_ns;    /* time of the last busy interval */
	uint64_t gave_up_ns; /* when less sending last did not help; 0: never */
	uint64_t rival_ns;   /* until when somebody else is assumed to use the uplink; 0: nobody */
	/* the last intervals */
	double taken[WEIR_TRANSMIT_WINDOW], delivered[WEIR_TRANSMIT_WINDOW];
	unsigned filled, at;
} weir_transmit_estimate;

/* link_per_s: what a predecessor knew, which is the limit until it is found to be wrong; 0: nothing. */
void weir_transmit_estimate_init(weir_transmit_estimate *estimate, double link_per_s);
/* The rate at which to send from now on; 0: no limit. */
double weir_transmit_estimate_step(weir_transmit_estimate *estimate, const weir_transmit_sample *sample);
/* "open", "cruise" and so on. */
const char *weir_transmit_phase_name(weir_transmit_phase phase);

#endif
