/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sentry/balance.h"
#include "sentry/resolve.h"

#define S  WEIR_NS_PER_S
#define T0 (1000 * S)

typedef struct yard {
	weir_fleet fleet;
	weir_random random;
	weir_origin *at[8];
} yard;

static void yard_open(yard *y, uint32_t count, weir_origin_options options)
{
	assert_int_equal(weir_fleet_init(&y->fleet), 0);
	weir_random_init(&y->random, 7);
	memset(y->at, 0, sizeof(y->at));
	for (uint32_t i = 0; i < count; i++) {
		char url[64];
		snprintf(url, sizeof(url), "http://127.0.0.1:%u", 1000 + i);
		options.url = url;
		assert_int_equal(weir_origin_new(&options, &y->at[i]), 0);
		assert_int_equal(weir_fleet_add(&y->fleet, y->at[i]), 0);
		assert_int_equal(y->at[i]->index, i);
	}
}

static int add_one(yard *y, unsigned number, weir_origin **ret_one)
{
	char url[64];
	weir_origin *one;
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", 1 + number);
	assert_int_equal(weir_origin_new(&(weir_origin_options){.url = url}, &one), 0);
	int error = weir_fleet_add(&y->fleet, one);
	if (error == 0)
		*ret_one = one;
	else
		weir_origin_free(one);
	return error;
}

static weir_origin *pick(yard *y, uint64_t now_ns, const weir_origin *not_this)
{
	return weir_fleet_pick(&y->fleet, &y->random, now_ns, not_this);
}

/* How many of so many choices each gets, with all places given back at once. */
static void tally(yard *y, unsigned choices, uint64_t now_ns, unsigned *ret_counts)
{
	memset(ret_counts, 0, 8 * sizeof(*ret_counts));
	for (unsigned i = 0; i < choices; i++) {
		weir_origin *one = pick(y, now_ns, NULL);
		assert_non_null(one);
		ret_counts[one->index]++;
		weir_origin_give(one);
	}
}

static void fail_times(yard *y, weir_origin *backend, unsigned times, uint64_t now_ns)
{
	for (unsigned i = 0; i < times; i++)
		weir_fleet_failed(&y->fleet, backend, now_ns);
}

/* ---- choosing ---- */

static void the_only_one_is_chosen(void **state)
{
	yard y;
	yard_open(&y, 1, (weir_origin_options){0});
	assert_ptr_equal(pick(&y, T0, NULL), y.at[0]);
	assert_int_equal(weir_origin_in_flight(y.at[0]), 1);
	/* Even if it has just failed. */
	assert_ptr_equal(pick(&y, T0, y.at[0]), y.at[0]);
	weir_origin_give(y.at[0]);
	weir_origin_give(y.at[0]);
	weir_fleet_fini(&y.fleet);
}

static void equal_ones_get_equal_shares(void **state)
{
	yard y;
	unsigned counts[8];
	yard_open(&y, 4, (weir_origin_options){0});
	tally(&y, 8000, T0, counts);
	for (int i = 0; i < 4; i++)
		assert_in_range(counts[i], 1800, 2200);
	weir_fleet_fini(&y.fleet);
}

/* With places kept, loads stay within one or two of each other: chance alone would leave far more. */
static void the_less_loaded_of_two_wins(void **state)
{
	yard y;
	yard_open(&y, 8, (weir_origin_options){0});
	for (int i = 0; i < 800; i++)
		assert_non_null(pick(&y, T0, NULL));
	for (int i = 0; i < 8; i++) {
		assert_in_range(weir_origin_in_flight(y.at[i]), 97, 103);
		while (weir_origin_in_flight(y.at[i]) > 0)
			weir_origin_give(y.at[i]);
	}
	/* One that is far more loaded gets nothing. */
	for (int i = 0; i < 100; i++)
		assert_true(weir_origin_take(y.at[3]));
	for (int i = 0; i < 200; i++)
		assert_ptr_not_equal(pick(&y, T0, NULL), y.at[3]);
	weir_fleet_fini(&y.fleet);
}

