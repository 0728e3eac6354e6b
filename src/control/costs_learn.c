/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates: what is learnt from an answer. costs.h explains the method. */
#include "control/costs_priv.h"

#define TOO_LONG_RUN    8u  /* number of unusually long times in a row that are a change */
#define USUAL_DEVIATION 4.f /* usual: up to this many deviations above the typical time */
/* Part of the typical time, so that times that are all alike leave room for a little change. */
#define LEAST_DEVIATION (1.f / 8)
#define RARE_WEIGHT     (1.f / 64)
/* Up to this share, unusually long times are accidents; from twice the share on they count in full. */
#define RARE_SHARE   .02f
#define EXTRA_WEIGHT (1.f / 128)
#define P90_STEP     (1.f / 8)
#define P90_SHARE    .9f
/* A cost is written only if it changes by 1/32, because others read its cache line. */
#define COST_CHANGE  32u
#define LONG_AGO_NS  UINT64_C(600000000000) /* after such a silence, what was learnt before weighs little */
#define WORK_NS      UINT64_C(60000000000)  /* how often the work decays */
#define WORK_FADES   .933f                  /* its factor: half after ten times */
#define TOOK_MOST_NS UINT64_C(4000000000000000) /* some weeks, so that the us fit into a cost */

#define GET WEIR_COSTS_GET
#define SET WEIR_COSTS_SET

static float larger(float a, float b)
{
	return a > b ? a : b;
}

static float distance(float a, float b)
{
	return a > b ? a - b : b - a;
}

/* ---- one estimate ---- */

static void begin(weir_cost_record *record, float base_ns, uint32_t samples)
{
	SET(record->base_ns, base_ns);
	SET(record->extra_ns, 0);
	SET(record->deviation_ns, base_ns / 4);
	SET(record->p90_ns, base_ns * 1.25f);
	SET(record->rare, 0);
	SET(record->run, 0);
	SET(record->samples, samples);
}

/*
 * Counts one more that is too long. true: there were enough in a row, and the estimate starts over with
 * them.
 */
static bool is_change(weir_cost_record *record, float took_ns)
{
	uint32_t run = GET(record->run) + 1;
	float mean = run > 1 ? GET(record->run_ns) : 0;
	mean += (took_ns - mean) / (float)run;
	SET(record->run, run);
	SET(record->run_ns, mean);
	if (run < TOO_LONG_RUN)
		return false;
	begin(record, mean, TOO_LONG_RUN);
	return true;
}

/* The time beyond the usual: an accident, or a property of the kind if it keeps coming. */
static void learn_extra(weir_cost_record *record, float beyond_ns)
{
	float rare = GET(record->rare), extra = GET(record->extra_ns);
	rare += ((beyond_ns > 0 ? 1.f : 0.f) - rare) * RARE_WEIGHT;
	SET(record->rare, rare);
	float counts = (rare - RARE_SHARE) / RARE_SHARE;
	counts = counts < 0 ? 0 : counts > 1 ? 1 : counts;
	SET(record->extra_ns, extra + (counts * beyond_ns - extra) * EXTRA_WEIGHT);
}

static void learn_p90(weir_cost_record *record, float took_ns, float step)
{
	float p90 = GET(record->p90_ns);
	SET(record->p90_ns,
	    took_ns > p90 ? p90 * (1 + P90_SHARE * step) : p90 * (1 - (1 - P90_SHARE) * step));
}

static void learn_base(weir_cost_record *record, float took_ns, uint32_t samples, unsigned weight)
{
	float base = GET(record->base_ns), deviation = GET(record->deviation_ns);
	float part = (float)weight / (float)samples;
	SET(record->deviation_ns, deviation + (distance(took_ns, base) - deviation) * part);
	SET(record->base_ns, base + (took_ns - base) * part);
	SET(record->samples, samples);
}

static void learn(weir_cost_record *record, float took_ns, unsigned weight)
{
	uint32_t had = GET(record->samples), samples = had + weight;
	float base = GET(record->base_ns);
	float usual = base + USUAL_DEVIATION * larger(GET(record->deviation_ns), base * LEAST_DEVIATION);
	bool known = had >= WEIR_COSTS_TRUSTED;
	/* The very first one may have met cold caches. */
	if (had == 0 || (!known && took_ns < base / 2)) {
		begin(record, took_ns, samples < WEIR_COSTS_WINDOW ? samples : WEIR_COSTS_WINDOW);
		return;
	}
	float beyond = known && took_ns > usual ? took_ns - usual : 0;
	if (beyond > 0 && is_change(record, took_ns))
		return;
	if (beyond <= 0)
		SET(record->run, 0);
	samples = samples < WEIR_COSTS_WINDOW ? samples : WEIR_COSTS_WINDOW;
	learn_p90(record, took_ns, larger(P90_STEP, 1 / (float)samples));
	learn_extra(record, beyond);
	learn_base(record, took_ns - beyond, samples, weight);
}

/* ---- at its place ---- */

