/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_CALIBRATION_H
#define WEIR_CONTROL_CALIBRATION_H

/*
 * Learning what requests cost while the backend is overloaded. For `value`.
 *
 * Costs are learnt from answers that did not queue. Under overload there are none, so a service that starts
 * into an overload would never learn them. But requests that wait in our own queue do not queue in the
 * backend. If the backend gets no more at once than it has workers, the time of each is its own.
 *
 *  idle      nothing is done: costs are known, or there is no overload
 *  measure   the number of requests that the backend gets is doubled as long as it then answers more of
 *            them per second; if it does not, the number is halved until it answers fewer. The backend
 *            loses next to nothing meanwhile, because what it gets is enough for it
 *  learn     it gets the smallest number with which it answers as many. What is answered teaches: until
 *            few requests of unknown cost come, and for some time after that, for better estimates
 *
 * That is done once, and only if there has never been a calm time: where costs are unknown after one, they
 * cannot be learnt by kind. If the overload ends, so does the calibration. In all it takes at most a minute.
 *
 * Threads: the tick by one at a time; what is atomic is read by any.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WEIR_CALIBRATION_UNKNOWN .1 /* of the requests: so many of unknown cost are too many */

/* What has happened since the last tick. */
typedef struct weir_calibration_news {
	double s;
	double answers, unknown; /* unknown: requests that were offered, of unknown cost, ... */
	double offered;          /* ... and all */
	double serving;          /* requests in the backend */
	bool busy;               /* requests wait in front of it, or are refused */
	bool ever_calm;          /* there was a time in which costs could be learnt */
	uint32_t cap;            /* requests that the backend gets at once without this */
} weir_calibration_news;

typedef struct weir_calibration {
	/* any thread reads */
	_Atomic uint32_t cap; /* requests that the backend gets at once; 0: it does not matter here */
	_Atomic bool learning;
	_Atomic float
		full_per_s; /* answers of a backend that is known to be full; 0: it is not known to be */
	/* the tick */
	enum { WEIR_CALIBRATION_IDLE, WEIR_CALIBRATION_MEASURE, WEIR_CALIBRATION_LEARN } phase;
	bool down;               /* the number is being halved */
	double skip;             /* answers that still are of the time before the last step */
	double done, s;          /* measured since then */
	double known_at;         /* answers after which most costs were known; 0: not yet */
	double quiet_s, total_s; /* since requests waited; of all calibrations */
	double before;           /* answers per second with the number before */
	double unknown;          /* share of the requests, lately */
	bool over;               /* it has learnt what there is to learn */
} weir_calibration;

void weir_calibration_init(weir_calibration *c);
/*
 * Returns whether most requests have a cost now that had none before. Times are the requests' own
 * for a while.
 */
bool weir_calibration_tick(weir_calibration *c, const weir_calibration_news *news);

/* Whether the times of answers are the requests' own. */
static inline bool weir_calibration_is_learning(const weir_calibration *c)
{
	return atomic_load_explicit(&c->learning, memory_order_relaxed);
}

#endif
