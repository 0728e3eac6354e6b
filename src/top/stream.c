/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the bytes of an answer to events. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "top/feed.h"

void weir_top_stream_fini(weir_top_stream *stream)
{
	weir_mem_free(stream->bytes);
	*stream = (weir_top_stream){0};
}

/* The buffer doubles, up to the bound of an event. */
static int make_room(weir_top_stream *stream, size_t more)
{
	size_t room = stream->room != 0 ? stream->room : 2 * WEIR_TOP_HEAD_BYTES;
	if (stream->length + more <= stream->room)
		return 0;
	if (stream->length + more > WEIR_TOP_EVENT_BYTES)
		return weir_error_set(-EMSGSIZE, "it sent an event of more than %u MB",
				      WEIR_TOP_EVENT_BYTES >> 20);
	while (room < stream->length + more)
		room *= 2;
	char *bytes = weir_mem_zalloc(room);
	if (bytes == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	if (stream->length != 0)
		memcpy(bytes, stream->bytes, stream->length);
	weir_mem_free(stream->bytes);
	stream->bytes = bytes;
	stream->room = room;
	return 0;
}

static int append(weir_top_stream *stream, const char *bytes, size_t length)
{
	int failed = make_room(stream, length);
	if (failed == 0 && length != 0) {
		memcpy(stream->bytes + stream->length, bytes, length);
		stream->length += length;
	}
	return failed;
}

/* ---- events ---- */

/* The value of a line "name: value"; NULL: another line. */
static const char *value_of(const char *line, size_t length, const char *name, size_t *ret_length)
{
	size_t skip = strlen(name);
	if (length <= skip || memcmp(line, name, skip) != 0 || line[skip] != ':')
		return NULL;
	skip += skip + 1 < length && line[skip + 1] == ' ' ? 2 : 1;
	*ret_length = length - skip;
	return line + skip;
}

/* One event, without the empty line at its end. Our server sends the data in one line. */
static void tell(const char *text, size_t length, weir_top_on_event *on_event, void *arg)
{
	static const char wanted[] = "snapshot";
	const char *data = NULL, *end = text + length;
	size_t data_length = 0, value_length;
	bool named = false;
	for (const char *line = text; line < end;) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		size_t line_length = (size_t)((stop != NULL ? stop : end) - line);
		const char *value = value_of(line, line_length, "event", &value_length);
		if (value != NULL)
			named = value_length == sizeof(wanted) - 1 &&
				memcmp(value, wanted, value_length) == 0;
		value = value_of(line, line_length, "data", &value_length);
		if (value != NULL && data == NULL) {
			data = value;
			data_length = value_length;
		}
		line += line_length + 1;
	}
	if (named && data != NULL)
		on_event(data, data_length, arg);
}

/* The end of a line. An empty line ends the event. A carriage return before the end is not part of a line. */
static int end_line(weir_top_stream *stream, weir_top_on_event *on_event, void *arg)
{
	if (stream->length > 0 && stream->bytes[stream->length - 1] == '\r')
		stream->length--;
	if (stream->length > 0 && stream->bytes[stream->length - 1] == '\n') {
		tell(stream->bytes, stream->length, on_event, arg);
		stream->length = 0;
		return 0;
	}
	return append(stream, "\n", 1);
}

static int take_body(weir_top_stream *stream, const char *bytes, size_t length, weir_top_on_event *on_event,
		     void *arg)
{
	while (length > 0) {
		const char *feed = memchr(bytes, '\n', length);
		size_t line = feed != NULL ? (size_t)(feed - bytes) : length;
		int failed = append(stream, bytes, line);
		if (failed == 0 && feed != NULL)
			failed = end_line(stream, on_event, arg);
		if (failed != 0)
			return failed;
		line += feed != NULL;
		bytes += line;
		length -= line;
	}
	return 0;
}

static int take_chunks(weir_top_stream *stream, const char *bytes, size_t length, weir_top_on_event *on_event,
		       void *arg)
{
	while (length > 0) {
		size_t used = 0, data = 0, data_length = 0;
		weir_parse parsed =
			weir_chunks_take(&stream->chunks, bytes, length, &used, &data, &data_length);
		if (parsed == WEIR_PARSE_BAD)
			return weir_error_set(-EPROTO, "it sent no HTTP: %s", stream->chunks.error);
		int failed = take_body(stream, bytes + data, data_length, on_event, arg);
		if (failed != 0)
			return failed;
		if (parsed == WEIR_PARSE_DONE)
			return weir_error_set(-ENODATA, "it ended the connection");
		if (used == 0)
			break;
		bytes += used;
		length -= used;
	}
	return 0;
}

/* ---- the head ---- */

static int judge(const weir_top_stream *stream)
{
	switch (stream->head.status) {
	case 200:
		return 0;
	case 401:
		return weir_error_set(-EACCES, "it wants another token, or one: --token-file FILE");
	case 404:
		return weir_error_set(-ENOENT, "that is no admin listener of weir: it answered with 404");
	case 421:
		return weir_error_set(-EACCES, "it does not answer to that name (421); use its address");
	default:
		return weir_error_set(-EPROTO, "it answered with %u", stream->head.status);
	}
}

/* The bytes after the head are moved to the front and processed as the body. */
static int take_rest(weir_top_stream *stream, weir_top_on_event *on_event, void *arg)
{
	char *all = stream->bytes;
	size_t head = stream->head.length, length = stream->length;
	stream->has_head = true;
	stream->chunked = stream->head.framing == WEIR_BODY_CHUNKED;
	stream->bytes = NULL;
	stream->length = stream->room = 0;
	int failed = judge(stream);
	if (failed == 0)
		failed = stream->chunked ? take_chunks(stream, all + head, length - head, on_event, arg)
					 : take_body(stream, all + head, length - head, on_event, arg);
	weir_mem_free(all);
	return failed;
}

static int take_head(weir_top_stream *stream, const char *bytes, size_t length, weir_top_on_event *on_event,
		     void *arg)
{
	static const weir_head_limits limits = {
		.line_bytes = 1024, .head_bytes = WEIR_TOP_HEAD_BYTES, .fields = WEIR_TOP_FIELDS};
	if (stream->length == 0)
		weir_head_init(&stream->head);
	int failed = append(stream, bytes, length);
	if (failed != 0)
		return failed;
	switch (weir_parse_answer(&stream->head, stream->bytes, stream->length, &limits, WEIR_METHOD_GET,
				  stream->fields)) {
	case WEIR_PARSE_MORE:
		return 0;
	case WEIR_PARSE_DONE:
		return take_rest(stream, on_event, arg);
	default:
		return weir_error_set(-EPROTO, "it sent no HTTP: %s", stream->head.error);
	}
}

int weir_top_stream_take(weir_top_stream *stream, const char *bytes, size_t length,
			 weir_top_on_event *on_event, void *arg)
{
	if (!stream->has_head)
		return length != 0 ? take_head(stream, bytes, length, on_event, arg) : 0;
	return stream->chunked ? take_chunks(stream, bytes, length, on_event, arg)
			       : take_body(stream, bytes, length, on_event, arg);
}