static void set_cost(weir_cost_mark *mark, const weir_cost_record *record)
{
	float us = (GET(record->base_ns) + GET(record->extra_ns)) / 1000;
	uint32_t cost = us < 1 ? 1 : us > 4e9f ? 4000000000u : (uint32_t)us, before = GET(mark->cost_us);
	uint32_t differs = cost > before ? cost - before : before - cost;
	if (GET(record->samples) >= WEIR_COSTS_TRUSTED && (before == 0 || differs > before / COST_CHANGE))
		SET(mark->cost_us, cost);
}

static void add_work(weir_cost_record *record, float took_ns, uint64_t now_ns)
{
	uint64_t at_ns = GET(record->work_at_ns);
	float work = GET(record->work_ns);
	if (at_ns == 0 || now_ns < at_ns)
		SET(record->work_at_ns, at_ns = now_ns);
	if (now_ns - at_ns >= WORK_NS) {
		uint64_t times = (now_ns - at_ns) / WORK_NS;
		for (uint64_t i = 0; i < times && work > 1; i++)
			work *= WORK_FADES;
		SET(record->work_at_ns, at_ns + times * WORK_NS);
	}
	SET(record->work_ns, work + took_ns);
}

/* One answer, or one that represents several. */
typedef struct lesson {
	float took_ns;
	unsigned weight, answers;
	uint64_t now_ns;
} lesson;

static void count(weir_cost_record *record, const lesson *l)
{
	uint32_t uses = GET(record->uses);
	/* A request that queued did not work for all of its time. */
	float usual = GET(record->base_ns) + GET(record->extra_ns);
	bool queued = l->weight == 0 && usual > 0 && usual < l->took_ns;
	SET(record->last_ns, l->now_ns);
	SET(record->count, GET(record->count) + l->answers);
	SET(record->uses, uses <= UINT32_MAX - l->answers ? uses + l->answers : UINT32_MAX);
	add_work(record, (queued ? usual : l->took_ns) * (float)l->answers, l->now_ns);
}

static void teach(weir_costs *costs, weir_cost_mark *mark, const lesson *l)
{
	weir_cost_record *record = weir_costs_record(costs, mark);
	uint64_t last_ns = GET(record->last_ns);
	if (l->now_ns > last_ns && l->now_ns - last_ns > LONG_AGO_NS &&
	    GET(record->samples) > WEIR_COSTS_TRUSTED)
		SET(record->samples, WEIR_COSTS_TRUSTED);
	count(record, l);
	if (l->weight != 0) {
		learn(record, l->took_ns, l->weight);
		set_cost(mark, record);
	}
}

/* Teaches all prefixes up to the route; false: a prefix has lost its place. */
static bool teach_above(weir_costs *costs, const weir_cost_mark *mark, const lesson *l)
{
	const weir_cost_record *record = weir_costs_record(costs, mark);
	for (unsigned i = 0; i < WEIR_COST_SEGMENTS + 2u; i++) {
		if (GET(record->sort) == WEIR_COSTS_ROUTE)
			return true;
		weir_cost_mark *above = weir_costs_place(costs, weir_costs_unpack(GET(record->parent)));
		if (above == NULL)
			return false;
		teach(costs, above, l);
		record = weir_costs_record(costs, above);
	}
	return true;
}

void weir_costs_learn_drawn(weir_costs *costs, weir_cost_kind kind, uint64_t took_ns, unsigned weight,
			    unsigned answers, uint64_t now_ns)
{
	weir_cost_mark *mark = weir_costs_place(costs, kind);
	if (mark == NULL)
		return;
	weir_cost_record *record = weir_costs_record(costs, mark);
	lesson l = {.took_ns = (float)(took_ns < TOOK_MOST_NS ? took_ns : TOOK_MOST_NS),
		    .weight = weight < WEIR_COSTS_WEIGHT ? weight : WEIR_COSTS_WEIGHT,
		    .answers = answers,
		    .now_ns = now_ns};
	bool known = GET(record->samples) >= WEIR_COSTS_WINDOW;
	uint64_t before = GET(record->count);
	teach(costs, mark, &l);
	if (!GET(record->proven) && GET(record->sort) == WEIR_COSTS_KIND)
		weir_costs_prove(costs, mark);
	if (known && before / WEIR_COSTS_SHARE == (before + answers) / WEIR_COSTS_SHARE)
		return;
	/* The next answer proves the kind again. */
	if (!teach_above(costs, mark, &l))
		SET(record->proven, false);
}

void weir_costs_learn(weir_costs *costs, weir_cost_kind kind, uint64_t took_ns, unsigned weight,
		      uint64_t now_ns)
{
	weir_costs_learn_drawn(costs, kind, took_ns, weight, 1, now_ns);
}

bool weir_costs_is_due(const weir_costs *costs, weir_cost_kind kind, uint64_t now_ns)
{
	const weir_cost_mark *mark = weir_costs_place(costs, kind);
	if (mark == NULL)
		return false;
	const weir_cost_record *record = weir_costs_record(costs, mark);
	/* The caller's time may be that of its turn, a little before the last answer. A clock may also begin anew. */
	uint64_t last_ns = GET(record->last_ns);
	uint64_t apart_ns = now_ns > last_ns ? now_ns - last_ns : last_ns - now_ns;
	return GET(record->samples) < WEIR_COSTS_WINDOW || apart_ns >= WEIR_COSTS_DUE_NS;
}
