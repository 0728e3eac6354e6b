/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_UPLINK_PLAN_H
#define WEIR_UPLINK_PLAN_H

/*
 * What `weir uplink` makes of a rate: the numbers, and the messages to the kernel. All of it is pure.
 *
 *	5752:            htb, the root; its handle marks it as ours
 *	 5752:1          the uplink: 98 % of the rate
 *	  5752:2         other traffic: half of that at once, and what the answers leave
 *	  5752:16 ...    one class a band (net/band.h): band 0 borrows first. Or, if the kernel has `prio`:
 *	  5752:3         all answers, with a `prio` 5753: in it, which has the bands
 *
 * The queues at the ends are `pfifo` with handles of their own, 5760: to 5767: for the bands and 575f: for
 * other traffic, so that what went through a band is read from its queue in both forms. A filter on the
 * root finds the class of sockets with a plain priority.
 *
 * The link works after each message and without those that follow: htb sends what has no class at once, and
 * what has a class waits in that class's queue, which exists as soon as the class does.
 *
 * - A band has a guaranteed part of 0.5 % of the rate, so that none is starved by those above it. (A `prio`
 *   gives no such part.)
 * - Segments that the kernel sends as one (GSO) would block the queues for as long as they take; they are
 *   limited to what the uplink sends in a millisecond, and to one packet at least.
 *
 * Threads: any; no state.
 */

#include <linux/bpf.h>

#include "net/band.h"
#include "uplink/message.h"

#define WEIR_UPLINK_RATE_LEAST UINT64_C(64000)
#define WEIR_UPLINK_RATE_MOST  UINT64_C(100000000000)
#define WEIR_UPLINK_HANDLE     ((uint32_t)WEIR_BAND_MAJOR << 16)
#define WEIR_UPLINK_PRIO       (UINT32_C(0x5753) << 16)
#define WEIR_UPLINK_QUEUE      (UINT32_C(0x5760) << 16) /* of band 0; of band 1 the next */
#define WEIR_UPLINK_OTHER      (UINT32_C(0x575f) << 16)

/* Classes of the root. */
#define WEIR_UPLINK_CLASS_LINK    (WEIR_UPLINK_HANDLE | 1)
#define WEIR_UPLINK_CLASS_OTHER   (WEIR_UPLINK_HANDLE | 2)
#define WEIR_UPLINK_CLASS_ANSWERS (WEIR_UPLINK_HANDLE | 3)

typedef struct weir_uplink_plan {
	int index;          /* of the device */
	unsigned bands;     /* 1 to WEIR_BANDS_MOST */
	bool prio;          /* the bands are those of a `prio` */
	uint64_t rate;      /* of the uplink, bits per second */
	uint64_t shaped;    /* of the queues, bytes per second */
	uint32_t frame;     /* the longest packet, with its link header */
	uint32_t gso_size;  /* the longest segment, bytes; at least a frame */
	uint32_t gso_count; /* the most packets in it */
	uint32_t burst;     /* bytes that may be sent at once */
} weir_uplink_plan;

/* The numbers for a rate within the bounds, on a device with this MTU. */
void weir_uplink_plan_init(weir_uplink_plan *plan, int index, unsigned bands, uint64_t rate, uint32_t mtu);

/* The root. It must not exist: what is there and not the kernel's default is an error, -EEXIST. */
void weir_uplink_build_root(const weir_uplink_plan *plan, weir_message *ret_message);
/* The class of the uplink, of other traffic, and of all answers (for a `prio`). */
void weir_uplink_build_link(const weir_uplink_plan *plan, weir_message *ret_message);
void weir_uplink_build_other(const weir_uplink_plan *plan, weir_message *ret_message);
void weir_uplink_build_answers(const weir_uplink_plan *plan, weir_message *ret_message);
/* The class of a band, if it is not that of a `prio`. */
void weir_uplink_build_band(const weir_uplink_plan *plan, unsigned band, weir_message *ret_message);
/* The `prio` in the class of all answers. */
void weir_uplink_build_prio(const weir_uplink_plan *plan, weir_message *ret_message);
/* The queue of a band; band WEIR_BANDS_MOST: of other traffic. */
void weir_uplink_build_queue(const weir_uplink_plan *plan, unsigned band, weir_message *ret_message);
/* The filter that runs a loaded program. */
void weir_uplink_build_filter(const weir_uplink_plan *plan, int program, weir_message *ret_message);
/* Removes a class, or our root with all that is in it; -ENOENT if the root is not ours. */
void weir_uplink_build_drop_class(int index, uint32_t class_id, weir_message *ret_message);
void weir_uplink_build_drop(int index, weir_message *ret_message);

/* IFLA_GSO_IPV4_MAX_SIZE, which older headers do not have. */
#define WEIR_LINK_GSO_IPV4_SIZE 63u

/* The limits of segments of a link; 0: they are not told or stay as they are. */
typedef struct weir_uplink_gso {
	uint32_t size, count, ipv4_size;
} weir_uplink_gso;
void weir_uplink_build_gso(int index, const weir_uplink_gso *gso, weir_message *ret_message);

enum { WEIR_UPLINK_PROGRAM = 24 }; /* instructions, at most */
/*
 * The program of the filter: the class of a packet by the priority of its socket; 0: other traffic. Returns
 * the number of instructions.
 */
unsigned weir_uplink_program(const weir_uplink_plan *plan, struct bpf_insn ret_code[WEIR_UPLINK_PROGRAM]);

#endif
