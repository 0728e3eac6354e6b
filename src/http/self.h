/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_SELF_H
#define WEIR_HTTP_SELF_H

/*
 * What a server knows about itself: a sample for the gauge (http/gauge.h) from inside the process, and the
 * load that its answers tell (weir_http_options.tell_load).
 *
 * Answers share one gauge. The first answer that is sent after it has become due looks again; the others send
 * the text from before. So an idle server does not look at all, and a busy one looks every 100 ms.
 *
 * Threads: a sample is taken on a thread of the world. weir_self_load is called on the loops' threads; each
 * loop has a copy of the text, which it takes again when the version has changed.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <weir/stage.h>

#include "http/gauge.h"

/*
 * A sample of this process: processor time, processors, and what waits and is in service in all stages of the
 * world but one (NULL: in all). The requests are not known.
 */
void weir_self_sample(const weir_world *world, const weir_stage *except, uint64_t now_ns,
		      weir_gauge_sample *ret_sample);

/* The load that answers tell, for a whole server. */
typedef struct weir_self {
	_Atomic uint64_t due_ns;  /* when it is to look again */
	_Atomic uint32_t version; /* of the text; 0: there is none yet */
	/* under lock */
	pthread_mutex_t lock;
	weir_gauge gauge;
	size_t length;
	char text[WEIR_LOAD_REPORT_TEXT];
} weir_self;

/* A loop's copy of the text. */
typedef struct weir_self_copy {
	uint32_t version;
	size_t length;
	char text[WEIR_LOAD_REPORT_TEXT];
} weir_self_copy;

void weir_self_init(weir_self *self);
void weir_self_fini(weir_self *self);
/* Whether it is time to look; if so, the caller is the one to do it. */
bool weir_self_is_due(weir_self *self, uint64_t now_ns);
/*
 * Adds a sample with the requests that were not rejected, and makes the text; the first sample tells
 * nothing.
 */
void weir_self_look(weir_self *self, const weir_world *world, double requests, uint64_t now_ns);
/* The value of endpoint-load-metrics; empty: nothing is known yet. Valid until the copy is used again. */
weir_span weir_self_text(weir_self *self, weir_self_copy *copy);

#endif
