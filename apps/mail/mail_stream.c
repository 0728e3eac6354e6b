/* SPDX-License-Identifier: Apache-2.0 */
#include "mail_stream.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* ---- sources ---- */

int mail_read_memory(const mail_source *source, uint64_t offset, void *to, size_t length)
{
	if (offset >= source->bytes)
		return 0;
	if (length > source->bytes - offset)
		length = source->bytes - offset;
	if (length > INT32_MAX)
		length = INT32_MAX;
	memcpy(to, (const char *)source->memory + offset, length);
	return (int)length;
}

int mail_read_fd(const mail_source *source, uint64_t offset, void *to, size_t length)
{
	if (offset >= source->bytes)
		return 0;
	if (length > source->bytes - offset)
		length = source->bytes - offset;
	ssize_t got;
	do
		got = pread(source->fd, to, length > INT32_MAX ? INT32_MAX : length, (off_t)offset);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : (int)got;
}

mail_source mail_from_memory(const void *memory, size_t bytes)
{
	return (mail_source){.read = mail_read_memory, .bytes = bytes, .memory = memory, .fd = -1};
}

mail_source mail_from_fd(int fd, uint64_t bytes)
{
	return (mail_source){.read = mail_read_fd, .bytes = bytes, .fd = fd};
}

/* ---- the guard ---- */

#define LINE_MAX_BYTES   250u         /* of a boundary; the parser is not given longer ones */
#define HELD_BYTES       16384u       /* more than the parser reads at a time */
#define HEADER_BYTES_MAX (256u << 10) /* of a header; Postfix takes 100 KB */
#define COMPARISONS_MAX  (200u << 20) /* of lines with boundaries, by the parser */

struct mail_guard {
	const char *refusal;
	GHashTable *boundaries; /* with "--" before them */
	unsigned fields, containers, parts;
	uint64_t comparisons;
	bool in_header;
	size_t header_bytes;
	/* The line that is being read: its length, and as much of it as may be a boundary. */
	size_t line_length;
	char line[LINE_MAX_BYTES + 8];
	/* What the parser was given last. It is looked at when the parser comes back, which then knows its boundaries. */
	char held[HELD_BYTES];
	size_t held_bytes;
};

static void refuse(mail_guard *g, const char *why)
{
	if (g->refusal == NULL)
		g->refusal = why;
}

/* The parser has read a header field. */
static void see_field(GMimeParser *parser, const char *name, const char *value, gint64 offset, gpointer arg)
{
	mail_guard *g = arg;
	if (++g->fields > MAIL_FIELDS_MAX)
		refuse(g, "it has too many header fields");
	if (strlen(value) > MAIL_FIELD_BYTES_MAX) {
		refuse(g, "a header field is too long");
		return;
	}
	if (g->refusal != NULL || g_ascii_strcasecmp(name, "Content-Type") != 0)
		return;
	GMimeContentType *type = g_mime_content_type_parse(NULL, value);
	const char *boundary = g_mime_content_type_get_parameter(type, "boundary");
	if (boundary != NULL && strlen(boundary) > LINE_MAX_BYTES)
		refuse(g, "a boundary of its parts is too long");
	else if (boundary != NULL)
		g_hash_table_add(g->boundaries, g_strconcat("--", boundary, NULL));
	if (boundary != NULL || g_mime_content_type_is_type(type, "message", "*"))
		g->containers++;
	if (g->containers > MAIL_PARTS_MAX)
		refuse(g, "it has too many parts");
	g_object_unref(type);
}

mail_guard *mail_guard_new(GMimeParser *parser)
{
	mail_guard *g = g_new0(mail_guard, 1);
	g->boundaries = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	g->in_header = true;
	g_mime_parser_set_header_regex(parser, "^", see_field, g);
	return g;
}

void mail_guard_free(mail_guard *guard)
{
	g_hash_table_destroy(guard->boundaries);
	g_free(guard);
}

