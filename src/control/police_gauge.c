/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the policing laws measure: rates, service times, requests in service, and what servers tell (section
 * 3.5 of Cataclysm).
 *
 * The service time of a request is the time that it takes on a server that has nothing else to do. If the
 * request's cost is known, that is it. Otherwise it follows from the test's own model: a request that shares
 * its server with others takes as many times longer as there are requests. So the time that it took, without
 * Q, is divided by the mean of the numbers per server at its start and at its end.
 */
#include <math.h>
#include <string.h>

#include "control/aimd_core.h"
#include "control/police.h"

#define GET(x)    atomic_load_explicit(&(x), memory_order_relaxed)
#define PUT(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)
#define ADD(x, v) atomic_fetch_add_explicit(&(x), (v), memory_order_relaxed)

#define COUNTED         UINT64_C(0xc0) /* in the note of an event that is counted as in service */
#define COUNTED_BITS    8              /* of the mark; above it is the estimate in ns */
#define COUNTED_MASK    UINT64_C(0xff)
#define ESTIMATE_MOST_S 1e6
#define NOTE_SCALE      1024.      /* of numbers in the note */
#define LEARN_PART      (1.f / 32) /* weight of one request in the mean service time */
#define TIMES_MOST      4096       /* service times that the distribution remembers */
#define DRAIN           2.         /* times as fast as expected that requests in service may end */
#define SKEW_FROM       .5f        /* part of the target from which times teach the skew */
#define SKEW_STEP       .5f   /* of the skew: as many answers as are inside move it by at most this, ... */
#define SKEW_OVER       20.f  /* ... or as many as this */
#define SKEW_LATELY     16.f  /* answers over which times are averaged */
#define SKEW_DIP        1.5f  /* what is slower on average is an outage, for which no room can be kept */
#define SKEW_MEMORY     200.f /* response times for which the longest average is remembered */
#define SKEW_LEAST      .5f
#define SKEW_MOST       4.f
#define SHARED_FROM     2.  /* requests per server from which on they share it; all servers work if ... */
#define SHARED_SURE     8.  /* ... there are this many, ... */
#define SHARED_LATE     .25 /* ... or a request took this part of its target */
#define SHARED_PART     (1.f / 64) /* weight of one request in the pace */
#define PACE_MOST       4.f
#define PACE_S          10. /* over which the pace is forgotten while nothing shows it */
#define FAIL_PART       .5  /* weight of the last period in the part of failed tests */
#define TRUST_LEAST     (1.f / 4096)

void weir_police_gauge_init(weir_police_gauge *gauge, const weir_police_params *params)
{
	uint64_t target_ns = 0;
	memset(gauge, 0, sizeof(*gauge));
	gauge->servers = params->servers;
	gauge->smoothing = params->smoothing;
	gauge->fill = params->fill;
	gauge->period_ns = params->period_ns;
	gauge->percentile = params->percentile;
	gauge->skewed = params->skew;
	PUT(gauge->skew, 1);
	PUT(gauge->skew_at, 1);
	PUT(gauge->skew_lately, 1);
	PUT(gauge->skew_most, 1);
	PUT(gauge->told_inside, -1);
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		PUT(gauge->trust[k], 1);
		target_ns = params->target_ns[k] != 0 ? params->target_ns[k] : target_ns;
		PUT(gauge->target_ns[k], target_ns);
		gauge->revenue[k] = params->revenue[k];
		gauge->guaranteed[k] = params->guaranteed[k];
		weir_guarantee_init(&gauge->guarantee[k], params->guaranteed[k]);
	}
}

void weir_police_gauge_retarget(weir_police_gauge *gauge, const uint64_t target_ns[WEIR_CLASSES])
{
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		PUT(gauge->target_ns[k], target_ns[k]);
}

/* ---- what servers tell ---- */

