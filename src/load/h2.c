/* SPDX-License-Identifier: Apache-2.0 */
#include "load/h2.h"

#include <ctype.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define FIELDS_MOST   80
#define NAMES_BYTES   4096
#define INTERIMS_MOST 16
/* As large as possible, so that the service is measured and not a window; input is read at once. */
#define STREAM_WINDOW     (1 << 20)
#define CONNECTION_WINDOW (1 << 30)

struct load_h2 {
	nghttp2_session *session;
	const char *authority;
	bool secure, settled;
	uint64_t now_ns; /* time of the bytes being processed */
	load_stream *over, **over_end;
};

/* ---- answers ---- */

static unsigned read_number(const uint8_t *text, size_t length, unsigned most)
{
	unsigned number = 0;
	for (size_t i = 0; i < length; i++) {
		if (!isdigit(text[i]))
			return 0;
		number = number * 10 + (unsigned)(text[i] - '0');
		if (number > most)
			return most;
	}
	return number;
}

static bool is_named(const uint8_t *name, size_t length, const char *text)
{
	return length == strlen(text) && memcmp(name, text, length) == 0;
}

/* From now on the stream belongs to nobody. The caller learns of it when all bytes have been processed. */
static void end_stream(load_h2 *h2, load_stream *stream, load_stream_end end)
{
	nghttp2_session_set_stream_user_data(h2->session, stream->id, NULL);
	stream->id = 0;
	stream->end = end;
	stream->next = NULL;
	*h2->over_end = stream;
	h2->over_end = &stream->next;
}

/* The peer exceeds a bound on this stream; the others may continue. */
static void end_badly(load_h2 *h2, load_stream *stream)
{
	nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_ENHANCE_YOUR_CALM);
	end_stream(h2, stream, LOAD_STREAM_NONSENSE);
}

/* NULL: it was cancelled, or is over. */
static load_stream *stream_of(nghttp2_session *session, int32_t id)
{
	return id != 0 ? nghttp2_session_get_stream_user_data(session, id) : NULL;
}

static void read_status(load_stream *stream, const uint8_t *value, size_t length)
{
	stream->reader.meaning =
		(load_meaning){.status = (uint16_t)read_number(value, length, 999), .keep = true};
	stream->reader.interims += stream->reader.meaning.status < 200;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags, void *user)
{
	load_h2 *h2 = user;
	load_stream *stream = stream_of(session, frame->hd.stream_id);
	if (stream == NULL)
		return 0;
	load_reader *reader = &stream->reader;
	reader->bytes += name_length + value_length;
	stream->head_bytes += (uint32_t)(name_length + value_length);
	if (stream->first_byte_ns == 0)
		stream->first_byte_ns = h2->now_ns;
	if (is_named(name, name_length, ":status"))
		read_status(stream, value, value_length);
	else if (is_named(name, name_length, "retry-after"))
		reader->meaning.retry_after_s = read_number(value, value_length, 86400);
	else if (reader->kept != NULL && is_named(name, name_length, "set-cookie"))
		load_kept_cookie(reader->kept, (const char *)value, (uint32_t)value_length);
	if (stream->head_bytes > LOAD_HEAD_BYTES || reader->interims > INTERIMS_MOST)
		end_badly(h2, stream);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t length,
		   void *user)
{
	load_stream *stream = stream_of(session, id);
	if (stream == NULL)
		return 0;
	stream->reader.bytes += length;
	if (stream->reader.kept != NULL)
		load_kept_body(stream->reader.kept, (const char *)bytes, length);
	return 0;
}

/* An answer is over with its last frame, whether or not the server has read the whole request. */
static void on_last(load_h2 *h2, load_stream *stream)
{
	if (stream->body.length > 0)
		nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
	end_stream(h2, stream, LOAD_STREAM_DONE);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	load_h2 *h2 = user;
	load_stream *stream = stream_of(session, frame->hd.stream_id);
	bool content = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
	if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0)
		h2->settled = true;
	else if (stream != NULL && frame->hd.type == NGHTTP2_RST_STREAM)
		end_stream(h2, stream,
			   frame->rst_stream.error_code == NGHTTP2_REFUSED_STREAM ? LOAD_STREAM_REFUSED
										  : LOAD_STREAM_RESET);
	else if (stream != NULL && content && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
		 stream->reader.meaning.status >= 200)
		on_last(h2, stream);
	return 0;
}

/*
 * The stream still has an owner: a GOAWAY excluded it, it could not be sent, or nghttp2 reset it because
 * the input was not a valid answer.
 */
static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
	load_stream *stream = stream_of(session, id);
	if (stream != NULL)
		end_stream(user, stream,
			   error == NGHTTP2_REFUSED_STREAM ? LOAD_STREAM_REFUSED : LOAD_STREAM_NONSENSE);
	return 0;
}

/* ---- initialisation ---- */

static int make_session(load_h2 *h2)
{
	nghttp2_session_callbacks *calls;
	nghttp2_option *option;
	const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
						   {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW}};
	if (nghttp2_session_callbacks_new(&calls) != 0)
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
	nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
	int error = nghttp2_option_new(&option);
	if (error == 0) {
		/* A server that allows fewer and has not said so yet would refuse more. */
		nghttp2_option_set_peer_max_concurrent_streams(option, 1);
		error = nghttp2_session_client_new2(&h2->session, calls, h2, option);
		nghttp2_option_del(option);
	}
	nghttp2_session_callbacks_del(calls);
	if (error == 0)
		error = nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, 2);
	if (error == 0)
		error = nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
							      CONNECTION_WINDOW);
	return error == 0 ? 0 : -ENOMEM;
}

