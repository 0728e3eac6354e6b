/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NUCLEUS_TREE_H
#define WEIR_NUCLEUS_TREE_H

/*
 * The processes of a server: who holds its listening socket, all their children, the processor time that they
 * have used, and the processors that they may use. All of it is read from /proc; processes of other users are
 * seen as far as /proc shows them (their sockets only to root, their processor time to all).
 *
 * Processor time includes children that have ended and were waited for, so it does not jump back when a worker
 * is replaced. It is exact to a clock tick (usually 10 ms) for each process.
 *
 * Threads: one at a time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WEIR_TREE_MOST  1024u /* processes */
#define WEIR_TREE_ROOTS 8u

typedef struct weir_tree {
	pid_t root[WEIR_TREE_ROOTS];
	uint32_t roots;
	pid_t member[WEIR_TREE_MOST];
	uint32_t members;
	const char *proc; /* "/proc", or another folder for tests */
} weir_tree;

/* The processes that hold one of these sockets, without those whose parent does, too. At most most of them. */
size_t weir_tree_holders(const char *proc, const uint32_t *inodes, size_t count, pid_t *ret_pids,
			 size_t most);
/* Looks for the members again: the roots and all their descendants. */
void weir_tree_look(weir_tree *tree);
/* Whether any root still exists. */
bool weir_tree_alive(const weir_tree *tree);
/* The processor time of all members and of their children that have ended, in seconds. */
double weir_tree_cpu_s(const weir_tree *tree);
/*
 * The time that the members' first threads were ready to run and had no processor, in seconds; 0 where the
 * kernel does not tell.
 */
double weir_tree_delay_s(const weir_tree *tree);
/* The processors that the process may use, by its affinity and the quotas of its control groups; 0: unknown. */
double weir_tree_processors(pid_t pid);
/*
 * The quota in processors that the control groups named in `groups` (as /proc/PID/cgroup has them) set below
 * `top` (usually /sys/fs/cgroup); INFINITY: none.
 */
double weir_tree_quota(const char *groups, const char *top);

#endif
