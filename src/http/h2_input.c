/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames from bytes, however these are cut. DATA is passed on as it comes. Other frames are read where they
 * are, or collected first if they come in parts. A header block is decoded when it is complete.
 */
#include <string.h>

#include "base/mem.h"
#include "http/h2.h"

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#define PREFACE_BYTES (sizeof(preface) - 1)

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void out_of_memory(weir_h2 *h2)
{
	weir_h2_set_doom(h2, WEIR_H2_INTERNAL_ERROR, "out of memory");
}

static void broken(weir_h2 *h2, const char *why)
{
	weir_h2_set_doom(h2, WEIR_H2_PROTOCOL_ERROR, why);
}

static void take_fragment(weir_h2 *h2, const weir_h2_frame *frame, const uint8_t *bytes, size_t length)
{
	weir_h2_input *in = &h2->input;
	if (frame->type == WEIR_H2_HEADERS) {
		in->block = *frame;
		const char *why = weir_h2_frame_strip(frame, &bytes, &length);
		if (why != NULL) {
			broken(h2, why);
			return;
		}
		if (frame->flags & WEIR_H2_END_HEADERS) {
			h2->flags &= (uint16_t)~WEIR_H2_BLOCK;
			weir_h2_take_block(h2, frame, bytes, length);
			return;
		}
	}
	if (!weir_h2_gather_fragment(in, bytes, length)) {
		out_of_memory(h2);
	} else if (frame->flags & WEIR_H2_END_HEADERS) {
		/* An empty block is a block, too. */
		weir_h2_take_block(h2, &in->block, in->fragments != NULL ? in->fragments : in->head,
				   in->fragment_bytes);
		h2->flags &= (uint16_t)~WEIR_H2_BLOCK;
		weir_h2_gather_block_over(in);
	}
}

/* ---- DATA ---- */

/* NULL: nobody wants the bytes. */
static weir_h2_stream *receiver(const weir_h2 *h2, uint32_t id)
{
	weir_h2_stream *stream = weir_h2_find(h2, id);
	return stream != NULL && !(stream->flags & (WEIR_H2_RESET | WEIR_H2_RECEIVED)) ? stream : NULL;
}

static void end_data(weir_h2 *h2)
{
	const weir_h2_frame *frame = &h2->input.frame;
	weir_h2_stream *stream = receiver(h2, frame->id);
	weir_h2_gather_next(&h2->input);
	if (stream == NULL || !(frame->flags & WEIR_H2_END_STREAM))
		return;
	if (stream->length_left != WEIR_UNKNOWN_LENGTH && stream->length_left > 0) {
		weir_h2_stream_break(stream, WEIR_H2_PROTOCOL_ERROR);
		return;
	}
	weir_h2_body_end(stream);
	weir_h2_stream_done(stream);
}

static void give_padding_back(weir_h2 *h2, uint32_t length)
{
	weir_h2_stream *stream = receiver(h2, h2->input.frame.id);
	if (length > 0 && stream != NULL)
		weir_h2_window_back_stream(stream, length);
	else if (length > 0)
		weir_h2_window_back(h2, length);
}

static void begin_payload_of_data(weir_h2 *h2, uint32_t length, uint32_t padding)
{
	weir_h2_input *in = &h2->input;
	if (padding > length) {
		broken(h2, "more padding than there is");
		return;
	}
	in->phase = WEIR_H2_IN_DATA;
	in->left = length - padding;
	in->padding = padding;
	if (length == 0)
		end_data(h2);
}

static void begin_data(weir_h2 *h2)
{
	weir_h2_input *in = &h2->input;
	const weir_h2_frame *frame = &in->frame;
	weir_h2_stream *stream = weir_h2_find(h2, frame->id);
	if (stream == NULL && !weir_h2_judge_absent(h2, frame->id) && h2->doom_why != NULL)
		return;
	if (stream != NULL && stream->flags & WEIR_H2_RECEIVED && !(stream->flags & WEIR_H2_RESET))
		weir_h2_stream_break(stream, WEIR_H2_STREAM_CLOSED);
	if (!weir_h2_window_take(h2, receiver(h2, frame->id), frame->length))
		return;
	if (!(frame->flags & WEIR_H2_PADDED))
		begin_payload_of_data(h2, frame->length, 0);
	else if (frame->length == 0)
		broken(h2, "padding without its length");
	else
		in->phase = WEIR_H2_IN_PADDING_LENGTH;
}

