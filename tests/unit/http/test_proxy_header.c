/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "http/proxy_header.h"

/* In memory of exactly its size, so that ASan sees a read past the end. */
static weir_parse parse(weir_proxy_header *header, const void *bytes, size_t length)
{
	char *copy = malloc(length + (length == 0));
	memcpy(copy, bytes, length);
	weir_parse result = weir_proxy_header_parse(header, copy, length);
	free(copy);
	return result;
}

static const char *client_text(const weir_proxy_header *header)
{
	static char text[80];
	char address[INET6_ADDRSTRLEN];
	const struct sockaddr_in *four = (const void *)&header->client;
	const struct sockaddr_in6 *six = (const void *)&header->client;
	if (header->local)
		return "local";
	if (header->client.ss_family == AF_INET) {
		inet_ntop(AF_INET, &four->sin_addr, address, sizeof(address));
		snprintf(text, sizeof(text), "%s %u", address, ntohs(four->sin_port));
	} else {
		assert_int_equal(header->client.ss_family, AF_INET6);
		inet_ntop(AF_INET6, &six->sin6_addr, address, sizeof(address));
		snprintf(text, sizeof(text), "%s %u", address, ntohs(six->sin6_port));
	}
	return text;
}

/* Every shorter part asks for more, whatever follows does not matter. */
static void check_good(const void *bytes, size_t length, const char *client)
{
	char longer[5000];
	for (size_t part = 0; part < length; part++) {
		weir_proxy_header untouched = {.length = 12345};
		assert_int_equal(parse(&untouched, bytes, part), WEIR_PARSE_MORE);
		assert_int_equal(untouched.length, 12345);
	}
	memcpy(longer, bytes, length);
	memcpy(longer + length, "\x16\x03\x01GET / \r\n", 12);
	for (size_t more = 0; more < 12; more += 11) {
		weir_proxy_header header;
		assert_int_equal(parse(&header, longer, length + more), WEIR_PARSE_DONE);
		assert_int_equal(header.length, length);
		assert_null(header.error);
		assert_string_equal(client_text(&header), client);
	}
}

/* It is refused once the first `certain` bytes are there, and not before. */
static void check_bad(const void *bytes, size_t length, size_t certain)
{
	for (size_t part = 0; part <= length; part++) {
		weir_proxy_header header;
		weir_parse result = parse(&header, bytes, part);
		if ((result == WEIR_PARSE_BAD) != (part >= certain))
			fail_msg("\"%.*s\": %d after %zu bytes", (int)length, (const char *)bytes, result,
				 part);
		if (result == WEIR_PARSE_BAD) {
			assert_non_null(header.error);
			assert_int_equal(header.length, 0);
			assert_false(header.local);
		}
	}
}

/* ---- version 1 ---- */

