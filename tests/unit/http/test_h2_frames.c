/* SPDX-License-Identifier: Apache-2.0 */
/* Frames as bytes, and the rules that do not depend on what came before. */
#include "support/unit.h"

#include <string.h>

#include "http/h2_frames.h"

static void heads_come_back(void **state)
{
	static const weir_h2_frame frames[] = {{0, 0, 0, 0},
					       {1, WEIR_H2_DATA, WEIR_H2_END_STREAM, 1},
					       {0xffffff, 0xff, 0xff, WEIR_H2_ID_MOST},
					       {16384, WEIR_H2_HEADERS, WEIR_H2_END_HEADERS, 0x01020304}};
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		const weir_h2_frame *at = &frames[i];
		uint8_t bytes[WEIR_H2_FRAME_HEAD];
		uint8_t *end = weir_h2_frame_write(bytes, at->length, at->type, at->flags, at->id);
		assert_ptr_equal(end, bytes + sizeof(bytes));
		weir_h2_frame back = weir_h2_frame_read(bytes);
		assert_int_equal(back.length, at->length);
		assert_int_equal(back.type, at->type);
		assert_int_equal(back.flags, at->flags);
		assert_int_equal(back.id, at->id);
	}
	/* The reserved bit is ignored. */
	assert_int_equal(weir_h2_frame_read((const uint8_t *)"\0\0\1\0\0\x80\0\0\7").id, 7);
}

static void heads_are_judged(void **state)
{
	static const struct {
		const char *what;
		weir_h2_frame frame;
		int code; /* -1: none */
	} cases[] = {
		{"DATA", {16384, WEIR_H2_DATA, 0, 1}, -1},
		{"a large frame", {16385, WEIR_H2_DATA, 0, 1}, WEIR_H2_FRAME_SIZE_ERROR},
		{"a large frame of an unknown type", {16385, 0x99, 0, 0}, WEIR_H2_FRAME_SIZE_ERROR},
		{"an unknown type", {5, 0x99, 0xff, 3}, -1},
		{"a type of nobody", {5, 0x0b, 0xff, 0}, -1},
		{"DATA on stream 0", {1, WEIR_H2_DATA, 0, 0}, WEIR_H2_PROTOCOL_ERROR},
		{"HEADERS on stream 0", {1, WEIR_H2_HEADERS, 0, 0}, WEIR_H2_PROTOCOL_ERROR},
		{"PRIORITY on stream 0", {5, WEIR_H2_PRIORITY, 0, 0}, WEIR_H2_PROTOCOL_ERROR},
		{"PRIORITY of four bytes", {4, WEIR_H2_PRIORITY, 0, 1}, WEIR_H2_FRAME_SIZE_ERROR},
		{"RST_STREAM", {4, WEIR_H2_RST_STREAM, 0, 1}, -1},
		{"RST_STREAM of five bytes", {5, WEIR_H2_RST_STREAM, 0, 1}, WEIR_H2_FRAME_SIZE_ERROR},
		{"SETTINGS", {12, WEIR_H2_SETTINGS, 0, 0}, -1},
		{"SETTINGS of seven bytes", {7, WEIR_H2_SETTINGS, 0, 0}, WEIR_H2_FRAME_SIZE_ERROR},
		{"SETTINGS on a stream", {6, WEIR_H2_SETTINGS, 0, 1}, WEIR_H2_PROTOCOL_ERROR},
		{"an acknowledgement", {0, WEIR_H2_SETTINGS, WEIR_H2_ACK, 0}, -1},
		{"an acknowledgement with more",
		 {6, WEIR_H2_SETTINGS, WEIR_H2_ACK, 0},
		 WEIR_H2_FRAME_SIZE_ERROR},
		{"PUSH_PROMISE", {4, WEIR_H2_PUSH_PROMISE, 0, 1}, WEIR_H2_PROTOCOL_ERROR},
		{"PING of nine bytes", {9, WEIR_H2_PING, 0, 0}, WEIR_H2_FRAME_SIZE_ERROR},
		{"GOAWAY of seven bytes", {7, WEIR_H2_GOAWAY, 0, 0}, WEIR_H2_FRAME_SIZE_ERROR},
		{"GOAWAY with a text", {80, WEIR_H2_GOAWAY, 0, 0}, -1},
		{"WINDOW_UPDATE of either", {4, WEIR_H2_WINDOW_UPDATE, 0, 0}, -1},
		{"WINDOW_UPDATE of three bytes", {3, WEIR_H2_WINDOW_UPDATE, 0, 1}, WEIR_H2_FRAME_SIZE_ERROR},
		{"PRIORITY_UPDATE", {7, WEIR_H2_PRIORITY_UPDATE, 0, 0}, -1},
		{"PRIORITY_UPDATE on a stream", {7, WEIR_H2_PRIORITY_UPDATE, 0, 1}, WEIR_H2_PROTOCOL_ERROR},
		{"PRIORITY_UPDATE of three bytes",
		 {3, WEIR_H2_PRIORITY_UPDATE, 0, 0},
		 WEIR_H2_FRAME_SIZE_ERROR},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		weir_h2_code code = WEIR_H2_NO_ERROR;
		const char *why = weir_h2_frame_check(&cases[i].frame, &code);
		if (cases[i].code < 0 ? why != NULL : why == NULL || (int)code != cases[i].code)
			fail_msg("%s: %s, code %u", cases[i].what, why != NULL ? why : "taken", code);
	}
}

