/* SPDX-License-Identifier: Apache-2.0 */
#include "sentry/recent_answers.h"

#include <strings.h>

#include "base/mem.h"
#include "http/recent_fields.h"

static bool sets_cookies(const weir_head *head, const weir_head_field *fields, const char *bytes)
{
	for (unsigned i = 0; i < head->field_count; i++)
		if (fields[i].name_length == 10 && strncasecmp(bytes + fields[i].name, "set-cookie", 10) == 0)
			return true;
	return false;
}

static bool is_fit(const weir_head *head, size_t length)
{
	return head->framing == WEIR_BODY_LENGTH && head->body_length == length - head->length &&
	       head->length <= WEIR_ANSWER_BYTES && head->length >= WEIR_RECENT_LEAST &&
	       head->field_count <= WEIR_ANSWER_FIELDS && length <= UINT32_MAX;
}

static void fill(weir_recent_answer *answer, const weir_head *head, const weir_head_field *fields,
		 const char *bytes, size_t length)
{
	answer->length = (uint32_t)length;
	answer->lines_length = 0;
	answer->reports_nothing = false;
	answer->head = *head;
	memcpy(answer->fields, fields, head->field_count * sizeof(*fields));
	memcpy(answer->bytes, bytes, head->length);
}

void weir_answers_keep(weir_recent_answers *recent, const weir_head *head, const weir_head_field *fields,
		       const char *bytes, size_t length)
{
	unsigned at = weir_answers_slot(length);
	if (!is_fit(head, length))
		return;
	uint32_t hash = weir_recent_hash_all(bytes, head->length);
	if (recent->missed[at] != hash) {
		recent->missed[at] = hash;
		return;
	}
	if (sets_cookies(head, fields, bytes))
		return;
	if (recent->slots[at] == NULL)
		recent->slots[at] = weir_mem_zalloc(sizeof(*recent->slots[at]));
	if (recent->slots[at] != NULL)
		fill(recent->slots[at], head, fields, bytes, length);
}

void weir_answers_forget(weir_recent_answers *recent)
{
	for (unsigned i = 0; i < WEIR_ANSWERS_SLOTS; i++)
		weir_mem_free(recent->slots[i]);
	*recent = (weir_recent_answers){0};
}
