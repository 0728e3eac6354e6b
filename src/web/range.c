/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One range of bytes: "0-99", "100-", "-50". A range that is malformed, in another unit, or one of several is
 * ignored, as RFC 9110 14.2 allows: the whole is always a correct answer, and many small ranges of one file
 * are a known attack.
 */
#include "web/asked.h"

/* Reads a number at the front of the text, which moves on; false: none. Too large: UINT64_MAX. */
static bool take_number(weir_span *text, uint64_t *ret_number)
{
	uint64_t number = 0;
	size_t i = 0;
	for (; i < text->length && text->at[i] >= '0' && text->at[i] <= '9'; i++) {
		unsigned digit = (unsigned)(text->at[i] - '0');
		number = number > (UINT64_MAX - digit) / 10 ? UINT64_MAX : number * 10 + digit;
	}
	*text = (weir_span){text->at + i, text->length - i};
	*ret_number = number;
	return i > 0;
}

static bool take_dash(weir_span *text)
{
	if (text->length == 0 || text->at[0] != '-')
		return false;
	*text = (weir_span){text->at + 1, text->length - 1};
	return true;
}

static weir_range part(uint64_t first, uint64_t count, uint64_t *ret_first, uint64_t *ret_count)
{
	*ret_first = first;
	*ret_count = count;
	return WEIR_RANGE_PART;
}

/* "-N": the last N bytes. */
static weir_range parse_suffix(weir_span text, uint64_t length, uint64_t *ret_first, uint64_t *ret_count)
{
	uint64_t last;
	if (!take_number(&text, &last) || text.length > 0)
		return WEIR_RANGE_WHOLE;
	if (last == 0)
		return WEIR_RANGE_NONE;
	if (length == 0) /* satisfiable, but no Content-Range can say so */
		return WEIR_RANGE_WHOLE;
	if (last > length)
		last = length;
	return part(length - last, last, ret_first, ret_count);
}

/* "N-" and "N-M". */
static weir_range parse_from(weir_span text, uint64_t length, uint64_t *ret_first, uint64_t *ret_count)
{
	uint64_t first, last = UINT64_MAX;
	if (!take_number(&text, &first) || !take_dash(&text))
		return WEIR_RANGE_WHOLE;
	if (text.length > 0 && (!take_number(&text, &last) || text.length > 0 || last < first))
		return WEIR_RANGE_WHOLE;
	if (first >= length)
		return WEIR_RANGE_NONE;
	if (last >= length)
		last = length - 1;
	return part(first, last - first + 1, ret_first, ret_count);
}

weir_range weir_range_parse(weir_span value, uint64_t length, uint64_t *ret_first, uint64_t *ret_count)
{
	weir_span one, other;
	if (value.length < 6 || !weir_span_is((weir_span){value.at, 6}, WEIR_SPAN("bytes=")))
		return WEIR_RANGE_WHOLE;
	value = (weir_span){value.at + 6, value.length - 6};
	if (!weir_list_next(&value, &one) || weir_list_next(&value, &other))
		return WEIR_RANGE_WHOLE;
	if (take_dash(&one))
		return parse_suffix(one, length, ret_first, ret_count);
	return parse_from(one, length, ret_first, ret_count);
}