/* Without a report nothing that was told before is believed any more. */
void weir_police_gauge_told(weir_police_gauge *gauge, const weir_told *told, int32_t released)
{
	bool known = told->reports != 0;
	double units = told->servers;
	if (known && told->processors > 0) /* servers that have not reported are like the others */
		units = told->processors * fmax(1, (double)told->servers / told->reports);
	PUT(gauge->told_servers, units);
	PUT(gauge->told_queue_s, known && told->queue_s > 0 ? told->queue_s : 0);
	/* The number is per server, but the test is per processor where these are known. */
	double inside = known && told->in_service >= 0 ? told->in_service : -1;
	if (inside > 0 && units > told->servers && told->servers > 0)
		inside *= told->servers / units;
	PUT(gauge->told_inside, inside);
	PUT(gauge->inside_then, GET(gauge->in_service) + released);
}

double weir_police_gauge_servers(const weir_police_gauge *gauge)
{
	double servers = gauge->servers != 0 ? gauge->servers : GET(gauge->told_servers);
	return servers > 1 ? servers : 1;
}

/* ---- estimates ---- */

double weir_police_gauge_service_s(const weir_police_gauge *gauge, unsigned klass)
{
	float own = GET(gauge->service_s[klass]);
	return own > 0 ? (double)own : (double)GET(gauge->any_service_s);
}

double weir_police_gauge_pace(const weir_police_gauge *gauge)
{
	float cost_s = GET(gauge->shared_cost_s);
	return cost_s > 0 ? (double)fminf(fmaxf(GET(gauge->shared_s) / cost_s, 1), PACE_MOST) : 1;
}

double weir_police_gauge_trust(const weir_police_gauge *gauge, unsigned klass)
{
	return (double)GET(gauge->trust[klass]);
}

double weir_police_gauge_inside(const weir_police_gauge *gauge, int32_t released)
{
	double told = GET(gauge->told_inside);
	int32_t inside = GET(gauge->in_service) + (released > 0 ? released : 0);
	if (told < 0)
		return (inside > 0 ? inside : 0) / weir_police_gauge_servers(gauge);
	return fmax(told + (inside - GET(gauge->inside_then)) / weir_police_gauge_servers(gauge), 0);
}

/* Together with the pace at most SKEW_MOST: an outage must not keep everybody out. */
double weir_police_gauge_skew(const weir_police_gauge *gauge)
{
	double most = gauge->skewed ? (double)SKEW_MOST / weir_police_gauge_pace(gauge) : (double)SKEW_MOST;
	return fmin((double)GET(gauge->skew), most);
}

double weir_police_gauge_estimate_s(const weir_police_gauge *gauge, int32_t released, double service_s,
				    uint32_t count)
{
	double more = ceil(count / weir_police_gauge_servers(gauge));
	return GET(gauge->told_queue_s) +
	       (weir_police_gauge_inside(gauge, released) + more) * service_s * weir_police_gauge_skew(gauge);
}

/* By the test's own model: a server ends a request in each mean service time; DRAIN times as many count. */
double weir_police_gauge_least_s(const weir_police_gauge *gauge, int32_t released, double service_s,
				 uint32_t count, double later_s)
{
	double mean_s = (double)GET(gauge->any_service_s), inside = weir_police_gauge_inside(gauge, released);
	double left = mean_s > 0 ? fmax(inside - DRAIN * later_s / mean_s, 0) : 0;
	double queue_s = fmax(GET(gauge->told_queue_s) - DRAIN * later_s, 0);
	return queue_s + (left + ceil(count / weir_police_gauge_servers(gauge))) * service_s *
				 weir_police_gauge_skew(gauge);
}

/* ---- events ---- */

uint32_t weir_police_gauge_arrived(weir_police_gauge *gauge, const weir_ask *ask)
{
	unsigned klass = ask->klass % WEIR_CLASSES;
	ADD(gauge->arrived[klass], ask->count);
	return weir_guarantee_take_all(&gauge->guarantee[klass], ask->now_ns, ask->count) ? ask->count : 0;
}

void weir_police_gauge_tested(weir_police_gauge *gauge, unsigned klass, bool passed)
{
	ADD(gauge->tests[klass], 1);
	if (passed)
		return;
	ADD(gauge->failures[klass], 1);
	weir_recent_refused(&gauge->recent, klass);
}

