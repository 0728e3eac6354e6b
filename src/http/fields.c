/* SPDX-License-Identifier: Apache-2.0 */
/* Names of fields, and parsers of their values that servers and clients share. */

#include <string.h>

#include "http/head.h"

/*
 * A perfect hash: each known name has its own place. For a new name, the test of this table tells the place;
 * if it is taken, weir_field_place needs other factors.
 */
#define AT(name) WEIR_FIELD_##name * sizeof(weir_field_text)

const weir_field_table weir_fields_known = {
	.places =
		{
			[2] = AT(HTTP2_SETTINGS),
			[11] = AT(TRANSFER_ENCODING),
			[32] = AT(PROXY_CONNECTION),
			[41] = AT(PROXY_AUTHORIZATION),
			[53] = AT(REFERER),
			[58] = AT(SERVER),
			[65] = AT(RETRY_AFTER),
			[69] = AT(TRAILER),
			[82] = AT(COOKIE),
			[84] = AT(DATE),
			[96] = AT(PRIORITY),
			[100] = AT(CONTENT_TYPE),
			[102] = AT(USER_AGENT),
			[107] = AT(FORWARDED),
			[108] = AT(ETAG),
			[109] = AT(ACCEPT_ENCODING),
			[125] = AT(X_FORWARDED_FOR),
			[130] = AT(CONTENT_LENGTH),
			[136] = AT(IF_RANGE),
			[158] = AT(KEEP_ALIVE),
			[159] = AT(AUTHORIZATION),
			[160] = AT(IF_MATCH),
			[163] = AT(IF_MODIFIED_SINCE),
			[166] = AT(CONNECTION),
			[167] = AT(LAST_MODIFIED),
			[169] = AT(IF_UNMODIFIED_SINCE),
			[175] = AT(IF_NONE_MATCH),
			[193] = AT(VIA),
			[199] = AT(RANGE),
			[206] = AT(TE),
			[218] = AT(EXPECT),
			[222] = AT(PROXY_AUTHENTICATE),
			[229] = AT(UPGRADE),
			[232] = AT(LOCATION),
			[236] = AT(HOST),
		},
	.names =
		{
#define WEIR_X(name, text)                                                                              \
	[WEIR_FIELD_##name] = {text ":", sizeof(text) - 1, WEIR_FIELD_##name, (1U << sizeof(text)) - 1, \
			       WEIR_FIELD_BIT(name) & WEIR_FRAMING_FIELDS},
			WEIR_KNOWN_FIELDS(WEIR_X)
#undef WEIR_X
		},
};

weir_field_id weir_field_find(weir_span name)
{
	return weir_field_lookup(name.at, name.length);
}

weir_span weir_field_name(weir_field_id id)
{
	return (weir_span){weir_fields_known.names[id].text, weir_fields_known.names[id].length};
}

static inline uint8_t lower(char c)
{
	return (uint8_t)(c - 'A') < 26 ? (uint8_t)(c | 0x20) : (uint8_t)c;
}

bool weir_span_is(weir_span a, weir_span b)
{
	if (a.length != b.length)
		return false;
	for (size_t i = 0; i < a.length; i++)
		if (a.at[i] != b.at[i] && lower(a.at[i]) != lower(b.at[i]))
			return false;
	return true;
}

static inline bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

/* The end of the first element: at a comma outside of quotes, or at the end of the list. */
static size_t element_end(weir_span list)
{
	bool quoted = false;
	for (size_t i = 0; i < list.length; i++) {
		char c = list.at[i];
		if (c == '"')
			quoted = !quoted;
		else if (quoted && c == '\\')
			i++;
		else if (c == ',' && !quoted)
			return i;
	}
	return list.length;
}

bool weir_list_next(weir_span *list, weir_span *ret_element)
{
	weir_span rest = *list;
	while (rest.length > 0 && (is_space(*rest.at) || *rest.at == ','))
		rest.at++, rest.length--;
	size_t end = element_end(rest), length = end;
	while (length > 0 && is_space(rest.at[length - 1]))
		length--;
	*list = (weir_span){rest.at + end, rest.length - end};
	if (length == 0)
		return false;
	*ret_element = (weir_span){rest.at, length};
	return true;
}
