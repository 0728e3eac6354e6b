/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both versions of the PROXY header. Anything that deviates from the specification is BAD as soon as that is
 * certain, because the address decides who the client is.
 */
#include "http/proxy_header.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static weir_parse bad(weir_proxy_header *header, const char *error)
{
	*header = (weir_proxy_header){.error = error};
	return WEIR_PARSE_BAD;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

static uint32_t get16(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 8 | bytes[1];
}

static uint32_t get32(const uint8_t *bytes)
{
	return get16(bytes) << 16 | get16(bytes + 2);
}

/* ---- version 1: "PROXY TCP4 192.0.2.1 192.0.2.2 4711 443\r\n" ---- */

#define V1_BYTES_MAX 107
#define V1_PREFIX    "PROXY "

/* The next word, ended by one space or the end of the line. A word is not empty and fits. */
static bool next_word(const char **at, const char *end, char *ret_word, size_t size)
{
	const char *space = memchr(*at, ' ', (size_t)(end - *at));
	size_t length = (size_t)((space != NULL ? space : end) - *at);
	if (length == 0 || length >= size || memchr(*at, '\0', length) != NULL)
		return false;
	memcpy(ret_word, *at, length);
	ret_word[length] = '\0';
	/* A space at the end of the line leaves an empty word, which the next call refuses. */
	*at = space != NULL ? space + 1 : NULL;
	return true;
}

static bool read_port(const char *word, in_port_t *ret_port)
{
	unsigned port = 0;
	if (word[0] == '0' && word[1] != '\0')
		return false;
	for (; *word >= '0' && *word <= '9' && port <= 65535; word++)
		port = port * 10 + (unsigned)(*word - '0');
	if (*word != '\0' || port > 65535)
		return false;
	*ret_port = htons((uint16_t)port);
	return true;
}

static bool read_address(const char *word, int family, struct sockaddr_storage *ret_address)
{
	struct sockaddr_in *four = (struct sockaddr_in *)(void *)ret_address;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)ret_address;
	ret_address->ss_family = (sa_family_t)family;
	return inet_pton(family, word,
			 family == AF_INET ? (void *)&four->sin_addr : (void *)&six->sin6_addr) == 1;
}

static in_port_t *port_of(struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET ? &((struct sockaddr_in *)(void *)address)->sin_port
					     : &((struct sockaddr_in6 *)(void *)address)->sin6_port;
}

/* The line between the prefix and CRLF. */
static weir_parse read_line(weir_proxy_header *header, const char *at, const char *end)
{
	char word[INET6_ADDRSTRLEN];
	struct sockaddr_storage other = {0};
	in_port_t port;
	if (!next_word(&at, end, word, sizeof(word)))
		return bad(header, "PROXY header: no protocol");
	if (strcmp(word, "UNKNOWN") == 0) {
		header->local = true;
		return WEIR_PARSE_DONE;
	}
	if (strcmp(word, "TCP4") != 0 && strcmp(word, "TCP6") != 0)
		return bad(header, "PROXY header: the protocol is not TCP4, TCP6 or UNKNOWN");
	int family = word[3] == '4' ? AF_INET : AF_INET6;
	if (at == NULL || !next_word(&at, end, word, sizeof(word)) ||
	    !read_address(word, family, &header->client))
		return bad(header, "PROXY header: the client's address is none");
	if (at == NULL || !next_word(&at, end, word, sizeof(word)) || !read_address(word, family, &other))
		return bad(header, "PROXY header: the server's address is none");
	if (at == NULL || !next_word(&at, end, word, sizeof(word)) ||
	    !read_port(word, port_of(&header->client)))
		return bad(header, "PROXY header: the client's port is none");
	if (at == NULL || !next_word(&at, end, word, sizeof(word)) || !read_port(word, &port) || at != NULL)
		return bad(header, "PROXY header: the server's port is none, or not the last");
	return WEIR_PARSE_DONE;
}

static weir_parse parse_v1(weir_proxy_header *header, const char *bytes, size_t length)
{
	size_t most = smaller(length, V1_BYTES_MAX);
	const char *cr = memchr(bytes, '\r', most);
	const char *lf = memchr(bytes, '\n', most);
	if (lf != NULL && (cr == NULL || lf != cr + 1))
		return bad(header, "PROXY header: LF without CR");
	if (lf == NULL && cr != NULL && cr + 1 < bytes + length)
		return bad(header, "PROXY header: CR without LF");
	if (lf == NULL)
		return length < V1_BYTES_MAX ? WEIR_PARSE_MORE
					     : bad(header, "PROXY header: the line is longer than 107 bytes");
	header->length = (size_t)(lf + 1 - bytes);
	return read_line(header, bytes + strlen(V1_PREFIX), cr);
}

/* ---- version 2 ---- */

#define V2_HEAD_BYTES 16
#define V2_REST_MAX   4096
#define V2_SIGNATURE  "\r\n\r\n\0\r\nQUIT\n"

enum { LOCAL = 0x20, PROXY = 0x21 };
enum { UNSPECIFIED = 0x00, TCP4 = 0x11, TCP6 = 0x21, UNIX_STREAM = 0x31 };
enum { TYPE_CRC32C = 0x03 };