const char *mail_guard_refusal(const mail_guard *guard)
{
	return guard->refusal;
}

/* A line that begins with "--". Does it begin or end a part? */
static void see_dashes(mail_guard *g)
{
	size_t length = g->line_length;
	g->comparisons += g_hash_table_size(g->boundaries);
	if (g->comparisons > COMPARISONS_MAX)
		refuse(g, "too many of its lines look like boundaries");
	if (length > LINE_MAX_BYTES + 4)
		return;
	while (length > 0 && strchr(" \t\r", g->line[length - 1]) != NULL)
		length--;
	g->line[length] = '\0';
	bool found = g_hash_table_contains(g->boundaries, g->line);
	if (!found && length > 4 && memcmp(g->line + length - 2, "--", 2) == 0) {
		g->line[length - 2] = '\0';
		if (!g_hash_table_contains(g->boundaries, g->line))
			return;
	} else if (!found) {
		return;
	}
	if (++g->parts > 2 * MAIL_PARTS_MAX)
		refuse(g, "it has too many parts");
	g->in_header = found;
	g->header_bytes = 0;
}

static void see_line(mail_guard *g)
{
	bool blank = g->line_length == 0 || (g->line_length == 1 && g->line[0] == '\r');
	if (g->in_header) {
		g->header_bytes += g->line_length + 1;
		g->in_header = !blank;
	}
	if (g->line_length >= 2 && g->line[0] == '-' && g->line[1] == '-')
		see_dashes(g);
	g->line_length = 0;
}

static void add_to_line(mail_guard *g, const char *bytes, size_t length)
{
	for (size_t i = 0; i < length && g->line_length + i < sizeof(g->line) - 1; i++)
		g->line[g->line_length + i] = bytes[i];
	g->line_length += length;
	if (g->in_header && g->header_bytes + g->line_length > HEADER_BYTES_MAX)
		refuse(g, "a header is too long");
}

static void look_at(mail_guard *g, const char *bytes, size_t length)
{
	while (length > 0 && g->refusal == NULL) {
		const char *end = memchr(bytes, '\n', length);
		size_t part = end != NULL ? (size_t)(end - bytes) : length;
		add_to_line(g, bytes, part);
		if (end != NULL)
			see_line(g);
		part += end != NULL;
		bytes += part;
		length -= part;
	}
}

static void look_at_next(mail_guard *g, const char *bytes, size_t length)
{
	look_at(g, g->held, g->held_bytes);
	g->held_bytes = 0;
	if (length > HELD_BYTES) {
		look_at(g, bytes, length);
	} else {
		memcpy(g->held, bytes, length);
		g->held_bytes = length;
	}
}

/* ---- streams ---- */

typedef struct mail_stream {
	GMimeStream parent;
	const mail_source *source;
	mail_guard *guard;
	int *error; /* of the first stream of this source, which outlives those of parts */
	int own_error;
	mail_sink_fn *sink;
	void *arg;
	int *sink_error;
} mail_stream;

typedef struct mail_stream_class {
	GMimeStreamClass parent;
} mail_stream_class;

static mail_stream *of(GMimeStream *stream)
{
	return (mail_stream *)stream;
}

static gint64 stream_end(GMimeStream *stream)
{
	gint64 bytes = of(stream)->source != NULL ? (gint64)of(stream)->source->bytes : 0;
	return stream->bound_end >= 0 && stream->bound_end < bytes ? stream->bound_end : bytes;
}

static ssize_t stream_read(GMimeStream *stream, char *to, size_t length)
{
	mail_stream *s = of(stream);
	gint64 left = stream_end(stream) - stream->position;
	if (s->source == NULL || left <= 0)
		return s->source == NULL ? -1 : 0;
	if (length > (size_t)left)
		length = (size_t)left;
	int got = s->source->read(s->source, (uint64_t)stream->position, to, length);
	if (got < 0)
		*s->error = got;
	if (got > 0 && s->guard != NULL)
		look_at_next(s->guard, to, (size_t)got);
	if (got < 0 || (s->guard != NULL && s->guard->refusal != NULL))
		return -1;
	stream->position += got;
	return got;
}

