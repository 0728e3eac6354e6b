/* SPDX-License-Identifier: Apache-2.0 */
/* What servers tell adaptive-remote: when they are idle, and that nothing else they tell counts. */
#include "support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/remote.h"

#define TICK_NS WEIR_REMOTE_TICK_NS

static weir_remote *new_law(void)
{
	weir_adaptive_remote_params params;
	const char *wrong = NULL;
	weir_remote *r = aligned_alloc(64, (sizeof(*r) + 63) / 64 * 64);
	assert_non_null(r);
	memset(r, 0, sizeof(*r));
	weir_law_defaults(&weir_law_adaptive_remote, &params);
	params.target_ns[0] = 200 * WEIR_NS_PER_MS;
	assert_int_equal(weir_law_adaptive_remote.init(r, &params, &wrong), 0);
	return r;
}

static weir_told told(double queue_s, double busy)
{
	return (weir_told){.now_ns = WEIR_NS_PER_S,
			   .servers = 2,
			   .reports = 2,
			   .processors = 4,
			   .queue_s = queue_s,
			   .in_service = 2,
			   .busy = busy};
}

static bool is_idle(weir_remote *r, const weir_told *t)
{
	weir_remote_told(r, t);
	return weir_remote_is_idle(r, t->now_ns + TICK_NS);
}

static void idle_servers_are_idle(void **state)
{
	weir_remote *r = new_law();
	weir_told t = told(.001, .3);
	assert_true(is_idle(r, &t));
	t.busy = -1;
	assert_false(is_idle(r, &t));
	t = told(-1, .3);
	assert_false(is_idle(r, &t));
	t = told(.001, .8);
	assert_false(is_idle(r, &t));
	t = told(.05, .3);
	assert_false(is_idle(r, &t));
	t = told(NAN, .3);
	assert_false(is_idle(r, &t));
	t = told(.001, NAN);
	assert_false(is_idle(r, &t));
	free(r);
}

static void what_is_old_or_of_few_is_nothing(void **state)
{
	weir_remote *r = new_law();
	weir_told t = told(.001, .3);
	assert_false(weir_remote_is_idle(r, t.now_ns));
	assert_true(is_idle(r, &t));
	assert_false(weir_remote_is_idle(r, t.now_ns + 4 * WEIR_NS_PER_S));
	t.servers = 5;
	assert_false(is_idle(r, &t));
	t.reports = 0;
	assert_false(is_idle(r, &t));
	free(r);
}

static void tick(weir_remote *r, uint64_t now_ns)
{
	weir_sample sample = {.now_ns = now_ns, .interval_ns = TICK_NS};
	weir_law_adaptive_remote.tick(r, &sample);
}

/* Whatever is told, the law limits nobody by that alone. */
static void a_long_wait_is_no_congestion_by_itself(void **state)
{
	weir_remote *r = new_law();
	weir_told t = told(10, 1);
	t.in_service = 1000;
	atomic_store(&r->serving, 100);
	for (unsigned i = 1; i <= 300; i++) {
		t.now_ns = WEIR_NS_PER_S + i * TICK_NS;
		weir_remote_told(r, &t);
		tick(r, t.now_ns);
	}
	assert_false(atomic_load(&r->congested) || atomic_load(&r->limited));
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_servers_are_idle),
		cmocka_unit_test(what_is_old_or_of_few_is_nothing),
		cmocka_unit_test(a_long_wait_is_no_congestion_by_itself),
	};
	return cmocka_run_group_tests_name("remote_told", tests, NULL, NULL);
}