static int addresses_length(uint8_t family)
{
	switch (family) {
	case UNSPECIFIED:
		return 0;
	case TCP4:
		return 12;
	case TCP6:
		return 36;
	case UNIX_STREAM:
		return 216;
	default:
		return -1;
	}
}

static uint32_t crc32c_add(uint32_t crc, const uint8_t *bytes, size_t length)
{
	/* Four bits at a time: these headers are short and rare. */
	static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
					   0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
					   0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
					   0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
	for (size_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return crc;
}

/* Covers the whole header, with the four bytes of the checksum itself as zeros. */
static bool checksum_is_right(const uint8_t *bytes, size_t length, size_t sum_at)
{
	static const uint8_t zero[4];
	uint32_t crc = crc32c_add(UINT32_MAX, bytes, sum_at);
	crc = crc32c_add(crc, zero, sizeof(zero));
	crc = ~crc32c_add(crc, bytes + sum_at + 4, length - sum_at - 4);
	return crc == get32(bytes + sum_at);
}

/* TLVs up to the end of the header. */
static weir_parse check_extras(weir_proxy_header *header, const uint8_t *bytes, size_t at)
{
	bool summed = false;
	while (at < header->length) {
		if (header->length - at < 3 || header->length - at - 3 < get16(bytes + at + 1))
			return bad(header, "PROXY header: an extra field is longer than the header");
		size_t value_length = get16(bytes + at + 1);
		if (bytes[at] == TYPE_CRC32C) {
			if (summed || value_length != 4)
				return bad(header, "PROXY header: more than one checksum, or not of 4 bytes");
			if (!checksum_is_right(bytes, header->length, at + 3))
				return bad(header, "PROXY header: wrong checksum");
			summed = true;
		}
		at += 3 + value_length;
	}
	return WEIR_PARSE_DONE;
}

static void read_client(weir_proxy_header *header, const uint8_t *addresses, uint8_t family)
{
	struct sockaddr_in *four = (struct sockaddr_in *)(void *)&header->client;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)&header->client;
	if (family == TCP4) {
		four->sin_family = AF_INET;
		memcpy(&four->sin_addr, addresses, 4);
		memcpy(&four->sin_port, addresses + 8, 2);
	} else if (family == TCP6) {
		six->sin6_family = AF_INET6;
		memcpy(&six->sin6_addr, addresses, 16);
		memcpy(&six->sin6_port, addresses + 32, 2);
	} else {
		header->local = true;
	}
}

/* Checks what is there of the first 16 bytes. */
static const char *v2_mistake(const uint8_t *bytes, size_t length)
{
	if (length > 12 && bytes[12] != LOCAL && bytes[12] != PROXY)
		return "PROXY header: neither version 2's LOCAL nor PROXY";
	bool local = length > 12 && bytes[12] == LOCAL;
	if (length > 13 && !local && addresses_length(bytes[13]) < 0)
		return "PROXY header: addresses of a kind that no stream has";
	if (length < V2_HEAD_BYTES)
		return NULL;
	if (get16(bytes + 14) > V2_REST_MAX)
		return "PROXY header: longer than 4096 bytes";
	if (!local && (int)get16(bytes + 14) < addresses_length(bytes[13]))
		return "PROXY header: too short for its addresses";
	return NULL;
}

static weir_parse parse_v2(weir_proxy_header *header, const uint8_t *bytes, size_t length)
{
	const char *mistake = v2_mistake(bytes, length);
	if (mistake != NULL)
		return bad(header, mistake);
	if (length < V2_HEAD_BYTES || length < V2_HEAD_BYTES + get16(bytes + 14))
		return WEIR_PARSE_MORE;
	header->length = V2_HEAD_BYTES + get16(bytes + 14);
	/* The balancer's own connection, such as a health check. The rest is to be ignored. */
	if (bytes[12] == LOCAL) {
		header->local = true;
		return WEIR_PARSE_DONE;
	}
	read_client(header, bytes + V2_HEAD_BYTES, bytes[13]);
	return check_extras(header, bytes, V2_HEAD_BYTES + (size_t)addresses_length(bytes[13]));
}

/* ---- which of them ---- */

weir_parse weir_proxy_header_parse(weir_proxy_header *ret_header, const char *bytes, size_t length)
{
	weir_proxy_header header = {0};
	weir_parse result;
	const size_t v1 = strlen(V1_PREFIX), v2 = sizeof(V2_SIGNATURE) - 1;
	if (length == 0)
		result = WEIR_PARSE_MORE;
	else if (memcmp(bytes, V1_PREFIX, smaller(length, v1)) == 0)
		result = length < v1 ? WEIR_PARSE_MORE : parse_v1(&header, bytes, length);
	else if (memcmp(bytes, V2_SIGNATURE, smaller(length, v2)) == 0)
		result = length < v2 ? WEIR_PARSE_MORE : parse_v2(&header, (const uint8_t *)bytes, length);
	else
		result = bad(&header, "PROXY header: there is none");
	if (result != WEIR_PARSE_MORE)
		*ret_header = header;
	return result;
}
