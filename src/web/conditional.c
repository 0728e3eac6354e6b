/* SPDX-License-Identifier: Apache-2.0 */
/* Conditional requests: RFC 9110 13, in the order of 13.2.2. */
#include <string.h>

#include "web/asked.h"

bool weir_asked_next(const weir_asked *asked, weir_field_id id, size_t *at, weir_span *ret_value)
{
	for (size_t i = *at; i < asked->count; i++) {
		const weir_head_field *field = &asked->fields[i];
		if (field->id != id)
			continue;
		*ret_value = (weir_span){asked->base + field->value, field->value_length};
		*at = i + 1;
		return true;
	}
	return false;
}

bool weir_asked_only(const weir_asked *asked, weir_field_id id, weir_span *ret_value)
{
	size_t at = 0;
	weir_span value, other;
	if (!weir_asked_has(asked, id) || !weir_asked_next(asked, id, &at, &value) ||
	    weir_asked_next(asked, id, &at, &other))
		return false;
	*ret_value = value;
	return true;
}

static bool same(weir_span a, weir_span b)
{
	return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

/* Our tag is strong, so a weak comparison only ignores the other's "W/". */
static bool tag_matches(weir_span tag, const weir_validators *have, bool weak)
{
	if (have->etag.length == 0)
		return false;
	if (weak && tag.length > 2 && tag.at[0] == 'W' && tag.at[1] == '/')
		tag = (weir_span){tag.at + 2, tag.length - 2};
	return same(tag, have->etag);
}

/* Whether a field of this name lists our tag, or is "*". */
static bool lists_tag(const weir_asked *asked, weir_field_id id, const weir_validators *have, bool weak)
{
	size_t at = 0;
	weir_span list, tag;
	while (weir_asked_next(asked, id, &at, &list)) {
		if (same(list, WEIR_SPAN("*")))
			return true;
		while (weir_list_next(&list, &tag))
			if (tag_matches(tag, have, weak))
				return true;
	}
	return false;
}

/* 1: changed after that date; 0: not changed; -1: the field is not usable. */
static int changed_since(const weir_asked *asked, weir_field_id id, const weir_validators *have,
			 int64_t now_s)
{
	weir_span text;
	if (have->date.length == 0 || !weir_asked_only(asked, id, &text))
		return -1;
	/* Most clients send back the date that they were given. */
	if (same(text, have->date))
		return 0;
	int64_t since_s = weir_date_parse(text, now_s);
	if (since_s < 0)
		return -1;
	return have->modified_s > since_s;
}

weir_condition weir_conditional(const weir_asked *asked, const weir_validators *have, int64_t now_s)
{
	if (weir_asked_has(asked, WEIR_FIELD_IF_MATCH)) {
		if (!lists_tag(asked, WEIR_FIELD_IF_MATCH, have, false))
			return WEIR_CONDITION_FAILED;
	} else if (weir_asked_has(asked, WEIR_FIELD_IF_UNMODIFIED_SINCE)) {
		if (changed_since(asked, WEIR_FIELD_IF_UNMODIFIED_SINCE, have, now_s) == 1)
			return WEIR_CONDITION_FAILED;
	}
	if (weir_asked_has(asked, WEIR_FIELD_IF_NONE_MATCH)) {
		if (lists_tag(asked, WEIR_FIELD_IF_NONE_MATCH, have, true))
			return WEIR_CONDITION_NOT_MODIFIED;
	} else if (weir_asked_has(asked, WEIR_FIELD_IF_MODIFIED_SINCE)) {
		if (changed_since(asked, WEIR_FIELD_IF_MODIFIED_SINCE, have, now_s) == 0)
			return WEIR_CONDITION_NOT_MODIFIED;
	}
	return WEIR_CONDITION_HOLDS;
}

/* 13.1.5: an entity tag by strong comparison, or exactly the date, if that is a strong validator. */
static bool range_still_good(const weir_asked *asked, const weir_validators *have)
{
	weir_span text;
	if (!weir_asked_has(asked, WEIR_FIELD_IF_RANGE))
		return true;
	if (!weir_asked_only(asked, WEIR_FIELD_IF_RANGE, &text))
		return false;
	if (text.length > 0 && text.at[0] == '"')
		return tag_matches(text, have, false);
	/* A weak tag, which begins with W/, is no date either. A date may begin with Wed. */
	return have->date_strong && have->date.length > 0 && same(text, have->date);
}

weir_range weir_asked_range(const weir_asked *asked, const weir_validators *have, uint64_t length,
			    uint64_t *ret_first, uint64_t *ret_count)
{
	weir_span value;
	if (!weir_asked_only(asked, WEIR_FIELD_RANGE, &value) || !range_still_good(asked, have))
		return WEIR_RANGE_WHOLE;
	return weir_range_parse(value, length, ret_first, ret_count);
}
