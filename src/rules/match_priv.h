/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_RULES_MATCH_PRIV_H
#define WEIR_RULES_MATCH_PRIV_H

/*
 * Compiled rules: made by match_parse.c, read by match.c.
 *
 * An entry is one comparison. The alternatives of a rule ("method GET HEAD" has one, "path /a /b" two)
 * are adjacent; the last of them is marked. All rules must match, in the order in which they were
 * written. Texts are in `bytes` in the form in which they are compared: paths decoded, hosts in lower
 * case and without a trailing dot.
 */

#include "rules/match.h"
#include "rules/signed.h"

typedef enum weir_match_kind {
	WEIR_MATCH_PATH_IS,
	WEIR_MATCH_PATH_BEGINS,
	WEIR_MATCH_PATH_ENDS,
	WEIR_MATCH_HOST_IS,
	WEIR_MATCH_HOST_ENDS, /* ends with the text, with something before it */
	WEIR_MATCH_HOST_ANY,
	WEIR_MATCH_METHOD_AMONG, /* length: one bit per weir_method */
	WEIR_MATCH_METHOD_IS,
	WEIR_MATCH_HEADER_THERE,
	WEIR_MATCH_HEADER_IS,
	WEIR_MATCH_HEADER_HAS,
	WEIR_MATCH_COOKIE_THERE,
	WEIR_MATCH_COOKIE_IS,
	/* the text: a byte with the index of the keys, then the value; none: any */
	WEIR_MATCH_COOKIE_SIGNED,
	WEIR_MATCH_FROM, /* length: index of the net; there are few, because texts are bounded */
	WEIR_MATCH_FROM_LOCAL,
	WEIR_MATCH_CERTIFICATE_THERE,
	WEIR_MATCH_CERTIFICATE_HAS,
	WEIR_MATCH_SECURE,
	WEIR_MATCH_PLAIN,
} weir_match_kind;

typedef struct weir_match_entry {
	uint8_t kind;
	bool negate;          /* for all alternatives of the rule, or for none */
	bool last;            /* the last alternative of its rule */
	uint16_t name_length; /* of the name before the text */
	uint16_t length;      /* of the text */
	uint32_t at;          /* offset in bytes */
} weir_match_entry;

/*
 * An address as two numbers, in the order of its bytes; an IPv4 address is ::ffff:a.b.c.d. An IPv6 net
 * contains no IPv4 clients, not even "::/0", unless it is within ::ffff:0:0/96.
 */
typedef struct weir_match_address {
	uint64_t high, low;
	bool v4;
} weir_match_address;

typedef struct weir_match_net {
	weir_match_address address, mask;
} weir_match_net;

struct weir_matcher {
	const weir_match_entry *entries; /* these three are in the same allocation */
	const weir_match_net *nets;
	const char *bytes;
	uint32_t count, key_count;
	weir_signed_keys *keys; /* of signed cookies; NULL: none */
};

/* The 16 bytes as numbers. */
static inline weir_match_address weir_match_address_of(const uint8_t bytes[static 16])
{
	weir_match_address address = {0};
	for (int i = 0; i < 8; i++) {
		address.high = address.high << 8 | bytes[i];
		address.low = address.low << 8 | bytes[i + 8];
	}
	address.v4 = address.high == 0 && address.low >> 32 == 0xffff;
	return address;
}

/* A host as rules compare it: without the port and a trailing dot. */
weir_span weir_match_bare_host(weir_span host);

static inline char weir_match_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

#endif
