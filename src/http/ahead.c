/* SPDX-License-Identifier: Apache-2.0 */
#include "http/ahead.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define COPY_LEAST 1024u
#define COPY_MOST  16384u

weir_ahead *weir_ahead_new(void)
{
	return weir_mem_zalloc(sizeof(weir_ahead));
}

void weir_ahead_free(weir_ahead *ahead)
{
	weir_buf *buf;
	size_t offset, length;
	if (ahead == NULL)
		return;
	while (weir_ahead_take(ahead, &buf, &offset, &length))
		weir_buf_unref(buf);
	weir_mem_free(ahead);
}

/* Takes over the reference, even on failure. */
static weir_ahead_part *append(weir_ahead *ahead, weir_buf *buf, size_t offset, size_t length)
{
	weir_ahead_part *part = buf != NULL ? weir_mem_zalloc(sizeof(*part)) : NULL;
	if (part == NULL) {
		weir_buf_unref(buf);
		return NULL;
	}
	part->buf = buf;
	part->at = (uint32_t)offset;
	part->length = (uint32_t)length;
	if (ahead->last != NULL)
		ahead->last->next = part;
	else
		ahead->first = part;
	ahead->last = part;
	ahead->length += length;
	ahead->held += buf->capacity;
	return part;
}

/* As large as what is known to come, and otherwise twice what there is. */
static size_t copy_size(const weir_ahead *ahead, size_t length, uint64_t more)
{
	size_t size = 2 * (ahead->length + length);
	if (size < COPY_LEAST)
		size = COPY_LEAST;
	if (more < size && length + (size_t)more < size)
		size = length + (size_t)more;
	return size < COPY_MOST ? size : COPY_MOST;
}

static int copy(weir_ahead *ahead, const uint8_t *bytes, size_t length, uint64_t more)
{
	while (length > 0) {
		weir_ahead_part *last = ahead->last;
		if (last == NULL || !last->own || last->length == last->buf->capacity) {
			last = append(ahead, weir_buf_new(copy_size(ahead, length, more)), 0, 0);
			if (last == NULL)
				return -ENOMEM;
			last->own = true;
		}
		size_t room = last->buf->capacity - last->length, part = length < room ? length : room;
		memcpy(last->buf->data + last->length, bytes, part);
		last->length += (uint32_t)part;
		last->buf->length = last->length;
		ahead->length += part;
		bytes += part;
		length -= part;
	}
	return 0;
}

int weir_ahead_add(weir_ahead *ahead, weir_buf *buf, size_t offset, size_t length, uint64_t more)
{
	if (length < buf->capacity / 2 || length > COPY_MOST)
		return copy(ahead, buf->data + offset, length, more);
	return append(ahead, weir_buf_ref(buf), offset, length) != NULL ? 0 : -ENOMEM;
}

bool weir_ahead_take(weir_ahead *ahead, weir_buf **ret_buf, size_t *ret_offset, size_t *ret_length)
{
	weir_ahead_part *part = ahead->first;
	if (part == NULL)
		return false;
	ahead->first = part->next;
	if (ahead->first == NULL)
		ahead->last = NULL;
	ahead->length -= part->length;
	ahead->held -= part->buf->capacity;
	*ret_buf = part->buf;
	*ret_offset = part->at;
	*ret_length = part->length;
	weir_mem_free(part);
	return true;
}
