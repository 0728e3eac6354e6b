/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_RULES_MATCH_H
#define WEIR_RULES_MATCH_H

/*
 * Rules on requests ("path /api/\*", "method POST", ...; weir/http.h lists all of them), compiled from
 * text once and then only compared.
 *
 * Cost: a rule takes a few comparisons; a list stops at the first one that does not match. Paths are
 * compared in normalised form (percent-decoded, dot segments resolved), so that "/%61pi" and "/x/../api"
 * do not get around a rule.
 *
 * Threads: immutable once made; any.
 */

#include <weir/http.h>

/* What rules look at: an HTTP request, or a test's substitute for one. */
typedef struct weir_match_input {
	weir_span path; /* normalised */
	weir_span host, method_text;
	weir_method method;
	bool secure;
	const struct sockaddr *client;
	weir_span certificate;
	/*
	 * The next field or cookie of the name; at is NULL if there are no more. *cursor is 0 at first, and
	 * theirs from then on, so that all of them are found in one pass.
	 */
	weir_span (*header)(const void *request, weir_span name, uint64_t *cursor);
	weir_span (*cookie)(const void *request, weir_span name, uint64_t *cursor);
	const void *request;
	int64_t wall_s; /* seconds since 1970, for what expires; 0: the clock is read if that is needed */
	/*
	 * Set if a field whose value decides comes several times with different values: servers differ about
	 * which one counts, so nobody may choose. NULL: it does not matter.
	 */
	bool *ambiguous;
} weir_match_input;

typedef struct weir_matcher weir_matcher;

/*
 * rules ends with NULL; an empty list matches everything. -EINVAL with weir_error: which rule, what is
 * wrong, what is accepted.
 */
int weir_matcher_new(const char *const *rules, weir_matcher **ret_matcher);
/* The rule "from A B ..." of these addresses and networks, ended by NULL, of which there is one at least. */
int weir_matcher_from(const char *const *addresses, weir_matcher **ret_matcher);
void weir_matcher_free(weir_matcher *matcher);
bool weir_matcher_matches(const weir_matcher *matcher, const weir_match_input *input);
/* Whether one of its rules is about the method. */
bool weir_matcher_asks_method(const weir_matcher *matcher);

/*
 * ---- quotas: a token bucket for each key, of which a bounded number is remembered ----
 *
 * A key with a full bucket need not be remembered. There is room for `keys` keys that are in debt at
 * once, 32 bytes each, all allocated when the quota is made. If there are more, the key whose bucket
 * would be full first makes room, and the newcomer takes over its debt: no key can get more than its
 * quota by being forgotten, however many others there are.
 */

typedef struct weir_quota weir_quota;

#define WEIR_QUOTA_KEYS_MAX (1u << 24)

typedef struct weir_quota_options {
	const char *name;
	double rate_per_s, burst; /* burst 0: the rate, at least 1 */
	uint32_t keys;            /* 0: 65,536 */
} weir_quota_options;

int weir_quota_new(const weir_quota_options *options, weir_quota **ret_quota);
/* Adds an owner; the quota is freed when each of them has freed it. Any thread. */
weir_quota *weir_quota_ref(weir_quota *quota);
void weir_quota_free(weir_quota *quota);
/* Whether a quota made with these options would have the same rate, burst and room. */
bool weir_quota_is(const weir_quota *quota, const weir_quota_options *options);
/*
 * Whether the key may have one more; if not, when it may. Any thread: shards with a lock each, held for
 * nanoseconds.
 */
bool weir_quota_take(weir_quota *quota, const void *key, size_t key_length, uint64_t now_ns,
		     uint64_t *ret_retry_after_ns);
/*
 * How many times a newcomer found only places of keys in debt, and began with less than its burst. A
 * large number means that `keys` is too small. Any thread.
 */
uint64_t weir_quota_crowded(weir_quota *quota);
/*
 * The key of a client: an IPv4 address (also if it is written as an IPv6 one), or the first 64 bits of an
 * IPv6 address, because whoever has one has all of these. Returns its length; 0: it has no address, so
 * all such clients share a key.
 */
size_t weir_quota_client_key(const struct sockaddr *client, uint8_t ret_key[static 8]);

#endif
