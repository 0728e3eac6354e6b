/* SPDX-License-Identifier: Apache-2.0 */
/* What answers tell about their server: who looks, when, and what loops send meanwhile. */
#include "support/check.h"
#include "support/worlds.h"

#include <pthread.h>
#include <string.h>

#include "http/self.h"

#define LOOKERS 4
#define LOOKS   2000

static void nothing_is_told_before_a_look(void **state)
{
	weir_self self;
	weir_self_copy copy = {0};
	weir_self_init(&self);
	assert_int_equal(weir_self_text(&self, &copy).length, 0);
	weir_self_fini(&self);
}

static void one_looks_every_so_often(void **state)
{
	weir_self self;
	weir_self_init(&self);
	assert_true(weir_self_is_due(&self, 1));
	assert_false(weir_self_is_due(&self, 2));
	assert_false(weir_self_is_due(&self, 100 * WEIR_NS_PER_MS));
	assert_true(weir_self_is_due(&self, 1 + 100 * WEIR_NS_PER_MS));
	assert_false(weir_self_is_due(&self, 1 + 100 * WEIR_NS_PER_MS));
	weir_self_fini(&self);
}

static void the_text_is_what_a_sentry_reads(void **state)
{
	weir_world *world = world_real();
	weir_self self;
	weir_self_copy copy = {0};
	weir_load_report report;
	weir_self_init(&self);
	weir_self_look(&self, world, 0, WEIR_NS_PER_S);
	assert_int_equal(weir_self_text(&self, &copy).length, 0);
	weir_self_look(&self, world, 100, 2 * WEIR_NS_PER_S);
	weir_span text = weir_self_text(&self, &copy);
	weir_load_report_init(&report);
	weir_load_report_read_orca(&report, text);
	assert_int_equal(report.refused, 0);
	assert_true(report.rps > 99 && report.rps < 101);
	assert_true(report.told_queue_s == 0 && report.in_service == 0 && report.processors >= 1);
	assert_true(report.cpu_utilization >= 0 && report.cpu_utilization <= 1);
	weir_self_fini(&self);
	weir_world_free(&world);
}

typedef struct looker {
	weir_self *self;
	const weir_world *world;
	unsigned looks;
} looker;

static void *look_on(void *arg)
{
	looker *l = arg;
	weir_self_copy copy = {0};
	for (uint64_t turn = 1; turn <= LOOKS; turn++) {
		uint64_t now_ns = turn * 100 * WEIR_NS_PER_MS;
		if (weir_self_is_due(l->self, now_ns)) {
			weir_self_look(l->self, l->world, (double)turn, now_ns);
			l->looks++;
		}
		weir_span text = weir_self_text(l->self, &copy);
		if (text.length > 0 && memcmp(text.at, "TEXT ", 5) != 0)
			return (void *)"torn";
	}
	return NULL;
}

/* Each moment has one that looks; nobody sends half a text. */
static void many_loops_share_it(void **state)
{
	weir_world *world = world_real();
	weir_self self;
	pthread_t threads[LOOKERS];
	looker lookers[LOOKERS];
	unsigned looks = 0;
	weir_self_init(&self);
	for (unsigned i = 0; i < LOOKERS; i++) {
		lookers[i] = (looker){&self, world, 0};
		assert_int_equal(pthread_create(&threads[i], NULL, look_on, &lookers[i]), 0);
	}
	for (unsigned i = 0; i < LOOKERS; i++) {
		void *torn;
		pthread_join(threads[i], &torn);
		assert_null(torn);
		looks += lookers[i].looks;
	}
	assert_true(looks >= 1 && looks <= LOOKS);
	weir_self_fini(&self);
	weir_world_free(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_told_before_a_look),
		cmocka_unit_test(one_looks_every_so_often),
		cmocka_unit_test(the_text_is_what_a_sentry_reads),
		cmocka_unit_test(many_loops_share_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
