/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_UPLINK_UPLINK_H
#define WEIR_UPLINK_UPLINK_H

/*
 * Priority queues on an uplink: installed, shown and removed. What they are made of is in uplink/plan.h,
 * and how a socket chooses one in net/band.h. The kernel has them from then on; no process needs to run.
 *
 * Promises:
 * - The root qdisc of a device is replaced only if it is the kernel's default or ours. Whatever else is
 *   there is refused and left alone.
 * - What was there before is in a file before the first change (uplink/state.h). `remove` restores it; if
 *   the file is lost or damaged, it restores what the device can do at most.
 * - The link carries packets after each step, so that an install that was killed leaves a link that works.
 *   Another install completes it, and `remove` takes it away.
 * - An install that fails takes back what it did; queues of an earlier install are made again.
 *
 * Threads: one at a time a network namespace; a lock in the state folder refuses a second process.
 */

#include "uplink/kernel.h"
#include "uplink/state.h"

typedef enum weir_uplink_form { WEIR_UPLINK_AUTO, WEIR_UPLINK_BY_PRIO, WEIR_UPLINK_BY_HTB } weir_uplink_form;

typedef struct weir_uplink_options {
	const char *device;
	const char *folder; /* of the state */
	uint64_t rate;      /* of the uplink, bits per second */
	unsigned bands;
	weir_uplink_form form;
	bool loopback; /* a loopback device is accepted */
} weir_uplink_options;

/* Whose the root qdisc of a device is. */
typedef enum weir_uplink_owner {
	WEIR_UPLINK_DEFAULT,
	WEIR_UPLINK_OURS,
	WEIR_UPLINK_FOREIGN
} weir_uplink_owner;

/* What is there. */
typedef struct weir_uplink_view {
	weir_kernel_link link;
	weir_uplink_owner owner;
	char kind[16]; /* of the root qdisc; "" if there is none */
	/* if it is ours */
	bool complete;   /* nothing is missing */
	bool prio;       /* the bands are those of a `prio` */
	bool plain;      /* plain priorities choose a band, too */
	uint64_t shaped; /* bits per second */
	unsigned bands;
	weir_kernel_qdisc band[WEIR_BANDS_MOST], other; /* their counters */
} weir_uplink_view;

/* What an install or a remove did. */
typedef struct weir_uplink_done {
	bool already;    /* nothing was to be done */
	bool gso_failed; /* the limit of segments was refused by the kernel */
	bool guessed;    /* the former limit of segments was not known */
	bool foreign;    /* of a remove: somebody else's root was left alone */
} weir_uplink_done;

/* Looks at a device. A negative errno with weir_error. Needs no privilege. */
int weir_uplink_look(const char *device, weir_uplink_view *ret_view);
/*
 * Calls fn for each device that has our queues. Returns how many there are, or a negative errno with
 * weir_error. For a server that wants to know whether setting priorities is of any use. Needs no privilege.
 */
int weir_uplink_each(void (*fn)(const weir_uplink_view *view, void *arg), void *arg);
/* Installs the queues, or changes them if they are ours. A negative errno with weir_error. */
int weir_uplink_install(const weir_uplink_options *options, weir_uplink_done *ret_done);
/* Removes what is ours and restores what was there. A negative errno with weir_error. */
int weir_uplink_remove(const char *device, const char *folder, weir_uplink_done *ret_done);

/* Sorts what is on a device into a view; the counters and the owner come from it. For tests. */
void weir_uplink_sort(const weir_kernel_qdiscs *qdiscs, weir_uplink_view *view);

#endif
