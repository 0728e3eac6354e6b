/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h2_gather.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

bool weir_h2_gather_head(weir_h2_input *in, const uint8_t **at, const uint8_t *end)
{
	const uint8_t *head = *at;
	size_t here = (size_t)(end - head);
	if (in->have > 0 || here < WEIR_H2_FRAME_HEAD) {
		size_t length = least(here, WEIR_H2_FRAME_HEAD - in->have);
		memcpy(in->head + in->have, head, length);
		in->have += (uint32_t)length;
		*at += length;
		if (in->have < WEIR_H2_FRAME_HEAD)
			return false;
		head = in->head;
	} else {
		*at += WEIR_H2_FRAME_HEAD;
	}
	in->frame = weir_h2_frame_read(head);
	in->have = 0;
	return true;
}

int weir_h2_gather_payload(weir_h2_input *in, const uint8_t **at, const uint8_t *end,
			   const uint8_t **ret_payload, uint8_t **ret_own)
{
	size_t length = in->frame.length, here = (size_t)(end - *at);
	if (in->payload == NULL && here >= length) {
		*ret_payload = *at;
		*ret_own = NULL;
		*at += length;
		return 1;
	}
	if (in->payload == NULL && (in->payload = weir_mem_raw(length)) == NULL)
		return -ENOMEM;
	size_t part = least(here, length - in->have);
	memcpy(in->payload + in->have, *at, part);
	in->have += (uint32_t)part;
	*at += part;
	if (in->have < length)
		return 0;
	*ret_payload = *ret_own = in->payload;
	in->payload = NULL;
	return 1;
}

const uint8_t *weir_h2_gather_nothing(weir_h2_input *in, const uint8_t *at, const uint8_t *end)
{
	size_t length = least((size_t)(end - at), in->left);
	in->left -= (uint32_t)length;
	if (in->left == 0)
		weir_h2_gather_next(in);
	return at + length;
}

bool weir_h2_gather_fragment(weir_h2_input *in, const uint8_t *bytes, size_t length)
{
	if (length > in->fragment_room - in->fragment_bytes) {
		uint32_t room = 2 * (in->fragment_bytes + (uint32_t)length);
		uint8_t *larger = weir_mem_raw(room);
		if (larger == NULL)
			return false;
		if (in->fragment_bytes > 0)
			memcpy(larger, in->fragments, in->fragment_bytes);
		weir_mem_free(in->fragments);
		in->fragments = larger;
		in->fragment_room = room;
	}
	if (length > 0)
		memcpy(in->fragments + in->fragment_bytes, bytes, length);
	in->fragment_bytes += (uint32_t)length;
	return true;
}

void weir_h2_gather_block_over(weir_h2_input *in)
{
	weir_mem_free(in->fragments);
	in->fragments = NULL;
	in->fragment_bytes = in->fragment_room = 0;
}

void weir_h2_gather_fini(weir_h2_input *in)
{
	weir_mem_free(in->payload);
	weir_mem_free(in->fragments);
}
