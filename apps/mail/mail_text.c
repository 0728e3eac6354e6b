/* SPDX-License-Identifier: Apache-2.0 */
#include "mail_text.h"

#include <errno.h>
#include <glib.h>
#include <gmime/gmime.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

void mail_text_cut(char *text, size_t max)
{
	if (strnlen(text, max + 1) <= max)
		return;
	while (max > 0 && ((unsigned char)text[max] & 0xc0) == 0x80)
		max--;
	text[max] = '\0';
}

/* ---- charsets ---- */

/* CRLF and CR become LF; NUL and other control characters go, but for tab. */
static char *tidy(char *text, size_t length)
{
	size_t to = 0;
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c == '\r')
			c = i + 1 < length && text[i + 1] == '\n' ? 0 : '\n';
		if ((c >= ' ' && c != 0x7f) || c == '\n' || c == '\t')
			text[to++] = (char)c;
	}
	text[to] = '\0';
	char *valid = g_utf8_make_valid(text, (gssize)to);
	g_free(text);
	return valid;
}

static char *tidied_copy(const char *bytes, size_t length)
{
	char *copy = g_malloc(length + 1);
	if (length > 0)
		memcpy(copy, bytes, length);
	return tidy(copy, length);
}

static void convert_all(GIConv converter, const char *bytes, size_t length, GString *to)
{
	gchar *in = (gchar *)bytes;
	gsize in_left = length;
	while (in_left > 0) {
		char piece[4096];
		gchar *out = piece;
		gsize out_left = sizeof(piece);
		size_t result = g_iconv(converter, &in, &in_left, &out, &out_left);
		int error = errno;
		g_string_append_len(to, piece, out - piece);
		if (result != (size_t)-1 || (error == E2BIG && out != piece))
			continue;
		g_string_append(to, REPLACEMENT);
		if (error == EINVAL) /* the end is within a letter */
			return;
		in++;
		in_left--;
		g_iconv(converter, NULL, NULL, NULL, NULL);
	}
}

/* NULL: the charset is not known. */
static char *convert(const char *bytes, size_t length, const char *charset)
{
	GIConv converter = g_iconv_open("UTF-8", charset);
	if (converter == (GIConv)-1)
		return NULL;
	GString *to = g_string_sized_new(length + length / 2 + 16);
	convert_all(converter, bytes, length, to);
	g_iconv_close(converter);
	size_t converted = to->len;
	return tidy(g_string_free(to, FALSE), converted);
}

static bool is_any_of(const char *charset, const char *const *names)
{
	for (; *names != NULL; names++)
		if (g_ascii_strcasecmp(charset, *names) == 0)
			return true;
	return false;
}

/* NUL is no reason to take it for something else, nor is the end of a long text within a letter. */
static bool is_utf8(const char *bytes, size_t length)
{
	const char *at = bytes, *stop = bytes + length;
	while (at < stop) {
		const char *end;
		if (g_utf8_validate(at, stop - at, &end))
			return true;
		if (*end != '\0')
			return length > 1000 && stop - end < 4 &&
			       g_utf8_get_char_validated(end, stop - end) == (gunichar)-2;
		at = end + 1;
	}
	return true;
}

char *mail_text_utf8(const char *bytes, size_t length, const char *charset)
{
	/* As browsers have it: those who write "iso-8859-1" often mean windows-1252. */
	static const char *const western[] = {"iso-8859-1", "latin1", "iso8859-1", "us-ascii", "ascii", NULL};
	static const char *const utf8[] = {"utf-8", "utf8", "us-ascii", "ascii", NULL};
	char *text = NULL;
	if (charset != NULL && strlen(charset) > 60)
		charset = NULL;
	if ((charset == NULL || is_any_of(charset, utf8)) && is_utf8(bytes, length))
		return tidied_copy(bytes, length);
	if (charset != NULL && !is_any_of(charset, western) && !is_any_of(charset, utf8)) {
		text = convert(bytes, length, g_mime_charset_iconv_name(charset));
		if (text == NULL && is_utf8(bytes, length))
			return mail_text_utf8(bytes, length, NULL);
	}
	if (text == NULL)
		text = convert(bytes, length, "windows-1252");
	return text != NULL ? text : tidied_copy(bytes, length);
}

