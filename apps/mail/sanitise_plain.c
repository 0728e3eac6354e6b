/* SPDX-License-Identifier: Apache-2.0 */
#include "sanitise.h"

#include <glib.h>
#include <string.h>

/* How long an address is that begins here, without the punctuation behind it; 0: none does. */
static size_t link_length(const char *at, size_t left)
{
	size_t scheme = left > 8 && memcmp(at, "https://", 8) == 0  ? 8
			: left > 7 && memcmp(at, "http://", 7) == 0 ? 7
								    : 0;
	size_t length = scheme;
	while (scheme > 0 && length < left && strchr(" \t\r\n<>\"", at[length]) == NULL &&
	       (unsigned char)at[length] < 0x80)
		length++;
	while (length > scheme && strchr(".,;:!?)]'*", at[length - 1]) != NULL)
		length--;
	return length > scheme ? length : 0;
}

static void write_line(GString *to, const char *at, size_t length)
{
	size_t from = 0;
	for (size_t i = 0; i <= length; i++) {
		size_t link = i < length && at[i] == 'h' ? link_length(at + i, length - i) : 0;
		if (link == 0 && i < length)
			continue;
		char *before = g_markup_escape_text(at + from, (gssize)(i - from));
		char *address = g_markup_escape_text(at + i, (gssize)link);
		g_string_append(to, before);
		if (link > 0)
			g_string_append_printf(
				to, "<a rel=\"noopener noreferrer\" target=\"_blank\" href=\"%s\">%s</a>",
				address, address);
		g_free(before);
		g_free(address);
		from = i + link;
		i = link > 0 ? from - 1 : i;
	}
}

char *sanitise_plain(const char *text)
{
	GString *to = g_string_new(NULL);
	const char *end = text + strlen(text);
	while (end > text && strchr(" \t\r\n", end[-1]) != NULL)
		end--;
	for (const char *at = text + strspn(text, "\r\n"); at < end;) {
		size_t length = strcspn(at, "\n");
		bool quote = at[0] == '>';
		g_string_append(to, quote ? "<span class=\"quote\">" : "");
		write_line(to, at, length);
		g_string_append(to, quote ? "</span>\n" : "\n");
		at += length + (at[length] == '\n');
	}
	return g_string_free(to, FALSE);
}
