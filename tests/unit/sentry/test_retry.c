/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <errno.h>

#include "sentry/retry.h"

#define S WEIR_NS_PER_S

static const weir_call_failure refused = {.step = WEIR_CALL_CONNECT, .error = -ECONNREFUSED};
static const weir_call_failure died = {.step = WEIR_CALL_ANSWER, .error = -ECONNRESET, .sent = true};
static const weir_call_failure stale = {
	.step = WEIR_CALL_ANSWER, .error = -ECONNRESET, .sent = true, .reused = true};
static const weir_call_failure late = {
	.step = WEIR_CALL_ANSWER, .error = -ETIMEDOUT, .sent = true, .reused = true};
static const weir_call_failure partly = {
	.step = WEIR_CALL_HEAD, .error = -ECONNRESET, .sent = true, .received = true, .reused = true};

static weir_retry rich(void)
{
	weir_retry retry;
	weir_retry_init(&retry, &(weir_retry_options){.floor_per_s = 1000}, S);
	return retry;
}

static weir_retry_story story(weir_method method)
{
	return (weir_retry_story){.method = method, .attempts = 1};
}

static void only_what_is_safe_is_repeated(void **state)
{
	static const struct {
		weir_method method;
		bool idempotent;
	} methods[] = {{WEIR_METHOD_GET, true},    {WEIR_METHOD_HEAD, true},   {WEIR_METHOD_PUT, true},
		       {WEIR_METHOD_DELETE, true}, {WEIR_METHOD_TRACE, true},  {WEIR_METHOD_OPTIONS, true},
		       {WEIR_METHOD_POST, false},  {WEIR_METHOD_PATCH, false}, {WEIR_METHOD_CONNECT, false},
		       {WEIR_METHOD_OTHER, false}};
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		weir_retry retry = rich();
		weir_retry_story of = story(methods[i].method);
		assert_int_equal(weir_retry_is_idempotent(of.method), methods[i].idempotent);
		/* Nothing was sent: whatever it was. */
		assert_int_equal(weir_retry_ask(&retry, &of, &refused, S), WEIR_RETRY_PAID);
		assert_int_equal(weir_retry_ask(&retry, &of, &died, S),
				 methods[i].idempotent ? WEIR_RETRY_PAID : WEIR_RETRY_NO);
		assert_int_equal(weir_retry_ask(&retry, &of, &stale, S),
				 methods[i].idempotent ? WEIR_RETRY_FREE : WEIR_RETRY_NO);
		assert_int_equal(weir_retry_ask(&retry, &of, &partly, S), WEIR_RETRY_NO);
		of.body_consumed = true;
		assert_int_equal(weir_retry_ask(&retry, &of, &refused, S), WEIR_RETRY_NO);
		assert_int_equal(weir_retry_ask(&retry, &of, &died, S), WEIR_RETRY_NO);
		assert_int_equal(weir_retry_ask(&retry, &of, &stale, S), WEIR_RETRY_NO);
		/* What is not safe is no want of budget. */
		assert_int_equal(retry.refused, 0);
	}
}

static void an_end_of_our_own_is_not_repeated(void **state)
{
	weir_retry retry = rich();
	weir_retry_story of = story(WEIR_METHOD_GET);
	weir_call_failure ending = {.step = WEIR_CALL_CONNECT, .error = -ECANCELED};
	assert_int_equal(weir_retry_ask(&retry, &of, &ending, S), WEIR_RETRY_NO);
}

static void who_was_late_is_not_asked_again(void **state)
{
	weir_retry retry = rich();
	weir_retry_story of = story(WEIR_METHOD_GET);
	double tokens = retry.tokens;
	assert_int_equal(weir_retry_ask(&retry, &of, &late, S), WEIR_RETRY_NO);
	assert_true(retry.tokens == tokens && retry.refused == 0);
	of.elsewhere = true;
	assert_int_equal(weir_retry_ask(&retry, &of, &late, S), WEIR_RETRY_PAID);
	assert_true(retry.tokens < tokens);
	/* Nor is a third one, but after a failure of another kind. */
	of.late = true;
	assert_int_equal(weir_retry_ask(&retry, &of, &late, S), WEIR_RETRY_NO);
	assert_int_equal(weir_retry_ask(&retry, &of, &died, S), WEIR_RETRY_PAID);
}

