/* SPDX-License-Identifier: Apache-2.0 */
#include "mail_parse.h"
#include "mail_stream.h"
#include "mail_text.h"
#include "sanitise.h"

#include <errno.h>
#include <string.h>

/* ---- what is the body, and what is not ---- */

typedef struct mail_sorting {
	mail_parsed *parsed;
	unsigned depth;
	bool too_deep;
	bool alternative; /* the last piece may still get its other form */
	bool related;
} mail_sorting;

static void sort_object(mail_sorting *s, GMimeObject *object);

static void add_extra(mail_sorting *s, GMimeObject *object)
{
	static const char *const minor[] = {"pgp-signature", "pkcs7-signature", "x-pkcs7-signature",
					    "enriched",      "richtext",        "x-amp-html"};
	GMimeContentType *type = g_mime_object_get_content_type(object);
	const char *subtype = type != NULL ? g_mime_content_type_get_media_subtype(type) : NULL;
	mail_extra extra = {.object = object, .related = s->related};
	for (size_t i = 0; i < sizeof(minor) / sizeof(*minor) && subtype != NULL; i++)
		extra.minor = extra.minor || g_ascii_strcasecmp(subtype, minor[i]) == 0;
	g_array_append_val(s->parsed->extras, extra);
}

/* Within an alternative, all forms of the text make one piece; a second text of the same form is an extra. */
static bool add_to_body(mail_sorting *s, GMimePart *part, bool html)
{
	GArray *pieces = s->parsed->pieces;
	if (!s->alternative || pieces->len == 0) {
		mail_piece piece = {0};
		g_array_append_val(pieces, piece);
	}
	mail_piece *piece = &g_array_index(pieces, mail_piece, pieces->len - 1);
	GMimePart **form = html ? &piece->html : &piece->plain;
	if (*form != NULL)
		return false;
	*form = part;
	return true;
}

static void sort_part(mail_sorting *s, GMimePart *part)
{
	GMimeObject *object = GMIME_OBJECT(part);
	GMimeContentType *type = g_mime_object_get_content_type(object);
	const char *disposition = g_mime_object_get_disposition(object);
	bool html = type != NULL && g_mime_content_type_is_type(type, "text", "html");
	bool plain = type == NULL || g_mime_content_type_is_type(type, "text", "plain");
	bool file = (disposition != NULL && g_ascii_strcasecmp(disposition, "attachment") == 0) ||
		    (g_mime_part_get_filename(part) != NULL && s->parsed->pieces->len > 0);
	if (file || !(html || plain) || !add_to_body(s, part, html))
		add_extra(s, object);
}

static void sort_multipart(mail_sorting *s, GMimeMultipart *multipart)
{
	bool was_alternative = s->alternative, was_related = s->related;
	GMimeContentType *type = g_mime_object_get_content_type(GMIME_OBJECT(multipart));
	if (g_mime_content_type_is_type(type, "multipart", "alternative") && !s->alternative) {
		mail_piece piece = {0};
		g_array_append_val(s->parsed->pieces, piece);
		s->alternative = true;
	}
	s->related = s->related || g_mime_content_type_is_type(type, "multipart", "related");
	int count = g_mime_multipart_get_count(multipart);
	for (int i = 0; i < count; i++)
		sort_object(s, g_mime_multipart_get_part(multipart, i));
	s->alternative = was_alternative;
	s->related = was_related;
}

/* The depth counts messages within messages, too, though only the outermost one is taken apart. */
static void measure_message(mail_sorting *s, GMimeMessagePart *part)
{
	GMimeMessage *inner = g_mime_message_part_get_message(part);
	GMimeObject *object = inner != NULL ? g_mime_message_get_mime_part(inner) : NULL;
	mail_parsed ignored = {.pieces = g_array_new(FALSE, FALSE, sizeof(mail_piece)),
			       .extras = g_array_new(FALSE, FALSE, sizeof(mail_extra))};
	mail_sorting within = {.parsed = &ignored, .depth = s->depth};
	if (object != NULL)
		sort_object(&within, object);
	s->too_deep = s->too_deep || within.too_deep;
	g_array_free(ignored.pieces, TRUE);
	g_array_free(ignored.extras, TRUE);
}

static void sort_object(mail_sorting *s, GMimeObject *object)
{
	if (s->depth >= MAIL_DEPTH_MAX || s->too_deep) {
		s->too_deep = true;
		return;
	}
	s->depth++;
	if (GMIME_IS_MULTIPART(object)) {
		sort_multipart(s, GMIME_MULTIPART(object));
	} else if (GMIME_IS_MESSAGE_PART(object)) {
		measure_message(s, GMIME_MESSAGE_PART(object));
		add_extra(s, object);
	} else if (GMIME_IS_PART(object)) {
		sort_part(s, GMIME_PART(object));
	}
	s->depth--;
}

/* An empty piece comes of an alternative without text. */
static void drop_empty_pieces(GArray *pieces)
{
	for (unsigned i = pieces->len; i-- > 0;) {
		const mail_piece *piece = &g_array_index(pieces, mail_piece, i);
		if (piece->plain == NULL && piece->html == NULL)
			g_array_remove_index(pieces, i);
	}
}

/* ---- parsing ---- */

static int refused(const char *why)
{
	return weir_error_set(-E2BIG, "the message is refused: %s", why);
}

