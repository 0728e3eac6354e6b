/* SPDX-License-Identifier: Apache-2.0 */
/* What a law earns in a cell, and what could have been earned with what was offered there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "control/guarantee.h"
#include "laws/revenue.h"

/* ---- watching ---- */

struct watched {
	const struct revenue_cell *cell;
	struct revenue_result *result;
	weir_guarantee guarantee[REVENUE_CLASSES]; /* the judge's own */
	uint32_t conforming[REVENUE_CLASSES][REVENUE_SECONDS], admitted[REVENUE_CLASSES][REVENUE_SECONDS];
	tally took[REVENUE_CLASSES]; /* in own targets */
	struct revenue_request *request;
	size_t count, room;
};

static unsigned second_of(const struct watched *w, uint64_t now_ns)
{
	double from_s = 1 + w->cell->cell.warm_s; /* a world begins at 1 s */
	return (unsigned)fmin((double)now_ns / 1e9 - from_s, REVENUE_SECONDS - 1);
}

static void see_offer(struct watched *w, const struct proxy_seen *seen, unsigned klass)
{
	bool conforms = weir_guarantee_take(&w->guarantee[klass], seen->now_ns);
	if (!seen->measured)
		return;
	w->conforming[klass][second_of(w, seen->now_ns)] += conforms;
	if (w->count == w->room) {
		w->room = w->room != 0 ? 2 * w->room : 1024;
		w->request = realloc(w->request, w->room * sizeof(*w->request));
		BENCH_REQUIRE(w->request != NULL);
	}
	w->request[w->count++] = (struct revenue_request){seen->work_ns, (uint8_t)seen->kind, conforms};
}

/* What is answered in the measured time counts, whenever it was offered. */
static void see_end(struct watched *w, const struct proxy_seen *seen, unsigned klass)
{
	const struct proxy_cell *cell = &w->cell->cell;
	double took = (double)seen->took_ns / (cell->lot[cell->kind[seen->kind].lot].target_s * 1e9);
	struct revenue_class *of = &w->result->klass[klass];
	tally_add(&w->took[klass], took);
	of->answers++;
	if (seen->step == PROXY_ANSWERED && took <= 1)
		of->earned += w->cell->revenue[klass];
	else
		of->late += w->cell->revenue[klass];
}

static void watch(void *arg, const struct proxy_seen *seen)
{
	struct watched *w = arg;
	unsigned klass = w->cell->cell.kind[seen->kind].klass;
	if (seen->step == PROXY_OFFERED)
		see_offer(w, seen, klass);
	else if (seen->step == PROXY_STUCK || (seen->step == PROXY_ANSWERED && seen->measured))
		see_end(w, seen, klass);
	else if (seen->step == PROXY_ADMITTED && seen->measured)
		w->admitted[klass][second_of(w, seen->now_ns)]++;
	else if (seen->measured && seen->step != PROXY_ANSWERED)
		w->result->klass[klass].turned_away += w->cell->revenue[klass];
}

/* ---- oracles ---- */

/* Something that may be bought: so much revenue for so much work. */
struct offer {
	double revenue, work_ns;
};

static int by_price(const void *a, const void *b)
{
	const struct offer *x = a, *y = b;
	double left = x->revenue * y->work_ns, right = y->revenue * x->work_ns;
	return (left < right) - (left > right);
}

/* Greedily, the dearest per work first; of the last one a part. */
static double knapsack(struct offer *offers, size_t count, double capacity_ns)
{
	double earned = 0;
	qsort(offers, count, sizeof(*offers), by_price);
	for (size_t i = 0; i < count && capacity_ns > 0; i++) {
		double part = offers[i].work_ns > capacity_ns ? capacity_ns / offers[i].work_ns : 1;
		earned += part * offers[i].revenue;
		capacity_ns -= part * offers[i].work_ns;
	}
	return earned;
}

