/* SPDX-License-Identifier: Apache-2.0 */
/* Parses rules as people write them into a matcher. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "rules/match_read.h"

#define RULE_BYTES 4096

int weir_match_wrong(const weir_match_reader *r, const char *format, ...)
{
	char rule[64], sentence[256];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	weir_text_quote(rule, sizeof(rule), r->rule);
	return weir_error_set(-EINVAL, "rule '%s': %s", rule, sentence);
}

/* A part of the rule as text for an error message. */
const char *weir_match_shown(weir_span part, char text[static 64])
{
	char copy[64];
	size_t length = part.length < sizeof(copy) - 1 ? part.length : sizeof(copy) - 1;
	memcpy(copy, part.at, length);
	copy[length] = '\0';
	return weir_text_quote(text, 64, copy);
}

/* ---- rules ---- */

static const struct rule_kind {
	const char *name;
	int (*each)(weir_match_reader *r, weir_span word); /* called for each word; at least one */
	int (*all)(weir_match_reader *r);
} rule_kinds[] = {
	{"path", weir_match_read_path, NULL},     {"host", weir_match_read_host, NULL},
	{"method", weir_match_read_method, NULL}, {"header", NULL, weir_match_read_header},
	{"cookie", NULL, weir_match_read_cookie}, {"signed-cookie", NULL, weir_match_read_signed},
	{"from", weir_match_read_from, NULL},     {"certificate", NULL, weir_match_read_certificate},
	{"scheme", NULL, weir_match_read_scheme}, {"not", NULL, NULL},
};

enum { RULE_KINDS = sizeof(rule_kinds) / sizeof(*rule_kinds) };

static const char *rule_name_at(const void *list, size_t at)
{
	return at < RULE_KINDS ? rule_kinds[at].name : NULL;
}

static int no_such_rule(const weir_match_reader *r, weir_span word)
{
	char name[64];
	weir_match_shown(word, name);
	const char *near = weir_text_nearest(name, rule_name_at, NULL);
	if (near != NULL)
		return weir_match_wrong(r, "there is no '%s'; did you mean '%s'?", name, near);
	return weir_match_wrong(
		r,
		"there is no '%s'; rules begin with path, host, method, header, cookie, signed-cookie, from, "
		"certificate, scheme or not",
		name);
}

static int read_each(weir_match_reader *r, const struct rule_kind *kind)
{
	int error = 0;
	if (r->rest.length == 0)
		return weir_match_wrong(r, "after '%s' at least one word is expected", kind->name);
	while (error == 0 && r->rest.length > 0)
		error = kind->each(r, weir_match_word(&r->rest));
	return error;
}

static int read_kind(weir_match_reader *r)
{
	weir_span word = weir_match_word(&r->rest);
	for (size_t i = 0; i < RULE_KINDS && word.length > 0; i++) {
		const struct rule_kind *kind = &rule_kinds[i];
		if (!weir_match_word_is(word, kind->name))
			continue;
		if (kind->each != NULL)
			return read_each(r, kind);
		return kind->all != NULL ? kind->all(r) : weir_match_wrong(r, "one 'not' is enough");
	}
	return word.length == 0 ? weir_match_wrong(r, "a rule is expected, such as 'path /api/*'")
				: no_such_rule(r, word);
}

static int read_rule(weir_match_reader *r, const char *rule)
{
	size_t first = r->entry_count;
	r->rule = rule;
	r->rest = (weir_span){rule, strlen(rule)};
	weir_span rest = r->rest;
	bool negate = weir_match_word_is(weir_match_word(&rest), "not");
	if (negate)
		r->rest = rest;
	int error = read_kind(r);
	if (error != 0)
		return error;
	for (size_t i = first; i < r->entry_count; i++)
		r->entries[i].negate = negate;
	r->entries[r->entry_count - 1].last = true;
	return 0;
}

/* ---- lists of rules ---- */