static void take_padding_length(weir_h2 *h2, uint8_t padding)
{
	give_padding_back(h2, 1);
	begin_payload_of_data(h2, h2->input.frame.length - 1, padding);
}

static void give_data(weir_h2 *h2, const uint8_t *bytes, size_t length)
{
	weir_h2_stream *stream = receiver(h2, h2->input.frame.id);
	if (stream != NULL && length > stream->length_left) {
		weir_h2_stream_break(stream, WEIR_H2_PROTOCOL_ERROR);
		stream = NULL;
	}
	if (stream == NULL) {
		weir_h2_window_back(h2, length);
		return;
	}
	if (stream->length_left != WEIR_UNKNOWN_LENGTH)
		stream->length_left -= length;
	weir_h2_body_data(stream, bytes, length);
}

/* Bytes of DATA, then its padding. */
static const uint8_t *read_data(weir_h2 *h2, const uint8_t *at, const uint8_t *end)
{
	weir_h2_input *in = &h2->input;
	size_t length = least((size_t)(end - at), in->left);
	if (length > 0) {
		in->left -= (uint32_t)length;
		give_data(h2, at, length);
		at += length;
	}
	length = in->left == 0 ? least((size_t)(end - at), in->padding) : 0;
	give_padding_back(h2, (uint32_t)length);
	in->padding -= (uint32_t)length;
	if (in->left == 0 && in->padding == 0)
		end_data(h2);
	return at + length;
}

/* ---- the beginning of a frame ---- */

/* Ends the connection if a guard has objected. */
static bool judged(weir_h2 *h2, const char *why)
{
	if (why != NULL)
		weir_h2_set_doom(h2, WEIR_H2_ENHANCE_YOUR_CALM, why);
	return why == NULL;
}

static bool judge_data(weir_h2 *h2, const weir_h2_frame *frame)
{
	if (frame->length > 0)
		weir_h2_guard_earned(&h2->guard, 1);
	else if (!(frame->flags & WEIR_H2_END_STREAM))
		return judged(h2, weir_h2_guard_idling(&h2->guard, weir_h2_now(h2)));
	return true;
}

static bool judge_cost(weir_h2 *h2, const weir_h2_frame *frame)
{
	bool first = frame->type == WEIR_H2_HEADERS;
	switch (frame->type) {
	case WEIR_H2_DATA:
		return judge_data(h2, frame);
	case WEIR_H2_HEADERS:
		h2->block_ns = weir_h2_now(h2);
		h2->flags |= WEIR_H2_BLOCK;
		/* fall through */
	case WEIR_H2_CONTINUATION:
		return judged(h2, weir_h2_guard_block(&h2->guard, first, frame->length));
	case WEIR_H2_RST_STREAM:
		return true; /* counted when it has been read */
	default:
		return judged(h2, weir_h2_guard_idling(&h2->guard, weir_h2_now(h2)));
	}
}

/* Whether the frame may come now. */
static bool judge_order(weir_h2 *h2, const weir_h2_frame *frame)
{
	const char *why = NULL;
	bool continues = frame->type == WEIR_H2_CONTINUATION;
	if (!(h2->flags & WEIR_H2_GREETED) && (frame->type != WEIR_H2_SETTINGS || frame->flags & WEIR_H2_ACK))
		why = "no settings behind the preface";
	else if (h2->flags & WEIR_H2_BLOCK && (!continues || frame->id != h2->input.block.id))
		why = "another frame within a header block";
	else if (!(h2->flags & WEIR_H2_BLOCK) && continues)
		why = "CONTINUATION without a header block";
	if (why != NULL)
		broken(h2, why);
	return why == NULL;
}

static bool is_skipped(const weir_h2_frame *frame)
{
	return frame->type == WEIR_H2_PRIORITY ||
	       (frame->type > WEIR_H2_CONTINUATION && frame->type != WEIR_H2_PRIORITY_UPDATE);
}

static void take_frame(weir_h2 *h2, const uint8_t *payload);

