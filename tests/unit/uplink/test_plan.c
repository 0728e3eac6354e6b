/* SPDX-License-Identifier: Apache-2.0 */
/* What a rate becomes: the numbers, the bytes of the messages, and what the filter's program decides. */
#include "support/unit.h"

#include <linux/pkt_sched.h>
#include <string.h>

#include "uplink/plan.h"

#define OPTIONS 2u

static weir_uplink_plan plan_of(uint64_t rate, unsigned bands, bool prio)
{
	weir_uplink_plan plan;
	weir_uplink_plan_init(&plan, 3, bands, rate, 1500);
	plan.prio = prio;
	return plan;
}

/* ---- numbers ---- */

static void test_numbers(void **state)
{
	weir_uplink_plan plan = plan_of(10000000, 5, false);
	assert_int_equal(plan.shaped, 1225000); /* 98 % */
	assert_int_equal(plan.gso_size, 1514);
	assert_int_equal(plan.gso_count, 1);
	plan = plan_of(100000000, 5, false);
	assert_int_equal(plan.gso_size, 12500); /* a millisecond */
	assert_int_equal(plan.gso_count, 8);
	plan = plan_of(WEIR_UPLINK_RATE_LEAST, 8, false);
	assert_int_equal(plan.shaped, 7840);
	assert_int_equal(plan.gso_size, 1514);
	plan = plan_of(WEIR_UPLINK_RATE_MOST, 8, false);
	assert_true(plan.shaped == UINT64_C(12250000000));
	assert_int_equal(plan.gso_size, 12500000);
	assert_true(plan.burst >= plan.gso_size);
}

/* ---- messages ---- */

static weir_attributes options_of(const weir_message *message)
{
	weir_attributes options = {NULL, 0};
	assert_false(message->failed);
	assert_true(
		weir_attribute(weir_attributes_of(&message->head, sizeof(struct tcmsg)), OPTIONS, &options));
	return options;
}

static struct tcmsg about_of(const weir_message *message)
{
	struct tcmsg about;
	memcpy(&about, message->bytes + NLMSG_HDRLEN, sizeof(about));
	return about;
}

/* The same bytes as those of `tc qdisc add dev DEV root handle 5752: htb default 2 direct_qlen 1000`. */
static void test_root(void **state)
{
	static const unsigned char wanted[] = {0x18, 0, 2, 0, 3, 0, 0, 0, 0x0a, 0, 0, 0, 2,    0, 0, 0,
					       0,    0, 0, 0, 0, 0, 0, 0, 8,    0, 5, 0, 0xe8, 3, 0, 0};
	weir_uplink_plan plan = plan_of(10000000, 5, false);
	weir_message message;
	weir_uplink_build_root(&plan, &message);
	struct tcmsg about = about_of(&message);
	assert_int_equal(message.head.nlmsg_type, RTM_NEWQDISC);
	assert_int_equal(message.head.nlmsg_flags, NLM_F_REQUEST | NLM_F_ACK | NLM_F_EXCL | NLM_F_CREATE);
	assert_int_equal(about.tcm_handle, 1464991744);
	assert_int_equal(about.tcm_parent, TC_H_ROOT);
	assert_int_equal(about.tcm_ifindex, 3);
	assert_int_equal(options_of(&message).size, sizeof(wanted));
	assert_memory_equal(options_of(&message).bytes, wanted, sizeof(wanted));
	assert_int_equal(message.head.nlmsg_len, 80);
}

static struct tc_htb_opt class_of(const weir_message *message, uint32_t handle, uint32_t parent)
{
	struct tc_htb_opt opt;
	struct tcmsg about = about_of(message);
	assert_int_equal(message->head.nlmsg_type, RTM_NEWTCLASS);
	assert_int_equal(about.tcm_handle, handle);
	assert_int_equal(about.tcm_parent, parent);
	assert_true(weir_attribute_read(options_of(message), TCA_HTB_PARMS, &opt, sizeof(opt)));
	return opt;
}

static void test_classes(void **state)
{
	weir_uplink_plan plan = plan_of(10000000, 5, false);
	weir_message message;
	uint64_t guaranteed = 0;
	weir_uplink_build_link(&plan, &message);
	struct tc_htb_opt opt = class_of(&message, 0x57520001, 0x57520000);
	assert_int_equal(opt.rate.rate, 1225000);
	assert_int_equal(opt.ceil.rate, 1225000);
	assert_int_equal(opt.rate.linklayer, TC_LINKLAYER_ETHERNET);
	assert_int_equal(opt.buffer, 38622); /* 3028 bytes, in ticks of 64 ns */
	weir_uplink_build_other(&plan, &message);
	opt = class_of(&message, 0x57520002, 0x57520001);
	assert_int_equal(opt.rate.rate, 612500);
	assert_int_equal(opt.prio, 5);
	guaranteed += opt.rate.rate;
	for (unsigned band = 0; band < 5; band++) {
		weir_uplink_build_band(&plan, band, &message);
		opt = class_of(&message, 0x57520016 - band, 0x57520001);
		assert_int_equal(opt.prio, band);
		assert_int_equal(opt.rate.rate, 6125);
		assert_int_equal(opt.ceil.rate, 1225000);
		assert_int_equal(opt.quantum, 1514);
		guaranteed += opt.rate.rate;
	}
	assert_true(guaranteed < plan.shaped);
}

