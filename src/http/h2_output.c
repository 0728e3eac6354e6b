/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of answers. Parts wait in their stream until it is next, and then go to the link without a copy. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "http/h2.h"

#define COPY_BYTES 4096u /* of a buffer for small writes */

/* ---- parts ---- */

static void file_unref(void *arg)
{
	weir_h2_file *file = arg;
	if (--file->refs > 0)
		return;
	if (file->over != NULL)
		file->over(file->over_arg);
	weir_mem_free(file);
}

/* Complete answers are not counted: their memory is in use anyway. */
static void count(weir_h2_stream *stream, ssize_t bytes)
{
	if (stream->flags & WEIR_H2_COUNTS)
		return;
	stream->output += (size_t)bytes;
	stream->h2->output += (size_t)bytes;
}

static void pop(weir_h2_stream *stream)
{
	weir_h2_part *part = stream->first;
	stream->first = part->next;
	weir_buf_unref(part->buf);
	if (part->file != NULL)
		file_unref(part->file);
	weir_pool_give(&stream->h2->conn->loop->h2.parts, part);
}

void weir_h2_free_parts(weir_h2_stream *stream)
{
	while (stream->first != NULL) {
		count(stream, -(ssize_t)stream->first->length);
		pop(stream);
	}
}

void weir_h2_awake(weir_h2_stream *stream)
{
	weir_h2_set_ready(stream);
	weir_h2_go_on(stream->h2);
}

static weir_h2_part *add_part(weir_h2_stream *stream, uint64_t length)
{
	weir_h2 *h2 = stream->h2;
	weir_h2_part *part = weir_pool_take(&h2->conn->loop->h2.parts);
	if (part == NULL)
		return NULL;
	*part = (weir_h2_part){.length = length};
	weir_h2_part *last = stream->first != NULL ? stream->last : NULL;
	stream->last = part;
	if (last != NULL) {
		last->next = part;
	} else {
		stream->first = part;
		stream->progress_ns = weir_h2_now(h2);
		weir_h2_arm(h2, stream->progress_ns, h2->conn->loop->limits.output_ns);
	}
	count(stream, (ssize_t)length);
	return part;
}

int weir_h2_add_buf(weir_h2_stream *stream, weir_buf *buf, size_t offset, size_t length)
{
	weir_h2_part *part = add_part(stream, length);
	if (part == NULL)
		return -ENOMEM;
	part->buf = weir_buf_ref(buf);
	part->offset = offset;
	return 0;
}

/* Appends to the last buffer, if it is one of ours with room. Bytes already sent do not change. */
int weir_h2_add_copy(weir_h2_stream *stream, const void *bytes, size_t length)
{
	weir_h2_part *part = stream->first != NULL ? stream->last : NULL;
	if (part != NULL && part->own && part->buf->capacity - part->buf->length >= length) {
		part->length += length;
		count(stream, (ssize_t)length);
	} else {
		weir_buf *buf = weir_buf_new(length > COPY_BYTES ? length : COPY_BYTES);
		int error = buf != NULL ? weir_h2_add_buf(stream, buf, 0, length) : -ENOMEM;
		weir_buf_unref(buf);
		if (error != 0)
			return error;
		part = stream->last;
		part->own = true;
	}
	memcpy(part->buf->data + part->buf->length, bytes, length);
	part->buf->length += (uint32_t)length;
	return 0;
}

static int add_file(weir_h2_stream *stream, weir_request *request, const weir_answer *answer)
{
	weir_h2_file *file = weir_mem_zalloc(sizeof(*file));
	weir_h2_part *part = file != NULL ? add_part(stream, answer->length) : NULL;
	if (part == NULL) {
		weir_mem_free(file);
		return -ENOMEM;
	}
	*file = (weir_h2_file){
		.refs = 1, .fd = answer->file, .over = request->over, .over_arg = request->over_arg};
	request->over = NULL;
	part->file = file;
	part->offset = answer->file_offset;
	return 0;
}

/* Copies the handler's bytes, a few of them into the request's memory. */
static int add_bytes(weir_h2_stream *stream, weir_request *request, const weir_answer *answer)
{
	if (answer->length > WEIR_H2_SMALL_BODY)
		return weir_h2_add_copy(stream, answer->bytes, (size_t)answer->length);
	char *copy = weir_request_alloc(request, (size_t)answer->length);
	weir_h2_part *part = copy != NULL ? add_part(stream, answer->length) : NULL;
	if (part == NULL)
		return -ENOMEM;
	memcpy(copy, answer->bytes, (size_t)answer->length);
	part->bytes = copy;
	return 0;
}

int weir_h2_add_body(weir_h2_stream *stream, weir_request *request, const weir_answer *answer)
{
	if (answer->has_file)
		return add_file(stream, request, answer);
	if (answer->buf != NULL)
		return weir_h2_add_buf(stream, answer->buf, answer->offset, (size_t)answer->length);
	return add_bytes(stream, request, answer);
}

/* ---- sending ---- */

