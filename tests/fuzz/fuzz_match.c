/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a rule, and any bytes as what it is compared with. The input: the rule, ended by a NUL; flags, method, an address of 16 bytes;
 * then path, host, value, certificate, each ended by a NUL. What is refused gets a sentence of printable bytes. What is taken, its "not" is taken as
 * well and says the contrary; and twice the same rule says the same.
 */

#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rules/match.h"
#include "target.h"

/* The next part, copied to memory of just its size so that a read beyond it is noticed; *at moves on. */
static weir_span next_part(const uint8_t **at, const uint8_t *end)
{
	const uint8_t *nul = *at < end ? memchr(*at, 0, (size_t)(end - *at)) : NULL;
	size_t length = (size_t)((nul != NULL ? nul : end) - *at);
	char *copy = malloc(length > 0 ? length : 1);
	CHECK(copy != NULL);
	if (length > 0)
		memcpy(copy, *at, length);
	*at = nul != NULL ? nul + 1 : end;
	return (weir_span){copy, length};
}

static weir_span value_of(const void *request, weir_span name, uint64_t *cursor)
{
	uint64_t nth = (*cursor)++;
	CHECK(name.length > 0 && name.length <= 4096);
	return nth < 2 ? ((const weir_span *)request)[nth] : (weir_span){0};
}

static int compile(const char *text, const char *again, weir_matcher **ret_matcher)
{
	const char *rules[] = {text, again, NULL};
	int error = weir_matcher_new(rules, ret_matcher);
	CHECK(error == 0 || error == -EINVAL);
	if (error == 0)
		return 0;
	CHECK(*weir_error() != '\0');
	for (const char *c = weir_error(); *c != '\0'; c++)
		CHECK(*c >= ' ' && *c <= '~');
	return error;
}

static bool asked(const char *text, const char *again, const weir_match_input *input)
{
	weir_matcher *matcher = NULL;
	CHECK(compile(text, again, &matcher) == 0);
	bool matches = weir_matcher_matches(matcher, input);
	weir_matcher_free(matcher);
	return matches;
}

static void compare(const char *rule, const char *negated, const weir_match_input *input)
{
	bool matches = asked(rule, NULL, input);
	CHECK(asked(rule, rule, input) == matches);
	if (negated != NULL) {
		CHECK(asked(negated, NULL, input) == !matches);
		CHECK(!asked(rule, negated, input));
	}
}

static void run(const char *rule, const uint8_t *at, const uint8_t *end)
{
	uint8_t fixed[18] = {0};
	size_t some = (size_t)(end - at) < sizeof(fixed) ? (size_t)(end - at) : sizeof(fixed);
	memcpy(fixed, at, some);
	at += some;
	struct sockaddr_in6 v6 = {.sin6_family = fixed[0] & 1 ? AF_INET6 : AF_INET};
	if (fixed[0] & 1)
		memcpy(&v6.sin6_addr, fixed + 2, 16);
	else
		memcpy(&((struct sockaddr_in *)(void *)&v6)->sin_addr, fixed + 2, 4);
	weir_span parts[4];
	for (int i = 0; i < 4; i++)
		parts[i] = next_part(&at, end);
	weir_match_input input = {.path = parts[0],
				  .host = parts[1],
				  .method = fixed[1] % WEIR_METHOD_COUNT,
				  .method_text = parts[2],
				  .secure = fixed[0] & 2,
				  .client = fixed[0] & 4 ? NULL : (const struct sockaddr *)(const void *)&v6,
				  .certificate = parts[3],
				  .header = value_of,
				  .cookie = value_of,
				  .request = &parts[2]};
	char *negated = malloc(strlen(rule) + 5);
	CHECK(negated != NULL);
	sprintf(negated, "not %s", rule);
	bool can = strncmp(rule + strspn(rule, " \t"), "not", 3) != 0 && strlen(negated) <= 4096;
	compare(rule, can ? negated : NULL, &input);
	free(negated);
	for (int i = 0; i < 4; i++)
		free((void *)(uintptr_t)parts[i].at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *at = data, *end = data + size;
	weir_span text = next_part(&at, end);
	char *rule = malloc(text.length + 1);
	weir_matcher *matcher = NULL;
	CHECK(rule != NULL);
	memcpy(rule, text.at, text.length);
	rule[text.length] = '\0';
	if (compile(rule, NULL, &matcher) == 0) {
		weir_matcher_free(matcher);
		run(rule, at, end);
	}
	free(rule);
	free((void *)(uintptr_t)text.at);
	return 0;
}