static void reads_lines(void **state)
{
	static const struct {
		const char *line, *client;
	} rows[] = {
		{"PROXY TCP4 192.0.2.1 192.0.2.2 4711 443\r\n", "192.0.2.1 4711"},
		{"PROXY TCP4 255.255.255.255 0.0.0.0 65535 0\r\n", "255.255.255.255 65535"},
		{"PROXY TCP4 1.2.3.4 1.2.3.4 0 1\r\n", "1.2.3.4 0"},
		{"PROXY TCP6 2001:db8::1 ::1 80 8080\r\n", "2001:db8::1 80"},
		{"PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
		 "65535 65535\r\n",
		 "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535"},
		{"PROXY TCP6 ::ffff:192.0.2.1 ::1 80 8080\r\n", "::ffff:192.0.2.1 80"},
		{"PROXY UNKNOWN\r\n", "local"},
		{"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", "local"},
		{"PROXY UNKNOWN  whatever\t\r\n", "local"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		check_good(rows[i].line, strlen(rows[i].line), rows[i].client);
}

static void refuses_other_lines(void **state)
{
	/* certain 0: when all of it is there. */
	static const struct {
		const char *line;
		size_t certain;
	} rows[] = {
		{"GET / HTTP/1.1\r\n", 1},
		{"PROXX", 5},
		{"proxy TCP4 1.2.3.4 1.2.3.4 1 1\r\n", 1},
		{" PROXY TCP4 1.2.3.4 1.2.3.4 1 1\r\n", 1},
		{"PROXY\r\n", 6},
		{"PROXY\tTCP4", 6},
		{"PROXY \r\n", 0},
		{"PROXY  TCP4 1.2.3.4 1.2.3.4 1 1\r\n", 0},
		{"PROXY TCP5 1.2.3.4 1.2.3.4 1 1\r\n", 0},
		{"PROXY tcp4 1.2.3.4 1.2.3.4 1 1\r\n", 0},
		{"PROXY UDP4 1.2.3.4 1.2.3.4 1 1\r\n", 0},
		{"PROXY UNKNOWNS\r\n", 0},
		{"PROXY TCP4\r\n", 0},
		{"PROXY TCP4 \r\n", 0},
		{"PROXY TCP4 1.2.3.4\r\n", 0},
		{"PROXY TCP4 1.2.3.4 1.2.3.4\r\n", 0},
		{"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n", 0},
		{"PROXY TCP4 1.2.3.4 1.2.3.4 1 \r\n", 0},
		{"PROXY TCP4 1.2.3.4 1.2.3.4 1 1 \r\n", 0},
		{"PROXY TCP4 1.2.3.4 1.2.3.4 1 1 1\r\n", 0},
		{"PROXY TCP4 1.2.3.4  1.2.3.4 1 1\r\n", 0},
		{"PROXY TCP4 1.2.3 1.2.3.4 1 1\r\n", 0},
		{"PROXY TCP4 1.2.3.256 1.2.3.4 1 1\r\n", 0},
		{"PROXY TCP4 01.2.3.4 1.2.3.4 1 1\r\n", 0},
		{"PROXY TCP4 1.2.3.4 1.2.3.x 1 1\r\n", 0},
		{"PROXY TCP4 ::1 ::1 1 1\r\n", 0},
		{"PROXY TCP6 1.2.3.4 1.2.3.4 1 1\r\n", 0},
		{"PROXY TCP6 ::1 1.2.3.4 1 1\r\n", 0},
		{"PROXY TCP6 ::1%lo ::1 1 1\r\n", 0},
		{"PROXY TCP4 1.2.3.4 1.2.3.4 65536 1\r\n", 0},
		{"PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n", 0},
		{"PROXY TCP4 1.2.3.4 1.2.3.4 4294967297 1\r\n", 0},
		{"PROXY TCP4 1.2.3.4 1.2.3.4 01 1\r\n", 0},
		{"PROXY TCP4 1.2.3.4 1.2.3.4 +1 1\r\n", 0},
		{"PROXY TCP4 1.2.3.4 1.2.3.4 -1 1\r\n", 0},
		{"PROXY TCP4 1.2.3.4 1.2.3.4 1 0x1\r\n", 0},
		{"PROXY TCP4 1.2.3.4 1.2.3.4 1 1\n", 0},
		{"PROXY TCP4 1.2.3.4\r1.2.3.4 1 1\r\n", 20},
		{"PROXY TCP4 1.2.3.4\n1.2.3.4 1 1\r\n", 19},
		{"PROXY UNKNOWN a\rb\r\n", 17},
		{"PROXY UNKNOWN 3456789.123456789.123456789.123456789.123456789.123456789.123456789."
		 "123456789.123456789.123456\r\n",
		 107},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		size_t length = strlen(rows[i].line);
		check_bad(rows[i].line, length, rows[i].certain != 0 ? rows[i].certain : length);
	}
	static const char nul[] = "PROXY TCP4 1.2.3.4\0 1.2.3.4 1 1\r\n";
	check_bad(nul, sizeof(nul) - 1, sizeof(nul) - 1);
}

static void takes_a_line_of_107_bytes_and_no_more(void **state)
{
	char line[200];
	snprintf(line, sizeof(line), "PROXY UNKNOWN %091d\r\n", 0);
	check_good(line, 107, "local");
	snprintf(line, sizeof(line), "PROXY UNKNOWN %092d\r\n", 0);
	check_bad(line, 108, 107);
}

/* ---- version 2 ---- */

typedef struct v2 {
	uint8_t bytes[6000];
	size_t length;
} v2;

static void add(v2 *h, const void *bytes, size_t length)
{
	memcpy(h->bytes + h->length, bytes, length);
	h->length += length;
}

static void add_extra(v2 *h, uint8_t type, const void *value, size_t length)
{
	uint8_t head[3] = {type, (uint8_t)(length >> 8), (uint8_t)length};
	add(h, head, 3);
	add(h, value, length);
}

static void set_length(v2 *h)
{
	h->bytes[14] = (uint8_t)((h->length - 16) >> 8);
	h->bytes[15] = (uint8_t)(h->length - 16);
}

static v2 begin(uint8_t command, uint8_t family, size_t address_bytes)
{
	static const uint8_t addresses[216] = {192,  0, 2,   1,  192, 0,  2,  2,           0x12,
					       0x34, 1, 187, 12, 13,  14, 15, [32] = 0x56, 0x78};
	v2 h = {.length = 0};
	add(&h, "\r\n\r\n\0\r\nQUIT\n", 12);
	add(&h, (uint8_t[]){command, family, 0, 0}, 4);
	add(&h, addresses, address_bytes);
	set_length(&h);
	return h;
}

/* By its definition, bit by bit. */
static uint32_t crc32c(const uint8_t *bytes, size_t length)
{
	uint32_t crc = UINT32_MAX;
	for (size_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

/* Gives the header its checksum, followed by another field. */
static size_t add_checksum(v2 *h)
{
	add_extra(h, 3, "\0\0\0", 4);
	size_t at = h->length - 4;
	add_extra(h, 2, "after", 5);
	set_length(h);
	uint32_t crc = htonl(crc32c(h->bytes, h->length));
	memcpy(h->bytes + at, &crc, 4);
	return at;
}

static void the_known_value_of_the_checksum(void **state)
{
	assert_int_equal(crc32c((const uint8_t *)"123456789", 9), 0xe3069283);
}

static void reads_binary_headers(void **state)
{
	static const struct {
		uint8_t command, family;
		size_t address_bytes;
		const char *client;
	} rows[] = {
		{0x21, 0x11, 12, "192.0.2.1 4660"},
		{0x21, 0x21, 36, "c000:201:c000:202:1234:1bb:c0d:e0f 22136"},
		{0x21, 0x31, 216, "local"},
		{0x21, 0x00, 0, "local"},
		{0x20, 0x00, 0, "local"},
		{0x20, 0x11, 12, "local"},
		{0x20, 0xff, 7, "local"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		v2 h = begin(rows[i].command, rows[i].family, rows[i].address_bytes);
		check_good(h.bytes, h.length, rows[i].client);
		add_extra(&h, 0x30, "name", 4);
		add_extra(&h, 4, "", 0);
		set_length(&h);
		check_good(h.bytes, h.length, rows[i].client);
		add_checksum(&h);
		check_good(h.bytes, h.length, rows[i].client);
	}
}

static void takes_4096_bytes_and_no_more(void **state)
{
	static const char filling[4096];
	v2 h = begin(0x21, 0x11, 12);
	add_extra(&h, 4, filling, 4096 - 12 - 3);
	set_length(&h);
	assert_int_equal(h.length, 16 + 4096);
	check_good(h.bytes, h.length, "192.0.2.1 4660");
	h.length++;
	set_length(&h);
	check_bad(h.bytes, 100, 16);
	h.bytes[12] = 0x20;
	check_bad(h.bytes, 100, 16);
}

static void refuses_other_binary_headers(void **state)
{
	v2 h = begin(0x21, 0x11, 12);
	for (size_t i = 0; i < 12; i++) {
		h.bytes[i] ^= 1;
		check_bad(h.bytes, h.length, i + 1);
		h.bytes[i] ^= 1;
	}
	static const uint8_t commands[] = {0x00, 0x01, 0x10, 0x11, 0x22, 0x2f, 0x31, 0xff};
	for (size_t i = 0; i < sizeof(commands); i++) {
		h = begin(commands[i], 0x11, 12);
		check_bad(h.bytes, h.length, 13);
	}
	static const uint8_t families[] = {0x01, 0x02, 0x10, 0x12, 0x13, 0x20, 0x22, 0x30, 0x32, 0x41, 0xff};
	for (size_t i = 0; i < sizeof(families); i++) {
		h = begin(0x21, families[i], 216);
		check_bad(h.bytes, h.length, 14);
	}
	static const uint8_t known[] = {0x11, 0x21, 0x31};
	static const size_t lengths[] = {12, 36, 216};
	for (size_t i = 0; i < 3; i++) {
		h = begin(0x21, known[i], lengths[i] - 1);
		check_bad(h.bytes, h.length, 16);
	}
}

static void refuses_wrong_extras(void **state)
{
	v2 h = begin(0x21, 0x11, 12), whole;
	for (size_t bytes = 1; bytes < 3; bytes++) {
		whole = h;
		add(&whole, "\4\0\0", bytes);
		set_length(&whole);
		check_bad(whole.bytes, whole.length, whole.length);
	}
	whole = h;
	add(&whole, "\4\0\5abcd", 7);
	set_length(&whole);
	check_bad(whole.bytes, whole.length, whole.length);
	whole = begin(0x21, 0, 0);
	add(&whole, "\4\0\5abcd", 7);
	set_length(&whole);
	check_bad(whole.bytes, whole.length, whole.length);
	for (size_t bytes = 3; bytes < 6; bytes += 2) {
		whole = h;
		add_extra(&whole, 3, "\0\0\0\0", bytes);
		set_length(&whole);
		check_bad(whole.bytes, whole.length, whole.length);
	}
}

/* One changed bit anywhere behind the lengths is seen by the checksum; two checksums are refused even if one is right. */
static void refuses_a_wrong_checksum(void **state)
{
	v2 h = begin(0x21, 0x11, 12);
	size_t at = add_checksum(&h);
	for (size_t i = 0; i < 8 * h.length; i++) {
		weir_proxy_header header;
		if (i / 8 < 16)
			continue;
		h.bytes[i / 8] ^= (uint8_t)(1 << i % 8);
		weir_parse result = parse(&header, h.bytes, h.length);
		bool framing = i / 8 >= at - 3 && (i / 8 < at || i / 8 >= h.length - 8);
		if (!framing)
			assert_int_equal(result, WEIR_PARSE_BAD);
		h.bytes[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	size_t first = h.length;
	add_checksum(&h);
	assert_true(h.length > first);
	check_bad(h.bytes, h.length, h.length);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_lines),
		cmocka_unit_test(refuses_other_lines),
		cmocka_unit_test(takes_a_line_of_107_bytes_and_no_more),
		cmocka_unit_test(the_known_value_of_the_checksum),
		cmocka_unit_test(reads_binary_headers),
		cmocka_unit_test(takes_4096_bytes_and_no_more),
		cmocka_unit_test(refuses_other_binary_headers),
		cmocka_unit_test(refuses_wrong_extras),
		cmocka_unit_test(refuses_a_wrong_checksum),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
