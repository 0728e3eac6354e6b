/* SPDX-License-Identifier: Apache-2.0 */
#include "load/h2.h"

#include <ctype.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define FIELDS_MOST 80
#define NAMES_BYTES 4096
#define WINDOW      (1 << 20)

struct load_h2 {
	nghttp2_session *session;
	load_reader *reader;
	const char *authority;
	bool secure;
	int32_t stream; /* under way; 0: none */
	bool over, failed;
	weir_span body; /* what is left to be sent */
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

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags, void *user)
{
	load_h2 *h2 = user;
	load_meaning *meaning = &h2->reader->meaning;
	if (frame->hd.stream_id != h2->stream)
		return 0;
	h2->reader->bytes += name_length + value_length;
	if (is_named(name, name_length, ":status"))
		*meaning = (load_meaning){.status = (uint16_t)read_number(value, value_length, 999),
					  .keep = true};
	else if (is_named(name, name_length, "retry-after"))
		meaning->retry_after_s = read_number(value, value_length, 86400);
	else if (h2->reader->kept != NULL && is_named(name, name_length, "set-cookie"))
		load_kept_cookie(h2->reader->kept, (const char *)value, (uint32_t)value_length);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes,
		   size_t length, void *user)
{
	load_h2 *h2 = user;
	if (stream != h2->stream)
		return 0;
	h2->reader->bytes += length;
	if (h2->reader->kept != NULL)
		load_kept_body(h2->reader->kept, (const char *)bytes, length);
	return 0;
}

/* An answer may be whole although the server wants no more of the request (NO_ERROR). */
static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *user)
{
	load_h2 *h2 = user;
	if (stream != h2->stream)
		return 0;
	h2->stream = 0;
	if (error == NGHTTP2_NO_ERROR && h2->reader->meaning.status >= 200)
		h2->over = true;
	else
		h2->failed = true;
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	load_h2 *h2 = user;
	if (frame->hd.type == NGHTTP2_GOAWAY)
		h2->reader->meaning.keep = false;
	return 0;
}

/* ---- making one ---- */

static int make_session(load_h2 *h2)
{
	nghttp2_session_callbacks *calls;
	const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
						   {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
						   {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1}};
	if (nghttp2_session_callbacks_new(&calls) != 0)
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
	nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
	int error = nghttp2_session_client_new(&h2->session, calls, h2);
	nghttp2_session_callbacks_del(calls);
	if (error == 0)
		error = nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, 3);
	if (error == 0)
		error = nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, WINDOW);
	return error == 0 ? 0 : -ENOMEM;
}

int load_h2_new(load_reader *reader, const char *authority, bool secure, load_h2 **ret)
{
	load_h2 *h2 = weir_mem_zalloc(sizeof(*h2));
	if (h2 == NULL)
		return -ENOMEM;
	*h2 = (load_h2){.reader = reader, .authority = authority, .secure = secure};
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

typedef struct fields {
	nghttp2_nv nv[FIELDS_MOST];
	size_t count, used;
	char names[NAMES_BYTES];
} fields;

/* Names are sent in lower case; those that do not fit are left out. */
static void add(fields *f, const char *name, size_t name_length, const char *value, size_t value_length)
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

static void add_span(fields *f, const char *name, weir_span value)
{
	add(f, name, strlen(name), value.at, value.length);
}

static void add_lines(fields *f, weir_span lines)
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
	load_h2 *h2 = user;
	length = length < h2->body.length ? length : h2->body.length;
	memcpy(into, h2->body.at, length);
	h2->body.at += length;
	h2->body.length -= length;
	if (h2->body.length == 0)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)length;
}

static int flush(load_h2 *h2, weir_link *link)
{
	const uint8_t *bytes;
	ssize_t length;
	while ((length = nghttp2_session_mem_send(h2->session, &bytes)) > 0)
		/* Refused only by a connection that is ending, of which we will hear. */
		weir_link_write(link, bytes, (size_t)length);
	return length < 0 ? -EPROTO : 0;
}

int load_h2_ask(load_h2 *h2, weir_link *link, const load_form *form, weir_span target, weir_span cookies)
{
	fields f;
	const nghttp2_data_provider provider = {.read_callback = read_body};
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
	h2->body = form->body;
	h2->over = h2->failed = false;
	h2->stream = nghttp2_submit_request(h2->session, NULL, f.nv, f.count,
					    form->body.length > 0 ? &provider : NULL, NULL);
	if (h2->stream < 0) {
		h2->stream = 0;
		return -ENOMEM;
	}
	return flush(h2, link);
}

load_read load_h2_take(load_h2 *h2, weir_link *link, const char *bytes, size_t length)
{
	ssize_t used = nghttp2_session_mem_recv(h2->session, (const uint8_t *)bytes, length);
	if (used < 0 || h2->failed || flush(h2, link) != 0)
		return LOAD_READ_BAD;
	if (!nghttp2_session_want_read(h2->session) && !nghttp2_session_want_write(h2->session))
		h2->reader->meaning.keep = false;
	if (!h2->over)
		return LOAD_READ_MORE;
	h2->over = false;
	return LOAD_READ_DONE;
}