char *mail_text_html_charset(const char *html, size_t length)
{
	static const char word[] = "charset=";
	size_t end = length < 2048 ? length : 2048;
	for (size_t i = 0; i + sizeof(word) < end; i++) {
		if (g_ascii_strncasecmp(html + i, word, sizeof(word) - 1) != 0)
			continue;
		const char *at = html + i + sizeof(word) - 1;
		at += *at == '"' || *at == '\'';
		size_t name = 0;
		while (at + name < html + end &&
		       (g_ascii_isalnum(at[name]) || at[name] == '-' || at[name] == '_'))
			name++;
		return name > 0 && name < 60 ? g_strndup(at, name) : NULL;
	}
	return NULL;
}

/* ---- lines ---- */

/* Letters that would turn the direction of the text around them, or that nobody sees. */
static bool is_hidden(gunichar c)
{
	return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0x200e || c == 0x200f ||
	       c == 0xfeff || (c >= 0x80 && c < 0xa0);
}

char *mail_text_line(const char *text, size_t max)
{
	char *valid = g_utf8_make_valid(text != NULL ? text : "", -1);
	GString *line = g_string_new(NULL);
	for (const char *at = valid; *at != '\0' && line->len <= max; at = g_utf8_next_char(at)) {
		gunichar c = g_utf8_get_char(at);
		bool blank = c <= ' ' || c == 0x7f || c == 0x2028 || c == 0x2029;
		if (blank && line->len > 0 && line->str[line->len - 1] != ' ')
			g_string_append_c(line, ' ');
		else if (!blank && !is_hidden(c))
			g_string_append_unichar(line, c);
	}
	g_free(valid);
	mail_text_cut(line->str, max);
	return g_strchomp(g_string_free(line, FALSE));
}

/* How long a prefix such as "Re: " or "Fwd[2]: " is; 0: there is none. */
static size_t answer_prefix(const char *subject)
{
	static const char *const words[] = {"re", "fwd", "fw", "aw", "wg", "sv", "antw", "tr", NULL};
	for (const char *const *word = words; *word != NULL; word++) {
		size_t at = strlen(*word);
		if (g_ascii_strncasecmp(subject, *word, at) != 0)
			continue;
		if (subject[at] == '[')
			at += strspn(subject + at, "[0123456789]");
		if (subject[at] == ':')
			return at + 1;
	}
	return 0;
}

char *mail_text_sort(const char *subject, size_t max)
{
	char *line = mail_text_line(subject, max);
	const char *at = line;
	for (size_t prefix; (prefix = answer_prefix(at)) > 0;)
		at += prefix + strspn(at + prefix, " ");
	char *lower = g_utf8_strdown(at, -1);
	g_free(line);
	mail_text_cut(lower, max);
	return lower;
}

char *mail_text_snippet(const char *text, size_t max)
{
	GString *own = g_string_new(NULL);
	while (*text != '\0' && own->len <= 4 * max) {
		size_t length = strcspn(text, "\n");
		if (*text != '>') {
			g_string_append_len(own, text, (gssize)(length < 8 * max ? length : 8 * max));
			g_string_append_c(own, ' ');
		}
		text += length + (text[length] == '\n');
	}
	char *line = mail_text_line(own->str, max);
	g_string_free(own, TRUE);
	return line;
}

char *mail_text_file_name(const char *name, size_t max)
{
	char *line = mail_text_line(name, max);
	const char *at = line;
	for (const char *slash; (slash = strpbrk(at, "/\\")) != NULL;)
		at = slash + 1;
	char *result = g_strdup(at + strspn(at, ". "));
	g_free(line);
	return result;
}