static void a_stale_connection_is_free_once(void **state)
{
	weir_retry retry;
	weir_retry_init(&retry, &(weir_retry_options){.share = -1, .floor_per_s = -1}, S);
	weir_retry_story of = story(WEIR_METHOD_GET);
	assert_int_equal(weir_retry_ask(&retry, &of, &stale, S), WEIR_RETRY_FREE);
	of.free_used = true;
	assert_int_equal(weir_retry_ask(&retry, &of, &stale, S), WEIR_RETRY_NO);
	assert_int_equal(retry.free_retries, 1);
	assert_int_equal(retry.refused, 1);
	/* No answer in time is no stale connection. */
	of.free_used = false;
	of.elsewhere = true;
	assert_int_equal(weir_retry_ask(&retry, &of, &late, S), WEIR_RETRY_NO);
}

static void tries_are_bounded(void **state)
{
	weir_retry retry = rich();
	weir_retry_story of = story(WEIR_METHOD_GET);
	of.attempts = 2;
	assert_int_equal(weir_retry_ask(&retry, &of, &died, S), WEIR_RETRY_PAID);
	of.attempts = 3;
	assert_int_equal(weir_retry_ask(&retry, &of, &died, S), WEIR_RETRY_NO);
	assert_int_equal(retry.retries, 1);
	assert_int_equal(retry.refused, 1);
}

/* A fifth of the requests, whatever fails. */
static void the_budget_is_a_share(void **state)
{
	weir_retry retry;
	weir_retry_story of = story(WEIR_METHOD_GET);
	unsigned granted = 0;
	weir_retry_init(&retry, &(weir_retry_options){.floor_per_s = -1}, S);
	assert_int_equal(weir_retry_ask(&retry, &of, &died, S), WEIR_RETRY_NO);
	for (int i = 0; i < 10000; i++) {
		weir_retry_earn(&retry);
		granted += weir_retry_ask(&retry, &of, &died, S) == WEIR_RETRY_PAID;
	}
	assert_in_range(granted, 1990, 2000);
	assert_int_equal(retry.retries, granted);
}

/* Where there are few requests, time pays. */
static void the_floor_is_paid_by_time(void **state)
{
	weir_retry retry;
	weir_retry_story of = story(WEIR_METHOD_GET);
	weir_retry_init(&retry, &(weir_retry_options){.share = -1, .floor_per_s = 2}, S);
	assert_int_equal(weir_retry_ask(&retry, &of, &died, S), WEIR_RETRY_PAID);
	assert_int_equal(weir_retry_ask(&retry, &of, &died, S), WEIR_RETRY_PAID);
	assert_int_equal(weir_retry_ask(&retry, &of, &died, S), WEIR_RETRY_NO);
	assert_int_equal(weir_retry_ask(&retry, &of, &died, S + S / 2), WEIR_RETRY_PAID);
	assert_int_equal(weir_retry_ask(&retry, &of, &died, S + S / 2), WEIR_RETRY_NO);
	/* A clock that seems to go back pays nothing. */
	assert_int_equal(weir_retry_ask(&retry, &of, &died, 0), WEIR_RETRY_NO);
}

/* A quiet day does not save up for a storm. */
static void savings_are_bounded(void **state)
{
	weir_retry retry;
	weir_retry_story of = story(WEIR_METHOD_GET);
	unsigned granted = 0;
	weir_retry_init(&retry, &(weir_retry_options){.floor_per_s = 1}, S);
	for (int i = 0; i < 1000000; i++)
		weir_retry_earn(&retry);
	for (int i = 0; i < 1000; i++)
		granted += weir_retry_ask(&retry, &of, &died, 86400 * S) == WEIR_RETRY_PAID;
	assert_int_equal(granted, 50);
}

/* A server that dies just after a takeover costs nobody an answer. */
static void a_new_budget_is_full(void **state)
{
	weir_retry retry;
	weir_retry_story of = story(WEIR_METHOD_GET);
	unsigned granted = 0;
	weir_retry_init(&retry, &(weir_retry_options){0}, S);
	for (int i = 0; i < 1000; i++)
		granted += weir_retry_ask(&retry, &of, &died, S) == WEIR_RETRY_PAID;
	assert_int_equal(granted, 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_safe_is_repeated),
		cmocka_unit_test(an_end_of_our_own_is_not_repeated),
		cmocka_unit_test(who_was_late_is_not_asked_again),
		cmocka_unit_test(a_stale_connection_is_free_once),
		cmocka_unit_test(tries_are_bounded),
		cmocka_unit_test(a_new_budget_is_full),
		cmocka_unit_test(the_budget_is_a_share),
		cmocka_unit_test(the_floor_is_paid_by_time),
		cmocka_unit_test(savings_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
