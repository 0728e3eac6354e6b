/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <weir/throttle.h>

#define T0 (1000 * WEIR_NS_PER_S)
#define S  WEIR_NS_PER_S

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage at = {.ss_family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET};
	if (at.ss_family == AF_INET)
		inet_pton(AF_INET, text, &((struct sockaddr_in *)(void *)&at)->sin_addr);
	else
		inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)(void *)&at)->sin6_addr);
	return at;
}

static uint64_t wait_of(weir_throttle *t, const char *name, const char *client, uint64_t now_ns)
{
	struct sockaddr_storage at = address(client);
	return weir_throttle_wait(t, (weir_span){name, strlen(name)}, (struct sockaddr *)&at, now_ns);
}

static void fail_by(weir_throttle *t, const char *name, const char *client, uint64_t now_ns)
{
	struct sockaddr_storage at = address(client);
	weir_throttle_failed(t, (weir_span){name, strlen(name)}, (struct sockaddr *)&at, now_ns);
}

static void a_few_failures_cost_nothing(void **state)
{
	weir_throttle *t = weir_throttle_new();
	for (unsigned i = 1; i < WEIR_THROTTLE_NAME_CLIENT; i++) {
		fail_by(t, "ann", "10.0.0.1", T0);
		assert_int_equal(wait_of(t, "ann", "10.0.0.1", T0), 0);
	}
	for (uint64_t pause = S; pause < WEIR_THROTTLE_MOST_NS; pause *= 2) {
		fail_by(t, "ann", "10.0.0.1", T0);
		assert_int_equal(wait_of(t, "ann", "10.0.0.1", T0), pause);
	}
	fail_by(t, "ann", "10.0.0.1", T0);
	assert_int_equal(wait_of(t, "ann", "10.0.0.1", T0), WEIR_THROTTLE_MOST_NS);
	assert_int_equal(wait_of(t, "ANN", "10.0.0.1", T0), WEIR_THROTTLE_MOST_NS); /* the same name */
	assert_int_equal(wait_of(t, "bob", "10.0.0.1", T0), 0);
	assert_int_equal(wait_of(t, "ann", "10.0.0.2", T0), 0); /* nobody is locked out by a stranger */
	assert_int_equal(wait_of(t, "ann", "10.0.0.1", T0 + WEIR_THROTTLE_MOST_NS), 0);
	weir_throttle_free(t);
}

static void the_right_password_forgives(void **state)
{
	weir_throttle *t = weir_throttle_new();
	struct sockaddr_storage at = address("10.0.0.1");
	for (unsigned i = 0; i < WEIR_THROTTLE_NAME_CLIENT; i++)
		fail_by(t, "ann", "10.0.0.1", T0);
	weir_throttle_passed(t, WEIR_SPAN("ann"), (struct sockaddr *)&at);
	assert_int_equal(wait_of(t, "ann", "10.0.0.1", T0), 0);
	weir_throttle_passed(t, WEIR_SPAN("nobody"), (struct sockaddr *)&at);
	weir_throttle_free(t);
}

static void time_forgives(void **state)
{
	weir_throttle *t = weir_throttle_new();
	for (unsigned i = 0; i < WEIR_THROTTLE_NAME_CLIENT; i++)
		fail_by(t, "ann", "10.0.0.1", T0);
	fail_by(t, "ann", "10.0.0.1", T0 + WEIR_THROTTLE_FORGET_NS + 1);
	assert_int_equal(wait_of(t, "ann", "10.0.0.1", T0 + WEIR_THROTTLE_FORGET_NS + 1), 0);
	weir_throttle_free(t);
}

/* Many names from one client, and one name from many clients. */
static void clients_and_names_have_counts_of_their_own(void **state)
{
	weir_throttle *t = weir_throttle_new();
	char text[40];
	for (unsigned i = 0; i < WEIR_THROTTLE_CLIENT; i++) {
		snprintf(text, sizeof(text), "name%u", i);
		fail_by(t, text, "10.0.0.1", T0);
	}
	assert_int_equal(wait_of(t, "ann", "10.0.0.1", T0), S);
	assert_int_equal(wait_of(t, "ann", "10.0.0.2", T0), 0);
	for (unsigned i = 0; i < WEIR_THROTTLE_NAME; i++) {
		snprintf(text, sizeof(text), "10.1.%u.1", i);
		fail_by(t, "ann", text, T0);
	}
	assert_int_equal(wait_of(t, "ann", "10.9.9.9", T0), S);
	assert_int_equal(wait_of(t, "bob", "10.9.9.9", T0), 0);
	weir_throttle_free(t);
}

/* A customer of IPv6 has a whole network. */
static void a_network_is_one_client(void **state)
{
	weir_throttle *t = weir_throttle_new();
	char text[40];
	for (unsigned i = 0; i < WEIR_THROTTLE_NAME_CLIENT; i++) {
		snprintf(text, sizeof(text), "2001:db8::%x", i + 1);
		fail_by(t, "ann", text, T0);
	}
	assert_int_equal(wait_of(t, "ann", "2001:db8::ffff:1", T0), S);
	assert_int_equal(wait_of(t, "ann", "2001:db8:0:1::1", T0), 0);
	struct sockaddr local = {.sa_family = AF_UNIX};
	weir_throttle_failed(t, WEIR_SPAN("ann"), &local, T0);
	assert_int_equal(weir_throttle_wait(t, WEIR_SPAN("ann"), &local, T0), 0);
	weir_throttle_free(t);
}

/* A proxy on this machine stands for everybody: guesses of one do not keep out all. */
static void a_proxy_is_no_client(void **state)
{
	weir_throttle *t = weir_throttle_new();
	char text[40];
	for (unsigned i = 0; i < 10 * WEIR_THROTTLE_CLIENT; i++) {
		snprintf(text, sizeof(text), "name%u", i);
		fail_by(t, text, i % 2 == 0 ? "127.0.0.1" : "::1", T0);
	}
	assert_int_equal(wait_of(t, "ann", "127.0.0.1", T0), 0);
	assert_int_equal(wait_of(t, "ann", "::1", T0), 0);
	weir_throttle_free(t);
}

/* More names than there are places, and names of any length. */
static void it_is_bounded(void **state)
{
	weir_throttle *t = weir_throttle_new();
	static char name[70000];
	memset(name, 'x', sizeof(name));
	for (unsigned i = 0; i < 3 * WEIR_THROTTLE_PLACES; i++) {
		char client[40];
		snprintf(client, sizeof(client), "10.%u.%u.1", i / 256 % 256, i % 256);
		snprintf(name, 20, "%u", i);
		fail_by(t, name, client, T0 + i);
	}
	struct sockaddr_storage at = address("10.0.0.1");
	weir_throttle_failed(t, (weir_span){name, sizeof(name)}, (struct sockaddr *)&at, T0);
	weir_throttle_failed(t, (weir_span){NULL, 0}, (struct sockaddr *)&at, T0);
	weir_throttle_free(t);
	weir_throttle_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_few_failures_cost_nothing),
		cmocka_unit_test(the_right_password_forgives),
		cmocka_unit_test(time_forgives),
		cmocka_unit_test(clients_and_names_have_counts_of_their_own),
		cmocka_unit_test(a_network_is_one_client),
		cmocka_unit_test(a_proxy_is_no_client),
		cmocka_unit_test(it_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
