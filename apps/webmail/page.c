/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"

#include <stdio.h>
#include <string.h>

#define FIRST_BYTES 16384u

static bool make_room(webpage *to, size_t more)
{
	size_t used = to->buf != NULL ? to->buf->length : 0;
	if (to->failed || more > PAGE_BYTES_MAX - used) {
		to->failed = true;
		return false;
	}
	if (to->buf != NULL && used + more <= to->buf->capacity)
		return true;
	size_t room = used == 0 ? FIRST_BYTES : 2 * used;
	weir_buf *bigger = weir_buf_new(room > used + more ? room : used + more);
	if (bigger == NULL) {
		to->failed = true;
		return false;
	}
	if (used > 0)
		memcpy(bigger->data, to->buf->data, used);
	bigger->length = (uint32_t)used;
	weir_buf_unref(to->buf);
	to->buf = bigger;
	return true;
}

void page_add(webpage *to, const char *bytes, size_t length)
{
	if (length == 0 || !make_room(to, length))
		return;
	memcpy(to->buf->data + to->buf->length, bytes, length);
	to->buf->length += (uint32_t)length;
}

static weir_span escape_of(char c)
{
	switch (c) {
	case '&':
		return WEIR_SPAN("&amp;");
	case '<':
		return WEIR_SPAN("&lt;");
	case '>':
		return WEIR_SPAN("&gt;");
	case '"':
		return WEIR_SPAN("&quot;");
	case '\'':
		return WEIR_SPAN("&#39;");
	case '\0':
		return WEIR_SPAN("\xef\xbf\xbd");
	default:
		return (weir_span){NULL, 0};
	}
}

void page_text(webpage *to, weir_span text)
{
	size_t from = 0;
	for (size_t at = 0; at < text.length; at++) {
		weir_span escape = escape_of(text.at[at]);
		if (escape.at == NULL)
			continue;
		page_add(to, text.at + from, at - from);
		page_add(to, escape.at, escape.length);
		from = at + 1;
	}
	if (from < text.length)
		page_add(to, text.at + from, text.length - from);
}

void page_html(webpage *to, weir_span html)
{
	page_add(to, html.at, html.length);
}

static bool is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
	       c == '.' || c == '_' || c == '~';
}

void page_query(webpage *to, weir_span text)
{
	static const char digits[] = "0123456789ABCDEF";
	for (size_t at = 0; at < text.length; at++) {
		unsigned char c = (unsigned char)text.at[at];
		char escape[3] = {'%', digits[c >> 4], digits[c & 15]};
		if (is_unreserved((char)c))
			page_add(to, text.at + at, 1);
		else
			page_add(to, escape, sizeof(escape));
	}
}

void page_number(webpage *to, int64_t number)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%lld", (long long)number);
	page_add(to, digits, (size_t)length);
}

void page_drop(webpage *p)
{
	weir_buf_unref(p->buf);
	p->buf = NULL;
}

weir_span page_written(const webpage *p)
{
	return p->buf != NULL && !p->failed ? (weir_span){(const char *)p->buf->data, p->buf->length}
					    : (weir_span){"", 0};
}

bool page_is(weir_span span, const char *text)
{
	return span.length == strlen(text) && memcmp(span.at, text, span.length) == 0;
}

weir_span page_span(const char *text)
{
	return text != NULL ? (weir_span){text, strlen(text)} : (weir_span){NULL, 0};
}
