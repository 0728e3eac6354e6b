/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as paths, answers and saved lines for a small table of costs. The input is records: a byte that says what to do, one that says how much, then text up to a line end.
 * Whatever comes, what is shown is printable, costs are of the times that were told, and what is saved can be loaded.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "control/costs.h"
#include "control/costs_key.h"
#include "target.h"

#define MOST_NS UINT64_C(4000000000000000)

static void check_view(const weir_costs_view *view)
{
	CHECK(strlen(view->path) <= WEIR_COSTS_TEXT);
	CHECK((view->path[0] == '/') == (view->sort != WEIR_COSTS_ROUTE));
	for (const char *at = view->path; *at != '\0'; at++)
		CHECK(*at > ' ' && *at <= '~');
	CHECK(isfinite(view->work_ns) && view->work_ns >= 0);
	CHECK(view->confidence >= 0 && view->confidence < 1);
	CHECK(view->expected_ns <= 2 * MOST_NS && view->typical_ns <= 2 * MOST_NS);
}

/* Both ways give the same, and folding what was folded changes nothing. */
static void check_fold(const char *path, size_t length)
{
	weir_cost_key key, again;
	weir_cost_key_fold(&key, 1, 2, path, length);
	CHECK(key.length >= 1 && key.length <= WEIR_COSTS_TEXT);
	again = key;
	weir_cost_key_fold_any(&again, path, length);
	CHECK(key.length == again.length);
	CHECK(weir_cost_key_hash(&key, &(weir_siphash_key){1, 2}) ==
	      weir_cost_key_hash(&again, &(weir_siphash_key){1, 2}));
	weir_cost_key_fold(&again, 1, 2, key.text, key.length);
	CHECK(key.length == again.length && memcmp(key.text, again.text, key.length) == 0);
}

static void check_all(weir_costs *costs, uint64_t now_ns)
{
	const weir_costs_options options = {.key = {3, 4}, .places = 64};
	weir_costs *next = weir_costs_new(&options);
	char line[WEIR_COSTS_LINE];
	CHECK(next != NULL);
	for (uint32_t at = 0; at < weir_costs_places(costs); at++) {
		weir_costs_view view;
		if (weir_costs_view_at(costs, at, now_ns, &view))
			check_view(&view);
		if (weir_costs_save(costs, at, now_ns, line))
			CHECK(weir_costs_load(next, line, now_ns) != -EINVAL);
	}
	weir_costs_free(next);
}

static void step(weir_costs *costs, unsigned what, unsigned much, char *text, size_t length, uint64_t *now_ns)
{
	uint32_t cost;
	*now_ns += (uint64_t)much * much * 1000000;
	if (what % 8 == 7) {
		weir_costs_load(costs, text, *now_ns);
		return;
	}
	check_fold(text, length);
	for (unsigned i = 0; i <= much % 16; i++) {
		weir_cost_kind kind =
			weir_costs_find(costs, what / 128, (uint8_t)(what / 64 % 2), text, length, &cost);
		uint64_t took_ns = what % 8 == 6 ? UINT64_MAX : UINT64_C(1) << (much / 16 + what % 8 * 5);
		if (what % 4 != 3)
			weir_costs_learn(costs, kind, took_ns, what % 5, *now_ns);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const weir_costs_options options = {.key = {1, 2}, .places = 64};
	weir_costs *costs = weir_costs_new(&options);
	uint64_t now_ns = 1000;
	CHECK(costs != NULL);
	while (size > 2) {
		const uint8_t *end = memchr(data + 2, '\n', size - 2);
		size_t length = end != NULL ? (size_t)(end - data) - 2 : size - 2;
		char *text = malloc(length + 1); /* of just its size */
		CHECK(text != NULL);
		memcpy(text, data + 2, length);
		text[length] = '\0';
		step(costs, data[0], data[1], text, length, &now_ns);
		free(text);
		size_t used = length + 2 + (end != NULL);
		data += used;
		size -= used;
	}
	check_all(costs, now_ns);
	weir_costs_free(costs);
	return 0;
}