static void begin_frame(weir_h2 *h2)
{
	weir_h2_input *in = &h2->input;
	weir_h2_code code;
	const char *why = weir_h2_frame_check(&in->frame, &code);
	if (why != NULL) {
		weir_h2_set_doom(h2, code, why);
		return;
	}
	if (!judge_order(h2, &in->frame) || !judge_cost(h2, &in->frame))
		return;
	if (in->frame.type == WEIR_H2_DATA) {
		begin_data(h2);
	} else if (is_skipped(&in->frame)) {
		in->phase = in->frame.length > 0 ? WEIR_H2_IN_SKIPPED : WEIR_H2_IN_HEAD;
		in->left = in->frame.length;
	} else {
		in->phase = WEIR_H2_IN_PAYLOAD;
		if (in->frame.length == 0)
			take_frame(h2, in->head);
	}
}

/* ---- complete frames ---- */

static void take_frame(weir_h2 *h2, const uint8_t *payload)
{
	/* A handler may make nothing be read any more, but nothing else of this. */
	weir_h2_frame frame = h2->input.frame;
	weir_h2_gather_next(&h2->input);
	switch (frame.type) {
	case WEIR_H2_HEADERS:
	case WEIR_H2_CONTINUATION:
		take_fragment(h2, &frame, payload, frame.length);
		break;
	case WEIR_H2_RST_STREAM:
		weir_h2_take_reset(h2, &frame, payload);
		break;
	case WEIR_H2_SETTINGS:
		weir_h2_take_settings(h2, &frame, payload);
		break;
	case WEIR_H2_PING:
		weir_h2_take_ping(h2, &frame, payload);
		break;
	case WEIR_H2_GOAWAY:
		h2->flags |= WEIR_H2_LEAVES;
		break;
	case WEIR_H2_WINDOW_UPDATE:
		weir_h2_take_window(h2, &frame, payload);
		break;
	default:
		weir_h2_take_priority(h2, &frame, payload);
		break;
	}
}

/* ---- bytes ---- */

static const uint8_t *read_preface(weir_h2 *h2, const uint8_t *at, const uint8_t *end)
{
	weir_h2_input *in = &h2->input;
	size_t length = least((size_t)(end - at), PREFACE_BYTES - in->have);
	if (memcmp(preface + in->have, at, length) != 0) {
		broken(h2, "not the preface of HTTP/2");
		return end;
	}
	in->have += (uint32_t)length;
	if (in->have == PREFACE_BYTES)
		weir_h2_gather_next(&h2->input);
	return at + length;
}

static const uint8_t *read_head(weir_h2 *h2, const uint8_t *at, const uint8_t *end)
{
	if (weir_h2_gather_head(&h2->input, &at, end))
		begin_frame(h2);
	return at;
}

static const uint8_t *read_payload(weir_h2 *h2, const uint8_t *at, const uint8_t *end)
{
	const uint8_t *payload;
	uint8_t *own;
	int got = weir_h2_gather_payload(&h2->input, &at, end, &payload, &own);
	if (got < 0) {
		out_of_memory(h2);
		return end;
	}
	if (got > 0) {
		take_frame(h2, payload);
		weir_mem_free(own);
	}
	return at;
}

static const uint8_t *read_some(weir_h2 *h2, const uint8_t *at, const uint8_t *end)
{
	switch (h2->input.phase) {
	case WEIR_H2_IN_PREFACE:
		return read_preface(h2, at, end);
	case WEIR_H2_IN_HEAD:
		return read_head(h2, at, end);
	case WEIR_H2_IN_PAYLOAD:
		return read_payload(h2, at, end);
	case WEIR_H2_IN_PADDING_LENGTH:
		take_padding_length(h2, *at);
		return at + 1;
	case WEIR_H2_IN_DATA:
		return read_data(h2, at, end);
	default:
		return weir_h2_gather_nothing(&h2->input, at, end);
	}
}

void weir_h2_read(weir_h2 *h2, const uint8_t *at, size_t length)
{
	const uint8_t *end = at + length;
	while (at < end && h2->doom_why == NULL && !(h2->flags & WEIR_H2_CLOSED))
		at = read_some(h2, at, end);
}

void weir_h2_input_fini(weir_h2 *h2)
{
	weir_h2_gather_fini(&h2->input);
}
