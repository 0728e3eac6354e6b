/* SPDX-License-Identifier: Apache-2.0 */
/* Accept-Encoding: RFC 9110 12.5.3. Weights are in thousandths. */
#include <string.h>

#include "web/asked.h"

#define UNSAID (-1)

static const struct {
	weir_span token;
	const char *end;
} encodings[WEIR_ENCODING_COUNT] = {{{"identity", 8}, ""},
#define WEIR_X(name, token, end) {{token, sizeof(token) - 1}, end},
				    WEIR_ENCODINGS(WEIR_X)
#undef WEIR_X
};

weir_span weir_encoding_token(weir_encoding encoding)
{
	return encodings[encoding].token;
}

const char *weir_encoding_end(weir_encoding encoding)
{
	return encodings[encoding].end;
}

static weir_span trimmed(weir_span text)
{
	while (text.length > 0 && (*text.at == ' ' || *text.at == '\t'))
		text.at++, text.length--;
	while (text.length > 0 && (text.at[text.length - 1] == ' ' || text.at[text.length - 1] == '\t'))
		text.length--;
	return text;
}

/* "0", "0.5", "1.000"; negative: not a weight. */
static int parse_weight(weir_span text)
{
	if (text.length == 0 || text.length > 5 || (text.at[0] != '0' && text.at[0] != '1') ||
	    (text.length > 1 && text.at[1] != '.'))
		return -1;
	int weight = (text.at[0] - '0') * 1000, unit = 100;
	for (size_t i = 2; i < text.length; i++, unit /= 10) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return -1;
		weight += (text.at[i] - '0') * unit;
	}
	return weight <= 1000 ? weight : -1;
}

/* The coding's name; *ret_weight is negative if the element is malformed. */
static weir_span split(weir_span element, int *ret_weight)
{
	const char *semicolon = memchr(element.at, ';', element.length);
	*ret_weight = 1000;
	if (semicolon == NULL)
		return element;
	size_t length = (size_t)(semicolon - element.at);
	weir_span rest = trimmed((weir_span){semicolon + 1, element.length - length - 1});
	bool is_weight = rest.length > 2 && (rest.at[0] == 'q' || rest.at[0] == 'Q') && rest.at[1] == '=';
	*ret_weight = is_weight ? parse_weight((weir_span){rest.at + 2, rest.length - 2}) : -1;
	return trimmed((weir_span){element.at, length});
}

static void note(weir_span element, int *weights, int *star)
{
	int weight;
	weir_span name = split(element, &weight);
	if (weight < 0)
		return;
	if (name.length == 1 && name.at[0] == '*')
		*star = weight;
	if (weir_span_is(name, WEIR_SPAN("x-gzip")))
		name = encodings[WEIR_ENCODING_GZIP].token;
	for (unsigned i = 0; i < WEIR_ENCODING_COUNT; i++)
		if (weir_span_is(name, encodings[i].token))
			weights[i] = weight;
}

weir_encoding weir_encoding_choose(const weir_asked *asked, unsigned there)
{
	int weights[WEIR_ENCODING_COUNT] = {UNSAID, UNSAID, UNSAID, UNSAID}, star = 0;
	size_t at = 0;
	weir_span list, element;
	if (!weir_asked_has(asked, WEIR_FIELD_ACCEPT_ENCODING))
		return WEIR_ENCODING_IDENTITY;
	while (weir_asked_next(asked, WEIR_FIELD_ACCEPT_ENCODING, &at, &list))
		while (weir_list_next(&list, &element))
			note(element, weights, &star);
	/* If not mentioned, identity is acceptable, and the last choice. */
	weir_encoding best = WEIR_ENCODING_IDENTITY;
	int most = weights[WEIR_ENCODING_IDENTITY] > 0 ? weights[WEIR_ENCODING_IDENTITY] - 1 : 0;
	for (unsigned i = WEIR_ENCODING_IDENTITY + 1; i < WEIR_ENCODING_COUNT; i++) {
		int weight = weights[i] == UNSAID ? star : weights[i];
		if (!(there & 1U << i) || weight <= most)
			continue;
		most = weight;
		best = (weir_encoding)i;
	}
	return best;
}