/* What is guaranteed comes first: it takes its work, at any price. */
static double buy(const struct watched *w, struct offer *offers, bool exact, double capacity_ns)
{
	double earned = 0;
	size_t count = 0;
	for (size_t i = 0; i < w->count; i++) {
		const struct revenue_request *request = &w->request[i];
		double revenue = w->cell->revenue[w->cell->cell.kind[request->kind].klass];
		double work_ns = exact ? request->work_ns : revenue_expected_ns(w->cell, request->kind);
		if (request->conforms) {
			capacity_ns -= work_ns;
			earned += revenue;
		} else {
			offers[count++] = (struct offer){revenue, work_ns};
		}
	}
	return earned + knapsack(offers, count, capacity_ns);
}

static void ask_oracles(const struct watched *w, struct revenue_result *result)
{
	struct offer *offers = malloc((w->count + 1) * sizeof(*offers));
	double capacity_ns = w->cell->cell.backend.workers * w->cell->cell.measure_s * 1e9;
	BENCH_REQUIRE(offers != NULL);
	result->oracle = buy(w, offers, false, capacity_ns);
	result->clairvoyant = buy(w, offers, true, capacity_ns);
	result->busy = buy(w, offers, false, fmin(result->proxy.done_s * 1e9, capacity_ns));
	free(offers);
}

/* ---- a run ---- */

static const struct revenue_cell *filling; /* for fill, which is told no more than the proxy's cell */
static const weir_admission_law *filling_law;

static void set(void *params, const char *name, int klass, double value, const char *unit)
{
	char key[40], text[40];
	const weir_key *p = filling_law->params;
	while (p != NULL && p->name != NULL && strcmp(p->name, name) != 0)
		p++;
	if (p == NULL || p->name == NULL)
		return;
	snprintf(key, sizeof(key), klass < 0 ? "%s" : "%s[%d]", name, klass);
	snprintf(text, sizeof(text), p->type == WEIR_KEY_COUNT ? "%.0f%s" : "%.6f%s", value, unit);
	if (weir_law_set(filling_law, params, key, text) != 0) {
		fprintf(stderr, "%s: %s\n", filling->cell.name, weir_error());
		exit(1);
	}
}

static void fill(void *params, const struct proxy_cell *cell)
{
	set(params, "target", -1, floor(cell->target_s * 1e9), "ns");
	set(params, "servers", -1, cell->backend.workers, ""); /* a law that needs it cannot find out */
	for (int k = 0; k < REVENUE_CLASSES; k++) {
		set(params, "revenue", k, filling->revenue[k], "");
		set(params, "guaranteed", k, filling->guaranteed_per_s[k], "/s");
	}
}

/* Less than one request short: the two buckets may differ by a part of one at the seconds' ends. */
static void count_seconds(const struct watched *w, struct revenue_result *result)
{
	for (unsigned k = 0; k < REVENUE_CLASSES; k++)
		for (unsigned s = 0; s < (unsigned)w->cell->cell.measure_s && s < REVENUE_SECONDS; s++) {
			result->seconds += w->conforming[k][s] != 0;
			result->kept +=
				w->conforming[k][s] != 0 && w->admitted[k][s] + 1 >= w->conforming[k][s];
		}
}

void revenue_run(const struct revenue_cell *cell, const weir_admission_law *law,
		 struct revenue_result *ret_result)
{
	struct watched *w = calloc(1, sizeof(*w));
	struct proxy_cell watched = cell->cell;
	BENCH_REQUIRE(w != NULL);
	*ret_result = (struct revenue_result){0};
	*w = (struct watched){.cell = cell, .result = ret_result};
	for (unsigned k = 0; k < REVENUE_CLASSES; k++)
		weir_guarantee_init(&w->guarantee[k], cell->guaranteed_per_s[k]);
	watched.watch = watch;
	watched.watch_arg = w;
	filling = cell;
	filling_law = law;
	proxy_cell_run(&watched, law, fill, &ret_result->proxy);
	for (unsigned k = 0; k < REVENUE_CLASSES; k++) {
		ret_result->klass[k].p90 = tally_quantile(&w->took[k], .9);
		ret_result->earned += ret_result->klass[k].earned;
	}
	count_seconds(w, ret_result);
	ask_oracles(w, ret_result);
	free(w->request);
	free(w);
}