static void the_one_that_failed_is_avoided(void **state)
{
	yard y;
	yard_open(&y, 2, (weir_origin_options){0});
	for (int i = 0; i < 50; i++)
		assert_ptr_equal(pick(&y, T0, y.at[0]), y.at[1]);
	weir_fleet_fini(&y.fleet);
}

static void full_ones_are_left_out(void **state)
{
	yard y;
	yard_open(&y, 3, (weir_origin_options){.concurrency = 2});
	for (int i = 0; i < 6; i++)
		assert_non_null(pick(&y, T0, NULL));
	assert_null(pick(&y, T0, NULL));
	for (int i = 0; i < 3; i++)
		assert_int_equal(weir_origin_in_flight(y.at[i]), 2);
	assert_false(weir_origin_take(y.at[1]));
	assert_int_equal(weir_origin_in_flight(y.at[1]), 2);
	weir_origin_give(y.at[1]);
	assert_ptr_equal(pick(&y, T0, NULL), y.at[1]);
	/* The only one with room is taken even if it failed. */
	weir_origin_give(y.at[2]);
	assert_ptr_equal(pick(&y, T0, y.at[2]), y.at[2]);
	assert_int_equal(atomic_load(&y.fleet.panics), 0);
	weir_fleet_fini(&y.fleet);
}

static void no_backend_no_choice(void **state)
{
	yard y;
	yard_open(&y, 0, (weir_origin_options){0});
	assert_null(pick(&y, T0, NULL));
	weir_fleet_fini(&y.fleet);
}

static void a_retired_one_is_never_chosen(void **state)
{
	yard y;
	unsigned counts[8];
	yard_open(&y, 2, (weir_origin_options){0});
	atomic_store(&y.at[0]->shared.retired, true);
	tally(&y, 100, T0, counts);
	assert_int_equal(counts[0], 0);
	/* Not even in panic. */
	atomic_store(&y.at[1]->shared.down, true);
	tally(&y, 100, T0, counts);
	assert_int_equal(counts[0], 0);
	assert_int_equal(weir_fleet_usable(&y.fleet, T0), 0);
	weir_fleet_fini(&y.fleet);
}

static void a_fleet_is_bounded(void **state)
{
	yard y;
	yard_open(&y, 0, (weir_origin_options){0});
	weir_origin *one = NULL;
	for (unsigned i = 0; i < WEIR_FLEET_MOST; i++)
		assert_int_equal(add_one(&y, i, &one), 0);
	assert_int_equal(add_one(&y, 0, &one), -EEXIST);
	assert_int_equal(add_one(&y, WEIR_FLEET_MOST, &one), -ENOSPC);
	weir_fleet_fini(&y.fleet);
}

/* However many have been there before: one that has left counts no more, and one that is leaving does. */
static void slots_are_used_again(void **state)
{
	yard y;
	weir_origin *one = NULL;
	yard_open(&y, 0, (weir_origin_options){0});
	for (unsigned i = 0; i < 10 * WEIR_FLEET_MOST; i++) {
		assert_int_equal(add_one(&y, i, &one), 0);
		assert_int_equal(one->index, i % 2);
		assert_ptr_equal(pick(&y, T0, NULL), one);
		weir_origin_give(one);
		/* It leaves while the next one is there already. */
		weir_origin *before = y.at[0];
		assert_ptr_equal(weir_fleet_retire(&y.fleet, one->at.name), one);
		assert_null(weir_fleet_retire(&y.fleet, one->at.name));
		assert_null(pick(&y, T0, NULL));
		if (before != NULL)
			weir_fleet_remove(&y.fleet, before);
		y.at[0] = one;
	}
	assert_int_equal(y.fleet.leaving, 1);
	assert_int_equal(weir_fleet_count(&y.fleet), 2);
	weir_fleet_remove(&y.fleet, y.at[0]);
	assert_int_equal(weir_fleet_count(&y.fleet), 0);
	weir_fleet_fini(&y.fleet);
}