/* What the test would say, without the skew, is kept beside the mark. */
void weir_police_gauge_started(weir_police_gauge *gauge, uint64_t *note, int32_t released, double service_s)
{
	int32_t now = ADD(gauge->in_service, 1) + 1;
	if (now > (int32_t)weir_police_gauge_servers(gauge))
		PUT(gauge->crowded, now);
	double met = fmax(weir_police_gauge_inside(gauge, released), 1);
	double estimate_s = GET(gauge->told_queue_s) + met * service_s;
	note[0] = COUNTED | (uint64_t)(fmin(estimate_s, ESTIMATE_MOST_S) * 1e9) << COUNTED_BITS;
	note[1] = (uint64_t)(met * NOTE_SCALE);
}

void weir_police_gauge_not_started(uint64_t *note)
{
	note[0] = note[1] = 0;
}

static void follow(_Atomic float *mean, float value, float part)
{
	float before = GET(*mean);
	PUT(*mean, before > 0 ? before + (value - before) * part : value);
}

/* Requests per server that the request met, on average. */
static double met(const weir_police_gauge *gauge, const weir_event *event, int32_t released)
{
	double then = (double)event->note[1] / NOTE_SCALE;
	return fmax((then + fmax(weir_police_gauge_inside(gauge, released), 1)) / 2, 1);
}

/* The time that the request takes alone, in seconds, by the test's own model. */
static double modelled_s(const weir_police_gauge *gauge, const weir_event *event, double shared_by,
			 uint64_t now_ns)
{
	uint64_t took_ns = now_ns > event->started_ns ? now_ns - event->started_ns : 0;
	return fmax((double)took_ns / 1e9 - GET(gauge->told_queue_s), 1e-6) / shared_by;
}

/*
 * The pace. Costs are learnt from requests that had a server for themselves. Under load the same request may
 * take longer than its share: a processor quota lets a lone request use what was left over before it came;
 * caches are shared. A threshold that believes the costs then admits more than servers do, for ever, since
 * it does not look at what waits. Sums are compared, because what waits in line takes as long, however
 * small it is. With a few requests inside, some servers may have several and others none, and the time that
 * these idle would count; so many must be inside.
 */
static void learn_pace(weir_police_gauge *gauge, double cost_s, double own_s, double shared_by,
		       double target_s)
{
	bool late = shared_by >= SHARED_FROM && own_s * shared_by >= SHARED_LATE * target_s;
	if (shared_by < SHARED_SURE && !late)
		return;
	follow(&gauge->shared_s, (float)own_s, SHARED_PART);
	follow(&gauge->shared_cost_s, (float)cost_s, SHARED_PART);
	PUT(gauge->shared, true);
}

/* The time that the request takes alone, in seconds: its cost, if that is known. */
static double alone_s(weir_police_gauge *gauge, const weir_event *event, int32_t released, uint64_t now_ns)
{
	double shared_by = met(gauge, event, released);
	double own_s = modelled_s(gauge, event, shared_by, now_ns);
	if (event->cost == 0)
		return own_s;
	learn_pace(gauge, event->cost / 1e6, own_s, shared_by,
		   (double)weir_police_gauge_target_ns(gauge, event->klass) / 1e9);
	return event->cost / 1e6;
}

static void regain_trust(weir_police_gauge *gauge, unsigned klass)
{
	float trust = GET(gauge->trust[klass]);
	if (trust < 1)
		PUT(gauge->trust[klass], fminf(2 * trust, 1));
}

/*
 * How much longer than the test said requests take: at the percentile, by steps; and on average over the last
 * few, of which the longest is remembered for a while. The first is what single requests differ in. The
 * second is a server that becomes slower for a second: it makes all that are inside late at once. Requests
 * that met few say nothing: the test was not needed. As many answers as are inside move the first by at most
 * SKEW_STEP, since no change has an effect before those have ended.
 */
