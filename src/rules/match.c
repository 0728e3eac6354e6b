/* SPDX-License-Identifier: Apache-2.0 */
/* Compares requests with rules. Nothing here fails, allocates or keeps state. */
#include "rules/match.h"

#include <netinet/in.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "rules/match_priv.h"

static bool same(weir_span a, const char *text, size_t length)
{
	return a.length == length && memcmp(a.at, text, length) == 0;
}

static bool begins(weir_span a, const char *text, size_t length)
{
	return a.length >= length && memcmp(a.at, text, length) == 0;
}

static bool ends(weir_span a, const char *text, size_t length)
{
	return a.length >= length && memcmp(a.at + a.length - length, text, length) == 0;
}

static bool has(weir_span a, const char *text, size_t length)
{
	return memmem(a.at, a.length, text, length) != NULL;
}

/* ---- hosts ---- */

weir_span weir_match_bare_host(weir_span host)
{
	const char *end = NULL;
	if (host.length == 0)
		return host;
	if (host.at[0] == '[') {
		end = memchr(host.at, ']', host.length);
		end = end != NULL ? end + 1 : NULL;
	} else {
		end = memchr(host.at, ':', host.length);
	}
	if (end != NULL)
		host.length = (size_t)(end - host.at);
	if (host.length > 0 && host.at[host.length - 1] == '.')
		host.length--;
	return host;
}

/* Whether the host ends with these bytes, ignoring case. */
static bool host_ends(weir_span host, const char *lower, size_t length)
{
	if (host.length < length)
		return false;
	const char *at = host.at + host.length - length;
	if (memcmp(at, lower, length) == 0)
		return true;
	for (size_t i = 0; i < length; i++)
		if (weir_match_lower(at[i]) != lower[i])
			return false;
	return true;
}

static bool host_matches(const weir_match_entry *entry, const char *text, weir_span host)
{
	host = weir_match_bare_host(host);
	if (entry->kind == WEIR_MATCH_HOST_ANY)
		return host.length > 0;
	if (entry->kind == WEIR_MATCH_HOST_IS && host.length != entry->length)
		return false;
	if (entry->kind == WEIR_MATCH_HOST_ENDS && host.length <= entry->length)
		return false;
	return host_ends(host, text, entry->length);
}

/* ---- fields and cookies ---- */

static bool value_matches(const weir_match_entry *entry, const char *text, weir_span value)
{
	switch (entry->kind) {
	case WEIR_MATCH_HEADER_IS:
	case WEIR_MATCH_COOKIE_IS:
		return same(value, text, entry->length);
	case WEIR_MATCH_HEADER_HAS:
		return has(value, text, entry->length);
	default:
		return true;
	}
}

/*
 * All fields of the name count. One that is there, or has a part, is enough. "=" decides about the value: all
 * have to be equal. A browser may well send a cookie twice, from two folders; then none of them matches.
 */
static bool field_matches(const weir_match_entry *entry, const char *text, const weir_match_input *input)
{
	weir_span name = {text, entry->name_length}, value;
	bool cookie = entry->kind == WEIR_MATCH_COOKIE_THERE || entry->kind == WEIR_MATCH_COOKIE_IS;
	bool by_value = entry->kind == WEIR_MATCH_COOKIE_IS || entry->kind == WEIR_MATCH_HEADER_IS;
	weir_span (*look)(const void *request, weir_span name, uint64_t *cursor) =
		cookie ? input->cookie : input->header;
	size_t count = 0, matching = 0;
	uint64_t cursor = 0;
	text += entry->name_length;
	while (look != NULL && (value = look(input->request, name, &cursor)).at != NULL) {
		matching += value_matches(entry, text, value);
		count++;
	}
	if (!by_value)
		return matching > 0;
	if (matching > 0 && matching < count && !cookie && input->ambiguous != NULL)
		*input->ambiguous = true;
	return count > 0 && matching == count;
}

/*
 * A client that sends several of the name gets none of them checked: it could make us check hundreds. A cookie
 * that two services set has two names.
 */
static bool signed_matches(const weir_matcher *matcher, const weir_match_entry *entry, const char *text,
			   const weir_match_input *input)
{
	weir_span name = {text, entry->name_length}, cookie = {0}, value;
	uint64_t cursor = 0;
	if (input->cookie == NULL || (cookie = input->cookie(input->request, name, &cursor)).at == NULL ||
	    input->cookie(input->request, name, &cursor).at != NULL)
		return false;
	text += entry->name_length;
	int64_t now_s = input->wall_s != 0 ? input->wall_s : (int64_t)time(NULL);
	const weir_signed_keys *keys = &matcher->keys[(uint8_t)text[0]];
	return weir_signed_check(keys, name, cookie, now_s, &value) &&
	       (entry->length == 1 || same(value, text + 1, entry->length - 1u));
}

/* ---- clients ---- */

