/* SPDX-License-Identifier: Apache-2.0 */
#include "net/output.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"

static weir_output_block *add_block(weir_output *output, weir_pool *blocks)
{
	weir_output_block *block = weir_pool_take(blocks);
	if (block == NULL)
		return NULL;
	block->next = NULL;
	block->first = block->end = 0;
	block->is_file = false;
	if (output->tail != NULL)
		output->tail->next = block;
	else
		output->head = block;
	output->tail = block;
	return block;
}

/* A block with room for one more segment at its end. */
static weir_output_block *block_with_room(weir_output *output, weir_pool *blocks)
{
	if (output->tail != NULL && !output->tail->is_file && output->tail->end < WEIR_OUTPUT_SEGMENTS)
		return output->tail;
	weir_output_block *block = add_block(output, blocks);
	if (block != NULL)
		block->message = (struct msghdr){0};
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

/* The copy that is last in the queue, if more can be appended to it. */
static weir_buf *open_copy(const weir_output *output, const weir_output_source *source)
{
	const weir_output_block *block = output->tail;
	if (block == NULL || block->is_file || block->first == block->end)
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
	/*
	 * The last block may change here: the first part goes to the open copy, but only when the rest
	 * cannot fail.
	 */
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

/* ---- files ---- */

uint32_t weir_output_file_counts(uint64_t length, uint32_t most)
{
	uint64_t counts = length > WEIR_OUTPUT_FILE_LEAST ? length : WEIR_OUTPUT_FILE_LEAST;
	if (most > WEIR_OUTPUT_FILE_MOST)
		most = WEIR_OUTPUT_FILE_MOST;
	if (counts > most)
		counts = most;
	return counts > 0 ? (uint32_t)counts : 1;
}

int weir_output_add_file(weir_output *output, const weir_output_source *source, const weir_output_file *file)
{
	weir_output_block *block = add_block(output, source->blocks);
	if (block == NULL)
		return -ENOMEM;
	block->is_file = true;
	block->file = *file;
	block->file.counts = weir_output_file_counts(file->left, file->most);
	output->bytes += block->file.counts;
	output->more += (int64_t)block->file.left - block->file.counts;
	return 0;
}

weir_pipe *weir_output_last_pipe(const weir_output *output)
{
	const weir_output_block *tail = output->tail;
	return tail != NULL && tail->is_file ? tail->file.pipe : NULL;
}

int weir_output_add_piped(weir_output *output, const weir_output_source *source, weir_pipe *pipe,
			  size_t count)
{
	if (weir_output_last_pipe(output) != pipe) {
		weir_output_block *block = add_block(output, source->blocks);
		if (block == NULL)
			return -ENOMEM;
		block->is_file = true;
		block->file = (weir_output_file){.fd = pipe->out, .pipe = pipe};
	}
	weir_output_file *file = &output->tail->file;
	file->left += count;
	file->counts += (uint32_t)count;
	output->bytes += count;
	return 0;
}

static weir_output_block *take_head(weir_output *output)
{
	weir_output_block *block = output->head;
	output->head = block->next;
	if (output->head == NULL)
		output->tail = NULL;
	return block;
}

/* Bytes that are still in it are lost with it. */
static void drop_pipe(weir_output_block *block, const weir_output_source *source)
{
	weir_pipes_give(source->pipes, block->file.pipe, block->file.left == 0);
	weir_pool_give(source->blocks, block);
}

static void drop_file(weir_output *output, weir_output_source *source)
{
	weir_output_block *block = take_head(output);
	output->bytes -= block->file.counts;
	output->more -= (int64_t)block->file.left - block->file.counts;
	if (block->file.pipe != NULL) {
		drop_pipe(block, source);
		return;
	}
	block->next = NULL;
	if (source->over == NULL)
		source->over = block;
	else
		source->over_last->next = block;
	source->over_last = block;
}

static void file_sent(weir_output *output, weir_output_source *source, size_t count)
{
	weir_output_file *file = &output->head->file;
	WEIR_ASSERT(count <= file->left);
	file->offset += count;
	file->left -= count;
	output->more -= (int64_t)count;
	if (file->left == 0) {
		drop_file(output, source);
		return;
	}
	uint32_t counts =
		file->pipe != NULL ? (uint32_t)file->left : weir_output_file_counts(file->left, file->most);
	output->bytes -= file->counts - counts;
	output->more += file->counts - counts;
	file->counts = counts;
}

void weir_output_run_over(weir_output_source *source)
{
	weir_output_block *block;
	while ((block = source->over) != NULL) {
		source->over = block->next;
		weir_output_file file = block->file;
		weir_pool_give(source->blocks, block);
		if (file.over != NULL)
			file.over(file.arg);
	}
}

/* ---- sent output ---- */

void weir_output_sent(weir_output *output, weir_output_source *source, size_t count)
{
	if (count > 0 && output->head->is_file) {
		file_sent(output, source, count);
		return;
	}
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
			weir_pool_give(source->blocks, take_head(output));
	}
}

static void drop_segments(weir_output *output, weir_output_source *source)
{
	weir_output_block *block = take_head(output);
	for (unsigned i = block->first; i < block->end; i++) {
		output->bytes -= block->segment[i].iov_len;
		weir_buf_unref(block->buf[i]);
	}
	weir_pool_give(source->blocks, block);
}

void weir_output_clear(weir_output *output, weir_output_source *source)
{
	while (output->head != NULL) {
		if (output->head->is_file)
			drop_file(output, source);
		else
			drop_segments(output, source);
	}
}
