/* SPDX-License-Identifier: Apache-2.0 */
#include "mail.h"
#include "mail_parse.h"
#include "mail_stream.h"
#include "mail_text.h"
#include "sanitise.h"

#include <errno.h>
#include <string.h>

/* ---- parts ---- */

/* A type that is safe to repeat in a header. */
static char *type_of(GMimeObject *object)
{
	static const char other[] = "!#$&-^_.+/";
	GMimeContentType *type = g_mime_object_get_content_type(object);
	char *text = type != NULL ? g_mime_content_type_get_mime_type(type) : NULL;
	for (char *at = text; at != NULL && *at != '\0'; at++) {
		*at = g_ascii_tolower(*at);
		if (g_ascii_isalnum(*at) || strchr(other, *at) != NULL)
			continue;
		g_free(text);
		text = NULL;
		break;
	}
	if (text != NULL && *text != '\0' && strlen(text) < 128)
		return text;
	g_free(text);
	return g_strdup("application/octet-stream");
}

static char *name_of(GMimeObject *object)
{
	const char *name = NULL;
	if (GMIME_IS_MESSAGE_PART(object)) {
		GMimeMessage *message = g_mime_message_part_get_message(GMIME_MESSAGE_PART(object));
		const char *subject = message != NULL ? g_mime_message_get_subject(message) : NULL;
		char *file =
			g_strconcat(subject != NULL && *subject != '\0' ? subject : "message", ".eml", NULL);
		g_strdelimit(file, "/\\", '-');
		char *clean = mail_text_file_name(file, MAIL_NAME_BYTES_MAX);
		g_free(file);
		return clean;
	}
	if (GMIME_IS_PART(object))
		name = g_mime_part_get_filename(GMIME_PART(object));
	return mail_text_file_name(name, MAIL_NAME_BYTES_MAX);
}

/* Base64 is a third longer than what it encodes. */
static uint64_t bytes_of(GMimeObject *object)
{
	GMimeDataWrapper *content =
		GMIME_IS_PART(object) ? g_mime_part_get_content(GMIME_PART(object)) : NULL;
	GMimeStream *stream = content != NULL ? g_mime_data_wrapper_get_stream(content) : NULL;
	gint64 length = stream != NULL ? g_mime_stream_length(stream) : 0;
	if (length <= 0)
		return 0;
	if (g_mime_part_get_content_encoding(GMIME_PART(object)) == GMIME_CONTENT_ENCODING_BASE64)
		length = length / 4 * 3;
	return (uint64_t)length;
}

static void part_init(mail_part *part, unsigned number, GMimeObject *object)
{
	*part = (mail_part){.number = number, .type = type_of(object), .name = name_of(object)};
	part->content_id = mail_text_line(g_mime_object_get_content_id(object), MAIL_NAME_BYTES_MAX);
	part->bytes = bytes_of(object);
}

static void part_fini(mail_part *part)
{
	g_free(part->type);
	g_free(part->name);
	g_free(part->content_id);
}

static void list_parts(mail_view *view, const mail_parsed *parsed)
{
	view->part_count = parsed->extras->len;
	view->parts = g_new0(mail_part, view->part_count);
	for (unsigned i = 0; i < view->part_count; i++)
		part_init(&view->parts[i], i + 1, g_array_index(parsed->extras, mail_extra, i).object);
}

/* ---- the body ---- */

typedef struct view_making {
	mail_view *view;
	const mail_view_options *options;
	GString *html;
} view_making;

/* For the sanitiser: where the page gets an image that is part of the message. */
static bool find_image(void *arg, const char *content_id, char *ret_url, size_t size)
{
	view_making *making = arg;
	for (size_t i = 0; i < making->view->part_count; i++) {
		mail_part *part = &making->view->parts[i];
		if (strcmp(part->content_id, content_id) != 0 || !g_str_has_prefix(part->type, "image/"))
			continue;
		if (strcmp(part->type, "image/svg+xml") == 0) /* may contain scripts */
			return false;
		part->inlined = true;
		return (size_t)snprintf(ret_url, size, "%s%u", making->options->part_prefix, part->number) <
		       size;
	}
	return false;
}