/* Whoever looks at one that leaves frees it when they have done. */
static void a_pinned_one_stays(void **state)
{
	yard y;
	yard_open(&y, 2, (weir_origin_options){0});
	weir_origin *one = weir_fleet_pin(&y.fleet, 0);
	assert_ptr_equal(one, y.at[0]);
	assert_ptr_equal(weir_fleet_pin(&y.fleet, 0), one);
	assert_ptr_equal(weir_fleet_retire(&y.fleet, one->at.name), one);
	weir_fleet_remove(&y.fleet, one);
	assert_null(weir_fleet_pin(&y.fleet, 0));
	assert_int_equal(weir_fleet_count(&y.fleet), 2);
	weir_fleet_unpin(&y.fleet, one);
	assert_string_equal(one->at.name, "127.0.0.1:1000");
	weir_fleet_unpin(&y.fleet, one);
	weir_fleet_unpin(&y.fleet, weir_fleet_pin(&y.fleet, 1));
	weir_fleet_fini(&y.fleet);
}

/* ---- ejection ---- */

static void failures_in_a_row_eject(void **state)
{
	yard y;
	unsigned counts[8];
	yard_open(&y, 2,
		  (weir_origin_options){.failures = 3, .eject_ns = 2 * S, .slow_start_ns = UINT64_MAX});
	fail_times(&y, y.at[0], 2, T0);
	weir_origin_answered(y.at[0], 1000);
	fail_times(&y, y.at[0], 2, T0);
	assert_true(weir_origin_usable(y.at[0], T0));
	assert_true(weir_fleet_failed(&y.fleet, y.at[0], T0));
	assert_false(weir_origin_usable(y.at[0], T0));
	assert_false(weir_origin_usable(y.at[0], T0 + 2 * S - 1));
	tally(&y, 100, T0, counts);
	assert_int_equal(counts[0], 0);
	assert_true(weir_origin_usable(y.at[0], T0 + 2 * S));
	tally(&y, 1000, T0 + 2 * S, counts);
	assert_in_range(counts[0], 400, 600);
	assert_int_equal(atomic_load(&y.at[0]->shared.ejections), 1);
	weir_fleet_fini(&y.fleet);
}

/* Twice as long each time, up to the bound; short again after a long good time. */
/* What a log of its own was told, each line from its level on, all in one text. Frees it. */
static void take_said(weir_log *log, weir_errors *errors, const char *path, char *ret_text, size_t size)
{
	char line[512];
	size_t at = 0;
	weir_errors_free(&errors);
	weir_log_free(&log);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	ret_text[0] = '\0';
	while (fgets(line, sizeof(line), file) != NULL && strchr(line, ' ') != NULL && at < size)
		at += (size_t)snprintf(ret_text + at, size - at, "%s", strchr(line, ' ') + 1);
	fclose(file);
	unlink(path);
}

/* Each once: ejected for so long, and back with the first call after that, not with those that it gets because all are away. */
static void ejections_and_returns_are_told(void **state)
{
	yard y;
	unsigned counts[8];
	char path[] = "/tmp/weir-balance-XXXXXX", text[1024];
	weir_log *log = NULL;
	weir_errors *errors = NULL;
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(weir_log_new(&(weir_log_options){.path = path, .format = WEIR_LOG_PLAIN}, &log), 0);
	assert_int_equal(weir_errors_new(log, WEIR_LOG_INFO, 100, &errors), 0);
	yard_open(
		&y, 2,
		(weir_origin_options){
			.failures = 3, .eject_ns = 2 * S, .fall = 1, .rise = 1, .slow_start_ns = UINT64_MAX});
	y.fleet.errors = errors;
	fail_times(&y, y.at[0], 2, T0);
	tally(&y, 100, T0, counts);
	fail_times(&y, y.at[0], 1, T0);
	tally(&y, 100, T0, counts);
	assert_int_equal(counts[0], 0);
	/* The other is down by its checks: both are chosen now, for want of better ones. */
	assert_true(weir_origin_checked(y.at[1], false, T0));
	tally(&y, 100, T0 + S, counts);
	assert_true(counts[0] > 0);
	assert_true(weir_origin_checked(y.at[1], true, T0));
	weir_errors_say(errors, WEIR_LOG_INFO, "test", "its time is over");
	tally(&y, 100, T0 + 3 * S, counts);
	tally(&y, 100, T0 + 4 * S, counts);
	/* The next one is for twice as long. */
	fail_times(&y, y.at[0], 3, T0 + 4 * S);
	weir_fleet_fini(&y.fleet);
	take_said(log, errors, path, text, sizeof(text));
	assert_string_equal(
		text,
		"warn health: backend 127.0.0.1:1000 is ejected for 2 s: 3 requests in a row have failed\n"
		"info test: its time is over\n"
		"info health: backend 127.0.0.1:1000 gets requests again\n"
		"warn health: backend 127.0.0.1:1000 is ejected for 4 s: 3 requests in a row have failed\n");
}

