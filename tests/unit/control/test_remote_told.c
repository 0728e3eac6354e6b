/* SPDX-License-Identifier: Apache-2.0 */
/* What servers tell adaptive-remote: when it is congestion, when it is not believed, and that silence changes nothing. */
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

static void serve(weir_remote *r, int32_t count)
{
	atomic_store(&r->serving, count);
}

static weir_remote_hint hear(weir_remote *r, const weir_told *t, uint32_t answers)
{
	weir_remote_told(r, t);
	return weir_remote_hear(r, t->now_ns + TICK_NS, answers);
}

static void a_long_queue_is_congestion(void **state)
{
	weir_remote *r = new_law();
	weir_told t = told(.15, .9);
	serve(r, 20);
	assert_int_equal(hear(r, &t, 1), WEIR_REMOTE_LATE);
	t.queue_s = .05;
	assert_int_equal(hear(r, &t, 1), WEIR_REMOTE_NOTHING);
	free(r);
}

/* A hundred answers a second and a wait of a second would keep a hundred inside; there is one. */
static void a_queue_that_cannot_be_is_not_believed(void **state)
{
	weir_remote *r = new_law();
	weir_told t = told(1, 1);
	serve(r, 1);
	for (unsigned i = 0; i < 200; i++)
		hear(r, &t, 1);
	assert_int_equal(hear(r, &t, 1), WEIR_REMOTE_NOTHING);
	serve(r, 100);
	assert_int_equal(hear(r, &t, 1), WEIR_REMOTE_LATE);
	free(r);
}

static void shared_processors_stretch(void **state)
{
	weir_remote *r = new_law();
	weir_told t = told(0, 1);
	t.in_service = 20; /* 40 for 4 processors */
	serve(r, 40);
	assert_int_equal(hear(r, &t, 1), WEIR_REMOTE_NOTHING); /* nobody knows how long one takes alone */
	r->base = log(20e6);
	assert_int_equal(hear(r, &t, 1), WEIR_REMOTE_LATE);
	t.busy = .5;
	assert_int_equal(hear(r, &t, 1), WEIR_REMOTE_IDLE);
	free(r);
}

static void idle_servers_are_idle(void **state)
{
	weir_remote *r = new_law();
	weir_told t = told(.001, .3);
	serve(r, 10);
	assert_int_equal(hear(r, &t, 1), WEIR_REMOTE_IDLE);
	t.busy = -1;
	assert_int_equal(hear(r, &t, 1), WEIR_REMOTE_NOTHING);
	t = told(-1, .3);
	assert_int_equal(hear(r, &t, 1), WEIR_REMOTE_NOTHING);
	t = told(.001, .8);
	assert_int_equal(hear(r, &t, 1), WEIR_REMOTE_NOTHING);
	free(r);
}

static void what_is_old_or_of_few_is_nothing(void **state)
{
	weir_remote *r = new_law();
	weir_told t = told(.15, .9);
	serve(r, 20);
	assert_int_equal(weir_remote_hear(r, t.now_ns, 1), WEIR_REMOTE_NOTHING);
	assert_int_equal(hear(r, &t, 1), WEIR_REMOTE_LATE);
	assert_int_equal(weir_remote_hear(r, t.now_ns + 4 * WEIR_NS_PER_S, 1), WEIR_REMOTE_NOTHING);
	t.servers = 5;
	assert_int_equal(hear(r, &t, 1), WEIR_REMOTE_NOTHING);
	t.reports = 0;
	assert_int_equal(hear(r, &t, 1), WEIR_REMOTE_NOTHING);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_long_queue_is_congestion),
		cmocka_unit_test(a_queue_that_cannot_be_is_not_believed),
		cmocka_unit_test(shared_processors_stretch),
		cmocka_unit_test(idle_servers_are_idle),
		cmocka_unit_test(what_is_old_or_of_few_is_nothing),
	};
	return cmocka_run_group_tests_name("remote_told", tests, NULL, NULL);
}
