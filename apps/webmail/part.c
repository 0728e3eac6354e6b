/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attachments and sources, as streams: /part/17/2 is the second part of message 17, /source/17 is all of
 * it. They are decoded in pieces while the client reads, so memory does not grow with them. What is not an
 * image of a known type is only ever downloaded, so that no browser takes it for a page of ours.
 */
#include <errno.h>
#include <string.h>
#include <weir/stream.h>

#include "webmail.h"

#define WAIT_NS (30 * WEIR_NS_PER_S)
#define FIELDS  4

typedef struct part_stream {
	visit *visit;
	bool begun;
} part_stream;

static bool is_image(const char *type)
{
	static const char *const known[] = {"image/png", "image/jpeg", "image/gif", "image/webp",
					    "image/bmp"};
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(type, known[i]) == 0)
			return true;
	return false;
}

/* The name as RFC 8187 has it: percent-encoded UTF-8. */
static weir_span disposition(visit *v, const char *how, const char *name)
{
	webpage to = {NULL, false};
	page_query(&to, page_span(name));
	weir_span coded = page_written(&to);
	weir_span field = coded.length == 0 ? page_span(how)
					    : visit_print(v, "%s; filename*=UTF-8''%.*s", how,
							  (int)coded.length, coded.at);
	page_drop(&to);
	return field;
}

static int begin_stream(part_stream *s, const char *type, const char *name, bool shown, uint64_t length)
{
	visit *v = s->visit;
	weir_field fields[FIELDS] = {
		{WEIR_SPAN("Content-Type"), page_span(type)},
		{WEIR_SPAN("Content-Disposition"), disposition(v, shown ? "inline" : "attachment", name)},
		{WEIR_SPAN("X-Content-Type-Options"), WEIR_SPAN("nosniff")},
		{WEIR_SPAN("Content-Security-Policy"), WEIR_SPAN("default-src 'none'; sandbox")}};
	weir_reply reply = {.status = 200, .fields = fields, .field_count = FIELDS};
	int failed = weir_request_stream_begin(v->request, &reply, length);
	s->begun = failed == 0;
	return failed;
}

static int begin_part(void *arg, const mail_part *part)
{
	bool shown = is_image(part->type);
	return begin_stream(arg, shown ? part->type : "application/octet-stream", part->name, shown,
			    WEIR_UNKNOWN_LENGTH);
}

static int write_part(void *arg, const void *bytes, size_t length)
{
	const part_stream *s = arg;
	return weir_request_stream_write(s->visit->request, bytes, length, WAIT_NS);
}

static int stream_source(part_stream *s, const mail_source *source)
{
	char piece[16384];
	uint64_t at = 0;
	int length = 0,
	    failed = begin_stream(s, "application/octet-stream", "message.eml", false, source->bytes);
	while (failed == 0 && at < source->bytes) {
		length = source->read(source, at, piece, sizeof(piece));
		if (length <= 0)
			return length < 0 ? length : -EIO;
		failed = write_part(s, piece, (size_t)length);
		at += (uint64_t)length;
	}
	return failed;
}

static int finish(part_stream *s, int failed)
{
	if (!s->begun)
		return failed != 0 ? failed : -EIO;
	if (failed != 0)
		weir_request_stream_abort(s->visit->request);
	else
		weir_request_stream_end(s->visit->request);
	return 0;
}

int part_visit(visit *v)
{
	part_stream s = {.visit = v};
	store_body body = {0};
	weir_span rest = {NULL, 0};
	uint32_t whole = visit_number(v, "/source/", NULL), message = visit_number(v, "/part/", &rest);
	uint32_t number = rest.length > 1 ? visit_count((weir_span){rest.at + 1, rest.length - 1}, UINT32_MAX)
					  : UINT32_MAX;
	int failed = whole == 0 && (message == 0 || number == UINT32_MAX) ? -ENOENT : 0;
	if (failed == 0)
		failed = store_body_open(v->db, v->session.user, whole != 0 ? whole : message, &body);
	if (failed != 0)
		return failed;
	mail_source source = store_body_source(&body);
	failed = whole != 0 ? stream_source(&s, &source)
			    : mail_part_read(&source, number, begin_part, write_part, &s);
	return finish(&s, failed);
}