/* Rates that do not fit into 32 bits have an attribute of their own. */
static void test_large_rates(void **state)
{
	weir_uplink_plan plan = plan_of(WEIR_UPLINK_RATE_MOST, 8, true);
	weir_message message;
	uint64_t rate = 0, ceil = 0;
	weir_uplink_build_link(&plan, &message);
	assert_true(weir_attribute_read(options_of(&message), TCA_HTB_RATE64, &rate, sizeof(rate)));
	assert_true(weir_attribute_read(options_of(&message), TCA_HTB_CEIL64, &ceil, sizeof(ceil)));
	assert_true(rate == plan.shaped && ceil == plan.shaped);
	weir_uplink_build_answers(&plan, &message);
	struct tc_htb_opt opt = class_of(&message, 0x57520003, 0x57520001);
	assert_int_equal(opt.quantum, 200000);
	assert_false(weir_attribute_read(options_of(&message), TCA_HTB_RATE64, &rate, sizeof(rate)));
}

static void test_smallest_rate_has_no_zeros(void **state)
{
	weir_uplink_plan plan = plan_of(WEIR_UPLINK_RATE_LEAST, 8, false);
	weir_message message;
	for (unsigned band = 0; band < 8; band++) {
		weir_uplink_build_band(&plan, band, &message);
		struct tc_htb_opt opt = class_of(&message, (uint32_t)weir_band_class(band), 0x57520001);
		assert_true(opt.rate.rate > 0 && opt.ceil.rate > 0 && opt.buffer > 0 && opt.cbuffer > 0);
	}
}

/* As `tc qdisc add dev DEV parent 5752:3 handle 5753: prio bands 5 priomap ...` begins. */
static void test_prio(void **state)
{
	static const unsigned char five[] = {5, 0, 0, 0, 4, 4, 4, 3, 2, 1, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4};
	static const unsigned char eight[] = {8, 0, 0, 0, 7, 5, 4, 3, 2, 1, 0, 0, 6, 7, 7, 7, 7, 7, 7, 7};
	weir_message message;
	weir_uplink_plan plan = plan_of(10000000, 5, true);
	weir_uplink_build_prio(&plan, &message);
	assert_int_equal(about_of(&message).tcm_handle, 1465057280);
	assert_int_equal(about_of(&message).tcm_parent, 1464991747);
	assert_int_equal(options_of(&message).size, sizeof(five));
	assert_memory_equal(options_of(&message).bytes, five, sizeof(five));
	plan.bands = 8;
	weir_uplink_build_prio(&plan, &message);
	assert_memory_equal(options_of(&message).bytes, eight, sizeof(eight));
}

static void test_queues(void **state)
{
	weir_message message;
	weir_uplink_plan plan = plan_of(10000000, 8, false);
	weir_uplink_build_queue(&plan, 7, &message);
	assert_int_equal(about_of(&message).tcm_handle, 0x57670000);
	assert_int_equal(about_of(&message).tcm_parent, 0x57520019);
	plan.prio = true;
	weir_uplink_build_queue(&plan, 7, &message);
	assert_int_equal(about_of(&message).tcm_parent, 0x57530008);
	weir_uplink_build_queue(&plan, WEIR_BANDS_MOST, &message);
	assert_int_equal(about_of(&message).tcm_handle, 0x575f0000);
	assert_int_equal(about_of(&message).tcm_parent, 0x57520002);
}

/* A removal names the handle, so that the kernel refuses to remove somebody else's root. */
static void test_drop(void **state)
{
	weir_message message;
	weir_uplink_build_drop(9, &message);
	assert_int_equal(message.head.nlmsg_type, RTM_DELQDISC);
	assert_int_equal(about_of(&message).tcm_handle, 0x57520000);
	assert_int_equal(about_of(&message).tcm_parent, TC_H_ROOT);
	weir_uplink_build_drop_class(9, WEIR_UPLINK_CLASS_ANSWERS, &message);
	assert_int_equal(message.head.nlmsg_type, RTM_DELTCLASS);
	assert_int_equal(about_of(&message).tcm_handle, 0x57520003);
}

