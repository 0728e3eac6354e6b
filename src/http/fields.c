/* SPDX-License-Identifier: Apache-2.0 */
/* Names of fields, and readers of their values that servers and clients share. */

#include <string.h>

#include "http/head.h"

const weir_field_text weir_field_texts[WEIR_FIELD_COUNT] = {
#define WEIR_X(name, text) [WEIR_FIELD_##name] = {text, sizeof(text) - 1},
	WEIR_KNOWN_FIELDS(WEIR_X)
#undef WEIR_X
};

/*
 * A perfect hash: each known name has a place of its own. A new name goes to the place that the test of this table asks for; where that is taken, other
 * factors are needed.
 */
const uint8_t weir_field_places[128] = {
	[2] = WEIR_FIELD_HTTP2_SETTINGS,
	[8] = WEIR_FIELD_CONTENT_TYPE,
	[17] = WEIR_FIELD_VIA,
	[18] = WEIR_FIELD_KEEP_ALIVE,
	[25] = WEIR_FIELD_UPGRADE,
	[31] = WEIR_FIELD_LAST_MODIFIED,
	[34] = WEIR_FIELD_USER_AGENT,
	[44] = WEIR_FIELD_HOST,
	[51] = WEIR_FIELD_TRANSFER_ENCODING,
	[52] = WEIR_FIELD_DATE,
	[53] = WEIR_FIELD_X_FORWARDED_FOR,
	[54] = WEIR_FIELD_EXPECT,
	[60] = WEIR_FIELD_IF_MATCH,
	[62] = WEIR_FIELD_SERVER,
	[64] = WEIR_FIELD_PROXY_CONNECTION,
	[69] = WEIR_FIELD_REFERER,
	[70] = WEIR_FIELD_COOKIE,
	[74] = WEIR_FIELD_CONNECTION,
	[77] = WEIR_FIELD_TRAILER,
	[81] = WEIR_FIELD_ACCEPT_ENCODING,
	[87] = WEIR_FIELD_IF_MODIFIED_SINCE,
	[88] = WEIR_FIELD_LOCATION,
	[91] = WEIR_FIELD_FORWARDED,
	[94] = WEIR_FIELD_TE,
	[97] = WEIR_FIELD_PROXY_AUTHORIZATION,
	[99] = WEIR_FIELD_AUTHORIZATION,
	[102] = WEIR_FIELD_CONTENT_LENGTH,
	[104] = WEIR_FIELD_ETAG,
	[109] = WEIR_FIELD_IF_UNMODIFIED_SINCE,
	[112] = WEIR_FIELD_PRIORITY,
	[113] = WEIR_FIELD_RETRY_AFTER,
	[115] = WEIR_FIELD_IF_NONE_MATCH,
	[116] = WEIR_FIELD_IF_RANGE,
	[119] = WEIR_FIELD_RANGE,
	[126] = WEIR_FIELD_PROXY_AUTHENTICATE,
};

weir_field_id weir_field_find(weir_span name)
{
	return weir_field_lookup(name.at, name.length);
}

weir_span weir_field_name(weir_field_id id)
{
	return (weir_span){weir_field_texts[id].text, weir_field_texts[id].length};
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

/* Where the element that begins here ends: at a comma outside of quotes, or with the list. */
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