static void ejections_grow(void **state)
{
	static const uint64_t expected_s[] = {2, 4, 8, 10, 10};
	yard y;
	uint64_t now_ns = T0;
	yard_open(&y, 2, (weir_origin_options){.failures = 1, .eject_ns = 2 * S, .eject_most_ns = 10 * S});
	for (size_t i = 0; i < 5; i++) {
		fail_times(&y, y.at[0], 1, now_ns);
		assert_false(weir_origin_usable(y.at[0], now_ns + expected_s[i] * S - 1));
		now_ns += expected_s[i] * S;
		assert_true(weir_origin_usable(y.at[0], now_ns));
	}
	now_ns += 11 * S;
	fail_times(&y, y.at[0], 1, now_ns);
	assert_true(weir_origin_usable(y.at[0], now_ns + 2 * S));
	weir_fleet_fini(&y.fleet);
}

static void the_last_one_is_never_ejected(void **state)
{
	yard y;
	yard_open(&y, 3, (weir_origin_options){.failures = 1});
	fail_times(&y, y.at[0], 1, T0);
	fail_times(&y, y.at[2], 1, T0);
	assert_int_equal(weir_fleet_usable(&y.fleet, T0), 1);
	assert_false(weir_fleet_failed(&y.fleet, y.at[1], T0));
	fail_times(&y, y.at[1], 100, T0);
	assert_true(weir_origin_usable(y.at[1], T0));
	assert_ptr_equal(pick(&y, T0, NULL), y.at[1]);
	/* Those that are ejected are not ejected again. */
	fail_times(&y, y.at[0], 5, T0);
	assert_int_equal(atomic_load(&y.at[0]->shared.ejections), 1);
	weir_fleet_fini(&y.fleet);
}

/* ---- checks ---- */

static void checks_in_a_row_take_down_and_bring_back(void **state)
{
	yard y;
	yard_open(&y, 1, (weir_origin_options){.rise = 2, .fall = 3, .slow_start_ns = 10 * S});
	weir_origin *one = y.at[0];
	assert_false(weir_origin_checked(one, false, T0));
	assert_false(weir_origin_checked(one, false, T0));
	assert_false(weir_origin_checked(one, true, T0));
	assert_false(weir_origin_checked(one, false, T0));
	assert_false(weir_origin_checked(one, false, T0));
	assert_true(weir_origin_usable(one, T0));
	assert_true(weir_origin_checked(one, false, T0));
	assert_false(weir_origin_usable(one, T0));
	assert_false(weir_origin_checked(one, true, T0));
	assert_false(weir_origin_checked(one, false, T0));
	assert_false(weir_origin_checked(one, true, T0));
	assert_true(weir_origin_checked(one, true, T0 + S));
	assert_true(weir_origin_usable(one, T0 + S));
	assert_int_equal(atomic_load(&one->shared.checks), 10);
	assert_int_equal(atomic_load(&one->shared.checks_failed), 6);
	weir_fleet_fini(&y.fleet);
}

static void all_down_is_panic(void **state)
{
	yard y;
	unsigned counts[8];
	yard_open(&y, 3, (weir_origin_options){.fall = 1, .concurrency = 2});
	for (int i = 0; i < 3; i++)
		weir_origin_checked(y.at[i], false, T0);
	tally(&y, 3000, T0, counts);
	for (int i = 0; i < 3; i++)
		assert_in_range(counts[i], 800, 1200);
	assert_int_equal(atomic_load(&y.fleet.panics), 3000);
	assert_ptr_not_equal(pick(&y, T0, y.at[0]), y.at[0]);
	/* Bounds hold in panic too. */
	for (int i = 0; i < 5; i++)
		assert_non_null(pick(&y, T0, NULL));
	assert_null(pick(&y, T0, NULL));
	weir_fleet_fini(&y.fleet);
}