static void test_gso(void **state)
{
	weir_message message;
	weir_attributes list;
	uint32_t value = 0;
	const weir_uplink_gso gso = {.size = 1514, .count = 1};
	weir_uplink_build_gso(9, &gso, &message);
	list = weir_attributes_of(&message.head, sizeof(struct ifinfomsg));
	assert_true(weir_attribute_read(list, IFLA_GSO_MAX_SIZE, &value, sizeof(value)));
	assert_int_equal(value, 1514);
	assert_true(weir_attribute_read(list, IFLA_GSO_MAX_SEGS, &value, sizeof(value)));
	assert_int_equal(value, 1);
	assert_false(weir_attribute_read(list, WEIR_LINK_GSO_IPV4_SIZE, &value, sizeof(value)));
}

/* ---- the filter's program, run here ---- */

static bool jumps(const struct bpf_insn *at, uint64_t value)
{
	uint64_t by = (uint64_t)(int64_t)at->imm;
	switch (BPF_OP(at->code)) {
	case BPF_JNE:
		return value != by;
	case BPF_JEQ:
		return value == by;
	case BPF_JLE:
		return value <= by;
	case BPF_JGE:
		return value >= by;
	default:
		fail_msg("an unknown jump %#x", at->code);
		return false;
	}
}

static void compute(const struct bpf_insn *at, uint64_t *registers)
{
	uint64_t *to = &registers[at->dst_reg];
	switch (at->code) {
	case BPF_ALU | BPF_MOV | BPF_K:
		*to = (uint32_t)at->imm;
		break;
	case BPF_ALU | BPF_MOV | BPF_X:
		*to = (uint32_t)registers[at->src_reg];
		break;
	case BPF_ALU | BPF_RSH | BPF_K:
		*to = (uint32_t)*to >> at->imm;
		break;
	case BPF_ALU | BPF_OR | BPF_X:
		*to = (uint32_t)(*to | registers[at->src_reg]);
		break;
	default:
		fail_msg("an unknown instruction %#x", at->code);
	}
}

static uint32_t decide(const weir_uplink_plan *plan, uint32_t priority)
{
	struct bpf_insn code[WEIR_UPLINK_PROGRAM];
	unsigned count = weir_uplink_program(plan, code);
	uint64_t registers[11] = {0};
	assert_in_range(count, 1, WEIR_UPLINK_PROGRAM);
	for (unsigned i = 0; i < count; i++) {
		const struct bpf_insn *at = &code[i];
		if (at->code == (BPF_JMP | BPF_EXIT))
			return (uint32_t)registers[0];
		if (at->code == (BPF_LDX | BPF_MEM | BPF_W))
			registers[at->dst_reg] = priority;
		else if (BPF_CLASS(at->code) == BPF_JMP)
			i += jumps(at, registers[at->dst_reg]) ? (unsigned)at->off : 0;
		else
			compute(at, registers);
	}
	fail_msg("the program ran over its end");
	return 0;
}

static void test_program_of_classes(void **state)
{
	weir_uplink_plan five = plan_of(10000000, 5, false), eight = plan_of(10000000, 8, false);
	static const uint32_t others[] = {0, 8, 9, 15, 100, 0x10010, 0x57510016, 0x57530001, UINT32_MAX};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_int_equal(decide(&five, others[i]), 0);
		assert_int_equal(decide(&eight, others[i]), 0);
	}
	for (unsigned band = 0; band < 5; band++)
		assert_int_equal(decide(&five, (uint32_t)weir_band_plain(band)),
				 (uint32_t)weir_band_class(band));
	for (unsigned band = 0; band < 6; band++)
		assert_int_equal(decide(&eight, (uint32_t)weir_band_plain(band)),
				 (uint32_t)weir_band_class(band));
	assert_int_equal(decide(&five, 1), 0x57520012); /* the last band */
	assert_int_equal(decide(&five, TC_PRIO_CONTROL), 0x57520016);
	/* Classes of bands that were not installed. */
	assert_int_equal(decide(&five, 0x57520019), 0x57520012);
	assert_int_equal(decide(&eight, 0x57520099), 0x57520019);
}

static void test_program_of_prio(void **state)
{
	weir_uplink_plan plan = plan_of(10000000, 8, true);
	for (unsigned band = 0; band < 8; band++) {
		assert_int_equal(decide(&plan, (uint32_t)weir_band_plain(band)), 0x57520003);
		assert_int_equal(decide(&plan, (uint32_t)weir_band_class(band)), 0x57520003);
	}
	assert_int_equal(decide(&plan, 0), 0);
	assert_int_equal(decide(&plan, 8), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_root),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_large_rates),
		cmocka_unit_test(test_smallest_rate_has_no_zeros),
		cmocka_unit_test(test_prio),
		cmocka_unit_test(test_queues),
		cmocka_unit_test(test_drop),
		cmocka_unit_test(test_gso),
		cmocka_unit_test(test_program_of_classes),
		cmocka_unit_test(test_program_of_prio),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