/* NULL; or why a frame with this one setting is refused, with the code. */
static const char *set(unsigned setting, uint32_t value, weir_h2_code *ret_code)
{
	uint8_t payload[WEIR_H2_SETTING_BYTES] = {(uint8_t)(setting >> 8), (uint8_t)setting};
	weir_h2_settings settings = {0};
	weir_hpack_encoder encoder;
	weir_hpack_encoder_init(&encoder);
	weir_h2_put32(payload + 2, value);
	const char *why = weir_h2_settings_read(payload, sizeof(payload), &encoder, &settings, ret_code);
	weir_hpack_encoder_fini(&encoder);
	return why;
}

static void settings_are_judged(void **state)
{
	weir_h2_code code;
	assert_null(set(WEIR_H2_ENABLE_PUSH, 1, &code));
	assert_non_null(set(WEIR_H2_ENABLE_PUSH, 2, &code));
	assert_int_equal(code, WEIR_H2_PROTOCOL_ERROR);
	assert_null(set(WEIR_H2_INITIAL_WINDOW_SIZE, WEIR_H2_WINDOW_MOST, &code));
	assert_non_null(set(WEIR_H2_INITIAL_WINDOW_SIZE, 1u << 31, &code));
	assert_int_equal(code, WEIR_H2_FLOW_CONTROL_ERROR);
	assert_null(set(WEIR_H2_MAX_FRAME_SIZE, (1u << 24) - 1, &code));
	assert_non_null(set(WEIR_H2_MAX_FRAME_SIZE, 1u << 24, &code));
	assert_non_null(set(WEIR_H2_MAX_FRAME_SIZE, 16383, &code));
	assert_int_equal(code, WEIR_H2_PROTOCOL_ERROR);
	assert_null(set(WEIR_H2_HEADER_TABLE_SIZE, UINT32_MAX, &code));
	assert_null(set(0xffff, UINT32_MAX, &code));
}

/* Of several values the last counts, and what is not named stays. */
static void settings_are_read(void **state)
{
	const uint8_t payload[] = {0, 4, 0, 0, 0, 9, 0, 1, 0, 0, 0, 0, 0, 4, 0, 0, 1, 0};
	weir_h2_settings settings = {.window = 1, .streams = 77};
	weir_h2_code code;
	weir_hpack_encoder encoder;
	weir_hpack_encoder_init(&encoder);
	assert_null(weir_h2_settings_read(payload, sizeof(payload), &encoder, &settings, &code));
	assert_int_equal(settings.window, 256);
	assert_int_equal(settings.streams, 77);
	assert_true(encoder.resized);
	weir_hpack_encoder_fini(&encoder);
}

static const char *strip(uint8_t flags, const char *bytes, size_t length, const char **ret,
			 size_t *ret_length)
{
	weir_h2_frame frame = {(uint32_t)length, WEIR_H2_HEADERS, flags, 3};
	const uint8_t *at = (const uint8_t *)bytes;
	const char *why = weir_h2_frame_strip(&frame, &at, &length);
	*ret = (const char *)at;
	*ret_length = length;
	return why;
}

static void padding_and_priority_go(void **state)
{
	const char *at;
	size_t length;
	assert_null(strip(0, "abc", 3, &at, &length));
	assert_memory_equal(at, "abc", length);
	assert_null(strip(WEIR_H2_PADDED, "\2abc..", 6, &at, &length));
	assert_int_equal(length, 3);
	assert_memory_equal(at, "abc", 3);
	assert_null(strip(WEIR_H2_PADDED | WEIR_H2_HAS_PRIORITY, "\1\0\0\0\1\x10z.", 8, &at, &length));
	assert_int_equal(length, 1);
	assert_memory_equal(at, "z", 1);
	/* Nothing but padding is a block, too. */
	assert_null(strip(WEIR_H2_PADDED, "\2..", 3, &at, &length));
	assert_int_equal(length, 0);
	assert_non_null(strip(WEIR_H2_PADDED, "\3..", 3, &at, &length));
	assert_non_null(strip(WEIR_H2_PADDED, "", 0, &at, &length));
	assert_non_null(strip(WEIR_H2_HAS_PRIORITY, "\0\0\0\1", 4, &at, &length));
	/* It depends on itself. */
	assert_non_null(strip(WEIR_H2_HAS_PRIORITY, "\x80\0\0\3\1", 5, &at, &length));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads_come_back),         cmocka_unit_test(heads_are_judged),
		cmocka_unit_test(settings_are_judged),     cmocka_unit_test(settings_are_read),
		cmocka_unit_test(padding_and_priority_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
