/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_UPLINK_KERNEL_H
#define WEIR_UPLINK_KERNEL_H

/*
 * The kernel's queueing disciplines (qdiscs) and links, by rtnetlink(7). Looking needs no privilege; changing
 * needs CAP_NET_ADMIN, and loading the filter's program CAP_BPF or CAP_SYS_ADMIN as well.
 *
 * Nothing waits for ever: the kernel answers within a second, or the call fails. What is kept of an answer is
 * bounded; a device with more qdiscs than fit is shown without those.
 *
 * Threads: one at a time; calls block.
 */

#include <net/if.h>

#include "uplink/plan.h"

typedef struct weir_kernel {
	int fd;
	uint32_t sequence;
} weir_kernel;

/* A link. */
typedef struct weir_kernel_link {
	int index;
	char name[IF_NAMESIZE];
	bool loopback;
	uint32_t mtu;
	weir_uplink_gso gso;          /* as it is now */
	uint32_t tso_size, tso_count; /* what the device can do at most; 0: it is not told */
} weir_kernel_link;

/* A qdisc, with its counters. */
typedef struct weir_kernel_qdisc {
	int index; /* of the device */
	char kind[16];
	uint32_t handle, parent;
	uint64_t bytes, packets;
	uint32_t dropped, waiting; /* packets */
} weir_kernel_qdisc;

enum { WEIR_KERNEL_QDISCS = 64 };

typedef struct weir_kernel_qdiscs {
	unsigned count;
	weir_kernel_qdisc qdisc[WEIR_KERNEL_QDISCS];
} weir_kernel_qdiscs;

int weir_kernel_open(weir_kernel *ret_kernel);
void weir_kernel_close(weir_kernel *kernel);
/*
 * Sends a message and waits for its acknowledgement. Returns what the kernel says, 0 or a negative errno. The
 * caller says what that means.
 */
int weir_kernel_send(weir_kernel *kernel, weir_message *message);
/* Finds a link by its name. -ENODEV with weir_error: there is none. */
int weir_kernel_find_link(weir_kernel *kernel, const char *name, weir_kernel_link *ret_link);
/* The qdiscs of a device that are at its root or ours; index 0: our roots on all devices. */
int weir_kernel_find_qdiscs(weir_kernel *kernel, int index, weir_kernel_qdiscs *ret_qdiscs);
/* The rate that our class of the uplink has, in bytes per second; 0: there is none. */
int weir_kernel_find_rate(weir_kernel *kernel, int index, uint64_t *ret_bytes_per_s);
/* Whether our root has a filter. */
int weir_kernel_find_filter(weir_kernel *kernel, int index, bool *ret_there);
/* Loads the filter's program. Returns a descriptor, or a negative errno. */
int weir_kernel_load_program(const weir_uplink_plan *plan);

/* Reading answers, for tests. They leave what they cannot read untouched and return false. */
bool weir_kernel_read_link(const struct nlmsghdr *message, weir_kernel_link *ret_link);
bool weir_kernel_read_qdisc(const struct nlmsghdr *message, weir_kernel_qdisc *ret_qdisc);
bool weir_kernel_read_rate(const struct nlmsghdr *message, uint64_t *ret_bytes_per_s);

#endif
