/* SPDX-License-Identifier: Apache-2.0 */
/* One thread, as the virtual worlds that they are made for. */
#include "peers.h"

#include <math.h>
#include <string.h>

#include "base/hist.h"

#define BUFFER         1.25 /* of minRTT: what counts as no queue yet */
#define PROBE_REQUESTS 50
#define LEAST_WINDOWS  5

struct envoy {
	weir_envoy_params params;
	uint32_t limit, inside;
	uint64_t min_rtt_ns, probed_ns, updated_ns;
	bool probing;
	uint32_t before_probe, at_least; /* the limit to go back to; windows that it has been the least */
	weir_hist samples;
};

static void begin_probe(struct envoy *e, uint64_t now_ns)
{
	e->probing = true;
	e->probed_ns = now_ns;
	e->before_probe = e->limit;
	e->limit = e->params.least;
	e->at_least = 0;
	weir_hist_clear(&e->samples);
}

static void end_probe(struct envoy *e, uint64_t now_ns)
{
	e->min_rtt_ns = weir_hist_quantile(&e->samples, .5);
	e->limit = e->before_probe;
	e->probing = false;
	e->probed_ns = e->updated_ns = now_ns;
	weir_hist_clear(&e->samples);
}

static int envoy_init(void *state, const void *params, const char **ret_wrong)
{
	struct envoy *e = state;
	memset(e, 0, sizeof(*e));
	e->params = *(const weir_envoy_params *)params;
	e->limit = e->params.least;
	begin_probe(e, 0);
	return 0;
}

static void envoy_defaults(void *params)
{
	*(weir_envoy_params *)params = (weir_envoy_params){
		.update_ns = 100 * WEIR_NS_PER_MS, .probe_ns = 60 * WEIR_NS_PER_S, .least = 3, .most = 1000};
}

static weir_verdict envoy_admit(void *state, const weir_ask *ask)
{
	struct envoy *e = state;
	if (e->inside >= e->limit)
		return WEIR_SHED_LIMIT;
	e->inside++;
	return WEIR_ADMITTED;
}

static void envoy_refund(void *state, const weir_ask *ask)
{
	((struct envoy *)state)->inside--;
}

static void envoy_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	((struct envoy *)state)->inside--;
}

static void envoy_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	struct envoy *e = state;
	e->inside--;
	if (e->probing && event->offered_ns < e->probed_ns)
		return;
	weir_hist_add(&e->samples, now_ns - event->offered_ns);
	if (e->probing && weir_hist_count(&e->samples) >= PROBE_REQUESTS)
		end_probe(e, now_ns);
}

static void envoy_tick(void *state, const weir_sample *sample)
{
	struct envoy *e = state;
	if (e->probing || sample->now_ns < e->updated_ns + e->params.update_ns)
		return;
	e->updated_ns = sample->now_ns;
	if (sample->now_ns >= e->probed_ns + e->params.probe_ns || e->at_least >= LEAST_WINDOWS) {
		begin_probe(e, sample->now_ns);
		return;
	}
	if (weir_hist_count(&e->samples) == 0)
		return;
	double rtt = (double)weir_hist_quantile(&e->samples, .5);
	double gradient = fmax(.5, fmin(2, (double)e->min_rtt_ns * BUFFER / rtt));
	double limit = e->limit * gradient;
	limit += sqrt(limit);
	e->limit = (uint32_t)fmax(e->params.least, fmin(e->params.most, limit));
	e->at_least = e->limit == e->params.least ? e->at_least + 1 : 0;
	weir_hist_clear(&e->samples);
}

static void envoy_report(const void *state, unsigned klass, weir_report *ret_report)
{
	ret_report->limit = ((const struct envoy *)state)->limit;
}

const weir_admission_law weir_law_envoy = {
	.name = "envoy",
	.brief = "Envoy's gradient with its probed minimum",
	.state_bytes = sizeof(struct envoy),
	.params_bytes = sizeof(weir_envoy_params),
	.defaults = envoy_defaults,
	.tick_ns = 10 * WEIR_NS_PER_MS,
	.init = envoy_init,
	.admit = envoy_admit,
	.refund = envoy_refund,
	.gone = envoy_gone,
	.settle = envoy_settle,
	.tick = envoy_tick,
	.report = envoy_report,
};

/* ---- maxconn ---- */

static int maxconn_init(void *state, const void *params, const char **ret_wrong)
{
	*(weir_maxconn_params *)state = *(const weir_maxconn_params *)params;
	return 0;
}

static weir_verdict maxconn_admit(void *state, const weir_ask *ask)
{
	return WEIR_ADMITTED;
}

static weir_verdict maxconn_start(void *state, const weir_event *event, const weir_turn *turn)
{
	const weir_maxconn_params *p = state;
	return turn->now_ns - event->offered_ns > p->queue_ns ? WEIR_SHED_WAITED : WEIR_ADMITTED;
}

static uint32_t maxconn_limit(const void *state)
{
	return ((const weir_maxconn_params *)state)->maxconn;
}

static uint64_t maxconn_patience(const void *state, unsigned klass)
{
	return ((const weir_maxconn_params *)state)->queue_ns;
}

static void maxconn_tick(void *state, const weir_sample *sample)
{
}

static void maxconn_report(const void *state, unsigned klass, weir_report *ret_report)
{
	ret_report->limit = maxconn_limit(state);
}

const weir_admission_law weir_law_maxconn = {
	.name = "maxconn",
	.brief = "so many at a time, and a queue with a time-out",
	.state_bytes = sizeof(weir_maxconn_params),
	.params_bytes = sizeof(weir_maxconn_params),
	.tick_ns = 10 * WEIR_NS_PER_MS,
	.init = maxconn_init,
	.admit = maxconn_admit,
	.start = maxconn_start,
	.tick = maxconn_tick,
	.limit = maxconn_limit,
	.patience = maxconn_patience,
	.report = maxconn_report,
};