/* ---- slow start ---- */

static void weight_grows_after_a_return(void **state)
{
	yard y;
	yard_open(&y, 2,
		  (weir_origin_options){
			  .fall = 1, .rise = 1, .slow_start_ns = 10 * S, .failures = 1, .eject_ns = S});
	weir_origin *one = y.at[0];
	assert_true(weir_origin_weight(one, T0) == 1);
	weir_origin_checked(one, false, T0);
	weir_origin_checked(one, true, T0);
	assert_true(weir_origin_weight(one, T0) == .1);
	assert_true(weir_origin_weight(one, T0 + 5 * S) == .5);
	assert_true(weir_origin_weight(one, T0 + 10 * S) == 1);
	fail_times(&y, one, 1, T0 + 20 * S);
	assert_true(weir_origin_weight(one, T0 + 21 * S) == .1);
	assert_true(weir_origin_weight(one, T0 + 31 * S) == 1);
	weir_fleet_fini(&y.fleet);
}

static void a_share_follows_the_weight(void **state)
{
	yard y;
	unsigned counts[8];
	yard_open(&y, 2, (weir_origin_options){.fall = 1, .rise = 1, .slow_start_ns = 10 * S});
	weir_origin_checked(y.at[0], false, T0);
	weir_origin_checked(y.at[0], true, T0);
	tally(&y, 10000, T0, counts);
	/* Half of the choices are its to lose; nine of ten are lost. */
	assert_in_range(counts[0], 350, 650);
	tally(&y, 10000, T0 + 5 * S, counts);
	assert_in_range(counts[0], 2200, 2800);
	tally(&y, 10000, T0 + 10 * S, counts);
	assert_in_range(counts[0], 4700, 5300);
	/* Where all start slowly, nobody is spared. */
	weir_origin_checked(y.at[1], false, T0 + 10 * S);
	weir_origin_checked(y.at[1], true, T0 + 10 * S);
	weir_origin_checked(y.at[0], false, T0 + 10 * S);
	weir_origin_checked(y.at[0], true, T0 + 10 * S);
	tally(&y, 10000, T0 + 10 * S, counts);
	assert_in_range(counts[0], 4700, 5300);
	weir_fleet_fini(&y.fleet);
}

/* ---- latency, addresses ---- */

static void latency_follows(void **state)
{
	yard y;
	yard_open(&y, 1, (weir_origin_options){0});
	weir_origin_answered(y.at[0], 8000);
	assert_int_equal(atomic_load(&y.at[0]->shared.latency_ns), 8000);
	weir_origin_answered(y.at[0], 16000);
	assert_int_equal(atomic_load(&y.at[0]->shared.latency_ns), 9000);
	for (int i = 0; i < 100; i++)
		weir_origin_answered(y.at[0], 1600000);
	assert_in_range(atomic_load(&y.at[0]->shared.latency_ns), 1590000, 1600000);
	weir_fleet_fini(&y.fleet);
}

static void urls_are_taken_apart(void **state)
{
	static const struct {
		const char *url, *name, *host, *port;
		bool secure, h2;
	} cases[] = {
		{"http://127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1", "8080", false, false},
		{"http://127.0.0.1:8080/", "127.0.0.1:8080", "127.0.0.1", "8080", false, false},
		{"http://127.0.0.1", "127.0.0.1", "127.0.0.1", "80", false, false},
		{"http://[::1]:65535", "[::1]:65535", "::1", "65535", false, false},
		{"http://[::1]", "[::1]", "::1", "80", false, false},
		{"https://127.0.0.1", "127.0.0.1", "127.0.0.1", "443", true, false},
		{"h2c://127.0.0.1", "127.0.0.1", "127.0.0.1", "80", false, true},
		{"h2://127.0.0.1:9000/", "127.0.0.1:9000", "127.0.0.1", "9000", true, true},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		weir_origin *one = NULL;
		weir_address address;
		assert_int_equal(
			weir_origin_new(&(weir_origin_options){.url = cases[i].url, .unverified = true},
					&one),
			0);
		assert_string_equal(one->at.name, cases[i].name);
		assert_string_equal(one->at.host, cases[i].host);
		assert_int_equal(one->at.port, atoi(cases[i].port));
		assert_int_equal(one->at.secure, cases[i].secure);
		assert_int_equal(one->at.h2, cases[i].h2);
		assert_true(one->numeric);
		assert_true(weir_origin_address(one, 0, &address));
		assert_false(weir_origin_address(one, 1, &address));
		weir_origin_free(one);
	}
	weir_origin_free(NULL);
}

