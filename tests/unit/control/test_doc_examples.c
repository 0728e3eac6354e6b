/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of C that the documents show, taken from there when this is built, and run. */
#include "support/worlds.h"

#include <err.h>
#include <weir/law.h>

static void dinner(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	weir_done_many(events, count);
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
}

static weir_stage *make_cook(weir_domain *kitchen)
{
	weir_stage *cook = NULL;
	{
#include "doc_adaptive.inc"
	}
	return cook;
}

static void runs_docs_laws_adaptive(void **state)
{
	weir_world *world = world_real();
	weir_stage *cook = make_cook(domain_elastic(world, "kitchen", 1, 1));
	must(weir_world_start(world));
	weir_event guest;
	weir_event_init(&guest, 0);
	assert_int_equal(weir_offer(cook, &guest), WEIR_ADMITTED);
	weir_report report;
	assert_true(weir_stage_report(cook, 0, &report));
	must(weir_world_stop(world, 30 * WEIR_NS_PER_S, NULL));
	weir_stage_stats stats;
	weir_stage_read(cook, WEIR_ALL_CLASSES, &stats);
	assert_int_equal(stats.completed, 1);
	weir_world_free(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(runs_docs_laws_adaptive, check_memory_setup,
						check_memory_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
