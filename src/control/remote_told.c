/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What servers tell `adaptive-remote` about themselves, as evidence beside what it sees. It is evidence only: the
 * limit follows from what the law has measured, whatever is told.
 *
 *  delay      how long a request waits in a server before it is served; where all share the processors, the time by
 *             which the others stretch it
 *  late       a delay of a good part of the target, if as many requests are inside as such a delay keeps there
 *             (Little's law, with what was answered lately). That is congestion at once. A delay that the law's own
 *             counts contradict is not believed.
 *  idle       no delay, and processors to spare. Slow requests must then be slower by half to count as congestion:
 *             a server may be idle and still wait for another.
 */
#include <math.h>

#include "control/remote.h"

#define BELIEVED_NS (3 * WEIR_NS_PER_S)
#define LATE_PART   .5 /* of the target */
#define IDLE_PART   .05
#define IDLE_BUSY   .7
#define FULL_BUSY   .95 /* processors with so little to spare are shared by all requests in service */
#define INSIDE_PART .5  /* of the requests that such a delay would keep inside */
#define RATE_S      .5  /* over which answers are counted */

void weir_remote_told(void *state, const weir_told *told)
{
	weir_remote *r = state;
	bool enough = told->reports > 0 && 2 * told->reports >= told->servers;
	r->heard.at_ns = enough ? told->now_ns : 0;
	r->heard.queue_s = told->queue_s;
	r->heard.busy = told->busy;
	r->heard.each = told->processors > 0 ? told->in_service * told->reports / told->processors : -1;
}

static double delay_s(const weir_remote *r)
{
	double stretch = r->heard.busy > FULL_BUSY && r->heard.each > 1 && isfinite(r->base)
				 ? exp(r->base) / 1e9 * (r->heard.each - 1)
				 : 0;
	return fmax(r->heard.queue_s, 0) + stretch;
}

weir_remote_hint weir_remote_hear(weir_remote *r, uint64_t now_ns, uint32_t answers)
{
	double tick_s = WEIR_REMOTE_TICK_NS / 1e9, target_s = (double)r->least_target_ns / 1e9;
	if (r->heard.at_ns == 0)
		return WEIR_REMOTE_NOTHING;
	r->heard.rate += tick_s / RATE_S * (answers / tick_s - r->heard.rate);
	if (now_ns > r->heard.at_ns + BELIEVED_NS)
		return WEIR_REMOTE_NOTHING;
	double late_s = delay_s(r);
	if (late_s > LATE_PART * target_s)
		return weir_remote_serving(r) >= INSIDE_PART * late_s * r->heard.rate ? WEIR_REMOTE_LATE
										      : WEIR_REMOTE_NOTHING;
	bool idle = late_s < IDLE_PART * target_s && r->heard.queue_s >= 0 && r->heard.busy >= 0 &&
		    r->heard.busy < IDLE_BUSY;
	return idle ? WEIR_REMOTE_IDLE : WEIR_REMOTE_NOTHING;
}
