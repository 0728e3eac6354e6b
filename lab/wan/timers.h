/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAB_WAN_TIMERS_H
#define LAB_WAN_TIMERS_H

/*
 * TCP's timers for programs of the lab. An experiment that compresses time by 5 needs retransmission timers
 * that are five times as short, or losses cost five times as much as they should. No socket option reaches
 * all of them, so this is a BPF program of type sock_ops on a control group of its own: programs that join
 * the group (by its cgroup.procs) have these timers, and nobody else has.
 *
 * The program is a few instructions, made here and given to bpf(2): neither a compiler for BPF nor libbpf is
 * needed. It ends with this process, since it is attached by a link. The group's folder is removed by
 * wan_timers_close; after a kill it stays behind, empty, and the next wan_timers_open removes it.
 */

#include <stddef.h>
#include <stdint.h>

typedef struct wan_timers {
	uint64_t first_ns;      /* before a first retransmission of a SYN or its answer; 0: as it is */
	uint64_t rto_min_ns;    /* the shortest retransmission timer; 0: as it is */
	uint64_t delack_max_ns; /* the longest delay of an acknowledgement; 0: as it is */
	char congestion[16];    /* "": as it is */
	/* set by open */
	char path[256]; /* of the group */
	int program, link;
} wan_timers;

/* 0, or a negative errno; then `why` says what failed, in at most `size` bytes. */
int wan_timers_open(wan_timers *timers, char *why, size_t size);
/* Accepts timers that were never opened. Programs in the group must have ended. */
void wan_timers_close(wan_timers *timers);

#endif
