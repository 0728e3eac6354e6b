/* SPDX-License-Identifier: Apache-2.0 */
#include "load/links.h"

#include <string.h>
#include <strings.h>

/* ---- resolving ---- */

typedef struct text {
	char at[2 * LOAD_LINK_MAX + 2];
	size_t length;
} text;

/* Copies without the fragment, with &amp; as '&'; false: too long, or not printable ASCII without spaces. */
static bool copy_clean(weir_span link, text *to)
{
	to->length = 0;
	for (size_t i = 0; i < link.length && link.at[i] != '#'; i++) {
		char c = link.at[i];
		if (c <= ' ' || c > '~' || to->length >= LOAD_LINK_MAX)
			return false;
		to->at[to->length++] = c;
		if (c == '&' && link.length - i >= 5 && memcmp(link.at + i, "&amp;", 5) == 0)
			i += 4;
	}
	to->at[to->length] = '\0';
	return true;
}

/*
 * The part of "http://host:port/path", or of "//host:port/path", after the origin. NULL: another server,
 * or not http(s).
 */
static const char *after_origin(const char *link, const char *origin)
{
	const char *host = origin != NULL ? strstr(origin, "://") : NULL;
	const char *from = strncmp(link, "//", 2) == 0 ? host != NULL ? host + 1 : NULL : origin;
	size_t length = from != NULL ? strlen(from) : 0;
	if (length == 0 || strncasecmp(link, from, length) != 0 || strchr("/?", link[length]) == NULL)
		return NULL;
	return link + length;
}

/* A scheme: letters and the like up to a ':' that comes before any '/', '?' or '#'. */
static bool has_scheme(const char *link)
{
	return link[strcspn(link, ":/?#")] == ':';
}

/* The length of the part of the base that a relative link is appended to. */
static size_t base_length(weir_span base, char first)
{
	const char *query = memchr(base.at, '?', base.length);
	size_t length = query != NULL ? (size_t)(query - base.at) : base.length;
	if (first == '?')
		return length;
	while (length > 0 && base.at[length - 1] != '/')
		length--;
	return length;
}

/* RFC 3986, 5.2.4: removes "." and ".."; a path that goes above the root stays at it. In place. */
static void remove_dots(text *path)
{
	char *query = strchr(path->at, '?');
	size_t end = query != NULL ? (size_t)(query - path->at) : path->length, to = 0;
	for (size_t from = 0; from < end;) {
		size_t segment = from + 1;
		while (segment < end && path->at[segment] != '/')
			segment++;
		size_t length = segment - from - 1;
		const char *name = path->at + from + 1;
		bool last = segment == end, one = length == 1 && name[0] == '.';
		bool two = length == 2 && name[0] == '.' && name[1] == '.';
		if (two)
			while (to > 0 && path->at[--to] != '/')
				;
		if (!one && !two) {
			memmove(path->at + to, path->at + from, segment - from);
			to += segment - from;
		} else if (last) {
			path->at[to++] = '/';
		}
		from = segment;
	}
	memmove(path->at + to, path->at + end, path->length - end + 1);
	path->length -= end - to;
}

bool load_link_resolve(weir_span link, weir_span base, const char *origin, char ret_target[LOAD_LINK_MAX + 1])
{
	text written, path = {.length = 0};
	const char *rest = written.at;
	if (!copy_clean(link, &written) || written.length == 0)
		return false;
	if (has_scheme(written.at) || strncmp(written.at, "//", 2) == 0) {
		rest = after_origin(written.at, origin);
		if (rest == NULL)
			return false;
		if (*rest != '/')
			path.at[path.length++] = '/';
	} else if (*rest != '/') {
		path.length = base_length(base, *rest);
		if (path.length > LOAD_LINK_MAX)
			return false;
		memcpy(path.at, base.at, path.length);
	}
	memcpy(path.at + path.length, rest, strlen(rest) + 1);
	path.length += strlen(rest);
	remove_dots(&path);
	if (path.at[0] != '/' || path.length > LOAD_LINK_MAX)
		return false;
	memcpy(ret_target, path.at, path.length + 1);
	return true;
}

/* ---- finding ---- */

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The position after the sign; the page's end if there is none. */
static size_t past(weir_span page, size_t from, const char *sign)
{
	size_t length = strlen(sign);
	const char *at = from < page.length ? memmem(page.at + from, page.length - from, sign, length) : NULL;
	return at != NULL ? (size_t)(at - page.at) + length : page.length;
}

/* The value after the '=' at *at, which is moved behind it. */
static weir_span read_value(weir_span page, size_t *at)
{
	size_t from = *at + 1, end;
	while (from < page.length && is_space(page.at[from]))
		from++;
	if (from >= page.length) {
		*at = page.length;
		return (weir_span){page.at, 0};
	}
	char quote = page.at[from];
	if (quote == '"' || quote == '\'') {
		from++;
		for (end = from; end < page.length && page.at[end] != quote;)
			end++;
		*at = end < page.length ? end + 1 : end;
		/* Without its closing quote it is cut off. */
		return (weir_span){page.at + from, end < page.length ? end - from : 0};
	}
	for (end = from; end < page.length && !is_space(page.at[end]) && page.at[end] != '>';)
		end++;
	*at = end;
	return (weir_span){page.at + from, end - from};
}

static bool is_link(weir_span name)
{
	return (name.length == 4 && strncasecmp(name.at, "href", 4) == 0) ||
	       (name.length == 3 && strncasecmp(name.at, "src", 3) == 0);
}

/* The next link within the tag that *at is in; *at advances, to behind the tag if there is none. */
static bool next_in_tag(weir_span page, size_t *at, weir_span *ret_link)
{
	while (*at < page.length && page.at[*at] != '>') {
		size_t from = *at;
		if (is_space(page.at[from]) || page.at[from] == '/' || page.at[from] == '=') {
			++*at;
			continue;
		}
		while (*at < page.length && !is_space(page.at[*at]) && memchr("=>/", page.at[*at], 3) == NULL)
			++*at;
		weir_span name = {page.at + from, *at - from};
		while (*at < page.length && is_space(page.at[*at]))
			++*at;
		if (*at >= page.length || page.at[*at] != '=')
			continue;
		*ret_link = read_value(page, at);
		if (is_link(name))
			return true;
	}
	return false;
}

bool load_link_draw(weir_span page, weir_span target, const char *origin, weir_random *random,
		    char ret_target[LOAD_LINK_MAX + 1])
{
	char resolved[LOAD_LINK_MAX + 1];
	uint64_t seen = 0, looked = 0;
	size_t at = 0;
	weir_span link;
	if (page.length > LOAD_LINKS_BYTES)
		page.length = LOAD_LINKS_BYTES;
	while (looked < LOAD_LINKS_MAX && (at = past(page, at, "<")) < page.length) {
		if (page.length - at >= 3 && memcmp(page.at + at, "!--", 3) == 0) {
			at = past(page, at + 3, "-->");
			continue;
		}
		while (looked < LOAD_LINKS_MAX && next_in_tag(page, &at, &link)) {
			looked++;
			bool fine = load_link_resolve(link, target, origin, resolved);
			bool itself = fine && strlen(resolved) == target.length &&
				      memcmp(resolved, target.at, target.length) == 0;
			/*
			 * The n-th replaces the choice with probability 1 / n: then all are equally
			 * likely.
			 */
			if (fine && !itself && weir_random_below(random, ++seen) == 0)
				memcpy(ret_target, resolved, sizeof resolved);
		}
	}
	return seen > 0;
}
