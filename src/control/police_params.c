/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of the policing laws. Each law takes those that it uses. */
#include <errno.h>

#include "control/police.h"

#define TARGET_MIN_NS (double)WEIR_NS_PER_US
#define TARGET_MAX_NS (3600. * WEIR_NS_PER_S)
#define DELAY_MAX_NS  (60. * WEIR_NS_PER_S)
#define PERIOD_MIN_NS (100. * WEIR_NS_PER_MS)
#define PERIOD_MAX_NS (3600. * WEIR_NS_PER_S)
#define SERVERS_MAX   1e6
#define BUCKETS_MAX   (WEIR_LEDGER_BUCKETS - 1)
#define REVENUE_MAX   1e12

static const char *const delays_words[] = {"auto", "fixed", NULL};
static const char *const order_words[] = {"fifo", "smaller", NULL};

#define KEY(key, is, member, tells, ...) \
	WEIR_KEY(key, is, weir_police_params, member, NULL, tells, ##__VA_ARGS__)

#define COMMON_KEYS                                                                                          \
	KEY("percentile", PERCENTILE, percentile, "percentile of the target; see skew; default p95",         \
	    .min = .5, .max = .999),                                                                         \
		KEY("target", TIME, target_ns,                                                               \
		    "response time that is promised; required for class 0, others: as the class above",      \
		    .flags = WEIR_KEY_PER_CLASS, .min = TARGET_MIN_NS, .max = TARGET_MAX_NS),                \
		KEY("revenue", NUMBER, revenue,                                                              \
		    "what an answer within the promised time is worth; only reported; default 1",            \
		    .flags = WEIR_KEY_PER_CLASS, .min = 0, .max = REVENUE_MAX),                              \
		KEY("guaranteed", RATE, guaranteed,                                                          \
		    "rate that passes without a test, whatever the load; default 0/s",                       \
		    .flags = WEIR_KEY_PER_CLASS, .min = 0, .max = WEIR_GUARANTEE_MAX),                       \
		KEY("servers", COUNT, servers, "servers behind the stage; default 0: as they tell, or 1",    \
		    .min = 0, .max = SERVERS_MAX),                                                           \
		KEY("period", TIME, period_ns,                                                               \
		    "over which arrivals are counted, and after which delays or the threshold are computed " \
		    "again; default 1s",                                                                     \
		    .min = PERIOD_MIN_NS, .max = PERIOD_MAX_NS),                                             \
		KEY("smoothing", NUMBER, smoothing,                                                          \
		    "weight of the last period in the arrival rates; default 0.7", .min = .01, .max = 1)

#define BATCH_KEYS                                                                                           \
	KEY("delay", TIME, delay_ns, "between two visits of a class; must not fall with the class",          \
	    .flags = WEIR_KEY_PER_CLASS, .min = 0, .max = DELAY_MAX_NS),                                     \
		KEY("delays", CHOICE, delays,                                                                \
		    "auto: computed, unless a delay is given; fixed: as given, also if all are 0; default "  \
		    "auto",                                                                                  \
		    .words = delays_words),                                                                  \
		KEY("order", CHOICE, order,                                                                  \
		    "within a class: fifo, all alike; smaller, small requests are tested first; default "    \
		    "smaller",                                                                               \
		    .words = order_words),                                                                   \
		KEY("buckets", COUNT, buckets, "of service time, in each class; default 32", .min = 1,       \
		    .max = BUCKETS_MAX),                                                                     \
		KEY("early", SWITCH, early,                                                                  \
		    "a request whose batch cannot pass at its visit is refused when it comes; off, as in "   \
		    "the paper: at the visit, with the whole batch; default on"),                            \
		KEY("skew", SWITCH, skew,                                                                    \
		    "estimates are multiplied by how much longer requests lately took at the percentile; "   \
		    "off, as in the paper: they are about means; default on"),                               \
		KEY("epsilon", NUMBER, epsilon,                                                              \
		    "for computed delays: the chance to be turned away for a less important class; default " \
		    "0.1",                                                                                   \
		    .min = .001, .max = .5)

#define CUT_KEYS                                                                                          \
	KEY("fill", FRACTION, fill,                                                                       \
	    "part of the capacity that the threshold gives away; at 100%, as in the paper, a queue that " \
	    "has "                                                                                        \
	    "built up never drains; default 90%",                                                         \
	    .min = .1, .max = 1)

#define AUTO_KEYS                                                                                            \
	KEY("busy", FRACTION, busy,                                                                          \
	    "processor use of this process above which the threshold takes over; default 80%", .min = .01,   \
	    .max = 1),                                                                                       \
		KEY("dwell", TIME, dwell_ns,                                                                 \
		    "how long the use must stay lower before batches take over again; default 5s", .min = 0, \
		    .max = PERIOD_MAX_NS)

const weir_key weir_police_batch_keys[] = {COMMON_KEYS, BATCH_KEYS, {0}};
const weir_key weir_police_threshold_keys[] = {COMMON_KEYS, CUT_KEYS, {0}};
const weir_key weir_police_auto_keys[] = {COMMON_KEYS, BATCH_KEYS, CUT_KEYS, AUTO_KEYS, {0}};

void weir_police_defaults(void *params)
{
	weir_police_params *p = params;
	p->percentile = .95;
	p->order = 1;
	p->buckets = BUCKETS_MAX;
	p->epsilon = .1;
	p->early = p->skew = true;
	p->period_ns = WEIR_NS_PER_S;
	p->smoothing = .7;
	p->fill = .9;
	p->busy = .8;
	p->dwell_ns = 5 * WEIR_NS_PER_S;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		p->revenue[k] = 1;
}

/* above_ns: the delay of the class above. */
static const char *wrong_class(const weir_police_params *p, unsigned k, uint64_t above_ns)
{
	if (p->target_ns[k] != 0 &&
	    !((double)p->target_ns[k] >= TARGET_MIN_NS && (double)p->target_ns[k] <= TARGET_MAX_NS))
		return "target must be from 1us to 1h";
	if (!(p->revenue[k] >= 0 && p->revenue[k] <= REVENUE_MAX))
		return "revenue must be 0 or more";
	if (!(p->guaranteed[k] >= 0 && p->guaranteed[k] <= WEIR_GUARANTEE_MAX))
		return "guaranteed must be a rate, 0/s or more";
	if (!((double)p->delay_ns[k] <= DELAY_MAX_NS))
		return "delay must be at most 60s";
	if (p->delay_ns[k] != 0 && p->delay_ns[k] < above_ns)
		return "delay must not be less than that of the class above";
	return NULL;
}

static const char *wrong_params(const weir_police_params *p)
{
	if (p->target_ns[0] == 0)
		return "target is required, such as 1s";
	if (!(p->percentile >= .5 && p->percentile <= .999))
		return "percentile must be from p50 to p99.9";
	if (!(p->smoothing >= .01 && p->smoothing <= 1))
		return "smoothing must be from 0.01 to 1";
	if (!((double)p->period_ns >= PERIOD_MIN_NS && (double)p->period_ns <= PERIOD_MAX_NS))
		return "period must be from 100ms to 1h";
	if (!(p->buckets >= 1 && p->buckets <= BUCKETS_MAX))
		return "buckets must be from 1 to 32";
	if (!(p->epsilon >= .001 && p->epsilon <= .5))
		return "epsilon must be from 0.001 to 0.5";
	if (!(p->fill >= .1 && p->fill <= 1))
		return "fill must be from 10% to 100%";
	if (!(p->busy >= .01 && p->busy <= 1))
		return "busy must be from 1% to 100%";
	if (p->order > 1 || p->delays > 1)
		return "order must be fifo or smaller, and delays auto or fixed";
	uint64_t above_ns = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		const char *wrong = wrong_class(p, k, above_ns);
		if (wrong != NULL)
			return wrong;
		above_ns = p->delay_ns[k];
	}
	return NULL;
}

int weir_police_check(const weir_police_params *params, const char **ret_wrong)
{
	const char *wrong =
		params != NULL ? wrong_params(params) : "parameters are required (weir_police_params)";
	if (wrong == NULL)
		return 0;
	*ret_wrong = wrong;
	return -EINVAL;
}