int load_h2_new(const char *authority, bool secure, load_h2 **ret)
{
	load_h2 *h2 = weir_mem_zalloc(sizeof(*h2));
	if (h2 == NULL)
		return -ENOMEM;
	*h2 = (load_h2){.authority = authority, .secure = secure};
	h2->over_end = &h2->over;
	int error = make_session(h2);
	if (error != 0)
		load_h2_free(h2);
	else
		*ret = h2;
	return error;
}

void load_h2_free(load_h2 *h2)
{
	if (h2 == NULL)
		return;
	nghttp2_session_del(h2->session);
	weir_mem_free(h2);
}

/* ---- requests ---- */

typedef struct h2_fields {
	nghttp2_nv nv[FIELDS_MOST];
	size_t count, used;
	char names[NAMES_BYTES];
} h2_fields;

/* Names are sent in lower case; fields that do not fit are omitted. */
static void add(h2_fields *f, const char *name, size_t name_length, const char *value, size_t value_length)
{
	if (f->count == FIELDS_MOST || name_length > NAMES_BYTES - f->used)
		return;
	char *lower = f->names + f->used;
	for (size_t i = 0; i < name_length; i++)
		lower[i] = (char)tolower((unsigned char)name[i]);
	f->used += name_length;
	f->nv[f->count++] = (nghttp2_nv){.name = (uint8_t *)lower,
					 .namelen = name_length,
					 .value = (uint8_t *)(uintptr_t)value,
					 .valuelen = value_length};
}

static void add_span(h2_fields *f, const char *name, weir_span value)
{
	add(f, name, strlen(name), value.at, value.length);
}

static void add_lines(h2_fields *f, weir_span lines)
{
	const char *at = lines.at, *end = lines.at + lines.length;
	while (at < end) {
		const char *stop = memchr(at, '\r', (size_t)(end - at));
		stop = stop != NULL ? stop : end;
		const char *colon = memchr(at, ':', (size_t)(stop - at));
		if (colon != NULL) {
			const char *value = colon + 1;
			while (value < stop && *value == ' ')
				value++;
			add(f, at, (size_t)(colon - at), value, (size_t)(stop - value));
		}
		at = stop + 2;
	}
}

static ssize_t read_body(nghttp2_session *session, int32_t stream, uint8_t *into, size_t length,
			 uint32_t *flags, nghttp2_data_source *source, void *user)
{
	load_stream *of = source->ptr;
	length = length < of->body.length ? length : of->body.length;
	memcpy(into, of->body.at, length);
	of->body.at += length;
	of->body.length -= length;
	if (of->body.length == 0)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)length;
}

ssize_t load_h2_output(load_h2 *h2, const uint8_t **ret)
{
	ssize_t length = nghttp2_session_mem_send(h2->session, ret);
	return length < 0 ? -EPROTO : length;
}

int load_h2_ask(load_h2 *h2, load_stream *stream, const load_form *form, weir_span target, weir_span cookies)
{
	h2_fields f;
	const nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = read_body};
	char length[24];
	f.count = f.used = 0;
	add_span(&f, ":method", form->method);
	add_span(&f, ":scheme", h2->secure ? WEIR_SPAN("https") : WEIR_SPAN("http"));
	add_span(&f, ":authority", (weir_span){h2->authority, strlen(h2->authority)});
	add_span(&f, ":path", target.length > 0 ? target : form->target);
	add_lines(&f, form->fields);
	if (cookies.length > 0)
		add_span(&f, "cookie", cookies);
	if (form->body.length > 0) {
		snprintf(length, sizeof(length), "%zu", form->body.length);
		add_span(&f, "content-length", (weir_span){length, strlen(length)});
	}
	stream->body = form->body;
	stream->head_bytes = 0;
	int32_t id = nghttp2_submit_request(h2->session, NULL, f.nv, f.count,
					    form->body.length > 0 ? &provider : NULL, stream);
	if (id < 0)
		return -ENOMEM;
	stream->id = id;
	return 0;
}

void load_h2_cancel(load_h2 *h2, load_stream *stream)
{
	if (stream->id == 0)
		return;
	nghttp2_session_set_stream_user_data(h2->session, stream->id, NULL);
	nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
	stream->id = 0;
}

int load_h2_take(load_h2 *h2, const char *bytes, size_t length, uint64_t now_ns)
{
	h2->now_ns = now_ns;
	return nghttp2_session_mem_recv(h2->session, (const uint8_t *)bytes, length) < 0 ? -EPROTO : 0;
}

load_stream *load_h2_over(load_h2 *h2)
{
	load_stream *stream = h2->over;
	if (stream == NULL)
		return NULL;
	h2->over = stream->next;
	if (h2->over == NULL)
		h2->over_end = &h2->over;
	return stream;
}

bool load_h2_is_open(const load_h2 *h2)
{
	return nghttp2_session_check_request_allowed(h2->session) != 0;
}

bool load_h2_is_dead(const load_h2 *h2)
{
	return !nghttp2_session_want_read(h2->session) && !nghttp2_session_want_write(h2->session);
}

uint32_t load_h2_most(const load_h2 *h2)
{
	return h2->settled ? nghttp2_session_get_remote_settings(h2->session,
								 NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
			   : UINT32_MAX;
}