static int measure(const char *const *rules, size_t *ret_bytes)
{
	size_t count = 0, bytes = 0;
	for (; rules != NULL && rules[count] != NULL; count++) {
		size_t length = strnlen(rules[count], RULE_BYTES + 1);
		if (length > RULE_BYTES)
			return weir_error_set(-EINVAL, "rule %zu is longer than %d bytes", count + 1,
					      RULE_BYTES);
		if (count == WEIR_RULES_MAX)
			return weir_error_set(-EINVAL, "there are more than %d rules", WEIR_RULES_MAX);
		bytes += length;
	}
	*ret_bytes = bytes;
	return 0;
}

/* The matcher and its three tables in one allocation, no larger than needed. */
static weir_matcher *pack(const weir_match_reader *r)
{
	size_t nets = sizeof(*r->nets) * r->net_count, entries = sizeof(*r->entries) * r->entry_count;
	char *memory = weir_mem_zalloc(sizeof(weir_matcher) + nets + entries + r->byte_count);
	if (memory == NULL)
		return NULL;
	weir_matcher *matcher = (weir_matcher *)(void *)memory;
	char *at = memory + sizeof(*matcher);
	if (r->entry_count > 0) {
		memcpy(at, r->nets, nets);
		memcpy(at + nets, r->entries, entries);
		memcpy(at + nets + entries, r->bytes, r->byte_count);
	}
	matcher->nets = (const weir_match_net *)(const void *)at;
	matcher->entries = (const weir_match_entry *)(const void *)(at + nets);
	matcher->bytes = at + nets + entries;
	matcher->count = (uint32_t)r->entry_count;
	if (r->key_count == 0)
		return matcher;
	matcher->key_count = r->key_count;
	matcher->keys = weir_mem_array(r->key_count, sizeof(*matcher->keys));
	if (matcher->keys == NULL) {
		weir_matcher_free(matcher);
		return NULL;
	}
	memcpy(matcher->keys, r->keys, r->key_count * sizeof(*matcher->keys));
	return matcher;
}

int weir_matcher_new(const char *const *rules, weir_matcher **ret_matcher)
{
	size_t bytes = 0;
	int error = measure(rules, &bytes);
	if (error != 0)
		return error;
	size_t most = bytes / 2 + 1;
	weir_match_reader r = {.entries = weir_mem_array(most, sizeof(*r.entries)),
			       .nets = weir_mem_array(most, sizeof(*r.nets)),
			       .bytes = weir_mem_zalloc(bytes + 1)};
	weir_matcher *matcher = NULL;
	if (r.entries == NULL || r.nets == NULL || r.bytes == NULL)
		error = weir_error_set(-ENOMEM, "rules: out of memory");
	for (size_t i = 0; error == 0 && rules != NULL && rules[i] != NULL; i++)
		error = read_rule(&r, rules[i]);
	if (error == 0 && (matcher = pack(&r)) == NULL)
		error = weir_error_set(-ENOMEM, "rules: out of memory");
	if (error == 0)
		*ret_matcher = matcher;
	weir_mem_free(r.entries);
	weir_mem_free(r.nets);
	weir_mem_free(r.bytes);
	explicit_bzero(r.keys, sizeof(r.keys));
	return error;
}

int weir_matcher_from(const char *const *addresses, weir_matcher **ret_matcher)
{
	char rule[RULE_BYTES + 1] = "from";
	size_t length = strlen(rule);
	for (size_t i = 0; addresses[i] != NULL; i++) {
		size_t more = strlen(addresses[i]);
		if (more + 1 > RULE_BYTES - length)
			return weir_error_set(-EINVAL, "the addresses have more than %d bytes", RULE_BYTES);
		rule[length] = ' ';
		memcpy(rule + length + 1, addresses[i], more + 1);
		length += 1 + more;
	}
	return weir_matcher_new((const char *const[]){rule, NULL}, ret_matcher);
}
