/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel answers: read from messages that are made here, and from the kernel itself. */
#include "support/unit.h"

#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <string.h>

#include "base/error.h"
#include "uplink/kernel.h"
#include "uplink/uplink.h"

/* ---- messages ---- */

static void make_link(weir_message *message)
{
	weir_message_begin_link(message, RTM_NEWLINK, 0, 4);
	weir_message_put_text(message, IFLA_IFNAME, "eth0");
	weir_message_put_u32(message, IFLA_MTU, 1500);
	weir_message_put_u32(message, IFLA_GSO_MAX_SIZE, 65536);
	weir_message_put_u32(message, IFLA_GSO_MAX_SEGS, 65535);
	weir_message_put_u32(message, IFLA_TSO_MAX_SIZE, 524280);
}

static void make_qdisc(weir_message *message, const char *kind)
{
	const struct gnet_stats_basic basic = {.bytes = 1000, .packets = 10};
	const struct gnet_stats_queue queue = {.qlen = 3, .drops = 2};
	const struct tcmsg about = {
		.tcm_ifindex = 4, .tcm_handle = WEIR_UPLINK_QUEUE, .tcm_parent = 0x57520016};
	weir_message_begin_tc(message, RTM_NEWQDISC, 0, &about);
	weir_message_put_text(message, TCA_KIND, kind);
	size_t stats = weir_message_open(message, TCA_STATS2);
	weir_message_put(message, TCA_STATS_BASIC, &basic, 12);
	weir_message_put(message, TCA_STATS_QUEUE, &queue, sizeof(queue));
	weir_message_close(message, stats);
}

static void test_reads_a_link(void **state)
{
	weir_message message;
	weir_kernel_link link;
	make_link(&message);
	assert_true(weir_kernel_read_link(&message.head, &link));
	assert_string_equal(link.name, "eth0");
	assert_int_equal(link.index, 4);
	assert_int_equal(link.mtu, 1500);
	assert_int_equal(link.gso.size, 65536);
	assert_int_equal(link.gso.count, 65535);
	assert_int_equal(link.gso.ipv4_size, 0); /* an older kernel does not tell */
	assert_int_equal(link.tso_size, 524280);
	assert_false(link.loopback);
}

static void test_reads_a_qdisc(void **state)
{
	weir_message message;
	weir_kernel_qdisc qdisc;
	make_qdisc(&message, "pfifo");
	assert_true(weir_kernel_read_qdisc(&message.head, &qdisc));
	assert_string_equal(qdisc.kind, "pfifo");
	assert_int_equal(qdisc.handle, WEIR_UPLINK_QUEUE);
	assert_int_equal(qdisc.bytes, 1000);
	assert_int_equal(qdisc.packets, 10);
	assert_int_equal(qdisc.dropped, 2);
	assert_int_equal(qdisc.waiting, 3);
	make_qdisc(&message, "a kind with a name that is too long");
	assert_false(weir_kernel_read_qdisc(&message.head, &qdisc));
}

static void test_reads_the_rate(void **state)
{
	weir_uplink_plan plan;
	weir_message message;
	uint64_t rate = 7;
	weir_uplink_plan_init(&plan, 4, 5, 10000000, 1500);
	weir_uplink_build_link(&plan, &message);
	assert_true(weir_kernel_read_rate(&message.head, &rate));
	assert_int_equal(rate, 1225000);
	weir_uplink_plan_init(&plan, 4, 5, 100000000000, 1500);
	weir_uplink_build_link(&plan, &message);
	assert_true(weir_kernel_read_rate(&message.head, &rate));
	assert_true(rate == UINT64_C(12250000000));
	weir_uplink_build_other(&plan, &message);
	assert_false(weir_kernel_read_rate(&message.head, &rate));
}

/* Every shorter message: nothing is read beyond its end, and what is missing is missing. */
static void test_short_messages(void **state)
{
	weir_message link, qdisc;
	weir_kernel_link a_link;
	weir_kernel_qdisc a_qdisc;
	uint64_t rate;
	make_link(&link);
	make_qdisc(&qdisc, "pfifo");
	for (uint32_t length = 0; length < link.head.nlmsg_len; length++) {
		weir_message part = link;
		part.head.nlmsg_len = length;
		if (weir_kernel_read_link(&part.head, &a_link))
			assert_true(length >= 16 + 16 + 12 + 8);
		assert_false(weir_kernel_read_qdisc(&part.head, &a_qdisc));
		assert_false(weir_kernel_read_rate(&part.head, &rate));
	}
	for (uint32_t length = 0; length < qdisc.head.nlmsg_len; length++) {
		weir_message part = qdisc;
		part.head.nlmsg_len = length;
		if (weir_kernel_read_qdisc(&part.head, &a_qdisc))
			assert_true(length >= 16 + 20 + 10);
	}
}

/* ---- whose it is ---- */

