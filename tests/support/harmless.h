/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_HARMLESS_H
#define WEIR_TESTS_HARMLESS_H

/*
 * Whether HTML from the sanitiser is harmless. This is a reader of its own, for the only form in which the
 * sanitiser writes; its lists are its own, too. Anything else is harmful.
 */

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The words are separated by blanks, and there is one before the first and after the last. */
static inline bool harmless_in(const char *words, const char *word, size_t length)
{
	char padded[40];
	if (length == 0 || length > 30)
		return false;
	snprintf(padded, sizeof(padded), " %.*s ", (int)length, word);
	return strstr(words, padded) != NULL;
}

static inline bool harmless_begins(const char *value, const char *prefix)
{
	return strncasecmp(value, prefix, strlen(prefix)) == 0;
}

static inline bool harmless_has(const char *value, size_t length, const char *word)
{
	for (size_t i = 0; i + strlen(word) <= length; i++)
		if (strncasecmp(value + i, word, strlen(word)) == 0)
			return true;
	return false;
}

static inline bool harmless_value(const char *name, size_t name_length, const char *value, size_t length,
				  bool remote)
{
	static const char plain[] =
		" align alt bgcolor border cellpadding cellspacing color colspan dir face height lang "
		"noshade nowrap "
		"rowspan size span start summary title type valign width target rel referrerpolicy ";
	for (size_t i = 0; i < length; i++)
		if (value[i] == '<' || value[i] == '>')
			return false;
	if (harmless_in(" href ", name, name_length))
		return harmless_begins(value, "http://") || harmless_begins(value, "https://") ||
		       harmless_begins(value, "mailto:") || harmless_begins(value, "tel:");
	if (harmless_in(" src ", name, name_length))
		return harmless_begins(value, "/part/") ||
		       (remote && (harmless_begins(value, "http://") || harmless_begins(value, "https://")));
	if (harmless_in(" style ", name, name_length))
		return !harmless_has(value, length, "url(") && !harmless_has(value, length, "expression(") &&
		       !harmless_has(value, length, "\\") && !harmless_has(value, length, "@") &&
		       !harmless_has(value, length, "position:") &&
		       !harmless_has(value, length, "behavior:") &&
		       !harmless_has(value, length, "binding:") && !harmless_has(value, length, "&") &&
		       !harmless_has(value, length, "image") && !harmless_has(value, length, "/*");
	return harmless_in(plain, name, name_length);
}

/* Reads a tag behind its '<'; returns where it ends, or NULL. */
static inline const char *harmless_tag(const char *at, bool remote)
{
	static const char tags[] = " address article aside blockquote caption center dd div dl dt figcaption "
				   "figure footer h1 h2 h3 h4 h5 h6 "
				   "header li main nav ol p pre section table tbody tfoot thead tr ul a abbr "
				   "acronym b big cite code colgroup "
				   "del dfn em font i ins kbd mark q s samp small span strike strong sub sup "
				   "td th tt u var br col hr img wbr ";
	bool end = *at == '/';
	at += end;
	size_t name = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789");
	if (!harmless_in(tags, at, name))
		return NULL;
	at += name;
	while (*at == ' ' && !end) {
		const char *attribute = ++at;
		size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz");
		at += length;
		if (strncmp(at, "=\"", 2) != 0)
			return NULL;
		const char *value = at + 2, *close = strchr(value, '"');
		if (close == NULL ||
		    !harmless_value(attribute, length, value, (size_t)(close - value), remote))
			return NULL;
		at = close + 1;
	}
	return *at == '>' ? at + 1 : NULL;
}

/* NULL: it is harmless; otherwise the place that is not. */
static inline const char *harmful_at(const char *html, bool remote)
{
	for (const char *at = html; *at != '\0';) {
		if (*at == '>' || *at == '"')
			return at;
		if (*at != '<') {
			at++;
			continue;
		}
		const char *after = harmless_tag(at + 1, remote);
		if (after == NULL)
			return at;
		at = after;
	}
	return NULL;
}

#endif
