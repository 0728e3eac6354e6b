/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h2_guard.h"

#include <weir/base.h>

#define TOKEN 1000u

/*
 * A head above the limits is refused, but its fields must still be decompressed to keep the state. Above this
 * multiple of the limits the connection ends.
 */
#define BEYOND 4

static void bucket_init(weir_h2_bucket *bucket, uint64_t most, uint64_t per_s, uint64_t now_ns)
{
	*bucket = (weir_h2_bucket){
		.tokens = most * TOKEN, .most = most * TOKEN, .per_s = per_s * TOKEN, .at_ns = now_ns};
}

static void fill(weir_h2_bucket *bucket, uint64_t now_ns)
{
	uint64_t passed_ns = now_ns - bucket->at_ns;
	uint64_t full_ns = (bucket->most / bucket->per_s + 1) * WEIR_NS_PER_S;
	if (passed_ns > full_ns)
		passed_ns = full_ns;
	uint64_t added = passed_ns / 1000 * bucket->per_s / 1000000;
	/* Too little for a token: the time is kept for the next call. */
	if (added == 0)
		return;
	uint64_t tokens = bucket->tokens + added;
	bucket->tokens = tokens < bucket->most ? tokens : bucket->most;
	bucket->at_ns = now_ns;
}

static bool take(weir_h2_bucket *bucket, uint64_t now_ns)
{
	fill(bucket, now_ns);
	if (bucket->tokens < TOKEN)
		return false;
	bucket->tokens -= TOKEN;
	return true;
}

void weir_h2_guard_init(weir_h2_guard *guard, uint32_t streams, uint32_t head_bytes, uint32_t fields,
			uint64_t now_ns)
{
	*guard = (weir_h2_guard){.head_bytes = head_bytes, .fields = fields};
	bucket_init(&guard->resets, 2 * (uint64_t)streams, streams / 4 + 1, now_ns);
	bucket_init(&guard->idling, WEIR_H2_IDLING_BURST, WEIR_H2_IDLING_PER_S, now_ns);
}

const char *weir_h2_guard_reset(weir_h2_guard *guard, uint64_t now_ns)
{
	return take(&guard->resets, now_ns) ? NULL : "too many streams were reset";
}

const char *weir_h2_guard_idling(weir_h2_guard *guard, uint64_t now_ns)
{
	return take(&guard->idling, now_ns) ? NULL : "too many frames that do nothing";
}

void weir_h2_guard_earned(weir_h2_guard *guard, unsigned frames)
{
	weir_h2_bucket *bucket = &guard->idling;
	uint64_t tokens = bucket->tokens + (uint64_t)frames * TOKEN;
	bucket->tokens = tokens < bucket->most ? tokens : bucket->most;
}

const char *weir_h2_guard_block(weir_h2_guard *guard, bool first, size_t bytes)
{
	if (first) {
		guard->block_bytes = guard->block_frames = guard->block_fields = 0;
		guard->block_weight = 0;
	}
	/* A frame has at most 16 MB, so an excess is noticed before this overflows. */
	guard->block_bytes += (uint32_t)bytes;
	if (guard->block_bytes > 2 * (uint64_t)guard->head_bytes)
		return "a header block is too long";
	if (!first && ++guard->block_frames > WEIR_H2_CONTINUATION_MOST)
		return "too many CONTINUATION frames";
	return NULL;
}

const char *weir_h2_guard_field(weir_h2_guard *guard, size_t bytes)
{
	guard->block_weight += bytes;
	if (++guard->block_fields > BEYOND * (uint64_t)guard->fields)
		return "a header block has too many fields";
	return guard->block_weight > BEYOND * (uint64_t)guard->head_bytes ? "a header block is too long"
									  : NULL;
}