static void add_html(view_making *making, GMimePart *part)
{
	sanitise_options options = {.remote = making->options->remote, .arg = making};
	options.find = making->options->part_prefix != NULL ? find_image : NULL;
	char *html = mail_parsed_text(part, MAIL_SHOWN_BYTES_MAX, &making->view->clipped);
	sanitise_result result;
	if (sanitise_html(html, strlen(html), &options, &result) == 0) {
		g_string_append_len(making->html, result.html, (gssize)result.length);
		making->view->blocked += result.blocked;
		making->view->clipped |= result.clipped;
		free(result.html);
	} else {
		making->view->clipped = true;
	}
	g_free(html);
}

/* Text between pieces of HTML keeps its lines. */
static void add_plain(view_making *making, GMimePart *part)
{
	char *text = mail_parsed_text(part, MAIL_SHOWN_BYTES_MAX, &making->view->clipped);
	char *escaped = g_markup_escape_text(text, -1);
	g_string_append_printf(making->html, "<pre>%s</pre>", escaped);
	g_free(escaped);
	g_free(text);
}

static bool has_html(const mail_parsed *parsed)
{
	for (unsigned i = 0; i < parsed->pieces->len; i++)
		if (g_array_index(parsed->pieces, mail_piece, i).html != NULL)
			return true;
	return false;
}

static char *make_html(view_making *making, const mail_parsed *parsed)
{
	making->html = g_string_new(NULL);
	for (unsigned i = 0; i < parsed->pieces->len && making->html->len < 4 * MAIL_SHOWN_BYTES_MAX; i++) {
		const mail_piece *piece = &g_array_index(parsed->pieces, mail_piece, i);
		if (piece->html != NULL)
			add_html(making, piece->html);
		else
			add_plain(making, piece->plain);
	}
	return g_string_free(making->html, FALSE);
}

/* ---- views ---- */

int mail_open(const mail_source *source, const mail_view_options *options, mail_view **ret_view)
{
	mail_parsed parsed;
	int error = mail_parsed_init(&parsed, source);
	if (error != 0)
		return error;
	mail_view *view = g_new0(mail_view, 1);
	view->summary = mail_parsed_summary(&parsed);
	list_parts(view, &parsed);
	view->text = mail_parsed_body(&parsed, MAIL_SHOWN_BYTES_MAX, &view->clipped);
	view_making making = {.view = view, .options = options};
	if (!options->text_only && has_html(&parsed))
		view->html = make_html(&making, &parsed);
	mail_parsed_fini(&parsed);
	*ret_view = view;
	return 0;
}

void mail_view_free(mail_view **view)
{
	mail_view *v = *view;
	if (v == NULL)
		return;
	for (size_t i = 0; i < v->part_count; i++)
		part_fini(&v->parts[i]);
	g_free(v->parts);
	g_free(v->text);
	g_free(v->html);
	mail_summary_free(&v->summary);
	g_free(v);
	*view = NULL;
}

int mail_part_read(const mail_source *source, unsigned number, int (*begin)(void *arg, const mail_part *part),
		   mail_sink_fn *sink, void *arg)
{
	mail_parsed parsed;
	int error = mail_parsed_init(&parsed, source);
	if (error != 0)
		return error;
	if (number == 0 || number > parsed.extras->len) {
		error = weir_error_set(-ENOENT, "the message has no part %u", number);
	} else {
		GMimeObject *object = g_array_index(parsed.extras, mail_extra, number - 1).object;
		mail_part part;
		part_init(&part, number, object);
		error = begin != NULL ? begin(arg, &part) : 0;
		if (error == 0)
			error = mail_parsed_write(object, sink, arg);
		part_fini(&part);
		if (error == 0)
			error = mail_stream_error(parsed.stream);
	}
	mail_parsed_fini(&parsed);
	return error;
}