static int parse(mail_parsed *parsed, const mail_source *source)
{
	GMimeParser *parser = g_mime_parser_new();
	mail_guard *guard = mail_guard_new(parser);
	parsed->stream = mail_stream_reading(source, guard);
	g_mime_parser_init_with_stream(parser, parsed->stream);
	g_mime_parser_set_format(parser, GMIME_FORMAT_MESSAGE);
	parsed->message = g_mime_parser_construct_message(parser, NULL);
	int error = mail_stream_error(parsed->stream);
	if (error != 0)
		weir_error_set(error, "the message cannot be read: %s", strerror(-error));
	else if (mail_guard_refusal(guard) != NULL)
		error = refused(mail_guard_refusal(guard));
	else if (parsed->message == NULL) /* an empty one */
		parsed->message = g_mime_message_new(FALSE);
	g_object_unref(parser);
	mail_stream_unguard(parsed->stream);
	mail_guard_free(guard);
	return error;
}

int mail_parsed_init(mail_parsed *parsed, const mail_source *source)
{
	*parsed = (mail_parsed){0};
	if (source->bytes > MAIL_BYTES_MAX)
		return refused("it has too many bytes");
	parsed->pieces = g_array_new(FALSE, FALSE, sizeof(mail_piece));
	parsed->extras = g_array_new(FALSE, FALSE, sizeof(mail_extra));
	int error = parse(parsed, source);
	if (error == 0) {
		mail_sorting sorting = {.parsed = parsed};
		GMimeObject *object = g_mime_message_get_mime_part(parsed->message);
		if (object != NULL)
			sort_object(&sorting, object);
		drop_empty_pieces(parsed->pieces);
		if (sorting.too_deep)
			error = refused("its parts are nested too deeply");
	}
	if (error != 0)
		mail_parsed_fini(parsed);
	return error;
}

void mail_parsed_fini(mail_parsed *parsed)
{
	if (parsed->pieces != NULL)
		g_array_free(parsed->pieces, TRUE);
	if (parsed->extras != NULL)
		g_array_free(parsed->extras, TRUE);
	g_clear_object(&parsed->message);
	g_clear_object(&parsed->stream);
	*parsed = (mail_parsed){0};
}

/* ---- reading parts ---- */

int mail_parsed_write(GMimeObject *object, mail_sink_fn *sink, void *arg)
{
	int error = 0;
	GMimeStream *out = mail_stream_writing(sink, arg, &error);
	if (GMIME_IS_MESSAGE_PART(object)) {
		GMimeMessage *message = g_mime_message_part_get_message(GMIME_MESSAGE_PART(object));
		if (message != NULL)
			g_mime_object_write_to_stream(GMIME_OBJECT(message), NULL, out);
	} else if (GMIME_IS_PART(object)) {
		GMimeDataWrapper *content = g_mime_part_get_content(GMIME_PART(object));
		if (content != NULL)
			g_mime_data_wrapper_write_to_stream(content, out);
	}
	g_object_unref(out);
	return error;
}

typedef struct bounded_text {
	GString *text;
	size_t max;
	bool clipped;
} bounded_text;

static int collect(void *arg, const void *bytes, size_t length)
{
	bounded_text *to = arg;
	size_t room = to->max - to->text->len;
	g_string_append_len(to->text, bytes, (gssize)(length < room ? length : room));
	to->clipped = length > room;
	return to->clipped ? -E2BIG : 0;
}

char *mail_parsed_text(GMimePart *part, size_t max, bool *ret_clipped)
{
	bounded_text to = {.text = g_string_new(NULL), .max = max};
	mail_parsed_write(GMIME_OBJECT(part), collect, &to);
	GMimeContentType *type = g_mime_object_get_content_type(GMIME_OBJECT(part));
	const char *charset = type != NULL ? g_mime_content_type_get_parameter(type, "charset") : NULL;
	char *found = NULL;
	if (charset == NULL && type != NULL && g_mime_content_type_is_type(type, "text", "html"))
		charset = found = mail_text_html_charset(to.text->str, to.text->len);
	char *text = mail_text_utf8(to.text->str, to.text->len, charset);
	g_free(found);
	g_string_free(to.text, TRUE);
	*ret_clipped = *ret_clipped || to.clipped;
	return text;
}

/* NULL: it has no readable text. */
static char *piece_text(const mail_piece *piece, size_t max, bool *ret_clipped)
{
	char *text = NULL;
	if (piece->plain != NULL)
		text = mail_parsed_text(piece->plain, max, ret_clipped);
	if (piece->html == NULL || (text != NULL && text[strspn(text, " \t\n")] != '\0'))
		return text;
	g_free(text);
	char *html = mail_parsed_text(piece->html, MAIL_SHOWN_BYTES_MAX, ret_clipped);
	char *plain = NULL;
	if (sanitise_text(html, strlen(html), max, &plain) != 0)
		*ret_clipped = true;
	g_free(html);
	return plain;
}

char *mail_parsed_body(const mail_parsed *parsed, size_t max, bool *ret_clipped)
{
	GString *body = g_string_new(NULL);
	bool clipped = false;
	for (unsigned i = 0; i < parsed->pieces->len && body->len < max; i++) {
		char *text =
			piece_text(&g_array_index(parsed->pieces, mail_piece, i), max - body->len, &clipped);
		if (text != NULL && body->len > 0 && body->str[body->len - 1] != '\n')
			g_string_append_c(body, '\n');
		g_string_append(body, text != NULL ? text : "");
		g_free(text);
	}
	if (body->len > max) {
		mail_text_cut(body->str, max);
		clipped = true;
	}
	if (ret_clipped != NULL)
		*ret_clipped = *ret_clipped || clipped;
	return g_string_free(body, FALSE);
}