static int send_piece(weir_h2_stream *stream, weir_h2_part *part, size_t length)
{
	weir_link *link = &stream->h2->conn->link;
	if (part->buf != NULL)
		return weir_link_send(link, part->buf, part->offset, length);
	if (part->file == NULL)
		return weir_link_write(link, part->bytes + part->offset, length);
	part->file->refs++;
	int error = weir_link_send_file(link, part->file->fd, part->offset, length, file_unref, part->file);
	if (error != 0)
		part->file->refs--;
	return error;
}

static void used(weir_h2_stream *stream, weir_h2_part *part, size_t length)
{
	part->offset += length;
	part->length -= length;
	count(stream, -(ssize_t)length);
	if (stream->flags & WEIR_H2_COUNTS && stream->request != NULL)
		stream->request->answer_bytes += length;
	if (part->length == 0)
		pop(stream);
}

static int send_pieces(weir_h2_stream *stream, const uint8_t *header, size_t length)
{
	int error = weir_link_write(&stream->h2->conn->link, header, WEIR_H2_FRAME_HEAD);
	while (error == 0 && length > 0) {
		weir_h2_part *part = stream->first;
		size_t piece = part->length < length ? (size_t)part->length : length;
		error = send_piece(stream, part, piece);
		used(stream, part, piece);
		length -= piece;
	}
	return error;
}

/* A small frame from memory is one write, as for most answers. */
static int send_small(weir_h2_stream *stream, const uint8_t *header, size_t length)
{
	char room[WEIR_H2_FRAME_HEAD + WEIR_H2_SMALL_BODY];
	weir_h2_part *part = stream->first;
	const char *bytes = part->buf != NULL ? (const char *)part->buf->data : part->bytes;
	memcpy(room, header, WEIR_H2_FRAME_HEAD);
	memcpy(room + WEIR_H2_FRAME_HEAD, bytes + part->offset, length);
	int error = weir_link_write(&stream->h2->conn->link, room, WEIR_H2_FRAME_HEAD + length);
	used(stream, part, length);
	return error;
}

/* ---- room ---- */

static size_t bound_of(const weir_h2_stream *stream)
{
	const weir_h2 *h2 = stream->h2;
	size_t bound = h2->conn->loop->limits.output_bytes;
	return h2->output >= WEIR_H2_OUTPUT && bound > WEIR_H2_OUTPUT_LITTLE ? WEIR_H2_OUTPUT_LITTLE : bound;
}

static void set_due(weir_h2_stream *stream)
{
	if (stream->flags & WEIR_H2_DUE)
		return;
	stream->flags |= WEIR_H2_DUE;
	stream->next_due = stream->h2->due;
	stream->h2->due = stream;
}

static void look_for_room(weir_h2_stream *stream)
{
	if (stream->flags & WEIR_H2_OWED && stream->output < bound_of(stream) / 2) {
		stream->flags &= ~(uint32_t)WEIR_H2_OWED;
		set_due(stream);
	}
}

bool weir_h2_run_due(weir_h2 *h2)
{
	bool any = h2->due != NULL;
	weir_h2_stream *stream;
	while ((stream = h2->due) != NULL) {
		h2->due = stream->next_due;
		stream->flags &= ~(uint32_t)WEIR_H2_DUE;
		weir_request *request = stream->request;
		if (request != NULL && !weir_request_is(request, WEIR_REQUEST_ENDED | WEIR_REQUEST_REST))
			weir_request_drained(request);
	}
	return any;
}

/* Beyond the bound nothing is taken, unless nothing waits. */
bool weir_h2_has_room(weir_h2_stream *stream, size_t length)
{
	size_t most = stream->h2->conn->loop->limits.output_bytes, bound = bound_of(stream);
	if (length <= most &&
	    (stream->output == 0 || (stream->output <= bound && length <= bound - stream->output)))
		return true;
	stream->flags |= WEIR_H2_OWED;
	/* More than the output can ever take: no progress would trigger drained. */
	if (stream->output == 0) {
		set_due(stream);
		weir_h2_go_on(stream->h2);
	}
	return false;
}

int weir_h2_send_parts(weir_h2_stream *stream, const uint8_t *head, size_t length)
{
	const weir_h2_part *part = stream->first;
	bool small = length <= WEIR_H2_SMALL_BODY && part->length >= length && part->file == NULL;
	int error = small ? send_small(stream, head, length) : send_pieces(stream, head, length);
	if (error == 0)
		look_for_room(stream);
	return error;
}

/* Called when the part is in: only then is it known how much room is left. */
int weir_h2_part_added(weir_h2_stream *stream, int error)
{
	if (error != 0)
		return error;
	if (stream->output > bound_of(stream) / 2)
		stream->flags |= WEIR_H2_OWED;
	weir_h2_awake(stream);
	return 0;
}

int weir_h2_add_text(weir_h2_stream *stream, const char *text, size_t length)
{
	weir_h2_part *part = add_part(stream, length);
	if (part == NULL)
		return -ENOMEM;
	part->bytes = text;
	return 0;
}
