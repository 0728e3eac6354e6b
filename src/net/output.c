/* SPDX-License-Identifier: Apache-2.0 */
#include "net/output.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"

/* A block with room for one more segment at its end. */
static weir_output_block *block_with_room(weir_output *output, weir_pool *blocks)
{
	if (output->tail != NULL && output->tail->end < WEIR_OUTPUT_SEGMENTS)
		return output->tail;
	weir_output_block *block = weir_pool_take(blocks);
	if (block == NULL)
		return NULL;
	block->next = NULL;
	block->first = block->end = 0;
	block->message = (struct msghdr){0};
	if (output->tail != NULL)
		output->tail->next = block;
	else
		output->head = block;
	output->tail = block;
	return block;
}

/* Takes over the caller's reference. */
static void append(weir_output *output, weir_output_block *block, weir_buf *buf, void *data, size_t length)
{
	block->segment[block->end] = (struct iovec){.iov_base = data, .iov_len = length};
	block->buf[block->end] = buf;
	block->end++;
	output->bytes += length;
}

int weir_output_add(weir_output *output, const weir_output_source *source, weir_buf *buf, size_t offset,
		    size_t length)
{
	weir_output_block *block = block_with_room(output, source->blocks);
	if (block == NULL)
		return -ENOMEM;
	append(output, block, weir_buf_ref(buf), buf->data + offset, length);
	return 0;
}

/* The copy that is last in the queue, if more can be written behind it. */
static weir_buf *open_copy(const weir_output *output, const weir_output_source *source)
{
	const weir_output_block *block = output->tail;
	if (block == NULL || block->first == block->end)
		return NULL;
	weir_buf *buf = block->buf[block->end - 1];
	bool ours = buf->home == source->copies && weir_buf_exclusive(buf);
	return ours && buf->length < buf->capacity ? buf : NULL;
}

static void extend(weir_output *output, weir_buf *buf, const void *data, size_t length)
{
	memcpy(buf->data + buf->length, data, length);
	buf->length += (uint32_t)length;
	output->tail->segment[output->tail->end - 1].iov_len += length;
	output->bytes += length;
}

int weir_output_copy(weir_output *output, const weir_output_source *source, const void *data, size_t length)
{
	weir_buf *open = open_copy(output, source);
	size_t room = open != NULL ? open->capacity - open->length : 0;
	size_t part = length < room ? length : room;
	if (part == length) {
		extend(output, open, data, part);
		return 0;
	}
	size_t rest = length - part;
	weir_buf *buf =
		rest <= source->copies->capacity ? weir_buf_pool_take(source->copies) : weir_buf_new(rest);
	/* The last block may change here: the part goes to the open copy first, but only when the rest cannot fail. */
	weir_output_block *tail = output->tail;
	weir_output_block *block = buf != NULL ? block_with_room(output, source->blocks) : NULL;
	if (block == NULL) {
		weir_buf_unref(buf);
		return -ENOMEM;
	}
	if (part > 0) {
		output->tail = tail;
		extend(output, open, data, part);
		output->tail = block;
	}
	memcpy(buf->data, (const char *)data + part, rest);
	buf->length = (uint32_t)rest;
	append(output, block, buf, buf->data, rest);
	return 0;
}

static void drop_block(weir_output *output, weir_pool *blocks)
{
	weir_output_block *block = output->head;
	output->head = block->next;
	if (output->head == NULL)
		output->tail = NULL;
	weir_pool_give(blocks, block);
}

void weir_output_sent(weir_output *output, weir_pool *blocks, size_t count)
{
	WEIR_ASSERT(count <= output->bytes);
	output->bytes -= count;
	while (count > 0) {
		weir_output_block *block = output->head;
		struct iovec *segment = &block->segment[block->first];
		if (count < segment->iov_len) {
			segment->iov_base = (char *)segment->iov_base + count;
			segment->iov_len -= count;
			return;
		}
		count -= segment->iov_len;
		weir_buf_unref(block->buf[block->first++]);
		if (block->first == block->end)
			drop_block(output, blocks);
	}
}

void weir_output_clear(weir_output *output, weir_pool *blocks)
{
	weir_output_sent(output, blocks, output->bytes);
}