static ssize_t stream_write(GMimeStream *stream, const char *bytes, size_t length)
{
	mail_stream *s = of(stream);
	if (s->sink == NULL || *s->sink_error != 0)
		return -1;
	*s->sink_error = s->sink(s->arg, bytes, length);
	if (*s->sink_error != 0)
		return -1;
	stream->position += (gint64)length;
	return (ssize_t)length;
}

static int stream_nothing(GMimeStream *stream)
{
	return 0;
}

static gboolean stream_eos(GMimeStream *stream)
{
	return of(stream)->source == NULL || *of(stream)->error != 0 ||
	       stream->position >= stream_end(stream) ||
	       (of(stream)->guard != NULL && of(stream)->guard->refusal != NULL);
}

static int stream_reset(GMimeStream *stream)
{
	stream->position = stream->bound_start;
	return 0;
}

static gint64 stream_seek(GMimeStream *stream, gint64 offset, GMimeSeekWhence whence)
{
	gint64 from = whence == GMIME_STREAM_SEEK_SET   ? 0
		      : whence == GMIME_STREAM_SEEK_CUR ? stream->position
							: stream_end(stream);
	gint64 to = from + offset;
	if (to < stream->bound_start || to > stream_end(stream))
		return -1;
	stream->position = to;
	return to;
}

static gint64 stream_tell(GMimeStream *stream)
{
	return stream->position;
}

static gint64 stream_length(GMimeStream *stream)
{
	return stream_end(stream) - stream->bound_start;
}

static GMimeStream *stream_new(gint64 start, gint64 end);

static GMimeStream *stream_substream(GMimeStream *stream, gint64 start, gint64 end)
{
	GMimeStream *part = stream_new(start, end);
	of(part)->source = of(stream)->source;
	of(part)->error = of(stream)->error;
	return part;
}

static void stream_class_init(gpointer klass, gpointer data)
{
	GMimeStreamClass *c = klass;
	c->read = stream_read;
	c->write = stream_write;
	c->flush = stream_nothing;
	c->close = stream_nothing;
	c->eos = stream_eos;
	c->reset = stream_reset;
	c->seek = stream_seek;
	c->tell = stream_tell;
	c->length = stream_length;
	c->substream = stream_substream;
}

static GType stream_type(void)
{
	static gsize type;
	if (g_once_init_enter(&type)) {
		static const GTypeInfo info = {.class_size = sizeof(mail_stream_class),
					       .class_init = stream_class_init,
					       .instance_size = sizeof(mail_stream)};
		g_once_init_leave(&type, g_type_register_static(GMIME_TYPE_STREAM, "mail_stream", &info, 0));
	}
	return type;
}

static GMimeStream *stream_new(gint64 start, gint64 end)
{
	GMimeStream *stream = g_object_new(stream_type(), NULL);
	g_mime_stream_construct(stream, start, end);
	of(stream)->error = &of(stream)->own_error;
	return stream;
}

GMimeStream *mail_stream_reading(const mail_source *source, mail_guard *guard)
{
	GMimeStream *stream = stream_new(0, (gint64)source->bytes);
	of(stream)->source = source;
	of(stream)->guard = guard;
	return stream;
}

void mail_stream_unguard(GMimeStream *stream)
{
	of(stream)->guard = NULL;
}

int mail_stream_error(GMimeStream *stream)
{
	return *of(stream)->error;
}

GMimeStream *mail_stream_writing(mail_sink_fn *sink, void *arg, int *ret_error)
{
	GMimeStream *stream = stream_new(0, -1);
	of(stream)->sink = sink;
	of(stream)->arg = arg;
	of(stream)->sink_error = ret_error;
	*ret_error = 0;
	return stream;
}
