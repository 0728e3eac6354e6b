/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAB_WAN_LINK_H
#define LAB_WAN_LINK_H

/*
 * The pure part of the relay: when a packet leaves a link, whether it is dropped or lost, and in which order
 * packets are due. No clock, no I/O; times are nanoseconds of any clock that does not go back.
 *
 *  wan_link   a FIFO with a rate: a packet leaves when those before it have left and its own bytes have. The
 *             queue has at most `limit` packets, without the one that is being sent; a packet that finds it
 *             full is dropped.
 *  wan_path   the way of one client: a constant delay, and independent losses.
 *  wan_line   packets on their way, by when they are due; those due at the same time keep their order.
 *
 * Bounds: a link has at most WAN_QUEUE_MAX packets in its queue, a line as many as it was made for.
 *
 * Threads: each object belongs to one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir/random.h>

#define WAN_QUEUE_MAX 65536u

typedef struct wan_link {
	/* const after init */
	double ns_per_byte; /* 0: infinitely fast, and the queue is always empty */
	uint32_t limit;
	/* owner */
	uint64_t *start_ns; /* a ring: when packets of the queue begin to be sent */
	uint32_t first, count;
	double free_ns; /* when the last packet has left */
} wan_link;

/* bits_per_s 0: no limit of the rate. 0, or -EINVAL, -ENOMEM. */
int wan_link_init(wan_link *link, double bits_per_s, uint32_t limit);
void wan_link_fini(wan_link *link);
/* Sets when the packet's last byte leaves; false: the queue is full, and the packet is dropped. */
bool wan_link_offer(wan_link *link, uint64_t now_ns, uint32_t bytes, uint64_t *ret_left_ns);

typedef struct wan_path {
	uint64_t delay_ns;
	double loss; /* probability, from 0 to 1 */
} wan_path;

/* True: the packet is lost. */
bool wan_path_loses(const wan_path *path, weir_random *random);

typedef struct wan_due {
	uint64_t at_ns, number; /* number: in the order in which they were added */
	uint32_t slot;          /* the caller's */
	uint32_t way;           /* the caller's */
} wan_due;

typedef struct wan_line {
	wan_due *due; /* a heap */
	uint32_t count, room;
	uint64_t added;
} wan_line;

/* 0, or -EINVAL, -ENOMEM. */
int wan_line_init(wan_line *line, uint32_t room);
void wan_line_fini(wan_line *line);
/* False: the line is full. */
bool wan_line_add(wan_line *line, uint64_t at_ns, uint32_t slot, uint32_t way);
/* When the first packet is due; UINT64_MAX: there is none. */
uint64_t wan_line_next(const wan_line *line);
/* Takes the first packet, if it is due; false: none is. */
bool wan_line_take(wan_line *line, uint64_t now_ns, wan_due *ret);

#endif
