/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of rtnetlink: built within their buffer, and read without trust. */
#include "support/unit.h"

#include <string.h>
#include <sys/socket.h>

#include <weir/random.h>

#include "uplink/message.h"

static const struct tcmsg about = {.tcm_ifindex = 7, .tcm_handle = 0x10000};

static weir_attributes list_of(const weir_message *message)
{
	return weir_attributes_of(&message->head, sizeof(struct tcmsg));
}

static void test_builds_what_can_be_read(void **state)
{
	weir_message message;
	weir_attributes nested;
	uint32_t small = 0;
	uint64_t large = 0;
	char text[8];
	weir_message_begin_tc(&message, RTM_NEWQDISC, NLM_F_CREATE, &about);
	weir_message_put_text(&message, 1, "htb");
	size_t options = weir_message_open(&message, 2);
	weir_message_put_u32(&message, 3, 0xabcdef01);
	weir_message_put_u64(&message, 4, UINT64_C(0x123456789abcdef0));
	weir_message_close(&message, options);
	weir_message_put_u32(&message, 5, 5);
	assert_false(message.failed);
	assert_int_equal(message.head.nlmsg_type, RTM_NEWQDISC);
	assert_int_equal(message.head.nlmsg_flags, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE);
	assert_int_equal(message.head.nlmsg_len, 16 + 20 + 8 + (4 + 8 + 12) + 8);
	assert_memory_equal(message.bytes + NLMSG_HDRLEN, &about, sizeof(about));
	assert_true(weir_attribute_text(list_of(&message), 1, text, sizeof(text)));
	assert_string_equal(text, "htb");
	assert_true(weir_attribute(list_of(&message), 2, &nested));
	assert_true(weir_attribute_read(nested, 3, &small, sizeof(small)));
	assert_int_equal(small, 0xabcdef01);
	assert_true(weir_attribute_read(nested, 4, &large, sizeof(large)));
	assert_true(large == UINT64_C(0x123456789abcdef0));
	assert_true(weir_attribute_read(list_of(&message), 5, &small, sizeof(small)));
	assert_int_equal(small, 5);
	assert_false(weir_attribute(list_of(&message), 3, &nested));
}

static void test_links(void **state)
{
	weir_message message;
	struct ifinfomsg link;
	weir_message_begin_link(&message, RTM_GETLINK, 0, 3);
	memcpy(&link, message.bytes + NLMSG_HDRLEN, sizeof(link));
	assert_int_equal(link.ifi_index, 3);
	assert_int_equal(link.ifi_family, AF_UNSPEC);
	assert_int_equal(message.head.nlmsg_len, 32);
}

/* What does not fit is not written, and the message says so; all that follows is refused, too. */
static void test_bound(void **state)
{
	struct {
		weir_message message;
		char after[64];
	} box;
	char large[WEIR_MESSAGE_BYTES] = {0};
	memset(&box, 0x5a, sizeof(box));
	weir_message_begin_tc(&box.message, RTM_NEWQDISC, 0, &about);
	weir_message_put(&box.message, 1, large, WEIR_MESSAGE_BYTES - 16 - 20 - 4);
	assert_false(box.message.failed);
	assert_int_equal(box.message.head.nlmsg_len, WEIR_MESSAGE_BYTES);
	size_t where = weir_message_open(&box.message, 2);
	weir_message_put_u32(&box.message, 3, 1);
	weir_message_close(&box.message, where);
	assert_true(box.message.failed);
	assert_int_equal(box.message.head.nlmsg_len, WEIR_MESSAGE_BYTES);
	for (size_t i = 0; i < sizeof(box.after); i++)
		assert_int_equal(box.after[i], 0x5a);
	weir_message_begin_tc(&box.message, RTM_NEWQDISC, 0, &about);
	assert_false(box.message.failed);
	weir_message_put(&box.message, 1, large, SIZE_MAX - 8);
	assert_true(box.message.failed);
}

static void test_text_bounds(void **state)
{
	weir_message message;
	char text[4] = "old";
	weir_message_begin_tc(&message, RTM_NEWQDISC, 0, &about);
	weir_message_put_text(&message, 1, "four");
	weir_message_put(&message, 2, "abc", 3); /* without a NUL */
	assert_false(weir_attribute_text(list_of(&message), 1, text, sizeof(text)));
	assert_string_equal(text, "old");
	assert_true(weir_attribute_text(list_of(&message), 2, text, sizeof(text)));
	assert_string_equal(text, "abc");
}

static void test_short_values(void **state)
{
	weir_message message;
	uint64_t value = 7;
	weir_message_begin_tc(&message, RTM_NEWQDISC, 0, &about);
	weir_message_put_u32(&message, 1, 1);
	assert_false(weir_attribute_read(list_of(&message), 1, &value, sizeof(value)));
	assert_int_equal(value, 7);
	message.head.nlmsg_len = NLMSG_HDRLEN + 4;
	assert_int_equal(list_of(&message).size, 0);
}

/* Lengths that lie: too short for a head, beyond the end, zero. None may be followed. */
static void test_lengths_that_lie(void **state)
{
	static const uint16_t lengths[] = {0, 1, 3, 9, 200, UINT16_MAX};
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct rtattr attributes[2] = {{.rta_len = lengths[i], .rta_type = 1},
					       {.rta_len = 4, .rta_type = 2}};
		weir_attributes list = {(const char *)attributes, sizeof(attributes)}, value;
		assert_false(weir_attribute(list, 2, &value));
		if (lengths[i] > sizeof(attributes) || lengths[i] < 4)
			assert_false(weir_attribute(list, 1, &value));
	}
}

static void test_random_bytes(void **state)
{
	weir_random random;
	for (uint64_t seed = 0; seed < 2000; seed++) {
		uint16_t bytes[32];
		weir_random_init(&random, seed);
		for (unsigned i = 0; i < 32; i++)
			bytes[i] = (uint16_t)weir_random_below(&random, i % 2 == 0 ? 40 : 4);
		weir_attributes list = {(const char *)bytes, weir_random_below(&random, sizeof(bytes) + 1)},
				value;
		if (weir_attribute(list, 1, &value))
			assert_for_seed(seed, value.bytes >= list.bytes &&
						      value.bytes + value.size <= list.bytes + list.size);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_builds_what_can_be_read),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_text_bounds),
		cmocka_unit_test(test_short_values),
		cmocka_unit_test(test_lengths_that_lie),
		cmocka_unit_test(test_random_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
