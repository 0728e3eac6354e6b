/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much work `adaptive` is offered, over the capacity of the workers. This is checked every sixteen
 * offers, or when so few have come that the load must have fallen: after a fall, five offers may take a
 * second, and as long as the law believes in overload it sheds them.
 */
#include <math.h>

#include "control/adaptive.h"

#define LOAD_MEMORY  40.0 /* minimum number of offers that the load remembers ... */
#define LOAD_TARGETS .25  /* ... and as many as come in this part of a target */
#define OVER_FROM    1.05f
#define OVER_FULL    1.20f

/*
 * A quiet hour counts no more than a quiet moment, or it would take very many busy offers to outweigh it.
 * With this bound a step after the quiet time counts as half of a worker's work at most.
 */
static double load_span(const adaptive_class *k, uint64_t now_ns)
{
	double most = 2 * ADAPTIVE_LOAD_STEP * fmax((double)k->target_ns, (double)GET(k->mean_ns));
	return fmin((double)adaptive_span(GET(k->load_ns), now_ns), most);
}

/* The number of workers that the offers of a class would keep busy. */
static double offered_work(const adaptive_class *k, uint64_t now_ns)
{
	double count = k->load_count + (double)adaptive_offered_since(k);
	double time = k->load_time + load_span(k, now_ns);
	return time > 0 ? count / time * (double)GET(k->mean_ns) : 0;
}

/* The workers that a class and those above it would keep busy, over the number of workers. */
static void judge_load(adaptive *a, adaptive_class *k, double inside, uint64_t now_ns)
{
	double work = 0;
	for (const adaptive_class *j = a->klass; j <= k; j++)
		work += GET(j->admitted) != 0 ? offered_work(j, now_ns) : 0;
	float load = (float)(work / inside);
	float over = adaptive_clamp((load - OVER_FROM) / (OVER_FULL - OVER_FROM), 0, 1);
	if (over == 0 && GET(k->over) > 0)
		k->calm_ns = GET(k->load_ns);
	PUT(k->load, load);
	PUT(k->over, over);
}

/* The next check comes after ADAPTIVE_LOAD_STEP offers, or when ADAPTIVE_FALL_STEP were due. */
static void next_look(adaptive_class *k, uint64_t more, uint64_t now_ns)
{
	double every_ns = k->load_count > 0 ? k->load_time / k->load_count : INFINITY;
	PUT(k->load_every_ns, (float)every_ns);
	PUT(k->load_offered, GET(k->load_offered) + more);
	PUT(k->load_ns, now_ns);
	/* A little early: the check itself finds out whether the load has fallen. */
	k->look_ns = every_ns < 1e15 ? now_ns + (uint64_t)(.99 * (double)ADAPTIVE_FALL_STEP * every_ns)
				     : UINT64_MAX;
}

/* How far the load has fallen is not known yet. Until it is, the load is taken to be zero. */
static void forget_load(adaptive *a, adaptive_class *k, double inside, uint64_t more, uint64_t now_ns)
{
	uint64_t before_ns = GET(k->load_ns);
	float over = GET(k->over);
	k->load_count = k->load_time = 0;
	next_look(k, more, now_ns);
	judge_load(a, k, inside, now_ns);
	if (over > 0 && GET(k->over) == 0)
		k->calm_ns = before_ns;
}

void adaptive_measure_load(adaptive *a, adaptive_class *k, uint64_t now_ns)
{
	uint64_t more = adaptive_offered_since(k);
	double inside = (double)GET(k->inside), mean_ns = (double)GET(k->mean_ns);
	if (GET(k->load_ns) == 0 || more == 0) { /* the first start, or everything was refunded */
		PUT(k->load_offered, GET(k->admitted) + GET(k->shed));
		if (GET(k->load_ns) == 0)
			PUT(k->load_ns, now_ns);
	}
	if (inside == 0 || mean_ns == 0)
		return;
	if (adaptive_fallen(k, now_ns))
		forget_load(a, k, inside, more, now_ns);
	else if (more >= ADAPTIVE_LOAD_STEP) {
		judge_load(a, k, inside, now_ns);
		double memory = fmax(LOAD_MEMORY, LOAD_TARGETS * (double)k->target_ns * inside / mean_ns);
		double keep = memory / (memory + (double)more);
		k->load_count = k->load_count * keep + (double)more;
		k->load_time = k->load_time * keep + load_span(k, now_ns);
		next_look(k, more, now_ns);
	}
}