static void learn_skew(weir_police_gauge *gauge, const weir_event *event, uint64_t now_ns)
{
	float took_ns = now_ns > event->started_ns ? (float)(now_ns - event->started_ns) : 0;
	float estimate_ns = (float)(event->note[0] >> COUNTED_BITS), skew = GET(gauge->skew);
	if (!gauge->skewed ||
	    !(estimate_ns * skew > SKEW_FROM * (float)weir_police_gauge_target_ns(gauge, event->klass)))
		return;
	float inside = fmaxf((float)GET(gauge->in_service), SKEW_OVER), ratio = took_ns / estimate_ns;
	float at = GET(gauge->skew_at), lately = GET(gauge->skew_lately), most = GET(gauge->skew_most);
	at *= 1 + SKEW_STEP / inside * ((float)gauge->percentile - (ratio > at ? 0.f : 1.f));
	lately += (fminf(ratio, SKEW_DIP) - lately) / SKEW_LATELY;
	most = lately > most ? lately : most + (lately - most) / (SKEW_MEMORY * inside);
	at = fminf(fmaxf(at, SKEW_LEAST), SKEW_MOST);
	PUT(gauge->skew_at, at);
	PUT(gauge->skew_lately, lately);
	PUT(gauge->skew_most, most);
	PUT(gauge->skew, fmaxf(at, most));
}

static void count_down(_Atomic int32_t *count)
{
	int32_t had = GET(*count);
	while (had > 0 && !atomic_compare_exchange_weak_explicit(count, &had, had - 1, memory_order_relaxed,
								 memory_order_relaxed))
		;
}

/* Failures and refusals teach nothing about service times. */
void weir_police_gauge_settled(weir_police_gauge *gauge, const weir_event *event, weir_outcome outcome,
			       int32_t released, uint64_t now_ns)
{
	unsigned klass = event->klass % WEIR_CLASSES;
	if ((event->note[0] & COUNTED_MASK) != COUNTED)
		return;
	if (outcome == WEIR_DONE) {
		learn_skew(gauge, event, now_ns);
		double seconds = alone_s(gauge, event, released, now_ns);
		follow(&gauge->service_s[klass], (float)seconds, LEARN_PART);
		follow(&gauge->any_service_s, (float)seconds, LEARN_PART);
		regain_trust(gauge, klass);
		weir_times_add(&gauge->times[klass], (uint64_t)(seconds * 1e9));
	}
	count_down(&gauge->in_service);
	count_down(&gauge->crowded);
}

/* ---- periods ---- */

static uint32_t since(const _Atomic uint32_t *count, uint32_t *seen)
{
	uint32_t now = GET(*count), grown = now - *seen;
	*seen = now;
	return grown;
}

/*
 * Only answers correct a service time. If one was learnt wrongly, as from a cold start under overload, and
 * exceeds the target, the class would be kept out for ever. So the service times of a class of which all were
 * refused, while nothing is in service, are trusted half as much; and more again with each answer.
 */
static void doubt(weir_police_gauge *gauge, unsigned klass)
{
	PUT(gauge->trust[klass], fmaxf(GET(gauge->trust[klass]) / 2, TRUST_LEAST));
}

/* If the pace was learnt from an outage, the threshold may admit too little for any server to be shared. */
static void forget_pace(weir_police_gauge *gauge, double seconds)
{
	float own_s = GET(gauge->shared_s), cost_s = GET(gauge->shared_cost_s);
	if (!atomic_exchange_explicit(&gauge->shared, false, memory_order_relaxed))
		PUT(gauge->shared_s, own_s + (cost_s - own_s) * (float)fmin(seconds / PACE_S, 1));
}

static void end_period(weir_police_gauge *gauge, double seconds)
{
	forget_pace(gauge, seconds);
	double part = gauge->measured ? gauge->smoothing : 1;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		double rate = since(&gauge->arrived[k], &gauge->arrived_seen[k]) / seconds;
		double tests = since(&gauge->tests[k], &gauge->tests_seen[k]);
		double failed = since(&gauge->failures[k], &gauge->failures_seen[k]);
		PUT(gauge->rate[k], GET(gauge->rate[k]) + (rate - GET(gauge->rate[k])) * part);
		PUT(gauge->failing[k],
		    GET(gauge->failing[k]) * (1 - FAIL_PART) + (tests > 0 ? failed / tests : 0) * FAIL_PART);
		weir_times_fade(&gauge->times[k], TIMES_MOST);
		if (tests > 0 && failed >= tests && GET(gauge->in_service) <= 0)
			doubt(gauge, k);
	}
	gauge->measured = true;
}

