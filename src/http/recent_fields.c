/* SPDX-License-Identifier: Apache-2.0 */
#include "http/recent_fields.h"

#include "http/head.h"

#define SECRETS (WEIR_FIELD_BIT(COOKIE) | WEIR_FIELD_BIT(AUTHORIZATION))

static bool has_secrets(const weir_head_field *fields, unsigned count)
{
	uint64_t seen = 0;
	for (unsigned i = 0; i < count; i++)
		seen |= 1ULL << fields[i].id;
	return (seen & SECRETS) != 0;
}

static bool is_fit(const weir_head *head, size_t at)
{
	size_t length = head->length - at;
	return length >= WEIR_RECENT_LEAST && length <= WEIR_RECENT_BYTES &&
	       head->field_count <= WEIR_RECENT_FIELDS &&
	       (head->marks & ~WEIR_MARK_KEEP_ALIVE) == WEIR_MARK_HOST && head->framing == WEIR_BODY_NONE;
}

static void fill(weir_recent_block *block, const weir_head *head, const char *bytes, size_t at,
		 const weir_head_field *fields)
{
	size_t length = head->length - at;
	block->length = (uint32_t)length;
	block->field_count = head->field_count;
	block->marks = head->marks;
	block->flags = head->flags;
	block->host = head->host - (uint32_t)at;
	block->host_length = head->host_length;
	memcpy(block->bytes, bytes + at, length);
	for (unsigned i = 0; i < head->field_count; i++) {
		block->fields[i] = fields[i];
		block->fields[i].name -= (uint32_t)at;
		block->fields[i].value -= (uint32_t)at;
	}
}

void weir_recent_keep(weir_recent_fields *recent, const weir_head *head, const char *bytes, size_t at,
		      const weir_head_field *fields)
{
	if (!is_fit(head, at))
		return;
	uint32_t hash = weir_recent_hash(bytes + at, head->length - at);
	weir_recent_block *block = weir_recent_slot(recent, hash);
	if (block->missed != hash)
		block->missed = hash;
	else if (!has_secrets(fields, head->field_count))
		fill(block, head, bytes, at, fields);
}
