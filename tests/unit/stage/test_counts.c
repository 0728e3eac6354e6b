/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of edges: those of the first stages are there, those of others come when they are needed. */
#include "support/unit.h"

#include "base/mem.h"
#include "stage/counts.h"

static const unsigned origins[] = {0, 1, 63, 64, 65, 127, 128, 1000, WEIR_STAGES_MAX};
enum { ORIGINS = sizeof(origins) / sizeof(origins[0]) };

static void every_origin_has_its_count(void **state)
{
	weir_edges edges = {0};
	for (unsigned i = 0; i < ORIGINS; i++)
		atomic_fetch_add(weir_edges_at(&edges, origins[i]), i + 1);
	for (unsigned i = 0; i < ORIGINS; i++)
		assert_int_equal(weir_edges_get(&edges, origins[i]), i + 1);
	uint64_t sum = 0;
	for (unsigned origin = 0; origin <= WEIR_STAGES_MAX; origin++)
		sum += weir_edges_get(&edges, origin);
	assert_int_equal(sum, ORIGINS * (ORIGINS + 1) / 2);
	assert_int_equal(edges.lost, 0);
	weir_edges_fini(&edges);
}

static void without_memory_only_the_count_is_lost(void **state)
{
	weir_edges edges = {0};
	weir_mem_fail_after(1);
	atomic_fetch_add(weir_edges_at(&edges, 700), 3);
	assert_int_equal(weir_edges_get(&edges, 700), 0);
	assert_int_equal(edges.lost, 3);
	atomic_fetch_add(weir_edges_at(&edges, 700), 4);
	assert_int_equal(weir_edges_get(&edges, 700), 4);
	weir_edges_fini(&edges);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_origin_has_its_count),
		cmocka_unit_test(without_memory_only_the_count_is_lost),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