static weir_uplink_view sorted(const weir_kernel_qdisc *list, unsigned count)
{
	weir_kernel_qdiscs qdiscs = {.count = count};
	weir_uplink_view view = {0};
	memcpy(qdiscs.qdisc, list, count * sizeof(*list));
	weir_uplink_sort(&qdiscs, &view);
	return view;
}

static void test_owner(void **state)
{
	const weir_kernel_qdisc defaults = {.kind = "fq_codel", .parent = TC_H_ROOT};
	const weir_kernel_qdisc foreign = {.kind = "htb", .parent = TC_H_ROOT, .handle = 0x10000};
	const weir_kernel_qdisc alike = {.kind = "tbf", .parent = TC_H_ROOT, .handle = WEIR_UPLINK_HANDLE};
	const weir_kernel_qdisc ours = {.kind = "htb", .parent = TC_H_ROOT, .handle = WEIR_UPLINK_HANDLE};
	assert_int_equal(sorted(&defaults, 1).owner, WEIR_UPLINK_DEFAULT);
	assert_int_equal(sorted(&defaults, 0).owner, WEIR_UPLINK_DEFAULT);
	assert_int_equal(sorted(&foreign, 1).owner, WEIR_UPLINK_FOREIGN);
	assert_int_equal(sorted(&alike, 1).owner, WEIR_UPLINK_FOREIGN);
	assert_int_equal(sorted(&ours, 1).owner, WEIR_UPLINK_OURS);
	assert_false(sorted(&ours, 1).complete);
}

static void test_bands_are_counted(void **state)
{
	weir_kernel_qdisc list[] = {
		{.kind = "htb", .parent = TC_H_ROOT, .handle = WEIR_UPLINK_HANDLE},
		{.kind = "pfifo", .handle = WEIR_UPLINK_QUEUE + 0x10000, .parent = 1, .packets = 2},
		{.kind = "pfifo", .handle = WEIR_UPLINK_QUEUE, .parent = 1, .packets = 1},
		{.kind = "pfifo", .handle = WEIR_UPLINK_OTHER, .parent = 1, .packets = 9},
		{.kind = "pfifo", .handle = WEIR_UPLINK_QUEUE + 0x80000, .parent = 1},
		{.kind = "prio", .handle = WEIR_UPLINK_PRIO, .parent = 1},
	};
	weir_uplink_view view = sorted(list, 6);
	assert_int_equal(view.bands, 2);
	assert_true(view.complete && view.prio);
	assert_int_equal(view.band[0].packets, 1);
	assert_int_equal(view.band[1].packets, 2);
	assert_int_equal(view.other.packets, 9);
	list[2].handle = 0x10000; /* a hole: the first band is missing */
	assert_int_equal(sorted(list, 6).bands, 0);
	assert_false(sorted(list, 6).complete);
	list[0].handle = 0x20000; /* not our root */
	assert_false(sorted(list, 6).complete);
}

/* ---- the kernel itself; looking needs no privilege ---- */

static void test_finds_the_loopback(void **state)
{
	weir_kernel kernel;
	weir_kernel_link link;
	if (weir_kernel_open(&kernel) != 0)
		skip();
	if (weir_kernel_find_link(&kernel, "lo", &link) == 0) {
		assert_true(link.loopback);
		assert_true(link.mtu > 0);
		uint64_t rate = 7;
		weir_kernel_qdiscs qdiscs;
		assert_int_equal(weir_kernel_find_qdiscs(&kernel, link.index, &qdiscs), 0);
		assert_int_equal(weir_kernel_find_rate(&kernel, link.index, &rate), 0);
		assert_int_equal(rate, 0);
	}
	weir_kernel_close(&kernel);
	weir_kernel_close(&kernel);
}

static void test_finds_no_link(void **state)
{
	static const char *const names[] = {
		"",          "no-such-dev", "a name that is far too long for a device",
		"../../etc", "\xff\xfe",    "a b"};
	weir_kernel kernel;
	if (weir_kernel_open(&kernel) != 0)
		skip();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		weir_kernel_link link = {.index = 7};
		assert_int_equal(weir_kernel_find_link(&kernel, names[i], &link), -ENODEV);
		assert_int_equal(link.index, 7);
		assert_non_null(strstr(weir_error(), "there is no device"));
	}
	weir_kernel_close(&kernel);
}

static void test_message_that_did_not_fit_is_not_sent(void **state)
{
	weir_kernel kernel;
	weir_message message = {.failed = true};
	if (weir_kernel_open(&kernel) != 0)
		skip();
	assert_int_equal(weir_kernel_send(&kernel, &message), -EMSGSIZE);
	weir_kernel_close(&kernel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_a_link),
		cmocka_unit_test(test_reads_a_qdisc),
		cmocka_unit_test(test_reads_the_rate),
		cmocka_unit_test(test_short_messages),
		cmocka_unit_test(test_owner),
		cmocka_unit_test(test_bands_are_counted),
		cmocka_unit_test(test_finds_the_loopback),
		cmocka_unit_test(test_finds_no_link),
		cmocka_unit_test(test_message_that_did_not_fit_is_not_sent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
