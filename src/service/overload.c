/* SPDX-License-Identifier: Apache-2.0 */
#include "service/overload.h"

#define BAD_SHARE  .05
#define CALM_SHARE .01
#define BAD_LOOKS  3
#define CALM_LOOKS 10
#define SMOOTHING  .2

static uint64_t since(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static weir_overload_counts difference(const weir_overload_counts *now, const weir_overload_counts *before)
{
	return (weir_overload_counts){.offered = since(now->offered, before->offered),
				      .rejected = since(now->rejected, before->rejected),
				      .completed = since(now->completed, before->completed),
				      .spared = since(now->spared, before->spared),
				      .failed = since(now->failed, before->failed)};
}

static double share(const weir_overload_counts *counts)
{
	uint64_t rejected = counts->rejected + counts->spared;
	return counts->offered > 0 ? (double)rejected / (double)counts->offered : 0;
}

static void smooth(double *rate, uint64_t count, double seconds, double part)
{
	*rate += part * ((double)count / seconds - *rate);
}

static void smooth_all(weir_overload_rates *rate, const weir_overload_counts *second, double seconds,
		       double part)
{
	smooth(&rate->offered, second->offered, seconds, part);
	smooth(&rate->rejected, second->rejected, seconds, part);
	smooth(&rate->completed, second->completed, seconds, part);
	smooth(&rate->spared, second->spared, seconds, part);
	smooth(&rate->failed, second->failed, seconds, part);
}

static void look_at_failures(weir_overload *o, const weir_overload_counts *second, uint64_t now_ns)
{
	double failed = second->offered > 0 ? (double)second->failed / (double)second->offered : 0;
	o->failing = second->failed > 0 && failed >= BAD_SHARE ? o->failing + 1 : 0;
	o->failing_calm = failed < CALM_SHARE ? o->failing_calm + 1 : 0;
	if (o->failing_ns == 0 && o->failing >= BAD_LOOKS)
		o->failing_ns = now_ns;
	if (o->failing_calm >= CALM_LOOKS)
		o->failing_ns = 0;
}

static weir_overload_news begin(weir_overload *o, const weir_overload_counts *now,
				const weir_overload_counts *second, double seconds, uint64_t now_ns,
				weir_overload_story *ret_story)
{
	o->began = *now;
	o->began_ns = now_ns;
	o->calm = 0;
	o->most_per_s = (double)second->completed / seconds;
	smooth_all(&o->rate, second, seconds, 1);
	*ret_story = (weir_overload_story){.offered_per_s = (double)second->offered / seconds,
					   .completed_per_s = o->most_per_s,
					   .rejected = share(second)};
	return WEIR_OVERLOAD_BEGINS;
}

static weir_overload_news end(weir_overload *o, const weir_overload_counts *now,
			      weir_overload_story *ret_story)
{
	weir_overload_counts all = difference(now, &o->began);
	*ret_story = (weir_overload_story){.completed_per_s = o->most_per_s,
					   .rejected = share(&all),
					   .lasted_ns = o->bad_ns - o->began_ns,
					   .in_all = all};
	o->ended_ns = o->bad_ns;
	o->ended_lasted_ns = o->bad_ns - o->began_ns;
	o->began_ns = 0;
	o->bad = 0;
	return WEIR_OVERLOAD_ENDS;
}

weir_overload_news weir_overload_look(weir_overload *o, const weir_overload_counts *now, uint64_t now_ns,
				      weir_overload_story *ret_story)
{
	weir_overload_counts second = difference(now, &o->last);
	double seconds = (double)(now_ns - o->last_ns) / 1e9;
	bool first = o->last_ns == 0 || now_ns <= o->last_ns;
	o->last = *now;
	o->last_ns = now_ns;
	if (first)
		return WEIR_OVERLOAD_NOTHING;
	if ((double)second.completed / seconds > o->most_per_s)
		o->most_per_s = (double)second.completed / seconds;
	smooth_all(&o->rate, &second, seconds, SMOOTHING);
	look_at_failures(o, &second, now_ns);
	o->bad = second.rejected + second.spared > 0 && share(&second) >= BAD_SHARE ? o->bad + 1 : 0;
	o->calm = share(&second) < CALM_SHARE ? o->calm + 1 : 0;
	if (o->calm == 0)
		o->bad_ns = now_ns;
	if (o->began_ns == 0 && o->bad >= BAD_LOOKS)
		return begin(o, now, &second, seconds, now_ns, ret_story);
	if (o->began_ns != 0 && o->calm >= CALM_LOOKS)
		return end(o, now, ret_story);
	return WEIR_OVERLOAD_NOTHING;
}

weir_overload_counts weir_overload_count(const weir_stage_stats *stats)
{
	/* Who left by himself was not rejected. */
	uint64_t left = stats->by_verdict[WEIR_SHED_CANCELLED] + stats->drops[WEIR_SHED_CANCELLED];
	weir_overload_counts counts = {.offered = stats->offered,
				       .rejected = since(stats->shed + stats->dropped, left),
				       .completed = stats->completed,
				       .failed = stats->failed};
	for (unsigned i = 0; i < WEIR_VERDICT_COUNT; i++)
		counts.spared += stats->spared[i];
	return counts;
}

weir_verdict weir_overload_reason(const weir_stage_stats *before, const weir_stage_stats *now)
{
	uint64_t most = 0;
	weir_verdict why = WEIR_ADMITTED;
	for (unsigned i = 0; i < WEIR_VERDICT_COUNT; i++) {
		uint64_t count = since(now->by_verdict[i], before->by_verdict[i]) +
				 since(now->drops[i], before->drops[i]) +
				 since(now->spared[i], before->spared[i]);
		if (i != WEIR_ADMITTED && i != WEIR_SHED_CANCELLED && count > most) {
			most = count;
			why = (weir_verdict)i;
		}
	}
	return why;
}