static bool client_address(const struct sockaddr *client, weir_match_address *ret_address)
{
	if (client == NULL)
		return false;
	if (client->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)client;
		ret_address->high = 0;
		ret_address->low = UINT64_C(0xffff) << 32 | ntohl(v4->sin_addr.s_addr);
		ret_address->v4 = true;
		return true;
	}
	if (client->sa_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)client;
		*ret_address = weir_match_address_of(v6->sin6_addr.s6_addr);
		return true;
	}
	return false;
}

static bool is_in(const weir_match_net *net, const struct sockaddr *client)
{
	weir_match_address address;
	if (!client_address(client, &address) || address.v4 != net->address.v4)
		return false;
	return (address.high & net->mask.high) == net->address.high &&
	       (address.low & net->mask.low) == net->address.low;
}

/* ---- certificates: "CN=x,O=y"; a character after a backslash separates nothing ---- */

static size_t attribute_length(weir_span subject)
{
	size_t at = 0;
	while (at < subject.length && subject.at[at] != ',' && subject.at[at] != '+')
		at += subject.at[at] == '\\' && at + 1 < subject.length ? 2 : 1;
	return at;
}

static bool has_attribute(weir_span subject, const char *text, size_t length)
{
	while (subject.length > 0) {
		size_t part = attribute_length(subject);
		if (same((weir_span){subject.at, part}, text, length))
			return true;
		size_t used = part < subject.length ? part + 1 : part;
		subject.at += used;
		subject.length -= used;
		while (subject.length > 0 && subject.at[0] == ' ') {
			subject.at++;
			subject.length--;
		}
	}
	return false;
}

/* ---- rules ---- */

/* Separate, so that comparing a path does not save registers for it. */
static __attribute__((noinline)) bool
other_matches(const weir_matcher *matcher, const weir_match_entry *entry, const weir_match_input *input)
{
	const char *text = matcher->bytes + entry->at;
	switch ((weir_match_kind)entry->kind) {
	case WEIR_MATCH_PATH_ENDS:
		return ends(input->path, text, entry->length);
	case WEIR_MATCH_HOST_IS:
	case WEIR_MATCH_HOST_ENDS:
	case WEIR_MATCH_HOST_ANY:
		return host_matches(entry, text, input->host);
	case WEIR_MATCH_METHOD_AMONG:
		return (entry->length >> input->method & 1) != 0;
	case WEIR_MATCH_METHOD_IS:
		return same(input->method_text, text, entry->length);
	case WEIR_MATCH_HEADER_THERE:
	case WEIR_MATCH_HEADER_IS:
	case WEIR_MATCH_HEADER_HAS:
	case WEIR_MATCH_COOKIE_THERE:
	case WEIR_MATCH_COOKIE_IS:
		return field_matches(entry, text, input);
	case WEIR_MATCH_COOKIE_SIGNED:
		return signed_matches(matcher, entry, text, input);
	case WEIR_MATCH_FROM:
		return is_in(&matcher->nets[entry->length], input->client);
	case WEIR_MATCH_FROM_LOCAL:
		return input->client != NULL && input->client->sa_family == AF_UNIX;
	case WEIR_MATCH_CERTIFICATE_THERE:
		return input->certificate.length > 0;
	case WEIR_MATCH_CERTIFICATE_HAS:
		return has_attribute(input->certificate, text, entry->length);
	case WEIR_MATCH_SECURE:
		return input->secure;
	case WEIR_MATCH_PLAIN:
		return !input->secure;
	default:
		return false;
	}
}

/* Most rules are about the beginning of the path. */
static inline bool entry_matches(const weir_matcher *matcher, const weir_match_entry *entry,
				 const weir_match_input *input)
{
	if (entry->kind == WEIR_MATCH_PATH_BEGINS)
		return begins(input->path, matcher->bytes + entry->at, entry->length);
	if (entry->kind == WEIR_MATCH_PATH_IS)
		return same(input->path, matcher->bytes + entry->at, entry->length);
	return other_matches(matcher, entry, input);
}

bool weir_matcher_matches(const weir_matcher *matcher, const weir_match_input *input)
{
	const weir_match_entry *entry = matcher->entries, *end = entry + matcher->count;
	while (entry < end) {
		bool matches = entry_matches(matcher, entry, input);
		for (; !entry->last; entry++)
			matches = matches || entry_matches(matcher, entry + 1, input);
		if (matches == entry->negate)
			return false;
		entry++;
	}
	return true;
}

bool weir_matcher_asks_method(const weir_matcher *matcher)
{
	for (uint32_t i = 0; i < matcher->count; i++)
		if (matcher->entries[i].kind == WEIR_MATCH_METHOD_AMONG ||
		    matcher->entries[i].kind == WEIR_MATCH_METHOD_IS)
			return true;
	return false;
}

void weir_matcher_free(weir_matcher *matcher)
{
	if (matcher == NULL)
		return;
	if (matcher->keys != NULL)
		explicit_bzero(matcher->keys, matcher->key_count * sizeof(*matcher->keys));
	weir_mem_free(matcher->keys);
	weir_mem_free(matcher);
}