bool weir_police_gauge_tick(weir_police_gauge *gauge, const weir_sample *sample)
{
	weir_recent_tick(&gauge->recent, sample);
	PUT(gauge->dry_run, sample->dry_run);
	if (gauge->period_end_ns == 0)
		gauge->period_end_ns = sample->now_ns - sample->interval_ns + gauge->period_ns;
	if (sample->now_ns < gauge->period_end_ns)
		return false;
	uint64_t began_ns = gauge->period_end_ns - gauge->period_ns;
	end_period(gauge, (double)(sample->now_ns - began_ns) / 1e9);
	gauge->period_end_ns = sample->now_ns + gauge->period_ns;
	return true;
}

/* ---- reading ---- */

/*
 * Nobody shares a server with others, or did when those that end now were inside: the last of a batch that
 * was let go at once ends alone, and took longer. What servers tell is a little old, and does not contain what
 * waits there; so our own number counts, too.
 */
bool weir_police_gauge_calm(const weir_police_gauge *gauge)
{
	return weir_police_gauge_inside(gauge, 0) <= 1 && GET(gauge->crowded) <= 0 &&
	       GET(gauge->in_service) <= weir_police_gauge_servers(gauge);
}

void weir_police_gauge_explain(const weir_police_gauge *gauge, const weir_ask *ask, int32_t released,
			       double service_s, uint64_t delay_ns, weir_why *ret_why)
{
	uint64_t target_ns = weir_police_gauge_target_ns(gauge, ask->klass);
	double estimate_s = weir_police_gauge_estimate_s(gauge, released, service_s, ask->count);
	uint64_t bound_ns = target_ns > delay_ns ? target_ns - delay_ns : 1;
	ret_why->target_ns = target_ns;
	ret_why->estimate_ns = (uint64_t)(estimate_s * 1e9);
	if (ret_why->estimate_ns <= bound_ns)
		return; /* it was decided by something else, or the numbers have changed since */
	ret_why->bound_ns = bound_ns;
	/* What is in service ends at this rate, so the excess is also the time that it takes to go away. */
	ret_why->retry_after_ns = ret_why->estimate_ns - bound_ns;
}

void weir_police_gauge_report(const weir_police_gauge *gauge, unsigned klass, int32_t released,
			      uint64_t delay_ns, weir_report *ret_report)
{
	double service_s = weir_police_gauge_service_s(gauge, klass),
	       servers = weir_police_gauge_servers(gauge);
	double target_s = (double)weir_police_gauge_target_ns(gauge, klass) / 1e9;
	double room_s = target_s - (double)delay_ns / 1e9 - GET(gauge->told_queue_s);
	ret_report->quantile = gauge->percentile;
	ret_report->target_ns = weir_police_gauge_target_ns(gauge, klass);
	ret_report->measured_ns =
		(uint64_t)(weir_police_gauge_estimate_s(gauge, released, service_s, 1) * 1e9);
	ret_report->alone_ns = (uint64_t)(service_s * 1e9);
	ret_report->wait_ns = delay_ns;
	ret_report->rate_per_s = service_s > 0 ? servers / (service_s * weir_police_gauge_pace(gauge)) : 0;
	if (service_s > 0 && room_s > 0)
		ret_report->limit =
			(uint32_t)fmin(servers * room_s / service_s / weir_police_gauge_skew(gauge), 1e9);
	ret_report->shedding = weir_recent_shedding(&gauge->recent, klass);
	ret_report->unreachable = service_s > 0 && service_s > target_s;
	weir_report_add(ret_report, "servers", servers);
	weir_report_add(ret_report, "inside", weir_police_gauge_inside(gauge, released));
	weir_report_add(ret_report, "arrivals", GET(gauge->rate[klass]));
	weir_report_add(ret_report, "failing", GET(gauge->failing[klass]));
	weir_report_add(ret_report, "revenue", gauge->revenue[klass]);
	weir_report_add(ret_report, "guaranteed", gauge->guaranteed[klass]);
}
