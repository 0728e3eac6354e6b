/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalised paths, so that rules and files see one spelling of each. Escapes are decoded first and once,
 * then segments are judged: "%2e%2e" is "..", "%252e" is "%2e".
 */

#include <string.h>

#include "http/digits.h"
#include "http/parse.h"

/* The decoded byte at *at, which advances; -1: not allowed in a path. */
static int take_byte(weir_span path, size_t *at)
{
	char c = path.at[(*at)++];
	if (c != '%')
		return c != '\0' ? (uint8_t)c : -1;
	if (path.length - *at < 2)
		return -1;
	int high = weir_hex_digit(path.at[*at]), low = weir_hex_digit(path.at[*at + 1]);
	if (high < 0 || low < 0)
		return -1;
	*at += 2;
	int byte = high * 16 + low;
	return byte != '\0' && byte != '/' ? byte : -1;
}

bool weir_path_decodes(weir_span path)
{
	const char *end = path.at + path.length, *at = path.at;
	while ((at = memchr(at, '%', (size_t)(end - at))) != NULL) {
		size_t next = (size_t)(at - path.at);
		int byte = take_byte(path, &next);
		/* An escaped '/' is allowed: paths that are passed on are not decoded. */
		if (byte < 0 && !(end - at > 2 && at[1] == '2' && (at[2] | 0x20) == 'f'))
			return false;
		at++;
	}
	return true;
}

/*
 * to[begin .. end) is a segment, after the '/' at begin - 1. Returns where the next one starts: at begin if
 * this one vanishes, one segment back after "..", 0 if that is above the root. The caller adds the '/' after
 * it.
 */
static size_t close_segment(const char *to, size_t begin, size_t end)
{
	size_t length = end - begin;
	if (length == 0 || (length == 1 && to[begin] == '.'))
		return begin;
	if (length != 2 || to[begin] != '.' || to[begin + 1] != '.')
		return end + 1;
	if (begin == 1)
		return 0;
	for (begin--; to[begin - 1] != '/';)
		begin--;
	return begin;
}

static bool has_dot_segment(const char *path, size_t length)
{
	for (size_t i = 0; i + 1 < length; i++)
		if (path[i] == '/' && path[i + 1] == '.')
			return true;
	return false;
}

/* How many dots a raw segment is: 1 for "." and "%2e", 2 for ".." in any spelling, else 0. */
static unsigned count_dots(weir_span segment)
{
	unsigned dots = 0;
	for (size_t i = 0; i < segment.length; dots++)
		if (dots == 2 || take_byte(segment, &i) != '.')
			return 0;
	return dots;
}

/* The segment after the '/' at `at`, as it was sent. */
static weir_span segment_at(weir_span path, size_t at)
{
	const char *begin = path.at + at + 1, *end = path.at + path.length;
	const char *slash = memchr(begin, '/', (size_t)(end - begin));
	return (weir_span){begin, (size_t)((slash != NULL ? slash : end) - begin)};
}

bool weir_path_is_tidy(weir_span path)
{
	for (size_t at = 0; at < path.length;) {
		weir_span segment = segment_at(path, at);
		at += 1 + segment.length;
		if (count_dots(segment) > 0 || (segment.length == 0 && at < path.length))
			return false;
	}
	return true;
}

bool weir_path_tidy(weir_span path, char *ret_path, size_t *ret_length)
{
	size_t length = 0; /* of what is kept: segments, each with the '/' before it */
	for (size_t at = 0; at < path.length;) {
		weir_span segment = segment_at(path, at);
		unsigned dots = count_dots(segment);
		bool vanishes = dots > 0 || segment.length == 0;
		if (dots == 2) {
			if (length == 0)
				return false;
			while (ret_path[--length] != '/')
				;
		} else if (!vanishes) {
			memcpy(ret_path + length, path.at + at, segment.length + 1);
			length += segment.length + 1;
		}
		at += 1 + segment.length;
		/* The last segment leaves its '/': "/a/." and "/a/b/.." become "/a/". */
		if (vanishes && at == path.length)
			ret_path[length++] = '/';
	}
	*ret_length = length;
	return true;
}

bool weir_path_clean(weir_span path, char *ret_path, size_t size, size_t *ret_length, bool *ret_dot)
{
	size_t at = 0, begin = 1, end = 1; /* of the current segment */
	if (size < 2 || (path.length > 0 && path.at[at++] != '/'))
		return false;
	ret_path[0] = '/';
	while (at < path.length) {
		bool slash = path.at[at] == '/';
		int byte = slash ? '/' : take_byte(path, &at);
		if (byte < 0)
			return false;
		if (slash) {
			at++;
			size_t next = close_segment(ret_path, begin, end);
			if (next == 0)
				return false;
			begin = end = next;
			if (next >= size)
				return false;
			ret_path[next - 1] = '/';
			continue;
		}
		if (end + 1 >= size)
			return false;
		ret_path[end++] = (char)byte;
	}
	/* The last segment has no '/' after it: "/a" stays, "/a/." and "/a/b/.." become "/a/". */
	size_t next = close_segment(ret_path, begin, end);
	if (next == 0)
		return false;
	size_t length = next == end + 1 ? end : next;
	ret_path[length] = '\0';
	*ret_length = length;
	*ret_dot = has_dot_segment(ret_path, length);
	return true;
}
