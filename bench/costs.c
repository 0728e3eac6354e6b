/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to know what a request costs: looking up its kind, folding included, and learning from its answer.
 *
 *	costs [--path PATH] [--do find|recent|learn] [--warm 100] [--count N]
 *
 * Run under callgrind with two counts: the difference is what the look-ups between them cost.
 */
#include "common.h"

#include "control/costs.h"

/* Enough names behind one prefix for it to fold. */
static void fill(weir_costs *costs)
{
	char path[32];
	uint32_t us;
	for (unsigned i = 0; i < 64; i++)
		for (unsigned n = 0; n < 4; n++) {
			snprintf(path, sizeof(path), "/u/name%c%c", 'g' + (int)i % 8, 'g' + (int)i / 8);
			weir_cost_kind kind = weir_costs_find(costs, 1, 1, path, strlen(path), &us);
			weir_costs_learn(costs, kind, 1000000, 1, i + 1);
		}
}

int main(int argc, char **argv)
{
	const char *path = bench_text(argv, "path", "/shop/orders/1234567/positions");
	static weir_costs_recent asked;
	const char *does = bench_text(argv, "do", "find");
	bool learns = strcmp(does, "learn") == 0, recent = strcmp(does, "recent") == 0, own;
	uint64_t count = (uint64_t)bench_number(argv, "count", 1000000), sum = 0;
	uint64_t warm = (uint64_t)bench_number(argv, "warm", 100);
	weir_costs *costs = weir_costs_new(&(weir_costs_options){.key = {1, 2}});
	weir_cost_kind kind = {0};
	size_t length = strlen(path);
	uint32_t us = 0;

	BENCH_REQUIRE(costs != NULL && count > 0);
	fill(costs);
	for (uint64_t i = 0; i < warm; i++) {
		kind = weir_costs_find(costs, 1, 1, path, length, &us);
		weir_costs_learn(costs, kind, 5000000, 1, i + 1);
	}
	uint64_t start = bench_now_ns();
	for (uint64_t i = 0; i < count; i++) {
		if (learns)
			weir_costs_learn(costs, kind, 5000000 + i % 64 * 1000, 1, warm + i);
		else if (recent)
			sum += weir_costs_find_recent(costs, &asked, 1, 1, path, length, &us, &own).at + us;
		else
			sum += weir_costs_find(costs, 1, 1, path, length, &us).at + us;
	}
	uint64_t took = bench_now_ns() - start;
	printf("ns %.2f\nsum %llu\n", (double)took / (double)count, (unsigned long long)sum);
	weir_costs_free(costs);
	return 0;
}
