/* SPDX-License-Identifier: Apache-2.0 */
/* The heap against a plain list: whatever is pushed and removed, its top is the smallest. */
#include "support/check.h"

#include "net/transmit_heap.h"

#define NODES 400

static uint64_t mix(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *state >> 33;
}

static double smallest(const weir_transmit_node *node, const bool *inside)
{
	double least = -1;
	for (unsigned i = 0; i < NODES; i++)
		if (inside[i] && (least < 0 || node[i].key < least))
			least = node[i].key;
	return least;
}

static void top_is_the_smallest(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		static weir_transmit_node node[NODES];
		bool inside[NODES] = {false};
		weir_transmit_heap heap = {0};
		uint64_t random = seed;
		size_t count = 0;
		for (unsigned i = 0; i < 4000; i++) {
			unsigned at = (unsigned)(mix(&random) % NODES);
			if (inside[at])
				weir_transmit_heap_remove(&heap, &node[at]);
			else
				weir_transmit_heap_push(&heap, &node[at], (double)(mix(&random) % 1000));
			inside[at] = !inside[at];
			count += inside[at] ? 1 : (size_t)-1;
			assert_int_equal(heap.count, count);
			assert_true((heap.top == NULL) == (count == 0));
			if (heap.top != NULL)
				assert_true(heap.top->key == smallest(node, inside));
		}
	}
}

static void comes_out_in_order(void **state)
{
	static weir_transmit_node node[NODES];
	weir_transmit_heap heap = {0};
	uint64_t random = 7;
	for (unsigned i = 0; i < NODES; i++)
		weir_transmit_heap_push(&heap, &node[i], (double)(mix(&random) % 100));
	double last = -1;
	while (heap.top != NULL) {
		assert_true(heap.top->key >= last);
		last = heap.top->key;
		weir_transmit_heap_remove(&heap, heap.top);
	}
	assert_int_equal(heap.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {CHECK_TEST(top_is_the_smallest), CHECK_TEST(comes_out_in_order)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
