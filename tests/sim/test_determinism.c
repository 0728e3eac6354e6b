/* SPDX-License-Identifier: Apache-2.0 */
/* A run with the same seed is the same run, to the last byte of its dump; one with another seed is another. */
#include "sim/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct model model;

/* A random world runs for a while; everything that can be seen of it, as text. */
static char *life(uint64_t seed)
{
	char *text = NULL;
	size_t size = 0;
	model_open(&model, seed);
	weir_trace_every(model.world, 3);
	/* In pieces of odd length: where a run is cut must not matter to what happens, only the sum of the pieces. */
	for (int i = 1; i <= 10; i++)
		model_run(&model, (uint64_t)i * 777777);
	FILE *to = open_memstream(&text, &size);
	must(weir_dump(model.world, to));
	must(weir_dump_graph(model.world, to));
	static weir_trace_entry entries[4096];
	size_t count = weir_trace_read(model.world, entries, 4096);
	for (size_t i = 0; i < count; i++)
		fprintf(to, "%llu %u %u %c\n", (unsigned long long)entries[i].at_ns, entries[i].event,
			entries[i].stage, entries[i].step);
	fclose(to);
	model_close(&model, WEIR_NS_PER_S);
	return text;
}

static void the_same_seed_is_the_same_run(void **state)
{
	unsigned different = 0;
	char *before = NULL;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		char *first = life(seed), *second = life(seed);
		if (strcmp(first, second) != 0)
			fail_msg("two runs with seed %llu differ", (unsigned long long)seed);
		different += before != NULL && strcmp(before, first) != 0;
		free(second);
		free(before);
		before = first;
	}
	free(before);
	assert_int_equal(different, 59);
}

struct poisson {
	weir_world *world;
	uint64_t last_ns, hash;
};

static void note_time(weir_arrivals *arrivals, void *arg)
{
	struct poisson *p = arg;
	p->last_ns = weir_world_now(p->world);
	p->hash = p->hash * 31 + p->last_ns;
}

static uint64_t arrivals_cut_into(uint64_t piece_ns)
{
	struct poisson p = {.world = world_virtual(99)};
	weir_arrivals arrivals;
	domain_reactor(p.world, "r", 1);
	must(weir_world_start(p.world));
	weir_arrivals_start(&arrivals, p.world, WEIR_POISSON, 1000, note_time, &p);
	for (uint64_t at = 0; at < WEIR_NS_PER_S; at += piece_ns)
		world_run(p.world, piece_ns);
	weir_arrivals_stop(&arrivals);
	world_end(&p.world);
	return p.hash;
}

static void where_a_run_is_cut_does_not_matter(void **state)
{
	assert_int_equal(arrivals_cut_into(WEIR_NS_PER_S), arrivals_cut_into(WEIR_NS_PER_MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(the_same_seed_is_the_same_run),
		CHECK_TEST(where_a_run_is_cut_does_not_matter),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
