/* SPDX-License-Identifier: Apache-2.0 */
#include "sanitise_rules.h"

#include <gumbo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sanitise_element sanitise_element_kind(int tag)
{
	static const uint8_t kinds[GUMBO_TAG_LAST + 1] = {
#define KIND(tag, kind) [GUMBO_TAG_##tag] = SANITISE_##kind
		KIND(HEAD, DROPPED),     KIND(TITLE, DROPPED),     KIND(BASE, DROPPED),
		KIND(LINK, DROPPED),     KIND(META, DROPPED),      KIND(STYLE, DROPPED),
		KIND(SCRIPT, DROPPED),   KIND(NOSCRIPT, DROPPED),  KIND(TEMPLATE, DROPPED),
		KIND(IFRAME, DROPPED),   KIND(FRAME, DROPPED),     KIND(FRAMESET, DROPPED),
		KIND(NOFRAMES, DROPPED), KIND(NOEMBED, DROPPED),   KIND(OBJECT, DROPPED),
		KIND(EMBED, DROPPED),    KIND(APPLET, DROPPED),    KIND(PARAM, DROPPED),
		KIND(AUDIO, DROPPED),    KIND(VIDEO, DROPPED),     KIND(SOURCE, DROPPED),
		KIND(TRACK, DROPPED),    KIND(CANVAS, DROPPED),    KIND(MAP, DROPPED),
		KIND(AREA, DROPPED),     KIND(SVG, DROPPED),       KIND(MATH, DROPPED),
		KIND(XMP, DROPPED),      KIND(PLAINTEXT, DROPPED), KIND(TEXTAREA, DROPPED),
		KIND(SELECT, DROPPED),   KIND(OPTION, DROPPED),    KIND(OPTGROUP, DROPPED),
		KIND(DATALIST, DROPPED), KIND(INPUT, DROPPED),     KIND(BUTTON, DROPPED),
		KIND(ADDRESS, BLOCK),    KIND(ARTICLE, BLOCK),     KIND(ASIDE, BLOCK),
		KIND(BLOCKQUOTE, BLOCK), KIND(CAPTION, BLOCK),     KIND(CENTER, BLOCK),
		KIND(DD, BLOCK),         KIND(DIV, BLOCK),         KIND(DL, BLOCK),
		KIND(DT, BLOCK),         KIND(FIGCAPTION, BLOCK),  KIND(FIGURE, BLOCK),
		KIND(FOOTER, BLOCK),     KIND(H1, BLOCK),          KIND(H2, BLOCK),
		KIND(H3, BLOCK),         KIND(H4, BLOCK),          KIND(H5, BLOCK),
		KIND(H6, BLOCK),         KIND(HEADER, BLOCK),      KIND(LI, BLOCK),
		KIND(MAIN, BLOCK),       KIND(NAV, BLOCK),         KIND(OL, BLOCK),
		KIND(P, BLOCK),          KIND(PRE, BLOCK),         KIND(SECTION, BLOCK),
		KIND(TABLE, BLOCK),      KIND(TBODY, BLOCK),       KIND(TFOOT, BLOCK),
		KIND(THEAD, BLOCK),      KIND(TR, BLOCK),          KIND(UL, BLOCK),
		KIND(A, INLINE),         KIND(ABBR, INLINE),       KIND(ACRONYM, INLINE),
		KIND(B, INLINE),         KIND(BIG, INLINE),        KIND(CITE, INLINE),
		KIND(CODE, INLINE),      KIND(COLGROUP, INLINE),   KIND(DEL, INLINE),
		KIND(DFN, INLINE),       KIND(EM, INLINE),         KIND(FONT, INLINE),
		KIND(I, INLINE),         KIND(INS, INLINE),        KIND(KBD, INLINE),
		KIND(MARK, INLINE),      KIND(Q, INLINE),          KIND(S, INLINE),
		KIND(SAMP, INLINE),      KIND(SMALL, INLINE),      KIND(SPAN, INLINE),
		KIND(STRIKE, INLINE),    KIND(STRONG, INLINE),     KIND(SUB, INLINE),
		KIND(SUP, INLINE),       KIND(TD, INLINE),         KIND(TH, INLINE),
		KIND(TT, INLINE),        KIND(U, INLINE),          KIND(VAR, INLINE),
		KIND(BR, VOID),          KIND(COL, VOID),          KIND(HR, VOID),
		KIND(IMG, VOID),         KIND(WBR, VOID),
#undef KIND
	};
	return tag >= 0 && tag <= GUMBO_TAG_LAST ? (sanitise_element)kinds[tag] : SANITISE_UNWRAPPED;
}

static int compare(const void *key, const void *entry)
{
	return strcmp(key, *(const char *const *)entry);
}

/* The words are sorted. */
static bool is_one_of(const char *word, const char *const *words, size_t count)
{
	return bsearch(word, words, count, sizeof(*words), compare) != NULL;
}

bool sanitise_attribute_allowed(const char *name)
{
	static const char *const names[] = {
		"align", "alt",   "bgcolor", "border", "cellpadding", "cellspacing", "color",   "colspan",
		"dir",   "face",  "height",  "lang",   "noshade",     "nowrap",      "rowspan", "size",
		"span",  "start", "summary", "title",  "type",        "valign",      "width",
	};
	return is_one_of(name, names, sizeof(names) / sizeof(*names));
}

/* ---- URLs ---- */

static bool begins(const char *url, const char *scheme)
{
	return strncasecmp(url, scheme, strlen(scheme)) == 0;
}