static void the_address_that_works_is_first(void **state)
{
	weir_origin *one = NULL;
	weir_address address;
	assert_int_equal(weir_origin_new(&(weir_origin_options){.url = "http://127.0.0.1:1"}, &one), 0);
	one->found.count = 3;
	for (int i = 0; i < 3; i++)
		one->found.address[i].length = (socklen_t)(10 + i);
	assert_true(weir_origin_address(one, 2, &address));
	assert_int_equal(address.length, 12);
	weir_origin_prefer(one, 2);
	assert_true(weir_origin_address(one, 0, &address));
	assert_int_equal(address.length, 12);
	assert_true(weir_origin_address(one, 1, &address));
	assert_int_equal(address.length, 10);
	assert_false(weir_origin_address(one, 3, &address));
	weir_origin_prefer(one, 0);
	assert_true(weir_origin_address(one, 0, &address));
	assert_int_equal(address.length, 12);
	weir_origin_free(one);
}

/* Names are resolved again by a thread of their own; numbers need none. */
static void names_are_resolved_again(void **state)
{
	yard y;
	weir_origin *named = NULL;
	weir_resolver *resolver = (weir_resolver *)(void *)1;
	yard_open(&y, 1, (weir_origin_options){0});
	assert_int_equal(weir_resolver_new_locked(&y.fleet, 0, NULL, NULL, &resolver), 0);
	assert_null(resolver);
	weir_resolver_free(resolver);
	assert_int_equal(weir_origin_new(&(weir_origin_options){.url = "http://localhost:1"}, &named), 0);
	assert_false(named->numeric);
	assert_int_equal(weir_fleet_add(&y.fleet, named), 0);
	pthread_mutex_lock(&named->found.lock);
	named->found.count = 0;
	pthread_mutex_unlock(&named->found.lock);
	assert_int_equal(weir_resolver_new_locked(&y.fleet, WEIR_NS_PER_MS, NULL, NULL, &resolver), 0);
	weir_address address;
	while (!weir_origin_address(named, 0, &address))
		;
	weir_resolver_free(resolver);
	assert_int_not_equal(weir_origin_new(&(weir_origin_options){.url = "http://nobody.invalid"}, &named),
			     0);
	weir_fleet_fini(&y.fleet);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_only_one_is_chosen),
		cmocka_unit_test(equal_ones_get_equal_shares),
		cmocka_unit_test(the_less_loaded_of_two_wins),
		cmocka_unit_test(the_one_that_failed_is_avoided),
		cmocka_unit_test(full_ones_are_left_out),
		cmocka_unit_test(no_backend_no_choice),
		cmocka_unit_test(a_retired_one_is_never_chosen),
		cmocka_unit_test(a_fleet_is_bounded),
		cmocka_unit_test(slots_are_used_again),
		cmocka_unit_test(a_pinned_one_stays),
		cmocka_unit_test(failures_in_a_row_eject),
		cmocka_unit_test(ejections_and_returns_are_told),
		cmocka_unit_test(ejections_grow),
		cmocka_unit_test(the_last_one_is_never_ejected),
		cmocka_unit_test(checks_in_a_row_take_down_and_bring_back),
		cmocka_unit_test(all_down_is_panic),
		cmocka_unit_test(weight_grows_after_a_return),
		cmocka_unit_test(a_share_follows_the_weight),
		cmocka_unit_test(latency_follows),
		cmocka_unit_test(urls_are_taken_apart),
		cmocka_unit_test(the_address_that_works_is_first),
		cmocka_unit_test(names_are_resolved_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
