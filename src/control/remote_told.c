/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What servers tell `adaptive-remote` about themselves, as evidence beside what it sees: the limit follows from
 * what the law has measured, whatever is told.
 *
 *  idle       hardly any wait, and processors to spare. Slow requests must then be slower by half to count as
 *             congestion: a server may be idle and still wait for another.
 *
 * That servers tell of a long wait is not used. The law sees it in the answers within a few ticks. As evidence of
 * its own it limited services that were well with a wait, and helped in no grid.
 */
#include "control/remote.h"

#define BELIEVED_NS (3 * WEIR_NS_PER_S)
#define IDLE_PART   .05 /* of the target */
#define IDLE_BUSY   .7

void weir_remote_told(void *state, const weir_told *told)
{
	weir_remote *r = state;
	bool enough = told->reports > 0 && 2 * told->reports >= told->servers;
	r->heard.at_ns = enough ? told->now_ns : 0;
	r->heard.queue_s = told->queue_s;
	r->heard.busy = told->busy;
}

bool weir_remote_is_idle(const weir_remote *r, uint64_t now_ns)
{
	if (r->heard.at_ns == 0 || now_ns > r->heard.at_ns + BELIEVED_NS)
		return false;
	double most_s = IDLE_PART * (double)r->least_target_ns / 1e9;
	return r->heard.queue_s >= 0 && r->heard.queue_s < most_s && r->heard.busy >= 0 &&
	       r->heard.busy < IDLE_BUSY;
}