static int hex(char c)
{
	const char *digits = "0123456789abcdef";
	const char *at = c != '\0' ? strchr(digits, c | 0x20) : NULL;
	return at != NULL ? (int)(at - digits) : -1;
}

static void percent_decode(char *text)
{
	char *to = text;
	for (const char *at = text; *at != '\0'; at++) {
		bool coded = at[0] == '%' && hex(at[1]) >= 0 && hex(at[2]) >= 0;
		int value = coded ? hex(at[1]) * 16 + hex(at[2]) : 0;
		*to++ = value >= ' ' ? (char)value : *at;
		at += value >= ' ' ? 2 : 0;
	}
	*to = '\0';
}

sanitise_scheme sanitise_url(const char *value, char *ret_url, size_t size)
{
	size_t length = 0;
	for (const char *at = value; *at != '\0'; at++) {
		bool dropped = (unsigned char)*at < ' ' || *at == 0x7f || (*at == ' ' && length == 0);
		if (!dropped && length + 1 >= size)
			return SANITISE_NO_SCHEME;
		if (!dropped)
			ret_url[length++] = *at;
	}
	while (length > 0 && ret_url[length - 1] == ' ')
		length--;
	ret_url[length] = '\0';
	if (begins(ret_url, "http://") || begins(ret_url, "https://"))
		return SANITISE_WEB;
	if (begins(ret_url, "mailto:") || begins(ret_url, "tel:"))
		return SANITISE_PERSON;
	if (!begins(ret_url, "cid:"))
		return SANITISE_NO_SCHEME;
	percent_decode(ret_url + strlen("cid:"));
	return SANITISE_PART;
}

/* ---- styles ---- */

static bool is_property(const char *name)
{
	static const char *const names[] = {
		"background",
		"background-color",
		"border",
		"border-bottom",
		"border-bottom-color",
		"border-bottom-left-radius",
		"border-bottom-right-radius",
		"border-bottom-style",
		"border-bottom-width",
		"border-collapse",
		"border-color",
		"border-left",
		"border-left-color",
		"border-left-style",
		"border-left-width",
		"border-radius",
		"border-right",
		"border-right-color",
		"border-right-style",
		"border-right-width",
		"border-spacing",
		"border-style",
		"border-top",
		"border-top-color",
		"border-top-left-radius",
		"border-top-right-radius",
		"border-top-style",
		"border-top-width",
		"border-width",
		"caption-side",
		"clear",
		"color",
		"direction",
		"display",
		"empty-cells",
		"float",
		"font",
		"font-family",
		"font-size",
		"font-style",
		"font-variant",
		"font-weight",
		"height",
		"letter-spacing",
		"line-height",
		"list-style-type",
		"margin",
		"margin-bottom",
		"margin-left",
		"margin-right",
		"margin-top",
		"max-height",
		"max-width",
		"min-height",
		"min-width",
		"overflow-wrap",
		"padding",
		"padding-bottom",
		"padding-left",
		"padding-right",
		"padding-top",
		"table-layout",
		"text-align",
		"text-decoration",
		"text-indent",
		"text-overflow",
		"text-transform",
		"vertical-align",
		"white-space",
		"width",
		"word-break",
		"word-spacing",
		"word-wrap",
	};
	return is_one_of(name, names, sizeof(names) / sizeof(*names));
}

/* A parenthesis may only follow the name of a function that gives a colour. */
static bool is_colour_before(const char *value, size_t at)
{
	static const char *const functions[] = {"rgb", "rgba", "hsl", "hsla"};
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		size_t length = strlen(functions[i]);
		bool same = at >= length && strncasecmp(value + at - length, functions[i], length) == 0;
		if (same && (at == length || strchr(" ,", value[at - length - 1]) != NULL))
			return true;
	}
	return false;
}

/* Copies a value without its quotes, which families of fonts do without. False: it has something strange. */
static bool copy_value(const char *value, size_t length, char *to, size_t *at)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789#%.,+-!/ ";
	size_t start = *at;
	for (size_t i = 0; i < length; i++) {
		char c = strchr("\t\r\n", value[i]) != NULL ? ' ' : value[i];
		if (c == '\'' || c == '"')
			continue;
		if (strchr(plain, c) == NULL && !(c == '(' && is_colour_before(value, i)) && c != ')')
			return false;
		to[(*at)++] = c;
	}
	return *at > start;
}

/* One declaration, "name: value". */
static void copy_declaration(const char *text, size_t length, char *to, size_t *at)
{
	char name[32];
	size_t name_length = 0, i = 0;
	for (; i < length && text[i] != ':'; i++) {
		if (strchr(" \t\r\n", text[i]) != NULL)
			continue;
		if (name_length + 1 >= sizeof(name))
			return;
		name[name_length++] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] | 0x20) : text[i];
	}
	name[name_length] = '\0';
	if (i == length || !is_property(name))
		return;
	size_t start = *at;
	memcpy(to + *at, name, name_length);
	*at += name_length;
	to[(*at)++] = ':';
	if (copy_value(text + i + 1, length - i - 1, to, at))
		to[(*at)++] = ';';
	else
		*at = start;
}

bool sanitise_style(const char *value, char *ret_style, size_t size)
{
	size_t at = 0;
	if (strlen(value) + 2 > size)
		return false;
	while (*value != '\0') {
		size_t length = strcspn(value, ";");
		copy_declaration(value, length, ret_style, &at);
		value += length + (value[length] == ';');
	}
	ret_style[at] = '\0';
	return at > 0;
}
