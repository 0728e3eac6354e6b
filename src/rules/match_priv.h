/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_RULES_MATCH_PRIV_H
#define WEIR_RULES_MATCH_PRIV_H

/*
 * Rules as they are compared: what match_parse.c makes and match.c reads.
 *
 * An entry is one comparison. The alternatives of a rule ("method GET HEAD" has one, "path /a /b" two) stand one after the other; the last of them is
 * marked. Rules must match one by one, in the order they were written. Texts stand in `bytes` in the form they are compared in: paths decoded,
 * hosts in lower case and without a dot at the end.
 */

#include "rules/match.h"

typedef enum weir_match_kind {
	WEIR_MATCH_PATH_IS,
	WEIR_MATCH_PATH_BEGINS,
	WEIR_MATCH_PATH_ENDS,
	WEIR_MATCH_HOST_IS,
	WEIR_MATCH_HOST_ENDS, /* with the text, before which there is more */
	WEIR_MATCH_HOST_ANY,
	WEIR_MATCH_METHOD_AMONG, /* length: a bit for each weir_method */
	WEIR_MATCH_METHOD_IS,
	WEIR_MATCH_HEADER_THERE,
	WEIR_MATCH_HEADER_IS,
	WEIR_MATCH_HEADER_HAS,
	WEIR_MATCH_COOKIE_THERE,
	WEIR_MATCH_COOKIE_IS,
	WEIR_MATCH_FROM, /* length: which net; there are fewer, as texts are bounded */
	WEIR_MATCH_FROM_LOCAL,
	WEIR_MATCH_CERTIFICATE_THERE,
	WEIR_MATCH_CERTIFICATE_HAS,
	WEIR_MATCH_SECURE,
	WEIR_MATCH_PLAIN,
} weir_match_kind;

typedef struct weir_match_entry {
	uint8_t kind;
	bool negate;          /* of all alternatives of the rule, or of none */
	bool last;            /* alternative of its rule */
	uint16_t name_length; /* of the name that stands before the text */
	uint16_t length;      /* of the text */
	uint32_t at;          /* in bytes */
} weir_match_entry;

/*
 * An address as two numbers, the way its bytes are written; an IPv4 address is ::ffff:a.b.c.d. A net of IPv6 has no IPv4 clients in it, not
 * even "::/0", unless it is within ::ffff:0:0/96.
 */
typedef struct weir_match_address {
	uint64_t high, low;
	bool v4;
} weir_match_address;

typedef struct weir_match_net {
	weir_match_address address, mask;
} weir_match_net;

struct weir_matcher {
	const weir_match_entry *entries; /* these three are in the same piece of memory */
	const weir_match_net *nets;
	const char *bytes;
	uint32_t count;
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

static inline char weir_match_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

#endif
